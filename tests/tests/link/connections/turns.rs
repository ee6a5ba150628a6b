//! Datagrams and messages of connections, where more has come of both than is taken at once.

use fabric::Guid;
use fakekernel::Nanos;
use lab_gldv3::Offload;

use super::guest::Guest;
use super::{LEGACY, accepting, payloads};
use crate::bench::{Bench, PLAIN, Setup, address_of};

const DATAGRAMS: usize = 2_000;
const MESSAGES: usize = 100;
const MESSAGE: usize = 1_000;

/// Where each of the messages comes among the others, when all wait for one interrupt.
fn places(bench: &Bench) -> Vec<usize> {
    bench.beta.set("_ibd_ud_num_rwqe", "4000").expect("it is closed");
    let (alpha, _) = bench.alpha.open_up(PLAIN);
    let (beta, heard, qpn) = accepting(bench);
    let guest = Guest::new(bench, 1);
    guest.aim(&bench.beta, LEGACY + qpn, 0x99, 65_524);
    guest.run("probe_connect", 0);
    alpha.transmit(address_of(&beta), &[0; 60], Offload::default()).expect("the stream is bound");
    bench.settle();
    drop(payloads(&heard));
    let adapter = bench.world.fabric().hca(Guid(bench.beta.port().0 - 1)).expect("beta has one");
    let late = fabric::Nanos(50_000_000);
    adapter.set_late_interrupts(Some((late, late)));
    for _ in 0..MESSAGES / 4 {
        (0..4).for_each(|_| guest.send(0, MESSAGE, PLAIN));
        fakekernel::sleep(Nanos::from_micros(50));
        while guest.ask("probe_sent", 0) == 0 {}
    }
    for _ in 0..DATAGRAMS {
        alpha.transmit(address_of(&beta), &[1; 60], Offload::default()).expect("the stream is bound");
    }
    bench.settle();
    adapter.set_late_interrupts(None);
    let heard = payloads(&heard);
    let message = super::pattern(MESSAGE);
    let places: Vec<_> = (0..heard.len()).filter(|n| heard[*n] == message).collect();
    assert_eq!((heard.len(), places.len()), (DATAGRAMS + MESSAGES, MESSAGES), "{:?}", bench.beta.counters());
    guest.leave();
    places
}

#[test]
fn messages_of_connections_do_not_wait_for_all_datagrams_nor_datagrams_for_them() {
    Setup { seeds: 4, ..Setup::default() }.run(|bench| {
        let places = places(bench);
        assert!(places[0] <= 64 && places[MESSAGES - 1] < 256, "{places:?}");
        assert!(places[MESSAGES - 1] - places[0] >= MESSAGES + 60, "{places:?}");
    });
}

#[test]
fn a_mac_layer_that_fetches_gets_messages_of_connections_between_datagrams() {
    Setup { seeds: 4, conf: &[("ibd_rx_rings", 1)], ..Setup::default() }.run(|bench| {
        let places = places(bench);
        assert!(places[MESSAGES - 1] < DATAGRAMS, "{places:?}");
        assert!(bench.beta.counter("rx_fetched") > 0, "nobody polled");
    });
}
