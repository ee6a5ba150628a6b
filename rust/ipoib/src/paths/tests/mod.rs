use super::*;
use crate::addr::{Mgid, Qpn};
use crate::numbers::{PKey, Scope};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::format;
use std::sync::Arc;
use std::vec;
use std::vec::Vec;

mod driver;
mod of_port;
mod strangers;

/// A way of this number.
#[derive(Clone, Debug)]
struct Way(Arc<(u32, Validity)>);

impl PartialEq for Way {
    fn eq(&self, other: &Self) -> bool {
        self.0.0 == other.0.0
    }
}

impl Handle for Way {
    fn validity(&self) -> &Validity {
        &self.0.1
    }
}

impl Way {
    /// Whether it is this very one.
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

fn way(number: u32) -> Way {
    Way(Arc::new((number, Validity::new())))
}

type Machine = Paths<u32, Way, Vec<PathSlot<Way>>, Vec<PacketSlot<u32>>, Arc<DenialEpoch>>;

fn machine(config: Config, addresses: usize, packets: usize) -> Machine {
    machine_with(config, addresses, packets, Arc::new(DenialEpoch::new()))
}

fn machine_with(config: Config, addresses: usize, packets: usize, denial_epoch: Arc<DenialEpoch>) -> Machine {
    let addresses = (0..addresses).map(|_| PathSlot::default()).collect();
    let packets = (0..packets).map(|_| PacketSlot::default()).collect();
    Paths::new(config, addresses, packets, denial_epoch, 11)
}

/// What the driver's control thread does.
#[derive(Debug, PartialEq)]
enum Action {
    Lookup(LinkAddr),
    Send(LinkAddr, u32, Way),
    Drop(LinkAddr, u32, DropReason),
}

impl From<super::Action<u32, Way>> for Action {
    fn from(action: super::Action<u32, Way>) -> Self {
        match action {
            super::Action::Send(to, packet, way) => Self::Send(to, packet, way),
            super::Action::Drop(to, packet, reason) => Self::Drop(to, packet, reason),
        }
    }
}

fn peer(n: u8) -> LinkAddr {
    LinkAddr::unicast(Qpn::new(0x48).unwrap(), Gid { prefix: 0xfe80 << 48, guid: u64::from(n) + 1 })
}

fn group() -> LinkAddr {
    group_of(5)
}

fn group_of(last: u8) -> LinkAddr {
    LinkAddr::multicast(Mgid::ipv4([224, 0, 0, last], Scope::LinkLocal, PKey::new(0xffff).unwrap()))
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn ok(number: u32) -> Result<Resolution<Way>, LookupError> {
    Ok(Resolution { handle: way(number), refresh: None, followed: None })
}

fn submit(m: &mut Machine, now: Instant, to: LinkAddr, packet: u32) -> Submitted<u32, Way> {
    m.submit(now, to, Cause::Own.of(true), TxQueue::default(), packet)
}

/// What the driver's control thread does next if every transmit queue has room.
fn next(m: &mut Machine) -> Option<Action> {
    match m.packets_out().first() {
        Some(tx_queue) => m.next_packet(tx_queue).map(Action::from),
        None => m.next_lookup(Instant::ZERO, true).map(|next| match next {
            Next::Ask(to) | Next::Follow(to, ..) => Action::Lookup(to),
        }),
    }
}

/// The handle of an address, as a queue would remember it.
fn handle(m: &Machine, to: LinkAddr) -> Way {
    match m.known(Instant::ZERO, &to) {
        Known::Ready(way, _) => way,
        other => panic!("{to:?} is {other:?}"),
    }
}

fn holds(way: &Way) -> bool {
    way.validity().holds()
}

fn actions(m: &mut Machine) -> Vec<Action> {
    core::iter::from_fn(|| next(m)).collect()
}

#[test]
fn packets_wait_for_one_lookup_and_leave_in_order() {
    let mut m = machine(Config::default(), 4, 8);
    assert_eq!(submit(&mut m, at(0), peer(1), 10), Submitted::Queued(None));
    assert_eq!(submit(&mut m, at(0), peer(1), 11), Submitted::Queued(None));
    assert_eq!(actions(&mut m), [Action::Lookup(peer(1))]);
    assert_eq!(submit(&mut m, at(0), peer(1), 12), Submitted::Queued(None));
    assert_eq!(actions(&mut m), []);
    m.handle_event(at(1), Event::LookedUp(peer(1), ok(7)));
    let sent: Vec<_> = [10, 11, 12].map(|p| Action::Send(peer(1), p, way(7))).into();
    assert_eq!(actions(&mut m), sent);
    assert_eq!(submit(&mut m, at(1), peer(1), 13), Submitted::Ready(13, way(7)));
}

#[test]
fn a_packet_does_not_overtake_those_still_on_their_way_out() {
    let mut m = machine(Config::default(), 4, 8);
    submit(&mut m, at(0), peer(1), 10);
    actions(&mut m);
    m.handle_event(at(1), Event::LookedUp(peer(1), ok(7)));
    assert_eq!(submit(&mut m, at(1), peer(1), 11), Submitted::Queued(None));
    assert_eq!(actions(&mut m), [Action::Send(peer(1), 10, way(7)), Action::Send(peer(1), 11, way(7))]);
    assert_eq!(submit(&mut m, at(1), peer(1), 12), Submitted::Ready(12, way(7)));
}

#[test]
fn packets_of_a_lane_without_room_hold_those_of_no_other() {
    let mut m = machine(Config::default(), 4, 8);
    let tx_queue = TxQueue::new;
    for (n, by, packet) in [(1, 2, 10), (1, 5, 11), (2, 2, 20), (1, 2, 12), (2, 5, 21)] {
        assert_eq!(
            m.submit(at(0), peer(n), Cause::Own.of(true), tx_queue(by), packet),
            Submitted::Queued(None)
        );
    }
    actions(&mut m);
    for n in [1, 2] {
        m.handle_event(at(1), Event::LookedUp(peer(n), ok(n.into())));
    }
    let mut full = TxQueues::NONE;
    full.set(tx_queue(2), true);
    assert_eq!(m.packets_out().without(full).first(), Some(tx_queue(5)));
    let mut taken =
        |by| core::iter::from_fn(|| m.next_packet(tx_queue(by)).map(Action::from)).collect::<Vec<_>>();
    assert_eq!(taken(5), [Action::Send(peer(1), 11, way(1)), Action::Send(peer(2), 21, way(2))]);
    let sent = [(1, 10), (1, 12), (2, 20)].map(|(n, packet)| Action::Send(peer(n), packet, way(n.into())));
    assert_eq!(taken(2), sent);
    assert_eq!(m.packets_out(), TxQueues::NONE);
}

#[test]
fn groups_that_are_not_answered_about_leave_lookups_and_room_to_ports() {
    let mut m = machine(Config { lookups: 2, ..Config::default() }, 16, 8);
    for n in 0..8 {
        submit(&mut m, at(0), group_of(n), n.into());
    }
    assert_eq!(actions(&mut m), [0, 1].map(|n| Action::Lookup(group_of(n))));
    assert_eq!(m.packets_held(), 4, "half of the room");
    for n in 0..4 {
        assert_eq!(submit(&mut m, at(1), peer(n), 10 + u32::from(n)), Submitted::Queued(None));
    }
    assert_eq!(actions(&mut m), [0, 1].map(|n| Action::Lookup(peer(n))));
    m.handle_event(at(2), Event::LookedUp(group_of(0), ok(5)));
    assert_eq!(actions(&mut m), [Action::Send(group_of(0), 0, way(5)), Action::Lookup(group_of(2))]);
}

#[test]
fn the_oldest_packet_gives_way() {
    let mut m = machine(Config { packets_per_address: 2, ..Config::default() }, 4, 8);
    submit(&mut m, at(0), peer(1), 10);
    submit(&mut m, at(0), peer(1), 11);
    assert_eq!(submit(&mut m, at(0), peer(1), 12), Submitted::Queued(Some(10)));
}

#[test]
fn all_fragments_of_a_datagram_wait_while_half_of_the_room_is_free_and_few_of_each_beyond() {
    let mut m = machine(Config::default(), 4, 200);
    for n in 0..72 {
        assert_eq!(submit(&mut m, at(0), peer(1), n), Submitted::Queued(None));
    }
    assert_eq!(submit(&mut m, at(0), peer(1), 72), Submitted::Queued(Some(0)));
    for n in 0..28 {
        assert_eq!(submit(&mut m, at(0), peer(2), 100 + n), Submitted::Queued(None));
    }
    for n in 0..8 {
        assert_eq!(submit(&mut m, at(0), peer(3), 200 + n), Submitted::Queued(None));
    }
    assert_eq!(submit(&mut m, at(0), peer(3), 208), Submitted::Queued(Some(200)));
    assert_eq!(submit(&mut m, at(0), peer(1), 73), Submitted::Queued(Some(1)), "what waits already stays");
}

#[test]
fn a_table_that_grows_forgets_nobody_and_takes_more_in() {
    let mut m = machine(Config::default(), 2, 8);
    for n in [1, 2] {
        submit(&mut m, at(0), peer(n), u32::from(n));
    }
    actions(&mut m);
    assert_eq!(submit(&mut m, at(0), peer(3), 3), Submitted::Dropped(3, DropReason::TableFull));
    let before = m.grow((0..4).map(|_| PathSlot::default()).collect());
    assert_eq!((before.len(), m.capacity()), (2, 4));
    assert_eq!(submit(&mut m, at(0), peer(3), 3), Submitted::Queued(None));
    m.handle_event(at(1), Event::LookedUp(peer(1), ok(7)));
    let all = actions(&mut m);
    assert!(
        all.contains(&Action::Send(peer(1), 1, way(7))) && all.contains(&Action::Lookup(peer(3))),
        "{all:?}"
    );
}

#[test]
fn an_unreachable_peer_costs_one_lookup_per_back_off_and_no_waiting() {
    let mut m = machine(Config::default(), 4, 8);
    submit(&mut m, at(0), peer(1), 10);
    actions(&mut m);
    m.handle_event(at(0), Event::LookedUp(peer(1), Err(LookupError::Absent)));
    assert_eq!(actions(&mut m), [Action::Drop(peer(1), 10, DropReason::Unreachable)]);
    assert!(matches!(
        submit(&mut m, at(0), peer(1), 11),
        Submitted::Denied(11, Denial { reason: DropReason::Unreachable, .. })
    ));
    assert_eq!(actions(&mut m), []);
    assert_eq!(submit(&mut m, at(2), peer(1), 12), Submitted::Queued(None));
    assert_eq!(actions(&mut m), [Action::Lookup(peer(1))]);
}

#[test]
fn a_peer_being_resolved_does_not_disturb_another() {
    let mut m = machine(Config { lookups: 2, ..Config::default() }, 8, 8);
    submit(&mut m, at(0), peer(1), 10);
    actions(&mut m);
    m.handle_event(at(0), Event::LookedUp(peer(1), ok(7)));
    actions(&mut m);
    for n in 2..6 {
        submit(&mut m, at(0), peer(n), u32::from(n));
    }
    assert_eq!(actions(&mut m), [Action::Lookup(peer(2)), Action::Lookup(peer(3))]);
    assert_eq!(submit(&mut m, at(0), peer(1), 11), Submitted::Ready(11, way(7)));
}

#[test]
fn a_full_table_evicts_the_address_used_longest_ago() {
    let mut m = machine(Config::default(), 2, 8);
    for n in [1, 2] {
        submit(&mut m, at(0), peer(n), 0);
        actions(&mut m);
        m.handle_event(at(0), Event::LookedUp(peer(n), ok(u32::from(n))));
        actions(&mut m);
    }
    let known = [1, 2].map(|n| handle(&m, peer(n)));
    known[0].validity().note_use();
    submit(&mut m, at(1), peer(3), 30);
    assert_eq!(actions(&mut m), [Action::Lookup(peer(3))]);
    assert_eq!(known.each_ref().map(holds), [true, false]);
    submit(&mut m, at(1), peer(4), 40);
    assert_eq!(actions(&mut m), [Action::Lookup(peer(4))]);
    assert_eq!(known.each_ref().map(holds), [false, false]);
    assert_eq!(submit(&mut m, at(1), peer(5), 50), Submitted::Dropped(50, DropReason::TableFull));
}

#[test]
fn an_address_that_a_queue_uses_is_not_evicted_for_newcomers() {
    let mut m = machine(Config::default(), 8, 8);
    let mut first = None;
    for n in 0..40 {
        submit(&mut m, at(0), peer(n), n.into());
        actions(&mut m);
        m.handle_event(at(0), Event::LookedUp(peer(n), ok(7)));
        actions(&mut m);
        let first = first.get_or_insert_with(|| handle(&m, peer(0)));
        assert!(holds(first), "evicted for {n}");
        first.validity().note_use();
    }
    assert_eq!(submit(&mut m, at(0), peer(0), 50), Submitted::Ready(50, way(7)));
}

#[test]
fn of_many_addresses_that_are_all_in_use_one_goes_after_a_few_looks() {
    let mut m = knows(1_000);
    let known: Vec<_> = (0..1_000).map(|n| handle(&m, peer_of(n))).collect();
    known.iter().for_each(|way| way.validity().note_use());
    // There is room for two more.
    for n in 1_000..1_002 {
        assert_eq!(submit(&mut m, at(1), peer_of(n), 1), Submitted::Queued(None));
    }
    let before = m.table.visits();
    assert_eq!(submit(&mut m, at(1), peer_of(1_002), 1), Submitted::Queued(None));
    let visits = m.table.visits() - before;
    assert!(visits < 400, "{visits} slots of 1,002 were looked at");
    assert_eq!(known.iter().filter(|way| !holds(way)).count(), 1);
}

#[test]
fn a_handle_that_is_looked_up_again_and_leads_the_same_way_stays_the_one_that_queues_have() {
    let mut m = knows(1);
    let first = handle(&m, peer(0));
    for time in [10, 20] {
        m.handle_event(at(time), Event::GidChanged(peer(0).gid()));
        actions(&mut m);
        m.handle_event(at(time), Event::LookedUp(peer(0), ok(0)));
        assert!(holds(&first));
    }
    m.handle_event(at(30), Event::Forget(peer(0)));
    assert!(!holds(&first), "a queue that remembers the first one would send by it for good");
}

#[test]
fn who_remembers_that_nothing_goes_to_a_peer_asks_again_once_a_peer_is_given_another_chance() {
    let denial_epoch = Arc::new(DenialEpoch::new());
    let mut m = machine_with(Config::default(), 4, 4, denial_epoch.clone());
    let denied = |m: &mut Machine, time| match submit(m, time, peer(1), 9) {
        Submitted::Denied(9, denial) => denial,
        other => panic!("{other:?}"),
    };
    submit(&mut m, at(0), peer(1), 10);
    actions(&mut m);
    m.handle_event(at(0), Event::LookedUp(peer(1), Err(LookupError::Absent)));
    let first = denied(&mut m, at(0));
    assert!(
        first.stands(at(0), &denial_epoch) && !first.stands(at(3), &denial_epoch),
        "a second, and up to a half more"
    );
    let events =
        [Event::GidChanged(peer(1).gid()), Event::Invalidate(Severity::Light), Event::Forget(peer(1))];
    for event in events {
        submit(&mut m, at(5), peer(1), 10);
        actions(&mut m);
        m.handle_event(at(5), Event::LookedUp(peer(1), Err(LookupError::Absent)));
        actions(&mut m);
        let denial = denied(&mut m, at(5));
        assert!(denial.stands(at(5), &denial_epoch));
        m.handle_event(at(5), event.clone());
        assert!(!denial.stands(at(5), &denial_epoch), "after {event:?}");
    }
}

/// A machine that has just looked up `peers` peers, and what each is reached by.
fn knows(peers: u16) -> Machine {
    let mut m = machine(Config::default(), usize::from(peers) + 2, 8);
    for n in 0..peers {
        submit(&mut m, at(0), peer_of(n), n.into());
        actions(&mut m);
        m.handle_event(at(0), Event::LookedUp(peer_of(n), ok(n.into())));
        actions(&mut m);
    }
    m
}

fn peer_of(n: u16) -> LinkAddr {
    LinkAddr::unicast(Qpn::new(0x48).unwrap(), Gid { prefix: 0xfe80 << 48, guid: u64::from(n) + 1 })
}

/// Lets time pass second by second; what was looked up in each, and answered in this way.
fn looked_up_by_second(
    m: &mut Machine,
    seconds: core::ops::Range<u64>,
    answer: impl Fn(LinkAddr) -> Result<Resolution<Way>, LookupError>,
) -> Vec<Vec<LinkAddr>> {
    let one = |second| {
        m.handle_timeout(at(second));
        let mut asked = Vec::new();
        while let Some(action) = next(m) {
            let Action::Lookup(to) = action else { panic!("{action:?} at {second} s") };
            m.handle_event(at(second), Event::LookedUp(to, answer(to)));
            asked.push(to);
        }
        asked
    };
    seconds.map(one).collect()
}

#[test]
fn an_sm_restart_keeps_handles_and_looks_them_up_in_the_background() {
    let mut m = machine(Config::default(), 4, 8);
    submit(&mut m, at(0), peer(1), 10);
    actions(&mut m);
    m.handle_event(at(0), Event::LookedUp(peer(1), ok(7)));
    actions(&mut m);
    m.handle_event(at(1), Event::Invalidate(Severity::Light));
    assert_eq!(submit(&mut m, at(1), peer(1), 11), Submitted::Ready(11, way(7)));
    assert_eq!(actions(&mut m), []);
    m.handle_timeout(at(61));
    assert_eq!(actions(&mut m), [Action::Lookup(peer(1))]);
    m.handle_event(at(69), Event::LookedUp(peer(1), Err(LookupError::Unanswered)));
    assert_eq!(submit(&mut m, at(69), peer(1), 12), Submitted::Ready(12, way(7)));
    m.handle_timeout(at(71));
    assert_eq!(actions(&mut m), [Action::Lookup(peer(1))]);
    let before = handle(&m, peer(1));
    m.handle_event(at(72), Event::LookedUp(peer(1), ok(8)));
    assert_eq!((actions(&mut m), holds(&before)), (vec![], false));
    assert_eq!(submit(&mut m, at(72), peer(1), 13), Submitted::Ready(13, way(8)));
}

#[test]
fn a_thousand_paths_are_looked_up_once_each_in_the_minute_after_an_sm_restart_and_few_in_each_second() {
    let mut m = knows(1_000);
    // The port's new SM and its call to register anew, a moment apart.
    m.handle_event(at(10), Event::Invalidate(Severity::Light));
    let mut asked = looked_up_by_second(&mut m, 10..12, |to| ok(to.gid().guid as u32 - 1));
    m.handle_event(at(12), Event::Invalidate(Severity::Light));
    asked.extend(looked_up_by_second(&mut m, 12..75, |to| ok(to.gid().guid as u32 - 1)));
    let busiest = asked.iter().map(Vec::len).max();
    assert!(busiest <= Some(40), "{busiest:?} lookups in one second");
    let (all, each) = (asked.iter().flatten().count(), asked.iter().flatten().collect::<BTreeSet<_>>().len());
    assert_eq!(each, 1_000);
    assert!(all < 1_000 + 3 * 40, "{all} lookups: more than those of the first two seconds were repeated");
    assert!((0..1_000).all(|n| submit(&mut m, at(75), peer_of(n), 9) == Submitted::Ready(9, way(n.into()))));
}

#[test]
fn an_answer_of_the_sm_before_a_restart_to_who_waits_is_asked_for_again() {
    let mut m = machine(Config::default(), 4, 8);
    submit(&mut m, at(0), peer(1), 10);
    assert_eq!(actions(&mut m), [Action::Lookup(peer(1))]);
    m.handle_event(at(1), Event::Invalidate(Severity::Light));
    assert_eq!(actions(&mut m), [], "one is out");
    m.handle_event(at(2), Event::LookedUp(peer(1), ok(7)));
    assert_eq!(actions(&mut m), [Action::Lookup(peer(1))]);
    m.handle_event(at(3), Event::LookedUp(peer(1), ok(8)));
    assert_eq!(m.way_to_address(&peer(1)), Some(&way(8)));
}

#[test]
fn a_few_paths_are_looked_up_soon_after_an_sm_restart() {
    let mut m = knows(10);
    m.handle_event(at(10), Event::Invalidate(Severity::Light));
    assert_eq!(actions(&mut m), []);
    let asked = looked_up_by_second(&mut m, 11..12, |to| ok(to.gid().guid as u32 - 1));
    assert_eq!(asked[0].len(), 10);
}

#[test]
fn an_sm_that_has_not_looked_around_yet_takes_no_path_that_works() {
    let mut m = knows(100);
    m.handle_event(at(10), Event::Invalidate(Severity::Light));
    let absent = |_| Err(LookupError::Absent);
    let early = looked_up_by_second(&mut m, 10..40, absent);
    assert_eq!(early.iter().flatten().count(), 100, "each was asked about once");
    let late = looked_up_by_second(&mut m, 40..140, |to| ok(to.gid().guid as u32 - 1));
    assert_eq!(late.iter().flatten().collect::<BTreeSet<_>>().len(), 100, "each is asked about again");
    assert!((0..100).all(|n| submit(&mut m, at(140), peer_of(n), 9) == Submitted::Ready(9, way(n.into()))));
}

#[test]
fn a_path_that_the_new_sm_denies_twice_is_gone() {
    let mut m = knows(1);
    m.handle_event(at(10), Event::Invalidate(Severity::Light));
    m.handle_timeout(at(70));
    assert_eq!(actions(&mut m), [Action::Lookup(peer(0))]);
    m.handle_event(at(70), Event::LookedUp(peer(0), Err(LookupError::Absent)));
    assert_eq!(submit(&mut m, at(70), peer(0), 9), Submitted::Ready(9, way(0)));
    m.handle_timeout(at(130));
    assert_eq!(actions(&mut m), [Action::Lookup(peer(0))]);
    let before = handle(&m, peer(0));
    m.handle_event(at(131), Event::LookedUp(peer(0), Err(LookupError::Absent)));
    assert_eq!((actions(&mut m), holds(&before)), (vec![], false));
    assert!(matches!(
        submit(&mut m, at(131), peer(0), 9),
        Submitted::Denied(9, Denial { reason: DropReason::Unreachable, .. })
    ));
}

#[test]
fn a_path_denied_by_an_sm_that_has_not_changed_is_gone_at_once() {
    let mut m = knows(1);
    m.handle_event(at(10), Event::GidChanged(peer(0).gid()));
    assert_eq!(actions(&mut m), [Action::Lookup(peer(0))]);
    m.handle_event(at(10), Event::LookedUp(peer(0), Err(LookupError::Absent)));
    assert!(matches!(
        submit(&mut m, at(10), peer(0), 9),
        Submitted::Denied(9, Denial { reason: DropReason::Unreachable, .. })
    ));
}

#[test]
fn a_lookup_overtaken_by_a_rebuild_is_asked_again_before_anything_is_sent() {
    let mut m = machine(Config::default(), 4, 8);
    submit(&mut m, at(0), peer(1), 10);
    actions(&mut m);
    m.handle_event(at(0), Event::Invalidate(Severity::Normal));
    m.handle_event(at(0), Event::LookedUp(peer(1), ok(7)));
    assert_eq!(actions(&mut m), [Action::Lookup(peer(1))]);
    m.handle_event(at(0), Event::Invalidate(Severity::Heavy));
    assert_eq!(actions(&mut m), [Action::Drop(peer(1), 10, DropReason::LinkReset)]);
    m.handle_event(at(0), Event::LookedUp(peer(1), ok(7)));
    assert_eq!((actions(&mut m), m.len()), (Vec::new(), 0));
}

#[test]
fn idle_addresses_age_out_and_used_ones_are_refreshed() {
    let mut m = machine(Config::default(), 4, 8);
    for n in [1, 2] {
        submit(&mut m, at(0), peer(n), 0);
        actions(&mut m);
        m.handle_event(at(0), Event::LookedUp(peer(n), ok(7)));
    }
    actions(&mut m);
    m.handle_timeout(at(300));
    assert_eq!(actions(&mut m).len(), 2);
    for n in [1, 2] {
        m.handle_event(at(300), Event::LookedUp(peer(n), ok(7)));
    }
    let known = [1, 2].map(|n| handle(&m, peer(n)));
    known[1].validity().note_use();
    m.handle_timeout(at(601));
    assert_eq!(actions(&mut m), [Action::Lookup(peer(2))]);
    assert_eq!(known.each_ref().map(holds), [false, true]);
}

#[test]
fn an_address_does_not_age_out_while_its_lookup_is_out() {
    let mut m = machine(Config::default(), 4, 8);
    submit(&mut m, at(0), peer(1), 10);
    actions(&mut m);
    m.handle_event(at(0), Event::LookedUp(peer(1), ok(7)));
    actions(&mut m);
    m.handle_timeout(at(300));
    actions(&mut m);
    m.handle_event(at(300), Event::LookedUp(peer(1), ok(7)));
    m.handle_event(at(300), Event::Invalidate(Severity::Light));
    m.handle_timeout(at(360));
    assert_eq!(actions(&mut m), [Action::Lookup(peer(1))]);
    m.handle_timeout(at(700));
    assert_eq!((m.len(), m.lookups_in_flight()), (1, 1));
}

#[test]
fn a_group_that_moved_is_resolved_anew() {
    let mut m = machine(Config::default(), 4, 8);
    submit(&mut m, at(0), group(), 10);
    actions(&mut m);
    m.handle_event(at(0), Event::LookedUp(group(), ok(7)));
    actions(&mut m);
    let before = handle(&m, group());
    m.handle_event(at(1), Event::Forget(group()));
    assert_eq!((actions(&mut m), holds(&before)), (vec![], false));
    assert_eq!(submit(&mut m, at(1), group(), 11), Submitted::Queued(None));
}

#[test]
fn a_gid_back_in_service_is_tried_at_once() {
    let mut m = machine(Config::default(), 4, 8);
    submit(&mut m, at(0), peer(1), 10);
    actions(&mut m);
    m.handle_event(at(0), Event::LookedUp(peer(1), Err(LookupError::Absent)));
    actions(&mut m);
    m.handle_event(at(0), Event::GidChanged(peer(1).gid()));
    assert_eq!(submit(&mut m, at(0), peer(1), 11), Submitted::Queued(None));
}

#[test]
fn a_gid_that_changed_is_found_without_a_walk_through_all_addresses() {
    let mut m = knows(20_000);
    // Another queue pair of the same port, and a group.
    let other = LinkAddr::unicast(Qpn::new(0x49).unwrap(), peer_of(7).gid());
    for to in [other, group()] {
        submit(&mut m, at(0), to, 1);
        actions(&mut m);
        m.handle_event(at(0), Event::LookedUp(to, ok(1)));
        actions(&mut m);
    }
    let before = m.table.visits();
    m.handle_event(at(1), Event::GidChanged(peer_of(7).gid()));
    let visits = m.table.visits() - before;
    assert!(visits < 200, "{visits} slots of 20,002 were looked at");
    assert_eq!(actions(&mut m), [Action::Lookup(other)], "one question for both");
}

#[test]
fn ten_thousand_queue_pairs_of_one_port_cost_no_more_than_those_of_as_many() {
    let mut m = machine(Config::default(), 10_000, 8);
    let nth = |n: u32| LinkAddr::unicast(Qpn::new(n + 1).unwrap(), peer(1).gid());
    let ask_all = |m: &mut Machine| {
        let before = m.table.visits();
        (0..10_000).for_each(|n| assert_ne!(m.ask(at(0), nth(n)), Known::Nothing));
        m.table.visits() - before
    };
    let (first, again) = (ask_all(&mut m), ask_all(&mut m));
    assert!(
        first < 1_000_000 && again < 1_000_000,
        "{first} slots looked at for 10,000 new addresses, {again} when they are asked about again"
    );
    let before = m.table.visits();
    (10_000..11_000).for_each(|n| assert_ne!(m.ask(at(0), nth(n)), Known::Nothing));
    let evicting = m.table.visits() - before;
    assert!(evicting < 100_000, "{evicting} slots looked at for 1,000 that evict another one");
}

#[test]
fn a_question_starts_one_lookup_and_is_answered_with_the_age_of_the_path() {
    let mut m = machine(Config::default(), 4, 8);
    assert_eq!(m.ask(at(0), peer(1)), Known::Unresolved);
    assert_eq!(m.ask(at(0), peer(1)), Known::Unresolved);
    assert_eq!(actions(&mut m), [Action::Lookup(peer(1))]);
    m.handle_event(at(2), Event::LookedUp(peer(1), ok(7)));
    assert_eq!(m.known(at(2), &peer(1)), Known::Ready(way(7), Duration::ZERO));
    assert_eq!(m.ask(at(12), peer(1)), Known::Ready(way(7), Duration::from_secs(10)));
    assert_eq!(actions(&mut m), []);
}

#[test]
fn a_question_after_a_failed_lookup_is_told_so_until_the_back_off_is_over() {
    let mut m = machine(Config::default(), 4, 8);
    m.ask(at(0), peer(1));
    actions(&mut m);
    m.handle_event(at(0), Event::LookedUp(peer(1), Err(LookupError::Absent)));
    assert_eq!(m.ask(at(0), peer(1)), Known::Failed(DropReason::Unreachable));
    assert_eq!(actions(&mut m), []);
    assert_eq!(m.ask(at(2), peer(1)), Known::Unresolved);
    assert_eq!(actions(&mut m), [Action::Lookup(peer(1))]);
    m.handle_event(at(2), Event::LookedUp(peer(1), Err(LookupError::Unanswered)));
    assert_eq!(m.known(at(2), &peer(1)), Known::Failed(DropReason::LookupFailed));
}

#[test]
fn packets_are_looked_up_before_what_is_only_asked_about() {
    let mut m = machine(Config { lookups: 1, ..Config::default() }, 8, 8);
    for n in 1..4 {
        m.ask(at(0), peer(n));
    }
    submit(&mut m, at(0), peer(4), 40);
    submit(&mut m, at(0), peer(3), 30);
    for expected in [peer(4), peer(3), peer(1), peer(2)] {
        assert_eq!(next(&mut m), Some(Action::Lookup(expected)));
        m.handle_event(at(0), Event::LookedUp(expected, ok(7)));
        while m.next_packet(TxQueue::default()).is_some() {}
    }
    assert_eq!(next(&mut m), None);
}

#[test]
fn an_address_whose_packet_found_no_room_is_looked_up_after_those_whose_packets_wait() {
    let mut m = machine(Config::default(), 8, 1);
    assert_eq!(submit(&mut m, at(0), peer(2), 20), Submitted::Queued(None));
    assert_eq!(submit(&mut m, at(0), peer(1), 10), Submitted::Dropped(10, DropReason::QueueFull));
    assert_eq!(actions(&mut m), [peer(2), peer(1)].map(Action::Lookup));
    m.handle_event(at(0), Event::LookedUp(peer(1), ok(7)));
    assert_eq!(submit(&mut m, at(1), peer(1), 10), Submitted::Ready(10, way(7)));
}

#[test]
fn a_path_that_is_asked_about_is_refreshed_before_it_is_stale_and_one_that_is_not_ages_out() {
    let mut m = machine(Config::default(), 4, 8);
    for n in [1, 2] {
        m.ask(at(0), peer(n));
        actions(&mut m);
        m.handle_event(at(0), Event::LookedUp(peer(n), ok(7)));
    }
    m.handle_timeout(at(300));
    assert_eq!(actions(&mut m).len(), 2);
    for to in [peer(1), peer(2)] {
        m.handle_event(at(301), Event::LookedUp(to, ok(8)));
    }
    actions(&mut m);
    assert_eq!(m.ask(at(400), peer(1)), Known::Ready(way(8), Duration::from_secs(99)));
    m.handle_timeout(at(602));
    // While the new answer is on its way the old path is told.
    assert_eq!(m.known(at(602), &peer(1)), Known::Ready(way(8), Duration::from_secs(301)));
    assert_eq!(actions(&mut m), [Action::Lookup(peer(1))]);
    assert_eq!(m.known(at(602), &peer(2)), Known::Nothing);
    m.handle_event(at(603), Event::LookedUp(peer(1), ok(8)));
    assert_eq!(m.known(at(603), &peer(1)), Known::Ready(way(8), Duration::ZERO));
}

#[test]
fn a_question_survives_doubt_and_ends_with_the_queue_pair() {
    let mut m = machine(Config::default(), 4, 8);
    m.ask(at(0), peer(1));
    actions(&mut m);
    m.handle_event(at(0), Event::Invalidate(Severity::Normal));
    m.handle_event(at(0), Event::LookedUp(peer(1), ok(7)));
    assert_eq!(m.known(at(0), &peer(1)), Known::Unresolved);
    assert_eq!(actions(&mut m), [Action::Lookup(peer(1))]);
    m.handle_event(at(0), Event::Invalidate(Severity::Heavy));
    m.handle_event(at(0), Event::LookedUp(peer(1), ok(7)));
    assert_eq!((m.known(at(0), &peer(1)), m.len()), (Known::Nothing, 0));
}

#[test]
fn questions_do_not_keep_packets_out_of_a_full_table() {
    let mut m = machine(Config::default(), 2, 8);
    for n in 1..9 {
        assert_eq!(m.ask(at(0), peer(n)), Known::Unresolved);
    }
    assert_eq!(submit(&mut m, at(0), peer(9), 90), Submitted::Queued(None));
    assert_eq!(next(&mut m), Some(Action::Lookup(peer(9))));
}
