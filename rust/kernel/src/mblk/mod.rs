//! Message blocks: packets on their way between the adapter, GLDv3 and IP (`sys/stream.h`).
//!
//! [`Mblk`] is one packet, owned: dropping it frees it. [`MblkChain`] is a chain of packets linked by `b_next`, as
//! `mc_tx` gets and `mac_rx` takes. Headers are read and written through slices of the first block; the checksum
//! metadata that travels beside a packet is a value ([`Offload`]).
//!
//! **Any** context: nothing here sleeps. Freeing a packet runs the free routine of whoever lent the buffer, which may
//! be any module, so free foreign packets without holding a lock.

mod block;
mod chain;
mod loan;
mod offload;

pub use block::Blocks;
pub use chain::MblkChain;
pub use loan::{Home, LoanHome, LoanSlot};
pub use offload::{Offload, PartialChecksum};

use core::fmt;
use core::ptr::NonNull;

use illumos_sys_hdrs as sys;

use crate::AllocError;

/// One packet.
///
/// # Invariants
///
/// The pointer is the first block of a message that nobody else refers to: `b_next` and `b_prev` are null, every
/// block's `b_rptr..b_wptr` lies inside its data block, and the chain of `b_cont` ends.
#[repr(transparent)]
pub struct Mblk(NonNull<sys::mblk_t>);

// SAFETY: a message belongs to one owner and may be freed by any thread.
unsafe impl Send for Mblk {}
// SAFETY: through `&Mblk` a message can only be read.
unsafe impl Sync for Mblk {}

impl Mblk {
    /// An empty packet with room for `size` bytes behind the write pointer (`allocb(9F)`).
    ///
    /// The room may be larger than asked for: STREAMS has size classes.
    pub fn new(size: usize) -> Result<Self, AllocError> {
        // SAFETY: any size may be asked for.
        let raw = unsafe { sys::allocb(size, sys::BPRI_HI as sys::uint_t) };
        NonNull::new(raw).map(Self).ok_or(AllocError)
    }

    /// A packet with a copy of `bytes`, and `headroom` bytes in front for a header.
    pub fn from_bytes(headroom: usize, bytes: &[u8]) -> Result<Self, AllocError> {
        let packet = Self::new(headroom.checked_add(bytes.len()).ok_or(AllocError)?)?;
        // SAFETY: a fresh block with room for that much behind its write pointer.
        unsafe { block::fill(packet.0, headroom, bytes) };
        Ok(packet)
    }

    /// The length of the whole packet in bytes (`msgdsize(9F)`).
    #[inline]
    pub fn len(&self) -> usize {
        match self.is_one_block() {
            true => self.first().len(),
            false => self.len_of_blocks(),
        }
    }

    #[inline(never)]
    fn len_of_blocks(&self) -> usize {
        self.blocks().fold(0, |len, block| len + block.len())
    }

    /// All of its bytes, if they are in one block.
    #[inline]
    pub fn only_block(&self) -> Option<&[u8]> {
        self.is_one_block().then(|| self.first())
    }

    /// Whether all of it is in the first block.
    #[inline]
    fn is_one_block(&self) -> bool {
        // SAFETY: the block is alive.
        unsafe { block::next_in_message(self.0) }.is_none()
    }

    /// Whether the packet has no bytes.
    pub fn is_empty(&self) -> bool {
        self.blocks().all(<[u8]>::is_empty)
    }

    /// The bytes of every block in turn. Blocks may be empty.
    pub fn blocks(&self) -> Blocks<'_> {
        Blocks::new(self)
    }

    /// The bytes of the first block.
    pub fn first(&self) -> &[u8] {
        // SAFETY: the block is alive as long as `self`, its payload only read meanwhile.
        unsafe { block::bytes(self.0) }
    }

    /// The bytes of the first block, to write; `None` if its buffer is shared with another message (`db_ref` > 1).
    pub fn first_mut(&mut self) -> Option<&mut [u8]> {
        if self.is_shared() {
            return None;
        }
        // SAFETY: the buffer is this message's alone, and `&mut self` makes this the only reference.
        Some(unsafe { block::bytes_mut(self.0) })
    }

    /// Whether somebody else refers to the first block's buffer, so that it must not be written.
    pub fn is_shared(&self) -> bool {
        // SAFETY: the block is alive.
        unsafe { block::references(self.0) > 1 }
    }

    /// Copies the packet's bytes from `offset` on into `to`, as many as fit; how many those were.
    #[inline]
    pub fn copy_to(&self, offset: usize, to: &mut [u8]) -> usize {
        if self.is_one_block() {
            let from = self.first().get(offset..).unwrap_or_default();
            let len = from.len().min(to.len());
            if let (Some(to), Some(from)) = (to.get_mut(..len), from.get(..len)) {
                to.copy_from_slice(from);
            }
            return len;
        }
        self.copy_blocks_to(offset, to)
    }

    #[inline(never)]
    fn copy_blocks_to(&self, offset: usize, to: &mut [u8]) -> usize {
        let mut skip = offset;
        let mut done = 0;
        for block in self.blocks() {
            let from = block.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(block.len());
            let Some(rest) = to.get_mut(done..) else { break };
            let taken = from.len().min(rest.len());
            if let (Some(rest), Some(from)) = (rest.get_mut(..taken), from.get(..taken)) {
                rest.copy_from_slice(from);
            }
            done += taken;
        }
        done
    }

    /// Appends to the first block. Nothing is written if there is no room or the buffer is shared.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        let room = self.tail_mut().ok_or(NoRoom)?;
        let Some(room) = room.get_mut(..bytes.len()) else { return Err(NoRoom) };
        room.write_copy_of_slice(bytes);
        // SAFETY: as many bytes behind the write pointer are in the buffer and initialised now.
        unsafe { block::move_write(self.0, bytes.len()) };
        Ok(())
    }

    /// Puts `bytes` in front of the first block. Nothing is written if there is no headroom or the buffer is shared.
    pub fn prepend(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        if self.is_shared() || self.headroom() < bytes.len() {
            return Err(NoRoom);
        }
        // SAFETY: so many bytes in front of the read pointer are in the buffer (checked above).
        unsafe { block::move_read_back(self.0, bytes.len()) };
        // SAFETY: the block is alive.
        let start = unsafe { block::start(self.0) };
        // SAFETY: the buffer is this message's alone (checked above); the bytes taken in may be uninitialised, and are
        // written before anything reads them.
        unsafe { start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Bytes of the buffer in front of the first block's data.
    pub fn headroom(&self) -> usize {
        // SAFETY: the block is alive.
        unsafe { block::headroom(self.0) }
    }

    /// Bytes of the buffer behind the first block's data.
    pub fn tailroom(&self) -> usize {
        // SAFETY: the block is alive.
        unsafe { block::tailroom(self.0) }
    }

    /// Drops the first `n` bytes of the first block, or all of that block if it has fewer; how many those were.
    ///
    /// Only moves the read pointer: legal on a shared buffer. The block stays, even empty.
    pub fn advance(&mut self, n: usize) -> usize {
        let n = n.min(self.first().len());
        // SAFETY: `n` is at most the block's length.
        unsafe { block::move_read(self.0, n) };
        n
    }

    /// Cuts the packet to `len` bytes; longer than it is, it stays as it is (`adjmsg(9F)`).
    pub fn truncate(&mut self, len: usize) {
        let Some(excess) = self.len().checked_sub(len) else { return };
        let Ok(excess) = isize::try_from(excess) else { return };
        if excess != 0 {
            // SAFETY: trims the tail of a message this value owns; the first block stays.
            unsafe { sys::adjmsg(self.0.as_ptr(), -excess) };
        }
    }

    /// Makes the first `len` bytes contiguous and 8-byte aligned (`pullupmsg(9F)`), keeping the offload metadata.
    ///
    /// The message stays the same pointer, so GLDv3 may still be given it back. On failure (packet too short, no
    /// memory) it is unchanged.
    pub fn pull_up(&mut self, len: usize) -> Result<(), AllocError> {
        let offload = self.offload();
        let len = isize::try_from(len).map_err(|_| AllocError)?;
        // SAFETY: this value owns the message.
        if unsafe { sys::pullupmsg(self.0.as_ptr(), len) } == 0 {
            return Err(AllocError);
        }
        // pullupmsg puts a fresh data block in, whose metadata says nothing, or leaves what there was, shared or not.
        self.set_offload(offload);
        Ok(())
    }

    /// Appends `tail` to this packet (`linkb(9F)`).
    pub fn link(&mut self, tail: Mblk) {
        // SAFETY: both messages are owned; the second becomes part of the first.
        unsafe { sys::linkb(self.0.as_ptr(), tail.into_raw()) };
    }

    /// Takes ownership of a message.
    ///
    /// # Safety
    ///
    /// `raw` is the first block of a complete message that the caller gives up, with `b_next` and `b_prev` clear.
    pub unsafe fn from_raw(raw: *mut sys::mblk_t) -> Option<Self> {
        NonNull::new(raw).map(Self)
    }

    /// Gives up ownership.
    pub fn into_raw(self) -> *mut sys::mblk_t {
        let raw = self.0.as_ptr();
        core::mem::forget(self);
        raw
    }

    /// For C that looks at the message without keeping it.
    pub fn as_raw(&self) -> *mut sys::mblk_t {
        self.0.as_ptr()
    }

    fn tail_mut(&mut self) -> Option<&mut [core::mem::MaybeUninit<u8>]> {
        if self.is_shared() {
            return None;
        }
        // SAFETY: the buffer is this message's alone, and `&mut self` makes this the only reference.
        Some(unsafe { block::tail_mut(self.0) })
    }
}

impl Drop for Mblk {
    fn drop(&mut self) {
        // SAFETY: this value owns the message.
        unsafe { sys::freemsg(self.0.as_ptr()) };
    }
}

impl fmt::Debug for Mblk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mblk({} bytes)", self.len())
    }
}

/// A buffer is too small, or shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;
