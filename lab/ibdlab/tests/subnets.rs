//! Subnets as sites configure them: what each of them asks of links.

mod rig;

use ibdlab::scenario::trouble::{Event, SaDoes, SaGarbled, SaLie, SaRequest};
use ibdlab::scenario::{IdleStep, Scenario, Step};
use rig::{failures, failures_of};

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

/// Each lie about paths, joins and lists of groups, by the seed.
fn lie(scenario: &mut Scenario, seed: u64) {
    const TO: [SaRequest; 3] = [SaRequest::Path, SaRequest::Join, SaRequest::ListGroups];
    let number = usize::try_from(seed).expect("a number") - 1;
    let (lie, to) = (SaLie::ALL[number / TO.len()], TO[number % TO.len()]);
    for step in &mut scenario.step {
        let Step::Trouble(trouble) = step.as_mut() else { continue };
        // What looks like truth is believed until memberships are verified.
        if lie == SaLie::OtherLid {
            trouble.settle_ms = 1_300_000;
        }
        for timed in &mut trouble.event {
            if let Event::Sa(sa) = &mut timed.event {
                (sa.does, sa.to) = (SaDoes::Lies(lie), Some(to));
            }
        }
    }
}

/// Before the mend packets went to another port for five minutes, and a wrong Q_Key or service level stayed for fifteen.
#[test]
fn links_are_well_again_once_the_sa_tells_the_truth() {
    let kinds = 3 * SaLie::ALL.len() as u64;
    assert_eq!(failures_of("subnets/sa-lies.toml", kinds, lie), Vec::<String>::new());
}

/// A connection sends from the LID that its path has, and its other end takes packets from no other LID.
#[test]
fn ports_with_several_lids_are_reached_at_any_of_them() {
    assert_eq!(failures("subnets/several-lids.toml", 4), Vec::<String>::new());
}

/// Another manager comes while joins are out, or while nothing is, by the seed.
fn quiet_or_not(scenario: &mut Scenario, seed: u64) {
    if seed.is_multiple_of(2) {
        let changes = scenario.step.iter().position(|step| matches!(step.as_ref(), Step::GroupChanges(_)));
        let idle = Step::Idle(IdleStep { for_ms: 20_000 });
        scenario.step.insert(changes.expect("a change"), toml::Spanned::new(0..0, idle));
    }
}

/// Before the mend the other links made IP's groups with the rate of the group of before, in which the port could not be: for a
/// quarter of an hour and longer it was in none of them.
#[test]
fn a_port_that_a_slower_group_lets_in_is_in_ips_groups_too() {
    assert_eq!(failures_of("subnets/let-in-later.toml", 8, quiet_or_not), Vec::<String>::new());
}

/// A port that its group does not fit any more is out of it until its link is good again.
#[test]
fn links_that_train_to_less_are_well_once_they_are_good_again() {
    assert_eq!(failures("subnets/links-retrain.toml", 4), Vec::<String>::new());
}

/// The subnet manager has one port of a GUID, and one of two links hears nothing. The hosts beside them notice nothing of it.
#[test]
fn two_ports_with_one_guid_are_well_once_each_has_its_own() {
    assert_eq!(failures("subnets/one-guid-twice.toml", 4), Vec::<String>::new());
}

/// Each kind of wrong segment, by the seed.
fn garble(scenario: &mut Scenario, seed: u64) {
    let number = usize::try_from(seed).expect("a number") - 1;
    for step in &mut scenario.step {
        let Step::Trouble(trouble) = step.as_mut() else { continue };
        for timed in &mut trouble.event {
            if let Event::Sa(sa) = &mut timed.event {
                (sa.does, sa.to) = (SaDoes::Garbles(SaGarbled::ALL[number]), None);
            }
        }
    }
}

/// IBTF puts no such answer together, and links ask again.
#[test]
fn links_are_well_again_once_the_sas_segments_are_right() {
    let kinds = SaGarbled::ALL.len() as u64;
    assert_eq!(failures_of("subnets/sa-lies.toml", kinds, garble), Vec::<String>::new());
}

#[test]
fn limited_members_beside_each_other_wait_until_they_are_full() {
    assert_eq!(failures("subnets/limited-against-limited.toml", 4), Vec::<String>::new());
}
