//! `dladm rename-link`.

use super::{die, known, parse, usage};
use crate::conf;
use crate::getopt::Options;
use crate::session::{Outcome, Session};
use crate::status;
use crate::system::System;

const OPTIONS: Options = Options { short: "R:", long: &[("root-dir", 'R')], operands_end: false };

pub(super) fn main(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let (options, operands) = parse(&OPTIONS, arguments, line)?;
    let [old, new] = &operands[..] else { return Err(usage()) };
    if !options.is_empty() {
        return Err(die("rename operation failed: operation not supported"));
    }
    if !known::is_valid_name(new) {
        return Err(die(format!("Invalid link name '{new}'")));
    }
    rename(session.system, old, new).map_err(|why| die(format!("rename operation failed: {why}")))
}

/// The daemon's entry, the link, the file, and what the file says lies over it.
fn rename(system: &dyn System, old: &str, new: &str) -> Result<(), &'static str> {
    let known = known::find(system, old)?;
    if known::find(system, new).is_ok() {
        return Err(status::EXISTS);
    }
    if !system.privileged() {
        return Err(status::DENIED);
    }
    let active = || match known.id {
        Some(id) => system.rename_datalink(id, new).map_err(status::of_errno),
        None => Ok(()),
    };
    let device = known.active.as_ref().filter(|_| known.physical).map(|active| active.mac.clone());
    let change = |lines: &mut Vec<conf::Line>| {
        if let Some(device) = &device
            && !lines.iter().any(|line| line.name == old)
        {
            lines.push(conf::Line::new(old, conf::CLASS_PHYSICAL));
            let line = lines.last_mut();
            line.into_iter().for_each(|line| line.set("devname", conf::Value::Text(device.clone())));
        }
        for line in lines.iter_mut() {
            if line.name == old {
                new.clone_into(&mut line.name);
            }
            if line.text_of("linkover") == Some(old) {
                line.set("linkover", conf::Value::Text(new.to_owned()));
            }
        }
    };
    conf::change_and(system, change, active, status::FAILED)
}
