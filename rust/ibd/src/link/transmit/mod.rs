//! From the MAC layer to the send queue.
//!
//! One lock per transmit queue. A packet to a neighbour that the queue remembers takes that lock and no other; another one takes the
//! machines' lock inside it. Nobody takes a neighbour out of a queue's memory but the queue: it says itself when it does not hold any more. What fits one MTU is copied into registered memory and freed at once, but not before the lock is
//! let go; a large send stays where it is until the adapter has cut it up ([`stage`]).

mod connected;
mod every;
mod frame;
mod stage;

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use gldv3::{Mac, Stat};
use ibtf::{BufferPool, CompletionBatch, Cq, Notify, Payload, PostFailure, Refused, SendQueue, Status};
use ipoib::header::PSEUDO_HEADER_LEN;
use ipoib::neighbours::{self, Direction};
use ipoib::paths::{Action, Denial, Handle, Lane, Pardons, Submitted};
use ipoib::{EtherType, Instant, LinkAddr};
use kernel::mblk::{Mblk, MblkChain};
use kernel::softint::SoftHandler;
use kernel::sync::{Monitor, Mutex, MutexGuard};
use kernel::{AllocError, KArc, KBox};

use super::control::Control;
use super::incoming::GuestCounters;
use super::neighbour::Neighbour;
use super::outgoing::Pipe;
use super::senders::Why;
use super::settings::{HASH_UNIT, Key};
use crate::cache::AddressCache;
use crate::counters::{Shown, Tally, TxCounters, TxDrop};
use crate::{now, probes};
use every::Closed;
pub(crate) use every::Transmitters;
pub(crate) use frame::Wire;
use frame::{Frame, Plain};
pub(crate) use stage::{Abilities, LargePool, Open};
use stage::{Staged, Unstaged};

/// Packets posted at once.
pub(crate) const BATCH: u32 = 32;
/// Every so many sends one completes, and tells about those before it.
pub(crate) const SIGNAL_EVERY: u32 = 64;
/// Addresses, at most, that a queue knows to be out of reach.
const DENIED: usize = 64;
/// Connections that a queue remembers.
const CONNECTIONS: usize = 256;
/// Completions taken at once.
const COMPLETIONS: usize = 16;
/// Room that must have come back before the MAC layer is told, as a fraction of the ring.
const RESUME: u32 = 8;

/// One transmit queue; lives as long as the link is attached. A soft interrupt of its own runs it when sends have
/// completed.
pub(crate) struct Transmitter {
    state: Mutex<State>,
    /// Which transmit ring this is, if the link has some.
    ring: Option<usize>,
    /// Its place among the link's queues.
    place: usize,
    closed: KArc<Closed>,
    /// How often this one alone was closed, to be opened again.
    suspensions: AtomicU64,
    mac: Mac,
    counters: KArc<TxCounters>,
    guest_counters: KArc<GuestCounters>,
    control: KArc<Monitor<Control>>,
    pardons: KArc<Pardons>,
    seed: u64,
}

struct State {
    open: Option<Open>,
    /// Which queue pair that is, or was last.
    serial: u64,
    /// It is being replaced: packets wait for the next one.
    suspended: bool,
    neighbours: AddressCache<Neighbour>,
    /// Addresses that nothing goes to for a while: a flood at a peer that is gone keeps off the machines' lock.
    denied: AddressCache<Denial>,
    /// Connections, and the octets that each carries; `None` before the link is to have some.
    pipes: Option<KBox<AddressCache<(Pipe, u32)>>>,
    completions: CompletionBatch,
    /// What is staged: for the counters, once it is posted.
    staged: Tally,
    /// The MAC layer was given packets back and waits to be told.
    refused: bool,
    /// Packets whose path was found wait for room.
    behind: bool,
    /// Completions that were due when [`Transmitter::watch`] looked, and since when none has come.
    waits: Option<(u32, Instant)>,
}

/// Why a packet did not go.
enum Stopped {
    /// No room: the packet is to be given back.
    Full(Mblk),
    /// It waits for its path.
    Waits,
    /// Never: to be freed.
    Dropped(Mblk, TxDrop),
}

impl From<Unstaged> for Stopped {
    fn from(unstaged: Unstaged) -> Self {
        match unstaged {
            Unstaged::Full(packet) | Unstaged::NoPool(packet) => Self::Full(packet),
            Unstaged::Dropped(packet, reason) => Self::Dropped(packet, reason),
        }
    }
}

/// What to do when the lock is let go.
#[derive(Default)]
struct After {
    free: MblkChain,
    rare: Option<Rare>,
}

/// What is to be done after few packets.
#[derive(Default)]
struct Rare {
    wake_control: bool,
    /// The queue pair with this serial number has failed.
    broken: Option<u64>,
    resume: bool,
    /// A large send waits for buffers.
    want_large: bool,
    /// The adapter has refused a packet, and takes others.
    refused: Option<Status>,
}

impl After {
    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }
}

impl State {
    /// Why a packet to an address does not go, as far as this queue knows.
    fn denial(&mut self, to: &LinkAddr, pardons: &Pardons) -> Option<TxDrop> {
        let denial = *self.denied.get(to.words())?;
        denial.stands(now(), pardons).then(|| denial.reason.into())
    }

    /// Whether the link opens connections.
    fn is_connected(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.abilities.connected)
    }

    fn forget_all(&mut self) {
        self.neighbours.clear();
        self.denied.clear();
        if let Some(pipes) = &mut self.pipes {
            pipes.clear();
        }
    }
}

impl Transmitter {
    fn new(
        ring: Option<usize>,
        mac: Mac,
        (counters, guest_counters): (KArc<TxCounters>, KArc<GuestCounters>),
        control: KArc<Monitor<Control>>,
        pardons: KArc<Pardons>,
        closed: KArc<Closed>,
        seed: u64,
    ) -> Result<KArc<Self>, AllocError> {
        let state = State {
            open: None,
            serial: 0,
            suspended: false,
            neighbours: new_memory(Key::HashSize.default_value(), seed)?,
            denied: AddressCache::new(DENIED, seed)?,
            pipes: None,
            completions: CompletionBatch::new(COMPLETIONS)?,
            staged: Tally::default(),
            refused: false,
            behind: false,
            waits: None,
        };
        let (state, suspensions) = (Mutex::new(state)?, AtomicU64::new(0));
        let place = ring.unwrap_or(0);
        KArc::new(Self {
            state,
            ring,
            place,
            closed,
            suspensions,
            mac,
            counters,
            guest_counters,
            control,
            pardons,
            seed,
        })
    }

    /// Remembers `units` times [`HASH_UNIT`] addresses from now on; as many as before if there is no memory.
    pub(crate) fn remember(&self, units: u32) -> Result<(), AllocError> {
        let memory = new_memory(units, self.seed)?;
        let mut state = self.state.lock();
        let before = core::mem::replace(&mut state.neighbours, memory);
        drop(state);
        drop(before);
        Ok(())
    }

    /// Makes room for connections, if the link opens some. Without memory the machine is asked each time.
    pub(super) fn remember_connections(&self, open: &Open) {
        if !open.abilities.connected || self.state.lock().pipes.is_some() {
            return;
        }
        let pipes = AddressCache::new(CONNECTIONS, self.seed).and_then(KBox::new).ok();
        self.state.lock().pipes = pipes;
    }

    /// Which send side this is: another number after every close.
    pub(crate) fn epoch(&self) -> u64 {
        self.closed.count() + self.suspensions.load(Ordering::SeqCst)
    }

    /// Whether large sends wait for buffers that were asked for.
    pub(crate) fn wants_large(&self) -> bool {
        matches!(&self.state.lock().open, Some(Open { large: LargePool::Asked, .. }))
    }

    /// Brings the buffers for large sends that were asked for, or `None` if there was no memory. Buffers asked for before a
    /// close come back, to be closed.
    pub(crate) fn bring_large(&self, epoch: u64, pool: Option<BufferPool>) -> Option<BufferPool> {
        let mut state = self.state.lock();
        if self.epoch() != epoch {
            return pool;
        }
        let Some(open) = &mut state.open else { return pool };
        open.large = pool.map_or(LargePool::Failed, LargePool::Ready);
        let resume = core::mem::take(&mut state.refused);
        drop(state);
        if resume {
            self.ready();
        }
        None
    }

    /// Starts sending, or hands the send side back if it was closed since `epoch`.
    fn open(&self, epoch: u64, serial: u64, open: Open) -> Option<Open> {
        let armed = open.queue.channel().send_cq().arm(Notify::Any);
        let mut state = self.state.lock();
        if self.closed.count() != epoch {
            drop(state);
            return Some(open);
        }
        state.open = Some(open);
        state.serial = serial;
        let suspended = core::mem::take(&mut state.suspended);
        let (refused, behind) =
            (suspended && core::mem::take(&mut state.refused), core::mem::take(&mut state.behind));
        drop(state);
        if armed.is_err() {
            self.broken(serial, Why::Failed);
        }
        if refused {
            self.ready();
        }
        if behind {
            self.go_on();
        }
        None
    }

    /// Stops sending until it is opened again: when this returns nobody posts any more. Packets are given back, not dropped.
    fn suspend(&self) -> Option<Open> {
        let (mut state, mut after) = (self.state.lock(), After::default());
        // As for a close.
        self.reclaim(&mut state, &mut after);
        let open = state.open.take()?;
        self.suspensions.fetch_add(1, Ordering::SeqCst);
        state.suspended = true;
        // There is room when it is opened again.
        let Rare { resume, wake_control, .. } = after.rare.take().unwrap_or_default();
        state.refused |= resume;
        state.behind |= wake_control;
        state.waits = None;
        state.forget_all();
        drop(state);
        drop(after);
        Some(open)
    }

    /// The queue pair with this serial number does not work any more.
    fn broken(&self, serial: u64, why: Why) {
        self.control.lock().send_side_failed(now(), self.place, serial, why);
        self.control.notify_all();
    }

    /// Stops sending: when this returns nobody posts any more. What the adapter has stays with the queue.
    fn close(&self) -> Option<Open> {
        let (mut state, mut after) = (self.state.lock(), After::default());
        // What has failed is counted as long as somebody can tell.
        self.reclaim(&mut state, &mut after);
        let open = state.open.take();
        state.suspended = false;
        state.waits = None;
        state.forget_all();
        let rare = after.rare();
        rare.resume |= core::mem::take(&mut state.refused);
        rare.wake_control |= core::mem::take(&mut state.behind);
        // It is being replaced, or nobody wants it any more.
        rare.broken = None;
        drop(state);
        self.finish(after);
        open
    }

    /// Looks whether the adapter owes a completion for longer than `timeout`, and tells. Has to look more often than that.
    pub(crate) fn watch(&self, now: Instant, timeout: Duration) {
        let mut state = self.state.lock();
        let progress = state.open.as_mut().and_then(|open| {
            open.queue.signal_soon();
            open.queue.progress()
        });
        let since = match (progress, state.waits) {
            (None, _) => None,
            (Some(now_at), Some((before, since))) if now_at == before => Some((before, since)),
            (Some(now_at), _) => Some((now_at, now)),
        };
        state.waits = since;
        let late = since.is_some_and(|(_, since)| now - since >= timeout);
        if late {
            state.waits = None;
            self.counters.timeouts.increment();
        }
        let serial = state.serial;
        drop(state);
        if late {
            self.broken(serial, Why::Stalled);
        }
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
        let queue = state.open.as_ref().map(|open| &open.queue);
        let [room, outstanding] = [queue.map(SendQueue::room), queue.map(SendQueue::outstanding)];
        let qpn = queue.map(|queue| queue.channel().qpn());
        drop(state);
        shown.put([room, outstanding, qpn].map(|number| number.unwrap_or(0).into()));
    }

    /// `mc_tx`, or `mri_tx` of its ring: what comes back is to be sent again when there is room.
    pub(crate) fn transmit(&self, mut packets: MblkChain) -> MblkChain {
        let mut after = After::default();
        let mut state = self.state.lock();
        if state.open.is_none() {
            return self.turn_away(state, packets);
        }
        while let Some(packet) = packets.pop_front() {
            let Some(packet) = self.send(&mut state, packet, &mut after) else { continue };
            packets.push_front(packet);
            self.counters.put_off.add(packets.len() as u64);
            break;
        }
        self.post_here(&mut state, &mut after);
        drop(state);
        self.finish(after);
        packets
    }

    /// There is nothing to send from: packets are freed, or given back if there soon will be.
    #[inline(never)]
    fn turn_away(&self, mut state: MutexGuard<'_, State>, packets: MblkChain) -> MblkChain {
        if state.suspended {
            self.gave_back(&mut state);
            drop(state);
            self.counters.put_off.add(packets.len() as u64);
            return packets;
        }
        drop(state);
        self.counters.dropped_many(TxDrop::LinkDown, packets.len());
        MblkChain::new()
    }

    /// Sends this queue's packets whose path was found, and frees those without one, as long as there is room. On the control
    /// thread.
    fn send_resolved(&self) {
        let mut after = After::default();
        let mut state = self.state.lock();
        loop {
            if state.open.as_ref().is_some_and(|open| open.queue.room() == 0) {
                self.reclaim(&mut state, &mut after);
            }
            let mut control = self.control.lock();
            if state.suspended || state.open.as_ref().is_some_and(|open| open.queue.room() == 0) {
                state.behind = true;
                control.wait_for_room(self.lane(), true);
                break;
            }
            let action = control.paths.next_packet(self.lane());
            drop(control);
            match action {
                // Not to be remembered: the next packet asks, and comes behind those that still wait.
                Some(Action::Send(_, packet, to)) => self.send_to(&mut state, packet, to, &mut after),
                Some(Action::Drop(_, packet, reason)) => self.drop_packet(packet, reason.into(), &mut after),
                None => break,
            }
        }
        self.post(&mut state, &mut after);
        drop(state);
        self.finish(after);
    }

    /// By which packets that wait for their path come back to this queue.
    fn lane(&self) -> Lane {
        Lane::new(self.place)
    }

    fn send_to(&self, state: &mut State, packet: Mblk, to: Neighbour, after: &mut After) {
        let Some((flagged, frame)) = Frame::read(&packet) else {
            return self.drop_packet(packet, TxDrop::Malformed, after);
        };
        if state.is_connected() {
            self.make_room(state, &frame, after);
            let sent =
                self.send_there(state, (connected::neighbour(&flagged, &frame), &to), packet, &frame, after);
            return self.done(sent, after);
        }
        let refused = state.open.as_ref().map_or(Some(TxDrop::LinkReset), |open| open.refuses(&frame));
        if let Some(reason) = refused {
            return self.drop_packet(packet, reason, after);
        }
        self.make_room(state, &frame, after);
        let State { open: Some(open), staged, .. } = state else {
            return self.drop_packet(packet, TxDrop::LinkReset, after);
        };
        let sent = self.stage_any(open, staged, &to, packet, &frame, after);
        self.done(sent, after);
    }

    /// Frees a packet that did not go, and that nobody can be given back.
    fn done(&self, sent: Result<(), Stopped>, after: &mut After) {
        match sent {
            Ok(()) | Err(Stopped::Waits) => {}
            Err(Stopped::Dropped(packet, reason)) => self.drop_packet(packet, reason, after),
            Err(Stopped::Full(packet)) => self.drop_packet(packet, TxDrop::QueueFull, after),
        }
    }

    /// Stages one packet, or frees it, or has it wait for its path; what comes back is to be given back. Straight ahead is what nearly
    /// all packets need: a known neighbour, a buffer at hand, room in the queue.
    #[inline(always)]
    fn send(&self, state: &mut State, packet: Mblk, after: &mut After) -> Option<Mblk> {
        if let State { open: Some(open), neighbours, staged, .. } = &mut *state
            && let Some(plain) = Plain::read(&packet)
            && let Some(neighbour) = neighbours.get(plain.to)
            && neighbour.validity().holds()
            && neighbour.carries(plain.message.len())
        {
            neighbour.validity().note_use();
            let wire = Wire::one(plain.to.cast(), plain.message.len() as u32);
            if open.stage_plain(neighbour.handle(), &plain, wire) {
                note(staged, wire);
                after.free.push_back(packet);
                return None;
            }
        }
        self.send_with_care(state, packet, after)
    }

    /// One that is not like most.
    #[inline(never)]
    fn send_with_care(&self, state: &mut State, packet: Mblk, after: &mut After) -> Option<Mblk> {
        let Some((to, frame)) = Frame::read(&packet) else {
            return self.stopped(state, Stopped::Dropped(packet, TxDrop::Malformed), after);
        };
        match self.send_any(state, to, packet, &frame, after) {
            Ok(()) => None,
            Err(stopped) => self.stopped(state, stopped, after),
        }
    }

    /// What becomes of one that did not go: it comes back if it is to be given back.
    #[inline(never)]
    fn stopped(&self, state: &mut State, stopped: Stopped, after: &mut After) -> Option<Mblk> {
        match stopped {
            Stopped::Waits => None,
            Stopped::Dropped(packet, reason) => {
                self.drop_packet(packet, reason, after);
                None
            }
            Stopped::Full(packet) => {
                // Under the lock the completion handler takes, with completions to come: no wake-up is lost.
                self.gave_back(state);
                Some(packet)
            }
        }
    }

    fn send_any(
        &self,
        state: &mut State,
        to: LinkAddr,
        packet: Mblk,
        frame: &Frame,
        after: &mut After,
    ) -> Result<(), Stopped> {
        let flagged = to;
        let Some(open) = &state.open else { return Err(Stopped::Dropped(packet, TxDrop::LinkDown)) };
        let Some(to) = to.canonical() else {
            return Err(Stopped::Dropped(packet, TxDrop::BadDestination));
        };
        if open.abilities.connected {
            if frame.may_tell_neighbour(&packet) {
                self.learn(&packet, frame.ethertype, to);
            }
            self.make_room(state, frame, after);
            return self.send_connected(state, (flagged, to), packet, frame, after);
        }
        if let Some(reason) = open.refuses(frame) {
            return Err(Stopped::Dropped(packet, reason));
        }
        if frame.may_tell_neighbour(&packet) {
            self.learn(&packet, frame.ethertype, to);
        }
        self.make_room(state, frame, after);
        let State { open: Some(open), neighbours, staged, .. } = state else {
            return Err(Stopped::Dropped(packet, TxDrop::LinkDown));
        };
        if let Some(neighbour) = neighbours.get(to.words()) {
            if neighbour.validity().holds() {
                neighbour.validity().note_use();
                return self.stage_any(open, staged, neighbour, packet, frame, after);
            }
            neighbours.remove(&to);
        }
        self.send_to_unknown(state, to, packet, frame, after)
    }

    /// To an address that the queue does not remember.
    #[inline(never)]
    fn send_to_unknown(
        &self,
        state: &mut State,
        to: LinkAddr,
        packet: Mblk,
        frame: &Frame,
        after: &mut After,
    ) -> Result<(), Stopped> {
        // Those before it wait for room, and completions are to come.
        if state.behind {
            return Err(Stopped::Full(packet));
        }
        if let Some(reason) = state.denial(&to, &self.pardons) {
            return Err(Stopped::Dropped(packet, reason));
        }
        let (packet, neighbour) = self.ask_for_path(state, to, packet, after)?;
        let State { open: Some(open), staged, .. } = state else {
            return Err(Stopped::Dropped(packet, TxDrop::LinkDown));
        };
        self.stage_any(open, staged, &neighbour, packet, frame, after)
    }

    /// ARP and neighbour discovery say who has which address.
    #[inline(never)]
    fn learn(&self, packet: &Mblk, ethertype: EtherType, to: LinkAddr) {
        let mut prefix = [0; neighbours::PREFIX_LEN];
        let len = packet.copy_to(PSEUDO_HEADER_LEN, &mut prefix);
        let payload = prefix.get(..len).unwrap_or_default();
        if let Some(neighbour) = neighbours::read(ethertype, payload, Direction::Out(to)) {
            self.control.lock().neighbours.learn(now(), neighbour);
        }
    }

    fn ask_for_path(
        &self,
        state: &mut State,
        to: LinkAddr,
        packet: Mblk,
        after: &mut After,
    ) -> Result<(Mblk, Neighbour), Stopped> {
        let mut control = self.control.lock();
        let submitted = control.paths.submit(now(), to, self.lane(), packet);
        drop(control);
        match submitted {
            Submitted::Ready(packet, neighbour) => {
                state.neighbours.insert(to, neighbour.clone());
                Ok((packet, neighbour))
            }
            Submitted::Queued(gave_way) => {
                after.rare().wake_control = true;
                if let Some(packet) = gave_way {
                    self.drop_packet(packet, TxDrop::QueueFull, after);
                }
                Err(Stopped::Waits)
            }
            Submitted::Dropped(packet, reason) => Err(Stopped::Dropped(packet, reason.into())),
            Submitted::Denied(packet, denial) => {
                state.denied.insert(to, denial);
                Err(Stopped::Dropped(packet, denial.reason.into()))
            }
        }
    }

    /// Posts what is staged, and takes completions, if the next one would find no room without.
    fn make_room(&self, state: &mut State, frame: &Frame, after: &mut After) {
        let Some(open) = &state.open else { return };
        let (full, short) = (open.queue.batch_is_full(), open.is_short(frame));
        if full || short {
            self.post(state, after);
        }
        if short {
            self.reclaim(state, after);
        }
    }

    #[inline(never)]
    fn stage_any(
        &self,
        open: &mut Open,
        staged: &mut Tally,
        to: &Neighbour,
        packet: Mblk,
        frame: &Frame,
        after: &mut After,
    ) -> Result<(), Stopped> {
        if !to.carries(frame.longest()) {
            return Err(Stopped::Dropped(packet, TxDrop::TooLong));
        }
        match open.stage(to.handle(), packet, frame) {
            Ok(Staged::Copied(packet)) => after.free.push_back(packet),
            Ok(Staged::Mapped) => self.counters.mapped.increment(),
            Err(Unstaged::NoPool(packet)) => {
                if matches!(open.large, LargePool::Absent) {
                    open.large = LargePool::Asked;
                    after.rare().want_large = true;
                }
                return Err(Stopped::Full(packet));
            }
            Err(unstaged) => return Err(unstaged.into()),
        }
        if frame.options.large.is_some() {
            self.counters.large.increment();
            self.counters.cut.add(frame.wire().packets.saturating_sub(1).into());
        }
        note(staged, frame.wire());
        Ok(())
    }

    /// Posts what is staged and counts it.
    #[inline(never)]
    fn post(&self, state: &mut State, after: &mut After) {
        self.post_here(state, after);
    }

    /// As [`Transmitter::post`], in the caller's own text.
    #[inline(always)]
    fn post_here(&self, state: &mut State, after: &mut After) {
        let State { open: Some(open), staged, serial, .. } = state else { return };
        let result = open.queue.post(|_, refused| {
            staged.take_out(refused.cookie.cast, refused.cookie.packets, refused.cookie.bytes);
            self.refused(refused, after);
        });
        // A queue that is full and has sends out will have room.
        if let Err(PostFailure { why, .. }) = result
            && (why != Status::CHAN_FULL || open.queue.outstanding() == 0)
        {
            after.rare().broken = Some(*serial);
        }
        self.counters.sent(staged);
        staged.clear();
    }

    /// The adapter did not take a packet.
    #[inline(never)]
    fn refused(&self, refused: Refused<Wire>, after: &mut After) {
        let of_this_one = refused.why.is_of_one_request();
        let reason = if of_this_one { TxDrop::Refused } else { TxDrop::PostFailed };
        self.counters.dropped(reason);
        if of_this_one {
            after.rare().refused = Some(refused.why);
        }
        free_packet(refused.payload, &mut after.free);
    }

    /// Takes the completions there are; how many.
    #[inline(never)]
    fn reclaim(&self, state: &mut State, after: &mut After) -> usize {
        let State { open: Some(open), completions, serial, .. } = state else { return 0 };
        let mut taken = 0;
        loop {
            match open.queue.channel().send_cq().poll(completions) {
                Ok(0) => break,
                Ok(polled) => taken += polled,
                Err(_) => {
                    after.rare().broken = Some(*serial);
                    break;
                }
            }
            let Open { queue, spare, buffer_size, .. } = &mut *open;
            while let Some(completion) = completions.take() {
                let Some(mut over) = queue.complete(completion) else { continue };
                while let Some(sent) = queue.next_over(&mut over) {
                    if !sent.status.is_success() {
                        self.counters.failed.increment();
                        after.rare().broken = Some(*serial);
                    }
                    match sent.payload {
                        Payload::Packet(packet) => after.free.push_back(packet),
                        Payload::Buffer(buffer) => Open::put_back(spare, *buffer_size, buffer),
                    }
                }
            }
        }
        let room = open.queue.room();
        let ring = room + open.queue.outstanding();
        if room > ring / RESUME {
            let (resume, behind) = (core::mem::take(&mut state.refused), core::mem::take(&mut state.behind));
            if resume | behind {
                let rare = after.rare();
                rare.resume |= resume;
                rare.wake_control |= behind;
            }
        }
        taken
    }

    fn drop_packet(&self, packet: Mblk, reason: TxDrop, after: &mut After) {
        self.counters.dropped(reason);
        after.free.push_back(packet);
    }

    /// With no lock held.
    #[inline]
    fn finish(&self, mut after: After) {
        drop(core::mem::take(&mut after.free));
        if after.rare.is_some() {
            self.tell(after);
        }
    }

    #[inline(never)]
    fn tell(&self, after: After) {
        let Rare { wake_control, broken, resume, want_large, refused } = after.rare.unwrap_or_default();
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
        if let Some(serial) = broken {
            self.broken(serial, Why::Failed);
        }
        if resume {
            self.ready();
        }
    }

    /// Has the control thread bring packets that wait for room here, with no lock held.
    fn go_on(&self) {
        self.control.lock().wait_for_room(self.lane(), false);
        self.control.notify_all();
    }

    fn arm(&self) -> bool {
        let state = self.state.lock();
        let cq: Option<&Cq> = state.open.as_ref().map(|open| open.queue.channel().send_cq());
        let armed = cq.map(|cq| cq.arm(Notify::Any).is_ok());
        let serial = state.serial;
        drop(state);
        if armed == Some(false) {
            // Nobody would call again.
            self.broken(serial, Why::Failed);
        }
        armed == Some(true)
    }
}

impl SoftHandler for Transmitter {
    /// Takes everything there is, arms, and looks once more.
    fn run(&self) {
        let mut armed = false;
        loop {
            let mut after = After::default();
            let mut state = self.state.lock();
            let taken = self.reclaim(&mut state, &mut after);
            drop(state);
            self.finish(after);
            match (taken, armed) {
                (0, true) => return,
                (0, false) if !self.arm() => return,
                (0, false) => armed = true,
                _ => armed = false,
            }
        }
    }
}

/// For the counters.
#[inline]
fn note(staged: &mut Tally, wire: Wire) {
    staged.add(wire.cast, wire.packets, wire.bytes);
}

/// A packet that was sent from where it is goes to those to be freed; a buffer goes home.
fn free_packet(payload: Payload, free: &mut MblkChain) {
    if let Payload::Packet(packet) = payload {
        free.push_back(packet);
    }
}

fn new_memory(units: u32, seed: u64) -> Result<AddressCache<Neighbour>, AllocError> {
    AddressCache::new(units as usize * HASH_UNIT as usize, seed)
}
