//! `ipadm delete-if`.

use fakekernel::Errno;

use super::{NO_INTERFACE, conf, die, parse, text, usage};
use crate::getopt::Options;
use crate::session::{Outcome, Session};
use crate::system::System;

const OPTIONS: Options = Options { short: "", long: &[], operands_end: false };

pub(super) fn main(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let (_, operands) = parse(&OPTIONS, arguments, line)?;
    let [name] = &operands[..] else { return Err(usage()) };
    delete(session.system, name).map_err(|why| die(format!("Could not delete {name}: {why}")))
}

/// The interface, its addresses, and their lines.
pub(super) fn delete(system: &dyn System, name: &str) -> Result<(), &'static str> {
    if !system.privileged() {
        return Err(text(Errno::EPERM));
    }
    let kept = conf::lines(system).iter().any(|line| line.interface() == name);
    let active = || match system.unplumb(name) {
        Err(Errno::ENXIO) if kept => Ok(()),
        Err(Errno::ENXIO) => Err(NO_INTERFACE),
        other => other.map_err(text),
    };
    conf::change_and(system, |lines| lines.retain(|line| line.interface() != name), active)
}
