//! Fault points.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::config::{FaultKind, FaultPlan, Faults};

/// Decides which fault points fail. Has random numbers of its own, so that switching a fault on does not change the rest of
/// the run before its first failure.
#[derive(Debug)]
pub(crate) struct Injector {
    points: BTreeMap<FaultKind, Point>,
    rng: ChaCha8Rng,
}

#[derive(Debug, Default)]
struct Point {
    plan: FaultPlan,
    reached: u64,
}

impl Injector {
    pub(crate) fn new(faults: Faults, seed: u64) -> Self {
        let points = faults.0.into_iter().map(|(kind, plan)| (kind, Point { plan, reached: 0 })).collect();
        Self { points, rng: ChaCha8Rng::seed_from_u64(seed ^ 0x6661_756c_7400_0000) }
    }

    pub(crate) fn set(&mut self, kind: FaultKind, plan: FaultPlan) {
        self.points.insert(kind, Point { plan, reached: 0 });
    }

    pub(crate) fn reached(&self, kind: FaultKind) -> u64 {
        self.points.get(&kind).map_or(0, |p| p.reached)
    }

    pub(crate) fn fails(&mut self, kind: FaultKind) -> bool {
        let point = self.points.entry(kind).or_default();
        let count = point.reached;
        point.reached += 1;
        match point.plan {
            FaultPlan::Never | FaultPlan::OneIn(0) => false,
            FaultPlan::OneIn(n) => self.rng.random_range(0..n) == 0,
            FaultPlan::Nth(n) => count == n,
            FaultPlan::From(n) => count >= n,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Injector;
    use crate::config::{FaultKind, FaultPlan, Faults};

    #[test]
    fn the_nth_plan_fails_once() {
        let mut injector = Injector::new(Faults::default(), 1);
        injector.set(FaultKind::ALLOCB, FaultPlan::Nth(2));
        let failed: Vec<bool> = (0..5).map(|_| injector.fails(FaultKind::ALLOCB)).collect();
        assert_eq!(failed, [false, false, true, false, false]);
        assert_eq!(injector.reached(FaultKind::ALLOCB), 5);
    }

    #[test]
    fn one_in_one_always_fails_and_one_in_none_never() {
        let mut injector = Injector::new(Faults::default(), 1);
        injector.set(FaultKind::KMEM, FaultPlan::OneIn(1));
        assert!((0..10).all(|_| injector.fails(FaultKind::KMEM)));
        injector.set(FaultKind::KMEM, FaultPlan::OneIn(0));
        assert!(!(0..10).any(|_| injector.fails(FaultKind::KMEM)));
    }
}
