//! Schedules with a timeline of their own in which the fabric gives a host no credits, for longer than a driver watches: nothing else
//! happens then that costs a link its address. Drawn apart, so that the rest of a schedule is what it was.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::at;
use crate::scenario::trouble::{Event, HostForMs, PropertyTo, TimedEvent};
use crate::scenario::{Scenario, Step, TroubleStep};

/// Makes the draw another one than those of what happens.
const APART: u64 = 0x4352_4544_4954_5321;
/// Of so many schedules one has such a timeline.
const ONE_IN: u32 = 12;
/// For how long a driver watches sends, as an administrator sets it, in seconds; and for how long there are no credits, in milliseconds.
/// A second of such a timeline costs as much as several whole schedules.
const WATCHED: &str = "1";
const FOR_MS: [u64; 2] = [3_000, 5_000];
/// When credits end, and how long there is traffic after they have come back.
const BEFORE_MS: u64 = 100;
const AFTER_MS: u64 = 400;
/// Echoes between two hosts in that time.
const ECHOES: u64 = 200;

/// Some schedules get the timeline, behind their first one.
pub(super) fn put(scenario: &mut Scenario, seed: u64, index: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ APART);
    rng.set_stream(index);
    if rng.random_range(0..ONE_IN) != 0 {
        return;
    }
    let Some(host) = scenario.host.choose(&mut rng).map(|host| host.get_ref().name.get_ref().clone()) else {
        return;
    };
    let for_ms = *FOR_MS.choose(&mut rng).unwrap_or(&FOR_MS[0]);
    let is_trouble = |step: &serde_spanned::Spanned<Step>| matches!(step.get_ref(), Step::Trouble(_));
    if let Some(first) = scenario.step.iter().position(is_trouble) {
        scenario.step.insert(first + 1, at(Step::Trouble(without_credits(&host, for_ms))));
    }
}

fn without_credits(host: &str, for_ms: u64) -> TroubleStep {
    let host = || at(host.to_owned());
    let watched = PropertyTo { host: host(), name: "_ibd_tx_timeout".into(), value: WATCHED.into() };
    let event = vec![
        TimedEvent::new(0, Event::PropertySet(watched)),
        TimedEvent::new(BEFORE_MS * 1_000, Event::NoCredits(HostForMs { host: host(), for_ms })),
    ];
    let within_ms = BEFORE_MS + for_ms + AFTER_MS;
    let echo_every_us = within_ms * 1_000 / ECHOES;
    TroubleStep { within_ms, settle_ms: 0, echo_every_us, senders: 0, stalls: None, tcp: None, event }
}

#[cfg(test)]
mod tests {
    use crate::campaign::Search;
    use crate::scenario::Step;
    use crate::scenario::trouble::Event;

    #[test]
    fn some_schedules_have_a_host_that_waits_long_for_credits() {
        let mut waits = 0;
        for index in 0..200 {
            for step in Search::Schedules.scenario(9, index).step {
                let Step::Trouble(trouble) = step.get_ref() else { continue };
                let long = |event: &Event| matches!(event, Event::NoCredits(on) if on.for_ms >= 3_000 && on.for_ms < trouble.within_ms);
                waits += u32::from(trouble.event.iter().any(|timed| long(&timed.event)));
            }
        }
        assert!((6..40).contains(&waits), "{waits} of 200");
    }
}
