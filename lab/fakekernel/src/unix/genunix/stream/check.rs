//! What must hold of a message whenever it changes hands (rules 20 and 21).

use illumos_sys_hdrs::mblk_t;
use rustc_hash::FxHashSet;
use sim::Rule;
use sim::race::{self, Key};

use super::Owner;
use super::block::{Db, Mb};
use crate::loader::cx::Cx;
use crate::unix::genunix::Genunix;

impl Genunix {
    /// Looks at every block of a chain (`b_next` and `b_cont`): live, owned by `by`, pointers inside the buffer, reference count
    /// that of the blocks sharing it, no cycle. `at` names the crossing in reports, e.g. "mac_rx".
    pub fn mblk_check(&self, cx: &Cx, chain: *mut mblk_t, by: Owner, at: &str) {
        if !self.streams.books {
            return;
        }
        let mut seen = Seen::default();
        let mut message = chain;
        while !message.is_null() {
            for mb in self.blocks_of(cx, message, at) {
                if !seen.insert(mb.addr()) {
                    let what = format!("{at}: mblk {:#x} is in the chain twice", mb.addr());
                    cx.violate(Rule::BadMessageFree, what);
                    return;
                }
                self.check_block(cx, mb, by, at);
            }
            message = Mb::new(message).next();
        }
    }

    /// As [`Genunix::mblk_check`]; then the chain belongs to `to`.
    pub fn hand_over(&self, cx: &Cx, chain: *mut mblk_t, from: Owner, to: Owner, at: &str) {
        if !self.streams.books {
            return;
        }
        self.mblk_check(cx, chain, from, at);
        let mut table = self.streams.table.lock();
        let mut message = chain;
        while !message.is_null() && table.messages.contains_key(&message.addr()) {
            let mut block = message;
            while !block.is_null()
                && let Some(owner) = table.messages.get_mut(&block.addr())
            {
                *owner = to;
                let mb = Mb::new(block);
                race::pass(Key("message", mb.addr() as u64));
                race::pass(Key("message", mb.datap().addr() as u64));
                block = Mb::new(block).cont();
            }
            message = Mb::new(message).next();
        }
    }

    /// The message must be `by`'s to touch.
    pub(super) fn check_owner(&self, cx: &Cx, mb: Mb, by: Owner, at: &str) {
        if !self.streams.books {
            return;
        }
        let owner = self.streams.table.lock().messages.get(&mb.addr()).copied();
        self.check_owned(cx, mb, owner, by, at);
    }

    #[inline]
    fn check_owned(&self, cx: &Cx, mb: Mb, owner: Option<Owner>, by: Owner, at: &str) {
        if owner != Some(by) {
            let owner = owner.map_or_else(|| "nobody".to_owned(), |owner| owner.to_string());
            cx.violate(
                Rule::BadMessageFree,
                format!("{at}: mblk {:#x} belongs to {owner}, not to {by}", mb.addr()),
            );
        }
    }

    /// What the block's pointers enclose must be part of its buffer. Where that is a known violation the block is empty from then on.
    pub(super) fn check_pointers(&self, cx: &Cx, mb: Mb, db: Db, at: &str) {
        let (base, rptr, wptr, lim) = (db.base().addr(), mb.rptr().addr(), mb.wptr().addr(), db.lim().addr());
        if base <= rptr && rptr <= wptr && wptr <= lim {
            return;
        }
        cx.check(false, Rule::BadMessagePointers, || {
            format!(
                "{at}: mblk {:#x} has rptr {rptr:#x} and wptr {wptr:#x} in the buffer {base:#x} to {lim:#x}",
                mb.addr()
            )
        });
        if !(base <= wptr && wptr <= lim) {
            mb.set_wptr(db.base());
        }
        mb.set_rptr(mb.wptr());
    }

    /// What [`Self::blocks_of`] does not look at in a block that it has found live.
    fn check_block(&self, cx: &Cx, mb: Mb, by: Owner, at: &str) {
        let db = mb.data();
        let (owner, sharers) = {
            let table = self.streams.table.lock();
            let sharers = table.data.get(&db.addr()).map_or(0, |info| info.sharers);
            (table.messages.get(&mb.addr()).copied(), sharers)
        };
        self.check_owned(cx, mb, owner, by, at);
        cx.check(u32::from(db.references()) == sharers, Rule::BadMessagePointers, || {
            format!("{at}: db_ref of dblk {:#x} is {}, {sharers} mblks share it", db.addr(), db.references())
        });
    }

    /// Whether an address lies in heap memory that nobody holds.
    pub(super) fn is_freed(&self, addr: usize) -> bool {
        self.streams.books && self.memory.is_heap(addr) && self.allocation_at(addr).is_none()
    }
}

/// Blocks of a chain that were passed; most chains have one, which takes no memory.
#[derive(Default)]
struct Seen {
    first: Option<usize>,
    others: FxHashSet<usize>,
}

impl Seen {
    /// False if it was there.
    fn insert(&mut self, addr: usize) -> bool {
        match self.first {
            None => self.first = Some(addr),
            Some(first) if first == addr => return false,
            Some(_) => return self.others.insert(addr),
        }
        true
    }
}
