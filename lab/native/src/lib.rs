//! A driver's send path on bare processors.
//!
//! Threads of the host that belong to no machine call the driver to send, each pinned to a processor of its own. What the driver calls
//! on the way is here, as short as it can be (`functions`): a lock is a word, messages are used again, and the adapter discards what is
//! posted and is done with it at once. Two threads share nothing of this, so what they change together is the driver's own. A function that
//! is not here ends the process, which says its name.

mod accesses;
mod functions;
mod sender;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fakekernel::{Module, Rebound};
use lab_gldv3::{Packets, SendEntry, TimedLink};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

pub use accesses::{Lines, Touched};
use sender::Sender;
pub use sender::{Fault, Sent};

/// What one thread does.
#[derive(Debug)]
pub struct Task<'a> {
    /// The link that sends.
    pub link: &'a TimedLink,
    /// By which transmit ring; by none where the driver has none.
    pub ring: Option<usize>,
    /// What it sends.
    pub queue: &'a mut Queue,
    /// The processor that it is pinned to: a number among those that this process may use. With fewer of them some share one.
    pub processor: usize,
}

/// What a ring sends, and what its queue has not been asked for.
#[derive(Debug)]
pub struct Queue {
    /// One packet a call, over and over. The driver knows the way to where they go.
    packets: Packets,
    /// Work requests that are done: the driver asks when it needs room.
    completed: VecDeque<u64>,
}

impl Queue {
    /// Of a ring that has nothing out.
    pub fn new(packets: Packets) -> Self {
        Self { packets, completed: VecDeque::new() }
    }
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The links' machine does not stand still meanwhile, so others may be in the driver: its threads run in parallel, or this is none of them.
    #[error("this is no thread of a machine that stands still meanwhile")]
    NotStill,
    /// The driver has no such ring.
    #[error("no transmit ring {0:?}")]
    NoRing(Option<usize>),
    /// Two tasks have the same ring.
    #[error("two threads would send by transmit ring {0:?}")]
    SameRing(Option<usize>),
    /// A module's text cannot be changed.
    #[error("the text of a module cannot be written: {0}")]
    Text(#[source] io::Error),
    /// It may not be.
    #[error("a thread cannot be pinned to processor {0}: {1}")]
    Pin(usize, #[source] io::Error),
    /// There is no thread to be had.
    #[error("no thread: {0}")]
    Thread(#[source] io::Error),
    /// Another thread could not be had.
    #[error("called off")]
    CalledOff,
    /// The driver did something else than to send one packet after the other.
    #[error(transparent)]
    Driver(#[from] Fault),
}

/// What became of a task.
#[derive(Clone, Debug)]
pub struct Done {
    /// What arrived at the adapter.
    pub sent: Sent,
    /// From the first call to the end of the last.
    pub took: Duration,
    /// The cache lines that the driver touched, its stack left out; none unless it was built to tell.
    pub lines: Lines,
}

/// Has each task send so many packets, all at the same time. Blocks until they have, on a thread of the links' machine.
///
/// # Errors
///
/// See [`Error`].
pub fn run(tasks: &mut [Task<'_>], packets: u64) -> Result<Vec<Done>, Error> {
    let entries = entries(tasks)?;
    let _rebound = rebind(&entries)?;
    let start = Start::default();
    let done = std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (task, entry) in tasks.iter_mut().zip(&entries) {
            let (start, processor) = (&start, task.processor);
            let completed = std::mem::take(&mut task.queue.completed);
            let sender = Sender::new(&task.queue.packets, completed, task.link.machine().now().0);
            let body = move || {
                let pinned = pin(processor);
                if !start.wait() {
                    return Err(Error::CalledOff);
                }
                pinned?;
                Ok(sender?.send(entry, packets)?)
            };
            match std::thread::Builder::new().spawn_scoped(scope, body) {
                Ok(thread) => running.push(thread),
                Err(error) => {
                    start.say(CALLED_OFF);
                    return Err(Error::Thread(error));
                }
            }
        }
        while start.waiting.load(Ordering::Acquire) != running.len() {
            std::thread::yield_now();
        }
        start.say(NOW);
        running.into_iter().map(|thread| thread.join().unwrap_or(Err(Fault::Panicked.into()))).collect()
    });
    let done: Result<Vec<_>, Error> = done;
    if done.is_err() {
        // The driver may hold some of them.
        tasks.iter_mut().for_each(|task| task.queue.packets.forget());
    }
    let put_back = |((done, completed), task): ((Done, _), &mut Task<'_>)| {
        task.queue.completed = completed;
        done
    };
    Ok(done?.into_iter().zip(tasks).map(put_back).collect())
}

/// All begin at once, or none does.
#[derive(Default)]
struct Start {
    waiting: AtomicUsize,
    said: AtomicUsize,
}

const NOW: usize = 1;
const CALLED_OFF: usize = 2;

impl Start {
    /// Waits until all are here; false if it is called off.
    fn wait(&self) -> bool {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        loop {
            match self.said.load(Ordering::Acquire) {
                0 => std::thread::yield_now(),
                said => return said == NOW,
            }
        }
    }

    fn say(&self, what: usize) {
        self.said.store(what, Ordering::Release);
    }
}

fn entries(tasks: &[Task<'_>]) -> Result<Vec<SendEntry>, Error> {
    let mut entries: Vec<SendEntry> = Vec::new();
    for task in tasks {
        let machine = task.link.machine();
        if machine.is_live() || !machine.is_here() {
            return Err(Error::NotStill);
        }
        let entry = task.link.send_entry(task.ring).ok_or(Error::NoRing(task.ring))?;
        if entries.iter().any(|other| other.is_same(&entry)) {
            return Err(Error::SameRing(task.ring));
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn rebind(entries: &[SendEntry]) -> Result<Vec<Rebound>, Error> {
    let mut modules: Vec<&Module> = Vec::new();
    for entry in entries {
        if !modules.contains(&&entry.module) {
            modules.push(&entry.module);
        }
    }
    let functions = [functions::all(), accesses::all()].concat();
    // SAFETY: of the machine's threads one runs, which is here until this is undone, so nobody is in the modules but the threads of `run`,
    // which it waits for. The functions have the prototypes of their names: `export!` checks that.
    let rebind = |module: &Module| unsafe { module.rebind(&functions) };
    modules.into_iter().map(rebind).collect::<io::Result<_>>().map_err(Error::Text)
}

/// Pins the calling thread to one of the processors that the process may use.
fn pin(processor: usize) -> Result<(), Error> {
    let error = |error: rustix::io::Errno| Error::Pin(processor, error.into());
    let allowed = sched_getaffinity(None).map_err(error)?;
    let count = (allowed.count() as usize).max(1);
    let nth = (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number)).nth(processor % count);
    let mut set = CpuSet::new();
    set.set(nth.unwrap_or_default());
    sched_setaffinity(None, &set).map_err(error)
}
