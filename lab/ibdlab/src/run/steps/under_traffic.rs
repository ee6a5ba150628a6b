//! A flap and an unload in the middle of echoes of every size, to each address of each host, at instants that the seed chooses.

use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use fakekernel::{Machine, Nanos};
use rand::RngExt;

use crate::host::AppId;
use crate::report::Findings;
use crate::run::world::World;
use crate::scenario::UnderTrafficStep;

/// Longest time a flapping port is down.
const DOWN: Nanos = Nanos::from_millis(200);
/// How long the other hosts go on after the unload.
const AFTERMATH: Nanos = Nanos::from_millis(50);
const SIZES: [usize; 4] = [0, 64, 700, 1900];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    PortDown,
    PortUp,
    Unload,
}

/// See the module's documentation.
pub fn unload_under_traffic(world: &mut World, step: &UnderTrafficStep) -> Result<Findings> {
    let traffic = start_traffic(world)?;
    let begun = world.machine.now();
    let plan = plan(&world.machine, Nanos::from_millis(step.within_ms));
    let mut told = Vec::new();
    for (at, event) in &plan {
        let due = begun + *at;
        fakekernel::sleep(due.since(world.machine.now()));
        carry_out(world, step.host.get_ref(), *event).with_context(|| format!("{event:?} after {at}"))?;
        told.push(format!("{event:?} after {at}"));
    }
    fakekernel::sleep(AFTERMATH);
    for (host, app) in traffic {
        // Those of the unloaded host ended with its link.
        if let Ok(ip) = world.host(&host)?.ip() {
            ip.stop(app);
        }
    }
    Ok(Findings::new(format!("{}: {}", step.host, told.join(", "))))
}

/// Echoes without a pause from every host to each address of every other one that is of a family of its own; which application of
/// which host.
fn start_traffic(world: &World) -> Result<Vec<(String, AppId)>> {
    let mut started = Vec::new();
    for (from, to) in world.pairs() {
        let addresses = to.addresses.iter().map(|cidr| IpAddr::from(cidr.address()));
        for address in addresses.filter(|address| from.source_for(*address).is_ok()) {
            let ping = world.ping(from, address, u32::MAX, SIZES.to_vec())?;
            started.push((from.name.clone(), from.ip()?.start(Box::new(ping))));
        }
    }
    Ok(started)
}

fn plan(machine: &Machine, within: Nanos) -> Vec<(Nanos, Event)> {
    let mut rng = machine.rng();
    let down = Nanos(rng.random_range(0..=within.0));
    let up = down + Nanos(rng.random_range(0..=DOWN.0));
    let unload = Nanos(rng.random_range(0..=within.0));
    let mut plan = vec![(down, Event::PortDown), (up, Event::PortUp), (unload, Event::Unload)];
    plan.sort();
    plan
}

fn carry_out(world: &mut World, name: &str, event: Event) -> Result<()> {
    match event {
        Event::PortDown | Event::PortUp => {
            let port = world.host(name)?.port;
            ensure!(world.infiniband.set_cable(port, event == Event::PortUp), "no port {port}");
            Ok(())
        }
        Event::Unload => world.host_mut(name)?.unload(),
    }
}
