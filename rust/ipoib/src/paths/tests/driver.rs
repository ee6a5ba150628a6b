//! The machine with what the driver puts around it: transmit queues with little room and memories of their own, and a control thread
//! that may be late. Whatever happens, packets come out once and in order, and no queue sends by a handle that the table does not stand
//! for. What the queues and the control thread call here is what they call in the driver, and all of it.

use super::*;

#[derive(Clone, Debug)]
enum Step {
    /// IP sends to an address, on the transmit queues in turn.
    Send(u8, Cause, bool),
    Ask(u8),
    Answer(u8, Result<u32, LookupError>),
    Invalidate(Severity),
    Forget(u8),
    ForgetGroups,
    Gid(u8),
    /// The adapter has no handle for one more.
    Evict(usize),
    Sleep(u64),
    /// The control thread gets so far.
    Control(usize),
    /// So many sends of a transmit queue complete.
    Complete(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let n = 0u8..9;
    let answer = prop_oneof![
        3 => (0u32..3).prop_map(Ok),
        1 => Just(Err(LookupError::Absent)),
        1 => Just(Err(LookupError::Unanswered)),
        1 => Just(Err(LookupError::NoHandle)),
    ];
    let cause = prop_oneof![2 => Just(Cause::Own), 1 => Just(Cause::Stranger), 1 => Just(Cause::Newcomer)];
    let severity = prop_oneof![Just(Severity::Light), Just(Severity::Normal), Just(Severity::Heavy)];
    prop_oneof![
        12 => (n.clone(), cause, any::<bool>()).prop_map(|(n, cause, known)| Step::Send(n, cause, known)),
        3 => n.clone().prop_map(Step::Ask),
        6 => (n.clone(), answer).prop_map(|(n, a)| Step::Answer(n, a)),
        1 => severity.prop_map(Step::Invalidate),
        1 => n.clone().prop_map(Step::Forget),
        1 => Just(Step::ForgetGroups),
        1 => n.prop_map(Step::Gid),
        1 => (0usize..4).prop_map(Step::Evict),
        2 => (0u64..400).prop_map(Step::Sleep),
        6 => (1usize..8).prop_map(Step::Control),
        4 => (0..QUEUES, 1..=RING).prop_map(|(queue, sends)| Step::Complete(queue, sends)),
    ]
}

const ADDRESSES: usize = 5;
const PACKETS: usize = 6;
const LOOKUPS: u16 = 3;
const QUEUES: usize = 3;
/// Sends that a transmit queue has room for.
const RING: usize = 2;

/// A transmit queue as the driver has it.
#[derive(Default)]
struct Queue {
    in_flight: usize,
    /// Packets whose path was found wait for room.
    behind: bool,
    /// Nobody takes anything out of it but the queue itself.
    cache: BTreeMap<LinkAddr, Way>,
    denied: BTreeMap<LinkAddr, Denial>,
    /// The last packet sent to an address.
    sent: BTreeMap<LinkAddr, u32>,
}

impl Queue {
    fn is_full(&self) -> bool {
        self.in_flight == RING
    }

    fn send(&mut self, to: LinkAddr, packet: u32) {
        self.in_flight += 1;
        let before = self.sent.insert(to, packet);
        assert!(before < Some(packet), "{packet} was overtaken by {before:?}");
    }
}

struct World {
    machine: Machine,
    denial_epoch: Arc<DenialEpoch>,
    now: Instant,
    next: u32,
    /// Packets inside the machine.
    inside: BTreeSet<u32>,
    /// Lookups that are out.
    out: BTreeSet<LinkAddr>,
    /// Of these, those that are given a way that is known.
    follows: BTreeMap<LinkAddr, (Way, Followed)>,
    queues: [Queue; QUEUES],
}

/// The transmit queue that a packet goes by.
fn queue_of(packet: u32) -> usize {
    packet as usize % QUEUES
}

impl World {
    fn new() -> Self {
        let config = Config { lookups: LOOKUPS, packets_per_address: 3, ..Config::default() };
        let denial_epoch = Arc::new(DenialEpoch::new());
        Self {
            machine: machine_with(config, ADDRESSES, PACKETS, denial_epoch.clone()),
            denial_epoch,
            now: Instant::ZERO,
            next: 0,
            inside: BTreeSet::new(),
            out: BTreeSet::new(),
            follows: BTreeMap::new(),
            queues: Default::default(),
        }
    }

    fn address(n: u8) -> LinkAddr {
        // The last two ports have the GIDs of the first two.
        match n {
            5.. => group_of(n),
            3 | 4 => LinkAddr::unicast(Qpn::new(0x49).unwrap(), peer(n - 3).gid()),
            _ => peer(n),
        }
    }

    fn left(&mut self, packet: u32) {
        assert!(self.inside.remove(&packet), "packet {packet} came out twice");
    }

    /// As the driver sends a packet that IP brings. One for which there is no room is given back, and comes as another one here.
    fn send(&mut self, to: LinkAddr, shown: Shown) {
        let packet = self.next;
        self.next += 1;
        let queue = &mut self.queues[queue_of(packet)];
        queue.cache.retain(|known, way| *known != to || way.validity().holds());
        if let Some(way) = queue.cache.get(&to) {
            way.validity().note_use();
            let known = self.machine.known(self.now, &to);
            assert!(
                matches!(&known, Known::Ready(now, _) if now.is(way)),
                "{packet} goes by {way:?}, known is {known:?}"
            );
            if !queue.is_full() {
                queue.send(to, packet);
            }
            return;
        }
        if queue.behind {
            return;
        }
        if queue.denied.get(&to).is_some_and(|denial| denial.stands(self.now, &self.denial_epoch)) {
            let known = self.machine.known(self.now, &to);
            assert!(matches!(known, Known::Failed(_)), "{packet} is dropped, known is {known:?}");
            return;
        }
        match self.machine.submit(self.now, to, shown, TxQueue::new(queue_of(packet)), packet) {
            Submitted::Ready(packet, handle) => {
                queue.cache.insert(to, handle);
                if !queue.is_full() {
                    queue.send(to, packet);
                }
            }
            Submitted::Dropped(dropped, _) => assert_eq!(dropped, packet),
            Submitted::Denied(dropped, denial) => {
                assert_eq!(dropped, packet);
                queue.denied.insert(to, denial);
            }
            Submitted::Queued(gave_way) => {
                self.inside.insert(packet);
                gave_way.into_iter().for_each(|packet| self.left(packet));
            }
        }
    }

    /// As the driver's control thread sends what waited on one queue.
    fn send_resolved(&mut self, number: usize) {
        loop {
            if self.queues[number].is_full() {
                self.queues[number].behind = true;
                return;
            }
            match self.machine.next_packet(TxQueue::new(number)) {
                Some(super::super::Action::Send(to, packet, way)) => {
                    let known = self.machine.known(self.now, &to);
                    assert!(matches!(&known, Known::Ready(now, _) if now.is(&way)), "{way:?}: {known:?}");
                    self.left(packet);
                    self.queues[number].send(to, packet);
                }
                Some(super::super::Action::Drop(_, packet, _)) => self.left(packet),
                None => return,
            }
        }
    }

    /// One thing that the control thread does; false if there is none.
    fn control(&mut self) -> bool {
        let full = (0..QUEUES).filter(|number| self.queues[*number].behind);
        let mut behind = TxQueues::NONE;
        full.for_each(|number| behind.set(TxQueue::new(number), true));
        if let Some(tx_queue) = self.machine.packets_out().without(behind).first() {
            self.send_resolved(tx_queue.number());
            return true;
        }
        let Some(next) = self.machine.next_lookup(self.now, true) else { return false };
        let to = match next {
            Next::Ask(to) => {
                let asked = |other: &&LinkAddr| other.gid() == to.gid() && !self.follows.contains_key(other);
                let twice = self.out.iter().find(asked);
                assert!(to.is_multicast() || twice.is_none(), "the SA is asked for {to:?} and {twice:?}");
                to
            }
            Next::Follow(to, way, followed) => {
                self.follows.insert(to, (way, followed));
                to
            }
        };
        assert!(self.out.insert(to), "two lookups out for {to:?}");
        let alike = self.out.iter().filter(|out| out.is_multicast() == to.is_multicast());
        assert!(alike.count() <= usize::from(LOOKUPS));
        true
    }

    fn complete(&mut self, number: usize, sends: usize) {
        let queue = &mut self.queues[number];
        queue.in_flight = queue.in_flight.saturating_sub(sends);
        queue.behind = false;
    }

    fn answer(&mut self, n: u8, answer: Result<u32, LookupError>) {
        let to = Self::address(n);
        if self.out.remove(&to) {
            let follows = self.follows.remove(&to);
            let result = answer.map(|number| match follows {
                Some((known, followed)) => {
                    let refresh = Some(Duration::from_secs(30));
                    Resolution { handle: way(known.0.0), refresh, followed: Some(followed) }
                }
                None => Resolution { handle: way(number), refresh: None, followed: None },
            });
            self.event(Event::LookedUp(to, result));
        }
    }

    fn event(&mut self, event: Event<Way>) {
        self.machine.handle_event(self.now, event);
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Send(n, cause, known) => self.send(Self::address(n), cause.of(known)),
            Step::Ask(n) => {
                self.machine.ask(self.now, Self::address(n));
            }
            Step::Answer(n, answer) => self.answer(n, answer),
            Step::Invalidate(severity) => self.event(Event::Invalidate(severity)),
            Step::Forget(n) => self.event(Event::Forget(Self::address(n))),
            Step::ForgetGroups => self.event(Event::ForgetGroups),
            Step::Gid(n) => self.event(Event::GidChanged(Self::address(n).gid())),
            Step::Evict(most) => {
                self.machine.evict_idle(most);
            }
            Step::Sleep(seconds) => {
                self.now = self.now + Duration::from_secs(seconds);
                self.machine.handle_timeout(self.now);
            }
            Step::Control(times) => {
                for _ in 0..times {
                    self.control();
                }
            }
            Step::Complete(queue, sends) => self.complete(queue, sends),
        }
        assert!(self.machine.len() <= ADDRESSES && self.machine.packets_held() <= PACKETS);
        assert!(
            self.machine.answers_held() <= 2,
            "a quarter of the room is one packet, for strangers and newcomers each"
        );
        self.check_siblings();
        assert_eq!(self.machine.packets_held(), self.inside.len());
        assert_eq!(self.machine.lookups_in_flight(), self.out.len());
        assert!(
            self.machine.poll_timeout().is_none_or(|t| t >= self.now || matches!(self.now, Instant::ZERO))
        );
    }

    /// Each GID has as many addresses as its first one says.
    fn check_siblings(&self) {
        let mut from = 0;
        let mut by_gid = BTreeMap::new();
        while let Some((at, id)) = self.machine.table.next_from(from) {
            let gid = self.machine.table.key(id).expect("an address").gid();
            by_gid.entry(gid.to_bytes()).or_insert((gid, 0)).1 += 1;
            from = at + 1;
        }
        for (gid, count) in by_gid.into_values() {
            let first = self.machine.first_of(gid).and_then(|id| self.machine.table.get(id));
            assert_eq!(first.map(|path| path.siblings), Some(count), "{gid:?}");
        }
    }

    /// Everything that a queue remembers and would use is what the machine knows: the handle itself, not one like it.
    fn check_memories(&self) {
        let all = self.queues.iter().flat_map(|queue| &queue.cache);
        for (to, way) in all.filter(|(_, way)| way.validity().holds()) {
            let known = self.machine.known(self.now, to);
            assert!(
                matches!(&known, Known::Ready(now, _) if now.is(way)),
                "a queue would send by {way:?} to {to:?}, which is {known:?}"
            );
        }
        let denied = self.queues.iter().flat_map(|queue| &queue.denied);
        for (to, denial) in denied.filter(|(_, denial)| denial.stands(self.now, &self.denial_epoch)) {
            let known = self.machine.known(self.now, to);
            assert!(
                matches!(known, Known::Failed(_)),
                "a queue drops what goes to {to:?} by {denial:?}: {known:?}"
            );
        }
    }

    /// Every handle that the machine knows holds.
    fn check_known(&self) {
        for n in 0..9 {
            if let Known::Ready(way, _) = self.machine.known(self.now, &Self::address(n)) {
                assert!(way.validity().holds(), "{way:?} of {n} was withdrawn and is told");
            }
        }
    }

    /// The fabric is well again: every send completes, every lookup is answered.
    fn heal(&mut self) {
        for round in 0.. {
            assert!(round < 100, "the machine does not come to rest");
            loop {
                (0..QUEUES).for_each(|number| self.complete(number, RING));
                if !self.control() {
                    break;
                }
            }
            let Some(to) = self.out.pop_first() else { return };
            self.follows.remove(&to);
            self.event(Event::LookedUp(to, ok(99)));
        }
    }
}

proptest! {
    #![proptest_config(crate::cases(2_000))]

    #[test]
    fn packets_come_out_once_and_every_peer_resolves_when_the_sa_answers(steps in prop::collection::vec(step(), 0..120)) {
        let mut world = World::new();
        for step in steps {
            world.apply(step);
        }
        world.heal();
        prop_assert!(world.inside.is_empty(), "packets left behind: {:?}", world.inside);
        for n in 0..9 {
            prop_assert!(world.machine.known(world.now, &World::address(n)) != Known::Unresolved, "{n} is not answered");
        }
        world.now = world.now + Duration::from_secs(31);
        for n in 0..9 {
            let to = World::address(n);
            world.send(to, Cause::Own.of(true));
            world.heal();
            prop_assert!(matches!(submit(&mut world.machine, world.now, to, u32::MAX), Submitted::Ready(u32::MAX, _)));
        }
    }

    #[test]
    fn what_a_queue_would_use_is_what_the_machine_knows(steps in prop::collection::vec(step(), 0..120)) {
        let mut world = World::new();
        for step in steps {
            world.apply(step);
            world.check_memories();
            world.check_known();
        }
    }
}
