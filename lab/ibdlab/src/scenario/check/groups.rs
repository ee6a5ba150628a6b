//! Groups that hosts talk to: whether they can hear them, and whether nobody else is in them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lab_ip::{layer::ALL_HOSTS, nd};
use serde_spanned::Spanned;

use super::{Checked, Fault, addresses, check_host, fault, known_host, partition};
use crate::scenario::{HostSpec, Scenario};

/// The family of a group or an address.
pub fn family(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// Does the host have an address of the family of `like`?
pub fn has_family(host: &HostSpec, like: IpAddr) -> bool {
    addresses(host).any(|address| address.is_ipv4() == like.is_ipv4())
}

/// A group that two hosts talk to, which need an address of its family; `others` of their partition look on.
pub fn check(
    scenario: &Scenario,
    talk: [&Spanned<String>; 2],
    others: &[&Spanned<String>],
    group: &Spanned<IpAddr>,
) -> Checked {
    let names: Vec<&Spanned<String>> = talk.iter().chain(others).copied().collect();
    names.iter().try_for_each(|host| check_host(scenario, host, false))?;
    for (number, name) in names.iter().enumerate() {
        if names[..number].iter().any(|other| other.get_ref() == name.get_ref()) {
            return fault(name, format!("`{name}` has two parts in this step, expected different hosts"));
        }
    }
    let first = known_host(scenario, names[0])?;
    for name in &names[1..] {
        let other = known_host(scenario, name)?;
        if scenario.hearing(other) != scenario.hearing(first) {
            let what = if partition(other) == partition(first) { "subnets" } else { "partitions" };
            let message = format!("`{}` and `{name}` are in different {what}", first.name);
            return fault(group, message);
        }
    }
    for name in talk {
        check_family(known_host(scenario, name)?, group)?;
    }
    check_unused(scenario, group)
}

/// A group that all hosts of each link talk to.
pub fn check_for_all(scenario: &Scenario, group: &Spanned<IpAddr>) -> Checked {
    for host in scenario.host.iter().map(Spanned::get_ref).filter(|host| has_peers(scenario, host)) {
        check_family(host, group)?;
    }
    check_unused(scenario, group)
}

/// A multicast address.
pub fn check_multicast(group: &Spanned<IpAddr>) -> Checked {
    if group.get_ref().is_multicast() {
        return Ok(());
    }
    fault(group, format!("{group} is no multicast group"))
}

/// The hosts of each link share a family, so that there is a group that all can be in.
pub fn check_shared_family<T>(scenario: &Scenario, step: &Spanned<T>) -> Checked {
    for host in scenario.host.iter().map(Spanned::get_ref) {
        let link =
            || scenario.host.iter().map(Spanned::get_ref).filter(|other| partition(other) == partition(host));
        let shared = |like: IpAddr| link().all(|host| has_family(host, like));
        if shared(Ipv4Addr::UNSPECIFIED.into()) || shared(Ipv6Addr::UNSPECIFIED.into()) {
            continue;
        }
        let lacks =
            |like: IpAddr| link().find(|host| !has_family(host, like)).map_or("", |host| host.name.get_ref());
        let message = format!(
            "this step talks to a group on every link, and the hosts of partition {:#06x} share no family: \
             `{}` has no IPv4 address, `{}` no IPv6 address",
            host.pkey.get_ref(),
            lacks(Ipv4Addr::UNSPECIFIED.into()),
            lacks(Ipv6Addr::UNSPECIFIED.into())
        );
        return fault(step, message);
    }
    Ok(())
}

fn has_peers(scenario: &Scenario, host: &HostSpec) -> bool {
    let mut others = scenario.host.iter().map(Spanned::get_ref);
    others.any(|other| other.name.get_ref() != host.name.get_ref() && partition(other) == partition(host))
}

fn check_family(host: &HostSpec, group: &Spanned<IpAddr>) -> Checked {
    if !group.get_ref().is_multicast() || has_family(host, *group.get_ref()) {
        return Ok(());
    }
    let family = family(*group.get_ref());
    fault(group, format!("`{}` has no {family} address and cannot talk to {group}", host.name))
}

/// A group that no host is in unless it is told to be: one that a host has left is silent.
fn check_unused(scenario: &Scenario, group: &Spanned<IpAddr>) -> Checked {
    check_multicast(group)?;
    let message = match *group.get_ref() {
        IpAddr::V4(ip) if ip == ALL_HOSTS => Some(format!(
            "every host with an IPv4 address is in {group} all the time, expected another group"
        )),
        IpAddr::V6(ip) => own_groups(scenario).find(|own| on_link(*own) == on_link(ip)).map(|own| {
            format!(
                "on an InfiniBand link {group} is the group of {own}, which IP itself is in: \
                 expected another one in the last 80 bits"
            )
        }),
        IpAddr::V4(_) => None,
    };
    message.map_or(Ok(()), |message| Err(Fault { span: group.span(), message }))
}

/// The IPv6 groups that IP is in by itself.
fn own_groups(scenario: &Scenario) -> impl Iterator<Item = Ipv6Addr> {
    let solicited =
        scenario.host.iter().flat_map(|host| addresses(host.get_ref())).filter_map(|ip| match ip {
            IpAddr::V6(ip) => Some(nd::solicited_node(ip)),
            IpAddr::V4(_) => None,
        });
    std::iter::once(nd::ALL_NODES).chain(solicited)
}

/// What of an IPv6 group is in its MGID: the last 80 bits (RFC 4391, section 4).
fn on_link(group: Ipv6Addr) -> [u8; 10] {
    let mut low = [0; 10];
    low.copy_from_slice(&group.octets()[6..]);
    low
}
