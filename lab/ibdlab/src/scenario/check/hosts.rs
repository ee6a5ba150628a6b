//! Hosts: names, adapters that can be in one fabric, links that can be in their partitions, addresses that an interface can have.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;

use fabric::LinkWidth;
use serde_spanned::Spanned;
use sm::RateCode;
use smoltcp::wire::IpCidr;

use super::{Checked, Fault, check_mtu, check_pkey, fault, is_name, is_written, partition, place};
use crate::scenario::{Driver, HostSpec, Membership, Misfit, Scenario};
use crate::setup::guid_of;

/// The IP layer's table of addresses per interface.
const MAX_ADDRESSES: usize = smoltcp::config::IFACE_MAX_ADDR_COUNT;

/// Each has a kernel heap, and the address space has slots for 1024. The bench has so many in its largest fabric.
const MAX_HOSTS: usize = 1001;

pub fn check(scenario: &Scenario) -> Checked {
    if let Some(host) = scenario.host.get(MAX_HOSTS) {
        return fault(host, format!("there are {} hosts: expected up to {MAX_HOSTS}", scenario.host.len()));
    }
    let mut names = BTreeSet::new();
    for host in scenario.host.iter().map(Spanned::get_ref) {
        if !is_name(host.name.get_ref()) {
            let expected = "expected up to 32 letters, digits, `-`, `_`, `.`, no sign first";
            return fault(&host.name, format!("`{}` is no name for a host: {expected}", host.name));
        }
        if !names.insert(host.name.get_ref()) {
            return fault(&host.name, format!("there are two hosts named `{}`", host.name));
        }
        check_ports(scenario, host)?;
        check_partition(scenario, host)?;
        for (name, text) in &host.properties {
            text.get_ref().property(name).map_err(|message| Fault { span: text.span(), message })?;
        }
        check_addresses(scenario, host)?;
    }
    check_guids(scenario)?;
    check_owners(scenario)
}

/// The lanes and the MTU of a host's ports, and which have a cable.
fn check_ports(scenario: &Scenario, host: &HostSpec) -> Checked {
    let (ports, width) = (*host.ports.get_ref(), &host.width);
    if let Some(port) = host.unplugged.iter().find(|port| *port.get_ref() > ports) {
        return fault(port, format!("there is no port {port}, expected 1 to {ports}"));
    }
    for (index, port) in host.unplugged.iter().enumerate() {
        if host.unplugged[..index].iter().any(|earlier| earlier.get_ref() == port.get_ref()) {
            return fault(port, format!("port {port} is named twice"));
        }
    }
    if let Some(first) = host.unplugged.iter().find(|port| *port.get_ref() == 1 && !scenario.step.is_empty())
    {
        let message = format!("`{}` has its link on port 1, and `unplugged` names that port", host.name);
        return fault(first, message);
    }
    if LinkWidth::of_lanes(*width.get_ref()).is_none() {
        return fault(width, format!("a port has 1, 2, 4, 8 or 12 lanes, not {width}"));
    }
    let Some(mtu) = &host.mtu else { return Ok(()) };
    check_mtu(mtu)?;
    if mtu.get_ref() > scenario.fabric.mtu.get_ref() {
        return fault(mtu, format!("MTU {mtu} is larger than the fabric's {}", scenario.fabric.mtu));
    }
    Ok(())
}

/// The partition of a host's link, whose broadcast group the host's port must be able to join if the subnet manager makes it.
fn check_partition(scenario: &Scenario, host: &HostSpec) -> Checked {
    check_pkey(&host.pkey)?;
    let pkey = *host.pkey.get_ref();
    if pkey & 0x8000 == 0 {
        return fault(
            &host.pkey,
            format!("P_Key {pkey:#06x} is a limited member, expected the full member bit 0x8000"),
        );
    }
    let mut partitions = scenario.partition.iter().map(Spanned::get_ref);
    if !partitions.any(|p| (p.pkey.get_ref() ^ pkey) & 0x7fff == 0) {
        let unsaid = if is_written(&host.pkey) { "" } else { ", which is a host's if nothing is said," };
        let message = format!("P_Key {pkey:#06x}{unsaid} is in no partition of this file");
        return Err(Fault { span: place(&host.pkey, &host.name), message });
    }
    if host.membership == Membership::Limited && host.driver == Driver::Ibd {
        let message =
            format!("`{}` is a limited member, of whose P_Key no `ibd` is made: expected `ibp`", host.name);
        return fault(&host.name, message);
    }
    check_group(scenario, host)
}

/// The port can be in the group, unless the file says that it cannot.
fn check_group(scenario: &Scenario, host: &HostSpec) -> Checked {
    let name = &host.name;
    let (message, span) = match (scenario.misfit(host), *host.stays_down.get_ref()) {
        (None, false) | (Some(_), true) => return Ok(()),
        (None, true) => {
            let message = format!(
                "`{name}` can be in the broadcast group of its partition, and `stays_down` says that it cannot"
            );
            return fault(&host.stays_down, message);
        }
        (Some(Misfit::Limited), false) => {
            let message = format!("`{name}` is a limited member of its partition and has no link");
            (message, name.span())
        }
        (Some(Misfit::Mtu { port, group }), false) => {
            let at = host.mtu.as_ref().unwrap_or(&scenario.fabric.mtu);
            let message = format!(
                "`{name}` has an MTU of {port} and cannot join the broadcast group of its partition, which has {group}"
            );
            (message, place(at, name))
        }
        (Some(Misfit::Rate { port, group }), false) => {
            let message = format!(
                "`{name}` has ports of {} and cannot join the broadcast group of its partition, which has {}",
                in_words(port),
                in_words(group)
            );
            (message, place(&host.width, name))
        }
    };
    Err(Fault { span, message: format!("{message}: expected `stays_down = true` if that is what is wanted") })
}

/// `20 Gb/s (rate 6)`.
fn in_words(rate: RateCode) -> String {
    let gbps = rate.tenths_of_gbps().map_or(0.0, |tenths| f64::from(tenths) / 10.0);
    format!("{gbps} Gb/s (rate {})", rate.0)
}

fn check_addresses(scenario: &Scenario, host: &HostSpec) -> Checked {
    let addresses = host.addresses.get_ref();
    let (count, least) = (addresses.len(), usize::from(!scenario.step.is_empty()));
    if count < least || count > MAX_ADDRESSES {
        let message = format!("{count} addresses, expected {least} to {MAX_ADDRESSES}");
        return Err(Fault { span: place(&host.addresses, &host.name), message });
    }
    for cidr in addresses {
        if let Some(what) = unusable(&cidr.0) {
            let message = format!("{} is {what}, which no interface can have", cidr.0);
            return fault(&host.addresses, message);
        }
    }
    Ok(())
}

/// What an address is, if it is not one for an interface.
fn unusable(cidr: &IpCidr) -> Option<&'static str> {
    let address = IpAddr::from(cidr.address());
    match (address, cidr) {
        _ if address.is_unspecified() => Some("the unspecified address"),
        _ if address.is_loopback() => Some("a loopback address"),
        _ if address.is_multicast() => Some("a multicast address"),
        (IpAddr::V4(ip), _) if ip.octets()[0] == 0 => Some("an address of this network (0.0.0.0/8)"),
        (IpAddr::V4(ip), _) if ip.octets()[0] >= 240 => Some("a reserved address (240.0.0.0/4)"),
        (IpAddr::V4(ip), IpCidr::Ipv4(cidr)) if cidr.broadcast() == Some(ip) => {
            Some("the broadcast address of its subnet")
        }
        _ => None,
    }
}

/// An adapter has its node's GUID and one behind it for each port; none of them is another adapter's.
fn check_guids(scenario: &Scenario) -> Checked {
    let mut taken: Vec<(&HostSpec, RangeInclusive<u64>)> = Vec::new();
    for (number, host) in (0..).zip(scenario.host.iter().map(Spanned::get_ref)) {
        let first = guid_of(host, number);
        let guids = first..=first + u64::from(*host.ports.get_ref());
        let other =
            taken.iter().find(|(_, other)| other.start() <= guids.end() && guids.start() <= other.end());
        if let Some((other, theirs)) = other {
            let message = format!(
                "the adapter of `{}` has the GUIDs {:#x} to {:#x}, that of `{}` {:#x} to {:#x}: none can be in both",
                host.name,
                guids.start(),
                guids.end(),
                other.name,
                theirs.start(),
                theirs.end()
            );
            let said = host.guid.as_ref().or(other.guid.as_ref());
            return Err(Fault { span: said.map_or_else(|| host.name.span(), Spanned::span), message });
        }
        taken.push((host, guids));
    }
    Ok(())
}

/// An address has one owner in its partition.
fn check_owners(scenario: &Scenario) -> Checked {
    let mut owners: BTreeMap<(u16, IpAddr), &HostSpec> = BTreeMap::new();
    for host in scenario.host.iter().map(Spanned::get_ref) {
        for address in super::addresses(host) {
            let Some(other) = owners.insert((partition(host), address), host) else { continue };
            let message = if other.name.get_ref() == host.name.get_ref() {
                format!("{address} is there twice")
            } else {
                format!("{address} is an address of `{}` already, in the same partition", other.name)
            };
            return fault(&host.addresses, message);
        }
    }
    Ok(())
}
