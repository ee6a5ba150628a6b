//! Connections between the communication managers of two hosts.

use fabric::{Direction, Guid, Only, Pick};
use fakekernel::{Nanos, Rule, now};
use lab_ibtf::Connected;

use crate::bench::{Bench, Side, with};

const SERVICE: i64 = 0x10_0000_0048;
const CM: u8 = 7;
const REQ: u16 = 0x10;
const REP: u16 = 0x13;
const RTU: u16 = 0x14;
const DREQ: u16 = 0x15;
const DREP: u16 = 0x16;

const BLOCKING: i64 = 0;
const NO_CALLBACKS: i64 = 2;

const CHAN_STATE_INVALID: i64 = 402;
const CHAN_IN_USE: i64 = 404;
const RESOURCES_NOT_FREED: i64 = 107;

/// Events as the probe notes them.
const REQ_RCV: i64 = 1;
const REP_RCV: i64 = 2;
const MRA_RCV: i64 = 3;
const EST: i64 = 6;
const fn closed(code: i64) -> i64 {
    7 | code << 8
}
const fn failed(code: i64, reason: i64) -> i64 {
    8 | code << 8 | reason << 16
}

/// What a blocking open answers that was refused.
const fn because(reason: i64) -> i64 {
    reason << 16
}

const fn on(channel: i64) -> i64 {
    SERVICE << 8 | channel
}

fn events(side: &Side) -> Vec<i64> {
    (0..side.ask("probe_events", 0)).map(|n| side.ask("probe_event", n)).collect()
}

/// Alpha has channel 0 and knows the way to beta, who listens and has channels 0 to 3. The path's lifetime.
fn start(b: &Bench) -> Nanos {
    start_with(b, 0)
}

fn start_with(b: &Bench, srq: i64) -> Nanos {
    for side in [&b.alpha, &b.beta] {
        side.run("probe_start", srq);
        (0..4).for_each(|n| side.run("probe_make", n));
    }
    b.beta.run("probe_listen", SERVICE);
    let code = b.alpha.ask("probe_aim", b.beta.guid());
    assert!((0..20).contains(&code), "a path was found");
    Nanos(4_096 << code)
}

/// Everything goes; connections that stand must be closed by the scenario.
fn stop(b: &Bench) {
    b.beta.run("probe_unlisten", 0);
    stop_sides(b);
}

fn stop_sides(b: &Bench) {
    for side in [&b.alpha, &b.beta] {
        (0..4).for_each(|n| side.run("probe_free", n));
        side.run("probe_stop", 0);
    }
    forget(b);
}

/// Time-wait ends on both sides, with whatever is sent again before.
fn forget(b: &Bench) {
    for _ in 0..600 {
        let busy =
            [&b.alpha, &b.beta].iter().any(|side| lab_ibtf::connected(&side.kernel) != Default::default());
        if !busy {
            return;
        }
        fakekernel::sleep(Nanos::from_secs(1));
    }
    panic!("connections are never forgotten");
}

fn lose(b: &Bench, attribute: u16, times: u32) {
    let only = Only::Management { class: CM, attribute };
    for side in [&b.alpha, &b.beta] {
        b.world.fabric().lose(side.port(), Direction::ToSwitch, Pick { only, skip: 0, times });
    }
}

fn close_both(b: &Bench, channel: i64) {
    b.alpha.expect("probe_close_channel", BLOCKING << 8 | channel, because(1));
}

#[test]
fn connection_is_made_carries_messages_both_ways_and_is_closed() {
    with("connections").holds(|b| {
        start(b);
        b.alpha.run("probe_nonsense", 0);
        b.alpha.run("probe_open_blocking", on(0));
        b.settle();
        assert_eq!(events(&b.alpha), [REP_RCV, EST]);
        assert_eq!(events(&b.beta), [REQ_RCV, EST]);
        for (from, to) in [(&b.alpha, &b.beta), (&b.beta, &b.alpha)] {
            for len in [0, 1, 2048, 65_524] {
                to.run("probe_post", 0);
                from.run("probe_send", len << 8);
                assert_eq!((from.ask("probe_sent", 0), to.ask("probe_received", 0)), (0, len));
            }
        }
        // What it asked for itself, and what the other side answered.
        assert_eq!(b.alpha.ask("probe_retries", 0) & 0xffff, 1 | 7 << 8);
        assert_eq!(b.beta.ask("probe_retries", 0) & 0xffff, 1 | 1 << 8);
        b.beta.run("probe_change", 0);
        close_both(b, 0);
        b.settle();
        assert_eq!(events(&b.alpha), [REP_RCV, EST, closed(1)]);
        assert_eq!(events(&b.beta), [REQ_RCV, EST, closed(2)]);
        stop(b);
    });
}

#[test]
fn every_message_lost_once_costs_time_and_nothing_else() {
    with("connections").holds(|b| {
        let lifetime = start(b);
        for (channel, lost) in [(0, REQ), (1, REP), (2, RTU), (3, DREQ)] {
            b.beta.run("probe_take_with", channel);
            lose(b, lost, 1);
            let begun = now();
            b.alpha.run("probe_open_blocking", on(channel));
            if [REQ, REP].contains(&lost) {
                assert!(now() - begun > Nanos(2 * lifetime.0 + 300_000_000), "a REQ is sent again");
            }
            fakekernel::sleep(Nanos::from_secs(10));
            assert_eq!(b.beta.ask("probe_state", channel), 3, "{lost:#x}: beta sends, too");
            close_both(b, channel);
            b.settle();
        }
        forget(b);
        stop(b);
    });
}

#[test]
fn drep_that_is_lost_is_sent_again_in_time_wait() {
    with("connections").holds(|b| {
        start(b);
        b.alpha.run("probe_open_blocking", on(0));
        b.settle();
        lose(b, DREP, 1);
        close_both(b, 0);
        stop(b);
    });
}

#[test]
fn first_message_stands_in_for_an_rtu() {
    with("connections").holds(|b| {
        start(b);
        lose(b, RTU, 100);
        b.alpha.run("probe_open_blocking", on(0));
        b.beta.run("probe_post", 0);
        b.alpha.run("probe_send", 100 << 8);
        b.settle();
        assert_eq!(events(&b.beta), [REQ_RCV, EST]);
        assert_eq!(b.beta.ask("probe_received", 0), 100);
        close_both(b, 0);
        stop(b);
    });
}

#[test]
fn nobody_who_listens_is_told_in_one_round_trip() {
    with("connections").holds(|b| {
        start(b);
        let begun = now();
        b.alpha.expect("probe_open_blocking", on(0) ^ 0x100_0000, because(8));
        assert!(now() - begun < Nanos::from_millis(10));
        assert_eq!(events(&b.alpha), [failed(1, 8)]);
        assert!(events(&b.beta).is_empty(), "no handler ran");
        // The channel is as it was: the next try may be another one's.
        b.alpha.run("probe_open_blocking", on(0));
        close_both(b, 0);
        stop(b);
    });
}

#[test]
fn silent_peer_is_asked_twelve_times() {
    with("connections").holds(|b| {
        let lifetime = start(b);
        lose(b, REQ, 1000);
        let begun = now();
        b.alpha.expect("probe_open_blocking", on(0), because(4));
        let interval =
            (0..).map(|n| 4_096u64 << n).find(|span| *span >= 2 * lifetime.0 + 300_000_000).unwrap();
        let took = (now() - begun).0;
        assert!((12 * interval..12 * interval + 10_000_000).contains(&took), "{took} for {interval}");
        assert_eq!(b.world.fabric().drops()[&fabric::Reason::Loss], 12);
        assert_eq!(events(&b.alpha), [failed(2, 4)]);
        forget(b);
        stop(b);
    });
}

#[test]
fn refusals_have_the_reasons_that_the_client_gives() {
    with("connections").holds(|b| {
        start(b);
        for (answer, reason) in [(1, 28), (4, 1), (5, 3), (6, 28)] {
            b.beta.run("probe_answer_req", answer);
            b.alpha.expect("probe_open_blocking", on(0), because(reason));
        }
        // A channel that is taken, and none.
        b.beta.run("probe_answer_req", 0);
        b.alpha.run("probe_open_blocking", on(0));
        b.alpha.expect("probe_open_blocking", on(1), because(1));
        b.alpha.expect("probe_open_blocking", on(0), CHAN_STATE_INVALID);
        close_both(b, 0);
        b.beta.run("probe_take_with", 1);
        b.alpha.run("probe_answer_rep", 1);
        b.alpha.expect("probe_open_blocking", on(1), because(28));
        b.settle();
        assert_eq!(events(&b.beta).last(), Some(&failed(1, 28)));
        forget(b);
        stop(b);
    });
}

#[test]
fn answers_may_come_later_and_the_other_side_be_asked_to_wait() {
    with("connections").holds(|b| {
        start(b);
        b.beta.run("probe_answer_req", 7);
        b.beta.run("probe_be_slow", 20_000_000);
        b.alpha.run("probe_answer_rep", 7);
        b.alpha.run("probe_open_nonblocking", on(0));
        b.alpha.expect("probe_open_nonblocking", on(0), CHAN_IN_USE);
        fakekernel::sleep(Nanos::from_secs(15));
        assert_eq!((events(&b.alpha), events(&b.beta)), (vec![MRA_RCV], vec![REQ_RCV]));
        b.alpha.expect("probe_free", 0, CHAN_STATE_INVALID);
        b.beta.run("probe_proceed_req", 0);
        b.settle();
        assert_eq!(events(&b.alpha), [MRA_RCV, REP_RCV]);
        b.alpha.run("probe_proceed_rep", 0);
        b.settle();
        assert_eq!((events(&b.alpha), events(&b.beta)), (vec![MRA_RCV, REP_RCV, EST], vec![REQ_RCV, EST]));
        assert_eq!(b.alpha.ask("probe_retries", 0) >> 8 & 0xff, 3);
        close_both(b, 0);
        stop(b);
    });
}

#[test]
fn who_asks_for_more_time_is_asked_as_often_again_when_that_is_over() {
    with("connections").holds(|b| {
        let lifetime = start(b);
        b.beta.run("probe_answer_req", 7);
        b.beta.run("probe_be_slow", 20_000_000);
        b.alpha.run("probe_open_nonblocking", on(0));
        b.settle();
        assert_eq!(events(&b.alpha), [MRA_RCV]);
        lose(b, REQ, 1000);
        // As a code of the wire's, and each time the lifetime of a packet more.
        let each = Nanos((4_096 << 23) + lifetime.0);
        fakekernel::sleep(Nanos(12 * each.0 - 1_000_000_000));
        assert_eq!(events(&b.alpha), [MRA_RCV]);
        fakekernel::sleep(Nanos::from_secs(2));
        assert_eq!(events(&b.alpha), [MRA_RCV, failed(2, 4)]);
        assert_eq!(b.world.fabric().drops()[&fabric::Reason::Loss], 11);
        b.beta.run("probe_proceed_req", 0);
        b.settle();
        stop(b);
    });
}

#[test]
fn channel_that_stands_is_neither_flushed_nor_freed_before_it_is_closed() {
    with("connections").holds(|b| {
        start(b);
        b.alpha.run("probe_open_blocking", on(0));
        b.settle();
        for side in [&b.alpha, &b.beta] {
            side.expect("probe_flush", 0, CHAN_STATE_INVALID);
            side.expect("probe_free", 0, CHAN_STATE_INVALID);
        }
        let begun = now();
        b.alpha.run("probe_close_channel", NO_CALLBACKS << 8);
        assert!(now() - begun < Nanos::from_millis(1), "nobody waits for the DREP");
        b.settle();
        assert_eq!(events(&b.alpha), [REP_RCV, EST], "and nobody is called");
        b.beta.run("probe_unlisten", 0);
        for side in [&b.alpha, &b.beta] {
            (0..4).for_each(|n| side.run("probe_free", n));
            side.run("probe_stop", 0);
        }
        // The number of its queue pair is still in time-wait.
        b.alpha.expect("probe_close_hca", 0, RESOURCES_NOT_FREED);
        forget(b);
    });
}

#[test]
fn peer_that_is_gone_leaves_a_channel_that_closes_after_all_tries() {
    with("connections").holds(|b| {
        start(b);
        b.alpha.run("probe_open_blocking", on(0));
        b.settle();
        lose(b, DREQ, 1000);
        b.alpha.expect("probe_close_channel", BLOCKING << 8, because(4));
        assert_eq!(events(&b.alpha), [REP_RCV, EST, closed(4)]);
        assert_eq!(b.world.fabric().drops()[&fabric::Reason::Loss], 12);
        assert_eq!(b.beta.ask("probe_state", 0), 3, "beta knows nothing");
        b.beta.expect("probe_close_channel", BLOCKING << 8, because(4));
        stop(b);
    });
}

#[test]
fn open_is_given_up_by_a_close_from_another_thread() {
    with("connections").holds(|b| {
        start(b);
        lose(b, REQ, 1000);
        b.alpha.run("probe_open_nonblocking", on(0));
        b.settle();
        b.alpha.expect("probe_close_channel", NO_CALLBACKS << 8, because(6));
        assert_eq!(events(&b.alpha), [closed(6)]);
        stop(b);
    });
}

#[test]
fn no_more_than_sixteen_opens_are_under_way() {
    with("connections").holds(|b| {
        start(b);
        (4..20).for_each(|n| b.alpha.run("probe_make", n));
        lose(b, REQ, 100_000);
        (0..20).for_each(|n| b.alpha.run("probe_open_nonblocking", on(n)));
        b.settle();
        assert_eq!(b.world.fabric().drops()[&fabric::Reason::Loss], 16);
        (0..20).for_each(|n| b.alpha.expect("probe_close_channel", NO_CALLBACKS << 8 | n, because(6)));
        (4..20).for_each(|n| b.alpha.run("probe_free", n));
        stop(b);
    });
}

#[test]
fn open_that_is_given_up_before_its_turn_keeps_the_adapter_for_ever() {
    with("connections").holds_and_closes(|b| {
        start(b);
        (4..17).for_each(|n| b.alpha.run("probe_make", n));
        lose(b, REQ, 100_000);
        (0..17).for_each(|n| b.alpha.run("probe_open_nonblocking", on(n)));
        b.settle();
        // The last one waits for the others.
        (0..17).rev().for_each(|n| b.alpha.expect("probe_close_channel", NO_CALLBACKS << 8 | n, because(6)));
        assert_eq!(lab_ibtf::connected(&b.alpha.kernel), Connected { stranded: 1, ..Connected::default() });
        (4..17).for_each(|n| b.alpha.run("probe_free", n));
        b.beta.run("probe_unlisten", 0);
        for side in [&b.alpha, &b.beta] {
            (0..4).for_each(|n| side.run("probe_free", n));
            side.run("probe_stop", 0);
        }
        b.alpha.run("probe_close", 0);
        let kept = b.world.remove_hca(&b.alpha.kernel, Guid(b.alpha.guid() as u64 - 1)).unwrap_err();
        assert!(kept.to_string().contains("given up before their turn"), "{kept}");
    });
}

#[test]
fn messages_go_to_a_shared_queue_and_the_end_of_a_channel_is_told() {
    with("connections").holds(|b| {
        start_with(b, 1);
        b.alpha.run("probe_open_blocking", on(0));
        b.settle();
        b.beta.run("probe_post", 0);
        b.alpha.run("probe_send", 5000 << 8);
        assert_eq!(b.beta.ask("probe_received", 0), 5000);
        close_both(b, 0);
        b.settle();
        assert_eq!((b.alpha.ask("probe_empty_channels", 0), b.beta.ask("probe_empty_channels", 0)), (1, 1));
        stop(b);
    });
}

#[test]
fn rule_41_handler_that_answers_itself_waits_for_itself() {
    with("connections").breaks(Rule::AbsurdArgument, "ibt_cm_proceed", |b| {
        start(b);
        b.beta.run("probe_proceed_inside", 0);
        b.alpha.run("probe_open_blocking", on(0));
    });
}

#[test]
fn rule_35_handler_that_is_taken_away_while_it_is_about_to_be_called_is_called() {
    with("connections").breaks(Rule::CallAfterUnload, "ibt_close_rc_channel", |b| {
        start(b);
        lab_ibtf::set_telling_time(&b.alpha.kernel, Some(Nanos::from_secs(1)));
        b.alpha.run("probe_open_nonblocking", on(0));
        b.settle();
        assert_eq!(lab_ibtf::connected(&b.alpha.kernel).established, 1);
        b.alpha.ask("probe_close_channel", NO_CALLBACKS << 8);
    });
}
