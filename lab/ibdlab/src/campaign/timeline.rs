//! What happened to a scenario's hosts, as spans of time: for asking whether this happened while that held.

use crate::run::Happened;
#[cfg(test)]
use crate::scenario::trouble::TimedEvent;
use crate::scenario::trouble::{Event, SaDoes, SaRequest, SaTrouble};
use crate::scenario::{Scenario, Step, TroubleStep};

const US_PER_MS: u64 = 1_000;

/// An event and how long what it does holds: until it is taken back, or the timeline is over.
#[derive(Clone, Debug)]
pub struct Span {
    pub event: Event,
    pub from_us: u64,
    /// When it was carried out.
    pub done_us: u64,
    pub until_us: u64,
}

/// One timeline.
#[derive(Clone, Debug)]
pub struct Timeline {
    pub spans: Vec<Span>,
    /// Threads of each host that send beside its IP.
    pub senders: u8,
}

/// The timelines of a scenario as they are written down.
#[cfg(test)]
pub fn planned(scenario: &Scenario) -> Vec<Timeline> {
    let at = |(event, timed): (usize, &TimedEvent)| {
        let at = *timed.at_us.get_ref();
        Happened { event, from_us: at, until_us: at }
    };
    let all = |step: &TroubleStep| step.event.iter().enumerate().map(at).collect::<Vec<_>>();
    troubles(scenario).map(|step| Timeline::of(step, &all(step))).collect()
}

/// The timelines of a scenario as they came about: of each the events that took place, in the order of the steps. A run that did not come
/// to a step has none for it.
pub fn timelines(scenario: &Scenario, happened: &[Vec<Happened>]) -> Vec<Timeline> {
    troubles(scenario).zip(happened).map(|(step, happened)| Timeline::of(step, happened)).collect()
}

/// The events of a scenario as they are written down.
pub fn planned_events(scenario: &Scenario) -> impl Iterator<Item = &Event> {
    troubles(scenario).flat_map(|step| &step.event).map(|timed| &timed.event)
}

/// Of the events that waited for a call, how many took place, and how many there were.
pub fn waiting(scenario: &Scenario, happened: &[Vec<Happened>]) -> (u64, u64) {
    let mut counts = (0, 0);
    for (step, happened) in troubles(scenario).zip(happened) {
        let waits = |event: usize| step.event.get(event).is_some_and(|timed| timed.on.is_some());
        counts.0 += happened.iter().filter(|happened| waits(happened.event)).count() as u64;
        counts.1 += step.event.iter().filter(|timed| timed.on.is_some()).count() as u64;
    }
    counts
}

fn troubles(scenario: &Scenario) -> impl Iterator<Item = &TroubleStep> {
    scenario.step.iter().filter_map(|step| match step.get_ref() {
        Step::Trouble(trouble) => Some(trouble),
        _ => None,
    })
}

impl Timeline {
    fn of(step: &TroubleStep, happened: &[Happened]) -> Self {
        let event = |happened: &Happened| Some((*happened, &step.event.get(happened.event)?.event));
        let mut events: Vec<(Happened, &Event)> = happened.iter().filter_map(event).collect();
        events.sort_by_key(|(happened, _)| happened.from_us);
        let end = step.within_ms * US_PER_MS;
        let span = |(n, (at, event)): (usize, &(Happened, &Event))| {
            let later = &events[n + 1..];
            let until_us = match lasts_ms(event) {
                Some(ms) => at.from_us + ms * US_PER_MS,
                None => later.iter().find(|(_, later)| ends(event, later)).map_or(end, |(at, _)| at.from_us),
            };
            let done_us = if lasts_ms(event).is_some() { at.from_us } else { at.until_us };
            Span { event: (*event).clone(), from_us: at.from_us, done_us, until_us }
        };
        Self { spans: events.iter().enumerate().map(span).collect(), senders: step.senders }
    }

    /// Is there such an event?
    pub fn has(&self, wanted: impl Fn(&Event) -> bool) -> bool {
        self.spans.iter().any(|span| wanted(&span.event))
    }

    /// Is such an event carried out while another one holds, to the same host where both name one?
    pub fn during(&self, wanted: impl Fn(&Event) -> bool, holds: impl Fn(&Event) -> bool) -> bool {
        let mut at = self.spans.iter().filter(|span| wanted(&span.event));
        at.any(|at| {
            self.spans.iter().any(|span| {
                holds(&span.event)
                    && at.from_us <= span.until_us
                    && at.done_us >= span.from_us
                    && one_host(&span.event, &at.event)
            })
        })
    }

    /// Do two such events happen to one host in this order, at most so far apart?
    pub fn follows(
        &self,
        first: impl Fn(&Event) -> bool,
        then: impl Fn(&Event) -> bool,
        within_us: u64,
    ) -> bool {
        self.spans.iter().enumerate().filter(|(_, span)| first(&span.event)).any(|(n, one)| {
            self.spans[n + 1..].iter().any(|other| {
                then(&other.event)
                    && other.from_us - one.from_us <= within_us
                    && one_host(&one.event, &other.event)
            })
        })
    }
}

/// An event of the whole subnet is one of every host.
fn one_host(one: &Event, other: &Event) -> bool {
    match (one.host(), other.host()) {
        (Some(one), Some(other)) => one.get_ref() == other.get_ref(),
        _ => true,
    }
}

fn lasts_ms(event: &Event) -> Option<u64> {
    match event {
        Event::SwitchReboot(reboot) => Some(reboot.for_ms),
        Event::Sa(sa) => Some(sa.for_ms),
        Event::Link(link) => Some(link.for_ms),
        Event::LinkRetrains(link) => Some(link.for_ms),
        Event::SendsHang(on) | Event::NoCredits(on) => Some(on.for_ms),
        Event::Strangers(strangers) => Some(strangers.for_ms),
        Event::MemoryShort(short) => Some(short.for_ms),
        Event::InterruptsLate(late) | Event::CommandsSlow(late) => Some(late.for_ms),
        _ => None,
    }
}

/// Does the later event take the first back?
fn ends(first: &Event, later: &Event) -> bool {
    one_host(first, later)
        && matches!(
            (first, later),
            (Event::PortDown(_), Event::PortUp(_))
                | (Event::SmStop(_), Event::SmRestart(_) | Event::SmFailover(_))
                | (Event::PkeyRemoved(_), Event::PkeyAdded(_))
                | (Event::Membership(_), Event::Membership(_))
                | (Event::GroupDeleted(_), Event::GroupCreated(_))
                | (Event::HcaRemoved(_), Event::HcaAdded(_))
                | (Event::LinkClose(_), Event::LinkOpen(_))
                | (Event::Unload(_), Event::Load(_))
                | (Event::Promiscuous(_), Event::Promiscuous(_))
                | (Event::GroupJoin(_), Event::GroupLeave(_))
        )
}

/// The administrator keeps requests of this kind waiting.
pub fn slow_sa(event: &Event, to: SaRequest) -> bool {
    let slow = |sa: &SaTrouble| matches!(sa.does, SaDoes::Silent | SaDoes::LosesAnswer | SaDoes::Late(_));
    matches!(event, Event::SmStop(_)) || matches!(event, Event::Sa(sa) if slow(sa) && concerns(sa, to))
}

/// The administrator does not grant requests of this kind.
pub fn failing_sa(event: &Event, to: SaRequest) -> bool {
    matches!(event, Event::SmStop(_))
        || matches!(event, Event::Sa(sa) if !matches!(sa.does, SaDoes::Late(_)) && concerns(sa, to))
}

/// The administrator keeps requests of some kind waiting.
pub fn slow(event: &Event) -> bool {
    matches!(event, Event::SmStop(_))
        || matches!(event, Event::Sa(sa)
            if matches!(sa.does, SaDoes::Silent | SaDoes::LosesAnswer | SaDoes::Late(_)))
}

fn concerns(sa: &SaTrouble, to: SaRequest) -> bool {
    sa.to.is_none_or(|only| only == to)
}

/// What ends the life of a link, for a time at least.
pub fn stops(event: &Event) -> bool {
    matches!(event, Event::LinkClose(_) | Event::Unload(_) | Event::HcaRemoved(_))
}

/// What begins it.
pub fn starts(event: &Event) -> bool {
    matches!(event, Event::LinkOpen(_) | Event::Load(_) | Event::HcaAdded(_))
}
