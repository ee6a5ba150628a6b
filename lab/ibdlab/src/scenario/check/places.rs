//! An adapter hears so many groups and no more: what IP needs and what a step needs have to find places.

use std::collections::BTreeSet;
use std::net::IpAddr;

use lab_ip::nd;
use serde_spanned::Spanned;

use super::{Checked, Fault, addresses};
use crate::run::listens;
use crate::scenario::{HostSpec, Scenario, Step};

/// Each host's adapter has places for the groups that it hears in a step, with the groups as they are by then.
pub fn check(now: &Scenario, step: &Spanned<Step>) -> Checked {
    let hosts = now.host.iter().map(Spanned::get_ref);
    for host in hosts.filter(|host| now.misfit(host).is_none()) {
        let Some(needed) = needed(now, host, step.get_ref()).filter(|needed| host.groups < *needed) else {
            continue;
        };
        let message = format!(
            "`{}` has `groups = {}`, and `{}` needs {needed}: what has no place is not heard",
            host.name,
            host.groups,
            step.get_ref().name()
        );
        return Err(Fault { span: host.name.span(), message });
    }
    Ok(())
}

/// How many groups the host has to hear at once in the step; `None` if the step can do without.
fn needed(now: &Scenario, host: &HostSpec, step: &Step) -> Option<u32> {
    let is = |name: &Spanned<String>| name.get_ref() == host.name.get_ref();
    let mut link =
        now.host.iter().map(Spanned::get_ref).filter(|other| now.link_of(other) == now.link_of(host));
    let first = link.next().is_some_and(|first| is(&first.name));
    let alone = first && link.next().is_none();
    let listens = now.host.iter().position(|other| is(&other.get_ref().name)).is_some_and(listens);
    match step {
        Step::Up(_) => Some(1),
        Step::Multicast(step) => is(&step.to).then(|| of_ip(host) + 1),
        Step::Eavesdrop(step) => is(&step.to).then(|| of_ip(host) + 1),
        // The first one of a link speaks.
        Step::SmRestart(_) => (!first).then(|| of_ip(host) + 1),
        Step::Turns(_) => (!alone).then(|| of_ip(host) + 1),
        // When all is well, each talks to a group of its own turn. Every second host stays in that of the background traffic meanwhile.
        Step::Trouble(_) => (!alone).then(|| of_ip(host) + 1 + u32::from(listens)),
        _ => None,
    }
}

/// The groups that IP is in by itself, and the broadcast group.
fn of_ip(host: &HostSpec) -> u32 {
    let all_hosts = addresses(host).any(|ip| ip.is_ipv4());
    let all_nodes = addresses(host).any(|ip| ip.is_ipv6());
    let solicited: BTreeSet<_> = addresses(host)
        .filter_map(|ip| match ip {
            IpAddr::V6(ip) => Some(nd::solicited_node(ip)),
            IpAddr::V4(_) => None,
        })
        .collect();
    1 + u32::from(all_hosts) + u32::from(all_nodes) + u32::try_from(solicited.len()).unwrap_or(u32::MAX)
}
