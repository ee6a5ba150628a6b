//! ICMP and ICMPv6, neighbour discovery included.

use super::decode::{Layer, Named};
use super::network::{ipv6_at, short};
use crate::ifconfig::link_address;

fn echo(bytes: &[u8]) -> Option<String> {
    Some(format!("(ID: {} Sequence number: {})", short(bytes, 4)?, short(bytes, 6)?))
}

pub(super) fn icmp(bytes: &[u8]) -> Option<Layer> {
    let (kind, code) = (*bytes.first()?, *bytes.get(1)?);
    let word = match kind {
        0 => "Echo reply",
        3 => "Destination unreachable",
        4 => "Source quench",
        5 => "Redirect",
        8 => "Echo request",
        11 => "Time exceeded",
        12 => "Parameter problem",
        _ => "Unknown",
    };
    let more = if matches!(kind, 0 | 8) { format!(" {}", echo(bytes)?) } else { String::new() };
    let page = vec![
        "----- ICMP Header -----".into(),
        String::new(),
        format!("Type = {kind} ({word})"),
        format!("Code = {code}{more}"),
        format!("Checksum = {:x}", short(bytes, 2)?),
        String::new(),
    ];
    Some(Layer { prefix: "ICMP:  ", summary: Some(format!("ICMP {word}{more}")), page })
}

pub(super) fn icmpv6(bytes: &[u8], named: Named<'_>) -> Option<Layer> {
    let (kind, code) = (*bytes.first()?, *bytes.get(1)?);
    let word = match kind {
        1 => "Destination unreachable",
        2 => "Packet too big",
        3 => "Time exceeded",
        4 => "Parameter problem",
        128 => "Echo request",
        129 => "Echo reply",
        130 => "Group membership query",
        131 => "Group membership report",
        132 => "Group membership termination",
        133 => "Router solicitation",
        134 => "Router advertisement",
        135 => "Neighbor solicitation",
        136 => "Neighbor advertisement",
        143 => "Multicast listener report v2",
        _ => "Unknown",
    };
    let more = if matches!(kind, 128 | 129) { format!(" {}", echo(bytes)?) } else { String::new() };
    let mut page = vec![
        "----- ICMPv6 Header -----".into(),
        String::new(),
        format!("Type = {kind} ({word})"),
        format!("Code = {code}{more}"),
        format!("Checksum = {:x}", short(bytes, 2)?),
    ];
    if matches!(kind, 135 | 136) {
        let target = ipv6_at(bytes, 8)?;
        page.push(format!("Target node = {target}, {}", named(target.into())));
        if kind == 136 {
            let set = |bit: u8| if bytes[4] & bit == 0 { "NOT SET" } else { "SET" };
            page.push(format!(
                "Router flag: {}, Solicited flag: {}, Override flag: {}",
                set(0x80),
                set(0x40),
                set(0x20)
            ));
        }
        page.push(String::new());
        options(&bytes[24..], &mut page);
    } else {
        page.push(String::new());
    }
    Some(Layer { prefix: "ICMPv6:  ", summary: Some(format!("ICMPv6 {word}{more}")), page })
}

/// Options of neighbour discovery, in units of 8 octets; a damaged one ends them.
fn options(mut bytes: &[u8], page: &mut Vec<String>) {
    while let [kind, units, ..] = *bytes {
        let split = bytes.split_at_checked(usize::from(units) * 8).filter(|_| units > 0);
        let Some((option, rest)) = split else { return };
        let name = match kind {
            1 => "Source LL Addr",
            2 => "Target LL Addr",
            _ => "Unknown",
        };
        page.push(format!("+++ ICMPv6 {name} option +++"));
        if matches!(kind, 1 | 2) {
            page.push(format!("Link Layer address: {}", link_address(&option[2..])));
        }
        page.push(String::new());
        bytes = rest;
    }
}
