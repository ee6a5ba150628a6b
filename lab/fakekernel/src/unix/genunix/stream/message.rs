//! Messages for the lab's own crates: every operation looks the block up in the heap's table first, so a stale pointer is
//! reported and not followed.

use std::ptr;

use illumos_sys_hdrs::mblk_t;
use sim::race::{self, Key};

use super::Owner;
use super::block::Mb;
pub use super::offload::Checksums;
use crate::loader::cx::Cx;
use crate::loader::mem::Mem;
use crate::unix::genunix::Genunix;
use crate::unix::races;

/// A `b_next` chain of messages taken apart, in order: no message in it is linked to another any more.
pub type Chain = Vec<*mut mblk_t>;

impl Genunix {
    /// A message of the framework's with `payload` behind `headroom` free bytes; null when a fault is injected.
    pub fn message(&self, cx: &Cx, headroom: usize, payload: &[u8]) -> *mut mblk_t {
        let Some(mb) = self.make_message(cx, headroom + payload.len(), Owner::Framework) else {
            return ptr::null_mut();
        };
        let start = mb.rptr().wrapping_add(headroom);
        mb.set_rptr(start);
        mb.set_wptr(start.wrapping_add(payload.len()));
        self.bytes(mb).put(payload);
        mb.raw()
    }

    /// The same, with its first byte `offset` bytes into a page of 4096.
    pub fn message_at(&self, cx: &Cx, offset: usize, payload: &[u8]) -> *mut mblk_t {
        const PAGE: usize = 4096;
        let Some(mb) = self.make_message(cx, PAGE + payload.len(), Owner::Framework) else {
            return ptr::null_mut();
        };
        let ahead = (offset % PAGE + PAGE - mb.rptr().addr() % PAGE) % PAGE;
        let start = mb.rptr().wrapping_add(ahead);
        mb.set_rptr(start);
        mb.set_wptr(start.wrapping_add(payload.len()));
        self.bytes(mb).put(payload);
        mb.raw()
    }

    /// The data of a message in one piece, from `offset` on.
    pub fn message_bytes(&self, cx: &Cx, mp: *mut mblk_t, offset: usize) -> Vec<u8> {
        let mut skip = offset;
        let mut out = Vec::new();
        for mb in self.blocks_of(cx, mp, "reading a message") {
            let part = self.bytes(mb).part(skip, usize::MAX);
            race::acquire(Key("message", mb.addr() as u64));
            race::acquire(Key("message", mb.datap().addr() as u64));
            races::kernel_reads(part.addr(), part.len());
            race::release(Key("message", mb.datap().addr() as u64));
            skip = skip.saturating_sub(mb.len());
            out.extend(part.get());
        }
        out
    }

    /// The first block's data.
    pub fn first_block(&self, cx: &Cx, mp: *mut mblk_t) -> Option<Mem> {
        self.live_message(cx, mp, "reading a message").map(|mb| self.bytes(mb))
    }

    /// Bytes of the first block's buffer behind its data (`MBLKTAIL`).
    pub fn room(&self, cx: &Cx, mp: *mut mblk_t) -> usize {
        let first = self.live_message(cx, mp, "reading a message");
        first.map_or(0, |mb| mb.data().lim().addr().saturating_sub(mb.wptr().addr()))
    }

    /// Whether the first block's data is shared with another message.
    pub fn is_shared(&self, cx: &Cx, mp: *mut mblk_t) -> bool {
        self.live_message(cx, mp, "reading a message").is_some_and(|mb| mb.data().references() > 1)
    }

    /// `db_type` of the first block; 0 is `M_DATA`.
    pub fn message_type(&self, cx: &Cx, mp: *mut mblk_t) -> u8 {
        self.live_message(cx, mp, "reading a message").map_or(0, |mb| mb.data().kind())
    }

    /// `msgdsize`.
    pub fn msgdsize(&self, cx: &Cx, mp: *mut mblk_t) -> usize {
        self.data_size(cx, mp)
    }

    /// Moves the first block's read pointer, forward or back.
    pub fn advance(&self, cx: &Cx, mp: *mut mblk_t, by: isize) {
        if let Some(mb) = self.live_message(cx, mp, "stripping a header") {
            mb.set_rptr(mb.rptr().wrapping_offset(by));
        }
    }

    /// Takes a chain apart.
    pub fn take_chain(&self, cx: &Cx, chain: *mut mblk_t) -> Chain {
        let mut messages = Vec::new();
        let mut next = chain;
        while !next.is_null() {
            let Some(mb) = self.live_message(cx, next, "walking a chain") else { break };
            messages.push(next);
            next = mb.next();
            mb.set_next(ptr::null_mut());
        }
        messages
    }

    /// Links messages by `b_next`; the head, or null.
    pub fn make_chain(&self, cx: &Cx, messages: &[*mut mblk_t]) -> *mut mblk_t {
        for pair in messages.windows(2) {
            if let Some(mb) = self.live_message(cx, pair[0], "linking a chain") {
                mb.set_next(pair[1]);
            }
        }
        messages.first().copied().unwrap_or(ptr::null_mut())
    }

    /// Appends `bp` to the blocks of `mp`.
    pub fn linkb(&self, cx: &Cx, mp: *mut mblk_t, bp: *mut mblk_t) {
        self.link(cx, mp, bp);
    }

    /// The block behind the first (`b_cont`).
    pub fn continuation(&self, cx: &Cx, mp: *mut mblk_t) -> *mut mblk_t {
        self.live_message(cx, mp, "reading a message").map_or(ptr::null_mut(), Mb::cont)
    }

    /// `freemsg` of a message of the framework's.
    pub fn freemsg(&self, cx: &Cx, mp: *mut mblk_t) {
        self.free_message(cx, mp, Owner::Framework);
    }

    /// `freemsgchain` of messages of the framework's.
    pub fn freemsgchain(&self, cx: &Cx, mp: *mut mblk_t) {
        self.free_chain(cx, mp, Owner::Framework);
    }

    /// Frees a chain that a module gave; how many messages, and bytes in their first blocks.
    pub fn consume_chain(&self, cx: &Cx, chain: *mut mblk_t) -> (u64, u64) {
        self.hand_over(cx, chain, Owner::of(cx), Owner::Framework, "mac_rx");
        let (mut packets, mut bytes) = (0, 0);
        let mut next = chain;
        while let Some(mb) =
            (!next.is_null()).then(|| self.live_message(cx, next, "counting a chain")).flatten()
        {
            let this = next;
            next = mb.next();
            mb.set_next(ptr::null_mut());
            packets += 1;
            bytes += mb.len() as u64;
            self.free_message(cx, this, Owner::Framework);
        }
        (packets, bytes)
    }

    /// `copymsg` of any live message; the copy is the framework's. Null when a fault is injected.
    pub fn copymsg(&self, cx: &Cx, mp: *mut mblk_t) -> *mut mblk_t {
        self.copy_message(cx, mp, Owner::Framework)
    }

    /// `dupmsg` of any live message; the duplicate is the framework's. Null when a fault is injected.
    pub fn dupmsg(&self, cx: &Cx, mp: *mut mblk_t) -> *mut mblk_t {
        self.dup_message(cx, mp, Owner::Framework)
    }

    /// `pullupmsg` of a message of the framework's.
    pub fn pullupmsg(&self, cx: &Cx, mp: *mut mblk_t, len: isize) -> bool {
        self.pull_up(cx, mp, len, Owner::Framework)
    }

    /// A picture of the shared blocks of a chain, to be compared when it comes back (rule 22).
    pub fn shared_snapshot(&self, cx: &Cx, chain: *mut mblk_t) -> SharedSnapshot {
        if !self.streams.books {
            return SharedSnapshot::default();
        }
        let mut blocks = Vec::new();
        let mut message = chain;
        while !message.is_null() {
            for mb in self.blocks_of(cx, message, "looking at a chain") {
                if mb.data().references() > 1 {
                    blocks.push((mb.datap().addr(), self.bytes(mb)));
                }
            }
            message = Mb::new(message).next();
        }
        SharedSnapshot(blocks.into_iter().map(|(data, mem)| (data, mem, mem.get())).collect())
    }

    /// Whether a shared block was written to since the snapshot (rule 22). Blocks that are gone are not looked at.
    pub fn compare_shared(&self, cx: &Cx, snapshot: &SharedSnapshot, at: &str) {
        for (data, mem, then) in &snapshot.0 {
            let alive = self.streams.table.lock().data.contains_key(data);
            if !alive {
                continue;
            }
            if let Some(byte) = mem.get().iter().zip(then).position(|(now, then)| now != then) {
                let what = format!("{at}: byte {byte} of dblk {data:#x} was written although it is shared");
                cx.violate(sim::Rule::SharedMessageWrite, what);
            }
        }
    }
}

/// See [`Genunix::shared_snapshot`].
#[derive(Debug, Default)]
pub struct SharedSnapshot(Vec<(usize, Mem, Vec<u8>)>);

// SAFETY: the ranges are read only while the table says their data block is alive, on whichever thread.
unsafe impl Send for SharedSnapshot {}
