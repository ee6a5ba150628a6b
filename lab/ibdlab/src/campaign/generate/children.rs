//! A schedule made of one that ended well: the same until a module makes a call that it made there, and something else from then on.
//!
//! What a generator does not know, a run tells: which calls a host's modules make, and how often ([`Outcome::calls`]). An event that
//! waits for one of those takes place.
//!
//! [`Outcome::calls`]: crate::campaign::Outcome::calls

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Focus, Generator, Search, at, patience, software, strategies};
use crate::report::HcaKind;
use crate::scenario::trouble::{Call, Event, TimedEvent};
use crate::scenario::{Scenario, Step, TroubleStep};

/// Calls of each function, by host.
pub type Calls = BTreeMap<String, BTreeMap<String, u64>>;

/// Makes the draw another one than those of the parents.
const APART: u64 = 0x4348_494c_4452_454e;
/// Functions that are called more often than this are those of packets.
const RARE: u64 = 40;
/// How long the thread that makes the call is held, in microseconds: the event itself may take as long.
const HOLDS_US: [u64; 7] = [0, 20, 200, 2_000, 2_000, 20_000, 200_000];

/// Child `index` of a parent; `calls` are those of each of its troubles. None if nobody called anything, if
/// the adapter does not have what was drawn, and of random fabrics.
pub(in crate::campaign) fn child(
    search: Search,
    parent: &Scenario,
    calls: &[Calls],
    seed: u64,
    index: u64,
) -> Option<Scenario> {
    if matches!(search, Search::Fabrics(_)) {
        return None;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ APART);
    rng.set_stream(index);
    let mut scenario = parent.clone();
    scenario.name = format!("campaign {seed}, scenario {index}");
    change(&mut scenario, calls, &mut rng);
    if scenario.fabric.hca == HcaKind::Swhca {
        software::leave_out_what_cannot_be(&mut scenario);
    }
    if scenario.step == parent.step {
        return None;
    }
    // With the parent's seed all is the same until the first event that is another one.
    if rng.random_range(0..4) == 0 {
        scenario.seed = u64::from(rng.random::<u32>());
        scenario.schedule = Some(strategies::strategy(&mut rng));
    }
    Some(patience::give(scenario))
}

fn change(scenario: &mut Scenario, calls: &[Calls], rng: &mut ChaCha8Rng) {
    let hosts = scenario.host.iter().map(|host| host.get_ref().name.get_ref().clone()).collect();
    let sa_delay_ms = scenario.fabric.sa_delay_ms;
    let mut generator = Generator { rng, hosts, within_us: 0, sa_delay_ms, focus: None, kinds: Vec::new() };
    let troubles = scenario.step.iter_mut().filter_map(|step| match step.as_mut() {
        Step::Trouble(trouble) => Some(trouble),
        _ => None,
    });
    let mut troubles: Vec<(&mut TroubleStep, &Calls)> =
        troubles.zip(calls).filter(|(_, calls)| calls.values().any(|of| !of.is_empty())).collect();
    if troubles.is_empty() {
        return;
    }
    for _ in 0..generator.pick(&[1, 1, 1, 2]) {
        let n = generator.rng.random_range(0..troubles.len());
        let (trouble, calls) = &mut troubles[n];
        generator.meet(trouble, calls);
    }
}

impl Generator<'_> {
    /// Something happens in the middle of a call that was made.
    fn meet(&mut self, trouble: &mut TroubleStep, calls: &Calls) {
        self.within_us = trouble.within_ms * 1_000;
        let hosts: Vec<&String> =
            calls.iter().filter(|(_, of)| !of.is_empty()).map(|(host, _)| host).collect();
        let host = self.pick(&hosts).clone();
        let call = self.made_call(&host, &calls[&host]);
        let own: Vec<usize> = (0..trouble.event.len())
            .filter(|n| trouble.event[*n].event.host().is_none_or(|of| *of.get_ref() == host))
            .collect();
        if !own.is_empty() && self.rng.random_range(0..3) == 0 {
            let moved = &mut trouble.event[own[self.rng.random_range(0..own.len())]];
            *moved = TimedEvent { on: Some(call), ..TimedEvent::new(0, moved.event.clone()) };
        } else {
            self.focus = Some(Focus { host: host.clone(), moments_us: vec![0], spread_us: self.within_us });
            let (first, second) = self.pair();
            trouble.event.push(TimedEvent { on: Some(call), ..TimedEvent::new(0, first) });
            if let Some(second) = second.filter(|_| self.rng.random_range(0..5) > 0) {
                trouble.event.push(self.then(second, &host, &calls[&host]));
            }
        }
        trouble.event.sort_by_key(|timed| *timed.at_us.get_ref());
    }

    /// What ends an event, at a later call or at an instant.
    fn then(&mut self, second: Event, host: &str, calls: &BTreeMap<String, u64>) -> TimedEvent {
        if self.rng.random() {
            return TimedEvent { on: Some(self.made_call(host, calls)), ..TimedEvent::new(0, second) };
        }
        TimedEvent::new(self.rng.random_range(0..=self.within_us), second)
    }

    /// One of the calls: any function as likely as another, but for those of packets.
    fn made_call(&mut self, host: &str, calls: &BTreeMap<String, u64>) -> Call {
        let rare: Vec<(&String, &u64)> = calls.iter().filter(|(_, times)| **times <= RARE).collect();
        let all: Vec<(&String, &u64)> = calls.iter().collect();
        let from = if rare.is_empty() || self.rng.random_range(0..4) == 0 { &all } else { &rare };
        let (call, times) = self.pick(from);
        let pass = if *times <= RARE {
            self.rng.random_range(1..=*times)
        } else {
            // As many of each order of magnitude.
            self.rng.random_range(0.0..(*times as f64).ln()).exp() as u64
        };
        Call {
            host: at(host.to_owned()),
            call: call.clone(),
            pass: u32::try_from(pass).unwrap_or(u32::MAX).max(1),
            holds_us: self.pick(&HOLDS_US),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Calls, child};
    use crate::campaign::Search;
    use crate::scenario::trouble::TimedEvent;
    use crate::scenario::{Scenario, Step};

    fn events(scenario: &Scenario) -> Vec<TimedEvent> {
        let events = scenario.step.iter().filter_map(|step| match step.get_ref() {
            Step::Trouble(trouble) => Some(trouble.event.clone()),
            _ => None,
        });
        events.flatten().collect()
    }

    /// As if every host had made these calls in every trouble.
    fn calls(scenario: &Scenario, of: &[(&str, u64)]) -> Vec<Calls> {
        let of: BTreeMap<String, u64> = of.iter().map(|(call, times)| ((*call).to_owned(), *times)).collect();
        let hosts = scenario.host.iter().map(|host| (host.get_ref().name.get_ref().clone(), of.clone()));
        let calls: Calls = hosts.collect();
        scenario
            .step
            .iter()
            .filter(|step| matches!(step.get_ref(), Step::Trouble(_)))
            .map(|_| calls.clone())
            .collect()
    }

    #[test]
    fn what_is_new_in_a_child_waits_for_a_call_that_was_made_or_ends_what_does() {
        let made = [("ibt_join_mcg", 3), ("mutex_enter", 5_000)];
        let (mut rare, mut children) = (0, 0);
        for index in 0..500 {
            let parent = Search::Schedules.scenario(9, index);
            let before = events(&parent);
            let Some(child) = child(Search::Schedules, &parent, &calls(&parent, &made), 9, index + 1) else {
                continue;
            };
            children += 1;
            let new: Vec<TimedEvent> = events(&child).into_iter().filter(|e| !before.contains(e)).collect();
            assert!(new.iter().any(|event| event.on.is_some()), "{index}: {new:?}");
            for call in new.iter().filter_map(|event| event.on.as_ref()) {
                let times = made.iter().find(|(name, _)| *name == call.call).map(|(_, times)| *times);
                assert!(
                    (1..=times.expect("a call that was made")).contains(&u64::from(call.pass)),
                    "{call:?}"
                );
                rare += u32::from(call.call == "ibt_join_mcg");
            }
            child.to_toml().expect("a scenario file");
        }
        assert!(children > 490 && rare > 300, "{children} {rare}");
    }

    #[test]
    fn parents_that_called_nothing_and_random_fabrics_have_no_children() {
        let parent = Search::Schedules.scenario(9, 1);
        assert!(child(Search::Schedules, &parent, &calls(&parent, &[]), 9, 2).is_none());
        assert!(child(Search::Schedules, &parent, &[], 9, 2).is_none());
        let fabrics = Search::Fabrics(crate::report::SmKind::Embedded);
        let parent = fabrics.scenario(9, 1);
        assert!(child(fabrics, &parent, &calls(&parent, &[("cv_wait", 1)]), 9, 2).is_none());
    }
}
