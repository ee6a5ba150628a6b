//! Mutexes, condition variables, readers/writer locks and interrupt levels.

use fakekernel::{Ctx, Rule};

use crate::case::{broken, cases, kept, noted, panicked};

const LOCKS: &str = "locks";
const CV: &str = "condvar";
const SEMA: &str = "sema";

cases! {
    rule_02_delay_under_spin_mutex:
        broken(Rule::BlockWithSpinMutex, LOCKS, "delay").calls("probe_delay_under_spin_mutex");
    rule_02_cv_wait_under_spin_mutex:
        broken(Rule::BlockWithSpinMutex, LOCKS, "cv_wait").calls("probe_cv_wait_under_spin_mutex");
    rule_02_delay_after_spin_mutex_is_kept:
        kept(Rule::BlockWithSpinMutex, LOCKS).calls("probe_delay_after_spin_mutex");

    rule_03_sleeping_allocation_under_mutex_is_noted:
        noted(Rule::BlockWithMutex, LOCKS, "kmem_alloc").calls("probe_sleeping_allocation_under_mutex");
    rule_03_allocation_that_does_not_sleep_is_kept:
        kept(Rule::BlockWithMutex, LOCKS).calls("probe_nosleep_allocation_under_mutex");

    rule_05_recursive_mutex_enter:
        broken(Rule::RecursiveMutex, LOCKS, "mutex_enter").calls("probe_recursive_enter").saying("recursive mutex_enter");
    rule_05_mutex_entered_again_after_exit_is_kept:
        kept(Rule::RecursiveMutex, LOCKS).calls("probe_enter_again_after_exit");

    rule_06_exit_of_free_mutex:
        broken(Rule::MutexNotOwner, LOCKS, "mutex_exit").calls("probe_exit_of_free_mutex").saying("not owner");
    rule_06_exit_of_other_threads_mutex:
        broken(Rule::MutexNotOwner, LOCKS, "mutex_exit").calls("probe_exit_of_other_threads_mutex").saying("held by");
    rule_06_mutex_handed_from_thread_to_thread_is_kept:
        kept(Rule::MutexNotOwner, LOCKS).calls("probe_exit_by_owner_while_other_waits");

    rule_07_garbage_entered_as_mutex:
        broken(Rule::BadMutex, LOCKS, "mutex_enter").calls("probe_enter_of_garbage").saying("bad mutex");
    rule_07_destroyed_mutex_entered:
        broken(Rule::BadMutex, LOCKS, "mutex_enter").calls("probe_enter_of_destroyed_mutex").saying("destroyed");
    rule_07_destroyed_mutex_tried:
        broken(Rule::BadMutex, LOCKS, "mutex_tryenter").calls("probe_tryenter_of_destroyed_mutex").saying("destroyed");
    rule_07_destroyed_mutex_exited:
        broken(Rule::BadMutex, LOCKS, "mutex_exit").calls("probe_exit_of_destroyed_mutex").saying("destroyed");
    rule_07_zeroed_mutex_is_noted:
        noted(Rule::BadMutex, LOCKS, "mutex_enter").calls("probe_enter_of_zeroed_mutex").saying("never initialised");
    rule_07_mutex_initialised_again_is_kept:
        kept(Rule::BadMutex, LOCKS).calls("probe_enter_of_reinitialised_mutex");

    rule_08_destroy_of_other_threads_mutex:
        broken(Rule::BadMutexDestroy, LOCKS, "mutex_destroy").calls("probe_destroy_of_other_threads_mutex").saying("not owner");
    rule_08_destroy_with_waiter:
        broken(Rule::BadMutexDestroy, LOCKS, "mutex_destroy").calls("probe_destroy_with_waiter").saying("has waiters");
    rule_08_destroy_twice:
        broken(Rule::BadMutexDestroy, LOCKS, "mutex_destroy").calls("probe_destroy_twice").saying("twice");
    rule_08_destroy_by_owner_is_kept:
        kept(Rule::BadMutexDestroy, LOCKS).calls("probe_destroy_by_owner");

    rule_10_cv_wait_without_mutex:
        broken(Rule::BadCvMutex, CV, "cv_wait").calls("probe_wait_without_mutex").saying("not held");
    rule_10_cv_wait_with_spin_mutex:
        broken(Rule::BadCvMutex, CV, "cv_wait").calls("probe_wait_with_spin_mutex").saying("spin");
    rule_10_cv_wait_with_its_mutex_is_kept:
        kept(Rule::BadCvMutex, CV).calls("probe_wait_in_loop");

    rule_11_wait_without_loop_goes_on_too_early:
        panicked(Rule::CvWaitNotInLoop, CV)
            .configured(|config| config.spurious_one_in = 1)
            .calls("probe_wait_once")
            .saying("nobody was ready");
    rule_11_wait_in_a_loop_is_kept:
        kept(Rule::CvWaitNotInLoop, CV).configured(|config| config.spurious_one_in = 1).calls("probe_wait_in_loop");

    rule_12_cv_destroyed_with_waiter:
        broken(Rule::BadCv, CV, "cv_destroy")
            .configured(|config| config.spurious_one_in = 0)
            .calls("probe_destroy_with_waiter")
            .saying("1 waiters");
    rule_12_signal_of_garbage:
        broken(Rule::BadCv, CV, "cv_signal").calls("probe_signal_of_garbage").saying("never initialised");
    rule_12_wait_on_destroyed_cv:
        broken(Rule::BadCv, CV, "cv_wait").calls("probe_wait_on_destroyed").saying("destroyed");
    rule_12_broadcast_to_destroyed_cv:
        broken(Rule::BadCv, CV, "cv_broadcast").calls("probe_broadcast_to_destroyed").saying("destroyed");
    rule_12_cv_destroyed_after_its_last_waiter_is_kept:
        kept(Rule::BadCv, CV).calls("probe_destroy_after_last_waiter");

    rule_12_semaphore_destroyed_with_waiter:
        broken(Rule::BadCv, SEMA, "sema_destroy").calls("probe_destroy_with_waiter").saying("1 waiters");
    rule_12_semaphore_never_initialised:
        broken(Rule::BadCv, SEMA, "sema_v").calls("probe_never_initialised").saying("never initialised");
    rule_12_wait_on_destroyed_semaphore:
        broken(Rule::BadCv, SEMA, "sema_p").calls("probe_wait_on_destroyed").saying("destroyed");
    rule_12_semaphore_whose_units_are_counted_is_kept:
        kept(Rule::BadCv, SEMA).calls("probe_units_are_counted");
    rule_12_semaphore_that_leaves_its_unit_to_the_waiter_is_kept:
        kept(Rule::BadCv, SEMA).calls("probe_waiter_gets_the_unit");

    rule_01_semaphore_waited_for_in_soft_interrupt:
        broken(Rule::SleepInInterrupt, SEMA, "sema_p").within(Ctx::Soft { pil: 4 }).calls("probe_wait_here");
    rule_09_memory_freed_with_a_semaphore_in_it:
        broken(Rule::LiveObjectInFreedMemory, SEMA, "kmem_free").calls("probe_freed_with_it").saying("semaphore");
    rule_19_semaphore_left_behind:
        broken(Rule::Leak, SEMA, "_fini").calls("probe_left_behind").saying("semaphore");

    rule_13_one_cv_with_two_mutexes:
        broken(Rule::CvTwoMutexes, CV, "cv_wait").configured(|config| config.spurious_one_in = 0).calls("probe_two_mutexes");
    rule_13_one_mutex_after_the_other_is_kept:
        kept(Rule::CvTwoMutexes, CV).calls("probe_two_mutexes_one_after_the_other");

    rule_14_rwlock_entered_recursively:
        broken(Rule::BadRwlock, LOCKS, "rw_enter").calls("probe_rwlock_recursive_writer").saying("recursive rw_enter");
    rule_14_rwlock_left_by_a_stranger:
        broken(Rule::BadRwlock, LOCKS, "rw_exit").calls("probe_rwlock_exit_not_held").saying("lock not held");
    rule_14_rwlock_destroyed_while_held:
        broken(Rule::BadRwlock, LOCKS, "rw_destroy").calls("probe_rwlock_destroy_held").saying("still active");
    rule_14_rwlock_upgraded_and_downgraded_is_kept:
        kept(Rule::BadRwlock, LOCKS).calls("probe_rwlock_readers_and_writer");

    rule_29_adaptive_mutex_under_spin_mutex:
        broken(Rule::HighLevelCall, LOCKS, "mutex_enter").calls("probe_adaptive_enter_under_spin_mutex").saying("high PIL");
    rule_29_kmem_free_under_spin_mutex:
        broken(Rule::HighLevelCall, LOCKS, "kmem_free").calls("probe_kmem_free_under_spin_mutex");
    rule_29_allocation_at_high_level:
        broken(Rule::HighLevelCall, LOCKS, "kmem_alloc").within(Ctx::High { pil: 12 }).calls("probe_allocation_at_high_level");
    rule_29_spin_mutex_at_high_level_is_kept:
        kept(Rule::HighLevelCall, LOCKS).within(Ctx::High { pil: 11 }).calls("probe_spin_mutex_at_high_level");

    rule_34_two_mutexes_in_both_orders:
        broken(Rule::LockOrder, LOCKS, "mutex_enter").calls("probe_both_orders").saying("elsewhere the order is");
    rule_34_one_order_and_a_try_is_kept:
        kept(Rule::LockOrder, LOCKS).calls("probe_one_order");

    rule_36_return_with_mutex:
        broken(Rule::LockBalance, LOCKS, "probe_return_with_mutex").calls("probe_return_with_mutex").saying("still holds");
    rule_36_callback_releases_its_callers_mutex:
        broken(Rule::LockBalance, LOCKS, "kmem_cache constructor")
            .calls("probe_callback_releases_callers_mutex")
            .saying("taken by its caller");
    rule_36_return_without_mutex_is_kept:
        kept(Rule::LockBalance, LOCKS).calls("probe_return_without_mutex");

    rule_37_return_at_raised_level:
        broken(Rule::PilBalance, LOCKS, "probe_spin_mutexes_left_in_order")
            .calls("probe_spin_mutexes_left_in_order")
            .saying("PIL 12");
    rule_37_nested_spin_mutexes_are_kept:
        kept(Rule::PilBalance, LOCKS).calls("probe_spin_mutexes_nested");
}
