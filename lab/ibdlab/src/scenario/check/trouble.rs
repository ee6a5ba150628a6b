//! Timelines: events of known hosts, within the time, that can happen.

use fabric::LinkWidth;
use serde_spanned::Spanned;

use super::{Checked, check_host, check_mtu, fault, groups, known_host};
use crate::scenario::trouble::{Delayed, Event, HcaClone, LinkRetrains, PropertyTo, RawPacketTo, TimedEvent};
use crate::scenario::{Scenario, TroubleStep};

/// The plugin; a host has it and its driver.
const PLUGIN: &str = "mac_ib";

pub fn check(scenario: &Scenario, step: &TroubleStep) -> Checked {
    step.event.iter().try_for_each(|timed| check_event(scenario, step, timed))
}

fn check_event(scenario: &Scenario, step: &TroubleStep, timed: &TimedEvent) -> Checked {
    if let Some(host) = timed.event.host() {
        check_host(scenario, host, false)?;
    }
    if let Some(call) = &timed.on {
        check_host(scenario, &call.host, false)?;
    }
    let at_us = *timed.at_us.get_ref();
    if at_us > step.within_ms.saturating_mul(1_000) {
        return fault(&timed.at_us, format!("{at_us} us is later than within_ms = {}", step.within_ms));
    }
    match &timed.event {
        Event::GroupJoin(of) | Event::GroupLeave(of) => groups::check_multicast(&of.group),
        Event::InterruptsLate(late) | Event::CommandsSlow(late) => check_delay(late),
        Event::LinkRetrains(link) => check_training(scenario, link),
        Event::HcaCloned(clone) => check_clone(scenario, clone),
        Event::PropertySet(set) => check_property(set),
        Event::AllocationFails(fails) => check_module(scenario, &fails.host, fails.module.as_ref()),
        Event::MemoryShort(short) => check_module(scenario, &short.host, short.module.as_ref()),
        Event::RawPacket(packet) => check_bytes(packet),
        _ => Ok(()),
    }
}

fn check_delay(late: &Delayed) -> Checked {
    if late.from_us <= late.to_us {
        return Ok(());
    }
    fault(&late.host, format!("from_us is {}: expected at most to_us, which is {}", late.from_us, late.to_us))
}

fn check_clone(scenario: &Scenario, clone: &HcaClone) -> Checked {
    check_host(scenario, &clone.of, false)?;
    if clone.host.get_ref() == clone.of.get_ref() {
        return fault(&clone.of, format!("`{}` has its own GUID already: expected another host", clone.of));
    }
    Ok(())
}

fn check_training(scenario: &Scenario, link: &LinkRetrains) -> Checked {
    if let Some(width) = &link.width
        && LinkWidth::of_lanes(*width.get_ref()).is_none()
    {
        return fault(width, format!("a link has 1, 2, 4, 8 or 12 lanes, not {width}"));
    }
    let Some(mtu) = &link.mtu else { return Ok(()) };
    check_mtu(mtu)?;
    let most = known_host(scenario, &link.host)?.mtu.as_ref().unwrap_or(&scenario.fabric.mtu);
    if mtu.get_ref() > most.get_ref() {
        return fault(mtu, format!("mtu is {mtu}: expected at most {most}, which the port has"));
    }
    if link.quietly {
        return fault(mtu, "mtu changes while a link is down: expected no `quietly`".to_owned());
    }
    Ok(())
}

/// Whether the driver has such a property is for the driver to say.
fn check_property(set: &PropertyTo) -> Checked {
    if set.name.starts_with('_') {
        return Ok(());
    }
    fault(&set.host, format!("`{}` is no private property: its name begins with `_`", set.name))
}

fn check_module(scenario: &Scenario, host: &Spanned<String>, module: Option<&String>) -> Checked {
    let driver = known_host(scenario, host)?.driver.name();
    match module {
        Some(module) if module != PLUGIN && module != driver => {
            let message = format!(
                "`{host}` has no module `{module}`, expected `{driver}` or `{PLUGIN}`",
                host = host.get_ref()
            );
            fault(host, message)
        }
        _ => Ok(()),
    }
}

fn check_bytes(packet: &RawPacketTo) -> Checked {
    let digits = &packet.bytes;
    if let Some(other) = digits.chars().find(|c| !c.is_ascii_hexdigit()) {
        return fault(&packet.to, format!("`{other}` of bytes is no hexadecimal digit"));
    }
    if !digits.len().is_multiple_of(2) {
        return fault(&packet.to, format!("bytes has {} digits, expected two for each byte", digits.len()));
    }
    Ok(())
}
