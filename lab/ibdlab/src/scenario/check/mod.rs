//! What TOML's types cannot say: names that must exist, numbers that the architecture allows, parts that must fit together.
//!
//! The range of a number alone is [`super::range`]'s.

mod counts;
mod groups;
mod hosts;
mod outside;
mod partitions;
mod places;
mod pulled;
mod router;
mod steps;
mod trouble;

use std::net::IpAddr;
use std::ops::Range;

use serde_spanned::Spanned;

use super::{HostSpec, Scenario};

/// What is wrong, and where in the text.
pub struct Fault {
    pub span: Range<usize>,
    pub message: String,
}

type Checked = Result<(), Fault>;

pub fn check(scenario: &Scenario) -> Checked {
    check_mtu(&scenario.fabric.mtu)?;
    partitions::check(scenario)?;
    hosts::check(scenario)?;
    router::check(scenario)?;
    steps::check(scenario)
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

fn addresses(host: &HostSpec) -> impl Iterator<Item = IpAddr> {
    host.addresses.get_ref().iter().map(|cidr| IpAddr::from(cidr.0.address()))
}

fn owns(host: &HostSpec, ip: IpAddr) -> bool {
    addresses(host).any(|address| address == ip)
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

/// What is not in the file has no place there.
fn is_written<T>(value: &Spanned<T>) -> bool {
    !value.span().is_empty()
}

/// Where the value is, or what stands for it where it is not said.
fn place<T, U>(value: &Spanned<T>, otherwise: &Spanned<U>) -> Range<usize> {
    if is_written(value) { value.span() } else { otherwise.span() }
}

fn fault<T>(at: &Spanned<T>, message: String) -> Checked {
    Err(Fault { span: at.span(), message })
}
