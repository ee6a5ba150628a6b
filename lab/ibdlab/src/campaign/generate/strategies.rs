//! How the threads of a schedule are interleaved.

use clap::ValueEnum;
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

/// The same timeline, interleaved in another way.
pub(super) fn change(scenario: &mut Scenario, rng: &mut ChaCha8Rng) {
    scenario.schedule = Some(strategy(rng));
    let stalls = stalls(rng);
    for step in &mut scenario.step {
        if let Step::Trouble(trouble) = step.as_mut() {
            trouble.stalls = stalls;
        }
    }
}

/// Strategies of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Random,
    Priorities,
    Turns,
}

impl Kind {
    /// The scenario, with a strategy of this kind in the place of another one.
    pub(in crate::campaign) fn alone(self, mut scenario: Scenario, seed: u64, index: u64) -> Scenario {
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ APART);
        // Another stream than that of the whole draw.
        rng.set_stream(u64::MAX - index);
        if scenario.schedule.as_ref().is_some_and(|schedule| !self.is(schedule)) {
            scenario.schedule = Some(self.draw(&mut rng));
        }
        scenario
    }

    fn is(self, schedule: &Schedule) -> bool {
        match schedule {
            Schedule::Random(_) => self == Self::Random,
            Schedule::Priorities(_) => self == Self::Priorities,
            Schedule::Turns(_) => self == Self::Turns,
            Schedule::Replay(_) => false,
        }
    }

    fn draw(self, rng: &mut ChaCha8Rng) -> Schedule {
        let pick = |rng: &mut ChaCha8Rng, from: &[u32]| from.choose(rng).copied().unwrap_or(1);
        match self {
            Self::Random => Schedule::Random(RandomSchedule { one_in: pick(rng, &[1, 4, 32, 32, 256]) }),
            Self::Priorities => Schedule::Priorities(PrioritySchedule {
                changes: rng.random_range(1..=5),
                // Nobody knows how long a run will be: a scale at random instead of its length.
                within: u64::from(pick(rng, &[4, 16, 64, 256])) * 1_000,
            }),
            Self::Turns => Schedule::Turns(TurnSchedule { calls: pick(rng, &[1, 8, 64]) }),
        }
    }
}

/// In two of three schedules threads lose their processor for long.
fn stalls(rng: &mut ChaCha8Rng) -> Option<StallSpec> {
    let one_in = *[0, 30, 100, 300, 300, 1_000, 0, 300, 100].choose(rng).filter(|one_in| **one_in > 0)?;
    let longest_us = *[1_000, 100_000, 100_000, 2_000_000].choose(rng)?;
    Some(StallSpec { one_in, longest_us })
}

/// Any of them.
pub(super) fn strategy(rng: &mut ChaCha8Rng) -> Schedule {
    let kind = match rng.random_range(0..10) {
        0..5 => Kind::Random,
        5..9 => Kind::Priorities,
        _ => Kind::Turns,
    };
    kind.draw(rng)
}
