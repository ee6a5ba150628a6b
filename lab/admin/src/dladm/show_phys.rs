//! `dladm show-phys`.

use fakekernel::genunix::{KstatId, KstatValue};

use super::known::{self, Known};
use super::{Shown, die, parse, usage};
use crate::getopt::Options;
use crate::ofmt::{Cell, Choice, Field, Table};
use crate::session::{Failure, Outcome, Session};
use crate::status;
use crate::system::System;

const OPTIONS: Options = Options {
    short: "pPo:mH",
    long: &[
        ("parsable", 'p'),
        ("parseable", 'p'),
        ("persistent", 'P'),
        ("output", 'o'),
        ("mac-address", 'm'),
        ("ring-resources", 'H'),
    ],
    operands_end: false,
};

const FIELDS: [Field; 7] =
    [("LINK", 13), ("MEDIA", 21), ("STATE", 11), ("SPEED", 7), ("DUPLEX", 10), ("DEVICE", 13), ("FLAGS", 7)];
const ACTIVE: [&str; 6] = ["LINK", "MEDIA", "STATE", "SPEED", "DUPLEX", "DEVICE"];
const PERSISTENT: [&str; 4] = ["LINK", "DEVICE", "MEDIA", "FLAGS"];
const ADDRESSES: [Field; 5] = [("LINK", 13), ("SLOT", 9), ("ADDRESS", 19), ("INUSE", 5), ("CLIENT", 13)];
const RINGS: [Field; 4] = [("LINK", 13), ("RINGTYPE", 9), ("RINGS", 21), ("CLIENTS", 24)];

pub(super) fn main(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let (options, operands) = parse(&OPTIONS, arguments, line)?;
    let (mut shown, mut addresses, mut rings) = (Shown::default(), false, false);
    for (letter, value) in options {
        match letter {
            'p' => shown.parsable = true,
            'P' => shown.persistent = true,
            'm' => addresses = true,
            'H' => rings = true,
            _ => shown.fields = Some(value),
        }
    }
    if addresses && rings {
        return Err(die("-m cannot combine with -H"));
    }
    if addresses && shown.persistent {
        return Err(die("-m not compatible with -P"));
    }
    if shown.parsable && shown.fields.as_deref().is_some_and(|fields| fields.eq_ignore_ascii_case("all")) {
        return Err(die("\"-o all\" is invalid with -p"));
    }
    let shown = shown.checked()?;
    let name = match &operands[..] {
        [] => None,
        [name] => Some(name.as_str()),
        _ => return Err(usage()),
    };
    let links = links(session, name, shown.persistent)?;
    let names = |fields: &'static [Field]| fields.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let (fields, default): (&[Field], _) = match (addresses, rings, shown.persistent) {
        (true, ..) => (&ADDRESSES, names(&ADDRESSES)),
        (_, true, _) => (&RINGS, names(&RINGS)),
        (.., true) => (&FIELDS, PERSISTENT.to_vec()),
        _ => (&FIELDS, ACTIVE.to_vec()),
    };
    let choice = Choice {
        command: "dladm",
        fields,
        default: &default,
        chosen: shown.fields.as_deref(),
        parsable: shown.parsable,
        wrap: false,
    };
    let mut table = Table::new(session, &choice)?;
    for link in &links {
        let row = match (addresses, rings) {
            (true, _) => address(link).to_vec(),
            (_, true) => continue, // A driver without rings has no row.
            _ => cells(session.system, link).to_vec(),
        };
        table.row(session, &row);
    }
    Ok(())
}

fn links(session: &Session<'_>, name: Option<&str>, persistent: bool) -> Result<Vec<Known>, Failure> {
    // The daemon remembers a device for good once it was there.
    let shown = |known: &Known| known.physical && (persistent || known.active.is_some());
    let Some(name) = name else {
        return Ok(known::all(session.system).into_iter().filter(shown).collect());
    };
    let known =
        known::find(session.system, name).map_err(|why| die(format!("link {name} is not valid: {why}")))?;
    if !known.physical {
        return Err(die(format!("failed to show physical link {name}: {}", status::BAD_ARGUMENT)));
    }
    if shown(&known) {
        return Ok(vec![known]);
    }
    Err(die(format!("failed to show physical link {name}: {}", status::NOT_FOUND)))
}

fn speed(system: &dyn System, link: &str) -> Option<u64> {
    let id = KstatId { module: "link".into(), instance: 0, name: link.into() };
    let values = system.read_kstat(&id).ok()?.values;
    values.into_iter().find_map(|(name, value)| match value {
        KstatValue::U64(speed) if name == "ifspeed" => Some(speed / 1_000_000),
        _ => None,
    })
}

fn cells(system: &dyn System, link: &Known) -> [Cell; 7] {
    let device = match (&link.active, &link.line) {
        (Some(active), _) => Some(active.mac.clone()),
        (None, line) => line.as_ref().and_then(|line| line.text_of("devname").map(str::to_owned)),
    };
    let media = if link.infiniband { "Infiniband" } else { "Ethernet" };
    [
        Some(link.name.clone()),
        Some(media.to_owned()),
        Some(known::state(system, &link.name)),
        speed(system, &link.name).map(|speed| speed.to_string()),
        Some("unknown".to_owned()),
        device,
        Some(if link.active.is_some() { "-----" } else { "r----" }.to_owned()),
    ]
}

/// A port's address is zero: it is no client's.
fn address(link: &Known) -> [Cell; 5] {
    [link.name.as_str(), "primary", "unknown", "no", ""].map(|text| Some(text.to_owned()))
}
