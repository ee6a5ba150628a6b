use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitStatus;

/// A copy of this process that runs.
#[derive(Debug)]
pub struct Copy {
    pid: libc::pid_t,
}

/// Has a copy of this process do `work` and end with the exit code that it gives, or 101 if it panics. The copy has everything that
/// this process has at this moment, and one thread.
///
/// # Errors
///
/// EAGAIN and ENOMEM as fork(2) has them; EBUSY if this process has more threads than the calling one: the copy would not have them.
pub fn copy(work: impl FnOnce() -> u8) -> io::Result<Copy> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    // SAFETY: this process has no thread but the calling one, so no lock is held by a thread that the copy lacks.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let code = catch_unwind(AssertUnwindSafe(work)).unwrap_or(101);
            // SAFETY: ends the process; what the original would do at its end is not to be done twice.
            unsafe { libc::_exit(code.into()) }
        }
        pid => Ok(Copy { pid }),
    }
}

impl Copy {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// As waitpid(2).
    pub fn wait(self) -> io::Result<ExitStatus> {
        let mut status = 0;
        // SAFETY: the process is this one's child, and was not waited for.
        let gone = unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
        if gone == -1 { Err(io::Error::last_os_error()) } else { Ok(ExitStatus::from_raw(status)) }
    }
}
