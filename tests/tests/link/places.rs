//! An adapter that has fewer places for groups than the links on it would have: IP's come first, and promiscuous mode has what is left.

use fabric::{Guid, HcaConfig};
use fakekernel::Nanos;
use lab_gldv3::{LinkState, Offload, Promiscuity, ReceiveQueue, Stream};

use sm::Partition;
use sm::partition::{GroupParams, Membership, Ports};

use crate::bench::{Bench, Driver, PLAIN, Setup, group, partition};

const SECOND: Nanos = Nanos::from_secs(1);
const MINUTE: Nanos = Nanos::from_secs(60);
/// Alpha's node, whose adapter has few places.
const ALPHA: u64 = 0x0002_c903_0000_1000;
const PLACES: u32 = 6;
/// Groups of beta's, which alpha hears in promiscuous mode alone.
const OVERHEARD: u32 = 0x0006_0001;
/// Groups that alpha's IP wants.
const WANTED: u32 = 0x0007_0001;

fn few_places(config: &mut HcaConfig) {
    let ports = if config.guid == Guid(ALPHA) { 2 } else { 1 };
    *config = HcaConfig::new(config.guid, ports);
    if ports == 2 {
        config.attr.max_mcg = PLACES;
    }
}

fn run(test: fn(&Bench)) {
    Setup { hca: few_places, driver: Driver::Ibp, ..Setup::default() }.run(test);
}

/// Beta is in more groups than alpha has places for, and alpha is promiscuous: alpha's stream, and beta's.
fn snooping(bench: &Bench) -> (Stream, ReceiveQueue, Stream) {
    let (alpha, heard) = bench.alpha.open_up(PLAIN);
    let (beta, _) = bench.beta.open_up(PLAIN);
    (0..20).for_each(|n| beta.enable_multicast(group(OVERHEARD + n)).unwrap());
    bench.settle();
    alpha.set_promiscuous(Promiscuity::Multicast, true).unwrap();
    bench.wait_for("every place is taken", MINUTE, || joined(bench) >= u64::from(PLACES - 1));
    (alpha, heard, beta)
}

/// Groups that alpha is in, beside the broadcast group.
fn joined(bench: &Bench) -> u64 {
    bench.alpha.named("groups", "joined")
}

/// Whether what beta sends to a group of alpha's comes there.
fn hears(heard: &ReceiveQueue, beta: &Stream, last: u32) -> bool {
    for _ in 0..2 {
        beta.transmit(group(last), &last.to_be_bytes().repeat(16), Offload::default()).unwrap();
        fakekernel::sleep(Nanos::from_millis(20));
    }
    let packets = std::iter::from_fn(|| heard.try_next());
    packets.filter(|packet| packet.payload == last.to_be_bytes().repeat(16)).count() > 0
}

fn questions(bench: &Bench) -> u64 {
    ["ibt_join_mcg", "ibt_leave_mcg", "ibt_query_mcg"].iter().map(|call| bench.alpha.calls(call)).sum()
}

/// Before, what promiscuous mode had joined kept its places, and a group of IP's was tried again for as long as a snoop ran.
#[test]
fn a_group_of_ip_takes_the_place_of_one_that_is_overheard() {
    run(|bench| {
        let (alpha, heard, beta) = snooping(bench);
        let before = questions(bench);
        for n in 0..PLACES - 1 {
            alpha.enable_multicast(group(WANTED + n)).unwrap();
            fakekernel::sleep(Nanos::from_millis(50));
            assert!(hears(&heard, &beta, WANTED + n), "group {n}, at once");
        }
        let asked = questions(bench) - before;
        assert!(asked <= 2 * u64::from(PLACES), "{asked} questions");
        assert_eq!(bench.alpha.named("groups", "retrying"), 0);
        fakekernel::sleep(MINUTE);
        assert!((0..PLACES - 1).all(|n| hears(&heard, &beta, WANTED + n)), "a minute later");
        // What promiscuous mode misses is told, and tried again now and then.
        assert!(bench.alpha.named("groups", "missed") > 0);
        let told = |line: &String| line.contains("promiscuous mode would hear");
        assert!((1..=3).contains(&bench.alpha.console().iter().filter(|line| told(line)).count()));
        let before = questions(bench);
        fakekernel::sleep(Nanos::from_secs(600));
        let asked = questions(bench) - before;
        assert!(asked < 10 * 60, "{asked} questions in ten minutes");
    });
}

/// `ipadm delete-if` and `create-if` while a snoop holds the link open. Before, promiscuous mode had the places in between.
#[test]
fn groups_of_ip_that_comes_back_while_a_snoop_runs_are_heard() {
    run(|bench| {
        let (alpha, heard, beta) = snooping(bench);
        (0..3).for_each(|n| alpha.enable_multicast(group(WANTED + n)).unwrap());
        bench.settle();
        (0..3).for_each(|n| alpha.disable_multicast(group(WANTED + n)).unwrap());
        bench.wait_for("promiscuous mode has the places", Nanos::from_secs(180), || {
            joined(bench) >= u64::from(PLACES - 1)
        });
        (0..3).for_each(|n| alpha.enable_multicast(group(WANTED + n)).unwrap());
        fakekernel::sleep(Nanos::from_millis(50));
        assert!((0..3).all(|n| hears(&heard, &beta, WANTED + n)));
    });
}

/// Before, the new queue pair was attached in the order of joining: promiscuous mode first.
#[test]
fn the_next_queue_pair_hears_the_groups_of_ip_first() {
    run(|bench| {
        let (alpha, heard, beta) = snooping(bench);
        (0..4).for_each(|n| alpha.enable_multicast(group(WANTED + n)).unwrap());
        bench.settle();
        let made = || bench.alpha.named("port", "qp_started");
        for _ in 0..3 {
            let before = made();
            let hca = bench.world.fabric().hca(bench.alpha.adapter()).expect("alpha's");
            for qpn in hca.qpns() {
                let _ = hca.break_qpn(qpn);
            }
            bench.wait_for("another queue pair", MINUTE, || made() > before);
            fakekernel::sleep(Nanos::from_millis(100));
            assert!((0..4).all(|n| hears(&heard, &beta, WANTED + n)));
        }
    });
}

/// Before, the link of another partition had no place for its broadcast group as long as promiscuous mode ran, and did not come up.
#[test]
fn a_link_whose_adapter_is_full_of_overheard_groups_comes_up() {
    run(|bench| {
        let other = Partition::new("other", sm::PKey(0x8001)).with_members(Ports::All, Membership::Full);
        bench.sm.set_partitions(vec![partition(true), other.with_ipoib(GroupParams::default())]);
        let _snooping = snooping(bench);
        let kernel = &bench.alpha.kernel;
        lab_gldv3::create_partition(kernel, "ibp0", 0x8001, "other0", true).expect("a partition");
        let other = Stream::open(kernel, "other0").expect("the link opens");
        other.bind(PLAIN).expect("the stream binds");
        let state =
            || lab_gldv3::links(kernel).iter().find(|link| link.name == "other0").map(|link| link.state);
        let up = || state() == Some(LinkState::Up);
        bench.wait_for("the broadcast group has a place", Nanos::from_secs(10), up);
        drop(other);
        let gone = || lab_gldv3::delete_partition(kernel, "other0").is_ok();
        bench.wait_for("the other link goes", MINUTE, gone);
    });
}

/// Two ports of an adapter share its places. Before, promiscuous mode on the one kept every place from the other.
#[test]
fn a_group_of_ip_takes_the_place_of_one_that_another_link_overhears() {
    run(|bench| {
        let (_alpha, _heard, beta) = snooping(bench);
        let kernel = &bench.alpha.kernel;
        bench.alpha.attach_port(Guid(bench.alpha.port().0 + 1));
        lab_gldv3::create_partition(kernel, "ibp1", 0xffff, "other0", true).expect("a partition");
        let other = Stream::open(kernel, "other0").expect("the link opens");
        let heard = other.receive_queue(64);
        other.bind(PLAIN).expect("the stream binds");
        let state =
            || lab_gldv3::links(kernel).iter().find(|link| link.name == "other0").map(|link| link.state);
        bench.wait_for("the broadcast group has a place", Nanos::from_secs(10), || {
            state() == Some(LinkState::Up)
        });
        other.enable_multicast(group(WANTED)).unwrap();
        bench.wait_for("so has a group of IP's", Nanos::from_secs(10), || hears(&heard, &beta, WANTED));
        fakekernel::sleep(Nanos::from_secs(300));
        assert!(hears(&heard, &beta, WANTED), "and keeps it");
        drop(other);
        bench.wait_for("the other link goes", Nanos::from_secs(60), || {
            lab_gldv3::delete_partition(kernel, "other0").is_ok()
        });
    });
}

#[test]
fn a_snoop_that_ends_leaves_every_place_to_ip() {
    run(|bench| {
        let (alpha, heard, beta) = snooping(bench);
        alpha.set_promiscuous(Promiscuity::Multicast, false).unwrap();
        bench.wait_for("nothing is overheard", SECOND, || joined(bench) == 0);
        assert_eq!(bench.alpha.named("groups", "missed"), 0);
        alpha.enable_multicast(group(WANTED)).unwrap();
        bench.settle();
        assert!(hears(&heard, &beta, WANTED));
    });
}
