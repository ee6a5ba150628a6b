//! A router between subnets goes and comes back.

use anyhow::{Context, Result, anyhow};
use fabric::PortState;
use fakekernel::Nanos;

use super::lifecycle::{reachable, reachable_of};
use crate::report::Findings;
use crate::run::world::World;
use crate::scenario::RouterAwayStep;
use crate::setup::ROUTER;

/// How often the router's ports are looked at.
const LOOK: Nanos = Nanos::from_millis(10);
/// Managers bring a port up within this time of its cable.
const BROUGHT_UP: Nanos = Nanos::from_secs(10);
/// IP believes what it has learnt of a neighbour for so long, and then asks again.
const PATIENCE: Nanos = Nanos::from_secs(70);

/// See [`crate::scenario::Step::RouterAway`].
pub fn router_away(world: &mut World, step: &RouterAwayStep) -> Result<Findings> {
    world.let_ibtf_subscribe();
    set_cables(world, false)?;
    let back = world.machine.now() + Nanos::from_millis(step.away_ms);
    for host in world.present() {
        let own = |address: &std::net::IpAddr| is_in_its_subnet(world, host.subnet, *address);
        reachable_of(world, &host.name, own).context("the router is away")?;
    }
    fakekernel::sleep(back.since(world.machine.now()));
    set_cables(world, true)?;
    let plugged = world.machine.now();
    while !is_up(world) {
        if world.machine.now() > plugged + BROUGHT_UP {
            return Err(anyhow!("the router's ports are not up {BROUGHT_UP} after its cables"));
        }
        fakekernel::sleep(LOOK);
    }
    for host in world.present() {
        while let Err(error) = reachable(world, &host.name) {
            if world.machine.now() > plugged + PATIENCE {
                return Err(error.context("the router is back"));
            }
        }
    }
    let took = world.machine.now().since(plugged);
    let text = format!("away {} ms; every neighbour reached {took} after it came back", step.away_ms);
    Ok(Findings::new(text).fact("recovery_us", took.0 / 1_000))
}

fn ports(world: &World) -> impl Iterator<Item = fabric::subnet::PortView> {
    world.infiniband.fabric().subnet_ports().into_iter().filter(|port| port.node == ROUTER)
}

fn set_cables(world: &World, plugged: bool) -> Result<()> {
    let router: Vec<_> = ports(world).map(|port| port.attr.guid).collect();
    let done = !router.is_empty() && router.iter().all(|port| world.infiniband.set_cable(*port, plugged));
    if done { Ok(()) } else { Err(anyhow!("the router has no cable")) }
}

fn is_up(world: &World) -> bool {
    ports(world).all(|port| port.attr.state == PortState::Active)
}

fn is_in_its_subnet(world: &World, subnet: u8, address: std::net::IpAddr) -> bool {
    let mut near = world.hosts.iter().filter(|host| host.subnet == subnet);
    near.any(|host| host.addresses.iter().any(|cidr| std::net::IpAddr::from(cidr.address()) == address))
}
