//! `ipmpstat(8)`: addresses, groups and interfaces of IPMP. There are no probes, so no targets either.

use lab_gldv3::LinkState;

use crate::getopt::{Options, Wrong};
use crate::ofmt::{Cell, Choice, Field, Table};
use crate::session::{Exit, Failure, Outcome, Session};
use crate::system::{Group, GroupMember};

const OPTIONS: Options = Options { short: "no:Pagipt", long: &[], operands_end: true };
const USAGE: &str = "usage: ipmpstat [-n] [-o <field> [-P]] -a|-g|-i|-p|-t\n";

const ADDRESS: [Field; 5] = [("ADDRESS", 26), ("STATE", 7), ("GROUP", 12), ("INBOUND", 12), ("OUTBOUND", 23)];
const GROUP: [Field; 5] = [("GROUP", 12), ("GROUPNAME", 12), ("STATE", 10), ("FDT", 10), ("INTERFACES", 30)];
const INTERFACE: [Field; 7] = [
    ("INTERFACE", 12),
    ("ACTIVE", 8),
    ("GROUP", 12),
    ("FLAGS", 10),
    ("LINK", 10),
    ("PROBE", 10),
    ("STATE", 10),
];

/// The rows of a group in one of the modes.
type Rows = fn(&Group) -> Vec<Vec<Cell>>;

pub(crate) fn main(session: &mut Session<'_>, arguments: &[String]) -> Exit {
    let result = run(session, arguments);
    session.end(result)
}

fn usage() -> Failure {
    Failure { text: USAGE.to_owned(), exit: Exit::FAILURE }
}

fn run(session: &mut Session<'_>, arguments: &[String]) -> Outcome {
    let (options, operands) = OPTIONS.parse(arguments);
    let options: Vec<(char, String)> =
        options.into_iter().collect::<Result<_, Wrong>>().map_err(|_| usage())?;
    let has = |wanted: char| options.iter().any(|(letter, _)| *letter == wanted);
    let modes: Vec<char> = "agipt".chars().filter(|mode| has(*mode)).collect();
    let ([mode], []) = (&modes[..], &operands[..]) else { return Err(usage()) };
    let chosen = options.iter().find(|(letter, _)| *letter == 'o').map(|(_, fields)| fields.as_str());
    let parsable = has('P');
    if parsable && chosen.is_none() {
        return Err(Failure::line("ipmpstat: output field list (-o) required in parsable output mode"));
    }
    let (fields, of): (&[Field], Rows) = match mode {
        'a' => (&ADDRESS, addresses),
        'g' => (&GROUP, group),
        'i' => (&INTERFACE, interfaces),
        _ => return Err(Failure::line("ipmpstat: no interfaces with probe-based failure detection")),
    };
    let default: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let choice = Choice { command: "ipmpstat", fields, default: &default, chosen, parsable, wrap: false };
    let mut table = Table::new(session, &choice)?;
    for row in session.system.groups().iter().flat_map(of) {
        table.row(session, &row);
    }
    Ok(())
}

fn cells<const N: usize>(texts: [String; N]) -> Vec<Cell> {
    texts.into_iter().map(Some).collect()
}

/// Inbound and outbound are one: what has an address as its source leaves where it is served.
fn addresses(group: &Group) -> Vec<Vec<Cell>> {
    let row = |address: &crate::system::GroupAddress| {
        let member = address.member.clone().unwrap_or_default();
        cells([address.address.to_string(), "up".to_owned(), group.name.clone(), member.clone(), member])
    };
    group.addresses.iter().map(row).collect()
}

/// Active members first, then failed ones in brackets.
fn group(group: &Group) -> Vec<Vec<Cell>> {
    let (active, failed): (Vec<&GroupMember>, Vec<&GroupMember>) =
        group.members.iter().partition(|member| member.active);
    let state = match (active.is_empty(), failed.is_empty()) {
        (false, true) => "ok",
        (false, false) => "degraded",
        (true, _) => "failed",
    };
    let names = active.iter().map(|member| member.name.clone());
    let names: Vec<String> = names.chain(failed.iter().map(|member| format!("[{}]", member.name))).collect();
    let name = || group.name.clone();
    vec![cells([name(), name(), state.to_owned(), String::new(), names.join(" ")])]
}

fn interfaces(group: &Group) -> Vec<Vec<Cell>> {
    let row = |member: &GroupMember| {
        let link = match member.link {
            LinkState::Up => "up",
            LinkState::Down => "down",
            LinkState::Unknown => "unknown",
        };
        // Inactive, standby, IPv4 multicast, broadcast, IPv6 multicast, down, hardware address of another.
        let flags = if member.nominated { "--mbM--" } else { "-------" };
        let active = if member.active { "yes" } else { "no" };
        let state = if member.active { "ok" } else { "failed" };
        let texts = [&member.name, active, &group.name, flags, link, "disabled", state];
        cells(texts.map(str::to_owned))
    };
    group.members.iter().map(row).collect()
}
