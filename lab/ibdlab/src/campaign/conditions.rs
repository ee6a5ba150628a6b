//! What has to be the case for a known weakness of IPoIB drivers to show: the conditions a campaign should have provoked.
//!
//! Each number is a weakness that a driver of this kind has had: D performance, A memory, B hangs, C function, E what can be
//! seen from outside. A campaign's summary says how often each condition was there; nothing went wrong then, or it would be
//! among the findings.

use std::collections::BTreeMap;

use crate::scenario::trouble::{Event, Malformed, SaRequest};
use crate::scenario::{HostSpec, PropertyText, Scenario};

use super::timeline::{Timeline, failing_sa, slow, slow_sa, starts, stops};

/// "At the same time", in microseconds.
const SOON_US: u64 = 1_000;
const LATER_US: u64 = 10_000;
/// Milliseconds after which a failure that repeats itself would have been reported more than once.
const LONG_MS: u64 = 1_000;

/// A condition.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// Which weakness it belongs to.
    pub number: &'static str,
    pub what: &'static str,
    pub seen: Seen,
}

/// How one knows that it was there.
#[derive(Clone, Copy, Debug)]
pub enum Seen {
    /// In every run: traffic both ways is enough.
    Always,
    /// By what happened: the hosts of the scenario, and the events that took place, when they did.
    In(fn(&Scenario, &Timeline) -> bool),
    /// A line of the driver with this text was run: file, text.
    Line(&'static str, &'static str),
    /// Not in a campaign, and why.
    Beyond(&'static str),
}

use Seen::{Always, Beyond, In, Line};

const STAGE: &str = "rust/ibd/src/link/transmit/stage.rs";
const SEND: &str = "rust/ibd/src/link/transmit/send.rs";

/// All of them.
pub const CONDITIONS: [Condition; 69] = [
    c(
        "D1",
        "a lookup goes unanswered while other peers are reachable",
        In(|s, t| s.host.len() > 2 && t.has(|e| slow_sa(e, SaRequest::Path))),
    ),
    c(
        "D2",
        "lookups of two peers fail at once",
        In(|s, t| s.host.len() > 2 && t.has(|e| failing_sa(e, SaRequest::Path))),
    ),
    c("D3", "traffic to a group that cannot be joined", In(|_, t| t.has(|e| failing_sa(e, SaRequest::Join)))),
    c(
        "D4",
        "requests of every kind wait for the administrator",
        In(|_, t| {
            t.has(|e| {
                matches!(e, Event::SmStop(_)) || matches!(e, Event::Sa(sa) if sa.to.is_none() && slow(e))
            })
        }),
    ),
    c("D5", "more peers than a fixed table holds", Beyond("ten hosts at most")),
    c("D6", "several peers with one queue pair number", In(|s, _| s.host.len() > 2)),
    c("D7", "several threads send at once", In(|_, t| t.senders > 0)),
    c("D8", "others send while one thread posts", In(|_, t| t.senders > 0)),
    c("D9", "packets of many sizes, in one block and in several", Always),
    c("D10", "packets too large to copy", Line(STAGE, "match self.map(&dest, packet, frame) {")),
    c("D11", "completions of sends come late", In(|_, t| t.has(late))),
    c("D12", "more received packets than one processor can take", Beyond("virtual time has no load")),
    c(
        "D13",
        "a full receive queue when the interrupt comes",
        In(|_, t| t.has(|e| matches!(e, Event::InterruptsLate(l) if l.to_us >= SOON_US))),
    ),
    c("D14", "a received buffer cannot be lent", In(|_, t| t.has(|e| fails(e, "desballoc")))),
    c(
        "D15",
        "queue sizes other than the default",
        In(|s, _| s.host.iter().any(|h| !h.get_ref().properties.is_empty())),
    ),
    c("D16", "receive buffers are given back late", In(|_, t| t.has(late))),
    c(
        "D17",
        "statistics are read while they change",
        In(|_, t| t.has(|e| matches!(e, Event::PropertyRead(_)))),
    ),
    c(
        "D18",
        "packets with work for the adapter's offloads",
        In(|s, _| s.host.iter().any(|h| h.get_ref().offloads)),
    ),
    c(
        "D19",
        "P_Key table or registrations change with groups joined",
        In(|_, t| {
            t.has(|e| matches!(e, Event::PkeyAdded(_) | Event::RegistrationsLost(_) | Event::SmRestart(_)))
        }),
    ),
    c("D20", "the send queue is full and packets are put off", Line(SEND, "put_off.")),
    c("D21", "everything is allocated anew in a start", In(|_, t| t.has(starts))),
    c("D22", "own multicast comes back", In(|s, _| s.fabric.multicast_loopback)),
    c("D23", "interrupt moderation at work", Beyond("no CQ moderation in the lab")),
    c("D24", "buffers that share cache lines", Beyond("virtual time has no caches")),
    c("A1", "a stop while requests to the administrator are out", In(|_, t| t.during(stops, slow))),
    c(
        "A2",
        "a group left and joined again before the first answer",
        In(|_, t| {
            t.during(
                |e| matches!(e, Event::GroupJoin(_) | Event::GroupLeave(_)),
                |e| slow_sa(e, SaRequest::Leave) || slow_sa(e, SaRequest::Join),
            )
        }),
    ),
    c(
        "A3",
        "no large buffer for a packet whose headers are consumed",
        Line(SEND, "if matches!(open.large, LargePool::Absent) {"),
    ),
    c(
        "A4",
        "a neighbour solicitation that is short or odd",
        In(|_, t| t.has(|e| matches!(e, Event::Packet(p) if odd_nd(p.kind)))),
    ),
    c(
        "A5",
        "neighbour discovery is sent",
        In(|s, _| s.host.iter().any(|h| h.get_ref().addresses.get_ref().len() > 1)),
    ),
    c("A6", "a teardown with an interrupt on its way", In(|_, t| t.during(stops, late))),
    c("A7", "the P_Key moves under a sender", In(|_, t| t.has(|e| matches!(e, Event::PkeyAdded(_))))),
    c("A8", "buffers come back while the link starts again", In(|_, t| t.follows(stops, starts, LATER_US))),
    c("A9", "buffers are kept over a change of the MTU", Beyond("no event changes the MTU")),
    c(
        "A10",
        "LSO is off or without memory",
        In(|s, _| s.host.iter().any(|h| h.get_ref().offloads && lso_is_off(h.get_ref()))),
    ),
    c("A11", "a start is given up with requests queued", In(|_, t| t.during(starts, slow) && t.has(stops))),
    c("A12", "a post of buffers to the adapter fails", In(|_, t| t.has(|e| fails(e, "ibt_post")))),
    c(
        "A13",
        "a start fails in its middle",
        In(|_, t| t.during(starts, |e| allocation(e) || failing_sa(e, SaRequest::Join))),
    ),
    c(
        "A14",
        "the module goes and comes again",
        In(|_, t| t.follows(|e| matches!(e, Event::Unload(_)), |e| matches!(e, Event::Load(_)), u64::MAX)),
    ),
    c("A15", "memory cannot be registered", In(|_, t| t.has(|e| fails(e, "mr")))),
    c(
        "B1",
        "a start at the news of a group fails",
        In(|_, t| {
            t.during(
                |e| matches!(e, Event::GroupCreated(_)),
                |e| allocation(e) || failing_sa(e, SaRequest::Join),
            )
        }),
    ),
    c(
        "B2",
        "a stop as the group appears",
        In(|_, t| {
            t.follows(|e| matches!(e, Event::GroupCreated(_)), stops, SOON_US)
                || t.follows(stops, |e| matches!(e, Event::GroupCreated(_)), SOON_US)
        }),
    ),
    c(
        "B3",
        "the link comes up while leaves are out",
        In(|_, t| t.during(up, |e| slow_sa(e, SaRequest::Leave))),
    ),
    c("B4", "events of the port while requests are out", In(|_, t| t.during(|e| up(e) || down(e), slow))),
    c(
        "B5",
        "somebody reads the link's state while requests are out",
        In(|_, t| t.during(|e| matches!(e, Event::PropertyRead(_)), slow)),
    ),
    c("B6", "something to report from the data path", In(|_, t| t.has(|e| matches!(e, Event::QpBreaks(_))))),
    c(
        "B7",
        "a stop with work of a link change queued behind the administrator",
        In(|_, t| t.during(stops, slow) && t.during(down, slow)),
    ),
    c("B8", "a lookup is given up with its link", In(|_, t| t.during(down, |e| slow_sa(e, SaRequest::Path)))),
    c("B9", "the last completion comes as the send queue is found full", Line(SEND, "put_off.")),
    c(
        "B10",
        "the queue pair fails with receive buffers posted",
        In(|_, t| t.has(|e| matches!(e, Event::QpBreaks(_)))),
    ),
    c(
        "C1",
        "groups or promiscuous mode asked for while the link is not up",
        In(|_, t| {
            t.during(
                |e| matches!(e, Event::GroupJoin(_) | Event::Promiscuous(_)),
                |e| down(e) || matches!(e, Event::SmStop(_) | Event::GroupDeleted(_)),
            )
        }),
    ),
    c(
        "C2",
        "a start that an event has caused fails",
        In(|_, t| t.during(up, |e| allocation(e) || failing_sa(e, SaRequest::Join))),
    ),
    c(
        "C3",
        "a start without a broadcast group or an administrator",
        In(|_, t| {
            t.during(starts, |e| matches!(e, Event::GroupDeleted(_)) || failing_sa(e, SaRequest::ListGroups))
        }),
    ),
    c("C4", "the subnet's prefix changes", In(|_, t| t.has(|e| matches!(e, Event::SubnetPrefix(_))))),
    c(
        "C5",
        "a peer comes back as another one",
        In(|_, t| t.has(|e| matches!(e, Event::Load(_) | Event::HcaAdded(_)))),
    ),
    c("C6", "an error of the send queue", In(|_, t| t.has(|e| matches!(e, Event::QpBreaks(_))))),
    c("C7", "a join fails and has to be tried again", In(|_, t| t.has(|e| failing_sa(e, SaRequest::Join)))),
    c(
        "C8",
        "groups come back under other multicast LIDs",
        In(|_, t| {
            t.has(|e| {
                matches!(e, Event::SmRestart(r) if r.mlids_later > 0)
                    || matches!(e, Event::SmFailover(f) if f.mlids_later > 0)
            })
        }),
    ),
    c("C9", "a join creates its group", In(|_, t| t.has(|e| matches!(e, Event::GroupJoin(_))))),
    c("C10", "memberships only to send pile up", Beyond("a handful of groups that anybody sends to")),
    c(
        "C11",
        "groups come and go in promiscuous mode",
        In(|_, t| {
            t.has(|e| matches!(e, Event::Promiscuous(p) if p.on))
                && t.has(|e| matches!(e, Event::GroupJoin(_) | Event::GroupLeave(_) | Event::GroupDeleted(_)))
        }),
    ),
    c(
        "C12",
        "memberships are lost and nobody is told",
        Beyond("every manager of the lab asks for registrations"),
    ),
    c("C13", "suspend and resume", Beyond("no event suspends a host")),
    c("C14", "properties set while the link is up", In(|_, t| t.has(|e| matches!(e, Event::PropertySet(_))))),
    c(
        "C15",
        "a packet to a group in a block that others share",
        In(|_, t| t.has(|e| matches!(e, Event::Promiscuous(p) if p.on))),
    ),
    c("E1", "broadcasts are received", Always),
    c("E2", "frames with and without GRH are counted", Always),
    c(
        "E3",
        "link rates of several generations",
        In(|s, _| {
            let speed = |n: usize| s.host.get(n).map(|host| host.get_ref().speed);
            (1..s.host.len()).any(|n| speed(n) != speed(0))
        }),
    ),
    c("E4", "packets that have to be dropped", In(|_, t| t.has(|e| matches!(e, Event::Packet(_))))),
    c(
        "E5",
        "a failure that goes on repeating itself",
        In(|_, t| t.has(|e| matches!(e, Event::Sa(sa) if sa.for_ms >= LONG_MS && sa.times.is_none()))),
    ),
];

const fn c(number: &'static str, what: &'static str, seen: Seen) -> Condition {
    Condition { number, what, seen }
}

/// An administrator does not want large sends.
fn lso_is_off(host: &HostSpec) -> bool {
    let off = |text: &PropertyText| matches!(text, PropertyText::Number(0));
    host.properties.get("_ibd_lso_enable").is_some_and(|text| off(text.get_ref()))
}

fn late(event: &Event) -> bool {
    matches!(event, Event::InterruptsLate(_))
}

fn allocation(event: &Event) -> bool {
    matches!(event, Event::AllocationFails(_))
}

/// A call whose name has this in it fails.
fn fails(event: &Event, part: &str) -> bool {
    matches!(event, Event::AllocationFails(fails) if fails.kind.kind().0.contains(part))
}

fn down(event: &Event) -> bool {
    matches!(event, Event::PortDown(_) | Event::SwitchReboot(_) | Event::PkeyRemoved(_))
}

fn up(event: &Event) -> bool {
    matches!(event, Event::PortUp(_) | Event::PkeyAdded(_) | Event::GroupCreated(_))
}

fn odd_nd(kind: Malformed) -> bool {
    matches!(
        kind,
        Malformed::NdOptionCut
            | Malformed::NdOptionEmpty
            | Malformed::NdOptionTooLong
            | Malformed::NdWithoutOption
    )
}

/// How often each condition was there.
#[derive(Clone, Debug, Default)]
pub struct Provoked(BTreeMap<&'static str, u64>);

impl Provoked {
    /// Adds a run of a scenario: its timelines as they came about.
    pub fn add(&mut self, scenario: &Scenario, timelines: &[Timeline]) {
        for condition in &CONDITIONS {
            let there = match condition.seen {
                Always => true,
                In(there) => timelines.iter().any(|timeline| there(scenario, timeline)),
                Line(..) | Beyond(_) => false,
            };
            if there {
                *self.0.entry(condition.number).or_default() += 1;
            }
        }
    }

    /// Scenarios with the condition.
    pub fn times(&self, number: &str) -> u64 {
        self.0.get(number).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::campaign::Search;
    use crate::campaign::timeline::planned;
    use crate::report::SmKind;

    #[test]
    fn every_weakness_has_one_condition() {
        let numbers: BTreeSet<&str> = CONDITIONS.iter().map(|condition| condition.number).collect();
        assert_eq!(numbers.len(), CONDITIONS.len());
    }

    #[test]
    fn a_few_thousand_scenarios_hold_every_condition_that_a_campaign_can_provoke() {
        let mut provoked = Provoked::default();
        for search in [Search::Schedules, Search::Fabrics(SmKind::Embedded)] {
            for index in 0..4_000 {
                let scenario = search.scenario(1, index);
                provoked.add(&scenario, &planned(&scenario));
            }
        }
        let missing = CONDITIONS.iter().filter(|condition| {
            matches!(condition.seen, Always | In(_)) && provoked.times(condition.number) == 0
        });
        assert_eq!(missing.map(|condition| condition.number).collect::<Vec<_>>(), Vec::<&str>::new());
    }
}
