//! What the module asks of subnet administration: one pool of threads, which wait for the answers, for all of its links.
//!
//! IBTF offers joins and path queries that call back as well. It has them wait on `system_taskq`, where after a quiet time one
//! thread is left for the whole kernel: a port with a silent administrator would keep dld from answering a bind on another link.
//! So every call is one that waits, on a thread of the module.
//!
//! How many calls a port may have out is [`ipoib::window`]'s to say; all ports together never have more than there are threads. So
//! there are as many threads from `_init` to `_fini`, however many links: none is made while a link waits for it, none waits for
//! another's answer, and a link costs none. What waits is kept with its link, in lines of fixed length, most urgent first; ports and
//! links that want the same take turns. A link that stops waits for none of its calls, and can be detached once none of its calls waits or is
//! out; so `_fini` finds the threads idle.

use ipoib::window::{End, Kind, Load, MOST, Window};
use ipoib::{Guid, Instant};
use kernel::list::{List, Room};
use kernel::sync::Monitor;
use kernel::thread::{Parker, Worker};
use kernel::{KArc, KBox, KVec, MayBlock};

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
}

/// Which port: its adapter's GUID and its number.
type PortKey = (Guid, u8);

struct Port {
    key: PortKey,
    links: usize,
    window: Window,
    /// Which call was its last.
    last: u64,
}

/// The calls of a link.
struct Calls {
    number: i32,
    port: PortKey,
    shared: KArc<Shared>,
    lines: KBox<Lines>,
    /// For the port, should the link go whose memory that is in; `None` if it is this one.
    spare: Option<Room<Port>>,
    /// Calls that are out.
    out: usize,
    /// Which call was its last.
    last: u64,
}

/// A link's membership, which ends when this is dropped.
pub(crate) struct Member {
    pool: KArc<SaPool>,
    number: i32,
}

/// A call that is being made.
pub(crate) struct Turn<'a> {
    state: &'a Monitor<State>,
    port: PortKey,
    call: ipoib::window::Call,
}

impl SaPool {
    /// Starts the threads. **May block.**
    pub(crate) fn new(may_block: &MayBlock) -> KArc<Self> {
        let state = State { ports: List::new(), links: List::new(), begun: 0 };
        let state = KArc::new_waiting(Monitor::new_waiting(state, may_block), may_block);
        let thread = |_| Worker::spawn(c"ibd_sa", state.clone(), may_block, work);
        let threads = KVec::from_fn_waiting(MOST, may_block, thread);
        KArc::new_waiting(Self { state, _threads: threads }, may_block)
    }

    /// Has each other link on the adapter give up a place for a group that only promiscuous mode hears. Takes the machines' locks of these links,
    /// one at a time, inside the pool's.
    pub(crate) fn ask_for_places(&self, number: i32, hca: Guid) {
        let state = self.state.lock();
        let others = state.links.iter().filter(|calls| calls.number != number && calls.port.0 == hca);
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
        let (port_room, link_room) = (Room::new_waiting(may_block), Room::new_waiting(may_block));
        let lines = lines(may_block);
        let mut calls = Calls { number, port, shared, lines, spare: None, out: 0, last: 0 };
        let mut state = pool.state.lock();
        match state.port(port) {
            Some(known) => {
                known.links += 1;
                calls.spare = Some(port_room);
            }
            None => state.ports.put(port_room, Port { key: port, links: 1, window: Window::new(), last: 0 }),
        }
        state.links.put(link_room, calls);
        drop(state);
        Member { pool: pool.clone(), number }
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
        let mut state = self.pool.state.lock();
        let gone = state.dismiss(self.number);
        drop(state);
        // Memory is freed without the lock.
        drop(gone);
    }
}

impl State {
    fn port(&mut self, key: PortKey) -> Option<&mut Port> {
        self.ports.find_mut(|port| port.key == key)
    }

    fn calls_of(&mut self, number: i32) -> Option<&mut Calls> {
        self.links.find_mut(|calls| calls.number == number)
    }

    /// Takes a link out, with its port if it was the last of that.
    fn dismiss(&mut self, number: i32) -> Option<(Calls, Option<Port>)> {
        let calls = self.links.take(|calls| calls.number == number)?;
        let last = self.port(calls.port).is_some_and(|port| {
            port.links -= 1;
            port.links == 0
        });
        let port = if last { self.ports.take(|port| port.key == calls.port) } else { None };
        if !last && calls.spare.is_none() {
            self.move_port(calls.port);
        }
        Some((calls, port))
    }

    /// Into the memory that another of its links has for it: a link leaves none behind.
    fn move_port(&mut self, key: PortKey) {
        let heir = self.links.find_mut(|calls| calls.port == key && calls.spare.is_some());
        let Some(room) = heir.and_then(|calls| calls.spare.take()) else { return };
        if let Some(port) = self.ports.take(|port| port.key == key) {
            self.ports.put(room, port);
        }
    }

    fn load(&self, now: Instant) -> Load {
        self.ports.iter().fold(Load::default(), |load, port| load.with(now, &port.window))
    }

    /// The link and the kind of the call that is to be made next, if one may: of a port that has none out, if there is such a one;
    /// else for a broadcast group; else of the port that has the fewest out. Of several ports the one whose turn is longest ago.
    fn next(&self, now: Instant) -> Option<(i32, Kind)> {
        let load = self.load(now);
        let ports = self.ports.iter();
        let best = ports.filter_map(|port| {
            let (kind, number) = self.next_of(now, port, &load)?;
            let out = port.window.out();
            Some(((out != 0, kind != Kind::Broadcast, out, port.last), (number, kind)))
        });
        best.min_by_key(|(rank, _)| *rank).map(|(_, next)| next)
    }

    /// The most urgent call of a port, if one may be made, and whose it is: of the link that has the fewest out, and among
    /// those of the one whose turn is longest ago.
    fn next_of(&self, now: Instant, port: &Port, load: &Load) -> Option<(Kind, i32)> {
        let links = || self.links.iter().filter(|calls| calls.port == port.key);
        let waits = |kind| links().any(|calls| calls.waits(kind));
        let path_waits = waits(Kind::Path) || waits(Kind::Rate);
        let admitted = |kind: &Kind| waits(*kind) && port.window.admits(now, *kind, path_waits, load);
        let kind = Kind::ALL.into_iter().find(admitted)?;
        let link = links().filter(|calls| calls.waits(kind)).min_by_key(|calls| (calls.out, calls.last))?;
        Some((kind, link.number))
    }

    /// When there may be room for what waits although nothing ends before that.
    fn next_room(&self, now: Instant) -> Option<Instant> {
        self.ports.iter().filter_map(|port| port.window.next_lost(now)).min()
    }

    /// Begins the call that is to be made next.
    fn begin(&mut self, now: Instant) -> Option<Begun> {
        let (number, kind) = self.next(now)?;
        self.begun += 1;
        let (key, turn) = (self.calls_of(number)?.port, self.begun);
        let port = self.port(key)?;
        let place = port.window.begin(now, kind)?;
        port.last = turn;
        let calls = self.calls_of(number)?;
        let call = calls.lines.get_mut(kind as usize)?.pop()?;
        (calls.out, calls.last) = (calls.out + 1, turn);
        Some(Begun { number, port: key, shared: calls.shared.clone(), call, place })
    }

    fn end(&mut self, now: Instant, number: i32, port: PortKey, place: ipoib::window::Call, end: End) {
        if let Some(port) = self.port(port) {
            port.window.end(now, place, end);
        }
        if let Some(calls) = self.calls_of(number) {
            calls.out -= 1;
        }
    }
}

impl Calls {
    fn waits(&self, kind: Kind) -> bool {
        self.lines.get(kind as usize).is_some_and(|line| !line.is_empty())
    }
}

/// What a thread has taken on.
struct Begun {
    number: i32,
    port: PortKey,
    shared: KArc<Shared>,
    call: Call,
    place: ipoib::window::Call,
}

impl Turn<'_> {
    /// The call asks a second question: its second begins anew.
    pub(crate) fn again(&self) {
        let mut state = self.state.lock();
        if let Some(port) = state.port(self.port) {
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
        let Begun { number, port, shared, call, place } = begun;
        let turn = Turn { state: parker.monitor(), port, call: place };
        let end = call.make(&shared, &turn);
        // The link may go as soon as its call has ended.
        drop(shared);
        let Turn { call: place, .. } = turn;
        state = parker.lock();
        state.end(now(), number, port, place, end);
    }
}
