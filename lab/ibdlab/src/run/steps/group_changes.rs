//! Ports that cannot be in a broadcast group that the subnet manager makes, and a manager that makes it otherwise.

use anyhow::{Context, Result, ensure};
use fakekernel::Nanos;
use lab_gldv3::{LinkState, PropertyId, PropertyValue};

use super::memberships::{first_missing, manager};
use super::subnet::all_reachable;
use crate::report::Findings;
use crate::run::host_run::HostRun;
use crate::run::world::World;
use crate::scenario::{GroupChangesStep, MembershipChangesStep, Misfit};
use crate::setup;

/// How often the wait for a message looks again.
const LOOK: Nanos = Nanos::from_millis(10);

/// See [`crate::scenario::Step::GroupChanges`].
pub fn group_changes(world: &mut World, step: &GroupChangesStep) -> Result<Findings> {
    world.plan.change_group(step);
    let partitions = setup::partitions(&world.plan);
    let said: Vec<usize> = world.hosts.iter().map(|host| host.console().len()).collect();
    let manager = manager(world)?;
    manager.stop();
    manager.set_partitions(partitions).context("other partitions")?;
    manager.restart()?;
    world.questions_are_lost();
    world.note_who_stays_down();
    let since = world.machine.now();
    let deadline = since + Nanos::from_millis(step.within_ms);
    let mut lines = Vec::new();
    for (host, said) in world.hosts.iter().zip(said).filter(|(host, _)| !host.is_pulled()) {
        let what = match &host.misfit {
            Some(misfit) => stays_down_since(world, host, misfit, deadline, said)?,
            None => {
                let up = host.ip()?.wait_link(LinkState::Up, deadline);
                ensure!(up, "{}: {} is not up {} ms after", host.name, host.link(), step.within_ms);
                host.link_is_up()?;
                "up".to_owned()
            }
        };
        lines.push(format!("{}: {} {what}", host.name, host.link()));
    }
    while let Some(absent) = first_missing(world)? {
        ensure!(world.machine.now() < deadline, "{} ms after the new manager came: {absent}", step.within_ms);
        fakekernel::sleep(LOOK);
    }
    let took = world.machine.now().since(since);
    all_reachable(world)?;
    lines.push(format!("all of it {took} after the new manager came"));
    Ok(Findings::new(lines.join("\n")).fact("recovery_us", took.0 / 1_000))
}

/// See [`crate::scenario::Step::MembershipChanges`].
pub fn membership_changes(world: &mut World, step: &MembershipChangesStep) -> Result<Findings> {
    world.let_ibtf_subscribe();
    world.plan.change_membership(&step.change());
    let partitions = setup::partitions(&world.plan);
    manager(world)?.set_partitions(partitions).context("other partitions")?;
    world.note_who_stays_down();
    let (host, since) = (world.host(step.host.get_ref())?, world.machine.now());
    let deadline = since + Nanos::from_millis(step.within_ms);
    let what = match &host.misfit {
        Some(misfit) => stays_down(world, host, misfit, deadline)?,
        None => {
            let up = host.ip()?.wait_link(LinkState::Up, deadline);
            ensure!(up, "{}: {} is not up {} ms after", host.name, host.link(), step.within_ms);
            host.link_is_up()?;
            "up".to_owned()
        }
    };
    while let Some(absent) = first_missing(world)? {
        ensure!(
            world.machine.now() < deadline,
            "{} ms after the membership changed: {absent}",
            step.within_ms
        );
        fakekernel::sleep(LOOK);
    }
    let took = world.machine.now().since(since);
    all_reachable(world)?;
    let text =
        format!("{}: {} {what}, {took} after its port is a {:?} member", host.name, host.link(), step.to);
    Ok(Findings::new(text).fact("recovery_us", took.0 / 1_000))
}

/// What `_ibd_link_state` says of a port without the P_Key.
const WAITS_FOR_PKEY: &str = "waits for P_Key";

/// A link that cannot be in its broadcast group is down, and its log says why.
pub fn stays_down(world: &World, host: &HostRun, misfit: &Misfit, deadline: Nanos) -> Result<String> {
    stays_down_since(world, host, misfit, deadline, 0)
}

/// The same of what the log says from message `first` on.
fn stays_down_since(
    world: &World,
    host: &HostRun,
    misfit: &Misfit,
    deadline: Nanos,
    first: usize,
) -> Result<String> {
    let Some(reason) = reason(misfit) else {
        ensure!(host.ip()?.wait_link(LinkState::Down, deadline), "{}: {} is up", host.name, host.link());
        let name = PropertyId::Private("_ibd_link_state".to_owned());
        let state = lab_gldv3::get_property(&host.kernel, &host.link(), &name);
        let waits = matches!(&state, Ok(PropertyValue::Text(text)) if text == WAITS_FOR_PKEY);
        ensure!(waits, "{}: {} is down and its state is {state:?}", host.name, host.link());
        return Ok(format!("down: {WAITS_FOR_PKEY}"));
    };
    loop {
        let log = host.console();
        let said = log.iter().skip(first).any(|line| line.contains(&reason));
        if said && host.ip()?.link_state() != LinkState::Up {
            return Ok(format!("down: {reason}"));
        }
        let state = host.ip()?.link_state();
        ensure!(
            world.machine.now() < deadline,
            "{}: {} is {state:?}, and its log should say `{reason}`: {:?}",
            host.name,
            host.link(),
            log.iter().skip(first).collect::<Vec<_>>()
        );
        fakekernel::sleep(LOOK);
    }
}

/// What ibd(4D) promises that the log says.
fn reason(misfit: &Misfit) -> Option<String> {
    Some(match misfit {
        // The link's state says so.
        Misfit::Limited => return None,
        Misfit::Mtu { port, group } => {
            format!("IPoIB broadcast group MTU {group} greater than port's maximum MTU {port}")
        }
        Misfit::Rate { .. } => "IPoIB broadcast group join failed: ret = 15".to_owned(),
    })
}
