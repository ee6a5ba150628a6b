//! What a link keeps of addresses that strangers have made up: of each port few, whatever they say.

use anyhow::{Result, ensure};
use fakekernel::genunix::KstatValue;

use crate::run::host_run::HostRun;
use crate::run::world::World;
use crate::scenario::TroubleStep;
use crate::scenario::trouble::{Claim, Event, Strangers};

/// Addresses of ports that are there, of all those of a fabric: 256 of a port stay, and half as many again until the next ones go.
const OF_PORTS: u64 = 1_000;
/// Absent ports that the SA is asked about, in each second and once more in the first one; and questions that wait.
const ASKED: u64 = 200;
const WAIT: u64 = 512;

/// Looks at the tables of hosts that a flood was for, in a timeline of so many seconds.
///
/// # Errors
///
/// Whose table has too many addresses.
pub fn check(world: &World, step: &TroubleStep, seconds: u64) -> Result<()> {
    for host in &world.hosts {
        let mut most = OF_PORTS;
        let mut is_flooded = false;
        for flood in floods(step, host) {
            is_flooded |= flood.claim == Claim::QueuePairs;
            most += if flood.claim == Claim::AbsentPorts { ASKED * (2 + seconds) + WAIT } else { 0 };
        }
        let entries = if is_flooded { entries(host).into_iter().max().unwrap_or(0) } else { 0 };
        ensure!(
            entries <= most,
            "{}: the link keeps {entries} addresses, most of them made up, and {most} is the most",
            host.name
        );
    }
    Ok(())
}

fn floods<'a>(step: &'a TroubleStep, host: &'a HostRun) -> impl Iterator<Item = &'a Strangers> {
    step.event.iter().filter_map(|timed| match &timed.event {
        Event::Strangers(flood) if *flood.host.get_ref() == host.name => Some(flood),
        _ => None,
    })
}

/// How many addresses each link of a host knows.
fn entries(host: &HostRun) -> Vec<u64> {
    let tables = host.kernel.kstats().into_iter().filter(|id| id.name == "paths");
    let values = tables.filter_map(|id| host.kernel.scope(|| host.kernel.read_kstat(&id)).ok());
    let number = |values: Vec<(String, KstatValue)>| {
        values.into_iter().find_map(|(name, value)| match value {
            KstatValue::U64(entries) if name == "entries" => Some(entries),
            _ => None,
        })
    };
    values.filter_map(number).collect()
}
