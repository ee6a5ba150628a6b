//! Two threads that nothing orders.

use fakekernel::Rule::DataRace;

use crate::case::{broken, cases, kept};

const RACE: &str = "race";

cases! {
    rule_54_load_beside_a_store:
        broken(DataRace, RACE, "a load").calls("probe_load_after_a_store")
            .saying("accessed at race`load+");
    rule_54_store_beside_a_load:
        broken(DataRace, RACE, "a store").calls("probe_store_after_a_load")
            .saying("after a load at race`load+");
    rule_54_plain_store_beside_an_atomic_one:
        broken(DataRace, RACE, "a store").calls("probe_plain_store_after_an_atomic_one")
            .saying("after an atomic store at race`store_flag+");
    rule_54_what_is_told_by_a_flag_that_is_not_released:
        broken(DataRace, RACE, "a load").calls("probe_flag_that_is_not_released")
            .saying("after a store at race`store+");
    rule_54_what_is_told_by_a_flag_that_is_not_acquired:
        broken(DataRace, RACE, "a load").calls("probe_flag_that_is_not_acquired")
            .saying("nothing orders the two");
    rule_54_what_is_told_by_a_flag_is_kept:
        kept(DataRace, RACE).calls("probe_flag");
    rule_54_memory_freed_beside_a_load:
        broken(DataRace, RACE, "kmem_free").calls("probe_free_after_a_load")
            .saying("freed at race`probe_free_after_a_load+");
    rule_54_locks_and_semaphores_are_kept:
        kept(DataRace, RACE).calls("probe_locks_and_semaphores");
    rule_54_what_is_handed_over_is_kept:
        kept(DataRace, RACE).calls("probe_hand_over");
    rule_54_bytes_beside_each_other_are_kept:
        kept(DataRace, RACE).calls("probe_bytes_beside_each_other");
}
