//! What is done on a fabric, step by step. Each step is to end well whatever came before it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rand::RngExt;

use super::fabrics::{Link, address, name};
use super::schedules::without_credits_ms;
use super::{Generator, LEAST_MTU_OF_IPV6, at};
use crate::report::SmKind;
use crate::scenario::trouble::{Event, GroupOf, LinkFaulty, OnHost, SmComesBack, TimedEvent};
use crate::scenario::{
    AttachStep, ByteSize, EavesdropStep, FlapStep, GroupChangesStep, HcaRemovalStep, HostSpec, IdleStep,
    Membership, MembershipChangesStep, MulticastStep, Nothing, PingStep, PkeyMovesStep, SmRestartStep, Step,
    TcpStep, TroubleStep, TurnsStep, UpStep,
};

/// A timeline has so many echoes between two addresses, whatever its length.
const ECHOES: u64 = 100;
/// ... and not more often than so.
const ECHO_EVERY_US: u64 = 200;
/// Longer than an announced address is announced again: whoever was away for so long has heard nothing.
const DEAF_MS: u64 = 12_000;
/// Hosts come up together: once one is up, its group is there. Less than a driver waits that has found none.
const TOGETHER_MS: u64 = 700;
/// Round trips to the SA from there: what is under way, the search through all scopes, the join, and others' requests.
const TOGETHER_ROUND_TRIPS: u64 = 30;
/// The longest that a link waits before it looks for its group again.
const LONGEST_PAUSE_MS: u64 = 60_000;
/// An SA that takes as long as managers take to be heard of.
const SLOW_SA_MS: u64 = 100;
/// The least MTU of a group that is drawn.
const LEAST_MTU: u32 = 1024;
/// A look-up of the group, its join, what IBTF asks before.
const UP_ROUND_TRIPS: u64 = 60;

pub(super) struct Steps<'a, 'g> {
    draw: &'a mut Generator<'g>,
    links: &'a [Link],
    hosts: &'a [HostSpec],
    sm: SmKind,
    /// Hosts whose adapter is gone.
    gone: Vec<usize>,
    steps: Vec<Step>,
}

impl<'a, 'g> Steps<'a, 'g> {
    pub fn new(draw: &'a mut Generator<'g>, links: &'a [Link], hosts: &'a [HostSpec], sm: SmKind) -> Self {
        Self { draw, links, hosts, sm, gone: Vec::new(), steps: Vec::new() }
    }

    pub fn draw(mut self) -> Vec<Step> {
        let after_ports = self.draw.rng.random();
        let together = TOGETHER_MS + TOGETHER_ROUND_TRIPS * self.draw.sa_delay_ms;
        self.steps.push(Step::Attach(AttachStep { after_ports }));
        self.steps.push(Step::Up(UpStep {
            within_ms: self.within_ms(),
            after_first_ms: (self.sm == SmKind::Embedded).then_some(together),
        }));
        for _ in 0..self.draw.pick(&[1, 2, 3, 4, 5, 6]) {
            match self.sm {
                SmKind::Embedded => self.step(),
                SmKind::Opensm => self.real_step(),
            }
        }
        self.steps.push(Step::Memberships(Nothing {}));
        self.steps.push(Step::Unload(Nothing {}));
        self.steps
    }

    /// How long a link may take to come up.
    fn within_ms(&self) -> u64 {
        60_000 + UP_ROUND_TRIPS * self.draw.sa_delay_ms
    }

    fn step(&mut self) {
        match self.draw.rng.random_range(0..27) {
            0..=2 => self.ping(),
            3 => self.tcp(),
            4 => self.faulty_tcp(),
            5 | 6 => self.multicast(),
            7 | 8 => self.turns(),
            9 => self.eavesdrop(),
            10..=12 => self.flap(&[50, 500, 3_000, DEAF_MS, 65_000]),
            13..=15 => self.sm_restart(&[300, 1_000, 5_000]),
            16 => self.pkey_moves(),
            17 => self.idle(&[1_000, 61_000, 301_000, 920_000, 7_200_000]),
            18 => self.hca_removal(),
            19 => self.steps.push(Step::Resolve(Nothing {})),
            20 | 21 => self.group_changes(),
            22 => self.membership_changes(&Membership::ALL),
            _ => self.trouble(),
        }
    }

    /// What a real OpenSM takes part in, in real time.
    fn real_step(&mut self) {
        match self.draw.rng.random_range(0..14) {
            0 | 1 => self.ping(),
            2 => self.tcp(),
            3 | 4 => self.multicast(),
            5 => self.eavesdrop(),
            6 | 7 => self.flap(&[300, 2_000]),
            8 | 9 => self.sm_restart(&[300, 1_000]),
            10 => self.steps.push(Step::Resolve(Nothing {})),
            11 => self.group_changes(),
            12 => self.membership_changes(&[Membership::Limited, Membership::Full]),
            _ => self.steps.push(Step::Memberships(Nothing {})),
        }
    }

    /// So many hosts of one link, in any order; none if no link has so many left.
    fn some<const N: usize>(&mut self) -> Option<[&'a HostSpec; N]> {
        let here = |link: &Link| -> Vec<usize> {
            link.members.iter().copied().filter(|member| !self.gone.contains(member)).collect()
        };
        let enough: Vec<Vec<usize>> = self.links.iter().map(here).filter(|link| link.len() >= N).collect();
        if enough.is_empty() {
            return None;
        }
        let mut left = self.draw.pick(&enough);
        let hosts = self.hosts;
        Some(std::array::from_fn(|_| {
            let n = self.draw.rng.random_range(0..left.len());
            &hosts[left.swap_remove(n)]
        }))
    }

    /// Both have IPv6 addresses, and it is IPv6's turn.
    fn by_ipv6(&mut self, hosts: &[&HostSpec]) -> bool {
        hosts.iter().all(|host| address(host, true).is_some()) && self.draw.rng.random()
    }

    fn ping(&mut self) {
        let Some([from, to]) = self.some() else { return };
        let ipv6 = self.by_ipv6(&[from, to]);
        let Some(to) = address(to, ipv6) else { return };
        // The lab's stack has fragments of IPv4 only.
        let fragments = !ipv6 && self.draw.rng.random_range(0..3) == 0;
        let sizes = if fragments {
            self.draw.pick(&[vec![0, 3_000], vec![9_000, 100], vec![20_000]])
        } else {
            Vec::new()
        };
        let count = self.draw.pick(&[3, 11, 48, 189]);
        self.steps.push(Step::Ping(PingStep { from: name(from), to: at(to), count, sizes }));
    }

    fn tcp(&mut self) {
        let Some([from, to]) = self.some() else { return };
        let ipv6 = self.by_ipv6(&[from, to]);
        let Some(to) = address(to, ipv6) else { return };
        let bytes = at(ByteSize(self.draw.pick(&[1 << 10, 1 << 17, 1 << 20])));
        self.steps.push(Step::Tcp(TcpStep { from: name(from), to: at(to), bytes }));
    }

    /// TCP over a link that loses, doubles and reorders; what comes then is not to meet that.
    fn faulty_tcp(&mut self) {
        let Some([from, to]) = self.some() else { return };
        let Some(address) = address(to, false) else { return };
        let for_ms = 2_000;
        let mut rate = || self.draw.pick(&[0, 0, 1_000, 20_000]);
        let [loss, duplicate, corrupt, reorder] = std::array::from_fn(|_| rate());
        self.steps.push(Step::Link(LinkFaulty {
            host: name(from),
            loss,
            duplicate,
            corrupt,
            corrupt_inside: 0,
            reorder,
            reorder_by_us: 100,
            delay_us: self.draw.pick(&[0, 10]),
            jitter_us: self.draw.pick(&[0, 5]),
            for_ms,
        }));
        let bytes = at(ByteSize(1 << 16));
        self.steps.push(Step::Tcp(TcpStep { from: name(from), to: at(address), bytes }));
        self.steps.push(Step::Idle(IdleStep { for_ms }));
    }

    /// Few of them: groups are left by one and joined by another.
    fn group(&mut self, ipv6: bool) -> IpAddr {
        let last = self.draw.pick(&[1_u8, 2, 3]);
        match ipv6 {
            true => IpAddr::from(Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0x37, u16::from(last))),
            false => IpAddr::from(Ipv4Addr::new(239, 9, 9, last)),
        }
    }

    fn multicast(&mut self) {
        let Some([from, to]) = self.some() else { return };
        let ipv6 = self.by_ipv6(&[from, to]);
        let group = at(self.group(ipv6));
        self.steps.push(Step::Multicast(MulticastStep { from: name(from), to: name(to), group, count: 5 }));
    }

    fn turns(&mut self) {
        let group = at(self.group(false));
        self.steps.push(Step::Turns(TurnsStep { group }));
    }

    fn eavesdrop(&mut self) {
        let Some([by, from, to]) = self.some() else { return };
        let group = at(self.group(false));
        let [by, from, to] = [by, from, to].map(name);
        self.steps.push(Step::Eavesdrop(EavesdropStep { by, from, to, group, count: 3 }));
    }

    fn flap(&mut self, down: &[u64]) {
        let Some([host, other]) = self.some() else { return };
        let down_ms = self.draw.pick(down);
        let breaks = (self.sm == SmKind::Embedded && self.draw.rng.random()).then(|| name(other));
        let within_ms = self.within_ms();
        // Who is away for so long does not hear of an address that changed just before.
        if down_ms >= DEAF_MS && matches!(self.steps.last(), Some(Step::PkeyMoves(_))) {
            self.idle(&[DEAF_MS]);
        }
        self.steps.push(Step::Flap(FlapStep { host: name(host), down_ms, breaks, within_ms }));
    }

    fn sm_restart(&mut self, away: &[u64]) {
        let Some([host]) = self.some() else { return };
        let away_ms = self.draw.pick(away);
        let breaks = (self.sm == SmKind::Embedded && self.draw.rng.random()).then(|| name(host));
        let within_ms = self.within_ms();
        self.steps.push(Step::SmRestart(SmRestartStep { away_ms, breaks, within_ms }));
    }

    /// Another group that all members can be in; a host that could not be may now be.
    fn group_changes(&mut self) {
        let made: Vec<&Link> = self.links.iter().filter(|link| link.ready_made).collect();
        if made.is_empty() {
            return;
        }
        let link = self.draw.pick(&made);
        let least = if link.has_ipv6() { LEAST_MTU_OF_IPV6 } else { LEAST_MTU };
        let mtu = self.draw.pick(&[link.least, 2048, 1024]).min(link.least).max(least);
        let rate = self.draw.rate_up_to(link.slowest);
        // What an SA as slow as that is asked before a host hears of the new manager makes a group of before. Who is let in then stays out of that.
        let (mtu, rate) = match link.outsider {
            Some(_) if self.draw.sa_delay_ms >= SLOW_SA_MS => {
                (*link.partition.mtu.get_ref(), *link.partition.rate.get_ref())
            }
            _ => (mtu, rate),
        };
        self.steps.push(Step::GroupChanges(GroupChangesStep {
            pkey: link.partition.pkey.clone(),
            mtu: Some(at(mtu)),
            rate: Some(at(rate)),
            within_ms: self.within_ms() + LONGEST_PAUSE_MS,
        }));
    }

    /// A port becomes a limited member, or has both P_Keys, for a while.
    fn membership_changes(&mut self, to: &[Membership]) {
        let Some([host]) = self.some() else { return };
        let within_ms = self.within_ms() + LONGEST_PAUSE_MS;
        let changes = |to| Step::MembershipChanges(MembershipChangesStep { host: name(host), to, within_ms });
        let to = self.draw.pick(to);
        self.steps.push(changes(to));
        self.idle(&[10, 1_000, 61_000]);
        self.steps.push(changes(Membership::Full));
    }

    fn pkey_moves(&mut self) {
        let Some([host]) = self.some() else { return };
        let away_ms = self.draw.pick(&[100, 1_000, 10_000]);
        let within_ms = self.within_ms();
        self.steps.push(Step::PkeyMoves(PkeyMovesStep { host: name(host), away_ms, within_ms }));
    }

    fn idle(&mut self, spans: &[u64]) {
        let for_ms = self.draw.pick(spans);
        self.steps.push(Step::Idle(IdleStep { for_ms }));
    }

    /// One that two others do without.
    fn hca_removal(&mut self) {
        let Some([host, _, _]) = self.some() else { return };
        let host = name(host);
        let number = self.hosts.iter().position(|known| known.name.get_ref() == host.get_ref());
        self.gone.extend(number);
        self.steps.push(Step::HcaRemoval(HcaRemovalStep { host }));
    }

    fn trouble(&mut self) {
        let within_ms = self.draw.pick(&[20, 60, 200, 1_000, 3_000, 10_000]);
        self.draw.within_us = within_ms * 1_000;
        let mut event: Vec<TimedEvent> = Vec::new();
        for _ in 0..self.draw.pick(&[1, 2, 3, 5, 8]) {
            event.extend(match self.draw.rng.random_range(0..6) {
                0 => self.many_groups(),
                1 => self.managers(),
                2 => self.part_comes_back(),
                _ => self.draw.events(),
            });
        }
        event.sort_by_key(|timed| *timed.at_us.get_ref());
        let within_ms = within_ms.max(without_credits_ms(&event));
        let echo_every_us = ECHO_EVERY_US.max(within_ms * 1_000 / ECHOES);
        self.steps.push(Step::Trouble(TroubleStep {
            within_ms,
            settle_ms: 0,
            echo_every_us,
            senders: 0,
            stalls: None,
            tcp: None,
            event,
        }));
        // Whatever was pulled is back.
        self.gone.clear();
    }

    fn instant(&mut self) -> u64 {
        self.draw.rng.random_range(0..=self.draw.within_us)
    }

    /// A host joins many groups at once, and leaves them.
    fn many_groups(&mut self) -> Vec<TimedEvent> {
        let host = self.draw.any_host();
        let (join, leave) = (self.instant(), self.instant());
        let count = self.draw.pick(&[5, 20, 40]);
        let groups = (0..count).map(|n| IpAddr::from(Ipv4Addr::new(239, 10, 10, n)));
        let of = |group| GroupOf { host: at(host.clone()), group: at(group) };
        let both = |group| {
            let joined = TimedEvent::new(join.min(leave), Event::GroupJoin(of(group)));
            [joined, TimedEvent::new(join.max(leave), Event::GroupLeave(of(group)))]
        };
        groups.flat_map(both).collect()
    }

    /// Managers come and go inside each other.
    fn managers(&mut self) -> Vec<TimedEvent> {
        let mut events = Vec::new();
        for _ in 0..self.draw.pick(&[2, 3, 6]) {
            let event = match self.draw.rng.random_range(0..3) {
                0 => Event::SmStop(Nothing {}),
                1 => self.draw.sm_failover(),
                _ => Event::SmRestart(SmComesBack { mlids_later: self.draw.pick(&[0, 3]), lids_later: 0 }),
            };
            events.push(TimedEvent::new(self.instant(), event));
        }
        events
    }

    /// A partition is deleted and created while others send to it.
    fn part_comes_back(&mut self) -> Vec<TimedEvent> {
        let host = OnHost::named(&self.draw.any_host());
        let (first, second) = (self.instant(), self.instant());
        let deleted = TimedEvent::new(first.min(second), Event::PartDeleted(host.clone()));
        vec![deleted, TimedEvent::new(first.max(second), Event::PartCreated(host))]
    }
}
