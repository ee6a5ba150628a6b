//! Steps: hosts that are there, that can do what they are told, in an order that makes sense.

use std::net::IpAddr;

use serde_spanned::Spanned;

use super::pulled::Pulled;
use super::{
    Checked, check_host, check_mtu, check_pkey, check_tun, counts, fault, groups, known_host, outside, owns,
    partition, places, trouble,
};
use crate::scenario::{GroupChangesStep, HostSpec, Scenario, Step, TcpStep};

/// The largest file or transfer: with it a run ends within minutes.
const MOST_BYTES: u64 = 16 << 30;

pub fn check(scenario: &Scenario) -> Checked {
    let (mut now, mut pulled) = (scenario.clone(), Pulled::default());
    for step in &scenario.step {
        check_step(&now, step)?;
        outside::check(&now, step)?;
        places::check(&now, step)?;
        pulled.check(scenario, step)?;
        match step.get_ref() {
            Step::GroupChanges(change) => now.change_group(change),
            Step::MembershipChanges(change) => now.change_membership(&change.change()),
            _ => {}
        }
    }
    counts::check(scenario)
}

fn check_tcp(scenario: &Scenario, tcp: &TcpStep) -> Checked {
    check_bytes(&tcp.bytes)?;
    check_pair(scenario, &tcp.from, &tcp.to, false)
}

fn check_step(scenario: &Scenario, spanned: &Spanned<Step>) -> Checked {
    match spanned.get_ref() {
        Step::Ping(ping) => check_pair(scenario, &ping.from, &ping.to, false),
        Step::Tcp(tcp) => check_tcp(scenario, tcp),
        Step::LinuxPing(ping) => check_pair(scenario, &ping.from, &ping.to, true),
        Step::LinuxFetch(fetch) => {
            check_bytes(&fetch.bytes)?;
            check_pair(scenario, &fetch.from, &fetch.to, true)
        }
        Step::Multicast(step) => groups::check(scenario, [&step.from, &step.to], &[], &step.group),
        Step::Turns(step) => groups::check_for_all(scenario, &step.group),
        Step::Eavesdrop(step) => groups::check(scenario, [&step.from, &step.to], &[&step.by], &step.group),
        Step::Flap(flap) => {
            known_host(scenario, &flap.host)?;
            flap.breaks.iter().try_for_each(|host| check_host(scenario, host, false))
        }
        Step::UnloadUnderTraffic(step) => check_host(scenario, &step.host, false),
        Step::PkeyMoves(step) => check_host(scenario, &step.host, false),
        Step::HcaRemoval(step) => check_host(scenario, &step.host, false),
        Step::GroupChanges(step) => check_change(scenario, step),
        Step::MembershipChanges(step) => known_host(scenario, &step.host).map(drop),
        Step::FaultPoints(step) => check_host(scenario, &step.host, false),
        Step::Link(link) => known_host(scenario, &link.host).map(drop),
        Step::Trouble(step) => {
            groups::check_shared_family(scenario, spanned)?;
            step.tcp.as_ref().map_or(Ok(()), |tcp| check_tcp(scenario, tcp))?;
            trouble::check(scenario, step)
        }
        Step::SmRestart(step) => {
            groups::check_shared_family(scenario, spanned)?;
            step.breaks.iter().try_for_each(|host| check_host(scenario, host, false))
        }
        Step::Idle(_)
        | Step::Memberships(_)
        | Step::Attach(_)
        | Step::Up(_)
        | Step::Resolve(_)
        | Step::Counts(_)
        | Step::RouterAway(_)
        | Step::Unload(_) => Ok(()),
    }
}

/// A group that the subnet manager makes, with what the fabric can carry.
fn check_change(scenario: &Scenario, step: &GroupChangesStep) -> Checked {
    check_pkey(&step.pkey)?;
    let pkey = *step.pkey.get_ref();
    let mut partitions = scenario.partition.iter().map(Spanned::get_ref);
    if !partitions.any(|p| p.ipoib && (p.pkey.get_ref() ^ pkey) & 0x7fff == 0) {
        let message = format!("the subnet manager makes no broadcast group with P_Key {pkey:#06x}");
        return fault(&step.pkey, message);
    }
    let Some(mtu) = &step.mtu else { return Ok(()) };
    check_mtu(mtu)?;
    if mtu.get_ref() > scenario.fabric.mtu.get_ref() {
        return fault(mtu, format!("MTU {mtu} is larger than the fabric's {}", scenario.fabric.mtu));
    }
    Ok(())
}

/// A sender and another host's address; both with TUN devices or both without.
fn check_pair(scenario: &Scenario, from: &Spanned<String>, to: &Spanned<IpAddr>, tun: bool) -> Checked {
    check_host(scenario, from, tun)?;
    let sender = known_host(scenario, from)?;
    if owns(sender, *to.get_ref()) {
        return fault(to, format!("{to} is an address of `{from}` itself"));
    }
    let Some(host) = owner(scenario, sender, *to.get_ref()) else {
        return fault(to, format!("no host has the address {to}"));
    };
    if scenario.link_of(sender) != scenario.link_of(host) {
        let where_else = if partition(sender) == partition(host) { "subnet" } else { "partition" };
        let why = kept_apart(scenario, sender, host);
        let message =
            format!("{to} is an address of `{}`, in another {where_else} than `{from}`{why}", host.name);
        return fault(to, message);
    }
    if !groups::has_family(sender, *to.get_ref()) {
        let family = groups::family(*to.get_ref());
        return fault(to, format!("`{from}` has no {family} address and cannot send to {to}"));
    }
    check_tun(host, to, tun)
}

/// Why the router does not join two hosts of a partition, if their groups have the scope and not the hops.
fn kept_apart(scenario: &Scenario, one: &HostSpec, other: &HostSpec) -> String {
    let limit = scenario.last_hop(one).filter(|_| partition(one) == partition(other));
    limit.map_or_else(String::new, |limit| {
        format!(": `hop_limit = {limit}` of their partition lets no packet to a group cross the router")
    })
}

/// Whose address it is: rather a host's of the sender's partition.
pub fn owner<'a>(scenario: &'a Scenario, sender: &HostSpec, to: IpAddr) -> Option<&'a HostSpec> {
    let owners = || scenario.host.iter().map(Spanned::get_ref).filter(|host| owns(host, to));
    owners().find(|host| partition(host) == partition(sender)).or_else(|| owners().next())
}

fn check_bytes(bytes: &Spanned<crate::scenario::ByteSize>) -> Checked {
    let number = bytes.get_ref().0;
    if number <= MOST_BYTES {
        return Ok(());
    }
    fault(bytes, format!("bytes is {number}: expected 0 to {MOST_BYTES}"))
}
