//! Transmit rings beside the first: the queue pair of one that fails is replaced alone, while the link and the others go on.
//!
//! The first ring's queue pair has the link's address and is in the groups; when that fails the link is built anew, and so it is when
//! another one fails again soon after it was replaced, or cannot be: the link's pauses are for that.

use super::{Generation, STEADY};
use crate::time::Instant;

/// What is wrong with a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The adapter says so.
    Failed,
    /// It takes sends and does not complete them.
    Stalled,
}

/// What has failed, and so has to be built again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// Nothing: it is gone already.
    Nothing,
    /// The queue pair of that ring.
    Ring,
    /// The link.
    Link,
}

#[derive(Clone, Copy, Debug, Default)]
enum Ring {
    /// It has no queue pair, and none is being made.
    #[default]
    Idle,
    /// Its queue pair is of this generation; and when it took the place of one before, since the link was built.
    Stands(Generation, Option<Instant>),
    /// Its queue pair is to be replaced.
    Failed(Why),
    /// Somebody is at it: a queue pair that nobody knows yet may fail meanwhile.
    Replacing,
}

/// The rings of a link, `N` at most; the first one's place is never used.
#[derive(Debug)]
pub struct SendRings<const N: usize>([Ring; N]);

impl<const N: usize> Default for SendRings<N> {
    fn default() -> Self {
        Self([Ring::Idle; N])
    }
}

impl<const N: usize> SendRings<N> {
    /// All of them stand now, as one build.
    pub fn all_stand(&mut self, generation: Generation) {
        self.0.fill(Ring::Stands(generation, None));
    }

    /// The link is taken down.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The queue pair of this generation has failed.
    pub fn failed(&mut self, now: Instant, ring: usize, generation: Generation, why: Why) -> Failed {
        match self.0.get_mut(ring) {
            Some(state) if matches!(*state, Ring::Stands(stands, _) if stands == generation) => {
                Self::fail(now, state, why)
            }
            _ => Failed::Nothing,
        }
    }

    /// Whether the queue pair of this generation stands there.
    pub fn stands(&self, ring: usize, generation: Generation) -> bool {
        matches!(self.0.get(ring), Some(Ring::Stands(stands, _)) if *stands == generation)
    }

    /// The same, by whoever does not know which one stands there.
    pub fn failed_as_it_is(&mut self, now: Instant, ring: usize) -> Failed {
        self.0.get_mut(ring).map_or(Failed::Nothing, |state| Self::fail(now, state, Why::Failed))
    }

    fn fail(now: Instant, state: &mut Ring, why: Why) -> Failed {
        match *state {
            Ring::Stands(_, Some(at)) if now - at < STEADY => {
                *state = Ring::Idle;
                Failed::Link
            }
            Ring::Stands(..) => {
                *state = Ring::Failed(why);
                Failed::Ring
            }
            Ring::Idle | Ring::Failed(_) | Ring::Replacing => Failed::Nothing,
        }
    }

    /// The next one to replace. Whoever replaces it says [`SendRings::replaced`] or [`SendRings::given_up`].
    pub fn next_failed(&mut self) -> Option<(usize, Why)> {
        self.0.iter_mut().enumerate().find_map(|(ring, state)| match *state {
            Ring::Failed(why) => {
                *state = Ring::Replacing;
                Some((ring, why))
            }
            _ => None,
        })
    }

    /// Whether one is being replaced.
    pub fn is_replacing(&self) -> bool {
        self.0.iter().any(|state| matches!(state, Ring::Replacing))
    }

    /// Nobody is at it any more, whether or not it was replaced.
    pub fn given_up(&mut self, ring: usize) {
        if let Some(state @ Ring::Replacing) = self.0.get_mut(ring) {
            *state = Ring::Idle;
        }
    }

    /// It is replaced, by a queue pair of this generation.
    pub fn replaced(&mut self, now: Instant, ring: usize, generation: Generation) {
        if let Some(state) = self.0.get_mut(ring) {
            *state = Ring::Stands(generation, Some(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn generations() -> [Generation; 10] {
        let mut all = crate::link::Generations::default();
        core::array::from_fn(|_| all.draw())
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn sender_that_fails_is_replaced_once_and_another_failure_soon_after_is_the_link_s() {
        let (mut rings, g) = (SendRings::<8>::default(), generations());
        rings.all_stand(g[7]);
        assert_eq!(rings.failed(at(0), 2, g[7], Why::Failed), Failed::Ring);
        assert_eq!(rings.failed(at(0), 2, g[7], Why::Stalled), Failed::Nothing, "known");
        assert_eq!(rings.failed_as_it_is(at(0), 2), Failed::Nothing);
        assert!(!rings.is_replacing());
        assert_eq!(rings.next_failed(), Some((2, Why::Failed)));
        assert_eq!((rings.next_failed(), rings.is_replacing()), (None, true));
        rings.replaced(at(1), 2, g[8]);
        assert!(!rings.is_replacing());
        assert_eq!(rings.failed(at(2), 2, g[7], Why::Failed), Failed::Nothing, "of the one before");
        assert_eq!(rings.failed(at(2), 3, g[7], Why::Stalled), Failed::Ring, "another one");
        assert_eq!(rings.failed(at(10), 2, g[8], Why::Failed), Failed::Link);
        rings.clear();
        assert_eq!(rings.next_failed(), None);
        rings.all_stand(g[9]);
        assert_eq!(rings.failed_as_it_is(at(11), 2), Failed::Ring);
    }

    #[test]
    fn sender_that_has_stood_for_a_while_is_replaced_alone_again() {
        let (mut rings, g) = (SendRings::<8>::default(), generations());
        rings.all_stand(g[1]);
        for round in 1..4 {
            assert_eq!(rings.failed(at(20 * round as u64), 1, g[round], Why::Stalled), Failed::Ring);
            assert_eq!(rings.next_failed(), Some((1, Why::Stalled)));
            rings.replaced(at(20 * round as u64), 1, g[round + 1]);
        }
    }
}
