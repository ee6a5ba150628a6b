//! Random fabrics and what is done on them: each follows from its number, together they have every dimension, and all end well.

mod rig;

use std::collections::BTreeSet;
use std::thread::available_parallelism;

use ibdlab::campaign::{Campaign, Search};
use ibdlab::report::SmKind;
use ibdlab::scenario::trouble::Event;
use ibdlab::scenario::{Membership, Misfit, PartitionSpec, Scenario, Step, load};

fn fabric(index: u64) -> Scenario {
    Search::Fabrics(SmKind::Embedded).scenario(1, index)
}

#[test]
fn whatever_is_done_on_a_random_fabric_ends_well() {
    let directory = tempfile::tempdir().expect("a directory");
    // `make campaign FABRICS=1` runs as many as there is time for.
    let runs = rig::some_of(200);
    let campaign = Campaign {
        search: Search::Fabrics(SmKind::Embedded),
        pairs: false,
        first: 0,
        seed: 1,
        strategy: None,
        time: None,
        scenarios: Some(runs),
        until_found: false,
        workers: available_parallelism().map_or(2, usize::from),
        shrink_runs: 0,
        out: directory.path().to_owned(),
        proto: rig::proto(),
        counting: None,
        atomics: None,
        races: None,
        program: Some(env!("CARGO_BIN_EXE_ibdlab").into()),
    };
    let summary = campaign.run(|_| {}).expect("a campaign");
    assert_eq!(summary.scenarios, runs);
    assert!(summary.is_clean(), "{}", summary.text());
}

#[test]
fn a_fabric_follows_from_its_seed_and_number_and_reads_back_as_it_was_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("fabric.toml");
    for sm in [SmKind::Embedded, SmKind::Opensm] {
        for index in 0..300 {
            let scenario = Search::Fabrics(sm).scenario(3, index);
            assert_eq!(scenario, Search::Fabrics(sm).scenario(3, index));
            std::fs::write(&file, scenario.to_toml().expect("TOML")).expect("written");
            let read = load(&file).unwrap_or_else(|error| panic!("fabric {index}: {error}"));
            assert_eq!(read.to_toml(), scenario.to_toml(), "fabric {index}");
        }
    }
}

/// The scenarios for which each of these holds.
fn count(holds: impl Fn(&Scenario) -> bool) -> usize {
    (0..1_000).map(fabric).filter(|scenario| holds(scenario)).count()
}

/// Values that the scenarios have.
fn values<T: Ord>(of: impl Fn(&Scenario) -> Vec<T>) -> BTreeSet<T> {
    (0..1_000).map(fabric).flat_map(|scenario| of(&scenario)).collect()
}

#[test]
fn a_thousand_fabrics_have_every_number_of_hosts_ports_and_bytes_and_every_delay() {
    let hosts = values(|s| vec![s.host.len()]);
    assert_eq!(hosts, BTreeSet::from([2, 3, 4, 5, 6, 8, 10]));
    assert_eq!(
        values(|s| s.host.iter().map(|host| *host.get_ref().ports.get_ref()).collect()),
        [1, 2, 4, 8].into()
    );
    assert_eq!(
        values(|s| s.partition.iter().map(|p| *p.get_ref().mtu.get_ref()).collect()),
        [1024, 2048, 4096].into()
    );
    assert_eq!(values(|s| vec![s.fabric.sa_delay_ms]), [0, 1, 5, 20, 100, 300, 700, 1500].into());
    assert_eq!(values(|s| vec![s.fabric.lmc]), [0, 1, 2, 3].into());
    assert_eq!(values(|s| vec![s.partition.len()]), [1, 2, 3].into());
    let idle = |step: &Step| if let Step::Idle(idle) = step { Some(idle.for_ms) } else { None };
    let longest = values(|s| s.step.iter().filter_map(|step| idle(step.get_ref())).collect());
    assert_eq!(longest.last(), Some(&7_200_000));
}

#[test]
fn no_group_is_deleted_that_a_host_would_make_anew_too_large_for_the_port_of_another() {
    let deletes = |s: &Scenario| {
        s.step.iter().any(|step| match step.get_ref() {
            Step::Trouble(trouble) => {
                trouble.event.iter().any(|timed| matches!(timed.event, Event::GroupDeleted(_)))
            }
            _ => false,
        })
    };
    let small_and_large = |s: &Scenario| {
        let ports = s.host.iter().map(|host| host.get_ref().mtu.as_ref());
        let sizes: BTreeSet<u32> =
            ports.map(|mtu| *mtu.unwrap_or(&s.fabric.mtu).get_ref()).map(|mtu| mtu.min(2048)).collect();
        sizes.len() > 1
    };
    assert_ne!(count(deletes), 0);
    assert_ne!(count(small_and_large), 0);
    assert_eq!(count(|s| deletes(s) && small_and_large(s)), 0);
}

#[test]
fn a_thousand_fabrics_have_mixed_speeds_host_made_groups_rings_offloads_and_every_trouble() {
    let mixed = count(|s| {
        let speeds = |pkey: u16| -> BTreeSet<String> {
            let members = s.host.iter().map(|host| host.get_ref()).filter(|h| *h.pkey.get_ref() == pkey);
            members.map(|host| format!("{:?} {}", host.speed, host.width.get_ref())).collect()
        };
        s.partition.iter().any(|partition| speeds(*partition.get_ref().pkey.get_ref()).len() > 1)
    });
    assert!(mixed > 500, "{mixed} with mixed speeds in a partition");
    let some = [
        ("a group that a host makes", count(|s| s.partition.iter().any(|p| !p.get_ref().ipoib))),
        ("rings", count(|s| s.host.iter().any(|host| !host.get_ref().conf.is_empty()))),
        ("offloads", count(|s| s.host.iter().any(|host| host.get_ref().offloads))),
        ("an MTU of a port's own", count(|s| s.host.iter().any(|host| host.get_ref().mtu.is_some()))),
        ("a pulled cable", steps(|step| matches!(step, Step::Flap(_)))),
        ("a P_Key that moves", steps(|step| matches!(step, Step::PkeyMoves(_)))),
        ("a manager that is gone", steps(|step| matches!(step, Step::SmRestart(_)))),
        ("an adapter that is gone", steps(|step| matches!(step, Step::HcaRemoval(_)))),
        ("trouble", steps(|step| matches!(step, Step::Trouble(_)))),
    ];
    for (what, times) in some {
        assert!(times >= 50, "{what}: {times} of 1000 fabrics");
    }
}

#[test]
fn a_thousand_fabrics_have_groups_with_values_of_their_own() {
    let group = |holds: fn(&PartitionSpec) -> bool| {
        count(|s| s.partition.iter().any(|partition| holds(partition.get_ref())))
    };
    let some = [
        ("a service level", group(|p| p.sl.is_some())),
        ("a Q_Key", group(|p| p.qkey.as_ref().is_some_and(|key| *key.get_ref() != 0xb1b))),
        ("a sender's Q_Key", group(|p| p.qkey.as_ref().is_some_and(|key| *key.get_ref() >> 31 == 1))),
        ("a traffic class", group(|p| p.tclass.is_some())),
        ("a flow label", group(|p| p.flow_label.is_some())),
        ("a hop limit", group(|p| p.hop_limit.is_some())),
        ("a scope", group(|p| p.scope.is_some())),
    ];
    for (what, times) in some {
        assert!(times >= 50, "{what}: {times} of 1000 fabrics");
    }
}

#[test]
fn a_thousand_fabrics_have_ports_too_small_or_slow_for_their_group() {
    let outside = |what: fn(Misfit) -> bool| {
        count(|s| s.host.iter().any(|host| s.misfit(host.get_ref()).is_some_and(what)))
    };
    let some = [
        ("a port with less MTU than its group", outside(|misfit| matches!(misfit, Misfit::Mtu { .. }))),
        ("a port slower than its group", outside(|misfit| matches!(misfit, Misfit::Rate { .. }))),
        (
            "a port that is a limited member for a while",
            steps(|step| matches!(step, Step::MembershipChanges(_))),
        ),
        ("both P_Keys", count(|s| s.host.iter().any(|host| host.get_ref().membership == Membership::Both))),
        ("a group that changes", steps(|step| matches!(step, Step::GroupChanges(_)))),
    ];
    for (what, times) in some {
        assert!(times >= 30, "{what}: {times} of 1000 fabrics");
    }
}

/// The scenarios that have such a step.
fn steps(wanted: impl Fn(&Step) -> bool) -> usize {
    count(|scenario| scenario.step.iter().any(|step| wanted(step.get_ref())))
}

#[test]
fn no_link_is_told_to_give_up_a_join_before_the_sa_can_have_answered() {
    let hasty = count(|scenario| {
        let timelines = scenario.step.iter().filter_map(|step| match step.get_ref() {
            Step::Trouble(trouble) => Some(&trouble.event),
            _ => None,
        });
        timelines.flatten().any(|timed| match &timed.event {
            Event::PropertySet(set) if set.name == "_ibd_join_timeout" => {
                let seconds: u64 = set.value.parse().expect("seconds");
                seconds != 0 && seconds * 1_000 < 10 * scenario.fabric.sa_delay_ms
            }
            _ => false,
        })
    });
    assert_eq!(hasty, 0, "of 1000 fabrics");
}
