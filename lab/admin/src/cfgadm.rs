//! `cfgadm(8)` with the attachment points of InfiniBand.

use crate::getopt::Options;
use crate::services;
use crate::session::{Exit, Failure, Outcome, Session};

const OPTIONS: Options = Options { short: "alo:x:", long: &[], operands_end: true };

const USAGE: &str =
    "Usage:\n\tcfgadm [-o hardware_opts] -x function ap_id [ap_id...]\n\tcfgadm [-a] [-l] [ap_id...]\n";

pub(crate) fn main(session: &mut Session<'_>, arguments: &[String]) -> Exit {
    let result = run(session, arguments);
    session.end(result)
}

fn run(session: &mut Session<'_>, arguments: &[String]) -> Outcome {
    let (parsed, operands) = OPTIONS.parse(arguments);
    let usage = || Failure { text: USAGE.to_owned(), exit: Exit::USAGE };
    let (mut all, mut function, mut hardware) = (false, None, String::new());
    for option in parsed {
        match option.map_err(|_| usage())? {
            ('x', name) => function = Some(name),
            ('o', options) => hardware = options,
            (letter, _) => all |= letter == 'a',
        }
    }
    if let Some(function) = function {
        if operands.is_empty() {
            return Err(usage());
        }
        if operands != ["ib"] {
            return Err(Failure::line("cfgadm: Attachment point not found"));
        }
        return services::run(session, &function, &hardware);
    }
    let points = points(session, all || !operands.is_empty());
    let mut text =
        format!("{:<30} {:<12} {:<12} {:<12} {}\n", "Ap_Id", "Type", "Receptacle", "Occupant", "Condition");
    for name in &operands {
        if !points.iter().any(|(known, ..)| known == name) {
            return Err(Failure::line("cfgadm: Attachment point not found"));
        }
    }
    for (name, kind, occupant) in
        points.into_iter().filter(|(name, ..)| operands.is_empty() || operands.contains(name))
    {
        text += &format!("{name:<30} {kind:<12} {:<12} {occupant:<12} ok\n", "connected");
    }
    session.out(text);
    Ok(())
}

/// Name, type, occupant: the adapters and the fabric, and with `dynamic` what is below.
fn points(session: &Session<'_>, dynamic: bool) -> Vec<(String, &'static str, &'static str)> {
    let ports = session.system.ports();
    let mut adapters: Vec<u64> = ports.iter().map(|port| port.hca).collect();
    adapters.sort_unstable();
    adapters.dedup();
    let mut points: Vec<(String, &str, &str)> =
        adapters.into_iter().map(|guid| (format!("hca:{guid:X}"), "IB-HCA", "configured")).collect();
    points.push(("ib".into(), "IB-Fabric", "configured"));
    if dynamic {
        points.extend(ports.iter().map(|port| {
            let occupant = if port.configured { "configured" } else { "unconfigured" };
            (format!("ib::{:X},0,ipib", port.guid), "IB-PORT", occupant)
        }));
    }
    points
}
