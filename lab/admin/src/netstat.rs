//! `netstat(8)`: the tables of link addresses, and the interfaces.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use lab_gldv3::LinkAddress;

use crate::getopt::Options;
use crate::session::{Exit, Failure, Outcome, Session};
use crate::system::{Interface, Neighbour, NeighbourState};

const OPTIONS: Options = Options { short: "anvpif:I:", long: &[], operands_end: true };

const USAGE: &str = "usage: netstat -p [-n] [-f address_family]\n       netstat -i [-n] [-I interface]\n";

pub(crate) fn main(session: &mut Session<'_>, arguments: &[String]) -> Exit {
    let result = run(session, arguments);
    session.end(result)
}

fn run(session: &mut Session<'_>, arguments: &[String]) -> Outcome {
    let usage = || Failure { text: USAGE.to_owned(), exit: Exit::FAILURE };
    let (parsed, operands) = OPTIONS.parse(arguments);
    let (mut tables, mut interfaces, mut only, mut family) = (false, false, None, None);
    for option in parsed {
        let (letter, value) = option.map_err(|_| usage())?;
        match letter {
            'p' => tables = true,
            'i' => interfaces = true,
            'I' => only = Some(value),
            'f' => family = Some(value),
            _ => {}
        }
    }
    let (v4, v6) = match family.as_deref() {
        None => (true, true),
        Some("inet") => (true, false),
        Some("inet6") => (false, true),
        Some(other) => {
            return Err(Failure {
                text: format!("{other}: unknown protocol family\n{USAGE}"),
                exit: Exit::FAILURE,
            });
        }
    };
    if !operands.is_empty() || !(tables || interfaces || only.is_some()) {
        return Err(usage());
    }
    if tables {
        media(session, v4, v6);
    }
    if interfaces || only.is_some() {
        counters(session, only.as_deref(), v4, v6);
    }
    Ok(())
}

/// Octets in two hexadecimal digits, colons between; nothing for an address that is not known.
fn octets(link: Option<LinkAddress>) -> String {
    let link = link.map(|link| link.0.map(|octet| format!("{octet:02x}")).join(":"));
    link.unwrap_or_default()
}

/// Whom the interfaces know.
pub(crate) fn media(session: &mut Session<'_>, v4: bool, v6: bool) {
    let neighbours = session.system.neighbours();
    let mut text = String::new();
    if v4 {
        text +=
            "Net to Media Table: IPv4\nDevice   IP Address               Mask      Flags      Phys Addr\n";
        text += "------ -------------------- --------------- -------- ---------------\n";
        neighbours.iter().filter(|neighbour| neighbour.address.is_ipv4()).for_each(|one| text += &arp(one));
    }
    if v6 {
        text +=
            "\nNet to Media Table: IPv6\n If   Physical Address    Type      State      Destination/Mask\n";
        text += "----- -----------------  ------- ------------ ---------------------------\n";
        let rows = neighbours.iter().filter(|neighbour| neighbour.address.is_ipv6());
        rows.for_each(|row| text += &nd(row));
        text.push('\n');
    }
    session.out(text);
}

fn arp(neighbour: &Neighbour) -> String {
    let flags = match neighbour.state {
        NeighbourState::Local => "SPLA",
        NeighbourState::Group => "S",
        NeighbourState::Incomplete => "U",
        NeighbourState::Reachable | NeighbourState::Stale | NeighbourState::Delay | NeighbourState::Probe => {
            ""
        }
    };
    let mask = if neighbour.state == NeighbourState::Group
        && neighbour.address == IpAddr::V4(Ipv4Addr::new(224, 0, 0, 0))
    {
        "240.0.0.0"
    } else {
        "255.255.255.255"
    };
    let (interface, address) = (&neighbour.interface, neighbour.address.to_string());
    format!("{interface:<6} {address:<20} {mask:<15} {flags:<8} {}\n", octets(neighbour.link))
}

fn nd(neighbour: &Neighbour) -> String {
    let (kind, state) = match neighbour.state {
        NeighbourState::Local => ("local", "REACHABLE"),
        NeighbourState::Group => ("other", "REACHABLE"),
        NeighbourState::Reachable => ("dynamic", "REACHABLE"),
        NeighbourState::Stale => ("dynamic", "STALE"),
        NeighbourState::Delay => ("dynamic", "DELAY"),
        NeighbourState::Probe => ("dynamic", "PROBE"),
        NeighbourState::Incomplete => ("dynamic", "INCOMPLETE"),
    };
    let (interface, link, address) =
        (&neighbour.interface, octets(neighbour.link), neighbour.address.to_string());
    format!("{interface:<5} {link:<17}  {kind:<7} {state:<12} {address:<27}\n")
}

fn counters(session: &mut Session<'_>, only: Option<&str>, v4: bool, v6: bool) {
    let interfaces = session.system.interfaces();
    let shown: Vec<&Interface> =
        interfaces.iter().filter(|interface| only.is_none_or(|name| name == interface.name)).collect();
    let mut text = String::new();
    if v4 {
        text += "Name  Mtu  Net/Dest      Address        Ipkts  Ierrs Opkts  Oerrs Collis Queue \n";
        for interface in &shown {
            text += &row(
                interface,
                |address| match address {
                    (IpAddr::V4(ip), length) => {
                        let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                        Some((Ipv4Addr::from(u32::from(ip) & mask).to_string(), ip.to_string()))
                    }
                    _ => None,
                },
                [13, 14],
                " 0     ",
            );
        }
        text.push('\n');
    }
    if v6 {
        text += "Name  Mtu  Net/Dest                    Address                     Ipkts  Ierrs Opkts  Oerrs Collis \n";
        for interface in &shown {
            text += &row(
                interface,
                |address| match address {
                    (IpAddr::V6(ip), length) => {
                        let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                        Some((format!("{}/{length}", Ipv6Addr::from(u128::from(ip) & mask)), ip.to_string()))
                    }
                    _ => None,
                },
                [27, 27],
                "",
            );
        }
        text.push('\n');
    }
    session.out(text);
}

/// A row for each address of a family; the counters are the interface's. IPv4 has a last column of its own, for a queue.
fn row(
    interface: &Interface,
    of_family: impl Fn((IpAddr, u8)) -> Option<(String, String)>,
    [net_width, address_width]: [usize; 2],
    queue: &str,
) -> String {
    let [received, bad, sent, refused] = interface.counters;
    let addresses = interface.addresses.iter().filter_map(|address| of_family(address.address?));
    addresses
        .map(|(net, address)| {
            format!(
                "{:<5} {:<4} {net:<net_width$} {address:<address_width$} {received:<6} {bad:<5} {sent:<6} {refused:<5} {:<6}{queue}\n",
                interface.name, interface.mtu, 0
            )
        })
        .collect()
}
