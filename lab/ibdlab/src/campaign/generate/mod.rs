//! The scenarios of a campaign, each chosen by a number.
//!
//! Scenario `index` of campaign `seed` is always the same one, whatever was found before it, so a campaign can be repeated,
//! split, or gone on with.

mod events;
mod fabric_steps;
mod fabrics;
mod patience;
mod schedules;
mod strategies;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde_spanned::Spanned;

use crate::report::SmKind;
use crate::scenario::Scenario;

/// Who the hosts are.
pub(super) const NAMES: [&str; 10] =
    ["alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy"];
/// IPv6 asks for 1280 bytes of every link.
const LEAST_MTU_OF_IPV6: u32 = 2048;
/// What is searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Search {
    /// Timelines of trouble, close together, on a small and plain fabric: what races.
    #[default]
    Schedules,
    /// Fabrics of many kinds and what is done on them step by step, with this subnet manager: what does not fit together.
    Fabrics(SmKind),
}

impl Search {
    /// Scenario `index` of the campaign with this seed.
    pub fn scenario(self, seed: u64, index: u64) -> Scenario {
        match self {
            Self::Schedules => {
                let scenario = patience::give(schedules::generate(seed, index));
                strategies::interleave(scenario, seed, index)
            }
            Self::Fabrics(sm) => patience::give(fabrics::generate(seed, index, sm)),
        }
    }

    /// Who manages the subnet.
    pub const fn sm(self) -> SmKind {
        match self {
            Self::Schedules => SmKind::Embedded,
            Self::Fabrics(sm) => sm,
        }
    }
}

/// Draws.
struct Generator<'a> {
    rng: &'a mut ChaCha8Rng,
    /// Whom something may happen to.
    hosts: Vec<String>,
    /// How long the timeline is that is drawn.
    within_us: u64,
    /// How long the SA takes for one request.
    sa_delay_ms: u64,
}

impl Generator<'_> {
    fn any_host(&mut self) -> String {
        let n = self.rng.random_range(0..self.hosts.len());
        self.hosts[n].clone()
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.rng.random_range(0..from.len())].clone()
    }
}

fn at<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}
