//! Scenarios on the software adapter: its object below each host's IBTL, instead of the lab's own adapter.
//!
//! Its switch is in the module, so all hosts are links of one kernel, each on a port of its own, and the subnet manager is the module's.
//! What a scenario asks of the lab's fabric beyond that is refused before anything runs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use fakekernel::Machine;
use lab_world::{SoftwarePlan, World};
use serde_spanned::Spanned;

use crate::objects::Objects;
use crate::scenario::trouble::{Event, LinkFaulty, SaDoes, SaTrouble};
use crate::scenario::{HostSpec, Membership, Scenario, Speed, Step};
use crate::setup;

/// Ports that an adapter can have.
const MOST_HOSTS: usize = 8;
/// What the groups of its subnet manager carry.
const MTU: u32 = 2048;
const RATE: u8 = 3;
/// Name of the one kernel.
const KERNEL: &str = "swhca";

/// The object of the adapter below `proto`.
///
/// # Errors
///
/// There is none, or it was built from other sources than its tree's.
pub fn object(proto: &Path) -> Result<PathBuf> {
    let path = proto.join("drv/amd64/swhca");
    sources::refresh(&path)?;
    ensure!(path.is_file(), "{}: no such object", path.display());
    Ok(path)
}

/// Whether a scenario can be run on it.
///
/// # Errors
///
/// What the software adapter has not, in words.
pub fn check(scenario: &Scenario) -> Result<()> {
    let hosts = scenario.host.iter().map(Spanned::get_ref).collect::<Vec<_>>();
    ensure!(
        hosts.len() <= MOST_HOSTS,
        "--hca swhca: all hosts are links of one kernel, on the {MOST_HOSTS} ports that an adapter can have: {} are too many",
        hosts.len()
    );
    hosts.iter().try_for_each(|host| check_host(host))?;
    one_configuration(&hosts)?;
    let first = scenario.partition.first().map_or(0xffff, |spec| *spec.get_ref().pkey.get_ref());
    ensure!(
        first & 0x7fff == 0x7fff,
        "--hca swhca: the first partition of the scenario has to be the default one (P_Key 0xffff or 0x7fff)"
    );
    for spec in scenario.partition.iter().map(Spanned::get_ref) {
        let pkey = spec.pkey.get_ref();
        let usual = spec.ipoib
            && *spec.mtu.get_ref() == MTU
            && *spec.rate.get_ref() == RATE
            && spec.unusual().is_none();
        ensure!(
            usual,
            "--hca swhca: its subnet manager makes the usual groups, of {MTU} bytes and 10 Gb/s; partition {pkey:#06x} asks for another one"
        );
    }
    ensure!(
        scenario.fabric.router.is_none(),
        "--hca swhca: its ports are in one subnet, and the scenario has a router"
    );
    ensure!(
        scenario.fabric.lmc == 0,
        "--hca swhca: its ports have one LID each, and the scenario asks for `lmc = {}`",
        scenario.fabric.lmc
    );
    ensure!(
        scenario.fabric.multicast_loopback,
        "--hca swhca: its multicast always comes back to the sender, and the scenario has `multicast_loopback = false`"
    );
    ensure!(
        !scenario.fabric.keeps_srqs,
        "--hca swhca: it frees its shared receive queues, and the scenario has `keeps_srqs = true`"
    );
    scenario.step.iter().try_for_each(|step| check_step(scenario, step.get_ref()))
}

fn check_host(host: &HostSpec) -> Result<()> {
    let name = host.name.get_ref();
    let what = if host.tun {
        "a TUN device"
    } else if host.membership != Membership::Full {
        "another membership than that of a full member"
    } else if *host.ports.get_ref() != 1 {
        "an adapter with other ports than its own"
    } else if host.guid.is_some() {
        "a GUID of its own"
    } else if !host.unplugged.is_empty() {
        "a port without a cable"
    } else if host.mtu.is_some() || *host.width.get_ref() != 4 {
        "another MTU or width than the adapter's"
    } else {
        return Ok(());
    };
    bail!("--hca swhca: host `{name}` asks for {what}")
}

/// One kernel has one configuration file for a driver, and one speed for all ports.
fn one_configuration(hosts: &[&HostSpec]) -> Result<()> {
    for (one, other) in hosts.iter().zip(hosts.iter().skip(1)) {
        let (one_name, other_name) = (one.name.get_ref(), other.name.get_ref());
        ensure!(
            one.driver != other.driver || one.conf == other.conf,
            "--hca swhca: `{one_name}` and `{other_name}` are links of one kernel, with one {}.conf",
            one.driver.name()
        );
        ensure!(
            one.speed == other.speed && one.offloads == other.offloads,
            "--hca swhca: `{one_name}` and `{other_name}` have ports of one adapter, with one speed and the same offloads"
        );
    }
    Ok(())
}

fn check_step(scenario: &Scenario, step: &Step) -> Result<()> {
    let reason = match step {
        Step::PkeyMoves(moves) if is_default(scenario, moves.host.get_ref()) => DEFAULT_PKEY,
        Step::HcaRemoval(_) => PULLED,
        Step::MembershipChanges(_) => MEMBERSHIP,
        Step::GroupChanges(_) => "has other broadcast groups than its subnet manager makes",
        Step::Link(link) => match more_than_loss(link) {
            Some(reason) => reason,
            None => return Ok(()),
        },
        Step::Trouble(trouble) => match trouble.event.iter().find_map(|timed| cannot(scenario, &timed.event))
        {
            Some(reason) => reason,
            None => return Ok(()),
        },
        Step::Counts(_) => "compares with a capture of the lab's fabric",
        Step::LinuxPing(_) | Step::LinuxFetch(_) => "needs TUN devices",
        _ => return Ok(()),
    };
    bail!("--hca swhca: the step `{}` {reason}", step.name())
}

const PULLED: &str = "pulls an adapter under attached instances";
const MEMBERSHIP: &str = "has limited members, which its subnet manager has not";
const DEFAULT_PKEY: &str =
    "moves the default partition's P_Key, without which management does not reach the subnet manager";
/// The longest that its SA takes for an answer, in milliseconds.
const LATEST_MS: u64 = 10_000;

/// Whether a host's link is of the default partition.
fn is_default(scenario: &Scenario, name: &str) -> bool {
    let hosts = scenario.host.iter().map(Spanned::get_ref);
    hosts.filter(|host| host.name.get_ref() == name).any(|host| *host.pkey.get_ref() & 0x7fff == 0x7fff)
}

/// Why an event cannot happen to the adapter and its subnet; `None` if it can.
pub(crate) fn cannot(scenario: &Scenario, event: &Event) -> Option<&'static str> {
    let default = event.host().is_some_and(|host| is_default(scenario, host.get_ref()));
    Some(match event {
        Event::SmRestart(back) if back.mlids_later > 0 => "gives groups other LIDs",
        Event::SmFailover(moves) if moves.mlids_later > 0 => "gives groups other LIDs",
        Event::GroupDeleted(_) | Event::GroupCreated(_) => "is of broadcast groups, which it always has",
        Event::PkeyRemoved(_) | Event::PkeyAdded(_) if default => DEFAULT_PKEY,
        Event::PkeyAdded(at) if *at.index.get_ref() == 0 => "puts a P_Key where the default partition's is",
        Event::LinkRetrains(_) => "has a link train anew, which its ports have no need to",
        Event::Membership(_) => MEMBERSHIP,
        Event::Link(link) => return more_than_loss(link),
        Event::CmLost(_) => "loses messages of the communication manager, which the adapter does not",
        Event::InterruptsLate(_) => "has interrupts come late",
        Event::SendsHang(_) => "has sends hang, which are done when a post returns",
        Event::SendFails(_) => "has a send fail by itself, which the adapter's do not",
        Event::NoCredits(_) => "has sends wait for credits, which are done when a post returns",
        Event::Packet(_) | Event::RawPacket(_) | Event::Strangers(_) => "has a packet come that nobody sent",
        Event::HcaRemoved(_) | Event::HcaAdded(_) | Event::HcaCloned(_) => PULLED,
        Event::Sa(SaTrouble { does: SaDoes::Lies(_), .. }) => "has the SA say what is not so",
        Event::Sa(SaTrouble { does: SaDoes::Garbles(_), .. }) => {
            "has the SA's segments come as they should not"
        }
        Event::Sa(SaTrouble { does: SaDoes::Late(ms), .. }) if *ms > LATEST_MS => {
            "has the SA take more than 10 s"
        }
        Event::Sa(SaTrouble { does: SaDoes::Late(_), to, times, .. }) if to.is_some() || times.is_some() => {
            "has the SA be late with some requests, which it is with all of a port"
        }
        _ => return None,
    })
}

/// What happens to packets on a link beside being lost.
fn more_than_loss(link: &LinkFaulty) -> Option<&'static str> {
    let LinkFaulty { duplicate, corrupt, corrupt_inside, reorder, delay_us, jitter_us, .. } = *link;
    let others = [
        (duplicate > 0, "doubles packets (`duplicate`), which the adapter only loses"),
        (corrupt > 0, "damages packets (`corrupt`), which the adapter only loses"),
        (corrupt_inside > 0, "damages packets (`corrupt_inside`), which the adapter only loses"),
        (reorder > 0, "reorders packets (`reorder`), which the adapter only loses"),
        (delay_us > 0, "delays packets (`delay_us`), which the adapter only loses"),
        (jitter_us > 0, "delays packets (`jitter_us`), which the adapter only loses"),
    ];
    others.into_iter().find_map(|(asked, reason)| asked.then_some(reason))
}

/// The hosts of a scenario on the ports of one adapter, with its subnet manager. On a thread of the machine.
///
/// # Errors
///
/// An object that does not load, a refusal of the driver, or a configuration file that cannot be read.
pub fn hosts(
    machine: &Machine,
    scenario: &Scenario,
    objects: &Objects,
    adapter: &Path,
    seed: u64,
) -> Result<World> {
    let mut world = World::new(machine, seed);
    let first = scenario.host.first().context("a scenario without hosts")?.get_ref();
    let plugin = objects.path(first.name.get_ref(), "mac_ib");
    let mut plan = SoftwarePlan::new(KERNEL, adapter.to_owned(), plugin.to_owned());
    plan.ports = u8::try_from(scenario.host.len())?;
    plan.pkeys = scenario.partition.iter().map(|spec| *spec.get_ref().pkey.get_ref() | 0x8000).collect();
    plan.speed = speed(first.speed);
    let on = i32::from(first.offloads);
    plan.conf = ["checksum", "lso", "reserved-lkey"].map(|name| (name.to_owned(), on)).into();
    world.boot_software(&plan)?;
    for (n, spec) in (0..).zip(&scenario.host) {
        world.add_link(setup::plan(scenario, spec.get_ref(), n, objects)?)?;
    }
    Ok(world)
}

const fn speed(speed: Speed) -> u8 {
    match speed {
        Speed::Sdr => 1,
        Speed::Ddr => 2,
        Speed::Qdr | Speed::Fdr10 => 4,
        Speed::Fdr => 16,
        Speed::Edr | Speed::Hdr | Speed::Ndr => 32,
    }
}
