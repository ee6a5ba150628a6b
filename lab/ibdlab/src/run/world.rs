//! The machine of a scenario: a fabric, its subnet manager, and the hosts.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use fakekernel::{Machine, Nanos};
use lab_ibtf::InfiniBand;
use lab_ip::apps::Ping;
use lab_world::{Host, Software};
use sm::Fault;
use smoltcp::wire::IpVersion as Version;
use swhca_ioctl::command;

use super::group_headers::GroupRecords;
use super::host_run::HostRun;
use super::recording::Recording;
use super::steps;
use crate::objects::Objects;
use crate::report::{Findings, SmKind, StepReport};
use crate::scenario::{Scenario, Step};
use crate::setup;
use crate::swhca;

/// What [`World::head_start`] is when the SA answers at once.
const HEAD_START: Duration = Duration::from_secs(1);
/// What [`World::shortest_head_start`] is then: less than a driver waits before it repeats what was refused.
const SHORTEST_HEAD_START: Duration = Duration::from_millis(100);
/// A leave that is still out, the join, and a sender's join; as many again for others that the SA has in hand.
const GROUP_ROUND_TRIPS: u32 = 6;
/// A join to send a question to a group, a path for each direction, and what IBTF may have to do before: the class port information
/// and four subscriptions, one after the other, up to twice.
const ECHO_ROUND_TRIPS: u32 = 13;
/// In real time: other programs have this machine's processors, too.
const BUSY_MACHINE: Duration = Duration::from_secs(30);
/// What a subnet manager has not answered IBTF asks again before that: after 4.8 s in the lab.
const IBTF_ASKS_AGAIN: Nanos = Nanos::from_secs(10);
/// Until IBTF has begun to ask about what has just happened, and how often is looked whether it is done.
const IBTF_BEGINS: Nanos = Nanos::from_millis(10);
const IBTF_LOOK: Nanos = Nanos::from_millis(1);
/// Requests of a session to an administrator that is silent: four minutes, and more than one.
const IBTF_PATIENCE: Nanos = Nanos::from_secs(1_200);
/// A driver may give up a queue pair that fails again so soon, and its number with it.
const STEADY: Nanos = Nanos::from_secs(11);
/// UDP ports of talks to groups count up from here.
const FIRST_GROUP_PORT: u16 = 20_000;

/// See the module's documentation.
pub struct World {
    pub machine: Machine,
    pub infiniband: InfiniBand,
    pub hosts: Vec<HostRun>,
    /// The adapter that all of them have a port of, if that is a module.
    pub software: Option<Arc<Software>>,
    /// What goes over the fabric, if somebody wants to know.
    pub recording: Option<Recording>,
    /// What the SA does wrong as a matter of course.
    pub sa_habit: Option<Fault>,
    /// The scenario, with the partitions as they are now.
    pub plan: Scenario,
    /// What the packets that go to groups are held against, on the lab's own fabric.
    group_records: Option<GroupRecords>,
    /// How long it takes to answer.
    pub(super) sa_delay: Duration,
    /// The UDP port of the next talk to a group.
    next_port: Cell<u16>,
    /// Until when somebody may wait for the answer to what a subnet manager was asked that is gone.
    questions_lost_until: Cell<Nanos>,
}

fn runs(scenario: &Scenario, hosts: Vec<Arc<Host>>, seed: u64) -> Vec<HostRun> {
    let specs = scenario.host.iter().map(|spec| spec.get_ref());
    let hosts = (0..).zip(specs.zip(hosts));
    let run = |(n, (spec, host))| HostRun::new(scenario, spec, n, host, seed);
    hosts.map(run).collect()
}

impl World {
    /// Everything but the modules, which [`Step::Attach`] loads. On a thread of the machine.
    pub fn build(
        machine: &Machine,
        scenario: &Scenario,
        objects: &Objects,
        seed: u64,
        capture: Option<PathBuf>,
        sm: SmKind,
    ) -> Result<Self> {
        let lab_world::World { infiniband, hosts, .. } = setup::hosts(machine, scenario, objects, seed)?;
        let hosts = runs(scenario, hosts, seed);
        let recording = Recording::begin(&infiniband, scenario, capture)?;
        let sa_habit = setup::start_sm(&infiniband, scenario, sm)?;
        let group_records = Some(GroupRecords::watch(infiniband.fabric(), scenario));
        Ok(Self {
            machine: machine.clone(),
            infiniband,
            hosts,
            software: None,
            recording,
            sa_habit,
            plan: scenario.clone(),
            group_records,
            sa_delay: Duration::from_millis(scenario.fabric.sa_delay_ms),
            next_port: Cell::new(FIRST_GROUP_PORT),
            questions_lost_until: Cell::new(Nanos(0)),
        })
    }

    /// The same on the ports of the software adapter, whose object is `adapter`.
    pub fn on_software(
        machine: &Machine,
        scenario: &Scenario,
        objects: &Objects,
        adapter: &Path,
        seed: u64,
    ) -> Result<Self> {
        let world = swhca::hosts(machine, scenario, objects, adapter, seed)?;
        let lab_world::World { infiniband, hosts, software, .. } = world;
        let sa_delay = Duration::from_millis(scenario.fabric.sa_delay_ms);
        if let Some(software) = &software {
            let late = sa_delay.as_millis() as u64;
            for port in 1..=scenario.host.len() as u64 {
                software.ioctl(command::DELAY_SA, [port, late, 0, 0]).context("a slow SA")?;
            }
        }
        Ok(Self {
            machine: machine.clone(),
            infiniband,
            hosts: runs(scenario, hosts, seed),
            software,
            recording: None,
            sa_habit: None,
            plan: scenario.clone(),
            group_records: None,
            sa_delay,
            next_port: Cell::new(FIRST_GROUP_PORT),
            questions_lost_until: Cell::new(Nanos(0)),
        })
    }

    /// The host of this name. Scenarios are checked when read, so it is there.
    pub fn host(&self, name: &str) -> Result<&HostRun> {
        self.hosts.iter().find(|host| host.name == name).ok_or_else(|| anyhow!("there is no host `{name}`"))
    }

    /// As [`World::host`].
    pub fn host_mut(&mut self, name: &str) -> Result<&mut HostRun> {
        self.hosts
            .iter_mut()
            .find(|host| host.name == name)
            .ok_or_else(|| anyhow!("there is no host `{name}`"))
    }

    /// Echoes between two hosts. Before the first answer both may have to look up a path, after they sent to a group.
    pub fn ping(&self, from: &HostRun, to: IpAddr, count: u32, sizes: Vec<usize>) -> Result<Ping> {
        let ping = Ping::new(from.source_for(to)?, to, count, sizes);
        let others = if self.machine.is_live() { BUSY_MACHINE } else { Duration::ZERO };
        Ok(ping.with_patience_for(self.sa_delay * ECHO_ROUND_TRIPS + others))
    }

    /// IBTF subscribes anew after each change of the subnet, one port of an adapter after the other, and tells nothing meanwhile: of a
    /// port that goes down just then once all these requests have timed out, after minutes.
    pub fn let_ibtf_subscribe(&self) {
        fakekernel::sleep(IBTF_BEGINS);
        let deadline = self.machine.now() + IBTF_PATIENCE;
        while self.infiniband.is_telling() && self.machine.now() < deadline {
            fakekernel::sleep(IBTF_LOOK);
        }
    }

    /// Another subnet manager has come: what the one before had not answered is asked again only when IBTF has waited for it.
    pub fn questions_are_lost(&self) {
        self.questions_lost_until.set(self.machine.now() + IBTF_ASKS_AGAIN);
    }

    /// Waits until all is asked and answered that was lost with a subnet manager: a group is not joined before.
    pub fn let_lost_questions_end(&self) {
        let until = self.questions_lost_until.get();
        let now = self.machine.now();
        if now < until {
            fakekernel::sleep(until.since(now));
        }
    }

    /// From a join until the first datagram to the group: for the SA's answers and the switch's routes.
    pub fn head_start(&self) -> Duration {
        HEAD_START + self.sa_delay * GROUP_ROUND_TRIPS
    }

    /// The same where nothing else is under way: a leave that is still out, and the join. After a join that nobody confirmed a leave is four questions:
    /// the leave, whether the group is there, a join, and the leave of that.
    pub fn shortest_head_start(&self) -> Duration {
        SHORTEST_HEAD_START + self.sa_delay * (4 + 1)
    }

    /// A UDP port that nobody listens to yet: what one talk to a group has left in a sender's queue is not heard in the next.
    pub fn group_port(&self) -> u16 {
        let port = self.next_port.get();
        self.next_port.set(port.checked_add(1).unwrap_or(FIRST_GROUP_PORT));
        port
    }

    /// A group of the lab's own that all hosts of the link can be in: of IPv4 if all have such an address, else of IPv6, which is checked
    /// when a scenario is read. Another one for each `number`.
    pub fn group_of(&self, host: &HostRun, number: u8) -> IpAddr {
        let mut link = self.hosts.iter().filter(|other| other.partition() == host.partition());
        if link.all(|other| other.addresses.iter().any(|cidr| cidr.address().version() == Version::Ipv4)) {
            IpAddr::V4(Ipv4Addr::new(239, 76, 0, number))
        } else {
            IpAddr::V6(Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0x4c, number.into()))
        }
    }

    /// The hosts whose adapter is in its place, and whose port can be in its broadcast group.
    pub fn present(&self) -> impl Iterator<Item = &HostRun> {
        self.hosts.iter().filter(|host| host.is_present())
    }

    /// Which ports can be in their groups, with the partitions as they are now.
    pub fn note_who_stays_down(&mut self) {
        for (host, spec) in self.hosts.iter_mut().zip(&self.plan.host) {
            host.misfit = self.plan.misfit(spec.get_ref());
        }
    }

    /// The hosts that can reach each other, link by link: those of one partition, and of one subnet unless a router joins them, that are present.
    pub fn links(&self) -> Vec<Vec<&HostRun>> {
        let mut links: BTreeMap<(u16, u8), Vec<&HostRun>> = BTreeMap::new();
        for host in self.present() {
            links.entry(host.reach).or_default().push(host);
        }
        links.into_values().collect()
    }

    /// The hosts that `host` can reach; none if it is not present itself.
    pub fn peers(&self, host: &HostRun) -> impl Iterator<Item = &HostRun> {
        let (name, reach, present) = (host.name.clone(), host.reach, host.is_present());
        let others = self.present().filter(move |other| other.name != name && present);
        others.filter(move |other| other.reach == reach)
    }

    /// Each host with each that it can reach.
    pub fn pairs(&self) -> impl Iterator<Item = (&HostRun, &HostRun)> {
        self.hosts.iter().flat_map(|from| self.peers(from).map(move |to| (from, to)))
    }

    /// The same with an address to reach the other at, where they have a family of addresses in common.
    pub fn ways(&self) -> impl Iterator<Item = (&HostRun, &HostRun, IpAddr)> {
        self.pairs().filter_map(|(from, to)| Some((from, to, to.address_for(from)?)))
    }

    /// What breaks after this has been well for a while, and a driver has no reason to give it up.
    pub fn let_queue_pairs_be_steady(&self) {
        fakekernel::sleep(STEADY);
    }

    /// Every queue pair of a host goes to the error state, as failing hardware has it.
    pub fn break_queue_pairs(&self, name: &str) -> Result<()> {
        let host = self.host(name)?;
        if let Some(port) = self.software.as_ref().and_then(|software| software.number_of(host.port)) {
            let software = self.software.as_ref().context("it has a port")?;
            software.ioctl(command::FAIL_QPS, [port.into(), 0, 0, 0]).context("failing queue pairs")?;
            return Ok(());
        }
        if let Some(hca) = self.infiniband.fabric().hca(host.adapter()) {
            for qpn in hca.qpns() {
                hca.break_qpn(qpn);
            }
        }
        Ok(())
    }

    /// Carries out one step.
    pub fn step(&mut self, step: &Step) -> StepReport {
        let at = self.machine.now();
        let result = match step {
            Step::Attach(attach) => steps::attach(self, attach),
            Step::Up(up) => steps::up(self, up),
            Step::Resolve(_) => steps::resolve(self),
            Step::Ping(ping) => steps::ping(self, ping),
            Step::Tcp(tcp) => steps::tcp(self, tcp),
            Step::Multicast(multicast) => steps::multicast(self, multicast),
            Step::Turns(turns) => steps::turns(self, turns),
            Step::Flap(flap) => steps::flap(self, flap),
            Step::RouterAway(away) => steps::router_away(self, away),
            Step::Idle(idle) => steps::idle(idle),
            Step::Eavesdrop(step) => steps::eavesdrop(self, step),
            Step::SmRestart(step) => steps::sm_restart(self, step),
            Step::PkeyMoves(step) => steps::pkey_moves(self, step),
            Step::HcaRemoval(step) => steps::hca_removal(self, step),
            Step::GroupChanges(step) => steps::group_changes(self, step),
            Step::MembershipChanges(step) => steps::membership_changes(self, step),
            Step::UnloadUnderTraffic(step) => steps::unload_under_traffic(self, step),
            Step::FaultPoints(step) => steps::fault_points(self, step),
            Step::Link(link) => steps::faulty_link(self, link),
            Step::Trouble(step) => steps::trouble(self, step),
            Step::LinuxPing(ping) => steps::linux_ping(self, ping),
            Step::LinuxFetch(fetch) => steps::linux_fetch(self, fetch),
            Step::Memberships(_) => steps::memberships(self),
            Step::Counts(_) => steps::counts(self),
            Step::Unload(_) => steps::unload(self),
        };
        let result = result.and_then(|findings| self.look_at_groups().map(|()| findings));
        let ok = result.is_ok();
        let findings = result.unwrap_or_else(|error| self.examine(Findings::new(format!("{error:#}"))));
        StepReport {
            step: step.name(),
            ok,
            at_us: at.0 / 1_000,
            took_us: self.machine.now().since(at).0 / 1_000,
            text: findings.text,
            facts: findings.facts,
        }
    }

    /// What was sent to groups had the headers that the SA's records say.
    fn look_at_groups(&self) -> Result<()> {
        let misfit = self.group_records.as_ref().and_then(|records| records.first_misfit(&self.infiniband));
        misfit.map_or(Ok(()), |what| Err(anyhow!(what)))
    }

    /// What a person would look at first after a failure.
    fn examine(&self, findings: Findings) -> Findings {
        let findings = match self.infiniband.subnet_manager().map(|manager| manager.health()) {
            Some(Err(error)) => findings.fact("subnet manager", error.to_string()),
            _ => findings,
        };
        self.hosts.iter().fold(findings, |findings, host| findings.fact(host.name.clone(), host.examine()))
    }

    /// Completes the capture, if there is one; frames from now on are not in it.
    pub fn end_recording(&mut self) -> Result<()> {
        self.recording.as_mut().map_or(Ok(()), |recording| recording.end().map(drop))
    }

    /// After the last step.
    pub fn close(mut self) -> Result<()> {
        self.end_recording()
    }
}
