//! The subnet manager dies under traffic and another one comes.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use fakekernel::Nanos;
use lab_ip::apps::{GroupHear, GroupSay, Outcome};

use super::lifecycle::{reachable, reachable_of};
use super::memberships::{first_missing, manager};
use crate::host::{AppId, IpThread};
use crate::report::Findings;
use crate::run::host_run::HostRun;
use crate::run::world::World;
use crate::scenario::SmRestartStep;

/// How often the wait for a state looks again, unless the SA is slow.
const POLL: Nanos = Nanos::from_millis(10);
/// More than the echoes of one round take, lost ones included.
const ECHOES: Nanos = Nanos::from_secs(60);
/// In one round, from each host to each other one.
const ROUND: u32 = 10;
/// More than a round takes when every echo is answered.
const ROUND_TAKES: Duration = Duration::from_secs(2);
/// A group of each link that is joined before the manager dies and heard after another one came: its number, and the port.
const GROUP: (u8, u16) = (1, 7001);
const DATAGRAMS: u32 = 20;
const INTERVAL: Duration = Duration::from_millis(10);
/// What is heard of the group while there is no manager: where, and how many datagrams.
const GO_ON_PORT: u16 = 7005;
const GO_ON: u32 = 5;

/// See [`crate::scenario::Step::SmRestart`].
pub fn sm_restart(world: &mut World, step: &SmRestartStep) -> Result<Findings> {
    if step.breaks.is_some() {
        world.let_queue_pairs_be_steady();
    }
    let manager = manager(world)?;
    let listeners = listen(world)?;
    wait_for_memberships(world, Nanos::from_millis(step.within_ms))?;
    // The manager has the switch pass packets of a group on to a new member a moment after it has taken it in.
    fakekernel::sleep(POLL);
    // Without a manager nobody finds anybody new.
    world.present().try_for_each(|host| reachable(world, &host.name))?;
    let mut echoes = Echoes::default();
    let within = Nanos::from_millis(step.within_ms);
    let speaking = if step.breaks.is_some() { speak(world, within)? } else { Vec::new() };
    manager.stop();
    if let Some(host) = &step.breaks {
        world.break_queue_pairs(host.get_ref())?;
        goes_on_without_a_manager(world).with_context(|| format!("{host}'s queue pairs broke meanwhile"))?;
    }
    speaking.into_iter().for_each(|(ip, saying)| ip.stop(saying));
    let back = world.machine.now() + Nanos::from_millis(step.away_ms);
    while world.machine.now() < back {
        echo(world, everybody(world), &mut echoes)?;
        fakekernel::sleep(Nanos::from_millis(100));
    }
    manager.restart()?;
    world.questions_are_lost();
    let since = world.machine.now();
    while let Some(absent) = first_missing(world)? {
        ensure!(
            world.machine.now().since(since) < within,
            "{} ms after the new manager came: {absent}",
            step.within_ms
        );
        echo(world, acquainted(world)?, &mut echoes)?;
        // Nothing happens between two answers of the SA.
        fakekernel::sleep(POLL.max(Nanos((world.sa_delay / 2).as_nanos() as u64)));
    }
    let rejoined = world.machine.now().since(since);
    hear(world, listeners, since + within)?;
    let heard = world.machine.now().since(since);
    echo(world, everybody(world), &mut echoes)?;
    let Echoes { sent, answered } = echoes;
    let text = format!(
        "{}: {answered} of {sent} echoes answered while it was away and came back; all groups joined again {rejoined} \
         after, {DATAGRAMS} datagrams to a group heard by every listener of before {heard} after",
        manager.name()
    );
    Ok(Findings::new(text)
        .fact("echoes", sent)
        .fact("answered", answered)
        .fact("rejoined_us", rejoined.0 / 1_000)
        .fact("heard_us", heard.0 / 1_000))
}

fn now(world: &World) -> Duration {
    Duration::from_nanos(world.machine.now().0)
}

/// The group of a host's link.
fn group(world: &World, host: &HostRun, port: u16) -> (IpAddr, u16) {
    (world.group_of(host, GROUP.0), port)
}

/// Somebody who listens: the host's name, and the application.
type Listener = (String, AppId);

/// Every host but the first of each link joins the group; it stays in it until it has heard enough.
fn listen(world: &World) -> Result<Vec<Listener>> {
    const LONG: Duration = Duration::from_secs(100_000);
    let join = |host: &HostRun| {
        let listener = GroupHear::new(group(world, host, GROUP.1), DATAGRAMS, now(world) + LONG);
        Ok((host.name.clone(), host.ip()?.start(Box::new(listener))))
    };
    world.links().iter().flat_map(|link| link.iter().skip(1)).map(|host| join(host)).collect()
}

/// The first host of each link says something to the group again and again: it becomes a member, and stays one. Until all others of its
/// link hear it.
fn speak(world: &World, within: Nanos) -> Result<Vec<(&IpThread, AppId)>> {
    let mut speaking = Vec::new();
    for speaker in world.links().iter().filter_map(|link| link.first()) {
        let ip = speaker.ip()?;
        speaking.push((
            ip,
            ip.start(Box::new(GroupSay::new(
                group(world, speaker, GO_ON_PORT),
                u32::MAX,
                INTERVAL,
                now(world),
            ))),
        ));
    }
    fakekernel::sleep(Nanos(world.head_start().as_nanos() as u64));
    everybody_hears(world, within).context("before the manager died")?;
    Ok(speaking)
}

/// Every host answers in both families, and every listener hears the group.
/// A host with another queue pair has forgotten its neighbours, and finds those of IPv4 by the broadcast group. To ask for one of IPv6 it may have
/// to join a group, and nobody grants that.
fn goes_on_without_a_manager(world: &World) -> Result<()> {
    world.present().try_for_each(|host| reachable_of(world, &host.name, IpAddr::is_ipv4))?;
    everybody_hears(world, Nanos::from_millis(INTERVAL.as_millis() as u64 * u64::from(GO_ON) * 10))
        .context("without a manager")
}

/// Every host but the first of each link hears what that one goes on saying.
fn everybody_hears(world: &World, within: Nanos) -> Result<()> {
    let mut ears = Vec::new();
    for host in world.links().iter().flat_map(|link| link.iter().skip(1)) {
        let until = now(world) + Duration::from_nanos(within.0);
        let ear = GroupHear::new(group(world, host, GO_ON_PORT), GO_ON, until);
        ears.push((host.name.clone(), host.ip()?.start(Box::new(ear))));
    }
    for (name, ear) in ears {
        match world.host(&name)?.ip()?.finish(ear, world.machine.now() + within + ECHOES) {
            Some(Outcome::Heard(heard)) if heard.len() >= GO_ON as usize => {}
            other => bail!("{name} does not hear the group: {other:?}"),
        }
    }
    Ok(())
}

fn wait_for_memberships(world: &World, within: Nanos) -> Result<()> {
    let deadline = world.machine.now() + within;
    while let Some(absent) = first_missing(world)? {
        ensure!(world.machine.now() < deadline, "before the manager died: {absent}");
        fakekernel::sleep(POLL);
    }
    Ok(())
}

/// Echo requests sent, and answers to them.
#[derive(Clone, Copy, Debug, Default)]
struct Echoes {
    sent: u32,
    answered: u32,
}

/// Everybody, with the address of each that it can reach.
fn everybody(world: &World) -> Vec<(&HostRun, IpAddr)> {
    world.ways().map(|(from, _, address)| (from, address)).collect()
}

/// Pairs of hosts that know each other, and so need no broadcast to find each other: a new manager's routes lead to nobody who has not joined anew, and IBTF may
/// tell a host that it has to only after a minute.
fn acquainted(world: &World) -> Result<Vec<(&HostRun, IpAddr)>> {
    let (now, at) = (now(world), now(world) + ROUND_TAKES);
    let knows = |from: &HostRun, address: &IpAddr| -> Result<bool> {
        Ok(from.ip()?.with_upper(|upper| upper.link().neighbours().stays_until(address, now, at)))
    };
    let mut pairs = Vec::new();
    for (from, to, address) in world.ways() {
        if knows(from, &address)? && knows(to, &from.source_for(address)?)? {
            pairs.push((from, address));
        }
    }
    Ok(pairs)
}

/// Each host sends to the address beside it; every echo has to come back.
fn echo(world: &World, pairs: Vec<(&HostRun, IpAddr)>, echoes: &mut Echoes) -> Result<()> {
    let mut asked: Vec<(&HostRun, IpAddr, AppId)> = Vec::new();
    for (from, address) in pairs {
        let ping = world.ping(from, address, ROUND, vec![100])?;
        asked.push((from, address, from.ip()?.start(Box::new(ping))));
    }
    let deadline = world.machine.now() + ECHOES;
    for (from, address, id) in asked {
        let outcome = from.ip()?.finish(id, deadline);
        if let Some(Outcome::Ping { sent, answered }) = outcome {
            echoes.sent += sent;
            echoes.answered += answered;
        }
        if !matches!(outcome, Some(Outcome::Ping { answered: ROUND, .. })) {
            bail!("{} to {address} without a manager: {outcome:?}, expected {ROUND}", from.name);
        }
    }
    Ok(())
}

/// The first host of each link says until everybody has heard enough, or the time is over.
fn hear(world: &World, listeners: Vec<Listener>, deadline: Nanos) -> Result<()> {
    let left = deadline.since(world.machine.now()).max(Nanos::from_secs(1));
    let count = u32::try_from(left.0 / 1_000_000 / INTERVAL.as_millis() as u64).unwrap_or(u32::MAX);
    let mut speakers = Vec::new();
    for speaker in world.links().iter().filter_map(|link| link.first()) {
        let ip = speaker.ip()?;
        speakers.push((
            ip,
            ip.start(Box::new(GroupSay::new(group(world, speaker, GROUP.1), count, INTERVAL, now(world)))),
        ));
    }
    for (name, id) in listeners {
        match world.host(&name)?.ip()?.finish(id, deadline) {
            Some(Outcome::Heard(heard)) if heard.len() >= DATAGRAMS as usize => {}
            other => bail!("{name} does not hear the group again: {other:?}"),
        }
    }
    speakers.into_iter().for_each(|(ip, saying)| ip.stop(saying));
    Ok(())
}
