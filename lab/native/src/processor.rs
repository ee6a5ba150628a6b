//! What a thread has to itself while it calls a driver: its messages, the adapter behind its queues, and the interrupts that are due. The
//! functions that the driver calls find it by [`with`].

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::time::Duration;

use fakekernel::genunix::HashShown;
use rustix::time::{ClockId, clock_gettime};

use crate::adapter::Adapter;
use crate::interrupts::Interrupts;
use crate::messages::Messages;
use crate::threads::DriverThread;
use crate::{Fault, Lines};

/// Words of an object of a driver's caches, at most, and how many there are.
const OBJECT: usize = 128;
const OBJECTS: usize = 16;

/// Packets and octets that have come up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Messages.
    pub packets: u64,
    /// Octets in them, link header included.
    pub octets: u64,
}

/// See the module's documentation.
#[repr(align(128))]
pub(crate) struct Processor {
    pub(crate) messages: Messages,
    pub(crate) adapter: Adapter,
    pub(crate) interrupts: Interrupts,
    pub(crate) received: Received,
    /// The driver's, if it has one that sending waits for.
    pub(crate) thread: Option<DriverThread>,
    /// The driver's.
    pub(crate) hashes: Vec<HashShown>,
    /// Memory for objects of its caches.
    pub(crate) objects: Vec<*mut c_void>,
    /// Where those are.
    _memory: Vec<[u64; OBJECT]>,
    pub(crate) lines: Lines,
    /// Of the machine, when this began.
    now: u64,
    began: Duration,
    fault: Option<Fault>,
}

// SAFETY: the messages, handles and arguments in it are used by the thread that has it alone, which is one at a time.
unsafe impl Send for Processor {}

thread_local! {
    static PROCESSOR: Cell<*mut Processor> = const { Cell::new(ptr::null_mut()) };
}

/// That of this thread.
///
/// # Panics
///
/// On another thread. The caller is a function that a driver calls, so the process ends.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&mut Processor) -> R) -> R {
    let processor = PROCESSOR.get();
    assert!(!processor.is_null(), "a driver calls on a thread that was not told to run it");
    // SAFETY: set by `as_this_thread` below to its own, which nobody else uses meanwhile; `f` calls no driver.
    f(unsafe { &mut *processor })
}

impl Processor {
    /// At this time of the machine, in nanoseconds.
    pub(crate) fn new(messages: Messages, adapter: Adapter, interrupts: Interrupts, now: u64) -> Self {
        let (received, lines) = (Received::default(), Lines::new());
        let mut memory = vec![[0; OBJECT]; OBJECTS];
        let objects = memory.iter_mut().map(|object| (&raw mut *object).cast()).collect();
        let (thread, hashes) = (None, Vec::new());
        Self {
            messages,
            adapter,
            interrupts,
            received,
            thread,
            hashes,
            objects,
            _memory: memory,
            lines,
            now,
            began: time(),
            fault: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        let adapter = Adapter::new(Vec::new(), std::collections::VecDeque::new());
        Self::new(Messages::default(), adapter, Interrupts::new(Vec::new()), 0)
    }

    /// Runs what calls a driver, with this as what its functions find. What it took of the wall clock, and of this thread's processor.
    pub(crate) fn as_this_thread(&mut self, body: impl FnOnce()) -> (Duration, Duration) {
        self.began = time();
        let worked = worked();
        PROCESSOR.set(self);
        body();
        PROCESSOR.set(ptr::null_mut());
        (time() - self.began, self::worked() - worked)
    }

    /// The first is kept.
    pub(crate) fn fail(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }

    /// What went wrong.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.fault.or_else(|| self.messages.check())
    }

    /// Whether anything has.
    pub(crate) fn has_failed(&self) -> bool {
        self.fault.is_some()
    }

    /// Nanoseconds on the machine's clock, if that went on.
    pub(crate) fn time(&self) -> i64 {
        (self.now + (time() - self.began).as_nanos() as u64) as i64
    }
}

/// On a clock that only goes on.
fn time() -> Duration {
    clock(ClockId::Monotonic)
}

/// Time of a processor that the calling thread has had.
pub(crate) fn worked() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

fn clock(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
