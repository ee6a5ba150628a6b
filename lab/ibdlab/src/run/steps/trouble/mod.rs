//! Plays a timeline of trouble under traffic, takes every cause away, and demands that all is well again.
//!
//! What happens to a host's own life (open, close, load, unload, pull) is done by a thread per host, because it takes time;
//! the rest happens at its instant on this one.

mod hand;
mod paths;
mod senders;
pub mod settle;
mod subnet;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use fakekernel::{Nanos, Stalls};

use crate::report::Findings;
use crate::run::world::World;
use crate::scenario::TroubleStep;
use crate::scenario::trouble::{Event, StallSpec};

pub(super) use settle::wanted_groups;

use hand::{Background, Hand, Task, Told};
pub use subnet::faulty_link;
use subnet::{Subnet, Undo};

/// The longest that closing a link may take, whatever else goes on: it waits for the adapter, and for no answer of the SA. Each stall may
/// come on top.
const CLOSE: Nanos = Nanos::from_secs(2);

/// See [`crate::scenario::trouble`].
pub fn trouble(world: &mut World, step: &TroubleStep) -> Result<Findings> {
    let before = settle::Before::of(world);
    let mut subnet = Subnet::new(world)?;
    let quiet = world.machine.now() + Nanos::from_millis(step.within_ms);
    let background = Background {
        quiet: Duration::from_nanos(quiet.0),
        echo_every: Duration::from_micros(step.echo_every_us),
        senders: step.senders,
    };
    let hands = hand::take_over(world, background);
    let longest = |stalls: StallSpec| Nanos::from_micros(stalls.longest_us);
    let stalls = step.stalls.map(|stalls| Stalls { one_in: stalls.one_in, longest: longest(stalls) });
    world.machine.set_stalls(stalls);
    let played = Player::new(world, &mut subnet, &hands, step).play(step);
    world.machine.set_stalls(None);
    // Also after an event that could not be carried out: the hosts have to come back for the report.
    subnet.heal();
    let told = hand::give_back(world, hands);
    played?;
    let Told { refused: told, slowest_close } = told?;
    let most = CLOSE + Nanos(step.stalls.map_or(0, |stalls| longest(stalls).0 * 3));
    ensure!(slowest_close <= most, "closing a link took {slowest_close}, and {most} is the most");
    let recovery = settle::settle(world, &before, Nanos::from_millis(step.settle_ms))
        .map_err(|error| if told.is_empty() { error } else { error.context(told.join("; ")) })?;
    let mut text =
        format!("{} events; everything well {recovery} after the last cause was gone", step.event.len());
    if !told.is_empty() {
        text += &format!("; refused meanwhile: {}", told.join("; "));
    }
    Ok(Findings::new(text)
        .fact("events", step.event.len())
        .fact("recovery_us", recovery.0 / 1_000)
        .fact("slowest_close_us", slowest_close.0 / 1_000)
        .fact("refused", told))
}

enum Action {
    Event(Event),
    Undo(Undo),
}

/// Events and the ends of what lasts a time, in order.
struct Player<'a> {
    world: &'a World,
    subnet: &'a mut Subnet,
    hands: &'a [Hand],
    begun: Nanos,
    plan: BTreeMap<Nanos, VecDeque<Action>>,
}

impl<'a> Player<'a> {
    fn new(world: &'a World, subnet: &'a mut Subnet, hands: &'a [Hand], step: &TroubleStep) -> Self {
        let begun = world.machine.now();
        let mut plan: BTreeMap<Nanos, VecDeque<Action>> = BTreeMap::new();
        for timed in &step.event {
            let at = begun + Nanos::from_micros(*timed.at_us.get_ref());
            plan.entry(at).or_default().push_back(Action::Event(timed.event.clone()));
        }
        Self { world, subnet, hands, begun, plan }
    }

    fn play(mut self, step: &TroubleStep) -> Result<()> {
        let end = self.begun + Nanos::from_millis(step.within_ms);
        while let Some((due, actions)) = self.plan.pop_first().filter(|(due, _)| *due <= end) {
            sleep_until(self.world, due);
            for action in actions {
                self.act(action)?;
            }
        }
        sleep_until(self.world, end);
        Ok(())
    }

    fn act(&mut self, action: Action) -> Result<()> {
        match action {
            Action::Undo(undo) => self.subnet.undo(undo),
            Action::Event(event) => match Task::of(&event) {
                Some((host, task)) => self.hand(host)?.queue(task),
                None => {
                    let undo =
                        self.subnet.carry_out(self.hands, &event).with_context(|| format!("{event:?}"))?;
                    if let Some((after, undo)) = undo {
                        let due = self.world.machine.now() + after;
                        self.plan.entry(due).or_default().push_back(Action::Undo(undo));
                    }
                }
            },
        }
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
