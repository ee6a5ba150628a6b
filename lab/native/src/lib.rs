//! A driver's packet paths on bare processors.
//!
//! Threads of the host that belong to no machine call the driver to send or to receive, each pinned to a processor of its own. What the
//! driver calls on the way is here, as short as it can be (`functions`), and the same for whoever's driver it is: a lock is a word, messages
//! are used again, the adapter discards what is posted and is done with it at once, and the MAC layer counts and frees. An interrupt is a call
//! between two others on the same thread, which costs nothing but what the driver does in it. Two threads share nothing of this, so what they
//! change together is the driver's own. A function that is not here ends the process, which says its name.

mod accesses;
mod adapter;
mod fault;
mod functions;
mod hashes;
mod interrupts;
mod messages;
mod processor;
mod receiver;
mod sender;
mod threads;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fakekernel::{Module, Rebound};
use lab_gldv3::{LinkAddress, Packets, SendEntry, TimedLink};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

pub use accesses::{Lines, Touched};
pub use adapter::Sent;
use adapter::{Adapter, Completion, Receive};
pub use fault::{Error, Fault};
use interrupts::Interrupts;
use messages::Messages;
use processor::Processor;
pub use processor::Received;
use sender::Left;
use threads::DriverThread;

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
    completed: VecDeque<Completion>,
    /// Where they go, in turn; none: where each packet says.
    to: Vec<[u8; messages::ADDRESS]>,
    /// What the driver's own thread runs, by the name of its function, with the link's argument: sending waits for that thread.
    thread: Option<&'static str>,
}

impl Queue {
    /// Of a ring that has nothing out.
    pub fn new(packets: Packets) -> Self {
        Self { packets, completed: VecDeque::new(), to: Vec::new(), thread: None }
    }

    /// The same packets to these in turn, over and over. Where the driver has to ask for a path first, and has a thread of its own for
    /// that, `thread` names its function: the thread begins anew, gets the link's argument, and has each path at once.
    #[must_use]
    pub fn to(self, addresses: &[LinkAddress], thread: Option<&'static str>) -> Self {
        Self { to: addresses.iter().map(|address| address.0).collect(), thread, ..self }
    }
}

/// What became of a task.
#[derive(Clone, Debug)]
pub struct Done {
    /// What arrived at the adapter.
    pub sent: Sent,
    /// From the first call to the end of the last.
    pub took: Duration,
    /// The processor time of it.
    pub worked: Duration,
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
            let bare = sender(task, entry, completed);
            let body = move || {
                let pinned = pin(processor);
                if !start.wait() {
                    return Err(Error::CalledOff);
                }
                pinned?;
                Ok(bare?.send(entry, packets)?)
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
    let put_back = |((done, left), task): ((Done, Left), &mut Task<'_>)| {
        task.queue.completed = left.completed;
        let genunix = task.link.host().genunix();
        left.hashes.into_iter().for_each(|hash| genunix.put_back(hash));
        done
    };
    Ok(done?.into_iter().zip(tasks).map(put_back).collect())
}

/// What the thread of a task has to itself.
fn sender(task: &Task<'_>, entry: &SendEntry, completed: VecDeque<Completion>) -> Result<Processor, Error> {
    let host = task.link.host();
    let mut messages = Messages::new(&task.queue.packets, &task.link.packets())?;
    messages.send_to(&task.queue.to);
    let adapter = Adapter::new(lab_ibtf::channels(host), completed);
    let interrupts = Interrupts::new(host.soft_interrupts());
    let mut processor = Processor::new(messages, adapter, interrupts, host.machine().now().0);
    if let Some(name) = task.queue.thread {
        let body = entry.module.symbol(name).ok_or(Error::NoThread(name))?;
        let body = std::ptr::with_exposed_provenance::<()>(body);
        // SAFETY: whoever names it says that it is a function of the driver's that takes the link's argument.
        let body = unsafe { std::mem::transmute::<*const (), threads::Body>(body) };
        processor.thread = Some(DriverThread::new(body, entry.argument()));
        processor.hashes = host.genunix().hashes();
    }
    Ok(processor)
}

/// What comes in, and what a driver has to receive it.
#[derive(Debug)]
pub struct Incoming {
    /// What follows the place for a routing header.
    pub datagram: Vec<u8>,
    /// Datagrams of an interrupt.
    pub at_once: usize,
    /// For `allocb`: as many as may be up at once, each long enough.
    pub packets: Packets,
    /// For `desballoc`: blocks, as many as may be lent at once, and a few.
    pub shells: Packets,
}

/// Has a link receive so many packets, or a few more, on a processor: what came up, and the processor time it took to hand up and to free. Blocks
/// until that is done, on a thread of the link's machine.
///
/// # Errors
///
/// See [`Error`].
pub fn receive(
    link: &TimedLink,
    load: &mut Incoming,
    packets: u64,
    processor: usize,
) -> Result<(Received, Duration), Error> {
    let entry = entry(link, None)?;
    let _rebound = rebind(std::slice::from_ref(&entry))?;
    let messages = Messages::new(&load.packets, &load.shells)?;
    let interrupts = Interrupts::new(link.host().soft_interrupts());
    let mut channels = lab_ibtf::channels(link.host());
    let mut taken: Vec<_> = channels.iter().map(|channel| channel.qp.take_receives()).collect();
    let with: Vec<usize> = (0..taken.len()).filter(|n| !taken[*n].is_empty()).collect();
    let [n] = with[..] else {
        let back = channels.iter().zip(taken).map(|(channel, receives)| channel.qp.give_receives(receives));
        back.collect::<Result<(), _>>().map_err(Error::Receives)?;
        return Err(Error::NoChannel(with.len()));
    };
    let (channel, receives) = (channels.swap_remove(n), taken.swap_remove(n));
    let qp = channel.qp.clone();
    let adapter = Adapter::with_receives(channel, receives.iter().map(Receive::of).collect());
    let mut bare = Processor::new(messages, adapter, interrupts, link.machine().now().0);
    let (datagram, at_once) = (load.datagram.clone(), load.at_once);
    let on_processor = || {
        pin(processor)?;
        Ok(bare.receive(&datagram, at_once, packets)?)
    };
    let done = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, on_processor).map_err(Error::Thread)?;
        thread.join().unwrap_or(Err(Fault::Panicked.into()))
    });
    let Processor { adapter, messages, .. } = bare;
    let posted = adapter.receives.iter().map(Receive::as_posted).collect();
    if done.is_err() {
        // The driver may hold some of them.
        load.packets.forget();
        load.shells.forget();
    } else {
        load.shells.replace(messages.into_shells());
    }
    qp.give_receives(posted).map_err(Error::Receives)?;
    done
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
        let entry = entry(task.link, task.ring)?;
        if entries.iter().any(|other| other.is_same(&entry)) {
            return Err(Error::SameRing(task.ring));
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn entry(link: &TimedLink, ring: Option<usize>) -> Result<SendEntry, Error> {
    let machine = link.machine();
    if machine.is_live() || !machine.is_here() {
        return Err(Error::NotStill);
    }
    link.send_entry(ring).ok_or(Error::NoRing(ring))
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
