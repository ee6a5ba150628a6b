//! Rules that are broken in a client's dealings with IBTF.

use fakekernel::Rule::{PostedMemory, SentQueueRecycled};

use crate::bench::{ADAPTER, Bench};
use crate::case::{broken, cases, kept};

const POSTED: &str = "posted";

fn with_adapter(bench: &Bench, probe: &'static str) -> i64 {
    bench.call_with(probe, ADAPTER)
}

cases! {
    rule_53_memory_of_a_receive_is_posted_for_another_one:
        broken(PostedMemory, POSTED, "ibt_post_recv").over_ibtf().does(|bench| {
            with_adapter(bench, "probe_receive_twice")
        }).saying("receive 0x0 is posted with 200 bytes");
    rule_53_memory_of_a_receive_is_sent:
        broken(PostedMemory, POSTED, "ibt_post_send").over_ibtf().does(|bench| {
            with_adapter(bench, "probe_receive_then_send")
        }).saying("of which receive 0x0 of queue pair");
    rule_53_memory_of_a_send_is_received_into:
        broken(PostedMemory, POSTED, "ibt_post_recv").over_ibtf().does(|bench| {
            with_adapter(bench, "probe_send_then_receive")
        }).saying("of which send 0x1 of queue pair");
    rule_53_memory_of_a_send_is_changed:
        broken(PostedMemory, POSTED, "ibt_poll_cq").over_ibtf().does(|bench| {
            with_adapter(bench, "probe_change_a_send")
        }).saying("posted by posted on");
    rule_53_memory_of_a_send_is_filled_and_sent_again:
        broken(PostedMemory, POSTED, "ibt_post_send").over_ibtf().does(|bench| {
            with_adapter(bench, "probe_change_between_two_sends")
        }).saying("when send 0x2 of queue pair");
    rule_53_memory_of_a_receive_is_freed:
        broken(PostedMemory, POSTED, "kmem_free").over_ibtf().does(|bench| {
            with_adapter(bench, "probe_free_a_receive")
        }).saying("receive 0x0 of queue pair");
    rule_53_memory_of_a_receive_is_deregistered:
        broken(PostedMemory, POSTED, "ibt_deregister_mr").over_ibtf().does(|bench| {
            with_adapter(bench, "probe_deregister_a_receive")
        }).saying("receive 0x0 of queue pair");
    rule_53_memory_of_a_send_is_unmapped:
        broken(PostedMemory, POSTED, "ibt_unmap_mem_iov").over_ibtf().does(|bench| {
            with_adapter(bench, "probe_unmap_a_send")
        }).saying("send 0x1 of queue pair");
    rule_53_memory_is_used_again_when_the_adapter_is_done:
        kept(PostedMemory, POSTED).over_ibtf().does(|bench| with_adapter(bench, "probe_in_order"));
    rule_55_a_queue_pair_that_has_sent_is_recycled:
        broken(SentQueueRecycled, POSTED, "ibt_recycle_ud").over_ibtf().does(|bench| {
            with_adapter(bench, "probe_recycle_what_has_sent")
        }).saying("keep their owner bits");
    rule_55_a_queue_pair_that_has_not_sent_is_recycled:
        kept(SentQueueRecycled, POSTED).over_ibtf().does(|bench| {
            with_adapter(bench, "probe_recycle_what_has_not_sent")
        });
}
