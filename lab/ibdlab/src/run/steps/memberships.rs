//! Who is in which group, as the subnet administrator has it.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Result, anyhow, ensure};
use fakekernel::Nanos;
use lab_ibtf::saa::{GroupMembers, SubnetManager};
use lab_ip::link_addr::LinkAddr;
use sm::Gid;
use sm::partition::broadcast_mgid;

use crate::report::Findings;
use crate::run::host_run::HostRun;
use crate::run::world::World;

/// For joins that are under way; and a subnet administrator's own list may lag behind.
const PATIENCE: Nanos = Nanos::from_secs(30);
const POLL: Nanos = Nanos::from_millis(50);
/// The driver asks so often to leave a group; then the membership is the administrator's to forget.
const LEAVES_TRIED: u32 = 3;

/// Every group that IP enabled on a host has its port as a member: asked one by one, and found in the administrator's own
/// list. That may have the host in more groups, those it sends to.
pub fn memberships(world: &mut World) -> Result<Findings> {
    let manager = manager(world)?;
    // A link is up once it is in its broadcast group; the other groups are joined then.
    let memberships = until(world, || {
        let mut memberships = 0;
        for host in world.present() {
            for mgid in wanted_groups(world, host)? {
                if !manager.is_member(mgid, host.port)? {
                    let (name, port) = (&host.name, host.port);
                    return Ok(Err(format!("{name}: port {port} is no member of {mgid} at the SA")));
                }
                memberships += 1;
            }
        }
        Ok(Ok(memberships))
    })?;
    let groups = until(world, || {
        let groups = manager.groups()?;
        let absent =
            world.present().find_map(|host| not_listed(world, host, &groups).transpose()).transpose()?;
        Ok(absent.map_or(Ok(groups), Err))
    })?;
    let text = format!(
        "{memberships} memberships of {} hosts asked for one by one and found in the list of {}: {} groups",
        world.present().count(),
        manager.name(),
        groups.len()
    );
    let line = |group: &GroupMembers| {
        let members: Vec<String> = group.members.iter().map(ToString::to_string).collect();
        (format!("{} {}", group.mlid, group.mgid), members)
    };
    let listed: serde_json::Map<String, serde_json::Value> =
        groups.iter().map(line).map(|(name, members)| (name, members.into())).collect();
    Ok(Findings::new(text).fact("memberships", memberships).fact("groups", listed))
}

/// The groups that IP enabled on a host's link, and its broadcast group.
pub fn wanted_groups(world: &World, host: &HostRun) -> Result<BTreeSet<Gid>> {
    let scope = scope(world, host);
    let groups = host.ip()?.with_upper(|upper| upper.link_groups());
    let mut wanted: BTreeSet<Gid> = groups.iter().map(|group| on_link(group, scope, host.pkey)).collect();
    wanted.insert(broadcast_mgid(sm::PKey(host.pkey), scope));
    Ok(wanted)
}

/// The scope of a host's groups: the smallest in which its link's hosts have a broadcast group. A host may have made one in another
/// scope than the scenario's while that was gone, and then all are to be in it.
pub(super) fn scope(world: &World, host: &HostRun) -> u8 {
    let mates: BTreeSet<sm::Guid> = world
        .present()
        .filter(|mate| (mate.pkey, mate.subnet) == (host.pkey, host.subnet))
        .map(|mate| mate.port)
        .collect();
    let held = world.infiniband.sms().into_iter().flat_map(|sm| {
        sm.inspect(|sm| {
            let ours = sm.sa().memberships().filter(|(mgid, port, _)| {
                *mgid == broadcast_mgid(sm::PKey(host.pkey), mgid.scope()) && mates.contains(port)
            });
            ours.map(|(mgid, ..)| mgid.scope()).min()
        })
    });
    held.min().unwrap_or(host.scope)
}

/// A group's GID with scope and P_Key of the link, which IP leaves open.
fn on_link(group: &LinkAddr, scope: u8, pkey: u16) -> Gid {
    let mut mgid = [0; 16];
    mgid.copy_from_slice(&group.0[4..]);
    mgid[1] = mgid[1] & 0xf0 | scope;
    mgid[4..6].copy_from_slice(&(pkey | 0x8000).to_be_bytes());
    let mgid = u128::from_be_bytes(mgid);
    Gid { prefix: (mgid >> 64) as u64, guid: mgid as u64 }
}

/// The memberships, by port GUID, that are the administrator's to end: IBTF could not tell it that they were left, because the port was
/// down or the adapter gone, or tells it with the last leave of a role that stands; or a fault had it refuse as often as the driver asks, or refuse and then say that there is no such group.
pub fn left_to_the_sa(world: &World) -> BTreeSet<(u64, sm::Gid)> {
    let untold = world.hosts.iter().flat_map(|host| lab_ibtf::untold_leaves(&host.kernel));
    let mut left: BTreeSet<_> = untold.map(|(mgid, port)| (port.guid, mgid)).collect();
    let later = world.hosts.iter().flat_map(|host| lab_ibtf::ended_with_the_last(&host.kernel));
    left.extend(later.map(|(mgid, port)| (port, mgid)));
    for sm in world.infiniband.sms() {
        sm.inspect(|sm| {
            let kept = sm.sa().kept_by_faults().filter(|(.., by)| by.denied || by.refusals >= LEAVES_TRIED);
            left.extend(kept.map(|(mgid, port, _)| (port.0, mgid)));
        });
    }
    if world.software.as_ref().is_some_and(|software| software.refuses_leaves()) {
        let leaves = world.hosts.iter().flat_map(|host| lab_ibtf::refused_leaves(&host.kernel));
        let refused = leaves.filter(|(_, times)| *times >= LEAVES_TRIED);
        left.extend(refused.map(|((mgid, port), _)| (port, mgid)));
    }
    left
}

/// No port of ours is in any group, but for those that are [left to the administrator](left_to_the_sa).
pub fn no_memberships(world: &World) -> Result<()> {
    let Some(manager) = world.infiniband.subnet_manager() else { return Ok(()) };
    until(world, || {
        let (groups, excused) = (manager.groups()?, left_to_the_sa(world));
        let left = groups.iter().flat_map(one_by_one).filter(|member| !excused.contains(member));
        let left: Vec<String> = left.map(|(port, mgid)| format!("{port:016x} in {mgid}")).collect();
        let left = left.join(", ");
        Ok(if left.is_empty() { Ok(()) } else { Err(format!("memberships left at the SA: {left}")) })
    })
}

/// Each member's port GUID, with the group.
fn one_by_one(group: &GroupMembers) -> impl Iterator<Item = (u64, sm::Gid)> + '_ {
    group.members.iter().map(|port| (port.0, group.mgid))
}

/// Whether every host's port is in all groups that IP enabled on it; the first that is not.
pub fn first_missing(world: &World) -> Result<Option<String>> {
    let manager = manager(world)?;
    for host in world.present() {
        for mgid in wanted_groups(world, host)? {
            // A manager that has just come may take its time to answer.
            if !manager.is_member(mgid, host.port).unwrap_or(false) {
                return Ok(Some(format!("{} is not in {mgid}", host.name)));
            }
        }
    }
    Ok(None)
}

pub fn manager(world: &World) -> Result<Arc<dyn SubnetManager>> {
    world.infiniband.subnet_manager().ok_or_else(|| anyhow!("there is no subnet manager"))
}

/// The first group of a host that a list does not have it in.
fn not_listed(world: &World, host: &HostRun, groups: &[GroupMembers]) -> Result<Option<String>> {
    let has = |mgid: &sm::Gid| {
        let mut group = groups.iter().filter(|group| group.mgid == *mgid);
        group.any(|group| group.members.iter().any(|port| port.0 == host.port.0))
    };
    let absent = wanted_groups(world, host)?.into_iter().find(|mgid| !has(mgid));
    Ok(absent.map(|mgid| format!("{} is not listed in {mgid}", host.name)))
}

/// Looks until it is as it should be; what is wrong when the time is over is the error.
fn until<T>(world: &World, mut look: impl FnMut() -> Result<Result<T, String>>) -> Result<T> {
    let deadline = world.machine.now() + PATIENCE;
    loop {
        match look()? {
            Ok(value) => return Ok(value),
            Err(what) => ensure!(world.machine.now() < deadline, "{what}"),
        }
        fakekernel::sleep(POLL);
    }
}
