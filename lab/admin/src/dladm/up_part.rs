//! `dladm up-part`: what the boot method calls.

use super::boot::up_partitions;
use super::{die, known, parse, usage};
use crate::getopt::Options;
use crate::session::{Outcome, Session};

const OPTIONS: Options = Options { short: "", long: &[], operands_end: false };

pub(super) fn main(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let (_, operands) = parse(&OPTIONS, arguments, line)?;
    let name = match &operands[..] {
        [] => None,
        [name] => {
            if known::find(session.system, name).is_err() {
                return Ok(());
            }
            Some(name.as_str())
        }
        _ => return Err(usage()),
    };
    let failures = up_partitions(session.system, name);
    match (name, failures.into_iter().next()) {
        (Some(name), Some((_, why))) => Err(die(format!("could not bring up IB partition '{name}': {why}"))),
        _ => Ok(()),
    }
}
