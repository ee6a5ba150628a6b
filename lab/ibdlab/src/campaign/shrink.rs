//! Makes a failing scenario small: fewer events, fewer hosts, shorter times, a smaller seed.
//!
//! Every change makes another schedule too, so a candidate may fail in the same way only with another seed; a few are tried.
//! When nothing more can go, the decisions are taken out that the failure does not need ([`fewer_decisions`]): what is left
//! of the schedule are the switches between threads that make it.
//! Greedy and in a fixed order: the same failure shrinks to the same scenario.

use std::collections::BTreeSet;

use serde_spanned::Spanned;

use crate::scenario::trouble::{Call, TimedEvent};
use crate::scenario::{DecisionText, FabricSpec, Scenario, Schedule, Step, TroubleStep};

/// Seeds tried for each candidate, after the one it has.
const SEEDS: u64 = 6;
/// Hosts that traffic needs.
const LEAST_HOSTS: usize = 2;

/// A scenario and how many runs it took to find it.
#[derive(Debug)]
pub struct Shrunk {
    pub scenario: Scenario,
    pub runs: usize,
}

/// The smallest scenario found for which `fails` holds, beginning with one for which it does, in at most `budget` runs.
pub fn shrink(scenario: Scenario, budget: usize, fails: impl FnMut(&Scenario) -> bool) -> Shrunk {
    let mut shrinker = Shrinker { best: scenario, runs: 0, budget, fails };
    loop {
        let before = shrinker.best.clone();
        shrinker.drop_steps();
        shrinker.drop_events();
        shrinker.drop_hosts();
        shrinker.plain_fabric();
        shrinker.shorten();
        if shrinker.best == before || shrinker.spent() {
            break;
        }
    }
    shrinker.small_seed();
    Shrunk { scenario: shrinker.best, runs: shrinker.runs }
}

/// `scenario` with as few of `decisions` as it takes for `fails` to hold, in at most `budget` runs; `None` if not even all of them
/// make it fail, or there are none.
pub fn fewer_decisions(
    scenario: &Scenario,
    decisions: Vec<DecisionText>,
    budget: usize,
    mut fails: impl FnMut(&Scenario) -> bool,
) -> Option<Shrunk> {
    let with = |decisions: &[DecisionText]| Scenario {
        schedule: Some(Schedule::Replay(decisions.to_vec())),
        ..scenario.clone()
    };
    let mut runs = 0;
    let mut fail = |decisions: &[DecisionText]| {
        runs += 1;
        fails(&with(decisions))
    };
    if budget == 0 || decisions.is_empty() || !fail(&decisions) {
        return None;
    }
    let mut needed = decisions;
    let (mut left, mut size) = (budget - 1, needed.len());
    while size > 0 {
        let mut start = 0;
        while start < needed.len() && left > 0 {
            let mut fewer = needed.clone();
            fewer.drain(start..(start + size).min(needed.len()));
            left -= 1;
            if fail(&fewer) {
                needed = fewer;
            } else {
                start += size;
            }
        }
        size /= 2;
    }
    Some(Shrunk { scenario: with(&needed), runs })
}

struct Shrinker<F> {
    best: Scenario,
    runs: usize,
    budget: usize,
    fails: F,
}

impl<F: FnMut(&Scenario) -> bool> Shrinker<F> {
    fn spent(&self) -> bool {
        self.runs >= self.budget
    }

    fn fails(&mut self, candidate: &Scenario) -> bool {
        self.runs += 1;
        (self.fails)(candidate)
    }

    /// Takes the candidate if it fails with one of a few seeds.
    fn consider(&mut self, candidate: Scenario) -> bool {
        if candidate == self.best {
            return false;
        }
        for seed in std::iter::once(candidate.seed).chain(1..=SEEDS) {
            if self.spent() {
                return false;
            }
            let candidate = Scenario { seed, ..candidate.clone() };
            if self.fails(&candidate) {
                self.best = candidate;
                return true;
            }
        }
        false
    }

    /// The best scenario, changed.
    fn with(&self, change: impl FnOnce(&mut Scenario)) -> Scenario {
        let mut candidate = self.best.clone();
        change(&mut candidate);
        candidate
    }

    /// Every step may go but for those without which the others wait in vain: the hosts attach, and their links come up.
    fn drop_steps(&mut self) {
        let mut n = self.best.step.len();
        while n > 1 {
            n -= 1;
            if matches!(self.best.step[n].get_ref(), Step::Up(_)) {
                continue;
            }
            let candidate = self.with(|scenario| drop(scenario.step.remove(n)));
            self.consider(candidate);
            n = n.min(self.best.step.len());
        }
    }

    /// Halves, quarters and so on of each timeline, down to single events.
    fn drop_events(&mut self) {
        for step in 0..self.best.step.len() {
            let mut size = self.timeline(step).div_ceil(2);
            while size > 0 {
                let mut start = 0;
                while start < self.timeline(step) {
                    let end = (start + size).min(self.timeline(step));
                    let candidate = self.with(|scenario| {
                        if let Some(trouble) = trouble_of(scenario, step) {
                            trouble.event.drain(start..end);
                        }
                    });
                    if !self.consider(candidate) {
                        start = end;
                    }
                }
                size /= 2;
            }
        }
    }

    /// Number of events of a step.
    fn timeline(&self, step: usize) -> usize {
        match self.best.step.get(step).map(Spanned::get_ref) {
            Some(Step::Trouble(trouble)) => trouble.event.len(),
            _ => 0,
        }
    }

    fn drop_hosts(&mut self) {
        let mut n = self.best.host.len();
        while n > 0 && self.best.host.len() > LEAST_HOSTS {
            n -= 1;
            let candidate = self.with(|scenario| drop_host(scenario, n));
            self.consider(candidate);
        }
    }

    fn plain_fabric(&mut self) {
        let candidate = self.with(|scenario| scenario.fabric.sa_delay_ms = FabricSpec::default().sa_delay_ms);
        self.consider(candidate);
        let candidate = self.with(|scenario| scenario.fabric.multicast_loopback = true);
        self.consider(candidate);
        for step in 0..self.best.step.len() {
            let candidate = self.with(|scenario| {
                if let Some(trouble) = trouble_of(scenario, step) {
                    trouble.senders = 0;
                }
            });
            self.consider(candidate);
            let candidate = self.with(|scenario| {
                if let Some(trouble) = trouble_of(scenario, step) {
                    trouble.stalls = None;
                }
            });
            self.consider(candidate);
        }
        for n in 0..self.best.host.len() {
            let candidate = self.with(|scenario| scenario.host[n].as_mut().addresses.as_mut().truncate(1));
            self.consider(candidate);
            if !self.best.host[n].as_ref().conf.is_empty() {
                let candidate = self.with(|scenario| scenario.host[n].as_mut().conf.clear());
                self.consider(candidate);
            }
        }
    }

    /// Timelines of half the length, rounder instants.
    fn shorten(&mut self) {
        for step in 0..self.best.step.len() {
            while self.timeline(step) > 0 && self.halve(step) {}
            (0..self.timeline(step)).for_each(|n| self.plain_call(step, n));
            for n in 0..self.timeline(step) {
                for round in [10_000, 1_000, 100] {
                    let candidate = self.with(|scenario| {
                        if let Some(trouble) = trouble_of(scenario, step) {
                            let at = trouble.event[n].at_us.as_mut();
                            *at -= *at % round;
                        }
                    });
                    if self.consider(candidate) {
                        break;
                    }
                }
            }
        }
    }

    /// An event that waits for no call, for the first one, or for one whose thread goes on at once.
    fn plain_call(&mut self, step: usize, n: usize) {
        let plainer: [fn(&mut Option<Call>); 3] = [
            |on| *on = None,
            |on| on.iter_mut().for_each(|call| call.pass = 1),
            |on| on.iter_mut().for_each(|call| call.holds_us = 0),
        ];
        for change in plainer {
            let candidate = self.with(|scenario| {
                if let Some(trouble) = trouble_of(scenario, step) {
                    change(&mut trouble.event[n].on);
                }
            });
            self.consider(candidate);
        }
    }

    fn halve(&mut self, step: usize) -> bool {
        let candidate = self.with(|scenario| {
            if let Some(trouble) = trouble_of(scenario, step) {
                trouble.within_ms = (trouble.within_ms / 2).max(1);
                for timed in &mut trouble.event {
                    *timed.at_us.as_mut() /= 2;
                }
            }
        });
        self.consider(candidate)
    }

    fn small_seed(&mut self) {
        for seed in 1..self.best.seed.min(SEEDS * 2) {
            if self.spent() {
                return;
            }
            let candidate = self.with(|scenario| scenario.seed = seed);
            if self.fails(&candidate) {
                self.best = candidate;
                return;
            }
        }
    }
}

fn trouble_of(scenario: &mut Scenario, step: usize) -> Option<&mut TroubleStep> {
    match scenario.step.get_mut(step)?.as_mut() {
        Step::Trouble(trouble) => Some(trouble),
        _ => None,
    }
}

/// Without a host and everything that names it.
fn drop_host(scenario: &mut Scenario, n: usize) {
    scenario.host.remove(n);
    let left: BTreeSet<String> =
        scenario.host.iter().map(|host| host.get_ref().name.get_ref().clone()).collect();
    let stays = |timed: &TimedEvent| {
        let called = timed.on.as_ref().map(|call| &call.host);
        timed.event.host().into_iter().chain(called).all(|host| left.contains(host.get_ref()))
    };
    for step in &mut scenario.step {
        if let Step::Trouble(trouble) = step.as_mut() {
            trouble.event.retain(stays);
        }
    }
}

/// Events of all timelines.
pub fn events(scenario: &Scenario) -> usize {
    let of = |step: &Spanned<Step>| match step.get_ref() {
        Step::Trouble(trouble) => trouble.event.len(),
        _ => 0,
    };
    scenario.step.iter().map(of).sum()
}

/// Decisions that a scenario repeats; `None` if its strategy makes them.
pub fn decisions(scenario: &Scenario) -> Option<usize> {
    match &scenario.schedule {
        Some(Schedule::Replay(decisions)) => Some(decisions.len()),
        _ => None,
    }
}
