//! Completion queues.
//!
//! A completion is put there in the middle of somebody's post, with that client's locks held: the owner's handler is called later
//! (`calls.rs`), one call at a time for a CQ. Of a moderated CQ the call waits for the end of the post, or for as many completions as
//! were allowed.

use ibtf_provider::{Arm, ClientCq, Completion, Status};
use kernel::sync::Mutex;
use kernel::{AllocError, KArc, KVec};

use crate::calls::{Call, Caller, Calls};
use crate::qp::Qp;
use crate::ring::{Pushed, Ring};

/// A completion queue.
pub(crate) struct Cq {
    ring: Mutex<State>,
    client: KArc<ClientCq>,
    /// Queue pairs that have it; one that has it for both queues is there twice.
    users: Mutex<KVec<KArc<Qp>>>,
    caller: Caller,
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
    pub(crate) fn new(entries: usize, client: KArc<ClientCq>, caller: Caller) -> Result<Self, AllocError> {
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
        Ok(Self { ring: Mutex::new(state)?, client, users: Mutex::new(KVec::new())?, caller })
    }

    fn calls(&self) -> &KArc<Calls> {
        self.caller.calls()
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
            this.calls().queue(Call::Cq(this.clone()), may_wait);
        } else if is_enough {
            this.calls().trigger();
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
            this.calls().queue(Call::Cq(this.clone()), false);
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

    /// `CQ_HDL_INVALID` if it has queue pairs of the other kind: special ones share no CQ with others (IBA C11-15).
    pub(crate) fn add_user(&self, qp: &KArc<Qp>) -> Result<(), Status> {
        let mut users = self.users.lock();
        if users.iter().any(|user| user.is_special() != qp.is_special()) {
            return Err(Status::CQ_HDL_INVALID);
        }
        Ok(users.push(qp.clone())?)
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
    pub(crate) fn call(this: KArc<Self>) {
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
            let calls = this.calls().clone();
            calls.queue(Call::Cq(this), false);
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
