//! Scenarios in which answers of the SA come in wrong segments; drawn apart, so that the same troubles meet an SA that lies and one that
//! does not know RMPP.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::scenario::trouble::{Event, SaDoes, SaGarbled};
use crate::scenario::{Scenario, Step};

/// Makes the draw another one than those of what happens.
const APART: u64 = 0x4741_5242_4c45_4421;
/// Of so many scenarios one has such an SA.
const ONE_IN: u32 = 2;

/// In some scenarios each lie of the SA becomes a wrong segment.
pub(super) fn put(scenario: &mut Scenario, seed: u64, index: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ APART);
    rng.set_stream(index);
    if rng.random_range(0..ONE_IN) != 0 {
        return;
    }
    for step in &mut scenario.step {
        let Step::Trouble(trouble) = step.get_mut() else { continue };
        for timed in &mut trouble.event {
            if let Event::Sa(sa) = &mut timed.event
                && matches!(sa.does, SaDoes::Lies(_))
            {
                sa.does = SaDoes::Garbles(SaGarbled::ALL[rng.random_range(0..SaGarbled::ALL.len())]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::campaign::Search;
    use crate::report::SmKind;

    #[test]
    fn every_wrong_segment_is_drawn_in_schedules_and_fabrics() {
        for search in [Search::Schedules, Search::Fabrics(SmKind::Embedded)] {
            let mut seen = BTreeSet::new();
            for step in (0..1_600).flat_map(|index| search.scenario(9, index).step) {
                let Step::Trouble(trouble) = step.get_ref() else { continue };
                for timed in &trouble.event {
                    if let Event::Sa(sa) = &timed.event
                        && let SaDoes::Garbles(garbled) = sa.does
                    {
                        seen.insert(format!("{garbled:?}"));
                    }
                }
            }
            assert_eq!(seen.len(), SaGarbled::ALL.len(), "{search:?}: {seen:?}");
        }
    }
}
