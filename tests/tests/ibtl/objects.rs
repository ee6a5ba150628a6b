//! Objects and their references, refusals, and handles that are used when they should not be.

use fabric::{Arithmetic, HcaAttr, HcaConfig};
use fakekernel::{Ctx, FaultKind, FaultPlan, Rule};

use crate::bench::{ALPHA, Bench, Setup, with};

const OBJECTS: Setup = with("objects");

fn offloads(config: &mut HcaConfig) {
    config.attr = HcaAttr::with_offloads();
}

/// The same, whose numbers are right, and which loses nothing.
fn exact(config: &mut HcaConfig) {
    offloads(config);
    config.attr.arithmetic = Arithmetic::Exact;
}

/// Starts a client on alpha, calls one probe, stops it.
fn holds(setup: Setup, scenario: fn(&Bench)) {
    // A plain function pointer has no room for the scenario, so the frame around it is in each.
    setup.holds(scenario);
}

macro_rules! probe_holds {
    ($($(#[$note:meta])* $test:ident: $probe:literal;)*) => {
        $($(#[$note])* #[test]
        fn $test() {
            holds(OBJECTS, |b| {
                b.alpha.run("probe_start", ALPHA);
                b.alpha.run($probe, 0);
                b.alpha.run("probe_stop", 0);
            });
        })*
    };
}

probe_holds! {
    nothing_is_freed_while_it_is_referred_to: "probe_references";
    a_group_needs_a_multicast_lid_and_gid: "probe_multicast_checks";
    completion_queues_say_their_real_size_and_refuse_nonsense: "probe_cq_sizes_and_refusals";
    a_channel_is_born_ready_to_send: "probe_channel_born_ready";
    a_channel_is_refused_for_the_reason_that_applies: "probe_channel_refusals";
    a_refused_address_leaves_the_destination_as_it_was: "probe_destinations";
    memory_is_registered_only_where_there_is_memory: "probe_memory_regions";
    a_shared_receive_queue_stays_while_a_channel_uses_it: "probe_shared_receive_queues";
    connected_channels_are_made_in_init: "probe_connected_channels";
    partition_attributes_come_from_whoever_registered: "probe_partition_attributes";
}

#[test]
fn without_the_reserved_key_nothing_is_mapped() {
    holds(OBJECTS, |b| {
        b.alpha.run("probe_start", ALPHA);
        b.alpha.run("probe_mappings", 0);
        b.alpha.run("probe_stop", 0);
    });
}

#[test]
fn mappings_carry_the_reserved_key_or_the_callers() {
    holds(OBJECTS.hca(exact), |b| {
        b.alpha.run("probe_start", ALPHA);
        let key = i64::from(b.alpha.hca.config().attr.reserved_lkey);
        b.alpha.run("probe_mappings", key);
        b.alpha.run_in_interrupt("probe_mappings", key);
        b.alpha.run("probe_stop", 0);
    });
}

#[test]
fn a_mapping_that_does_not_fit_loses_what_was_bound_last() {
    OBJECTS.hca(offloads).breaks(Rule::Leak, "_fini", "lost by ibt_map_mem_iov", |b| {
        b.alpha.run("probe_start", ALPHA);
        b.alpha.run("probe_map_too_much", 0);
        b.alpha.run("probe_stop", 0);
    });
}

#[test]
fn a_mapping_that_does_not_fit_and_has_an_empty_block_frees_more_than_there_is() {
    OBJECTS.hca(offloads).breaks(Rule::HeapCorruption, "ibt_map_mem_iov", "empty blocks", |b| {
        b.alpha.run("probe_start", ALPHA);
        b.alpha.run("probe_map_too_much", 1);
    });
}

#[test]
fn destinations_are_modified_at_interrupt_level() {
    holds(OBJECTS, |b| {
        b.alpha.run("probe_start", ALPHA);
        b.alpha.run("probe_modify_destination", 0);
        b.alpha.run_in_interrupt("probe_modify_destination", 1);
        b.alpha.run("probe_modify_destination", 2);
        b.alpha.run("probe_stop", 0);
    });
}

#[test]
fn an_injected_failure_is_what_a_full_adapter_answers() {
    holds(OBJECTS, |b| {
        let kinds = ["ibt_alloc_pd", "ibt_alloc_cq", "ibt_alloc_ud_channel", "ibt_register_mr"];
        for kind in kinds {
            b.machine.set_fault(FaultKind(kind), FaultPlan::Nth(0));
        }
        b.alpha.run("probe_start_fails_four_times", ALPHA);
    });
}

#[test]
fn a_freed_handle_is_a_use_after_free() {
    OBJECTS.breaks(Rule::HeapCorruption, "ibt_poll_cq", "ibt_cq_hdl_t", |b| {
        b.alpha.run("probe_start", ALPHA);
        b.alpha.ask("probe_poll_freed_cq", 0);
    });
}

#[test]
fn no_handle_is_an_absurd_argument() {
    OBJECTS.breaks(Rule::AbsurdArgument, "ibt_free_cq", "NULL", |b| {
        b.alpha.ask("probe_free_nothing", 0);
    });
}

#[test]
fn a_handle_of_another_kind_is_an_absurd_argument() {
    OBJECTS.breaks(Rule::AbsurdArgument, "ibt_poll_cq", "never given out", |b| {
        b.alpha.run("probe_start", ALPHA);
        b.alpha.ask("probe_pd_as_cq", 0);
    });
}

#[test]
fn port_information_is_freed_with_its_size() {
    OBJECTS.breaks(Rule::BadFree, "ibt_free_portinfo", "", |b| {
        b.alpha.run("probe_start", ALPHA);
        b.alpha.ask("probe_free_portinfo_wrongly", 0);
    });
}

#[test]
fn a_forgotten_completion_queue_is_a_leak() {
    OBJECTS.breaks(Rule::Leak, "_fini", "ibt_cq_hdl_t", |b| {
        b.alpha.run("probe_start", ALPHA);
        b.alpha.run("probe_leave_a_cq", 0);
        let _ = b.alpha.kernel.scope(|| b.alpha.module.unload());
    });
}

#[test]
fn allocating_at_interrupt_level_breaks_rule_1() {
    OBJECTS.breaks(Rule::SleepInInterrupt, "ibt_alloc_cq", "", |b| {
        b.alpha.run("probe_start", ALPHA);
        b.alpha.within(Ctx::Soft { pil: 4 }, "probe_leave_a_cq", 0);
    });
}
