//! Moments in a module's work: what is to happen while it makes a certain call happens then, not at an instant of the clock.
//!
//! Much of a driver's work is between two calls that do not wait, so no instant of the machine's time is in it. Whoever has something
//! happen there ([`Machine::expect`](crate::Machine::expect)) names the call. The thread that makes it may be held meanwhile, as one is
//! whose processor has something else to run.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::host_mutex::HostMutex;
use crate::nanos::Nanos;
use crate::wait::WaitQueue;

/// A call of a host's modules into its kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The host's name.
    pub host: String,
    /// The function's name.
    pub call: String,
    /// The first such call from now on is 1, whichever module and thread makes it.
    pub pass: u32,
    /// The thread that makes the call has no processor for so long, before the function begins.
    pub holds: Nanos,
}

/// Those that are expected, and those that have come.
pub(crate) struct Moments {
    /// A bit for each call that may be expected: nearly all that are made are not.
    calls: AtomicU64,
    state: HostMutex<State>,
    come: WaitQueue,
}

#[derive(Default)]
struct State {
    expected: Vec<(usize, Moment)>,
    come: VecDeque<usize>,
}

impl Moments {
    pub(crate) fn new() -> Self {
        let come = WaitQueue::new("an expected call");
        Self { calls: AtomicU64::new(0), state: HostMutex::default(), come }
    }

    pub(crate) fn expect(&self, number: usize, moment: Moment) {
        self.calls.fetch_or(bit(&moment.call), Ordering::Relaxed);
        self.state.lock().expected.push((number, moment));
    }

    /// A module of the host makes the call: for how long its thread is held, if that was expected. One moment comes at a time.
    #[inline]
    pub(crate) fn pass(&self, host: &str, call: &str) -> Option<Nanos> {
        if self.calls.load(Ordering::Relaxed) & bit(call) == 0 {
            return None;
        }
        self.look(host, call)
    }

    fn look(&self, host: &str, call: &str) -> Option<Nanos> {
        let mut state = self.state.lock();
        let mut due = None;
        for (index, (_, moment)) in state.expected.iter_mut().enumerate() {
            if moment.call == call && moment.host == host {
                moment.pass = moment.pass.saturating_sub(1);
                if moment.pass == 0 && due.is_none() {
                    due = Some(index);
                }
            }
        }
        let (number, moment) = state.expected.remove(due?);
        state.come.push_back(number);
        drop(state);
        self.come.wake_one();
        Some(moment.holds)
    }

    /// The next that has come, in order; waits until `deadline` for one.
    pub(crate) fn next(&self, deadline: Nanos) -> Option<usize> {
        let mut state = self.state.lock();
        loop {
            if let Some(number) = state.come.pop_front() {
                return Some(number);
            }
            let (again, woken) = self.come.wait_until(state, deadline);
            state = again;
            if !woken {
                return state.come.pop_front();
            }
        }
    }

    /// Forgets all; the numbers of those that have not come.
    pub(crate) fn forget(&self) -> Vec<usize> {
        self.calls.store(0, Ordering::Relaxed);
        let state = std::mem::take(&mut *self.state.lock());
        state.expected.into_iter().map(|(number, _)| number).collect()
    }
}

/// Which of 64 sorts of names it is.
#[inline]
fn bit(call: &str) -> u64 {
    let last = call.as_bytes().last().copied().unwrap_or_default();
    1 << ((call.len() * 7 + usize::from(last)) % 64)
}

#[cfg(test)]
mod tests {
    use super::{Moment, Moments};
    use crate::nanos::Nanos;

    fn moment(host: &str, call: &str, pass: u32) -> Moment {
        Moment { host: host.into(), call: call.into(), pass, holds: Nanos(u64::from(pass)) }
    }

    #[test]
    fn a_moment_comes_once_with_the_call_of_its_host_and_its_number() {
        let moments = Moments::new();
        moments.expect(7, moment("bob", "cv_wait", 2));
        let calls = [
            ("alice", "cv_wait"),
            ("bob", "mutex_enter"),
            ("bob", "cv_wait"),
            ("bob", "cv_wait"),
            ("bob", "cv_wait"),
        ];
        let held = calls.map(|(host, call)| moments.pass(host, call));
        assert_eq!(held, [None, None, None, Some(Nanos(2)), None]);
        assert_eq!(moments.next(Nanos(0)), Some(7));
        assert_eq!(moments.forget(), [0_usize; 0]);
    }

    #[test]
    fn two_that_wait_for_one_call_come_with_it_and_the_next() {
        let moments = Moments::new();
        moments.expect(0, moment("bob", "cv_wait", 1));
        moments.expect(1, moment("bob", "cv_wait", 1));
        moments.expect(2, moment("bob", "ibt_post_send", 1));
        assert!(moments.pass("bob", "cv_wait").is_some());
        assert!(moments.pass("bob", "cv_wait").is_some());
        assert_eq!(moments.pass("bob", "cv_wait"), None);
        assert_eq!((moments.next(Nanos(0)), moments.next(Nanos(0))), (Some(0), Some(1)));
        assert_eq!(moments.forget(), [2]);
    }
}
