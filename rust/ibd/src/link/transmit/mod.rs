//! From the MAC layer to the send queue.
//!
//! One lock per transmit queue. A packet to a neighbour that the queue remembers takes that lock and no other; another one takes the
//! machines' lock inside it. Only the queue takes a neighbour out of its memory: a flag in the neighbour says when it is not valid any more. What fits one MTU is copied into registered memory and freed at once, but not before the lock is
//! let go; a large send stays where it is until the adapter has cut it up ([`stage`]).

mod connected;
mod frame;
mod open_close;
mod post;
mod queues;
mod resolved;
mod send;
mod stage;

use gldv3::{Mac, Stat};
use ibtf::{CompletionBatch, CompletionStatus, SendQueue, Status};
use ipoib::LinkAddr;
use ipoib::link::{Generation, Side, Why};
use ipoib::paths::{Denial, DenialEpoch, Handle, TxQueue};
use kernel::mblk::{Mblk, MblkChain};
use kernel::sync::{Monitor, Mutex};
use kernel::{KArc, KBox, MayBlock};

use super::control::Control;
use super::incoming::ConnectionCounters;
use super::neighbour::Neighbour;
use super::qp_failures::Erred;
use super::settings::{HASH_UNIT, Key};
use crate::cache::AddressCache;
use crate::counters::{PacketCounts, Shown, TxCounters, TxDrop};
use crate::{now, probes};
use connected::Remembered;
pub(crate) use frame::Wire;
pub(crate) use queues::Transmitters;
use send::{NotSent, note};
pub(crate) use stage::{Abilities, SendSide};

/// Packets posted at once.
pub(crate) const BATCH: u32 = 32;
/// Addresses, at most, that a queue knows to be out of reach.
const DENIED: usize = 64;
/// Connections that a queue remembers.
const CONNECTIONS: usize = 256;
/// Completions taken at once.
const COMPLETIONS: usize = 16;

/// One transmit queue; lives as long as the link is attached. A soft interrupt of its own runs it when sends have
/// completed.
pub(crate) struct Transmitter {
    state: Mutex<State>,
    /// Which transmit ring this is, if the link has some.
    ring: Option<usize>,
    /// Its place among the link's queues.
    place: usize,
    mac: Mac,
    counters: KArc<TxCounters>,
    connection_counters: KArc<ConnectionCounters>,
    control: KArc<Monitor<Control>>,
    denial_epoch: KArc<DenialEpoch>,
    seed: u64,
}

struct State {
    /// What it sends from; while that is replaced, packets wait.
    side: Side<SendSide>,
    neighbours: AddressCache<Neighbour>,
    /// Addresses that nothing goes to for a while: a flood at a peer that is gone keeps off the machines' lock.
    denied: AddressCache<Denial>,
    /// Connections, and the octets that each carries; `None` before the link is to have some.
    connections: Option<KBox<AddressCache<Remembered>>>,
    completions: CompletionBatch,
    /// What is staged: for the counters, once it is posted.
    staged: PacketCounts,
    /// The MAC layer was given packets back and waits to be told.
    refused: bool,
    /// Packets whose path was found wait for room.
    behind: bool,
}

/// What to do when the lock is let go.
#[derive(Default)]
struct AfterUnlock {
    free: MblkChain,
    rare: Option<RareWork>,
}

/// What is to be done after few packets.
#[derive(Default)]
struct RareWork {
    wake_control: bool,
    /// The queue pair of this generation has failed.
    broken: Option<Generation>,
    /// Sends of it have failed.
    erred: Option<(Generation, Erred)>,
    resume: bool,
    /// A large send waits for buffers.
    want_large: bool,
    /// The adapter has refused a packet, and takes others.
    refused: Option<Status>,
}

impl AfterUnlock {
    fn rare(&mut self) -> &mut RareWork {
        self.rare.get_or_insert_default()
    }

    /// A send has not succeeded.
    #[inline(never)]
    fn erred(&mut self, generation: Generation, status: CompletionStatus) {
        let how = if status == CompletionStatus::FLUSHED { Erred::Flushed } else { Erred::Failed };
        let before = self.rare().erred.filter(|(_, before)| *before == Erred::Failed);
        self.rare().erred = before.or(Some((generation, how)));
    }
}

impl State {
    /// Why a packet to an address does not go, as far as this queue knows.
    fn denial(&mut self, to: &LinkAddr, denial_epoch: &DenialEpoch) -> Option<TxDrop> {
        let denial = *self.denied.get(to.words())?;
        denial.stands(now(), denial_epoch).then(|| denial.reason.into())
    }

    /// Whether the link opens connections.
    fn is_connected(&self) -> bool {
        self.side.get().is_some_and(|open| open.abilities.connected)
    }

    fn forget_all(&mut self) {
        self.neighbours.clear();
        self.denied.clear();
        if let Some(connections) = &mut self.connections {
            connections.clear();
        }
    }
}

impl Transmitter {
    fn new(
        ring: Option<usize>,
        mac: Mac,
        (counters, connection_counters): (KArc<TxCounters>, KArc<ConnectionCounters>),
        control: KArc<Monitor<Control>>,
        denial_epoch: KArc<DenialEpoch>,
        seed: u64,
        may_block: &MayBlock,
    ) -> KArc<Self> {
        let state = State {
            side: Side::default(),
            neighbours: new_memory(Key::HashSize.default_value(), seed, may_block),
            denied: AddressCache::new(DENIED, seed, may_block),
            connections: None,
            completions: CompletionBatch::new_waiting(COMPLETIONS, may_block),
            staged: PacketCounts::default(),
            refused: false,
            behind: false,
        };
        let (state, place) = (Mutex::new_waiting(state, may_block), ring.unwrap_or(0));
        let transmitter =
            Self { state, ring, place, mac, counters, connection_counters, control, denial_epoch, seed };
        KArc::new_waiting(transmitter, may_block)
    }

    /// Remembers `units` times [`HASH_UNIT`] addresses from now on. Waits for memory: **may block**.
    pub(crate) fn remember(&self, units: u32, may_block: &MayBlock) {
        let memory = new_memory(units, self.seed, may_block);
        let mut state = self.state.lock();
        let before = core::mem::replace(&mut state.neighbours, memory);
        drop(state);
        drop(before);
    }

    /// Forgets handles that do not hold any more, so that the adapter can have them back. Looks at every place of the memory.
    pub(crate) fn forget_withdrawn(&self) {
        self.state.lock().neighbours.retain(|neighbour| neighbour.validity().holds());
    }

    /// The MAC layer has packets back, and has to be told when there is room.
    fn gave_back(&self, state: &mut State) {
        if !core::mem::replace(&mut state.refused, true) {
            self.counters.full.increment();
            probes::tx_full(self.counters.link(), self.place);
        }
    }

    /// Tells the MAC layer that there is room.
    fn ready(&self) {
        probes::tx_resume(self.counters.link(), self.place);
        match self.ring {
            Some(ring) => self.mac.transmit_ring_ready(ring),
            None => self.mac.transmit_ready(),
        }
    }

    fn stat(&self, stat: Stat) -> Option<u64> {
        self.counters.stat(stat)
    }

    /// What is counted of it, and how full it is: with its lock for a moment.
    pub(crate) fn show(&self, shown: &mut Shown<'_>) {
        self.counters.show(shown);
        let state = self.state.lock();
        let queue = state.side.get().map(|open| &open.queue);
        let [room, outstanding] = [queue.map(SendQueue::room), queue.map(SendQueue::outstanding)];
        let qpn = queue.map(|queue| queue.channel().qpn());
        drop(state);
        shown.put([room, outstanding, qpn].map(|number| number.unwrap_or(0).into()));
    }

    /// By which packets that wait for their path come back to this queue.
    fn tx_queue(&self) -> TxQueue {
        TxQueue::new(self.place)
    }

    fn drop_packet(&self, packet: Mblk, reason: TxDrop, after: &mut AfterUnlock) {
        self.counters.dropped(reason);
        after.free.push_back(packet);
    }

    /// With no lock held.
    #[inline]
    fn finish(&self, mut after: AfterUnlock) {
        drop(core::mem::take(&mut after.free));
        if after.rare.is_some() {
            self.tell(after);
        }
    }

    #[inline(never)]
    fn tell(&self, after: AfterUnlock) {
        let RareWork { wake_control, broken, erred, resume, want_large, refused } =
            after.rare.unwrap_or_default();
        if want_large {
            self.control.lock().large_buffers_wanted = true;
            self.control.notify_all();
        }
        if refused.is_some() {
            self.control.lock().send_refused = refused;
            self.control.notify_all();
        }
        if wake_control {
            self.go_on();
        }
        if broken.is_some() {
            self.broken(broken, Why::Failed);
        } else if let Some((generation, how)) = erred {
            self.control.lock().send_erred(now(), self.place, generation, how);
            self.control.notify_all();
        }
        if resume {
            self.ready();
        }
    }

    /// Has the control thread bring packets that wait for room here, with no lock held.
    fn go_on(&self) {
        self.control.lock().wait_for_room(self.tx_queue(), false);
        self.control.notify_all();
    }
}

fn new_memory(units: u32, seed: u64, may_block: &MayBlock) -> AddressCache<Neighbour> {
    AddressCache::new(units as usize * HASH_UNIT as usize, seed, may_block)
}
