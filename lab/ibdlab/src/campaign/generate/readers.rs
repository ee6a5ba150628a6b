//! Promiscuous readers on adapters that have hardly more places for groups than IP needs; drawn apart, so that the same troubles meet hosts
//! with and without.

use std::collections::BTreeSet;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::at;
use crate::scenario::trouble::{Event, PromiscuousMode, TimedEvent};
use crate::scenario::{Scenario, Step};

/// Makes the draw another one than those of what happens.
const APART: u64 = 0x5245_4144_4552_5331;
/// Of so many scenarios one has a reader.
const ONE_IN: u32 = 4;
/// Groups that IP of a host hears whatever happens, beside one for each address: the broadcast group, all hosts and all nodes, that of the
/// background traffic, and one for each turn when all is to be well again.
const ALWAYS: u32 = 5;
/// Places beside those.
const SPARE: u32 = 2;

/// One host of some scenarios has a reader, from early in each timeline on; not one that eavesdrops in a step, which hears all there is.
pub(super) fn put(scenario: &mut Scenario, seed: u64, index: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ APART);
    rng.set_stream(index);
    if scenario.host.is_empty() || rng.random_range(0..ONE_IN) != 0 {
        return;
    }
    let number = rng.random_range(0..scenario.host.len());
    let name = scenario.host[number].get_ref().name.get_ref().clone();
    let eavesdrops = |step: &Step| matches!(step, Step::Eavesdrop(step) if *step.by.get_ref() == name);
    if scenario.step.iter().any(|step| eavesdrops(step.get_ref())) {
        return;
    }
    let addresses = scenario.host[number].get_ref().addresses.get_ref().len() as u32;
    let wanted = ALWAYS + addresses + joins(scenario, &name) + groups_of_steps(scenario);
    scenario.host[number].get_mut().groups = wanted + rng.random_range(0..=SPARE);
    for step in &mut scenario.step {
        let Step::Trouble(trouble) = step.get_mut() else { continue };
        let when = rng.random_range(0..=trouble.within_ms * 500);
        let reader = PromiscuousMode { host: at(name.clone()), on: true };
        trouble.event.push(TimedEvent::new(when, Event::Promiscuous(reader)));
        trouble.event.sort_by_key(|timed| *timed.at_us.get_ref());
    }
}

/// Steps in which hosts join a group, at most one each.
fn groups_of_steps(scenario: &Scenario) -> u32 {
    let joins = |step: &Step| matches!(step, Step::Multicast(_) | Step::Turns(_) | Step::Eavesdrop(_));
    scenario.step.iter().filter(|step| joins(step.get_ref())).count() as u32
}

/// Groups that a host joins in its timelines.
fn joins(scenario: &Scenario, host: &str) -> u32 {
    let troubles = scenario.step.iter().filter_map(|step| match step.get_ref() {
        Step::Trouble(trouble) => Some(trouble),
        _ => None,
    });
    let events = troubles.flat_map(|trouble| &trouble.event);
    let groups = events.filter_map(|timed| match &timed.event {
        Event::GroupJoin(of) if of.host.get_ref() == host => Some(*of.group.get_ref()),
        _ => None,
    });
    groups.collect::<BTreeSet<_>>().len() as u32
}

#[cfg(test)]
mod tests {
    use crate::campaign::Search;
    use crate::scenario::Step;
    use crate::scenario::trouble::Event;

    #[test]
    fn some_schedules_have_a_reader_on_an_adapter_with_few_places() {
        let usual = fabric::HcaAttr::default().max_mcg;
        let mut few = 0;
        for index in 0..200 {
            let scenario = Search::Schedules.scenario(7, index);
            for host in
                scenario.host.iter().map(serde_spanned::Spanned::get_ref).filter(|host| host.groups < usual)
            {
                few += 1;
                let reads = |step: &Step| {
                    match step {
                    Step::Trouble(trouble) => trouble.event.iter().any(|timed| {
                        matches!(&timed.event, Event::Promiscuous(mode) if mode.on && mode.host == host.name)
                    }),
                    _ => false,
                }
                };
                assert!(scenario.step.iter().any(|step| reads(step.get_ref())), "scenario {index}");
            }
        }
        assert!((30..70).contains(&few), "{few} of 200");
    }
}
