//! Receives that connections share: as many as are needed.

use fakekernel::{FaultKind, FaultPlan, Nanos};

use super::guest::Guest;
use super::{LEGACY, accepting, counted, holds, payloads};
use crate::bench::{Bench, PLAIN, Setup};

/// Receives at first, and each time that there are more.
const RECEIVES: u64 = 128;

/// A guest with one connection.
fn guest(bench: &Bench, qpn: i64) -> Guest {
    let guest = Guest::new(bench, 1);
    guest.aim(&bench.beta, LEGACY + qpn, 0x99, 65_524);
    guest.run("probe_connect", 0);
    guest
}

/// So many messages, of which beta hears after `late`.
fn burst(bench: &Bench, guest: &Guest, messages: usize, late: Nanos) {
    let adapter = bench.world.fabric().hca(bench.beta.adapter()).expect("beta has one");
    adapter.set_late_interrupts(Some((fabric::Nanos(late.0), fabric::Nanos(late.0))));
    for _ in 0..messages.div_ceil(4) {
        (0..4).for_each(|_| guest.send(0, 1_000, PLAIN));
        fakekernel::sleep(Nanos::from_micros(50));
        while guest.ask("probe_sent", 0) == 0 {}
    }
    adapter.set_late_interrupts(None);
    bench.settle();
}

#[test]
fn where_messages_come_faster_than_they_are_taken_there_are_more_receives_and_fewer_when_they_do_not() {
    holds(|bench| {
        let (_beta, heard, qpn) = accepting(bench);
        let guest = guest(bench, qpn);
        let of = |bench: &Bench| bench.beta.kernel.genunix().heap_use().0;
        let before = of(bench);
        burst(bench, &guest, 20, Nanos::from_millis(10));
        assert_eq!((counted(bench, "grown"), payloads(&heard).len()), (0, 20));
        burst(bench, &guest, 128, Nanos::from_millis(10));
        assert_eq!((counted(bench, "grown"), payloads(&heard).len()), (1, 128));
        assert!((8 << 20..9 << 20).contains(&(of(bench) - before)), "{}", of(bench) - before);
        // Twice as many as at first wait for an interrupt now, and no sender meets an empty queue.
        burst(bench, &guest, 240, Nanos::from_millis(10));
        assert_eq!(payloads(&heard).len(), 240);
        // What is too much is used up, and goes.
        for _ in 0..40 {
            fakekernel::sleep(Nanos::from_secs(10));
            burst(bench, &guest, 20, Nanos(0));
            assert_eq!(payloads(&heard).len(), 20);
        }
        let [grown, shrunk] = ["grown", "shrunk"].map(|name| counted(bench, name));
        assert!(grown >= 1 && grown == shrunk, "{grown} {shrunk}");
        assert!(of(bench) < before + (1 << 20));
        guest.leave();
    });
}

#[test]
fn an_adapter_whose_shared_queue_holds_fewer_receives_gets_no_more_than_that() {
    Setup { hca: |config| config.attr.max_srq_sz = 200, ..Setup::default() }.run(|bench| {
        let (_beta, heard, qpn) = accepting(bench);
        let guest = guest(bench, qpn);
        for _ in 0..4 {
            burst(bench, &guest, 128, Nanos::from_millis(10));
            assert_eq!((counted(bench, "grown"), payloads(&heard).len()), (0, 128));
        }
        guest.leave();
    });
}

#[test]
fn receives_that_could_not_be_had_are_had_later_and_messages_go_on_meanwhile() {
    holds(|bench| {
        let (_beta, heard, qpn) = accepting(bench);
        let guest = guest(bench, qpn);
        bench.beta.kernel.set_fault(FaultKind("ibt_register_mr"), Some("ibd"), FaultPlan::Nth(0));
        burst(bench, &guest, 128, Nanos::from_millis(10));
        assert_eq!((counted(bench, "grown"), payloads(&heard).len()), (0, 128));
        bench.beta.kernel.set_fault(FaultKind("ibt_register_mr"), Some("ibd"), FaultPlan::Never);
        fakekernel::sleep(Nanos::from_secs(2));
        burst(bench, &guest, 128, Nanos::from_millis(10));
        assert_eq!((counted(bench, "grown"), payloads(&heard).len()), (1, 128));
        guest.leave();
    });
}

#[test]
fn a_reader_that_keeps_what_it_gets_keeps_no_more_than_half_of_what_connections_share() {
    holds(|bench| {
        const MESSAGES: usize = 400;
        let (beta, heard, qpn) = accepting(bench);
        let guest = Guest::new(bench, 1);
        guest.aim(&bench.beta, LEGACY + qpn, 0x99, 65_524);
        guest.run("probe_connect", 0);
        let held = beta.hold_received();
        let lent = bench.beta.counter("rx_lent");
        for _ in 0..MESSAGES {
            guest.send(0, 20_000, PLAIN);
            fakekernel::sleep(Nanos::from_millis(1));
            assert_eq!(guest.ask("probe_sent", 0), 0);
        }
        bench.settle();
        assert_eq!((held.len(), payloads(&heard).len()), (MESSAGES, MESSAGES), "{:?}", bench.beta.counters());
        let lent = bench.beta.counter("rx_lent") - lent;
        assert!((64..=RECEIVES * (1 + counted(bench, "grown")) / 2).contains(&lent), "{lent}");
        held.release();
        guest.leave();
    });
}

#[test]
fn where_a_reader_keeps_a_message_of_receives_that_are_given_up_there_are_no_more_before_it_is_free() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| {
        let (beta, heard, qpn) = accepting(bench);
        let guest = guest(bench, qpn);
        burst(bench, &guest, 128, Nanos::from_millis(10));
        assert_eq!(counted(bench, "grown"), 1);
        // Some of each part.
        let held = beta.hold_received();
        for _ in 0..10 {
            guest.send(0, 20_000, PLAIN);
            burst(bench, &guest, 28, Nanos(0));
        }
        while counted(bench, "shrunk") == 0 {
            fakekernel::sleep(Nanos::from_secs(10));
            burst(bench, &guest, 20, Nanos(0));
        }
        burst(bench, &guest, 128, Nanos::from_millis(10));
        assert_eq!(counted(bench, "grown"), 1);
        held.release();
        fakekernel::sleep(Nanos::from_secs(12));
        // The adapter gets the others back.
        burst(bench, &guest, 20, Nanos(0));
        burst(bench, &guest, 128, Nanos::from_millis(10));
        assert_eq!(counted(bench, "grown"), 2);
        drop(payloads(&heard));
        guest.leave();
    });
}

#[test]
fn what_a_reader_keeps_of_connections_that_come_and_go_is_bounded() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        const TIMES: i64 = 4;
        let (beta, heard, qpn) = accepting(bench);
        let held = beta.hold_received();
        let guest = Guest::new(bench, TIMES);
        guest.aim(&bench.beta, LEGACY + qpn, 0x99, 65_524);
        for channel in 0..TIMES {
            guest.run("probe_connect", channel);
            guest.send(channel, 20_000, PLAIN);
            bench.settle();
            assert_eq!(payloads(&heard).len(), 1);
            guest.run("probe_close_channel", channel);
            fakekernel::sleep(Nanos::from_secs(100));
            assert_eq!(bench.beta.calls("ibt_free_srq"), 1 + channel as u64);
        }
        let heap = bench.beta.kernel.genunix().heap_use().0;
        assert!(heap < 16 << 20, "{heap} bytes");
        assert_eq!(bench.beta.counter("rx_lent"), 1);
        held.release();
        guest.leave();
    });
}
