//! Services, as far as they are not connections.

use crate::bench::with;

const SERVICE_RECORDS_NOT_FOUND: i64 = 14;

#[test]
fn identifiers_are_given_out_once_and_keep_the_client_attached() {
    with("services").holds(|b| b.alpha.run("probe_ranges", 0));
}

#[test]
fn a_service_is_bound_once_per_port_and_busy_while_bound() {
    with("services").holds(|b| b.alpha.run("probe_bindings", 0));
}

#[test]
fn a_service_with_a_name_is_found_from_the_other_host_also_after_a_restart() {
    with("services").holds(|b| {
        b.beta.expect("probe_look_for", 0, SERVICE_RECORDS_NOT_FOUND);
        b.alpha.run("probe_offer", 0);
        b.beta.run("probe_look_for", b.alpha.guid());
        b.sm.restart(sm::Lid(0xc000));
        b.settle();
        b.beta.run("probe_look_for", b.alpha.guid());
        b.alpha.run("probe_withdraw", 0);
        b.beta.expect("probe_look_for", 0, SERVICE_RECORDS_NOT_FOUND);
    });
}
