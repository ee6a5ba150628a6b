use super::*;
use crate::addr::{Gid, Qpn};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

mod counts;

type Machine = Incoming<Vec<IncomingSlot>, Vec<PortSlot>>;

fn machine(most: u32, peers: usize) -> Machine {
    let config = IncomingConfig { most, ..IncomingConfig::default() };
    let ports = (0..most).map(|_| PortSlot::default()).collect();
    let mut machine = Incoming::new(config, (0..peers).map(|_| IncomingSlot::default()).collect(), ports, 3);
    machine.run();
    machine
}

const QPN: Qpn = Qpn::from_low_bits(0x48);

fn station(n: u64) -> LinkAddr {
    LinkAddr::unicast(QPN, Gid { prefix: 0xfe80 << 48, guid: n + 1 })
}

/// Where the SA says it is.
fn lid(n: u64) -> u16 {
    0x100 + n as u16
}

/// As the SA would say of [`station`]s, which the link sends to, and of other queue pairs of theirs.
fn sa(identity: &LinkAddr, said: u16) -> LidCheck {
    match (lid(identity.gid().guid - 1) == said, identity.qpn() == QPN) {
        (true, true) => LidCheck::Known,
        (true, false) => LidCheck::Matches,
        (false, _) => LidCheck::Differs,
    }
}

/// Nobody has asked the SA.
fn nobody_knows(_: &LinkAddr, _: u16) -> LidCheck {
    LidCheck::Unknown
}

/// A neighbour asks, from where it is.
fn asked(machine: &mut Machine, peer: &LinkAddr, now: Instant) -> Result<Connection, Refusal> {
    machine.requested(peer, lid(peer.gid().guid - 1), sa, now)
}

/// Somebody asks of whom nobody knows where he is.
fn asked_by_anybody(machine: &mut Machine, peer: &LinkAddr, now: Instant) -> Result<Connection, Refusal> {
    machine.requested(peer, lid(peer.gid().guid - 1), nobody_knows, now)
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
    let one = asked(machine, peer, now).expect("room");
    stands(machine, one, now)
}

fn stands(machine: &mut Machine, one: Connection, now: Instant) -> Connection {
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
fn where_nobody_knows_who_is_where_who_claims_a_name_ends_no_connection_of_it_that_is_in_use() {
    let mut machine = machine(512, 4);
    let used = asked_by_anybody(&mut machine, &station(1), at(0)).expect("room");
    stands(&mut machine, used, at(0));
    let sent = |number: u64, second: u32| if number == used.number { second } else { 7 };
    let mut refused = 0;
    for second in 1..200 {
        if let Ok(claimed) = asked_by_anybody(&mut machine, &station(1), at(second)) {
            stands(&mut machine, claimed, at(second));
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

/// Who claims all identities of a port, and sends all the time, keeps it from nothing once the SA has said where it is.
#[test]
fn a_neighbour_gets_its_connections_whatever_stands_in_its_name_for_another_port() {
    const ELSEWHERE: u16 = 0x999;
    let mut machine = machine(512, 40);
    for n in 0..8 {
        let identity = LinkAddr::unicast(Qpn::from_low_bits(0x48 + n), station(1).gid());
        let one = machine.requested(&identity, ELSEWHERE, nobody_knows, at(0)).expect("room");
        stands(&mut machine, one, at(0));
        let more = machine.requested(&identity, ELSEWHERE + 1 + n as u16, nobody_knows, at(0)).expect("room");
        stands(&mut machine, more, at(0));
    }
    for _ in 0..2 {
        let one = machine.requested(&station(1), ELSEWHERE + 20, nobody_knows, at(0)).expect("room");
        machine.established(one, at(0));
    }
    let mut own: Vec<u64> = Vec::new();
    for second in 1..40 {
        if let Ok(one) = asked(&mut machine, &station(1), at(second)) {
            own.push(stands(&mut machine, one, at(second)).number);
        }
        if let Ok(one) = machine.requested(&station(1), ELSEWHERE, sa, at(second)) {
            stands(&mut machine, one, at(second));
        }
        // It has lost those before the last.
        let lost = |number| own.contains(&number) && own.last() != Some(&number);
        let sent = |number| if lost(number) { 7 } else { 1_000 * second as u32 };
        for number in polled(&mut machine, at(second), sent) {
            machine.drained(Connection { number, peer: station(1) });
        }
    }
    assert!(own.len() > 30, "{own:?}");
}

/// Of the neighbour itself, which the link sends to, whoever else has all that its port could have.
#[test]
fn whom_the_link_sends_to_gets_its_connections_whatever_stands_in_other_names_of_its_port() {
    let mut machine = machine(512, 40);
    let identity = |n: u32| LinkAddr::unicast(Qpn::from_low_bits(0x100 + n), station(1).gid());
    for n in 0..8 {
        up(&mut machine, &identity(n), at(0));
    }
    assert_eq!(asked(&mut machine, &identity(8), at(1)), Err(Refusal::NoRoom), "there are no more of those");
    for n in 1..3 {
        up(&mut machine, &station(1), at(n));
        assert_eq!(dismissed_of_busy(&mut machine, at(n)), []);
    }
}

#[test]
fn where_all_places_are_taken_whom_the_link_sends_to_gets_one_that_somebody_has_for_whom_only_the_sa_speaks()
{
    let mut machine = machine(64, 200);
    let other = |n: u64| LinkAddr::unicast(Qpn::from_low_bits(0x100), station(n).gid());
    let places = (0..100).filter(|n| {
        asked(&mut machine, &other(*n), at(0)).map(|one| stands(&mut machine, one, at(0))).is_ok()
    });
    assert_eq!(places.count(), 56, "the last eighth is not for them");
    (0..8).for_each(|n| _ = up(&mut machine, &station(n), at(1)));
    // All are in use, and whoever has less asks first.
    for n in 8..40 {
        assert_eq!(asked(&mut machine, &station(n), at(n)), Err(Refusal::NoRoom));
        let gone = dismissed_of_busy(&mut machine, at(n));
        assert!(gone.len() == 1 && gone[0] <= 56, "{gone:?}");
        machine.drained(Connection { number: gone[0], peer: other(gone[0] - 1) });
        assert_eq!(asked(&mut machine, &other(n + 100), at(n)), Err(Refusal::NoRoom));
        up(&mut machine, &station(n), at(n));
    }
}

#[test]
fn who_claims_a_known_neighbours_name_and_lid_ends_no_connection_of_it_that_is_in_use() {
    let mut machine = machine(512, 4);
    let used = up(&mut machine, &station(1), at(0));
    let mut claims = 0;
    for tenth in 1..600 {
        let now = at(1) + Duration::from_millis(100 * tenth);
        if let Ok(claimed) = asked(&mut machine, &station(1), now) {
            claims += 1;
            stands(&mut machine, claimed, now);
        }
        for number in polled(&mut machine, now, |number| if number == used.number { tenth as u32 } else { 7 })
        {
            assert_ne!(number, used.number, "after {claims} claims");
            machine.drained(Connection { number, ..used });
        }
    }
    assert!(claims > 20, "{claims}");
}

/// Somebody has all that an identity can have, and uses it, and the neighbour has lost its own.
#[test]
fn a_neighbour_comes_back_though_others_send_on_four_connections_in_its_name() {
    let mut machine = machine(512, 4);
    let mut number = 0;
    while let Ok(claimed) = asked(&mut machine, &station(1), at(0)) {
        number = stands(&mut machine, claimed, at(0)).number;
    }
    assert_eq!(number, 4);
    let comes_back = (1..20).any(|second| {
        for tenth in 0..10 {
            let now = at(second) + Duration::from_millis(100 * tenth);
            for number in polled(&mut machine, now, |_| (now - at(0)).as_millis() as u32) {
                machine.drained(Connection { number, peer: station(1) });
            }
        }
        asked(&mut machine, &station(1), at(second + 1)).is_ok()
    });
    assert!(comes_back);
}

/// The marks of who has many identities are those of his own port.
#[test]
fn who_asks_in_many_names_keeps_nobody_from_being_looked_at_where_all_places_are_taken() {
    let mut machine = machine(64, 200);
    let mut hostile = Vec::new();
    for n in 0..24 {
        let identity = LinkAddr::unicast(Qpn::from_low_bits(0x100 + n), station(u64::from(n) / 8).gid());
        let one = asked_by_anybody(&mut machine, &identity, at(0)).expect("room");
        hostile.push(stands(&mut machine, one, at(0)).number);
    }
    (10..34).for_each(|n| {
        let one = asked_by_anybody(&mut machine, &station(n), at(0)).expect("room");
        stands(&mut machine, one, at(0));
    });
    let sent = |number: u64, second: u64| if hostile.contains(&number) { second as u32 } else { 7 };
    for second in 11..30 {
        for n in 0..3 {
            let identity = LinkAddr::unicast(Qpn::from_low_bits(0x200), station(n).gid());
            assert_eq!(asked_by_anybody(&mut machine, &identity, at(second)), Err(Refusal::NoRoom));
        }
        assert_eq!(asked_by_anybody(&mut machine, &station(50), at(second)), Err(Refusal::NoRoom));
        if !polled(&mut machine, at(second), |number| sent(number, second)).is_empty() {
            return;
        }
    }
    panic!("nobody gives way");
}

#[test]
fn the_ports_of_a_dozen_virtual_machines_at_one_lid_have_their_connections() {
    let mut machine = machine(512, 64);
    let one_lid = |_: &LinkAddr, said: u16| if said == 7 { LidCheck::Matches } else { LidCheck::Differs };
    for n in 0..12 {
        let one = machine.requested(&station(n), 7, one_lid, at(0)).expect("room");
        stands(&mut machine, one, at(0));
    }
    assert_eq!(dismissed_of_busy(&mut machine, at(20)), []);
}

#[test]
fn who_does_not_match_makes_none_give_way_that_does() {
    let mut machine = machine(16, 64);
    for n in 0..12 {
        up(&mut machine, &station(n), at(0));
    }
    for second in 1..60 {
        let stranger = asked_by_anybody(&mut machine, &station(100), at(second));
        assert!(stranger.is_err(), "the last quarter is not for him");
        assert_eq!(dismissed(&mut machine, at(second)), [], "nobody sends anything, and all stay");
    }
}

#[test]
fn one_that_differs_from_what_the_sa_says_gets_one_place_and_is_the_first_to_go() {
    const ELSEWHERE: u16 = 0x999;
    let mut machine = machine(512, 4);
    let claimed = machine.requested(&station(1), ELSEWHERE, sa, at(0)).expect("room");
    stands(&mut machine, claimed, at(0));
    assert_eq!(machine.requested(&station(1), ELSEWHERE + 1, sa, at(0)), Err(Refusal::NoRoom));
    let first = up(&mut machine, &station(1), at(1));
    let second = up(&mut machine, &station(1), at(2));
    // One too many stands: the one that is elsewhere goes, though packets come on it.
    assert_eq!(dismissed_of_busy(&mut machine, at(2)), [claimed.number]);
    assert!(first.number < second.number);
}

#[test]
fn a_neighbour_that_lost_its_connections_and_comes_back_each_second_always_gets_another() {
    let mut machine = machine(512, 4);
    let mut draining = Vec::new();
    for second in 0..60 {
        let one = up(&mut machine, &station(1), at(second));
        // The queue pair of one that is closed is gone a second later.
        draining.drain(..).for_each(|one| machine.drained(one));
        let gone = dismissed(&mut machine, at(second));
        assert!(!gone.contains(&one.number));
        draining.extend(gone.into_iter().map(|number| Connection { number, ..one }));
    }
}

#[test]
fn a_thousand_neighbours_have_a_connection_each_whether_or_not_anybody_knows_where_they_are() {
    for known in [true, false] {
        let most = IncomingConfig::default().most;
        let mut machine = machine(most, most as usize);
        for n in 0..1_000 {
            let asks = if known { asked } else { asked_by_anybody };
            let one = asks(&mut machine, &station(n), at(0)).expect("room");
            stands(&mut machine, one, at(0));
        }
        assert_eq!((machine.held(), dismissed(&mut machine, at(100))), (1_000, Vec::new()));
    }
}

#[test]
fn a_quarter_of_all_places_is_left_to_neighbours_that_are_where_the_sa_says() {
    let mut machine = machine(64, 200);
    let made_up = |machine: &mut Machine, n: u64, now| {
        machine
            .requested(&station(1_000 + n), n as u16 + 1, nobody_knows, now)
            .map(|one| stands(machine, one, now))
    };
    assert_eq!((0..100).filter(|n| made_up(&mut machine, *n, at(0)).is_ok()).count(), 48);
    (0..16).for_each(|n| _ = up(&mut machine, &station(n), at(1)));
    // All are in use.
    for n in 16..32 {
        assert_eq!(asked(&mut machine, &station(n), at(n)), Err(Refusal::NoRoom));
        let gone = dismissed_of_busy(&mut machine, at(n));
        assert!(gone.len() == 1 && gone[0] <= 48, "{gone:?}");
        machine.drained(Connection { number: gone[0], peer: station(999 + gone[0]) });
        assert_eq!(made_up(&mut machine, 100 + n, at(n)).err(), Some(Refusal::NoRoom));
        up(&mut machine, &station(n), at(n));
    }
}

#[test]
fn where_one_neighbour_asks_a_hundred_times_a_second_one_connection_makes_room() {
    let mut machine = machine(512, 1_000);
    let held: Vec<_> = (0..512).map(|n| up(&mut machine, &station(n), at(0))).collect();
    let mut gone = Vec::new();
    for hundredth in 0..3_000_u64 {
        let now = at(20) + Duration::from_millis(10 * hundredth);
        assert_eq!(asked(&mut machine, &station(600), now), Err(Refusal::NoRoom));
        gone.extend(dismissed(&mut machine, now));
    }
    assert_eq!(gone.len(), 1);
    machine.drained(held[gone[0] as usize - 1]);
    up(&mut machine, &station(600), at(60));
    assert_eq!(dismissed(&mut machine, at(100)), [], "there is no other one who asks");
}

#[test]
fn of_connections_that_are_all_in_use_none_gives_way() {
    let mut machine = machine(8, 1_000);
    (0..8).for_each(|n| _ = up(&mut machine, &station(n), at(0)));
    for n in 8..500 {
        let now = at(n);
        assert_eq!(asked(&mut machine, &station(n), now), Err(Refusal::NoRoom));
        assert_eq!(dismissed_of_busy(&mut machine, now), []);
    }
    assert_eq!(dismissed(&mut machine, at(600)), []);
    assert_eq!(asked(&mut machine, &station(9), at(601)), Err(Refusal::NoRoom));
    // The next one has sent since it was looked at, but that may be long ago.
    assert_eq!(dismissed(&mut machine, at(601)), []);
    assert_eq!(dismissed(&mut machine, at(611)).len(), 1);
}

#[test]
fn a_port_gets_eight_connections_in_whatever_names_and_those_that_are_idle_make_room() {
    let mut machine = machine(512, 40);
    let identity = |n: u32| LinkAddr::unicast(Qpn::from_low_bits(0x100 + n), station(1).gid());
    let mut accepted = Vec::new();
    for n in 0..12 {
        if let Ok(one) = asked(&mut machine, &identity(n), at(0)) {
            machine.established(one, at(0));
            machine.looked(one, Some(7), at(0));
            accepted.push(one);
        }
    }
    assert_eq!((accepted.len(), machine.held()), (8, 8));
    assert!(asked(&mut machine, &station(2), at(5)).is_ok(), "another port");
    let (mut second, idle) = (5, accepted[3].number);
    while asked(&mut machine, &identity(20), at(second)) == Err(Refusal::NoRoom) {
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
fn a_station_whose_old_connections_still_drain_gets_no_more_than_four() {
    let mut machine = machine(512, 4);
    let accepted: Vec<_> = (0..9).filter_map(|_| asked(&mut machine, &station(1), at(0)).ok()).collect();
    assert_eq!((accepted.len(), machine.held()), (4, 4));
    assert_eq!(dismissed(&mut machine, at(0)), [1, 2]);
    assert_eq!(asked(&mut machine, &station(1), at(1)), Err(Refusal::NoRoom));
    assert_eq!(dismissed(&mut machine, at(1)), []);
    accepted[..2].iter().for_each(|one| machine.drained(*one));
    asked(&mut machine, &station(1), at(1)).expect("room");
    assert_eq!(dismissed(&mut machine, at(1)), [3]);
}

#[test]
fn an_offer_in_somebodys_name_ends_no_connection_that_stands() {
    let mut machine = machine(512, 4);
    let (first, second) = (up(&mut machine, &station(1), at(0)), up(&mut machine, &station(1), at(1)));
    // Nobody takes these up.
    let offer = asked_by_anybody(&mut machine, &station(1), at(2)).expect("room");
    assert_eq!(dismissed_of_busy(&mut machine, at(2)), []);
    let another = asked_by_anybody(&mut machine, &station(1), at(3)).expect("room");
    assert_eq!(dismissed_of_busy(&mut machine, at(3)), [offer.number]);
    assert_eq!(asked_by_anybody(&mut machine, &station(1), at(4)), Err(Refusal::NoRoom));
    assert_eq!(dismissed_of_busy(&mut machine, at(4)), []);
    machine.drained(offer);
    assert_eq!(dismissed_of_busy(&mut machine, at(14)), []);
    // The neighbour itself opens another one.
    let third = up(&mut machine, &station(1), at(34));
    let sent = |number: u64| if number == first.number { 7 } else { 8 };
    assert_eq!(polled(&mut machine, at(34), sent), [first.number, another.number]);
    assert!(first.number < second.number && second.number < third.number);
}

#[test]
fn strangers_by_the_thousand_get_the_room_there_is_and_those_who_send_keep_theirs() {
    let mut machine = machine(8, 1_000);
    let old: Vec<_> = (0..8).map(|n| up(&mut machine, &station(n), at(0))).collect();
    assert!((8..1_000).all(|n| asked(&mut machine, &station(n), at(5)) == Err(Refusal::NoRoom)));
    assert_eq!(dismissed(&mut machine, at(5)), []);
    let sent = |number: u64, now| if number == old[4].number { 7 } else { now };
    assert_eq!(polled(&mut machine, at(10), |number| sent(number, 10)), [old[4].number]);
    machine.drained(old[4]);
    assert!(asked(&mut machine, &station(9), at(22)).is_ok());
}

#[test]
fn room_is_made_behind_neighbours_none_of_whose_connections_stands() {
    let mut machine = machine(4, 8);
    for n in 0..2 {
        asked(&mut machine, &station(n), at(19)).expect("room");
    }
    let stands = up(&mut machine, &station(3), at(0));
    let offered = asked(&mut machine, &station(2), at(19)).expect("room");
    assert_eq!(asked(&mut machine, &station(4), at(20)), Err(Refusal::NoRoom));
    assert_eq!(dismissed(&mut machine, at(20)), [stands.number]);
    // Room is on its way.
    assert_eq!(asked(&mut machine, &station(4), at(28)), Err(Refusal::NoRoom));
    assert_eq!(dismissed(&mut machine, at(28)), []);
    machine.drained(stands);
    asked(&mut machine, &station(4), at(28)).expect("room");
    assert_eq!(asked(&mut machine, &station(5), at(28)), Err(Refusal::NoRoom));
    assert_eq!(dismissed(&mut machine, at(28)).len(), 1);
    assert!(offered.number > stands.number);
}

#[test]
fn an_offer_that_nobody_takes_up_ends() {
    let mut machine = machine(8, 8);
    let one = asked(&mut machine, &station(1), at(0)).expect("room");
    assert_eq!(machine.next_deadline(), Some(at(30)));
    assert_eq!(dismissed(&mut machine, at(29)), []);
    assert_eq!(dismissed(&mut machine, at(30)), [one.number]);
    machine.drained(one);
    assert_eq!(machine.held(), 0);
}

#[test]
fn a_stopped_link_refuses_and_dismisses() {
    let mut machine = machine(8, 8);
    let one = asked(&mut machine, &station(1), at(0)).expect("room");
    machine.stop();
    assert_eq!(asked(&mut machine, &station(2), at(0)), Err(Refusal::NotHere));
    assert_eq!(dismissed(&mut machine, at(0)), [one.number]);
    assert_eq!(dismissed(&mut machine, at(100)), []);
}

#[derive(Clone, Debug)]
enum Step {
    Request(u64),
    Claim(u64),
    Differ(u64),
    Establish(usize),
    End(usize),
    Drain(usize),
    Wait(u64),
    Stop,
    Run,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6_u64).prop_map(Step::Request),
        2 => (0..6_u64).prop_map(Step::Claim),
        1 => (0..6_u64).prop_map(Step::Differ),
        4 => any::<usize>().prop_map(Step::Establish),
        2 => any::<usize>().prop_map(Step::End),
        4 => any::<usize>().prop_map(Step::Drain),
        2 => (0..40_u64).prop_map(Step::Wait),
        1 => Just(Step::Stop),
        1 => Just(Step::Run),
    ]
}

proptest! {
    /// Whatever happens: no more than there is room for, two of a station beside two that drain, each dismissed once, and none left.
    #[test]
    fn what_stations_hold_is_bounded_and_each_is_dismissed_once(steps in prop::collection::vec(step(), 0..200)) {
        let mut machine = machine(5, 4);
        let (mut now, mut known, mut told) = (at(0), Vec::<Connection>::new(), BTreeSet::new());
        for step in steps {
            let pick = |n: usize| known.get(n % known.len().max(1)).copied();
            match step {
                Step::Request(n) => known.extend(asked(&mut machine, &station(n), now)),
                Step::Claim(n) => known.extend(asked_by_anybody(&mut machine, &station(n), now)),
                Step::Differ(n) => known.extend(machine.requested(&station(n), 0x999, sa, now)),
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
            counts::check(&machine);
            prop_assert!(known.len() <= 5);
            let mut each = BTreeMap::new();
            known.iter().for_each(|one| *each.entry(one.peer).or_insert(0) += 1);
            prop_assert!(each.values().all(|of_one| *of_one <= 4));
        }
        machine.stop();
        told.extend(dismissed(&mut machine, now));
        prop_assert!(known.iter().all(|one| told.contains(&one.number)));
        known.into_iter().for_each(|one| machine.drained(one));
        prop_assert_eq!((machine.held(), machine.peers.len()), (0, 0));
    }
}
