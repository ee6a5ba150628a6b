//! A link keeps its address as long as its queue pair can: every neighbour has the address in its tables, and IP takes the interface down
//! and up when it changes.

use anyhow::{Result, ensure};
use lab_ip::link_addr::LinkAddr;
use serde_spanned::Spanned;

use super::super::memberships::scope;
use crate::run::host_run::HostRun;
use crate::run::world::World;
use crate::scenario::trouble::{Event, SaDoes, SaTrouble};

/// The link addresses of all hosts, in their order; `None` of a link that has none, or that gets another queue pair because its adapter
/// was pulled before.
pub struct Addresses(Vec<Option<LinkAddr>>);

impl Addresses {
    pub fn of(world: &World) -> Self {
        Self(world.hosts.iter().map(|host| address(host).filter(|_| !host.is_pulled())).collect())
    }

    /// Compares them with what they are now, after these events.
    ///
    /// # Errors
    ///
    /// A link has another address, and nothing has happened to it that gives it another queue pair.
    pub fn check<'a>(&self, world: &World, events: impl Iterator<Item = &'a Event> + Clone) -> Result<()> {
        for (host, before) in world.hosts.iter().zip(&self.0) {
            let (Some(before), Some(now)) = (before, address(host)) else { continue };
            let mine = || events.clone().filter(|event| concerns(world, host, event));
            // Two sends that fail soon after each other are the queue pair's fault.
            let failed = mine().filter(|event| matches!(event, Event::SendFails(_))).count();
            // A queue pair is for groups of one scope.
            let moved = scope(world, host) != host.scope;
            let excused = failed > 1 || moved || mine().any(replaces);
            ensure!(
                *before == now || excused,
                "{}: the link address {before} became {now}, and no event of the timeline makes the link's queue pair useless: none fails or \
                 hangs, none moves the P_Key or the GID, none restarts the link or has a call fail",
                host.name
            );
        }
        Ok(())
    }
}

/// Without the octet of flags: whether a link takes connections may change.
fn address(host: &HostRun) -> Option<LinkAddr> {
    let mut own = host.ip().ok()?.with_upper(|upper| upper.link().info().own);
    own.0[0] = 0;
    (own.0[1..4] != [0; 3]).then_some(own)
}

/// Hosts on a software adapter have one kernel, and one adapter.
fn concerns(world: &World, host: &HostRun, event: &Event) -> bool {
    let named = event.host().is_none_or(|named| *named.get_ref() == host.name);
    // A subnet manager has one port of a GUID: what it sets of one of two it sets of the other.
    let cloned = matches!(event, Event::HcaCloned(clone) if *clone.of.get_ref() == host.name);
    // A port that has become smaller may make the broadcast group anew: all of the link are in it.
    let smaller =
        matches!(event, Event::LinkRetrains(link) if makes_its_group_with(world, host, link.host.get_ref()));
    world.software.is_some() || named || cloned || smaller
}

/// Whether the two hosts are of one partition, and the subnet manager makes no broadcast group for it.
fn makes_its_group_with(world: &World, host: &HostRun, other: &str) -> bool {
    let is_own = |pkey: u16| (pkey ^ host.pkey) & 0x7fff == 0;
    let mut partitions = world.plan.partition.iter().map(Spanned::get_ref);
    partitions.any(|partition| is_own(*partition.pkey.get_ref()) && !partition.ipoib)
        && world.host(other).is_ok_and(|other| is_own(other.pkey))
}

/// Whether a link may need another queue pair after this.
fn replaces(event: &Event) -> bool {
    match event {
        // A queue pair or a CQ is in error, or hangs.
        Event::SendsHang(_) | Event::QpBreaks(_) | Event::OneQpBreaks(_) => true,
        // Its P_Key is at another place of the table, or its GID is another one.
        Event::PkeyRemoved(_) | Event::PkeyAdded(_) | Event::Membership(_) | Event::SubnetPrefix(_) => true,
        // A packet was too long for its port, which has become smaller, or the group has.
        Event::LinkRetrains(link) => link.mtu.is_some(),
        // Its group has another Q_Key or MTU, as far as it is told.
        Event::Sa(SaTrouble { does: SaDoes::Lies(_), .. }) => true,
        // It was stopped.
        Event::HcaRemoved(_)
        | Event::HcaAdded(_)
        | Event::HcaCloned(_)
        | Event::LinkClose(_)
        | Event::LinkOpen(_)
        | Event::Unload(_)
        | Event::Load(_)
        | Event::PartDeleted(_)
        | Event::PartCreated(_) => true,
        // A call to the adapter was refused.
        Event::AllocationFails(_) | Event::MemoryShort(_) => true,
        _ => false,
    }
}
