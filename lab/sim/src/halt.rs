//! Why a machine stopped: what [`crate::Machine::run`] returns instead of a result.

use std::fmt;

use crate::context::Ctx;
use crate::nanos::Nanos;
use crate::rule::Rule;

/// The machine stopped before its first thread returned.
#[derive(Clone, Debug)]
pub enum Halt {
    /// A rule was broken.
    Violation(Box<Violation>),
    /// Module code, or lab code called by a module, faulted.
    Fault(Box<Fault>),
    /// A module or the kernel called `panic`, or logged with `CE_PANIC`.
    Panic(Box<KernelPanic>),
    /// Nobody can run and no timer is due: everybody waits for something that will not happen.
    Hang(Box<Hang>),
    /// The virtual clock passed [`crate::Config::time_limit`], which comes first.
    TimeLimit(Nanos, Box<Hang>),
    /// A module took [`crate::Config::processor_limit`], which comes first, of processor time without a call of the kernel.
    Loop(Nanos, Box<ThreadDump>),
    /// [`crate::interrupt::ask`] was called; what the thread that saw it did.
    Interrupted(Box<ThreadDump>),
}

impl Halt {
    /// The violation, if that is what it was.
    pub fn violation(&self) -> Option<&Violation> {
        match self {
            Self::Violation(v) => Some(v),
            _ => None,
        }
    }

    /// The rule broken, if that is what it was.
    pub fn rule(&self) -> Option<Rule> {
        self.violation().map(|v| v.rule)
    }
}

/// A broken rule: who, where, how.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which rule.
    pub rule: Rule,
    /// Host name; empty if no host's code was running.
    pub host: String,
    /// Module whose call (or object, or entry point) it was; empty if none.
    pub module: String,
    /// The kernel function called, or the entry point returned from.
    pub call: String,
    /// Thread name.
    pub thread: String,
    /// Context of the thread.
    pub ctx: Ctx,
    /// What exactly.
    pub detail: String,
    /// Module frames, innermost first.
    pub backtrace: Vec<Frame>,
}

/// A processor fault in module text, or in lab code that a module called.
#[derive(Clone, Debug)]
pub struct Fault {
    /// `SIGSEGV`, `SIGBUS`, `SIGILL` or `SIGFPE`.
    pub signal: &'static str,
    /// The address accessed (for `SIGILL` and `SIGFPE`, that of the instruction).
    pub address: u64,
    /// Host name.
    pub host: String,
    /// Thread name.
    pub thread: String,
    /// Module whose code faulted, or whose call into the lab did.
    pub module: String,
    /// The kernel function the module was in, empty when module text itself faulted.
    pub call: String,
    /// Where, innermost first.
    pub backtrace: Vec<Frame>,
    /// What the address tells, e.g. "null pointer plus 0x18".
    pub hint: String,
}

/// The kernel's `panic`.
#[derive(Clone, Debug)]
pub struct KernelPanic {
    /// Formatted message.
    pub message: String,
    /// Host name.
    pub host: String,
    /// Module that called, empty if the lab itself did.
    pub module: String,
    /// Thread name.
    pub thread: String,
    /// Module frames, innermost first.
    pub backtrace: Vec<Frame>,
}

/// Who waits for what when nobody can run.
#[derive(Clone, Debug)]
pub struct Hang {
    /// When.
    pub now: Nanos,
    /// Every thread alive.
    pub threads: Vec<ThreadDump>,
}

/// One thread in a [`Hang`].
#[derive(Clone, Debug)]
pub struct ThreadDump {
    /// Thread name.
    pub name: String,
    /// Host name, empty for threads of none.
    pub host: String,
    /// What it waits for; "running" if it does not.
    pub waits_for: String,
    /// Locks held: what kind, where, taken by whom.
    pub holds: Vec<String>,
    /// The last kernel function a module called on it.
    pub last_call: String,
    /// Module frames below the wait, innermost first.
    pub backtrace: Vec<Frame>,
}

/// One frame of a backtrace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Module, or "lab".
    pub module: String,
    /// Function symbol, empty if unknown.
    pub symbol: String,
    /// Bytes into the function (into the module's text if the symbol is unknown).
    pub offset: u64,
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}`{}+{:#x}", self.module, self.symbol, self.offset)
    }
}

fn write_frames(f: &mut fmt::Formatter<'_>, frames: &[Frame]) -> fmt::Result {
    frames.iter().try_for_each(|frame| write!(f, "\n    at {frame}"))
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} [{}] broke {}: {}; in {}; thread {} of host {}, {} context",
            self.module,
            self.rule.severity().letter(),
            self.rule,
            self.detail,
            self.call,
            self.thread,
            self.host,
            self.ctx
        )?;
        write_frames(f, &self.backtrace)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:#x}", self.signal, self.address)?;
        if !self.hint.is_empty() {
            write!(f, " ({})", self.hint)?;
        }
        write!(f, " in module {}", self.module)?;
        if !self.call.is_empty() {
            write!(f, ", inside its call of {}", self.call)?;
        }
        write!(f, "; thread {} of host {}", self.thread, self.host)?;
        write_frames(f, &self.backtrace)
    }
}

impl fmt::Display for KernelPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panic[{}]: {}", self.host, self.message)?;
        write!(f, "; from module {}, thread {}", self.module, self.thread)?;
        write_frames(f, &self.backtrace)
    }
}

impl fmt::Display for ThreadDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} of host {}", self.name, self.host)?;
        if !self.last_call.is_empty() {
            write!(f, "; last call {}", self.last_call)?;
        }
        self.holds.iter().try_for_each(|lock| write!(f, "\n    holds {lock}"))?;
        write_frames(f, &self.backtrace)
    }
}

impl fmt::Display for Hang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}:", self.now)?;
        for t in &self.threads {
            write!(f, "\n  {} of host {}: waits for {}", t.name, t.host, t.waits_for)?;
            if !t.last_call.is_empty() {
                write!(f, "; last call {}", t.last_call)?;
            }
            t.holds.iter().try_for_each(|lock| write!(f, "\n    holds {lock}"))?;
            write_frames(f, &t.backtrace)?;
        }
        Ok(())
    }
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Violation(v) => v.fmt(f),
            Self::Fault(v) => v.fmt(f),
            Self::Panic(v) => v.fmt(f),
            Self::Hang(v) => write!(f, "hang: nobody can run and no timer is due, {v}"),
            Self::TimeLimit(limit, v) => write!(f, "time limit of the run passed, {limit}, {v}"),
            Self::Loop(limit, v) => {
                let module = v.backtrace.first().map_or("", |frame| &frame.module);
                write!(f, "{module} loops: {limit} of processor time without a call of the kernel; {v}")
            }
            Self::Interrupted(v) => write!(f, "interrupted; {v}"),
        }
    }
}

impl std::error::Error for Halt {}
