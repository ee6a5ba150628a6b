//! The sending end of a connection.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use ibtf::{Buffer, CompletionBatch, Cq, MessageQueue, Notify, Status};
use ipoib::connections::{Channel, Connection};
use ipoib::header::{IPOIB_HEADER_LEN, PSEUDO_HEADER_LEN};
use ipoib::paths::Validity;
use ipoib::{EtherType, Instant, nd};
use kernel::KArc;
use kernel::mblk::{Mblk, MblkChain};
use kernel::sync::Mutex;

use super::send_pools::{LARGE_EACH, SMALL, SMALL_EACH, SendPools};
use crate::link::incoming::ConnectionCounters;
use crate::now;

/// Octets in front of the message, in the MAC layer's form.
const ADDRESSES_LEN: usize = PSEUDO_HEADER_LEN - IPOIB_HEADER_LEN;
/// Sends that a connection has out at most: as many as it may have buffers.
pub(super) const SENDS: u32 = SMALL_EACH + LARGE_EACH;
/// Packets that wait for one of them to complete, at most.
const WAITING: usize = 64;
/// Every send completes by itself: its buffer is one of a pool that all connections share, and nobody knows when the next send comes.
pub(super) const SIGNAL_EVERY: u32 = 1;
/// Completions taken at once.
const COMPLETIONS: usize = 16;

/// What became of a packet.
#[must_use]
pub(crate) enum Sent {
    /// The adapter has it, in a copy: the packet is to be freed.
    Taken(Mblk),
    /// It waits until the adapter has completed others.
    Waits,
    /// There is no room.
    Full(Mblk),
    /// The connection is closed.
    Closed(Mblk),
    /// The adapter does not take this one.
    Refused(Mblk),
    /// The adapter takes none any more: the connection is [lost](super::OutgoingConnections::lost).
    Broken(Mblk),
}

/// What became of a copy.
enum Posted {
    Well,
    Full,
    Refused,
    Broken,
}

/// Cheap to clone: the machine has one, whoever sends remembers one, and the soft interrupt finds one.
#[derive(Clone)]
pub(crate) struct ConnectedSender(KArc<Inner>);

struct Inner {
    connection: Connection,
    validity: Validity,
    /// Since when a completion is owed, in nanoseconds; 0 if none is.
    owes: AtomicU64,
    counters: KArc<ConnectionCounters>,
    state: Mutex<State>,
}

struct State {
    open: Option<Open>,
    batch: CompletionBatch,
}

struct Open {
    queue: MessageQueue,
    send_pools: KArc<SendPools>,
    /// Large buffers that the adapter has.
    large: u32,
    /// Packets that go when some of what is out has completed, in their order. Something is out as long as there are some.
    waiting: MblkChain,
    /// Octets of those, with their IPoIB headers.
    octets: u32,
}

impl Channel for ConnectedSender {
    fn validity(&self) -> &Validity {
        &self.0.validity
    }

    fn owes_since(&self) -> Option<Instant> {
        match self.0.owes.load(Ordering::Relaxed) {
            0 => None,
            since => Some(Instant::from_nanos(since)),
        }
    }
}

impl core::fmt::Debug for ConnectedSender {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "ConnectedSender({})", self.0.connection.number)
    }
}

impl ConnectedSender {
    pub(super) fn new(
        connection: Connection,
        queue: MessageQueue,
        send_pools: KArc<SendPools>,
        counters: KArc<ConnectionCounters>,
    ) -> Result<Self, Status> {
        let open = Some(Open { queue, send_pools, large: 0, waiting: MblkChain::new(), octets: 0 });
        let state = State { open, batch: CompletionBatch::new(COMPLETIONS)? };
        let (owes, state) = (AtomicU64::new(0), Mutex::new(state)?);
        Ok(Self(KArc::new(Inner { connection, validity: Validity::new(), owes, counters, state })?))
    }

    pub(crate) fn connection(&self) -> Connection {
        self.0.connection
    }

    /// Nothing is posted any more once this returns. What the adapter has stays with the channel; nobody learns what became of it.
    pub(super) fn close(&self) {
        let mut state = self.0.state.lock();
        let State { open, batch } = &mut *state;
        if let Some(open) = open {
            // What has gone well already is not lost.
            let _ = open.take_completed(batch, &self.0);
        }
        let open = state.open.take();
        drop(state);
        if let Some(open) = &open {
            self.0.counters.lost.add(u64::from(open.queue.outstanding()) + open.waiting.len() as u64);
        }
        drop(open);
        self.0.owes.store(0, Ordering::Relaxed);
    }

    /// Has its completions told. `false` if that failed.
    pub(super) fn arm(&self) -> bool {
        self.0.state.lock().open.as_ref().is_some_and(Open::arm)
    }

    /// Sends a packet of the MAC layer's with this EtherType, of `len` octets with its IPoIB header: copies it, at once or when there is
    /// room. Packets that have waited and went are to be freed by the caller, who may hold locks. **Any** context.
    pub(crate) fn send(&self, packet: Mblk, ethertype: EtherType, len: u32, freed: &mut MblkChain) -> Sent {
        self.send_locked(&mut self.0.state.lock(), packet, ethertype, len, freed)
    }

    fn send_locked(
        &self,
        state: &mut State,
        packet: Mblk,
        ethertype: EtherType,
        len: u32,
        freed: &mut MblkChain,
    ) -> Sent {
        let State { open: Some(open), batch } = state else { return Sent::Closed(packet) };
        let short = !open.waiting.is_empty() || open.is_short(len);
        if short && !(open.take_completed(batch, &self.0) && open.send_waiting(&self.0, freed)) {
            return Sent::Broken(packet);
        }
        let posted =
            if open.waiting.is_empty() { open.send(&self.0, &packet, ethertype, len) } else { Posted::Full };
        match posted {
            Posted::Well => Sent::Taken(packet),
            // Whatever waits is looked at when something completes.
            Posted::Full if open.queue.expects() && open.may_wait(len) => {
                open.waits(len);
                open.waiting.push_back(packet);
                Sent::Waits
            }
            Posted::Full => Sent::Full(packet),
            Posted::Refused => Sent::Refused(packet),
            Posted::Broken => Sent::Broken(packet),
        }
    }

    /// Takes what has completed, until the CQ is armed with nothing in it, and sends what has waited for it. `false` if the connection is
    /// lost. In a soft interrupt.
    pub(super) fn completed(&self) -> bool {
        let mut freed = MblkChain::new();
        let mut state = self.0.state.lock();
        let State { open: Some(open), batch } = &mut *state else { return true };
        let well = open.take_completed(batch, &self.0)
            && open.arm()
            && open.take_completed(batch, &self.0)
            && open.send_waiting(&self.0, &mut freed);
        drop(state);
        drop(freed);
        well
    }
}

impl Open {
    fn cq(&self) -> Option<&Cq> {
        self.queue.channel().send_cq()
    }

    fn arm(&self) -> bool {
        self.cq().is_some_and(|cq| cq.arm(Notify::Any).is_ok())
    }

    fn is_short(&self, len: u32) -> bool {
        let small = self.queue.outstanding().saturating_sub(self.large);
        let has = if len > SMALL { self.large } else { small };
        self.queue.room() == 0 || !self.send_pools.allows_another(has, len)
    }

    /// Whether a packet of so many octets may wait.
    fn may_wait(&self, len: u32) -> bool {
        self.waiting.len() < WAITING && self.send_pools.allows_waiting(self.octets, len)
    }

    fn waits(&mut self, len: u32) {
        self.octets += len;
        self.send_pools.waits(len);
    }

    fn waits_no_more(&mut self, len: u32) {
        let len = len.min(self.octets);
        self.octets -= len;
        self.send_pools.waits_no_more(len);
    }

    /// Copies a packet and posts it, if there is room.
    fn send(&mut self, of: &Inner, packet: &Mblk, ethertype: EtherType, len: u32) -> Posted {
        if self.is_short(len) {
            return Posted::Full;
        }
        let Some(mut buffer) = self.send_pools.take(len) else { return Posted::Full };
        if !fill(&mut buffer, packet, len) {
            return Posted::Refused;
        }
        if ethertype == EtherType::IPV6 {
            nd::pad_for_wire(buffer.bytes_mut().get_mut(IPOIB_HEADER_LEN..).unwrap_or_default());
        }
        let large = len > SMALL;
        let waits = self.queue.expects();
        match self.queue.post(buffer, large) {
            Ok(()) => {
                self.large += u32::from(large);
                if !waits {
                    of.owes.store(now().as_nanos().max(1), Ordering::Relaxed);
                }
                of.validity.note_use();
                Posted::Well
            }
            Err((_, Status::CHAN_FULL)) => Posted::Full,
            Err((_, why)) if why.is_of_one_request() => Posted::Refused,
            Err(_) => Posted::Broken,
        }
    }

    /// Sends what has waited, as far as there is room; what is to be freed without the lock. `false` if the connection is lost.
    fn send_waiting(&mut self, of: &Inner, freed: &mut MblkChain) -> bool {
        while let Some(packet) = self.waiting.pop_front() {
            let mut ethertype = [0; 2];
            packet.copy_to(ADDRESSES_LEN, &mut ethertype);
            let len = len_of(&packet);
            match self.send(of, &packet, EtherType(u16::from_be_bytes(ethertype)), len) {
                Posted::Well => freed.push_back(packet),
                Posted::Full if self.queue.expects() => {
                    self.waiting.push_front(packet);
                    return true;
                }
                // Nothing is out that room could come of, or the adapter does not take it.
                Posted::Full | Posted::Refused => {
                    of.counters.lost.increment();
                    freed.push_back(packet);
                }
                Posted::Broken => {
                    self.waiting.push_front(packet);
                    return false;
                }
            }
            self.waits_no_more(len);
        }
        true
    }

    /// `false` if a send has failed, or the CQ.
    fn take_completed(&mut self, batch: &mut CompletionBatch, of: &Inner) -> bool {
        let (mut well, mut some) = (true, false);
        loop {
            match self.cq().map(|cq| cq.poll(batch)) {
                Some(Ok(1..)) => some = true,
                Some(Ok(0)) => break,
                Some(Err(_)) | None => return false,
            }
            while let Some(completion) = batch.take() {
                let Some(mut over) = self.queue.complete(completion) else { continue };
                while let Some((buffer, status)) = self.queue.next_over(&mut over) {
                    self.large -= u32::from(buffer.capacity() > SMALL);
                    well &= status.is_success();
                    if !status.is_success() {
                        of.counters.lost.increment();
                    }
                }
            }
        }
        if some {
            // Of what is still out the next one is owed from now on.
            let since = if self.queue.expects() { now().as_nanos().max(1) } else { 0 };
            of.owes.store(since, Ordering::Relaxed);
        }
        well
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.send_pools.waits_no_more(self.octets);
    }
}

/// Octets of a packet of the MAC layer's, with its IPoIB header.
fn len_of(packet: &Mblk) -> u32 {
    packet.len().saturating_sub(ADDRESSES_LEN) as u32
}

/// Copies IPoIB header and payload; false if they do not fit.
fn fill(buffer: &mut Buffer, packet: &Mblk, len: u32) -> bool {
    let Some(room) = buffer.whole_mut().get_mut(..len as usize) else { return false };
    packet.copy_to(ADDRESSES_LEN, room);
    buffer.set_len(len);
    true
}

/// How long a connection that is being opened may take at most, as the other side is told: [`super::work`].
pub(super) const ANSWER: Duration = Duration::from_millis(500);
