//! Receives that queue pairs share.
//!
//! A queue pair takes the first one under the queue's lock, fills it without, and then says so: what is long keeps nobody from the
//! next one. Its lock is taken inside that of the queue pair.

use ibtf_provider::{ClientSrq, ReceiveRequest, SrqSizes, Status};
use kernel::sync::Mutex;
use kernel::{AllocError, KArc};

use crate::buffers::{Buffers, Taken};
use crate::calls::Caller;
use crate::domain::Inside;

/// A shared receive queue.
pub(crate) struct Srq {
    domain: Inside,
    sizes: SrqSizes,
    client: KArc<ClientSrq>,
    _caller: Caller,
    state: Mutex<State>,
}

struct State {
    buffers: Buffers,
    /// Queue pairs that have it.
    users: u32,
    limit: Limit,
}

/// When its client wants to be told that receives run out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Limit {
    /// Once fewer than that are left; 0 for never.
    below: u32,
    /// It is to be told already.
    due: bool,
}

impl Limit {
    /// Whether somebody has to see to it that the client is told, with so many left.
    fn reached(&mut self, left: usize) -> bool {
        if left >= self.below as usize {
            return false;
        }
        self.below = 0;
        !core::mem::replace(&mut self.due, true)
    }
}

impl State {
    /// Receives that are not used; what was taken may come back.
    fn left(&self) -> usize {
        self.buffers.len() + self.buffers.taken()
    }

    /// What was taken is used; whether somebody has to see to it that the client is told.
    fn used(&mut self) -> bool {
        self.buffers.used();
        self.limit.reached(self.left())
    }

    fn arm(&mut self, below: u32) -> bool {
        self.limit.below = below;
        self.limit.reached(self.left())
    }
}

impl Srq {
    pub(crate) fn new(
        domain: Inside,
        sizes: SrqSizes,
        client: KArc<ClientSrq>,
        caller: Caller,
    ) -> Result<KArc<Self>, AllocError> {
        let buffers = Buffers::new(sizes.receives, sizes.segments)?;
        let state = State { buffers, users: 0, limit: Limit::default() };
        KArc::new(Self { domain, sizes, client, _caller: caller, state: Mutex::new(state)? })
    }

    /// Its protection domain.
    pub(crate) fn domain(&self) -> &Inside {
        &self.domain
    }

    /// Its sizes, and the limit that it is armed with.
    pub(crate) fn query(&self) -> (SrqSizes, u32) {
        (self.sizes, self.state.lock().limit.below)
    }

    /// A queue pair has it.
    pub(crate) fn hold(&self) {
        self.state.lock().users += 1;
    }

    /// And no more.
    pub(crate) fn release(&self) {
        let mut state = self.state.lock();
        state.users = state.users.saturating_sub(1);
    }

    /// `SRQ_IN_USE` while a queue pair has it.
    pub(crate) fn check_unused(&self) -> Result<(), Status> {
        if self.state.lock().users == 0 { Ok(()) } else { Err(Status::SRQ_IN_USE) }
    }

    pub(crate) fn post<'a>(
        &self,
        requests: &mut dyn Iterator<Item = ReceiveRequest<'a>>,
    ) -> (u32, Result<(), Status>) {
        let mut state = self.state.lock();
        let mut taken = 0;
        for request in requests {
            if let Err(status) = state.buffers.push(request.id(), request.segments()) {
                return (taken, Err(status));
            }
            taken += 1;
        }
        (taken, Ok(()))
    }

    /// The next receive; false if there is none.
    pub(crate) fn take(&self, taken: &mut Taken) -> bool {
        self.state.lock().buffers.take(taken)
    }

    /// What was taken is used; whether somebody has to see to it that the client is told.
    pub(crate) fn used(&self) -> bool {
        self.state.lock().used()
    }

    /// It is not.
    pub(crate) fn give_back(&self, taken: &Taken) {
        self.state.lock().buffers.give_back(taken);
    }

    /// Has the client told once when fewer are left; whether that is so already, and somebody has to see to it.
    pub(crate) fn arm(&self, below: u32) -> Result<bool, Status> {
        if below > self.sizes.receives {
            return Err(Status::SRQ_LIMIT_EXCEEDED);
        }
        Ok(self.state.lock().arm(below))
    }

    /// Tells the client. In none of the operations.
    pub(crate) fn tell(&self) {
        self.state.lock().limit.due = false;
        self.client.raise_limit();
    }
}

#[cfg(test)]
mod tests {
    use super::{Limit, State};
    use crate::buffers::{Buffers, Taken};

    #[test]
    fn client_is_told_once_for_an_arming() {
        let mut limit = Limit { below: 3, due: false };
        assert!(!limit.reached(3));
        assert!(limit.reached(2));
        assert!(!limit.reached(1), "it has been told");
        limit.below = 2;
        assert!(!limit.reached(1), "it is to be told, and was not yet");
        (limit.due, limit.below) = (false, 2);
        assert!(limit.reached(1));
        limit.due = false;
        assert!(!limit.reached(0), "nobody has armed it");
    }

    #[test]
    fn receive_that_is_given_back_is_none_that_is_missing() {
        let mut state = State { buffers: Buffers::new(2, 1).unwrap(), users: 1, limit: Limit::default() };
        for id in 0..2 {
            state.buffers.push(id, &[]).unwrap();
        }
        assert!(!state.arm(2));
        let (mut one, mut two) = (Taken::none(), Taken::none());
        assert!(state.buffers.take(&mut one) && state.buffers.take(&mut two));
        state.buffers.give_back(&one);
        assert_eq!(state.limit.below, 2, "it is still armed");
        assert!(state.used(), "one of two is left");
        state.limit.due = false;
        assert!(!state.used(), "the client has been told");
    }
}
