//! `dladm show-part`.

use super::known::{self, Known};
use super::{Shown, die, parse, usage};
use crate::getopt::Options;
use crate::ofmt::{Cell, Choice, Field, Table};
use crate::part_ioctl;
use crate::session::{Outcome, Session};
use crate::status;
use crate::system::System;

const OPTIONS: Options = Options {
    short: "pPl:o:",
    long: &[("parsable", 'p'), ("parseable", 'p'), ("persistent", 'P'), ("link", 'l'), ("output", 'o')],
    operands_end: false,
};

const FIELDS: [Field; 5] = [("LINK", 13), ("PKEY", 6), ("OVER", 13), ("STATE", 9), ("FLAGS", 5)];
const NAMES: [&str; 5] = ["LINK", "PKEY", "OVER", "STATE", "FLAGS"];

pub(super) fn main(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let (options, operands) = parse(&OPTIONS, arguments, line)?;
    let (mut shown, mut over) = (Shown::default(), None);
    for (letter, value) in options {
        match letter {
            'p' => shown.parsable = true,
            'P' => shown.persistent = true,
            'l' => over = Some(value),
            _ => shown.fields = Some(value),
        }
    }
    let system = session.system;
    let named = match &operands[..] {
        [] => None,
        [name] => Some(
            known::find(system, name)
                .map_err(|why| die(format!("invalid partition link name '{name}': {why}")))?,
        ),
        _ => return Err(usage()),
    };
    if let Some(over) = &over {
        known::find(system, over).map_err(|why| die(format!("invalid link name '{over}': {why}")))?;
    }
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
        let cells = cells(session.system, &link, shown.persistent)
            .map_err(|why| die(format!("failed to show IB partition '{}': {why}", link.name)))?;
        table.row(session, &cells);
        return Ok(());
    }
    for link in known::all(session.system).iter().filter(|link| link.partition) {
        let Ok(cells) = cells(session.system, link, shown.persistent) else { continue };
        if over.is_none() || over == cells[2] {
            table.row(session, &cells);
        }
    }
    Ok(())
}

/// A partition as the driver has it, or as the file has it.
fn cells(system: &dyn System, link: &Known, persistent: bool) -> Result<[Cell; 5], &'static str> {
    if !link.partition {
        return Err(status::BAD_ARGUMENT);
    }
    let line = link.line.as_ref();
    let (pkey, over, forced) = if persistent {
        let line = line.ok_or(status::NOT_FOUND)?;
        (line.int("pkey").unwrap_or(0), line.text_of("linkover").map(str::to_owned), line.is_set("force"))
    } else {
        let id = link.id.ok_or(status::NOT_FOUND)?;
        let part = part_ioctl::partition(system, id)?;
        let forced = line.map_or(part.forced, |line| line.is_set("force"));
        (part.pkey.into(), known::name_of(system, part.port_link), forced)
    };
    let flags = if forced { "f---" } else { "----" };
    Ok([
        Some(link.name.clone()),
        Some(format!("{pkey:X}")),
        over,
        Some(known::state(system, &link.name)),
        Some(flags.to_owned()),
    ])
}
