//! `ipadm show-if`.

use lab_gldv3::LinkState;

use super::conf::{self, Line};
use super::die;
use super::shown::Shown;
use crate::ofmt::{Cell, Field, Table};
use crate::session::{Outcome, Session};
use crate::system::{Address, Class, Interface};

const FIELDS: [Field; 5] = [("IFNAME", 11), ("CLASS", 10), ("STATE", 9), ("CURRENT", 13), ("PERSISTENT", 11)];
const NAMES: [&str; 5] = ["IFNAME", "CLASS", "STATE", "CURRENT", "PERSISTENT"];

pub(super) fn main(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let shown = Shown::read(arguments, line)?;
    let lines = conf::lines(session.system);
    let interfaces = session.system.interfaces();
    // What is in the file alone is disabled.
    let absent = |name: &String| !interfaces.iter().any(|interface| interface.name == *name);
    let disabled = lines.iter().filter_map(|line| match line {
        Line::Interface { name, ipv6: false } if absent(name) => Some((name, "IP")),
        Line::Group { name, .. } if absent(name) => Some((name, "IPMP")),
        _ => None,
    });
    let mut rows: Vec<[Cell; 5]> = interfaces.iter().map(|interface| cells(interface, &lines)).collect();
    rows.extend(disabled.map(|(name, class)| {
        let text = |text: &str| Some(text.to_owned());
        [text(name), text(class), text("disabled"), text("------------"), Some(persistent(name, &lines))]
    }));
    if let Some(name) = &shown.name {
        rows.retain(|row| row[0].as_ref() == Some(name));
        if rows.is_empty() {
            return Err(die(format!("cannot get information for interface(s): {}", super::NO_INTERFACE)));
        }
    }
    let mut table = Table::new(session, &shown.choice(&FIELDS, &NAMES))?;
    rows.iter().for_each(|row| table.row(session, row));
    Ok(())
}

fn cells(interface: &Interface, lines: &[Line]) -> [Cell; 5] {
    let up = interface.addresses.iter().any(Address::is_up);
    let (class, current) = match interface.class {
        Class::Loopback => ("VIRTUAL", "-m-v------46"),
        Class::Ip | Class::Under { .. } => ("IP", "bm--------46"),
        Class::Ipmp { .. } => ("IPMP", "bm--I-----46"),
    };
    // What is under a group is up without an address of its own.
    let up = up || matches!(interface.class, Class::Under { .. });
    let state = match (interface.link, up) {
        (LinkState::Down, _) if !interface.is_loopback() => "failed",
        (_, true) => "ok",
        _ => "down",
    };
    let persistent = persistent(&interface.name, lines);
    [interface.name.clone(), class.to_owned(), state.to_owned(), current.to_owned(), persistent].map(Some)
}

/// `s`, `4` and `6`, or a dash for each.
fn persistent(name: &str, lines: &[Line]) -> String {
    let has = |family: bool| {
        lines.iter().any(|line| match line {
            Line::Interface { name: known, ipv6 } => known == name && *ipv6 == family,
            Line::Group { name: known, .. } => known == name,
            Line::Address { .. } => false,
        })
    };
    format!("-{}{}", if has(false) { '4' } else { '-' }, if has(true) { '6' } else { '-' })
}
