use super::*;
use crate::addr::Mgid;
use crate::numbers::{Mlid, Mtu, PKey, QKey, Rate, Scope};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

mod doubted;
mod generations;
mod outgrown;
mod two_groups;

const PKEY: PKey = PKey::new(0x8001).unwrap();
const QPN: Qpn = Qpn::new(0x48).unwrap();

fn port() -> Port {
    Port {
        active: true,
        gid: Gid { prefix: 0xfe80 << 48, guid: 0xa },
        lid: 3,
        lmc: 0,
        sm_lid: 1,
        pkey_index: Some(0),
        mtu: Mtu::B4096,
        speed: 32_000_000_000,
        speed_is_least: true,
    }
}

fn group(scope: Scope) -> BroadcastGroup {
    BroadcastGroup {
        mgid: Mgid::broadcast(scope, PKEY),
        scope,
        mlid: Mlid::new(0xc000).unwrap(),
        qkey: QKey::IPOIB_DEFAULT,
        mtu: Mtu::B2048,
        rate: Rate::from_code(3),
        sl: 0,
        tclass: 0,
        flow_label: 0,
        hop_limit: 0,
    }
}

/// The fabric a link meets, and what it has done there.
struct World {
    link: Link<u16>,
    now: Instant,
    port: Option<Port>,
    /// Where the group is; `None`: nobody has it.
    group: Option<BroadcastGroup>,
    /// What another host has made, in another scope.
    second: Option<BroadcastGroup>,
    may_create: bool,
    answers: bool,
    /// The SA lists the group and refuses to let the port in.
    denies: bool,
    /// The same of the second group.
    denies_second: bool,
    /// It says nothing about the second group.
    hides_second: bool,
    /// The SA does what it is asked, and what it says is lost.
    loses_answers: bool,
    /// Who the SA has in which group.
    members: BTreeSet<(Mgid, Gid)>,
    builds: bool,
    joins: u32,
    leaves: u32,
    /// Joins that another one undoes.
    owed: u32,
    queue_pairs: u32,
    /// The MLID of the broadcast group that it was attached to last.
    attached_to: Option<u16>,
    pending: Vec<Action<u16>>,
    status: Status,
    notes: Vec<Note>,
    severities: Vec<Severity>,
    addresses: Vec<LinkAddr>,
    finds: u32,
}

impl World {
    fn new() -> Self {
        Self::seeded(9)
    }

    fn seeded(seed: u64) -> Self {
        Self {
            link: Link::new(Config::new(PKEY), seed),
            now: Instant::ZERO,
            port: Some(port()),
            group: Some(group(Scope::LinkLocal)),
            second: None,
            may_create: true,
            answers: true,
            denies: false,
            denies_second: false,
            hides_second: false,
            loses_answers: false,
            members: BTreeSet::new(),
            builds: true,
            joins: 0,
            leaves: 0,
            owed: 0,
            queue_pairs: 0,
            attached_to: None,
            pending: Vec::new(),
            status: Status::Stopped,
            notes: Vec::new(),
            severities: Vec::new(),
            addresses: Vec::new(),
            finds: 0,
        }
    }

    fn event(&mut self, event: Event<u16>) {
        self.link.handle_event(self.now, event);
    }

    /// The generation that was drawn last fails, whether or not it stands.
    fn fails(&mut self, event: fn(Generation) -> Event<u16>) {
        if let Some(latest) = self.link.latest() {
            self.event(event(latest));
        }
    }

    fn poll(&mut self) -> bool {
        let Some(action) = self.link.poll_action(self.now) else { return false };
        match action {
            Action::TearDown(_) => {
                assert_eq!(self.queue_pairs, 1, "teardown of nothing");
                self.queue_pairs = 0;
            }
            Action::Invalidate(severity) => self.severities.push(severity),
            Action::Address(address) => {
                assert_ne!(self.addresses.last(), Some(&address), "told twice");
                self.addresses.push(address);
            }
            Action::Announce(status) => {
                assert_ne!(status, self.status, "announced twice");
                self.status = status;
            }
            Action::Note(note) => self.notes.push(note),
            // Its owner has time.
            Action::Owe { mgid, gid, joins } => {
                self.owed += joins;
                self.members.remove(&(mgid, gid));
            }
            request => self.pending.push(request),
        }
        true
    }

    fn stop(&mut self) {
        self.queue_pairs = 0;
        self.addresses.clear();
        self.event(Event::Stop);
    }

    fn find(&self, mgid: Mgid) -> Result<Option<BroadcastGroup>, SaError> {
        let hides = self.hides_second && self.second.is_some_and(|group| group.mgid == mgid);
        match self.answers && !hides {
            false => Err(SaError::Unanswered(10)),
            true => Ok([self.group, self.second].into_iter().flatten().find(|group| group.mgid == mgid)),
        }
    }

    fn join(&mut self, gid: Gid, mgid: Mgid) -> Result<(BroadcastGroup, u16), SaError> {
        if !self.answers {
            return Err(SaError::Unanswered(10));
        }
        let second = self.second.filter(|group| group.mgid == mgid);
        if self.denies || second.is_some() && self.denies_second {
            return Err(SaError::Refused(15));
        }
        if self.group.is_none() && second.is_none() && self.may_create {
            self.group = mgid.scope().map(group);
        }
        let first = self.group.filter(|group| group.mgid == mgid);
        let group = second.or(first).ok_or(SaError::Refused(15))?;
        self.members.insert((mgid, gid));
        if self.loses_answers {
            return Err(SaError::Unanswered(10));
        }
        self.joins += 1;
        Ok((group, group.mlid.get()))
    }

    fn answer(&mut self, index: usize) {
        let event = match self.pending.remove(index) {
            Action::QueryPort(ticket) => Event::Port(ticket, self.port),
            Action::Find(ticket, mgid) => {
                self.finds += 1;
                Event::Found(ticket, self.find(mgid))
            }
            Action::Join(ticket, gid, mgid, _) => Event::Joined(ticket, gid, mgid, self.join(gid, mgid)),
            // As fast as the port says, if anybody says so.
            Action::AskRate(gid) => Event::Rate(gid, self.answers.then_some(Rate::from_code(7)).flatten()),
            Action::Leave { mgid, gid, joins } => {
                let owed = if self.port.is_some() { None } else { Some(joins) };
                if owed.is_none() {
                    self.leaves += joins;
                    self.members.remove(&(mgid, gid));
                }
                Event::Left { mgid, gid, owed }
            }
            Action::Make(ticket, _) => Event::Built(ticket, self.builds.then_some(QPN)),
            Action::Build(ticket, _, mlid) => {
                self.attached_to = self.builds.then_some(mlid);
                if self.builds && self.link.is_wanted(ticket) {
                    assert_eq!(self.queue_pairs, 0, "a second queue pair");
                    self.queue_pairs = 1;
                }
                Event::Built(ticket, self.builds.then_some(QPN))
            }
            Action::Attach(ticket, mlid) => {
                self.attached_to = self.builds.then_some(mlid);
                Event::Built(ticket, self.builds.then_some(QPN))
            }
            other => panic!("{other:?} is not answered"),
        };
        self.event(event);
    }

    /// Answers everything until nothing is left to do now.
    fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 100, "the machine does not come to rest");
            while self.poll() {}
            if self.pending.is_empty() {
                return;
            }
            self.answer(0);
        }
    }

    /// Lets time pass up to the next timer, and settles; `false` if there is none.
    fn wait(&mut self) -> bool {
        let Some(next) = self.link.poll_timeout() else { return false };
        self.now = self.now.max(next);
        self.link.handle_timeout(self.now);
        self.settle();
        true
    }

    /// Nothing speaks against the membership in the broadcast group.
    fn is_joined(&self) -> bool {
        self.link.broadcast_state() == BroadcastState::Joined
    }

    fn is_up(&self) -> bool {
        matches!(self.status, Status::Up(_))
    }
}

fn started() -> World {
    let mut world = World::new();
    world.event(Event::Start);
    world.settle();
    assert!(world.is_up());
    world.severities.clear();
    world
}

#[test]
fn a_link_with_everything_in_place_comes_up_at_once() {
    let world = started();
    let up = Up {
        address: LinkAddr::unicast(QPN, port().gid),
        mtu: Mtu::B2048,
        speed: 32_000_000_000,
        scope: Scope::LinkLocal,
    };
    assert_eq!(world.status, Status::Up(up));
    let verify = world.now + Config::new(PKEY).verify;
    assert_eq!((world.joins, world.link.poll_timeout()), (1, Some(verify)));
}

/// A link that has just been started, without a subnet administrator; what of its address is known.
fn address_without_an_administrator(port: Option<Port>) -> (World, Option<LinkAddr>) {
    let mut world = World::new();
    (world.answers, world.port) = (false, port);
    world.event(Event::Start);
    world.settle();
    let address = world.link.address();
    (world, address)
}

#[test]
fn the_address_is_known_without_a_subnet_administrator_and_stays_what_it_is() {
    let own = LinkAddr::unicast(QPN, port().gid);
    for active in [true, false] {
        let (mut world, address) = address_without_an_administrator(Some(Port { active, ..port() }));
        assert_eq!((address, world.is_up(), world.addresses.as_slice()), (Some(own), false, &[own][..]));
        (world.answers, world.port) = (true, Some(port()));
        while !world.is_up() {
            assert!(world.wait());
        }
        world.port = Some(Port { active: false, gid: Gid { prefix: 0xfe80 << 48, guid: 99 }, ..port() });
        world.event(Event::PortEvent);
        world.settle();
        assert_eq!((world.link.address(), world.addresses.len()), (Some(own), 1), "a port that is down");
        world.fails(Event::Broken);
        world.port = Some(port());
        world.event(Event::PortEvent);
        world.settle();
        assert_eq!((world.is_up(), world.addresses.len()), (true, 1));
    }
}

#[test]
fn a_port_without_the_p_key_or_without_an_answer_gives_no_address_until_it_has_one() {
    let own = LinkAddr::unicast(QPN, port().gid);
    for port in [None, Some(Port { pkey_index: None, ..port() })] {
        let (mut world, address) = address_without_an_administrator(port);
        assert_eq!((address, world.link.gid()), (None, port.map(|port| port.gid)));
        world.port = Some(self::port());
        world.event(Event::PortEvent);
        world.settle();
        assert_eq!((world.link.address(), world.addresses.as_slice()), (Some(own), &[own][..]));
    }
}

#[test]
fn a_link_that_is_started_again_says_its_address_also_if_it_is_the_one_of_before() {
    let mut world = started();
    world.settle();
    let own = LinkAddr::unicast(QPN, port().gid);
    assert_eq!(world.addresses, [own]);
    world.stop();
    world.settle();
    world.event(Event::Start);
    world.settle();
    assert_eq!(world.addresses, [own]);
}

#[test]
fn what_was_known_of_the_port_at_an_earlier_start_makes_no_address() {
    let mut world = started();
    world.stop();
    world.settle();
    world.port = Some(Port { gid: Gid { prefix: 0xfec0 << 48, guid: 7 }, ..port() });
    world.event(Event::Start);
    while world.poll() {}
    assert_eq!(world.link.address(), None);
    world.settle();
    assert_eq!(world.link.address().map(|address| address.gid().prefix), Some(0xfec0 << 48));
}

#[test]
fn the_broadcast_group_is_found_in_a_wider_scope() {
    let mut world = World::new();
    world.group = Some(group(Scope::OrganisationLocal));
    world.event(Event::Start);
    world.settle();
    assert!(matches!(world.status, Status::Up(Up { scope: Scope::OrganisationLocal, .. })));
}

#[test]
fn a_group_nobody_has_is_created() {
    let mut world = World::new();
    world.group = None;
    world.event(Event::Start);
    world.settle();
    assert!(world.is_up());
    assert_eq!((world.finds, world.joins), (4, 1));
}

#[test]
fn without_leave_to_create_the_link_waits_for_the_group_to_appear() {
    let mut world = World::new();
    world.group = None;
    world.link.set_create(false);
    world.event(Event::Start);
    world.settle();
    assert_eq!(world.status, Status::Down(WaitsFor::BroadcastGroup));
    assert_eq!(world.notes, [Note::BroadcastAbsent]);
    world.group = Some(group(Scope::SiteLocal));
    world.event(Event::Appeared(group(Scope::SiteLocal).mgid));
    world.settle();
    assert!(world.is_up());
}

#[test]
fn a_group_that_appears_in_the_scope_being_asked_about_is_found_without_a_pause() {
    for asked in 0..4 {
        let mut world = World::new();
        world.group = None;
        world.link.set_create(false);
        world.event(Event::Start);
        let find = |action: &Action<u16>| matches!(action, Action::Find(..));
        while world.finds < asked || !world.pending.iter().any(find) {
            assert!(world.poll() || !world.pending.is_empty(), "at rest before it has asked {asked} times");
            match world.pending.iter().position(|action| !find(action) || world.finds < asked) {
                Some(answer) => world.answer(answer),
                None => continue,
            }
        }
        // The answer to the question that is out was decided before.
        let Some(Action::Find(ticket, _)) = world.pending.pop() else { panic!("no question is out") };
        world.group = Some(group(Scope::LinkLocal));
        world.event(Event::Appeared(group(Scope::LinkLocal).mgid));
        world.event(Event::Found(ticket, Ok(None)));
        world.settle();
        assert!(world.is_up(), "asked about scope {asked}: {:?}", world.status);
        assert_eq!((world.notes.len(), world.finds), (0, asked + 1), "asked about scope {asked}");
    }
}

#[test]
fn a_silent_sa_is_asked_again_and_no_group_is_created() {
    let mut world = World::new();
    world.answers = false;
    world.event(Event::Start);
    world.settle();
    for _ in 0..8 {
        assert!(world.wait());
    }
    assert_eq!((world.status, world.joins), (Status::Down(WaitsFor::BroadcastGroup), 0));
    world.answers = true;
    world.wait();
    assert!(world.is_up());
}

#[test]
fn a_group_larger_than_the_port_is_reported_and_watched() {
    let mut world = World::new();
    world.port = Some(Port { mtu: Mtu::B1024, ..port() });
    world.event(Event::Start);
    world.settle();
    assert_eq!(world.notes, [Note::MtuTooLarge(Mtu::B2048, Mtu::B1024)]);
    world.group = Some(BroadcastGroup { mtu: Mtu::B1024, ..group(Scope::LinkLocal) });
    world.wait();
    assert!(world.is_up());
}

#[test]
fn a_port_that_is_down_at_start_is_polled_though_no_event_comes() {
    let mut world = World::new();
    world.port = Some(Port { active: false, ..port() });
    world.event(Event::Start);
    world.settle();
    assert_eq!(world.status, Status::Down(WaitsFor::Port));
    world.wait();
    world.port = Some(port());
    world.wait();
    assert!(world.is_up());
}

#[test]
fn a_flap_keeps_the_queue_pair_and_renews_the_membership() {
    let mut world = started();
    world.port = Some(Port { active: false, lid: 0, ..port() });
    world.event(Event::PortEvent);
    world.settle();
    assert_eq!((world.status, world.queue_pairs), (Status::Down(WaitsFor::Port), 1));
    world.port = Some(port());
    world.event(Event::PortEvent);
    world.settle();
    assert!(world.is_up());
    assert_eq!((world.joins, world.leaves, world.queue_pairs), (2, 0, 1));
    assert_eq!(world.severities, [Severity::Light]);
}

#[test]
fn sm_restart_keeps_the_link_up() {
    let mut world = started();
    world.answers = false;
    world.event(Event::Renew);
    world.settle();
    assert!(world.is_up() && !world.is_joined());
    world.answers = true;
    world.wait();
    assert!(world.is_joined());
    assert_eq!((world.joins, world.leaves), (2, 0));
    assert_eq!(world.severities, [Severity::Light]);
}

#[test]
fn a_new_sm_that_tells_of_itself_twice_is_asked_once_and_by_every_host_at_a_moment_of_its_own() {
    let mut moments = Vec::new();
    for seed in 0..100 {
        let mut world = World::seeded(seed);
        world.event(Event::Start);
        world.settle();
        assert!(world.is_up());
        world.severities.clear();
        // PortInfo changes, and then the call to register anew.
        world.port = Some(Port { sm_lid: 2, ..port() });
        for _ in 0..2 {
            world.event(Event::SmChanged);
            world.settle();
            assert_eq!((world.joins, world.severities.len()), (1, 0), "all at once");
        }
        let began = world.now;
        assert!(world.wait() && world.is_joined());
        moments.push(world.now - began);
        assert_eq!((world.joins, &*world.severities), (2, &[Severity::Light][..]));
        assert_eq!(
            world.link.poll_timeout(),
            Some(world.now + Config::new(PKEY).verify),
            "nothing more is asked"
        );
    }
    moments.sort();
    let half = Config::new(PKEY).renew / 2;
    assert!(moments[0] >= half && moments[0] < half * 11 / 10, "{moments:?}");
    assert!((half * 13 / 10..half * 17 / 10).contains(&moments[50]), "{moments:?}");
    assert!(moments[99] > half * 19 / 10 && moments[99] < half * 2, "{moments:?}");
}

#[test]
fn a_link_without_a_broadcast_group_asks_a_new_sm_at_once() {
    let mut world = World::new();
    world.answers = false;
    world.event(Event::Start);
    world.settle();
    (0..5).for_each(|_| assert!(world.wait()));
    world.answers = true;
    world.event(Event::SmChanged);
    world.settle();
    assert!(world.is_up());
}

#[test]
fn a_membership_that_the_sm_lost_without_a_word_is_asked_for_again() {
    let mut world = started();
    let due = world.link.poll_timeout().expect("something to wait for");
    assert_eq!(due, world.now + Config::new(PKEY).verify);
    world.now = due;
    world.link.handle_timeout(due);
    world.settle();
    assert!(world.is_up() && world.is_joined());
    assert_eq!((world.joins, world.leaves), (2, 0));
    world.stop();
    world.settle();
    assert_eq!(world.link.poll_timeout(), None);
}

#[test]
fn a_group_that_came_back_under_another_mlid_is_attached_anew() {
    let mut world = started();
    world.group = Some(BroadcastGroup { mlid: Mlid::new(0xc007).unwrap(), ..group(Scope::LinkLocal) });
    world.event(Event::Renew);
    while world.poll() {}
    while !matches!(world.pending.first(), Some(Action::Attach(..))) {
        world.answer(0);
        while world.poll() {}
    }
    world.settle();
    assert!(world.is_up());
    assert_eq!(world.queue_pairs, 1);
}

/// The queue pair was detached from it for another one, to which it could not be attached.
#[test]
fn a_group_that_is_back_under_its_mlid_after_an_attempt_that_failed_is_attached_again() {
    let mut world = started();
    let elsewhere = BroadcastGroup { mlid: Mlid::new(0xc007).unwrap(), ..group(Scope::LinkLocal) };
    (world.group, world.builds) = (Some(elsewhere), false);
    world.event(Event::Renew);
    world.settle();
    assert_eq!(world.attached_to, None);
    world.group = Some(group(Scope::LinkLocal));
    world.event(Event::Renew);
    world.settle();
    world.builds = true;
    for _ in 0..5 {
        world.wait();
    }
    assert_eq!(world.attached_to, Some(group(Scope::LinkLocal).mlid.get()));
}

#[test]
fn pkey_moved_to_another_index_rebuilds_the_queue_pair_only() {
    let mut world = started();
    world.port = Some(Port { pkey_index: Some(3), ..port() });
    world.event(Event::PortEvent);
    world.settle();
    assert!(world.is_up());
    assert_eq!((world.joins, world.leaves, world.queue_pairs), (1, 0, 1));
    assert_eq!(world.severities, [], "the ways to others are what they were");
}

#[test]
fn pkey_removed_and_readded_at_the_same_index_recovers() {
    let mut world = started();
    world.port = Some(Port { pkey_index: None, ..port() });
    world.event(Event::PortEvent);
    world.settle();
    assert_eq!(world.status, Status::Down(WaitsFor::PKey));
    assert_eq!(world.queue_pairs, 0, "its place may be another partition's");
    world.port = Some(port());
    world.event(Event::PortEvent);
    world.settle();
    assert!(world.is_up());
}

#[test]
fn a_p_key_that_moves_while_the_group_is_gone_leaves_nothing_where_it_was() {
    let mut world = without_its_group();
    assert_eq!((world.link.broadcast_group(), world.queue_pairs), (None, 1), "what stands goes on");
    world.port = Some(Port { pkey_index: Some(3), ..port() });
    world.event(Event::PortEvent);
    world.settle();
    assert_eq!(world.queue_pairs, 0, "its place may be another partition's");
}

#[test]
fn an_address_whose_queue_pair_is_freed_is_told_to_nobody() {
    let mut world = started();
    world.link.take_connections(true);
    world.settle();
    let told = world.addresses.clone();
    world.builds = false;
    world.fails(Event::Broken);
    world.settle();
    world.link.queue_pairs_are_freed();
    world.settle();
    assert_eq!((world.link.address(), &world.addresses), (None, &told));
    world.link.take_connections(true);
    world.builds = true;
    for _ in 0..5 {
        world.wait();
    }
    assert!(world.is_up());
    assert_eq!(world.addresses, told, "the world here has one number for all");
}

#[test]
fn a_new_subnet_prefix_gives_a_new_address() {
    let mut world = started();
    let gid = Gid { prefix: 0xfec0 << 48, guid: 0xa };
    world.port = Some(Port { gid, ..port() });
    world.event(Event::PortEvent);
    world.settle();
    assert!(matches!(world.status, Status::Up(Up { address, .. }) if address.gid() == gid));
}

#[test]
fn a_failed_build_is_tried_again() {
    let mut world = World::new();
    world.builds = false;
    world.event(Event::Start);
    world.settle();
    assert_eq!(world.status, Status::Down(WaitsFor::QueuePair));
    assert_eq!(world.notes, [Note::BuildFailed]);
    world.builds = true;
    world.wait();
    assert!(world.is_up());
}

#[test]
fn a_broken_queue_pair_is_replaced() {
    let mut world = started();
    world.fails(Event::Broken);
    world.settle();
    assert!(world.is_up());
    assert_eq!(world.queue_pairs, 1);
}

/// Its handles have the Q_Key of before.
#[test]
fn a_group_that_comes_back_with_another_q_key_while_nothing_stands_makes_known_ways_useless() {
    let mut world = started();
    // Twice within a while: the next one is built after a pause.
    world.fails(Event::Broken);
    world.settle();
    world.fails(Event::Broken);
    world.settle();
    assert!(!world.is_up());
    world.severities.clear();
    world.group = Some(BroadcastGroup { qkey: QKey::new(7), ..group(Scope::LinkLocal) });
    world.event(Event::Gone(group(Scope::LinkLocal).mgid));
    world.settle();
    while !world.is_up() {
        world.wait();
    }
    assert!(world.severities.contains(&Severity::Heavy), "{:?}", world.severities);
}

#[test]
fn a_failure_that_is_told_while_a_queue_pair_is_built_is_another_ones_and_one_told_after_that_its_own() {
    let mut world = World::new();
    world.event(Event::Start);
    while world.poll() {}
    while !matches!(world.pending.first(), Some(Action::Build(..))) {
        world.answer(0);
        while world.poll() {}
    }
    world.fails(Event::Broken);
    while world.poll() {}
    world.answer(0);
    assert_eq!(world.notes, []);
    world.fails(Event::Broken);
    world.settle();
    assert!(world.is_up());
    assert_eq!(world.queue_pairs, 1);
    assert_eq!(world.notes, [Note::Broken]);
}

#[test]
fn queue_pairs_that_keep_failing_are_replaced_less_and_less_often() {
    let mut world = started();
    let mut pauses = Vec::new();
    for _ in 0..5 {
        world.fails(Event::Broken);
        world.settle();
        let since = world.now;
        while !world.is_up() {
            world.wait();
        }
        pauses.push(world.now - since);
    }
    assert!(pauses.windows(2).all(|pair| pair[1] > pair[0]), "{pauses:?}");
}

#[test]
fn a_stop_during_a_join_leaves_what_the_join_brings() {
    let mut world = World::new();
    world.event(Event::Start);
    while world.poll() {}
    while !matches!(world.pending.first(), Some(Action::Join(..))) {
        world.answer(0);
        while world.poll() {}
    }
    world.stop();
    world.settle();
    assert_eq!((world.joins, world.leaves), (1, 1));
    assert!(world.link.is_idle());
}

#[test]
fn what_the_answer_to_an_abandoned_join_says_of_the_group_counts_for_nothing() {
    let mut world = World::new();
    world.event(Event::Start);
    let late = with_a_join_out(&mut world);
    let Action::Join(ticket, gid, mgid, _) = world.pending.remove(late) else { unreachable!() };
    world.stop();
    world.event(Event::Start);
    while !matches!(world.pending.first(), Some(Action::Build(..))) {
        while world.poll() {}
        match world.pending.first() {
            Some(Action::Build(..)) => {}
            _ => world.answer(0),
        }
    }
    world.event(Event::Joined(ticket, gid, mgid, Ok((group(Scope::LinkLocal), 0xdead))));
    assert!(matches!(world.pending.first(), Some(Action::Build(.., 0xc000))), "{:?}", world.pending);
    world.settle();
    assert_eq!((world.is_up(), world.link.broadcast_info()), (true, Some(&0xc000)));
}

#[test]
fn a_group_in_another_scope_is_another_link_for_the_queue_pair() {
    let mut world = started();
    world.group = Some(group(Scope::SiteLocal));
    world.event(Event::Renew);
    while !matches!(world.status, Status::Up(Up { scope: Scope::SiteLocal, .. })) {
        world.settle();
        assert!(world.is_up() || world.wait());
        world.wait();
    }
    assert_eq!(world.link.standing().map(|standing| standing.plan.mgid), Some(group(Scope::SiteLocal).mgid));
    assert!(world.severities.contains(&Severity::Heavy), "{:?}", world.severities);
    assert_eq!(world.queue_pairs, 1);
}

/// Polls and answers until a join is out; its place among what is pending.
fn with_a_join_out(world: &mut World) -> usize {
    while world.poll() {}
    loop {
        match world.pending.iter().position(|action| matches!(action, Action::Join(..))) {
            Some(at) => return at,
            None => world.answer(0),
        }
        while world.poll() {}
    }
}

#[test]
fn a_join_that_is_not_answered_in_time_is_repeated_and_what_comes_late_is_undone() {
    let mut world = World::new();
    world.link.set_patience(Some(Duration::from_secs(7)), 0);
    world.event(Event::Start);
    let late = with_a_join_out(&mut world);
    let late = world.pending.remove(late);
    let asked = world.now;
    assert_eq!(world.link.poll_timeout(), Some(asked + Duration::from_secs(7)));
    world.now = asked + Duration::from_secs(7);
    world.link.handle_timeout(world.now);
    while world.poll() {}
    assert_eq!(world.notes, [Note::JoinFailed(SaError::Unanswered(0))]);
    while !world.is_up() {
        assert!(world.wait());
    }
    assert_eq!(world.joins, 1);
    // The first one was carried out too: it counts, and is left with the other.
    world.pending.push(late);
    world.settle();
    assert_eq!((world.joins, world.is_up()), (2, true));
    world.stop();
    world.settle();
    assert_eq!((world.leaves, world.link.is_idle()), (2, true));
}

/// An administrator that takes longer than anybody waits for it: each question is given up, repeated perhaps, then answered.
fn up_with_every_answer_late(repeated: bool) -> World {
    let mut world = World::new();
    world.link.set_patience(Some(Duration::from_secs(1)), 100);
    world.event(Event::Start);
    for _ in 0..40 {
        while world.poll() {}
        let is_late = |action: &Action<u16>| matches!(action, Action::Find(..) | Action::Join(..));
        if let Some(at) = world.pending.iter().position(|action| !is_late(action)) {
            world.answer(at);
            continue;
        }
        if world.is_up() {
            break;
        }
        world.now = world.now + Duration::from_secs(1);
        world.link.handle_timeout(world.now);
        if repeated {
            world.now = world.link.poll_timeout().unwrap();
            world.link.handle_timeout(world.now);
            while world.poll() {}
        }
        world.answer(0);
    }
    world
}

#[test]
fn an_answer_that_comes_while_the_question_waits_to_be_repeated_is_taken() {
    assert!(up_with_every_answer_late(false).is_up());
}

#[test]
fn an_answer_to_a_question_that_was_repeated_meanwhile_is_taken() {
    let mut world = up_with_every_answer_late(true);
    assert!(world.is_up());
    world.settle();
    world.stop();
    world.settle();
    assert!(world.link.is_idle(), "{:?}", world.pending);
    assert_eq!(world.leaves, world.joins);
}

#[test]
fn that_ibtf_gives_up_the_first_question_says_nothing_of_the_second() {
    let mut world = World::new();
    world.link.set_patience(Some(Duration::from_secs(1)), 100);
    world.event(Event::Start);
    let first = with_a_join_out(&mut world);
    let Action::Join(ticket, gid, mgid, _) = world.pending.remove(first) else { unreachable!() };
    let second = with_a_join_out_after_waiting(&mut world);
    world.event(Event::Joined(ticket, gid, mgid, Err(SaError::Unanswered(10))));
    while world.poll() {}
    assert_eq!(world.link.broadcast_state(), BroadcastState::Joining);
    world.answer(second);
    world.settle();
    assert!(world.is_up());
}

#[test]
fn a_late_grant_of_before_an_sm_change_is_not_taken_for_one_of_after_it() {
    let mut world = World::new();
    world.link.set_patience(Some(Duration::from_secs(1)), 100);
    world.event(Event::Start);
    let late = with_a_join_out(&mut world);
    let late = world.pending.remove(late);
    world.now = world.now + Duration::from_secs(1);
    world.link.handle_timeout(world.now);
    world.event(Event::Renew);
    world.pending.push(late);
    world.answer(world.pending.len() - 1);
    assert!(!world.is_joined());
    world.settle();
    while !world.is_up() {
        assert!(world.wait());
    }
    assert_eq!(world.joins, 2);
}

#[test]
fn at_most_two_joins_that_nobody_answers_are_out() {
    let mut world = World::new();
    world.link.set_patience(Some(Duration::from_secs(1)), 0);
    world.event(Event::Start);
    let mut out = Vec::new();
    for _ in 0..2 {
        let at = with_a_join_out_after_waiting(&mut world);
        out.push(world.pending.remove(at));
    }
    // Given up both, but nothing else is asked before one of them has ended.
    for _ in 0..50 {
        world.now = world.now + Duration::from_secs(10);
        world.link.handle_timeout(world.now);
        while world.poll() {}
    }
    assert!(!world.pending.iter().any(|action| matches!(action, Action::Join(..) | Action::Find(..))));
    world.pending.extend(out);
    while !world.is_up() {
        world.settle();
        world.wait();
    }
}

fn with_a_join_out_after_waiting(world: &mut World) -> usize {
    for _ in 0..20 {
        while world.poll() {}
        if let Some(at) = world.pending.iter().position(|action| matches!(action, Action::Join(..))) {
            return at;
        }
        if world.pending.is_empty() {
            world.now = world.now + Duration::from_secs(10);
            world.link.handle_timeout(world.now);
        } else {
            world.answer(0);
        }
    }
    panic!("no join within 200 s");
}

#[test]
fn the_first_failures_are_followed_by_short_pauses() {
    let pauses = |quick| {
        let mut world = World::new();
        world.link.set_patience(None, quick);
        world.answers = false;
        world.event(Event::Start);
        world.settle();
        let mut pauses = Vec::new();
        for _ in 0..6 {
            let before = world.now;
            assert!(world.wait());
            pauses.push((world.now - before).as_secs_f32());
        }
        pauses
    };
    assert!(pauses(0)[3] > 2.0, "{:?}", pauses(0));
    let quick = pauses(4);
    assert!(quick[..4].iter().all(|pause| *pause <= 1.0) && quick[5] > 1.0, "{quick:?}");
}

#[test]
fn a_queue_pair_that_completes_nothing_is_replaced_with_a_note_of_its_own() {
    let mut world = started();
    world.now = world.now + Duration::from_secs(60);
    world.fails(Event::Stalled);
    world.settle();
    assert!(world.is_up());
    assert_eq!((world.notes.as_slice(), world.queue_pairs), ([Note::Stalled].as_slice(), 1));
}

#[test]
fn joins_that_could_not_be_undone_are_undone_by_the_next_leave() {
    let mut world = started();
    let port = world.port.take();
    world.stop();
    world.settle();
    assert_eq!((world.joins, world.leaves, world.owed), (1, 0, 1), "there is no port to leave from");
    assert!(world.link.is_idle(), "and nothing to wait for");
    world.port = port;
    world.event(Event::Start);
    world.settle();
    world.stop();
    world.settle();
    assert_eq!((world.joins, world.leaves, world.owed), (2, 1, 1));
}

#[test]
fn a_stopped_link_without_time_owes_what_it_has_joined() {
    let mut world = started();
    assert_eq!(world.link.hand_over(), None, "it runs");
    world.stop();
    let mgid = group(Scope::LinkLocal).mgid;
    let owed = Action::Owe { mgid, gid: port().gid, joins: 1 };
    assert_eq!((world.link.hand_over(), world.link.hand_over()), (Some(owed), None));
    assert!(world.link.waits_for_the_sa_alone());
    world.settle();
    assert_eq!((world.link.is_idle(), world.leaves), (true, 0));
}

#[test]
fn a_stop_leaves_the_group_though_the_answer_to_its_join_was_lost() {
    let mut world = World::new();
    world.loses_answers = true;
    world.event(Event::Start);
    world.settle();
    assert_eq!((world.members.len(), world.is_up()), (1, false));
    world.stop();
    world.settle();
    assert!(world.members.is_empty() && world.link.is_idle());
}

/// The SM reports the broadcast group as gone, and does not let it be made again.
fn without_its_group() -> World {
    let mut world = started();
    (world.group, world.may_create) = (None, false);
    world.event(Event::Gone(group(Scope::LinkLocal).mgid));
    world.settle();
    world
}

#[test]
fn a_group_that_is_gone_and_refused_takes_the_link_down_until_it_is_back() {
    let mut world = without_its_group();
    assert_eq!(world.status, Status::Down(WaitsFor::BroadcastGroup));
    world.severities.clear();
    world.group = Some(group(Scope::LinkLocal));
    world.event(Event::Appeared(group(Scope::LinkLocal).mgid));
    world.settle();
    assert!(world.is_up());
    assert_eq!(
        world.severities,
        [Severity::Light],
        "what could not be reached without the group is tried again"
    );
    world.stop();
    world.settle();
    assert_eq!(world.joins, world.leaves);
}

#[test]
fn a_group_that_is_gone_and_made_again_leaves_the_link_up() {
    let mut world = started();
    world.group = None;
    world.event(Event::Gone(group(Scope::LinkLocal).mgid));
    while !world.is_joined() {
        assert!(world.is_up());
        assert!(world.poll() || !world.pending.is_empty(), "at rest without its group");
        if !world.pending.is_empty() {
            world.answer(0);
        }
    }
    assert!(world.is_up());
}

#[test]
fn a_refusal_without_a_report_leaves_the_link_up() {
    let mut world = started();
    (world.group, world.may_create) = (None, false);
    world.event(Event::Renew);
    world.settle();
    assert!(world.is_up(), "an SM that has just begun may refuse what it will grant");
}

#[test]
fn a_membership_that_was_lost_while_its_answer_was_on_the_way_is_asked_for_again() {
    let lost: [fn(&mut World); 3] = [
        |world| world.event(Event::Renew),
        |world| world.event(Event::Gone(group(Scope::LinkLocal).mgid)),
        |world| {
            // Down and up again, each time noticed.
            for active in [false, true] {
                world.port = Some(Port { active, ..port() });
                world.event(Event::PortEvent);
                while world.poll() {}
                let query = world.pending.iter().position(|a| matches!(a, Action::QueryPort(_)));
                world.answer(query.expect("the port is asked"));
                while world.poll() {}
            }
        },
    ];
    for lose in lost {
        let mut world = World::new();
        world.event(Event::Start);
        while world.poll() {}
        while !matches!(world.pending.first(), Some(Action::Join(..))) {
            world.answer(0);
            while world.poll() {}
        }
        lose(&mut world);
        world.settle();
        assert!(world.is_up() && world.is_joined());
        assert_eq!(world.joins, 2, "what was joined before is not believed");
    }
}

#[test]
fn a_restart_joins_only_after_the_leave_is_over() {
    let mut world = started();
    world.stop();
    world.event(Event::Start);
    world.settle();
    assert!(world.is_up());
    world.stop();
    while world.poll() {}
    assert!(matches!(world.pending[..], [Action::Leave { .. }]));
    world.event(Event::Start);
    while world.poll() {}
    while let Some(at) = world.pending.iter().position(|a| !matches!(a, Action::Leave { .. })) {
        assert!(!matches!(world.pending[at], Action::Join(..)));
        world.answer(at);
        while world.poll() {}
    }
    world.settle();
    assert!(world.is_up());
}

#[derive(Clone, Debug)]
enum Step {
    Start,
    Stop,
    PortEvent,
    Renew,
    Broken,
    SmChanged,
    Appeared,
    Gone,
    Port(u8),
    Group(u8),
    Answers(bool),
    LosesAnswers(bool),
    Builds(bool),
    Answer(usize),
    Poll(usize),
    Sleep(u64),
    /// Seconds that an answer is waited for; 0: as long as it takes.
    Patience(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Start),
        1 => Just(Step::Stop),
        2 => Just(Step::PortEvent),
        1 => Just(Step::Renew),
        1 => Just(Step::SmChanged),
        1 => Just(Step::Broken),
        1 => Just(Step::Appeared),
        1 => Just(Step::Gone),
        2 => (0u8..8).prop_map(Step::Port),
        2 => (0u8..5).prop_map(Step::Group),
        1 => any::<bool>().prop_map(Step::Answers),
        1 => any::<bool>().prop_map(Step::LosesAnswers),
        1 => any::<bool>().prop_map(Step::Builds),
        12 => (0usize..4).prop_map(Step::Answer),
        12 => (1usize..10).prop_map(Step::Poll),
        3 => (0u64..70).prop_map(Step::Sleep),
        1 => (0u64..3).prop_map(Step::Patience),
    ]
}

impl World {
    fn apply(&mut self, step: Step) {
        match step {
            Step::Start => self.event(Event::Start),
            Step::Stop => self.stop(),
            Step::PortEvent => self.event(Event::PortEvent),
            Step::Renew => self.event(Event::Renew),
            Step::SmChanged => self.event(Event::SmChanged),
            Step::Broken => self.fails(Event::Broken),
            Step::Appeared => self.event(Event::Appeared(group(Scope::LinkLocal).mgid)),
            Step::Gone => self.event(Event::Gone(group(Scope::LinkLocal).mgid)),
            Step::Port(kind) => {
                self.port = match kind {
                    0 => None,
                    1 => Some(Port { active: false, ..port() }),
                    2 => Some(Port { pkey_index: None, ..port() }),
                    3 => Some(Port { pkey_index: Some(5), ..port() }),
                    4 => Some(Port { lid: 9, ..port() }),
                    5 => Some(Port { gid: Gid { prefix: 1, guid: 0xa }, ..port() }),
                    _ => Some(port()),
                };
            }
            Step::Group(kind) => {
                self.group = match kind {
                    0 => None,
                    1 => Some(group(Scope::Global)),
                    2 => Some(BroadcastGroup { mlid: Mlid::new(0xc009).unwrap(), ..group(Scope::LinkLocal) }),
                    3 => Some(BroadcastGroup { qkey: QKey::new(7), ..group(Scope::LinkLocal) }),
                    _ => Some(group(Scope::LinkLocal)),
                };
            }
            Step::Answers(yes) => self.answers = yes,
            Step::LosesAnswers(yes) => self.loses_answers = yes,
            Step::Builds(yes) => self.builds = yes,
            Step::Answer(index) => {
                if let Some(index) = index.checked_rem(self.pending.len()) {
                    self.answer(index);
                }
            }
            Step::Poll(times) => (0..times).for_each(|_| {
                self.poll();
            }),
            Step::Sleep(seconds) => {
                self.now = self.now + Duration::from_secs(seconds);
                self.link.handle_timeout(self.now);
            }
            Step::Patience(seconds) => {
                self.link.set_patience((seconds > 0).then(|| Duration::from_secs(seconds)), 2);
            }
        }
        assert!(self.pending.len() <= 8, "requests pile up: {:?}", self.pending);
    }

    fn mend(&mut self) {
        self.port = Some(port());
        self.group = Some(group(Scope::LinkLocal));
        self.answers = true;
        self.loses_answers = false;
        self.builds = true;
    }
}

proptest! {
    #![proptest_config(crate::cases(2_000))]

    #[test]
    fn a_started_link_comes_up_by_itself_once_the_causes_are_gone(steps in prop::collection::vec(step(), 0..150)) {
        let mut world = World::new();
        for step in steps {
            world.apply(step);
        }
        world.event(Event::Start);
        world.mend();
        world.settle();
        let patience = world.now + Duration::from_secs(300);
        while !(world.is_up() && world.is_joined()) {
            prop_assert!(world.wait(), "no timer runs: {:?} {:?}", world.status, world.link);
            prop_assert!(world.now < patience, "still {:?}", world.status);
        }
        prop_assert_eq!(world.queue_pairs, 1);
    }

    #[test]
    fn a_stopped_link_leaves_nothing_joined_and_no_timer(steps in prop::collection::vec(step(), 0..150)) {
        let mut world = World::new();
        for step in steps {
            world.apply(step);
        }
        world.stop();
        world.settle();
        prop_assert_eq!(world.status, Status::Stopped);
        prop_assert!(world.link.is_idle() && world.link.poll_timeout().is_none());
        // What there was no port to leave from is owed.
        world.mend();
        world.event(Event::Start);
        world.settle();
        world.stop();
        world.settle();
        prop_assert!(world.link.is_idle() && world.link.poll_timeout().is_none());
        prop_assert_eq!(world.joins, world.leaves + world.owed);
        prop_assert!(world.members.is_empty(), "{:?}", world.members);
        prop_assert_eq!(world.queue_pairs, 0);
    }
}

#[test]
fn an_answer_to_a_question_that_was_given_up_twice_is_taken() {
    let mut world = World::new();
    world.link.set_patience(Some(Duration::from_secs(1)), 0);
    world.event(Event::Start);
    let first = with_a_join_out(&mut world);
    let first = world.pending.remove(first);
    let second = with_a_join_out_after_waiting(&mut world);
    let second = world.pending.remove(second);
    for _ in 0..50 {
        world.now = world.now + Duration::from_secs(1);
        world.link.handle_timeout(world.now);
        while world.poll() {}
    }
    world.pending.extend([first, second]);
    world.settle();
    assert!(world.is_up());
    assert_eq!(world.joins, 2);
}
