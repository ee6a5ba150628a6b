//! What this process says on its standard output and standard error, either of which may be closed or full.

use std::io::{self, ErrorKind, Write, stderr, stdout};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use signal_hook::consts::SIGPIPE;
use signal_hook::low_level::emulate_default_handler;

/// Writes a text to standard output. A reader that has had enough is no error.
///
/// # Errors
///
/// What else is in the way: a full disk.
pub fn say(text: &str) -> Result<()> {
    let mut out = stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("standard output"),
        _ => Ok(()),
    }
}

/// Writes a text as a command of illumos does: if nobody reads any more, the process ends by SIGPIPE.
///
/// # Errors
///
/// What else is in the way.
pub fn say_or_end(to: &mut impl Write, text: &str) -> io::Result<()> {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        // The process ignores the signal itself, as every program in Rust does.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => emulate_default_handler(SIGPIPE),
        written => written,
    }
}

/// Writes a line to standard error, for which there is no other place.
pub fn complain(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

/// Says lines for as long as that goes well, for whoever hears of them one by one and has to go on.
#[derive(Default)]
pub struct Speaker {
    failed: Mutex<Option<anyhow::Error>>,
}

impl Speaker {
    pub fn line(&self, line: &str) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.is_none() {
            *failed = say(&format!("{line}\n")).err();
        }
    }

    /// Whether all was said.
    ///
    /// # Errors
    ///
    /// The first one of [`say`].
    pub fn end(self) -> Result<()> {
        self.failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}
