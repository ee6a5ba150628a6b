//! Completions that wait, and when their owner wants to hear of them. No lock and no call: those are `cq.rs`'s.

use ibtf_provider::{Arm, Completion, CompletionStatus};
use kernel::{AllocError, KVec};

/// The completions of a CQ.
pub(crate) struct Ring {
    slots: KVec<Completion>,
    head: usize,
    count: usize,
    armed: Option<Arm>,
    overrun: bool,
}

/// What a completion that was put there has caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// Nothing.
    Quiet,
    /// The handler is to be called.
    Fire,
    /// There was no room: it is lost, and so is every later one.
    Overrun,
}

const EMPTY: Completion = Completion::of(0, ibtf_provider::Opcode::Send, CompletionStatus::Success, 0);

impl Ring {
    /// Room for `entries`.
    pub(crate) fn new(entries: usize) -> Result<Self, AllocError> {
        let slots = KVec::from_fn(entries, |_| EMPTY)?;
        Ok(Self { slots, head: 0, count: 0, armed: None, overrun: false })
    }

    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    fn at(&self, index: usize) -> usize {
        let at = self.head + index;
        if at >= self.slots.len() { at - self.slots.len() } else { at }
    }

    pub(crate) fn push(&mut self, completion: Completion) -> Pushed {
        if self.overrun {
            return Pushed::Quiet;
        }
        let at = self.at(self.count);
        if self.count == self.slots.len() {
            self.overrun = true;
            return Pushed::Overrun;
        }
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = completion;
            self.count += 1;
        }
        if self.armed.is_some_and(|arm| wakes(arm, &completion)) {
            self.armed = None;
            return Pushed::Fire;
        }
        Pushed::Quiet
    }

    /// Arms it for one call: true if there is reason for it already. An arming for solicited ones does not narrow one for all.
    pub(crate) fn arm(&mut self, arm: Arm) -> bool {
        let arm = if self.armed == Some(Arm::Next) { Arm::Next } else { arm };
        let waiting = (0..self.count).filter_map(|index| self.slots.get(self.at(index)));
        let fire = waiting.into_iter().any(|completion| wakes(arm, completion));
        self.armed = if fire { None } else { Some(arm) };
        fire
    }

    /// Completions that wait.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The first one.
    pub(crate) fn first(&self) -> Option<&Completion> {
        if self.count == 0 { None } else { self.slots.get(self.head) }
    }

    /// Takes the first one out.
    pub(crate) fn advance(&mut self) {
        if self.count != 0 {
            self.head = self.at(1);
            self.count -= 1;
        }
    }

    /// Takes out what is of a queue pair that goes.
    pub(crate) fn forget(&mut self, qpn: u32) {
        let mut kept = 0;
        for index in 0..self.count {
            let (from, to) = (self.at(index), self.at(kept));
            let Some(completion) = self.slots.get(from).copied() else { continue };
            if completion.local_qpn != qpn
                && let Some(slot) = self.slots.get_mut(to)
            {
                *slot = completion;
                kept += 1;
            }
        }
        self.count = kept;
    }
}

/// Whether a completion is what an owner waits for.
fn wakes(arm: Arm, completion: &Completion) -> bool {
    arm == Arm::Next || completion.solicited || completion.status != CompletionStatus::Success
}

#[cfg(test)]
mod tests {
    use super::{Pushed, Ring};
    use ibtf_provider::{Arm, Completion, CompletionStatus, Opcode};

    fn receive(id: u64) -> Completion {
        Completion::of(id, Opcode::Receive, CompletionStatus::Success, 7)
    }

    fn ids(ring: &mut Ring) -> Vec<u64> {
        core::iter::from_fn(|| {
            let id = ring.first()?.id;
            ring.advance();
            Some(id)
        })
        .collect()
    }

    #[test]
    fn handler_is_called_once_for_an_arming() {
        let mut ring = Ring::new(4).unwrap();
        assert_eq!(ring.push(receive(1)), Pushed::Quiet);
        assert!(ring.arm(Arm::Next), "something waits already");
        assert_eq!(ids(&mut ring), [1]);
        assert!(!ring.arm(Arm::Next));
        assert_eq!(ring.push(receive(2)), Pushed::Fire);
        assert_eq!(ring.push(receive(3)), Pushed::Quiet);
    }

    #[test]
    fn solicited_arming_waits_for_a_solicited_completion_or_a_failed_one() {
        let mut ring = Ring::new(8).unwrap();
        assert!(!ring.arm(Arm::NextSolicited));
        assert_eq!(ring.push(receive(1)), Pushed::Quiet);
        assert_eq!(ring.push(Completion { solicited: true, ..receive(2) }), Pushed::Fire);
        ids(&mut ring);
        assert!(!ring.arm(Arm::NextSolicited));
        let failed = Completion { status: CompletionStatus::Flushed, ..receive(3) };
        assert_eq!(ring.push(failed), Pushed::Fire);
    }

    #[test]
    fn arming_for_solicited_ones_does_not_narrow_an_arming_for_all() {
        let mut ring = Ring::new(2).unwrap();
        assert!(!ring.arm(Arm::Next));
        assert!(!ring.arm(Arm::NextSolicited));
        assert_eq!(ring.push(receive(1)), Pushed::Fire);
    }

    #[test]
    fn one_too_many_is_an_overrun_once_and_what_was_there_stays() {
        let mut ring = Ring::new(2).unwrap();
        ring.push(receive(1));
        ring.push(receive(2));
        assert_eq!((ring.push(receive(3)), ring.push(receive(4))), (Pushed::Overrun, Pushed::Quiet));
        assert_eq!(ids(&mut ring), [1, 2]);
    }

    #[test]
    fn completions_of_a_queue_pair_go_with_it_and_the_others_keep_their_order() {
        let mut ring = Ring::new(4).unwrap();
        ring.push(receive(0));
        ring.advance();
        for id in 1..=4 {
            ring.push(Completion { local_qpn: 7 + (id % 2) as u32, ..receive(id) });
        }
        ring.forget(7);
        assert_eq!(ids(&mut ring), [1, 3]);
    }
}
