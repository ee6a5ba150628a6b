//! `dladm show-linkprop`.

use super::known::{self, Known};
use super::linkprop::{self, PUBLIC, Shown, Why};
use super::{die, parse, usage};
use crate::getopt::Options;
use crate::ofmt::{Cell, Choice, Field, Table};
use crate::session::{Failure, Outcome, Session};

const OPTIONS: Options = Options {
    short: "p:cPo:",
    long: &[("prop", 'p'), ("parsable", 'c'), ("parseable", 'c'), ("persistent", 'P'), ("output", 'o')],
    operands_end: false,
};

const FIELDS: [Field; 6] =
    [("LINK", 13), ("PROPERTY", 16), ("PERM", 5), ("VALUE", 15), ("DEFAULT", 15), ("POSSIBLE", 20)];
const NAMES: [&str; 6] = ["LINK", "PROPERTY", "PERM", "VALUE", "DEFAULT", "POSSIBLE"];

pub(super) fn main(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let (options, operands) = parse(&OPTIONS, arguments, line)?;
    let (mut parsable, mut persistent, mut fields, mut names) = (false, false, None, Vec::new());
    for (letter, value) in options {
        match letter {
            'c' => parsable = true,
            'P' => persistent = true,
            'p' => names.extend(value.split(',').map(str::to_owned)),
            _ => fields = Some(value),
        }
    }
    if parsable && fields.is_none() {
        return Err(die("output fields must be specified in parsable mode"));
    }
    let links = match &operands[..] {
        [] => {
            let shown = |link: &Known| if persistent { link.line.is_some() } else { link.active.is_some() };
            known::all(session.system).into_iter().filter(shown).collect()
        }
        [name] => vec![
            known::find(session.system, name)
                .map_err(|why| die(format!("link {name} is not valid: {why}")))?,
        ],
        _ => return Err(usage()),
    };
    let choice = Choice {
        command: "dladm",
        fields: &FIELDS,
        default: &NAMES,
        chosen: fields.as_deref(),
        parsable,
        wrap: true,
    };
    let mut table = Table::new(session, &choice)?;
    let mut good = true;
    for link in &links {
        for name in wanted(link, &names, persistent) {
            match row(session, link, &name, persistent) {
                Ok(Some(shown)) => table.row(session, &cells(&link.name, &name, shown, parsable)),
                Ok(None) => {}
                Err(why) => {
                    good = false;
                    session.err(complaint(&link.name, &name, why));
                }
            }
        }
    }
    if good { Ok(()) } else { Err(Failure::silent()) }
}

fn complaint(link: &str, name: &str, why: Why) -> String {
    match why {
        Why::NoSuch => format!("dladm: warning: invalid link property '{name}'\n"),
        why => format!("dladm: warning: cannot get link property '{name}' for {link}: {}\n", why.status()),
    }
}

/// Private properties are shown when they are named, or when they are kept.
fn wanted(link: &Known, names: &[String], persistent: bool) -> Vec<String> {
    if !names.is_empty() {
        return names.to_vec();
    }
    if persistent {
        let kept = link.line.iter().flat_map(|line| line.properties());
        return kept.map(|(name, _)| name.to_owned()).collect();
    }
    let public = PUBLIC.iter().filter(|property| property.is_for(link));
    public.map(|property| property.name.to_owned()).collect()
}

fn row(session: &Session<'_>, link: &Known, name: &str, persistent: bool) -> Result<Option<Shown>, Why> {
    let now = linkprop::shown(session.system, link, name);
    if !persistent {
        return now.map(Some);
    }
    let kept = link.line.iter().flat_map(|line| line.properties()).find(|(known, _)| *known == name);
    let Some((_, value)) = kept else { return Ok(None) };
    // What the driver would say is shown when there is one to ask.
    let none = Shown {
        permission: "rw".into(),
        value: String::new(),
        default: String::new(),
        possible: String::new(),
    };
    Ok(Some(Shown { value: value.to_owned(), ..now.unwrap_or(none) }))
}

/// In columns an empty text is `--`, and a blank ends the last one.
fn cells(link: &str, name: &str, shown: Shown, parsable: bool) -> [Cell; 6] {
    let possible = match (parsable, shown.possible.is_empty()) {
        (true, _) => shown.possible,
        (false, true) => "-- ".to_owned(),
        (false, false) => shown.possible + " ",
    };
    [link.to_owned(), name.to_owned(), shown.permission, shown.value, shown.default, possible].map(Some)
}
