//! Locks for short sections of the lab's own code, and processes that have one thread only.
//!
//! A run in virtual time carries all its threads on one operating-system thread, and takes some ten locks for each kernel call. A
//! locked instruction takes as long as fifty others, so a quarter of such a run went into locks that nobody else could want. A process
//! that [`settle`]s to be alone takes them by plain loads and stores; should another thread come up later and take one, it ends the
//! process.

use std::cell::Cell;
use std::fs;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// A copy of this process that does one thing.
mod copy;

pub use copy::{Copy, copy};

/// Whether some thread of the process has settled to be alone.
static SETTLED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static HERE: Here = const { Here { alone: Cell::new(false), held: Cell::new(0) } };
}

/// What a thread knows of itself.
struct Here {
    /// It is the only one of its process, for good.
    alone: Cell<bool>,
    /// Locks that it holds.
    held: Cell<u32>,
}

/// The calling thread will be the only one of this process that takes locks. False, and nothing has changed, if another thread is
/// there or this one holds a lock.
pub fn settle() -> bool {
    let settled = threads().is_ok_and(|count| count == 1) && HERE.with(|here| here.held.get()) == 0;
    if settled {
        HERE.with(|here| here.alone.set(true));
        SETTLED.store(true, Ordering::SeqCst);
    }
    settled
}

/// Is the calling thread alone in its process, and has said so?
#[inline]
pub fn is_alone() -> bool {
    HERE.with(|here| here.alone.get())
}

/// Threads of this process.
fn threads() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

/// A lock for a few instructions: whoever finds it held yields the processor until it is free.
#[derive(Debug, Default)]
pub struct Word(AtomicBool);

/// A value under such a lock. There is no poison: a panic of lab code ends its machine, and what is looked at afterwards is for a report.
pub type Mutex<T> = lock_api::Mutex<Word, T>;
/// It, held.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, Word, T>;

impl Word {
    /// Takes the lock if it is free.
    #[inline]
    pub fn take(&self) -> bool {
        HERE.with(|here| {
            let taken = if here.alone.get() {
                let free = !self.0.load(Ordering::Relaxed);
                self.0.store(true, Ordering::Relaxed);
                free
            } else {
                if SETTLED.load(Ordering::Relaxed) {
                    not_alone();
                }
                !self.0.swap(true, Ordering::Acquire)
            };
            here.held.set(here.held.get() + u32::from(taken));
            taken
        })
    }

    /// Gives back what [`Self::take`] took, on the same thread.
    #[inline]
    fn give(&self) {
        HERE.with(|here| here.held.set(here.held.get() - 1));
        self.0.store(false, Ordering::Release);
    }
}

// SAFETY: who finds the word false and makes it true has the lock, until it makes it false. Where other threads are, that is one
// instruction; where a thread has settled to be alone, no other takes a lock: at that moment there was none, it held no lock itself,
// and one that comes later ends the process before it looks at the word.
unsafe impl lock_api::RawMutex for Word {
    #[allow(clippy::declare_interior_mutable_const, reason = "as the trait has it")]
    const INIT: Self = Self(AtomicBool::new(false));
    /// A guard stays on its thread, whose count of held locks it is part of.
    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock(&self) {
        while !self.take() {
            // The holder is running and will not wait, so this is short.
            std::thread::yield_now();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.take()
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.give();
    }
}

/// The calling thread holds no lock: those of frames that were abandoned do not count.
pub fn forget_held() {
    HERE.with(|here| here.held.set(0));
}

/// How many locks the calling thread holds.
#[inline]
pub fn held() -> u32 {
    HERE.with(|here| here.held.get())
}

#[cold]
fn not_alone() -> ! {
    let _ = writeln!(
        io::stderr(),
        "lab-lock: a second thread takes a lock in a process that has settled to be alone"
    );
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::{Mutex, held, is_alone, settle};
    use std::sync::Arc;

    #[test]
    fn threads_that_count_under_a_lock_miss_nothing() {
        let number = Arc::new(Mutex::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| *number.lock() += 1));
            }
        });
        assert_eq!(*number.lock(), 40_000);
        assert_eq!(held(), 0);
    }

    #[test]
    fn a_process_with_two_threads_does_not_settle() {
        assert!(!settle(), "the test harness runs beside this");
        assert!(!is_alone());
    }
}
