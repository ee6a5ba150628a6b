//! `ifconfig(8)`, the part that shows.

use std::net::{IpAddr, Ipv4Addr};

use lab_gldv3::LinkState;

use crate::session::{Exit, Failure, Outcome, Session};
use crate::system::{Address, AddressState, Class, Interface};

const USAGE: &str = "usage: ifconfig <interface> | -a [ 4 | 6 | D ] [ <addr_family> ]\n";

// Flags of an interface (`net/if.h`), with their names.
const UP: u64 = 0x1;
const BROADCAST: u64 = 0x2;
const LOOPBACK: u64 = 0x8;
const RUNNING: u64 = 0x40;
const MULTICAST: u64 = 0x800;
const IPV4: u64 = 0x0100_0000;
const IPV6: u64 = 0x0200_0000;
const VIRTUAL: u64 = 0x20_0100_0000 & !IPV4;
const FAILED: u64 = 0x1000_0000;
const DUPLICATE: u64 = 0x40_0000_0000;
const IPMP: u64 = 0x80_0000_0000;
const NAMES: [(u64, &str); 11] = [
    (UP, "UP"),
    (BROADCAST, "BROADCAST"),
    (LOOPBACK, "LOOPBACK"),
    (RUNNING, "RUNNING"),
    (MULTICAST, "MULTICAST"),
    (IPV4, "IPv4"),
    (IPV6, "IPv6"),
    (FAILED, "FAILED"),
    (VIRTUAL, "VIRTUAL"),
    (DUPLICATE, "DUPLICATE"),
    (IPMP, "IPMP"),
];

pub(crate) fn main(session: &mut Session<'_>, arguments: &[String]) -> Exit {
    let result = run(session, arguments);
    session.end(result)
}

fn run(session: &mut Session<'_>, arguments: &[String]) -> Outcome {
    let usage = || Failure { text: USAGE.to_owned(), exit: Exit::FAILURE };
    let (first, rest) = arguments.split_first().ok_or_else(usage)?;
    let interfaces = session.system.interfaces();
    let (shown, letters) = match first.strip_prefix("-a") {
        Some(letters) => (interfaces.iter().collect::<Vec<_>>(), letters),
        None if first.starts_with('-') => return Err(usage()),
        None => {
            let found: Vec<&Interface> =
                interfaces.iter().filter(|interface| interface.name == *first).collect();
            if found.is_empty() {
                return Err(Failure::line(format!(
                    "ifconfig: status: SIOCGLIFFLAGS: {first}: no such interface"
                )));
            }
            (found, "")
        }
    };
    if let Some(change) = rest.iter().find(|word| !matches!(word.as_str(), "inet" | "inet6")) {
        let why = match change.as_str() {
            "ether" | "ipib" => "changing the link address is not supported",
            _ => "use ipadm(8) to change interfaces",
        };
        return Err(Failure::line(format!("ifconfig: {change}: {why}")));
    }
    let family = |number: &str, name: &str| {
        rest.iter().any(|word| word == name)
            || letters.contains(number)
            || rest.is_empty() && letters.is_empty()
    };
    let (v4, v6) = (family("4", "inet"), family("6", "inet6"));
    let privileged = session.system.privileged();
    let mut text = String::new();
    if v4 {
        shown.iter().for_each(|interface| text += &ipv4(interface, privileged));
    }
    if v6 {
        shown.iter().for_each(|interface| text += &ipv6(interface, privileged));
    }
    session.out(text);
    Ok(())
}

fn heading(interface: &Interface, number: usize, flags: u64) -> String {
    let names: Vec<&str> = NAMES.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect();
    let logical = if number == 0 { String::new() } else { format!(":{number}") };
    format!(
        "{}{logical}: flags={flags:x}<{}> mtu {} index {}\n",
        interface.name,
        names.join(","),
        interface.mtu,
        interface.index
    )
}

/// Flags of an address; without one, those of the interface.
fn common(interface: &Interface, address: Option<&Address>) -> u64 {
    let running = interface.is_loopback() || interface.link != LinkState::Down;
    let mut flags = MULTICAST;
    flags |= match address {
        Some(address) if address.is_up() => UP,
        Some(address) if address.state == AddressState::Duplicate => DUPLICATE,
        Some(_) | None => 0,
    };
    flags |= if running { RUNNING } else { 0 };
    flags
        | match interface.class {
            Class::Loopback => LOOPBACK | VIRTUAL,
            Class::Ipmp { .. } => IPMP,
            Class::Under { .. } if !running => FAILED,
            Class::Ip | Class::Under { .. } => 0,
        }
}

fn group_line(interface: &Interface) -> String {
    match &interface.class {
        Class::Under { group: name } => format!("\tgroupname {name}\n"),
        Class::Ipmp { .. } => format!("\tgroupname {}\n", interface.name),
        Class::Loopback | Class::Ip => String::new(),
    }
}

fn link_line(interface: &Interface, privileged: bool) -> String {
    match interface.link_address.filter(|_| privileged) {
        Some(address) => format!("\tipib {} \n", link_address(&address.0)),
        None => String::new(),
    }
}

/// Octets in hexadecimal without leading zeros, colons between.
pub(crate) fn link_address(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:x}")).collect::<Vec<_>>().join(":")
}

fn ipv4(interface: &Interface, privileged: bool) -> String {
    let of_family = |address: &Address| match address.address {
        Some((IpAddr::V4(ip), length)) => Some((ip, length)),
        _ => None,
    };
    let broadcast = if interface.is_loopback() { 0 } else { BROADCAST };
    let mut text = String::new();
    for (number, address) in of(interface, |address| of_family(address).is_some()).into_iter().enumerate() {
        let (ip, length) = address.and_then(of_family).unwrap_or((Ipv4Addr::UNSPECIFIED, 0));
        text += &heading(interface, number, common(interface, address) | IPV4 | broadcast);
        let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
        text += &format!("\tinet {ip} netmask {mask:x}");
        if address.is_some() && broadcast != 0 {
            text += &format!(" broadcast {}", Ipv4Addr::from(u32::from(ip) | !mask));
        }
        text.push('\n');
        if number == 0 {
            text += &group_line(interface);
            text += &link_line(interface, privileged);
        }
    }
    text
}

fn ipv6(interface: &Interface, privileged: bool) -> String {
    let of_family = |address: &Address| match address.address {
        Some((IpAddr::V6(ip), length)) => Some(format!("{ip}/{length}")),
        _ => None,
    };
    let mut text = String::new();
    for (number, address) in of(interface, |address| of_family(address).is_some()).into_iter().enumerate() {
        let shown = address.and_then(of_family).unwrap_or_else(|| "::/0".to_owned());
        text += &heading(interface, number, common(interface, address) | IPV6);
        text += &format!("\tinet6 {shown} \n");
        if number == 0 {
            text += &group_line(interface);
            text += &link_line(interface, privileged);
        }
    }
    text
}

/// The addresses of a family; one that is none for an interface without any.
fn of(interface: &Interface, family: impl Fn(&&Address) -> bool) -> Vec<Option<&Address>> {
    let found: Vec<_> = interface.addresses.iter().filter(family).map(Some).collect();
    if found.is_empty() { vec![None] } else { found }
}
