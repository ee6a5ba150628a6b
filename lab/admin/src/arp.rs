//! `arp(8)`: `-a`, and one host.

use std::net::IpAddr;

use crate::getopt::Options;
use crate::ifconfig::link_address;
use crate::netstat;
use crate::session::{Exit, Failure, Outcome, Session};
use crate::system::NeighbourState;

const OPTIONS: Options = Options { short: "an", long: &[], operands_end: true };

const USAGE: &str = "Usage: arp hostname\n       arp -a [-n]\n";

pub(crate) fn main(session: &mut Session<'_>, arguments: &[String]) -> Exit {
    let result = run(session, arguments);
    session.end(result)
}

fn run(session: &mut Session<'_>, arguments: &[String]) -> Outcome {
    let usage = || Failure { text: USAGE.to_owned(), exit: Exit::FAILURE };
    let (parsed, operands) = OPTIONS.parse(arguments);
    let mut all = false;
    for option in parsed {
        all |= option.map_err(|_| usage())?.0 == 'a';
    }
    match (&operands[..], all) {
        ([], true) => {
            netstat::media(session, true, false);
            Ok(())
        }
        ([host], false) => one(session, host),
        _ => Err(usage()),
    }
}

fn one(session: &mut Session<'_>, host: &str) -> Outcome {
    let address = host.parse().ok().or_else(|| session.system.resolve(host));
    let address: IpAddr =
        address.filter(IpAddr::is_ipv4).ok_or_else(|| Failure::line(format!("arp: {host}: unknown host")))?;
    let neighbours = session.system.neighbours();
    let Some(known) = neighbours.iter().find(|neighbour| neighbour.address == address) else {
        session.out(format!("{host} ({address}) -- no entry\n"));
        return Err(Failure::silent());
    };
    let place = known.link.map_or_else(|| "(incomplete)".to_owned(), |link| link_address(&link.0));
    let marks = if known.state == NeighbourState::Local { " permanent pub" } else { "" };
    session.out(format!("{host} ({address}) at {place}{marks}\n"));
    Ok(())
}
