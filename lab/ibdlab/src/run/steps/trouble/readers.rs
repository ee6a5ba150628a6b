//! Promiscuous readers that come once all is well: what IP wants to hear is heard as if they were not there, on an adapter with few
//! places for groups, too.

use anyhow::{Context, Result, anyhow};
use fakekernel::Nanos;
use lab_gldv3::{Promiscuity, Stream};

use super::settle;
use crate::run::host_run::HostRun;
use crate::run::world::World;
use crate::scenario::TroubleStep;
use crate::scenario::trouble::Event;

/// Until a reader has joined what it can hear.
const JOINING: Nanos = Nanos::from_secs(5);
/// How long what is asked meanwhile may take; each round trip to the SA comes on top.
const PATIENCE: Nanos = Nanos::from_secs(10);
const ROUND_TRIPS: u64 = 20;

/// Has readers on the hosts that had one in the timeline, and looks whether hosts that have forgotten each other find each other, and whether groups
/// that are joined now are heard.
///
/// # Errors
///
/// Who misses what.
pub fn harm_nobody(world: &World, step: &TroubleStep) -> Result<()> {
    let readers: Vec<Stream> =
        world.hosts.iter().filter(|host| has_reader(step, host)).map(open).collect::<Result<_>>()?;
    if readers.is_empty() {
        return Ok(());
    }
    fakekernel::sleep(JOINING);
    let patience = PATIENCE + Nanos(world.head_start().as_nanos() as u64 * ROUND_TRIPS);
    settle::found_anew(world, patience).context("while a reader is promiscuous")?;
    drop(readers);
    settle::only_members_of_what_ip_wants(world, patience).context("after the last reader")
}

fn has_reader(step: &TroubleStep, host: &HostRun) -> bool {
    let on = |event: &Event| matches!(event, Event::Promiscuous(mode) if mode.on && *mode.host.get_ref() == host.name);
    step.event.iter().any(|timed| on(&timed.event))
}

fn open(host: &HostRun) -> Result<Stream> {
    let stream = Stream::open(&host.kernel, &host.link())
        .map_err(|error| anyhow!("{}: a reader of {}: {error:?}", host.name, host.link()))?;
    stream
        .set_promiscuous(Promiscuity::Multicast, true)
        .map_err(|error| anyhow!("{}: promiscuous mode: {error:?}", host.name))?;
    Ok(stream)
}
