//! What can only be asked by waiting: a queue of jobs, and the threads that wait.
//!
//! Two queues, so that a silent SA never stands in the way of a question to the adapter. The adapter's has one thread, so traffic has
//! ended before the next is built on the same queue pairs.

use core::time::Duration;

use ibtf::{McgInfo, UdChannel};
use ipoib::groups::Roles;
use ipoib::link::{BroadcastGroup, Plan, Ticket};
use ipoib::{Gid, LinkAddr, Mgid};
use kernel::sync::Monitor;
use kernel::thread::{Parker, Worker};
use kernel::{AllocError, KArc, KVec};

use super::Shared;
use super::datapath::Traffic;
use super::senders::Why;
use crate::ring::Ring;

/// Threads that may wait for the SA at once.
const SA_WORKERS: usize = 3;
/// Jobs that may wait for a thread. The machines bound what they ask for well below this.
const CAPACITY: usize = 128;

/// One job.
pub(crate) enum Job {
    QueryPort(Ticket),
    Find(Ticket, Mgid),
    JoinBroadcast(Ticket, Gid, Mgid, Option<BroadcastGroup>),
    LeaveBroadcast {
        mgid: Mgid,
        gid: Gid,
        joins: u32,
    },
    Make(Ticket, u16),
    Build(Ticket, Plan, McgInfo),
    AttachBroadcast(Ticket, McgInfo),
    End(Traffic),
    /// Look whether this queue pair of a ring has failed, under the traffic with this serial number.
    Inspect(usize, UdChannel, u64),
    /// Replace the queue pair of this transmit ring, which only sends.
    ReplaceSender(usize, Why),
    JoinGroup(Mgid, Roles),
    /// As often as was joined, with the port GID of the joins: the port may have another one by now.
    LeaveGroup(Mgid, Roles, u32, Gid),
    ListGroups,
    /// How fast the port with this GID is.
    AskRate(Gid),
    MakeDest(LinkAddr, McgInfo, Option<Duration>),
    Lookup(LinkAddr),
    /// Free address handles and pools that nobody uses any more.
    Tidy,
    /// Make room for so many addresses.
    MakeRoom(usize),
    /// Make buffers for large sends that must be copied.
    LargeBuffers,
}

impl Job {
    /// Whether it waits for the SA.
    fn is_for_sa(&self) -> bool {
        matches!(self, Self::Find(..) | Self::LeaveBroadcast { .. } | Self::LeaveGroup(..) | Self::ListGroups)
    }
}

/// Jobs that wait, and how many are being done.
pub(crate) struct Queue {
    waiting: Ring<Job>,
    running: usize,
}

/// The two queues of a link.
pub(crate) struct Jobs {
    local: KArc<Monitor<Queue>>,
    sa: KArc<Monitor<Queue>>,
}

impl Jobs {
    pub(crate) fn new() -> Result<Self, AllocError> {
        let queue = || KArc::new(Monitor::new(Queue { waiting: Ring::new(CAPACITY)?, running: 0 })?);
        Ok(Self { local: queue()?, sa: queue()? })
    }

    /// Queues a job, or hands it back if too many wait.
    pub(crate) fn push(&self, job: Job) -> Result<(), Job> {
        let queue = if job.is_for_sa() { &self.sa } else { &self.local };
        let mut guard = queue.lock();
        let pushed = guard.waiting.push(job);
        drop(guard);
        queue.notify_one();
        pushed
    }

    /// Whether no job waits or is being done.
    pub(crate) fn is_idle(&self) -> bool {
        [&self.local, &self.sa].into_iter().all(|queue| {
            let queue = queue.lock();
            queue.waiting.is_empty() && queue.running == 0
        })
    }

    /// Starts the threads. **May block.**
    pub(crate) fn spawn(&self, shared: &KArc<Shared>) -> Result<KVec<Worker<Queue>>, AllocError> {
        let mut workers = KVec::with_capacity(SA_WORKERS + 1)?;
        workers.push(spawn(c"ibd_local", &self.local, shared)?)?;
        for _ in 0..SA_WORKERS {
            workers.push(spawn(c"ibd_sa", &self.sa, shared)?)?;
        }
        Ok(workers)
    }
}

fn spawn(
    name: &'static core::ffi::CStr,
    queue: &KArc<Monitor<Queue>>,
    shared: &KArc<Shared>,
) -> Result<Worker<Queue>, AllocError> {
    let shared = shared.clone();
    Worker::spawn(name, queue.clone(), move |parker| work(parker, &shared))
}

fn work(parker: &Parker<'_, Queue>, shared: &KArc<Shared>) {
    let mut queue = parker.lock();
    while !parker.should_stop() {
        let Some(job) = queue.waiting.pop() else {
            parker.wait(&mut queue);
            continue;
        };
        queue.running += 1;
        drop(queue);
        super::run::run(shared, job);
        queue = parker.lock();
        queue.running -= 1;
        if queue.waiting.is_empty() && queue.running == 0 {
            // Whoever waits for the link to come to rest.
            shared.control.notify_all();
        }
    }
}
