//! Fault points.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustc_hash::FxHashMap;

use crate::config::{FaultKind, FaultPlan, Faults};

/// Decides which fault points fail. Has random numbers of its own, so that switching a fault on does not change the rest of
/// the run before its first failure.
#[derive(Debug)]
pub struct Injector {
    points: FxHashMap<FaultKind, Point>,
    /// Plans for one host's calls alone, each counted on its own.
    watched: Vec<(Watch, Point)>,
    /// Whose kernel memory is short now; each as often as it was begun.
    short: Vec<Shortage>,
    rng: ChaCha8Rng,
}

#[derive(Debug, Default)]
struct Point {
    plan: FaultPlan,
    reached: u64,
}

/// The calls that a plan is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Those of this host.
    pub host: String,
    /// Only those of this module.
    pub module: Option<String>,
    /// Of this kind.
    pub kind: FaultKind,
}

/// For whom there is no kernel memory: what does not wait for memory fails, and what waits goes on when the shortage is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The calls of this host.
    pub host: String,
    /// Only those of this module.
    pub module: Option<String>,
}

impl Shortage {
    fn meets(&self, host: &str, module: &str) -> bool {
        self.host == host && self.module.as_deref().is_none_or(|only| only == module)
    }
}

impl Watch {
    fn sees(&self, host: &str, module: &str, kind: FaultKind) -> bool {
        self.kind == kind && self.host == host && self.module.as_deref().is_none_or(|only| only == module)
    }
}

impl Injector {
    pub(crate) fn new(faults: Faults, seed: u64) -> Self {
        let points = faults.0.into_iter().map(|(kind, plan)| (kind, Point { plan, reached: 0 })).collect();
        Self {
            points,
            watched: Vec::new(),
            short: Vec::new(),
            rng: ChaCha8Rng::seed_from_u64(seed ^ 0x6661_756c_7400_0000),
        }
    }

    pub(crate) fn set(&mut self, kind: FaultKind, plan: FaultPlan) {
        self.points.insert(kind, Point { plan, reached: 0 });
    }

    pub(crate) fn reached(&self, kind: FaultKind) -> u64 {
        self.points.get(&kind).map_or(0, |p| p.reached)
    }

    /// Replaces the plan of these calls and counts them from now on.
    pub fn watch(&mut self, watch: Watch, plan: FaultPlan) {
        self.unwatch(&watch);
        self.watched.push((watch, Point { plan, reached: 0 }));
    }

    /// Forgets a plan; how often its calls were reached, `None` if there was none.
    pub fn unwatch(&mut self, watch: &Watch) -> Option<u64> {
        let at = self.watched.iter().position(|(known, _)| known == watch)?;
        Some(self.watched.remove(at).1.reached)
    }

    /// Begins a shortage.
    pub fn run_short(&mut self, shortage: Shortage) {
        self.short.push(shortage);
    }

    /// Ends a shortage once; whether there was one.
    pub fn end_shortage(&mut self, shortage: &Shortage) -> bool {
        let at = self.short.iter().position(|known| known == shortage);
        at.map(|at| self.short.swap_remove(at)).is_some()
    }

    /// Whether there is no memory for a module of a host now.
    pub fn is_short(&self, host: &str, module: &str) -> bool {
        self.short.iter().any(|shortage| shortage.meets(host, module))
    }

    /// Whether a call of that kind, which a module of a host makes now, shall fail.
    pub fn fails(&mut self, kind: FaultKind, host: &str, module: &str) -> bool {
        let is_short = FaultKind::MEMORY.contains(&kind) && self.is_short(host, module);
        let rng = &mut self.rng;
        let mut fails = is_short | self.points.entry(kind).or_default().fails(rng);
        for (_, point) in self.watched.iter_mut().filter(|(watch, _)| watch.sees(host, module, kind)) {
            fails |= point.fails(rng);
        }
        fails
    }
}

impl Point {
    fn fails(&mut self, rng: &mut ChaCha8Rng) -> bool {
        let count = self.reached;
        self.reached += 1;
        match self.plan {
            FaultPlan::Never | FaultPlan::OneIn(0) => false,
            FaultPlan::OneIn(n) => rng.random_range(0..n) == 0,
            FaultPlan::Nth(n) => count == n,
            FaultPlan::From(n) => count >= n,
            FaultPlan::Some { first, times } => count >= first && count - first < times,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Injector, Shortage, Watch};
    use crate::config::{FaultKind, FaultPlan, Faults};

    #[test]
    fn the_nth_plan_fails_once() {
        let mut injector = Injector::new(Faults::default(), 1);
        injector.set(FaultKind::ALLOCB, FaultPlan::Nth(2));
        let failed: Vec<bool> = (0..5).map(|_| injector.fails(FaultKind::ALLOCB, "h", "m")).collect();
        assert_eq!(failed, [false, false, true, false, false]);
        assert_eq!(injector.reached(FaultKind::ALLOCB), 5);
    }

    #[test]
    fn one_in_one_always_fails_and_one_in_none_never() {
        let mut injector = Injector::new(Faults::default(), 1);
        injector.set(FaultKind::KMEM, FaultPlan::OneIn(1));
        assert!((0..10).all(|_| injector.fails(FaultKind::KMEM, "h", "m")));
        injector.set(FaultKind::KMEM, FaultPlan::OneIn(0));
        assert!(!(0..10).any(|_| injector.fails(FaultKind::KMEM, "h", "m")));
    }

    #[test]
    fn a_plan_for_one_host_s_module_fails_nobody_else() {
        let mut injector = Injector::new(Faults::default(), 1);
        let watch = Watch { host: "bob".into(), module: Some("ibd".into()), kind: FaultKind::KMEM };
        injector.watch(watch.clone(), FaultPlan::Some { first: 1, times: 2 });
        assert!(!injector.fails(FaultKind::KMEM, "alice", "ibd"));
        assert!(!injector.fails(FaultKind::KMEM, "bob", "mac_ib"));
        let failed: Vec<bool> = (0..4).map(|_| injector.fails(FaultKind::KMEM, "bob", "ibd")).collect();
        assert_eq!(failed, [false, true, true, false]);
        assert_eq!(injector.unwatch(&watch), Some(4));
        assert_eq!(injector.unwatch(&watch), None);
    }

    #[test]
    fn a_shortage_fails_calls_for_memory_until_each_has_ended() {
        let mut injector = Injector::new(Faults::default(), 1);
        let shortage = Shortage { host: "bob".into(), module: Some("ibd".into()) };
        injector.run_short(shortage.clone());
        injector.run_short(shortage.clone());
        assert!((0..3).all(|_| injector.fails(FaultKind::KMEM, "bob", "ibd")));
        assert!(!injector.fails(FaultKind::DDI, "bob", "ibd"), "not made of memory alone");
        assert!(!injector.fails(FaultKind::KMEM, "bob", "mac_ib") && !injector.is_short("alice", "ibd"));
        assert!(injector.end_shortage(&shortage) && injector.fails(FaultKind::DUPB, "bob", "ibd"));
        assert!(injector.end_shortage(&shortage) && !injector.fails(FaultKind::DUPB, "bob", "ibd"));
        assert!(!injector.end_shortage(&shortage));
    }
}
