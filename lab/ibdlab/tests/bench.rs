//! The bench with tiny counts: every packet arrives, and every row and target is in the table. No figure of time is judged; how many
//! answers of the administrator groups wait for is, because no machine is faster at it.

mod lab;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ibdlab::bench::bare_kernel::Path as PacketPath;
use ibdlab::bench::{Bench, own};
use lab::left_out;

fn tiny() -> Bench {
    let proto = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto/kernel"));
    Bench {
        seed: 7,
        proto,
        peer: None,
        packets: 512,
        rounds: 2,
        mtu: 2048,
        chain: 1,
        most_addresses: 256,
        instructions: None,
        sa_delay: Duration::from_micros(100),
        sa_delay_source: "the test".into(),
    }
}

#[test]
fn every_packet_of_a_small_bench_arrives_and_every_target_is_judged() {
    let mut lines = Vec::new();
    let report = tiny().run(|line| lines.push(line.to_owned())).expect("the bench ends well");
    assert!(!report.rows.is_empty());
    for row in &report.rows {
        assert!(row.sent > 0 && row.arrived > 0, "{row:?}");
        assert_eq!((row.arrived, row.lost), (row.sent, 0), "{row:?}");
        assert!(row.ns_per_packet.is_finite() && row.ns_per_packet > 0.0, "{row:?}");
    }
    assert!(lines.iter().any(|line| line.contains("PEER not given")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("seed 7")), "{lines:?}");
    assert!(report.bare.iter().all(|bare| bare.arrived == bare.sent), "{:?}", report.bare);
    assert_eq!(report.calibration.len(), 4);
    assert!(lines.iter().any(|line| line.starts_with("instructions: ")), "{lines:?}");
    let rejoined =
        report.facts.iter().find(|fact| fact.unit == "SA round trips").expect("groups were joined again");
    // ibcm has eight calls out for the whole machine: 125 round trips for a thousand groups is the least there can be.
    assert!((125.0..=125.0 * 1.1).contains(&rejoined.value), "{rejoined:?}");
    let judged = lines.iter().filter(|line| line.contains("(wanted ")).count();
    assert_eq!(judged, report.targets.len(), "every target is said, met or not");
}

#[test]
fn rows_without_a_delay_of_the_administrator_are_measured_with_every_path_found() {
    let report = Bench { most_addresses: 10_000, packets: 1024, rounds: 1, ..tiny() }
        .run(|_| ())
        .expect("the bench ends well");
    let rows: Vec<_> = report.rows.iter().filter(|row| row.sa_delay_ns == 0).collect();
    assert!(rows.iter().any(|row| row.load.addresses == 10_000));
    for row in rows {
        assert_eq!(row.calls_by_name.get("ibt_get_paths"), None, "{row:?}");
        assert_eq!(row.lost, 0, "{row:?}");
    }
}

#[test]
fn what_each_neighbour_with_a_connection_each_way_takes_is_the_same_for_few_and_for_more() {
    let of = |peers| {
        let report = tiny().peers(peers, |line| println!("{line}")).expect("all are connected");
        assert_eq!((report.facts.len(), report.targets.len()), (1, 1));
        assert_eq!(report.targets[0].met, Some(true), "{:?}", report.targets[0]);
        report.facts[0].value
    };
    let (few, more) = (of(3), of(9));
    assert!(few > 8.0 && (more / few - 1.0).abs() < 0.1, "{few} and {more} KiB");
}

#[test]
fn bulk_tcp_is_measured_on_connections_and_in_datagrams() {
    let report = Bench { rounds: 1, ..tiny() }.bulk(8, "", |line| println!("{line}")).expect("both arrive");
    let rates: Vec<f64> = report.facts.iter().map(|fact| fact.value).collect();
    assert_eq!(rates.len(), 4, "two modes, packets alone, and no driver at all");
    assert!(rates.iter().all(|rate| *rate > 1.0), "{rates:?}");
    let met: Vec<Option<bool>> = report.targets.iter().map(|target| target.met).collect();
    assert!(matches!(met[..], [None, None, None, Some(_)]), "there is no peer: {met:?}");
}

#[test]
fn every_packet_of_two_rings_on_two_processors_comes_to_the_adapter() {
    let report = Bench { rounds: 1, ..tiny() }.processors(|line| println!("{line}")).expect("all arrive");
    let named = |what: &str| report.facts.iter().filter(|fact| fact.what.contains(what)).count();
    assert_eq!(named("sent by"), 6, "one ring, two rings, two links; one address, a thousand");
    assert_eq!(named("bare kernel"), PacketPath::ALL.len());
    assert!(report.facts.iter().all(|fact| fact.value > 0.0), "{:?}", report.facts);
    let judged = report.targets.iter().filter(|target| target.met.is_some()).count();
    assert_eq!((judged, report.targets.len()), (2, 5), "there is no peer: {:?}", report.targets);
}

#[test]
fn every_packet_each_way_comes_through_with_a_kernel_that_does_next_to_nothing() {
    // More than the receives that are posted at first, so each is posted again.
    let report = Bench { packets: 4096, ..tiny() }.bare_kernel().expect("all arrive");
    let found: Vec<_> = report.facts.iter().map(|fact| (fact.what.clone(), fact.value > 0.0)).collect();
    assert_eq!(found, PacketPath::ALL.map(|path| (path.what(), true)));
}

#[test]
fn what_one_ring_writes_for_its_packets_another_ring_does_not_touch() {
    let proto = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto/races"));
    let shared = Bench { proto, packets: 6400, ..tiny() }.lines_of_two_rings().expect("all arrive");
    assert!(shared.is_empty(), "{shared:x?}");
}

#[test]
fn the_figures_of_the_bench_are_json() {
    let directory = tempfile::tempdir().expect("a directory");
    let report = Bench { most_addresses: 1, ..tiny() }.run(|_| ()).expect("the bench ends well");
    report.write(directory.path()).expect("it can be written");
    let text = std::fs::read_to_string(directory.path().join("bench.json")).expect("it was written");
    let json: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let rows = json["rows"].as_array().expect("it has rows");
    assert_eq!(rows.len(), report.rows.len());
    assert!(rows.iter().all(|row| row["ns_per_packet"].is_f64() && row["way"].is_string()));
}

/// The program says what it runs, valgrind how often: nothing of the machine's load is in it.
#[test]
fn what_a_packet_costs_in_the_drivers_own_text_is_counted_and_the_same_again() {
    if left_out("valgrind", own::missing()) {
        return;
    }
    let count = || {
        let program = Path::new(env!("CARGO_BIN_EXE_ibdlab"));
        let report =
            tiny_with_instructions().count(program, own::SENT_IN_CHAINS, |_| ()).expect("it is counted");
        report.own(&report.own[0].driver, own::SENT_IN_CHAINS).expect("a line").clone()
    };
    let (first, second) = (count(), count());
    assert!(first.instructions > 100.0 && first.locked > 0.0, "{first:?}");
    // One lock for sixteen packets, and what the completions take.
    assert!((1.0 / 16.0..0.2).contains(&first.locks), "{first:?}");
    assert_eq!(first, second);
}

/// Of the whole process: the lab's mac, kernel and adapter are in both.
#[test]
fn a_packet_takes_at_most_half_as_many_instructions_again_as_in_a_loop_that_only_copies_posts_and_frees() {
    if left_out("valgrind", own::missing()) {
        return;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_ibdlab"));
    let report = tiny_with_instructions().count(program, own::SENT, |_| ()).expect("it is counted");
    let path = |sender: &str| report.path(sender, own::SENT).expect("it was sent").clone();
    let (ours, bare) = (path(&report.own[0].driver), path(own::BARE));
    // Each has more to do than its own text, and the bare loop has the least.
    assert!(bare.own > 20.0 && bare.own < ours.own && ours.own < ours.instructions, "{ours:?} {bare:?}");
    assert!((1.0..=1.5).contains(&(ours.instructions / bare.instructions)), "{ours:?} {bare:?}");
    assert!((ours.own - report.own[0].instructions).abs() < 1.0, "{ours:?} {:?}", report.own);
}

fn tiny_with_instructions() -> Bench {
    Bench { instructions: Some(1_024), ..tiny() }
}
