//! What a passive stream hears, kept for whoever is slower.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fakekernel::{HostMutex, Nanos, WaitQueue};

/// Packets that may wait; more are lost, and counted.
const ROOM: usize = 4096;

/// Packets with the times they came at.
pub struct Heard<T> {
    state: HostMutex<State<T>>,
    arrived: WaitQueue,
}

struct State<T> {
    packets: VecDeque<(Nanos, T)>,
    lost: u64,
}

impl<T> Heard<T> {
    pub fn new() -> Self {
        let state = State { packets: VecDeque::new(), lost: 0 };
        Self { state: HostMutex::new(state), arrived: WaitQueue::new("packets to look at") }
    }

    /// Does not wait.
    pub fn put(&self, packet: T) {
        let now = fakekernel::now();
        let mut state = self.state.lock();
        if state.packets.len() >= ROOM {
            state.lost += 1;
            return;
        }
        state.packets.push_back((now, packet));
        drop(state);
        self.arrived.wake_all();
    }

    /// The next packet, if one comes within `patience`.
    pub fn next(&self, patience: Nanos) -> Option<(Nanos, T)> {
        let mut state = self.state.lock();
        if state.packets.is_empty() {
            state = self.arrived.wait_until(state, fakekernel::now() + patience).0;
        }
        state.packets.pop_front()
    }

    /// How many found no room.
    pub fn lost(&self) -> u64 {
        self.state.lock().lost
    }
}

/// The wall clock at the boot of the machine, since 1970.
#[expect(clippy::disallowed_methods, reason = "a capture has the time of day")]
pub fn boot_time() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_nanos(fakekernel::now().0))
}
