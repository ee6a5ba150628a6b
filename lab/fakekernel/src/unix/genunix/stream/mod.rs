//! STREAMS messages (rules 16, 20, 21, 22): real blocks at real offsets, because C macros reach into them, and a table beside
//! them that says which are live, whose they are and what their buffers are.

mod alloc;
mod block;
mod check;
mod classes;
mod free;
mod ioctl;
mod message;
mod offload;
mod plain;
mod shape;
mod share;
mod sum;
#[cfg(test)]
mod tests;

use std::fmt;

use illumos_sys_hdrs::{dblk_t, mblk_t};
use rustc_hash::FxHashMap;
use sim::{HostMutex, Rule};

use self::block::{Db, Mb};
use super::Genunix;
use super::heap::Kind;
use super::origin::Origin;
use crate::loader::cx::Cx;
use crate::loader::export::Export;
use crate::loader::kernel::Kernel;
use crate::loader::module::interned;

pub use message::{Chain, Checksums, SharedSnapshot};
pub(super) use plain::{free_plainly, lend_plainly, make_plainly};

pub(super) fn exports() -> Vec<Export> {
    [
        alloc::exports(),
        free::exports(),
        share::exports(),
        shape::exports(),
        offload::exports(),
        ioctl::exports(),
    ]
    .concat()
}

pub(super) fn ip() -> Vec<Export> {
    offload::ip()
}

/// Who may touch a message now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A module, by name.
    Module(&'static str),
    /// The lab's framework: mac, dls, a host's stack.
    Framework,
}

impl Owner {
    /// A module by name.
    pub fn module(name: &str) -> Self {
        Self::Module(interned(name))
    }

    /// Whoever made the call being served; in a machine without checks everything is the framework's.
    pub fn of(cx: &Cx) -> Self {
        match cx.module_name() {
            module if !module.is_empty() && cx.checks() => Self::Module(module),
            _ => Self::Framework,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Module(name) => f.write_str(name),
            Self::Framework => f.write_str("the framework"),
        }
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where a data block's bytes are.
#[derive(Clone, Copy, Debug)]
enum Storage {
    /// Behind the dblk itself.
    Inline,
    /// In a heap block of its own.
    Separate(usize),
    /// Somebody's buffer.
    Loan {
        /// The module whose free routine takes it back.
        lender: &'static str,
        /// Whether the routine runs inside the free.
        synchronous: bool,
    },
}

#[derive(Debug)]
struct DataInfo {
    storage: Storage,
    /// Message blocks that refer to it: what `db_ref` must say.
    sharers: u32,
    /// Who allocated it.
    maker: Owner,
}

#[derive(Debug, Default)]
struct Table {
    messages: FxHashMap<usize, Owner>,
    data: FxHashMap<usize, DataInfo>,
}

/// One host's messages.
#[derive(Debug)]
pub(crate) struct Streams {
    table: HostMutex<Table>,
    ioctls: ioctl::Ioctls,
    /// Whether the table is kept; a machine without checks tells everything from the blocks.
    books: bool,
}

impl Streams {
    pub(super) fn new(checks: bool) -> Self {
        Self { table: HostMutex::new(Table::default()), ioctls: ioctl::Ioctls::new(), books: checks }
    }

    /// What a module owns or has lent, for the report of its unload.
    pub(super) fn held_by(&self, kernel: &Kernel, module: &str) -> Vec<String> {
        let (owned, lent) = {
            let table = self.table.lock();
            let mine = |owner: &Owner| matches!(owner, Owner::Module(name) if *name == module);
            let mut owned: Vec<usize> =
                table.messages.iter().filter(|(_, owner)| mine(owner)).map(|(addr, _)| *addr).collect();
            owned.sort_unstable();
            let lends =
                |info: &DataInfo| matches!(info.storage, Storage::Loan { lender, .. } if lender == module);
            let mut lent: Vec<usize> =
                table.data.iter().filter(|(_, info)| lends(info)).map(|(addr, _)| *addr).collect();
            lent.sort_unstable();
            (owned, lent)
        };
        let memory = &kernel.genunix().memory;
        let made_by =
            |addr: usize| memory.block(addr).map_or_else(String::new, |b| b.origin.describe(kernel));
        let owned = owned.into_iter().map(|addr| format!("mblk {addr:#x}, made by {}", made_by(addr)));
        let lent = lent.into_iter().map(|addr| format!("loaned dblk {addr:#x}, made by {}", made_by(addr)));
        owned.chain(lent).collect()
    }
}

impl Genunix {
    /// How many buffers a module has lent with `desballoc` or `esballoc` that are not back.
    pub fn loans_of(&self, module: &str) -> usize {
        let lends =
            |info: &&DataInfo| matches!(info.storage, Storage::Loan { lender, .. } if lender == module);
        self.streams.table.lock().data.values().filter(lends).count()
    }

    /// How many message blocks a module owns.
    pub fn messages_held_by(&self, module: &str) -> usize {
        let mine = |owner: &&Owner| matches!(owner, Owner::Module(name) if *name == module);
        self.streams.table.lock().messages.values().filter(mine).count()
    }

    /// Message blocks alive, whoever owns them.
    pub fn live_messages(&self) -> usize {
        self.streams.table.lock().messages.len()
    }

    /// The live message block at `mp`; breaks rule 20 when there is none.
    fn live_message(&self, cx: &Cx, mp: *mut mblk_t, doing: &str) -> Option<Mb> {
        if self.memory.holds(mp.addr(), Kind::Mblk) {
            return Some(Mb::new(mp));
        }
        let why = self.memory.explain(cx.kernel(), mp.addr());
        cx.violate(Rule::BadMessageFree, format!("{doing}: no live mblk: {why}"));
        None
    }

    /// The live data block of a message block; breaks rule 20 when there is none.
    fn live_data(&self, cx: &Cx, mb: Mb, doing: &str) -> Option<Db> {
        let raw: *mut dblk_t = mb.datap();
        if self.memory.holds(raw.addr(), Kind::Dblk) {
            return Some(Db::new(raw));
        }
        let why = self.memory.explain(cx.kernel(), raw.addr());
        cx.violate(Rule::BadMessageFree, format!("{doing}: mblk {:#x} has no live dblk: {why}", mb.addr()));
        None
    }

    /// The blocks of one message (`b_cont`), each live and with its pointers in its buffer; a cycle breaks rule 20.
    fn blocks_of(&self, cx: &Cx, mp: *mut mblk_t, doing: &str) -> Vec<Mb> {
        let mut blocks: Vec<Mb> = Vec::new();
        let mut next = mp;
        while !next.is_null() {
            let Some(mb) = self.live_message(cx, next, doing) else { break };
            if blocks.len() >= MOST_BLOCKS && blocks.contains(&mb) {
                cx.violate(
                    Rule::BadMessageFree,
                    format!("{doing}: b_cont of {:#x} leads back to it", mb.addr()),
                );
                break;
            }
            let Some(db) = self.live_data(cx, mb, doing) else { break };
            self.check_pointers(cx, mb, db, doing);
            blocks.push(mb);
            next = mb.cont();
        }
        blocks
    }

    fn origin(cx: &Cx, owner: Owner) -> Origin {
        match owner {
            Owner::Module(_) => Origin::of(cx),
            Owner::Framework => Origin::KERNEL,
        }
    }
}

/// Longer messages are looked at for cycles.
const MOST_BLOCKS: usize = 256;
