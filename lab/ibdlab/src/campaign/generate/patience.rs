//! How long all may take to be well again after trouble: longer than it was ever seen to, and shorter than until what a driver looks at
//! now and then anyway heals what it has missed.

use crate::scenario::trouble::{Event, SaDoes, SaTrouble};
use crate::scenario::{Scenario, Step};

/// Milliseconds of machine time. IP believes for a minute what it has learnt of a neighbour, and one that was loaded anew while nobody heard
/// it say so has another queue pair; then IP asks for it once a second.
const NEARBY_MS: u64 = 70_000;
/// IBTF subscribes to a new SM's traps in the second minute, and asks a silent SA for up to four.
const MANAGER_MS: u64 = 300_000;
/// Requests to the SA that may have to be answered one after the other until all is looked at: those of each host for its groups, and of
/// each round of packets to groups.
const ROUND_TRIPS: u64 = 100;
/// A membership that was lost without a word is asked for again after a quarter of an hour.
const VERIFIED_MS: u64 = 1_200_000;

/// Each trouble's patience by what happens in it, and in those before it.
pub(in crate::campaign) fn give(mut scenario: Scenario) -> Scenario {
    let mut untold = false;
    for step in &mut scenario.step {
        let Step::Trouble(trouble) = step.as_mut() else { continue };
        let has = |what: fn(&Event) -> bool| trouble.event.iter().any(|timed| what(&timed.event));
        untold |= has(forgets_subscribers);
        let patience = if has(|event| matches!(event, Event::RegistrationsLost(_)))
            || has(lies)
            || has(|event| matches!(event, Event::HcaCloned(_)))
            || untold && has(|event| matches!(event, Event::GroupDeleted(_)))
        {
            VERIFIED_MS
        } else if has(is_the_manager_s) {
            MANAGER_MS
        } else {
            NEARBY_MS
        };
        trouble.settle_ms = patience + ROUND_TRIPS * scenario.fabric.sa_delay_ms;
    }
    scenario
}

/// What is wrong and looks as if it were right is believed until then.
fn lies(event: &Event) -> bool {
    matches!(event, Event::Sa(SaTrouble { does: SaDoes::Lies(_), .. }))
}

/// Nobody hears of groups from then on, until all have subscribed again.
fn forgets_subscribers(event: &Event) -> bool {
    matches!(
        event,
        Event::RegistrationsLost(_) | Event::SmStop(_) | Event::SmRestart(_) | Event::SmFailover(_)
    )
}

fn is_the_manager_s(event: &Event) -> bool {
    forgets_subscribers(event) || matches!(event, Event::SubnetPrefix(_) | Event::Sa(_))
}

#[cfg(test)]
mod tests {
    use super::{MANAGER_MS, NEARBY_MS, ROUND_TRIPS, VERIFIED_MS, give};
    use crate::campaign::Search;
    use crate::scenario::trouble::{Event, ForMs, OnHost, SmComesBack, TimedEvent};
    use crate::scenario::{Nothing, Step};

    #[test]
    fn a_group_deleted_after_an_sm_restart_may_be_missed_until_memberships_are_verified() {
        let restart = || Event::SmRestart(SmComesBack { mlids_later: 0, lids_later: 0 });
        let deleted = || Event::GroupDeleted(Nothing {});
        let port_down = || Event::PortDown(OnHost::named("alice"));
        let reboot = || Event::SwitchReboot(ForMs { for_ms: 1 });
        let with_delay = |sa_delay_ms: u64, troubles: Vec<Vec<Event>>| {
            let mut scenario = Search::Schedules.scenario(1, 1);
            scenario.fabric.sa_delay_ms = sa_delay_ms;
            let first = scenario.step.iter().find(|step| matches!(step.get_ref(), Step::Trouble(_))).cloned();
            scenario.step = troubles
                .into_iter()
                .map(|events| {
                    let mut step = first.clone().expect("a trouble in every schedule");
                    if let Step::Trouble(trouble) = step.as_mut() {
                        trouble.event = events.into_iter().map(|event| TimedEvent::new(1, event)).collect();
                    }
                    step
                })
                .collect();
            let settle = |step: &serde_spanned::Spanned<Step>| match step.get_ref() {
                Step::Trouble(trouble) => trouble.settle_ms,
                _ => 0,
            };
            give(scenario).step.iter().map(settle).collect::<Vec<_>>()
        };
        let patience = |troubles| with_delay(0, troubles);
        assert_eq!(patience(vec![vec![port_down(), reboot(), deleted()]]), [NEARBY_MS]);
        assert_eq!(patience(vec![vec![restart()], vec![port_down()]]), [MANAGER_MS, NEARBY_MS]);
        assert_eq!(patience(vec![vec![restart()], vec![deleted()]]), [MANAGER_MS, VERIFIED_MS]);
        assert_eq!(patience(vec![vec![deleted()], vec![restart()]]), [NEARBY_MS, MANAGER_MS]);
        assert_eq!(with_delay(1_500, vec![vec![port_down()]]), [NEARBY_MS + ROUND_TRIPS * 1_500]);
    }
}
