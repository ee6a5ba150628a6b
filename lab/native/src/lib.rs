//! A driver's send path on bare processors.
//!
//! Threads of the host that belong to no machine call the driver to send, each pinned to a processor of its own. What the driver calls
//! on the way is here, as short as it can be ([`functions`]): a lock is a word, messages are used again, and the adapter discards what is
//! posted and is done with it at once. Two threads share nothing of this, so what they change together is the driver's own. A function that
//! is not here ends the process, which says its name.

mod accesses;
mod functions;
mod sender;

use std::io;
use std::sync::Barrier;
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
    /// What it sends, one packet a call, over and over. The driver knows the way to where they go.
    pub packets: &'a mut Packets,
    /// The processor that it is pinned to: a number among those that this process may use. With fewer of them some share one.
    pub processor: usize,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine's threads run in parallel, so that others may be in the driver.
    #[error("a live machine does not stand still meanwhile")]
    Live,
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
    let start = Barrier::new(tasks.len());
    std::thread::scope(|scope| {
        let running: Vec<_> = tasks
            .iter_mut()
            .zip(&entries)
            .map(|(task, entry)| {
                let (start, processor) = (&start, task.processor);
                let sender = Sender::new(task.packets, task.link.machine().now().0);
                scope.spawn(move || {
                    let pinned = pin(processor);
                    start.wait();
                    pinned?;
                    Ok(sender?.send(entry, packets)?)
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().unwrap_or(Err(Fault::Panicked.into()))).collect()
    })
}

fn entries(tasks: &[Task<'_>]) -> Result<Vec<SendEntry>, Error> {
    let mut entries: Vec<SendEntry> = Vec::new();
    for task in tasks {
        if task.link.machine().is_live() {
            return Err(Error::Live);
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
