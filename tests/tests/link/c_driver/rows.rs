//! One row for each weakness that docs/weaknesses.md calls closed: the test that shows it, and what the C driver does in it.
//!
//! A row of what is not closed any more, or a closed one that is not here, fails the tests of the documents.

/// A weakness, and what the C driver does where it shows.
pub struct Row {
    /// As the page has it.
    pub id: &'static str,
    /// What the page says of it.
    pub told: &'static str,
    pub outcome: Outcome,
}

pub enum Outcome {
    /// This test fails with the C objects on a host, and its output has all of these texts.
    Fails { test: &'static str, on: &'static str, held_to: &'static str, says: &'static [&'static str] },
    /// The test looks at what only our driver counts.
    Uncounted { test: &'static str, on: &'static str },
    /// Cannot be provoked on demand.
    Latent,
}

const fn row(id: &'static str, told: &'static str, outcome: Outcome) -> Row {
    Row { id, told, outcome }
}

const fn fails(on: &'static str, test: &'static str, says: &'static [&'static str]) -> Outcome {
    Outcome::Fails { test, on, held_to: "", says }
}

const SENDER: &str = "alpha";
const RECEIVER: &str = "beta";

/// In the order of the page.
pub const ROWS: [Row; 68] = [
    row(
        "D1",
        "fails: a packet to the known peer is not there after a second",
        fails(
            SENDER,
            "calm::a_peer_that_is_being_resolved_for_minutes_does_not_disturb_traffic_to_another",
            &["a packet to a known peer arrives within a second"],
        ),
    ),
    row(
        "D2",
        "fails: 6,000 lookups in a minute for 6,000 packets",
        fails(
            SENDER,
            "calm::two_unreachable_peers_cost_one_lookup_each_per_back_off",
            &["6000 lookups in a minute for 6000 packets"],
        ),
    ),
    row(
        "D3",
        "fails: 6,000 joins in a minute for 3,000 packets",
        fails(
            SENDER,
            "calm::a_group_nobody_has_costs_one_join_per_back_off_and_unicast_flows",
            &["6000 joins in a minute for 3000 packets"],
        ),
    ),
    row(
        "D4",
        "fails: a packet to a known peer waits behind the leaves",
        fails(
            SENDER,
            "calm::an_administrator_that_does_not_answer_leaves_keeps_nobody_from_a_path",
            &["a known peer is not kept from its packet"],
        ),
    ),
    row(
        "D5",
        "fails: the 257th address evicts the first and breaks rule 44, the list of addresses, in doing so",
        fails(
            SENDER,
            "calm::a_peer_in_use_is_not_forgotten_for_a_thousand_that_were_used_once",
            &["ibp [P] broke rule 44", "ibp`ibd_async_acache"],
        ),
    ),
    row(
        "D6",
        "fails: 22 calls into the kernel for a packet to one group, 132 to 200 in turn",
        fails(
            SENDER,
            "thrift::an_address_among_two_hundred_with_one_queue_pair_number_costs_what_it_costs_alone",
            &["calls a packet to one group, 13"],
        ),
    ),
    row(
        "D7",
        "fails: 32 flows go out of one queue pair",
        fails(
            SENDER,
            "rings::flow_goes_out_of_one_queue_pair_and_flows_out_of_all",
            &["left: 1", "right: 4"],
        ),
    ),
    row(
        "D8",
        "fails: more than a hundred of 800 packets are posted by another thread than their sender's",
        fails(
            SENDER,
            "thrift::nobody_posts_the_packets_of_others",
            &["packets that another thread than their sender's posted, of 800"],
        ),
    ),
    row(
        "D9",
        "fails: both blocks of each of 100 packets are kept",
        fails(
            SENDER,
            "thrift::a_copied_packet_is_free_before_its_send_completes",
            &["blocks of 100 packets that were sent are kept", "left: 200"],
        ),
    ),
    row(
        "D10",
        "latent: a mapping waits where an IOMMU is short of room, and the lab has none",
        Outcome::Latent,
    ),
    row(
        "D11",
        "fails: 6,400 completions for 6,400 sends",
        fails(
            SENDER,
            "thrift::few_sends_complete_and_they_tell_about_all",
            &["6400 completions for 6400 sends"],
        ),
    ),
    row(
        "D12",
        "nothing to compare: that packets were fetched is seen in a counter of ours alone",
        Outcome::Uncounted {
            test: "rings::bursts_are_fetched_by_the_mac_layer_and_every_flow_keeps_its_order",
            on: RECEIVER,
        },
    ),
    row(
        "D13",
        "nothing to compare: how much one interrupt takes is seen in a counter of ours alone",
        Outcome::Uncounted {
            test: "calm::an_interrupt_takes_its_share_of_a_burst_and_a_thread_the_rest",
            on: RECEIVER,
        },
    ),
    row(
        "D14",
        "fails: 400 receives of 3,999 are not posted while a reader keeps short packets",
        fails(
            RECEIVER,
            "thrift::a_slow_reader_of_short_packets_keeps_no_buffer_of_the_adapter",
            &["while a reader keeps 400 packets of 100 bytes", "left: Some(3599)"],
        ),
    ),
    row(
        "D15",
        "fails: 400 buffers of a ring of 511 are lent, and 111 stay with the adapter",
        fails(
            RECEIVER,
            "lent::a_slow_reader_keeps_its_buffers_and_the_ring_never_runs_dry",
            &["Some(111) of 511 receives are posted"],
        ),
    ),
    row(
        "D16",
        "fails: 193 of 3,999 receives are not posted again after a burst",
        fails(
            RECEIVER,
            "wire::every_receive_is_posted_again_after_a_burst",
            &["receives posted after a burst", "right: Some(3999)"],
        ),
    ),
    row(
        "D17",
        "fails: a cache line has counts of both directions",
        fails(
            SENDER,
            "thrift::what_is_counted_as_sent_and_what_as_received_share_no_cache_line",
            &["lines with counts of packets of both directions", "left: 1"],
        ),
    ),
    row(
        "D19",
        "fails: six groups that are wanted are left",
        fails(
            SENDER,
            "late::no_group_that_is_still_wanted_is_left_when_the_sm_restarts_or_asks_to_register_anew",
            &["groups that are wanted were left", "left: 6"],
        ),
    ),
    row("D20", "latent: costs processor time, and no packet; virtual time does not show it", Outcome::Latent),
    row(
        "D21",
        "fails: 22 MB for an open link in datagram mode",
        fails(SENDER, "late::an_idle_link_takes_less_than_four_megabytes", &["bytes attached, 219"]),
    ),
    row(
        "D22",
        "fails: a packet to its port that names it as sender is taken for its own multicast",
        fails(
            RECEIVER,
            "wire::only_what_we_sent_to_a_group_is_taken_for_our_own_multicast",
            &["to a port, with a GRH: no multicast"],
        ),
    ),
    row("D23", "latent: the lab's adapters record moderation and do not wait for it", Outcome::Latent),
    row(
        "D24",
        "fails: all 3,999 share a line or begin within one",
        fails(
            RECEIVER,
            "thrift::no_two_receive_buffers_share_a_cache_line",
            &["of 3999 buffers share a line or begin within one", "left: 3999"],
        ),
    ),
    row(
        "A1",
        "fails: rule 9, the addresses are freed with a lock in use; a kernel would go on in freed memory",
        fails(
            SENDER,
            "starts::a_link_is_closed_while_paths_are_asked_for",
            &["ibp [P] broke rule 9", "ibp`ibd_acache_init", "kmem_free"],
        ),
    ),
    row(
        "A2",
        "fails: rule 9, the stop frees a group whose request is still in the list",
        fails(
            SENDER,
            "starts::a_group_that_is_left_with_a_packet_under_way_is_left_once_and_the_link_closed",
            &["ibp [P] broke rule 9", "that is still linked; in kmem_free", "ibp`ibd_async_reap_group"],
        ),
    ),
    row(
        "A3",
        "fails: large sends are lost once the large buffers are out",
        fails(
            SENDER,
            "offloads::more_large_sends_than_there_are_large_buffers_lose_nothing",
            &["the byte that comes next"],
        ),
    ),
    row(
        "A4",
        "fails: an option that is no link address arrives changed",
        fails(
            RECEIVER,
            "wire::neighbour_discovery_without_a_link_address_option_goes_up_as_it_came",
            &["72 bytes were sent, Some(72) or others arrived"],
        ),
    ),
    row(
        "A5",
        "fails: 52 bytes arrive of 48 that were sent",
        fails(
            SENDER,
            "wire::an_icmpv6_packet_arrives_as_long_as_it_was_sent",
            &["48 bytes were sent, Some(52) or others arrived"],
        ),
    ),
    row("A6", "latent: needs an interrupt in the instant between two calls of a stop", Outcome::Latent),
    row("A7", "latent: needs a sender inside the driver in the instant of a restart", Outcome::Latent),
    row("A8", "latent: needs a buffer to come home between two steps of a late start", Outcome::Latent),
    row(
        "A9",
        "fails: all receive buffers have 2,088 bytes as before, at an MTU of 4096",
        fails(
            RECEIVER,
            "lent::buffers_follow_the_mtu_of_the_broadcast_group_although_some_of_before_are_lent",
            &["receive buffers of {2088} bytes on a link with an MTU of 4096"],
        ),
    ),
    row(
        "A10",
        "fails: a null pointer is followed in `ibd_acquire_lsobufs`",
        fails(
            SENDER,
            "wire::an_icmpv6_packet_that_fills_the_link_arrives",
            &["(NULL plus 0x3c) in module ibp", "ibp`ibd_acquire_lsobufs"],
        ),
    ),
    row(
        "A11",
        "fails: rule 9 as in A2, before the request inside the group could be discarded",
        fails(
            SENDER,
            "starts::what_was_asked_of_groups_before_a_stop_is_forgotten_without_harm_after_it",
            &["ibp [P] broke rule 9", "that is still linked; in kmem_free", "ibp`ibd_async_reap_group"],
        ),
    ),
    row("A12", "latent: needs a reader to give a buffer back in the instant of a stop", Outcome::Latent),
    row(
        "A13",
        "fails: ten refused starts leave 95 MB behind",
        fails(
            SENDER,
            "starts::starts_that_are_refused_leave_nothing_allocated",
            &["in use, ", " after ten refused starts"],
        ),
    ),
    row(
        "A14",
        "fails: rule 19, the ioctls are left behind in `_fini`",
        Outcome::Fails {
            test: "starts::a_link_that_carried_traffic_is_unloaded_without_a_trace",
            on: SENDER,
            held_to: "19",
            says: &["ibp [D] broke rule 19", "1 left behind: dld ioctls"],
        },
    ),
    row(
        "A15",
        "fails: 246 of 3,999 receives are gone after one refusal, where 193 would be by D16",
        fails(
            RECEIVER,
            "wire::receives_that_the_adapter_refuses_once_are_posted_later",
            &["receives posted after one refusal", "right: Some(3999)"],
        ),
    ),
    row(
        "B1",
        "hangs: the stop waits in `cv_wait` until the run ends after six hours",
        fails(
            SENDER,
            "starts::a_link_whose_start_by_a_trap_was_refused_can_be_closed",
            &["time limit of the run passed", "initialised at ibp`ibd_create_partition", "last call cv_wait"],
        ),
    ),
    row(
        "B2",
        "hangs: the stop waits in `cv_wait` until the run ends after six hours",
        fails(
            SENDER,
            "starts::a_link_can_be_closed_at_any_point_of_a_start_by_a_trap",
            &["time limit of the run passed", "initialised at ibp`ibd_create_partition", "last call cv_wait"],
        ),
    ),
    row(
        "B3",
        "latent: needs the port to come up while a group that was left is still being sent to",
        Outcome::Latent,
    ),
    row("B4", "latent: only another client of the same adapter would see that events wait", Outcome::Latent),
    row(
        "B5",
        "fails: not up within a second of a flap, for the speed",
        fails(
            SENDER,
            "starts::nobody_waits_for_the_speed_while_the_administrator_tells_no_path",
            &["not within 1.000000 s: up again"],
        ),
    ),
    row("B6", "latent: needs the daemon of the upcall to wait for this link", Outcome::Latent),
    row(
        "B7",
        "fails: closing takes 152 s",
        fails(
            SENDER,
            "starts::a_link_is_closed_at_once_although_the_administrator_is_silent",
            &["closing took 151."],
        ),
    ),
    row(
        "B8",
        "fails: no address is looked up any more",
        fails(
            SENDER,
            "starts::an_address_that_was_asked_for_before_a_stop_keeps_nobody_from_another_after_it",
            &["not within 1.000000 s: beta is found again"],
        ),
    ),
    row(
        "B9",
        "latent: needs every completion in the instant between a refusal and its note",
        Outcome::Latent,
    ),
    row(
        "B10",
        "fails: no packet arrives any more, receives are flushed and posted again without end",
        fails(
            SENDER,
            "calm::a_send_that_fails_is_recovered_from_without_an_administrator",
            &["not within 10.000000 s: a packet arrives"],
        ),
    ),
    row(
        "C1",
        "fails: the link comes up, and without the groups that were asked for before",
        fails(
            SENDER,
            "late::a_link_plumbed_before_the_sm_comes_up_with_every_group_it_was_asked_for",
            &["not within 60.000000 s: all groups"],
        ),
    ),
    row(
        "C2",
        "fails: down for good after one refused join",
        fails(
            SENDER,
            "starts::a_link_whose_port_comes_up_late_heals_from_one_refused_join",
            &["not within 60.000000 s: up after one refusal"],
        ),
    ),
    row(
        "C3",
        "fails: down for good",
        fails(
            SENDER,
            "late::a_group_that_appears_without_a_trap_brings_the_link_up_although_the_sa_is_mute_for_a_minute",
            &["not within 300.000000 s: up with all groups"],
        ),
    ),
    row(
        "C4",
        "fails: keeps the address of the old subnet",
        fails(
            SENDER,
            "starts::a_new_subnet_prefix_brings_the_link_up_with_a_new_address",
            &["not within 60.000000 s: up with an address of the new subnet"],
        ),
    ),
    row(
        "C5",
        "fails: an address of an hour ago is used unasked",
        fails(
            SENDER,
            "groups::an_address_that_was_not_used_for_long_is_looked_up_anew",
            &["an address of an hour ago is used as it was"],
        ),
    ),
    row(
        "C6",
        "fails: as in B10, before recovery could be asked for",
        fails(
            SENDER,
            "calm::a_send_that_fails_is_recovered_from_without_an_administrator",
            &["not within 10.000000 s: a packet arrives"],
        ),
    ),
    row(
        "C7",
        "fails: not joined within a minute of the refusal",
        fails(
            SENDER,
            "groups::a_group_that_was_refused_is_joined_later",
            &["not within 60.000000 s: the group is joined"],
        ),
    ),
    row(
        "C8",
        "fails: six groups that are wanted are left",
        fails(
            SENDER,
            "late::no_group_that_is_still_wanted_is_left_when_the_sm_restarts_or_asks_to_register_anew",
            &["groups that are wanted were left", "left: 6"],
        ),
    ),
    row(
        "C9",
        "fails: MTU 4096 and rate 6 beside a broadcast group with 2048 and 3",
        fails(
            SENDER,
            "groups::a_group_that_a_link_makes_has_the_mtu_and_rate_of_the_broadcast_group",
            &["the two groups carry the same", "value: 5", "value: 4"],
        ),
    ),
    row(
        "C10",
        "fails: still a member after an hour",
        fails(
            SENDER,
            "groups::a_group_that_is_only_sent_to_is_left_when_nothing_is_sent_any_more",
            &["not within 3600.000000 s: left again"],
        ),
    ),
    row(
        "C11",
        "fails: asked for before the port is up, it is forgotten",
        fails(
            SENDER,
            "starts::promiscuous_mode_asked_for_before_the_port_is_up_hears_every_group_once_it_is",
            &["not within 60.000000 s: alpha hears beta's group"],
        ),
    ),
    row(
        "C12",
        "fails: no member again within an hour",
        fails(
            SENDER,
            "groups::a_membership_that_the_subnet_manager_lost_is_found_missing_and_made_again",
            &["not within 3600.000000 s: a member again"],
        ),
    ),
    row(
        "C13",
        "fails: refused without a word",
        fails(
            SENDER,
            "suspend::a_suspend_is_refused_at_once_and_the_log_says_which_link_it_was",
            &["lines that tell of a suspend that was refused: []"],
        ),
    ),
    row(
        "C14",
        "fails: `1000x` is taken",
        fails(
            SENDER,
            "starts::a_value_that_is_no_number_is_refused_and_changes_nothing",
            &["_ibd_ud_num_rwqe is set to \"1000x\""],
        ),
    ),
    row(
        "C15",
        "fails: rule 22, a packet that others have too is written to",
        fails(
            SENDER,
            "wire::scope_and_pkey_of_a_group_are_not_written_into_the_caller_s_packet",
            &["ibp [D] broke rule 22", "mc_tx: byte 25 of dblk"],
        ),
    ),
    row(
        "E1",
        "fails: two broadcasts and a multicast count as 0 and 3",
        fails(
            RECEIVER,
            "wire::a_broadcast_counts_as_a_broadcast_and_another_group_as_a_multicast",
            &["broadcasts and multicasts received", "left: (0, 3)"],
        ),
    ),
    row(
        "E2",
        "fails: 208 bytes were sent, 288 count as received",
        fails(
            RECEIVER,
            "wire::a_packet_counts_as_many_bytes_where_it_arrives_as_where_it_left",
            &["bytes sent and received", "left: (208, 288)"],
        ),
    ),
    row(
        "E3",
        "fails: FDR reads as 2 Gb/s",
        fails(
            SENDER,
            "starts::a_port_that_is_faster_than_its_codes_can_say_has_the_speed_that_the_administrator_knows",
            &["bits per second of four FDR lanes", "left: 2000000000"],
        ),
    ),
    row(
        "E4",
        "fails: an empty packet is no input error, and there is no kstat to look into",
        fails(
            RECEIVER,
            "malformed::every_malformed_packet_ends_in_one_place_and_costs_the_ring_nothing",
            &["input errors for Empty"],
        ),
    ),
    row(
        "E5",
        "fails: 400 lines in 20 s",
        fails(
            SENDER,
            "groups::twenty_groups_refused_in_a_second_are_told_in_one_line",
            &["400 lines in 20 s"],
        ),
    ),
];
