//! Datagrams between two clients, completion handlers, flushing.

use std::collections::BTreeSet;

use fabric::{ArmSemantics, Guid, HcaAttr, HcaConfig, Lid, Qpn, Reason};
use fakekernel::{Nanos, Rule};
use lab_ibtf::Stranger;

use crate::bench::{ALPHA, BETA, Bench, Setup, Side, with};

const TRAFFIC: Setup = with("traffic");
const MLID: i64 = 0xc123;

/// A completion with this status and identifier.
const fn done(status: i64, id: i64) -> i64 {
    status << 32 | id
}

const FLUSHED: i64 = 14;
const EMPTY: i64 = -1;

/// Both clients run; alpha aims at beta.
fn start(b: &Bench) {
    b.alpha.run("probe_start", ALPHA);
    b.beta.run("probe_start", BETA);
    let target = b.beta.lid() << 32 | b.beta.ask("probe_qpn", 0);
    b.alpha.run("probe_aim", target);
}

fn stop(b: &Bench) {
    b.alpha.run("probe_let_go", 0);
    for side in [&b.alpha, &b.beta] {
        side.run("probe_flush", 0);
        side.run("probe_stop", 0);
    }
}

fn route_group(b: &Bench, sides: &[&Side]) {
    let ports: BTreeSet<Guid> = sides.iter().map(|s| s.port()).collect();
    b.world.fabric().set_multicast_route(Lid(MLID as u16), &ports);
}

#[test]
fn a_datagram_arrives_behind_forty_bytes_and_completes_on_both_sides() {
    TRAFFIC.holds(|b| {
        start(b);
        for len in [0, 1, 3, 4, 100, 2048] {
            b.beta.run("probe_post", 0);
            b.alpha.run("probe_send", len);
            assert_eq!(b.alpha.ask("probe_sent", 0), len);
            if len < 2048 {
                b.beta.run("probe_plain_datagram", len);
            } else {
                assert_eq!(b.beta.ask("probe_next_received", 0), done(0, 0));
            }
            assert_eq!(b.alpha.ask("probe_sent", 0), EMPTY);
        }
        stop(b);
    });
}

#[test]
fn posting_and_polling_work_at_interrupt_level() {
    TRAFFIC.holds(|b| {
        start(b);
        b.beta.run_in_interrupt("probe_post", 0);
        b.alpha.run_in_interrupt("probe_send", 64);
        b.beta.run_in_interrupt("probe_plain_datagram", 64);
        stop(b);
    });
}

#[test]
fn multicast_has_a_valid_grh_and_comes_back_to_the_sender_too() {
    TRAFFIC.holds(|b| {
        start(b);
        route_group(b, &[&b.alpha, &b.beta]);
        for side in [&b.alpha, &b.beta] {
            side.run("probe_from", ALPHA + 1);
            side.run("probe_join", MLID);
            side.run("probe_post", 0);
        }
        b.alpha.run("probe_aim_at_group", MLID);
        b.alpha.run("probe_send_to_group", 77);
        for side in [&b.alpha, &b.beta] {
            side.run("probe_group_datagram", 77);
            side.run("probe_leave", MLID);
        }
        b.alpha.run("probe_let_go_of_group", 0);
        stop(b);
    });
}

#[test]
fn own_multicast_stays_away_with_the_loopback_block() {
    TRAFFIC.hca(|c: &mut HcaConfig| c.loopback_block = true).holds(|b| {
        start(b);
        b.alpha.run("probe_join", MLID);
        b.alpha.run("probe_post", 0);
        b.alpha.run("probe_aim_at_group", MLID);
        b.alpha.run("probe_send_to_group", 77);
        b.alpha.run("probe_nothing_received", 0);
        b.alpha.run("probe_leave", MLID);
        b.alpha.run("probe_let_go_of_group", 0);
        stop(b);
    });
}

#[test]
fn attaching_is_not_enough_without_a_route() {
    TRAFFIC.holds(|b| {
        start(b);
        b.beta.run("probe_join", MLID);
        b.beta.run("probe_post", 0);
        b.alpha.run("probe_aim_at_group", MLID);
        b.alpha.run("probe_send_to_group", 77);
        b.beta.run("probe_nothing_received", 0);
        b.beta.run("probe_leave", MLID);
        b.alpha.run("probe_let_go_of_group", 0);
        stop(b);
    });
}

#[test]
fn an_array_stops_at_its_first_bad_request() {
    TRAFFIC.holds(|b| {
        start(b);
        b.alpha.run("probe_stops_at_the_first_bad_request", 0);
        stop(b);
    });
}

#[test]
fn a_queue_is_full_until_completions_are_polled_and_completes_in_order() {
    // One with sixteen places for sixteen.
    TRAFFIC.hca(|c: &mut HcaConfig| c.attr.arithmetic = fabric::Arithmetic::Exact).holds(|b| {
        start(b);
        b.alpha.run("probe_fills_up", 0);
        stop(b);
    });
}

#[test]
fn a_datagram_without_a_posted_receive_is_lost_silently() {
    TRAFFIC.holds(|b| {
        start(b);
        b.alpha.run("probe_send", 8);
        b.beta.run("probe_nothing_received", 0);
        assert_eq!(b.world.fabric().drops().get(&Reason::NoReceive), Some(&1));
        stop(b);
    });
}

#[test]
fn a_short_buffer_is_a_length_error_and_costs_only_itself() {
    TRAFFIC.holds(|b| {
        start(b);
        b.beta.run("probe_post_short", 0);
        b.beta.run("probe_post", 1);
        b.alpha.run("probe_send", 8);
        b.alpha.run("probe_send", 8);
        assert_eq!(b.beta.ask("probe_next_received", 0), done(10, 0));
        assert_eq!(b.beta.ask("probe_next_received", 0), done(0, 1));
        stop(b);
    });
}

#[test]
fn a_message_above_the_mtu_fails_and_the_channel_can_be_recovered() {
    TRAFFIC.holds(|b| {
        start(b);
        b.alpha.run("probe_too_long", 0);
        stop(b);
    });
}

#[test]
fn a_reply_finds_the_sender() {
    TRAFFIC.holds(|b| {
        start(b);
        b.beta.run("probe_post", 0);
        b.alpha.run("probe_post", 0);
        b.alpha.run("probe_send", 16);
        b.beta.run("probe_reply", 33);
        b.alpha.run("probe_plain_datagram", 33);
        stop(b);
    });
}

#[test]
fn a_flush_completes_everything_with_status_14_and_fires_armed_queues() {
    TRAFFIC.hca(|c: &mut HcaConfig| c.send_latency = fabric::Nanos(1_000_000)).holds(|b| {
        start(b);
        b.alpha.run("probe_watch", 0);
        b.alpha.run("probe_post", 0);
        b.alpha.run("probe_post", 1);
        b.alpha.run("probe_send", 5);
        b.alpha.run("probe_send", 6);
        b.alpha.run("probe_flush", 0);
        let next = |which| b.alpha.ask(which, 0);
        assert_eq!([next("probe_next_sent"), next("probe_next_sent")], [done(FLUSHED, 5), done(FLUSHED, 6)]);
        assert_eq!(next("probe_next_sent"), EMPTY);
        assert_eq!(
            [next("probe_next_received"), next("probe_next_received")],
            [done(FLUSHED, 0), done(FLUSHED, 1)]
        );
        b.settle();
        assert_eq!(next("probe_calls"), 1);
        b.alpha.run("probe_handler_had_its_arguments", 0);
        // A flushed channel still takes requests, and flushes them.
        b.alpha.run("probe_post", 2);
        assert_eq!(next("probe_next_received"), done(FLUSHED, 2));
        b.beta.run("probe_nothing_received", 0);
        stop(b);
    });
}

#[test]
fn a_handler_is_called_once_per_arming() {
    TRAFFIC.holds(|b| {
        start(b);
        for slot in 0..4 {
            b.beta.run("probe_post", slot);
        }
        b.alpha.run("probe_send", 1);
        b.settle();
        assert_eq!(b.beta.ask("probe_calls", 0), 0, "an unarmed queue is silent");
        assert_eq!(b.beta.ask("probe_next_received", 0), done(0, 0));
        b.beta.run("probe_watch", 0);
        b.alpha.run("probe_send", 2);
        b.alpha.run("probe_send", 3);
        b.settle();
        assert_eq!(b.beta.ask("probe_calls", 0), 1);
        b.beta.run("probe_handler_had_its_arguments", 0);
        b.beta.run("probe_look_away", 0);
        b.beta.run("probe_arm", 0);
        b.alpha.run("probe_send", 4);
        b.settle();
        assert_eq!(b.beta.ask("probe_calls", 0), 1, "no handler, no call");
        stop(b);
    });
}

#[test]
fn arming_a_queue_that_is_not_empty_calls_at_once_or_never() {
    TRAFFIC.holds(|b| {
        start(b);
        b.beta.run("probe_post", 0);
        b.alpha.run("probe_send", 1);
        b.beta.run("probe_watch", 0);
        b.settle();
        assert_eq!(b.beta.ask("probe_calls", 0), 1);
        stop(b);
    });
    TRAFFIC.hca(|c: &mut HcaConfig| c.arming = ArmSemantics::OnlyNew).holds(|b| {
        start(b);
        b.beta.run("probe_post", 0);
        b.alpha.run("probe_send", 1);
        b.beta.run("probe_watch", 0);
        b.settle();
        assert_eq!(b.beta.ask("probe_calls", 0), 0, "who does not poll again after arming waits for ever");
        stop(b);
    });
}

#[test]
fn a_handler_that_polls_and_arms_takes_everything_and_never_runs_twice_at_once() {
    TRAFFIC.machine(|c| c.switch_one_in = 3).holds(|b| {
        start(b);
        b.beta.run("probe_be_greedy", 0);
        let beta = b.beta.clone();
        b.alpha.run("probe_burst", 500);
        b.settle();
        let lost = b.world.fabric().drops().get(&Reason::NoReceive).copied().unwrap_or(0);
        assert_eq!(beta.ask("probe_taken", 0) + lost as i64, 500);
        beta.run("probe_look_away", 0);
        assert!(beta.ask("probe_calls", 0) > 0);
        stop(b);
    });
}

#[test]
fn a_late_interrupt_comes_late() {
    TRAFFIC.holds(|b| {
        start(b);
        b.beta.hca.set_late_interrupts(Some((fabric::Nanos(5_000_000), fabric::Nanos(9_000_000))));
        b.beta.run("probe_post", 0);
        b.beta.run("probe_watch", 0);
        b.alpha.run("probe_send", 1);
        fakekernel::sleep(Nanos::from_millis(4));
        assert_eq!(b.beta.ask("probe_calls", 0), 0);
        fakekernel::sleep(Nanos::from_millis(6));
        assert_eq!(b.beta.ask("probe_calls", 0), 1);
        stop(b);
    });
}

#[test]
fn a_handler_in_a_thread_may_wait_and_is_waited_for() {
    TRAFFIC.holds(|b| {
        b.alpha.run("probe_start", ALPHA);
        b.beta.run("probe_start", BETA);
        let qpn = b.beta.ask("probe_start_threaded", 0);
        b.alpha.run("probe_aim", b.beta.lid() << 32 | qpn);
        b.alpha.run("probe_send", 8);
        fakekernel::sleep(Nanos::from_millis(50));
        b.beta.run("probe_free_while_napping", 0);
        stop(b);
    });
}

#[test]
fn a_handler_in_a_thread_waits_behind_those_of_another_client() {
    TRAFFIC.holds(|b| {
        let hold = Nanos::from_millis(100);
        b.alpha.run("probe_start", ALPHA);
        b.beta.run("probe_start", BETA);
        let qpn = b.beta.ask("probe_start_threaded", 0);
        b.alpha.run("probe_aim", b.beta.lid() << 32 | qpn);
        lab_ibtf::set_stranger(&b.beta.kernel, Some(Stranger { cqs: 32, hold, every: hold }));
        fakekernel::sleep(Nanos::from_millis(10));
        b.alpha.run("probe_send", 8);
        fakekernel::sleep(Nanos::from_millis(50));
        assert_eq!(b.beta.ask("probe_naps", 0), 0, "every thread is the stranger's");
        lab_ibtf::set_stranger(&b.beta.kernel, None);
        fakekernel::sleep(Nanos::from_secs(1));
        assert_eq!(b.beta.ask("probe_naps", 0), 1);
        b.beta.run("probe_free_threaded", 0);
        stop(b);
    });
}

#[test]
fn a_handler_has_three_kilobytes_of_the_interrupt_s_stack() {
    TRAFFIC.holds(|b| dig(b, 4));
    TRAFFIC.breaks(Rule::StackUse, "ddi_get_lbolt", "", |b| dig(b, 8));
}

/// Beta's handler takes so many frames of half a kilobyte.
fn dig(b: &Bench, frames: i64) {
    start(b);
    b.beta.run("probe_post", 0);
    b.beta.run("probe_watch_with_frames", frames);
    b.alpha.run("probe_send", 8);
    b.settle();
    stop(b);
}

#[test]
fn a_handler_at_interrupt_level_that_waits_breaks_rule_1() {
    TRAFFIC.breaks(Rule::SleepInInterrupt, "delay", "", |b| {
        start(b);
        b.beta.run("probe_post", 0);
        b.beta.run("probe_watch_with_a_nap", 0);
        b.alpha.run("probe_send", 8);
        b.settle();
    });
}

#[test]
fn the_adapter_writing_to_memory_that_was_given_back_is_noticed() {
    TRAFFIC.breaks(Rule::HeapCorruption, "", "the HCA wrote", |b| {
        start(b);
        b.beta.run("probe_free_registered_memory", 0);
        b.beta.run("probe_post", 0);
        b.alpha.run("probe_send", 8);
        b.settle();
    });
}

fn offloads(config: &mut HcaConfig) {
    config.attr = HcaAttr::with_offloads();
}

#[test]
fn the_reserved_key_carries_what_is_mapped() {
    TRAFFIC.hca(offloads).holds(|b| {
        start(b);
        b.beta.run("probe_post", 0);
        b.alpha.run("probe_mapped", i64::from(b.alpha.hca.config().attr.reserved_lkey));
        b.beta.run("probe_plain_datagram", 64);
        stop(b);
    });
}

#[test]
fn the_reserved_key_carries_nothing_that_is_not_mapped() {
    TRAFFIC.hca(offloads).breaks(Rule::AbsurdArgument, "ibt_post_send", "no mapping", |b| {
        start(b);
        b.alpha.ask("probe_unmapped", i64::from(b.alpha.hca.config().attr.reserved_lkey));
    });
}

#[test]
fn a_broken_channel_is_told_to_its_owner() {
    TRAFFIC.holds(|b| {
        start(b);
        let qpn = Qpn::new(b.alpha.ask("probe_qpn", 0) as u32).unwrap();
        b.alpha.run("probe_post", 0);
        assert!(b.alpha.hca.break_qpn(qpn));
        b.settle();
        b.alpha.run("probe_told_of_the_channel", 0);
        assert_eq!(b.alpha.ask("probe_next_received", 0), done(FLUSHED, 0));
        stop(b);
    });
}

#[test]
fn a_thread_that_tells_of_a_broken_channel_is_through_the_clients_handler_before_the_client_is_unloaded() {
    TRAFFIC.holds(|b| {
        start(b);
        let qpn = Qpn::new(b.alpha.ask("probe_qpn", 0) as u32).unwrap();
        b.alpha.run("probe_handle_late", 1_000_000);
        assert!(b.alpha.hca.break_qpn(qpn));
        b.settle();
        // The channel is freed, the HCA closed and the client detached: none of that waits for the thread.
        stop(b);
        assert_eq!(b.alpha.ask("probe_told", 0), 0);
    });
}

#[test]
fn an_overrun_queue_is_told_to_its_owner_and_takes_no_more() {
    TRAFFIC.holds(|b| {
        b.alpha.run("probe_start", ALPHA);
        b.beta.run("probe_start", BETA);
        let qpn = b.beta.ask("probe_start_small", 0);
        b.alpha.run("probe_aim", b.beta.lid() << 32 | qpn);
        b.alpha.run("probe_burst", 6);
        b.settle();
        b.beta.run("probe_small_overran", 0);
        stop(b);
    });
}

#[test]
fn more_requests_than_their_completion_queue_has_places_break_rule_41() {
    TRAFFIC.breaks(Rule::AbsurdArgument, "ibt_post_recv", "4 requests are posted that may complete", |b| {
        b.alpha.run("probe_start", ALPHA);
        b.alpha.ask("probe_crowd", 0);
    });
}

#[test]
fn path_bits_and_service_level_are_those_of_the_address() {
    TRAFFIC.holds(|b| {
        let set = |lid| fabric::subnet::PortSet {
            lid: Some(Lid(lid)),
            lmc: fabric::Lmc::new(1),
            ..Default::default()
        };
        b.world.fabric().program_port(b.alpha.port(), &set(0x40)).unwrap();
        b.world.fabric().program_port(b.beta.port(), &set(0x50)).unwrap();
        b.alpha.run("probe_start", ALPHA);
        b.beta.run("probe_start", BETA);
        b.beta.run("probe_post", 0);
        b.alpha.run("probe_aim_with_path_bits", 0x50 << 32 | b.beta.ask("probe_qpn", 0));
        b.alpha.run("probe_send", 8);
        b.beta.run("probe_came_by_its_path", 0x40);
        stop(b);
    });
}
