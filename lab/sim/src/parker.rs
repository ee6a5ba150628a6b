//! Putting one operating-system thread to sleep and waking it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const EMPTY: u32 = 0;
const TOKEN: u32 = 1;

/// Spins before sleeping: a baton often comes back within a microsecond or two.
const SPINS: u32 = 60;

/// A binary token that one thread waits for.
#[derive(Debug, Default)]
pub(crate) struct Parker {
    state: AtomicU32,
}

impl Parker {
    /// Waits for the token and takes it.
    pub(crate) fn wait(&self) {
        for _ in 0..SPINS {
            if self.take() {
                return;
            }
            std::hint::spin_loop();
        }
        while !self.take() {
            self.futex_wait(std::ptr::null());
        }
    }

    /// Waits for the token for `timeout` at most; true if it was taken. May return early.
    pub(crate) fn wait_for(&self, timeout: Duration) -> bool {
        if self.take() {
            return true;
        }
        let spec = libc::timespec {
            tv_sec: timeout.as_secs().min(1 << 30) as libc::time_t,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        self.futex_wait(&raw const spec);
        self.take()
    }

    /// Gives the token.
    pub(crate) fn give(&self) {
        if self.state.swap(TOKEN, Ordering::Release) == EMPTY {
            let word = self.state.as_ptr();
            let op = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: the word lives as long as `self`, and FUTEX_WAKE only reads its address.
            unsafe { libc::syscall(libc::SYS_futex, word, op, 1) };
        }
    }

    fn take(&self) -> bool {
        self.state.load(Ordering::Relaxed) == TOKEN && self.state.swap(EMPTY, Ordering::Acquire) == TOKEN
    }

    fn futex_wait(&self, timeout: *const libc::timespec) {
        let word = self.state.as_ptr();
        let op = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word lives as long as `self`, and `timeout` is null or points to the caller's value.
        unsafe { libc::syscall(libc::SYS_futex, word, op, EMPTY, timeout) };
    }
}
