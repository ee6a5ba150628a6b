//! Schedules with a flood of strangers that lasts long enough to be counted; drawn apart, so that the same troubles meet hosts with and
//! without.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::at;
use crate::scenario::trouble::{Claim, Event, Strangers, TimedEvent};
use crate::scenario::{Scenario, Step};

/// Makes the draw another one than those of what happens.
const APART: u64 = 0x464c_4f4f_4453_2121;
/// Of so many schedules one has a flood.
const ONE_IN: u32 = 6;
/// Each of these could cost a question: in a second many times what a host may ask the SA.
const PER_SECOND: u32 = 10_000;
const FOR_MS: u64 = 300;
/// What the senders claim: the more often the more of the driver it concerns.
const CLAIMS: [Claim; 10] = [
    Claim::AbsentPorts,
    Claim::AbsentPorts,
    Claim::AbsentPorts,
    Claim::QueuePairs,
    Claim::QueuePairs,
    Claim::Groups,
    Claim::ForeignGroups,
    Claim::Broadcast,
    Claim::Connections,
    Claim::Nowhere,
];

/// One host of some schedules is flooded, from the beginning of its first timeline, which is long enough for that.
pub(super) fn put(scenario: &mut Scenario, seed: u64, index: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ APART);
    rng.set_stream(index);
    if scenario.host.is_empty() || rng.random_range(0..ONE_IN) != 0 {
        return;
    }
    let host = scenario.host[rng.random_range(0..scenario.host.len())].get_ref().name.get_ref().clone();
    let claim = CLAIMS[rng.random_range(0..CLAIMS.len())];
    let flood = Strangers { host: at(host), claim, per_second: PER_SECOND, for_ms: FOR_MS };
    let troubles = scenario.step.iter_mut().filter_map(|step| match step.get_mut() {
        Step::Trouble(trouble) => Some(trouble),
        _ => None,
    });
    for trouble in troubles.take(1) {
        trouble.within_ms = trouble.within_ms.max(FOR_MS);
        trouble.event.insert(0, TimedEvent::new(0, Event::Strangers(flood.clone())));
    }
}

#[cfg(test)]
mod tests {
    use crate::campaign::Search;
    use crate::scenario::Step;
    use crate::scenario::trouble::Event;

    #[test]
    fn some_schedules_have_a_flood_that_ends_with_the_timeline_at_the_latest() {
        let mut floods = 0;
        for index in 0..200 {
            for step in Search::Schedules.scenario(9, index).step {
                let Step::Trouble(trouble) = step.get_ref() else { continue };
                let first = trouble.event.first().map(|timed| &timed.event);
                if let Some(Event::Strangers(flood)) = first.filter(|_| trouble.within_ms >= super::FOR_MS) {
                    assert!(flood.for_ms <= trouble.within_ms, "scenario {index}");
                    floods += 1;
                }
            }
        }
        assert!((15..55).contains(&floods), "{floods} of 200");
    }
}
