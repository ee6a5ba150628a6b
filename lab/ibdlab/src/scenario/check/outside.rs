//! Hosts whose links stay down, because their ports cannot be in the broadcast group: no step asks anything of them.

use std::net::IpAddr;
use std::ops::Range;

use serde_spanned::Spanned;

use super::steps::owner;
use super::{Checked, Fault, known_host};
use crate::scenario::{HostSpec, Scenario, Step};

/// The step names no host whose link is down, with the groups as they are by then.
pub fn check(now: &Scenario, step: &Spanned<Step>) -> Checked {
    named(step.get_ref())
        .into_iter()
        .try_for_each(|name| check_host(now, known_host(now, name)?, name.span()))?;
    receiver(now, step.get_ref())?.map_or(Ok(()), |(host, span)| check_host(now, host, span))
}

/// Whom the step sends to, and where it says so.
pub fn receiver<'a>(now: &'a Scenario, step: &Step) -> Result<Option<(&'a HostSpec, Range<usize>)>, Fault> {
    let Some((from, to)) = talk(step) else { return Ok(None) };
    let receiver = owner(now, known_host(now, from)?, *to.get_ref());
    Ok(receiver.map(|host| (host, to.span())))
}

fn check_host(now: &Scenario, host: &HostSpec, span: Range<usize>) -> Checked {
    match now.misfit(host) {
        None => Ok(()),
        Some(_) => Err(Fault {
            span,
            message: format!(
                "`{}` cannot be in its partition or its broadcast group here: its link is down",
                host.name
            ),
        }),
    }
}

/// Who has to have a link in a step.
pub fn named(step: &Step) -> Vec<&Spanned<String>> {
    match step {
        Step::Ping(step) => vec![&step.from],
        Step::Tcp(step) => vec![&step.from],
        Step::LinuxPing(step) => vec![&step.from],
        Step::LinuxFetch(step) => vec![&step.from],
        Step::Multicast(step) => vec![&step.from, &step.to],
        Step::Eavesdrop(step) => vec![&step.by, &step.from, &step.to],
        Step::Flap(step) => std::iter::once(&step.host).chain(&step.breaks).collect(),
        Step::UnloadUnderTraffic(step) => vec![&step.host],
        Step::PkeyMoves(step) => vec![&step.host],
        Step::HcaRemoval(step) => vec![&step.host],
        Step::FaultPoints(step) => vec![&step.host],
        Step::SmRestart(step) => step.breaks.iter().collect(),
        Step::Trouble(step) => step.tcp.iter().map(|tcp| &tcp.from).collect(),
        Step::GroupChanges(_)
        | Step::MembershipChanges(_)
        | Step::Turns(_)
        | Step::Link(_)
        | Step::RouterAway(_)
        | Step::Idle(_)
        | Step::Memberships(_)
        | Step::Attach(_)
        | Step::Up(_)
        | Step::Resolve(_)
        | Step::Counts(_)
        | Step::Unload(_) => Vec::new(),
    }
}

/// A sender, and the address that it sends to.
fn talk(step: &Step) -> Option<(&Spanned<String>, &Spanned<IpAddr>)> {
    match step {
        Step::Ping(step) => Some((&step.from, &step.to)),
        Step::Tcp(step) => Some((&step.from, &step.to)),
        Step::LinuxPing(step) => Some((&step.from, &step.to)),
        Step::LinuxFetch(step) => Some((&step.from, &step.to)),
        Step::Trouble(step) => step.tcp.as_ref().map(|tcp| (&tcp.from, &tcp.to)),
        _ => None,
    }
}
