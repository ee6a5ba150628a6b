//! `dladm show-link`.

use std::time::Duration;

use fakekernel::genunix::{KstatId, KstatValue};

use super::known::{self, Known};
use super::{Shown, die, parse, twice, usage};
use crate::getopt::Options;
use crate::ofmt::{Cell, Choice, Field, Table};
use crate::part_ioctl;
use crate::session::{Failure, Outcome, Session};
use crate::status;
use crate::system::System;

const OPTIONS: Options = Options {
    short: "pPo:si:",
    long: &[
        ("statistics", 's'),
        ("continuous", 'S'),
        ("interval", 'i'),
        ("parsable", 'p'),
        ("parseable", 'p'),
        ("persistent", 'P'),
        ("output", 'o'),
    ],
    operands_end: false,
};

const FIELDS: [Field; 6] =
    [("LINK", 12), ("CLASS", 10), ("MTU", 7), ("STATE", 9), ("BRIDGE", 11), ("OVER", 30)];
const PERSISTENT: [&str; 4] = ["LINK", "CLASS", "BRIDGE", "OVER"];
const ALL: [&str; 6] = ["LINK", "CLASS", "MTU", "STATE", "BRIDGE", "OVER"];

const COUNTED: [Field; 7] = [
    ("LINK", 15),
    ("IPACKETS", 10),
    ("RBYTES", 8),
    ("IERRORS", 10),
    ("OPACKETS", 12),
    ("OBYTES", 12),
    ("OERRORS", 8),
];
const COUNTED_NAMES: [&str; 7] = ["LINK", "IPACKETS", "RBYTES", "IERRORS", "OPACKETS", "OBYTES", "OERRORS"];
/// Where the kstat has what the columns show.
const COUNTERS: [&str; 6] = ["ipackets64", "rbytes64", "ierrors", "opackets64", "obytes64", "oerrors"];

#[derive(Default)]
struct Wanted {
    shown: Shown,
    statistics: bool,
    interval: Option<Duration>,
}

pub(super) fn main(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let (options, operands) = parse(&OPTIONS, arguments, line)?;
    let wanted = wanted(options)?;
    let name = match &operands[..] {
        [] => None,
        [name] => Some(name.as_str()),
        _ => return Err(usage()),
    };
    let links = links(session, name, wanted.shown.persistent)?;
    if wanted.statistics {
        statistics(session, &wanted, &links, name)
    } else {
        show(session, &wanted, &links)
    }
}

fn wanted(options: Vec<(char, String)>) -> Result<Wanted, Failure> {
    let mut wanted = Wanted::default();
    for (letter, value) in options {
        let again = match letter {
            'p' => std::mem::replace(&mut wanted.shown.parsable, true),
            'P' => std::mem::replace(&mut wanted.shown.persistent, true),
            's' => std::mem::replace(&mut wanted.statistics, true),
            'o' => {
                wanted.shown.fields = Some(value);
                false
            }
            _ => {
                let seconds = value.parse().ok().filter(|seconds| *seconds > 0);
                let seconds = seconds.ok_or_else(|| die(format!("invalid interval value '{value}'")))?;
                wanted.interval.replace(Duration::from_secs(seconds)).is_some()
            }
        };
        if again {
            return Err(twice(letter));
        }
    }
    let fields = wanted.shown.fields.as_deref();
    if wanted.interval.is_some() && !wanted.statistics {
        return Err(die("the option -i can be used only with -s"));
    }
    if wanted.statistics && wanted.shown.persistent {
        return Err(die("the option -P cannot be used with -s"));
    }
    if wanted.shown.parsable && fields.is_some_and(|fields| fields.eq_ignore_ascii_case("all")) {
        return Err(die("\"-o all\" is invalid with -p"));
    }
    wanted.shown = wanted.shown.checked()?;
    Ok(wanted)
}

fn links(session: &Session<'_>, name: Option<&str>, persistent: bool) -> Result<Vec<Known>, Failure> {
    let shown = |known: &Known| if persistent { known.line.is_some() } else { known.active.is_some() };
    let Some(name) = name else {
        return Ok(known::all(session.system).into_iter().filter(shown).collect());
    };
    let known =
        known::find(session.system, name).map_err(|why| die(format!("link {name} is not valid: {why}")))?;
    if shown(&known) {
        Ok(vec![known])
    } else {
        Err(die(format!("failed to show link {name}: {}", status::NOT_FOUND)))
    }
}

fn show(session: &mut Session<'_>, wanted: &Wanted, links: &[Known]) -> Outcome {
    let choice = Choice {
        command: "dladm",
        fields: &FIELDS,
        default: if wanted.shown.persistent { &PERSISTENT } else { &ALL },
        chosen: wanted.shown.fields.as_deref(),
        parsable: wanted.shown.parsable,
        wrap: true,
    };
    let mut table = Table::new(session, &choice)?;
    for link in links {
        let cells = cells(session.system, link, wanted.shown.persistent);
        table.row(session, &cells);
    }
    Ok(())
}

fn cells(system: &dyn System, link: &Known, persistent: bool) -> [Cell; 6] {
    let text = |text: &str| Some(text.to_owned());
    let class = if link.partition { "part" } else { "phys" };
    let over = match (link.partition, link.id) {
        (false, _) => text(""),
        (true, Some(id)) if !persistent => {
            part_ioctl::partition(system, id).ok().and_then(|part| known::name_of(system, part.port_link))
        }
        (true, _) => link.line.as_ref().and_then(|line| line.text_of("linkover").map(str::to_owned)),
    };
    let mtu = link.active.as_ref().map(|active| active.max_sdu.to_string());
    let state = known::state(system, &link.name);
    [text(&link.name), text(class), mtu, Some(state), text(""), over]
}

fn counters(system: &dyn System, link: &str) -> Option<[u64; 6]> {
    let id = KstatId { module: "link".into(), instance: 0, name: link.into() };
    let values = system.read_kstat(&id).ok()?.values;
    let named = |name: &str| match values.iter().find(|(known, _)| known == name) {
        Some((_, KstatValue::U64(value))) => *value,
        Some((_, KstatValue::U32(value))) => u64::from(*value),
        _ => 0,
    };
    Some(COUNTERS.map(named))
}

/// The first row counts since the link came, later ones since the row before.
fn statistics(session: &mut Session<'_>, wanted: &Wanted, links: &[Known], name: Option<&str>) -> Outcome {
    if wanted.interval.is_some() && name.is_none() {
        return Err(die("the option -i requires a link"));
    }
    let choice = Choice {
        command: "dladm",
        fields: &COUNTED,
        default: &COUNTED_NAMES,
        chosen: wanted.shown.fields.as_deref(),
        parsable: wanted.shown.parsable,
        wrap: false,
    };
    let mut table = Table::new(session, &choice)?;
    let mut before = [0; 6];
    loop {
        for link in links {
            let now = counters(session.system, &link.name);
            let mut cells = vec![Some(link.name.clone())];
            let since = now.map(|now| std::array::from_fn::<_, 6, _>(|at| now[at].wrapping_sub(before[at])));
            cells.extend((0..6).map(|at| since.map(|since| since[at].to_string())));
            table.row(session, &cells);
            if wanted.interval.is_some() {
                before = now.unwrap_or(before);
            }
        }
        match wanted.interval {
            Some(interval) if !session.system.wait(interval) => {}
            _ => return Ok(()),
        }
    }
}
