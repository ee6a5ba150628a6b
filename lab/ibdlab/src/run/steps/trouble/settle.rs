//! What "all is well" means, asked until it holds or the time is over.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use anyhow::{Result, ensure};
use fabric::{Census, Gid};
use fakekernel::Nanos;
use lab_gldv3::LinkState;
use lab_ip::apps::{Outcome, Ping};
use sm::JoinState;
use swhca_ioctl::Counter;

use super::super::memberships::{left_to_the_sa, manager, wanted_groups};
use super::super::turns::turn;
use super::subnet::adapter;
use crate::host::AppId;
use crate::run::host_run::HostRun;
use crate::run::world::World;

const POLL: Nanos = Nanos::from_millis(500);
/// More than an echo waits for its answer.
const ECHO: Nanos = Nanos::from_secs(3);
/// Sends of one burst, and bursts until a queue pair that hangs must have been found out.
const BURST: u32 = 100;
const BURSTS: u32 = 20;
/// The number of a group that nobody is in.
const GROUP: u8 = 2;
/// Another one.
const NEW_GROUP: u8 = 3;

/// What there was before the trouble, to compare with.
pub struct Before {
    /// Objects on each host's adapter, in the order of the hosts.
    censuses: Vec<Option<Census>>,
    /// Objects on the software adapter that all of them have a port of.
    software: Option<Vec<u64>>,
}

impl Before {
    pub fn of(world: &World) -> Self {
        let censuses = world.hosts.iter().map(|host| census(world, host)).collect();
        Self { censuses, software: software_objects(world) }
    }
}

/// Something that is not well: on which host, and what is missing.
struct Missing {
    host: String,
    what: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.host, self.what)
    }
}

/// Waits until all is well; how long that took.
///
/// # Errors
///
/// Who misses what when the time is over.
pub fn settle(world: &World, before: &Before, patience: Nanos) -> Result<Nanos> {
    let bursts = Cell::new(0);
    let checks: [Check<'_>; 7] = [
        &|| links(world),
        &|| unicast(world),
        &|| hanging(world, &bursts),
        &|| strangers(world),
        &|| talk(world, super::hand::GROUP.0),
        &|| talk(world, GROUP),
        &|| memberships(world).map(|missing| missing.into_iter().chain(objects(world, before)).collect()),
    ];
    wait_for(world, &checks, patience)
}

/// Waits until every link is up and every address answers everybody; how long that took.
///
/// # Errors
///
/// As for [`settle`].
pub fn reachable(world: &World, patience: Nanos) -> Result<Nanos> {
    wait_for(world, &[&|| links(world), &|| unicast(world)], patience)
}

/// Waits until hosts that have forgotten each other find each other, and hear a group that they join now.
///
/// # Errors
///
/// As for [`settle`].
pub fn found_anew(world: &World, patience: Nanos) -> Result<Nanos> {
    wait_for(world, &[&|| strangers(world), &|| talk(world, NEW_GROUP)], patience)
}

/// Waits until the SA has each host in exactly the groups that IP enabled.
///
/// # Errors
///
/// As for [`settle`].
pub fn only_members_of_what_ip_wants(world: &World, patience: Nanos) -> Result<()> {
    wait_for(world, &[&|| memberships(world)], patience).map(drop)
}

type Check<'a> = &'a dyn Fn() -> Result<Vec<Missing>>;

fn wait_for(world: &World, checks: &[Check<'_>], patience: Nanos) -> Result<Nanos> {
    let begun = world.machine.now();
    let mut deadline = begun + patience;
    for check in checks {
        loop {
            let asked = world.machine.now();
            let missing = check()?;
            if missing.is_empty() {
                // Ten hosts that talk to a group by turns take minutes under a slow SA: nobody has waited for that.
                deadline += world.machine.now().since(asked);
                break;
            }
            let list: Vec<String> = missing.iter().map(Missing::to_string).collect();
            ensure!(world.machine.now() < deadline, "after {patience}: {}", list.join("; "));
            fakekernel::sleep(POLL);
        }
    }
    Ok(world.machine.now().since(begun))
}

fn links(world: &World) -> Result<Vec<Missing>> {
    let mut missing = Vec::new();
    for host in world.present() {
        if !host.ip()?.wait_link(LinkState::Up, world.machine.now()) {
            missing.push(host.lacks(format!("{} is not up", host.link())));
        }
    }
    Ok(missing)
}

/// Every address of every host answers every host of its link that has an address of the family.
fn unicast(world: &World) -> Result<Vec<Missing>> {
    let mut asked: Vec<(&HostRun, IpAddr, AppId)> = Vec::new();
    for (from, to) in world.pairs() {
        for address in to.addresses.iter().map(|cidr| IpAddr::from(cidr.address())) {
            if let Ok(source) = from.source_for(address) {
                let ping = Ping::new(source, address, 1, vec![100]);
                asked.push((from, address, from.ip()?.start(Box::new(ping))));
            }
        }
    }
    let deadline = world.machine.now() + ECHO;
    let mut missing = Vec::new();
    for (from, address, id) in asked {
        if !matches!(from.ip()?.finish(id, deadline), Some(Outcome::Ping { answered: 1.., .. })) {
            missing.push(from.lacks(format!("{address} does not answer")));
        }
    }
    Ok(missing)
}

/// The same among hosts that have forgotten each other: they ask the broadcast group, or that of the address.
fn strangers(world: &World) -> Result<Vec<Missing>> {
    for host in &world.hosts {
        host.ip()?.change(|upper| upper.link_mut().forget());
    }
    let missing = unicast(world)?;
    let ask = |missing: Missing| Missing { what: format!("asked anew, {}", missing.what), ..missing };
    Ok(missing.into_iter().map(ask).collect())
}

/// A queue pair whose sends leave and never complete looks well until it is full. So it is filled: its driver finds out and makes another.
fn hanging(world: &World, bursts: &Cell<u32>) -> Result<Vec<Missing>> {
    let mut missing = Vec::new();
    for host in &world.hosts {
        let Some(hca) = world.infiniband.fabric().hca(adapter(host.port)) else { continue };
        for qpn in hca.hanging() {
            match bursts.get() < BURSTS {
                true => burst(world, host)?,
                // Nothing goes through it, so nobody can find out: the adapter says so itself.
                false => drop(hca.break_qpn(qpn)),
            }
            missing.push(host.lacks(format!("sends of queue pair {} never complete", qpn.get())));
        }
    }
    bursts.set(bursts.get() + 1);
    Ok(missing)
}

/// More echoes from a host to each address of its peers than a driver sends without a completion; whether they are answered says nothing.
fn burst(world: &World, from: &HostRun) -> Result<()> {
    for to in world.peers(from) {
        for address in to.addresses.iter().map(|cidr| IpAddr::from(cidr.address())) {
            if let Ok(source) = from.source_for(address) {
                let ip = from.ip()?;
                let echoes = ip.start(Box::new(Ping::new(source, address, BURST, vec![100])));
                ip.finish(echoes, world.machine.now() + ECHO);
            }
        }
    }
    Ok(())
}

/// What one host says to a group, every other one of its link hears: in that of the background traffic some have been members all the
/// time, any other each has to join now.
fn talk(world: &World, number: u8) -> Result<Vec<Missing>> {
    let mut missing = Vec::new();
    for speaker in world.present() {
        let group = world.group_of(speaker, number);
        for (listener, heard) in turn(world, speaker, group, world.head_start())? {
            let why = format!("heard {heard:?} of the datagrams that {} sent to {group}", speaker.name);
            missing.push(listener.lacks(why));
        }
    }
    Ok(missing)
}

/// The SA has each host in exactly the groups that IP enabled and the broadcast group.
fn memberships(world: &World) -> Result<Vec<Missing>> {
    let Some(sm) = world.infiniband.sm() else { return wanted_memberships(world) };
    let (excused, mut missing) = (left_to_the_sa(world), Vec::new());
    for host in world.present() {
        let wanted = wanted_groups(world, host)?;
        let actual: BTreeSet<Gid> = sm.inspect(|sm| {
            let mine = sm.sa().memberships().filter(|(_, port, state)| {
                port.0 == host.port.0 && state.intersects(JoinState::FULL.union(JoinState::NON))
            });
            mine.map(|(mgid, ..)| mgid).collect()
        });
        let lacks = wanted.difference(&actual).map(|mgid| format!("not a member of {mgid} at the SA"));
        let extra = actual
            .difference(&wanted)
            .filter(|mgid| !excused.contains(&(host.port.0, **mgid)))
            .map(|mgid| format!("still a member of {mgid} at the SA"));
        missing.extend(lacks.chain(extra).map(|what| host.lacks(what)));
    }
    Ok(missing)
}

/// The same of an administrator that only answers queries: it tells no difference between a member and a port that only sends.
fn wanted_memberships(world: &World) -> Result<Vec<Missing>> {
    let manager = manager(world)?;
    let mut missing = Vec::new();
    for host in world.present() {
        for mgid in wanted_groups(world, host)? {
            if !manager.is_member(mgid, host.port).unwrap_or(false) {
                missing.push(host.lacks(format!("not a member of {mgid} at the SA")));
            }
        }
    }
    Ok(missing)
}

/// As many objects on each adapter as before. Address handles come and go with the peers and are not compared, and nothing is on an adapter
/// with connections, which stay for minutes.
fn objects(world: &World, before: &Before) -> Vec<Missing> {
    let software = software_objects(world);
    let connected = world.hosts.iter().any(|host| host.connected);
    let changed = !connected && !as_many(&software, &before.software, world);
    let changed = changed.then(|| Missing {
        host: "swhca".to_owned(),
        what: format!("objects on the adapter: {software:?}, {:?} before", before.software),
    });
    let pairs = world.hosts.iter().zip(&before.censuses);
    let has_some = |host: &HostRun| host.connected || connected && host.takes_connections;
    let models = pairs.filter(|(host, _)| !has_some(host)).filter_map(|(host, before)| {
        let (mut now, then) = (kept(census(world, host)?), kept((*before)?));
        // Buffers for large sends that could not be sent from where they were are made once they are needed, and stay.
        let large = if host.cuts_large_sends { host.senders as u32 } else { 0 };
        if now.mrs.abs_diff(then.mrs) <= large {
            now.mrs = then.mrs;
        }
        (now != then).then(|| host.lacks(format!("objects on the adapter: {now:?}, {then:?} before")))
    });
    changed.into_iter().chain(models).collect()
}

/// Whether the software adapter has as many objects as before: regions last, as [`objects`] has them.
fn as_many(now: &Option<Vec<u64>>, before: &Option<Vec<u64>>, world: &World) -> bool {
    let split = |objects: &Option<Vec<u64>>| {
        objects.as_ref().and_then(|all| all.split_last().map(|(r, o)| (*r, o.to_vec())))
    };
    let large = world.hosts.iter().filter(|host| host.cuts_large_sends).map(|host| host.senders as u64).sum();
    match (split(now), split(before)) {
        (Some((regions, others)), Some((were, before))) => {
            others == before && regions.abs_diff(were) <= large
        }
        (now, before) => now == before,
    }
}

/// Protection domains, CQs, queue pairs, shared receive queues and regions of the software adapter, if there is one; address handles
/// come and go.
fn software_objects(world: &World) -> Option<Vec<u64>> {
    const KEPT: [Counter; 5] = [Counter::Pds, Counter::Cqs, Counter::Qps, Counter::Srqs, Counter::Regions];
    let counters = world.software.as_ref()?.counters().ok()?;
    Some(KEPT.iter().filter_map(|kind| counters.get(*kind as usize).copied()).collect())
}

fn kept(census: Census) -> Census {
    Census { ahs: 0, ..census }
}

/// `None` for an adapter that is pulled, or whose link is not up and has nothing to compare: a queue pair without buffers waits for its
/// broadcast group.
fn census(world: &World, host: &HostRun) -> Option<Census> {
    let census = world.infiniband.fabric().hca(adapter(host.port))?.census();
    (census.qps > 0 && census.mrs > 0).then_some(census)
}

impl HostRun {
    fn lacks(&self, what: String) -> Missing {
        Missing { host: self.name.clone(), what }
    }
}
