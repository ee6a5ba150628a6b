//! `dladm delete-part`.

use super::{die, known, parse, usage};
use crate::conf;
use crate::getopt::Options;
use crate::part_ioctl;
use crate::session::{Outcome, Session};
use crate::status;
use crate::system::System;

const OPTIONS: Options =
    Options { short: "tR:", long: &[("temporary", 't'), ("root-dir", 'R')], operands_end: false };

pub(super) fn main(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let (options, operands) = parse(&OPTIONS, arguments, line)?;
    let (mut persistent, mut root) = (true, None);
    for (letter, value) in options {
        match letter {
            't' => persistent = false,
            _ => root = Some(value),
        }
    }
    let [name] = &operands[..] else { return Err(usage()) };
    if let Some(root) = root {
        return super::boot::postpone(session, "delete-part", arguments, &root);
    }
    if known::find(session.system, name).is_err() {
        return Err(die(format!("invalid link name '{name}'")));
    }
    delete(session.system, name, persistent)
        .map_err(|why| die(format!("{name}: partition deletion failed: {why}")))
}

/// `dladm_part_delete`
pub(super) fn delete(system: &dyn System, name: &str, persistent: bool) -> Result<(), &'static str> {
    let known = known::find(system, name)?;
    if !known.partition {
        return Err(status::BAD_ARGUMENT);
    }
    if !system.privileged() {
        return Err(status::DENIED);
    }
    let active = || match known.id {
        Some(id) => {
            match part_ioctl::delete(system, id) {
                Err(status::NOT_FOUND) if known.line.is_some() => {}
                other => other?,
            }
            system.destroy_datalink(id);
            Ok(())
        }
        None if persistent => Ok(()),
        None => Err(status::NOT_FOUND),
    };
    if !persistent {
        return active();
    }
    conf::change_and(system, |lines| lines.retain(|line| line.name != name), active, status::FAILED)
}
