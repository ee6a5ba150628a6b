//! How links and adapters go: an adapter that is to go and stays, a link that is opened while it goes, and one that is deleted while the SA is silent.
//! Drawn apart, so that the rest of a schedule is what it was.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::at;
use crate::campaign::timeline::stops;
use crate::scenario::trouble::{Event, HcaGoes, OnHost, SaDoes, SaTrouble, TimedEvent, Visits};
use crate::scenario::{Scenario, Step, TroubleStep};

/// Makes the draw another one than those of what happens.
const APART: u64 = 0x474f_494e_475f_4157;
/// Of so many timelines one has a second hand.
const VISITED: u32 = 4;
/// Of so many timelines of a fabric one has an adapter whose detach is refused.
const STAYS: u32 = 6;
/// Of so many timelines one has a link deleted while the SA is silent.
const SILENT: u32 = 6;
/// As long as the timeline and what is left of it to be done.
const SILENCE_MS: u64 = 200_000;

/// The schedule, with more ways to go.
pub(super) fn vary(scenario: &mut Scenario, seed: u64, index: u64) {
    each_timeline(scenario, seed, index, |trouble, host, rng| {
        if rng.random_range(0..SILENT) == 0 {
            delete(trouble, host, rng);
        }
    });
}

/// The fabric, with adapters that stay and links that have a second hand.
pub(super) fn vary_fabric(scenario: &mut Scenario, seed: u64, index: u64) {
    each_timeline(scenario, seed, index, |trouble, host, rng| {
        if rng.random_range(0..STAYS) == 0 {
            let when = rng.random_range(0..=trouble.within_ms * 1_000);
            let goes = HcaGoes { refused: true, ..HcaGoes::pulled(host) };
            trouble.event.push(TimedEvent::new(when, Event::HcaRemoved(goes)));
        }
        trouble.event.sort_by_key(|timed| *timed.at_us.get_ref());
    });
}

/// Of each timeline the ways in which adapters go, now and then a second hand at a host's link, and what `more` does with that host.
fn each_timeline(
    scenario: &mut Scenario,
    seed: u64,
    index: u64,
    more: impl Fn(&mut TroubleStep, &str, &mut ChaCha8Rng),
) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ APART);
    rng.set_stream(index);
    let hosts: Vec<String> = scenario.host.iter().map(|host| host.get_ref().name.get_ref().clone()).collect();
    for step in &mut scenario.step {
        let Step::Trouble(trouble) = step.as_mut() else { continue };
        adapters(trouble, &mut rng);
        let Some(host) = hosts.choose(&mut rng) else { continue };
        if rng.random_range(0..VISITED) == 0 {
            visit(trouble, host, &mut rng);
        }
        more(trouble, host, &mut rng);
    }
}

fn adapters(trouble: &mut TroubleStep, rng: &mut ChaCha8Rng) {
    for timed in &mut trouble.event {
        if let Event::HcaRemoved(goes) = &mut timed.event {
            let how = rng.random_range(0..4);
            (goes.orderly, goes.refused) = (how == 1, how == 2);
        }
    }
}

/// Around something that ends the link, if anything does.
fn visit(trouble: &mut TroubleStep, host: &str, rng: &mut ChaCha8Rng) {
    let ends = trouble.event.iter().filter(|timed| stops(&timed.event));
    let moments: Vec<u64> = ends.map(|timed| *timed.at_us.get_ref()).collect();
    let anywhere = rng.random_range(0..=trouble.within_ms * 1_000);
    let begins = moments.choose(rng).copied().unwrap_or(anywhere).saturating_sub(rng.random_range(0..2_000));
    let for_ms = *[3, 30, 300, 3_000].choose(rng).unwrap_or(&3);
    let every_us = *[10, 200, 5_000, 50_000].choose(rng).unwrap_or(&10);
    let visits = Visits { host: OnHost::named(host).host, for_ms, every_us };
    trouble.event.push(TimedEvent::new(begins, Event::LinkVisited(visits)));
}

fn delete(trouble: &mut TroubleStep, host: &str, rng: &mut ChaCha8Rng) {
    let begins = rng.random_range(0..=trouble.within_ms * 1_000);
    let then = |us: u64| (begins + us).min(trouble.within_ms * 1_000);
    let from = rng.random::<bool>().then(|| at(host.to_owned()));
    let silent = SaTrouble { does: SaDoes::Silent, to: None, from, times: None, for_ms: SILENCE_MS };
    let on = || OnHost::named(host);
    trouble.event.push(TimedEvent::new(begins, Event::Sa(silent)));
    trouble.event.push(TimedEvent::new(then(rng.random_range(0..3_000)), Event::PartDeleted(on())));
    if rng.random() {
        trouble.event.push(TimedEvent::new(then(4_000), Event::PartCreated(on())));
    }
}

#[cfg(test)]
mod tests {
    use crate::campaign::Search;
    use crate::report::SmKind;
    use crate::scenario::Step;
    use crate::scenario::trouble::Event;

    #[test]
    fn adapters_that_stay_and_second_hands_are_drawn_on_fabrics() {
        let mut seen = [0; 2];
        for index in 0..600 {
            for step in &Search::Fabrics(SmKind::Embedded).scenario(1, index).step {
                let Step::Trouble(trouble) = step.get_ref() else { continue };
                let count =
                    |is: fn(&Event) -> bool| trouble.event.iter().filter(|timed| is(&timed.event)).count();
                seen[0] += count(|event| matches!(event, Event::HcaRemoved(goes) if goes.refused));
                seen[1] += count(|event| matches!(event, Event::LinkVisited(_)));
            }
        }
        assert!(seen.iter().all(|times| *times >= 10), "{seen:?}");
    }

    #[test]
    fn every_way_to_go_is_drawn() {
        let mut seen = [0; 5];
        for index in 0..600 {
            for step in &Search::Schedules.scenario(1, index).step {
                let Step::Trouble(trouble) = step.get_ref() else { continue };
                for timed in &trouble.event {
                    match &timed.event {
                        Event::HcaRemoved(goes) => {
                            seen[usize::from(goes.orderly) + 2 * usize::from(goes.refused)] += 1;
                        }
                        Event::LinkVisited(_) => seen[3] += 1,
                        Event::PartDeleted(_) => seen[4] += 1,
                        _ => {}
                    }
                }
            }
        }
        assert!(seen.iter().all(|times| *times >= 10), "{seen:?}");
    }
}
