//! What is left of the checks that a connected mode should pass: odd packets, slow readers, those who answer where nobody listens, managers
//! that restart.

use fakekernel::Nanos;
use lab_gldv3::{LinkState, Offload};

use super::linux::{Linux, Mode, Way};
use super::opened::{SDU, connected, pattern, send, set_connected};
use super::{counted_by, holds, payloads};
use crate::bench::{Bench, PLAIN, Setup, address_of};

const IPV6: u32 = 0x86dd;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const ECHO: u8 = 128;

/// An ICMPv6 packet of so many octets.
fn icmpv6(kind: u8, len: usize) -> Vec<u8> {
    let mut packet = pattern(len);
    packet[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 0, 58, 255]);
    packet[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
    packet[8..40].fill(0);
    (packet[8], packet[23], packet[24], packet[39], packet[40], packet[41]) = (0xfd, 1, 0xfd, 2, kind, 0);
    packet
}

#[test]
fn icmpv6_of_any_length_arrives_on_a_connection_as_it_was_sent() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        let (alpha, _, beta, to_beta) = connected(bench, IPV6);
        send(&alpha, &beta, &pattern(20_000));
        bench.settle();
        payloads(&to_beta);
        // About what is copied into small buffers, and what fills a message.
        for len in (4_080..4_104).chain(16_370..16_390).chain(SDU - 5..=SDU) {
            send(&alpha, &beta, &icmpv6(ECHO, len));
            bench.settle();
            assert!(payloads(&to_beta) == [icmpv6(ECHO, len)], "{len}: {:?}", bench.beta.counters());
        }
        assert_eq!(["opened", "lost"].map(|name| counted_by(&bench.alpha, name)), [1, 0]);
    });
}

#[test]
fn neighbour_discovery_with_options_of_any_length_comes_on_a_connection_and_writes_nowhere_else() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        let neighbour = Linux::new(bench, Mode::Connected);
        set_connected(&bench.alpha, true);
        let (alpha, to_alpha) = bench.alpha.open_up(IPV6);
        bench.settle();
        let to_us = address_of(&alpha);
        for len in [64, 65, 66, 71, 72, 87, 88, 90, 200] {
            for option in [0, 1, 2, 3, 4, 255] {
                let mut packet = icmpv6(NEIGHBOUR_SOLICITATION, len);
                packet.get_mut(64..66).into_iter().for_each(|at| at.copy_from_slice(&[1, option]));
                neighbour.send(to_us, IPV6 as u16, &packet);
                bench.settle();
                let came = payloads(&to_alpha);
                assert_eq!(came.len(), 1, "{len} {option}: {:?}", bench.alpha.counters());
                // The address in an option with room for it comes where IP has it: two octets further in front.
                let mut expected = packet.clone();
                if matches!(option, 3 | 4) && len >= 64 + 8 * usize::from(option) {
                    expected.copy_within(68..88, 66);
                    expected[86..88].fill(0);
                }
                assert!(came[0] == expected, "{len} {option}");
            }
        }
        neighbour.send(to_us, IPV6 as u16, &pattern(SDU));
        bench.settle();
        assert!(payloads(&to_alpha) == [pattern(SDU)], "every receive is as long as before");
        drop((alpha, to_alpha));
        neighbour.leave(bench);
        fakekernel::sleep(Nanos::from_secs(90));
    });
}

#[test]
fn a_neighbour_that_takes_nothing_any_more_slows_nobody_else_and_is_given_up() {
    holds(|bench| {
        let neighbour = Linux::new(bench, Mode::Datagram);
        let (alpha, _, beta, to_beta) = connected(bench, PLAIN);
        let there = neighbour.address();
        let send_there = |len| alpha.transmit(there, &pattern(len), Offload::default()).expect("it is bound");
        send_there(20_000);
        send(&alpha, &beta, &pattern(20_000));
        bench.settle();
        assert_eq!((neighbour.heard().len(), payloads(&to_beta).len()), (1, 1));
        neighbour.keep_receives(true);
        // As many as it has receives, and more.
        for n in 0..600 {
            send_there(10_000 + n);
            send(&alpha, &beta, &pattern(10_000 + n));
            fakekernel::sleep(Nanos::from_millis(2));
            assert!(payloads(&to_beta) == [pattern(10_000 + n)], "{n}: {:?}", bench.alpha.counters());
        }
        bench.wait_for("it is given up", Nanos::from_secs(30), || counted_by(&bench.alpha, "closed") == 1);
        assert_eq!(bench.alpha.state(), LinkState::Up);
        neighbour.keep_receives(false);
        neighbour.heard();
        let reached = || {
            send_there(30_000);
            bench.settle();
            neighbour.heard().contains(&(Way::Connection, pattern(30_000)))
        };
        bench.wait_for("it is reached", Nanos::from_secs(60), reached);
        drop((alpha, beta, to_beta));
        neighbour.leave(bench);
        fakekernel::sleep(Nanos::from_secs(90));
    });
}

/// RFC 4391, section 9.3, and as Linux has it; from illumos's driver in C such messages come as its IP has written them.
#[test]
fn messages_of_routers_have_their_link_addresses_where_the_rfc_puts_them_and_ip_where_it_looks() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| {
        let neighbour = Linux::new(bench, Mode::Without);
        let (alpha, to_alpha) = bench.alpha.open_up(IPV6);
        bench.settle();
        for (kind, begin) in [(133, 48), (134, 56), (137, 80)] {
            let message = |spare: usize| {
                let mut packet = vec![0; begin + 24];
                (packet[0], packet[5], packet[6], packet[7]) = (0x60, (begin - 40 + 24) as u8, 58, 255);
                (packet[40], packet[begin], packet[begin + 1]) = (kind, 1, 3);
                packet[begin + 2 + spare..][..20].copy_from_slice(&address_of(&alpha).0);
                packet
            };
            let (of_ip, on_the_wire) = (message(0), message(2));
            alpha.transmit(neighbour.address(), &of_ip, Offload::default()).expect("it is bound");
            bench.settle();
            assert!(neighbour.heard() == [(Way::Datagram, on_the_wire.clone())], "{kind}");
            for form in [on_the_wire, of_ip.clone()] {
                neighbour.send(address_of(&alpha), IPV6 as u16, &form);
                bench.settle();
                assert!(payloads(&to_alpha) == [of_ip.clone()], "{kind}");
            }
        }
        drop((alpha, to_alpha));
        neighbour.leave(bench);
    });
}

/// They are gone together, as behind a switch: what they were sent last is the adapter's until their connections are given up.
#[test]
fn eight_neighbours_that_take_nothing_any_more_leave_buffers_for_the_others() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| {
        let neighbours: Vec<Linux> =
            (0..8).map(|number| Linux::another(bench, Mode::Datagram, number)).collect();
        let (alpha, _, beta, to_beta) = connected(bench, PLAIN);
        let send_to = |neighbour: &Linux, len| {
            let sent = alpha.transmit(neighbour.address(), &pattern(len), Offload::default());
            sent.expect("it is bound");
        };
        // The first finds the way, the second waits for a connection, the third goes on it.
        for len in [20_000, 20_001, 20_002] {
            neighbours.iter().for_each(|neighbour| send_to(neighbour, len));
            send(&alpha, &beta, &pattern(len));
            fakekernel::sleep(Nanos::from_secs(2));
        }
        payloads(&to_beta);
        neighbours.iter().for_each(|neighbour| assert!(!neighbour.heard().is_empty()));
        neighbours.iter().for_each(|neighbour| assert!(bench.world.set_cable(neighbour.port(), false)));
        // Each in turn takes what it may have.
        for neighbour in &neighbours {
            (0..50).for_each(|n| send_to(neighbour, 10_000 + n));
        }
        for n in 0..10 {
            send(&alpha, &beta, &pattern(10_000 + n));
            bench.settle();
            assert!(payloads(&to_beta) == [pattern(10_000 + n)], "{n}: {:?}", bench.alpha.counters());
        }
        drop((alpha, beta, to_beta));
        neighbours.into_iter().for_each(|neighbour| neighbour.leave(bench));
        fakekernel::sleep(Nanos::from_secs(90));
    });
}

#[test]
fn who_answers_on_a_connection_that_ours_opened_breaks_no_more_than_that_one() {
    holds(|bench| {
        let neighbour = Linux::new(bench, Mode::Datagram);
        let (alpha, to_alpha, beta, to_beta) = connected(bench, PLAIN);
        let there = neighbour.address();
        let send_there = |len| alpha.transmit(there, &pattern(len), Offload::default()).expect("it is bound");
        send_there(20_000);
        send(&beta, &alpha, &pattern(20_000));
        bench.settle();
        assert_eq!((neighbour.heard().len(), payloads(&to_alpha).len()), (1, 1));
        assert!(neighbour.send_back(&pattern(5_000)));
        (0..100).for_each(|n| _ = neighbour.send_back(&pattern(5_000 + n)));
        for n in 0..50 {
            send(&beta, &alpha, &pattern(10_000 + n));
            fakekernel::sleep(Nanos::from_millis(200));
            assert!(payloads(&to_alpha) == [pattern(10_000 + n)], "{n}");
        }
        neighbour.heard();
        let reached = || {
            send_there(30_000);
            bench.settle();
            neighbour.heard().contains(&(Way::Connection, pattern(30_000)))
        };
        bench.wait_for("it is reached", Nanos::from_secs(60), reached);
        assert_eq!(bench.alpha.state(), LinkState::Up);
        drop((alpha, to_alpha, beta, to_beta));
        neighbour.leave(bench);
        fakekernel::sleep(Nanos::from_secs(90));
    });
}

/// A connection each way, and whether both still are the ones that were made first.
fn survives(bench: &Bench, trouble: impl Fn()) {
    let (alpha, to_alpha, beta, to_beta) = connected(bench, PLAIN);
    for _ in 0..3 {
        for n in 0..4 {
            send(&alpha, &beta, &pattern(20_000 + n));
            send(&beta, &alpha, &pattern(20_000 + n));
            bench.settle();
            assert_eq!((payloads(&to_alpha).len(), payloads(&to_beta).len()), (1, 1));
        }
        trouble();
        bench.wait_for("up", Nanos::from_secs(60), || {
            bench.alpha.state() == LinkState::Up && bench.beta.state() == LinkState::Up
        });
        fakekernel::sleep(Nanos::from_secs(5));
    }
    for host in [&bench.alpha, &bench.beta] {
        assert_eq!(["opens", "opened", "closed"].map(|name| counted_by(host, name)), [1, 1, 0]);
    }
}

#[test]
fn connections_outlive_a_subnet_manager_that_restarts_and_asks_everybody_to_register_anew() {
    holds(|bench| survives(bench, || bench.sm.restart(fabric::Lid(0xc000))));
}

#[test]
fn connections_outlive_a_cable_that_is_pulled_for_a_moment() {
    holds(|bench| {
        survives(bench, || {
            bench.world.set_cable(bench.beta.port(), false);
            fakekernel::sleep(Nanos::from_millis(500));
            bench.world.set_cable(bench.beta.port(), true);
        });
    });
}

#[test]
fn linkmode_changes_while_the_port_is_down_and_connections_come_with_the_port() {
    holds(|bench| {
        bench.world.set_cable(bench.alpha.port(), false);
        let (alpha, heard) = bench.alpha.open(PLAIN);
        bench.settle();
        drop((alpha, heard));
        set_connected(&bench.alpha, true);
        set_connected(&bench.alpha, false);
        set_connected(&bench.alpha, true);
        set_connected(&bench.beta, true);
        let (alpha, _) = bench.alpha.open(PLAIN);
        let (beta, to_beta) = bench.beta.open_up(PLAIN);
        bench.world.set_cable(bench.alpha.port(), true);
        bench.wait_for("up", Nanos::from_secs(60), || bench.alpha.state() == LinkState::Up);
        bench.settle();
        send(&alpha, &beta, &pattern(SDU));
        bench.settle();
        assert!(payloads(&to_beta) == [pattern(SDU)]);
    });
}

#[test]
fn every_attempt_and_every_connection_is_counted_once() {
    Setup { seeds: 20, ..Setup::default() }.run(|bench| {
        let (alpha, to_alpha, beta, to_beta) = connected(bench, PLAIN);
        for n in 0..6 {
            send(&alpha, &beta, &pattern(20_000 + n));
            send(&beta, &alpha, &pattern(20_000 + n));
            fakekernel::sleep(Nanos::from_millis(bench.machine.now().0 % 700));
            let adapter = bench.world.fabric().hca(bench.alpha.adapter()).expect("it is plugged in");
            adapter.qpns().into_iter().for_each(|qpn| _ = adapter.break_qpn(qpn));
            fakekernel::sleep(Nanos::from_secs(3));
        }
        drop((alpha, to_alpha, beta, to_beta));
        for host in [&bench.alpha, &bench.beta] {
            let all = ["opens", "open_failed", "opened", "closed", "accepted", "ended"];
            bench.wait_for("all are over", Nanos::from_secs(200), || {
                let [opens, failed, opened, closed, accepted, ended] = all.map(|name| counted_by(host, name));
                accepted == ended && opens == failed + closed && opened <= closed
            });
        }
    });
}
