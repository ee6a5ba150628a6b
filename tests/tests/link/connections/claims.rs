//! Who opens connections in a neighbour's name, and a neighbour that has lost its own: the SA says where a neighbour is.

use fakekernel::Nanos;
use lab_gldv3::LinkAddress;

use super::guest::Guest;
use super::linux::{Linux, Mode};
use super::opened::{connected, pattern, send};
use super::{LEGACY, accepting, counted, counted_by, holds, payloads};
use crate::bench::{PLAIN, Setup, address_of};

const SECOND: Nanos = Nanos::from_secs(1);

/// Another queue pair of the same port.
fn another(LinkAddress(mut address): LinkAddress, n: u8) -> LinkAddress {
    address[2] ^= n;
    LinkAddress(address)
}

#[test]
fn who_sends_on_connections_in_a_neighbours_names_keeps_it_from_none_of_its_own() {
    Setup { seeds: 3, ..Setup::default() }.run(|bench| {
        let (alpha, to_alpha, beta, to_beta) = connected(bench, PLAIN);
        let hostile = Linux::new(bench, Mode::Connected);
        let (ours, victim) = (address_of(&alpha), address_of(&beta));
        // As many as it gets before anybody knows where the neighbour is.
        for n in 0..9 {
            for _ in 0..3 {
                hostile.open_as(another(victim, n), ours, b"claimed");
                fakekernel::sleep(Nanos::from_millis(50));
            }
        }
        let claimed = counted_by(&bench.alpha, "accepted");
        assert!(claimed >= 8, "{claimed}");
        send(&alpha, &beta, &pattern(100));
        bench.settle();
        assert!(payloads(&to_beta) == [pattern(100)]);
        drop(payloads(&to_alpha));
        let mut came = 0;
        for second in 0..60 {
            send(&beta, &alpha, &pattern(10_000));
            hostile.open_as(another(victim, second % 9), ours, b"claimed");
            hostile.send_on_all(b"claimed");
            fakekernel::sleep(SECOND);
            came += usize::from(payloads(&to_alpha).contains(&pattern(10_000)));
        }
        assert!(came >= 50, "{came} of 60: {:?}", bench.alpha.counters());
        hostile.leave(bench);
    });
}

#[test]
fn who_says_that_it_is_where_a_neighbour_is_takes_no_connection_from_whom_the_link_sends_to() {
    Setup { seeds: 3, ..Setup::default() }.run(|bench| {
        let (alpha, to_alpha, beta, to_beta) = connected(bench, PLAIN);
        let hostile = Linux::new(bench, Mode::Connected);
        hostile.claim_places();
        let (ours, victim) = (address_of(&alpha), address_of(&beta));
        send(&alpha, &beta, &pattern(100));
        bench.settle();
        assert!(payloads(&to_beta) == [pattern(100)]);
        for n in 1..10 {
            hostile.open_as(another(victim, n), ours, b"claimed");
            fakekernel::sleep(Nanos::from_millis(50));
        }
        assert_eq!(["accepted", "no_room"].map(|name| counted_by(&bench.alpha, name)), [8, 1]);
        drop(payloads(&to_alpha));
        send(&beta, &alpha, &pattern(10_000));
        bench.settle();
        assert!(payloads(&to_alpha) == [pattern(10_000)], "{:?}", bench.alpha.counters());
        hostile.leave(bench);
    });
}

#[test]
fn a_neighbour_that_loses_its_connection_each_second_and_comes_back_is_never_turned_away() {
    holds(|bench| {
        const TIMES: i64 = 8;
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, heard, qpn) = accepting(bench);
        // So the link knows where it is.
        send(&beta, &alpha, &pattern(100));
        bench.settle();
        let guest = Guest::new(bench, TIMES);
        guest.aim(&bench.beta, LEGACY + qpn, 0x99, 65_524);
        for channel in 0..TIMES {
            guest.run("probe_connect", channel);
            guest.send(channel, 5_000, PLAIN);
            fakekernel::sleep(SECOND);
            assert!(payloads(&heard) == [super::pattern(5_000)], "{channel}");
        }
        assert_eq!(counted(bench, "no_room"), 0);
        guest.leave();
        drop(alpha);
    });
}
