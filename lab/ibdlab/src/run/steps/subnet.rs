//! What happens to a subnet around running links: its manager, its partitions, an adapter.

use anyhow::{Context, Result, anyhow, ensure};
use fabric::{Guid, PKey};
use fakekernel::Nanos;
use lab_gldv3::LinkState;
use lab_world::Software;
use swhca_ioctl::command;

use sm::Partition;
use sm::partition::{Membership, Ports};

use super::lifecycle::reachable;
use crate::report::Findings;
use crate::run::world::World;
use crate::scenario::{HcaRemovalStep, PkeyMovesStep};

/// The partition that nobody has a use for, whose P_Key fills the table in front of the one that moved.
const FILLER: &str = "filler";

pub fn all_reachable(world: &World) -> Result<()> {
    world.present().try_for_each(|host| reachable(world, &host.name))
}

/// See [`crate::scenario::Step::PkeyMoves`].
pub fn pkey_moves(world: &mut World, step: &PkeyMovesStep) -> Result<Findings> {
    let name = step.host.get_ref();
    if let Some(software) = world.software.clone() {
        return pkey_moves_on(world, &software, step);
    }
    ensure!(world.infiniband.sm().is_some(), "the embedded subnet manager alone is told where a P_Key goes");
    world.let_ibtf_subscribe();
    let (port, pkey) = {
        let host = world.host(name)?;
        (host.port, PKey(host.pkey))
    };
    let filler = filler(world)?;
    set_pkeys(world, port, &[filler])?;
    let back = world.machine.now() + Nanos::from_millis(step.away_ms);
    let down = world.host(name)?.ip()?.wait_link(LinkState::Down, back);
    ensure!(down, "{name}: the link is still up without its P_Key");
    fakekernel::sleep(back.since(world.machine.now()));
    set_pkeys(world, port, &[filler, PKey(0), pkey])?;
    give_index_0_to(world, filler, port);
    let since = world.machine.now();
    let up = world.host(name)?.ip()?.wait_link(LinkState::Up, since + Nanos::from_millis(step.within_ms));
    ensure!(up, "{name}: the link is not up {} ms after its P_Key came back", step.within_ms);
    let took = world.machine.now().since(since);
    all_reachable(world)?;
    let text = format!(
        "{name}: down without its P_Key, up {took} after it came back at index 2, every neighbour reachable"
    );
    Ok(Findings::new(text).fact("recovery_us", took.0 / 1_000))
}

/// The same on the software adapter, where the default partition's P_Key stays: management is without a way to the manager otherwise.
fn pkey_moves_on(world: &World, software: &Software, step: &PkeyMovesStep) -> Result<Findings> {
    const TO: usize = 3;
    world.let_ibtf_subscribe();
    let host = world.host(step.host.get_ref())?;
    let (name, pkey) = (&host.name, host.pkey);
    let port = software.number_of(host.port).context("a port of the adapter")?;
    let set = |index: usize, pkey: u16| {
        let argument = [port.into(), index as u64, pkey.into(), 0];
        software.ioctl(command::SET_PKEY, argument).context("an entry of the P_Key table")
    };
    let from = software.pkeys().iter().position(|entry| (entry ^ pkey) & 0x7fff == 0);
    set(from.context("the P_Key is in the table")?, 0)?;
    let back = world.machine.now() + Nanos::from_millis(step.away_ms);
    ensure!(host.ip()?.wait_link(LinkState::Down, back), "{name}: the link is still up without its P_Key");
    fakekernel::sleep(back.since(world.machine.now()));
    set(TO, pkey)?;
    let since = world.machine.now();
    let up = host.ip()?.wait_link(LinkState::Up, since + Nanos::from_millis(step.within_ms));
    ensure!(up, "{name}: the link is not up {} ms after its P_Key came back", step.within_ms);
    let took = world.machine.now().since(since);
    all_reachable(world)?;
    let text = format!(
        "{name}: down without its P_Key, up {took} after it came back at index {TO}, every neighbour reachable"
    );
    Ok(Findings::new(text).fact("recovery_us", took.0 / 1_000))
}

/// The P_Key of the filler partition: one of no partition of the scenario.
fn filler(world: &World) -> Result<PKey> {
    let partitions =
        world.infiniband.sm().map(|manager| manager.inspect(|sm| sm.config().partitions.clone()));
    let partitions = partitions.unwrap_or_default();
    if let Some(known) = partitions.iter().find(|partition| partition.name == FILLER) {
        return Ok(PKey(known.p_key.0));
    }
    let is_used = |key: u16| partitions.iter().any(|partition| partition.p_key.0 & 0x7fff == key);
    let free = (1..0x7fff).rev().find(|key| !is_used(*key)).context("every P_Key is in use")?;
    Ok(PKey(free))
}

/// The subnet manager is configured so that its next sweep leaves the table as it is: keys keep their places, but index 0 is the
/// default partition's unless another one claims it.
fn give_index_0_to(world: &World, filler: PKey, port: Guid) {
    let Some(manager) = world.infiniband.sm() else { return };
    let mut partitions = manager.inspect(|sm| sm.config().partitions.clone());
    let filler = partitions.iter().position(|partition| partition.name == FILLER).unwrap_or_else(|| {
        partitions.push(Partition { index0: true, ..Partition::new(FILLER, sm::PKey(filler.0)) });
        partitions.len() - 1
    });
    partitions[filler].members.push((Ports::One(sm::Guid(port.0)), Membership::Limited));
    manager.set_partitions(partitions);
}

fn set_pkeys(world: &World, port: Guid, pkeys: &[PKey]) -> Result<()> {
    world
        .infiniband
        .fabric()
        .set_pkeys(port, pkeys)
        .map_err(|error| anyhow!("the port's P_Key table: {error}"))
}

/// See [`crate::scenario::Step::HcaRemoval`].
pub fn hca_removal(world: &mut World, step: &HcaRemovalStep) -> Result<Findings> {
    let name = step.host.get_ref();
    let infiniband = world.infiniband.clone();
    world.host_mut(name)?.pull_adapter(&infiniband).with_context(|| name.clone())?;
    let deadline = world.machine.now() + Nanos::from_secs(1);
    let down = world.host(name)?.ip()?.wait_link(LinkState::Down, deadline);
    ensure!(down, "{name}: the link does not say that its adapter is gone");
    Ok(Findings::new(format!("{name}: adapter pulled, everything freed in time, link down")))
}
