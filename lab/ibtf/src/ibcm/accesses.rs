//! Which adapters are asked something just now, and which are about to go (`hca_acc_cnt` and `hca_state` of `ibcm_impl.c`).

use std::collections::{BTreeMap, BTreeSet};

use fakekernel::{HostMutex, Nanos, WaitQueue, now};

/// How long the communication manager waits for what is asked of an adapter that is to go (`ibcm_wait_for_acc_cnt_timeout`).
const PATIENCE: Nanos = Nanos::from_secs(2);

/// By node GUID of the adapter.
pub(super) struct Accesses {
    state: HostMutex<State>,
    over: WaitQueue,
}

#[derive(Default)]
struct State {
    asked: BTreeMap<u64, usize>,
    going: BTreeSet<u64>,
}

/// A call that asks something of an adapter's port.
pub(super) struct Access<'a> {
    of: &'a Accesses,
    guid: u64,
}

impl Accesses {
    pub fn new() -> Self {
        Self { state: HostMutex::default(), over: WaitQueue::new("what ibcm asks of an adapter that goes") }
    }

    /// `None` while the adapter is about to go.
    pub fn begin(&self, guid: u64) -> Option<Access<'_>> {
        let mut state = self.state.lock();
        if state.going.contains(&guid) {
            return None;
        }
        *state.asked.entry(guid).or_default() += 1;
        Some(Access { of: self, guid })
    }

    pub fn is_going(&self, guid: u64) -> bool {
        self.state.lock().going.contains(&guid)
    }

    /// Nothing new is asked of it.
    pub fn go(&self, guid: u64) {
        self.state.lock().going.insert(guid);
    }

    /// It stays, or is gone.
    pub fn end(&self, guid: u64) {
        self.state.lock().going.remove(&guid);
    }

    /// Nothing new is asked, and what is asked is waited for a while; how many calls are out then. May block.
    pub fn drain(&self, guid: u64) -> usize {
        let deadline = now() + PATIENCE;
        let mut state = self.state.lock();
        state.going.insert(guid);
        loop {
            let asked = state.asked.get(&guid).copied().unwrap_or(0);
            if asked == 0 || now() >= deadline {
                return asked;
            }
            state = self.over.wait_until(state, deadline).0;
        }
    }
}

impl Drop for Access<'_> {
    fn drop(&mut self) {
        let mut state = self.of.state.lock();
        if let Some(asked) = state.asked.get_mut(&self.guid) {
            *asked -= 1;
            if *asked == 0 {
                state.asked.remove(&self.guid);
            }
        }
        drop(state);
        self.of.over.wake_all();
    }
}
