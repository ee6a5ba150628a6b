//! A campaign: scenarios chosen by a seed are run in processes of their own until the time is over; what fails is made small
//! and kept as a scenario file that `ibdlab run` reproduces.

mod conditions;
mod generate;
mod shrink;
mod starter;
mod summary;
mod timeline;
mod trial;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::scenario::trouble::Event;
use crate::scenario::{Scenario, Schedule};

pub use conditions::{CONDITIONS, Condition, Provoked, Seen};
pub use generate::Search;
pub use shrink::{Shrunk, decisions, events, fewer_decisions, shrink};
pub use starter::{COMMAND as STARTER, Order as RunOrder, serve as serve_runs};
pub use summary::{Finding, Summary};
pub use trial::{Failure, Outcome, Trials};

/// Of so many scenarios two are run on the objects that count, one on those whose atomic operations are calls, one on those that tell of
/// their loads and stores, too, the others on those that ship.
const ROUND: u64 = 8;
/// The wall-clock time after which a failure is kept as small as it is.
const SHRINK_TIME: Duration = Duration::from_secs(120);

/// What to do.
#[derive(Clone, Debug)]
pub struct Campaign {
    pub search: Search,
    pub seed: u64,
    /// Wall-clock time after which no scenario is begun.
    pub time: Option<Duration>,
    /// The number of the first scenario.
    pub first: u64,
    /// Scenarios after which none is begun.
    pub scenarios: Option<u64>,
    /// Ends with the first failure.
    pub until_found: bool,
    pub workers: usize,
    /// Runs that making one failure small may take.
    pub shrink_runs: usize,
    /// Where findings, summary and working files go.
    pub out: PathBuf,
    /// The objects to test.
    pub proto: PathBuf,
    /// The same with block counters, if they are there.
    pub counting: Option<PathBuf>,
    /// The same with calls for their atomic operations, if they are there.
    pub atomics: Option<PathBuf>,
    /// The same with calls for their loads and stores as well, if they are there.
    pub races: Option<PathBuf>,
    /// Instead of this program.
    pub program: Option<PathBuf>,
}

impl Campaign {
    /// Runs it; `progress` hears a line of what is found as it is found.
    ///
    /// # Errors
    ///
    /// What keeps scenarios from being run at all.
    #[expect(clippy::disallowed_methods, reason = "a campaign has so many minutes of a person's time")]
    pub fn run(&self, progress: impl Fn(&str) + Sync) -> Result<Summary> {
        let state = State {
            campaign: self,
            begun: Instant::now(),
            next: AtomicU64::new(self.first),
            told: AtomicU64::new(0),
            summary: Mutex::new(Summary::new(self.seed)),
            progress: &progress,
        };
        let results = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.workers.max(1))
                .map(|worker| {
                    let state = &state;
                    scope.spawn(move || state.work(worker))
                })
                .collect();
            workers.into_iter().map(|worker| worker.join()).collect::<Vec<_>>()
        });
        for result in results {
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        let mut summary = state.summary.into_inner().unwrap_or_else(PoisonError::into_inner);
        summary.finish(state.begun.elapsed(), self.counting.as_deref())?;
        summary.write(&self.out)?;
        Ok(summary)
    }

    /// Which objects: by the scenario's number, so that it stays the same.
    fn proto_of(&self, index: u64) -> &Path {
        match index % ROUND {
            0 | 4 => self.counting.as_ref(),
            2 => self.atomics.as_ref(),
            6 => self.races.as_ref().or(self.atomics.as_ref()),
            _ => None,
        }
        .unwrap_or(&self.proto)
    }
}

struct State<'a> {
    campaign: &'a Campaign,
    begun: Instant,
    next: AtomicU64,
    /// Minutes that have been told about.
    told: AtomicU64,
    summary: Mutex<Summary>,
    progress: &'a (dyn Fn(&str) + Sync),
}

impl State<'_> {
    fn work(&self, worker: usize) -> Result<()> {
        let workplace = self.trials(worker)?;
        while let Some(index) = self.take() {
            let scenario = self.campaign.search.scenario(self.campaign.seed, index);
            let trials = workplace.on(self.campaign.proto_of(index));
            let outcome = trials.run(&scenario)?;
            let failure = {
                let mut summary = self.summary();
                summary.add(index, &scenario, &outcome);
                outcome.failure.filter(|failure| summary.claim(failure, index))
            };
            if let Some(failure) = failure {
                self.found(&trials, index, scenario, failure)?;
            }
            self.tell();
        }
        Ok(())
    }

    /// Once a minute, how far it is.
    fn tell(&self) {
        let minute = self.begun.elapsed().as_secs() / 60;
        if self.told.fetch_max(minute, Ordering::Relaxed) < minute {
            let (scenarios, failed) = {
                let summary = self.summary();
                (summary.scenarios, summary.failed)
            };
            (self.progress)(&format!("{minute} min: {scenarios} schedules, {failed} failed"));
        }
    }

    fn trials(&self, worker: usize) -> Result<Trials> {
        let directory = self.campaign.out.join(format!("worker-{worker}"));
        let trials = Trials::new(&self.campaign.proto, &directory)?.with_manager(self.campaign.search.sm());
        Ok(match &self.campaign.program {
            Some(program) => trials.with_program(program),
            None => trials,
        })
    }

    fn take(&self) -> Option<u64> {
        let campaign = self.campaign;
        if campaign.time.is_some_and(|time| self.begun.elapsed() >= time)
            || (campaign.until_found && !self.summary().findings.is_empty())
        {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        campaign.scenarios.is_none_or(|all| index - campaign.first < all).then_some(index)
    }

    /// A failure of a new kind: made small, and kept.
    #[expect(clippy::disallowed_methods, reason = "a campaign has so many minutes of a person's time")]
    fn found(&self, trials: &Trials, index: u64, scenario: Scenario, failure: Failure) -> Result<()> {
        (self.progress)(&format!("scenario {index}: {}", failure.signature));
        let proto = self.campaign.proto_of(index);
        let mut last = None;
        // Each run of one that hangs takes the whole patience.
        let budget = if failure.is_hang() { 0 } else { self.campaign.shrink_runs };
        let strategy = scenario.schedule.as_ref().map(Schedule::kind);
        let begun = Instant::now();
        let shrunk = shrink(scenario, budget, |candidate| {
            if begun.elapsed() > SHRINK_TIME {
                return false;
            }
            match trials.run(candidate) {
                Ok(outcome) => {
                    let same = outcome.failure.as_ref().is_some_and(|f| f.signature == failure.signature);
                    if same {
                        last = Some((candidate.clone(), outcome));
                    }
                    same
                }
                Err(_) => false,
            }
        });
        let shrunk = self.fewer_decisions(trials, shrunk, budget, &failure);
        let hash = match last {
            Some((scenario, outcome)) if scenario == shrunk.scenario => outcome.hash,
            _ => trials.run(&shrunk.scenario)?.hash,
        };
        let finding = Finding {
            index,
            failure,
            strategy: strategy.unwrap_or_default(),
            decisions: decisions(&shrunk.scenario),
            events: events(&shrunk.scenario),
            hosts: shrunk.scenario.host.len(),
            shrink_runs: shrunk.runs,
            hash,
            proto: proto.to_owned(),
            sm: self.campaign.search.sm(),
            after_s: self.begun.elapsed().as_secs(),
            times: 1,
            file: PathBuf::new(),
        };
        let finding = finding.keep(&self.campaign.out, shrunk.scenario)?;
        (self.progress)(&finding.line());
        self.summary().findings.push(finding);
        Ok(())
    }

    /// The same failure from fewer switches between threads, if it can be had.
    fn fewer_decisions(&self, trials: &Trials, shrunk: Shrunk, budget: usize, failure: &Failure) -> Shrunk {
        let same = |outcome: Outcome| outcome.failure.is_some_and(|f| f.signature == failure.signature);
        let Some(decisions) = trials.decisions(&shrunk.scenario).ok().filter(|_| budget > 0) else {
            return shrunk;
        };
        let fewer = fewer_decisions(&shrunk.scenario, decisions, budget, |candidate| {
            trials.run(candidate).is_ok_and(same)
        });
        match fewer {
            Some(fewer) => Shrunk { runs: shrunk.runs + fewer.runs, ..fewer },
            None => shrunk,
        }
    }

    fn summary(&self) -> std::sync::MutexGuard<'_, Summary> {
        self.summary.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Events by kind: the name that a scenario file has for it.
fn kinds<'a>(events: impl Iterator<Item = &'a Event>) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for event in events {
        // An event is a table of one entry, its kind.
        let value = serde_json::to_value(event).unwrap_or_default();
        if let Some((name, _)) = value.as_object().and_then(|event| event.iter().next()) {
            *kinds.entry(name.clone()).or_default() += 1;
        }
    }
    kinds
}
