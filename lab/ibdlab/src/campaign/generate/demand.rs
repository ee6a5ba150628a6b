//! Calls and requests for what fails: a call that is made to fail and an administrator that does not answer are nothing if nobody calls
//! and nobody asks meanwhile.

use rand::RngExt;

use super::{Generator, at};
use crate::scenario::TroubleStep;
use crate::scenario::trouble::{Event, GroupOf, OnHost, TimedEvent};

/// How long after the failure begins somebody calls, at most, in microseconds.
const SOON_US: u64 = 3_000;

impl Generator<'_> {
    /// After most of what makes calls and requests fail something happens that makes a host's driver call and ask.
    pub(super) fn demand(&mut self, trouble: &mut TroubleStep) {
        let causes: Vec<(u64, Option<String>)> = trouble.event.iter().filter_map(cause).collect();
        for (from, host) in causes {
            if self.rng.random_range(0..3) == 0 {
                continue;
            }
            let host = host.unwrap_or_else(|| self.any_host());
            self.keep_busy(trouble, from, host);
        }
        trouble.event.sort_by_key(|timed| *timed.at_us.get_ref());
    }

    /// Soon after that instant the driver of a host has something to do.
    pub(super) fn keep_busy(&mut self, trouble: &mut TroubleStep, from: u64, host: String) {
        let mut when = from;
        for event in self.work(host) {
            when = (when + self.rng.random_range(0..=SOON_US)).min(self.within_us);
            trouble.event.push(TimedEvent::new(when, event));
        }
    }

    /// What makes the driver of a host build its queues, ask the administrator, or both.
    fn work(&mut self, host: String) -> Vec<Event> {
        let on = OnHost::named(&host);
        match self.rng.random_range(0..9) {
            0 => vec![Event::QpBreaks(on)],
            1 => vec![Event::LinkClose(on.clone()), Event::LinkOpen(on)],
            2 => vec![Event::Unload(on.clone()), Event::Load(on)],
            3 => vec![Event::PortDown(on.clone()), Event::PortUp(on)],
            4 => vec![Event::PkeyRemoved(on), self.pkey_added(&host)],
            5 => vec![Event::HcaRemoved(on.clone()), Event::HcaAdded(on)],
            6 => vec![Event::PathAsk(on)],
            7 => vec![self.sm_restart()],
            _ => {
                let of = GroupOf { host: at(host), group: at(self.any_group()) };
                vec![Event::GroupJoin(of.clone()), Event::GroupLeave(of)]
            }
        }
    }
}

/// When a failure begins, and of which host, if it is one that somebody has to meet.
fn cause(timed: &TimedEvent) -> Option<(u64, Option<String>)> {
    let host = match &timed.event {
        Event::AllocationFails(fails) => Some(fails.host.get_ref().clone()),
        Event::Sa(sa) => sa.from.as_ref().map(|from| from.get_ref().clone()),
        _ => return None,
    };
    Some((*timed.at_us.get_ref(), host))
}
