//! Two stacks back to back: a link that delivers at once, in virtual time.

mod strict;

use std::net::IpAddr;
use std::time::Duration;

use lab_gldv3::OffloadCapability;
use smoltcp::wire::IpCidr;

use super::apps::{App, Bulk, GroupHear, GroupSay, Outcome, Ping, Sink, TcpReceive, TcpSend};
use super::dad::Standing;
use super::layer::{LinkInfo, Wanted};
use super::link_addr::LinkAddr;
use super::stack::Stack;

const BROADCAST: LinkAddr =
    LinkAddr([0, 255, 255, 255, 255, 0x10, 0x40, 0x1b, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255]);

struct Pair {
    stacks: [Stack; 2],
    now: Duration,
}

fn link(n: u8) -> LinkInfo {
    LinkInfo {
        own: LinkAddr([n; 20]),
        broadcast: BROADCAST,
        sdu: 2044,
        offload: OffloadCapability::default(),
    }
}

fn stack(n: u8) -> Stack {
    let addresses = [format!("10.0.0.{n}/24"), format!("fd00::{n}/64")];
    Stack::new(link(n), addresses.iter().map(|a| a.parse().expect("an address")).collect::<Vec<IpCidr>>(), 1)
}

impl Pair {
    fn new() -> Self {
        Self { stacks: [stack(1), stack(2)], now: Duration::ZERO }
    }

    /// Moves frames until nothing moves; a group frame is heard only where the group is enabled.
    fn settle(&mut self) {
        loop {
            let mut moved = false;
            for from in 0..2 {
                self.stacks[from].poll(self.now);
                while let Some(frame) = self.stacks[from].transmit() {
                    moved = true;
                    let peer = &mut self.stacks[1 - from];
                    let wanted = frame.dst == peer.link().info().own
                        || frame.dst == BROADCAST
                        || peer.link().link_groups().contains(&frame.dst);
                    if wanted {
                        peer.receive(self.now, frame.sap, frame.payload);
                    }
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// Runs one application per host until both are done.
    fn run(&mut self, apps: [Option<&mut dyn App>; 2]) -> [Option<Outcome>; 2] {
        let mut apps = apps;
        let mut outcomes = [None, None];
        for _ in 0..200_000 {
            for (n, app) in apps.iter_mut().enumerate() {
                if let (Some(app), None) = (app, &outcomes[n]) {
                    outcomes[n] = run(*app, self.now, &mut self.stacks[n]);
                }
            }
            self.settle();
            if apps.iter().zip(&outcomes).all(|(app, outcome)| app.is_none() || outcome.is_some()) {
                return outcomes;
            }
            self.now += Duration::from_millis(1);
        }
        panic!("still running after {:?}: {outcomes:?}", self.now);
    }
}

/// As a host runs it: what is not done is run again later, never at once.
fn run(app: &mut dyn App, now: Duration, stack: &mut Stack) -> Option<Outcome> {
    let outcome = app.run(now, stack);
    if outcome.is_none() {
        assert!(app.wake_at().is_none_or(|at| at > now), "{:?} at {now:?}", app.wake_at());
    }
    outcome
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn what_a_link_does_not_take_is_tried_again_after_a_pause() {
    let mut stack = stack(1);
    let mut say = GroupSay::new((ip("239.1.2.3"), 7000), 100, Duration::ZERO, Duration::ZERO);
    let mut ping = Ping::new(ip("10.0.0.1"), ip("10.0.0.2"), 10, vec![56]);
    for second in 0..20 {
        let now = Duration::from_secs(second);
        assert_eq!(run(&mut say, now, &mut stack), None);
        assert_eq!(run(&mut ping, now, &mut stack), None);
    }
}

#[test]
fn a_group_is_left_once_nobody_of_the_host_listens_to_it() {
    let mut stack = stack(1);
    let group = ip("239.1.2.3");
    let mut hear = [7000, 7001].map(|port| GroupHear::new((group, port), 1, Duration::from_secs(9)));
    for app in &mut hear {
        assert_eq!(run(app, Duration::ZERO, &mut stack), None);
    }
    let [one, other] = &mut hear;
    one.abandon(&mut stack);
    assert!(stack.link().groups().contains(&group));
    other.abandon(&mut stack);
    assert!(!stack.link().groups().contains(&group));
}

/// As illumos's IP does it at each DL_NOTE_PHYS_ADDR.
#[test]
fn addresses_groups_and_neighbours_go_down_when_the_link_tells_an_address_and_come_back_announced() {
    let mut pair = Pair::new();
    let mut ping = Ping::new(ip("10.0.0.1"), ip("10.0.0.2"), 1, vec![0]);
    pair.run([Some(&mut ping), None]);
    let [stack, peer] = &mut pair.stacks;
    stack.join(ip("239.1.2.3"));
    let (own, groups) = (stack.link().addresses().to_vec(), stack.link().link_groups());
    stack.link_mut().take_down();
    assert_eq!(stack.link().addresses(), []);
    assert_eq!(stack.link().link_groups().len(), 1, "what applications joined stays");
    assert_eq!(stack.link().neighbours().iter().count(), 0);
    stack.set_info(LinkInfo { own: LinkAddr([9; 20]), ..link(1) });
    assert_eq!(stack.link().addresses(), own);
    assert_eq!(stack.link().link_groups(), groups);
    assert_eq!(peer.link().neighbours().get(&ip("10.0.0.1")), Some(LinkAddr([1; 20])));
    pair.settle();
    assert_eq!(pair.stacks[1].link().neighbours().get(&ip("10.0.0.1")), Some(LinkAddr([9; 20])));
}

#[test]
fn a_sink_whose_connection_never_was_listens_on() {
    let mut pair = Pair::new();
    let mut ping = Ping::new(ip("10.0.0.1"), ip("10.0.0.2"), 1, vec![0]);
    pair.run([Some(&mut ping), None]);
    let (mut bulk, mut sink) = (Bulk::new((ip("10.0.0.2"), 9)), Sink::new(9));
    assert_eq!(run(&mut sink, pair.now, &mut pair.stacks[1]), None);
    assert_eq!(run(&mut bulk, pair.now, &mut pair.stacks[0]), None);
    pair.stacks[0].poll(pair.now);
    let syn = pair.stacks[0].transmit().expect("a SYN");
    pair.stacks[1].receive(pair.now, syn.sap, syn.payload);
    pair.stacks[1].poll(pair.now);
    assert_eq!(run(&mut sink, pair.now, &mut pair.stacks[1]), None);
    assert!(sink.wake_at().is_some(), "somebody begins to connect");
    bulk.abandon(&mut pair.stacks[0]);
    pair.settle();
    for _ in 0..10 {
        pair.now += Duration::from_millis(10);
        assert_eq!(run(&mut sink, pair.now, &mut pair.stacks[1]), None);
    }
    assert_eq!(sink.wake_at(), None);
}

#[test]
fn pings_of_every_size_up_to_the_sdu_are_answered() {
    for (from, to, headers) in [("10.0.0.1", "10.0.0.2", 28), ("fd00::1", "fd00::2", 48)] {
        let mut pair = Pair::new();
        let sizes = (0..=2044 - headers).step_by(13).chain([2044 - headers]).collect();
        let mut ping = Ping::new(ip(from), ip(to), 200, sizes);
        let outcome = pair.run([Some(&mut ping), None]);
        assert_eq!(outcome[0], Some(Outcome::Ping { sent: 200, answered: 200 }));
        assert!(pair.stacks[0].link().neighbours().get(&ip(to)).is_some());
    }
}

#[test]
fn pings_to_nobody_time_out() {
    let mut pair = Pair::new();
    let mut ping = Ping::new(ip("10.0.0.1"), ip("10.0.0.9"), 2, vec![10]);
    let outcome = pair.run([Some(&mut ping), None]);
    assert_eq!(outcome[0], Some(Outcome::Ping { sent: 2, answered: 0 }));
    assert!(pair.stacks[0].link().neighbours().counters().unresolved > 0);
}

#[test]
fn tcp_delivers_every_byte_once() {
    let mut pair = Pair::new();
    let mut send = TcpSend::new((ip("10.0.0.2"), 5001), 49152, 1 << 20);
    let mut receive = TcpReceive::new(5001);
    let [sent, received] = pair.run([Some(&mut send), Some(&mut receive)]);
    assert_eq!(sent, received);
    assert!(matches!(sent, Some(Outcome::Tcp { bytes: 1_048_576, .. })));
}

#[test]
fn a_group_is_heard_between_join_and_leave() {
    let mut pair = Pair::new();
    let group = (ip("239.1.2.3"), 7000);
    let mut say = GroupSay::new(group, 5, Duration::from_millis(10), Duration::from_millis(5));
    let mut hear = GroupHear::new(group, 5, Duration::from_secs(1));
    let outcome = pair.run([Some(&mut say), Some(&mut hear)]);
    assert_eq!(outcome[1], Some(Outcome::Heard(vec![0, 1, 2, 3, 4])));
    let mapped = LinkAddr::ipv4_group(&BROADCAST, "239.1.2.3".parse().expect("an address"));
    assert!(!pair.stacks[1].link().link_groups().contains(&mapped), "left afterwards");
}

#[test]
fn a_new_link_address_is_announced_and_learned() {
    let mut pair = Pair::new();
    let mut ping = Ping::new(ip("10.0.0.1"), ip("10.0.0.2"), 1, vec![0]);
    pair.run([Some(&mut ping), None]);
    pair.stacks[1].set_info(link(77));
    pair.settle();
    assert_eq!(pair.stacks[0].link().neighbours().get(&ip("10.0.0.2")), Some(LinkAddr([77; 20])));
    let mut again = Ping::new(ip("10.0.0.1"), ip("10.0.0.2"), 3, vec![100]);
    let outcome = pair.run([Some(&mut again), None]);
    assert_eq!(outcome[0], Some(Outcome::Ping { sent: 3, answered: 3 }));
}

#[test]
fn a_link_that_gets_a_carrier_says_where_its_addresses_are() {
    let mut pair = Pair::new();
    pair.settle();
    let mut announced = |up| {
        pair.stacks[1].link_mut().set_up(up);
        pair.stacks[1].poll(pair.now);
        std::iter::from_fn(|| pair.stacks[1].transmit()).filter(|frame| frame.dst == BROADCAST).count()
    };
    assert_eq!([true, true, false, true].map(&mut announced), [1, 0, 0, 1]);
}

/// A stack that shall have these addresses and looks whether somebody else does.
fn newcomer(n: u8, addresses: &[&str]) -> Stack {
    let mut stack = Stack::new(link(n), Vec::new(), 1).probing();
    stack.link_mut().set_up(true);
    let fixed = addresses.iter().map(|a| a.parse().expect("an address")).collect();
    stack.set_addresses(Wanted { fixed, ..Wanted::default() });
    stack
}

impl Pair {
    /// Lets a second pass.
    fn pass(&mut self) {
        for _ in 0..20 {
            self.settle();
            self.now += Duration::from_millis(50);
        }
    }
}

const SHARED: [&str; 2] = ["10.0.0.2/24", "fd00::2/64"];

#[test]
fn an_address_that_somebody_has_is_not_used_in_either_family() {
    let mut pair = Pair::new();
    pair.stacks[0] = newcomer(1, &[&SHARED[..], &["10.0.0.1/24"]].concat());
    assert!(pair.stacks[0].link().addresses().is_empty(), "nothing is used before it is known");
    pair.pass();
    let link = pair.stacks[0].link();
    assert_eq!(link.standing(ip("10.0.0.2")), Standing::Duplicate);
    assert_eq!(link.standing(ip("fd00::2")), Standing::Duplicate);
    assert_eq!(link.standing(ip("10.0.0.1")), Standing::Good);
    assert_eq!(link.addresses(), ["10.0.0.1/24".parse().expect("an address")]);
    let owner = pair.stacks[1].link();
    assert_eq!(owner.addresses().len(), 2, "whoever had it keeps it");
    assert!(owner.neighbours().get(&ip("0.0.0.0")).is_none(), "nobody is at no address");
    let mut ping = Ping::new(ip("10.0.0.1"), ip("10.0.0.2"), 3, vec![100]);
    let outcome = pair.run([Some(&mut ping), None]);
    assert_eq!(outcome[0], Some(Outcome::Ping { sent: 3, answered: 3 }));
}

#[test]
fn of_two_that_want_an_address_at_once_one_has_it_at_most() {
    let mut pair = Pair::new();
    pair.stacks = [1, 2].map(|n| newcomer(n, &SHARED));
    pair.pass();
    for address in ["10.0.0.2", "fd00::2"] {
        let standings = pair.stacks.each_ref().map(|stack| stack.link().standing(ip(address)));
        assert!(standings.contains(&Standing::Duplicate), "{address}: {standings:?}");
        assert!(!standings.contains(&Standing::Tentative), "{address}: {standings:?}");
    }
}

#[test]
fn an_address_that_is_free_is_used_and_announced() {
    let mut pair = Pair::new();
    pair.stacks[0] = newcomer(1, &["10.0.0.1/24", "fd00::1/64"]);
    pair.pass();
    for (from, to) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        let mut ping = Ping::new(ip(from), ip(to), 1, vec![0]);
        let outcome = pair.run([Some(&mut ping), None]);
        assert_eq!(outcome[0], Some(Outcome::Ping { sent: 1, answered: 1 }), "{to}");
    }
}

#[test]
fn ipv4_pings_of_more_than_the_sdu_go_in_fragments() {
    let mut pair = Pair::new();
    let sizes = vec![2017, 4096, 10_000, 65_507];
    let mut ping = Ping::new(ip("10.0.0.1"), ip("10.0.0.2"), 8, sizes);
    let outcome = pair.run([Some(&mut ping), None]);
    assert_eq!(outcome[0], Some(Outcome::Ping { sent: 8, answered: 8 }));
}

/// Before, they were not sent.
#[test]
fn ipv6_pings_of_more_than_the_sdu_go_in_fragments() {
    let mut pair = Pair::new();
    let sizes = vec![1996, 1997, 4096, 10_000, 65_507];
    let mut ping = Ping::new(ip("fd00::1"), ip("fd00::2"), 10, sizes);
    let outcome = pair.run([Some(&mut ping), None]);
    assert_eq!(outcome[0], Some(Outcome::Ping { sent: 10, answered: 10 }));
}

/// As on a machine that was busy: the packets of a while come up together.
#[test]
fn the_largest_ipv4_pings_of_several_applications_that_come_together_are_all_answered() {
    let mut pair = Pair::new();
    // A packet waits for a neighbour that is not known yet, but not many do.
    pair.run([Some(&mut Ping::new(ip("10.0.0.1"), ip("10.0.0.2"), 1, vec![56])), None]);
    let sizes = vec![60_000, 1000, 65_507, 2017];
    let ping = |_| Ping::new(ip("10.0.0.1"), ip("10.0.0.2"), 4, sizes.clone());
    let mut running: Vec<Ping> = (0..5).map(ping).collect();
    for _ in 0..100 {
        running.retain_mut(|ping| match run(ping, pair.now, &mut pair.stacks[0]) {
            Some(outcome) => {
                assert_eq!(outcome, Outcome::Ping { sent: 4, answered: 4 });
                false
            }
            None => true,
        });
        pair.settle();
        pair.now += Duration::from_millis(100);
    }
    assert!(running.is_empty(), "{} are still running", running.len());
}

#[test]
fn echoes_of_two_applications_are_told_apart() {
    let mut pair = Pair::new();
    let [one, other] = [(); 2].map(|()| pair.stacks[0].echo_ident());
    assert!(one != other && one != 0 && other != 0);
}
