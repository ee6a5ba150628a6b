//! What fault management is told of a link, and what it is not.

use fabric::{PKey, Qpn};
use fakekernel::genunix::Service;
use fakekernel::{FaultKind, FaultPlan, Nanos};
use lab_gldv3::{LinkState, Offload, Stream};
use sm::fault::FaultAction;
use sm::{Attribute, Lid};

use crate::bench::{Bench, Driver, PLAIN, Setup, address_of, holds};

const BROKEN: &str = "ereport.io.device.inval_state";
const STALLED: &str = "ereport.io.device.stall";

fn adapter(bench: &Bench) -> fabric::Hca {
    bench.world.fabric().hca(bench.alpha.adapter()).expect("alpha's")
}

/// The classes of alpha's reports, oldest first.
fn classes(bench: &Bench) -> Vec<String> {
    bench.alpha.kernel.ereports().into_iter().map(|report| report.class).collect()
}

/// How often all that was reported of a class came.
fn counted(bench: &Bench, class: &str) -> u64 {
    let of_class = bench.alpha.kernel.ereports().into_iter().filter(|report| report.class == class);
    of_class
        .flat_map(|report| report.details)
        .filter(|(name, _)| name == "count")
        .map(|(_, count)| count)
        .sum()
}

fn service(bench: &Bench) -> Service {
    bench.alpha.driven().expect("the driver is attached").1.service()
}

/// The queue pair of alpha's link fails; then the link is up again.
fn fails_once(bench: &Bench, alpha: &Stream) {
    let number = u32::from_be_bytes(address_of(alpha).0[..4].try_into().expect("four bytes"));
    let ups = bench.alpha.named("port", "times_up");
    assert!(adapter(bench).break_qpn(Qpn::truncating(number)), "it has another number");
    bench.wait_for("up again", Nanos::from_secs(90), || bench.alpha.named("port", "times_up") > ups);
    bench.settle();
}

fn chatter(from: &Stream, to: &Stream, seconds: u64) {
    for n in 0..seconds * 10 {
        let _ = from.transmit(address_of(to), &n.to_ne_bytes().repeat(20), Offload::default());
        fakekernel::sleep(Nanos::from_millis(100));
    }
}

#[test]
fn a_queue_pair_that_fails_once_is_no_fault_and_one_that_fails_again_soon_is() {
    for driver in [Driver::Ibd, Driver::Ibp] {
        Setup { driver, ..Setup::default() }.run(|bench| {
            let (alpha, _) = bench.alpha.open_up(PLAIN);
            fails_once(bench, &alpha);
            assert_eq!((classes(bench), service(bench)), (vec![], Service::Whole));
            fails_once(bench, &alpha);
            assert_eq!(classes(bench), [BROKEN]);
            let report = &bench.alpha.kernel.ereports()[0];
            assert_eq!(report.node.0, bench.alpha.driver().name());
            assert!(report.details.contains(&("count".to_owned(), 1)), "{report:?}");
            // It is up again, with another number.
            assert_eq!(service(bench), Service::Whole);
        });
    }
}

#[test]
fn a_link_whose_queue_pair_cannot_be_made_anew_is_degraded_until_it_is_up() {
    holds(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        fails_once(bench, &alpha);
        let refuse = |plan| {
            let driver = Some(bench.alpha.driver().name());
            bench.alpha.kernel.set_fault(FaultKind("ibt_alloc_ud_channel"), driver, plan);
        };
        refuse(FaultPlan::From(0));
        let number = u32::from_be_bytes(address_of(&alpha).0[..4].try_into().expect("four bytes"));
        assert!(adapter(bench).break_qpn(Qpn::truncating(number)));
        bench.wait_for("down", Nanos::from_secs(10), || bench.alpha.state() == LinkState::Down);
        bench.settle();
        assert_eq!((classes(bench), service(bench)), (vec![BROKEN.to_owned()], Service::Degraded));
        refuse(FaultPlan::Never);
        bench.wait_for("up", Nanos::from_secs(120), || bench.alpha.state() == LinkState::Up);
        bench.settle();
        assert_eq!(service(bench), Service::Whole);
    });
}

#[test]
fn a_cq_that_is_lost_while_its_queue_pair_carries_nothing_is_a_fault() {
    Setup { ipoib: false, ..Setup::default() }.run(|bench| {
        bench.alpha.set("_ibd_create_broadcast_group", "0").unwrap();
        let (_alpha, _) = bench.alpha.open(PLAIN);
        fakekernel::sleep(Nanos::from_secs(1));
        assert_eq!((bench.alpha.state(), classes(bench)), (LinkState::Down, vec![]));
        assert_ne!(adapter(bench).break_cqs(), 0);
        bench.settle();
        assert_eq!(classes(bench), [BROKEN]);
        bench.sm.set_partitions(vec![crate::bench::partition(true)]);
        bench.wait_for("up", Nanos::from_secs(300), || bench.alpha.state() == LinkState::Up);
    });
}

#[test]
fn a_queue_pair_that_fails_long_after_two_stalls_is_no_fault() {
    holds(|bench| {
        let (alpha, beta, _) = bench.talking(PLAIN);
        bench.alpha.set("_ibd_tx_timeout", "1").unwrap();
        for _ in 0..2 {
            hangs_once(bench, &alpha, &beta);
        }
        bench.wait_for("up", Nanos::from_secs(120), || bench.alpha.state() == LinkState::Up);
        chatter(&alpha, &beta, 60);
        assert_eq!(bench.alpha.named("port", "qp_stalled"), 2);
        assert_eq!(counted(bench, BROKEN), 0, "{:?}", classes(bench));
        fails_once(bench, &alpha);
        assert_eq!(counted(bench, BROKEN), 0, "{:?}", classes(bench));
    });
}

/// The queue pair that sends just now completes nothing any more, and others do.
fn hangs_once(bench: &Bench, alpha: &Stream, beta: &Stream) {
    let before = bench.alpha.named("port", "qp_stalled");
    bench.wait_for("it is replaced", Nanos::from_secs(120), || {
        if bench.alpha.named("port", "qp_stalled") > before {
            return true;
        }
        adapter(bench).set_sends_hang(true);
        chatter(alpha, beta, 1);
        adapter(bench).set_sends_hang(false);
        chatter(alpha, beta, 4);
        false
    });
}

#[test]
fn queue_pairs_that_hang_are_reported_once_a_minute_and_all_counted() {
    holds(|bench| {
        let (alpha, beta, _) = bench.talking(PLAIN);
        bench.alpha.set("_ibd_tx_timeout", "1").unwrap();
        let begun = bench.machine.now();
        while bench.machine.now().since(begun) < Nanos::from_secs(600) {
            hangs_once(bench, &alpha, &beta);
        }
        for class in [BROKEN, STALLED] {
            let of_class = bench.alpha.kernel.ereports().into_iter().filter(|report| report.class == class);
            let times: Vec<Nanos> = of_class.map(|report| report.at).collect();
            assert!((class == BROKEN) == times.is_empty() && times.len() <= 11, "{class}: {times:?}");
            let apart = times.windows(2).all(|pair| pair[1].since(pair[0]) >= Nanos::from_secs(60));
            assert!(apart, "{class}: {times:?}");
        }
        let stalled = bench.alpha.named("port", "qp_stalled");
        let told = counted(bench, STALLED);
        // What came since the last report is told by the next.
        assert!((20..=stalled).contains(&told) && stalled - told < 60, "{told} of {stalled}");
        bench.wait_for("well again", Nanos::from_secs(120), || {
            chatter(&alpha, &beta, 5);
            bench.alpha.state() == LinkState::Up && service(bench) == Service::Whole
        });
    });
}

/// It may be the fabric: before, the node was degraded and a report made after the first five seconds.
#[test]
fn an_adapter_that_completes_no_sends_at_all_is_no_fault() {
    holds(|bench| {
        let (alpha, beta, _) = bench.talking(PLAIN);
        bench.alpha.set("_ibd_tx_timeout", "1").unwrap();
        adapter(bench).set_sends_hang(true);
        chatter(&alpha, &beta, 60);
        assert_eq!((classes(bench), service(bench)), (vec![], Service::Whole));
        adapter(bench).set_sends_hang(false);
    });
}

/// Any one allocation fails while a queue pair that failed is replaced: the link comes up.
#[test]
fn want_of_memory_while_a_queue_pair_is_replaced_is_no_fault_of_the_adapters() {
    for refused in 0..12 {
        Setup { seeds: 1, ..Setup::default() }.run(move |bench| {
            let (alpha, _) = bench.alpha.open_up(PLAIN);
            let driver = Some(bench.alpha.driver().name());
            bench.alpha.kernel.set_fault(FaultKind::KMEM, driver, FaultPlan::Nth(refused));
            fails_once(bench, &alpha);
            bench.alpha.kernel.set_fault(FaultKind::KMEM, driver, FaultPlan::Never);
            let after = (bench.alpha.state(), classes(bench), service(bench));
            assert_eq!(after, (LinkState::Up, vec![], Service::Whole), "allocation {refused}");
        });
    }
}

#[test]
fn a_cable_and_a_refused_report_are_no_faults() {
    holds(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        bench.world.set_cable(bench.alpha.port(), false);
        bench.wait_for("down", Nanos::from_secs(10), || bench.alpha.state() == LinkState::Down);
        bench.world.set_cable(bench.alpha.port(), true);
        bench.wait_for("up", Nanos::from_secs(60), || bench.alpha.state() == LinkState::Up);
        assert_eq!((classes(bench), service(bench)), (vec![], Service::Whole));
        // The adapter's driver is not capable, or there is no memory.
        bench.alpha.kernel.set_fault(FaultKind::DDI, Some(bench.alpha.driver().name()), FaultPlan::From(0));
        fails_once(bench, &alpha);
        fails_once(bench, &alpha);
        assert_eq!((classes(bench), service(bench)), (vec![], Service::Whole));
        bench.alpha.kernel.set_fault(FaultKind::DDI, Some(bench.alpha.driver().name()), FaultPlan::Never);
    });
}

const MINUTE: Nanos = Nanos::from_secs(60);

/// Fault management was told nothing, and the node is whole.
fn no_fault(bench: &Bench, after: &str) {
    bench.settle();
    assert_eq!((classes(bench), service(bench)), (vec![], Service::Whole), "after {after}");
}

fn waits_for(bench: &Bench, state: LinkState) {
    bench.wait_for("the link's state", MINUTE, || bench.alpha.state() == state);
}

#[test]
fn a_lost_p_key_a_silent_sa_another_sm_and_a_neighbour_that_is_gone_are_no_faults() {
    holds(|bench| {
        let (alpha, beta, _) = bench.talking(PLAIN);
        let set_pkey =
            |pkey| bench.world.fabric().set_pkeys(bench.alpha.port(), &[PKey(pkey)]).expect("alpha's");
        set_pkey(0x8123);
        waits_for(bench, LinkState::Down);
        set_pkey(0xffff);
        waits_for(bench, LinkState::Up);
        no_fault(bench, "a lost P_Key");

        bench.fault(Attribute::PATH_RECORD, None, None, FaultAction::Silent);
        bench.fault(Attribute::MC_MEMBER_RECORD, None, None, FaultAction::Silent);
        let (mut stranger, faulted) = (address_of(&beta), bench.faulted());
        stranger.0[19] ^= 0xff;
        let _ = alpha.transmit(stranger, b"who is there", Offload::default());
        bench.sm.restart(Lid(Lid::FIRST_MULTICAST.0 + 16));
        fakekernel::sleep(MINUTE);
        assert!(bench.faulted() >= faulted + 2, "a path and a join are asked for");
        no_fault(bench, "a silent SA");
        bench.no_faults();
        chatter(&alpha, &beta, 30);
        waits_for(bench, LinkState::Up);
        no_fault(bench, "another SM");

        let sent = bench.alpha.statistics().opackets;
        bench.world.set_cable(bench.beta.port(), false);
        chatter(&alpha, &beta, 30);
        bench.world.set_cable(bench.beta.port(), true);
        assert!(bench.alpha.statistics().opackets > sent, "nothing was sent to the neighbour");
        no_fault(bench, "a neighbour that is gone");
    });
}

#[test]
fn a_want_of_memory_is_no_fault() {
    holds(|bench| {
        let (alpha, beta, _) = bench.talking(PLAIN);
        let refused = || {
            bench.alpha.kernel.set_fault(
                FaultKind::KMEM,
                Some(bench.alpha.driver().name()),
                FaultPlan::OneIn(2),
            );
            bench.alpha.kernel.set_fault(
                FaultKind::ALLOCB,
                Some(bench.alpha.driver().name()),
                FaultPlan::OneIn(2),
            );
        };
        refused();
        chatter(&beta, &alpha, 10);
        bench.world.set_cable(bench.alpha.port(), false);
        waits_for(bench, LinkState::Down);
        bench.world.set_cable(bench.alpha.port(), true);
        chatter(&alpha, &beta, 30);
        for kind in [FaultKind::KMEM, FaultKind::ALLOCB] {
            let called = bench.alpha.kernel.clear_fault(kind, Some(bench.alpha.driver().name()));
            assert!(called.is_some_and(|calls| calls >= 4), "{kind:?}: {called:?}");
        }
        waits_for(bench, LinkState::Up);
        no_fault(bench, "a want of memory");
    });
}

#[test]
fn a_link_whose_adapter_is_pulled_has_lost_its_service() {
    holds(|bench| {
        let (_alpha, _) = bench.alpha.open_up(PLAIN);
        let pulled = bench.world.remove_hca(&bench.alpha.kernel, bench.alpha.adapter());
        assert!(pulled.is_ok(), "{}", pulled.unwrap_err());
        bench.wait_for("down", Nanos::from_secs(10), || bench.alpha.state() == LinkState::Down);
        bench.settle();
        assert_eq!((classes(bench), service(bench)), (vec![], Service::Lost));
    });
}
