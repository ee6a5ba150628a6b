//! `ipadm delete-addr`.

use fakekernel::Errno;

use super::{conf, die, parse, text, usage};
use crate::getopt::Options;
use crate::session::{Outcome, Session};
use crate::system::System;

const OPTIONS: Options = Options { short: "r", long: &[("release", 'r')], operands_end: false };

pub(super) fn main(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let (options, operands) = parse(&OPTIONS, arguments, line)?;
    let [object] = &operands[..] else { return Err(usage()) };
    let release = !options.is_empty();
    delete(session.system, object, release).map_err(|why| die(format!("could not delete address: {why}")))
}

fn delete(system: &dyn System, object: &str, release: bool) -> Result<(), &'static str> {
    if !system.privileged() {
        return Err(text(Errno::EPERM));
    }
    let kept = conf::lines(system).iter().any(|line| line.object() == Some(object));
    let active = || match system.remove_address(object, release) {
        Err(Errno::ENOENT) if kept => Ok(()),
        other => other.map_err(text),
    };
    conf::change_and(system, |lines| lines.retain(|line| line.object() != Some(object)), active)
}
