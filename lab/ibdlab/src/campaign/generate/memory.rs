//! Kernel memory that is short for a time: around what an administrator does, which waits for memory, and beside traffic, which does not.
//! Drawn apart, so that the rest of a scenario is what it was.

use std::collections::BTreeMap;

use fakekernel::FaultKind;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::at;
use crate::scenario::trouble::{AllocationFails, Event, FaultPoint, MemoryShort, TimedEvent};
use crate::scenario::{Scenario, Step, TroubleStep};

/// Makes the draw another one than those of what happens.
const APART: u64 = 0x4d45_4d4f_5259_2121;
/// Of so many timelines one has a shortage.
const ONE_IN: u32 = 6;
/// Of so many shortages one is of all modules; the others leave the rest of the kernel its memory, so that nothing may be refused.
const OF_ALL: u32 = 4;
/// How long one lasts, and how long before what it is to meet it begins, at most.
const FOR_MS: [u64; 5] = [1, 10, 100, 1_000, 5_000];
const BEFORE_US: u64 = 2_000;
/// What waits for memory waits for the whole shortage at its first allocation. So of some shortages each allocation that does not wait
/// fails by its number instead: the first one that does, at the latest, and how many do.
const LATEST: u64 = 60;
const TIMES: [u64; 4] = [1, 2, 10, 1_000];

/// The scenario, with shortages.
pub(super) fn put(scenario: &mut Scenario, seed: u64, index: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ APART);
    rng.set_stream(index);
    let hosts: Vec<_> = drivers(scenario).collect();
    for step in &mut scenario.step {
        let Step::Trouble(trouble) = step.as_mut() else { continue };
        if rng.random_range(0..ONE_IN) != 0 {
            continue;
        }
        let Some((host, driver)) = hosts.choose(&mut rng) else { return };
        let short = shortage(trouble, host, driver, &mut rng);
        trouble.event.push(short);
        trouble.event.sort_by_key(|timed| *timed.at_us.get_ref());
    }
}

/// The scenario with shortages of modules that its hosts have: an event of another scenario may name a host's other driver.
pub(super) fn fit(scenario: &mut Scenario) {
    let drivers: BTreeMap<_, _> = drivers(scenario).collect();
    for step in &mut scenario.step {
        let Step::Trouble(trouble) = step.as_mut() else { continue };
        for timed in &mut trouble.event {
            if let Event::MemoryShort(MemoryShort { host, module: Some(module), .. })
            | Event::AllocationFails(AllocationFails { host, module: Some(module), .. }) = &mut timed.event
                && let Some(driver) = drivers.get(host.get_ref())
            {
                *module = (*driver).to_owned();
            }
        }
    }
}

/// The hosts, and the driver of each.
fn drivers(scenario: &Scenario) -> impl Iterator<Item = (String, &'static str)> {
    scenario.host.iter().map(|host| (host.get_ref().name.get_ref().clone(), host.get_ref().driver.name()))
}

/// Around something that waits for memory, if there is such in the timeline.
fn shortage(trouble: &TroubleStep, host: &str, driver: &str, rng: &mut ChaCha8Rng) -> TimedEvent {
    let meets = |event: &Event| waits(event) && event.host().is_some_and(|named| named.get_ref() == host);
    let waiting = trouble.event.iter().filter(|timed| meets(&timed.event));
    let moments: Vec<u64> = waiting.map(|timed| *timed.at_us.get_ref()).collect();
    let anywhere = rng.random_range(0..=trouble.within_ms * 1_000);
    let begins =
        moments.choose(rng).copied().unwrap_or(anywhere).saturating_sub(rng.random_range(0..BEFORE_US));
    let module = (rng.random_range(0..OF_ALL) != 0).then(|| driver.to_owned());
    let (host, by_number) = (at(host.to_owned()), rng.random());
    let kind = FaultPoint::all().find(|point| point.kind() == FaultKind::KMEM);
    let event = match kind.filter(|_| by_number && module.is_some()) {
        Some(kind) => {
            let (after, times) = (rng.random_range(0..LATEST), *TIMES.choose(rng).unwrap_or(&1));
            Event::AllocationFails(AllocationFails { host, kind, module, after, times })
        }
        None => Event::MemoryShort(MemoryShort { host, module, for_ms: *FOR_MS.choose(rng).unwrap_or(&1) }),
    };
    TimedEvent::new(begins, event)
}

/// What an administrator does and IBTL tells: in the driver it waits for memory.
fn waits(event: &Event) -> bool {
    matches!(
        event,
        Event::Load(_)
            | Event::Unload(_)
            | Event::PartCreated(_)
            | Event::PartDeleted(_)
            | Event::HcaAdded(_)
            | Event::LinkOpen(_)
            | Event::PropertySet(_)
    )
}

#[cfg(test)]
mod tests {
    use crate::campaign::Search;
    use crate::report::SmKind;
    use crate::scenario::Step;
    use crate::scenario::trouble::Event;

    #[test]
    fn schedules_and_fabrics_have_shortages_of_memory() {
        for search in [Search::Schedules, Search::Fabrics(SmKind::Embedded)] {
            let mut seen = [0; 3];
            for index in 0..200 {
                for step in search.scenario(9, index).step {
                    let Step::Trouble(trouble) = step.get_ref() else { continue };
                    for timed in &trouble.event {
                        match &timed.event {
                            Event::MemoryShort(short) => seen[usize::from(short.module.is_none())] += 1,
                            Event::AllocationFails(fails) if fails.module.is_some() => seen[2] += 1,
                            _ => {}
                        }
                    }
                }
            }
            assert!(seen.iter().all(|times| *times > 2), "{search:?}: {seen:?}");
        }
    }
}
