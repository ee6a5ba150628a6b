//! What an administrator reads in the kstats of a link: rings, paths, groups, and what the link stands on.

use fakekernel::Nanos;
use lab_gldv3::{LinkAddress, LinkState, Offload};
use sm::fault::FaultAction;
use sm::{Attribute, Status};

use crate::bench::{Bench, Host, IPV4, PLAIN, Setup, address_of, group, holds};
use crate::rings::{BOTH, rings, send};

/// The address of a port that nobody has.
fn nobody(n: u8) -> LinkAddress {
    let mut address = [0; 20];
    (address[3], address[4], address[5], address[19]) = (0x99, 0xfe, 0x80, n);
    LinkAddress(address)
}

#[test]
fn each_ring_counts_what_it_sent_and_the_rings_add_up() {
    rings(BOTH, 2, |bench| {
        let (alpha, beta, _heard) = bench.talking(IPV4);
        for number in 0..20 {
            (0..32).for_each(|flow| send(&alpha, address_of(&beta), flow, number));
            bench.settle();
        }
        let of_each =
            |name: &str| (0..4).map(|ring| bench.alpha.named(&format!("tx_ring_{ring}"), name)).collect();
        let (packets, bytes): (Vec<u64>, Vec<u64>) = (of_each("packets"), of_each("bytes"));
        assert!(packets.iter().all(|packets| *packets > 20), "{packets:?}");
        let all = bench.alpha.statistics();
        assert_eq!((packets.iter().sum::<u64>(), bytes.iter().sum::<u64>()), (all.opackets, all.obytes));
        // One call to the adapter posts a packet at least.
        let posts: Vec<u64> = of_each("tx_posts");
        assert!(
            posts.iter().zip(&packets).all(|(posts, packets)| (1..=*packets).contains(posts)),
            "{posts:?}"
        );
        let numbers: std::collections::BTreeSet<u64> = of_each("qpn").into_iter().collect();
        assert_eq!(numbers.len(), 4, "{numbers:?}");
        let received = bench.beta.statistics().ipackets;
        assert_eq!(bench.beta.named("rx_ring_0", "packets"), received);
        assert!((1..=received).contains(&bench.beta.named("rx_ring_0", "rx_refills")));
    });
}

#[test]
fn a_ring_that_is_full_says_how_often_and_that_it_has_no_room() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| {
        let (alpha, beta, _heard) = bench.talking(PLAIN);
        let hca = bench.world.fabric().hca(bench.alpha.adapter()).expect("the adapter is there");
        let of_ring = |name| bench.alpha.named("tx_ring_0", name);
        assert_eq!((of_ring("room") + of_ring("outstanding"), of_ring("tx_full")), (512, 0));
        hca.set_no_credits(true);
        for _ in 0..600 {
            let _ = alpha.transmit(address_of(&beta), &[1; 60], Offload::default());
        }
        assert_eq!((of_ring("room"), of_ring("outstanding"), of_ring("tx_full")), (0, 512, 1));
        assert!(of_ring("tx_put_off") > 0);
        assert_eq!(of_ring("tx_put_off"), bench.alpha.counter("tx_put_off"));
        hca.set_no_credits(false);
        bench.wait_for("it goes on", Nanos::from_secs(30), || of_ring("outstanding") < 512);
    });
}

#[test]
fn an_adapter_without_buffers_is_seen_in_the_receive_ring() {
    holds(|bench| {
        let (alpha, beta, _heard) = bench.talking(PLAIN);
        let of_ring = |name| bench.beta.named("rx_ring_0", name);
        assert_eq!((of_ring("posted"), of_ring("rx_refills_short")), (512, 0));
        let held = beta.hold_received();
        for _ in 0..600 {
            alpha.transmit(address_of(&beta), &[7; 1_000], Offload::default()).unwrap();
            fakekernel::sleep(Nanos::from_micros(100));
        }
        bench.settle();
        assert_eq!((of_ring("rx_lent"), of_ring("rx_copied") > 0), (512, true));
        assert_eq!(of_ring("rx_lent") + of_ring("rx_copied"), of_ring("packets"));
        held.release();
    });
}

#[test]
fn the_table_of_paths_says_what_it_was_asked_and_what_it_knows() {
    holds(|bench| {
        let (alpha, beta, _heard) = bench.talking(PLAIN);
        let of_paths = |name| bench.alpha.named("paths", name);
        let [hits, misses, found] = ["hits", "misses", "found"].map(of_paths);
        assert!(found > 0 && misses > 0);
        for _ in 0..100 {
            alpha.transmit(address_of(&beta), &[1; 60], Offload::default()).unwrap();
        }
        bench.settle();
        // The first one asks, as nobody may have remembered the one that waited.
        assert!(of_paths("misses") <= misses + 1);
        assert!((99..=100).contains(&(of_paths("hits") - hits)), "{} of {hits}", of_paths("hits"));
        let (entries, failed) = (of_paths("entries"), of_paths("failed"));
        bench.fault(Attribute::PATH_RECORD, None, None, FaultAction::Silent);
        for n in 1..=5 {
            alpha.transmit(nobody(n), &[1; 60], Offload::default()).unwrap();
        }
        assert_eq!((of_paths("waiting"), of_paths("entries")), (5, entries + 5));
        bench.settle();
        assert_eq!(of_paths("lookups_out"), 5);
        bench.no_faults();
        bench.wait_for("all answers", Nanos::from_secs(300), || of_paths("lookups_out") == 0);
        assert_eq!((of_paths("waiting"), of_paths("failed")), (0, failed + 5));
        alpha.transmit(nobody(1), &[1; 60], Offload::default()).unwrap();
        assert_eq!(of_paths("denied"), 1);
    });
}

#[test]
fn groups_are_joined_or_tried_again_and_the_kstat_says_how_many() {
    holds(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let of_groups = |name| bench.alpha.named("groups", name);
        let states = || ["wanted", "joined", "retrying", "stale"].map(of_groups);
        assert_eq!(states(), [0; 4]);
        (1..=3).for_each(|n| alpha.enable_multicast(group(n)).unwrap());
        bench.settle();
        assert_eq!(states(), [3, 3, 0, 0]);
        bench.fault(Attribute::MC_MEMBER_RECORD, None, None, FaultAction::Refuse(Status::REQ_INVALID));
        alpha.enable_multicast(group(4)).unwrap();
        bench.settle();
        assert_eq!(states(), [4, 3, 1, 0]);
        bench.no_faults();
        bench.wait_for("the fourth", Nanos::from_secs(120), || states() == [4, 4, 0, 0]);
        drop(alpha);
        bench.settle();
        assert_eq!(of_groups("joined"), 0);
    });
}

/// What a link stands on, by name.
fn standing(host: &Host) -> [u64; 5] {
    ["port_active", "group_joined", "group_mtu", "times_up", "qp_started"]
        .map(|name| host.named("port", name))
}

#[test]
fn a_link_says_what_it_stands_on_and_what_it_has_been_through() {
    holds(|bench: &Bench| {
        let alpha = &bench.alpha;
        assert_eq!(standing(alpha), [0; 5]);
        let (stream, _) = alpha.open_up(PLAIN);
        assert_eq!(standing(alpha), [1, 1, 2048, 1, 1]);
        let qpn = address_of(&stream).0[..4].try_into().map(u32::from_be_bytes).unwrap();
        assert_eq!(alpha.named("port", "qpn"), u64::from(qpn));
        assert_eq!(alpha.named("port", "pkey"), 0xffff);
        assert!(alpha.named("port", "group_mlid") >= 0xc000);
        let since = alpha.named("port", "since");
        assert!((1..=bench.machine.now().0).contains(&since), "{since}");
        bench.world.set_cable(alpha.port(), false);
        bench.wait_for("down", Nanos::from_secs(10), || alpha.state() == LinkState::Down);
        assert_eq!((alpha.named("port", "port_active"), alpha.named("port", "last_down")), (0, 1));
        bench.world.set_cable(alpha.port(), true);
        bench.wait_for("up", Nanos::from_secs(60), || alpha.state() == LinkState::Up);
        assert_eq!(alpha.named("port", "times_up"), 2);
        let hca = bench.world.fabric().hca(alpha.adapter()).expect("the adapter is there");
        assert!(hca.break_qpn(fabric::Qpn::truncating(qpn)));
        bench.wait_for("it has another one", Nanos::from_secs(10), || alpha.named("port", "times_up") == 3);
        assert_eq!(["qp_failed", "qp_made", "qp_stalled"].map(|name| alpha.named("port", name)), [1, 2, 0]);
        assert!(alpha.named("port", "since") > since);
    });
}
