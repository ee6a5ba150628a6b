//! An adapter that is pulled while something on it is in use: all of it is freed before IBTF is told to go on.

use fakekernel::{Ctx, Nanos};
use lab_gldv3::{LinkAddress, Offload};
use sm::fault::FaultAction;
use sm::{Attribute, Fault};

use crate::bench::{Bench, Driver, PLAIN, Setup, address_of, group};

/// Pulls alpha's adapter while `meanwhile` runs on a thread of alpha's.
#[track_caller]
fn pull_while(bench: &Bench, meanwhile: impl FnOnce() + Send + 'static) {
    let other = bench.alpha.kernel.spawn("meanwhile", Ctx::User, meanwhile);
    pull(bench);
    other.join();
}

#[track_caller]
fn pull(bench: &Bench) {
    let pulled = bench.world.remove_hca(&bench.alpha.kernel, bench.alpha.adapter());
    assert!(pulled.is_ok(), "{}", pulled.unwrap_err());
}

#[test]
fn an_adapter_that_is_pulled_while_the_link_on_it_is_closed_is_let_go_in_time() {
    for driver in [Driver::Ibd, Driver::Ibp] {
        Setup { seeds: 24, driver, ..Setup::default() }.run(|bench| {
            let (stream, _) = bench.alpha.open_up(PLAIN);
            stream.enable_multicast(group(0xe003_0001)).unwrap();
            fakekernel::sleep(Nanos::from_millis(20));
            pull_while(bench, move || drop(stream));
        });
    }
}

#[test]
fn an_adapter_that_is_pulled_while_paths_are_told_is_let_go_in_time() {
    Setup { seeds: 24, ..Setup::default() }.run(|bench| {
        let (stream, _) = bench.alpha.open_up(PLAIN);
        let (beta, _) = bench.beta.open_up(PLAIN);
        let slow = FaultAction::Delay(sm::Nanos(2_000_000));
        bench.fault(Attribute::PATH_RECORD, None, None, slow);
        let LinkAddress(known) = address_of(&beta);
        for n in 0..16 {
            // Queue pairs that beta does not have: a path to its port is found for each.
            let mut bytes = known;
            bytes[3] = bytes[3].wrapping_add(16 + n);
            stream.transmit(LinkAddress(bytes), b"to whom", Offload::default()).unwrap();
        }
        fakekernel::sleep(Nanos::from_micros(1900 + bench.machine.now().0 % 200));
        pull(bench);
        bench.no_faults();
    });
}

#[test]
fn an_adapter_that_is_pulled_while_the_administrator_answers_nothing_is_let_go_in_time() {
    Setup { seeds: 4, ..Setup::default() }.run(|bench| {
        let (beta, _) = bench.beta.open_up(PLAIN);
        let (stream, _) = bench.alpha.open_up(PLAIN);
        bench.sm.faults(|script| script.push(Fault::always(FaultAction::Silent)));
        stream.transmit(address_of(&beta), b"to whom", Offload::default()).unwrap();
        stream.enable_multicast(group(0xe003_0001)).unwrap();
        fakekernel::sleep(Nanos::from_millis(20));
        let asked = [bench.alpha.counter("sa_joins"), bench.alpha.counter("sa_paths")];
        assert_eq!(asked, [2, 1], "both calls are out");
        pull(bench);
        bench.no_faults();
    });
}

#[test]
fn an_adapter_that_is_pulled_while_partitions_are_made_on_it_is_let_go_in_time() {
    Setup { seeds: 24, driver: Driver::Ibp, ..Setup::default() }.run(|bench| {
        let kernel = bench.alpha.kernel.clone();
        pull_while(bench, move || {
            for n in 0..8 {
                let name = format!("part{n}");
                // Asks the port; in time, or not.
                if lab_gldv3::create_partition(&kernel, "ibp0", 0xffff, &name, n % 2 == 0).is_ok() {
                    lab_gldv3::delete_partition(&kernel, &name).expect("nobody uses it");
                }
            }
        });
    });
}

#[test]
fn an_adapter_that_is_pulled_while_its_instance_comes_or_goes_is_let_go_in_time() {
    for driver in [Driver::Ibd, Driver::Ibp] {
        Setup { seeds: 32, driver, ..Setup::default() }.run(|bench| {
            bench.alpha.try_delete_partition().unwrap();
            let other = bench.alpha.kernel.spawn("meanwhile", Ctx::User, bench.alpha.comes_and_goes());
            // At another point for each seed.
            fakekernel::sleep(Nanos::from_micros(bench.machine.now().0 / 100 % 300));
            pull(bench);
            other.join();
        });
    }
}

/// A command of the adapter takes 25 s when the adapter is pulled, and the handler waits for it. Before, nothing said why for half a minute.
#[test]
fn an_adapter_that_is_pulled_during_a_long_command_is_waited_for() {
    Setup { seeds: 4, ..Setup::default() }.run(|bench| {
        let (stream, _) = bench.alpha.open_up(PLAIN);
        let long = Nanos::from_secs(25);
        lab_ibtf::set_command_time(&bench.alpha.kernel, Some((long, long)));
        stream.enable_multicast(group(0xe003_0001)).unwrap();
        fakekernel::sleep(Nanos::from_millis(100));
        lab_ibtf::set_command_time(&bench.alpha.kernel, None);
        let begun = bench.machine.now();
        pull(bench);
        let took = bench.machine.now().since(begun);
        assert!(took > Nanos::from_secs(20) && took < Nanos::from_secs(30), "the handler takes {took}");
        for seconds in [10, 20] {
            let said = format!("has been in use for {seconds} s after the link let go of it");
            let log = bench.alpha.console();
            assert!(log.iter().any(|line| line.contains(&said)), "{seconds} s: {log:?}");
        }
    });
}
