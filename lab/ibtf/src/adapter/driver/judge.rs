//! What a driver promises IBTL, and what is made of it when it does not keep that.
//!
//! It does not call IBTL from inside an operation: clients hold their locks over those. It calls for a CQ one at a time, not more
//! often than the CQ was armed, not before the CQ has been made and not after it has been freed. What completes was posted, and once. A
//! handle is no NULL and nobody else's, and none is left when the adapter is detached.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use fakekernel::{HostMutex, Rule, Thread};

use super::{Answer, Cq, Driver, Qp};
use crate::ibtl::Opaque;

/// Threads that are inside an operation, by their number, and how deep.
#[derive(Default)]
pub(super) struct Calls(HostMutex<BTreeMap<u64, u32>>);

/// A thread is inside as long as this is there.
pub(super) struct Inside<'a>(&'a Calls, u64);

impl Calls {
    pub(super) fn enter(&self) -> Inside<'_> {
        let me = Thread::current().did();
        *self.0.lock().entry(me).or_default() += 1;
        Inside(self, me)
    }

    fn is_inside(&self) -> bool {
        self.0.lock().contains_key(&Thread::current().did())
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut all = self.0.0.lock();
        if let Some(depth) = all.get_mut(&self.1) {
            *depth -= 1;
            if *depth == 0 {
                all.remove(&self.1);
            }
        }
    }
}

/// How often a CQ was armed and called.
#[derive(Debug, Default)]
pub(super) struct CqCalls {
    armed: u64,
    called: u64,
    running: bool,
    pub(super) freed: bool,
}

/// What is posted and has not completed, by the client's number of it: requests that will, and sends that will if they fail.
#[derive(Debug, Default)]
pub(super) struct Posted(BTreeMap<u64, (u32, u32)>);

impl Posted {
    /// One that completes in any case, or only if it fails.
    pub(super) fn add(&mut self, id: u64, surely: bool) {
        let (sure, perhaps) = self.0.entry(id).or_default();
        *if surely { sure } else { perhaps } += 1;
    }

    /// It completed, or was not taken. False if there is none.
    fn take(&mut self, id: u64, failed: bool) -> bool {
        let Some((sure, perhaps)) = self.0.get_mut(&id) else { return false };
        let known = if *sure > 0 {
            *sure -= 1;
            true
        } else if failed && *perhaps > 0 {
            *perhaps -= 1;
            true
        } else {
            false
        };
        if (*sure, *perhaps) == (0, 0) {
            self.0.remove(&id);
        }
        known
    }

    pub(super) fn withdraw(&mut self, id: u64, surely: bool) {
        if let Some((sure, perhaps)) = self.0.get_mut(&id) {
            let count = if surely { sure } else { perhaps };
            *count = count.saturating_sub(1);
        }
    }
}

impl Qp {
    /// From now on its completions are known for what they are.
    pub(super) fn meet_cqs(self: &Arc<Self>) {
        self.receive_cq.users.lock().push(Arc::downgrade(self));
        if !Arc::ptr_eq(&self.receive_cq, &self.send_cq) {
            self.send_cq.users.lock().push(Arc::downgrade(self));
        }
    }

    /// It was freed: nothing of it completes any more.
    pub(super) fn leave_cqs(&self) {
        for cq in [&self.receive_cq, &self.send_cq] {
            cq.users.lock().retain(|user| !std::ptr::eq(user.as_ptr(), self));
        }
    }

    /// It was reset: what was posted is forgotten.
    pub(super) fn forget_posted(&self) {
        *self.sends.lock() = Posted::default();
        *self.receives.lock() = Posted::default();
    }
}

impl Cq {
    /// Before the driver hears of it, which may call at once.
    pub(super) fn arming(&self) {
        self.calls.lock().armed += 1;
    }

    /// The driver has refused to arm it.
    pub(super) fn not_armed(&self) {
        self.calls.lock().armed -= 1;
    }
}

impl Driver {
    /// A call of the driver's into IBTL begins.
    pub(super) fn check_upcall(&self, name: &str) {
        if self.calls.is_inside() {
            self.blame(Rule::UpcallWithMutex, format!("{name} from inside one of the adapter's operations"));
        }
    }

    pub(super) fn begin_cq_call(&self, cq: &Cq) {
        let complaint = {
            let mut calls = cq.calls.lock();
            calls.called += 1;
            if calls.freed {
                Some("of a CQ that is freed")
            } else if cq.handle.get().is_none() {
                Some("of a CQ that ibc_alloc_cq has not made yet")
            } else if std::mem::replace(&mut calls.running, true) {
                Some("while the call before is still out")
            } else if calls.called > calls.armed {
                Some("of a CQ that is not armed")
            } else {
                None
            }
        };
        if let Some(complaint) = complaint {
            self.blame(Rule::AbsurdArgument, format!("ibc_cq_handler {complaint}"));
        }
    }

    pub(super) fn end_cq_call(&self, cq: &Cq) {
        cq.calls.lock().running = false;
    }

    /// Something completed.
    pub(super) fn check_completion(&self, cq: &Cq, id: u64, failed: bool) {
        if !self.kernel.machine().config().checks {
            return;
        }
        let users: Vec<Arc<Qp>> = cq.users.lock().iter().filter_map(Weak::upgrade).collect();
        let of = |side: &Arc<Cq>, posted: &HostMutex<Posted>| {
            std::ptr::eq(&raw const **side, cq) && posted.lock().take(id, failed)
        };
        let received =
            |qp: &Arc<Qp>| of(&qp.receive_cq, qp.srq.as_ref().map_or(&qp.receives, |srq| &srq.receives));
        let known = users.iter().any(|qp| received(qp) || of(&qp.send_cq, &qp.sends));
        if !known {
            let what =
                format!("a completion of request {id:#x}, which is not posted or has completed before");
            self.blame(Rule::AbsurdArgument, what);
        }
    }

    /// A handle of the driver's comes.
    pub(super) fn gave(&self, kind: &'static str, handle: Opaque) {
        let address = handle.get().addr();
        let new = self.given.lock().insert((kind, address));
        if address == 0 || !new {
            let what = format!("{kind} {address:#x} is NULL or given to somebody already");
            self.blame(Rule::AbsurdArgument, what);
        }
    }

    /// Gives a handle back by `free`: from before that on it may be given out again, unless the driver refuses.
    pub(super) fn give_back(
        &self,
        kind: &'static str,
        handle: Opaque,
        free: impl FnOnce() -> Answer<()>,
    ) -> Answer<()> {
        let key = (kind, handle.get().addr());
        self.given.lock().remove(&key);
        free().inspect_err(|_| {
            self.given.lock().insert(key);
        })
    }

    /// Something that does not fail: a client has no way out.
    pub(super) fn must(&self, answer: Answer<()>) {
        if let Err(status) = answer {
            self.blame(
                Rule::AbsurdArgument,
                format!("what was made cannot be taken down: status {}", status.0),
            );
        }
    }

    /// Handles of the driver's that nobody has given back.
    pub(super) fn left(&self) -> Vec<(&'static str, usize)> {
        self.given.lock().iter().copied().collect()
    }
}
