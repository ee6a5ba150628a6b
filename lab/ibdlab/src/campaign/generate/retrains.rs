//! Scenarios in which a link trains to less than its port can; drawn apart, so that the same troubles meet links that do and links that do
//! not.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::at;
use crate::scenario::trouble::{Event, LinkRetrains, TimedEvent};
use crate::scenario::{HostSpec, Scenario, Speed, Step};

/// Makes the draw another one than those of what happens.
const APART: u64 = 0x5245_5452_4149_4e21;
/// Of so many scenarios one has such links.
const ONE_IN: u32 = 6;
/// How long a link is bad: shorter than a link waits for anything, and longer than it waits between two attempts.
const FOR_MS: [u64; 5] = [1, 30, 300, 3_000, 61_000];
/// Lanes that are left, and how they signal: in and out of a group of 10 Gb/s.
const LANES: [(Option<u8>, Option<Speed>); 6] = [
    (Some(1), None),
    (Some(1), Some(Speed::Sdr)),
    (Some(2), Some(Speed::Sdr)),
    (Some(1), Some(Speed::Qdr)),
    (None, Some(Speed::Sdr)),
    (Some(12), Some(Speed::Edr)),
];
/// A port whose MTU is too small for most groups.
const SMALL_MTU: u32 = 1024;

/// In some scenarios one link or two train anew within the first timeline.
pub(super) fn put(scenario: &mut Scenario, seed: u64, index: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ APART);
    rng.set_stream(index);
    if scenario.host.is_empty() || rng.random_range(0..ONE_IN) != 0 {
        return;
    }
    let hosts: Vec<usize> =
        (0..rng.random_range(1..=2)).map(|_| rng.random_range(0..scenario.host.len())).collect();
    let drawn: Vec<(LinkRetrains, u64)> = hosts
        .into_iter()
        .map(|host| {
            let host = scenario.host[host].get_ref();
            let may_be_small = keeps_its_group(scenario, host);
            (draw(&mut rng, host, may_be_small), rng.random())
        })
        .collect();
    let troubles = scenario.step.iter_mut().filter_map(|step| match step.get_mut() {
        Step::Trouble(trouble) => Some(trouble),
        _ => None,
    });
    for trouble in troubles.take(1) {
        for (link, when) in &drawn {
            let at_us = when % (trouble.within_ms * 1_000 + 1);
            trouble.event.push(TimedEvent::new(at_us, Event::LinkRetrains(link.clone())));
        }
        trouble.event.sort_by_key(|timed| *timed.at_us.get_ref());
    }
}

fn draw(rng: &mut ChaCha8Rng, host: &HostSpec, may_be_small: bool) -> LinkRetrains {
    let (width, speed) = LANES[rng.random_range(0..LANES.len())];
    let quietly = rng.random_range(0..4) == 0;
    let fits = host.mtu.as_ref().is_none_or(|mtu| *mtu.get_ref() >= SMALL_MTU);
    let is_small = rng.random_range(0..3) == 0 && may_be_small && fits && !quietly;
    LinkRetrains {
        host: at(host.name.get_ref().clone()),
        width: width.map(at),
        speed,
        mtu: is_small.then(|| at(SMALL_MTU)),
        quietly,
        for_ms: FOR_MS[rng.random_range(0..FOR_MS.len())],
    }
}

/// The subnet manager makes the host's broadcast group, whatever happens. Else a port of a small MTU might make it, too small for IPv6.
fn keeps_its_group(scenario: &Scenario, host: &HostSpec) -> bool {
    let is_deleted = |step: &Step| {
        matches!(step, Step::Trouble(trouble)
            if trouble.event.iter().any(|timed| matches!(timed.event, Event::GroupDeleted(_))))
    };
    let own = |pkey: u16| (pkey ^ *host.pkey.get_ref()) & 0x7fff == 0;
    scenario.partition.iter().any(|spec| spec.get_ref().ipoib && own(*spec.get_ref().pkey.get_ref()))
        && !scenario.step.iter().any(|step| is_deleted(step.get_ref()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::campaign::Search;
    use crate::report::SmKind;

    fn retrains(search: Search) -> Vec<LinkRetrains> {
        let events = (0..600).flat_map(|index| search.scenario(9, index).step).flat_map(|step| {
            match step.into_inner() {
                Step::Trouble(trouble) => trouble.event,
                _ => Vec::new(),
            }
        });
        let link = |timed: TimedEvent| match timed.event {
            Event::LinkRetrains(link) => Some(link),
            _ => None,
        };
        events.filter_map(link).collect()
    }

    #[test]
    fn links_train_to_less_in_every_way_in_schedules_and_fabrics() {
        for search in [Search::Schedules, Search::Fabrics(SmKind::Embedded)] {
            let drawn = retrains(search);
            assert!((40..200).contains(&drawn.len()), "{search:?}: {} in 600", drawn.len());
            let ways: BTreeSet<_> = drawn
                .iter()
                .map(|link| {
                    let has = |is: bool| u8::from(is);
                    [has(link.width.is_some()), has(link.mtu.is_some()), has(link.quietly)]
                })
                .collect();
            assert!(ways.len() >= 5, "{search:?}: {ways:?}");
        }
    }
}
