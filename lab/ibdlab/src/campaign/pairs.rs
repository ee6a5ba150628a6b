//! Every pair of events: one happens, and another one in the middle of each call that the driver makes on account of it.
//!
//! Schedules that are drawn come upon a moment by luck. Here every moment that a module's call makes has its turn: first only the one
//! event happens, and the run tells what was called and how often; then there is a scenario for each of these calls and each other
//! event, in which the thread that makes the call has no processor until the other event is over. With the same objects and seed the
//! list is always the same one.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, ensure};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::generate::{Calls, at, give_patience};
use super::trial::Trials;
use crate::scenario::trouble::{
    Call, Event, GroupOf, HcaGoes, OnHost, PkeyAt, SaDoes, SaTrouble, SmComesBack, TimedEvent,
};
use crate::scenario::{Nothing, Scenario, Step, parse};

/// Whom both events happen to.
const HOST: &str = "alice";
/// When the first event begins and when it is taken back, in microseconds.
const FIRST_US: [u64; 2] = [2_000, 30_000];
/// How long the thread that makes the call has no processor: longer than a link takes to close or to come up.
const HOLDS_US: u64 = 20_000;
/// Functions that are called more often than this are those of packets; of the others the first two calls and the last one.
const RARE: u64 = 40;

/// What happens, and what ends it.
type Happening = (Event, Option<Event>);

/// All of them, in an order that the seed draws, so that the first few are of every kind.
///
/// # Errors
///
/// What keeps the runs that tell of the calls from being made, and if one fails: then an event alone is enough.
pub fn all(trials: &Trials, seed: u64) -> Result<Vec<Scenario>> {
    let mut scenarios = Vec::new();
    for first in happenings() {
        let alone = scenario(seed, &first)?;
        let outcome = trials.run(&alone)?;
        if let Some(failure) = outcome.failure {
            ensure!(false, "one event alone fails: {}", failure.text);
        }
        for call in outcome.told.calls.first().map(of_host).into_iter().flatten().flat_map(passes) {
            scenarios.extend(happenings().iter().flat_map(|second| with(&alone, second, &call)));
        }
        scenarios.push(alone);
    }
    scenarios.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    for (number, scenario) in scenarios.iter_mut().enumerate() {
        scenario.name = format!("pairs {seed}, scenario {number}");
    }
    Ok(scenarios)
}

/// Two hosts with traffic in both families and to a group, and one thing that happens.
fn scenario(seed: u64, (event, end): &Happening) -> Result<Scenario> {
    let text = include_str!("pairs.toml");
    let mut scenario = parse(Path::new("pairs.toml"), text)?;
    scenario.seed = seed;
    if seed.is_multiple_of(2) {
        let rings = || BTreeMap::from([("ibd_tx_rings".to_owned(), 4), ("ibd_rx_rings".to_owned(), 1)]);
        scenario.host.iter_mut().for_each(|host| host.get_mut().conf = rings());
    }
    let mut events = vec![TimedEvent::new(FIRST_US[0], event.clone())];
    events.extend(end.clone().map(|end| TimedEvent::new(FIRST_US[1], end)));
    add(&mut scenario, events);
    Ok(give_patience(scenario))
}

/// The scenarios in which another thing happens in the middle of the call: with what ends it at the next such call, and without.
fn with(alone: &Scenario, (event, end): &Happening, call: &Call) -> Vec<Scenario> {
    let on = |event: &Event| TimedEvent { on: Some(call.clone()), ..TimedEvent::new(0, event.clone()) };
    let mut ways = vec![vec![on(event)]];
    ways.extend(end.as_ref().map(|end| vec![on(event), on(end)]));
    let make = |events: Vec<TimedEvent>| {
        let mut scenario = alone.clone();
        add(&mut scenario, events);
        give_patience(scenario)
    };
    ways.into_iter().map(make).collect()
}

fn add(scenario: &mut Scenario, events: Vec<TimedEvent>) {
    for step in &mut scenario.step {
        if let Step::Trouble(trouble) = step.as_mut() {
            trouble.event.extend(events.iter().cloned());
            trouble.event.sort_by_key(|timed| *timed.at_us.get_ref());
        }
    }
}

fn of_host(calls: &Calls) -> impl Iterator<Item = (&String, u64)> {
    calls.get(HOST).into_iter().flatten().map(|(function, times)| (function, *times))
}

/// Which of a function's calls have something in their middle.
fn passes((function, times): (&String, u64)) -> Vec<Call> {
    let mut passes: Vec<u64> = if times > RARE { Vec::new() } else { vec![1, 2, times] };
    passes.retain(|pass| *pass <= times);
    passes.dedup();
    let call = |pass: u64| Call {
        host: at(HOST.to_owned()),
        call: function.clone(),
        pass: u32::try_from(pass).unwrap_or(u32::MAX),
        holds_us: HOLDS_US,
    };
    passes.into_iter().map(call).collect()
}

/// What happens to links from within and without.
fn happenings() -> Vec<Happening> {
    let on = || OnHost::named(HOST);
    let group = || GroupOf { host: at(HOST.to_owned()), group: at([239, 1, 2, 3].into()) };
    let silent = SaTrouble { does: SaDoes::Silent, to: None, from: None, times: None, for_ms: 30 };
    vec![
        (Event::LinkClose(on()), Some(Event::LinkOpen(on()))),
        (Event::Unload(on()), Some(Event::Load(on()))),
        (Event::HcaRemoved(HcaGoes::pulled(HOST)), Some(Event::HcaAdded(on()))),
        (Event::PortDown(on()), Some(Event::PortUp(on()))),
        (
            Event::PkeyRemoved(on()),
            Some(Event::PkeyAdded(PkeyAt { host: at(HOST.to_owned()), index: at(3) })),
        ),
        (Event::GroupJoin(group()), Some(Event::GroupLeave(group()))),
        (Event::GroupDeleted(Nothing {}), Some(Event::GroupCreated(Nothing {}))),
        (Event::SmRestart(SmComesBack { mlids_later: 16, lids_later: 2 }), None),
        (Event::QpBreaks(on()), None),
        (Event::PathAsk(on()), None),
        (Event::Sa(silent), None),
    ]
}
