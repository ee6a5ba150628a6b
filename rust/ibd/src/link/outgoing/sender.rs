//! The sending end of a connection.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use ibtf::{Buffer, CompletionBatch, Cq, CqId, MessageQueue, Notify, Status};
use ipoib::connections::{Channel, Connection};
use ipoib::header::{IPOIB_HEADER_LEN, PSEUDO_HEADER_LEN};
use ipoib::paths::Validity;
use ipoib::{EtherType, Instant, nd};
use kernel::KArc;
use kernel::mblk::Mblk;
use kernel::sync::Mutex;

use super::send_pools::{LARGE_EACH, SMALL, SMALL_EACH, SendPools};
use crate::now;

/// Octets in front of the message, in the MAC layer's form.
const ADDRESSES_LEN: usize = PSEUDO_HEADER_LEN - IPOIB_HEADER_LEN;
/// Sends that a connection has out at most.
pub(super) const SENDS: u32 = 256;
/// Every send completes by itself: its buffer is one of a pool that all connections share, and nobody knows when the next send comes.
pub(super) const SIGNAL_EVERY: u32 = 1;
/// Completions taken at once.
const COMPLETIONS: usize = 16;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The adapter has it, in a copy.
    Taken,
    /// There is no room, and some will come.
    Full,
    /// The connection is closed.
    Closed,
    /// The adapter does not take this one.
    Refused,
    /// The adapter takes none any more: the connection is [lost](super::OutgoingConnections::lost).
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
    ) -> Result<Self, Status> {
        let open = Some(Open { queue, send_pools, large: 0 });
        let state = State { open, batch: CompletionBatch::new(COMPLETIONS)? };
        let (owes, state) = (AtomicU64::new(0), Mutex::new(state)?);
        Ok(Self(KArc::new(Inner { connection, validity: Validity::new(), owes, state })?))
    }

    pub(crate) fn connection(&self) -> Connection {
        self.0.connection
    }

    /// The CQ that its sends complete on; `None` once it is closed.
    pub(super) fn cq(&self) -> Option<CqId> {
        self.0.state.lock().open.as_ref()?.cq().map(Cq::id)
    }

    /// Nothing is posted any more once this returns. What the adapter has stays with the channel.
    pub(super) fn close(&self) {
        let mut state = self.0.state.lock();
        let open = state.open.take();
        drop(state);
        drop(open);
        self.0.owes.store(0, Ordering::Relaxed);
    }

    /// Has its completions told. `false` if that failed.
    pub(super) fn arm(&self) -> bool {
        self.0.state.lock().open.as_ref().is_some_and(Open::arm)
    }

    /// Sends a packet of the MAC layer's with this EtherType, of `len` octets with its IPoIB header: copies it. **Any** context.
    pub(crate) fn send(&self, packet: &Mblk, ethertype: EtherType, len: u32) -> Sent {
        let mut state = self.0.state.lock();
        let State { open: Some(open), batch } = &mut *state else { return Sent::Closed };
        if open.is_short(len) && !open.take_completed(batch, &self.0.owes) {
            return Sent::Broken;
        }
        if open.is_short(len) {
            return Sent::Full;
        }
        let Some(mut buffer) = open.send_pools.take(len) else { return Sent::Full };
        if !fill(&mut buffer, packet, len) {
            return Sent::Refused;
        }
        if ethertype == EtherType::IPV6 {
            nd::pad_for_wire(buffer.bytes_mut().get_mut(IPOIB_HEADER_LEN..).unwrap_or_default());
        }
        let large = len > SMALL;
        let waits = open.queue.expects();
        match open.queue.post(buffer, large) {
            Ok(()) => {
                open.large += u32::from(large);
                if !waits {
                    self.0.owes.store(now().as_nanos().max(1), Ordering::Relaxed);
                }
                self.0.validity.note_use();
                Sent::Taken
            }
            Err((_, Status::CHAN_FULL)) => Sent::Full,
            Err((_, why)) if why.is_of_one_request() => Sent::Refused,
            Err(_) => Sent::Broken,
        }
    }

    /// Takes what has completed, until the CQ is armed with nothing in it. `false` if the connection is lost. In a soft interrupt.
    pub(super) fn completed(&self) -> bool {
        let mut state = self.0.state.lock();
        let State { open: Some(open), batch } = &mut *state else { return true };
        open.take_completed(batch, &self.0.owes) && open.arm() && open.take_completed(batch, &self.0.owes)
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
        self.queue.room() == 0 || if len > SMALL { self.large >= LARGE_EACH } else { small >= SMALL_EACH }
    }

    /// `false` if a send has failed, or the CQ.
    fn take_completed(&mut self, batch: &mut CompletionBatch, owes: &AtomicU64) -> bool {
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
                }
            }
        }
        if some {
            // Of what is still out the next one is owed from now on.
            let since = if self.queue.expects() { now().as_nanos().max(1) } else { 0 };
            owes.store(since, Ordering::Relaxed);
        }
        well
    }
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
