//! What can go wrong, drawn one event at a time.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rand::RngExt;

use super::{Generator, at};
use crate::scenario::trouble::{
    AllocationFails, Claim, Delayed, Event, FaultPoint, ForMs, GroupOf, HcaGoes, HostForMs, LinkFaulty,
    Malformed, MembershipTo, OnHost, PacketTo, PkeyAt, PromiscuousMode, PropertyTo, SaDoes, SaLie, SaRequest,
    SaStatus, SaTrouble, SmComesBack, SmMoves, Strangers, SubnetPrefix, TimedEvent,
};
use crate::scenario::{Membership, Nothing};

const GROUPS: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3)),
    IpAddr::V4(Ipv4Addr::new(239, 1, 2, 4)),
    IpAddr::V4(Ipv4Addr::new(224, 0, 0, 251)),
    IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfb)),
];
const REQUESTS: [SaRequest; 5] =
    [SaRequest::Path, SaRequest::Join, SaRequest::Leave, SaRequest::ListGroups, SaRequest::Subscribe];
/// Requests that the SA may have in hand before the one for a group: those of all hosts.
const JOIN_ROUND_TRIPS: u64 = 10;
/// What administrators set while a link is up.
const PROPERTIES: [(&str, &str); 9] = [
    ("_ibd_tx_timeout", "1"),
    ("_ibd_tx_timeout", "5"),
    ("_ibd_join_timeout", "0"),
    ("_ibd_join_timeout", "1"),
    ("_ibd_join_timeout", "10"),
    ("_ibd_join_retries", "3"),
    ("_ibd_debug", "2"),
    ("_ibd_ud_tx_comp_usec", "50"),
    ("_ibd_ud_num_rwqe", "1024"),
];

/// Parts of the names of calls that are made for each packet, address or structure.
const OFTEN: [&str; 8] = ["kmem", "allocb", "dupb", "desballoc", "post", "dest", "map_mem", "poll"];

/// What a driver without connections never calls.
fn is_of_connections(kind: FaultPoint) -> bool {
    kind.kind().0.contains("srq") || kind.kind().0.contains("rc_")
}

/// Kinds of events, some with several numbers.
pub(super) const KINDS: u32 = 31;

impl Generator<'_> {
    /// One event, and often the one that ends it.
    pub(super) fn events(&mut self) -> Vec<TimedEvent> {
        let begin = self.instant();
        // What is near in time races; what is far does not.
        let end = match self.rng.random_range(0..4) {
            0 => begin,
            1 => begin + self.rng.random_range(0..=200),
            2 => begin + self.rng.random_range(0..=10_000),
            _ => self.rng.random_range(begin..=self.within_us),
        };
        let (first, second) = self.pair();
        let mut events = vec![TimedEvent::new(begin, first)];
        if let Some(second) = second.filter(|_| self.rng.random_range(0..5) > 0) {
            events.push(TimedEvent::new(end.min(self.within_us), second));
        }
        events
    }

    pub(super) fn pair(&mut self) -> (Event, Option<Event>) {
        let host = self.any_host();
        let on = OnHost::named(&host);
        let kind = if self.kinds.is_empty() {
            self.rng.random_range(0..KINDS)
        } else {
            self.pick(&self.kinds.clone())
        };
        match kind {
            0 | 1 => (Event::PortDown(on.clone()), Some(Event::PortUp(on))),
            2 => (Event::SwitchReboot(ForMs { for_ms: self.short_ms() }), None),
            3 => (Event::SmStop(Nothing {}), Some(self.sm_restart())),
            4 => (self.sm_restart(), None),
            5 => (self.sm_failover(), None),
            6 => (Event::RegistrationsLost(Nothing {}), None),
            7 => (self.subnet_prefix(), None),
            8..=10 => (self.sa(), None),
            11 => (Event::PkeyRemoved(on), Some(self.pkey_added(&host))),
            12 => (Event::GroupDeleted(Nothing {}), Some(Event::GroupCreated(Nothing {}))),
            13..=15 => (self.allocation_fails(host), None),
            16 => (self.link(host), None),
            17 => (Event::InterruptsLate(self.delayed(host)), None),
            25 => (Event::CommandsSlow(self.delayed(host)), None),
            26 => (self.sends_wait(host), None),
            27 => (self.property_set(host), None),
            28 => (Event::PathAsk(on), None),
            30 => self.memberships(&host),
            18 => (Event::QpBreaks(on), None),
            19 => (self.packet_or_flood(host), None),
            20 => (Event::HcaRemoved(HcaGoes::pulled(&host)), Some(Event::HcaAdded(on))),
            21 => (Event::LinkClose(on.clone()), Some(Event::LinkOpen(on))),
            22 | 23 => (Event::Unload(on.clone()), Some(Event::Load(on))),
            24 => {
                let mode = |on| Event::Promiscuous(PromiscuousMode { host: at(host.clone()), on });
                (mode(true), Some(mode(false)))
            }
            _ => self.group_or_properties(host),
        }
    }

    fn group_or_properties(&mut self, host: String) -> (Event, Option<Event>) {
        if self.rng.random_range(0..3) == 0 {
            return (Event::PropertyRead(OnHost::named(&host)), None);
        }
        let of = GroupOf { host: at(host), group: at(self.any_group()) };
        (Event::GroupJoin(of.clone()), Some(Event::GroupLeave(of)))
    }

    pub(super) fn any_group(&mut self) -> IpAddr {
        self.pick(&GROUPS)
    }

    /// Only such values that a link recovers by itself from whatever happens.
    fn property_set(&mut self, host: String) -> Event {
        let join_ms = JOIN_ROUND_TRIPS * self.sa_delay_ms;
        // Whoever waits for a shorter time than the SA takes joins nothing, as asked.
        let impatient = |name, value: &str| {
            name == "_ibd_join_timeout" && value.parse().is_ok_and(|s: u64| s != 0 && s * 1_000 < join_ms)
        };
        let allowed: Vec<_> =
            PROPERTIES.into_iter().filter(|&(name, value)| !impatient(name, value)).collect();
        let (name, value) = self.pick(&allowed);
        Event::PropertySet(PropertyTo { host: at(host), name: name.into(), value: value.into() })
    }

    pub(super) fn sm_restart(&mut self) -> Event {
        let mlids_later = self.pick(&[0, 0, 1, 16]);
        // One that is near: a port's new LID is another's old one.
        let lids_later = self.pick(&[0, 0, 0, 1, 2, 0x40]);
        Event::SmRestart(SmComesBack { mlids_later, lids_later })
    }

    pub(super) fn sm_failover(&mut self) -> Event {
        let lid = at(self.pick(&[0x1000, 0x2000, 0xbf00]));
        Event::SmFailover(SmMoves { lid, mlids_later: self.pick(&[0, 16]) })
    }

    fn subnet_prefix(&mut self) -> Event {
        // Site-local is above what TOML can write.
        Event::SubnetPrefix(SubnetPrefix {
            prefix: at(self.pick(&[0x7e80_0000_0000_0001, 0x2001_0db8_0000_0000])),
        })
    }

    fn sa(&mut self) -> Event {
        let does = match self.rng.random_range(0..8) {
            0 | 1 => SaDoes::Silent,
            2 => SaDoes::LosesAnswer,
            3 => SaDoes::Empty,
            4 => SaDoes::Late(self.rng.random_range(1..=2_000)),
            5 | 6 => SaDoes::Lies(self.pick(&SaLie::ALL)),
            _ => SaDoes::Refuses(self.pick(&SaStatus::ALL)),
        };
        let to = (self.rng.random_range(0..3) > 0).then(|| self.pick(&REQUESTS));
        let from = self.rng.random::<bool>().then(|| at(self.any_host()));
        let times = self.rng.random::<bool>().then(|| self.rng.random_range(1..=4));
        let for_ms = self.pick(&[10, 50, 500, 5_000]);
        Event::Sa(SaTrouble { does, to, from, times, for_ms })
    }

    pub(super) fn pkey_added(&mut self, host: &str) -> Event {
        Event::PkeyAdded(PkeyAt { host: at(host.to_owned()), index: at(self.rng.random_range(0..8)) })
    }

    /// A port becomes a limited member, and often a full one again.
    fn memberships(&mut self, host: &str) -> (Event, Option<Event>) {
        let to = |to| Event::Membership(MembershipTo { host: at(host.to_owned()), to });
        let second = self.pick(&[Membership::Full, Membership::Full, Membership::Both, Membership::Limited]);
        (to(self.pick(&Membership::ALL)), Some(to(second)))
    }

    fn allocation_fails(&mut self, host: String) -> Event {
        let kinds: Vec<FaultPoint> = FaultPoint::all().filter(|kind| !is_of_connections(*kind)).collect();
        let kind = self.pick(&kinds);
        let after = if OFTEN.iter().any(|often| kind.kind().0.contains(often)) {
            self.pick(&[0, 0, 1, 2, 4, 10, 40])
        } else {
            self.pick(&[0, 0, 0, 1, 2])
        };
        Event::AllocationFails(AllocationFails {
            host: at(host),
            kind,
            module: None,
            after,
            times: self.pick(&[1, 1, 2, 5, 30]),
        })
    }

    fn link(&mut self, host: String) -> Event {
        let mut rate = || match self.rng.random_range(0..4) {
            0 => self.rng.random_range(0..=500_000),
            _ => 0,
        };
        let [loss, duplicate, corrupt, corrupt_inside, reorder] = std::array::from_fn(|_| rate());
        Event::Link(LinkFaulty {
            host: at(host),
            loss,
            duplicate,
            corrupt,
            corrupt_inside,
            reorder,
            reorder_by_us: self.rng.random_range(0..=500),
            delay_us: self.pick(&[0, 0, 10, 200]),
            jitter_us: self.pick(&[0, 0, 50]),
            for_ms: self.short_ms(),
        })
    }

    fn delayed(&mut self, host: String) -> Delayed {
        let from_us = self.pick(&[0, 10, 200]);
        let to_us = from_us + self.pick(&[0, 100, 3_000]);
        Delayed { host: at(host), from_us, to_us, for_ms: self.short_ms() }
    }

    /// One send fails; or sends wait, for good or until credits come: longer than a driver watches, too.
    fn sends_wait(&mut self, host: String) -> Event {
        if self.rng.random_range(0..3) == 0 {
            return Event::SendFails(OnHost::named(&host));
        }
        let host = at(host);
        match self.rng.random::<bool>() {
            true => Event::SendsHang(HostForMs { host, for_ms: self.short_ms() }),
            false => Event::NoCredits(HostForMs { host, for_ms: self.pick(&[30, 9_000, 40_000, 40_000]) }),
        }
    }

    /// A packet that nobody should send, and now and then many: each kind of flood is twice as likely as a kind of packet.
    fn packet_or_flood(&mut self, to: String) -> Event {
        let (packets, floods) = (Malformed::ALL.len(), Claim::ALL.len());
        let kind = self.rng.random_range(0..packets + 2 * floods);
        match kind.checked_sub(packets) {
            None => Event::Packet(PacketTo { to: at(to), kind: Malformed::ALL[kind] }),
            Some(flood) => self.flood(to, Claim::ALL[flood % floods]),
        }
    }

    /// Each sender of some floods could cost a question: a driver that asks about all of them asks too often.
    fn flood(&mut self, to: String, claim: Claim) -> Event {
        let per_second = self.pick(&[100, 1_000, 10_000]);
        Event::Strangers(Strangers { host: at(to), claim, per_second, for_ms: self.short_ms() })
    }

    fn short_ms(&mut self) -> u64 {
        self.pick(&[1, 3, 10, 30, 100])
    }
}
