//! The scenarios of a campaign, each chosen by a number.
//!
//! What is drawn for number `index` of campaign `seed` is always the same, whatever was found before it. What is made of others depends on
//! how their runs went, and on which others there were: with one worker a campaign is repeated by its seed, with more of them a
//! scenario by its file.

mod children;
mod clones;
mod connections;
mod credits;
mod demand;
mod events;
mod fabric_steps;
mod fabrics;
mod floods;
mod garbled;
mod going;
mod memory;
mod moments;
mod partitions;
mod patience;
mod readers;
mod retrains;
mod routers;
mod schedules;
mod seldom;
mod software;
mod strategies;

pub use children::{Calls, Places, Told};
pub(super) use children::{Family, child};
pub(super) use patience::give as give_patience;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
pub use seldom::Tried;
use serde_spanned::Spanned;
pub use strategies::Kind as StrategyKind;

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
    /// Timelines of trouble, close together, on a small and plain fabric: what races. One in eight is on the software adapter.
    #[default]
    Schedules,
    /// The same, all of them on the software adapter, and one in three with connections.
    Software,
    /// The schedules of [`Search::Schedules`], with links that open connections to each other.
    Connections,
    /// The same, and one in three of them is one of [`Search::Connections`].
    Mixed,
    /// Fabrics of many kinds and what is done on them step by step, with this subnet manager: what does not fit together.
    Fabrics(SmKind),
}

impl Search {
    /// Scenario `index` of the campaign with this seed.
    pub fn scenario(self, seed: u64, index: u64) -> Scenario {
        match self {
            Self::Schedules | Self::Software | Self::Connections | Self::Mixed => {
                let mut scenario = schedules::generate(seed, index);
                let is_on_it = self == Self::Software || software::is_drawn(seed, index);
                let may_be = matches!(self, Self::Mixed | Self::Software);
                if self == Self::Connections || may_be && connections::is_drawn(seed, index) {
                    connections::put(&mut scenario, seed, index);
                }
                going::vary(&mut scenario, seed, index);
                memory::put(&mut scenario, seed, index);
                let scenario = if is_on_it {
                    software::put(scenario)
                } else {
                    readers::put(&mut scenario, seed, index);
                    floods::put(&mut scenario, seed, index);
                    retrains::put(&mut scenario, seed, index);
                    clones::put(&mut scenario, seed, index);
                    garbled::put(&mut scenario, seed, index);
                    credits::put(&mut scenario, seed, index);
                    scenario
                };
                strategies::interleave(patience::give(scenario), seed, index)
            }
            Self::Fabrics(sm) => {
                let mut scenario = fabrics::generate(seed, index, sm);
                if sm == SmKind::Embedded {
                    routers::put(&mut scenario, seed, index);
                    going::vary_fabric(&mut scenario, seed, index);
                    memory::put(&mut scenario, seed, index);
                    readers::put(&mut scenario, seed, index);
                    retrains::put(&mut scenario, seed, index);
                    clones::put(&mut scenario, seed, index);
                    garbled::put(&mut scenario, seed, index);
                }
                patience::give(scenario)
            }
        }
    }

    /// Who manages the subnet.
    pub const fn sm(self) -> SmKind {
        match self {
            Self::Schedules | Self::Software | Self::Connections | Self::Mixed => SmKind::Embedded,
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
    focus: Option<Focus>,
    /// Of which kinds events are; of all if none is named.
    kinds: Vec<u32>,
}

/// Where and when most of a timeline happens: what races with each other has to meet.
#[derive(Clone)]
struct Focus {
    host: String,
    /// Around these instants.
    moments_us: Vec<u64>,
    /// How long after one.
    spread_us: u64,
}

impl Generator<'_> {
    fn any_host(&mut self) -> String {
        if let Some(focus) = self.focus.as_ref().filter(|_| self.rng.random_range(0..5) > 0) {
            return focus.host.clone();
        }
        let n = self.rng.random_range(0..self.hosts.len());
        self.hosts[n].clone()
    }

    /// When something begins.
    fn instant(&mut self) -> u64 {
        match self.focus.clone() {
            Some(focus) if self.rng.random_range(0..5) > 0 => {
                let moment = self.pick(&focus.moments_us);
                (moment + self.rng.random_range(0..=focus.spread_us)).min(self.within_us)
            }
            _ => self.rng.random_range(0..=self.within_us),
        }
    }

    /// For the next timeline: one host and a few moments, or nothing; a few kinds of events, or all. What is left out cannot hide what
    /// the others do (Groce and others, "Swarm Testing", ISSTA 2012).
    fn draw_focus(&mut self) {
        (self.focus, self.kinds) = (None, Vec::new());
        if self.rng.random() {
            self.kinds =
                (0..self.rng.random_range(2..=5)).map(|_| self.rng.random_range(0..events::KINDS)).collect();
        }
        if self.rng.random() {
            let host = self.any_host();
            let moments_us = (0..self.rng.random_range(1..=3))
                .map(|_| self.rng.random_range(0..=self.within_us))
                .collect();
            let spread_us = self.pick(&[1, 20, 200, 1_000, 3_000]);
            self.focus = Some(Focus { host, moments_us, spread_us });
        }
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.rng.random_range(0..from.len())].clone()
    }
}

/// A value that is in no file.
pub(super) fn at<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}
