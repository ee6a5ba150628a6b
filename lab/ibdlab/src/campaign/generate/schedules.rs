//! A schedule and the trouble in it.

use std::collections::BTreeMap;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_spanned::Spanned;

use super::{Generator, LEAST_MTU_OF_IPV6, NAMES, at};
use crate::scenario::trouble::{Delayed, Event, QpOf, TimedEvent};
use crate::scenario::{
    AttachStep, Cidr, Driver, FabricSpec, HostSpec, Membership, Nothing, PartitionSpec, PropertyText,
    Scenario, Speed, Step, TroubleStep, UpStep,
};

/// Timelines are mostly short: what races does so at once, and a short one is soon run.
const WITHIN_MS: [u64; 5] = [10, 20, 40, 60, 100];
/// What a link asks the SA, one thing after the other, until it is up: what fails, fails as long.
const REQUESTS: u64 = 6;
/// The most echoes that a host sends to another one, and the least time between two.
const MOST_ECHOES: u64 = 400;
const LEAST_ECHO_EVERY_US: u64 = 100;
/// Makes the draw of rings another one than that of all else.
const RINGS: u64 = 0x5249_4e47_5349_4244;
/// The same of the calls that events wait for.
const CALLS: u64 = 0x4341_4c4c_5349_4244;

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
    let mut scenario = Generator {
        rng: &mut rng,
        hosts: Vec::new(),
        within_us: 0,
        sa_delay_ms: 0,
        focus: None,
        kinds: Vec::new(),
    }
    .scenario(seed, index);
    // Drawn apart, so that the same troubles meet hosts with and without.
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ RINGS);
    rng.set_stream(index);
    for host in &mut scenario.host {
        host.get_mut().conf = rings(&mut rng);
    }
    break_rings(&mut scenario, &mut rng);
    meet_calls(&mut scenario, seed, index);
    scenario
}

/// Events that meet somebody, and some that wait for calls.
fn meet_calls(scenario: &mut Scenario, seed: u64, index: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ CALLS);
    rng.set_stream(index);
    let mut generator = Generator {
        rng: &mut rng,
        hosts: scenario.host.iter().map(|host| host.get_ref().name.get_ref().clone()).collect(),
        within_us: 0,
        sa_delay_ms: scenario.fabric.sa_delay_ms,
        focus: None,
        kinds: Vec::new(),
    };
    for step in &mut scenario.step {
        if let Step::Trouble(trouble) = step.as_mut() {
            generator.within_us = trouble.within_ms * 1_000;
            generator.demand(trouble);
            generator.moments(trouble);
        }
    }
}

/// For half of the hosts a receive ring, and mostly transmit rings.
pub(super) fn rings(rng: &mut ChaCha8Rng) -> BTreeMap<String, i32> {
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

impl Generator<'_> {
    fn scenario(mut self, seed: u64, index: u64) -> Scenario {
        let count = *[2, 2, 2, 3, 3, 4].choose(self.rng).unwrap_or(&2);
        self.hosts = NAMES[..count].iter().map(|&name| name.to_owned()).collect();
        let mtu = self.pick(&[2048, 2048, 2048, 4096, 1024]);
        let pkey = self.pick(&[0xffff, 0xffff, 0x8001, 0x8abc]);
        let partition = PartitionSpec { mtu: at(mtu), ..PartitionSpec::new(at(pkey), true) };
        let host = (0..count).map(|n| at(self.host(n, pkey, mtu))).collect();
        let multicast_loopback = self.rng.random();
        // Without a delay the answer to a join overtakes the switch's tables, and the first packet to a group may be lost.
        self.sa_delay_ms = self.pick(&[1, 1, 5, 20]);
        let sa_delay_ms = self.sa_delay_ms;
        let keeps_srqs = self.rng.random_range(0..3) == 0;
        let fabric =
            FabricSpec { mtu: at(mtu), multicast_loopback, sa_delay_ms, keeps_srqs, ..FabricSpec::default() };
        let mut steps = vec![
            Step::Attach(AttachStep { after_ports: self.rng.random() }),
            Step::Up(UpStep { within_ms: 20_000, after_first_ms: None }),
        ];
        for _ in 0..self.pick(&[1, 1, 1, 2]) {
            steps.push(Step::Trouble(self.trouble()));
        }
        steps.push(Step::Unload(Nothing {}));
        Scenario {
            name: format!("campaign {seed}, scenario {index}"),
            // What TOML can write.
            seed: u64::from(self.rng.random::<u32>()),
            schedule: None,
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
            stays_down: at(false),
            membership: Membership::Full,
            groups: fabric::HcaAttr::default().max_mcg,
            properties: self.properties(),
            conf: BTreeMap::new(),
            tun: false,
            guid: None,
            ports: at(1),
            unplugged: Vec::new(),
            subnet: at(1),
            speed: Speed::Ddr,
            width: at(4),
            mtu: None,
        }
    }

    /// Tunings of the link, mostly none.
    pub(super) fn properties(&mut self) -> BTreeMap<String, Spanned<PropertyText>> {
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

    /// What makes moments of a host longer, from the beginning to the end.
    fn slowness(&mut self, host: String, for_ms: u64) -> Event {
        let (from_us, to_us) = self.pick(&[(0, 20), (20, 200), (100, 1_000)]);
        let delayed = Delayed { host: at(host), from_us, to_us, for_ms };
        if self.rng.random_range(0..3) > 0 {
            Event::CommandsSlow(delayed)
        } else {
            Event::InterruptsLate(delayed)
        }
    }

    fn trouble(&mut self) -> TroubleStep {
        let within_ms = self.pick(&WITHIN_MS) + REQUESTS * self.sa_delay_ms;
        self.within_us = within_ms * 1_000;
        self.draw_focus();
        let count = self.pick(&[1, 2, 3, 4, 6, 8, 12, 16]);
        let mut event: Vec<TimedEvent> = (0..count).flat_map(|_| self.events()).collect();
        if let Some(focus) = self.focus.clone().filter(|_| self.rng.random()) {
            event.push(TimedEvent::new(0, self.slowness(focus.host, within_ms)));
        }
        event.sort_by_key(|timed| *timed.at_us.get_ref());
        let within_ms = within_ms.max(without_credits_ms(&event));
        let echo_every_us = LEAST_ECHO_EVERY_US.max(within_ms * 1_000 / MOST_ECHOES);
        TroubleStep { within_ms, settle_ms: 0, echo_every_us, senders: 0, stalls: None, tcp: None, event }
    }
}

/// How long a timeline has to be for a fabric without credits to last: what still holds at its end is undone.
pub(super) fn without_credits_ms(events: &[TimedEvent]) -> u64 {
    let until = |timed: &TimedEvent| match &timed.event {
        Event::NoCredits(without) => Some(*timed.at_us.get_ref() / 1_000 + without.for_ms + 1),
        _ => None,
    };
    events.iter().filter_map(until).max().unwrap_or(0)
}
