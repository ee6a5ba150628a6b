//! How the threads of a schedule are interleaved.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::scenario::trouble::StallSpec;
use crate::scenario::{PrioritySchedule, RandomSchedule, Scenario, Schedule, Step, TurnSchedule};

/// Makes the draw another one than that of what happens, so that the same troubles meet every strategy.
const APART: u64 = 0x5343_4845_4455_4c45;

/// The scenario with a strategy, and with threads to interleave: in half of them hosts send from several.
pub fn interleave(mut scenario: Scenario, seed: u64, index: u64) -> Scenario {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ APART);
    rng.set_stream(index);
    scenario.schedule = Some(strategy(&mut rng));
    let senders = *[0, 0, 0, 1, 2, 3].choose(&mut rng).unwrap_or(&0);
    let stalls = stalls(&mut rng);
    for step in &mut scenario.step {
        if let Step::Trouble(trouble) = step.as_mut() {
            trouble.senders = senders;
            trouble.stalls = stalls;
        }
    }
    scenario
}

/// In two of three schedules threads lose their processor for long.
fn stalls(rng: &mut ChaCha8Rng) -> Option<StallSpec> {
    let one_in = *[0, 30, 100, 300, 300, 1_000, 0, 300, 100].choose(rng).filter(|one_in| **one_in > 0)?;
    let longest_us = *[1_000, 100_000, 100_000, 2_000_000].choose(rng)?;
    Some(StallSpec { one_in, longest_us })
}

/// Any of them.
pub(super) fn strategy(rng: &mut ChaCha8Rng) -> Schedule {
    let pick = |rng: &mut ChaCha8Rng, from: &[u32]| from.choose(rng).copied().unwrap_or(1);
    match rng.random_range(0..10) {
        0..5 => Schedule::Random(RandomSchedule { one_in: pick(rng, &[1, 4, 32, 32, 256]) }),
        5..9 => Schedule::Priorities(PrioritySchedule {
            changes: rng.random_range(1..=5),
            // Nobody knows how long a run will be: a scale at random instead of its length.
            within: u64::from(pick(rng, &[4, 16, 64, 256])) * 1_000,
        }),
        _ => Schedule::Turns(TurnSchedule { calls: pick(rng, &[1, 8, 64]) }),
    }
}
