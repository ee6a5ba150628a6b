//! Adapters whose drivers refuse to free a shared receive queue that a connection has used, as `hermon` and `tavor` do.

use fabric::{Census, HcaConfig};
use fakekernel::{Ctx, FaultKind, FaultPlan, Nanos};
use lab_gldv3::LinkState;

use super::opened::set_connected;
use super::{counted, payloads};
use crate::bench::{Bench, Driver, Host, PLAIN, Setup, address_of};
use lab_gldv3::Offload;

fn keeps(config: &mut HcaConfig) {
    config.keeps_srqs = true;
}

fn census(bench: &Bench, host: &Host) -> Census {
    bench.world.fabric().hca(host.adapter()).expect("it is plugged in").census()
}

fn memory(bench: &Bench) -> u64 {
    bench.beta.kernel.genunix().heap_use().0 as u64
}

/// Alpha opens a connection to beta and sends a long packet, and both are closed.
fn one_visit(bench: &Bench) {
    set_connected(&bench.alpha, true);
    set_connected(&bench.beta, true);
    let (alpha, _to_alpha) = bench.alpha.open_up(PLAIN);
    let (beta, heard) = bench.beta.open_up(PLAIN);
    bench.settle();
    for _ in 0..3 {
        alpha.transmit(address_of(&beta), &[5; 20_000], Offload::default()).expect("it is bound");
        bench.settle();
    }
    assert!(!payloads(&heard).is_empty(), "the connection carries packets");
    drop((alpha, beta));
    // Connections are over, and the numbers of their queue pairs free.
    fakekernel::sleep(Nanos::from_secs(30));
}

/// Before, each stop left a shared receive queue, a protection domain and 8 MB, and the links and the module could never go: the run's end
/// would not unload them.
#[test]
fn queues_that_are_not_freed_are_used_by_the_next_start() {
    Setup { seeds: 2, hca: keeps, driver: Driver::Ibp, ..Setup::default() }.run(|bench| {
        one_visit(bench);
        let first = (census(bench, &bench.beta), memory(bench));
        assert_eq!(first.0.srqs, 1);
        for _ in 0..99 {
            one_visit(bench);
        }
        let last = (census(bench, &bench.beta), memory(bench));
        assert_eq!(last.0, first.0);
        assert!(last.1 <= first.1 + 100_000, "{} bytes, {} before", last.1, first.1);
        let told = |host: &Host| {
            host.console().iter().filter(|line| line.contains("the adapter keeps a receive queue")).count()
        };
        assert_eq!((told(&bench.beta), counted(bench, "accepted")), (1, counted(bench, "accepted")));
        assert!(counted(bench, "accepted") >= 100);
        assert_eq!(bench.beta.state(), LinkState::Unknown);
    });
}

/// Has beta's adapter detached while another client keeps it.
fn is_refused(bench: &Bench) {
    let gone = bench.world.detach_hca(&bench.beta.kernel, bench.beta.adapter(), true);
    assert!(gone.is_err(), "another client keeps the adapter");
}

/// A visit whose packets come by a connection: which one of the link's.
#[track_caller]
fn is_visited(bench: &Bench, times: u64) {
    one_visit(bench);
    assert_eq!(counted(bench, "accepted"), times, "{:?}", bench.beta.console());
}

/// Before, the next link received into the queue that had failed.
#[test]
fn a_queue_that_fails_while_it_rests_is_not_used_again() {
    Setup { seeds: 2, hca: keeps, driver: Driver::Ibp, ..Setup::default() }.run(|bench| {
        is_visited(bench, 1);
        let beta = bench.world.fabric().hca(bench.beta.adapter()).expect("it is plugged in");
        assert_eq!(beta.break_srqs(), 1);
        bench.settle();
        let memory_before = memory(bench);
        for times in 2..5 {
            is_visited(bench, times);
        }
        // The adapter keeps the first for ever, without its memory.
        assert_eq!(beta.census().srqs, 2);
        assert!(memory(bench) <= memory_before + 100_000, "{} bytes, {memory_before} before", memory(bench));
    });
}

/// Before, without memory for a place in a list the queue was left to the adapter, and no link of it had connections any more.
#[test]
fn a_queue_that_rests_needs_no_memory_to_rest_on() {
    for first in 0..4 {
        Setup { seeds: 1, hca: keeps, driver: Driver::Ibp, ..Setup::default() }.run(move |bench| {
            is_visited(bench, 1);
            let plan = FaultPlan::Some { first, times: 1 };
            bench.beta.kernel.set_fault(FaultKind("kmem"), Some("ibp"), plan);
            is_refused(bench);
            bench.beta.kernel.set_fault(FaultKind("kmem"), Some("ibp"), FaultPlan::Never);
            bench.settle();
            is_visited(bench, 2);
        });
    }
}

/// Before, a client that was left had no handler, which a task of IBTL's that was on its way called.
#[test]
fn a_refused_removal_is_announced_while_the_module_goes() {
    Setup { seeds: 60, hca: keeps, driver: Driver::Ibp, ..Setup::default() }.run(|bench| {
        is_visited(bench, 1);
        let (world, kernel) = (bench.world.clone(), bench.beta.kernel.clone());
        let adapter = bench.beta.adapter();
        let removes = bench.beta.kernel.spawn("removes", Ctx::User, move || {
            for _ in 0..4 {
                let _ = world.detach_hca(&kernel, adapter, true);
            }
        });
        bench.beta.unload();
        removes.join();
    });
}
