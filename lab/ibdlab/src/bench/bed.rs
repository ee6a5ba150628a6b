//! What the drivers are measured on: a machine without checks, each driver on a host of its own, and behind each adapter's port a
//! far end in the switch's place.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use fabric::{FarEnd, Gid, Guid, HcaConfig, Lid, NearEnd, PKey, QKey, Qpn};
use fakekernel::{Machine, Nanos};
use lab_gldv3::{LinkAddress, Stream, TimedLink};
use lab_world::{Host, World};

use super::Driver;
use crate::objects::Objects;
use crate::report::SmKind;
use crate::scenario::{ModuleOverride, Scenario, parse};
use crate::setup::{self, mtu_of};

/// Node GUID of the adapter whose ports are the peers'; a port's is its node's and its number.
const PEERS: u64 = 0x0002_c903_0010_0000;
/// Ports of that adapter, each with a GID and a LID: as many as one can have.
const PORTS: u8 = 254;
/// Queue pair of the first peer at each port.
const FIRST_QPN: u32 = 0x1000;
/// The IPoIB broadcast group's, as the embedded subnet manager makes it.
const QKEY: QKey = QKey(0x0b1b);
/// How long a link may take to come up.
const PATIENCE: Nanos = Nanos::from_secs(30);

/// See the module's documentation.
pub struct Bed {
    pub machine: Machine,
    pub world: World,
    pub subjects: Vec<Subject>,
    peers: Vec<Peer>,
}

/// A driver with its started link.
pub struct Subject {
    pub driver: Driver,
    pub link: TimedLink,
    pub far: Arc<FarEnd>,
    pub near: NearEnd,
    pub lid: Lid,
    own: LinkAddress,
    /// Kernel memory in use before the driver was loaded, and once its link was up.
    pub memory: (usize, usize),
    pub host: Arc<Host>,
    // Last: closing it stops the driver.
    pub stream: Stream,
}

/// A port that peers are at.
/// Groups that each adapter can hear: more than the bench joins.
const GROUPS: u32 = 2048;

#[derive(Clone, Copy)]
struct Peer {
    gid: Gid,
    lid: Lid,
}

impl Bed {
    /// Everything, with every link up. On a thread of the machine.
    pub fn build(machine: &Machine, drivers: &[Driver], proto: &Path, seed: u64, mtu: u32) -> Result<Self> {
        let scenario = scenario(drivers, mtu)?;
        let objects = Objects::find(&scenario, proto, &overrides(drivers))?;
        let world = setup::hosts(machine, &scenario, &objects, seed)?;
        setup::start_sm(&world.infiniband, &scenario, SmKind::Embedded)?;
        let mut bed = Self { machine: machine.clone(), world, subjects: Vec::new(), peers: Vec::new() };
        bed.add_peers(mtu)?;
        for driver in drivers {
            let subject = bed.subject(driver)?;
            bed.subjects.push(subject);
        }
        Ok(bed)
    }

    fn add_peers(&mut self, mtu: u32) -> Result<()> {
        let kernel = self.machine.add_host("peers");
        lab_ibtf::provide(&kernel);
        let mut config = HcaConfig::new(Guid(PEERS), PORTS);
        for port in &mut config.ports {
            port.mtu = mtu_of(mtu);
        }
        let hca = self.world.infiniband.add_hca(&kernel, config)?;
        let deadline = self.machine.now() + PATIENCE;
        loop {
            let ports = hca.query_ports()?;
            if ports.iter().all(|port| port.lid != Lid::NONE && port.state == fabric::PortState::Active) {
                self.peers = ports.iter().map(|port| Peer { gid: port.gids[0], lid: port.lid }).collect();
                return Ok(());
            }
            ensure!(self.machine.now() < deadline, "the subnet manager does not bring the peers' ports up");
            fakekernel::sleep(Nanos::from_millis(10));
        }
    }

    fn subject(&mut self, driver: &Driver) -> Result<Subject> {
        let host = self.world.hosts.iter().find(|host| host.name == driver.name).cloned();
        let host = host.ok_or_else(|| anyhow!("no host {}", driver.name))?;
        let before = host.kernel.genunix().heap_use().0;
        host.make_link()?;
        let stream = Stream::open(&host.kernel, &host.link())
            .map_err(|errno| anyhow!("open {} on {}: {errno}", host.link(), host.name))?;
        stream.bind(0x0800).map_err(|errno| anyhow!("bind: {errno}"))?;
        ensure!(host.wait_up(PATIENCE), "the link of {} does not come up: {:?}", host.name, host.console());
        let details = stream.details();
        let fabric = self.world.infiniband.fabric();
        let far = FarEnd::new(self.peers.iter().map(|peer| peer.lid));
        ensure!(fabric.set_far_end(host.port, far.clone()), "no port {}", host.port);
        let near = fabric.near_end(host.port).context("the port was there a moment ago")?;
        let lid = fabric.hca(host.adapter()).context("no adapter")?.query_ports()?[0].lid;
        fakekernel::idle();
        let memory = (before, host.kernel.genunix().heap_use().0);
        let link = stream.timed();
        Ok(Subject {
            driver: driver.clone(),
            link,
            far,
            near,
            lid,
            own: details.address,
            memory,
            host,
            stream,
        })
    }

    /// The LID of the first peer.
    pub(super) fn first_peer(&self) -> Lid {
        self.peers[0].lid
    }

    /// The link address of a peer: ports in turn, queue pairs within them.
    pub fn address(&self, n: usize) -> LinkAddress {
        let peer = self.peers[n % self.peers.len()];
        let qpn = FIRST_QPN + (n / self.peers.len()) as u32;
        let mut bytes = [0; 20];
        bytes[1..4].copy_from_slice(&qpn.to_be_bytes()[1..]);
        bytes[4..12].copy_from_slice(&peer.gid.prefix.to_be_bytes());
        bytes[12..].copy_from_slice(&peer.gid.guid.to_be_bytes());
        LinkAddress(bytes)
    }

    /// A datagram from a peer to a subject.
    pub fn datagram<'a>(&self, subject: &Subject, from: usize, payload: &'a [u8]) -> fabric::Datagram<'a> {
        let peer = self.peers[from % self.peers.len()];
        fabric::Datagram {
            dlid: subject.lid,
            slid: peer.lid,
            dest: subject.qpn(),
            source: Qpn::truncating(FIRST_QPN + (from / self.peers.len()) as u32),
            pkey: PKey(0xffff),
            qkey: QKEY,
            grh: None,
            payload,
        }
    }
}

impl Subject {
    /// Its adapter's node GUID, and the number of its port.
    pub(super) fn port(&self, bed: &Bed) -> Result<(u64, u8)> {
        let adapter = self.host.adapter();
        let hca = bed.world.infiniband.fabric().hca(adapter).context("no adapter")?;
        let ports = &hca.config().ports;
        let place = ports.iter().position(|port| port.guid == self.host.port).context("no port")?;
        Ok((adapter.0, place as u8 + 1))
    }

    fn qpn(&self) -> Qpn {
        let [_, a, b, c, ..] = self.own.0;
        Qpn::truncating(u32::from_be_bytes([0, a, b, c]))
    }
}

fn overrides(drivers: &[Driver]) -> Vec<ModuleOverride> {
    drivers.iter().flat_map(|driver| driver.objects.clone()).collect()
}

/// One host for each driver; what a host's addresses are does not matter, nobody resolves them.
fn scenario(drivers: &[Driver], mtu: u32) -> Result<Scenario> {
    let mut text = format!(
        "name = \"bench\"\n[fabric]\nmtu = {mtu}\nsa_delay_ms = 0\n[[partition]]\npkey = 0xffff\nmtu = {mtu}\n"
    );
    for (n, driver) in drivers.iter().enumerate() {
        let mut properties = String::new();
        if driver.foreign {
            properties += "properties = { linkmode = \"ud\" }\n";
        }
        if driver.rings != 0 {
            properties += &format!("conf = {{ ibd_rx_rings = 1, ibd_tx_rings = {} }}\n", driver.rings);
        }
        text += &format!(
            "[[host]]\nname = \"{}\"\ndriver = \"{}\"\naddresses = [\"192.168.76.{}/24\"]\ngroups = {GROUPS}\n{properties}",
            driver.name,
            driver.module,
            n + 1
        );
    }
    text += "[[step]]\nattach = {}\n";
    Ok(parse(Path::new("bench"), &text)?)
}

#[cfg(test)]
mod tests {
    use fakekernel::Config;

    use super::super::traffic::{Load, Way, measure};
    use super::*;

    #[test]
    fn nobody_waits_for_the_administrator_before_it_is_made_slow() {
        let machine = Machine::new(Config::timed(1));
        let inner = machine.clone();
        let proto = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto/kernel"));
        let waited = machine.run(move || {
            let bed = Bed::build(&inner, &[Driver::ours()], proto, 1, 2048).expect("a bed");
            let load = Load { way: Way::Transmit, addresses: 10_000, flows: 1, len: 64 };
            let measured = measure(&bed, &bed.subjects[0], load, 256, 1);
            assert!(measured.by_name().contains_key("ibt_get_paths"), "paths were asked for");
            assert_eq!(measured.arrived, measured.sent);
            measured.waited
        });
        assert!(waited.expect("it ends well").is_zero());
    }
}
