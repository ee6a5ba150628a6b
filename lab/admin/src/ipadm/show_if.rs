//! `ipadm show-if`.

use lab_gldv3::LinkState;

use super::conf::{self, Line};
use super::{die, parse, usage};
use crate::getopt::Options;
use crate::ofmt::{Cell, Choice, Field, Table};
use crate::session::{Outcome, Session};
use crate::system::Interface;

const OPTIONS: Options = Options {
    short: "po:",
    long: &[("parsable", 'p'), ("parseable", 'p'), ("output", 'o')],
    operands_end: false,
};

const FIELDS: [Field; 5] = [("IFNAME", 11), ("CLASS", 10), ("STATE", 9), ("CURRENT", 13), ("PERSISTENT", 11)];
const NAMES: [&str; 5] = ["IFNAME", "CLASS", "STATE", "CURRENT", "PERSISTENT"];

pub(super) fn main(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let (options, operands) = parse(&OPTIONS, arguments, line)?;
    let parsable = options.iter().any(|(letter, _)| *letter == 'p');
    let fields = options.into_iter().rev().find(|(letter, _)| *letter == 'o').map(|(_, value)| value);
    if parsable && fields.is_none() {
        return Err(die("-p requires -o"));
    }
    let name = match &operands[..] {
        [] => None,
        [name] => Some(name.as_str()),
        _ => return Err(usage()),
    };
    let lines = conf::lines(session.system);
    let interfaces = session.system.interfaces();
    // What is in the file alone is disabled.
    let disabled = lines.iter().filter_map(|line| match line {
        Line::Interface { name, ipv6: false } if !interfaces.iter().any(|i| i.name == *name) => Some(name),
        _ => None,
    });
    let mut rows: Vec<[Cell; 5]> = interfaces.iter().map(|interface| cells(interface, &lines)).collect();
    rows.extend(disabled.map(|name| {
        let text = |text: &str| Some(text.to_owned());
        [text(name), text("IP"), text("disabled"), text("------------"), Some(persistent(name, &lines))]
    }));
    if let Some(name) = name {
        rows.retain(|row| row[0].as_deref() == Some(name));
        if rows.is_empty() {
            return Err(die(format!("cannot get information for interface(s): {}", super::NO_INTERFACE)));
        }
    }
    let choice = Choice {
        command: "ipadm",
        fields: &FIELDS,
        default: &NAMES,
        chosen: fields.as_deref(),
        parsable,
        wrap: false,
    };
    let mut table = Table::new(session, &choice)?;
    rows.iter().for_each(|row| table.row(session, row));
    Ok(())
}

fn cells(interface: &Interface, lines: &[Line]) -> [Cell; 5] {
    let up = interface.addresses.iter().any(|address| address.address.is_some());
    let (class, current) =
        if interface.is_loopback() { ("VIRTUAL", "-m-v------46") } else { ("IP", "bm--------46") };
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
        lines.iter().any(
            |line| matches!(line, Line::Interface { name: known, ipv6 } if known == name && *ipv6 == family),
        )
    };
    format!("-{}{}", if has(false) { '4' } else { '-' }, if has(true) { '6' } else { '-' })
}
