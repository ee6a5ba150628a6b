//! `ipadm create-if`.

use fakekernel::Errno;

use super::conf::{self, Line};
use super::{FAILED, NO_LINK, die, parse, text, usage};
use crate::getopt::Options;
use crate::session::{Outcome, Session};
use crate::system::System;

const OPTIONS: Options = Options { short: "t", long: &[("temporary", 't')], operands_end: false };

pub(super) fn main(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let (options, operands) = parse(&OPTIONS, arguments, line)?;
    let [name] = &operands[..] else { return Err(usage()) };
    let temporary = !options.is_empty();
    create(session.system, name, temporary).map_err(|why| die(format!("Could not create {name} : {why}")))
}

/// An interface for both families.
pub(super) fn create(system: &dyn System, name: &str, temporary: bool) -> Result<(), &'static str> {
    if !system.privileged() {
        return Err(text(Errno::EPERM));
    }
    if system.interfaces().iter().any(|interface| interface.name == name) {
        return Err("Interface already exists");
    }
    system.plumb(name).map_err(|errno| match errno {
        Errno::EEXIST => "Interface already exists",
        Errno::EPERM => text(errno),
        _ => NO_LINK,
    })?;
    if temporary {
        return Ok(());
    }
    conf::change(system, |lines| {
        let named = |ipv6| Line::Interface { name: name.to_owned(), ipv6 };
        lines.retain(|line| *line != named(false) && *line != named(true));
        lines.extend([named(false), named(true)]);
    })
    .map_err(|_| {
        // Nothing may be left of what could not be written down.
        let _ = system.unplumb(name);
        FAILED
    })
}
