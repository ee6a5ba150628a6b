//! Addresses that only answers go to, which any host may have made up.

use super::*;

/// Addresses that no port has, as many as wanted.
fn stranger(n: u32) -> LinkAddr {
    LinkAddr::unicast(Qpn::new(0x48).unwrap(), Gid { prefix: 0xfe80 << 48, guid: 0x1_0000 + u64::from(n) })
}

/// Another queue pair of a port.
fn queue_pair(n: u32) -> LinkAddr {
    LinkAddr::unicast(Qpn::new(0x1000 + n).unwrap(), peer(1).gid())
}

fn millis(millis: u64) -> Instant {
    at(100) + Duration::from_millis(millis)
}

fn answer(m: &mut Machine, now: Instant, to: LinkAddr, known: bool) -> Submitted<u32, Way> {
    m.submit(now, to, Cause::Stranger.of(known), TxQueue::default(), 7)
}

/// What is looked up now.
fn looked_up(m: &mut Machine, now: Instant) -> Vec<LinkAddr> {
    let next = || m.next_lookup(now, true);
    core::iter::from_fn(next)
        .map(|next| match next {
            Next::Ask(to) | Next::Follow(to, ..) => to,
        })
        .collect()
}

/// Lets every packet go that has been decided about.
fn drain(m: &mut Machine) {
    while m.next_packet(TxQueue::default()).is_some() {}
}

/// Strangers took every place for packets, and every lookup.
#[test]
fn strangers_have_a_quarter_of_places_and_lookups() {
    let mut m = machine(Config::default(), 4_000, 1_024);
    let refused = (0..2_000).filter(|n| {
        answer(&mut m, millis(0), stranger(*n), false) == Submitted::Dropped(7, DropReason::Answers)
    });
    assert_eq!((refused.count(), m.len()), (2_000 - 256, 256), "what is refused takes no place in the table");
    assert_eq!(looked_up(&mut m, millis(0)).len(), 4);
    let newcomer = peer(3);
    assert_eq!(answer(&mut m, millis(0), newcomer, true), Submitted::Queued(None));
    assert_eq!(
        m.submit(millis(0), peer(1), Cause::Own.of(true), TxQueue::default(), 1),
        Submitted::Queued(None)
    );
    assert_eq!(looked_up(&mut m, millis(0)), [peer(1)]);
    m.handle_event(millis(1), Event::LookedUp(stranger(0), Err(LookupError::Absent)));
    assert_eq!(looked_up(&mut m, millis(1)), [newcomer], "who speaks for itself goes first");
}

/// A second packet to a stranger, an ordinary one, made it an acquaintance.
#[test]
fn a_host_that_forges_a_question_and_a_ping_stays_a_stranger() {
    let mut m = machine(Config::default(), 4_000, 1_024);
    for n in 0..1_000 {
        answer(&mut m, millis(0), stranger(n), false);
        m.submit(millis(0), stranger(n), Cause::Own.of(false), TxQueue::default(), 8);
    }
    assert_eq!((m.packets_held(), m.answers_held()), (256, 256));
    let own = m.submit(millis(0), peer(1), Cause::Own.of(true), TxQueue::default(), 1);
    assert_eq!(own, Submitted::Queued(None));
    // Ten seconds after the last one was refused nothing has to be proved.
    assert_eq!(
        m.submit(millis(9_000), peer(2), Cause::Own.of(false), TxQueue::default(), 1),
        Submitted::Dropped(1, DropReason::Answers)
    );
    assert_eq!(
        m.submit(millis(20_000), peer(2), Cause::Own.of(false), TxQueue::default(), 1),
        Submitted::Queued(None)
    );
}

/// Each one was a question.
#[test]
fn questions_for_strangers_are_200_and_200_in_a_second() {
    let mut m = machine(Config::default(), 40_000, 1_024);
    let mut asked = 0;
    for n in 0..20_000 {
        let now = millis(u64::from(n) / 10);
        answer(&mut m, now, stranger(n), false);
        for to in looked_up(&mut m, now) {
            asked += 1;
            m.handle_event(now, Event::LookedUp(to, Err(LookupError::Absent)));
        }
        drain(&mut m);
        assert!(m.poll_timeout().is_some_and(|then| then > now), "nothing is due that cannot be done");
    }
    assert_eq!(asked, 200 + 400 - 1);
    let next = m.poll_timeout().expect("the others wait");
    assert!(next <= millis(2_005), "for one more: {next:?}");
}

/// The group that a solicitation for the `n`th made-up address goes to.
fn solicited(n: u32) -> LinkAddr {
    let mut ip = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0];
    ip[13..].copy_from_slice(&n.to_be_bytes()[1..]);
    LinkAddr::multicast(Mgid::ipv6(ip, Scope::LinkLocal, PKey::new(0xffff).unwrap())).canonical().unwrap()
}

fn question(m: &mut Machine, now: Instant, to: LinkAddr, cause: Cause) -> Submitted<u32, Way> {
    m.submit(now, to, cause.of(false), TxQueue::default(), 7)
}

/// Each was a join, and the groups of IP's own packets waited behind thousands.
#[test]
fn joins_that_strangers_cause_are_200_and_200_in_a_second() {
    let mut m = machine(Config::default(), 40_000, 1_024);
    let (mut joins, mut refused) = (0, 0);
    for n in 0..4_000 {
        let now = millis(u64::from(n) / 2);
        let submitted = question(&mut m, now, solicited(n), Cause::Stranger);
        refused += u32::from(submitted == Submitted::Dropped(7, DropReason::Questions));
        for to in looked_up(&mut m, now) {
            joins += 1;
            m.handle_event(now, Event::LookedUp(to, Err(LookupError::Absent)));
        }
        drain(&mut m);
        if n % 500 == 499 {
            let own = group_of((n / 500) as u8);
            question(&mut m, now, own, Cause::Own);
            assert_eq!(looked_up(&mut m, now), [own], "what IP begins does not wait");
            m.handle_event(now, Event::LookedUp(own, ok(7)));
            drain(&mut m);
        }
        assert!(m.poll_timeout().is_some_and(|then| then > now), "nothing is due that cannot be done");
    }
    assert_eq!(joins, 200 + 400 - 1);
    assert_eq!((m.packets_held(), refused), (256, 4_000 - joins - 256), "a quarter of the places");
    // About a neighbour that has spoken for itself.
    let (newcomer, now) = (solicited(1 << 20), millis(2_100));
    assert_eq!(question(&mut m, now, newcomer, Cause::Newcomer), Submitted::Queued(None));
    assert_eq!(looked_up(&mut m, now).first(), Some(&newcomer));
}

/// They took all lookups of groups.
#[test]
fn questions_of_strangers_have_a_quarter_of_lookups_of_groups() {
    let mut m = machine(Config::default(), 4_000, 1_024);
    for n in 0..100 {
        question(&mut m, millis(0), solicited(n), Cause::Stranger);
    }
    assert_eq!(looked_up(&mut m, millis(0)).len(), 4);
    // Its cause is the better of the two.
    question(&mut m, millis(1), solicited(50), Cause::Own);
    assert_eq!(looked_up(&mut m, millis(1)), [solicited(50)]);
    m.handle_event(millis(2), Event::LookedUp(solicited(50), Err(LookupError::Absent)));
    assert_eq!(looked_up(&mut m, millis(2)), [], "it was none of theirs");
    m.handle_event(millis(2), Event::LookedUp(solicited(0), Err(LookupError::Absent)));
    assert_eq!(looked_up(&mut m, millis(2)).len(), 1);
}

/// After a minute of quiet each ping to an address that ARP had told was a question of the link's own: 900 in half a second, and those of
/// neighbours waited behind them.
#[test]
fn addresses_that_have_proved_nothing_are_paid_for() {
    let mut m = machine(Config::default(), 40_000, 1_024);
    let mut asked = 0;
    for n in 0..4_000 {
        let now = millis(u64::from(n) / 2);
        m.submit(now, stranger(n), Cause::Own.of(false), TxQueue::default(), 8);
        for to in looked_up(&mut m, now) {
            asked += 1;
            m.handle_event(now, Event::LookedUp(to, Err(LookupError::Absent)));
        }
        drain(&mut m);
    }
    assert_eq!(asked, 400 + 1_000 - 1);
    assert_eq!(m.packets_held(), 768, "a quarter of the places is for others");
    let now = millis(2_000);
    assert_eq!(m.submit(now, peer(1), Cause::Own.of(true), TxQueue::default(), 1), Submitted::Queued(None));
    assert_eq!(looked_up(&mut m, now).first(), Some(&peer(1)), "a neighbour goes first");
}

/// An SA that is slow answered 16 strangers before each neighbour.
#[test]
fn what_has_proved_nothing_leaves_lookups_to_neighbours() {
    let mut m = machine(Config::default(), 4_000, 1_024);
    for n in 0..100 {
        m.submit(millis(0), stranger(n), Cause::Own.of(false), TxQueue::default(), 8);
    }
    assert_eq!(looked_up(&mut m, millis(0)).len(), 14);
    for n in 0..3 {
        m.submit(millis(0), peer(n), Cause::Own.of(true), TxQueue::default(), 8);
    }
    assert_eq!(looked_up(&mut m, millis(0)), [peer(0), peer(1)]);
}

/// It came when nothing was urgent, which was never.
#[test]
fn what_is_only_asked_about_has_every_fourth_lookup() {
    let mut m = machine(Config { lookups: 1, ..Config::default() }, 4_000, 1_024);
    for n in 0..8 {
        m.ask(millis(0), stranger(n));
        submit(&mut m, millis(0), peer(n as u8), n);
    }
    let mut order = Vec::new();
    while let Some(to) = looked_up(&mut m, millis(0)).pop() {
        order.push(to.gid().guid >= 0x1_0000);
        m.handle_event(millis(0), Event::LookedUp(to, ok(7)));
        drain(&mut m);
    }
    let among_first = order[..8].iter().filter(|only_asked| **only_asked).count();
    assert_eq!((order.len(), among_first), (16, 2));
}

/// Peer 1's port is known, and so many queue pairs of it, of which `used` are sent to.
fn knows_queue_pairs(count: u32, used: u32) -> Machine {
    let mut m = machine(Config::default(), 70_000, 1_024);
    submit(&mut m, at(90), peer(1), 10);
    actions(&mut m);
    m.handle_event(at(90), Event::LookedUp(peer(1), ok(7)));
    drain(&mut m);
    for n in 0..count {
        answer(&mut m, at(100), queue_pair(n), false);
        follow_all(&mut m, at(100));
        if n < used {
            handle(&m, queue_pair(n)).validity().note_use();
        }
    }
    m
}

/// Addresses that follow their port do; those that the SA is asked about.
fn follow_all(m: &mut Machine, now: Instant) -> Vec<LinkAddr> {
    let mut asked = Vec::new();
    while let Some(next) = m.next_lookup(now, true) {
        match next {
            Next::Ask(to) => asked.push(to),
            Next::Follow(to, known, followed) => {
                let refresh = Some(Duration::from_secs(30));
                let found = Resolution { handle: way(known.0.0), refresh, followed: Some(followed) };
                m.handle_event(now, Event::LookedUp(to, Ok(found)));
            }
        }
        drain(m);
    }
    asked
}

/// Each was looked up by itself.
#[test]
fn a_report_about_a_port_is_one_question_however_many_addresses() {
    for used in [0, 100] {
        let mut m = knows_queue_pairs(3_000.min(used + 150), used);
        let before = m.table.visits();
        m.handle_event(at(101), Event::GidChanged(peer(1).gid()));
        let visits = m.table.visits() - before;
        assert!(visits < 20_000, "{visits} slots were looked at");
        assert_eq!(
            m.len(),
            used as usize + 1,
            "those that are sent to, and the one that the SA was asked about"
        );
        let asked = follow_all(&mut m, at(101));
        assert_eq!(asked.len(), 1);
        m.handle_event(at(102), Event::LookedUp(asked[0], ok(9)));
        assert_eq!(follow_all(&mut m, at(102)), [], "the others follow");
        for n in 0..used {
            assert_eq!(m.known(at(103), &queue_pair(n)), Known::Ready(way(9), Duration::from_secs(1)));
        }
    }
}

/// And so it was after half a minute.
#[test]
fn addresses_that_nothing_is_sent_to_are_gone_after_30_s() {
    let mut m = knows_queue_pairs(200, 10);
    m.handle_timeout(at(131));
    assert_eq!(m.len(), 11);
    let asked = follow_all(&mut m, at(131));
    assert_eq!(asked.len(), 1, "one question for those that are sent to");
    m.handle_event(at(132), Event::LookedUp(asked[0], ok(7)));
    assert_eq!(follow_all(&mut m, at(132)), []);
}

#[test]
fn a_port_keeps_256_addresses_and_those_that_are_used() {
    let mut m = knows_queue_pairs(200, 50);
    for n in 200..5_000 {
        (0..50).for_each(|used| handle(&m, queue_pair(used)).validity().note_use());
        answer(&mut m, at(100), queue_pair(n), false);
        follow_all(&mut m, at(100));
        assert!(m.len() <= 256 + 50, "{} addresses", m.len());
    }
    (0..50).for_each(|used| assert!(holds(&handle(&m, queue_pair(used)))));
}

/// The SA denied each by itself.
#[test]
fn what_the_sa_says_of_a_port_it_says_of_all_that_wait() {
    for (error, reason) in
        [(LookupError::Absent, DropReason::Unreachable), (LookupError::Unanswered, DropReason::LookupFailed)]
    {
        let mut m = machine(Config::default(), 100, 100);
        for n in 0..8 {
            assert_eq!(submit(&mut m, at(0), queue_pair(n), n), Submitted::Queued(None));
        }
        assert_eq!(actions(&mut m), [Action::Lookup(queue_pair(0))]);
        m.handle_event(at(1), Event::LookedUp(queue_pair(0), Err(error)));
        let dropped: Vec<_> = (0..8).map(|n| Action::Drop(queue_pair(n), n, reason)).collect();
        assert_eq!(
            BTreeSet::from_iter(actions(&mut m).iter().map(|one| format!("{one:?}"))),
            BTreeSet::from_iter(dropped.iter().map(|one| format!("{one:?}")))
        );
    }
}

/// The table's lock was held for a walk through all of them.
#[test]
fn a_new_sm_puts_a_large_table_in_doubt_step_by_step() {
    let mut m = knows(20_000);
    let before = m.table.visits();
    m.handle_event(at(1), Event::Invalidate(Severity::Light));
    let mut steps = vec![m.table.visits() - before];
    let last = peer_of(19_999);
    let trust = m.table.find(&last).and_then(|id| m.trust_of(id));
    assert_eq!(trust, Some(Trust::Doubted), "before its turn has come");
    while m.poll_timeout() == Some(at(1)) {
        let before = m.table.visits();
        m.handle_timeout(at(1));
        steps.push(m.table.visits() - before);
    }
    let longest = steps.iter().max();
    assert!(steps.len() > 70 && longest < Some(&40_000), "{} steps, {longest:?} slots in one", steps.len());
    let asked = looked_up_by_second(&mut m, 2..62, |to| ok(to.gid().guid as u32 - 1));
    assert_eq!(asked.iter().flatten().collect::<BTreeSet<_>>().len(), 20_000);
}

/// It was taken for an answer that does not come: the address stayed for good, and asked again every half minute.
#[test]
fn an_address_that_lacks_a_handle_ages_and_others_give_theirs() {
    let mut m = knows_queue_pairs(20, 5);
    assert_eq!(m.evict_idle(10), 10);
    assert_eq!(m.len(), 11);
    (0..5).for_each(|n| assert!(holds(&handle(&m, queue_pair(n))), "{n} is in use"));
    m.handle_event(at(101), Event::GidChanged(peer(1).gid()));
    let asked = follow_all(&mut m, at(101));
    m.handle_event(at(101), Event::LookedUp(asked[0], Err(LookupError::NoHandle)));
    for second in 102..200 {
        m.handle_timeout(at(second));
        for to in follow_all(&mut m, at(second)) {
            m.handle_event(at(second), Event::LookedUp(to, Err(LookupError::NoHandle)));
        }
    }
    assert_eq!(m.len(), 0, "nothing was sent to them");
}
