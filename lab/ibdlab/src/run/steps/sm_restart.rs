//! The subnet manager dies under traffic and another one comes.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use fakekernel::Nanos;

use super::memberships::{first_missing, manager};
use crate::host::AppId;
use crate::ip::apps::{GroupHear, GroupSay, Outcome, Ping};
use crate::report::Findings;
use crate::run::host_run::HostRun;
use crate::run::world::World;
use crate::scenario::SmRestartStep;

/// How often the wait for a state looks again.
const POLL: Nanos = Nanos::from_millis(10);
/// More than the echoes of one round take, lost ones included.
const ECHOES: Nanos = Nanos::from_secs(60);
/// In one round, from each host to each other one.
const ROUND: u32 = 10;
/// A group that is joined before the manager dies and heard after another one came.
const GROUP: (IpAddr, u16) = (IpAddr::V4(Ipv4Addr::new(239, 76, 0, 1)), 7001);
const DATAGRAMS: u32 = 20;
const INTERVAL: Duration = Duration::from_millis(10);

/// See [`crate::scenario::Step::SmRestart`].
pub fn sm_restart(world: &mut World, step: &SmRestartStep) -> Result<Findings> {
    let manager = manager(world)?;
    let listeners = listen(world)?;
    wait_for_memberships(world, Nanos::from_millis(step.within_ms))?;
    let mut echoes = 0;
    manager.stop();
    let back = world.machine.now() + Nanos::from_millis(step.away_ms);
    while world.machine.now() < back {
        echoes += echo_everywhere(world)?;
        fakekernel::sleep(Nanos::from_millis(100));
    }
    manager.restart()?;
    let since = world.machine.now();
    let within = Nanos::from_millis(step.within_ms);
    while let Some(absent) = first_missing(world)? {
        ensure!(
            world.machine.now().since(since) < within,
            "{} ms after the new manager came: {absent}",
            step.within_ms
        );
        echoes += echo_everywhere(world)?;
        fakekernel::sleep(POLL);
    }
    let rejoined = world.machine.now().since(since);
    hear(world, listeners, since + within)?;
    let heard = world.machine.now().since(since);
    echoes += echo_everywhere(world)?;
    let text = format!(
        "{}: {echoes} of {echoes} echoes answered while it was away and came back; all groups joined again {rejoined} \
         after, {DATAGRAMS} datagrams to {} heard by every listener of before {heard} after",
        manager.name(),
        GROUP.0
    );
    Ok(Findings::new(text)
        .fact("echoes", echoes)
        .fact("rejoined_us", rejoined.0 / 1_000)
        .fact("heard_us", heard.0 / 1_000))
}

fn now(world: &World) -> Duration {
    Duration::from_nanos(world.machine.now().0)
}

/// Every host but the first joins the group; it stays in it until it has heard enough.
fn listen(world: &World) -> Result<Vec<(usize, AppId)>> {
    const LONG: Duration = Duration::from_secs(100_000);
    let join = |(n, host): (usize, &HostRun)| {
        let listener = GroupHear::new(GROUP, DATAGRAMS, now(world) + LONG);
        Ok((n, host.ip()?.start(Box::new(listener))))
    };
    world.hosts.iter().enumerate().skip(1).map(join).collect()
}

fn wait_for_memberships(world: &World, within: Nanos) -> Result<()> {
    let deadline = world.machine.now() + within;
    while let Some(absent) = first_missing(world)? {
        ensure!(world.machine.now() < deadline, "before the manager died: {absent}");
        fakekernel::sleep(POLL);
    }
    Ok(())
}

/// Each host sends to each other one; every echo has to come back. How many did.
fn echo_everywhere(world: &World) -> Result<u32> {
    let mut asked: Vec<(&HostRun, IpAddr, AppId)> = Vec::new();
    for from in &world.hosts {
        for to in world.hosts.iter().filter(|to| to.name != from.name) {
            let address = to.first_address();
            let ping = Ping::new(from.source_for(address)?, address, ROUND, vec![100]);
            asked.push((from, address, from.ip()?.start(Box::new(ping))));
        }
    }
    let deadline = world.machine.now() + ECHOES;
    let mut answered = 0;
    for (from, address, id) in asked {
        match from.ip()?.finish(id, deadline) {
            Some(Outcome::Ping { answered: ROUND, .. }) => answered += ROUND,
            other => bail!("{} to {address} without a manager: {other:?}, expected {ROUND}", from.name),
        }
    }
    Ok(answered)
}

/// The first host says until everybody has heard enough, or the time is over.
fn hear(world: &World, listeners: Vec<(usize, AppId)>, deadline: Nanos) -> Result<()> {
    let Some(speaker) = world.hosts.first() else { return Ok(()) };
    let left = deadline.since(world.machine.now()).max(Nanos::from_secs(1));
    let count = u32::try_from(left.0 / 1_000_000 / INTERVAL.as_millis() as u64).unwrap_or(u32::MAX);
    let saying = speaker.ip()?.start(Box::new(GroupSay::new(GROUP, count, INTERVAL, now(world))));
    for (n, id) in listeners {
        let host = &world.hosts[n];
        match host.ip()?.finish(id, deadline) {
            Some(Outcome::Heard(heard)) if heard.len() >= DATAGRAMS as usize => {}
            other => bail!("{} does not hear {} again: {other:?}", host.name, GROUP.0),
        }
    }
    speaker.ip()?.stop(saying);
    Ok(())
}
