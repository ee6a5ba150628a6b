//! Adapters whose drivers refuse to free a shared receive queue that a connection has used, as `hermon` and `tavor` do.

use fabric::{Census, HcaConfig};
use fakekernel::Nanos;
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
