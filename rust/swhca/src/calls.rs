//! Calls into `ibtl`, made by a soft interrupt: what happens happens in the middle of somebody's post or command, with that client's
//! locks held, and is told as an adapter's interrupt would.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use kernel::ddi::DevInfo;
use kernel::softint::{SoftHandler, SoftInterrupt};
use kernel::sync::Mutex;
use kernel::{AllocError, Errno, KArc, MayBlock};

use crate::cq::Cq;
use crate::line::Line;
use crate::qp::Qp;
use crate::srq::Srq;

/// What is to be told, and to whom.
pub(crate) enum Call {
    /// A CQ's owner, of completions.
    Cq(KArc<Cq>),
    /// A shared receive queue's, that receives run out.
    Limit(KArc<Srq>),
    /// A queue pair's, of what has become of it.
    Qp(KArc<Qp>),
}

/// Calls that are to be made.
pub(crate) struct Calls {
    waiting: KArc<Waiting>,
    interrupt: SoftInterrupt<Waiting>,
    /// Posts that are being made.
    posts: AtomicU32,
    /// One of the calls waits for the end of a post.
    late: AtomicBool,
    /// Queues and queue pairs that may wait to be called.
    callers: AtomicUsize,
}

/// The place of a queue or a queue pair among those that wait to be called. It is part of that, and so there is room for what was freed
/// and waits still.
pub(crate) struct Caller(KArc<Calls>);

impl Caller {
    /// Makes room: counted before there is room, so that two who come at once have two.
    pub(crate) fn new(calls: &KArc<Calls>) -> Result<Self, AllocError> {
        let callers = calls.callers.fetch_add(1, Ordering::SeqCst) + 1;
        let caller = Self(calls.clone());
        calls.reserve(callers).map(|()| caller)
    }

    /// Where it waits.
    pub(crate) fn calls(&self) -> &KArc<Calls> {
        &self.0
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.callers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A post is being made as long as this is there.
pub(crate) struct Posting<'a>(&'a Calls);

impl Drop for Posting<'_> {
    fn drop(&mut self) {
        self.0.posts.fetch_sub(1, Ordering::SeqCst);
        self.0.trigger_late();
    }
}

struct Waiting(Mutex<Line<Call>>);

impl Calls {
    /// **May block**; from attach.
    pub(crate) fn new(dip: DevInfo, may_block: &MayBlock) -> Result<Self, Errno> {
        let waiting = Waiting(Mutex::new_waiting(Line::new(), may_block));
        let waiting = KArc::new_waiting(waiting, may_block);
        let interrupt = SoftInterrupt::new(dip, waiting.clone())?;
        Ok(Self {
            waiting,
            interrupt,
            posts: AtomicU32::new(0),
            late: AtomicBool::new(false),
            callers: AtomicUsize::new(0),
        })
    }

    /// Makes room for so many queues and queue pairs: each waits once at most.
    fn reserve(&self, callers: usize) -> Result<(), AllocError> {
        self.waiting.0.lock().reserve(callers)
    }

    /// A post begins: who may wait, waits for its end.
    pub(crate) fn posting(&self) -> Posting<'_> {
        self.posts.fetch_add(1, Ordering::SeqCst);
        Posting(self)
    }

    /// As soon as nobody holds a lock.
    pub(crate) fn trigger(&self) {
        self.interrupt.trigger();
    }

    /// Has somebody called: soon, or if it may wait when a post that is being made ends.
    pub(crate) fn queue(&self, call: Call, may_wait: bool) {
        let refused = self.waiting.0.lock().push(call);
        // There is room for everybody.
        drop(refused);
        if !may_wait {
            self.interrupt.trigger();
            return;
        }
        // In this order: the last post either sees that somebody waits, or is over here.
        self.late.store(true, Ordering::SeqCst);
        if self.posts.load(Ordering::SeqCst) == 0 {
            self.trigger_late();
        }
    }

    fn trigger_late(&self) {
        if self.late.load(Ordering::SeqCst) && self.late.swap(false, Ordering::SeqCst) {
            self.interrupt.trigger();
        }
    }
}

impl SoftHandler for Waiting {
    /// Calls who waits now, in order. Who comes meanwhile has triggered the interrupt for itself: calls that beget calls keep neither
    /// this thread for ever nor anybody else from his turn.
    fn run(&self) {
        let round = self.0.lock().len();
        for _ in 0..round {
            let next = self.0.lock().pop();
            match next {
                Some(Call::Cq(cq)) => Cq::call(cq),
                Some(Call::Limit(srq)) => srq.tell(),
                Some(Call::Qp(qp)) => qp.pay(),
                None => return,
            }
        }
    }
}
