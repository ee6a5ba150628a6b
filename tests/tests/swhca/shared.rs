//! Receives that channels share: the probe `probes/swhca/client.c`.

use fakekernel::{FaultKind, FaultPlan, Nanos};
use lab_world::SoftwarePlan;
use swhca_ioctl::Counter;

use super::bench::Setup;
use super::client::{with_any_client, with_client};

/// For events to be told.
const TOLD: Nanos = Nanos::from_millis(50);

#[test]
fn oldest_of_the_shared_receives_is_for_whoever_gets_a_datagram() {
    with_client(4, |bench, client| {
        client.run("probe_share_in_order", 0);
        let counters = bench.software.counters().expect("the adapter answers");
        assert_eq!(counters[Counter::Srqs as usize], 0);
    });
}

#[test]
fn client_is_told_once_that_shared_receives_run_out() {
    with_client(8, |_, client| {
        let told = |times: i64| {
            fakekernel::sleep(TOLD);
            assert_eq!(client.ask("probe_share_limit_told", 0), times);
        };
        client.run("probe_share_with_a_limit", 0);
        told(0);
        client.run("probe_share_send_one", 0);
        told(1);
        client.run("probe_share_send_one", 0);
        told(1);
        client.run("probe_share_arm_again", 0);
        told(2);
        client.run("probe_share_stop", 0);
    });
}

#[test]
fn flushed_channel_leaves_the_shared_receives_and_says_that_it_holds_none() {
    with_client(8, |_, client| {
        client.run("probe_share_and_flush", 0);
        fakekernel::sleep(TOLD);
        assert_eq!(client.ask("probe_share_empty_told", 0), 1);
        client.run("probe_share_stop", 0);
    });
}

#[test]
fn channel_that_was_recycled_before_it_could_say_that_it_holds_none_does_not_say_it() {
    with_client(2, |_, client| {
        // The adapter's soft interrupt has something else to do.
        client.run("probe_start_slow_handler", 0);
        while client.ask("probe_turns", 0) == 0 {
            fakekernel::sleep(Nanos::from_micros(100));
        }
        client.run("probe_share_and_flush", 0);
        client.run("probe_share_recycle", 0);
        client.run("probe_free_while_it_runs", 0);
        fakekernel::sleep(TOLD);
        assert_eq!(client.ask("probe_share_empty_told", 0), 0);
        client.run("probe_share_stop", 0);
    });
}

#[test]
fn each_shared_receive_is_used_once_whoever_sends_at_once() {
    with_client(48, |_, client| {
        client.run("probe_share_start", 0);
        let other = client.run_aside("probe_share_send_batch", 1);
        client.run("probe_share_send_batch", 0);
        other.join();
        client.run("probe_share_sent_batches", 0);
    });
}

#[test]
fn channels_that_share_receives_and_could_not_be_had_leave_nothing() {
    with_client(1, |bench, client| {
        let kernel = &bench.software.kernel;
        let counters = || bench.software.counters().expect("the adapter answers");
        let objects = || {
            let all = counters();
            [Counter::Cqs, Counter::Qps, Counter::Srqs].map(|counter| all[counter as usize])
        };
        let before = objects();
        for nth in 0.. {
            kernel.set_fault(FaultKind::KMEM, Some("swhca"), FaultPlan::Nth(nth));
            let refused = client.run("probe_share_many", 0);
            let reached = kernel.clear_fault(FaultKind::KMEM, Some("swhca")).unwrap_or(0) > nth;
            assert_eq!(objects(), before, "call {nth}");
            if !reached {
                assert_eq!(refused, 0, "it fails though nothing does");
                assert!(nth > 20, "only {nth} calls failed");
                break;
            }
        }
    });
}

#[test]
fn adapter_that_is_told_to_have_no_shared_receives_has_none() {
    fn without(plan: &mut SoftwarePlan) {
        plan.conf.push(("srq".into(), 0));
    }
    with_any_client(Setup { seeds: 1, adapter: without, ..Setup::default() }, |_, client| {
        client.run("probe_no_sharing", 0);
    });
}
