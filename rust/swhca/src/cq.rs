//! Completion queues, and the soft interrupt that calls their owners.
//!
//! A completion is put there in the middle of somebody's post, with that client's locks held: the owner's handler is called by a soft
//! interrupt, as an adapter's interrupt would, one call at a time for a CQ. Of a moderated CQ the call waits for the end of the post,
//! or for as many completions as were allowed.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ibtf_provider::{Arm, ClientCq, Completion, Status};
use kernel::ddi::DevInfo;
use kernel::softint::{SoftHandler, SoftInterrupt};
use kernel::sync::Mutex;
use kernel::{AllocError, Errno, KArc, KVec};

use crate::qp::Qp;
use crate::ring::{Pushed, Ring};

/// A completion queue.
pub(crate) struct Cq {
    ring: Mutex<State>,
    client: KArc<ClientCq>,
    /// Queue pairs that have it; one that has it for both queues is there twice.
    users: Mutex<KVec<KArc<Qp>>>,
    calls: KArc<Calls>,
}

struct State {
    ring: Ring,
    /// Waits to be called.
    queued: bool,
    /// Is being called.
    running: bool,
    /// Is to be called once more.
    again: bool,
    /// It was armed for what has come.
    due: bool,
    /// Has lost completions, which its owner has not been told.
    lost: bool,
    /// How many completions a call may wait for, and for how many microseconds.
    moderation: (u32, u32),
}

impl Cq {
    pub(crate) fn new(
        entries: usize,
        client: KArc<ClientCq>,
        calls: KArc<Calls>,
    ) -> Result<Self, AllocError> {
        let ring = Ring::new(entries)?;
        let state = State {
            ring,
            queued: false,
            running: false,
            again: false,
            due: false,
            lost: false,
            moderation: (0, 0),
        };
        Ok(Self { ring: Mutex::new(state)?, client, users: Mutex::new(KVec::new())?, calls })
    }

    pub(crate) fn capacity(&self) -> usize {
        self.ring.lock().ring.capacity()
    }

    /// Puts completions there: `put` is called with what puts one. The owner hears of it after that.
    pub(crate) fn complete(this: &KArc<Self>, completion: Completion) {
        let mut state = this.ring.lock();
        let call = match state.ring.push(completion) {
            Pushed::Quiet => false,
            Pushed::Fire => state.wants_handler(),
            Pushed::Overrun => {
                state.lost = true;
                state.wants_call()
            }
        };
        let (may_wait, is_enough) = (state.may_wait(), state.queued && state.is_enough());
        drop(state);
        if call {
            this.calls.queue(this.clone(), may_wait);
        } else if is_enough {
            this.calls.interrupt.trigger();
        }
    }

    /// So many completions may wait for a call, so many microseconds: until the end of the post that brings them, which is sooner.
    pub(crate) fn moderate(&self, count: u32, micros: u32) {
        self.ring.lock().moderation = (count, micros);
    }

    /// As it was set.
    pub(crate) fn moderation(&self) -> (u32, u32) {
        self.ring.lock().moderation
    }

    pub(crate) fn arm(this: &KArc<Self>, arm: Arm) {
        let mut state = this.ring.lock();
        let call = state.ring.arm(arm) && state.wants_handler();
        drop(state);
        if call {
            this.calls.queue(this.clone(), false);
        }
    }

    /// Takes completions out, up to `place` refuses one.
    pub(crate) fn poll(&self, place: &mut dyn FnMut(&Completion) -> bool) -> bool {
        let mut state = self.ring.lock();
        let mut found = false;
        while let Some(completion) = state.ring.first() {
            if !place(completion) {
                break;
            }
            state.ring.advance();
            found = true;
        }
        found
    }

    /// Drops what is of a queue pair that goes.
    pub(crate) fn forget(&self, qpn: u32) {
        self.ring.lock().ring.forget(qpn);
    }

    pub(crate) fn add_user(&self, qp: &KArc<Qp>) -> Result<(), AllocError> {
        self.users.lock().push(qp.clone())
    }

    /// Once for each time that it was added.
    pub(crate) fn remove_user(&self, qp: &Qp) {
        let mut users = self.users.lock();
        let mine = users.iter().position(|user| core::ptr::eq(&raw const **user, qp));
        let taken = mine.and_then(|index| users.swap_remove(index));
        drop(users);
        // Not the last reference: the caller has one.
        drop(taken);
    }

    /// Queue pairs whose completions are lost cannot go on. In none of the operations.
    fn fail_users(&self) {
        loop {
            let users = self.users.lock();
            let Some(qp) = users.iter().find(|user| user.is_alive()).cloned() else { return };
            drop(users);
            qp.fail();
        }
    }

    /// `CQ_BUSY` while a queue pair has it.
    pub(crate) fn check_unused(&self) -> Result<(), Status> {
        if self.users.lock().is_empty() { Ok(()) } else { Err(Status::CQ_BUSY) }
    }

    /// Tells the owner that completions were lost, though none were. In none of the operations.
    pub(crate) fn fail(&self) {
        self.client.raise_overrun();
    }

    /// Calls the owner: its handler if that is due, and to say that completions were lost. In the soft interrupt only.
    fn call(this: KArc<Self>) {
        let mut state = this.ring.lock();
        (state.queued, state.running) = (false, true);
        let (due, lost) = (core::mem::take(&mut state.due), core::mem::take(&mut state.lost));
        drop(state);
        if lost {
            this.client.raise_overrun();
            this.fail_users();
        }
        if due {
            this.client.call_handler();
        }
        let mut state = this.ring.lock();
        state.running = false;
        let call = core::mem::take(&mut state.again) && state.wants_call();
        drop(state);
        if call {
            let calls = this.calls.clone();
            calls.queue(this, false);
        }
    }
}

impl State {
    /// Whether what is there may wait for more.
    fn may_wait(&self) -> bool {
        let (count, micros) = self.moderation;
        micros != 0 && self.ring.len() < count as usize && !self.lost
    }

    /// Whether as many are there as may wait, just now.
    fn is_enough(&self) -> bool {
        let (count, micros) = self.moderation;
        micros != 0 && self.ring.len() == count as usize
    }

    /// As [`State::wants_call`], for its handler.
    fn wants_handler(&mut self) -> bool {
        self.due = true;
        self.wants_call()
    }

    /// Notes that the owner is to be called; true if the caller has to queue that.
    fn wants_call(&mut self) -> bool {
        if self.running {
            self.again = true;
            return false;
        }
        !core::mem::replace(&mut self.queued, true)
    }
}

/// CQs whose owners are to be called.
pub(crate) struct Calls {
    waiting: KArc<Waiting>,
    interrupt: SoftInterrupt<Waiting>,
    /// Posts that are being made.
    posts: AtomicU32,
    /// One of the CQs waits for the end of a post.
    late: AtomicBool,
}

/// A post is being made as long as this is there.
pub(crate) struct Posting<'a>(&'a Calls);

impl Drop for Posting<'_> {
    fn drop(&mut self) {
        self.0.posts.fetch_sub(1, Ordering::SeqCst);
        self.0.trigger_late();
    }
}

struct Waiting(Mutex<KVec<KArc<Cq>>>);

impl Calls {
    /// **May block**; from attach.
    pub(crate) fn new(dip: DevInfo) -> Result<Self, Errno> {
        let waiting = KArc::new(Waiting(Mutex::new(KVec::new())?))?;
        let interrupt = SoftInterrupt::new(dip, waiting.clone())?;
        Ok(Self { waiting, interrupt, posts: AtomicU32::new(0), late: AtomicBool::new(false) })
    }

    /// Makes room for so many CQs: each waits once at most.
    pub(crate) fn reserve(&self, cqs: usize) -> Result<(), AllocError> {
        let mut waiting = self.waiting.0.lock();
        let more = cqs.saturating_sub(waiting.len());
        waiting.reserve(more)
    }

    /// A post begins: who may wait, waits for its end.
    pub(crate) fn posting(&self) -> Posting<'_> {
        self.posts.fetch_add(1, Ordering::SeqCst);
        Posting(self)
    }

    /// Has a CQ's owner called: soon, or if it may wait when a post that is being made ends.
    fn queue(&self, cq: KArc<Cq>, may_wait: bool) {
        let refused = self.waiting.0.lock().push_within_capacity(cq);
        // There is room for every CQ.
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
    fn run(&self) {
        loop {
            let next = self.0.lock().swap_remove(0);
            let Some(cq) = next else { return };
            Cq::call(cq);
        }
    }
}
