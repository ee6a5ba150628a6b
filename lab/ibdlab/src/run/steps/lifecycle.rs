//! Steps in the life of drivers and links.

use std::net::IpAddr;

use anyhow::{Context, Result, bail, ensure};
use fabric::{PhysState, PortState};
use fakekernel::Nanos;
use lab_gldv3::LinkState;
use lab_ip::apps::Outcome;
use sm::partition::broadcast_mgid;

use super::group_changes::stays_down;
use super::memberships::{manager, no_memberships, scope};
use crate::report::Findings;
use crate::run::host_run::HostRun;
use crate::run::world::World;
use crate::scenario::{AttachStep, FlapStep, IdleStep, UpStep};

/// How often the wait for links looks again.
const LOOK: Nanos = Nanos::from_millis(1);
/// How long a subnet manager may take to bring the ports up.
const PORT_PATIENCE: Nanos = Nanos::from_secs(10);

/// Loads plugin and driver into every host, attaches, opens the links.
pub fn attach(world: &mut World, step: &AttachStep) -> Result<Findings> {
    if step.after_ports {
        wait_for_ports(world)?;
    }
    let mut links = Vec::new();
    for host in &mut world.hosts {
        host.attach().with_context(|| host.name.clone())?;
        links.push(format!("{}: {}", host.name, host.link()));
    }
    Ok(Findings::new(links.join(", ")))
}

fn wait_for_ports(world: &World) -> Result<()> {
    let deadline = world.machine.now() + PORT_PATIENCE;
    let down = || {
        let ports = world.infiniband.fabric().subnet_ports();
        ports
            .into_iter()
            .find(|port| port.attr.phys == PhysState::LinkUp && port.attr.state != PortState::Active)
    };
    while let Some(port) = down() {
        ensure!(
            world.machine.now() < deadline,
            "port {} is {:?} after {PORT_PATIENCE}: no subnet manager",
            port.attr.guid,
            port.attr.state
        );
        fakekernel::sleep(Nanos::from_millis(10));
    }
    Ok(())
}

/// Every link is up within the time, its broadcast group joined at the subnet administrator.
pub fn up(world: &mut World, step: &UpStep) -> Result<Findings> {
    let deadline = world.machine.now() + Nanos::from_millis(step.within_ms);
    if let Some(millis) = step.after_first_ms {
        for link in world.links() {
            up_together(world, &link, deadline, Nanos::from_millis(millis))?;
        }
    }
    let mut lines = Vec::new();
    for host in &world.hosts {
        let what = match &host.misfit {
            None => is_up(world, host, deadline, step.within_ms)?,
            Some(misfit) => stays_down(world, host, misfit, deadline)?,
        };
        lines.push(format!("{}: {} {what}", host.name, host.link()));
    }
    Ok(Findings::new(lines.join("\n")))
}

fn is_up(world: &World, host: &HostRun, deadline: Nanos, within_ms: u64) -> Result<String> {
    let up = host.ip()?.wait_link(LinkState::Up, deadline);
    ensure!(up, "{}: {} is not up after {within_ms} ms", host.name, host.link());
    host.link_is_up()?;
    let speed = host.statistics()?.ifspeed / 1_000_000_000;
    let manager = manager(world)?;
    let broadcast = || broadcast_mgid(sm::PKey(host.pkey), scope(world, host));
    while !manager.is_member(broadcast(), host.port)? {
        ensure!(
            world.machine.now() < deadline,
            "{}: port {} is no member of {} at the SA",
            host.name,
            host.port,
            broadcast()
        );
        fakekernel::sleep(Nanos::from_millis(1));
    }
    Ok(format!("up, {speed} Gb/s, broadcast group joined"))
}

/// Once one of these hosts is up, the others are so in the time; until the deadline for the first.
fn up_together(world: &World, hosts: &[&HostRun], deadline: Nanos, within: Nanos) -> Result<()> {
    let down = || -> Result<Vec<&&HostRun>> {
        let mut down = Vec::new();
        for host in hosts {
            if host.ip()?.link_state() != LinkState::Up {
                down.push(host);
            }
        }
        Ok(down)
    };
    while down()?.len() == hosts.len() && world.machine.now() < deadline {
        fakekernel::sleep(LOOK);
    }
    let last = deadline.min(world.machine.now() + within);
    while world.machine.now() < last && !down()?.is_empty() {
        fakekernel::sleep(LOOK);
    }
    let names: Vec<&str> = down()?.iter().map(|host| host.name.as_str()).collect();
    ensure!(names.is_empty(), "not up {within} after the first host of their link: {}", names.join(", "));
    Ok(())
}

/// Lets time pass.
pub fn idle(step: &IdleStep) -> Result<Findings> {
    fakekernel::sleep(Nanos::from_millis(step.for_ms));
    Ok(Findings::new(format!("{} ms", step.for_ms)))
}

/// For so long IP believes what it has learnt of a neighbour, and then asks once a second.
const BELIEF: Nanos = Nanos::from_secs(70);

/// A port goes down and up again; the link follows, and what was resolved still works.
pub fn flap(world: &mut World, step: &FlapStep) -> Result<Findings> {
    if step.breaks.is_some() {
        world.let_queue_pairs_be_steady();
    }
    world.let_ibtf_subscribe();
    let host = world.host(step.host.get_ref())?;
    let port = host.port;
    ensure!(world.infiniband.set_cable(port, false), "{}: no port {port}", host.name);
    let deadline = world.machine.now() + Nanos::from_millis(step.down_ms);
    ensure!(
        host.ip()?.wait_link(LinkState::Down, deadline),
        "{}: the link did not go down with its port",
        host.name
    );
    if let Some(other) = &step.breaks {
        world.break_queue_pairs(other.get_ref())?;
    }
    fakekernel::sleep(deadline.since(world.machine.now()));
    ensure!(world.infiniband.set_cable(port, true), "{}: no port {port}", host.name);
    let plugged = world.machine.now();
    let deadline = plugged + Nanos::from_millis(step.within_ms);
    ensure!(
        host.ip()?.wait_link(LinkState::Up, deadline),
        "{}: the link is not up {} ms after its port",
        host.name,
        step.within_ms
    );
    let took = world.machine.now().since(plugged);
    // Who has another queue pair since has said so while this host could not hear it.
    let patience = if step.breaks.is_some() { BELIEF } else { Nanos(0) };
    let deadline = plugged + patience;
    while let Err(error) = reachable(world, step.host.get_ref()) {
        ensure!(world.machine.now() < deadline, "{error:#}");
    }
    let text = format!(
        "{}: down {} ms; up again {took} after the cable, every neighbour reachable",
        host.name, step.down_ms
    );
    Ok(Findings::new(text).fact("recovery_us", took.0 / 1_000))
}

/// One echo at least from the host to every address that it can reach, in both families.
pub fn reachable(world: &World, name: &str) -> Result<()> {
    reachable_of(world, name, |_| true)
}

/// The same, of those addresses that are `wanted`.
pub fn reachable_of(world: &World, name: &str, wanted: impl Fn(&IpAddr) -> bool) -> Result<()> {
    let from = world.host(name)?;
    let addresses = world.peers(from).flat_map(|to| &to.addresses).map(|cidr| cidr.address().into());
    for address in addresses.filter(|address| wanted(address) && from.source_for(*address).is_ok()) {
        let id = from.ip()?.start(Box::new(world.ping(from, address, 3, vec![100])?));
        let deadline = world.machine.now() + Nanos::from_secs(30);
        match from.ip()?.finish(id, deadline) {
            Some(Outcome::Ping { answered: 1.., .. }) => {}
            other => bail!("{address} does not answer {name}: {other:?}"),
        }
    }
    Ok(())
}

/// Closes links, detaches, unloads; then nothing may be left in the kernels, at the SA or in the adapters.
pub fn unload(world: &mut World) -> Result<Findings> {
    world.end_recording()?;
    for host in &mut world.hosts {
        host.unload().with_context(|| host.name.clone())?;
    }
    for host in &world.hosts {
        host.check_nothing_is_left()?;
    }
    no_memberships(world)?;
    if let Some(software) = &world.software {
        software.unload()?;
        software.check_nothing_is_left()?;
    }
    Ok(Findings::new("modules unloaded; nothing left in the kernels or at the SA"))
}
