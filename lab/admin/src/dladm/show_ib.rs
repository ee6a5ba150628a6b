//! `dladm show-ib`.

use super::known::{self, Known};
use super::{Shown, die, parse, usage};
use crate::getopt::Options;
use crate::ofmt::{Cell, Choice, Field, Table};
use crate::part_ioctl;
use crate::session::{Outcome, Session};
use crate::status;
use crate::system::System;

const OPTIONS: Options = Options {
    short: "po:",
    long: &[("parsable", 'p'), ("parseable", 'p'), ("output", 'o')],
    operands_end: false,
};

const FIELDS: [Field; 6] =
    [("LINK", 13), ("HCAGUID", 16), ("PORTGUID", 16), ("PORT", 5), ("STATE", 7), ("PKEYS", 18)];
const NAMES: [&str; 6] = ["LINK", "HCAGUID", "PORTGUID", "PORT", "STATE", "PKEYS"];

pub(super) fn main(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let (options, operands) = parse(&OPTIONS, arguments, line)?;
    let mut shown = Shown::default();
    for (letter, value) in options {
        match letter {
            'p' => shown.parsable = true,
            _ => shown.fields = Some(value),
        }
    }
    let named = match &operands[..] {
        [] => None,
        [name] => Some(
            known::find(session.system, name)
                .map_err(|why| die(format!("invalid IB port name '{name}': {why}")))?,
        ),
        _ => return Err(usage()),
    };
    let shown = shown.checked()?;
    let choice = Choice {
        command: "dladm",
        fields: &FIELDS,
        default: &NAMES,
        chosen: shown.fields.as_deref(),
        parsable: shown.parsable,
        wrap: false,
    };
    let mut table = Table::new(session, &choice)?;
    if let Some(link) = named {
        let cells = cells(session.system, &link)
            .map_err(|why| die(format!("failed to show IB Phys link '{}': {why}", link.name)))?;
        table.row(session, &cells);
        return Ok(());
    }
    for link in known::all(session.system).iter().filter(|link| link.physical && link.infiniband) {
        if let Ok(cells) = cells(session.system, link) {
            table.row(session, &cells);
        }
    }
    Ok(())
}

fn cells(system: &dyn System, link: &Known) -> Result<[Cell; 6], &'static str> {
    if !link.physical || !link.infiniband {
        return Err(status::BAD_ARGUMENT);
    }
    let active = link.active.as_ref().ok_or(status::NOT_FOUND)?;
    let port = part_ioctl::port(system, link.id.ok_or(status::NOT_FOUND)?, active.instance)?;
    Ok([
        Some(link.name.clone()),
        Some(format!("{:X}", port.hca_guid)),
        Some(format!("{:X}", port.port_guid)),
        Some(port.port.to_string()),
        Some(known::state(system, &link.name)),
        Some(list(&port.pkeys)),
    ])
}

/// Entries of a P_Key table that name a partition. Where the first is empty the list begins with a comma.
fn list(pkeys: &[u16]) -> String {
    let mut text = String::new();
    for (at, pkey) in pkeys.iter().enumerate().filter(|(_, pkey)| **pkey & 0x7fff != 0) {
        if at > 0 {
            text.push(',');
        }
        text += &format!("{pkey:X}");
    }
    text
}
