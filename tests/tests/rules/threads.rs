//! Contexts, timeouts, threads and the state of the processor.

use fakekernel::{Config, Ctx, Nanos, Rule, Suppression, sleep};

use crate::bench::Bench;
use crate::case::{broken, cases, kept, noted};

const TIME: &str = "time";
const THREAD: &str = "thread";
const DRIVER: &str = "driver";
const SOFT: Ctx = Ctx::Soft { pil: 4 };

/// Has the module leave something behind at its unload, and waits until that comes back.
fn outlive(bench: &Bench, probe: &'static str) -> i64 {
    let value = bench.call(probe);
    bench.module.unload().expect("what is left is tolerated");
    sleep(Nanos::from_secs(20));
    value
}

/// Has the machine run on when `_fini` breaks a rule: otherwise nothing could come back later.
fn tolerate(config: &mut Config, rule: Rule) {
    config.suppress.0.push(Suppression {
        host: None,
        module: THREAD.into(),
        rule,
        call: Some("_fini".into()),
        function: None,
        evidence: "what comes back is to be seen".into(),
    });
}

cases! {
    rule_01_sleeping_allocation_in_timeout_handler:
        broken(Rule::SleepInInterrupt, TIME, "kmem_alloc").calls("probe_sleep_in_timeout");
    rule_01_sleeping_allocation_in_soft_interrupt:
        broken(Rule::SleepInInterrupt, TIME, "kmem_alloc").within(SOFT).calls("probe_sleep_for_memory_here");
    rule_01_delay_in_soft_interrupt:
        broken(Rule::SleepInInterrupt, TIME, "delay").within(SOFT).calls("probe_delay_here");
    rule_01_thread_create_in_soft_interrupt:
        broken(Rule::SleepInInterrupt, TIME, "thread_create").within(SOFT).calls("probe_thread_create_here");
    rule_01_cv_wait_in_soft_interrupt:
        broken(Rule::SleepInInterrupt, TIME, "cv_wait").within(SOFT).calls("probe_wait_here");
    rule_01_taskq_create_in_soft_interrupt:
        broken(Rule::SleepInInterrupt, TIME, "taskq_create").within(SOFT).calls("probe_taskq_create_here");
    rule_01_sleeping_dispatch_in_soft_interrupt:
        broken(Rule::SleepInInterrupt, TIME, "taskq_dispatch").does(|bench| {
            bench.call("probe_taskq_dispatch_here");
            bench.module.call_probe("probe_taskq_dispatch_here", Some(SOFT), 0)
        });
    rule_01_soft_state_in_soft_interrupt:
        broken(Rule::SleepInInterrupt, TIME, "ddi_soft_state_init").within(SOFT).calls("probe_soft_state_init_here");
    rule_01_cache_created_in_soft_interrupt:
        broken(Rule::SleepInInterrupt, TIME, "kmem_cache_create").within(SOFT).calls("probe_cache_create_here");
    rule_01_allocation_that_does_not_sleep_is_kept:
        kept(Rule::SleepInInterrupt, TIME).within(SOFT).calls("probe_take_memory_here");
    rule_01_timeout_that_does_not_sleep_is_kept:
        kept(Rule::SleepInInterrupt, TIME).calls("probe_no_sleep_in_timeout");

    rule_04_untimeout_under_mutex:
        broken(Rule::UpcallWithMutex, TIME, "untimeout").calls("probe_untimeout_under_mutex").saying("while holding");
    rule_04_taskq_wait_under_mutex:
        broken(Rule::UpcallWithMutex, TIME, "taskq_wait").calls("probe_taskq_wait_under_mutex");
    rule_04_thread_join_under_mutex:
        broken(Rule::UpcallWithMutex, TIME, "thread_join").calls("probe_thread_join_under_mutex");
    rule_04_barriers_without_mutex_are_kept:
        kept(Rule::UpcallWithMutex, TIME).calls("probe_barriers_without_mutex");

    rule_24_untimeout_of_wild_id:
        broken(Rule::BadUntimeout, TIME, "untimeout").calls("probe_untimeout_of_wild_id").saying("impossible timeout id");
    rule_24_untimeout_under_the_handlers_mutex:
        broken(Rule::BadUntimeout, TIME, "untimeout")
            .calls("probe_untimeout_holding_the_handlers_lock")
            .saying("which the handler takes");
    rule_24_untimeout_of_ids_past_and_pending_is_kept:
        kept(Rule::BadUntimeout, TIME).calls("probe_untimeout_of_known_ids");

    rule_25_cv_wait_in_timeout_handler:
        broken(Rule::TimeoutHandlerBlocks, TIME, "cv_wait").calls("probe_wait_in_timeout");
    rule_25_timeout_handler_of_11_milliseconds:
        broken(Rule::TimeoutHandlerBlocks, TIME, "timeout handler").calls("probe_long_timeout");
    rule_25_short_timeout_handler_is_kept:
        kept(Rule::TimeoutHandlerBlocks, TIME).calls("probe_short_timeout");

    rule_26_soft_interrupt_triggered_after_its_removal:
        broken(Rule::BadSoftintr, DRIVER, "ddi_trigger_softintr").does(|bench| {
            bench.attached();
            bench.call("probe_trigger_after_removal")
        });
    rule_26_soft_interrupt_removed_under_its_handlers_mutex:
        broken(Rule::BadSoftintr, DRIVER, "ddi_remove_softintr")
            .does(|bench| {
                bench.attached();
                bench.call("probe_trigger");
                bench.call("probe_removal_under_the_handlers_mutex")
            })
            .saying("which the handler takes");
    rule_26_soft_interrupt_triggered_and_removed_is_kept:
        kept(Rule::BadSoftintr, DRIVER).does(|bench| {
            let node = bench.attached();
            let ran = bench.call("probe_trigger");
            bench.detach(&node).expect("nothing is in use");
            ran - 1
        });

    rule_30_thread_joins_itself:
        broken(Rule::BadThreadExit, THREAD, "thread_join").calls("probe_join_of_self");
    rule_30_thread_returns_with_mutex:
        broken(Rule::BadThreadExit, THREAD, "thread").calls("probe_return_from_thread_with_mutex").saying("still holds");
    rule_30_thread_exits_with_mutex:
        broken(Rule::BadThreadExit, THREAD, "thread_exit").calls("probe_exit_from_thread_with_mutex");
    rule_30_thread_still_in_the_text_at_unload:
        broken(Rule::BadThreadExit, THREAD, "_fini").calls("probe_thread_left_behind");
    rule_30_thread_comes_back_to_text_that_is_gone:
        broken(Rule::BadThreadExit, THREAD, "thread")
            .configured(|config| {
                tolerate(config, Rule::Leak);
                tolerate(config, Rule::BadThreadExit);
            })
            .does(|bench| outlive(bench, "probe_thread_left_behind"))
            .saying("after its unload");
    rule_30_threads_that_end_well_are_kept:
        kept(Rule::BadThreadExit, THREAD).calls("probe_threads_that_end_well");

    rule_35_timeout_runs_after_unload:
        broken(Rule::CallAfterUnload, THREAD, "timeout handler")
            .configured(|config| tolerate(config, Rule::Leak))
            .does(|bench| outlive(bench, "probe_timeout_left_behind"));
    rule_35_timeout_taken_back_before_unload_is_kept:
        kept(Rule::CallAfterUnload, THREAD).calls("probe_timeout_taken_back");

    rule_38_stack_of_16_kib:
        broken(Rule::StackUse, THREAD, "bzero").calls("probe_stack_of_16_kib").saying("bytes of stack");
    rule_38_stack_of_8_kib:
        broken(Rule::StackUse, THREAD, "bzero").calls("probe_stack_of_8_kib").saying("of 6144 allowed");
    rule_38_stack_of_4_kib_is_kept:
        kept(Rule::StackUse, THREAD).calls("probe_stack_of_4_kib");

    rule_39_direction_flag_set:
        broken(Rule::FloatingPoint, THREAD, "probe_direction_flag_set").calls("probe_direction_flag_set");
    rule_39_alignment_check_set:
        broken(Rule::FloatingPoint, THREAD, "probe_alignment_check_set").calls("probe_alignment_check_set");
    rule_39_x87_control_word_changed:
        broken(Rule::FloatingPoint, THREAD, "probe_x87_control_changed").calls("probe_x87_control_changed");
    rule_39_mxcsr_changed:
        broken(Rule::FloatingPoint, THREAD, "probe_mxcsr_changed").calls("probe_mxcsr_changed");
    rule_39_flags_put_back_are_kept:
        kept(Rule::FloatingPoint, THREAD).calls("probe_flags_put_back");

    rule_42_delay_of_no_ticks_is_noted:
        noted(Rule::BadDelay, TIME, "delay").calls("probe_delay_of_no_ticks");
    rule_42_delay_of_negative_ticks_is_noted:
        noted(Rule::BadDelay, TIME, "delay").calls("probe_delay_of_negative_ticks").saying("-5");
    rule_42_delay_of_a_tick_is_kept:
        kept(Rule::BadDelay, TIME).calls("probe_delay_of_a_tick");

    rule_51_task_that_keeps_the_thread_of_the_whole_system:
        broken(Rule::SystemTaskqHeld, TIME, "taskq_dispatch")
            .calls("probe_long_tasks_on_system_taskq")
            .saying("of its one backing thread; behind it: taskq_dispatch");
    rule_51_long_tasks_on_a_queue_of_their_own_are_kept:
        kept(Rule::SystemTaskqHeld, TIME).calls("probe_long_tasks_on_a_queue_of_its_own");
}
