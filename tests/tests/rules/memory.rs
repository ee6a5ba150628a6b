//! Kernel memory, messages, user memory and what lies in them.

use fakekernel::genunix::UserBuffer;
use fakekernel::{Config, Ctx, FaultKind, Rule};

use crate::bench::Bench;
use crate::case::{broken, cases, kept, noted};

const MEMORY: &str = "memory";
const MESSAGE: &str = "message";
const STRUCTURES: &str = "structures";
const USER: &str = "user";

/// A cache of objects that are constructed when their counter, the first eight bytes, is zero.
fn check_counter(bench: &Bench) {
    bench.kernel.genunix().check_constructed("probe_counted", |then, now| then[..8] == now[..8]);
}

/// Calls a probe with the address of 16 bytes in a process, in user context.
fn with_user_buffer(bench: &Bench, ctx: Ctx, probe: &'static str) -> i64 {
    let buffer = UserBuffer::new(&bench.kernel, b"from the user...");
    bench.module.call_probe(probe, Some(ctx), buffer.as_ptr().addr() as i64)
}

/// Memory as most of it is: what is written where it must not be is found later.
fn unwalled(config: &mut Config) {
    config.wall_one_in = 0;
}

cases! {
    rule_09_memory_freed_with_held_mutex:
        broken(Rule::LiveObjectInFreedMemory, MEMORY, "kmem_free").calls("probe_free_with_held_mutex").saying("held by");
    rule_09_memory_freed_with_idle_mutex:
        broken(Rule::LiveObjectInFreedMemory, MEMORY, "kmem_free").calls("probe_free_with_idle_mutex").saying("never destroyed");
    rule_09_memory_freed_with_waiter:
        broken(Rule::LiveObjectInFreedMemory, MEMORY, "kmem_free")
            .configured(|config| config.spurious_one_in = 0)
            .calls("probe_free_with_waiter")
            .saying("1 waiters");
    rule_09_memory_freed_with_pending_timeout:
        broken(Rule::LiveObjectInFreedMemory, MEMORY, "kmem_free").calls("probe_free_with_pending_timeout").saying("timeout");
    rule_09_memory_freed_with_linked_node:
        broken(Rule::LiveObjectInFreedMemory, MEMORY, "kmem_free").calls("probe_free_with_linked_node").saying("list");
    rule_09_memory_freed_after_everything_in_it_is_kept:
        kept(Rule::LiveObjectInFreedMemory, MEMORY).calls("probe_free_after_everything_in_it");

    rule_15_kmem_free_with_another_size:
        broken(Rule::BadFree, MEMORY, "kmem_free").calls("probe_free_with_another_size").saying("100 bytes");
    rule_15_kmem_free_of_unknown_pointer:
        broken(Rule::BadFree, MEMORY, "kmem_free").calls("probe_free_of_unknown_pointer").saying("no such allocation");
    rule_15_kmem_free_twice:
        broken(Rule::BadFree, MEMORY, "kmem_free").calls("probe_free_twice").saying("already freed");
    rule_15_kmem_free_of_interior_pointer:
        broken(Rule::BadFree, MEMORY, "kmem_free").calls("probe_free_of_interior_pointer").saying("inside");
    rule_15_kmem_free_of_message_buffer:
        broken(Rule::BadFree, MEMORY, "kmem_free").calls("probe_kmem_free_of_message_buffer");
    rule_15_object_freed_to_the_wrong_cache:
        broken(Rule::BadFree, MEMORY, "kmem_cache_free").calls("probe_free_to_the_wrong_cache");
    rule_15_memory_freed_with_its_size_is_kept:
        kept(Rule::BadFree, MEMORY).calls("probe_free_with_its_size");

    rule_16_write_behind_the_end:
        broken(Rule::HeapCorruption, MEMORY, "kmem_free").configured(unwalled).calls("probe_write_behind_the_end").saying("byte 13");
    rule_16_write_before_the_start:
        broken(Rule::HeapCorruption, MEMORY, "kmem_free").configured(unwalled).calls("probe_write_before_the_start").saying("before its start");
    rule_16_write_after_free_found_at_unload:
        broken(Rule::HeapCorruption, MEMORY, "_fini").configured(unwalled).calls("probe_write_after_free").saying("byte 5");
    rule_16_read_after_free:
        broken(Rule::HeapCorruption, MEMORY, "probe_read_after_free")
            .configured(|config| config.wall_one_in = 1)
            .calls("probe_read_after_free")
            .saying("was freed by");
    rule_16_read_behind_the_end:
        broken(Rule::HeapCorruption, MEMORY, "probe_read_behind_the_end")
            .configured(|config| config.wall_one_in = 1)
            .calls("probe_read_behind_the_end")
            .saying("byte 80 is beyond kmem_alloc memory of 64 bytes");
    rule_16_write_within_bounds_is_kept:
        kept(Rule::HeapCorruption, MEMORY).calls("probe_write_within_bounds");

    rule_17_cache_destroyed_with_object:
        broken(Rule::CacheNotEmpty, MEMORY, "kmem_cache_destroy").calls("probe_cache_destroyed_with_object").saying("1 objects");
    rule_17_cache_destroyed_empty_is_kept:
        kept(Rule::CacheNotEmpty, MEMORY).calls("probe_cache_destroyed_empty");

    rule_18_object_freed_not_as_constructed:
        broken(Rule::NotConstructed, MEMORY, "kmem_cache_free").does(|bench| {
            check_counter(bench);
            bench.call("probe_free_of_used_object")
        });
    rule_18_object_freed_as_constructed_is_kept:
        kept(Rule::NotConstructed, MEMORY).does(|bench| {
            check_counter(bench);
            bench.call("probe_free_of_object_as_constructed")
        });

    rule_20_message_freed_twice:
        broken(Rule::BadMessageFree, MESSAGE, "freemsg").calls("probe_free_twice").saying("no live mblk");
    rule_20_message_used_after_its_free:
        broken(Rule::BadMessageFree, MESSAGE, "msgdsize").calls("probe_use_after_free").saying("no live mblk");
    rule_20_message_freed_while_linked:
        broken(Rule::BadMessageFree, MESSAGE, "freemsg").calls("probe_free_while_linked").saying("b_next");
    rule_20_chain_freed_as_a_chain_is_kept:
        kept(Rule::BadMessageFree, MESSAGE).calls("probe_free_of_a_chain");

    rule_21_write_pointer_behind_the_buffer:
        broken(Rule::BadMessagePointers, MESSAGE, "adjmsg").calls("probe_write_pointer_behind_the_buffer");
    rule_21_read_pointer_before_the_buffer:
        broken(Rule::BadMessagePointers, MESSAGE, "pullupmsg").calls("probe_read_pointer_before_the_buffer");
    rule_21_pointers_crossed:
        broken(Rule::BadMessagePointers, MESSAGE, "freemsg").calls("probe_pointers_crossed");
    rule_21_reference_count_overwritten:
        broken(Rule::BadMessagePointers, MESSAGE, "freemsg").calls("probe_reference_count_overwritten").saying("db_ref");
    rule_21_pointers_at_the_ends_of_the_buffer_are_kept:
        kept(Rule::BadMessagePointers, MESSAGE).calls("probe_pointers_at_the_ends");

    rule_23_failed_kmem_zalloc_not_checked:
        broken(Rule::UncheckedAllocation, MEMORY, "kmem_zalloc").failing(FaultKind::KMEM).calls("probe_allocation_not_checked");
    rule_23_failed_allocb_not_checked:
        broken(Rule::UncheckedAllocation, MEMORY, "allocb").failing(FaultKind::ALLOCB).calls("probe_message_not_checked");
    rule_23_failed_allocation_checked_is_kept:
        kept(Rule::UncheckedAllocation, MEMORY).failing(FaultKind::KMEM).calls("probe_allocation_checked");

    rule_27_soft_state_used_after_fini:
        broken(Rule::BadSoftState, STRUCTURES, "ddi_get_soft_state").calls("probe_soft_state_used_after_fini");
    rule_27_soft_state_allocated_twice:
        broken(Rule::BadSoftState, STRUCTURES, "ddi_soft_state_zalloc").calls("probe_soft_state_allocated_twice");
    rule_27_soft_state_freed_when_absent:
        broken(Rule::BadSoftState, STRUCTURES, "ddi_soft_state_free").calls("probe_soft_state_freed_when_absent");
    rule_27_soft_state_in_order_is_kept:
        kept(Rule::BadSoftState, STRUCTURES).calls("probe_soft_state_in_order");

    rule_28_copyin_in_a_kernel_thread:
        broken(Rule::CopyOutsideUser, USER, "ddi_copyin")
            .does(|bench| with_user_buffer(bench, Ctx::Kernel, "probe_copyin_here"));
    rule_28_copyout_in_a_kernel_thread:
        broken(Rule::CopyOutsideUser, USER, "ddi_copyout")
            .does(|bench| with_user_buffer(bench, Ctx::Kernel, "probe_copyout_here"));
    rule_28_copies_in_user_context_are_kept:
        kept(Rule::CopyOutsideUser, USER).does(|bench| {
            with_user_buffer(bench, Ctx::User, "probe_copyin_here")
                | with_user_buffer(bench, Ctx::User, "probe_copyout_here")
                | bench.module.call_probe("probe_copy_of_kernel_memory", Some(Ctx::Kernel), 0)
        });

    rule_32_user_pointer_read:
        broken(Rule::UserPointer, USER, "probe_read_through_user_pointer")
            .does(|bench| with_user_buffer(bench, Ctx::User, "probe_read_through_user_pointer"));
    rule_32_user_pointer_written:
        broken(Rule::UserPointer, USER, "probe_write_through_user_pointer")
            .does(|bench| with_user_buffer(bench, Ctx::User, "probe_write_through_user_pointer"));
    rule_32_bcopy_from_user_pointer:
        broken(Rule::UserPointer, USER, "bcopy")
            .does(|bench| with_user_buffer(bench, Ctx::User, "probe_bcopy_from_user_pointer"));
    rule_32_user_memory_copied_in_is_kept:
        kept(Rule::UserPointer, USER).does(|bench| with_user_buffer(bench, Ctx::User, "probe_copyin_here"));

    rule_33_size_prefix_z:
        broken(Rule::BadFormat, STRUCTURES, "cmn_err").calls("probe_format_with_z");
    rule_33_plus_flag:
        broken(Rule::BadFormat, STRUCTURES, "snprintf").calls("probe_snprintf_with_plus");
    rule_33_null_string_is_noted:
        noted(Rule::BadFormat, STRUCTURES, "snprintf").calls("probe_format_of_null_string");
    rule_33_precision_of_zero_is_noted:
        noted(Rule::BadFormat, STRUCTURES, "snprintf").calls("probe_format_of_no_bytes");
    rule_33_what_the_formatter_knows_is_kept:
        kept(Rule::BadFormat, STRUCTURES).calls("probe_format_as_the_kernel_knows");

    rule_41_absurd_size:
        broken(Rule::AbsurdArgument, MEMORY, "kmem_alloc").calls("probe_absurd_size");
    rule_41_overlapping_bcopy:
        broken(Rule::AbsurdArgument, MEMORY, "bcopy").calls("probe_overlapping_bcopy").saying("overlap");
    rule_41_overlapping_memcpy:
        broken(Rule::AbsurdArgument, MEMORY, "memcpy").calls("probe_overlapping_memcpy").saying("overlap");
    rule_41_overlapping_ovbcopy_is_kept:
        kept(Rule::AbsurdArgument, MEMORY).calls("probe_overlapping_ovbcopy");

    rule_44_node_inserted_twice:
        broken(Rule::BadList, STRUCTURES, "list_insert_tail").calls("probe_list_insert_twice");
    rule_44_unlinked_node_removed:
        broken(Rule::BadList, STRUCTURES, "list_remove").calls("probe_list_remove_of_unlinked");
    rule_44_list_destroyed_with_item:
        broken(Rule::BadList, STRUCTURES, "list_destroy").calls("probe_list_destroyed_with_item");
    rule_44_list_in_order_is_kept:
        kept(Rule::BadList, STRUCTURES).calls("probe_list_in_order");

    rule_45_hash_entered_from_its_callback:
        broken(Rule::HashReentered, STRUCTURES, "mod_hash_find").calls("probe_hash_entered_from_its_callback");
    rule_45_hash_in_order_is_kept:
        kept(Rule::HashReentered, STRUCTURES).calls("probe_hash_in_order");
}
