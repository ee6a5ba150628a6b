//! Connections and the ways on which datagrams reach the same neighbours: narrow ones, and ways that are not known any more; and what else a link has
//! to do while packets wait for a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fabric::LinkFaults;
use fakekernel::{Ctx, Nanos};
use lab_gldv3::{LinkAddress, Offload};
use sm::Attribute;
use sm::fault::FaultAction;

use super::opened::{connected, pattern, send};
use super::unwanted::{DONT_FRAGMENT, v4, v6};
use super::{counted_by, holds, payloads};
use crate::bench::{Bench, IPV4, PLAIN, Setup, address_of};

const IPV6: u32 = 0x86dd;
/// Where a path record has it.
const PATH_MTU: usize = 54;
/// "Exactly 1024 bytes" in a record; IPoIB's header is among them.
const B1024: u8 = 0x80 | 3;

fn narrow(bench: &Bench) {
    let by = FaultAction::Overwrite { at: PATH_MTU, bytes: &[B1024] };
    bench.fault(Attribute::PATH_RECORD, None, None, by);
}

#[test]
fn what_fits_a_datagram_of_the_link_and_not_one_on_a_narrow_way_waits_for_a_connection() {
    holds(|bench| {
        narrow(bench);
        let (alpha, to_alpha, beta, to_beta) = connected(bench, IPV6);
        for _ in 0..3 {
            send(&alpha, &beta, &v6(1_500));
            fakekernel::sleep(Nanos::from_secs(2));
        }
        assert_eq!(payloads(&to_beta).len(), 3, "{:?}", bench.alpha.counters());
        assert_eq!(bench.alpha.counter("tx_drop_too_long"), 0);
        assert!(payloads(&to_alpha).is_empty());
    });
}

#[test]
fn a_connection_that_is_full_for_a_moment_has_ip_told_nothing_of_a_narrow_way() {
    holds(|bench| {
        narrow(bench);
        let (alpha, to_alpha, beta, to_beta) = connected(bench, IPV4);
        for _ in 0..2 {
            send(&alpha, &beta, &v4(20_000, 0));
            bench.settle();
        }
        assert_eq!(payloads(&to_beta).len(), 2);
        let far = LinkFaults { delay: fabric::Nanos(50_000_000), ..LinkFaults::default() };
        bench.world.fabric().set_faults(bench.beta.port(), far, far);
        let full = || bench.alpha.counter("tx_drop_queue_full");
        while full() == 0 {
            send(&alpha, &beta, &v4(20_000, 0));
        }
        let dropped = full();
        send(&alpha, &beta, &v4(1_500, DONT_FRAGMENT));
        send(&alpha, &beta, &v4(1_000, DONT_FRAGMENT));
        assert_eq!(full() - dropped, 1);
        bench.settle();
        assert!(payloads(&to_beta).contains(&v4(1_000, DONT_FRAGMENT)), "as a datagram");
        assert!(payloads(&to_alpha).is_empty(), "the connection carries it");
        assert_eq!(bench.alpha.counter("tx_drop_too_long"), 0);
    });
}

#[test]
fn the_way_to_a_neighbour_with_a_busy_connection_is_asked_for_again_after_a_flap() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| {
        let (alpha, _, beta, to_beta) = connected(bench, PLAIN);
        let adapter = bench.world.fabric().hca(bench.alpha.adapter()).expect("it is plugged in");
        let before = adapter.qpns();
        let goes_on = |rounds| {
            for n in 0..rounds {
                send(&alpha, &beta, &pattern(5_000 + n));
                fakekernel::sleep(Nanos::from_millis(100));
            }
        };
        goes_on(10);
        bench.world.set_cable(bench.alpha.port(), false);
        fakekernel::sleep(Nanos::from_millis(500));
        bench.world.set_cable(bench.alpha.port(), true);
        bench.settle();
        goes_on(50);
        assert_eq!(counted_by(&bench.alpha, "opened"), 1, "it outlives the flap");
        payloads(&to_beta);
        bench.fault(Attribute::PATH_RECORD, None, None, FaultAction::Silent);
        let made = adapter.qpns().into_iter().find(|qpn| !before.contains(qpn)).expect("another queue pair");
        assert!(adapter.break_qpn(made));
        bench.settle();
        send(&alpha, &beta, &pattern(100));
        send(&alpha, &beta, &pattern(30_000));
        bench.wait_for("it comes", Nanos::from_secs(10), || payloads(&to_beta).contains(&pattern(30_000)));
        assert_eq!(counted_by(&bench.alpha, "opened"), 2);
    });
}

/// Beta's port, another queue pair: as of a virtual machine there.
fn sibling(LinkAddress(mut bytes): LinkAddress) -> LinkAddress {
    bytes[3] ^= 1;
    LinkAddress(bytes)
}

#[test]
fn senders_that_never_pause_keep_a_new_connection_from_nothing_else_that_the_link_has_to_do() {
    Setup { seeds: 4, machine: |config| config.switch_one_in = 1, ..Setup::default() }.run(|bench| {
        const LONG: usize = 10_000;
        let (alpha, _, beta, to_beta) = connected(bench, PLAIN);
        send(&alpha, &beta, &pattern(100));
        bench.settle();
        let alpha = Arc::new(alpha);
        let goes_on = Arc::new(AtomicBool::new(true));
        let to = address_of(&beta);
        let senders: Vec<_> = (0..4)
            .map(|_| {
                let (alpha, goes_on) = (alpha.clone(), goes_on.clone());
                bench.alpha.kernel.spawn("sender", Ctx::Kernel, move || {
                    while goes_on.load(Ordering::Relaxed) {
                        alpha.transmit(to, &pattern(LONG), Offload::default()).expect("the stream is bound");
                    }
                })
            })
            .collect();
        bench.wait_for("the connection stands", Nanos::from_secs(10), || {
            payloads(&to_beta).iter().any(|packet| packet.len() == LONG)
        });
        let found = || bench.alpha.named("paths", "found");
        let (waited, before) = (counted_by(&bench.alpha, "waited"), found());
        alpha.transmit(sibling(to), &pattern(90), Offload::default()).expect("the stream is bound");
        let is_found = || {
            payloads(&to_beta);
            found() > before
        };
        bench.wait_for("another address is found", Nanos::from_secs(1), is_found);
        let waited = counted_by(&bench.alpha, "waited") - waited;
        goes_on.store(false, Ordering::Relaxed);
        senders.into_iter().for_each(|sender| sender.join());
        assert!(waited < 64, "{waited} packets waited for a connection that stood");
    });
}
