//! [`MblkChain`]: packets linked by `b_next`.

use core::ptr::{self, NonNull};

use illumos_sys_hdrs as sys;

use super::Mblk;

/// A chain of packets, first in, first out. Dropping it frees them all.
///
/// # Invariants
///
/// `head` and `tail` are the ends of a chain of owned messages linked by `b_next`, or both `None`; the tail's
/// `b_next` is null. `b_prev` of a message in the chain means nothing: GLDv3 keeps a hint in it on transmit.
#[derive(Default)]
pub struct MblkChain {
    ends: Option<(NonNull<sys::mblk_t>, NonNull<sys::mblk_t>)>,
    len: usize,
}

// SAFETY: the chain owns its messages, which may be freed by any thread.
unsafe impl Send for MblkChain {}

impl MblkChain {
    /// No packets.
    pub const fn new() -> Self {
        Self { ends: None, len: 0 }
    }

    /// How many packets.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends a packet.
    pub fn push_back(&mut self, packet: Mblk) {
        let Some(packet) = NonNull::new(packet.into_raw()) else { return };
        match &mut self.ends {
            None => self.ends = Some((packet, packet)),
            Some((_, tail)) => {
                // SAFETY: the tail is a message of this chain.
                unsafe { set_next(*tail, Some(packet)) };
                *tail = packet;
            }
        }
        self.len += 1;
    }

    /// Puts a packet in front: what `mc_tx` could not send goes back in the order it came.
    pub fn push_front(&mut self, packet: Mblk) {
        let Some(packet) = NonNull::new(packet.into_raw()) else { return };
        match &mut self.ends {
            None => self.ends = Some((packet, packet)),
            Some((head, _)) => {
                // SAFETY: the packet is a message that this chain owns now.
                unsafe { set_next(packet, Some(*head)) };
                *head = packet;
            }
        }
        self.len += 1;
    }

    /// Takes the first packet.
    pub fn pop_front(&mut self) -> Option<Mblk> {
        let (head, tail) = self.ends?;
        // SAFETY: the head is a message of this chain.
        let next = unsafe { next(head) };
        // SAFETY: as above; it leaves the chain.
        unsafe { set_next(head, None) };
        self.ends = next.map(|next| (next, tail));
        self.len -= 1;
        // SAFETY: a complete message of this chain, with `b_next` clear; `b_prev` is cleared in `into_single`.
        unsafe { into_single(head) }
    }

    /// Appends another chain.
    pub fn append(&mut self, other: Self) {
        let len = other.len;
        let Some((head, last)) = other.into_ends() else { return };
        match &mut self.ends {
            None => self.ends = Some((head, last)),
            Some((_, tail)) => {
                // SAFETY: the tail is a message of this chain.
                unsafe { set_next(*tail, Some(head)) };
                *tail = last;
            }
        }
        self.len += len;
    }

    /// Takes ownership of a chain; null is none.
    ///
    /// # Safety
    ///
    /// `head` is the first of a chain of messages linked by `b_next` that the caller gives up.
    #[inline(always)]
    pub unsafe fn from_raw(head: *mut sys::mblk_t) -> Self {
        let Some(head) = NonNull::new(head) else { return Self::new() };
        let (mut tail, mut len) = (head, 1);
        // SAFETY: by this function's contract every link is a live message or null.
        while let Some(following) = unsafe { next(tail) } {
            tail = following;
            len += 1;
        }
        Self { ends: Some((head, tail)), len }
    }

    /// Gives up the chain: its head, or null.
    pub fn into_raw(self) -> *mut sys::mblk_t {
        self.into_ends().map_or(ptr::null_mut(), |(head, _)| head.as_ptr())
    }

    fn into_ends(self) -> Option<(NonNull<sys::mblk_t>, NonNull<sys::mblk_t>)> {
        let ends = self.ends;
        core::mem::forget(self);
        ends
    }
}

impl Drop for MblkChain {
    fn drop(&mut self) {
        while let Some(packet) = self.pop_front() {
            drop(packet);
        }
    }
}

impl From<Mblk> for MblkChain {
    fn from(packet: Mblk) -> Self {
        let mut chain = Self::new();
        chain.push_back(packet);
        chain
    }
}

impl Iterator for MblkChain {
    type Item = Mblk;

    fn next(&mut self) -> Option<Mblk> {
        self.pop_front()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len, Some(self.len))
    }
}

impl Extend<Mblk> for MblkChain {
    fn extend<I: IntoIterator<Item = Mblk>>(&mut self, packets: I) {
        for packet in packets {
            self.push_back(packet);
        }
    }
}

/// # Safety
///
/// `mp` is a live message.
unsafe fn next(mp: NonNull<sys::mblk_t>) -> Option<NonNull<sys::mblk_t>> {
    // SAFETY: by this function's contract.
    NonNull::new(unsafe { (*mp.as_ptr()).b_next })
}

/// # Safety
///
/// `mp` is a live message that the caller owns.
unsafe fn set_next(mp: NonNull<sys::mblk_t>, next: Option<NonNull<sys::mblk_t>>) {
    // SAFETY: by this function's contract.
    unsafe { (*mp.as_ptr()).b_next = next.map_or(ptr::null_mut(), NonNull::as_ptr) };
}

/// # Safety
///
/// `mp` is a complete message that the caller gives up, with `b_next` clear.
unsafe fn into_single(mp: NonNull<sys::mblk_t>) -> Option<Mblk> {
    // SAFETY: owned; a message that is freed must not have it set.
    unsafe { (*mp.as_ptr()).b_prev = ptr::null_mut() };
    // SAFETY: by this function's contract.
    unsafe { Mblk::from_raw(mp.as_ptr()) }
}
