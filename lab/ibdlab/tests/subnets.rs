//! Subnets as sites configure them: what each of them asks of links.

mod rig;

use rig::failures;

/// Before the mend the groups that hosts make had hop limit 0, whatever the broadcast group had. Hosts that name the broadcast group's
/// hop limit in a join, as Linux does, were refused.
#[test]
fn packets_to_groups_have_what_their_records_say() {
    assert_eq!(failures("subnets/groups-of-their-own.toml", 4), Vec::<String>::new());
}

/// Before the mend a link stayed up, deaf, when another SM made its group with more than the port can carry.
#[test]
fn a_port_too_small_for_its_group_says_so_and_comes_up_later() {
    assert_eq!(failures("subnets/ports-too-small.toml", 4), Vec::<String>::new());
}

#[test]
fn a_port_that_becomes_a_limited_member_waits_for_its_p_key() {
    assert_eq!(failures("subnets/limited-members.toml", 4), Vec::<String>::new());
}
