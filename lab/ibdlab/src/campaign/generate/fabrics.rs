//! A fabric: hosts, ports, partitions, and who makes the broadcast groups.
//!
//! Whatever is drawn here fits together: every port can be in its partition's group, at its MTU and at its rate, and some host makes
//! the group where the subnet manager does not.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_spanned::Spanned;

use super::fabric_steps::Steps;
use super::partitions::TEN_GIGABIT;
use super::schedules::rings;
use super::{Generator, LEAST_MTU_OF_IPV6, NAMES, at};
use crate::report::SmKind;
use crate::scenario::trouble::Event;
use crate::scenario::{
    Cidr, Driver, FabricSpec, HostSpec, Membership, PartitionSpec, PropertyText, Scenario, Speed, Step,
};

/// Makes the draw another one than that of schedules.
const FABRICS: u64 = 0x4641_4252_4943_5321;
/// ibsim has ten clients at most, and OpenSM is one.
const OPENSM_HOSTS: usize = 9;
/// ibsim's ports.
const OPENSM_MTU: u32 = 2048;
/// What the driver gives the group that it makes, if its port can.
const MADE_MTU: u32 = 2048;
/// Ports: signalling, lanes, payload in Mb/s. Lanes of up to 10 Gb/s carry eight bits in ten, others 64 in 66; FDR10 says QDR.
const PORTS: [(Speed, u8, u32); 18] = [
    (Speed::Sdr, 4, 8_000),
    (Speed::Sdr, 8, 16_000),
    (Speed::Sdr, 12, 24_000),
    (Speed::Ddr, 4, 16_000),
    (Speed::Ddr, 12, 48_000),
    (Speed::Qdr, 1, 8_000),
    (Speed::Qdr, 4, 32_000),
    (Speed::Fdr10, 4, 32_000),
    (Speed::Fdr, 1, 13_600),
    (Speed::Fdr, 4, 54_500),
    (Speed::Edr, 1, 25_000),
    (Speed::Edr, 4, 100_000),
    (Speed::Hdr, 2, 100_000),
    (Speed::Hdr, 4, 200_000),
    (Speed::Ndr, 4, 400_000),
    (Speed::Ddr, 2, 8_000),
    (Speed::Sdr, 1, 2_000),
    (Speed::Ddr, 1, 4_000),
];

/// A partition and who is in it.
pub(super) struct Link {
    /// The subnet manager makes the broadcast group; else a host does.
    pub ready_made: bool,
    /// Bytes of the broadcast group, which is the links' MTU.
    pub mtu: u32,
    /// As the subnet manager is told of it.
    pub partition: PartitionSpec,
    /// The smallest MTU of the members' ports.
    pub least: u32,
    /// The payload of their slowest port in Mb/s.
    pub slowest: u32,
    /// Numbers of hosts.
    pub members: Vec<usize>,
    /// A host whose port cannot be in the group.
    pub outsider: Option<usize>,
}

impl Link {
    pub fn has_ipv6(&self) -> bool {
        self.mtu >= LEAST_MTU_OF_IPV6
    }
}

/// Scenario `index` of the campaign with this seed.
pub fn generate(seed: u64, index: u64, sm: SmKind) -> Scenario {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ FABRICS);
    rng.set_stream(index);
    let mut generator = Generator {
        rng: &mut rng,
        hosts: Vec::new(),
        within_us: 0,
        sa_delay_ms: 0,
        focus: None,
        kinds: Vec::new(),
    };
    generator.fabric(seed, index, sm)
}

impl Generator<'_> {
    fn fabric(&mut self, seed: u64, index: u64, sm: SmKind) -> Scenario {
        let count = self.pick(&[2, 2, 3, 3, 4, 4, 5, 6, 8, 10]);
        let count = if sm == SmKind::Opensm { count.min(OPENSM_HOSTS) } else { count };
        self.hosts = NAMES[..count].iter().map(|&name| name.to_owned()).collect();
        let fabric = self.fabric_spec(sm);
        self.sa_delay_ms = fabric.sa_delay_ms;
        let most = *fabric.mtu.get_ref();
        let mut hosts: Vec<HostSpec> = (0..count).map(|n| self.plain_host(n)).collect();
        let mut links = Vec::new();
        for members in self.shares(count) {
            let link = self.link_of(members, (most, sm), links.is_empty(), &mut hosts);
            links.push(link);
        }
        for (number, link) in links.iter().enumerate() {
            self.settle_in(number, link, &mut hosts);
        }
        if sm == SmKind::Opensm {
            hosts.iter_mut().for_each(as_ibsim_has_it);
        } else {
            hosts.iter_mut().for_each(|host| self.give_both(host));
        }
        let partition = links.iter().map(|link| at(link.partition.clone())).collect();
        let mut step = Steps::new(self, &links, &hosts, sm).draw();
        if has_ports_for_which_a_made_group_is_too_large(*fabric.mtu.get_ref(), &hosts) {
            step.iter_mut().for_each(leave_groups_alone);
        }
        Scenario {
            name: format!("fabrics {seed}, scenario {index}"),
            // What TOML can write.
            seed: u64::from(self.rng.random::<u32>()),
            schedule: None,
            fabric,
            partition,
            host: hosts.into_iter().map(at).collect(),
            step: step.into_iter().map(at).collect(),
        }
    }

    fn fabric_spec(&mut self, sm: SmKind) -> FabricSpec {
        let mtu = self.pick(&[2048, 2048, 4096, 4096, 1024]);
        let sa_delay_ms = self.pick(&[0, 1, 1, 5, 5, 20, 100, 300, 700, 1500]);
        let real = sm == SmKind::Opensm;
        FabricSpec {
            mtu: at(if real { OPENSM_MTU } else { mtu }),
            multicast_loopback: self.rng.random(),
            sa_delay_ms: if real { 0 } else { sa_delay_ms },
            lmc: self.pick(&[0, 0, 0, 1, 2, 3]),
            keeps_srqs: self.rng.random_range(0..3) == 0,
            ..FabricSpec::default()
        }
    }

    /// Which hosts share a partition.
    fn shares(&mut self, hosts: usize) -> Vec<Vec<usize>> {
        let partitions = self.pick(&[1, 1, 1, 2, 2, 3]).min(hosts / 2);
        let mut shares: Vec<Vec<usize>> = vec![Vec::new(); partitions];
        for host in 0..hosts {
            // Two in each at least, who have somebody to talk to.
            let few = shares.iter().position(|share| share.len() < 2);
            let share = few.unwrap_or_else(|| self.rng.random_range(0..partitions));
            shares[share].push(host);
        }
        shares
    }

    fn plain_host(&mut self, n: usize) -> HostSpec {
        let ports = self.pick(&[1, 1, 1, 2, 2, 4, 8]);
        let unplugged = (2..=ports).filter(|_| self.rng.random_range(0..3) == 0).map(at).collect();
        HostSpec {
            name: at(self.hosts[n].clone()),
            driver: self.pick(&[Driver::Ibd, Driver::Ibp]),
            pkey: at(0xffff),
            addresses: at(Vec::new()),
            offloads: self.rng.random_range(0..3) == 0,
            stays_down: at(false),
            membership: Membership::Full,
            groups: fabric::HcaAttr::default().max_mcg,
            properties: self.properties(),
            conf: if self.rng.random() { rings(self.rng) } else { BTreeMap::new() },
            tun: false,
            guid: None,
            ports: at(ports),
            unplugged,
            subnet: at(1),
            speed: Speed::Ddr,
            width: at(4),
            mtu: None,
        }
    }

    /// A partition of these hosts, whose ports are made such that they can all be in its broadcast group.
    fn link_of(
        &mut self,
        members: Vec<usize>,
        (most, sm): (u32, SmKind),
        first: bool,
        hosts: &mut [HostSpec],
    ) -> Link {
        let ready_made = self.rng.random_range(0..3) > 0;
        let slow = ready_made && self.rng.random_range(0..5) == 0;
        let has_outsider = ready_made && members.len() > 2 && self.rng.random();
        let (mut members, mut outsider) = (members, None);
        if has_outsider {
            let n = self.rng.random_range(0..members.len());
            outsider = Some(members.remove(n));
        }
        let mut slowest = u32::MAX;
        let mut least = most;
        for member in &members {
            let host = &mut hosts[*member];
            slowest = slowest.min(self.port(host, slow));
            least = least.min(self.mtu_of_ports(host, most, ready_made));
        }
        let pkey = if first && self.rng.random() { 0xffff } else { self.unused_pkey(hosts) };
        for member in members.iter().chain(&outsider) {
            hosts[*member].pkey = at(pkey);
        }
        let mtu = match ready_made {
            true => self.pick(&[least, least, least.min(1024), least.min(2048)]),
            false => least.min(MADE_MTU),
        };
        let partition = PartitionSpec {
            // What the hosts make is theirs.
            mtu: at(if ready_made { mtu } else { MADE_MTU }),
            rate: at(self.rate_up_to(slowest)),
            ..self.group_of(pkey, ready_made, sm)
        };
        let mut link = Link { ready_made, mtu, partition, least, slowest, members, outsider };
        if let Some(outsider) = outsider {
            self.shut_out(&mut hosts[outsider], &mut link, most, sm);
        }
        link
    }

    /// Gives a host's ports a speed and lanes; their payload in Mb/s. Only where groups are so slow they have less than 10 Gb/s.
    fn port(&mut self, host: &mut HostSpec, slow: bool) -> u32 {
        let fits: Vec<(Speed, u8, u32)> =
            PORTS.into_iter().filter(|(.., rate)| slow || *rate >= TEN_GIGABIT).collect();
        let (speed, width, rate) = self.pick(&fits);
        (host.speed, host.width) = (speed, at(width));
        rate
    }

    /// Perhaps a smaller MTU than the fabric's; which it is. A host that makes a group gives it 2,048 bytes if its port can, so no
    /// port in such a partition has less, unless all have.
    fn mtu_of_ports(&mut self, host: &mut HostSpec, most: u32, ready_made: bool) -> u32 {
        let least = if ready_made { 1024 } else { MADE_MTU.min(most) };
        let mtu = self.pick(&[most, most, 2048, 1024]).clamp(least, most);
        host.mtu = (mtu < most).then(|| at(mtu));
        mtu
    }

    /// Some ports have both P_Keys of their partition.
    fn give_both(&mut self, host: &mut HostSpec) {
        if self.rng.random_range(0..8) == 0 {
            host.membership = Membership::Both;
        }
    }

    fn unused_pkey(&mut self, hosts: &[HostSpec]) -> u16 {
        loop {
            // The last two are the default partition's, and one that `pkey-moves` has a use for.
            let pkey = self.rng.random_range(1..0x7ffe) | 0x8000;
            if hosts.iter().all(|host| *host.pkey.get_ref() != pkey) {
                return pkey;
            }
        }
    }

    /// Addresses for the hosts of a partition, and who of them may make its group.
    fn settle_in(&mut self, number: usize, link: &Link, hosts: &mut [HostSpec]) {
        let maker = self.pick(&link.members);
        for member in link.members.iter().chain(&link.outsider) {
            let last = member + 1;
            let mut addresses = vec![format!("10.0.{number}.{last}/24")];
            if link.has_ipv6() && self.rng.random_range(0..4) > 0 {
                addresses.push(format!("fd00:{number}::{last}/64"));
            }
            if self.rng.random_range(0..6) == 0 {
                addresses.push(format!("10.1.{number}.{last}/24"));
            }
            let host = &mut hosts[*member];
            host.addresses = at(addresses.into_iter().filter_map(|text| Cidr::try_from(text).ok()).collect());
            if !link.ready_made {
                // A link that makes a group makes it in scope 2, wherever the scenario says that it is.
                let makes = link.partition.scope.is_none() && (*member == maker || self.rng.random());
                let value = at(PropertyText::Number(i64::from(makes)));
                host.properties.insert("_ibd_create_broadcast_group".to_owned(), value);
            }
        }
    }
}

/// A host may make the group anew that the manager had, with 2,048 bytes if its own port can.
fn has_ports_for_which_a_made_group_is_too_large(most: u32, hosts: &[HostSpec]) -> bool {
    let ports = || hosts.iter().map(|host| host.mtu.as_ref().map_or(most, |mtu| *mtu.get_ref()));
    ports().any(|mtu| mtu < MADE_MTU) && ports().any(|mtu| mtu >= MADE_MTU)
}

/// The manager's broadcast groups stay.
fn leave_groups_alone(step: &mut Step) {
    if let Step::Trouble(trouble) = step {
        trouble.event.retain(|timed| !matches!(timed.event, Event::GroupDeleted(_)));
    }
}

/// ibsim's adapters have one port, of one MTU and no faster than HDR.
fn as_ibsim_has_it(host: &mut HostSpec) {
    host.unplugged = (2..=*host.ports.get_ref()).map(at).collect();
    host.mtu = None;
    if host.speed == Speed::Ndr {
        host.speed = Speed::Hdr;
    }
}

/// The host's first address of the family.
pub(super) fn address(host: &HostSpec, ipv6: bool) -> Option<std::net::IpAddr> {
    let addresses = host.addresses.get_ref().iter().map(|cidr| std::net::IpAddr::from(cidr.0.address()));
    addresses.into_iter().find(|address| address.is_ipv6() == ipv6)
}

/// The host's name.
pub(super) fn name(host: &HostSpec) -> Spanned<String> {
    at(host.name.get_ref().clone())
}
