//! Every model, each in every order.

use interleavings::models;

#[test]
fn an_index_is_one_threads_at_a_time() {
    models::an_index_is_one_threads_at_a_time();
}

#[test]
fn a_top_that_looks_the_same_is_the_same() {
    models::a_top_that_looks_the_same_is_the_same();
}

#[test]
fn what_is_taken_together_is_nobody_elses() {
    models::what_is_taken_together_is_nobody_elses();
}

#[test]
fn nobody_is_inside_once_shut_has_returned() {
    models::nobody_is_inside_once_shut_has_returned();
}

#[test]
fn what_is_set_once_is_seen_whole() {
    models::what_is_set_once_is_seen_whole();
}

#[test]
fn the_last_reference_sees_what_all_others_did() {
    models::the_last_reference_sees_what_all_others_did();
}

#[test]
fn a_sole_owner_has_the_value_alone() {
    models::a_sole_owner_has_the_value_alone();
}

#[test]
fn nobody_is_inside_a_gate_that_closed() {
    models::nobody_is_inside_a_gate_that_closed();
}

#[test]
fn what_is_piled_up_is_taken_once_and_whole() {
    models::what_is_piled_up_is_taken_once_and_whole();
}

#[test]
fn a_handle_that_is_withdrawn_never_holds_again() {
    models::a_handle_that_is_withdrawn_never_holds_again();
}

#[test]
fn a_use_is_seen_by_one_look_or_the_next() {
    models::a_use_is_seen_by_one_look_or_the_next();
}

#[test]
fn a_denial_of_an_earlier_epoch_does_not_stand() {
    models::a_denial_of_an_earlier_epoch_does_not_stand();
}
