//! Rules about rings, each broken by a driver that has some.

use fakekernel::{Nanos, Rule, sleep};
use lab_gldv3::Stream;

use crate::bench::Bench;
use crate::case::{broken, cases, kept};

const RING: &str = "ring";
const LINK: &str = "ring0";

/// Which rule the driver breaks, as in its source.
const NONE: i64 = 0;
const STALE: i64 = 1;
const DEAF: i64 = 2;
const GREEDY: i64 = 3;
const POLL_UPCALL: i64 = 4;
const SWITCH_UPCALL: i64 = 5;
const SWITCH_WAITS: i64 = 6;
const LOCKED: i64 = 7;
const WILD: i64 = 8;

fn opened(bench: &Bench) -> Stream {
    let stream = Stream::open(&bench.kernel, LINK).expect("the link is there");
    stream.bind(0x800).expect("a legal SAP");
    stream
}

/// Packets arrive at a driver that breaks a rule, on a link that was opened before.
fn arrives(bench: &Bench, misdeed: i64) -> i64 {
    let node = bench.attached();
    drop(opened(bench));
    let stream = opened(bench);
    bench.call_with("probe_misdeed", misdeed);
    bench.call_with("probe_arrive", 4_000);
    while bench.call("probe_call") != 0 {
        sleep(Nanos::from_millis(1));
    }
    drop(stream);
    bench.detach(&node).expect("nothing holds the link");
    0
}

/// A packet comes up when nobody uses the link any more.
fn late(bench: &Bench) -> i64 {
    let node = bench.attached();
    drop(opened(bench));
    bench.call("probe_late");
    bench.detach(&node).expect("nothing holds the link");
    0
}

cases! {
    rule_01_interrupt_switch_of_a_ring_waits:
        broken(Rule::SleepInInterrupt, RING, "delay").over_gldv3().does(|bench| arrives(bench, SWITCH_WAITS));
    rule_04_mac_rx_ring_under_mutex:
        broken(Rule::UpcallWithMutex, RING, "mac_rx_ring").over_gldv3().does(|bench| arrives(bench, LOCKED));
    rule_16_packets_of_a_ring_nobody_has:
        broken(Rule::HeapCorruption, RING, "mac_rx_ring").over_gldv3().does(|bench| arrives(bench, WILD));

    rule_47_packets_of_a_former_generation:
        broken(Rule::StaleRing, RING, "mac_rx_ring").over_gldv3().does(|bench| arrives(bench, STALE))
            .saying("generation 0");
    rule_47_packets_of_a_stopped_ring:
        broken(Rule::StaleRing, RING, "mac_rx_ring").over_gldv3().does(late).saying("is stopped");
    rule_47_packets_of_this_generation_are_kept:
        kept(Rule::StaleRing, RING).over_gldv3().does(|bench| arrives(bench, NONE));

    rule_48_ring_goes_on_with_its_interrupt_off:
        broken(Rule::QuietRing, RING, "mac_rx_ring").over_gldv3().does(|bench| arrives(bench, DEAF));
    rule_48_ring_that_waits_to_be_polled_is_kept:
        kept(Rule::QuietRing, RING).over_gldv3().does(|bench| arrives(bench, NONE));

    rule_49_poll_of_a_ring_calls_up:
        broken(Rule::RingUpcall, RING, "mac_rx_ring").over_gldv3().does(|bench| arrives(bench, POLL_UPCALL));
    rule_49_interrupt_switch_of_a_ring_calls_up:
        broken(Rule::RingUpcall, RING, "mac_tx_ring_update").over_gldv3().does(|bench| arrives(bench, SWITCH_UPCALL));
    rule_49_poll_that_returns_its_packets_is_kept:
        kept(Rule::RingUpcall, RING).over_gldv3().does(|bench| arrives(bench, NONE));

    rule_50_poll_brings_more_than_it_was_asked_for:
        broken(Rule::RingPoll, RING, "mri_poll").over_gldv3().does(|bench| arrives(bench, GREEDY));
    rule_50_poll_within_its_bytes_is_kept:
        kept(Rule::RingPoll, RING).over_gldv3().does(|bench| arrives(bench, NONE));
}
