//! A link that goes while the SA is silent: what it has not left is ended later, as long as its port has an instance.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fakekernel::{Ctx, Errno, FaultKind, FaultPlan, Nanos};
use lab_gldv3::Offload;
use sm::fault::FaultAction;
use sm::{Attribute, Fault, Method};

use crate::bench::{Bench, Driver, PLAIN, Setup, address_of, group};

/// How long a deletion may be refused: a question that is out takes a minute.
const MINUTE: Nanos = Nanos::from_secs(70);
/// How soon all is over that an SA which answers again is asked: a pause of a minute, and a question.
const LATER: Nanos = Nanos::from_secs(150);

fn silence(bench: &Bench) {
    bench.sm.faults(|script| script.push(Fault::always(FaultAction::Silent)));
}

/// Deletes alpha's partition; how long that took.
#[track_caller]
fn delete(bench: &Bench) -> Nanos {
    let begun = bench.machine.now();
    loop {
        match bench.alpha.try_delete_partition() {
            Ok(()) => return bench.machine.now().since(begun),
            Err(error) => assert_eq!(error, Errno::EBUSY),
        }
        let took = bench.machine.now().since(begun);
        assert!(took < MINUTE, "refused for {took}: {:?}", bench.alpha.console());
        fakekernel::sleep(Nanos::from_millis(100));
    }
}

fn with_partitions(seeds: u64, test: impl Fn(&Bench) + Clone + Send + 'static) {
    Setup { seeds, driver: Driver::Ibp, ..Setup::default() }.run(test);
}

/// With 48 groups it was refused for 377 s, as each of three leaves of each group was waited for.
#[test]
fn a_link_with_500_groups_goes_while_the_sa_is_silent() {
    with_partitions(2, |bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        for n in 0..500 {
            alpha.enable_multicast(group(0xe003_0001 + n)).unwrap();
        }
        bench.wait_for("all are joined", MINUTE, || bench.memberships_of_alpha() > 500);
        silence(bench);
        drop(alpha);
        delete(bench);
        assert!(bench.memberships_of_alpha() > 490, "the SA was told nothing");
        bench.no_faults();
        bench.wait_for("nothing is left at the SA", LATER, || bench.memberships_of_alpha() == 0);
        assert_eq!(lab_ibtf::joins(&bench.alpha.kernel), [], "and nothing that ibcm counts");
        bench.alpha.create_partition();
        let _ = bench.alpha.open_up(PLAIN);
    });
}

/// What is out when it goes comes back too late, and is undone.
#[test]
fn a_link_goes_while_its_joins_are_out_and_they_are_undone_when_they_are_granted() {
    with_partitions(16, |bench| {
        let (beta, _) = bench.beta.open_up(PLAIN);
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        bench.settle();
        silence(bench);
        alpha.transmit(address_of(&beta), b"to whom", Offload::default()).unwrap();
        for n in 0..6 {
            alpha.enable_multicast(group(0xe003_0001 + n)).unwrap();
        }
        fakekernel::sleep(Nanos::from_millis(20));
        drop(alpha);
        let took = delete(bench);
        assert!(took < Nanos::from_secs(10), "a partition does not wait for the SA at all: {took}");
        // The joins that are out are granted now.
        bench.no_faults();
        bench.wait_for("nothing is left at the SA", LATER, || bench.memberships_of_alpha() == 0);
        bench.wait_for("nothing is counted", LATER, || lab_ibtf::joins(&bench.alpha.kernel).is_empty());
    });
}

/// The late leave of the one before ends nothing that a new link of the partition has joined.
#[test]
fn a_new_link_of_the_partition_stays_in_the_groups_that_the_one_before_owes() {
    with_partitions(24, |bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, _) = bench.beta.open_up(PLAIN);
        for n in 0..12 {
            alpha.enable_multicast(group(0xe003_0001 + n)).unwrap();
        }
        bench.settle();
        silence(bench);
        drop(alpha);
        delete(bench);
        bench.alpha.create_partition();
        let (alpha, heard) = bench.alpha.open(PLAIN);
        // Half of them again.
        for n in 0..6 {
            alpha.enable_multicast(group(0xe003_0001 + 2 * n)).unwrap();
        }
        fakekernel::sleep(Nanos::from_millis(1 + bench.machine.now().0 % 5_000));
        bench.no_faults();
        bench.wait_for("up", LATER, || bench.alpha.state() == lab_gldv3::LinkState::Up);
        // The broadcast group and six.
        bench.wait_for("what is owed is paid", LATER, || bench.memberships_of_alpha() == 7);
        fakekernel::sleep(LATER);
        assert_eq!(bench.memberships_of_alpha(), 7);
        // The first packet to a group is sent before the switches let beta send there.
        for _ in 0..2 {
            while heard.try_next().is_some() {}
            for n in 0..6 {
                beta.transmit(group(0xe003_0001 + 2 * n), &[7; 40], Offload::default()).unwrap();
            }
            bench.settle();
        }
        assert_eq!(std::iter::from_fn(|| heard.try_next()).count(), 6, "alpha hears each");
    });
}

/// The last instance on a port goes within a minute, whatever the SA does; IBTF counts nothing of it then.
#[test]
fn a_port_goes_a_minute_after_its_links_while_the_sa_is_silent() {
    for driver in [Driver::Ibd, Driver::Ibp] {
        Setup { seeds: 2, driver, ..Setup::default() }.run(|bench| {
            let (alpha, _) = bench.alpha.open_up(PLAIN);
            for n in 0..20 {
                alpha.enable_multicast(group(0xe003_0001 + n)).unwrap();
            }
            bench.settle();
            silence(bench);
            drop(alpha);
            let begun = bench.machine.now();
            bench.alpha.unload();
            let took = bench.machine.now().since(begun);
            assert!(took < Nanos::from_secs(200), "it takes {took}");
            assert_eq!(lab_ibtf::joins(&bench.alpha.kernel), []);
            let said = |line: &String| line.contains("memberships are left to the SA");
            assert!(bench.alpha.console().iter().any(said), "{:?}", bench.alpha.console());
            bench.no_faults();
        });
    }
}

/// A deletion that is opened in the middle is refused, and the link is as good as before.
#[test]
fn a_link_that_is_opened_while_it_is_deleted_stays_or_is_gone() {
    with_partitions(48, |bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        alpha.enable_multicast(group(0xe003_0001)).unwrap();
        bench.settle();
        silence(bench);
        drop(alpha);
        let kernel = bench.alpha.kernel.clone();
        let done = Arc::new(AtomicBool::new(false));
        let until = done.clone();
        let other = bench.alpha.kernel.spawn("opens", Ctx::User, move || {
            while !until.load(Ordering::Relaxed) {
                if let Ok(stream) = lab_gldv3::Stream::open(&kernel, crate::bench::LINK) {
                    let _ = stream.bind(PLAIN);
                }
                fakekernel::sleep(Nanos::from_micros(50_000 + kernel.machine().now().0 % 60_000));
            }
        });
        for _ in 0..20 {
            let _ = bench.alpha.try_delete_partition();
            fakekernel::sleep(Nanos::from_millis(10));
        }
        done.store(true, Ordering::Relaxed);
        other.join();
        delete(bench);
        bench.no_faults();
        bench.wait_for("nothing is left at the SA", LATER, || bench.memberships_of_alpha() == 0);
        bench.wait_for("nothing is counted", LATER, || lab_ibtf::joins(&bench.alpha.kernel).is_empty());
    });
}

/// An SA that loses the answers to leaves has ended what they were about.
#[test]
fn leaves_whose_answers_are_lost_are_over_when_the_sa_answers() {
    with_partitions(4, |bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        for n in 0..6 {
            alpha.enable_multicast(group(0xe003_0001 + n)).unwrap();
        }
        bench.settle();
        bench.fault(Attribute::MC_MEMBER_RECORD, Some(Method::DELETE), None, FaultAction::LoseAnswer);
        drop(alpha);
        delete(bench);
        bench.no_faults();
        bench.wait_for("nothing is left at the SA", LATER, || bench.memberships_of_alpha() == 0);
        bench.wait_for("nothing is counted", LATER, || lab_ibtf::joins(&bench.alpha.kernel).is_empty());
    });
}

/// Another client holds the mac of a link that dls has not taken. Before, the ioctl waited for that client.
#[test]
fn a_creation_that_fails_does_not_wait_for_those_who_hold_the_mac() {
    with_partitions(32, |bench| {
        let kernel = bench.alpha.kernel.clone();
        let holder = bench.alpha.kernel.spawn("holds", Ctx::User, move || {
            let deadline = kernel.machine().now() + Nanos::from_secs(1);
            while kernel.machine().now() < deadline {
                if let Ok(held) = lab_gldv3::MacReference::open(&kernel, "ibp1001") {
                    fakekernel::sleep(Nanos::from_secs(120));
                    drop(held);
                    return;
                }
                fakekernel::sleep(Nanos(200));
            }
        });
        bench.alpha.kernel.set_fault(FaultKind("dls_devnet_create"), Some("ibp"), FaultPlan::From(0));
        let begun = bench.machine.now();
        let made = lab_gldv3::create_partition(&bench.alpha.kernel, "ibp0", 0xffff, "more0", true);
        assert!(made.is_err());
        let took = bench.machine.now().since(begun);
        assert!(took < Nanos::from_secs(20), "the ioctl takes {took}");
        bench.alpha.kernel.set_fault(FaultKind("dls_devnet_create"), Some("ibp"), FaultPlan::Never);
        assert!(lab_gldv3::delete_partition(&bench.alpha.kernel, "more0").is_err(), "there is no such link");
        holder.join();
    });
}
