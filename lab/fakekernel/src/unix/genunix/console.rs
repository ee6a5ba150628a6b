//! What the host's kernel printed: `cmn_err` and the framework's own messages, kept in order and shown if wanted.

use sim::{HostMutex, Nanos};

/// How a message was meant (`CE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// `CE_CONT`: no prefix, no newline added.
    Continue,
    /// `CE_NOTE`.
    Notice,
    /// `CE_WARN`.
    Warning,
    /// `CE_PANIC`.
    Panic,
}

impl Level {
    /// The level of a `CE_*` number; `None` for `CE_IGNORE` and for what is no level.
    pub fn from_raw(raw: i32) -> Option<Self> {
        match raw {
            0 => Some(Self::Continue),
            1 => Some(Self::Notice),
            2 => Some(Self::Warning),
            3 => Some(Self::Panic),
            _ => None,
        }
    }

    /// What is printed before the text.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Continue => "",
            Self::Notice => "NOTICE: ",
            Self::Warning => "WARNING: ",
            Self::Panic => "panic: ",
        }
    }
}

/// Where a message goes, by the format's first character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// Both.
    ConsoleAndLog,
    /// `!`
    Log,
    /// `^`
    Console,
    /// `?`: the console only when booted verbosely.
    Verbose,
}

impl To {
    /// Splits the marker off a message.
    pub fn split(text: &[u8]) -> (Self, &[u8]) {
        match text.split_first() {
            Some((b'!', rest)) => (Self::Log, rest),
            Some((b'^', rest)) => (Self::Console, rest),
            Some((b'?', rest)) => (Self::Verbose, rest),
            _ => (Self::ConsoleAndLog, text),
        }
    }
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// When, since boot.
    pub at: Nanos,
    /// How it was meant.
    pub level: Level,
    /// Where it went.
    pub to: To,
    /// The module that printed it.
    pub module: String,
    /// The text, without prefix and trailing newline.
    pub text: String,
}

impl std::fmt::Display for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}] {}{}", self.at, self.level.prefix(), self.text)
    }
}

/// Receives each message as it is printed.
pub type Printer = Box<dyn FnMut(&Message) + Send>;

/// A host's messages.
#[derive(Default)]
struct Console {
    kept: Vec<Message>,
    dropped: usize,
    printer: Option<Printer>,
}

/// More than this many messages are counted, not kept.
const KEPT: usize = 100_000;

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").field("kept", &self.kept.len()).field("dropped", &self.dropped).finish()
    }
}

impl Console {
    /// Keeps `message` and shows it to the printer.
    pub fn print(&mut self, message: Message) {
        if let Some(printer) = &mut self.printer {
            printer(&message);
        }
        if self.kept.len() < KEPT {
            self.kept.push(message);
        } else {
            self.dropped += 1;
        }
    }

    /// Sets who is shown each message from now on.
    pub fn set_printer(&mut self, printer: Option<Printer>) {
        self.printer = printer;
    }

    /// Everything kept so far, in order.
    pub fn messages(&self) -> &[Message] {
        &self.kept
    }
}

/// A host's messages under their lock.
#[derive(Debug)]
pub(crate) struct Log(HostMutex<Console>);

impl Log {
    pub(super) fn new() -> Self {
        Self(HostMutex::new(Console::default()))
    }

    pub(super) fn print(&self, message: Message) {
        self.0.lock().print(message);
    }

    pub(super) fn messages(&self) -> Vec<Message> {
        self.0.lock().messages().to_vec()
    }

    pub(super) fn set_printer(&self, printer: Option<Printer>) {
        self.0.lock().set_printer(printer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_character_says_where_a_message_goes() {
        assert_eq!(To::split(b"!link up"), (To::Log, &b"link up"[..]));
        assert_eq!(To::split(b"link up"), (To::ConsoleAndLog, &b"link up"[..]));
        assert_eq!(To::split(b""), (To::ConsoleAndLog, &b""[..]));
    }
}
