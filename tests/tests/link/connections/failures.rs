//! Connections from neighbours when something fails: a call, an allocation, the adapter.

use fabric::Qpn;
use fakekernel::{FaultKind, FaultPlan, Nanos};
use lab_gldv3::{LinkState, Offload};

use super::{Guest, LEGACY, NO_RESOURCES, accepting, counted, holds, opened, pattern, payloads};
use crate::bench::{Bench, Driver, PLAIN, Setup, address_of};

const MINUTE: Nanos = Nanos::from_secs(60);
/// Octets of the longest payload of a datagram.
const DATAGRAM: u32 = 2_044;

/// A guest with so many channels, who knows the way and has said who he is.
fn guest(bench: &Bench, channels: i64, qpn: i64) -> Guest {
    let guest = Guest::new(bench, channels);
    guest.aim(&bench.beta, LEGACY + qpn, 0x99, 65_524);
    guest
}

/// The next calls of a kind fail, or allocations, each in turn, and a connection is asked for under each; at last nothing is left to fail.
fn each_failure(bench: &Bench, kind: FaultKind, most: u64) {
    let (_beta, heard, qpn) = accepting(bench);
    let channels = most as i64 + 1;
    let guest = guest(bench, channels, qpn);
    let mut refused = 0;
    for n in 0..=most {
        bench.beta.kernel.set_fault(kind, Some("ibd"), FaultPlan::Nth(n));
        let got = guest.ask("probe_connect", n as i64);
        bench.beta.kernel.set_fault(kind, Some("ibd"), FaultPlan::Never);
        if got == NO_RESOURCES {
            refused += 1;
            continue;
        }
        assert_eq!(got, 0, "{kind:?} {n}: {:?}", bench.beta.console());
        guest.send(n as i64, 20_000, PLAIN);
        bench.settle();
        assert!(payloads(&heard) == [pattern(20_000)], "{kind:?} {n}: {:?}", bench.beta.counters());
        guest.run("probe_close_channel", n as i64);
        // What was made is given back, and the next one needs it again.
        fakekernel::sleep(Nanos::from_secs(90));
    }
    assert!((1..=most).contains(&refused), "{kind:?}: {refused} refused");
    assert_eq!((counted(bench, "no_room"), bench.beta.state()), (refused, LinkState::Up));
    for n in 0..channels {
        guest.ask("probe_flush", n);
    }
    guest.leave();
}

#[test]
fn a_neighbour_is_told_that_there_is_no_room_when_any_call_for_a_connection_fails_and_gets_one_later() {
    const CALLS: [&str; 6] = [
        "ibt_open_hca",
        "ibt_alloc_pd",
        "ibt_alloc_cq",
        "ibt_alloc_srq",
        "ibt_register_mr",
        "ibt_alloc_rc_channel",
    ];
    for call in CALLS {
        Setup { seeds: 1, ..Setup::default() }.run(move |bench| each_failure(bench, FaultKind(call), 1));
    }
}

#[test]
fn a_neighbour_is_told_that_there_is_no_room_when_any_allocation_fails_and_gets_a_connection_later() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| each_failure(bench, FaultKind::KMEM, 40));
}

#[test]
fn a_link_that_cannot_listen_is_one_of_datagrams() {
    for nth in 0..12 {
        Setup { seeds: 1, ..Setup::default() }.run(move |bench| {
            bench.beta.set("_ibd_rc_accept", "1").expect("it is closed");
            bench.beta.kernel.set_fault(FaultKind("ibt_attach"), Some("ibd"), FaultPlan::Nth(nth % 4));
            let (beta, _) = bench.beta.open(PLAIN);
            bench.beta.kernel.set_fault(FaultKind("ibt_attach"), Some("ibd"), FaultPlan::Never);
            bench.wait_for("up", MINUTE, || bench.beta.state() == LinkState::Up);
            let says = bench.beta.console().iter().any(|line| line.contains("accepts no connections"));
            // A client for the link, and one for each of the two services.
            assert_eq!(says, nth % 4 < 3, "{:?}", bench.beta.console());
            // The next look, when the broadcast group is there, may have more success.
            bench.settle();
            assert_eq!(address_of(&beta).0[0], 0x80);
        });
    }
}

#[test]
fn a_queue_pair_that_fails_takes_its_connection_with_it_and_no_other() {
    holds(|bench| {
        let (_beta, heard, qpn) = accepting(bench);
        let guest = guest(bench, 3, qpn);
        guest.run("probe_connect", 0);
        let adapter = bench.world.fabric().hca(bench.beta.adapter()).expect("it is plugged in");
        let before: Vec<Qpn> = adapter.qpns();
        guest.aim(&bench.beta, LEGACY + qpn, 0x9a, 65_524);
        guest.run("probe_connect", 1);
        let made = adapter.qpns().into_iter().find(|qpn| !before.contains(qpn)).expect("another queue pair");
        assert!(adapter.break_qpn(made));
        bench.settle();
        guest.send(0, 20_000, PLAIN);
        bench.settle();
        assert!(payloads(&heard) == [pattern(20_000)]);
        guest.run("probe_connect", 2);
        guest.send(2, 20_000, PLAIN);
        bench.settle();
        assert!(payloads(&heard) == [pattern(20_000)]);
        assert_eq!(bench.beta.state(), LinkState::Up);
        guest.leave();
    });
}

#[test]
fn an_adapter_that_is_pulled_while_connections_stand_and_are_made_is_let_go_in_time() {
    Setup { seeds: 12, ..Setup::default() }.run(|bench| {
        let (beta, heard, qpn) = accepting(bench);
        let guest = guest(bench, 6, qpn);
        guest.run("probe_connect", 0);
        guest.send(0, 20_000, PLAIN);
        for channel in 1..6 {
            guest.run("probe_begin", channel);
        }
        fakekernel::sleep(Nanos::from_micros(bench.machine.now().0 % 400));
        let pulled = bench.world.remove_hca(&bench.beta.kernel, bench.beta.adapter());
        assert!(pulled.is_ok(), "{}", pulled.unwrap_err());
        drop((beta, heard));
        bench.wait_for("everybody knows", Nanos::from_secs(600), || {
            guest.ask("probe_established", 0) + guest.ask("probe_failed", 0) >= 6
        });
        (1..6).for_each(|n| _ = guest.ask("probe_flush", n));
        guest.leave();
    });
}

#[test]
fn a_link_with_connections_is_detached_when_the_adapter_is_done_with_them() {
    Setup { seeds: 8, ..Setup::default() }.run(|bench| {
        let (beta, heard, qpn) = accepting(bench);
        let guest = guest(bench, 3, qpn);
        guest.run("probe_connect", 0);
        guest.run("probe_connect", 1);
        guest.run("probe_begin", 2);
        drop((beta, heard));
        // Says for some seconds that it is busy.
        let goes = bench.beta.comes_and_goes();
        let other = bench.beta.kernel.spawn("detach", fakekernel::Ctx::User, goes);
        other.join();
        fakekernel::sleep(MINUTE);
        guest.ask("probe_flush", 2);
        guest.leave();
    });
}

#[test]
fn one_delete_part_takes_a_link_whose_connections_were_just_closed() {
    Setup { driver: Driver::Ibp, seeds: 4, ..Setup::default() }.run(|bench| {
        let (beta, heard, qpn) = accepting(bench);
        let guest = guest(bench, 1, qpn);
        guest.run("probe_connect", 0);
        drop((beta, heard));
        let begun = bench.machine.now();
        assert_eq!(bench.beta.try_delete_partition(), Ok(()), "{:?}", bench.beta.console());
        let took = bench.machine.now().since(begun);
        assert!(took > Nanos::from_secs(2), "IBTL kept the queue pair for {took} only");
        guest.ask("probe_flush", 0);
        guest.leave();
    });
}

#[test]
fn a_link_of_an_adapter_without_shared_receive_queues_says_so_and_is_one_of_datagrams() {
    Setup { hca: |config| config.attr.max_srq = 0, ..Setup::default() }.run(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, heard, _) = accepting(bench);
        assert_eq!(address_of(&beta).0[0], 0);
        let console = bench.beta.console();
        assert!(console.iter().any(|line| line.contains("accepts no connections")), "{console:?}");
        alpha.transmit(address_of(&beta), b"a datagram", Offload::default()).unwrap();
        bench.settle();
        assert_eq!(payloads(&heard), [b"a datagram"]);
    });
}

/// The link is one of datagrams although connections are wanted, and IP is told so.
fn carries_datagrams_alone(bench: &Bench) {
    opened::set_connected(&bench.alpha, true);
    opened::set_connected(&bench.beta, true);
    let (beta, to_beta) = bench.beta.open_up(PLAIN);
    let (alpha, _) = bench.alpha.open(PLAIN);
    bench.wait_for("up", MINUTE, || bench.alpha.state() == LinkState::Up);
    bench.settle();
    let details = alpha.details();
    assert_eq!((address_of(&alpha).0[0], details.max_sdu), (0, DATAGRAM), "{:?}", bench.alpha.console());
    for len in [100, DATAGRAM as usize] {
        opened::send(&alpha, &beta, &pattern(len));
        bench.settle();
        assert!(payloads(&to_beta) == [pattern(len)]);
    }
}

#[test]
fn a_link_with_connections_that_cannot_listen_is_one_of_datagrams_and_ip_is_told_so() {
    Setup { hca: |config| config.attr.max_srq = 0, seeds: 4, ..Setup::default() }
        .run(carries_datagrams_alone);
    Setup { seeds: 4, ..Setup::default() }.run(|bench| {
        bench.alpha.kernel.set_fault(FaultKind("ibt_attach"), Some("ibd"), FaultPlan::From(0));
        carries_datagrams_alone(bench);
    });
}

#[test]
fn a_shared_receive_queue_that_fails_is_replaced_and_neighbours_send_on_connections_again() {
    holds(|bench| {
        let (alpha, _, beta, to_beta) = opened::connected(bench, PLAIN);
        opened::send(&alpha, &beta, &pattern(20_000));
        bench.settle();
        assert_eq!(payloads(&to_beta).len(), 1);
        let adapter = bench.world.fabric().hca(bench.beta.adapter()).expect("beta's");
        assert_ne!(adapter.break_srqs(), 0);
        let broken = bench.machine.now();
        for n in 0..100 {
            opened::send(&alpha, &beta, &pattern(10_000 + n));
            opened::send(&alpha, &beta, &pattern(500));
            fakekernel::sleep(Nanos::from_millis(100));
        }
        let short = |packet: &Vec<u8>| packet.len() < 1_000;
        let took = bench.machine.now().since(broken);
        let came = payloads(&to_beta);
        assert!(came.iter().any(|packet| !short(packet)), "none after {took}: {:?}", bench.beta.counters());
        assert!(came.iter().any(short), "{:?}", bench.alpha.counters());
        opened::send(&alpha, &beta, &pattern(30_000));
        bench.settle();
        assert!(payloads(&to_beta) == [pattern(30_000)]);
    });
}

#[test]
fn messages_come_on_connections_while_the_queue_pair_for_datagrams_is_not_ready() {
    holds(|bench| {
        let (_beta, heard, qpn) = accepting(bench);
        let guest = guest(bench, 1, qpn);
        guest.run("probe_connect", 0);
        let adapter = bench.world.fabric().hca(bench.beta.adapter()).expect("it is plugged in");
        bench.beta.kernel.set_fault(FaultKind("ibt_register_mr"), Some("ibd"), FaultPlan::From(0));
        assert!(adapter.break_qpn(Qpn::truncating(qpn as u32)));
        bench.settle();
        assert_ne!(bench.beta.state(), LinkState::Up);
        for _ in 0..200 {
            guest.send(0, 20_000, PLAIN);
            fakekernel::sleep(Nanos::from_millis(5));
            assert_eq!(guest.ask("probe_sent", 0), 0);
            assert!(payloads(&heard) == [pattern(20_000)], "{:?}", bench.beta.counters());
        }
        bench.beta.kernel.set_fault(FaultKind("ibt_register_mr"), Some("ibd"), FaultPlan::Never);
        bench.wait_for("up", MINUTE, || bench.beta.state() == LinkState::Up);
        guest.send(0, 5_000, PLAIN);
        bench.settle();
        assert!(payloads(&heard) == [pattern(5_000)]);
        guest.leave();
    });
}

#[test]
fn a_connection_that_is_over_is_freed_however_many_messages_come_on_others() {
    holds(|bench| {
        let (_beta, heard, qpn) = accepting(bench);
        let guest = guest(bench, 2, qpn);
        guest.run("probe_connect", 0);
        guest.run("probe_connect", 1);
        let adapter = bench.world.fabric().hca(bench.beta.adapter()).expect("it is plugged in");
        // At any time there is something that nobody has taken yet.
        let late = fabric::Nanos(150_000_000);
        adapter.set_late_interrupts(Some((late, late)));
        guest.run("probe_close_channel", 1);
        for n in 0..600 {
            guest.send(0, 5_000, PLAIN);
            fakekernel::sleep(Nanos::from_millis(5));
            assert_eq!(guest.ask("probe_sent", 0), 0, "{n}");
        }
        assert_eq!(counted(bench, "ended"), 1, "three seconds after it was closed");
        adapter.set_late_interrupts(None);
        bench.settle();
        assert_eq!(payloads(&heard).len(), 600);
        guest.leave();
    });
}

#[test]
fn a_connection_that_is_made_where_the_p_key_is_by_now_outlives_the_links_own_move_there() {
    holds(|bench| {
        let (_beta, heard, qpn) = accepting(bench);
        let guest = guest(bench, 2, qpn);
        guest.run("probe_connect", 0);
        guest.send(0, 5_000, PLAIN);
        bench.settle();
        assert!(payloads(&heard) == [pattern(5_000)]);
        // The link learns of it a second later than the communication manager.
        let slow = Nanos::from_secs(1);
        lab_ibtf::set_command_time(&bench.beta.kernel, Some((slow, slow)));
        let table = [fabric::PKey(0), fabric::PKey(0xffff)];
        bench.world.fabric().set_pkeys(bench.beta.port(), &table).expect("beta's port");
        fakekernel::sleep(Nanos::from_millis(100));
        lab_ibtf::set_command_time(&bench.beta.kernel, None);
        guest.run("probe_connect", 1);
        fakekernel::sleep(Nanos::from_secs(20));
        assert_eq!(["accepted", "ended"].map(|name| counted(bench, name)), [2, 1]);
        guest.send(1, 6_000, PLAIN);
        bench.settle();
        assert!(payloads(&heard) == [pattern(6_000)], "{:?}", bench.beta.counters());
        guest.leave();
    });
}

#[test]
fn a_link_that_is_started_where_its_p_key_has_moved_to_meanwhile_keeps_the_first_connections() {
    holds(|bench| {
        let (beta, _, _) = accepting(bench);
        drop(beta);
        let table = [fabric::PKey(0), fabric::PKey(0xffff)];
        bench.world.fabric().set_pkeys(bench.beta.port(), &table).expect("beta's port");
        // What its link asks the administrator takes long: it listens before it is up.
        bench.fault(
            sm::Attribute::MC_MEMBER_RECORD,
            None,
            None,
            sm::fault::FaultAction::Delay(sm::Nanos(3_000_000_000)),
        );
        let (beta, heard) = bench.beta.open(PLAIN);
        bench.settle();
        let qpn = u32::from_be_bytes(address_of(&beta).0[..4].try_into().expect("four bytes")) & 0x00ff_ffff;
        let guest = guest(bench, 1, qpn.into());
        guest.run("probe_connect", 0);
        bench.no_faults();
        bench.wait_for("up", MINUTE, || bench.beta.state() == LinkState::Up);
        bench.settle();
        assert_eq!(["accepted", "ended"].map(|name| counted(bench, name)), [1, 0]);
        guest.send(0, 6_000, PLAIN);
        bench.settle();
        assert!(payloads(&heard) == [pattern(6_000)], "{:?}", bench.beta.counters());
        guest.leave();
    });
}
