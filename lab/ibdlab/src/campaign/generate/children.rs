//! A schedule made of one that ended well: the same until something else happens, mostly in the middle of a call that a module made there.
//!
//! What a generator does not know, a run tells: which calls a host's modules make, how often, and from where ([`Outcome::told`]). An event
//! that waits for one of those takes place.
//!
//! [`Outcome::told`]: crate::campaign::Outcome::told

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::seldom::{Made, Tried};
use super::{Focus, Generator, Search, memory, patience, software, strategies};
use crate::report::HcaKind;
use crate::run::Place;
use crate::scenario::trouble::{Event, TimedEvent};
use crate::scenario::{Scenario, Step, TroubleStep};

/// Calls of each function, by host.
pub type Calls = BTreeMap<String, BTreeMap<String, u64>>;
/// Where calls came from, by host.
pub type Places = BTreeMap<String, Vec<Place>>;

/// What a run tells of the calls in each of its troubles.
#[derive(Clone, Debug, Default)]
pub struct Told {
    pub calls: Vec<Calls>,
    pub places: Vec<Places>,
}

/// Makes the draw another one than those of the parents.
const APART: u64 = 0x4348_494c_4452_454e;
/// A timeline of more events than this is crowded.
const CROWD: usize = 20;
/// Events of another timeline that come into one, at most.
const SPLICED: usize = 4;

/// What a child is made of.
#[derive(Clone, Copy)]
pub(in crate::campaign) struct Family<'a> {
    pub parent: &'a Scenario,
    pub told: &'a Told,
    /// For a part of its timeline.
    pub other: Option<&'a Scenario>,
}

/// Child `index`. None if nobody called anything, if the adapter does not have what was drawn, and of random fabrics.
pub(in crate::campaign) fn child(
    search: Search,
    family: Family<'_>,
    tried: &mut Tried,
    seed: u64,
    index: u64,
) -> Option<Scenario> {
    if matches!(search, Search::Fabrics(_)) || family.told.is_empty() {
        return None;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ APART);
    rng.set_stream(index);
    let mut scenario = family.parent.clone();
    scenario.name = format!("campaign {seed}, scenario {index}");
    change(&mut scenario, family, tried, &mut rng);
    memory::fit(&mut scenario);
    if scenario.fabric.hca == HcaKind::Swhca {
        software::leave_out_what_cannot_be(&mut scenario);
    }
    // With the parent's seed all is the same until the first event that is another one.
    if scenario.step == family.parent.step || rng.random_range(0..4) == 0 {
        scenario.seed = u64::from(rng.random::<u32>());
        strategies::change(&mut scenario, &mut rng);
    }
    Some(patience::give(scenario))
}

fn change(scenario: &mut Scenario, family: Family<'_>, tried: &mut Tried, rng: &mut ChaCha8Rng) {
    let hosts = scenario.host.iter().map(|host| host.get_ref().name.get_ref().clone()).collect();
    let sa_delay_ms = scenario.fabric.sa_delay_ms;
    let mut generator = Generator { rng, hosts, within_us: 0, sa_delay_ms, focus: None, kinds: Vec::new() };
    let nothing = Places::new();
    let places = family.told.places.iter().chain(std::iter::repeat(&nothing));
    let made = family.told.calls.iter().zip(places).map(|(calls, places)| Made { calls, places });
    let troubles = scenario.step.iter_mut().filter_map(|step| match step.as_mut() {
        Step::Trouble(trouble) => Some(trouble),
        _ => None,
    });
    let mut troubles: Vec<(&mut TroubleStep, Made<'_>)> =
        troubles.zip(made).filter(|(_, made)| made.calls.values().any(|of| !of.is_empty())).collect();
    if troubles.is_empty() {
        return;
    }
    for (trouble, _) in &mut troubles {
        generator.thin(trouble);
    }
    for _ in 0..generator.pick(&[1, 1, 2, 3, 6]) {
        let n = generator.rng.random_range(0..troubles.len());
        let (trouble, made) = &mut troubles[n];
        generator.within_us = trouble.within_ms * 1_000;
        generator.mutate(trouble, *made, family.other, tried);
        trouble.event.sort_by_key(|timed| *timed.at_us.get_ref());
    }
}

impl Told {
    /// Did nobody call anything?
    pub fn is_empty(&self) -> bool {
        self.calls.iter().flat_map(BTreeMap::values).all(BTreeMap::is_empty)
    }

    #[cfg(test)]
    pub fn for_tests() -> Self {
        let of = BTreeMap::from([("cv_wait".to_owned(), 1)]);
        Self { calls: vec![BTreeMap::from([("alice".to_owned(), of)])], places: Vec::new() }
    }
}

impl Generator<'_> {
    /// A child of a child has more and more events, and what they do is hidden by others that build everything anew. So of one timeline in
    /// three, and of each that is crowded, most do not come.
    fn thin(&mut self, trouble: &mut TroubleStep) {
        if trouble.event.len() > CROWD || self.rng.random_range(0..3) == 0 {
            let stays = self.pick(&[0.1, 0.3, 0.6]);
            trouble.event.retain(|_| self.rng.random_bool(stays));
        }
    }

    /// One change of a timeline.
    fn mutate(
        &mut self,
        trouble: &mut TroubleStep,
        made: Made<'_>,
        other: Option<&Scenario>,
        tried: &mut Tried,
    ) {
        match self.rng.random_range(0..10) {
            0 if !trouble.event.is_empty() => self.move_one(trouble, made, tried),
            1 if !trouble.event.is_empty() => self.repeat_one(trouble, made, tried),
            2 if other.is_some() => other.into_iter().for_each(|other| self.splice(trouble, other)),
            _ => self.meet(trouble, made, tried),
        }
    }

    /// An event takes place in the middle of a call, or at another instant.
    fn move_one(&mut self, trouble: &mut TroubleStep, made: Made<'_>, tried: &mut Tried) {
        let n = self.rng.random_range(0..trouble.event.len());
        let moved = trouble.event[n].event.clone();
        trouble.event[n] = self.again(moved, made, tried);
    }

    /// An event takes place once more.
    fn repeat_one(&mut self, trouble: &mut TroubleStep, made: Made<'_>, tried: &mut Tried) {
        let n = self.rng.random_range(0..trouble.event.len());
        let repeated = trouble.event[n].event.clone();
        trouble.event.push(self.again(repeated, made, tried));
    }

    fn again(&mut self, event: Event, made: Made<'_>, tried: &mut Tried) -> TimedEvent {
        if self.rng.random_range(0..3) == 0 {
            return TimedEvent::new(self.rng.random_range(0..=self.within_us), event);
        }
        let named = event.host().map(|host| host.get_ref().clone());
        let host = named.filter(|host| made.has(host)).unwrap_or_else(|| self.caller(made));
        let call = self.made_call(&host, made, tried);
        TimedEvent { on: Some(call), ..TimedEvent::new(0, event) }
    }

    /// Some events of another timeline, those of hosts that there are.
    fn splice(&mut self, trouble: &mut TroubleStep, other: &Scenario) {
        let events = other.step.iter().filter_map(|step| match step.get_ref() {
            Step::Trouble(trouble) => Some(&trouble.event),
            _ => None,
        });
        let is_here = |host: Option<&str>| host.is_none_or(|host| self.hosts.iter().any(|own| own == host));
        let named = |timed: &&TimedEvent| {
            is_here(timed.event.host().map(|host| host.get_ref().as_str()))
                && is_here(timed.on.as_ref().map(|on| on.host.get_ref().as_str()))
        };
        let events: Vec<TimedEvent> = events.flatten().filter(named).cloned().collect();
        let from = self.rng.random_range(0..=events.len());
        let within_us = self.within_us;
        let part = events.into_iter().skip(from).take(SPLICED).map(|mut timed| {
            *timed.at_us.as_mut() = within_us.min(*timed.at_us.get_ref());
            timed
        });
        trouble.event.extend(part);
    }

    /// A host whose modules made calls.
    fn caller(&mut self, made: Made<'_>) -> String {
        let hosts: Vec<&String> = made.calls.keys().filter(|host| made.has(host)).collect();
        self.pick(&hosts).clone()
    }

    /// Something happens in the middle of a call that was made: what was seldom tried there.
    fn meet(&mut self, trouble: &mut TroubleStep, made: Made<'_>, tried: &mut Tried) {
        let host = self.caller(made);
        let call = self.made_call(&host, made, tried);
        let own: Vec<usize> = (0..trouble.event.len())
            .filter(|n| trouble.event[*n].event.host().is_none_or(|of| *of.get_ref() == host))
            .collect();
        if !own.is_empty() && self.rng.random_range(0..4) == 0 {
            let moved = &mut trouble.event[own[self.rng.random_range(0..own.len())]];
            *moved = TimedEvent { on: Some(call), ..TimedEvent::new(0, moved.event.clone()) };
            return;
        }
        self.focus = Some(Focus { host: host.clone(), moments_us: vec![0], spread_us: self.within_us });
        let (first, second) = self.seldom_pair(&call, tried);
        let call = self.held_for(call, &first);
        trouble.event.push(TimedEvent { on: Some(call), ..TimedEvent::new(0, first) });
        if let Some(second) = second.filter(|_| self.rng.random_range(0..3) > 0) {
            let timed = self.then(second, &host, made, tried);
            trouble.event.push(timed);
        }
    }

    /// What ends an event, at a later call or at an instant.
    fn then(&mut self, second: Event, host: &str, made: Made<'_>, tried: &mut Tried) -> TimedEvent {
        if self.rng.random() {
            let call = self.made_call(host, made, tried);
            return TimedEvent { on: Some(call), ..TimedEvent::new(0, second) };
        }
        TimedEvent::new(self.rng.random_range(0..=self.within_us), second)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::{Calls, Family, Places, Told, Tried, child};
    use crate::campaign::Search;
    use crate::run::Place;
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

    fn of(search: Search, parent: &Scenario, made: &[(&str, u64)], index: u64) -> Option<Scenario> {
        let told = Told { calls: calls(parent, made), places: Vec::new() };
        child(search, Family { parent, told: &told, other: None }, &mut Tried::default(), 9, index)
    }

    #[test]
    fn what_waits_for_a_call_in_a_child_waits_for_one_that_was_made() {
        let made = [("ibt_join_mcg", 3), ("mutex_enter", 5_000)];
        let (mut waiting, mut rare, mut otherwise) = (0, 0, 0);
        for index in 0..500 {
            let parent = Search::Schedules.scenario(9, index);
            let before = events(&parent);
            let child = of(Search::Schedules, &parent, &made, index + 1).expect("calls were made");
            let new: Vec<TimedEvent> = events(&child).into_iter().filter(|e| !before.contains(e)).collect();
            waiting += u32::from(new.iter().any(|event| event.on.is_some()));
            otherwise += u32::from(child.schedule != parent.schedule);
            assert!(child.step != parent.step || child.schedule != parent.schedule, "{index}");
            for call in new.iter().filter_map(|event| event.on.as_ref()) {
                let times = made.iter().find(|(name, _)| *name == call.call).map(|(_, times)| *times);
                let times = times.expect("a call that was made");
                assert!((1..=times).contains(&u64::from(call.pass)), "{call:?}");
                rare += u32::from(call.call == "ibt_join_mcg");
            }
            child.to_toml().expect("a scenario file");
        }
        assert!(
            waiting > 400 && rare > 300 && (80..200).contains(&otherwise),
            "{waiting} {rare} {otherwise}"
        );
    }

    #[test]
    fn timelines_do_not_grow_from_child_to_child() {
        let mut scenario = Search::Schedules.scenario(9, 1);
        let (mut longest, mut shortest) = (0, usize::MAX);
        for index in 0..300 {
            scenario = of(Search::Schedules, &scenario, &[("cv_wait", 3)], index).expect("calls were made");
            longest = longest.max(events(&scenario).len());
            shortest = shortest.min(events(&scenario).len());
        }
        assert!(longest < 60 && shortest < 4, "{shortest} to {longest}");
    }

    #[test]
    fn places_where_little_was_tried_have_their_turn() {
        let parent = Search::Schedules.scenario(9, 1);
        let place = |n: u32| Place { call: "mutex_enter".to_owned(), pass: u64::from(n), place: n };
        let places: Places = parent
            .host
            .iter()
            .map(|host| (host.get_ref().name.get_ref().clone(), (1..=100).map(place).collect()))
            .collect();
        let told = Told { calls: calls(&parent, &[("mutex_enter", 100)]), places: vec![places] };
        let family = Family { parent: &parent, told: &told, other: None };
        let mut tried = Tried::default();
        let before = events(&parent);
        let mut passes = BTreeSet::new();
        for index in 0..200 {
            let child = child(Search::Schedules, family, &mut tried, 9, index).expect("calls were made");
            let new = events(&child).into_iter().filter(|event| !before.contains(event));
            passes.extend(new.filter_map(|event| event.on).map(|on| on.pass));
        }
        assert!(passes.len() > 95, "{} of 100 places", passes.len());
    }

    #[test]
    fn a_part_of_another_timeline_names_hosts_that_there_are() {
        let parent = Search::Schedules.scenario(9, 1);
        let hosts: Vec<&String> = parent.host.iter().map(|host| host.get_ref().name.get_ref()).collect();
        let told = Told { calls: calls(&parent, &[("cv_wait", 3)]), places: Vec::new() };
        let mut spliced = 0;
        for index in 0..300 {
            let other = Search::Schedules.scenario(10, index);
            let family = Family { parent: &parent, told: &told, other: Some(&other) };
            let child = child(Search::Schedules, family, &mut Tried::default(), 9, index).expect("a child");
            let all = events(&child);
            spliced += u32::from(events(&other).iter().any(|event| all.contains(event)));
            let named = all.iter().filter_map(|timed| timed.event.host());
            assert!(named.into_iter().all(|host| hosts.contains(&host.get_ref())), "{index}");
        }
        assert!(spliced > 20, "{spliced}");
    }

    #[test]
    fn parents_that_called_nothing_and_random_fabrics_have_no_children() {
        let parent = Search::Schedules.scenario(9, 1);
        assert!(of(Search::Schedules, &parent, &[], 2).is_none());
        let fabrics = Search::Fabrics(crate::report::SmKind::Embedded);
        let parent = fabrics.scenario(9, 1);
        assert!(of(fabrics, &parent, &[("cv_wait", 1)], 2).is_none());
    }
}
