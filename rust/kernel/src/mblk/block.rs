//! One block: pointer arithmetic, and nothing about who owns it.
//!
//! Every function's `# Safety` begins with: `mp` is a live block whose pointers lie in its live data block. A data
//! block can be shared with another processor that changes its reference count, so it is never borrowed as a whole.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};

use illumos_sys_hdrs as sys;

use super::Mblk;

/// # Safety
///
/// A live block; nobody writes its payload during `'a`.
pub(super) unsafe fn bytes<'a>(mp: NonNull<sys::mblk_t>) -> &'a [u8] {
    // SAFETY: a live block.
    let (start, len) = unsafe { extent(mp) };
    if len == 0 {
        return &[];
    }
    // SAFETY: `len` bytes from the read pointer are payload (invariant), and nobody writes them.
    unsafe { core::slice::from_raw_parts(start, len) }
}

/// # Safety
///
/// A live block whose buffer nobody else reads or writes during `'a`.
pub(super) unsafe fn bytes_mut<'a>(mp: NonNull<sys::mblk_t>) -> &'a mut [u8] {
    // SAFETY: a live block.
    let (start, len) = unsafe { extent(mp) };
    if len == 0 {
        return &mut [];
    }
    // SAFETY: as in `bytes`, and nobody else has the buffer.
    unsafe { core::slice::from_raw_parts_mut(start, len) }
}

/// # Safety
///
/// A live block whose buffer nobody else reads or writes during `'a`.
pub(super) unsafe fn tail_mut<'a>(mp: NonNull<sys::mblk_t>) -> &'a mut [MaybeUninit<u8>] {
    // SAFETY: a live block.
    let room = unsafe { tailroom(mp) };
    if room == 0 {
        return &mut [];
    }
    // SAFETY: a live block.
    let start = unsafe { (*mp.as_ptr()).b_wptr };
    // SAFETY: `room` bytes from the write pointer are inside the buffer, and nobody else has it.
    unsafe { core::slice::from_raw_parts_mut(start.cast(), room) }
}

/// # Safety
///
/// A live block.
unsafe fn extent(mp: NonNull<sys::mblk_t>) -> (*mut u8, usize) {
    // SAFETY: a live block.
    let end = unsafe { (*mp.as_ptr()).b_wptr };
    // SAFETY: a live block.
    let start = unsafe { start(mp) };
    (start, (end as usize).saturating_sub(start as usize))
}

/// # Safety
///
/// A live block.
pub(super) unsafe fn start(mp: NonNull<sys::mblk_t>) -> *mut u8 {
    // SAFETY: a live block.
    unsafe { (*mp.as_ptr()).b_rptr }
}

/// # Safety
///
/// A live block.
pub(super) unsafe fn next_in_message(mp: NonNull<sys::mblk_t>) -> Option<NonNull<sys::mblk_t>> {
    // SAFETY: a live block.
    NonNull::new(unsafe { (*mp.as_ptr()).b_cont })
}

/// # Safety
///
/// A live block.
pub(super) unsafe fn data_block(mp: NonNull<sys::mblk_t>) -> *mut sys::dblk_t {
    // SAFETY: a live block.
    unsafe { (*mp.as_ptr()).b_datap }
}

/// # Safety
///
/// A live block.
pub(super) unsafe fn references(mp: NonNull<sys::mblk_t>) -> u8 {
    // SAFETY: a live block.
    let data = unsafe { data_block(mp) };
    // SAFETY: a live data block.
    let count = unsafe { &raw mut (*data).db_ref };
    // SAFETY: the count is changed atomically by everybody.
    unsafe { AtomicU8::from_ptr(count) }.load(Ordering::Acquire)
}

/// # Safety
///
/// A live block.
pub(super) unsafe fn headroom(mp: NonNull<sys::mblk_t>) -> usize {
    // SAFETY: a live block.
    let data = unsafe { data_block(mp) };
    // SAFETY: a live data block; the base never changes.
    let base = unsafe { (*data).db_base };
    // SAFETY: a live block.
    let start = unsafe { start(mp) };
    (start as usize).saturating_sub(base as usize)
}

/// # Safety
///
/// A live block.
pub(super) unsafe fn tailroom(mp: NonNull<sys::mblk_t>) -> usize {
    // SAFETY: a live block.
    let data = unsafe { data_block(mp) };
    // SAFETY: a live data block; the limit never changes.
    let limit = unsafe { (*data).db_lim };
    // SAFETY: a live block.
    let end = unsafe { (*mp.as_ptr()).b_wptr };
    (limit as usize).saturating_sub(end as usize)
}

/// # Safety
///
/// A live block that the caller owns, of at least `n` bytes.
pub(super) unsafe fn move_read(mp: NonNull<sys::mblk_t>, n: usize) {
    // SAFETY: a live block.
    let start = unsafe { start(mp) };
    // SAFETY: owned; stays at or before the write pointer.
    unsafe { (*mp.as_ptr()).b_rptr = start.wrapping_add(n) };
}

/// # Safety
///
/// A live block that the caller owns, with at least `n` bytes of headroom.
pub(super) unsafe fn move_read_back(mp: NonNull<sys::mblk_t>, n: usize) {
    // SAFETY: a live block.
    let start = unsafe { start(mp) };
    // SAFETY: owned; stays at or behind the buffer's base.
    unsafe { (*mp.as_ptr()).b_rptr = start.wrapping_sub(n) };
}

/// # Safety
///
/// A live block that the caller owns, with at least `n` bytes of tailroom that are initialised (or about to be
/// excluded again by moving the read pointer).
pub(super) unsafe fn move_write(mp: NonNull<sys::mblk_t>, n: usize) {
    // SAFETY: a live block.
    let end = unsafe { (*mp.as_ptr()).b_wptr };
    // SAFETY: stays at or before the buffer's limit.
    unsafe { (*mp.as_ptr()).b_wptr = end.wrapping_add(n) };
}

/// Makes `bytes` an empty block's payload, with `headroom` in front of it.
///
/// # Safety
///
/// A live, empty block that the caller owns alone, with at least so much tailroom.
#[inline]
pub(super) unsafe fn fill(mp: NonNull<sys::mblk_t>, headroom: usize, bytes: &[u8]) {
    // SAFETY: a live block.
    let start = unsafe { (*mp.as_ptr()).b_wptr }.wrapping_add(headroom);
    // SAFETY: inside the tailroom, which nobody else has.
    unsafe { start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    // SAFETY: owned; not behind the write pointer.
    unsafe { (*mp.as_ptr()).b_rptr = start };
    // SAFETY: owned; all bytes in front of it are initialised.
    unsafe { (*mp.as_ptr()).b_wptr = start.wrapping_add(bytes.len()) };
}

/// The bytes of a packet, block by block.
pub struct Blocks<'a> {
    next: Option<NonNull<sys::mblk_t>>,
    packet: PhantomData<&'a Mblk>,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(packet: &'a Mblk) -> Self {
        Self { next: Some(packet.0), packet: PhantomData }
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let mp = self.next?;
        // SAFETY: a block of a message that is borrowed for `'a`.
        self.next = unsafe { next_in_message(mp) };
        // SAFETY: as above; whoever shares a buffer only reads it.
        Some(unsafe { bytes(mp) })
    }
}
