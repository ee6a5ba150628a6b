//! Plays a timeline of trouble under traffic, takes every cause away, and demands that all is well again.
//!
//! What happens to a host's own life (open, close, load, unload, pull) is done by a thread per host, because it takes time;
//! the rest happens at its instant on this one.

mod addresses;
mod calls;
mod hand;
mod happened;
mod kept;
mod paths;
mod readers;
mod requests;
mod senders;
pub mod settle;
mod software;
mod strangers;
mod subnet;
mod tally;
mod visitor;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use fakekernel::{FaultKind, Moment, Nanos, Stalls};

use crate::report::Findings;
use crate::run::world::World;
use crate::scenario::TroubleStep;
use crate::scenario::trouble::{Call, Event, StallSpec, TimedEvent};

use super::traffic::Transfer;

use addresses::Addresses;
use hand::{Background, Hand, Task, Told};
pub use happened::Happened;
use happened::Notes;
pub use subnet::faulty_link;
use subnet::{Subnet, Undo};
pub use tally::Place;
use tally::{Tally, most_curious, questions_for_strangers, questions_of_groups, questions_of_visits};

/// The longest that closing a link may take, whatever else goes on: it waits for the adapter, and for no answer of the SA. Each stall may
/// come on top.
const CLOSE: Nanos = Nanos::from_secs(2);
/// The longest that the deletion of a link may be refused because of what the link itself has left: a question to the SA that is out takes a minute. Each stall, and
/// each time that another one opens the link, may come on top.
const DELETE: Nanos = Nanos::from_secs(70);
/// And for connections, which neighbours may take their time to end.
const CONNECTIONS: Nanos = Nanos::from_secs(230);
/// The most that a host may ask the subnet administrator in a second, and once more in the first one, beside its own groups. The busiest of 5,400 had asked 151 times within
/// 2.1 s; who asks again as soon as he is answered asks thousands of times.
const QUESTIONS: u64 = 200;
/// How long a host may take beyond the end of the timeline for what it is asked: unloading, say, while the SA is silent.
const LINGERS: Nanos = Nanos::from_secs(100);
/// How long a transfer may take when all is well again.
const TRANSFER: Nanos = Nanos::from_secs(1_800);
const LOOK_EVERY: Nanos = Nanos::from_secs(1);

/// What things happen to, beside the hosts.
trait Scene {
    /// Makes the event of this number happen; what ends it, and after how long.
    fn carry_out(&mut self, hands: &[Hand], number: usize, event: &Event) -> Result<Option<(Nanos, Undo)>>;
    /// Ends what lasted a time.
    fn undo(&mut self, undo: Undo) -> Result<()>;
    /// Takes every cause away.
    fn heal(&mut self) -> Result<()>;
    /// Events that came to nothing.
    fn in_vain(&self) -> &[usize];
}

/// See [`crate::scenario::trouble`].
pub fn trouble(world: &mut World, step: &TroubleStep) -> Result<Findings> {
    let (before, addresses) = (settle::Before::of(world), Addresses::of(world));
    let mut scene: Box<dyn Scene> = match &world.software {
        Some(software) => Box::new(software::Adapter::new(world, software)),
        None => Box::new(Subnet::new(world)?),
    };
    let begun = world.machine.now();
    let quiet = begun + Nanos::from_millis(step.within_ms);
    let background = Background {
        quiet: Duration::from_nanos(quiet.0),
        echo_every: Duration::from_micros(step.echo_every_us),
        senders: step.senders,
    };
    let transfer = step.tcp.as_ref().map(|tcp| Transfer::begin(world, tcp)).transpose()?;
    let hands = hand::take_over(world, background);
    let tally = Tally::begin(&hands);
    let longest = |stalls: StallSpec| Nanos::from_micros(stalls.longest_us);
    let stalls = step.stalls.map(|stalls| Stalls { one_in: stalls.one_in, longest: longest(stalls) });
    world.machine.set_stalls(stalls);
    let played = Player::new(world, scene.as_mut(), &hands, step).play(step);
    world.machine.set_stalls(None);
    let sites = tally.places(&hands);
    let calls = tally.end(&hands);
    let lasted = world.machine.now().since(begun);
    let missed = world.machine.forget_moments();
    // Also after an event that could not be carried out: the hosts have to come back for the report.
    let healed = scene.heal();
    let told = hand::give_back(world, hands);
    let mut notes = played?;
    healed?;
    let Told { happened, refused: told, slowest_close, slowest_delete } = told?;
    happened.into_iter().for_each(|(event, from, until)| notes.add(event, from, until));
    scene.in_vain().iter().for_each(|event| notes.take_back(*event));
    let happened = notes.all();
    let (host, questions) = most_curious(&calls);
    let seconds = lasted.0.div_ceil(Nanos::from_secs(1).0);
    let most = QUESTIONS * (1 + seconds)
        + questions_of_groups(step, host)
        + questions_for_strangers(step, host)
        + questions_of_visits(step, host);
    ensure!(
        questions <= most,
        "{host} asked the SA {questions} times in {lasted}, and {most} times is the most"
    );
    let held = step
        .event
        .iter()
        .filter_map(|timed| timed.on.as_ref())
        .map(|call| call.holds_us * 1_000)
        .sum::<u64>();
    let stalled = Nanos(held + step.stalls.map_or(0, |stalls| longest(stalls).0 * 3));
    let stalled = stalled + shortages(step);
    let most = CLOSE + stalled;
    ensure!(slowest_close <= most, "closing a link took {slowest_close}, and {most} is the most");
    check_memory(step, &told)?;
    kept::check(world, step, seconds)?;
    let connections = if world.hosts.iter().any(|host| host.connected) { CONNECTIONS } else { Nanos(0) };
    let most = DELETE + stalled + visits(step) + connections;
    ensure!(slowest_delete <= most, "deleting a link took {slowest_delete}, and {most} is the most");
    let recovery = settle::settle(world, &before, Nanos::from_millis(step.settle_ms))
        .map_err(|error| if told.is_empty() { error } else { error.context(told.join("; ")) })?;
    readers::harm_nobody(world, step)?;
    addresses.check(world, step.event.iter().map(|timed| &timed.event))?;
    let moved = transfer.map(|transfer| transfer.finish(world, TRANSFER)).transpose()?;
    let mut text =
        format!("{} events; everything well {recovery} after the last cause was gone", step.event.len());
    if !missed.is_empty() {
        text += &format!("; {} waited for a call that did not come", missed.len());
    }
    if let Some(moved) = &moved {
        text += &format!("; {}", moved.text);
    }
    if !told.is_empty() {
        text += &format!("; refused meanwhile: {}", told.join("; "));
    }
    Ok(Findings::new(text)
        .fact("events", step.event.len())
        .fact("happened", serde_json::to_value(happened)?)
        .fact("calls", serde_json::to_value(calls)?)
        .fact("sites", serde_json::to_value(sites)?)
        .fact("recovery_us", recovery.0 / 1_000)
        .fact("slowest_close_us", slowest_close.0 / 1_000)
        .fact("slowest_delete_us", slowest_delete.0 / 1_000)
        .fact("refused", told))
}

/// How long others have links open, in all.
fn visits(step: &TroubleStep) -> Nanos {
    let visits = step.event.iter().map(|timed| match &timed.event {
        Event::LinkVisited(visits) => visits.for_ms + visits.every_us / 1_000,
        _ => 0,
    });
    Nanos::from_millis(visits.sum())
}

/// How long a thread may wait for memory, in all.
fn shortages(step: &TroubleStep) -> Nanos {
    let shortages = step.event.iter().map(|timed| match &timed.event {
        Event::MemoryShort(short) => short.for_ms,
        _ => 0,
    });
    Nanos::from_millis(shortages.sum())
}

enum Action {
    /// The event of this number happens.
    Event(usize),
    /// It waits for its call from now on.
    Expect(usize, Call),
    Undo(Undo),
}

/// Events and the ends of what lasts a time, in order.
struct Player<'a> {
    world: &'a World,
    scene: &'a mut dyn Scene,
    hands: &'a [Hand],
    events: &'a [TimedEvent],
    notes: Notes,
    begun: Nanos,
    plan: BTreeMap<Nanos, VecDeque<Action>>,
}

impl<'a> Player<'a> {
    fn new(world: &'a World, scene: &'a mut dyn Scene, hands: &'a [Hand], step: &'a TroubleStep) -> Self {
        let begun = world.machine.now();
        let mut plan: BTreeMap<Nanos, VecDeque<Action>> = BTreeMap::new();
        for (number, timed) in step.event.iter().enumerate() {
            let at = begun + Nanos::from_micros(*timed.at_us.get_ref());
            let action = match &timed.on {
                Some(call) => Action::Expect(number, call.clone()),
                None => Action::Event(number),
            };
            plan.entry(at).or_default().push_back(action);
        }
        Self { world, scene, hands, events: &step.event, notes: Notes::new(begun), begun, plan }
    }

    fn play(mut self, step: &TroubleStep) -> Result<Notes> {
        let end = self.begun + Nanos::from_millis(step.within_ms);
        self.play_until(end)?;
        // What is asked of a host waits until the host is done with what was asked before, and belongs to the trouble all the same.
        let (mut now, mut pause) = (end, Nanos::from_millis(1));
        while now < end + LINGERS && self.hands.iter().any(Hand::is_busy) {
            now += pause;
            pause = Nanos((pause.0 * 2).min(LOOK_EVERY.0));
            self.play_until(now)?;
        }
        Ok(self.notes)
    }

    fn play_until(&mut self, end: Nanos) -> Result<()> {
        loop {
            let due = self.plan.first_key_value().map_or(end, |(due, _)| *due).min(end);
            if let Some(number) = self.wait_until(due) {
                self.act(Action::Event(number))?;
                continue;
            }
            let Some(actions) = self.plan.remove(&due) else { return Ok(()) };
            for action in actions {
                self.act(action)?;
            }
        }
    }

    /// The number of the next event whose call comes, if one comes until then.
    fn wait_until(&self, due: Nanos) -> Option<usize> {
        if self.events.iter().any(|timed| timed.on.is_some()) {
            return self.world.machine.next_moment(due);
        }
        sleep_until(self.world, due);
        None
    }

    fn act(&mut self, action: Action) -> Result<()> {
        match action {
            Action::Undo(undo) => self.scene.undo(undo)?,
            Action::Expect(number, call) => self.expect(number, &call)?,
            Action::Event(number) => self.happen(number)?,
        }
        Ok(())
    }

    fn happen(&mut self, number: usize) -> Result<()> {
        let event = &self.events[number].event;
        if let Some((host, task)) = Task::of(event) {
            self.hand(host)?.queue(Some(number), task);
            return Ok(());
        }
        if let Event::HcaCloned(clone) = event {
            let port = self.hand(clone.of.get_ref())?.port;
            self.hand(clone.host.get_ref())?.queue(Some(number), Task::Flash(Some(port)));
            return Ok(());
        }
        let now = self.world.machine.now();
        if let Event::LinkVisited(visits) = event {
            let until = now + Nanos::from_millis(visits.for_ms);
            self.hand(visits.host.get_ref())?.visit(until, Nanos::from_micros(visits.every_us));
            self.notes.add(number, now, until);
            return Ok(());
        }
        let carried_out = self.scene.carry_out(self.hands, number, event);
        let undo = carried_out.with_context(|| format!("{event:?}"))?;
        let until = undo.as_ref().map_or(now, |(after, _)| now + *after);
        self.notes.add(number, now, until);
        if let Some((after, undo)) = undo {
            let due = self.world.machine.now() + after;
            self.plan.entry(due).or_default().push_back(Action::Undo(undo));
        }
        Ok(())
    }

    fn expect(&self, number: usize, call: &Call) -> Result<()> {
        // Hosts on a software adapter have one kernel.
        let kernel = &self.hand(call.host.get_ref())?.kernel;
        let known = kernel.provides(&call.call);
        ensure!(known, "the lab's kernel has no function `{}`, for which an event waits", call.call);
        let moment = Moment {
            host: kernel.name().to_owned(),
            call: call.call.clone(),
            pass: call.pass,
            holds: Nanos::from_micros(call.holds_us),
        };
        self.world.machine.expect(number, moment);
        Ok(())
    }

    fn hand(&self, host: &str) -> Result<&Hand> {
        self.hands.iter().find(|hand| hand.name == host).ok_or_else(|| anyhow!("there is no host `{host}`"))
    }
}

fn sleep_until(world: &World, due: Nanos) {
    let now = world.machine.now();
    if due > now {
        fakekernel::sleep(due.since(now));
    }
}

/// A driver waits for memory when it is loaded, attaches, makes a partition or sets a property, as illumos's own does: none of that is
/// refused because its own allocations fail for a time. What the kernel allocates for such a call may be refused (dld's copy of an
/// ioctl, kstats): so this is a failure only where all that fails is memory of modules.
fn check_memory(step: &TroubleStep, told: &[String]) -> Result<()> {
    let is_own = |event: &Event| match event {
        Event::AllocationFails(fails) => fails.kind.kind() == FaultKind::KMEM && fails.module.is_some(),
        Event::MemoryShort(short) => short.module.is_some(),
        _ => true,
    };
    let refused = told.iter().find(|told| told.contains("ENOMEM"));
    match refused.filter(|_| step.event.iter().all(|timed| is_own(&timed.event))) {
        Some(refused) => bail!("refused for want of memory, which can be waited for: {refused}"),
        None => Ok(()),
    }
}
