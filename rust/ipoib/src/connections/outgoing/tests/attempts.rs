//! Attempts: how many are out, how long they last, and what waits for them.

use super::*;

/// The attempts that begin now.
fn opens(machine: &mut Machine, now: Instant) -> Vec<Connection> {
    let open = |action| match action {
        Action::Open(connection, _) => Some(connection),
        _ => None,
    };
    actions(machine, now).into_iter().filter_map(open).collect()
}

#[test]
fn stations_are_asked_in_the_order_in_which_they_were_needed() {
    let mut machine = machine(64, 64);
    // Packets of the first eight are out; the others are needed in an order of their own, each a little later.
    let all: Vec<u64> = (0..8).chain((8..40).map(|n| 8 + n * 13 % 32)).collect();
    let (mut now, mut asked, mut out) = (0, Vec::new(), Vec::new());
    for station_number in &all {
        machine.submit(&station(*station_number), (0, LARGE, DATAGRAM), at(now));
        out.extend(opens(&mut machine, at(now)));
        now += 7;
    }
    let mut later = 100;
    while let Some(first) = (!out.is_empty()).then(|| out.remove(0)) {
        asked.push(first.peer);
        machine.failed(first, OpenError::Failed, at(now));
        // Somebody who is needed just when a place is free waits behind the others.
        if later < 110 {
            machine.submit(&station(later), (0, LARGE, DATAGRAM), at(now));
            later += 1;
        }
        out.extend(opens(&mut machine, at(now)));
        now += 50;
    }
    let order: Vec<LinkAddr> = all.into_iter().chain(100..110).map(station).collect();
    assert!(asked == order, "{:?}", asked.iter().map(|peer| peer.gid().guid - 1).collect::<Vec<_>>());
}

#[test]
fn eight_attempts_are_out_at_once_and_the_others_follow_as_they_end() {
    let mut machine = machine(64, 64);
    (0..16)
        .for_each(|n| assert_eq!(machine.submit(&station(n), (0, LARGE, DATAGRAM), at(0)), Submitted::Waits));
    let first = opens(&mut machine, at(0));
    assert_eq!(first.len(), 8);
    assert_eq!(opens(&mut machine, at(100)), []);
    // One stands, and one fails.
    assert!(machine.opened(first[0], Line::new(1), 65_524, at(150)));
    machine.failed(first[1], OpenError::Failed, at(150));
    assert_eq!(opens(&mut machine, at(200)).len(), 2);
    machine.failed(first[2], OpenError::Failed, at(250));
    assert_eq!(opens(&mut machine, at(300)).len(), 1);
}

#[test]
fn what_waits_for_a_stations_turn_to_be_asked_waits_a_second_and_then_its_sender_is_told() {
    let mut machine = machine(40, 40);
    for n in 0..8 {
        assert_eq!(machine.submit(&station(n), (0, LARGE, DATAGRAM), at(0)), Submitted::Waits);
    }
    assert_eq!(actions(&mut machine, at(0)).len(), 8, "as many are out as may be");
    assert_eq!(machine.submit(&station(8), (1, LARGE, DATAGRAM), at(0)), Submitted::Waits);
    let mut now = 0;
    while now < 1_000 {
        assert_eq!(actions(&mut machine, at(now)), []);
        now += 100;
    }
    assert_eq!(actions(&mut machine, at(now)), [Action::Tell(station(8), 1, TooBig(0))]);
    let told = Submitted::TooBig(2, TooBig(DATAGRAM));
    assert_eq!(machine.submit(&station(8), (2, LARGE, DATAGRAM), at(now)), told);
    assert_eq!(machine.submit(&station(8), (3, 500, DATAGRAM), at(now)), Submitted::Datagram(3));
    // Its turn comes all the same.
    let first = Connection { peer: station(0), number: 1 };
    machine.failed(first, OpenError::Failed, at(now));
    let asked = actions(&mut machine, at(now + 100));
    assert!(
        asked.iter().any(|action| matches!(action, Action::Open(one, _) if one.peer == station(8))),
        "{asked:?}"
    );
}

#[test]
fn a_station_that_asks_for_more_time_than_an_answer_takes_is_given_up_and_rests() {
    let mut machine = machine(40, 40);
    let all: Vec<_> = (0..8)
        .map(|n| {
            assert_eq!(machine.submit(&station(n), (n as u32, LARGE, DATAGRAM), at(0)), Submitted::Waits);
            opening(&mut machine, at(0)).0
        })
        .collect();
    for (n, connection) in (0..).zip(&all) {
        assert!(!machine.delayed(*connection, Duration::from_secs(8_796), at(10)));
        let told = Action::Tell(station(n), n as u32, TooBig(0));
        assert_eq!(actions(&mut machine, at(10)), [told, Action::Close(*connection)]);
        let told = Submitted::TooBig(9, TooBig(DATAGRAM));
        assert_eq!(machine.submit(&station(n), (9, LARGE, DATAGRAM), at(10)), told);
    }
    all.into_iter().for_each(|connection| machine.closed(connection, at(20)));
    assert_eq!(machine.submit(&station(8), (1, LARGE, DATAGRAM), at(20)), Submitted::Waits);
    assert_eq!(opening(&mut machine, at(20)).0.peer, station(8));
    let told = Submitted::TooBig(9, TooBig(DATAGRAM));
    assert_eq!(machine.submit(&station(0), (9, LARGE, DATAGRAM), at(20)), told, "it rests");
}

#[test]
fn a_station_that_asks_for_a_little_more_time_gets_that_and_no_more() {
    let mut machine = machine(40, 40);
    let ask = |machine: &mut Machine, n: u64, now| {
        assert_eq!(machine.submit(&station(n), (0, LARGE, DATAGRAM), now), Submitted::Waits);
        let (connection, _) = opening(machine, now);
        assert!(machine.delayed(connection, Duration::from_secs(8), now));
        connection
    };
    let comes = ask(&mut machine, 1, at(0));
    let silent = ask(&mut machine, 2, at(0));
    actions(&mut machine, at(5_000));
    assert!(machine.opened(comes, Line::new(1), 65_524, at(8_100)));
    let given_up = (81..200).find(|n| actions(&mut machine, at(n * 100)).contains(&Action::Close(silent)));
    assert!(given_up.is_some_and(|n| (86..=100).contains(&n)), "{given_up:?}");
}

#[test]
fn what_waits_for_a_station_that_was_asked_waits_no_longer_than_an_answer_usually_takes() {
    let mut machine = machine(40, 40);
    assert_eq!(machine.submit(&station(1), (1, LARGE, DATAGRAM), at(0)), Submitted::Waits);
    let (connection, _) = opening(&mut machine, at(0));
    assert_eq!(machine.submit(&station(1), (2, LARGE, DATAGRAM), at(4_300)), Submitted::Waits);
    assert_eq!(actions(&mut machine, at(4_300)), [], "it is asked four times");
    let told = [1, 2].map(|packet| Action::Tell(station(1), packet, TooBig(0)));
    assert_eq!(actions(&mut machine, at(5_000)), told);
    let told = Submitted::TooBig(3, TooBig(DATAGRAM));
    assert_eq!(machine.submit(&station(1), (3, LARGE, DATAGRAM), at(5_000)), told);
    assert_eq!(machine.submit(&station(1), (4, 64, DATAGRAM), at(5_000)), Submitted::Datagram(4));
    // Its turn in the communication manager came late.
    let line = Line::new(1);
    assert!(machine.opened(connection, line.clone(), 65_524, at(60_000)));
    assert_eq!(
        machine.submit(&station(1), (5, LARGE, DATAGRAM), at(60_000)),
        Submitted::Connected(5, line, 65_524)
    );
}

#[test]
fn attempts_that_fail_come_less_and_less_often() {
    let mut machine = machine(4, 4);
    let (mut now, mut attempts) = (at(0), 0);
    while now < at(3_600_000) {
        machine.submit(&station(1), (0, 64, DATAGRAM), now);
        for action in actions(&mut machine, now) {
            if let Action::Open(connection, _) = action {
                attempts += 1;
                machine.failed(connection, OpenError::Failed, now);
            }
        }
        now = now + Duration::from_millis(100);
    }
    assert!((18..30).contains(&attempts), "{attempts} in an hour");
}
