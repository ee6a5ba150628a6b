//! The scenarios of a campaign: a schedule and the trouble in it, both chosen by a number.
//!
//! Scenario `index` of campaign `seed` is always the same one, whatever was found before it, so a campaign can be repeated,
//! split, or gone on with.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_spanned::Spanned;

use crate::scenario::trouble::{
    AllocationFails, Delayed, Event, FaultPoint, ForMs, GroupOf, HostForMs, LinkFaulty, Malformed, OnHost,
    PacketTo, PkeyAt, PromiscuousMode, PropertyTo, QpOf, SaDoes, SaRequest, SaStatus, SaTrouble, SmComesBack,
    SmMoves, SubnetPrefix, TimedEvent,
};
use crate::scenario::{
    AttachStep, Cidr, Driver, FabricSpec, HostSpec, Nothing, PartitionSpec, PropertyText, Scenario, Speed,
    Step, TroubleStep, Within,
};

const NAMES: [&str; 4] = ["alice", "bob", "carol", "dave"];
/// IPv6 asks for 1280 bytes of every link.
const LEAST_MTU_OF_IPV6: u32 = 2048;
/// Timelines are mostly short: what races does so at once, and a short one is soon run.
const WITHIN_MS: [u64; 5] = [10, 20, 40, 60, 100];
const GROUPS: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3)),
    IpAddr::V4(Ipv4Addr::new(239, 1, 2, 4)),
    IpAddr::V4(Ipv4Addr::new(224, 0, 0, 251)),
    IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfb)),
];
const REQUESTS: [SaRequest; 5] =
    [SaRequest::Path, SaRequest::Join, SaRequest::Leave, SaRequest::ListGroups, SaRequest::Subscribe];

/// Makes the draw of rings another one than that of all else.
const RINGS: u64 = 0x5249_4e47_5349_4244;

/// A membership that the SM lost without a word is asked for again after a quarter of an hour.
const SETTLE_MS: u64 = 1_200_000;
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

/// Private properties of the driver and values for them; what it cannot be set to it clamps or refuses.
const TUNINGS: [(&str, &[i64]); 7] = [
    ("_ibd_num_ah", &[32, 1_024]),
    ("_ibd_ud_num_rwqe", &[512, 2_000]),
    ("_ibd_ud_num_swqe", &[512, 2_000]),
    ("_ibd_ud_tx_copy_thresh", &[2_048, 65_536]),
    ("_ibd_coalesce_completions", &[0, 1]),
    ("_ibd_lso_enable", &[0, 1]),
    ("_ibd_create_broadcast_group", &[0, 1]),
];

/// Scenario `index` of the campaign with this seed.
pub fn generate(seed: u64, index: u64) -> Scenario {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(index);
    let mut scenario = Generator { rng: &mut rng, hosts: Vec::new(), within_us: 0 }.scenario(seed, index);
    // Drawn apart, so that the same troubles meet hosts with and without.
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ RINGS);
    rng.set_stream(index);
    for host in &mut scenario.host {
        host.get_mut().conf = rings(&mut rng);
    }
    break_rings(&mut scenario, &mut rng);
    scenario
}

/// For half of the hosts a receive ring, and mostly transmit rings.
fn rings(rng: &mut ChaCha8Rng) -> BTreeMap<String, i32> {
    if rng.random() {
        return BTreeMap::new();
    }
    let transmit = *[0, 1, 2, 4, 8].choose(rng).unwrap_or(&0);
    [("ibd_rx_rings", 1), ("ibd_tx_rings", transmit)].map(|(name, value)| (name.to_owned(), value)).into()
}

/// Breaks one queue pair or two of hosts that have several.
fn break_rings(scenario: &mut Scenario, rng: &mut ChaCha8Rng) {
    let several = |host: &HostSpec| host.conf.get("ibd_tx_rings").is_some_and(|rings| *rings > 1);
    let hosts: Vec<String> = scenario
        .host
        .iter()
        .map(Spanned::get_ref)
        .filter(|host| several(host))
        .map(|host| host.name.get_ref().clone())
        .collect();
    for step in &mut scenario.step {
        let Step::Trouble(trouble) = step.get_mut() else { continue };
        for host in &hosts {
            for _ in 0..*[0, 0, 1, 2].choose(rng).unwrap_or(&0) {
                let when = rng.random_range(0..=trouble.within_ms * 1_000);
                let of = QpOf { host: at(host.clone()), number: rng.random_range(0..8) };
                trouble.event.push(TimedEvent::new(when, Event::OneQpBreaks(of)));
            }
        }
        trouble.event.sort_by_key(|timed| *timed.at_us.get_ref());
    }
}

struct Generator<'a> {
    rng: &'a mut ChaCha8Rng,
    hosts: Vec<String>,
    within_us: u64,
}

impl Generator<'_> {
    fn scenario(mut self, seed: u64, index: u64) -> Scenario {
        let count = *[2, 2, 2, 3, 3, 4].choose(self.rng).unwrap_or(&2);
        self.hosts = NAMES[..count].iter().map(|&name| name.to_owned()).collect();
        let mtu = self.pick(&[2048, 2048, 2048, 4096, 1024]);
        let pkey = self.pick(&[0xffff, 0xffff, 0x8001, 0x8abc]);
        let partition = PartitionSpec { pkey: at(pkey), ipoib: true, mtu: at(mtu), rate: at(3) };
        let host = (0..count).map(|n| at(self.host(n, pkey, mtu))).collect();
        let fabric = FabricSpec {
            mtu: at(mtu),
            multicast_loopback: self.rng.random(),
            // Without a delay the answer to a join overtakes the switch's tables, and the first packet to a group may be lost.
            sa_delay_ms: self.pick(&[1, 1, 5, 20]),
        };
        let mut steps = vec![
            Step::Attach(AttachStep { after_ports: self.rng.random() }),
            Step::Up(Within { within_ms: 20_000 }),
        ];
        for _ in 0..self.pick(&[1, 1, 1, 2]) {
            steps.push(Step::Trouble(self.trouble()));
        }
        steps.push(Step::Unload(Nothing {}));
        Scenario {
            name: format!("campaign {seed}, scenario {index}"),
            // What TOML can write.
            seed: u64::from(self.rng.random::<u32>()),
            fabric,
            partition: vec![at(partition)],
            host,
            step: steps.into_iter().map(at).collect(),
        }
    }

    fn host(&mut self, n: usize, pkey: u16, mtu: u32) -> HostSpec {
        let last = n as u8 + 1;
        let mut addresses = vec![format!("192.168.80.{last}/24")];
        if mtu >= LEAST_MTU_OF_IPV6 {
            addresses.push(format!("fd00:80::{last}/64"));
        }
        let addresses = addresses.into_iter().filter_map(|text| Cidr::try_from(text).ok()).collect();
        HostSpec {
            name: at(self.hosts[n].clone()),
            driver: self.pick(&[Driver::Ibd, Driver::Ibp]),
            pkey: at(pkey),
            addresses: at(addresses),
            offloads: self.rng.random_range(0..3) == 0,
            groups: fabric::HcaAttr::default().max_mcg,
            properties: self.properties(),
            conf: BTreeMap::new(),
            tun: false,
            guid: None,
            ports: at(1),
            unplugged: Vec::new(),
            speed: Speed::Ddr,
            width: at(4),
            mtu: None,
        }
    }

    /// Tunings of the link, mostly none.
    fn properties(&mut self) -> BTreeMap<String, Spanned<PropertyText>> {
        let mut properties = BTreeMap::new();
        if self.rng.random_range(0..3) == 0 {
            for _ in 0..self.rng.random_range(1..=3) {
                let (name, values) = TUNINGS[self.rng.random_range(0..TUNINGS.len())];
                let value = PropertyText::Number(self.pick(values));
                properties.insert(name.to_owned(), at(value));
            }
        }
        properties
    }

    fn trouble(&mut self) -> TroubleStep {
        let within_ms = self.pick(&WITHIN_MS);
        self.within_us = within_ms * 1_000;
        let count = self.pick(&[1, 2, 3, 4, 6, 8, 12, 16]);
        let mut event: Vec<TimedEvent> = (0..count).flat_map(|_| self.events()).collect();
        event.sort_by_key(|timed| *timed.at_us.get_ref());
        TroubleStep { within_ms, settle_ms: SETTLE_MS, event }
    }

    /// One event, and often the one that ends it.
    fn events(&mut self) -> Vec<TimedEvent> {
        let begin = self.rng.random_range(0..=self.within_us);
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

    fn pair(&mut self) -> (Event, Option<Event>) {
        let host = self.any_host();
        let on = OnHost::named(&host);
        match self.rng.random_range(0..30) {
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
            26 => (Event::SendsHang(HostForMs { host: at(host), for_ms: self.short_ms() }), None),
            27 => (self.property_set(host), None),
            28 => (Event::PathAsk(on), None),
            18 => (Event::QpBreaks(on), None),
            19 => (self.packet(host), None),
            20 => (Event::HcaRemoved(on.clone()), Some(Event::HcaAdded(on))),
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
        let of = GroupOf { host: at(host), group: at(self.pick(&GROUPS)) };
        (Event::GroupJoin(of.clone()), Some(Event::GroupLeave(of)))
    }

    /// Only such values that a link recovers by itself from whatever happens.
    fn property_set(&mut self, host: String) -> Event {
        let (name, value) = self.pick(&PROPERTIES);
        Event::PropertySet(PropertyTo { host: at(host), name: name.into(), value: value.into() })
    }

    fn sm_restart(&mut self) -> Event {
        Event::SmRestart(SmComesBack { mlids_later: self.pick(&[0, 0, 1, 16]) })
    }

    fn sm_failover(&mut self) -> Event {
        let lid = at(self.pick(&[0x100, 0x200, 0xbf00]));
        Event::SmFailover(SmMoves { lid, mlids_later: self.pick(&[0, 16]) })
    }

    fn subnet_prefix(&mut self) -> Event {
        // Site-local is above what TOML can write.
        Event::SubnetPrefix(SubnetPrefix {
            prefix: at(self.pick(&[0x7e80_0000_0000_0001, 0x2001_0db8_0000_0000])),
        })
    }

    fn sa(&mut self) -> Event {
        let does = match self.rng.random_range(0..6) {
            0 | 1 => SaDoes::Silent,
            2 => SaDoes::LosesAnswer,
            3 => SaDoes::Empty,
            4 => SaDoes::Late(self.rng.random_range(1..=2_000)),
            _ => SaDoes::Refuses(self.pick(&SaStatus::ALL)),
        };
        let to = (self.rng.random_range(0..3) > 0).then(|| self.pick(&REQUESTS));
        let from = self.rng.random::<bool>().then(|| at(self.any_host()));
        let times = self.rng.random::<bool>().then(|| self.rng.random_range(1..=4));
        let for_ms = self.pick(&[5, 50, 500, 5_000]);
        Event::Sa(SaTrouble { does, to, from, times, for_ms })
    }

    fn pkey_added(&mut self, host: &str) -> Event {
        Event::PkeyAdded(PkeyAt { host: at(host.to_owned()), index: at(self.rng.random_range(0..8)) })
    }

    fn allocation_fails(&mut self, host: String) -> Event {
        let kinds: Vec<FaultPoint> = FaultPoint::all().collect();
        let kind = self.pick(&kinds);
        let after = self.pick(&[0, 0, 0, 1, 2, 4, 10, 40]);
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

    fn packet(&mut self, to: String) -> Event {
        Event::Packet(PacketTo { to: at(to), kind: self.pick(&Malformed::ALL) })
    }

    fn short_ms(&mut self) -> u64 {
        self.pick(&[1, 3, 10, 30, 100])
    }

    fn any_host(&mut self) -> String {
        let n = self.rng.random_range(0..self.hosts.len());
        self.hosts[n].clone()
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.rng.random_range(0..from.len())].clone()
    }
}

fn at<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}
