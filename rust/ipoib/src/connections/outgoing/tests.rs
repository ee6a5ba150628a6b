mod attempts;

use super::*;
use crate::addr::{Gid, Qpn};
use crate::paths::Validity;
use core::time::Duration;
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::vec::Vec;

#[derive(Clone, Debug)]
struct Line(Rc<(Validity, Cell<Option<Instant>>, u64)>);

impl Line {
    fn new(number: u64) -> Self {
        Self(Rc::new((Validity::new(), Cell::new(None), number)))
    }
}

impl PartialEq for Line {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl Channel for Line {
    fn validity(&self) -> &Validity {
        &self.0.0
    }

    fn owes_since(&self) -> Option<Instant> {
        self.0.1.get()
    }
}

type Machine = Outgoing<u32, Line, Vec<OutgoingSlot<Line>>, Vec<WaitingSlot<u32>>>;
type Act = Action<u32, Line>;

const DATAGRAM: u32 = 2_048;
const LARGE: u32 = 30_000;

fn machine(most: u32, peers: usize) -> Machine {
    let config = OutgoingConfig { most, ..OutgoingConfig::default() };
    let slots = (0..peers).map(|_| OutgoingSlot::default()).collect();
    let mut machine = Outgoing::new(config, slots, (0..16).map(|_| WaitingSlot::default()).collect(), 3);
    machine.run();
    machine
}

fn station(n: u64) -> LinkAddr {
    LinkAddr::unicast(Qpn::from_low_bits(0x48), Gid { prefix: 0xfe80 << 48, guid: n + 1 })
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn actions(machine: &mut Machine, now: Instant) -> Vec<Act> {
    core::iter::from_fn(|| machine.poll_action(now)).collect()
}

/// The one attempt that begins now.
fn opening(machine: &mut Machine, now: Instant) -> (Connection, Service) {
    match actions(machine, now)[..] {
        [Action::Open(connection, service)] => (connection, service),
        ref other => panic!("{other:?}"),
    }
}

/// A connection to a station.
fn connected(machine: &mut Machine, n: u64, longest: u32, now: Instant) -> (Connection, Line) {
    assert_eq!(machine.submit(&station(n), (0, LARGE, DATAGRAM), now), Submitted::Waits);
    let (connection, _) = opening(machine, now);
    let line = Line::new(connection.number);
    assert!(machine.opened(connection, line.clone(), longest, now));
    actions(machine, now);
    (connection, line)
}

#[test]
fn datagrams_carry_what_fits_while_a_connection_is_made_and_large_packets_wait_for_it() {
    let mut machine = machine(4, 4);
    assert_eq!(machine.submit(&station(1), (1, LARGE, DATAGRAM), at(0)), Submitted::Waits);
    assert_eq!(machine.submit(&station(1), (2, 64, DATAGRAM), at(0)), Submitted::Datagram(2));
    let (connection, service) = opening(&mut machine, at(0));
    assert_eq!(service, Service::Legacy);
    assert_eq!(machine.submit(&station(1), (3, LARGE, DATAGRAM), at(1)), Submitted::Waits);
    let line = Line::new(1);
    assert!(machine.opened(connection, line.clone(), 65_524, at(2)));
    assert_eq!(
        machine.submit(&station(1), (4, LARGE, DATAGRAM), at(2)),
        Submitted::Waits,
        "behind those that wait"
    );
    let sent = [1, 3, 4].map(|packet| Action::Send(packet, line.clone()));
    assert_eq!(actions(&mut machine, at(2)), sent);
    assert_eq!(machine.submit(&station(1), (5, 64, DATAGRAM), at(3)), Submitted::Connected(5, line, 65_524));
}

#[test]
fn a_packet_does_not_overtake_the_last_one_that_waited_while_that_is_being_sent() {
    let mut machine = machine(4, 4);
    assert_eq!(machine.submit(&station(1), (1, LARGE, DATAGRAM), at(0)), Submitted::Waits);
    let (connection, _) = opening(&mut machine, at(0));
    let line = Line::new(1);
    assert!(machine.opened(connection, line.clone(), 65_524, at(1)));
    assert_eq!(machine.next_packet(), Some(Action::Send(1, line.clone())));
    // Whoever sends the first one has not come back.
    assert_eq!(machine.submit(&station(1), (2, LARGE, DATAGRAM), at(1)), Submitted::Waits);
    assert_eq!(machine.next_packet(), Some(Action::Send(2, line.clone())));
    assert_eq!(machine.next_packet(), None);
    assert_eq!(
        machine.submit(&station(1), (3, LARGE, DATAGRAM), at(1)),
        Submitted::Connected(3, line, 65_524)
    );
}

#[test]
fn a_few_small_packets_within_a_second_are_worth_a_connection_and_slow_ones_are_not() {
    let mut machine = machine(4, 4);
    (0..20).for_each(|n| {
        assert_eq!(machine.submit(&station(1), (0, 64, DATAGRAM), at(n * 400)), Submitted::Datagram(0))
    });
    assert_eq!(actions(&mut machine, at(8_000)), []);
    (0..4).for_each(|n| {
        assert_eq!(machine.submit(&station(2), (0, 64, DATAGRAM), at(9_000 + n)), Submitted::Datagram(0))
    });
    assert_eq!(opening(&mut machine, at(9_003)).0.peer, station(2));
}

#[test]
fn what_waits_behind_a_close_whose_turn_does_not_come_waits_a_second_and_then_its_sender_is_told() {
    let mut machine = machine(4, 4);
    let (connection, _) = connected(&mut machine, 1, 65_524, at(0));
    machine.lost(connection, at(20_000));
    assert_eq!(machine.submit(&station(1), (1, LARGE, DATAGRAM), at(20_000)), Submitted::Waits);
    assert_eq!(actions(&mut machine, at(20_000)), [Action::Close(connection)]);
    assert_eq!(machine.submit(&station(1), (2, LARGE, DATAGRAM), at(20_900)), Submitted::Waits);
    assert_eq!(actions(&mut machine, at(20_900)), []);
    let told = [1, 2].map(|packet| Action::Tell(station(1), packet, TooBig(0)));
    assert_eq!(machine.next_deadline(), Some(at(21_000)));
    assert_eq!(actions(&mut machine, at(21_000)), told);
    assert_eq!(
        machine.submit(&station(1), (3, LARGE, DATAGRAM), at(22_000)),
        Submitted::TooBig(3, TooBig(DATAGRAM))
    );
    assert_eq!(machine.submit(&station(1), (4, 64, DATAGRAM), at(22_000)), Submitted::Datagram(4));
    machine.closed(connection, at(90_000));
    assert_eq!(machine.submit(&station(1), (5, LARGE, DATAGRAM), at(90_000)), Submitted::Waits);
    assert_eq!(actions(&mut machine, at(90_000)).len(), 1);
}

#[test]
fn stations_that_do_not_answer_leave_attempts_for_those_of_whom_that_is_not_known() {
    let mut machine = machine(64, 64);
    (0..8)
        .for_each(|n| assert_eq!(machine.submit(&station(n), (0, LARGE, DATAGRAM), at(0)), Submitted::Waits));
    for action in actions(&mut machine, at(0)) {
        if let Action::Open(connection, _) = action {
            machine.failed(connection, OpenError::Failed, at(4_000));
        }
    }
    actions(&mut machine, at(10_000));
    (0..16).for_each(|n| {
        machine.submit(&station(n), (0, LARGE, DATAGRAM), at(10_000));
    });
    let begun: Vec<u64> = actions(&mut machine, at(10_000))
        .into_iter()
        .filter_map(|action| match action {
            Action::Open(connection, _) => Some(connection.peer.gid().guid - 1),
            _ => None,
        })
        .collect();
    assert_eq!(begun, [0, 1, 2, 3, 8, 9, 10, 11]);
}

#[test]
fn a_station_that_listens_as_the_rfc_says_is_asked_there_second_and_the_next_time_first() {
    let mut machine = machine(4, 4);
    machine.submit(&station(1), (0, LARGE, DATAGRAM), at(0));
    let (first, _) = opening(&mut machine, at(0));
    machine.failed(first, OpenError::of_reject(8), at(1));
    let (second, service) = opening(&mut machine, at(1));
    assert_eq!(service, Service::Ietf);
    assert!(machine.opened(second, Line::new(2), 65_524, at(2)));
    actions(&mut machine, at(2));
    machine.lost(second, at(3));
    assert_eq!(actions(&mut machine, at(3)), [Action::Close(second)]);
    machine.closed(second, at(4));
    machine.submit(&station(1), (1, LARGE, DATAGRAM), at(5));
    assert_eq!(opening(&mut machine, at(5)).1, Service::Ietf);
}

#[test]
fn a_station_that_listens_nowhere_is_left_alone_and_senders_are_told_what_a_datagram_carries() {
    let mut machine = machine(4, 4);
    machine.submit(&station(1), (7, LARGE, DATAGRAM), at(0));
    for _ in 0..2 {
        let (connection, _) = opening(&mut machine, at(0));
        machine.failed(connection, OpenError::NoService, at(0));
    }
    assert_eq!(actions(&mut machine, at(0)), [Action::Tell(station(1), 7, TooBig(0))]);
    assert_eq!(
        machine.submit(&station(1), (8, LARGE, DATAGRAM), at(1)),
        Submitted::TooBig(8, TooBig(DATAGRAM))
    );
    assert_eq!(machine.submit(&station(1), (9, 64, DATAGRAM), at(1)), Submitted::Datagram(9));
    assert_eq!(machine.held(), 0);
    assert!((at(750)..=at(1_000)).contains(&machine.next_deadline().expect("the end of the rest")));
    assert_eq!(actions(&mut machine, at(1_000)), []);
    assert_eq!(machine.submit(&station(1), (8, LARGE, DATAGRAM), at(1_001)), Submitted::Waits);
}

#[test]
fn a_station_that_knows_the_queue_pair_of_before_is_asked_again_soon_and_not_for_ever() {
    let mut machine = machine(4, 4);
    machine.submit(&station(1), (7, LARGE, DATAGRAM), at(0));
    for n in 0..3 {
        let (connection, _) = opening(&mut machine, at(n * 10));
        machine.failed(connection, OpenError::of_reject(10), at(n * 10));
    }
    assert_eq!(actions(&mut machine, at(20)), [Action::Tell(station(1), 7, TooBig(0))]);
}

#[test]
fn no_more_packets_join_those_that_leave_than_waited_and_then_all_go_at_once() {
    let mut machine = machine(4, 16);
    let waits = |machine: &mut Machine, packet| {
        machine.submit(&station(1), (packet, 9_000, DATAGRAM), at(1)) == Submitted::Waits
    };
    let most = OutgoingConfig::default().waiting;
    assert_eq!((0..20).filter(|n| waits(&mut machine, *n)).count() as u32, most);
    let (connection, _) = opening(&mut machine, at(0));
    let line = Line::new(connection.number);
    assert!(machine.opened(connection, line.clone(), 65_524, at(1)));
    assert!((0..20).all(|n| !waits(&mut machine, n)), "there is no room yet");
    let (mut sent, mut joined) = (0, 0);
    while machine.next_packet().is_some() {
        sent += 1;
        joined += u32::from(waits(&mut machine, 100 + sent));
    }
    assert_eq!((joined, sent), (most, 2 * most));
    let next = machine.submit(&station(1), (1, 9_000, DATAGRAM), at(1));
    assert_eq!(next, Submitted::Connected(1, line, 65_524));
}

#[test]
fn a_station_that_takes_less_gets_less_and_who_sends_more_is_told_its_limit() {
    let mut machine = machine(4, 4);
    let (_, line) = connected(&mut machine, 1, 9_000, at(0));
    assert_eq!(
        machine.submit(&station(1), (1, 9_000, DATAGRAM), at(1)),
        Submitted::Connected(1, line, 9_000)
    );
    assert_eq!(machine.submit(&station(1), (2, 9_001, DATAGRAM), at(1)), Submitted::TooBig(2, TooBig(9_000)));
    let (_, _) = connected(&mut machine, 2, 100, at(2));
    assert_eq!(machine.submit(&station(2), (3, 2_000, DATAGRAM), at(3)), Submitted::Datagram(3));
    assert_eq!(
        machine.submit(&station(2), (4, 3_000, DATAGRAM), at(3)),
        Submitted::TooBig(4, TooBig(DATAGRAM))
    );
}

#[test]
fn an_idle_connection_is_closed_once_and_a_used_one_is_not() {
    let mut machine = machine(4, 4);
    let (idle, line) = connected(&mut machine, 1, 65_524, at(0));
    let (_, used) = connected(&mut machine, 2, 65_524, at(0));
    let mut closed = Vec::new();
    for seconds in 0..600 {
        used.validity().note_use();
        closed.extend(actions(&mut machine, at(seconds * 1_000)));
    }
    assert_eq!(closed, [Action::Close(idle)]);
    assert!(!line.validity().holds() && used.validity().holds());
}

#[test]
fn a_silent_station_is_noticed_within_seconds_and_rests_when_its_connection_is_closed() {
    let mut machine = machine(4, 4);
    let (connection, line) = connected(&mut machine, 1, 65_524, at(0));
    line.0.1.set(Some(at(1_000)));
    let closed = (0..100).map(|n| at(n * 100)).find(|now| !actions(&mut machine, *now).is_empty());
    assert!(closed.is_some_and(|now| (at(6_000)..=at(8_500)).contains(&now)), "{closed:?}");
    assert_eq!(machine.submit(&station(1), (1, 64, DATAGRAM), at(8_600)), Submitted::Datagram(1));
    assert_eq!(
        machine.submit(&station(1), (2, LARGE, DATAGRAM), at(8_600)),
        Submitted::TooBig(2, TooBig(DATAGRAM))
    );
    machine.closed(connection, at(8_700));
    assert_eq!(
        machine.submit(&station(1), (2, LARGE, DATAGRAM), at(8_800)),
        Submitted::TooBig(2, TooBig(DATAGRAM))
    );
}

/// The connection to station 1 falls silent at `since`, is closed, and the station rests: for how many milliseconds.
fn rests(machine: &mut Machine, (connection, line): (Connection, Line), since: u64) -> u64 {
    line.0.1.set(Some(at(since)));
    let closed = (since / 100..).find(|n| !actions(machine, at(n * 100)).is_empty()).unwrap() * 100;
    machine.closed(connection, at(closed));
    let again = (0..400_000).step_by(10).map(|n| closed + n).find(|now| {
        actions(machine, at(*now));
        matches!(machine.submit(&station(1), (9, LARGE, DATAGRAM), at(*now)), Submitted::Waits)
    });
    again.unwrap() - closed
}

#[test]
fn a_connection_that_lasted_is_forgiven_what_failed_before_it() {
    let mut machine = machine(4, 4);
    let mut now = 0;
    for _ in 0..4 {
        let up = connected(&mut machine, 1, 65_524, at(now));
        let pause = rests(&mut machine, up, now + 60_000);
        assert!((750..=1_010).contains(&pause), "{pause} ms");
        now += 200_000;
        let (connection, _) = opening(&mut machine, at(now));
        assert!(machine.opened(connection, Line::new(connection.number), 65_524, at(now)));
        actions(&mut machine, at(now));
        // Idle for four minutes.
        now += 250_000;
        assert_eq!(actions(&mut machine, at(now)), [Action::Close(connection)]);
        machine.closed(connection, at(now));
    }
}

#[test]
fn what_waits_when_a_connection_is_lost_for_the_first_time_waits_for_the_next() {
    let mut machine = machine(4, 4);
    assert_eq!(machine.submit(&station(1), (1, LARGE, DATAGRAM), at(0)), Submitted::Waits);
    let (connection, _) = opening(&mut machine, at(0));
    assert!(machine.opened(connection, Line::new(1), 65_524, at(1)));
    machine.lost(connection, at(2));
    assert_eq!(actions(&mut machine, at(2)), [Action::Close(connection)]);
    machine.closed(connection, at(3));
    let (next, _) = opening(&mut machine, at(3));
    let line = Line::new(2);
    assert!(machine.opened(next, line.clone(), 65_524, at(4)));
    assert_eq!(actions(&mut machine, at(4)), [Action::Send(1, line)]);
}

#[test]
fn where_there_is_no_room_the_connection_that_was_not_used_for_longest_goes() {
    let mut machine = machine(2, 8);
    let (first, _) = connected(&mut machine, 1, 65_524, at(0));
    let (second, line) = connected(&mut machine, 2, 65_524, at(0));
    assert_eq!(
        machine.submit(&station(3), (1, LARGE, DATAGRAM), at(1)),
        Submitted::TooBig(1, TooBig(DATAGRAM))
    );
    assert_eq!(actions(&mut machine, at(1)), [], "both were used of late");
    line.validity().note_use();
    assert_eq!(actions(&mut machine, at(11_000)), []);
    assert_eq!(
        machine.submit(&station(3), (1, 3_000, DATAGRAM), at(11_000)),
        Submitted::TooBig(1, TooBig(DATAGRAM))
    );
    assert_eq!(actions(&mut machine, at(11_000)), [Action::Close(first)]);
    machine.closed(first, at(11_001));
    assert_eq!(machine.submit(&station(3), (1, LARGE, DATAGRAM), at(11_002)), Submitted::Waits);
    machine.lost(second, at(11_003));
}

#[test]
fn where_there_is_no_room_one_connection_goes_however_many_packets_ask_for_its_place() {
    let mut machine = machine(2, 8);
    let (first, _) = connected(&mut machine, 1, 65_524, at(0));
    let (_, line) = connected(&mut machine, 2, 65_524, at(0));
    let ask = |machine: &mut Machine, now| {
        for n in 3..5 {
            let told = Submitted::TooBig(1, TooBig(DATAGRAM));
            assert_eq!(machine.submit(&station(n), (1, LARGE, DATAGRAM), now), told);
        }
    };
    ask(&mut machine, at(11_000));
    assert_eq!(actions(&mut machine, at(11_000)), [Action::Close(first)]);
    ask(&mut machine, at(11_001));
    assert_eq!(actions(&mut machine, at(11_001)), []);
    assert!(line.validity().holds());
    machine.closed(first, at(11_002));
    assert_eq!(machine.submit(&station(3), (1, LARGE, DATAGRAM), at(11_002)), Submitted::Waits);
    // The next one wants the place of the other.
    let told = Submitted::TooBig(1, TooBig(DATAGRAM));
    assert_eq!(machine.submit(&station(4), (1, LARGE, DATAGRAM), at(11_003)), told);
    assert!(!line.validity().holds());
}

#[test]
fn a_link_that_stops_closes_all_drops_what_waits_and_late_answers_find_nothing() {
    let mut machine = machine(4, 4);
    let (up, line) = connected(&mut machine, 1, 65_524, at(0));
    machine.submit(&station(2), (5, LARGE, DATAGRAM), at(0));
    let (opened, _) = opening(&mut machine, at(0));
    machine.stop();
    let all = actions(&mut machine, at(0));
    assert!(all.contains(&Action::Drop(station(2), 5)) && all.len() == 3, "{all:?}");
    assert!(!line.validity().holds());
    assert!(!machine.opened(opened, Line::new(9), 65_524, at(1)));
    [up, opened].into_iter().for_each(|connection| machine.closed(connection, at(2)));
    assert_eq!(machine.held(), 0);
    assert_eq!(
        machine.submit(&station(1), (6, LARGE, DATAGRAM), at(3)),
        Submitted::TooBig(6, TooBig(DATAGRAM))
    );
    assert_eq!(machine.submit(&station(3), (7, 64, DATAGRAM), at(3)), Submitted::Datagram(7));
}

#[derive(Clone, Debug)]
enum Step {
    Submit(u64, u32),
    Opened(usize, u32),
    Failed(usize, u8),
    Delayed(usize, u64),
    Lost(usize),
    Closed(usize),
    Wait(u64),
    Stop,
    Run,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => (0..8_u64, prop_oneof![Just(64_u32), Just(LARGE)]).prop_map(|(n, len)| Step::Submit(n, len)),
        5 => (any::<usize>(), prop_oneof![Just(65_524_u32), Just(100)]).prop_map(|(n, most)| Step::Opened(n, most)),
        3 => (any::<usize>(), 0..3_u8).prop_map(|(n, why)| Step::Failed(n, why)),
        3 => (any::<usize>(), 0..20_u64).prop_map(|(n, seconds)| Step::Delayed(n, seconds)),
        3 => any::<usize>().prop_map(Step::Lost),
        5 => any::<usize>().prop_map(Step::Closed),
        3 => (0..20_000_u64).prop_map(Step::Wait),
        1 => Just(Step::Stop),
        1 => Just(Step::Run),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Made {
    Opening,
    Up,
    Closing,
}

proptest! {
    /// Whatever happens, in whatever order the driver's answers come: each packet comes out once, no neighbour has two connections, there
    /// are no more than allowed, each is closed once, and none is left.
    #[test]
    fn every_packet_comes_out_once_and_every_connection_is_closed_once(steps in prop::collection::vec(step(), 0..300)) {
        let mut machine = machine(3, 5);
        let (mut now, mut packet) = (at(0), 0_u32);
        let mut waiting = BTreeSet::new();
        let mut made = BTreeMap::<u64, (Connection, Made)>::new();
        let ends = steps.len();
        for (n, step) in steps.into_iter().chain((0..40).map(|n| if n == 0 { Step::Stop } else { Step::Closed(0) })).enumerate() {
            let pick = |at: usize, wanted: Made| {
                let of_kind: Vec<_> = made.values().filter(|(_, kind)| *kind == wanted).collect();
                of_kind.get(at % of_kind.len().max(1)).map(|(connection, _)| *connection)
            };
            match step {
                Step::Submit(to, len) => {
                    packet += 1;
                    match machine.submit(&station(to), (packet, len, DATAGRAM), now) {
                        Submitted::Waits => drop(waiting.insert(packet)),
                        Submitted::Connected(back, line, longest) => {
                            prop_assert!(back == packet && len <= longest && line.validity().holds());
                        }
                        Submitted::Datagram(back) => prop_assert!(back == packet && len <= DATAGRAM),
                        Submitted::TooBig(back, TooBig(most)) => prop_assert!(back == packet && len > most),
                        Submitted::Full(back) => prop_assert_eq!(back, packet),
                    }
                }
                Step::Opened(at, longest) => {
                    if let Some(connection) = pick(at, Made::Opening) {
                        let wanted = machine.opened(connection, Line::new(connection.number), longest, now);
                        prop_assert!(wanted);
                        made.insert(connection.number, (connection, Made::Up));
                    }
                }
                Step::Failed(at, why) => {
                    if let Some(connection) = pick(at, Made::Opening) {
                        let error = [OpenError::NoService, OpenError::Stale, OpenError::Failed][usize::from(why)];
                        machine.failed(connection, error, now);
                        made.remove(&connection.number);
                    }
                }
                Step::Delayed(at, seconds) => {
                    if let Some(connection) = pick(at, Made::Opening) {
                        machine.delayed(connection, Duration::from_secs(seconds), now);
                    }
                }
                Step::Lost(at) => pick(at, Made::Up).into_iter().for_each(|connection| machine.lost(connection, now)),
                Step::Closed(at) => {
                    if let Some(connection) = pick(at, Made::Closing) {
                        machine.closed(connection, now);
                        made.remove(&connection.number);
                    }
                }
                Step::Wait(millis) => now = now + Duration::from_millis(millis),
                Step::Stop => machine.stop(),
                Step::Run => machine.run(),
            }
            for action in actions(&mut machine, now) {
                match action {
                    Action::Open(connection, _) => {
                        prop_assert!(made.values().all(|(other, _)| other.peer != connection.peer));
                        made.insert(connection.number, (connection, Made::Opening));
                    }
                    Action::Close(connection) => {
                        let was = made.insert(connection.number, (connection, Made::Closing));
                        prop_assert!(matches!(was, Some((_, Made::Opening | Made::Up))), "{was:?}");
                    }
                    Action::Send(packet, line) => {
                        prop_assert!(waiting.remove(&packet) && line.validity().holds());
                    }
                    Action::Tell(_, packet, TooBig(most)) => {
                        prop_assert!(waiting.remove(&packet) && most < LARGE);
                    }
                    Action::Drop(_, packet) => prop_assert!(waiting.remove(&packet)),
                }
            }
            prop_assert!(made.len() <= 3 && machine.held() as usize >= made.len());
            prop_assert!(n <= ends || machine.held() <= 3);
        }
        prop_assert_eq!((made.len(), waiting.len(), machine.held(), machine.closing), (0, 0, 0, 0));
    }
}
