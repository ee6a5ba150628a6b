//! A schedule on the software adapter: as another search drew it, without what the adapter has not.

use std::collections::BTreeMap;

use rand::RngExt;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::at;
use crate::report::HcaKind;
use crate::scenario::trouble::{Event, SaDoes};
use crate::scenario::{Driver, PartitionSpec, Scenario, Step};
use crate::swhca;

/// Makes the draw another one than those of what happens.
const APART: u64 = 0x5357_4843_4120_4f4e;
/// Of so many schedules one is on it.
const ONE_IN: u32 = 8;
/// What its subnet manager makes groups of, and the partition that it always has.
const MTU: u32 = 2048;
const DEFAULT_PKEY: u16 = 0xffff;

/// Whether this one of a campaign's schedules is.
pub(super) fn is_drawn(seed: u64, index: u64) -> bool {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ APART);
    rng.set_stream(index);
    rng.random_range(0..ONE_IN) == 0
}

/// The schedule with its hosts on the ports of one adapter.
pub(super) fn put(mut scenario: Scenario) -> Scenario {
    scenario.fabric.hca = HcaKind::Swhca;
    scenario.fabric.mtu = at(MTU);
    scenario.fabric.multicast_loopback = true;
    scenario.fabric.keeps_srqs = false;
    let mut pkeys = vec![DEFAULT_PKEY];
    pkeys.extend(scenario.host.iter().map(|host| *host.get_ref().pkey.get_ref()));
    pkeys.dedup_by_key(|pkey| *pkey & 0x7fff);
    let partition = |pkey| PartitionSpec { mtu: at(MTU), ..PartitionSpec::new(at(pkey), true) };
    scenario.partition = pkeys.into_iter().map(|pkey| at(partition(pkey))).collect();
    one_kernel(&mut scenario);
    leave_out_what_cannot_be(&mut scenario);
    scenario
}

/// Events as they are on the adapter, without those that it does not have.
pub(super) fn leave_out_what_cannot_be(scenario: &mut Scenario) {
    let whole = scenario.clone();
    for step in &mut scenario.step {
        let Step::Trouble(trouble) = step.as_mut() else { continue };
        trouble.event.iter_mut().for_each(|timed| fit(&mut timed.event));
        trouble.event.retain(|timed| swhca::cannot(&whole, &timed.event).is_none());
    }
}

/// One configuration file for each driver, one speed, and offloads for all or for none.
fn one_kernel(scenario: &mut Scenario) {
    let mut files: BTreeMap<&'static str, BTreeMap<String, i32>> = BTreeMap::new();
    let first = scenario.host.first().map(|host| (host.get_ref().speed, host.get_ref().offloads));
    for host in &mut scenario.host {
        let host = host.as_mut();
        host.conf = files.entry(Driver::name(host.driver)).or_insert_with(|| host.conf.clone()).clone();
        if let Some((speed, offloads)) = first {
            (host.speed, host.offloads) = (speed, offloads);
        }
    }
}

/// The part of an event that the adapter can do.
fn fit(event: &mut Event) {
    match event {
        Event::SmRestart(back) => back.mlids_later = 0,
        Event::SmFailover(moves) => moves.mlids_later = 0,
        Event::PkeyAdded(to) => *to.index.as_mut() = (*to.index.get_ref()).max(1),
        Event::Link(link) => {
            (link.duplicate, link.corrupt, link.corrupt_inside, link.reorder) = (0, 0, 0, 0);
            (link.delay_us, link.jitter_us) = (0, 0);
        }
        Event::Sa(sa) if matches!(sa.does, SaDoes::Late(_)) => (sa.to, sa.times) = (None, None),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::campaign::Search;
    use crate::report::HcaKind;
    use crate::scenario::{Scenario, Step};
    use crate::swhca;

    fn kinds(scenario: &Scenario) -> BTreeSet<String> {
        let timelines = scenario.step.iter().filter_map(|step| match step.get_ref() {
            Step::Trouble(trouble) => Some(&trouble.event),
            _ => None,
        });
        let debug = |text: String| text.split('(').next().unwrap_or_default().to_owned();
        timelines.flatten().map(|timed| debug(format!("{:?}", timed.event))).collect()
    }

    #[test]
    fn one_schedule_in_eight_is_on_the_software_adapter_and_is_one_that_it_can_do() {
        let mut on_it = 0;
        for index in 0..800 {
            let scenario = Search::Schedules.scenario(1, index);
            if scenario.fabric.hca == HcaKind::Swhca {
                swhca::check(&scenario).expect("it can be run");
                on_it += 1;
            }
        }
        assert!((70..130).contains(&on_it), "{on_it}");
    }

    #[test]
    fn everything_that_the_software_adapter_can_do_is_drawn() {
        let mut seen = BTreeSet::new();
        for index in 0..2_000 {
            let scenario = Search::Software.scenario(1, index);
            assert_eq!(scenario.fabric.hca, HcaKind::Swhca);
            swhca::check(&scenario).expect("it can be run");
            seen.extend(kinds(&scenario));
        }
        for kind in ["Link", "OneQpBreaks", "PkeyAdded", "Sa", "SmFailover", "SubnetPrefix", "Unload"] {
            assert!(seen.contains(kind), "{kind} is missing: {seen:?}");
        }
    }
}
