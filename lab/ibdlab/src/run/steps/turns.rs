//! Hosts take turns at a group: one says something, all others of its link have joined for it, hear it, and leave.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use fakekernel::Nanos;
use lab_ip::apps::{App, GroupHear, GroupSay, Outcome};

use crate::host::AppId;
use crate::report::Findings;
use crate::run::host_run::HostRun;
use crate::run::world::World;
use crate::scenario::TurnsStep;

/// With the first one the speaker becomes a member. The switch's routes follow the SA's answer, so it may be lost.
const DATAGRAMS: u32 = 4;
const INTERVAL: Duration = Duration::from_millis(10);
/// For a speaker to be done once its time has come.
const PATIENCE: Nanos = Nanos::from_secs(10);

/// See [`crate::scenario::Step::Turns`].
pub fn turns(world: &World, step: &TurnsStep) -> Result<Findings> {
    let group = *step.group.get_ref();
    world.let_ibtf_subscribe();
    world.let_lost_questions_end();
    let mut heard = 0;
    for speaker in world.present() {
        let deaf = turn(world, speaker, group, world.shortest_head_start())?;
        let deaf: Vec<String> =
            deaf.iter().map(|(host, heard)| format!("{} heard {heard:?}", host.name)).collect();
        ensure!(
            deaf.is_empty(),
            "of {DATAGRAMS} datagrams that {} sent to {group} {}",
            speaker.name,
            deaf.join(", ")
        );
        heard += world.peers(speaker).count();
    }
    let text = format!("{group}: each host in turn, heard by all others of its link, {heard} times in all");
    Ok(Findings::new(text).fact("heard", heard))
}

/// One turn. Who has not heard all but perhaps the first datagram, and what they have heard.
pub fn turn<'a>(
    world: &'a World,
    speaker: &HostRun,
    group: IpAddr,
    head_start: Duration,
) -> Result<Vec<(&'a HostRun, Vec<u32>)>> {
    let group = (group, world.group_port());
    let first = Duration::from_nanos(world.machine.now().0) + head_start;
    let over = first + world.head_start() + INTERVAL * DATAGRAMS;
    let mut ears: Vec<(&HostRun, AppId)> = Vec::new();
    for listener in world.peers(speaker) {
        let hear: Box<dyn App> = Box::new(GroupHear::new(group, DATAGRAMS, over));
        ears.push((listener, listener.ip()?.start(hear)));
    }
    let say = speaker.ip()?.start(Box::new(GroupSay::new(group, DATAGRAMS, INTERVAL, first)));
    let deadline = Nanos(over.as_nanos() as u64) + PATIENCE;
    speaker.ip()?.finish(say, deadline);
    let all: Vec<u32> = (1..DATAGRAMS).collect();
    let mut deaf = Vec::new();
    for (listener, ear) in ears {
        let heard = match listener.ip()?.finish(ear, deadline) {
            Some(Outcome::Heard(heard)) => heard,
            _ => Vec::new(),
        };
        if heard.strip_prefix(&[0]).unwrap_or(&heard) != all {
            deaf.push((listener, heard));
        }
    }
    Ok(deaf)
}
