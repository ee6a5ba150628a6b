//! Where a command's words go.

use crate::system::System;

/// A command's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit(pub i32);

impl Exit {
    /// Success.
    pub const OK: Self = Self(0);
    /// `EXIT_FAILURE`.
    pub const FAILURE: Self = Self(1);
    /// What most commands exit with for a bad command line, beside 1.
    pub const USAGE: Self = Self(2);
}

/// Standard output and standard error.
pub trait Terminal {
    /// Text for standard output.
    fn out(&mut self, text: &str);
    /// Text for standard error.
    fn err(&mut self, text: &str);
    /// Rows of the terminal's window; 24 when it is none.
    fn rows(&self) -> usize;
    /// Whether the person at it wants the command to end.
    fn interrupted(&self) -> bool;
}

/// One command at work.
pub struct Session<'a> {
    /// The host it runs on.
    pub system: &'a dyn System,
    /// Where it writes.
    pub terminal: &'a mut dyn Terminal,
}

impl Session<'_> {
    /// Text for standard output.
    pub(crate) fn out(&mut self, text: impl AsRef<str>) {
        self.terminal.out(text.as_ref());
    }

    /// Text for standard error.
    pub(crate) fn err(&mut self, text: impl AsRef<str>) {
        self.terminal.err(text.as_ref());
    }

    /// Ends a command that has said what there is to say.
    pub(crate) fn end(&mut self, result: Result<(), Failure>) -> Exit {
        match result {
            Ok(()) => Exit::OK,
            Err(failure) => {
                self.err(&failure.text);
                failure.exit
            }
        }
    }
}

/// The last words of a command that failed, line ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) text: String,
    pub(crate) exit: Exit,
}

impl Failure {
    /// One line, exit 1.
    pub(crate) fn line(text: impl AsRef<str>) -> Self {
        Self { text: format!("{}\n", text.as_ref()), exit: Exit::FAILURE }
    }

    /// Everything was said before.
    pub(crate) const fn silent() -> Self {
        Self { text: String::new(), exit: Exit::FAILURE }
    }
}

pub(crate) type Outcome = Result<(), Failure>;
