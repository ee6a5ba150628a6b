//! A scenario file: the fabric, its partitions, the hosts, and what they do.
//!
//! Reading one checks everything that can be checked without running it; an error names the file, the line and what
//! was expected there.

mod check;
mod host;
mod load;
mod named;
mod one_step;
mod partition;
mod property;
mod range;
#[cfg(test)]
mod refusals;
mod router;
mod schedule;
mod size;
pub mod trouble;
#[cfg(test)]
mod unworkable;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_spanned::Spanned;

use crate::report::HcaKind;
pub use host::{Cidr, HostSpec, Membership, Speed};
pub use lab_world::Driver;
pub(crate) use load::line_of;
pub use load::{ScenarioError, load, parse};
pub use partition::{Misfit, PartitionSpec};
pub use property::PropertyText;
pub use router::{RouterAwayStep, RouterSpec};
pub use schedule::{DecisionText, PrioritySchedule, RandomSchedule, Schedule, TurnSchedule};
pub use size::ByteSize;
pub use trouble::TroubleStep;

/// A whole scenario file.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// One line that says what this scenario shows.
    pub name: String,
    /// Seed of schedule, faults and payload; `--seed` overrides it.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// How threads are interleaved in virtual time; at random if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    #[serde(default)]
    pub fabric: FabricSpec,
    /// Partitions beyond those the subnet manager always has; none means the default partition with IPoIB.
    #[serde(default = "partition::usual")]
    pub partition: Vec<Spanned<PartitionSpec>>,
    pub host: Vec<Spanned<HostSpec>>,
    /// What `ibdlab run` does; `ibdlab up` does none of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_step::read")]
    pub step: Vec<Spanned<Step>>,
}

/// What all ports have in common.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct FabricSpec {
    /// MTU of ports and links in bytes: 256, 512, 1024, 2048 or 4096. A host may have a smaller one.
    pub mtu: Spanned<u32>,
    /// Do adapters hand a sender's own multicast back to it?
    pub multicast_loopback: bool,
    /// How long the embedded subnet administrator takes to answer, in milliseconds; OpenSM takes its own time.
    #[serde(deserialize_with = "range::sa_delay_ms")]
    pub sa_delay_ms: u64,
    /// Each port has 2^lmc LIDs, and the SA leads to any of them.
    #[serde(skip_serializing_if = "is_zero", deserialize_with = "range::lmc")]
    pub lmc: u8,
    /// Do adapters refuse to free a shared receive queue that a connection has used, as `hermon` does?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keeps_srqs: bool,
    /// What the hosts' links are on; `--hca` overrides it. `ibdlab up` has the lab's own adapters only.
    #[serde(skip_serializing_if = "HcaKind::is_model")]
    pub hca: HcaKind,
    /// A second subnet is behind a router.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterSpec>,
}

/// What happens, in order. A step that does not end well ends the run.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Load plugin and driver, attach every instance, open the links.
    Attach(AttachStep),
    /// Wait until every link is up, its broadcast group joined.
    Up(UpStep),
    /// Each host resolves the first address of each host that it can reach: of its partition, with the adapter in its place. No
    /// step asks more of hosts than that.
    Resolve(Nothing),
    Ping(PingStep),
    Tcp(TcpStep),
    Multicast(MulticastStep),
    /// Each host of each link in turn says something to a group that all others join for it and then leave, without a pause.
    Turns(TurnsStep),
    Flap(FlapStep),
    RouterAway(RouterAwayStep),
    /// Nothing is done for a time: what waits, renews or expires does so.
    Idle(IdleStep),
    /// A third host in promiscuous mode hears a group it has not joined; afterwards it does not.
    Eavesdrop(EavesdropStep),
    /// The subnet manager dies and another one takes over, which knows nobody. Whoever can reach each other has sent an echo
    /// before, and unicast flows all the while.
    SmRestart(SmRestartStep),
    /// A host's P_Key goes from its port's table and comes back at another index, where the subnet manager then keeps it.
    PkeyMoves(PkeyMovesStep),
    /// A host's adapter is pulled while it is in use.
    HcaRemoval(HcaRemovalStep),
    /// The subnet manager has a host's port in its partition in another way. As a limited member its link goes down, and comes up once it is a
    /// full one again.
    MembershipChanges(MembershipChangesStep),
    /// The subnet manager is configured anew and takes over again: the broadcast group of a partition carries something else. Links whose
    /// ports can be in it come up, others go down.
    GroupChanges(GroupChangesStep),
    /// Traffic both ways; at instants that the seed chooses, a port flaps and one host is unloaded.
    UnloadUnderTraffic(UnderTrafficStep),
    /// A host's link is faulty for a time, while the next steps go on.
    Link(trouble::LinkFaulty),
    /// A timeline of things that go wrong, under traffic; then everything is to be well again by itself.
    Trouble(TroubleStep),
    /// Everything that can fail while a host does something is made to fail, one call after the other.
    FaultPoints(FaultPointsStep),
    /// Linux's own ping between two hosts with TUN devices.
    LinuxPing(LinuxPingStep),
    /// A file from a web server to curl between two hosts with TUN devices.
    LinuxFetch(LinuxFetchStep),
    /// Each host's port is in the groups it has enabled, as the subnet administrator has it.
    Memberships(Nothing),
    /// Drivers' statistics against the capture.
    Counts(Nothing),
    /// Close links, detach instances, unload modules, look for leaks.
    Unload(Nothing),
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AttachStep {
    /// Wait until the subnet manager has brought the ports up, as on a machine that boots on a running fabric.
    #[serde(default)]
    pub after_ports: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UpStep {
    #[serde(default = "default_within", deserialize_with = "range::within_ms")]
    pub within_ms: u64,
    /// Once a host is up, the others that it can reach are so long after, whoever has made the broadcast group.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "range::after_first_ms")]
    pub after_first_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct IdleStep {
    #[serde(deserialize_with = "range::idle_for_ms")]
    pub for_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PingStep {
    pub from: Spanned<String>,
    pub to: Spanned<std::net::IpAddr>,
    #[serde(deserialize_with = "range::ping_count")]
    pub count: u32,
    /// Payload sizes in bytes; spread evenly from `min` to the largest that fits the MTU when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "range::sizes")]
    pub sizes: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TcpStep {
    pub from: Spanned<String>,
    pub to: Spanned<std::net::IpAddr>,
    /// For example `64MiB`.
    pub bytes: Spanned<ByteSize>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MulticastStep {
    pub from: Spanned<String>,
    pub to: Spanned<String>,
    pub group: Spanned<std::net::IpAddr>,
    #[serde(deserialize_with = "range::group_count")]
    pub count: u32,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TurnsStep {
    pub group: Spanned<std::net::IpAddr>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FlapStep {
    pub host: Spanned<String>,
    #[serde(deserialize_with = "range::down_ms")]
    pub down_ms: u64,
    /// The queue pairs of another host, which it can reach, break while the cable is out; it is found all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaks: Option<Spanned<String>>,
    /// The link must be up again so long after the port is.
    #[serde(default = "default_within", deserialize_with = "range::within_ms")]
    pub within_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EavesdropStep {
    pub by: Spanned<String>,
    pub from: Spanned<String>,
    pub to: Spanned<String>,
    pub group: Spanned<std::net::IpAddr>,
    #[serde(deserialize_with = "range::group_count")]
    pub count: u32,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SmRestartStep {
    /// How long nobody answers.
    #[serde(deserialize_with = "range::sm_away_ms")]
    pub away_ms: u64,
    /// The queue pairs of this host break meanwhile: unicast and the groups it is in need no manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaks: Option<Spanned<String>>,
    /// Every host must be a member of its broadcast group again so long after.
    #[serde(default = "default_within", deserialize_with = "range::within_ms")]
    pub within_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PkeyMovesStep {
    pub host: Spanned<String>,
    #[serde(deserialize_with = "range::pkey_away_ms")]
    pub away_ms: u64,
    /// The link must be up again so long after.
    #[serde(default = "default_within", deserialize_with = "range::within_ms")]
    pub within_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HcaRemovalStep {
    pub host: Spanned<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MembershipChangesStep {
    pub host: Spanned<String>,
    pub to: Membership,
    /// The link must be up or down so long after.
    #[serde(default = "default_within", deserialize_with = "range::within_ms")]
    pub within_ms: u64,
}

impl MembershipChangesStep {
    /// What happens to the port.
    pub fn change(&self) -> trouble::MembershipTo {
        trouble::MembershipTo { host: self.host.clone(), to: self.to }
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GroupChangesStep {
    #[serde(deserialize_with = "range::pkey")]
    pub pkey: Spanned<u16>,
    /// MTU in bytes; as it was if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Spanned<u32>>,
    /// Rate by its code; as it was if not said.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "range::rate")]
    pub rate: Option<Spanned<u8>>,
    /// Links must be as they should so long after.
    #[serde(default = "default_within", deserialize_with = "range::within_ms")]
    pub within_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UnderTrafficStep {
    /// The host whose port flaps and whose modules are unloaded; the others go on sending to it.
    pub host: Spanned<String>,
    /// Everything begins within this time.
    #[serde(deserialize_with = "range::within_ms")]
    pub within_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LinuxPingStep {
    pub from: Spanned<String>,
    pub to: Spanned<std::net::IpAddr>,
    #[serde(deserialize_with = "range::ping_count")]
    pub count: u32,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LinuxFetchStep {
    /// Where curl runs.
    pub from: Spanned<String>,
    /// Address of the host with the web server.
    pub to: Spanned<std::net::IpAddr>,
    /// Size of the file, for example `100MB`.
    pub bytes: Spanned<ByteSize>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FaultPointsStep {
    pub host: Spanned<String>,
    /// What the host does meanwhile.
    pub phase: Phase,
    /// Points of one kind that are tried at most.
    #[serde(default = "default_points", deserialize_with = "range::at_most")]
    pub at_most: u64,
}

/// A part of a driver's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The modules are loaded, the instance is attached and the partition made.
    Attach,
    /// IP opens the link.
    Start,
    /// Echoes and datagrams to a group, both ways.
    Traffic,
    /// The cable is pulled and plugged in again.
    Flap,
    /// A new subnet manager takes over.
    SmRestart,
    /// IP closes the link.
    Stop,
    /// The instance is detached and the modules unloaded.
    Detach,
}

impl Scenario {
    /// What is said nowhere follows what is: no group has a larger MTU than the fabric.
    fn fit_defaults(&mut self) {
        let most = *self.fabric.mtu.get_ref();
        for partition in &mut self.partition {
            let mtu = &mut partition.get_mut().mtu;
            if mtu.span().is_empty() && *mtu.get_ref() > most {
                *mtu.get_mut() = most;
            }
        }
    }

    /// The text of a file that reads as this scenario.
    ///
    /// # Errors
    ///
    /// What TOML cannot say: a number of 2^63 and above.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// Do Linux's programs take part?
    pub fn uses_linux(&self) -> bool {
        self.host.iter().any(|host| host.get_ref().tun)
    }
}

/// Where a module object comes from: `HOST/NAME=PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleOverride {
    pub host: String,
    pub name: String,
    pub path: PathBuf,
}

impl std::str::FromStr for ModuleOverride {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').and_then(|(left, path)| Some((left.split_once('/')?, path)));
        match parts {
            Some(((host, name), path)) if !host.is_empty() && !name.is_empty() && !path.is_empty() => {
                Ok(Self { host: host.into(), name: name.into(), path: path.into() })
            }
            _ => Err(format!("`{text}`: expected HOST/NAME=PATH")),
        }
    }
}

impl Default for FabricSpec {
    fn default() -> Self {
        Self {
            mtu: default_mtu(),
            multicast_loopback: true,
            sa_delay_ms: 1,
            lmc: 0,
            keeps_srqs: false,
            hca: HcaKind::Model,
            router: None,
        }
    }
}

fn default_seed() -> u64 {
    1
}

fn default_pkey() -> Spanned<u16> {
    Spanned::new(0..0, 0xffff)
}

fn default_mtu() -> Spanned<u32> {
    Spanned::new(0..0, 2048)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(lmc: &u8) -> bool {
    *lmc == 0
}

fn default_points() -> u64 {
    200
}

fn default_within() -> u64 {
    10_000
}

fn yes() -> bool {
    true
}
