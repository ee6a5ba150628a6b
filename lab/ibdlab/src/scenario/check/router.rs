//! A second subnet: what a scenario can have there.

use serde_spanned::Spanned;

use super::{Checked, fault};
use crate::scenario::{Scenario, Step};

pub fn check(scenario: &Scenario) -> Checked {
    if scenario.fabric.router.is_some() {
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
