//! `dladm set-linkprop`.

use super::linkprop::{self, Why};
use super::{die, known, parse, usage};
use crate::conf::{self, CLASS_PHYSICAL, Line, Value};
use crate::session::{Failure, Outcome, Session};
use crate::status;
use crate::system::System;

pub(super) fn main(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let (options, operands) = parse(&linkprop::CHANGE, arguments, line)?;
    let (mut persistent, mut list) = (true, String::new());
    for (letter, value) in options {
        match letter {
            't' => persistent = false,
            'R' => return Err(die(format!("{} on {value}", status::NOT_SUPPORTED))),
            _ => list += &format!("{value},"),
        }
    }
    let [link] = &operands[..] else { return Err(usage()) };
    let properties = linkprop::parse_list(&list)
        .filter(|properties| !properties.iter().any(|(_, value)| value.is_empty()))
        .ok_or_else(|| die("invalid link properties specified"))?;
    if properties.is_empty() {
        return Err(die("link property must be specified"));
    }
    known::find(session.system, link).map_err(|why| die(format!("link {link} is not valid: {why}")))?;
    let mut good = true;
    for (name, text) in &properties {
        if let Err(why) = set(session.system, link, name, text, persistent) {
            good = false;
            session.err(complaint("set", link, name, why));
        }
    }
    if good { Ok(()) } else { Err(Failure::silent()) }
}

pub(super) fn complaint(verb: &str, link: &str, name: &str, why: Why) -> String {
    let said = match why {
        Why::NoSuch => format!("invalid link property '{name}'"),
        Why::OneOf(values) => format!("link property '{name}' must be one of: {values}"),
        Why::Status(status) => format!("cannot {verb} link property '{name}' on '{link}': {status}"),
    };
    format!("dladm: warning: {said}\n")
}

fn set(system: &dyn System, link: &str, name: &str, text: &str, persistent: bool) -> Result<(), Why> {
    let active = || linkprop::set_active(system, link, name, text);
    if persistent { keep(system, link, name, Some(text), active) } else { active() }
}

/// Does `act`, and writes the property into the link's line or takes it out. A partition without a line is a temporary one and gets
/// none.
pub(super) fn keep(
    system: &dyn System,
    link: &str,
    name: &str,
    text: Option<&str>,
    act: impl FnOnce() -> Result<(), Why>,
) -> Result<(), Why> {
    let known = known::find(system, link).map_err(Why::Status)?;
    if known.partition && known.line.is_none() {
        return act();
    }
    let device = known.active.as_ref().map(|active| active.mac.clone());
    let change = |lines: &mut Vec<Line>| {
        if !lines.iter().any(|line| line.name == link) && known.physical {
            let mut line = Line::new(link, CLASS_PHYSICAL);
            device.iter().for_each(|device| line.set("devname", Value::Text(device.clone())));
            lines.push(line);
        }
        for line in lines.iter_mut().filter(|line| line.name == link) {
            match text {
                Some(text) => line.set(name, Value::Text(text.to_owned())),
                None => line.clear(name),
            }
        }
    };
    conf::change_and(system, change, act, Why::Status(status::FAILED))
}
