//! Completion queues, and the soft interrupt that calls their owners.
//!
//! A completion is put there in the middle of somebody's post, with that client's locks held: the owner's handler is called by a soft
//! interrupt, as an adapter's interrupt would, one call at a time for a CQ.

use core::sync::atomic::{AtomicUsize, Ordering};

use ibtf_provider::{Arm, ClientCq, Completion, Status};
use kernel::ddi::DevInfo;
use kernel::softint::{SoftHandler, SoftInterrupt};
use kernel::sync::Mutex;
use kernel::{AllocError, Errno, KArc, KVec};

use crate::ring::{Pushed, Ring};

/// A completion queue.
pub(crate) struct Cq {
    ring: Mutex<State>,
    client: KArc<ClientCq>,
    /// Queue pairs that have it; one that has it for both queues counts twice.
    users: AtomicUsize,
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
    /// Has lost completions, which its owner has not been told.
    lost: bool,
}

impl Cq {
    pub(crate) fn new(
        entries: usize,
        client: KArc<ClientCq>,
        calls: KArc<Calls>,
    ) -> Result<Self, AllocError> {
        let ring = Ring::new(entries)?;
        let state = State { ring, queued: false, running: false, again: false, lost: false };
        Ok(Self { ring: Mutex::new(state)?, client, users: AtomicUsize::new(0), calls })
    }

    pub(crate) fn capacity(&self) -> usize {
        self.ring.lock().ring.capacity()
    }

    /// Puts completions there: `put` is called with what puts one. The owner hears of it after that.
    pub(crate) fn complete(this: &KArc<Self>, completion: Completion) {
        let mut state = this.ring.lock();
        let call = match state.ring.push(completion) {
            Pushed::Quiet => return,
            Pushed::Fire => state.wants_call(),
            Pushed::Overrun => {
                state.lost = true;
                state.wants_call()
            }
        };
        drop(state);
        if call {
            this.calls.queue(this.clone());
        }
    }

    pub(crate) fn arm(this: &KArc<Self>, arm: Arm) {
        let mut state = this.ring.lock();
        let call = state.ring.arm(arm) && state.wants_call();
        drop(state);
        if call {
            this.calls.queue(this.clone());
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

    pub(crate) fn add_user(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_user(&self) {
        self.users.fetch_sub(1, Ordering::Relaxed);
    }

    /// `CQ_BUSY` while a queue pair has it.
    pub(crate) fn check_unused(&self) -> Result<(), Status> {
        if self.users.load(Ordering::Relaxed) == 0 { Ok(()) } else { Err(Status::CQ_BUSY) }
    }

    /// Tells the owner that completions were lost, though none were. In none of the operations.
    pub(crate) fn fail(&self) {
        self.client.raise_overrun();
    }

    /// Calls the owner. In the soft interrupt only.
    fn call(this: KArc<Self>) {
        let mut state = this.ring.lock();
        (state.queued, state.running) = (false, true);
        let lost = core::mem::take(&mut state.lost);
        drop(state);
        if lost {
            this.client.raise_overrun();
        }
        this.client.call_handler();
        let mut state = this.ring.lock();
        state.running = false;
        let call = core::mem::take(&mut state.again) && state.wants_call();
        drop(state);
        if call {
            let calls = this.calls.clone();
            calls.queue(this);
        }
    }
}

impl State {
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
}

struct Waiting(Mutex<KVec<KArc<Cq>>>);

impl Calls {
    /// **May block**; from attach.
    pub(crate) fn new(dip: DevInfo) -> Result<Self, Errno> {
        let waiting = KArc::new(Waiting(Mutex::new(KVec::new())?))?;
        let interrupt = SoftInterrupt::new(dip, waiting.clone())?;
        Ok(Self { waiting, interrupt })
    }

    /// Makes room for so many CQs: each waits once at most.
    pub(crate) fn reserve(&self, cqs: usize) -> Result<(), AllocError> {
        let mut waiting = self.waiting.0.lock();
        let more = cqs.saturating_sub(waiting.len());
        waiting.reserve(more)
    }

    fn queue(&self, cq: KArc<Cq>) {
        let refused = self.waiting.0.lock().push_within_capacity(cq);
        // There is room for every CQ.
        drop(refused);
        self.interrupt.trigger();
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
