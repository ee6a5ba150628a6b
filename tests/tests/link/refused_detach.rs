//! An adapter that was to go and stays: IBTL announces it again to the clients that have closed it (`ibtl_detach_all_clients`, `bailout`).

use fakekernel::{Ctx, FaultKind, FaultPlan, Nanos};
use lab_gldv3::{LinkState, Offload};
use sm::Fault;
use sm::fault::FaultAction;

use crate::bench::{Bench, Driver, PLAIN, PORT_LINK, Setup, address_of, group};

/// How soon a link is up again.
const SOON: Nanos = Nanos::from_secs(10);
const DRIVERS: [Driver; 2] = [Driver::Ibd, Driver::Ibp];

/// Has the driver of alpha's adapter detached while another client keeps the adapter.
#[track_caller]
fn is_refused(bench: &Bench) {
    let gone = bench.world.detach_hca(&bench.alpha.kernel, bench.alpha.adapter(), true);
    assert!(gone.is_err(), "another client keeps the adapter");
}

#[track_caller]
fn comes_back(bench: &Bench) {
    bench.wait_for("alpha is up again", SOON, || bench.alpha.state() == LinkState::Up);
}

/// Before, the event was dropped: the link was down, and each start of it `ENXIO`, until the instance was detached and attached again.
#[test]
fn a_link_comes_back_when_its_adapter_was_to_go_and_stays() {
    for driver in DRIVERS {
        Setup { seeds: 8, driver, ..Setup::default() }.run(|bench| {
            let (alpha, beta, heard) = bench.talking(PLAIN);
            alpha.enable_multicast(group(0xe003_0001)).unwrap();
            bench.settle();
            let before = bench.memberships_of_alpha();
            bench.alpha.set("_ibd_join_retries", "7").unwrap();
            for round in 0..3_u8 {
                is_refused(bench);
                comes_back(bench);
                bench.settle();
                assert_eq!(bench.memberships_of_alpha(), before, "it is in its groups");
                assert_eq!(bench.alpha.get("_ibd_join_retries"), "7");
                while heard.try_next().is_some() {}
                alpha.transmit(address_of(&beta), &[round; 40], Offload::default()).unwrap();
                bench.settle();
                assert_eq!(heard.try_next().expect("beta hears alpha").payload, [round; 40]);
            }
        });
    }
}

/// The MAC layer opens it after the adapter came back as if nothing had been.
#[test]
fn a_closed_link_can_be_opened_when_its_adapter_stays() {
    for driver in DRIVERS {
        Setup { seeds: 4, driver, ..Setup::default() }.run(|bench| {
            is_refused(bench);
            let (alpha, _) = bench.alpha.open_up(PLAIN);
            is_refused(bench);
            drop(alpha);
            let (_alpha, _) = bench.alpha.open_up(PLAIN);
        });
    }
}

/// Closed while it had no adapter, a link stays closed.
#[test]
fn a_link_that_is_closed_meanwhile_stays_closed() {
    Setup { seeds: 16, ..Setup::default() }.run(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let other = bench.alpha.kernel.spawn("closes", Ctx::User, move || {
            fakekernel::sleep(Nanos::from_micros(10));
            drop(alpha);
        });
        is_refused(bench);
        other.join();
        bench.settle();
        assert_ne!(bench.alpha.state(), LinkState::Up);
        let (_alpha, _) = bench.alpha.open_up(PLAIN);
    });
}

/// What the adapter cannot do at once it is asked for again.
#[test]
fn an_adapter_that_cannot_be_opened_at_once_is_opened_later() {
    Setup { seeds: 4, driver: Driver::Ibp, ..Setup::default() }.run(|bench| {
        let (_alpha, _) = bench.alpha.open_up(PLAIN);
        bench.alpha.kernel.set_fault(
            FaultKind("ibt_open_hca"),
            Some("ibp"),
            FaultPlan::Some { first: 0, times: 6 },
        );
        is_refused(bench);
        comes_back(bench);
        let kernel = &bench.alpha.kernel;
        let made = || lab_gldv3::create_partition(kernel, PORT_LINK, 0xffff, "other0", false).is_ok();
        bench.wait_for("the port has its adapter again", SOON, made);
        lab_gldv3::delete_partition(&bench.alpha.kernel, "other0").expect("it is unused");
    });
}

/// A driver that asks the SA to end its memberships while the adapter is to go keeps `ibcm` from letting go of it. Before, three leaves were out.
#[test]
fn a_silent_sa_keeps_no_adapter_that_no_question_was_out_for() {
    for driver in DRIVERS {
        Setup { seeds: 4, driver, ..Setup::default() }.run(|bench| {
            let (alpha, _) = bench.alpha.open_up(PLAIN);
            for n in 0..8 {
                alpha.enable_multicast(group(0xe003_0001 + n)).unwrap();
            }
            bench.settle();
            bench.sm.faults(|script| script.push(Fault::always(FaultAction::Silent)));
            let gone = bench.world.detach_hca(&bench.alpha.kernel, bench.alpha.adapter(), false);
            bench.no_faults();
            assert!(gone.is_ok(), "{}", gone.unwrap_err());
        });
    }
}

/// A question that was out before the adapter was to go keeps it; the link comes back then, too.
#[test]
fn a_question_that_is_out_keeps_the_adapter_and_the_link_comes_back() {
    Setup { seeds: 4, ..Setup::default() }.run(|bench| {
        let (beta, _) = bench.beta.open_up(PLAIN);
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        bench.sm.faults(|script| script.push(Fault::always(FaultAction::Silent)));
        alpha.transmit(address_of(&beta), b"to whom", Offload::default()).unwrap();
        fakekernel::sleep(Nanos::from_millis(20));
        let gone = bench.world.detach_hca(&bench.alpha.kernel, bench.alpha.adapter(), false);
        assert!(gone.unwrap_err().to_string().contains("ibcm"));
        bench.no_faults();
        comes_back(bench);
    });
}
