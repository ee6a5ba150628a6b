//! Links of a schedule that open connections, most of them; drawn apart, so that the same troubles meet schedules with and without.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::at;
use crate::scenario::{PropertyText, Scenario};

/// Makes the draw another one than those of what happens.
const APART: u64 = 0x434f_4e4e_4543_5449;

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
}

#[cfg(test)]
mod tests {
    use super::super::Search;

    #[test]
    fn most_links_open_connections_and_all_else_is_as_it_was_drawn() {
        let (mut with, mut without) = (0, 0);
        for index in 0..100 {
            let mut scenario = Search::Connections.scenario(1, index);
            for host in &mut scenario.host {
                match host.as_mut().properties.remove("linkmode") {
                    Some(_) => with += 1,
                    None => without += 1,
                }
            }
            assert!(scenario == Search::Schedules.scenario(1, index), "{index}");
        }
        assert!(with > 2 * without && without > 20, "{with} {without}");
    }
}
