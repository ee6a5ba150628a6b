//! Threads that lose their processor for long, at places that are rarely passed.
//!
//! What races with a call that lasts is found soon: time goes by while the thread waits. Between two calls that do not wait no time goes
//! by, so whatever is to happen there has to find the one moment. A stall makes such a moment long, as a processor does that has something
//! else to run. Places that are passed all the time, those of each packet, would get all the stalls if every pass had the same chance: the
//! `n`th pass of a place has the chance of the first divided by `n`.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::nanos::Nanos;

/// How often threads stall and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalls {
    /// One in so many of those who pass a place first, at least 1.
    pub one_in: u32,
    /// The longest stall; of all orders of magnitude from a microsecond on there are as many.
    pub longest: Nanos,
}

/// The shortest stall.
const SHORTEST: Nanos = Nanos(1_000);
/// Counters; places that share one count as one.
const COUNTERS: usize = 1 << 12;

/// What has been passed since stalls began.
pub(crate) struct Places {
    stalls: Stalls,
    passes: Box<[u32]>,
    rng: ChaCha8Rng,
}

impl Places {
    pub(crate) fn new(stalls: Stalls, seed: u64) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(seed ^ 0x7374_616c_6c00_0000);
        Self { stalls, passes: vec![0; COUNTERS].into_boxed_slice(), rng }
    }

    /// A thread passes the place with this return address: for how long it stalls, if it does.
    pub(crate) fn pass(&mut self, pc: usize) -> Option<Nanos> {
        // The high half of a product depends on every bit of the address.
        let hash = (pc as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let passes = &mut self.passes[hash as usize % COUNTERS];
        *passes = passes.saturating_add(1);
        let chance = u64::from(self.stalls.one_in.max(1)) * u64::from(*passes);
        (self.rng.random_range(0..chance) == 0).then(|| self.span())
    }

    fn span(&mut self) -> Nanos {
        let longest = self.stalls.longest.0.max(SHORTEST.0 + 1) as f64;
        let order = self.rng.random_range((SHORTEST.0 as f64).ln()..=longest.ln());
        Nanos(order.exp() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::{Places, SHORTEST, Stalls};
    use crate::nanos::Nanos;

    #[test]
    fn a_place_passed_a_thousand_times_as_often_stalls_a_few_times_as_often() {
        let stalls = Stalls { one_in: 20, longest: Nanos::from_millis(100) };
        let mut times = [0; 2];
        for seed in 0..500 {
            let mut places = Places::new(stalls, seed);
            let mut pass = |pc: usize, all: u32| (0..all).filter(|_| places.pass(pc).is_some()).count();
            times[0] += pass(0x1000, 10);
            times[1] += pass(0x2000, 10_000);
        }
        // The sums of 1/n up to 10 and 10,000 are 2.9 and 9.8; 500 seeds, one in 20.
        assert!((50..100).contains(&times[0]), "{times:?}");
        assert!((195..295).contains(&times[1]), "{times:?}");
    }

    #[test]
    fn stalls_are_of_all_orders_of_magnitude() {
        let longest = Nanos::from_millis(100);
        let mut places = Places::new(Stalls { one_in: 1, longest }, 3);
        let spans: Vec<Nanos> = (0..1_000).filter_map(|pc| places.pass(pc * 64)).collect();
        assert!(spans.iter().all(|span| (SHORTEST..=longest).contains(span)));
        for decade in [1_000, 10_000, 100_000, 1_000_000, 10_000_000] {
            let in_it = spans.iter().filter(|span| (decade..decade * 10).contains(&span.0)).count();
            assert!(in_it > 100, "{in_it} from {decade} ns on");
        }
    }
}
