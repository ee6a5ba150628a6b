//! `counts` holds the drivers' statistics against a capture of the wire: nothing before it may make the two differ.

use serde_spanned::Spanned;

use super::{Checked, fault};
use crate::scenario::trouble::Event;
use crate::scenario::{Scenario, Step};

const UNSENT: &str = "a driver counts what its adapter took and never sent";
const ANEW: &str = "a host's statistics begin anew";
const UNCOUNTED: &str = "a driver drops what the wire has, and does not count it as received";
const LOOPED: &str = "a port takes packets of its own with the GID of before for another one's";

pub fn check(scenario: &Scenario) -> Checked {
    let mut counts =
        scenario.step.iter().enumerate().filter(|(_, step)| matches!(step.get_ref(), Step::Counts(_)));
    let Some((at, step)) = counts.next() else { return Ok(()) };
    if let Some((_, second)) = counts.next() {
        return fault(second, "`counts` is there twice: the first one ends the capture".to_owned());
    }
    let connected = scenario.host.iter().any(|host| host.get_ref().is_connected());
    let mut before = scenario.step.iter().take(at).map(Spanned::get_ref);
    match before.find_map(|step| spoiler(step, connected)) {
        Some((what, why)) => fault(step, format!("`counts` cannot stand behind {what}: {why}")),
        None => Ok(()),
    }
}

/// What of a step makes statistics and capture differ, and why.
fn spoiler(step: &Step, connected: bool) -> Option<(String, &'static str)> {
    match step {
        Step::SmRestart(step) if step.breaks.is_some() => {
            Some(("`sm-restart` with `breaks`".to_owned(), UNSENT))
        }
        Step::FaultPoints(_) | Step::UnloadUnderTraffic(_) | Step::Unload(_) => {
            Some((format!("`{}`", step.name()), ANEW))
        }
        // A connection that ends may take packets along that wait for it.
        Step::Trouble(trouble) if connected && !trouble.event.is_empty() => {
            Some(("`trouble` between hosts with `linkmode = \"cm\"`".to_owned(), UNSENT))
        }
        Step::Trouble(trouble) => {
            let mut events = trouble.event.iter().map(|timed| &timed.event);
            events.find_map(|event| Some((format!("`trouble` with `{}`", event.kind()), why(event)?)))
        }
        _ => None,
    }
}

/// Why an event makes them differ, if it does.
const fn why(event: &Event) -> Option<&'static str> {
    match event {
        Event::QpBreaks(_)
        | Event::OneQpBreaks(_)
        | Event::SendFails(_)
        | Event::SendsHang(_)
        | Event::PkeyRemoved(_)
        | Event::PkeyAdded(_) => Some(UNSENT),
        Event::LinkRetrains(link) if link.mtu.is_some() => Some(UNSENT),
        Event::HcaRemoved(_)
        | Event::HcaAdded(_)
        | Event::HcaCloned(_)
        | Event::Unload(_)
        | Event::Load(_)
        | Event::PartDeleted(_)
        | Event::PartCreated(_) => Some(ANEW),
        Event::AllocationFails(_)
        | Event::MemoryShort(_)
        | Event::Packet(_)
        | Event::RawPacket(_)
        | Event::Strangers(_) => Some(UNCOUNTED),
        Event::SubnetPrefix(_) => Some(LOOPED),
        _ => None,
    }
}
