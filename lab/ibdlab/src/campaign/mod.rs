//! A campaign: scenarios chosen by a seed are run in processes of their own until the time is over; what fails is made small
//! and kept as a scenario file that `ibdlab run` reproduces.

mod conditions;
mod corpus;
mod generate;
mod pairs;
mod shrink;
mod starter;
mod summary;
mod timeline;
mod trial;

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::scenario::trouble::Event;
use crate::scenario::{Scenario, Schedule};

pub use conditions::{CONDITIONS, Condition, Provoked, Seen};
use corpus::{Corpus, Parent};
pub use generate::{Calls, Places, Search, StrategyKind, Told};
use generate::{Family, Tried, child};
pub use shrink::{Shrunk, decisions, events, fewer_decisions, shrink};
pub use starter::{COMMAND as STARTER, Order as RunOrder, serve as serve_runs};
pub use summary::{Finding, Origin, Summary};
pub use trial::{Failure, Outcome, Trials};

/// Of so many families two are run on the objects that count, one on those whose atomic operations are calls, one on those that tell of
/// their loads and stores, too, the others on those that ship.
const ROUND: u64 = 8;
/// A scenario that is drawn and those that are made of it, as its run went; or as many that are made of one of the corpus.
const FAMILY: u64 = 3;
/// Makes the draw of families another one than that of scenarios.
const FAMILIES: u64 = 0x4641_4d49_4c49_4553;
/// The wall-clock time after which a failure is kept as small as it is.
const SHRINK_TIME: Duration = Duration::from_secs(120);

/// What to do.
#[derive(Clone, Debug)]
pub struct Campaign {
    pub search: Search,
    /// Instead of what is drawn: every pair of events, until all are done.
    pub pairs: bool,
    pub seed: u64,
    /// The only strategies to interleave threads by, if not all.
    pub strategy: Option<StrategyKind>,
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
        let _alone = self.alone()?;
        self.look_for_objects()?;
        let state = State {
            campaign: self,
            list: self.pairs.then(|| self.list(&progress)).transpose()?,
            begun: Instant::now(),
            next: AtomicU64::new(self.first),
            told: AtomicU64::new(0),
            summary: Mutex::new(Summary::new(self.seed)),
            corpus: Mutex::default(),
            tried: Mutex::default(),
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
        let corpus = state.corpus.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut summary = state.summary.into_inner().unwrap_or_else(PoisonError::into_inner);
        summary.corpus = (corpus.len(), corpus.reached());
        summary.finish(state.begun.elapsed(), self.counting.as_deref())?;
        summary.write(&self.out)?;
        Ok(summary)
    }

    /// Without objects of the sources each run would fail, and each failure be taken for a finding.
    fn look_for_objects(&self) -> Result<()> {
        let more = [&self.counting, &self.atomics, &self.races].into_iter().flatten();
        for proto in std::iter::once(&self.proto).chain(more) {
            let needed = ["mac/amd64/mac_ib", "drv/amd64/ibd", "drv/amd64/ibp"].map(|path| proto.join(path));
            needed.iter().try_for_each(|path| sources::refresh(path))?;
            if let Some(path) = needed.iter().find(|path| !path.is_file()) {
                bail!("{}: no such object; `make modules` builds ours", path.display());
            }
        }
        Ok(())
    }

    /// Two that write into one directory would take each other's scenarios for their own. Nobody else has it while the result is kept.
    fn alone(&self) -> Result<File> {
        let named = || self.out.display().to_string();
        fs::create_dir_all(&self.out).with_context(named)?;
        let directory = File::open(&self.out).with_context(named)?;
        match directory.try_lock() {
            Ok(()) => Ok(directory),
            Err(TryLockError::WouldBlock) => {
                bail!("another campaign is at work in {}: `--out` names another directory", named())
            }
            Err(TryLockError::Error(error)) => Err(error).with_context(named),
        }
    }

    /// The pairs of events.
    fn list(&self, progress: impl Fn(&str)) -> Result<Vec<Scenario>> {
        let list = pairs::all(&self.trials("calls")?, self.seed)?;
        progress(&format!(
            "{} schedules of two events, the second in the middle of a call of the first",
            list.len()
        ));
        Ok(list)
    }

    fn trials(&self, workplace: &str) -> Result<Trials> {
        let trials = Trials::new(&self.proto, &self.out.join(workplace))?.with_manager(self.search.sm());
        Ok(match &self.program {
            Some(program) => trials.with_program(program),
            None => trials,
        })
    }

    /// Which objects: by the family, so that a child is run on those of its parent.
    fn proto_of(&self, index: u64) -> &Path {
        match index / FAMILY % ROUND {
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
    /// All scenarios that there are, unless they are drawn.
    list: Option<Vec<Scenario>>,
    begun: Instant,
    next: AtomicU64,
    /// Minutes that have been told about.
    told: AtomicU64,
    summary: Mutex<Summary>,
    corpus: Mutex<Corpus>,
    tried: Mutex<Tried>,
    progress: &'a (dyn Fn(&str) + Sync),
}

impl State<'_> {
    fn work(&self, worker: usize) -> Result<()> {
        let workplace = self.campaign.trials(&format!("worker-{worker}"))?;
        while let Some(family) = self.take() {
            match &self.list {
                Some(list) => self.try_all(&workplace, list, family)?,
                None => self.try_family(&workplace, family)?,
            }
        }
        Ok(())
    }

    fn try_all(&self, workplace: &Trials, list: &[Scenario], numbers: Range<u64>) -> Result<()> {
        let of_list = |index: u64| Some((index, list.get(usize::try_from(index).ok()?)?));
        for (index, scenario) in numbers.filter_map(of_list) {
            self.try_one(workplace, index, scenario.clone(), Origin::Listed)?;
        }
        Ok(())
    }

    /// Draws a scenario and runs it, or takes one of the corpus; and runs others that are made of it, as its run went.
    fn try_family(&self, workplace: &Trials, mut family: Range<u64>) -> Result<()> {
        let Campaign { search, seed, .. } = *self.campaign;
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ FAMILIES);
        rng.set_stream(family.start);
        let kept = if rng.random() {
            self.corpus().take(self.campaign.proto_of(family.start), &mut rng)
        } else {
            None
        };
        let (parent, origin) = match kept {
            Some(kept) => (Some(kept), Origin::Corpus),
            None => {
                let scenario = search.scenario(seed, family.start);
                (self.try_one(workplace, family.start, scenario, Origin::Drawn)?, Origin::Child)
            }
        };
        if origin == Origin::Child {
            family.start += 1;
        }
        for index in family {
            if self.is_over() {
                break;
            }
            let other = self.corpus().any(&mut rng);
            let other = other.as_ref().map(|other| &other.scenario);
            let child = parent.as_ref().and_then(|parent| {
                let family = Family { parent: &parent.scenario, told: &parent.told, other };
                child(search, family, &mut self.tried(), seed, index)
            });
            let (scenario, origin) = match child {
                Some(child) => (child, origin),
                None => (search.scenario(seed, index), Origin::Drawn),
            };
            self.try_one(workplace, index, scenario, origin)?;
        }
        Ok(())
    }

    /// Runs a scenario and keeps what is found; what others can be made of, if it ended well.
    fn try_one(
        &self,
        workplace: &Trials,
        index: u64,
        scenario: Scenario,
        origin: Origin,
    ) -> Result<Option<Arc<Parent>>> {
        let Campaign { strategy, seed, .. } = *self.campaign;
        let scenario = strategy.map_or(scenario.clone(), |kind| kind.alone(scenario, seed, index));
        let trials = workplace.on(self.campaign.proto_of(index));
        let outcome = trials.run(&scenario)?;
        let (new, parent) = {
            let mut summary = self.summary();
            summary.add(index, &scenario, &outcome);
            let new = outcome.failure.clone().filter(|failure| summary.claim(failure, index));
            drop(summary);
            (new, Arc::new(Parent { scenario, told: outcome.told }))
        };
        let failed = outcome.failure.is_some();
        let news = !failed && self.corpus().note(&outcome.reached, &parent, self.campaign.proto_of(index));
        self.summary().came_of(origin, news, failed);
        if let Some(failure) = new {
            self.found(&trials, index, parent.scenario.clone(), failure)?;
        }
        self.tell();
        Ok((!failed).then_some(parent))
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

    /// The numbers of the next family.
    fn take(&self) -> Option<Range<u64>> {
        if self.is_over() {
            return None;
        }
        let Campaign { first, scenarios, .. } = *self.campaign;
        let start = self.next.fetch_add(FAMILY, Ordering::Relaxed);
        let all = scenarios.map_or(u64::MAX, |all| first.saturating_add(all));
        let listed = self.list.as_ref().map_or(u64::MAX, |list| list.len() as u64);
        let end = (start + FAMILY).min(all).min(listed);
        (start < end).then_some(start..end)
    }

    fn is_over(&self) -> bool {
        let campaign = self.campaign;
        campaign.time.is_some_and(|time| self.begun.elapsed() >= time)
            || (campaign.until_found && !self.summary().findings.is_empty())
    }

    /// A failure of a new kind: kept as it is, for whoever ends the campaign meanwhile, and then as small as it gets.
    #[expect(clippy::disallowed_methods, reason = "a campaign has so many minutes of a person's time")]
    fn found(&self, trials: &Trials, index: u64, scenario: Scenario, failure: Failure) -> Result<()> {
        (self.progress)(&format!("scenario {index}: {}", failure.signature));
        let finding = self.finding(index, failure, &scenario);
        let finding = finding.keep(&self.campaign.out, scenario.clone())?;
        // Each run of one that hangs takes the whole patience.
        let budget = if finding.failure.is_hang() { 0 } else { self.campaign.shrink_runs };
        let begun = Instant::now();
        let mut last = None;
        let mut fails = |candidate: &Scenario| {
            if begun.elapsed() > SHRINK_TIME {
                return false;
            }
            let outcome = trials.run(candidate).ok();
            let outcome = outcome.filter(|outcome| {
                outcome.failure.as_ref().is_some_and(|f| f.signature == finding.failure.signature)
            });
            let same = outcome.is_some();
            if let Some(outcome) = outcome {
                last = Some((candidate.clone(), outcome));
            }
            same
        };
        let shrunk = shrink(scenario, budget, &mut fails);
        let shrunk = fewer(trials, shrunk, budget, &mut fails);
        let hash = match last {
            Some((scenario, outcome)) if scenario == shrunk.scenario => outcome.hash,
            _ => trials.run(&shrunk.scenario)?.hash,
        };
        let finding = Finding {
            decisions: decisions(&shrunk.scenario),
            events: events(&shrunk.scenario),
            hosts: shrunk.scenario.host.len(),
            shrink_runs: shrunk.runs,
            hash,
            ..finding
        };
        let finding = finding.keep(&self.campaign.out, shrunk.scenario)?;
        (self.progress)(&finding.line());
        self.summary().findings.push(finding);
        Ok(())
    }

    fn finding(&self, index: u64, failure: Failure, scenario: &Scenario) -> Finding {
        Finding {
            index,
            failure,
            strategy: scenario.schedule.as_ref().map(Schedule::kind).unwrap_or_default(),
            decisions: decisions(scenario),
            events: events(scenario),
            hosts: scenario.host.len(),
            shrink_runs: 0,
            hash: String::new(),
            proto: self.campaign.proto_of(index).to_owned(),
            sm: self.campaign.search.sm(),
            after_s: self.begun.elapsed().as_secs(),
            times: 1,
            file: PathBuf::new(),
        }
    }

    fn summary(&self) -> MutexGuard<'_, Summary> {
        self.summary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn corpus(&self) -> MutexGuard<'_, Corpus> {
        self.corpus.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tried(&self) -> MutexGuard<'_, Tried> {
        self.tried.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same failure from fewer switches between threads, if it can be had.
fn fewer(trials: &Trials, shrunk: Shrunk, budget: usize, fails: impl FnMut(&Scenario) -> bool) -> Shrunk {
    let Some(decisions) = trials.decisions(&shrunk.scenario).ok().filter(|_| budget > 0) else {
        return shrunk;
    };
    match fewer_decisions(&shrunk.scenario, decisions, budget, fails) {
        Some(fewer) => Shrunk { runs: shrunk.runs + fewer.runs, ..fewer },
        None => shrunk,
    }
}

/// Events by kind: the name that a scenario file has for it.
fn kinds<'a>(events: impl Iterator<Item = &'a Event>) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for event in events {
        *kinds.entry(event.kind()).or_default() += 1;
    }
    kinds
}
