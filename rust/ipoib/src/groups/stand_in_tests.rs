use super::*;
use std::vec::Vec;

const PKEY: PKey = PKey::new(0x8001).unwrap();
const SCOPE: Scope = Scope::LinkLocal;

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn group(n: u8) -> Mgid {
    Mgid::ipv6([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, n], SCOPE, PKEY)
}

fn routers() -> Mgid {
    Mgid::all_routers(crate::addr::Signature::Ipv6, SCOPE, PKEY)
}

/// A machine that asks to send to groups, and an SA that knows the groups that `exists` names.
struct World {
    machine: Groups<u32, Vec<GroupSlot<u32>>>,
    joins: Vec<Mgid>,
    answers: Vec<Result<u32, JoinError>>,
}

impl World {
    fn new() -> Self {
        let slots = (0..64).map(|_| GroupSlot::default()).collect();
        let mut machine = Groups::new(Config::default(), slots, 5);
        machine.handle_event(at(0), Event::Up(SCOPE, PKEY));
        Self { machine, joins: Vec::new(), answers: Vec::new() }
    }

    fn send_to(&mut self, now: Instant, groups: core::ops::Range<u8>, exists: impl Fn(Mgid) -> bool) {
        for n in groups {
            self.machine.resolve(group(n), |_| false).unwrap();
            while let Some(action) = self.machine.poll_action(now) {
                match action {
                    Action::Join { group, role, .. } => {
                        self.joins.push(group);
                        let granted = Joined { info: 7, attached: true };
                        let answer = if exists(group) { Ok(granted) } else { Err(JoinError::Refused) };
                        self.machine.handle_event(now, Event::Joined(group, role, answer));
                    }
                    Action::Resolved(_, answer) => self.answers.push(answer.map(|found| found.info)),
                    _ => {}
                }
            }
        }
    }

    fn joins_of_routers(&self) -> usize {
        self.joins.iter().filter(|group| **group == routers()).count()
    }
}

/// It was one for each group that is not there.
#[test]
fn an_absent_stand_in_costs_one_join_in_its_time() {
    let mut world = World::new();
    world.send_to(at(1), 0..20, |_| false);
    assert_eq!((world.joins.len(), world.joins_of_routers()), (21, 1));
    assert_eq!(world.answers, [Err(JoinError::Refused); 20]);
    world.send_to(at(32), 20..30, |_| false);
    assert_eq!(world.joins_of_routers(), 2);
}

#[test]
fn a_stand_in_that_appears_stands_in_at_once() {
    for renewed in [false, true] {
        let mut world = World::new();
        world.send_to(at(1), 0..2, |_| false);
        let event = if renewed { Event::Renew } else { Event::Exists(routers()) };
        world.machine.handle_event(at(2), event);
        world.send_to(at(2), 2..4, |group| group == routers());
        assert_eq!(world.answers[2..], [Ok(7), Ok(7)]);
        assert_eq!(world.joins_of_routers(), 2);
    }
}

/// A router has created it: no join is needed for the groups that it stands in for.
#[test]
fn a_stand_in_that_is_held_stands_in_whatever_was_refused() {
    let mut world = World::new();
    world.send_to(at(1), 0..1, |_| false);
    world.machine.want(routers()).unwrap();
    world.send_to(at(2), 1..3, |group| group == routers());
    assert_eq!(world.answers[1..], [Ok(7), Ok(7)]);
    assert_eq!(world.joins_of_routers(), 2);
}
