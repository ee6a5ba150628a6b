use super::*;
use std::collections::BTreeSet;
use std::vec::Vec;

type Machine = Groups<u32, Vec<GroupSlot<u32>>>;

const PKEY: PKey = PKey::new(0x8001).unwrap();
const SCOPE: Scope = Scope::LinkLocal;
const CAPACITY: usize = 1280;

fn group(n: u32) -> Mgid {
    let [_, a, b, c] = n.to_be_bytes();
    Mgid::ipv4([239, a, b, c], SCOPE, PKEY)
}

fn at(milliseconds: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(milliseconds)
}

/// The SA, and how many groups an adapter hears. Every question is answered at once.
struct Subnet {
    machine: Machine,
    now: Instant,
    joins: usize,
    leaves: usize,
    lists: usize,
    /// The roles that it knows the port in.
    members: BTreeSet<(Mgid, u8)>,
    /// Groups that there are.
    there: Vec<Mgid>,
    places: usize,
    told: Vec<Action<u32>>,
    resolved: Vec<(Mgid, bool)>,
    leaves_are_answered: bool,
}

impl Subnet {
    fn new(capacity: usize) -> Self {
        let slots = (0..capacity).map(|_| GroupSlot::default()).collect();
        let mut machine = Groups::new(Config::default(), slots, 5);
        machine.handle_event(at(0), Event::Up(SCOPE, PKEY));
        Self {
            machine,
            now: at(0),
            joins: 0,
            leaves: 0,
            lists: 0,
            members: BTreeSet::new(),
            there: Vec::new(),
            places: usize::MAX,
            told: Vec::new(),
            resolved: Vec::new(),
            leaves_are_answered: true,
        }
    }

    fn heard(&self) -> usize {
        self.members.iter().filter(|(_, role)| *role != Roles::SEND_ONLY.bits()).count()
    }

    fn event(&mut self, event: Event<u32>) {
        self.machine.handle_event(self.now, event);
        self.answer_all();
    }

    fn resolve(&mut self, n: u32) -> Result<(), JoinError> {
        let result = self.machine.resolve(group(n), |_| false);
        self.answer_all();
        result
    }

    fn answer_all(&mut self) {
        for action in 0.. {
            assert!(action < 100_000, "it asks as fast as it is answered");
            let Some(action) = self.machine.poll_action(self.now) else { return };
            match action {
                Action::Join { group, role, .. } => self.joined(group, role),
                Action::Leave { .. } if !self.leaves_are_answered => {}
                Action::Leave { group, .. } => {
                    self.leaves += 1;
                    self.members.retain(|(member, _)| *member != group);
                    self.machine.handle_event(self.now, Event::Left(group, Left::Confirmed));
                }
                Action::List => {
                    self.lists += 1;
                    for group in self.there.clone() {
                        self.machine.handle_event(self.now, Event::Exists(group));
                    }
                    self.machine.handle_event(self.now, Event::Listed(Ok(())));
                }
                Action::Resolved(group, result) => self.resolved.push((group, result.is_ok())),
                action => self.told.push(action),
            }
        }
    }

    /// As the driver does: a group that the MAC layer wants takes the place of one of promiscuous mode.
    fn joined(&mut self, group: Mgid, role: Roles) {
        self.joins += 1;
        let needs_a_place = role.hears() && !self.members.contains(&(group, role.bits()));
        let mut attached = !needs_a_place || self.heard() < self.places;
        if !attached && role == Roles::FULL {
            let overheard = self.members.iter().find(|(_, role)| *role == Roles::NON.bits()).copied();
            if let Some(overheard) = overheard {
                self.members.remove(&overheard);
                self.machine.handle_event(self.now, Event::Displaced(overheard.0));
                attached = true;
            }
        }
        if attached {
            self.members.insert((group, role.bits()));
        }
        self.machine.handle_event(self.now, Event::Joined(group, role, Ok(Joined { info: 7, attached })));
        if !attached && role == Roles::NON {
            self.machine.handle_event(self.now, Event::Displaced(group));
        }
    }

    /// Time passes in steps of a tenth of a second.
    fn wait(&mut self, seconds: u64) {
        for _ in 0..seconds * 10 {
            self.now = self.now + Duration::from_millis(100);
            self.machine.handle_timeout(self.now);
            self.answer_all();
        }
    }
}

/// Before, the table kept each group that was sent to for 15 to 30 minutes, and refused the 961st.
#[test]
fn twenty_thousand_groups_that_are_sent_to_in_turn_are_reached() {
    let mut subnet = Subnet::new(CAPACITY);
    for n in 0..20_000 {
        assert_eq!(subnet.resolve(n), Ok(()), "group {n}");
        assert_eq!(subnet.resolved.pop(), Some((group(n).canonical(), true)), "group {n}");
    }
    assert_eq!((subnet.joins, subnet.leaves), (20_000, 20_000 - 960), "one join each, one leave for each");
    assert_eq!((subnet.machine.len(), subnet.machine.counts().gave_way), (960, 20_000 - 960));
    // The most recent ones have stayed.
    assert_eq!(subnet.resolve(19_999), Ok(()));
    assert_eq!(subnet.joins, 20_000);
}

#[test]
fn a_group_whose_way_is_used_does_not_give_way() {
    let mut subnet = Subnet::new(64);
    (0..48).for_each(|n| subnet.resolve(n).unwrap());
    let used = group(0).canonical();
    for n in 48..500 {
        subnet.machine.resolve(group(n), |key| key == used).unwrap();
        subnet.answer_all();
    }
    let joins = subnet.joins;
    subnet.resolve(0).unwrap();
    assert_eq!(subnet.joins, joins, "it is joined still");
}

/// All that could give way is in use: one of them gives way even so.
#[test]
fn a_table_of_groups_in_use_has_room_for_another_one() {
    let mut subnet = Subnet::new(64);
    (0..48).for_each(|n| subnet.resolve(n).unwrap());
    assert_eq!(subnet.machine.resolve(group(99), |_| true), Ok(()));
}

#[test]
fn groups_that_are_not_left_yet_are_few_and_the_log_is_told_once() {
    let mut subnet = Subnet::new(CAPACITY);
    subnet.leaves_are_answered = false;
    let reached = (0..2_000).filter(|n| subnet.resolve(*n).is_ok()).count();
    // A quarter of what is kept for the MAC layer.
    assert_eq!((reached, subnet.machine.len()), (960 + 80, 960 + 80));
    assert_eq!(subnet.machine.counts().no_room, 2_000 - 960 - 80);
    let full = |subnet: &Subnet| subnet.told.iter().filter(|told| **told == Action::Full).count();
    assert_eq!(full(&subnet), 1);
    subnet.now = at(61_000);
    assert_eq!(subnet.resolve(5_000), Err(JoinError::NoRoom));
    assert_eq!(full(&subnet), 2, "once a minute");
}

#[test]
fn a_group_that_is_asked_for_while_it_is_left_has_its_place_again() {
    let mut subnet = Subnet::new(8);
    (0..6).for_each(|n| subnet.resolve(n).unwrap());
    subnet.leaves_are_answered = false;
    subnet.resolve(6).unwrap();
    assert_eq!(subnet.machine.room.giving_way, 1);
    subnet.resolve(0).unwrap();
    assert_eq!(subnet.machine.room.giving_way, 0);
    subnet.leaves_are_answered = true;
    subnet.event(Event::Left(group(0), Left::Confirmed));
    assert_eq!(subnet.resolved.last(), Some(&(group(0).canonical(), true)));
}

/// A router joins more groups than are kept for the MAC layer: those that are sent to give way to them.
#[test]
fn the_mac_layer_gets_every_place_one_after_the_other() {
    let mut subnet = Subnet::new(CAPACITY);
    (0..2_000).for_each(|n| subnet.resolve(n).unwrap());
    for n in 10_000..10_000 + CAPACITY as u32 {
        assert_eq!(subnet.machine.want(group(n)), Ok(()), "group {n}");
        subnet.answer_all();
    }
    assert_eq!(subnet.machine.want(group(1)), Err(JoinError::NoRoom));
    assert_eq!(subnet.resolve(2), Err(JoinError::NoRoom));
}

/// Before, promiscuous mode took all that was left to those who send.
#[test]
fn promiscuous_mode_leaves_a_quarter_of_the_table_to_senders() {
    let mut subnet = Subnet::new(CAPACITY);
    subnet.there = (0..2_000).map(group).collect();
    subnet.event(Event::Promiscuous(true));
    assert_eq!((subnet.heard(), subnet.machine.counts().missed), (640, 2_000 - 640));
    for n in 5_000..6_000 {
        assert_eq!(subnet.resolve(n), Ok(()), "group {n}");
    }
    assert_eq!(subnet.heard(), 640, "those who send change places among themselves");
    let misses = subnet.told.iter().filter(|told| matches!(told, Action::Misses(_))).count();
    assert_eq!(misses, 1);
}

/// Before, groups of promiscuous mode had the places, and what IP asked for was joined again for ever.
#[test]
fn a_group_of_promiscuous_mode_gives_its_place_to_one_that_ip_wants() {
    let mut subnet = Subnet::new(CAPACITY);
    subnet.places = 7;
    subnet.there = (0..20).map(group).collect();
    subnet.event(Event::Promiscuous(true));
    assert_eq!(subnet.heard(), 7);
    for n in 100..104 {
        subnet.machine.want(group(n)).unwrap();
        subnet.answer_all();
        assert!(subnet.machine.hears(group(n)), "group {n}, at once");
    }
    subnet.wait(600);
    assert!((100..104).all(|n| subnet.machine.hears(group(n))));
    assert_eq!(subnet.heard(), 7);
}

#[test]
fn groups_without_a_place_are_tried_again_seldom() {
    let mut subnet = Subnet::new(CAPACITY);
    subnet.places = 50;
    subnet.there = (0..600).map(group).collect();
    subnet.event(Event::Promiscuous(true));
    let asked = |subnet: &Subnet| subnet.joins + subnet.leaves + subnet.lists;
    assert!(asked(&subnet) < 60, "{} questions for 50 places", asked(&subnet));
    subnet.wait(120);
    let before = asked(&subnet);
    subnet.wait(600);
    assert!(asked(&subnet) - before < 12 * 10, "{} questions in 10 minutes", asked(&subnet) - before);
}

#[test]
fn a_place_that_is_free_again_is_found_by_the_next_listing() {
    let mut subnet = Subnet::new(CAPACITY);
    subnet.places = 4;
    subnet.there = (0..6).map(group).collect();
    subnet.machine.want(group(100)).unwrap();
    subnet.event(Event::Promiscuous(true));
    assert_eq!((subnet.heard(), subnet.machine.counts().missed > 0), (4, true));
    subnet.places = 10;
    subnet.wait(120);
    assert_eq!((subnet.heard(), subnet.machine.counts().missed), (7, 0));
}

#[test]
fn a_group_that_is_sent_to_as_well_stays_joined_to_send_without_a_place() {
    let mut subnet = Subnet::new(CAPACITY);
    subnet.there = Vec::from([group(1)]);
    subnet.resolve(1).unwrap();
    subnet.event(Event::Promiscuous(true));
    assert_eq!(subnet.heard(), 1);
    subnet.event(Event::PlaceWanted);
    let only = BTreeSet::from([(group(1), Roles::SEND_ONLY.bits())]);
    assert_eq!(subnet.members, only);
}

#[test]
fn a_displaced_group_that_ip_wants_by_now_is_attached_again() {
    let mut subnet = Subnet::new(CAPACITY);
    subnet.there = Vec::from([group(1)]);
    subnet.event(Event::Promiscuous(true));
    subnet.machine.want(group(1)).unwrap();
    subnet.answer_all();
    subnet.event(Event::Displaced(group(1)));
    assert!(!subnet.machine.hears(group(1)));
    subnet.wait(2);
    assert!(subnet.machine.hears(group(1)));
}
