use std::sync::Arc;

use super::clock::Slot;
use super::{Access, AtomicAct, AtomicOrder, Key, Kind, Races};

const READ: Kind = Kind { writes: false, atomic: false };
const WRITE: Kind = Kind { writes: true, atomic: false };
const FLAG: usize = 0x1000;
const DATA: usize = 0x2000;

/// Two threads that know nothing of each other.
fn two() -> (Races, Slot, Slot) {
    let mut races = Races::default();
    let [alice, bob] = ["alice", "bob"].map(|name| races.take_slot(name.into()));
    (races, alice, bob)
}

fn at(addr: usize, len: usize) -> Access {
    Access { addr, len, pc: addr }
}

fn does(races: &mut Races, who: Slot, kind: Kind) -> Option<Arc<str>> {
    races.access(who, at(DATA, 8), kind).map(|race| race.thread)
}

/// Alice writes and tells by a flag, Bob looks at the flag and reads.
fn told_by(store: AtomicOrder, load: AtomicOrder) -> Option<Arc<str>> {
    let (mut races, alice, bob) = two();
    assert_eq!(does(&mut races, alice, WRITE), None);
    races.atomic(alice, at(FLAG, 4), AtomicAct::Store, store);
    races.atomic(bob, at(FLAG, 4), AtomicAct::Load, load);
    does(&mut races, bob, READ)
}

#[test]
fn a_flag_orders_when_it_is_released_and_acquired() {
    use AtomicOrder::{Acquire, Relaxed, Release};
    assert_eq!(told_by(Release, Acquire), None);
    assert_eq!(told_by(Relaxed, Acquire).as_deref(), Some("alice"));
    assert_eq!(told_by(Release, Relaxed).as_deref(), Some("alice"));
}

#[test]
fn an_update_in_between_keeps_what_was_released_and_a_store_does_not() {
    for (act, ordered) in [(AtomicAct::Update, true), (AtomicAct::Store, false)] {
        let (mut races, alice, bob) = two();
        let carol = races.take_slot("carol".into());
        does(&mut races, alice, WRITE);
        races.atomic(alice, at(FLAG, 4), AtomicAct::Store, AtomicOrder::Release);
        races.atomic(carol, at(FLAG, 4), act, AtomicOrder::Relaxed);
        races.atomic(bob, at(FLAG, 4), AtomicAct::Load, AtomicOrder::Acquire);
        assert_eq!(does(&mut races, bob, READ).is_none(), ordered, "{act:?}");
    }
}

#[test]
fn fences_order_what_relaxed_operations_tell() {
    for fenced in [true, false] {
        let (mut races, alice, bob) = two();
        does(&mut races, alice, WRITE);
        races.atomic(alice, at(FLAG, 4), AtomicAct::Update, AtomicOrder::Release);
        races.atomic(bob, at(FLAG, 4), AtomicAct::Update, AtomicOrder::Relaxed);
        if fenced {
            races.fence(bob, AtomicOrder::Acquire);
        }
        assert_eq!(does(&mut races, bob, WRITE).is_none(), fenced);
    }
    let (mut races, alice, bob) = two();
    does(&mut races, alice, WRITE);
    races.fence(alice, AtomicOrder::Release);
    races.atomic(alice, at(FLAG, 4), AtomicAct::Store, AtomicOrder::Relaxed);
    races.atomic(bob, at(FLAG, 4), AtomicAct::Load, AtomicOrder::Acquire);
    assert_eq!(does(&mut races, bob, WRITE), None);
}

#[test]
fn whoever_takes_the_last_count_comes_after_the_counts_before() {
    let (mut races, alice, bob) = two();
    races.atomic(alice, at(FLAG, 4), AtomicAct::Update, AtomicOrder::Release);
    races.atomic(bob, at(FLAG, 4), AtomicAct::Update, AtomicOrder::Release);
    assert!(races.freed(bob, at(FLAG, 64)).is_some());
    races.fence(bob, AtomicOrder::Acquire);
    assert!(races.freed(bob, at(FLAG, 64)).is_none());
}

#[test]
fn a_lock_orders_what_two_do_under_it_and_nothing_after_it() {
    let (mut races, alice, bob) = two();
    let lock = Key("mutex", 1);
    does(&mut races, alice, WRITE);
    races.release(alice, lock);
    races.acquire(bob, lock);
    assert_eq!(does(&mut races, bob, WRITE), None);
    assert_eq!(does(&mut races, alice, READ).as_deref(), Some("bob"));
}

#[test]
fn two_that_read_and_two_atomic_operations_do_not_race() {
    let (mut races, alice, bob) = two();
    assert_eq!(does(&mut races, alice, READ), None);
    assert_eq!(does(&mut races, bob, READ), None);
    let atomic = Kind { writes: true, atomic: true };
    let cell = |races: &mut Races, who, kind| races.access(who, at(FLAG, 8), kind).is_some();
    assert!(!cell(&mut races, alice, atomic));
    assert!(!cell(&mut races, bob, atomic));
    assert!(cell(&mut races, bob, WRITE), "a plain one after an atomic one");
}

#[test]
fn bytes_beside_each_other_are_not_the_same() {
    let (mut races, alice, bob) = two();
    assert!(races.access(alice, at(DATA, 4), WRITE).is_none());
    assert!(races.access(bob, at(DATA + 4, 4), WRITE).is_none());
    let race = races.access(bob, at(DATA + 2, 12), READ).expect("two bytes of them");
    assert_eq!((race.addr, race.earlier, &*race.thread), (DATA + 2, WRITE, "alice"));
}

#[test]
fn a_read_that_another_read_comes_after_is_not_forgotten() {
    let (mut races, alice, bob) = two();
    does(&mut races, alice, READ);
    does(&mut races, bob, READ);
    races.release(bob, Key("mutex", 1));
    let carol = races.take_slot("carol".into());
    races.acquire(carol, Key("mutex", 1));
    assert_eq!(does(&mut races, carol, WRITE).as_deref(), Some("alice"));
}

#[test]
fn memory_is_not_freed_under_others_and_then_it_is_new() {
    let (mut races, alice, bob) = two();
    does(&mut races, alice, READ);
    assert!(races.freed(alice, at(DATA, 64)).is_none());
    assert_eq!(races.freed(bob, at(DATA, 64)).map(|race| race.thread).as_deref(), Some("alice"));
    races.shadow.clear(DATA, 64);
    assert_eq!(does(&mut races, bob, WRITE), None);
}

#[test]
fn who_takes_the_place_of_one_that_has_ended_is_another() {
    let (mut races, alice, bob) = two();
    does(&mut races, bob, WRITE);
    for _ in 0..65 {
        let brief = races.take_slot("brief".into());
        races.free.push_back(brief);
    }
    races.free.push_front(alice);
    let dave = races.take_slot("dave".into());
    assert_eq!(dave, alice);
    assert_eq!(does(&mut races, dave, READ).as_deref(), Some("bob"));
    assert!(races.access(dave, at(FLAG, 8), WRITE).is_none());
    assert_eq!(races.access(bob, at(FLAG, 8), READ).map(|race| race.thread).as_deref(), Some("dave"));
}
