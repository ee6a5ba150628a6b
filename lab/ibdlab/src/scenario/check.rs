//! What TOML's types cannot say: names that must exist, numbers that the architecture allows.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Range;

use serde_spanned::Spanned;

use super::{HostSpec, Scenario, Step};

/// What is wrong, and where in the text.
pub struct Fault {
    pub span: Range<usize>,
    pub message: String,
}

type Checked = Result<(), Fault>;

/// The IP layer's table of addresses per interface.
const MAX_ADDRESSES: usize = smoltcp::config::IFACE_MAX_ADDR_COUNT;

pub fn check(scenario: &Scenario) -> Checked {
    check_mtu(&scenario.fabric.mtu)?;
    for partition in &scenario.partition {
        let partition = partition.get_ref();
        check_pkey(&partition.pkey)?;
        check_mtu(&partition.mtu)?;
        if partition.mtu.get_ref() > scenario.fabric.mtu.get_ref() {
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
        if !names.insert(host.name.get_ref()) {
            return fault(&host.name, format!("there are two hosts named `{}`", host.name));
        }
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
        let addresses = host.addresses.get_ref().len();
        if addresses == 0 || addresses > MAX_ADDRESSES {
            return fault(&host.addresses, format!("{addresses} addresses, expected 1 to {MAX_ADDRESSES}"));
        }
    }
    Ok(())
}

fn check_step(scenario: &Scenario, step: &Step) -> Checked {
    match step {
        Step::Ping(ping) => {
            check_host(scenario, &ping.from)?;
            check_target(scenario, &ping.from, &ping.to)
        }
        Step::Tcp(tcp) => {
            check_host(scenario, &tcp.from)?;
            check_target(scenario, &tcp.from, &tcp.to)
        }
        Step::Multicast(multicast) => {
            check_host(scenario, &multicast.from)?;
            check_host(scenario, &multicast.to)?;
            if multicast.group.get_ref().is_multicast() {
                Ok(())
            } else {
                fault(&multicast.group, format!("{} is no multicast group", multicast.group))
            }
        }
        Step::Flap(flap) => check_host(scenario, &flap.host),
        Step::Attach(_) | Step::Up(_) | Step::Resolve(_) | Step::Counts(_) | Step::Unload(_) => Ok(()),
    }
}

fn check_host(scenario: &Scenario, name: &Spanned<String>) -> Checked {
    let mut names = scenario.host.iter().map(|host| host.get_ref().name.get_ref());
    if names.clone().any(|known| known == name.get_ref()) {
        return Ok(());
    }
    let known: Vec<String> = names.by_ref().map(|known| format!("`{known}`")).collect();
    fault(name, format!("host `{name}` is not defined, expected one of {}", known.join(", ")))
}

/// The target must be another host's address, and the sender must have an address of that family.
fn check_target(scenario: &Scenario, from: &Spanned<String>, to: &Spanned<IpAddr>) -> Checked {
    let owner = scenario.host.iter().map(Spanned::get_ref).find(|host| owns(host, *to.get_ref()));
    match owner {
        None => fault(to, format!("no host has the address {to}")),
        Some(host) if host.name.get_ref() == from.get_ref() => {
            fault(to, format!("{to} is an address of `{from}` itself"))
        }
        Some(_) => Ok(()),
    }
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
