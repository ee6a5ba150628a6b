//! `dladm create-part`: a link for a P_Key of a port.

use super::{die, known, linkprop, parse, usage};
use crate::conf::{self, CLASS_PARTITION, Line, Value};
use crate::getopt::Options;
use crate::part_ioctl;
use crate::session::{Outcome, Session};
use crate::status;
use crate::system::System;

const OPTIONS: Options = Options {
    short: "tfl:P:R:p:",
    long: &[
        ("temporary", 't'),
        ("force", 'f'),
        ("link", 'l'),
        ("pkey", 'P'),
        ("root-dir", 'R'),
        ("prop", 'p'),
    ],
    operands_end: false,
};

/// The longest list of properties.
const PROPERTIES: usize = 256;

/// What is to be made.
pub(super) struct Request<'a> {
    pub(super) over: &'a str,
    pub(super) name: &'a str,
    pub(super) pkey: u16,
    pub(super) force: bool,
    pub(super) persistent: bool,
    pub(super) properties: &'a [(String, String)],
}

pub(super) fn main(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let (options, operands) = parse(&OPTIONS, arguments, line)?;
    let (mut persistent, mut force) = (true, false);
    let (mut over, mut pkey, mut root, mut properties) = (None, None, None, Vec::new());
    for (letter, value) in options {
        match letter {
            't' => persistent = false,
            'f' => force = true,
            'l' => over = Some(value),
            'P' => pkey = Some(parse_pkey(&value).ok_or_else(|| die("Invalid pkey"))?),
            'R' => root = Some(value),
            _ => properties.push(value),
        }
    }
    let (Some(over), [name]) = (over, &operands[..]) else { return Err(usage()) };
    if !known::is_valid_name(name) {
        return Err(die(format!("Invalid link name '{name}'")));
    }
    let Some(pkey) = pkey.filter(|pkey| *pkey != 0) else { return Err(usage()) };
    if let Some(root) = root {
        return super::boot::postpone(session, "create-part", arguments, &root);
    }
    let list = properties.iter().fold(String::new(), |list, one| list + one + ",");
    if list.len() >= PROPERTIES {
        return Err(die(format!("property list too long '{list}'")));
    }
    if known::find(session.system, &over).is_err() {
        return Err(die(format!("invalid link name '{over}'")));
    }
    let properties = linkprop::parse_list(&list).ok_or_else(|| die("invalid IB partition property"))?;
    let request = Request { over: &over, name, pkey, force, persistent, properties: &properties };
    create(session.system, &request)
        .map_err(|why| die(format!("partition {pkey:x} creation over {over} failed: {why}")))
}

/// Hexadecimal, with or without `0x`, and nothing behind it.
fn parse_pkey(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    u16::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
}

/// `dladm_part_create`: everything, or nothing.
pub(super) fn create(system: &dyn System, request: &Request<'_>) -> Result<(), &'static str> {
    if request.pkey <= 0x8000 {
        return Err(status::INVALID_PKEY);
    }
    let over = known::find(system, request.over)?;
    if !over.infiniband || !over.physical {
        return Err(status::NOT_SUPPORTED);
    }
    let port = over.active.ok_or(status::NOT_FOUND)?;
    if !system.privileged() {
        return Err(status::DENIED);
    }
    if known::find(system, request.name).is_ok_and(|known| known.id.is_none() && request.persistent) {
        return Err(status::EXISTS);
    }
    let id = system.create_datalink(request.name, true, &[]).map_err(status::of_errno)?;
    let undo = |why| {
        system.destroy_datalink(id);
        why
    };
    part_ioctl::create(system, (port.id, port.instance), id, request.pkey, request.force).map_err(undo)?;
    complete(system, request).map_err(|why| {
        // Nobody has opened it, so nobody holds it.
        let _ = part_ioctl::delete(system, id);
        undo(why)
    })
}

/// What comes after the link is there: the file, and the properties.
fn complete(system: &dyn System, request: &Request<'_>) -> Result<(), &'static str> {
    for (name, text) in request.properties {
        linkprop::set_active(system, request.name, name, text).map_err(|why| why.status())?;
    }
    if !request.persistent {
        return Ok(());
    }
    let mut line = Line::new(request.name, CLASS_PARTITION);
    line.set("linkover", Value::Text(request.over.to_owned()));
    line.set("pkey", Value::Int(request.pkey.into()));
    if request.force {
        line.set("force", Value::Boolean(true));
    }
    for (name, text) in request.properties {
        line.set(name, Value::Text(text.clone()));
    }
    conf::put(system, &line).map_err(|_| status::FAILED)
}
