//! A second subnet: what a scenario can have there.

use serde_spanned::Spanned;

use super::{Checked, Fault, fault};
use crate::scenario::{HostSpec, Scenario, Step};

pub fn check(scenario: &Scenario) -> Checked {
    if scenario.fabric.router.is_some() {
        check_connections(scenario)?;
        return scenario.step.iter().try_for_each(check_step);
    }
    let mut hosts = scenario.host.iter().map(Spanned::get_ref);
    if let Some(host) = hosts.find(|host| *host.subnet.get_ref() != 1) {
        let message = format!("`{}` is in another subnet, and `[fabric.router]` leads to none", host.name);
        return fault(&host.subnet, message);
    }
    match scenario.step.iter().find(|step| matches!(step.get_ref(), Step::RouterAway(_))) {
        Some(step) => fault(step, "there is no `[fabric.router]` to go".to_owned()),
        None => Ok(()),
    }
}

/// No connection crosses the router: the lab's `ibcm` sends its requests to ports of the subnet.
fn check_connections(scenario: &Scenario) -> Checked {
    let hosts = || scenario.host.iter().map(Spanned::get_ref);
    for host in hosts().filter(|host| host.is_connected()) {
        let is_beyond = |other: &&HostSpec| {
            scenario.link_of(other) == scenario.link_of(host)
                && other.subnet.get_ref() != host.subnet.get_ref()
        };
        if let Some(other) = hosts().filter(is_beyond).find(|other| other.takes_connections()) {
            let message = format!(
                "`{}` has `linkmode = \"cm\"` and `{}` takes connections in another subnet: none crosses the router",
                host.name, other.name
            );
            let mode = host.properties.get("linkmode").map_or_else(|| host.name.span(), Spanned::span);
            return Err(Fault { span: mode, message });
        }
    }
    Ok(())
}

/// What is done to a subnet manager is done to one of one subnet.
fn check_step(step: &Spanned<Step>) -> Checked {
    match step.get_ref() {
        Step::PkeyMoves(_)
        | Step::MembershipChanges(_)
        | Step::GroupChanges(_)
        | Step::Trouble(_)
        | Step::UnloadUnderTraffic(_)
        | Step::FaultPoints(_) => {
            fault(step, format!("`{}` is for a fabric of one subnet", step.get_ref().name()))
        }
        _ => Ok(()),
    }
}
