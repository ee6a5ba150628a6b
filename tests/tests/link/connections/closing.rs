//! Connections that take long to close, and neighbours whose answers do.

use fabric::{Direction, Only, Pick};
use fakekernel::Nanos;

use super::guest::Guest;
use super::opened::{send, set_connected};
use super::{CM, DREQ, LEGACY, accepting, counted, holds, pattern, payloads};
use crate::bench::{Bench, PLAIN, Setup, address_of};

/// Nobody hears of the end of beta's connections.
pub fn lose_ends(bench: &Bench) {
    let only = Only::Management { class: CM, attribute: DREQ };
    bench.world.fabric().lose(bench.beta.port(), Direction::ToSwitch, Pick { only, skip: 0, times: 1000 });
}

#[test]
fn neighbours_that_do_not_let_go_keep_nobody_else_waiting() {
    holds(|bench| {
        // Each but two is one too many, and the one before has carried nothing for long.
        const CONNECTIONS: i64 = 6;
        let (_beta, heard, qpn) = accepting(bench);
        let guest = Guest::new(bench, CONNECTIONS + 1);
        lose_ends(bench);
        guest.aim(&bench.beta, LEGACY + qpn, 0x98, 65_524);
        // An answer takes four times as much: 8.6 s.
        guest.run("probe_lifetime", 19);
        for channel in 0..CONNECTIONS {
            guest.run("probe_connect", channel);
            fakekernel::sleep(Nanos::from_secs(11));
        }
        assert_eq!(lab_ibtf::connected(&bench.beta.kernel).closing, CONNECTIONS as usize - 2);
        guest.aim(&bench.beta, LEGACY + qpn, 0x99, 65_524);
        let before = bench.machine.now();
        guest.run("probe_connect", CONNECTIONS);
        let took = bench.machine.now().since(before);
        assert!(took < Nanos::from_secs(1), "{took}");
        guest.send(CONNECTIONS, 5_000, PLAIN);
        bench.settle();
        assert!(payloads(&heard) == [pattern(5_000)]);
        guest.leave();
    });
}

#[test]
fn a_connection_to_a_neighbour_is_closed_although_many_from_neighbours_are_to_be() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| {
        const EACH: i64 = 8;
        set_connected(&bench.alpha, true);
        let (alpha, to_alpha) = bench.alpha.open_up(PLAIN);
        set_connected(&bench.beta, true);
        let (beta, _heard) = bench.beta.open_up(PLAIN);
        bench.settle();
        let qpn = u32::from_be_bytes(address_of(&beta).0[..4].try_into().expect("four bytes")) & 0x00ff_ffff;
        let guest = Guest::new(bench, 2 * EACH);
        let open = |from: i64| {
            for channel in from..from + EACH {
                guest.aim(&bench.beta, LEGACY + i64::from(qpn), 0x100 + channel as u32, 65_524);
                guest.run("probe_lifetime", 19);
                guest.run("probe_connect", channel);
            }
        };
        open(0);
        // Beta knows the way from now on: those are others.
        send(&beta, &alpha, &super::opened::pattern(30_000));
        bench.settle();
        assert_eq!((payloads(&to_alpha).len(), counted(bench, "opened")), (1, 1));
        open(EACH);
        lose_ends(bench);
        drop(beta);
        fakekernel::sleep(Nanos::from_secs(4));
        assert!(counted(bench, "ended") < 2 * EACH as u64, "nobody waits for a turn");
        assert_eq!(counted(bench, "closed"), 1);
        drop(alpha);
        guest.leave();
    });
}

/// `ibcm` does not tell how long an answer takes before the connection stands. What is one too many then is ended at once. Before, the
/// driver read the time in front of `ibcm`'s pointer to the private data, and refused.
#[test]
fn of_neighbours_with_answers_over_nine_seconds_three_stay() {
    holds(|bench| {
        let (_beta, heard, qpn) = accepting(bench);
        let guest = Guest::new(bench, 7);
        let ask = |channel: i64, lifetime: i64| {
            guest.aim(&bench.beta, LEGACY + qpn, 0x100 + channel as u32, 65_524);
            guest.run("probe_lifetime", lifetime);
            guest.ask("probe_connect", channel)
        };
        // An answer takes four times as long, as a code: two more.
        for (channel, lifetime) in [(1, 19), (2, 20), (3, 20), (4, 20), (5, 20)] {
            assert_eq!(ask(channel, lifetime), 0, "{channel}: {lifetime}");
        }
        bench.wait_for("one too many", Nanos::from_secs(1), || counted(bench, "slow") == 1);
        assert_eq!(["refused", "accepted"].map(|name| counted(bench, name)), [0, 5]);
        bench.wait_for("the last one is over", Nanos::from_secs(20), || counted(bench, "ended") == 1);
        guest.send(3, 5_000, PLAIN);
        bench.settle();
        assert!(payloads(&heard) == [pattern(5_000)]);
        guest.run("probe_close_channel", 2);
        bench.wait_for("it is over", Nanos::from_secs(20), || counted(bench, "ended") == 2);
        assert_eq!(ask(6, 20), 0);
        bench.settle();
        assert_eq!(["slow", "ended"].map(|name| counted(bench, name)), [1, 2], "there is room for it");
        guest.leave();
    });
}

#[test]
fn where_the_sa_says_that_packets_live_long_all_neighbours_get_connections_whose_answers_do() {
    Setup { lifetime: 20, ..Setup::default() }.run(|bench| {
        const NAMES: i64 = 6;
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, _heard, qpn) = accepting(bench);
        send(&beta, &alpha, &pattern(100));
        bench.settle();
        let guest = Guest::new(bench, NAMES);
        for channel in 0..NAMES {
            guest.aim(&bench.beta, LEGACY + qpn, 0x100 + channel as u32, 65_524);
            guest.run("probe_connect", channel);
        }
        assert_eq!(["slow", "accepted"].map(|name| counted(bench, name)), [0, NAMES as u64]);
        guest.leave();
        drop(alpha);
    });
}

#[test]
fn a_neighbour_whose_answers_take_long_has_its_place_until_the_end_of_its_connection_can_be_answered() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| {
        let (beta, heard, qpn) = accepting(bench);
        let guest = Guest::new(bench, 5);
        let ask = |channel: i64, qpn: i64| {
            guest.aim(&bench.beta, LEGACY + qpn, 0x100 + channel as u32, 65_524);
            guest.run("probe_lifetime", 20);
            guest.ask("probe_connect", channel)
        };
        (0..3).for_each(|channel| assert_eq!(ask(channel, qpn), 0));
        lose_ends(bench);
        drop((beta, heard));
        bench.wait_for("all are gone", Nanos::from_secs(10), || counted(bench, "ended") == 3);
        let (_beta, _heard, qpn) = accepting(bench);
        assert_eq!(lab_ibtf::connected(&bench.beta.kernel).closing, 3);
        assert_eq!(ask(3, qpn), 0);
        // `ibcm` still has three of its twelve places for such.
        bench.wait_for("one too many", Nanos::from_secs(1), || counted(bench, "slow") == 1);
        // That one's own place is free as late as those are, since its end is lost, too.
        fakekernel::sleep(Nanos::from_secs(70));
        assert_eq!(ask(4, qpn), 0);
        bench.settle();
        assert_eq!(counted(bench, "slow"), 1);
        guest.leave();
    });
}

/// The subnet manager says that packets live long, so all neighbours' answers may take long.
#[test]
fn an_adapter_that_is_pulled_when_neighbours_with_long_answers_did_not_let_go_is_let_go_in_time() {
    Setup { seeds: 2, lifetime: 20, ..Setup::default() }.run(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, heard, qpn) = accepting(bench);
        send(&beta, &alpha, &pattern(100));
        bench.settle();
        let guest = Guest::new(bench, 1);
        guest.aim(&bench.beta, LEGACY + qpn, 0x100, 65_524);
        guest.run("probe_connect", 0);
        lose_ends(bench);
        drop((beta, heard));
        bench.wait_for("it is gone", Nanos::from_secs(10), || counted(bench, "ended") == 1);
        let pulled = bench.world.remove_hca(&bench.beta.kernel, bench.beta.adapter());
        assert!(pulled.is_ok(), "{}", pulled.unwrap_err());
        guest.leave();
        drop(alpha);
    });
}
