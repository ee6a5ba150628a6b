//! What can only be asked of the adapter by waiting: a queue of jobs, and the thread that waits.
//!
//! One of each to a link, apart from the calls to subnet administration ([`crate::sa_pool`]): neither a silent administrator nor
//! another adapter stands in the way of a question to this one, and traffic has ended before the next is built on the same queue
//! pairs.

use core::time::Duration;

use ibtf::{McgInfo, PathInfo, UdChannel};
use ipoib::LinkAddr;
use ipoib::link::{Generation, Standing, Ticket, Why};
use ipoib::paths::Followed;
use kernel::sync::Monitor;
use kernel::thread::{Parker, Worker};
use kernel::{KArc, MayBlock};

use super::Shared;
use super::fma::Fault;
use crate::ring::Ring;

/// Jobs that may wait for a thread.
const CAPACITY: usize = 128;
/// Places that are left to jobs of which a link has a few at most: without the answer of one of those it is down. Of neighbours and groups as many may be
/// asked for as an administrator likes.
const LEFT: usize = 16;

/// One job.
pub(crate) enum Job {
    QueryPort(Ticket),
    Make(Ticket, u16),
    Build(Ticket, Standing, McgInfo),
    AttachBroadcast(Ticket, McgInfo),
    /// End the traffic of generations up to this one.
    End(Generation),
    /// Look whether this queue pair of a ring has failed, under the traffic of this generation.
    Inspect(usize, UdChannel, Generation),
    /// Have this queue pair of a ring send again, under the traffic of this generation.
    Recover(usize, UdChannel, Generation),
    /// Replace the queue pair of this transmit ring, which only sends.
    ReplaceSender(usize, Why),
    /// Try another queue pair beside that of this transmit ring, whose sends do not complete; and end that.
    Try(usize),
    EndTrial(usize),
    MakeDest(LinkAddr, McgInfo, Option<Duration>),
    /// Find the way to an address that has the port of another one, which this is the way to; the SA said so then.
    FollowPort(LinkAddr, PathInfo, Followed),
    /// Free address handles and pools that nobody uses any more.
    Tidy,
    /// Make room for so many addresses.
    GrowPathTable(usize),
    /// Make buffers for large sends that must be copied.
    LargeBuffers,
    /// Tell fault management.
    Report(Fault),
}

/// Jobs that wait, and whether one is being done.
pub(crate) struct Queue {
    waiting: Ring<Job>,
    running: bool,
    /// One that tidies up waits.
    tidies: bool,
}

/// Does a job. It may block.
pub(crate) type Run = fn(&KArc<Shared>, Job, &MayBlock);

/// A link's queue.
pub(crate) struct Jobs(KArc<Monitor<Queue>>);

impl Jobs {
    pub(crate) fn new(may_block: &MayBlock) -> Self {
        let queue = Queue { waiting: Ring::new(CAPACITY, may_block), running: false, tidies: false };
        Self(KArc::new_waiting(Monitor::new_waiting(queue, may_block), may_block))
    }

    /// Queues a job, or hands it back if too many wait. Of two that tidy up one is enough.
    pub(crate) fn push(&self, job: Job) -> Result<(), Job> {
        let mut queue = self.0.lock();
        if matches!(job, Job::MakeDest(..) | Job::FollowPort(..)) && queue.waiting.room() <= LEFT {
            return Err(job);
        }
        let tidies = matches!(job, Job::Tidy);
        if tidies && queue.tidies {
            return Ok(());
        }
        let pushed = queue.waiting.push(job);
        queue.tidies |= tidies && pushed.is_ok();
        drop(queue);
        self.0.notify_one();
        pushed
    }

    /// Whether no job waits or is being done.
    pub(crate) fn is_idle(&self) -> bool {
        let queue = self.0.lock();
        queue.waiting.is_empty() && !queue.running
    }

    /// Starts the thread, which does each job by `run`. **May block.**
    pub(crate) fn spawn(&self, shared: &KArc<Shared>, run: Run, may_block: &MayBlock) -> Worker<Queue> {
        let shared = shared.clone();
        Worker::spawn(c"ibd_local", self.0.clone(), may_block, move |parker| work(parker, &shared, run))
    }
}

fn work(parker: &Parker<'_, Queue>, shared: &KArc<Shared>, run: Run) {
    let mut queue = parker.lock();
    while !parker.should_stop() {
        let Some(job) = queue.waiting.pop() else {
            parker.wait(&mut queue);
            continue;
        };
        queue.running = true;
        queue.tidies &= !matches!(job, Job::Tidy);
        drop(queue);
        run(shared, job, parker.may_block());
        queue = parker.lock();
        queue.running = false;
        if queue.waiting.is_empty() {
            // Whoever waits for the link to come to rest.
            shared.control.notify_all();
        }
    }
}
