//! How long to wait after the n-th failure in a row.

use core::time::Duration;

use crate::table::mix;

/// Doubling delays between two bounds, each shortened by up to a quarter at random so that hosts that lost the same SM do not
/// all come back in the same instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// Never longer.
    pub longest: Duration,
}

impl Backoff {
    /// The delay after `failures` failures in a row (1 or more; 0 counts as 1).
    pub fn delay(&self, failures: u32, jitter: &mut Jitter) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        let full = self.first.saturating_mul(1 << doublings).min(self.longest);
        jitter.shorten(full)
    }
}

/// A reproducible source of small differences.
#[derive(Clone, Debug)]
pub struct Jitter(u64);

impl Jitter {
    /// Two machines with one seed differ from none.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// `full` less up to a quarter.
    pub fn shorten(&mut self, full: Duration) -> Duration {
        full - full / 1000 * (self.next() % 250) as u32
    }

    /// Evenly from nothing to just below `full`.
    pub fn below(&mut self, full: Duration) -> Duration {
        full / (1 << 16) * (self.next() % (1 << 16)) as u32
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_never_leave_their_bounds() {
        let backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30) };
        let mut jitter = Jitter::new(3);
        for failures in 0..100 {
            let full = Duration::from_secs(1 << failures.clamp(1, 6) >> 1).min(backoff.longest);
            let delay = backoff.delay(failures, &mut jitter);
            assert!(delay <= full && delay >= full * 3 / 4, "{failures}: {delay:?} of {full:?}");
        }
    }

    #[test]
    fn hosts_that_spread_over_a_minute_come_about_as_many_in_each_second() {
        let mut jitter = Jitter::new(5);
        let mut came = [0; 60];
        (0..6_000).for_each(|_| came[jitter.below(Duration::from_secs(60)).as_secs() as usize] += 1);
        assert!(came.iter().all(|second| (60..=150).contains(second)), "{came:?}");
    }
}
