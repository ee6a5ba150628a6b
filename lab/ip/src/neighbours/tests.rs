use super::*;
use crate::arp::Operation;

const PEER: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2));
const LINK: LinkAddr = LinkAddr([3; 20]);
const OTHER: LinkAddr = LinkAddr([4; 20]);
const REACHABLE: State = State::Reachable { confirmed: Duration::from_secs(1) };

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn flags(text: &str) -> Flags {
    let has = |letter| text.contains(letter);
    Flags { router: has('R'), solicited: has('S'), overrides: has('O') }
}

/// A neighbour at `LINK` that is in this state.
fn known(state: State) -> Neighbours<u32> {
    let mut table = Neighbours::default();
    table.solicited(at(0), PEER, LINK);
    table.entries.get_mut(&PEER).expect("entered").state = state;
    table
}

fn shown(table: &Neighbours<u32>) -> (LinkAddr, State) {
    let (_, link, state) = table.rows().next().expect("a row");
    (link.expect("a place"), state)
}

fn question(at: Option<LinkAddr>) -> Vec<Question> {
    vec![Question { ip: PEER, at }]
}

#[test]
fn packets_wait_for_the_answer_in_order() {
    let mut table = Neighbours::default();
    assert_eq!(table.lookup(at(0), PEER, 1), Lookup::Ask);
    assert_eq!(table.lookup(at(0), PEER, 2), Lookup::Wait);
    assert_eq!(table.advertised(at(1), PEER, Some(LINK), flags("SO")).0, [1, 2]);
    assert_eq!(table.lookup(at(1), PEER, 3), Lookup::Send(LINK, 3));
    assert_eq!((shown(&table), table.next_timeout()), ((LINK, REACHABLE), None));
}

#[test]
fn a_silent_peer_is_asked_three_times_and_given_up() {
    let mut table = Neighbours::default();
    assert_eq!(table.lookup(at(0), PEER, 1), Lookup::Ask);
    assert_eq!(table.poll(at(1)), question(None));
    assert_eq!(table.poll(at(2)), question(None));
    assert!(table.poll(at(3)).is_empty());
    assert_eq!(table.counters(), Counters { asked: 3, learned: 0, unresolved: 1 });
    assert_eq!(table.next_timeout(), None);
}

/// RFC 4861 section 7.3.3: a neighbour that has not been heard of for a while is asked at its own place, and used meanwhile.
#[test]
fn a_neighbour_in_doubt_is_asked_itself_and_then_forgotten() {
    let mut table = known(REACHABLE);
    assert_eq!(table.lookup(at(31), PEER, 1), Lookup::Send(LINK, 1));
    assert_eq!(table.next_timeout(), None, "thirty seconds are no doubt");
    table.lookup(at(40), PEER, 2);
    assert_eq!(shown(&table).1, State::Delay { until: at(45) });
    assert!(table.stays_until(&PEER, at(40), at(48)) && !table.stays_until(&PEER, at(40), at(49)));
    for second in [45, 46, 47] {
        assert_eq!(table.next_timeout(), Some(at(second)));
        assert_eq!(table.poll(at(second)), question(Some(LINK)));
        assert_eq!(table.lookup(at(second), PEER, 3), Lookup::Send(LINK, 3));
    }
    assert_eq!((table.poll(at(48)), table.poll(at(49))), (vec![], vec![]));
    assert_eq!(table.get(&PEER), None);
    assert_eq!(table.lookup(at(49), PEER, 4), Lookup::Ask);
}

/// RFC 4861 section 7.2.5 and appendix C: what an advertisement does to a neighbour of each state.
#[test]
fn an_advertisement_does_what_its_flags_say() {
    let now = State::Reachable { confirmed: at(9) };
    let delay = State::Delay { until: at(30) };
    let probe = State::Probe { sent: 1, next: at(30) };
    for (before, link, sent, after) in [
        (REACHABLE, Some(OTHER), "", (LINK, State::Stale)),
        (REACHABLE, Some(OTHER), "S", (LINK, State::Stale)),
        (State::Stale, Some(OTHER), "S", (LINK, State::Stale)),
        (delay, Some(OTHER), "S", (LINK, delay)),
        (probe, Some(OTHER), "S", (LINK, probe)),
        (REACHABLE, Some(OTHER), "O", (OTHER, State::Stale)),
        (probe, Some(OTHER), "O", (OTHER, State::Stale)),
        (probe, Some(OTHER), "SO", (OTHER, now)),
        (State::Stale, Some(LINK), "", (LINK, State::Stale)),
        (REACHABLE, Some(LINK), "O", (LINK, REACHABLE)),
        (probe, Some(LINK), "S", (LINK, now)),
        (probe, None, "S", (LINK, now)),
        (probe, None, "O", (LINK, probe)),
    ] {
        let mut table = known(before);
        table.advertised(at(9), PEER, link, flags(sent));
        assert_eq!(shown(&table), after, "{before:?} {link:?} {sent}");
    }
}

#[test]
fn an_advertisement_for_a_question_is_believed_whatever_its_flags() {
    for (sent, state) in [("", State::Stale), ("S", REACHABLE), ("O", State::Stale)] {
        let mut table = Neighbours::default();
        table.lookup(at(0), PEER, 1);
        assert_eq!(table.advertised(at(1), PEER, None, flags(sent)).0, [], "without a place it says nothing");
        assert_eq!(table.advertised(at(1), PEER, Some(OTHER), flags(sent)).0, [1]);
        assert_eq!(shown(&table), (OTHER, state));
    }
}

#[test]
fn a_strangers_advertisement_is_not_entered() {
    let mut table = Neighbours::<u32>::default();
    table.advertised(at(0), PEER, Some(LINK), flags("SO"));
    table.heard_arp(at(0), (PEER, LINK), Operation::Request, false);
    table.heard_arp(at(0), (PEER, LINK), Operation::Reply, true);
    assert_eq!(table.rows().count(), 0);
}

/// `ncec_router_to_host` of illumos.
#[test]
fn a_router_that_is_none_any_more_says_so_once() {
    let mut table = known(REACHABLE);
    let mut told = |sent| table.advertised(at(9), PEER, Some(LINK), flags(sent)).1;
    assert_eq!(["SO", "RSO", "RSO", "SO", "SO"].map(&mut told), [false, false, false, true, false]);
}

/// Of ARP, where nothing says whether an answer was asked for (`ip_nce_resolve_all`).
#[test]
fn a_packet_of_arp_always_tells_where_its_sender_is() {
    let probe = State::Probe { sent: 1, next: at(30) };
    let now = State::Reachable { confirmed: at(9) };
    for (before, link, operation, after) in [
        (REACHABLE, OTHER, Operation::Request, (OTHER, State::Stale)),
        (REACHABLE, LINK, Operation::Request, (LINK, REACHABLE)),
        (probe, LINK, Operation::Request, (LINK, probe)),
        (probe, LINK, Operation::Reply, (LINK, now)),
        (probe, OTHER, Operation::Reply, (OTHER, State::Stale)),
        (State::Stale, LINK, Operation::Reply, (LINK, State::Stale)),
    ] {
        let mut table = known(before);
        table.heard_arp(at(9), (PEER, link), operation, false);
        assert_eq!(shown(&table), after, "{before:?} {operation:?}");
    }
}

#[test]
fn the_queue_of_a_silent_peer_is_bounded() {
    let mut table = Neighbours::default();
    for n in 0..QUEUE as u32 + 36 {
        table.lookup(at(0), PEER, n);
    }
    assert_eq!(table.counters().unresolved, 36);
    assert_eq!(table.solicited(at(0), PEER, LINK).first(), Some(&36));
}

#[test]
fn neighbours_are_bounded_and_those_in_use_stay() {
    let mut table = known(REACHABLE);
    for n in 0..4 * ENTRIES as u32 {
        let asker = IpAddr::from(std::net::Ipv4Addr::from(0x0a00_0000 + n));
        table.heard_arp(at(2), (asker, OTHER), Operation::Request, true);
    }
    assert_eq!(table.rows().count(), ENTRIES);
    assert_eq!(table.get(&PEER), Some(LINK));
}
