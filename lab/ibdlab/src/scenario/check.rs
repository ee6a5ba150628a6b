//! What TOML's types cannot say: names that must exist, numbers that the architecture allows.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Range;

use serde_spanned::Spanned;

use super::trouble::{Event, TimedEvent};
use super::{HostSpec, Scenario, Step, TroubleStep};

/// What is wrong, and where in the text.
pub struct Fault {
    pub span: Range<usize>,
    pub message: String,
}

type Checked = Result<(), Fault>;

/// The IP layer's table of addresses per interface.
const MAX_ADDRESSES: usize = smoltcp::config::IFACE_MAX_ADDR_COUNT;
/// Ports of an adapter; two is what hardware has, more shows what software assumes.
const MAX_PORTS: u8 = 8;
/// Entries of a lab adapter's P_Key table that a scenario may use.
const PKEY_TABLE: u16 = 64;

pub fn check(scenario: &Scenario) -> Checked {
    check_mtu(&scenario.fabric.mtu)?;
    for partition in &scenario.partition {
        let partition = partition.get_ref();
        check_pkey(&partition.pkey)?;
        check_mtu(&partition.mtu)?;
        check_rate(&partition.rate)?;
        if partition.ipoib && partition.mtu.get_ref() > scenario.fabric.mtu.get_ref() {
            let message =
                format!("MTU {} is larger than the fabric's {}", partition.mtu, scenario.fabric.mtu);
            return fault(&partition.mtu, message);
        }
    }
    check_hosts(scenario)?;
    scenario.step.iter().try_for_each(|step| check_step(scenario, step.get_ref()))
}

fn check_hosts(scenario: &Scenario) -> Checked {
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
        check_pkey(&host.pkey)?;
        let pkey = *host.pkey.get_ref();
        if pkey & 0x8000 == 0 {
            return fault(
                &host.pkey,
                format!("P_Key {pkey:#06x} is a limited member, expected the full member bit 0x8000"),
            );
        }
        if !scenario.partition.iter().any(|p| (p.get_ref().pkey.get_ref() ^ pkey) & 0x7fff == 0) {
            return fault(&host.pkey, format!("P_Key {pkey:#06x} is in no partition of this file"));
        }
        for (name, text) in &host.properties {
            text.get_ref().property(name).map_err(|message| Fault { span: text.span(), message })?;
        }
        let (addresses, least) = (host.addresses.get_ref().len(), usize::from(!scenario.step.is_empty()));
        if addresses < least || addresses > MAX_ADDRESSES {
            let message = format!("{addresses} addresses, expected {least} to {MAX_ADDRESSES}");
            return fault(&host.addresses, message);
        }
        check_adapter(host)?;
    }
    Ok(())
}

fn check_adapter(host: &HostSpec) -> Checked {
    let ports = *host.ports.get_ref();
    if !(1..=MAX_PORTS).contains(&ports) {
        return fault(&host.ports, format!("{ports} ports, expected 1 to {MAX_PORTS}"));
    }
    if let Some(port) = host.unplugged.iter().find(|port| !(1..=ports).contains(port.get_ref())) {
        return fault(port, format!("there is no port {port}, expected 1 to {ports}"));
    }
    match &host.guid {
        Some(guid) if *guid.get_ref() == 0 => fault(guid, "a GUID is not zero".to_owned()),
        _ => Ok(()),
    }
}

fn check_step(scenario: &Scenario, step: &Step) -> Checked {
    match step {
        Step::Ping(ping) => check_pair(scenario, &ping.from, &ping.to, false),
        Step::Tcp(tcp) => check_pair(scenario, &tcp.from, &tcp.to, false),
        Step::LinuxPing(ping) => check_pair(scenario, &ping.from, &ping.to, true),
        Step::LinuxFetch(fetch) => check_pair(scenario, &fetch.from, &fetch.to, true),
        Step::Multicast(step) => check_group(scenario, &[&step.from, &step.to], &step.group),
        Step::Turns(step) => check_group(scenario, &[], &step.group),
        Step::Eavesdrop(step) => check_group(scenario, &[&step.by, &step.from, &step.to], &step.group),
        Step::Flap(flap) => {
            known_host(scenario, &flap.host)?;
            flap.breaks.iter().try_for_each(|host| check_host(scenario, host, false))
        }
        Step::UnloadUnderTraffic(step) => check_host(scenario, &step.host, false),
        Step::PkeyMoves(step) => check_host(scenario, &step.host, false),
        Step::HcaRemoval(step) => check_host(scenario, &step.host, false),
        Step::FaultPoints(step) => check_host(scenario, &step.host, false),
        Step::Link(link) => known_host(scenario, &link.host).map(drop),
        Step::Trouble(step) => check_trouble(scenario, step),
        Step::SmRestart(step) => step.breaks.iter().try_for_each(|host| check_host(scenario, host, false)),
        Step::Idle(_)
        | Step::Memberships(_)
        | Step::Attach(_)
        | Step::Up(_)
        | Step::Resolve(_)
        | Step::Counts(_)
        | Step::Unload(_) => Ok(()),
    }
}

/// Events of known hosts, within the time, with numbers that the architecture has.
fn check_trouble(scenario: &Scenario, step: &TroubleStep) -> Checked {
    step.event.iter().try_for_each(|timed| check_event(scenario, step, timed))
}

fn check_event(scenario: &Scenario, step: &TroubleStep, timed: &TimedEvent) -> Checked {
    if let Some(host) = timed.event.host() {
        check_host(scenario, host, false)?;
    }
    let at_us = *timed.at_us.get_ref();
    if at_us > step.within_ms.saturating_mul(1_000) {
        return fault(&timed.at_us, format!("{at_us} us is later than within_ms = {}", step.within_ms));
    }
    match &timed.event {
        Event::SmFailover(moves) if !(1..0xc000).contains(moves.lid.get_ref()) => fault(
            &moves.lid,
            format!("LID {:#x} is no unicast LID, expected 1 to 0xbfff", moves.lid.get_ref()),
        ),
        Event::SubnetPrefix(subnet) if *subnet.prefix.get_ref() == 0 => {
            fault(&subnet.prefix, "a subnet prefix is not zero".to_owned())
        }
        Event::PkeyAdded(at) if *at.index.get_ref() >= PKEY_TABLE => {
            fault(&at.index, format!("index {} is beyond the P_Key table of {PKEY_TABLE}", at.index))
        }
        Event::GroupJoin(of) | Event::GroupLeave(of) => check_group(scenario, &[], &of.group),
        _ => Ok(()),
    }
}

/// A sender and another host's address; both with TUN devices or both without.
fn check_pair(scenario: &Scenario, from: &Spanned<String>, to: &Spanned<IpAddr>, tun: bool) -> Checked {
    check_host(scenario, from, tun)?;
    let owner = scenario.host.iter().map(Spanned::get_ref).find(|host| owns(host, *to.get_ref()));
    match owner {
        None => fault(to, format!("no host has the address {to}")),
        Some(host) if host.name.get_ref() == from.get_ref() => {
            fault(to, format!("{to} is an address of `{from}` itself"))
        }
        Some(host) => {
            let sender = known_host(scenario, from)?;
            if partition(sender) != partition(host) {
                let message =
                    format!("{to} is an address of `{}`, in another partition than `{from}`", host.name);
                return fault(to, message);
            }
            check_tun(host, to, tun)
        }
    }
}

fn check_group(scenario: &Scenario, hosts: &[&Spanned<String>], group: &Spanned<IpAddr>) -> Checked {
    hosts.iter().try_for_each(|host| check_host(scenario, host, false))?;
    let hosts: Vec<&HostSpec> =
        hosts.iter().map(|name| known_host(scenario, name)).collect::<Result<_, _>>()?;
    if let [first, others @ ..] = hosts.as_slice()
        && let Some(other) = others.iter().find(|other| partition(other) != partition(first))
    {
        let message = format!("`{}` and `{}` are in different partitions", first.name, other.name);
        return fault(group, message);
    }
    if group.get_ref().is_multicast() {
        return Ok(());
    }
    fault(group, format!("{group} is no multicast group"))
}

/// A host's name is also that of its directory, and a part of its namespace's.
fn is_name(name: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.len() <= 32 && name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(inside)
}

fn check_host(scenario: &Scenario, name: &Spanned<String>, tun: bool) -> Checked {
    check_tun(known_host(scenario, name)?, name, tun)
}

fn check_tun<T>(host: &HostSpec, at: &Spanned<T>, tun: bool) -> Checked {
    match (host.tun, tun) {
        (false, true) => fault(at, format!("host `{}` has no TUN device, expected `tun = true`", host.name)),
        (true, false) => {
            fault(at, format!("host `{}` has a TUN device, this step needs the lab's own stack", host.name))
        }
        _ => Ok(()),
    }
}

fn known_host<'a>(scenario: &'a Scenario, name: &Spanned<String>) -> Result<&'a HostSpec, Fault> {
    let mut hosts = scenario.host.iter().map(Spanned::get_ref);
    if let Some(host) = hosts.clone().find(|host| host.name.get_ref() == name.get_ref()) {
        return Ok(host);
    }
    let known: Vec<String> = hosts.by_ref().map(|host| format!("`{}`", host.name)).collect();
    let message = format!("host `{name}` is not defined, expected one of {}", known.join(", "));
    Err(Fault { span: name.span(), message })
}

/// Which partition its link is in: the P_Key without the membership bit.
fn partition(host: &HostSpec) -> u16 {
    *host.pkey.get_ref() & 0x7fff
}

fn owns(host: &HostSpec, ip: IpAddr) -> bool {
    host.addresses.get_ref().iter().any(|cidr| IpAddr::from(cidr.0.address()) == ip)
}

fn check_mtu(mtu: &Spanned<u32>) -> Checked {
    match mtu.get_ref() {
        256 | 512 | 1024 | 2048 | 4096 => Ok(()),
        other => fault(mtu, format!("MTU {other} is not one of 256, 512, 1024, 2048, 4096")),
    }
}

fn check_rate(rate: &Spanned<u8>) -> Checked {
    match rate.get_ref() {
        2..=24 => Ok(()),
        other => fault(rate, format!("rate code {other} is not one of 2 to 24")),
    }
}

/// The lanes and the MTU of a host's ports.
fn check_ports(scenario: &Scenario, host: &HostSpec) -> Checked {
    let width = &host.width;
    if fabric::LinkWidth::of_lanes(*width.get_ref()).is_none() {
        return fault(width, format!("a port has 1, 2, 4, 8 or 12 lanes, not {width}"));
    }
    let Some(mtu) = &host.mtu else { return Ok(()) };
    check_mtu(mtu)?;
    if mtu.get_ref() > scenario.fabric.mtu.get_ref() {
        return fault(mtu, format!("MTU {mtu} is larger than the fabric's {}", scenario.fabric.mtu));
    }
    Ok(())
}

fn check_pkey(pkey: &Spanned<u16>) -> Checked {
    let value = *pkey.get_ref();
    if value & 0x7fff == 0 {
        return fault(
            pkey,
            format!("P_Key {value:#06x} is not valid, expected 1 to 0x7fff in the low 15 bits"),
        );
    }
    Ok(())
}

fn fault<T>(at: &Spanned<T>, message: String) -> Checked {
    Err(Fault { span: at.span(), message })
}
