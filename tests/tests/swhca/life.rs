//! From the adapter's attach to a kernel with nothing in it.

use fakekernel::{Config, Errno, Machine, Nanos};
use lab_world::{Driver, Software};
use swhca_ioctl::{Counter, command};

use super::bench::Setup;

#[test]
fn adapter_attaches_and_goes_and_leaves_nothing() {
    Setup::default().run(|_| ());
}

#[test]
fn link_on_each_port_hears_the_other() {
    for driver in Driver::ALL {
        Setup { driver, ..Setup::default() }.run(|bench| {
            let (alpha, beta) = (bench.open(&bench.alpha), bench.open(&bench.beta));
            alpha.reaches(&beta, b"to beta");
            beta.reaches(&alpha, b"and back");
        });
    }
}

#[test]
fn packet_of_every_size_arrives_as_it_was_sent() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        let (alpha, beta) = (bench.open(&bench.alpha), bench.open(&bench.beta));
        for len in [1, 59, 60, 255, 1024, 2043, 2044] {
            let payload: Vec<u8> = (0..len).map(|n| (n * 7 + len) as u8).collect();
            alpha.reaches(&beta, &payload);
        }
    });
}

#[test]
fn adapter_stays_as_long_as_a_driver_has_a_port_of_it() {
    Setup::default().run(|bench| {
        let alpha = bench.open(&bench.alpha);
        assert_eq!(bench.software.try_detach(), Err(Errno::EBUSY));
        let beta = bench.open(&bench.beta);
        alpha.reaches(&beta, b"it is still there");
    });
}

#[test]
fn link_whose_cqs_fail_is_reached_again() {
    Setup::default().run(|bench| {
        let (alpha, beta) = (bench.open(&bench.alpha), bench.open(&bench.beta));
        for _ in 0..2 {
            // A failure soon after another one is left alone for a while.
            fakekernel::sleep(Nanos::from_secs(11));
            alpha.reaches(&beta, b"all is well");
            let before = fakekernel::now();
            assert_eq!(bench.software.ioctl(command::FAIL_CQS, [1, 0, 0, 0]), Ok(1));
            alpha.is_reached_by(&beta, b"again");
            beta.is_reached_by(&alpha, b"and back");
            assert!(fakekernel::now() < before + Nanos::from_secs(2), "it was built anew once");
        }
    });
}

#[test]
fn adapter_that_was_detached_attaches_again() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        for _ in 0..3 {
            let (alpha, beta) = (bench.open(&bench.alpha), bench.open(&bench.beta));
            alpha.reaches(&beta, b"here");
            drop((alpha, beta));
            bench.alpha.unload().expect("nobody has the link open");
            bench.beta.unload().expect("nobody has the link open");
            bench.software.try_detach().expect("nobody has the adapter");
            bench.software.attach().expect("it attaches");
        }
    });
}

#[test]
fn each_port_costs_subnet_administration_five_requests_at_the_start() {
    Setup::default().run(|bench| {
        let counters = bench.software.counters().expect("the adapter answers");
        // ClassPortInfo, and a subscription for each of four kinds of producers.
        assert_eq!(counters[Counter::SaRequests as usize], 2 * 5);
        assert_eq!(counters[Counter::SaDropped as usize], 0);
    });
}

#[test]
fn adapter_with_a_switch_that_is_neither_on_nor_off_does_not_attach_and_the_log_says_why() {
    let machine = Machine::new(Config::seeded(1));
    let inner = machine.clone();
    let outcome = machine.run(move || {
        let mut plan = super::bench::plan();
        plan.conf.push(("checksum".into(), -7));
        let software = Software::place(&inner, &plan);
        software.install().expect("it loads");
        assert!(software.attach().is_err());
        let log = software.kernel.genunix().messages();
        assert!(log.iter().any(|line| line.text.contains("property checksum is not valid")), "{log:?}");
        software.unload().expect("nobody has it");
    });
    outcome.unwrap_or_else(|halt| panic!("{halt}"));
}
