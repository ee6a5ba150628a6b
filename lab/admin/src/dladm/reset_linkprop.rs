//! `dladm reset-linkprop`.

use super::linkprop::{self, PUBLIC, Why};
use super::set_linkprop::{complaint, keep};
use super::{die, known, parse, usage};
use crate::session::{Failure, Outcome, Session};
use crate::status;

pub(super) fn main(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let (options, operands) = parse(&linkprop::CHANGE, arguments, line)?;
    let (mut persistent, mut names) = (true, Vec::new());
    for (letter, value) in options {
        match letter {
            't' => persistent = false,
            'R' => return Err(die(format!("{} on {value}", status::NOT_SUPPORTED))),
            _ => names.extend(value.split(',').map(str::to_owned)),
        }
    }
    let [link] = &operands[..] else { return Err(usage()) };
    let found =
        known::find(session.system, link).map_err(|why| die(format!("link {link} is not valid: {why}")))?;
    let all = names.is_empty();
    if all {
        names = PUBLIC
            .iter()
            .filter(|property| property.is_for(&found))
            .map(|property| property.name.to_owned())
            .collect();
        let kept = found.line.iter().flat_map(|line| line.properties());
        names.extend(kept.map(|(name, _)| name.to_owned()).filter(|name| name.starts_with('_')));
    }
    let mut good = true;
    for name in &names {
        let active = || linkprop::reset_active(session.system, &found, name);
        let reset = if persistent { keep(session.system, link, name, None, active) } else { active() };
        match reset {
            // What cannot be set has nothing to go back to.
            Err(Why::Status("read-only property" | status::NOT_SUPPORTED)) if all => {}
            Err(why) => {
                good = false;
                session.err(complaint("reset", link, name, why));
            }
            Ok(()) => {}
        }
    }
    if good { Ok(()) } else { Err(Failure::silent()) }
}
