//! Who runs next: the strategies by which a virtual machine interleaves its threads, and the record of what was decided.
//!
//! A thread counts its steps: the scheduling points it passes and the waits it begins. A decision belongs to a thread's step, so that
//! it still means the same when another thread's decision is taken out of the record.

use std::collections::BTreeMap;
use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::config::Config;
use crate::nanos::Nanos;

/// How a virtual machine chooses among the threads that can run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Each with the same chance, now and then ([`Config::switch_one_in`]).
    #[default]
    Random,
    /// Always the one of the highest priority, which the seed gives to each; at `changes` scheduling points among the first `within`
    /// the one that runs falls below all others. Finds a fault that takes `changes` ordered switches with a chance that does not
    /// depend on how long threads are (Burckhardt and others, "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs",
    /// ASPLOS 2010).
    Priorities {
        /// Switches that nothing but the seed asks for.
        changes: u32,
        /// Scheduling points of the whole machine, at least 1.
        within: u64,
    },
    /// The one that could run longest, each for so many scheduling points.
    Turns(u32),
    /// What was decided in another run; the one that could run longest where nothing was.
    Replay(Arc<[Decision]>),
}

/// Something that could have been otherwise, at a step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// `t_did`.
    pub thread: u64,
    /// From 1.
    pub step: u64,
    /// What was decided.
    pub choice: Choice,
}

/// What was decided at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It waits or ends, and this thread (`t_did`) runs next, though another could run longer.
    Next(u64),
    /// It could go on, and this thread runs.
    Switch(u64),
    /// It is off its processor for so long.
    Off(Nanos),
    /// Its wait ends without a signal after so long.
    Spurious(Nanos),
}

impl Choice {
    /// Decisions of different kinds may belong to one step.
    fn kind(self) -> u8 {
        match self {
            Self::Next(_) => 0,
            Self::Switch(_) => 1,
            Self::Off(_) => 2,
            Self::Spurious(_) => 3,
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, value) = match self.choice {
            Choice::Next(thread) => ("next", thread),
            Choice::Switch(thread) => ("switch", thread),
            Choice::Off(span) => ("off", span.0),
            Choice::Spurious(span) => ("spurious", span.0),
        };
        write!(f, "{} {} {word} {value}", self.thread, self.step)
    }
}

/// Why a line is no decision.
#[derive(Debug, thiserror::Error)]
pub enum DecisionError {
    /// A number is none.
    #[error("{0}")]
    Number(#[from] ParseIntError),
    /// Not four words, or an unknown one.
    #[error("expected THREAD STEP next|switch|off|spurious NUMBER, not {0:?}")]
    Words(String),
}

impl FromStr for Decision {
    type Err = DecisionError;

    fn from_str(line: &str) -> Result<Self, DecisionError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[thread, step, word, value] = words.as_slice() else {
            return Err(DecisionError::Words(line.to_owned()));
        };
        let value = value.parse()?;
        let choice = match word {
            "next" => Choice::Next(value),
            "switch" => Choice::Switch(value),
            "off" => Choice::Off(Nanos(value)),
            "spurious" => Choice::Spurious(Nanos(value)),
            _ => return Err(DecisionError::Words(line.to_owned())),
        };
        Ok(Self { thread: thread.parse()?, step: step.parse()?, choice })
    }
}

/// A thread at one of its steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub thread: u64,
    pub step: u64,
}

/// The strategy of one run and what it has decided so far.
pub(crate) struct Chooser {
    rng: ChaCha8Rng,
    plan: Plan,
    switch_one_in: u32,
    preempt_one_in: u32,
    preempt_at_most: Nanos,
    spurious_one_in: u32,
    log: Vec<Decision>,
}

enum Plan {
    Random,
    Priorities(Priorities),
    Turns(u32),
    Replay(BTreeMap<(u64, u64, u8), Choice>),
}

/// Of a thread that never waits: after so many scheduling points in a row it falls below the others, which may be what it waits for.
const PATIENCE: u32 = 20_000;
/// Priorities above this are those threads begin with.
const FIRST: u64 = 1 << 32;

struct Priorities {
    /// By `t_did`; 0 for a thread that was not looked at yet.
    of: Vec<u64>,
    /// Scheduling points at which the running thread falls, the next one last.
    changes: Vec<u64>,
    passed: u64,
    /// What the next thread to fall gets: below all that fell before.
    lowest: u64,
    /// Scheduling points that the running thread has passed since another ran.
    alone: u32,
    running: u64,
    /// Scheduling points from the last one that asked to the next one that will.
    span: u32,
}

impl Chooser {
    pub(crate) fn new(config: &Config, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x6261_746f_6e00_0000);
        let plan = match &config.strategy {
            Strategy::Random => Plan::Random,
            Strategy::Priorities { changes, within } => {
                let mut changes: Vec<u64> =
                    (0..*changes).map(|_| rng.random_range(0..(*within).max(1))).collect();
                changes.sort_unstable_by(|a, b| b.cmp(a));
                Plan::Priorities(Priorities {
                    of: Vec::new(),
                    changes,
                    passed: 0,
                    lowest: FIRST,
                    alone: 0,
                    running: 0,
                    span: 1,
                })
            }
            Strategy::Turns(points) => Plan::Turns((*points).max(1)),
            Strategy::Replay(decisions) => Plan::Replay(
                decisions.iter().map(|d| ((d.thread, d.step, d.choice.kind()), d.choice)).collect(),
            ),
        };
        Self {
            rng,
            plan,
            switch_one_in: config.switch_one_in,
            preempt_one_in: config.preempt_one_in,
            preempt_at_most: config.preempt_at_most,
            spurious_one_in: if config.checks { config.spurious_one_in } else { 0 },
            log: Vec::new(),
        }
    }

    pub(crate) fn log(&self) -> &[Decision] {
        &self.log
    }

    fn decided(&mut self, at: At, choice: Choice) {
        self.log.push(Decision { thread: at.thread, step: at.step, choice });
    }

    /// Scheduling points until one asks ([`Self::at_point`]); `None` for never.
    pub(crate) fn until_asked(&mut self) -> Option<u32> {
        match &self.plan {
            Plan::Random if self.switch_one_in == 0 => None,
            Plan::Random => Some(self.rng.random_range(1..=self.switch_one_in.saturating_mul(2) - 1)),
            Plan::Turns(points) => Some(*points),
            Plan::Priorities(_) | Plan::Replay(_) => Some(1),
        }
    }

    /// After an answer that changed nothing: scheduling points until the next one that may change something, if no thread becomes able
    /// to run before ([`Self::hurry`]). `None` leaves it at [`Self::until_asked`].
    pub(crate) fn calm(&mut self) -> Option<u32> {
        match &mut self.plan {
            Plan::Priorities(priorities) if self.preempt_one_in == 0 => Some(priorities.calm()),
            _ => None,
        }
    }

    /// The next scheduling point asks, although `left` were left of the calm: another thread runs or is able to. False if it asks anyway.
    pub(crate) fn hurry(&mut self, left: u32) -> bool {
        match &mut self.plan {
            Plan::Priorities(priorities) if left > 1 => {
                priorities.span -= left - 1;
                true
            }
            _ => false,
        }
    }

    /// The thread at `at` could go on: which of `others` (in the order in which they could run) runs instead, if any?
    pub(crate) fn at_point(&mut self, at: At, others: &[u64]) -> Option<usize> {
        let chosen = match &mut self.plan {
            Plan::Random if others.is_empty() => None,
            Plan::Random => {
                Some(self.rng.random_range(0..=others.len())).filter(|chosen| *chosen < others.len())
            }
            Plan::Turns(_) => (!others.is_empty()).then_some(0),
            Plan::Priorities(priorities) => priorities.at_point(&mut self.rng, at.thread, others),
            Plan::Replay(decisions) => match decisions.get(&(at.thread, at.step, 1)) {
                Some(Choice::Switch(to)) => others.iter().position(|other| other == to),
                _ => None,
            },
        }?;
        self.decided(at, Choice::Switch(others[chosen]));
        Some(chosen)
    }

    /// The thread at `at` waits or ends: which of `others`, of which there is one at least, runs next?
    pub(crate) fn next(&mut self, at: At, others: &[u64]) -> usize {
        let chosen = match &mut self.plan {
            Plan::Random => self.rng.random_range(0..others.len()),
            Plan::Turns(_) => 0,
            Plan::Priorities(priorities) => priorities.highest(&mut self.rng, others),
            Plan::Replay(decisions) => match decisions.get(&(at.thread, at.step, 0)) {
                Some(Choice::Next(to)) => others.iter().position(|other| other == to).unwrap_or(0),
                _ => 0,
            },
        };
        if chosen != 0 {
            self.decided(at, Choice::Next(others[chosen]));
        }
        chosen
    }

    /// For how long the thread at `at` is taken off its processor, if it is; one that is not `idle` is about to wait anyway.
    pub(crate) fn off(&mut self, at: At, idle: bool) -> Option<Nanos> {
        let span = match &self.plan {
            Plan::Replay(decisions) => match decisions.get(&(at.thread, at.step, 2)) {
                Some(Choice::Off(span)) => *span,
                _ => return None,
            },
            _ if self.preempt_one_in == 0 || self.rng.random_range(0..self.preempt_one_in) != 0 || !idle => {
                return None;
            }
            _ => Nanos(self.rng.random_range(0..=self.preempt_at_most.0)),
        };
        self.decided(at, Choice::Off(span));
        Some(span)
    }

    /// The thread at `at` stalls for so long; false if only what another run decided counts.
    pub(crate) fn stalls(&mut self, at: At, span: Nanos) -> bool {
        if matches!(self.plan, Plan::Replay(_)) {
            return false;
        }
        self.decided(at, Choice::Off(span));
        true
    }

    /// After how long the wait that begins at `at` ends without a signal, if it does (rule 11).
    pub(crate) fn spurious(&mut self, at: At) -> Option<Nanos> {
        let span = match &self.plan {
            Plan::Replay(decisions) => match decisions.get(&(at.thread, at.step, 3)) {
                Some(Choice::Spurious(span)) => *span,
                _ => return None,
            },
            _ if self.spurious_one_in == 0 || self.rng.random_range(0..self.spurious_one_in) != 0 => {
                return None;
            }
            _ => Nanos(self.rng.random_range(0..2_000_000)),
        };
        self.decided(at, Choice::Spurious(span));
        Some(span)
    }
}

impl Priorities {
    fn at_point(&mut self, rng: &mut ChaCha8Rng, me: u64, others: &[u64]) -> Option<usize> {
        let span = std::mem::replace(&mut self.span, 1);
        self.passed += u64::from(span);
        self.alone = if self.running == me { self.alone + span } else { 0 };
        self.running = me;
        let falls = self.changes.pop_if(|at| *at < self.passed).is_some() || self.alone > PATIENCE;
        if falls {
            self.alone = 0;
            self.lowest -= 1;
            let lowest = self.lowest;
            *self.slot(me) = lowest;
        }
        if others.is_empty() {
            return None;
        }
        let own = self.of(rng, me);
        let highest = self.highest(rng, others);
        (self.of(rng, others[highest]) > own).then_some(highest)
    }

    /// Points until the running thread may fall.
    fn calm(&mut self) -> u32 {
        let patience = PATIENCE + 1 - self.alone;
        let change = self.changes.last().map_or(u64::MAX, |at| (at + 1).saturating_sub(self.passed));
        self.span = u32::try_from(change).map_or(patience, |change| change.min(patience)).max(1);
        self.span
    }

    fn highest(&mut self, rng: &mut ChaCha8Rng, threads: &[u64]) -> usize {
        let mut best = (0, 0);
        for (index, thread) in threads.iter().enumerate() {
            let priority = self.of(rng, *thread);
            if priority > best.1 {
                best = (index, priority);
            }
        }
        best.0
    }

    fn of(&mut self, rng: &mut ChaCha8Rng, thread: u64) -> u64 {
        let slot = self.slot(thread);
        if *slot == 0 {
            *slot = rng.random_range(FIRST..=u64::MAX);
        }
        *slot
    }

    fn slot(&mut self, thread: u64) -> &mut u64 {
        let index = thread as usize;
        if index >= self.of.len() {
            self.of.resize(index + 1, 0);
        }
        &mut self.of[index]
    }
}
