//! Every call that can fail is made to fail in turn, while a host does one thing.
//!
//! Failures are one-off (the first call of a kind, the second, and so on, until one is not reached any more) and, from each
//! of the first few on, lasting until the host is done. Whatever the host does may then fail. It must leave nothing behind,
//! it must say why, and once nothing fails any more it must succeed, and the link must work.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use fakekernel::{FaultPlan, Kernel, Nanos};
use lab_gldv3::LinkState;
use lab_ip::apps::{GroupSay, Ping};
use sm::Lid;

use super::memberships::manager;
use super::trouble::settle::{Before, reachable, settle};
use crate::report::Findings;
use crate::run::host_run::HostRun;
use crate::run::world::World;
use crate::scenario::trouble::FaultPoint;
use crate::scenario::{FaultPointsStep, Phase};

/// How long a link may take to be well again: the longest retry timer of a link, and IP finding its neighbours.
const PATIENCE: Nanos = Nanos::from_secs(300);
const SECOND: Nanos = Nanos::from_millis(1_001);
/// How long a link has while calls fail.
const MEANWHILE: Nanos = Nanos::from_millis(100);
/// Payloads: copied, and lent.
const SIZES: [usize; 3] = [10, 600, 1900];
const ECHOES: u32 = 3;
const GROUP: (u8, u16) = (3, 7004);
/// Lasting failures begin at one of so many calls.
const LASTING: u64 = 4;

/// One thing that fails.
struct Point<'a> {
    module: &'a str,
    kind: FaultPoint,
    plan: FaultPlan,
    /// The first call that fails, from 0.
    first: u64,
}

/// What came of all of them. The step fails at the first that is not recovered from.
#[derive(Default)]
struct Tally {
    tried: u64,
    /// What the driver said, each line once.
    said: BTreeSet<String>,
}

/// See the module's documentation.
pub fn fault_points(world: &mut World, step: &FaultPointsStep) -> Result<Findings> {
    let name = step.host.get_ref().as_str();
    let before = Before::of(world);
    let driver = world.host(name)?.driver_name();
    let mut tally = Tally::default();
    // Hosts on a software adapter are links of one kernel, so what fails in the driver fails for all of them; there it is the adapter's turn.
    let modules = if world.software.is_some() { vec!["swhca"] } else { vec![driver, "mac_ib"] };
    for module in modules {
        for kind in FaultPoint::all() {
            let tried = tally.tried;
            for first in 0..step.at_most {
                let once = Point { module, kind, first, plan: FaultPlan::Nth(first) };
                if !one(world, name, step.phase, &once, &mut tally)? {
                    break;
                }
            }
            for first in 0..LASTING {
                let lasting = Point { module, kind, first, plan: FaultPlan::From(first) };
                if !one(world, name, step.phase, &lasting, &mut tally)? {
                    break;
                }
            }
            if tally.tried > tried {
                settle(world, &before, PATIENCE)
                    .with_context(|| format!("after all failures of {} in {module}", kind.kind().0))?;
            }
        }
    }
    let said: Vec<String> = tally.said.into_iter().collect();
    let text = format!("{:?}: {} fault points, well again after each", step.phase, tally.tried);
    Ok(Findings::new(text).fact("tried", tally.tried).fact("said", said))
}

/// Tries one point; false if it was not reached.
fn one(world: &mut World, name: &str, phase: Phase, point: &Point<'_>, tally: &mut Tally) -> Result<bool> {
    let what =
        || format!("{phase:?} with {} of {} failing ({:?})", point.kind.kind().0, point.module, point.plan);
    // The driver says a thing once a second at most.
    fakekernel::sleep(SECOND);
    prepare(world, name, phase).with_context(what)?;
    let kernel = world.host(name)?.kernel.clone();
    let mark = Mark::of(&kernel);
    kernel.set_fault(point.kind.kind(), Some(point.module), point.plan);
    let done = act(world, name, phase);
    let reached = kernel.clear_fault(point.kind.kind(), Some(point.module)).unwrap_or(0) > point.first;
    let said = mark.messages(&kernel, world.host(name)?.driver_name());
    if reached {
        tally.tried += 1;
        let must_say = done.is_err() || !is_up(world, name, phase)?;
        ensure!(!must_say || !said.is_empty(), "{}: nothing in the log says why: {done:?}", what());
        tally.said.extend(said);
    } else {
        done.with_context(what)?;
    }
    recover(world, name).with_context(what)?;
    if reached {
        gives_groups_back(world, name).with_context(what)?;
    }
    Ok(reached)
}

/// Where the log was.
struct Mark(usize);

impl Mark {
    fn of(kernel: &Kernel) -> Self {
        Self(kernel.genunix().messages().len())
    }

    /// What the driver, the plugin and the adapter said since.
    fn messages(&self, kernel: &Kernel, driver: &str) -> Vec<String> {
        let since = kernel.genunix().messages().into_iter().skip(self.0);
        let own = since.filter(|message| [driver, "mac_ib", "swhca"].contains(&message.module.as_str()));
        own.map(|message| message.text).collect()
    }
}

/// What the phase begins with.
fn prepare(world: &mut World, name: &str, phase: Phase) -> Result<()> {
    let host = world.host_mut(name)?;
    match phase {
        Phase::Attach => host.unload(),
        Phase::Start => {
            host.close_link();
            Ok(())
        }
        Phase::Traffic | Phase::Flap | Phase::SmRestart | Phase::Stop | Phase::Detach => Ok(()),
    }
}

fn act(world: &mut World, name: &str, phase: Phase) -> Result<()> {
    match phase {
        Phase::Attach => world.host_mut(name)?.make_link(),
        Phase::Start => {
            world.host_mut(name)?.open_link()?;
            wait_up(world, name)
        }
        Phase::Traffic => traffic(world, name),
        Phase::Flap => {
            let port = world.host(name)?.port;
            world.infiniband.set_cable(port, false);
            fakekernel::sleep(Nanos::from_millis(5));
            world.infiniband.set_cable(port, true);
            wait_up(world, name)
        }
        Phase::SmRestart => {
            match world.infiniband.sm() {
                Some(sm) => sm.restart(Lid(Lid::FIRST_MULTICAST.0 + 7)),
                // One that has no memory for it says so to whoever asked, and goes on.
                None => drop(manager(world)?.restart()),
            }
            fakekernel::sleep(MEANWHILE);
            Ok(())
        }
        Phase::Stop => {
            world.host_mut(name)?.close_link();
            fakekernel::sleep(MEANWHILE);
            Ok(())
        }
        Phase::Detach => world.host_mut(name)?.unload(),
    }
}

/// A link that is not up in time is no error: something fails meanwhile.
fn wait_up(world: &World, name: &str) -> Result<()> {
    let deadline = world.machine.now() + MEANWHILE;
    world.host(name)?.ip()?.wait_link(LinkState::Up, deadline);
    Ok(())
}

/// Whether the link is as it should be after the phase, unless it should be closed.
fn is_up(world: &World, name: &str, phase: Phase) -> Result<bool> {
    Ok(match phase {
        Phase::Attach | Phase::Stop | Phase::Detach => true,
        Phase::Start | Phase::Traffic | Phase::Flap | Phase::SmRestart => {
            world.host(name)?.ip().is_ok_and(|ip| ip.wait_link(LinkState::Up, world.machine.now()))
        }
    })
}

/// Both ways, in both families; what is lost is lost.
fn traffic(world: &World, name: &str) -> Result<()> {
    let pairs = |from: &HostRun, to: &HostRun| -> Result<()> {
        let ip = from.ip()?;
        for address in to.addresses.iter().map(|cidr| std::net::IpAddr::from(cidr.address())) {
            if let Ok(source) = from.source_for(address) {
                ip.start(Box::new(Ping::new(source, address, ECHOES, SIZES.to_vec())));
            }
        }
        let now = std::time::Duration::from_nanos(world.machine.now().0);
        let group = (world.group_of(from, GROUP.0), GROUP.1);
        ip.start(Box::new(GroupSay::new(group, ECHOES, std::time::Duration::from_millis(1), now)));
        Ok(())
    };
    let host = world.host(name)?;
    for other in world.peers(host) {
        pairs(host, other)?;
        pairs(other, host)?;
    }
    fakekernel::sleep(Nanos::from_millis(10));
    Ok(())
}

/// Nothing fails any more: everything must succeed at once, and the link must come up by itself.
fn recover(world: &mut World, name: &str) -> Result<()> {
    world.host_mut(name)?.attach().context("once nothing failed any more")?;
    reachable(world, PATIENCE).map(drop)
}

/// A link that is closed leaves the groups it was in: as many leaves as there were joins, whatever failed between.
fn gives_groups_back(world: &mut World, name: &str) -> Result<()> {
    world.host_mut(name)?.close_link();
    let deadline = world.machine.now() + PATIENCE;
    let port = world.host(name)?.port;
    let manager = manager(world)?;
    loop {
        let groups = manager.groups()?;
        let mine = groups.iter().filter(|group| group.members.iter().any(|member| member.0 == port.0));
        let left: Vec<String> = mine.map(|group| group.mgid.to_string()).collect();
        if left.is_empty() {
            return recover(world, name);
        }
        ensure!(world.machine.now() < deadline, "closed, and still a member of {}", left.join(", "));
        fakekernel::sleep(MEANWHILE);
    }
}
