//! What the module asks of subnet administration: one pool of threads, which wait for the answers, for all of its links.
//!
//! IBTF offers joins and path queries that call back as well. It has them wait on `system_taskq`, where after a quiet time one
//! thread is left for the whole kernel: a port with a silent administrator would keep dld from answering a bind on another link.
//! So every call is one that waits, on a thread of the module.
//!
//! How many calls a port may have out is [`ipoib::window`]'s to say; all ports together never have more than there are threads. So
//! there are as many threads from `_init` to `_fini`, however many links: none is made while a link waits for it, none waits for
//! another's answer, and a link costs none. What waits is kept with its link, in lines of fixed length, most urgent first; ports and
//! links that want the same take turns. A link that stops waits for none of its calls. One that goes leaves what is out here, with its memory, and what it has
//! not ended ([`debts`]). The module stays as long as a call of a link that is gone, or for a debt, is out; so `_fini` finds the threads idle.
//!
//! IBTF counts the joins of a port, of all links together, and counts one when it is answered: a leave that is out while another link joins the same group would end what that link was
//! just granted. So of one group of a port nothing else is asked while a leave is out, and no leave begins while anything else is.

mod debts;

use ipoib::debts::{DebtSlot, Debts};
use ipoib::window::{End, Kind, Load, MOST, Window};
use ipoib::{Guid, Instant, Mgid};
use kernel::list::{List, Room};
use kernel::module::Pin;
use kernel::sync::Monitor;
use kernel::thread::{Parker, Worker};
use kernel::{KArc, KBox, KVec, MayBlock};

pub(crate) use debts::{Anchor, forget};

use crate::link::{Call, MOST_PATH_LOOKUPS, Shared};
use crate::node::Node;
use crate::ring::Ring;
use crate::{kernel_instant, now};

/// What waits of a link, a line for each kind.
type Lines = [Ring<Call>; Kind::ALL.len()];

/// Calls of a kind that may wait in a link's line. Of paths as many as an administrator can allow; of the others the machines have fewer out.
const LINE: [usize; Kind::ALL.len()] = [16, 64, 64, MOST_PATH_LOOKUPS as usize, 8];

/// The module's threads, and what they have to do.
pub(crate) struct SaPool {
    state: KArc<Monitor<State>>,
    _threads: KVec<Worker<State>>,
}

/// What waits and what is out.
struct State {
    ports: List<Port>,
    links: List<Calls>,
    /// Calls that have begun.
    begun: u64,
    /// Links that were admitted.
    admitted: u64,
    /// The groups that calls are out about.
    groups: [Option<Group>; MOST],
}

/// Which port: its adapter's GUID and its number.
type PortKey = (Guid, u8);

/// Which port, and since which first instance on it: a call of a link that is gone may outlive all of them.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PortId {
    key: PortKey,
    born: u64,
}

/// A group of a port that a call is out about.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Group {
    port: PortKey,
    mgid: Mgid,
    leaves: bool,
}

/// Memory for a port.
type PortRoom = (Room<Port>, KVec<DebtSlot>);

struct Port {
    key: PortKey,
    born: u64,
    /// Instances that are on it.
    users: usize,
    /// Its memory is that of the port's own instance, which goes last.
    anchored: bool,
    window: Window,
    /// Which call was its last.
    last: u64,
    debts: Debts<KVec<DebtSlot>>,
    /// Its adapter is to go: no leave begins.
    held: bool,
    /// How the wait of its last instance stands.
    going: Option<debts::Going>,
}

/// The calls of a link.
struct Calls {
    /// `None` if the link is gone.
    number: Option<i32>,
    /// No other link has or had the same.
    serial: u64,
    port: PortKey,
    shared: KArc<Shared>,
    lines: KBox<Lines>,
    /// For the port, should the link go whose memory that is in; `None` if it is this one.
    spare: Option<PortRoom>,
    /// Calls that are out.
    out: usize,
    /// Which call was its last.
    last: u64,
    /// Of a link that is gone.
    pin: Option<Pin>,
}

/// A link's membership, which ends when this is dropped.
pub(crate) struct Member {
    pool: KArc<SaPool>,
    serial: u64,
}

/// A call that is being made.
pub(crate) struct Turn<'a> {
    state: &'a Monitor<State>,
    port: PortId,
    call: ipoib::window::Call,
}

impl SaPool {
    /// Starts the threads. **May block.**
    pub(crate) fn new(may_block: &MayBlock) -> KArc<Self> {
        let (ports, links, groups) = (List::new(), List::new(), [None; MOST]);
        let state = State { ports, links, begun: 0, admitted: 0, groups };
        let state = KArc::new_waiting(Monitor::new_waiting(state, may_block), may_block);
        let thread = |_| Worker::spawn(c"ibd_sa", state.clone(), may_block, work);
        let threads = KVec::from_fn_waiting(MOST, may_block, thread);
        KArc::new_waiting(Self { state, _threads: threads }, may_block)
    }

    /// Has each other link on the adapter give up a place for a group that only promiscuous mode hears. Takes the machines' locks of these links,
    /// one at a time, inside the pool's.
    pub(crate) fn ask_for_places(&self, number: i32, hca: Guid) {
        let state = self.state.lock();
        let others = state.links.iter().filter(|calls| calls.number != Some(number) && calls.port.0 == hca);
        others.for_each(|calls| calls.shared.leave_a_place());
    }

    /// Takes a link in, which is the module's only one with this number.
    pub(crate) fn admit(
        pool: &KArc<Self>,
        node: &Node,
        number: i32,
        shared: KArc<Shared>,
        may_block: &MayBlock,
    ) -> Member {
        let port = (node.hca, node.port);
        let link_room = Room::new_waiting(may_block);
        let (number, lines) = (Some(number), lines(may_block));
        let mut calls =
            Calls { number, serial: 0, port, shared, lines, spare: None, out: 0, last: 0, pin: None };
        // A port that has an instance of its own is there as long as a link is on it.
        let mut room = None;
        let mut state = loop {
            let mut state = pool.state.lock();
            if room.is_some() || state.port(port).is_some_and(|port| port.anchored) {
                break state;
            }
            drop(state);
            room = Some(debts::port_room(may_block));
        };
        state.admitted += 1;
        calls.serial = state.admitted;
        match (state.port(port), room) {
            (Some(known), room) => {
                known.users += 1;
                calls.spare = room;
            }
            (None, Some((room, slots))) => state.ports.put(room, Port::new(port, calls.serial, slots, false)),
            // The loop ends with one or the other.
            (None, None) => {}
        }
        let serial = calls.serial;
        state.links.put(link_room, calls);
        drop(state);
        Member { pool: pool.clone(), serial }
    }

    /// Has a call of this link made, or hands it back if too many wait. **Any** context.
    pub(crate) fn push(&self, number: i32, call: Call) -> Result<(), Call> {
        let mut state = self.state.lock();
        let pushed = match state.calls_of(number) {
            Some(calls) => match calls.lines.get_mut(call.kind() as usize) {
                Some(line) => line.push(call),
                None => Err(call),
            },
            None => Err(call),
        };
        drop(state);
        self.state.notify_one();
        pushed
    }

    /// A waiting call of this link that makes no sense once it is stopped.
    pub(crate) fn take_back(&self, number: i32) -> Option<Call> {
        let mut state = self.state.lock();
        let [broadcast, group, _, path, rate] = &mut *state.calls_of(number)?.lines;
        [broadcast, group, path, rate].into_iter().find_map(Ring::pop)
    }

    /// Any waiting call of this link, a leave among them.
    pub(crate) fn take_any_back(&self, number: i32) -> Option<Call> {
        self.state.lock().calls_of(number)?.lines.iter_mut().find_map(Ring::pop)
    }

    /// Whether no call of this link waits or is out.
    pub(crate) fn is_idle(&self, number: i32) -> bool {
        let mut state = self.state.lock();
        state.calls_of(number).is_none_or(|calls| calls.out == 0 && calls.lines.iter().all(Ring::is_empty))
    }
}

fn lines(may_block: &MayBlock) -> KBox<Lines> {
    KBox::new_waiting(LINE.map(|len| Ring::new(len, may_block)), may_block)
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave_port();
        self.dismiss();
    }
}

// Each on a stack frame of its own: what they take out is large.
impl Member {
    fn leave_port(&self) {
        let left = self.pool.state.lock().leave_port(self.serial);
        if let Some(port) = left {
            self.pool.give_up(port);
        }
    }

    /// Memory is freed without the lock.
    #[inline(never)]
    fn dismiss(&self) {
        let gone = self.pool.state.lock().dismiss(self.serial);
        drop(gone);
    }
}

impl Port {
    fn new(key: PortKey, born: u64, slots: KVec<DebtSlot>, anchored: bool) -> Self {
        let debts = Debts::new(slots, key.0.get());
        let window = Window::new();
        Self { key, born, users: 1, anchored, window, last: 0, debts, held: false, going: None }
    }
}

impl State {
    fn port(&mut self, key: PortKey) -> Option<&mut Port> {
        self.ports.find_mut(|port| port.key == key)
    }

    fn same_port(&mut self, id: PortId) -> Option<&mut Port> {
        self.port(id.key).filter(|port| port.born == id.born)
    }

    fn calls_of(&mut self, number: i32) -> Option<&mut Calls> {
        self.links.find_mut(|calls| calls.number == Some(number))
    }

    fn link(&mut self, serial: u64) -> Option<&mut Calls> {
        self.links.find_mut(|calls| calls.serial == serial)
    }

    /// Takes a link out. If calls of it are out, it stays until they have ended, as one that is gone.
    fn dismiss(&mut self, serial: u64) -> Option<Calls> {
        let calls = self.link(serial)?;
        if calls.out != 0 {
            calls.number = None;
            calls.pin = Some(Pin::new());
            return None;
        }
        self.links.take(|calls| calls.serial == serial)
    }

    fn is_gone(&mut self, serial: u64) -> bool {
        self.link(serial).is_some_and(|calls| calls.number.is_none())
    }

    /// A link is on its port no longer; which port that is if it was the last instance.
    fn leave_port(&mut self, serial: u64) -> Option<PortKey> {
        let calls = self.link(serial)?;
        let (key, spare) = (calls.port, calls.spare.take());
        let owns_memory = spare.is_none();
        let port = self.port(key)?;
        port.users -= 1;
        let (last, anchored) = (port.users == 0, port.anchored);
        if !last && owns_memory && !anchored {
            self.move_port(key);
        }
        last.then_some(key)
    }

    /// Into the memory that another of its links has for it: a link leaves none behind.
    #[inline(never)]
    fn move_port(&mut self, key: PortKey) {
        let heir = self.links.find_mut(|calls| calls.port == key && calls.spare.is_some());
        let Some((room, slots)) = heir.and_then(|calls| calls.spare.take()) else { return };
        if let Some(port) = self.ports.take(|port| port.key == key) {
            let debts = port.debts.moved_to(slots);
            self.ports.put(room, Port { debts, ..port });
        }
    }

    fn load(&self, now: Instant) -> Load {
        self.ports.iter().fold(Load::default(), |load, port| load.with(now, &port.window))
    }

    /// Whether nothing may be asked about a group of a port because of what is out.
    fn is_busy(&self, port: PortKey, mgid: Mgid, leaves: bool) -> bool {
        let mut out = self.groups.iter().flatten().filter(|out| (out.port, out.mgid) == (port, mgid));
        out.any(|out| out.leaves || leaves)
    }

    fn can_begin(&self, calls: &Calls, kind: Kind) -> bool {
        let first = calls.lines.get(kind as usize).and_then(Ring::first);
        first.is_some_and(|call| {
            call.group().is_none_or(|(mgid, leaves)| !self.is_busy(calls.port, mgid, leaves))
        })
    }

    /// The link and the kind of the call that is to be made next, if one may: of a port that has none out, if there is such a one;
    /// else for a broadcast group; else of the port that has the fewest out. Of several ports the one whose turn is longest ago.
    fn next(&self, now: Instant) -> Option<(u64, Kind)> {
        let load = self.load(now);
        let ports = self.ports.iter();
        let best = ports.filter_map(|port| {
            let (kind, link) = self.next_of(now, port, &load)?;
            let out = port.window.out();
            Some(((out != 0, kind != Kind::Broadcast, out, port.last), (link, kind)))
        });
        best.min_by_key(|(rank, _)| *rank).map(|(_, next)| next)
    }

    /// The most urgent call of a port, if one may be made, and whose it is: of the link that has the fewest out, and among
    /// those of the one whose turn is longest ago.
    fn next_of(&self, now: Instant, port: &Port, load: &Load) -> Option<(Kind, u64)> {
        let links = || self.links.iter().filter(|calls| calls.port == port.key);
        let waits = |kind| links().any(|calls| self.can_begin(calls, kind));
        let path_waits = waits(Kind::Path) || waits(Kind::Rate);
        let is_held = |kind: Kind| port.held && kind == Kind::Leave;
        let admitted =
            |kind: &Kind| !is_held(*kind) && waits(*kind) && port.window.admits(now, *kind, path_waits, load);
        let kind = Kind::ALL.into_iter().find(admitted)?;
        let able = links().filter(|calls| self.can_begin(calls, kind));
        let link = able.min_by_key(|calls| (calls.out, calls.last))?;
        Some((kind, link.serial))
    }

    /// When there may be room for what waits although nothing ends before that.
    fn next_room(&self, now: Instant) -> Option<Instant> {
        let lost = self.ports.iter().filter_map(|port| port.window.next_lost(now)).min();
        [lost, self.next_debt_due(now)].into_iter().flatten().min()
    }

    /// Begins the call that is to be made next: of a link's, or else for a debt.
    fn begin(&mut self, now: Instant) -> Option<Begun> {
        match self.next(now) {
            Some((link, kind)) => self.begin_call(now, link, kind),
            None => self.begin_debt(now),
        }
    }

    fn begin_call(&mut self, now: Instant, link: u64, kind: Kind) -> Option<Begun> {
        self.begun += 1;
        let (key, turn) = (self.link(link)?.port, self.begun);
        let port = self.port(key)?;
        let place = port.window.begin(now, kind)?;
        port.last = turn;
        let id = PortId { key, born: port.born };
        let calls = self.link(link)?;
        let call = calls.lines.get_mut(kind as usize)?.pop()?;
        (calls.out, calls.last) = (calls.out + 1, turn);
        let shared = calls.shared.clone();
        let group = call.group().map(|(mgid, leaves)| Group { port: key, mgid, leaves });
        self.note_group(group);
        Some(Begun { port: id, place, group, what: What::Call { link, shared, call } })
    }

    /// As many calls are out as there are threads, at most.
    fn note_group(&mut self, group: Option<Group>) {
        if let (Some(_), Some(place)) = (group, self.groups.iter_mut().find(|place| place.is_none())) {
            *place = group;
        }
    }

    /// What is out no longer; of a link that is gone, the link if that was the last of its calls.
    fn end(&mut self, now: Instant, ended: Ended) -> Option<Calls> {
        let Ended { port, place, group, end, link } = ended;
        if let Some(out) = self.groups.iter_mut().find(|out| group.is_some() && **out == group) {
            *out = None;
        }
        if let Some(port) = self.same_port(port) {
            port.window.end(now, place, end);
            if end == End::Answered {
                port.debts.answered();
            }
        }
        let calls = self.link(link?)?;
        calls.out -= 1;
        if calls.number.is_some() || calls.out != 0 {
            return None;
        }
        self.links.take(|calls| Some(calls.serial) == link)
    }
}

/// What a thread has taken on.
struct Begun {
    port: PortId,
    place: ipoib::window::Call,
    group: Option<Group>,
    what: What,
}

enum What {
    Call { link: u64, shared: KArc<Shared>, call: Call },
    Debt(debts::Attempt),
}

struct Ended {
    port: PortId,
    place: ipoib::window::Call,
    group: Option<Group>,
    end: End,
    /// Whose it was.
    link: Option<u64>,
}

impl Turn<'_> {
    /// The call asks a second question: its second begins anew.
    pub(crate) fn again(&self) {
        let mut state = self.state.lock();
        if let Some(port) = state.same_port(self.port) {
            port.window.again(now(), &self.call);
        }
        drop(state);
        // It is not late any more: that may have made room.
        self.state.notify_one();
    }
}

fn work(parker: &Parker<'_, State>) {
    let mut state = parker.lock();
    while !parker.should_stop() {
        let time = now();
        let Some(begun) = state.begin(time) else {
            let until = state.next_room(time).map(kernel_instant);
            parker.wait_until(&mut state, until);
            continue;
        };
        // An answer may have made room for two, or room to come, which whoever waits does not know of yet.
        let time = now();
        let more = state.next(time).is_some() || state.next_room(time).is_some();
        drop(state);
        if more {
            parker.monitor().notify_one();
        }
        let Begun { port, place, group, what } = begun;
        let turn = Turn { state: parker.monitor(), port, call: place };
        let (end, link, attempt) = match what {
            What::Call { link, shared, call } => {
                let end = call.make(&shared, &turn);
                (end, Some((link, shared)), None)
            }
            What::Debt(attempt) => {
                let (end, attempt) = attempt.make(&turn);
                (end, None, Some(attempt))
            }
        };
        let Turn { call: place, .. } = turn;
        let is_gone = link.as_ref().is_some_and(|(link, _)| parker.lock().is_gone(*link));
        if let (true, Some((_, shared))) = (is_gone, &link) {
            // An answer that came late may have left something.
            shared.owe_all();
        }
        // The link may go as soon as its call has ended.
        let link = link.map(|(link, _)| link);
        state = parker.lock();
        let (pin, given_up) = attempt.map_or((None, 0), |attempt| state.end_debt(now(), port, attempt));
        let gone = state.end(now(), Ended { port, place, group, end, link });
        if gone.is_some() || pin.is_some() {
            drop(state);
            debts::tell(port.key, given_up);
            // The pin goes last.
            if let Some(Calls { pin, shared, .. }) = gone {
                drop(shared);
                drop(pin);
            }
            drop(pin);
            state = parker.lock();
        }
    }
}
