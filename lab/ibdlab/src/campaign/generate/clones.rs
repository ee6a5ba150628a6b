//! Scenarios in which two ports have one GUID for a while; drawn apart, so that the same troubles meet hosts with and without.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::at;
use crate::scenario::trouble::{Event, HcaClone, TimedEvent};
use crate::scenario::{Scenario, Step};

/// Makes the draw another one than those of what happens.
const APART: u64 = 0x434c_4f4e_4544_2121;
/// Of so many scenarios one has a clone.
const ONE_IN: u32 = 12;

/// In some scenarios a host has an adapter like another host's from some moment of the first timeline on.
pub(super) fn put(scenario: &mut Scenario, seed: u64, index: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ APART);
    rng.set_stream(index);
    let count = scenario.host.len();
    if count < 2 || rng.random_range(0..ONE_IN) != 0 {
        return;
    }
    let (host, other) = (rng.random_range(0..count), rng.random_range(1..count));
    let name = |number: usize| at(scenario.host[number % count].get_ref().name.get_ref().clone());
    let clone = HcaClone { host: name(host), of: name(host + other) };
    let when: u64 = rng.random();
    let troubles = scenario.step.iter_mut().filter_map(|step| match step.get_mut() {
        Step::Trouble(trouble) => Some(trouble),
        _ => None,
    });
    for trouble in troubles.take(1) {
        let at_us = when % (trouble.within_ms * 1_000 + 1);
        trouble.event.push(TimedEvent::new(at_us, Event::HcaCloned(clone.clone())));
        trouble.event.sort_by_key(|timed| *timed.at_us.get_ref());
    }
}

#[cfg(test)]
mod tests {
    use crate::campaign::Search;
    use crate::report::SmKind;
    use crate::scenario::Step;
    use crate::scenario::trouble::Event;

    #[test]
    fn some_schedules_and_fabrics_have_two_ports_with_one_guid() {
        for search in [Search::Schedules, Search::Fabrics(SmKind::Embedded)] {
            let mut clones = 0;
            for step in (0..600).flat_map(|index| search.scenario(9, index).step) {
                let Step::Trouble(trouble) = step.get_ref() else { continue };
                for timed in &trouble.event {
                    if let Event::HcaCloned(clone) = &timed.event {
                        assert_ne!(clone.host.get_ref(), clone.of.get_ref());
                        clones += 1;
                    }
                }
            }
            assert!((10..100).contains(&clones), "{search:?}: {clones} in 600");
        }
    }
}
