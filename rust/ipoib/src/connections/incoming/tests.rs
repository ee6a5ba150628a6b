use super::*;
use crate::addr::{Gid, Qpn};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

type Machine = Incoming<Vec<IncomingSlot>>;

fn machine(most: u32, peers: usize) -> Machine {
    let config = IncomingConfig { most, ..IncomingConfig::default() };
    let mut machine = Incoming::new(config, (0..peers).map(|_| IncomingSlot::default()).collect(), 3);
    machine.run();
    machine
}

fn station(n: u64) -> LinkAddr {
    LinkAddr::unicast(Qpn::from_low_bits(0x48), Gid { prefix: 0xfe80 << 48, guid: n + 1 })
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

/// What is dismissed; `sent` says how far a neighbour has sent on a connection.
fn polled(machine: &mut Machine, now: Instant, sent: impl Fn(u64) -> u32) -> Vec<u64> {
    let mut dismissed = Vec::new();
    while let Some(action) = machine.poll_action(now) {
        match action {
            IncomingAction::Dismiss(one) => dismissed.push(one.number),
            IncomingAction::Look(one) => machine.looked(one, Some(sent(one.number)), now),
        }
    }
    dismissed
}

/// The same where nobody sends anything.
fn dismissed(machine: &mut Machine, now: Instant) -> Vec<u64> {
    polled(machine, now, |_| 7)
}

/// The same where everybody sends all the time.
fn dismissed_of_busy(machine: &mut Machine, now: Instant) -> Vec<u64> {
    polled(machine, now, |_| (now - Instant::ZERO).as_millis() as u32)
}

/// One that stands, which the link has looked at once.
fn up(machine: &mut Machine, peer: &LinkAddr, now: Instant) -> Connection {
    let one = machine.requested(peer, now).expect("room");
    machine.established(one, now);
    machine.looked(one, Some(7), now);
    one
}

#[test]
fn of_fifty_connections_of_one_station_two_are_kept_and_the_newest_works() {
    let mut machine = machine(512, 4);
    for n in 0..50 {
        let one = up(&mut machine, &station(1), at(11 * n));
        let gone = dismissed(&mut machine, at(11 * n));
        assert!(gone.len() <= 1 && !gone.contains(&one.number));
        gone.into_iter().for_each(|number| machine.drained(Connection { number, ..one }));
        assert!(machine.held() <= 2);
    }
    assert_eq!(dismissed(&mut machine, at(1_000)), []);
}

#[test]
fn who_claims_a_neighbours_name_ends_no_connection_of_his_that_is_in_use() {
    let mut machine = machine(512, 4);
    let used = up(&mut machine, &station(1), at(0));
    let sent = |number: u64, second: u32| if number == used.number { second } else { 7 };
    let mut refused = 0;
    for second in 1..200 {
        if let Ok(claimed) = machine.requested(&station(1), at(second)) {
            machine.established(claimed, at(second));
            machine.looked(claimed, Some(7), at(second));
        } else {
            refused += 1;
        }
        for number in polled(&mut machine, at(second), |number| sent(number, second as u32)) {
            assert_ne!(number, used.number, "at {second} s");
            machine.drained(Connection { number, ..used });
        }
    }
    assert!(refused > 100);
}

#[test]
fn of_connections_that_are_all_in_use_none_gives_way() {
    let mut machine = machine(8, 1_000);
    (0..8).for_each(|n| _ = up(&mut machine, &station(n), at(0)));
    for n in 8..500 {
        let now = at(n);
        assert_eq!(machine.requested(&station(n), now), Err(Refusal::NoRoom));
        assert_eq!(dismissed_of_busy(&mut machine, now), []);
    }
    assert_eq!(dismissed(&mut machine, at(600)), []);
    assert_eq!(machine.requested(&station(9), at(601)), Err(Refusal::NoRoom));
    // The next one has sent since it was looked at, but that may be long ago.
    assert_eq!(dismissed(&mut machine, at(601)), []);
    assert_eq!(dismissed(&mut machine, at(611)).len(), 1);
}

#[test]
fn a_port_gets_eight_connections_in_whatever_names_and_those_that_are_idle_make_room() {
    let mut machine = machine(512, 40);
    let named = |n: u32| LinkAddr::unicast(Qpn::from_low_bits(0x100 + n), station(1).gid());
    let mut accepted = Vec::new();
    for n in 0..12 {
        if let Ok(one) = machine.requested(&named(n), at(0)) {
            machine.established(one, at(0));
            machine.looked(one, Some(7), at(0));
            accepted.push(one);
        }
    }
    assert_eq!((accepted.len(), machine.held()), (8, 8));
    assert!(machine.requested(&station(2), at(5)).is_ok(), "another port");
    let (mut second, idle) = (5, accepted[3].number);
    while machine.requested(&named(20), at(second)) == Err(Refusal::NoRoom) {
        let sent = |number: u64| if number == idle { 7 } else { second as u32 + 7 };
        for number in polled(&mut machine, at(second), sent) {
            assert_eq!(number, idle);
            machine.drained(accepted[3]);
        }
        second += 1;
    }
    assert!((10..20).contains(&second), "{second} s");
}

#[test]
fn a_station_whose_old_connections_still_drain_gets_no_more_than_three() {
    let mut machine = machine(512, 4);
    let accepted = (0..9).filter(|_| machine.requested(&station(1), at(0)).is_ok()).count();
    assert_eq!((accepted, machine.held()), (3, 3));
    assert_eq!(dismissed(&mut machine, at(0)), [1]);
    // What nobody takes up gives way.
    assert_eq!(machine.requested(&station(1), at(1)), Err(Refusal::NoRoom));
    assert_eq!(dismissed(&mut machine, at(1)), []);
    assert_eq!(machine.requested(&station(1), at(2)), Err(Refusal::NoRoom));
    assert_eq!(dismissed(&mut machine, at(2)), [2]);
}

#[test]
fn an_offer_in_somebodys_name_ends_no_connection_that_stands() {
    let mut machine = machine(512, 4);
    let (first, second) = (up(&mut machine, &station(1), at(0)), up(&mut machine, &station(1), at(1)));
    // Nobody takes these up.
    let offer = machine.requested(&station(1), at(2)).expect("room");
    assert_eq!(machine.requested(&station(1), at(3)), Err(Refusal::NoRoom));
    assert_eq!(dismissed_of_busy(&mut machine, at(3)), []);
    assert_eq!(machine.requested(&station(1), at(4)), Err(Refusal::NoRoom));
    assert_eq!(dismissed_of_busy(&mut machine, at(4)), [offer.number]);
    machine.drained(offer);
    assert_eq!(dismissed_of_busy(&mut machine, at(14)), []);
    // The neighbour itself opens another one, and sends on that only.
    let third = up(&mut machine, &station(1), at(33));
    assert_eq!(polled(&mut machine, at(33), |_| 8), []);
    assert_eq!(polled(&mut machine, at(43), |_| 8), [first.number]);
    assert!(first.number < second.number && second.number < third.number);
}

#[test]
fn strangers_by_the_thousand_get_the_room_there_is_and_those_who_send_keep_theirs() {
    let mut machine = machine(8, 1_000);
    let old: Vec<_> = (0..8).map(|n| up(&mut machine, &station(n), at(0))).collect();
    assert!((8..1_000).all(|n| machine.requested(&station(n), at(5)) == Err(Refusal::NoRoom)));
    assert_eq!(dismissed(&mut machine, at(5)), []);
    let sent = |number: u64, now| if number == old[4].number { 7 } else { now };
    assert_eq!(polled(&mut machine, at(10), |number| sent(number, 10)), [old[4].number]);
    machine.drained(old[4]);
    assert!(machine.requested(&station(9), at(22)).is_ok());
}

#[test]
fn room_is_made_behind_neighbours_none_of_whose_connections_stands() {
    let mut machine = machine(4, 8);
    let drains: Vec<_> = (0..2).map(|n| machine.requested(&station(n), at(0)).expect("room")).collect();
    drains.iter().for_each(|one| machine.ended(*one));
    assert_eq!(dismissed(&mut machine, at(0)).len(), 2);
    let stands = up(&mut machine, &station(3), at(0));
    machine.requested(&station(2), at(19)).expect("room");
    assert_eq!(machine.requested(&station(4), at(20)), Err(Refusal::NoRoom));
    assert_eq!(dismissed(&mut machine, at(20)), [stands.number]);
}

#[test]
fn an_offer_that_nobody_takes_up_ends() {
    let mut machine = machine(8, 8);
    let one = machine.requested(&station(1), at(0)).expect("room");
    assert_eq!(machine.next_deadline(), Some(at(30)));
    assert_eq!(dismissed(&mut machine, at(29)), []);
    assert_eq!(dismissed(&mut machine, at(30)), [one.number]);
    machine.drained(one);
    assert_eq!(machine.held(), 0);
}

#[test]
fn a_stopped_link_refuses_and_dismisses() {
    let mut machine = machine(8, 8);
    let one = machine.requested(&station(1), at(0)).expect("room");
    machine.stop();
    assert_eq!(machine.requested(&station(2), at(0)), Err(Refusal::NotHere));
    assert_eq!(dismissed(&mut machine, at(0)), [one.number]);
    assert_eq!(dismissed(&mut machine, at(100)), []);
}

#[derive(Clone, Debug)]
enum Step {
    Request(u64),
    Establish(usize),
    End(usize),
    Drain(usize),
    Wait(u64),
    Stop,
    Run,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6_u64).prop_map(Step::Request),
        4 => any::<usize>().prop_map(Step::Establish),
        2 => any::<usize>().prop_map(Step::End),
        4 => any::<usize>().prop_map(Step::Drain),
        2 => (0..40_u64).prop_map(Step::Wait),
        1 => Just(Step::Stop),
        1 => Just(Step::Run),
    ]
}

proptest! {
    /// Whatever happens: no more than there is room for, two of a station beside one that drains, each dismissed once, and none left.
    #[test]
    fn what_stations_hold_is_bounded_and_each_is_dismissed_once(steps in prop::collection::vec(step(), 0..200)) {
        let mut machine = machine(5, 4);
        let (mut now, mut known, mut told) = (at(0), Vec::<Connection>::new(), BTreeSet::new());
        for step in steps {
            let pick = |n: usize| known.get(n % known.len().max(1)).copied();
            match step {
                Step::Request(n) => known.extend(machine.requested(&station(n), now)),
                Step::Establish(n) => pick(n).into_iter().for_each(|one| machine.established(one, now)),
                Step::End(n) => pick(n).into_iter().for_each(|one| machine.ended(one)),
                Step::Drain(n) => {
                    if let Some(one) = pick(n).filter(|one| told.contains(&one.number)) {
                        machine.drained(one);
                        known.retain(|other| *other != one);
                    }
                }
                Step::Wait(seconds) => now = now + Duration::from_secs(seconds),
                Step::Stop => machine.stop(),
                Step::Run => machine.run(),
            }
            for number in polled(&mut machine, now, |number| (number % 2) as u32 * (now - at(0)).as_secs() as u32) {
                prop_assert!(told.insert(number), "{number} is dismissed again");
            }
            prop_assert_eq!(machine.held() as usize, known.len());
            prop_assert!(known.len() <= 5);
            let mut each = BTreeMap::new();
            known.iter().for_each(|one| *each.entry(one.peer).or_insert(0) += 1);
            prop_assert!(each.values().all(|of_one| *of_one <= 3));
        }
        machine.stop();
        told.extend(dismissed(&mut machine, now));
        prop_assert!(known.iter().all(|one| told.contains(&one.number)));
        known.into_iter().for_each(|one| machine.drained(one));
        prop_assert_eq!((machine.held(), machine.peers.len()), (0, 0));
    }
}
