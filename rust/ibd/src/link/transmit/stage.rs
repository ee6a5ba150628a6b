//! From a packet to a work request: copied, or sent from where it is.

use ibtf::{Buffer, BufferPool, Payload, Refused, SendOptions, SendQueue, Status, UdDest};
use ipoib::header::PSEUDO_HEADER_LEN;
use ipoib::{Cast, EtherType, nd};
use kernel::mblk::Mblk;
use kernel::{KArc, KVec};

use super::super::neighbour::NeighbourPath;
use super::super::traffic::Pools;
use super::connected::Piece;
use super::frame::{ADDRESSES_LEN, Frame, Plain, Wire};
use crate::counters::TxDrop;

/// The send side of a queue pair.
pub(crate) struct SendSide {
    pub(crate) queue: SendQueue<Wire, NeighbourPath>,
    /// Buffers of one MTU.
    pool: BufferPool,
    /// Some of them, kept at hand: they need no locked operation.
    pub(super) spare: KVec<Buffer>,
    pub(crate) abilities: Abilities,
    pub(crate) large: LargePool,
    /// Bytes of a buffer of `pool`, and of the longest packet that is copied there.
    pub(super) buffer_size: u32,
    copy_up_to: u32,
}

/// What the adapter can do for a sender, as far as the administrator lets it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Abilities {
    /// It computes checksums.
    pub(crate) checksum: bool,
    /// Bytes of the largest send it cuts into segments, IPoIB header included; 0 if it does not.
    pub(crate) large: u32,
    /// Bytes of the longest header of such a send, IPoIB header included.
    pub(crate) large_header: u32,
    /// Packets longer than this many bytes are sent from where they are; `u32::MAX` if it cannot.
    pub(crate) copy_up_to: u32,
    /// The link opens connections.
    pub(crate) connected: bool,
}

impl Abilities {
    /// None.
    pub(crate) const NONE: Self =
        Self { checksum: false, large: 0, large_header: 0, copy_up_to: u32::MAX, connected: false };

    /// Whether packets can be sent from where they are.
    pub(crate) fn maps(&self) -> bool {
        self.copy_up_to != u32::MAX
    }
}

/// Buffers for large sends that the adapter cannot take from where they are: made when the first of them comes.
pub(crate) enum LargePool {
    /// Nobody has needed one.
    Absent,
    /// Being made.
    Asked,
    /// There was no memory; not tried again before the next queue pair, or the next start of this one.
    Failed,
    Ready(BufferPool),
}

/// Why a packet was not staged.
pub(super) enum Unstaged {
    /// No room now: the packet, unchanged.
    Full(Mblk),
    /// The same, until there is a pool of large buffers.
    NoPool(Mblk),
    /// Never.
    Dropped(Mblk, TxDrop),
}

/// Who has the packet once it is staged.
pub(super) enum Staged {
    /// It was copied: free it without the lock.
    Copied(Mblk),
    /// The adapter reads it.
    Mapped,
}

impl SendSide {
    pub(crate) fn new(queue: SendQueue<Wire, NeighbourPath>, pool: BufferPool, abilities: Abilities) -> Self {
        let buffer_size = pool.buffer_size();
        let copy_up_to = abilities.copy_up_to.min(buffer_size);
        let (spare, large) = (KVec::new(), LargePool::Absent);
        Self { queue, pool, spare, abilities, large, buffer_size, copy_up_to }
    }

    /// Ends it, and leaves its buffers, to be closed once they are home.
    #[inline(never)]
    pub(crate) fn into_pools(self, pools: &mut Pools) {
        let Self { queue, pool, spare, large, .. } = self;
        // What the adapter still has stays with the channel.
        drop((queue, spare));
        pools.add(pool);
        if let LargePool::Ready(large) = large {
            pools.add(large);
        }
    }

    /// Whether a message of this length and kind can be sent at all.
    pub(super) fn refuses(&self, frame: &Frame) -> Option<TxDrop> {
        let Some(large) = frame.options.large else {
            return (frame.len > self.buffer_size as usize).then_some(TxDrop::TooLong);
        };
        if self.abilities.large == 0 || frame.len > self.abilities.large as usize {
            return Some(TxDrop::TooLong);
        }
        let too_long = frame.longest() > self.buffer_size as usize;
        let wrong = large.header_len > self.abilities.large_header || too_long;
        wrong.then_some(TxDrop::Malformed)
    }

    /// Copies a packet into a buffer that is at hand, and stages that; `false` if it cannot be done so easily.
    #[inline(always)]
    pub(super) fn stage_plain(
        &mut self,
        dest: &KArc<UdDest<NeighbourPath>>,
        plain: &Plain<'_>,
        wire: Wire,
    ) -> bool {
        if plain.message.len() > self.copy_up_to as usize {
            return false;
        }
        let Some(vacancy) = self.queue.vacancy() else { return false };
        let Some(mut buffer) = self.spare.pop() else { return false };
        let options = SendOptions { checksum: plain.checksum, ..SendOptions::default() };
        if !buffer.fill(plain.message) {
            return false;
        }
        match vacancy.stage_buffer(dest, buffer, options, wire) {
            Ok(()) => true,
            // Never: there was room.
            Err(refused) => {
                drop(refused);
                false
            }
        }
    }

    /// Whether staging this one would find no room without a look at completions.
    pub(super) fn is_short(&self, frame: &Frame) -> bool {
        let buffers = match (&frame.options.large, &self.large) {
            (None, _) => self.spare.len() as u32 + self.pool.free(),
            (Some(_), LargePool::Ready(pool)) => pool.free(),
            (Some(_), _) => 1,
        };
        self.queue.room() == 0 || buffers == 0
    }

    /// Stages a packet that [`SendSide::refuses`] has nothing against.
    #[inline(never)]
    pub(super) fn stage(
        &mut self,
        dest: &KArc<UdDest<NeighbourPath>>,
        packet: Mblk,
        frame: &Frame,
    ) -> Result<Staged, Unstaged> {
        if self.queue.room() == 0 {
            return Err(Unstaged::Full(packet));
        }
        let long = frame.len > self.abilities.copy_up_to as usize;
        match frame.options.large {
            None if !long => self.copy_small(dest, packet, frame),
            Some(_) if !long && matches!(self.large, LargePool::Ready(_)) => {
                self.copy_large(dest, packet, frame)
            }
            large => match self.map(dest, packet, frame) {
                Ok(()) => Ok(Staged::Mapped),
                Err(packet) if large.is_some() => self.copy_large(dest, packet, frame),
                Err(packet) => self.copy_small(dest, packet, frame),
            },
        }
    }

    /// Hands the packet itself to the adapter, or back if that cannot be done.
    #[inline(never)]
    fn map(
        &mut self,
        dest: &KArc<UdDest<NeighbourPath>>,
        mut packet: Mblk,
        frame: &Frame,
    ) -> Result<(), Mblk> {
        if !self.abilities.maps() {
            return Err(packet);
        }
        let header = frame.options.large.map_or(0, |large| large.header_len as usize);
        let contiguous = ADDRESSES_LEN + header;
        if packet.first().len() < contiguous && packet.pull_up(contiguous).is_err() {
            return Err(packet);
        }
        match self.queue.stage_packet(dest, packet, ADDRESSES_LEN as u32, frame.options, frame.wire()) {
            Err(Refused { payload: Payload::Packet(packet), .. }) => Err(packet),
            // What was given was a packet.
            Ok(()) | Err(Refused { payload: Payload::Buffer(_), .. }) => Ok(()),
        }
    }

    /// Keeps the buffer of a send that is over, if it is one of one MTU.
    #[inline(always)]
    pub(super) fn put_back(spare: &mut KVec<Buffer>, size: u32, buffer: Buffer) {
        if buffer.capacity() != size || spare.len() == spare.capacity() {
            return Self::put_back_elsewhere(spare, size, buffer);
        }
        // There is room.
        let _ = spare.push_within_capacity(buffer);
    }

    #[inline(never)]
    fn put_back_elsewhere(spare: &mut KVec<Buffer>, size: u32, buffer: Buffer) {
        if buffer.capacity() == size {
            // Without memory to remember it, it goes home.
            let _ = spare.push(buffer);
        }
    }

    /// Copies one piece of a packet, behind the IPoIB header and an IP header of its own, and stages it; `false` if there is no room.
    #[inline(never)]
    pub(super) fn stage_piece(
        &mut self,
        dest: &KArc<UdDest<NeighbourPath>>,
        piece: &Piece<'_>,
        cast: Cast,
    ) -> bool {
        if self.queue.room() == 0 {
            return false;
        }
        let Some(mut buffer) = self.spare.pop().or_else(|| self.pool.take()) else { return false };
        let len = piece.fill(buffer.whole_mut());
        buffer.set_len(len);
        self.queue.stage_buffer(dest, buffer, SendOptions::default(), Wire::one(cast, len)).is_ok()
    }

    fn copy_small(
        &mut self,
        dest: &KArc<UdDest<NeighbourPath>>,
        packet: Mblk,
        frame: &Frame,
    ) -> Result<Staged, Unstaged> {
        let Some(mut buffer) = self.spare.pop().or_else(|| self.pool.take()) else {
            return Err(Unstaged::Full(packet));
        };
        if !fill(&mut buffer, &packet, frame.len) {
            return Err(Unstaged::Dropped(packet, TxDrop::TooLong));
        }
        if frame.ethertype == EtherType::IPV6 {
            nd::pad_for_wire(
                buffer.bytes_mut().get_mut(PSEUDO_HEADER_LEN - ADDRESSES_LEN..).unwrap_or_default(),
            );
        }
        self.stage_buffer(dest, buffer, packet, frame)
    }

    #[inline(never)]
    fn copy_large(
        &mut self,
        dest: &KArc<UdDest<NeighbourPath>>,
        packet: Mblk,
        frame: &Frame,
    ) -> Result<Staged, Unstaged> {
        let pool = match &self.large {
            LargePool::Ready(pool) => pool,
            LargePool::Absent | LargePool::Asked => return Err(Unstaged::NoPool(packet)),
            LargePool::Failed => return Err(Unstaged::Dropped(packet, TxDrop::NoLargeBuffer)),
        };
        let Some(mut buffer) = pool.take() else { return Err(Unstaged::Full(packet)) };
        if !fill(&mut buffer, &packet, frame.len) {
            return Err(Unstaged::Dropped(packet, TxDrop::TooLong));
        }
        self.stage_buffer(dest, buffer, packet, frame)
    }

    #[inline(never)]
    fn stage_buffer(
        &mut self,
        dest: &KArc<UdDest<NeighbourPath>>,
        buffer: Buffer,
        packet: Mblk,
        frame: &Frame,
    ) -> Result<Staged, Unstaged> {
        match self.queue.stage_buffer(dest, buffer, frame.options, frame.wire()) {
            Ok(()) => Ok(Staged::Copied(packet)),
            Err(Refused { why: Status::CHAN_FULL, .. }) => Err(Unstaged::Full(packet)),
            Err(_) => Err(Unstaged::Dropped(packet, TxDrop::PostFailed)),
        }
    }
}

/// Copies IPoIB header and payload; false if they do not fit.
fn fill(buffer: &mut Buffer, packet: &Mblk, len: usize) -> bool {
    let Some(room) = buffer.whole_mut().get_mut(..len) else { return false };
    packet.copy_to(ADDRESSES_LEN, room);
    buffer.set_len(len as u32);
    true
}
