//! A transmit ring whose queue pair fails: it is replaced alone, and whoever sends by the other rings notices nothing.

use std::collections::{BTreeMap, BTreeSet};

use fakekernel::genunix::Service;
use fakekernel::{FaultKind, FaultPlan, Nanos};
use lab_gldv3::{LinkAddress, LinkState, ReceiveQueue, Stream};
use sm::Attribute;
use sm::fault::FaultAction;

use crate::bench::{Bench, IPV4, address_of};
use crate::rings::{BOTH, all, flow_and_number, qpn, ring_of_each, rings, send, senders};

const FLOWS: u16 = 32;
const ALONE: &str = "the queue pair of transmit ring";
const LINK: &str = "the queue pair failed; making another one";

fn adapter(bench: &Bench) -> fabric::Hca {
    bench.world.fabric().hca(bench.alpha.adapter()).expect("alpha's")
}

fn lines(bench: &Bench, with: &str) -> usize {
    bench.alpha.console().iter().filter(|line| line.contains(with)).count()
}

/// The queue pair of some ring beside the first, by its address.
fn sender(bench: &Bench, alpha: &Stream, heard: &ReceiveQueue) -> LinkAddress {
    let own = address_of(alpha);
    let all = senders(bench, alpha, heard);
    assert_eq!(all.len(), 4, "{all:?}, {:?}", bench.alpha.counters());
    all.into_iter().find(|source| *source != own).expect("one of four")
}

#[test]
fn queue_pair_of_one_ring_fails_and_flows_of_the_others_lose_nothing() {
    rings(BOTH, 8, |bench| {
        bench.beta.set("_ibd_ud_num_rwqe", "8000").unwrap();
        let (alpha, beta, heard) = bench.talking(IPV4);
        let (to, own) = (address_of(&beta), address_of(&alpha));
        let by_ring = ring_of_each(bench, &alpha, to, FLOWS);
        let before = senders(bench, &alpha, &heard);
        let broken = sender(bench, &alpha, &heard);
        let asked = bench.alpha.counter("sa_paths");
        bench.settle();
        all(&heard);
        let mut numbers: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
        let mut listen = || {
            for packet in all(&heard) {
                let (flow, number) = flow_and_number(&packet.payload);
                numbers.entry(flow).or_default().push(number);
            }
        };
        for number in 0..200 {
            if number == 50 {
                assert!(adapter(bench).break_qpn(qpn(&broken)), "alpha's queue pair has another number");
            }
            (0..FLOWS).for_each(|flow| send(&alpha, to, flow, number));
            fakekernel::sleep(Nanos::from_micros(300));
            assert_eq!(bench.alpha.state(), LinkState::Up);
            listen();
        }
        bench.settle();
        listen();
        let short: BTreeSet<usize> = (0..FLOWS)
            .filter(|flow| numbers[flow] != (0..200).collect::<Vec<u32>>())
            .map(|flow| by_ring[usize::from(flow)])
            .collect();
        assert!(short.len() <= 1 && !short.contains(&0), "rings {short:?} have lost something");
        for (flow, numbers) in &numbers {
            assert!(numbers.is_sorted() && numbers.last() == Some(&199), "flow {flow}: {numbers:?}");
            // What the adapter had when it failed; nothing that came after.
            assert!(numbers.len() > 190, "flow {flow} has {} of 200", numbers.len());
        }
        assert_eq!((lines(bench, ALONE), lines(bench, LINK)), (1, 0), "{:?}", bench.alpha.console());
        assert_eq!(bench.alpha.counter("sa_paths"), asked, "somebody was looked up again");
        let after = senders(bench, &alpha, &heard);
        assert_eq!(address_of(&alpha), own);
        assert_eq!((after.len(), after.intersection(&before).count()), (4, 3), "{before:?}, {after:?}");
        assert!(!after.contains(&broken));
    });
}

#[test]
fn ring_that_fails_again_soon_has_the_link_built_anew_and_one_that_fails_later_has_not() {
    rings(BOTH, 4, |bench| {
        let (alpha, _beta, heard) = bench.talking(IPV4);
        let first = sender(bench, &alpha, &heard);
        let before = senders(bench, &alpha, &heard);
        assert!(adapter(bench).break_qpn(qpn(&first)));
        bench.settle();
        let another = |before: &BTreeSet<LinkAddress>| {
            let now = senders(bench, &alpha, &heard);
            let new: Vec<LinkAddress> = now.difference(before).copied().collect();
            assert_eq!((now.len(), new.len()), (4, 1), "{:?}", bench.alpha.console());
            (new[0], now)
        };
        let (second, before) = another(&before);
        fakekernel::sleep(Nanos::from_secs(11));
        assert!(adapter(bench).break_qpn(qpn(&second)));
        bench.settle();
        let (third, _) = another(&before);
        assert_eq!((lines(bench, ALONE), lines(bench, LINK)), (2, 0), "{:?}", bench.alpha.console());
        assert!(adapter(bench).break_qpn(qpn(&third)));
        bench.wait_for("the link is built anew", Nanos::from_secs(60), || {
            lines(bench, LINK) == 1 && bench.alpha.state() == LinkState::Up
        });
        assert_eq!(senders(bench, &alpha, &heard).len(), 4);
    });
}

#[test]
fn queue_pair_that_cannot_be_had_again_has_the_link_built_anew() {
    const KINDS: [&str; 4] =
        ["ibt_alloc_ud_channel", "ibt_alloc_cq", "ibt_register_mr", "ibt_enable_cq_notify"];
    rings(BOTH, 4, |bench| {
        let (alpha, beta, heard) = bench.talking(IPV4);
        for kind in KINDS {
            let broken = sender(bench, &alpha, &heard);
            bench.alpha.kernel.set_fault(FaultKind(kind), Some("ibd"), FaultPlan::Nth(0));
            assert!(adapter(bench).break_qpn(qpn(&broken)));
            bench.settle();
            bench.alpha.kernel.clear_fault(FaultKind(kind), Some("ibd"));
            bench.wait_for("every flow arrives", Nanos::from_secs(120), || {
                all(&heard);
                (0..FLOWS).for_each(|flow| send(&alpha, address_of(&beta), flow, 1));
                bench.settle();
                all(&heard).len() == usize::from(FLOWS)
            });
            fakekernel::sleep(Nanos::from_secs(60));
        }
        assert_eq!(lines(bench, LINK), KINDS.len(), "{:?}", bench.alpha.console());
    });
}

#[test]
fn queue_pair_that_fails_before_its_ring_has_it_is_found_out_all_the_same() {
    rings(BOTH, 8, |bench| {
        let (alpha, beta, heard) = bench.talking(IPV4);
        let broken = sender(bench, &alpha, &heard);
        let before = adapter(bench).qpns();
        let slow = Nanos::from_millis(1);
        lab_ibtf::set_command_time(&bench.alpha.kernel, Some((slow, slow)));
        assert!(adapter(bench).break_qpn(qpn(&broken)));
        let made = (0..100_000).find_map(|_| {
            fakekernel::sleep(Nanos::from_micros(10));
            adapter(bench).qpns().into_iter().find(|qpn| !before.contains(qpn))
        });
        assert!(adapter(bench).break_qpn(made.expect("another queue pair within a second")));
        bench.settle();
        lab_ibtf::set_command_time(&bench.alpha.kernel, None);
        bench.wait_for("every flow arrives", Nanos::from_secs(60), || {
            all(&heard);
            (0..FLOWS).for_each(|flow| send(&alpha, address_of(&beta), flow, 1));
            bench.settle();
            all(&heard).len() == usize::from(FLOWS)
        });
    });
}

#[test]
fn queue_pairs_that_fail_before_the_link_is_up_carry_all_flows_once_it_is() {
    rings(BOTH, 4, |bench| {
        bench.fault(Attribute::MC_MEMBER_RECORD, None, None, FaultAction::Silent);
        let (alpha, _) = bench.alpha.open(IPV4);
        bench.settle();
        let made = adapter(bench).qpns();
        assert_eq!(made.len(), 4, "made before the group is known");
        // The first one receives: the link would learn of that.
        for qpn in made.into_iter().skip(1) {
            assert!(adapter(bench).break_qpn(qpn));
        }
        bench.settle();
        bench.no_faults();
        let (beta, heard) = bench.beta.open_up(IPV4);
        bench.wait_for("the link is up", Nanos::from_secs(600), || bench.alpha.state() == LinkState::Up);
        bench.wait_for("every flow arrives", Nanos::from_secs(120), || {
            all(&heard);
            (0..FLOWS).for_each(|flow| send(&alpha, address_of(&beta), flow, 1));
            bench.settle();
            all(&heard).len() == usize::from(FLOWS)
        });
        assert_eq!(bench.alpha.counter("tx_failed"), 0, "{:?}", bench.alpha.counters());
    });
}

#[test]
fn ring_that_completes_nothing_is_replaced_alone() {
    rings(BOTH, 4, |bench| {
        bench.alpha.set("_ibd_tx_timeout", "1").unwrap();
        let (alpha, beta, heard) = bench.talking(IPV4);
        let to = address_of(&beta);
        let by_ring = ring_of_each(bench, &alpha, to, FLOWS);
        let flow = (0..FLOWS).find(|flow| by_ring[usize::from(*flow)] != 0).expect("four rings");
        let own = address_of(&alpha);
        adapter(bench).set_sends_hang(true);
        bench.wait_for("it is noticed", Nanos::from_secs(60), || {
            send(&alpha, to, flow, 0);
            bench.alpha.counter("tx_timeouts") == 1
        });
        adapter(bench).set_sends_hang(false);
        bench.wait_for("well again", Nanos::from_secs(60), || {
            all(&heard);
            send(&alpha, to, flow, 0);
            bench.settle();
            bench.alpha.named("port", "qp_stalled") == 1 && !all(&heard).is_empty()
        });
        assert_eq!(
            lines(bench, "hangs, and another one sends; building another"),
            1,
            "{:?}",
            bench.alpha.console()
        );
        assert_eq!((address_of(&alpha), lines(bench, LINK)), (own, 0), "the others were left alone");
        let service = || bench.alpha.driven().expect("the driver is attached").1.service();
        assert_eq!(service(), Service::Whole, "the link was up all the time, and the ring is well again");
    });
}

#[test]
fn ring_with_a_send_that_fails_goes_on_with_its_queue_pair() {
    rings(BOTH, 4, |bench| {
        let (alpha, beta, heard) = bench.talking(IPV4);
        let to = address_of(&beta);
        let before = adapter(bench).qpns();
        for flow in 0..FLOWS {
            adapter(bench).fail_next_send();
            send(&alpha, to, flow, 0);
            bench.settle();
            all(&heard);
            send(&alpha, to, flow, 1);
            bench.settle();
            assert_eq!(all(&heard).len(), 1, "flow {flow}");
            fakekernel::sleep(Nanos::from_secs(15));
        }
        assert_eq!((adapter(bench).qpns(), bench.alpha.named("port", "qp_failed")), (before, 0));
    });
}

#[test]
fn link_is_closed_at_any_point_of_the_replacement_of_a_ring() {
    rings(BOTH, 40, |bench| {
        for round in 0..3 {
            let (beta, heard) = bench.beta.open_up(IPV4);
            let (alpha, _) = bench.alpha.open_up(IPV4);
            let broken = sender(bench, &alpha, &heard);
            (0..FLOWS).for_each(|flow| send(&alpha, address_of(&beta), flow, round));
            adapter(bench).break_qpn(qpn(&broken));
            fakekernel::sleep(Nanos::from_micros(bench.machine.now().0 % 400));
            (0..FLOWS).for_each(|flow| send(&alpha, address_of(&beta), flow, round));
            drop(alpha);
        }
    });
}
