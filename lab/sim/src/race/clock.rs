//! Vector clocks: how much of what each thread has done lies before something.

/// A thread's place in clocks. Threads that have ended leave theirs to later ones.
pub(super) type Slot = u16;

/// For each slot, up to which of its times everything is known (Fidge; Mattern, 1988).
#[derive(Debug, Default)]
pub(super) struct Clock(Vec<u32>);

impl Clone for Clock {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }

    fn clone_from(&mut self, from: &Self) {
        self.0.clone_from(&from.0);
    }
}

impl Clock {
    #[inline]
    pub(super) fn of(&self, slot: Slot) -> u32 {
        self.0.get(usize::from(slot)).copied().unwrap_or(0)
    }

    pub(super) fn set(&mut self, slot: Slot, time: u32) {
        let index = usize::from(slot);
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        self.0[index] = time;
    }

    pub(super) fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, others) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*others);
        }
    }

    fn covers(&self, other: &Self) -> bool {
        other.0.iter().enumerate().all(|(slot, time)| self.0.get(slot).copied().unwrap_or(0) >= *time)
    }
}

/// What one thread leaves for another: everything before the last release.
#[derive(Clone, Debug, Default)]
pub(super) struct Left {
    clock: Clock,
    /// Who knew all of it and was the last to leave something, and when: whoever knows that moment knows the whole clock.
    by: Option<(Slot, u32)>,
}

impl Left {
    /// Adds what `clock`, of the thread in `slot`, knows.
    pub(super) fn add(&mut self, slot: Slot, clock: &Clock) {
        if self.is_known_to(clock) || clock.covers(&self.clock) {
            self.put(slot, clock);
        } else {
            self.clock.join(clock);
            self.by = None;
        }
    }

    /// Has nothing in it but what `clock` knows.
    pub(super) fn put(&mut self, slot: Slot, clock: &Clock) {
        self.clock.clone_from(clock);
        self.by = Some((slot, clock.of(slot)));
    }

    fn is_known_to(&self, clock: &Clock) -> bool {
        self.by.is_some_and(|(slot, time)| clock.of(slot) >= time)
    }

    pub(super) fn give_to(&self, clock: &mut Clock) {
        if !self.is_known_to(clock) {
            clock.join(&self.clock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Left};

    fn clock(times: &[u32]) -> Clock {
        Clock(times.to_vec())
    }

    #[test]
    fn what_two_have_left_one_after_the_other_is_what_both_knew() {
        let mut left = Left::default();
        left.add(0, &clock(&[3, 0]));
        left.add(1, &clock(&[1, 5]));
        let mut mine = clock(&[0, 0, 7]);
        left.give_to(&mut mine);
        assert_eq!(mine.0, [3, 5, 7]);
    }

    #[test]
    fn what_is_put_takes_the_place_of_what_was_there() {
        let mut left = Left::default();
        left.add(0, &clock(&[3, 0]));
        left.put(1, &clock(&[1, 5]));
        let mut mine = clock(&[]);
        left.give_to(&mut mine);
        assert_eq!(mine.0, [1, 5]);
    }
}
