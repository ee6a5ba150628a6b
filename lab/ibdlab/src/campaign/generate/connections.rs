//! Links of a schedule that open connections, most of them, and messages of the communication manager that are lost; drawn apart, so that the
//! same troubles meet schedules with and without.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::at;
use crate::scenario::trouble::{CmLost, CmMessage, Event, TimedEvent};
use crate::scenario::{PropertyText, Scenario, Step};

/// Losses in a timeline, at most.
const LOSSES: usize = 4;
/// Messages that are lost by each, at most.
const MESSAGES: u32 = 6;

/// Makes the draw another one than those of what happens.
const APART: u64 = 0x434f_4e4e_4543_5449;

/// Whether a schedule of the usual search is one with connections: one in three.
pub(super) fn is_drawn(seed: u64, index: u64) -> bool {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ APART);
    // Another stream than that of what is put there.
    rng.set_stream(u64::MAX - index);
    rng.random_range(0..3) == 0
}

/// Three links of four, with `linkmode` at `cm`.
pub(super) fn put(scenario: &mut Scenario, seed: u64, index: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ APART);
    rng.set_stream(index);
    for host in &mut scenario.host {
        if rng.random_range(0..4) != 0 {
            let mode = at(PropertyText::Text("cm".to_owned()));
            host.get_mut().properties.insert("linkmode".to_owned(), mode);
        }
    }
    let hosts: Vec<String> = scenario.host.iter().map(|host| host.get_ref().name.get_ref().clone()).collect();
    for step in &mut scenario.step {
        let Step::Trouble(trouble) = step.get_mut() else { continue };
        for _ in 0..rng.random_range(0..=LOSSES) {
            let lost = CmLost {
                host: at(hosts[rng.random_range(0..hosts.len())].clone()),
                message: CmMessage::ALL[rng.random_range(0..CmMessage::ALL.len())],
                times: rng.random_range(1..=MESSAGES),
            };
            let when = rng.random_range(0..=trouble.within_ms * 1_000);
            trouble.event.push(TimedEvent::new(when, Event::CmLost(lost)));
        }
        trouble.event.sort_by_key(|timed| *timed.at_us.get_ref());
    }
}

#[cfg(test)]
mod tests {
    use super::super::Search;
    use super::*;

    #[test]
    fn one_schedule_in_three_of_the_usual_search_has_connections_and_the_others_are_as_they_were_drawn() {
        let mut drawn = 0;
        for index in 0..300 {
            let mixed = Search::Mixed.scenario(1, index);
            if mixed == Search::Connections.scenario(1, index) {
                drawn += 1;
            } else {
                assert!(mixed == Search::Schedules.scenario(1, index), "{index}");
            }
        }
        assert!((60..130).contains(&drawn), "{drawn}");
    }

    #[test]
    fn most_links_open_connections_and_all_else_is_as_it_was_drawn() {
        let (mut with, mut without, mut losses) = (0, 0, 0);
        for index in 0..100 {
            let mut scenario = Search::Connections.scenario(1, index);
            for host in &mut scenario.host {
                match host.as_mut().properties.remove("linkmode") {
                    Some(_) => with += 1,
                    None => without += 1,
                }
            }
            let mut lost = 0;
            for step in &mut scenario.step {
                let Step::Trouble(trouble) = step.get_mut() else { continue };
                let before = trouble.event.len();
                trouble.event.retain(|timed| !matches!(timed.event, Event::CmLost(_)));
                lost += before - trouble.event.len();
            }
            losses += lost;
            assert!(scenario == Search::Schedules.scenario(1, index), "{index}");
        }
        assert!(with > 2 * without && without > 20, "{with} {without}");
        assert!(losses > 50, "{losses}");
    }
}
