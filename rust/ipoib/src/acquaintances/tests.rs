use super::*;
use crate::addr::Qpn;
use core::net::Ipv4Addr;
use proptest::prelude::*;
use std::vec::Vec;

const PLACES: usize = 32;

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn link(n: u64) -> LinkAddr {
    queue_pair(0x48, n)
}

fn queue_pair(qpn: u32, guid: u64) -> LinkAddr {
    LinkAddr::unicast(Qpn::new(qpn).unwrap(), Gid { prefix: 0xfe80 << 48, guid })
}

fn ip(n: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + n))
}

fn new() -> Acquaintances<Vec<AcquaintanceSlot>, Vec<AskedSlot>> {
    let known = (0..PLACES).map(|_| AcquaintanceSlot::default()).collect();
    Acquaintances::new(known, (0..2).map(|_| AskedSlot::default()).collect(), 5)
}

#[test]
fn the_address_that_spoke_longest_ago_is_forgotten_first() {
    let mut known = new();
    let room = 24;
    for n in (1..=room).chain([1, room + 1]) {
        known.hear(at(0), ip(0), &link(n), true);
    }
    let mut flagged = *link(1).as_bytes();
    flagged[0] = LinkAddr::FLAG_CONNECTED;
    assert!(known.know(&LinkAddr::from_bytes(flagged)) && known.know(&link(room + 1)));
    assert!(!known.know(&link(2)));
    known.clear();
    assert!((0..=room + 1).all(|n| !known.know(&link(n))));
}

/// The first answer ended the question: after a forger's the neighbour's own proved nothing.
#[test]
fn an_honest_answer_counts_although_a_forger_was_first() {
    let mut known = new();
    known.hear(at(1), ip(1), &link(1), false);
    assert!(!known.know(&link(1)), "nothing was asked");
    known.ask(at(1), ip(1));
    known.hear(at(1), ip(1), &link(66), false);
    known.hear(at(2), ip(1), &link(1), false);
    assert!(known.know(&link(1)));
    known.hear(at(11), ip(1), &link(2), false);
    assert!(!known.know(&link(2)), "the question is old");
    known.ask(at(20), ip(1));
    known.hear(at(20), ip(1), &link(3), true);
    known.hear(at(20), ip(1), &link(4), false);
    assert!(known.know(&link(3)) && !known.know(&link(4)), "an adapter has vouched for the answer");
}

#[test]
fn the_question_that_is_oldest_gives_way() {
    let mut known = new();
    (1..=3).for_each(|n| known.ask(at(1), ip(n)));
    (1..=3).for_each(|n| known.hear(at(1), ip(n), &link(n.into()), false));
    assert_eq!([1, 2, 3].map(|n| known.know(&link(n))), [false, true, true]);
}

/// A host made up queue pairs under its own GID, and all others were forgotten.
#[test]
fn one_host_takes_the_places_of_one_host() {
    let mut known = new();
    (1..=10).for_each(|n| known.hear(at(1), ip(0), &link(n), true));
    known.ask(at(1), ip(20));
    known.hear(at(1), ip(20), &link(20), false);
    for qpn in 0..600 {
        known.hear(at(2), ip(0), &queue_pair(0x10_0000 + qpn, 66), true);
    }
    assert!((1..=10).chain([20]).all(|n| known.know(&link(n))));
    let of_forger = (0..600).filter(|qpn| known.know(&queue_pair(0x10_0000 + qpn, 66))).count();
    assert_eq!(of_forger, MOST_OF_GID);
    assert!(known.know(&queue_pair(0x10_0000 + 599, 66)), "the latest is one of them");
}

/// A forger that answers whatever IP asks displaces no address that was reached or vouched for.
#[test]
fn forged_answers_take_a_quarter_of_the_places() {
    let mut known = new();
    (1..=4).for_each(|n| known.hear(at(1), ip(0), &link(n), true));
    known.ask(at(1), ip(5));
    for n in 5..=8 {
        known.hear(at(1), ip(5), &link(n), false);
        known.reach(&link(n));
    }
    for n in 1_000..2_000 {
        known.hear(at(1), ip(5), &link(n), false);
    }
    assert!((1..=8).all(|n| known.know(&link(n))));
    assert_eq!((1_000..2_000).filter(|n| known.know(&link(*n))).count(), PLACES / 4);
    assert!(known.know(&link(1_999)));
}

/// Others of a neighbour's GID do not displace the address that it was reached by.
#[test]
fn the_address_in_use_stays_among_forged_ones_of_its_gid() {
    let mut known = new();
    known.hear(at(1), ip(1), &link(1), true);
    known.reach(&link(1));
    known.ask(at(1), ip(1));
    for qpn in 0..100 {
        let forged = queue_pair(0x1000 + qpn, 1);
        known.hear(at(1), ip(1), &forged, false);
        known.reach(&forged);
    }
    assert!(known.know(&link(1)));
}

#[test]
fn those_that_were_never_sent_to_give_way_to_others() {
    let mut known = new();
    known.hear(at(1), ip(1), &link(1), true);
    known.reach(&link(1));
    (2..1_000).for_each(|n| known.hear(at(1), ip(0), &link(n), true));
    assert!(known.know(&link(1)));
}

proptest! {
    #[test]
    fn whatever_is_heard_the_parts_keep_their_bounds(
        steps in prop::collection::vec((0u32..5, 0u32..3, 0u64..40, 0u32..12), 0..400),
    ) {
        let mut known = new();
        for (what, n, guid, qpn) in steps {
            let link = queue_pair(0x48 + qpn, guid % 9 * (guid % 2) + guid);
            match what {
                0 => known.ask(at(1), ip(n)),
                1 | 2 => known.hear(at(1), ip(n), &link, what == 1),
                _ => known.reach(&link),
            }
            let listed = |proof: Proof| {
                let first = known.known.front(proof as usize);
                core::iter::successors(first, |id| known.known.next_listed(proof as usize, *id)).count()
            };
            prop_assert_eq!(listed(Proof::Answered), known.answered);
            prop_assert!(known.answered <= PLACES / 4);
            prop_assert_eq!(Proof::ALL.map(listed).iter().sum::<usize>(), known.known.len());
        }
    }
}
