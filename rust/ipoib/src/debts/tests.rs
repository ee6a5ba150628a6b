use super::*;
use crate::numbers::Scope;
use std::vec::Vec;

type Machine = Debts<Vec<DebtSlot>>;

const PKEY: PKey = PKey::new(0x8001).unwrap();
const PORT: Gid = Gid { prefix: 0xfe80 << 48, guid: 7 };

fn machine(room: usize) -> Machine {
    Debts::new((0..room).map(|_| None).collect(), 5)
}

fn group(n: u8) -> Mgid {
    Mgid::ipv4([224, 0, 0, n], Scope::LinkLocal, PKEY)
}

fn debt(n: u8, roles: Roles, joins: u32) -> Debt {
    let counted = if joins > 0 { roles } else { Roles::NONE };
    Debt { group: group(n), port: PORT, pkey: PKEY, roles, counted, joins }
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn all(m: &mut Machine, now: Instant) -> Vec<(Place, Debt)> {
    core::iter::from_fn(|| m.next(now, |_| false)).collect()
}

#[test]
fn each_debt_is_tried_once_at_a_time_until_it_is_over() {
    let mut m = machine(4);
    (1..=3).for_each(|n| assert_eq!(m.add(at(0), debt(n, Roles::FULL, 1)), None));
    let out = all(&mut m, at(0));
    assert_eq!(out.iter().map(|(_, debt)| debt.group).collect::<Vec<_>>(), [group(1), group(2), group(3)]);
    out.into_iter().for_each(|(place, _)| m.ended(at(1), place, Outcome::Over));
    assert!(m.is_empty());
    assert_eq!((m.poll_timeout(), m.given_up()), (None, 0));
}

#[test]
fn silence_puts_all_off_for_longer_and_longer_until_something_is_answered() {
    let mut m = machine(4);
    m.add(at(0), debt(1, Roles::FULL, 2));
    m.add(at(0), debt(2, Roles::FULL, 1));
    let mut now = at(100);
    for failures in 1..12_u32 {
        let (place, tried) = m.next(now, |_| false).expect("one is due");
        assert!(failures < 3 || tried.joins == 0, "IBTF was asked to forget its joins once");
        m.ended(now, place, Outcome::Remains(Roles::FULL, false));
        assert_eq!(m.next(now, |_| false), None);
        let next = m.poll_timeout().expect("both wait");
        let full = Duration::from_secs(1 << (failures - 1).min(6)).min(Duration::from_secs(60));
        assert!(next - now <= full && next - now >= full * 3 / 4, "{failures}: {:?}", next - now);
        now = next;
    }
    let (place, _) = m.next(now, |_| false).unwrap();
    m.ended(now, place, Outcome::Remains(Roles::FULL, false));
    m.answered();
    assert_eq!(all(&mut m, now).len(), 2);
}

#[test]
fn a_membership_that_the_sa_does_not_end_is_left_to_it_in_the_end() {
    let mut m = machine(1);
    m.add(at(0), debt(1, Roles::NON, 0));
    assert_eq!(m.next(at(0), |_| false), None, "the SA was just asked");
    let mut now = at(1);
    for tries in 1..=TRIES {
        let (place, _) = m.next(now, |_| false).expect("it is due");
        m.ended(now, place, Outcome::Remains(Roles::NON, true));
        assert_eq!(m.is_empty(), tries == TRIES);
        now = m.poll_timeout().unwrap_or(now);
    }
    assert_eq!((m.given_up(), m.given_up()), (1, 0));
}

#[test]
fn a_group_that_a_link_asks_about_waits_and_the_next_one_is_tried() {
    let mut m = machine(2);
    m.add(at(0), debt(1, Roles::FULL, 1));
    m.add(at(0), debt(2, Roles::FULL, 1));
    let busy = |asked: Mgid| asked == group(1);
    assert_eq!(m.next(at(0), busy).map(|(_, debt)| debt.group), Some(group(2)));
    assert_eq!(m.next(at(0), busy), None);
}

#[test]
fn a_link_that_joins_pays_what_ibtf_does_not_count() {
    let mut m = machine(3);
    m.add(at(0), debt(1, Roles::FULL, 0));
    m.add(at(0), debt(2, Roles::FULL.and(Roles::SEND_ONLY), 0));
    m.add(at(0), debt(3, Roles::FULL, 1));
    (1..=3).for_each(|n| m.paid(group(n), PORT, Roles::FULL));
    let left: Vec<Debt> = all(&mut m, at(1)).into_iter().map(|(_, debt)| debt).collect();
    assert_eq!(left, [debt(2, Roles::SEND_ONLY, 0), debt(3, Roles::FULL, 1)]);
}

#[test]
fn what_is_added_while_a_debt_is_out_is_tried_after_it() {
    let mut m = machine(1);
    m.add(at(0), debt(1, Roles::FULL, 1));
    let (place, _) = m.next(at(0), |_| false).unwrap();
    assert_eq!(m.add(at(0), debt(1, Roles::SEND_ONLY, 2)), None);
    assert_eq!(m.next(at(0), |_| false), None, "its attempt is out");
    m.ended(at(1), place, Outcome::Over);
    assert_eq!(all(&mut m, at(1)).first().map(|(_, debt)| *debt), Some(debt(1, Roles::SEND_ONLY, 2)));
}

#[test]
fn without_room_one_that_ibtf_does_not_count_gives_way() {
    let mut m = machine(2);
    m.add(at(0), debt(1, Roles::FULL, 1));
    m.add(at(0), debt(2, Roles::FULL, 0));
    assert_eq!(m.add(at(0), debt(3, Roles::FULL, 1)), Some(debt(2, Roles::FULL, 0)));
    assert_eq!(
        m.add(at(0), debt(4, Roles::FULL, 1)),
        Some(debt(4, Roles::FULL, 1)),
        "whose joins are still to be undone"
    );
    assert_eq!((m.len(), m.given_up()), (2, 2));
}

#[test]
fn what_a_port_leaves_is_handed_out_and_moves_with_its_memory() {
    let mut m = machine(3);
    m.add(at(0), debt(1, Roles::FULL, 1));
    m.add(at(0), debt(2, Roles::FULL, 1));
    let mut m = m.moved_to((0..3).map(|_| None).collect());
    let taken: Vec<Mgid> = core::iter::from_fn(|| m.take()).map(|debt| debt.group).collect();
    assert_eq!(taken, [group(1), group(2)]);
    assert!(m.is_empty());
}
