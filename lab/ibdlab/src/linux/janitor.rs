//! What is to be done when this process is over, however it ends.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// A shell that waits for the end of its input, which is ours, and then does its work. Nobody's ^C is for it.
#[derive(Debug)]
pub struct Janitor(Mutex<Option<Child>>);

impl Janitor {
    /// One that will run `work`, whose `$1` is `about`.
    ///
    /// # Errors
    ///
    /// There is no shell.
    pub fn new(work: &str, about: impl AsRef<OsStr>) -> io::Result<Self> {
        let script = format!("trap '' HUP INT TERM\nread -r line\n{work}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, "janitor"]).arg(about).current_dir("/").process_group(0);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(Mutex::new(Some(shell.spawn()?))))
    }

    /// Has it do its work now, and waits until it is done; once is enough.
    pub fn work(&self) {
        let shell = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut shell) = shell {
            drop(shell.stdin.take());
            // It has nothing to say.
            let _ = shell.wait();
        }
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        self.work();
    }
}
