//! Who may ask subnet administration: `ibcm_flow_enter` and `ibcm_flow_exit` of `ibcm_impl.c`, one bound for the whole machine.

use std::collections::VecDeque;
use std::sync::Arc;

use fakekernel::{HostMutex, WaitQueue};

/// Calls that are let in, of all ports and clients together (`ibcm_saa_simul_max`).
const MOST: usize = 8;
/// How many wait together and are let in together.
const CHUNK: usize = 4;
/// Those that wait are let in when fewer than this are left inside.
const LOW: usize = MOST - CHUNK;

/// The bound. Whoever finds others waiting waits behind them, and those that wait are let in four at a time, once fewer than four
/// are inside: four that are never answered keep all of them out.
pub(super) struct Flow {
    state: HostMutex<State>,
}

#[derive(Default)]
struct State {
    inside: usize,
    waiting: VecDeque<Chunk>,
}

struct Chunk {
    size: usize,
    gate: Arc<Gate>,
}

/// Where a chunk waits.
struct Gate {
    open: HostMutex<bool>,
    opened: WaitQueue,
}

/// A call that was let in.
pub(super) struct Turn<'a>(&'a Flow);

impl Flow {
    pub fn new() -> Self {
        Self { state: HostMutex::default() }
    }

    /// Waits for a turn.
    pub fn enter(&self) -> Turn<'_> {
        if let Some(gate) = self.queue() {
            let mut open = gate.open.lock();
            while !*open {
                open = gate.opened.wait(open);
            }
        }
        Turn(self)
    }

    /// Lets the caller in, or says where to wait.
    fn queue(&self) -> Option<Arc<Gate>> {
        let mut state = self.state.lock();
        if state.waiting.is_empty() && state.inside < MOST {
            state.inside += 1;
            return None;
        }
        if let Some(last) = state.waiting.back_mut().filter(|chunk| chunk.size < CHUNK) {
            last.size += 1;
            return Some(last.gate.clone());
        }
        let opened = WaitQueue::new("one of ibcm's calls to subnet administration");
        let gate = Arc::new(Gate { open: HostMutex::new(false), opened });
        state.waiting.push_back(Chunk { size: 1, gate: gate.clone() });
        Some(gate)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.inside -= 1;
        if state.inside >= LOW {
            return;
        }
        let Some(chunk) = state.waiting.pop_front() else { return };
        state.inside += chunk.size;
        drop(state);
        *chunk.gate.open.lock() = true;
        chunk.gate.opened.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::{Flow, MOST};

    #[test]
    fn nine_calls_are_one_too_many_and_four_that_are_never_answered_keep_the_ninth_out() {
        let flow = Flow::new();
        let mut inside: Vec<_> = (0..MOST).map(|_| flow.enter()).collect();
        let gate = flow.queue().expect("it waits");
        inside.truncate(4);
        assert!(!*gate.open.lock(), "four are inside");
        assert!(
            flow.queue().is_some(),
            "who comes later waits behind the ninth, although there are four places"
        );
        inside.truncate(3);
        assert!(*gate.open.lock(), "three are inside");
        assert_eq!(flow.state.lock().inside, 5, "both that waited were let in");
    }
}
