//! Connections that neighbours open to a link: what it accepts, what comes on them, and what is left of them.

mod attempts;
mod checks;
mod claims;
mod closing;
mod counted;
mod ends;
mod failures;
mod flood;
mod guest;
mod kept;
mod linux;
mod matrix;
mod memory;
mod need;
pub mod opened;
mod taken_away;
mod turns;
mod two_adapters;
mod unwanted;
mod ways;

use fabric::{Direction, Only, Pick};
use fakekernel::Nanos;
use fakekernel::genunix::KstatValue;
use lab_gldv3::{LinkState, Offload, ReceiveQueue, Stream};

use crate::bench::{Bench, Host, PLAIN, Setup, address_of};
use guest::Guest;

const LEGACY: i64 = 0x1000_0000_0000_0000;
const IETF: i64 = 0x0100_0000_0000_0000;
const LONGEST: usize = 65_524;
/// The IPoIB header in front of a packet.
const HEADER: usize = 4;

/// Reasons of a REJ, as an open that waits has them.
const NO_RESOURCES: i64 = 3 << 16;
const NO_SERVICE: i64 = 8 << 16;
const CONSUMER: i64 = 28 << 16;

/// `ibt_cep_state_t`: the queue pair sends.
const READY_TO_SEND: i64 = 3;

const CM: u8 = 7;
const REQ: u16 = 0x10;
const REP: u16 = 0x13;
const RTU: u16 = 0x14;
const DREQ: u16 = 0x15;

/// What a packet of `len` octets carries, sent by [`Guest::send`].
fn pattern(len: usize) -> Vec<u8> {
    (0..len - HEADER).map(|n| n as u8).collect()
}

/// Beta takes connections.
fn accepting(bench: &Bench) -> (Stream, ReceiveQueue, i64) {
    bench.beta.set("_ibd_rc_accept", "1").expect("it is closed");
    let (beta, heard) = bench.beta.open_up(PLAIN);
    bench.settle();
    let qpn = u32::from_be_bytes(address_of(&beta).0[..4].try_into().expect("four bytes")) & 0x00ff_ffff;
    (beta, heard, qpn.into())
}

/// Of connections to beta.
fn counted(bench: &Bench, name: &str) -> u64 {
    counted_by(&bench.beta, name)
}

fn counted_by(host: &Host, name: &str) -> u64 {
    let kernel = &host.kernel;
    let id = kernel.kstats().into_iter().find(|id| id.name == "connections").expect("it has listened");
    let values = kernel.scope(|| kernel.read_kstat(&id)).expect("it can be read");
    let found = values.into_iter().find(|(known, _)| known == name);
    match found {
        Some((_, KstatValue::U64(value))) => value,
        other => panic!("{name}: {other:?}"),
    }
}

fn holds(test: fn(&Bench)) {
    Setup::default().run(test);
}

fn payloads(heard: &ReceiveQueue) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| heard.try_next()).map(|packet| packet.payload).collect()
}

#[test]
fn a_link_that_takes_connections_says_so_in_its_address_and_others_do_not() {
    holds(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, heard, qpn) = accepting(bench);
        assert_eq!((address_of(&alpha).0[0], address_of(&beta).0[0]), (0, 0x80));
        alpha.transmit(address_of(&beta), b"to its address", Offload::default()).unwrap();
        bench.settle();
        assert_eq!(payloads(&heard), [b"to its address"], "datagrams reach it as before");
        let guest = Guest::new(bench, 1);
        let own = u32::from_be_bytes(address_of(&alpha).0[..4].try_into().expect("four bytes"));
        guest.aim(&bench.alpha, LEGACY + i64::from(own), 0x99, 65_524);
        assert_eq!(guest.ask("probe_connect", 0), NO_SERVICE, "alpha takes none");
        guest.leave();
        assert!(qpn > 1);
        drop((beta, heard));
        bench.beta.set("_ibd_rc_accept", "0").expect("it is closed");
        let (beta, _) = bench.beta.open_up(PLAIN);
        assert_eq!(address_of(&beta).0[0], 0);
    });
}

#[test]
fn datagrams_go_up_with_the_address_that_the_link_has_although_it_began_to_listen_late() {
    holds(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let port = bench.beta.port();
        bench.beta.set("_ibd_rc_accept", "1").expect("it is closed");
        bench.world.set_cable(port, false);
        let (beta, heard) = bench.beta.open(PLAIN);
        bench.settle();
        bench.world.set_cable(port, true);
        bench.wait_for("it is up", Nanos::from_secs(30), || bench.beta.state() == LinkState::Up);
        bench.settle();
        assert_eq!(address_of(&beta).0[0], 0x80);
        alpha.transmit(address_of(&beta), b"to its address", Offload::default()).unwrap();
        bench.settle();
        let came: Vec<_> = std::iter::from_fn(|| heard.try_next()).map(|packet| packet.destination).collect();
        assert_eq!(came, [address_of(&beta)]);
    });
}

#[test]
fn messages_of_any_length_come_on_a_connection_to_either_service() {
    holds(|bench| {
        let (beta, heard, qpn) = accepting(bench);
        let guest = Guest::new(bench, 2);
        for (channel, service) in [(0, LEGACY), (1, IETF)] {
            guest.aim(&bench.beta, service + qpn, 0x99, 65_524);
            guest.run("probe_connect", channel);
            let mut hello = [0, 0, 0, 0, 0, 0, 0xff, 0xf4];
            hello[1..4].copy_from_slice(&address_of(&beta).0[1..4]);
            assert_eq!(guest.heard(), hello);
            for len in [HEADER + 1, 100, 2_044, 2_048, 5_000, 16_384, 16_385, 30_000, LONGEST] {
                guest.send(channel, len, PLAIN);
                bench.settle();
                assert_eq!(guest.ask("probe_sent", 0), 0, "{len}");
                assert!(payloads(&heard) == [pattern(len)], "{len}: {:?}", bench.beta.counters());
            }
        }
        bench.settle();
        assert_eq!(counted(bench, "accepted"), 2);
        assert_eq!(counted(bench, "received"), 18);
        assert_eq!(guest.ask("probe_receiver_retries", 0), 6);
        guest.leave();
        bench.wait_for("both are over", Nanos::from_secs(60), || counted(bench, "ended") == 2);
        drop(beta);
    });
}

#[test]
fn a_link_that_takes_connections_and_has_none_takes_hardly_more_memory_than_another() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        let of = |bench: &Bench| bench.beta.kernel.genunix().heap_use().0;
        let attached = of(bench);
        let (beta, heard, qpn) = accepting(bench);
        let open = of(bench) - attached;
        assert!(open < 4 << 20, "{open} bytes");
        let guest = Guest::new(bench, 1);
        guest.aim(&bench.beta, LEGACY + qpn, 0x99, 65_524);
        guest.run("probe_connect", 0);
        let used = of(bench) - attached - open;
        assert!((8 << 20..9 << 20).contains(&used), "{used} bytes for the first connection");
        guest.leave();
        drop((beta, heard));
    });
}

#[test]
fn who_is_no_neighbour_gets_no_connection_and_costs_nothing() {
    holds(|bench| {
        let (_beta, _heard, qpn) = accepting(bench);
        let guest = Guest::new(bench, 5);
        let ud = (LEGACY + qpn, 0x99, 65_524);
        for (channel, (service, sender, longest)) in
            (0..).zip([(ud.0, 0, ud.2), (ud.0, 1, ud.2), (ud.0, 0x00ff_ffff, ud.2), (ud.0, ud.1, 4)])
        {
            guest.aim(&bench.beta, service, sender, longest);
            assert_eq!(guest.ask("probe_connect", channel), CONSUMER, "{sender:#x} {longest}");
        }
        guest.aim(&bench.beta, LEGACY + qpn + 1, ud.1, ud.2);
        assert_eq!(guest.ask("probe_connect", 4), NO_SERVICE);
        assert_eq!((counted(bench, "requests"), counted(bench, "refused")), (4, 4));
        assert_eq!(bench.beta.calls("ibt_alloc_srq") + bench.beta.calls("ibt_alloc_rc_channel"), 0);
        (0..5).for_each(|n| _ = guest.ask("probe_flush", n));
        guest.leave();
    });
}

#[test]
fn a_message_that_is_none_is_counted_and_the_connection_goes_on() {
    holds(|bench| {
        let (_beta, heard, qpn) = accepting(bench);
        let guest = Guest::new(bench, 1);
        guest.aim(&bench.beta, LEGACY + qpn, 0x99, 65_524);
        guest.run("probe_connect", 0);
        for len in 0..HEADER {
            guest.send(0, len, PLAIN);
        }
        bench.settle();
        assert_eq!(bench.beta.counter("rx_drop_short"), HEADER as u64);
        guest.send(0, 100, PLAIN);
        bench.settle();
        assert!(payloads(&heard) == [pattern(100)]);
        guest.leave();
    });
}

#[test]
fn a_neighbour_holds_two_connections_and_the_newest_of_many_works() {
    holds(|bench| {
        let (_beta, heard, qpn) = accepting(bench);
        let guest = Guest::new(bench, 20);
        guest.aim(&bench.beta, LEGACY + qpn, 0x99, 65_524);
        for channel in 0..20 {
            guest.run("probe_connect", channel);
            fakekernel::sleep(Nanos::from_secs(11));
        }
        let stand = (0..20).filter(|n| guest.ask("probe_state", *n) == READY_TO_SEND).count();
        assert_eq!(stand, 2);
        guest.send(19, 5_000, PLAIN);
        bench.settle();
        assert!(payloads(&heard) == [pattern(5_000)]);
        guest.leave();
    });
}

#[test]
fn a_port_that_asks_in_many_names_gets_eight_connections_and_is_told_so() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        let (_beta, heard, qpn) = accepting(bench);
        let guest = Guest::new(bench, 61);
        for n in 0..60 {
            guest.aim(&bench.beta, LEGACY + qpn, 0x1000 + n as u32, 65_524);
            let got = guest.ask("probe_connect", n);
            assert_eq!(got, if n < 8 { 0 } else { NO_RESOURCES }, "{n}: {:?}", bench.beta.counters());
        }
        assert_eq!((counted(bench, "accepted"), counted(bench, "no_room")), (8, 52));
        guest.send(3, 5_000, PLAIN);
        bench.settle();
        assert!(payloads(&heard) == [pattern(5_000)], "those that have one go on");
        // Whoever has sent nothing for ten seconds gives way.
        fakekernel::sleep(Nanos::from_secs(11));
        guest.aim(&bench.beta, LEGACY + qpn, 0x2000, 65_524);
        guest.run("probe_connect", 60);
        for channel in [3, 60] {
            guest.send(channel, 5_000, PLAIN);
            bench.settle();
            assert!(payloads(&heard) == [pattern(5_000)]);
        }
        (8..60).for_each(|n| _ = guest.ask("probe_flush", n));
        guest.leave();
    });
}

#[test]
fn who_claims_a_neighbours_name_ends_no_connection_of_his_that_carries_packets() {
    holds(|bench| {
        let (_beta, heard, qpn) = accepting(bench);
        const CLAIMS: i64 = 12;
        let guest = Guest::new(bench, 1 + CLAIMS);
        guest.aim(&bench.beta, LEGACY + qpn, 0x99, 65_524);
        guest.run("probe_connect", 0);
        let mut refused = 0;
        for claim in 1..=CLAIMS {
            // Somebody else, in the same name.
            if guest.ask("probe_connect", claim) != 0 {
                refused += 1;
                guest.ask("probe_flush", claim);
            }
            for _ in 0..4 {
                guest.send(0, 5_000, PLAIN);
                fakekernel::sleep(Nanos::from_millis(500));
                assert_eq!(guest.ask("probe_sent", 0), 0);
                assert!(payloads(&heard) == [pattern(5_000)], "after {claim} claims");
            }
        }
        assert_eq!(guest.ask("probe_state", 0), READY_TO_SEND);
        assert!(refused > 0 && counted(bench, "ended") > 0, "{refused} refused");
        guest.leave();
    });
}

/// As many as the sender's queue holds, of different lengths, without a pause, over and over.
fn many_messages(bench: &Bench) {
    const ROUNDS: usize = 100;
    let (_beta, heard, qpn) = accepting(bench);
    let guest = Guest::new(bench, 1);
    guest.aim(&bench.beta, LEGACY + qpn, 0x99, 65_524);
    guest.run("probe_connect", 0);
    for round in 0..ROUNDS {
        (1..=4).for_each(|n| guest.send(0, HEADER + 4 * round + n, PLAIN));
        while guest.ask("probe_sent", 0) == 0 {}
        if round % 8 == 7 {
            fakekernel::sleep(Nanos::from_micros(50));
        }
    }
    bench.settle();
    let came: Vec<usize> = payloads(&heard).into_iter().map(|payload| payload.len()).collect();
    assert!(came.iter().copied().eq(1..=4 * ROUNDS), "{} came: {came:?}", came.len());
    guest.leave();
}

#[test]
fn many_messages_at_once_are_taken_in_their_order() {
    holds(many_messages);
}

#[test]
fn many_messages_at_once_are_taken_in_their_order_by_a_link_with_rings() {
    Setup { conf: &[("ibd_rx_rings", 1), ("ibd_tx_rings", 4)], ..Setup::default() }.run(|bench| {
        many_messages(bench);
        assert!(bench.beta.counter("rx_fetched") > 0, "nobody polled: {:?}", bench.beta.counters());
    });
}

#[test]
fn messages_that_nobody_has_taken_yet_outlive_their_connection() {
    holds(|bench| {
        const CONNECTIONS: i64 = 20;
        const MESSAGES: usize = 8;
        let (_beta, heard, qpn) = accepting(bench);
        let guest = Guest::new(bench, CONNECTIONS + 1);
        guest.aim(&bench.beta, LEGACY + qpn, 0x99, 65_524);
        let adapter = bench.world.fabric().hca(bench.beta.adapter()).expect("beta has one");
        for channel in 0..CONNECTIONS {
            guest.run("probe_connect", channel);
            // Nobody hears of the messages before the connection is over.
            let late = fabric::Nanos(2_000_000_000);
            adapter.set_late_interrupts(Some((late, late)));
            (0..MESSAGES).for_each(|_| guest.send(channel, 5_000, PLAIN));
            fakekernel::sleep(Nanos::from_millis(5));
            while guest.ask("probe_sent", channel) == 0 {}
            guest.ask("probe_close_channel", channel);
            fakekernel::sleep(Nanos::from_secs(1));
            adapter.set_late_interrupts(None);
            fakekernel::sleep(Nanos::from_secs(2));
        }
        bench.wait_for("all are over", Nanos::from_secs(120), || {
            counted(bench, "ended") == CONNECTIONS as u64
        });
        assert_eq!(payloads(&heard).len(), MESSAGES * CONNECTIONS as usize, "{:?}", bench.beta.counters());
        guest.run("probe_connect", CONNECTIONS);
        guest.send(CONNECTIONS, 5_000, PLAIN);
        bench.settle();
        assert!(payloads(&heard) == [pattern(5_000)]);
        guest.leave();
    });
}

#[test]
fn a_connection_whose_messages_are_lost_once_is_made_and_ends_all_the_same() {
    for lost in [REQ, REP, RTU, DREQ] {
        let test = move |bench: &Bench| {
            let (_beta, heard, qpn) = accepting(bench);
            let guest = Guest::new(bench, 1);
            guest.aim(&bench.beta, LEGACY + qpn, 0x99, 65_524);
            let only = Only::Management { class: CM, attribute: lost };
            for port in [bench.alpha.port(), bench.beta.port()] {
                bench.world.fabric().lose(port, Direction::ToSwitch, Pick { only, skip: 0, times: 1 });
            }
            guest.run("probe_connect", 0);
            guest.send(0, 5_000, PLAIN);
            bench.wait_for("it comes", Nanos::from_secs(20), || payloads(&heard) == [pattern(5_000)]);
            guest.leave();
            bench.wait_for("it is over", Nanos::from_secs(120), || counted(bench, "ended") == 1);
        };
        Setup { seeds: 2, ..Setup::default() }.run(test);
    }
}

#[test]
fn a_link_that_stops_waits_for_no_connection_and_takes_them_again_when_it_is_started() {
    Setup { seeds: 60, ..Setup::default() }.run(|bench| {
        let (beta, heard, qpn) = accepting(bench);
        let guest = Guest::new(bench, 4);
        guest.aim(&bench.beta, LEGACY + qpn, 0x99, 65_524);
        guest.run("probe_connect", 0);
        guest.run("probe_connect", 1);
        guest.run("probe_begin", 2);
        let before = bench.machine.now();
        drop((beta, heard));
        let took = bench.machine.now().since(before);
        assert!(took < Nanos::from_millis(50), "{took}");
        bench.wait_for("the neighbour hears of it", Nanos::from_secs(10), || {
            guest.ask("probe_closed", 0) >= 2
        });
        let (_beta, heard) = bench.beta.open_up(PLAIN);
        let qpn = u32::from_be_bytes(address_of(&_beta).0[..4].try_into().expect("four bytes")) & 0x00ff_ffff;
        guest.aim(&bench.beta, LEGACY + i64::from(qpn), 0x99, 65_524);
        guest.run("probe_connect", 3);
        guest.send(3, LONGEST, PLAIN);
        bench.settle();
        assert!(payloads(&heard) == [pattern(LONGEST)]);
        guest.ask("probe_flush", 2);
        guest.leave();
    });
}

#[test]
fn a_pulled_cable_leaves_a_connection_as_it_is() {
    holds(|bench| {
        let (_beta, heard, qpn) = accepting(bench);
        let guest = Guest::new(bench, 1);
        guest.aim(&bench.beta, LEGACY + qpn, 0x99, 65_524);
        guest.run("probe_connect", 0);
        bench.world.set_cable(bench.beta.port(), false);
        fakekernel::sleep(Nanos::from_secs(3));
        bench.world.set_cable(bench.beta.port(), true);
        bench.wait_for("up", Nanos::from_secs(30), || bench.beta.state() == lab_gldv3::LinkState::Up);
        guest.send(0, 5_000, PLAIN);
        bench.settle();
        assert!(payloads(&heard) == [pattern(5_000)], "{:?}", bench.beta.counters());
        guest.leave();
    });
}

#[test]
fn what_connections_share_goes_when_nobody_has_had_one_for_a_minute() {
    holds(|bench| {
        let (_beta, heard, qpn) = accepting(bench);
        let guest = Guest::new(bench, 2);
        guest.aim(&bench.beta, LEGACY + qpn, 0x99, 65_524);
        guest.run("probe_connect", 0);
        guest.run("probe_close_channel", 0);
        fakekernel::sleep(Nanos::from_secs(100));
        assert_eq!(bench.beta.calls("ibt_free_srq"), 1);
        guest.run("probe_connect", 1);
        guest.send(1, 5_000, PLAIN);
        bench.settle();
        assert!(payloads(&heard) == [pattern(5_000)], "the next one finds another");
        guest.leave();
    });
}
