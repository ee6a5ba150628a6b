//! The table of what is allocated, and the checks a debug kernel's allocator makes.
//!
//! Each block lies between two red zones. A fresh block is filled with `0xbaddcafe`, a freed one with `0xdeadbeef` and
//! kept in quarantine for a while: whoever writes to it in the meantime is found when the block leaves quarantine, or at
//! the next sweep. Sizes are exact: freeing anything but what was allocated is a [`Fault`]. One block in so many stands before a
//! wall ([`Firewall`]): there reading is found, too.
//!
//! No rule is judged here; [`super::kmem`] turns a fault into a broken rule and knows who called.

use std::collections::VecDeque;

use slab::Slab;

use super::firewall::{Firewall, Walled};
use super::shadow::Shadow;
use crate::loader::arena::{Arena, ArenaError};
use crate::loader::mem::Mem;

/// Fresh memory.
pub const UNINITIALISED: u32 = 0xbadd_cafe;
/// Freed memory.
pub const FREED: u32 = 0xdead_beef;
/// Before and behind a block.
const RED_ZONE: u32 = 0xfeed_face;
/// The first byte behind a block whose size is no multiple of four.
const RED_ZONE_BYTE: u8 = 0xbb;
/// Least red zone on each side, bytes.
const ZONE: usize = 16;
/// Freed bytes and blocks kept from reuse.
const QUARANTINE_BYTES: usize = 1 << 20;
const QUARANTINE_BLOCKS: usize = 1024;

/// What a block is for: each is freed by its own function only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `kmem_alloc`, `kmem_zalloc`.
    Kmem,
    /// An object of the cache with this number.
    Cache(u32),
    /// A message block.
    Mblk,
    /// A data block together with its buffer, or with none when the buffer is a loan.
    Dblk,
    /// The lab's own: a device node, a kstat, a soft state table.
    Lab,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kmem => f.write_str("kmem_alloc memory"),
            Self::Cache(_) => f.write_str("a kmem cache object"),
            Self::Mblk => f.write_str("an mblk"),
            Self::Dblk => f.write_str("a dblk"),
            Self::Lab => f.write_str("memory of the kernel's own"),
        }
    }
}

/// A live block.
#[derive(Debug, Clone)]
pub struct Block<O> {
    /// First byte.
    pub addr: usize,
    /// Bytes asked for.
    pub size: usize,
    /// How it may be freed.
    pub kind: Kind,
    /// Who asked.
    pub origin: O,
    align: usize,
    walled: Option<Walled>,
}

impl<O> Block<O> {
    /// Bytes that quarantine keeps of it.
    fn kept(&self) -> usize {
        if self.walled.is_some_and(Walled::is_large) { 0 } else { self.size }
    }
}

#[derive(Debug)]
struct Freed<O> {
    block: Block<O>,
    by: O,
}

/// What is wrong with a free, or with memory found damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault<O> {
    /// Not the start of any block.
    Unknown,
    /// Inside a live block: its start, its size.
    Interior(usize, usize),
    /// Already freed, by that caller.
    Twice(O),
    /// The block is smaller or larger than said: its real size.
    Size(usize),
    /// Another kind of memory.
    Kind(Kind),
    /// Bytes before the block were written.
    Before,
    /// Bytes behind the block were written: offset of the first, from the block's start.
    Behind(usize),
    /// A freed block was written to: its address and size, the offset of the first byte changed, who had freed it.
    AfterFree(usize, usize, usize, O),
}

impl<O: std::fmt::Display> std::fmt::Display for Fault<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown => f.write_str("no such allocation"),
            Self::Interior(start, size) => write!(f, "inside the {size}-byte allocation at {start:#x}"),
            Self::Twice(by) => write!(f, "already freed by {by}"),
            Self::Size(size) => write!(f, "the allocation has {size} bytes"),
            Self::Kind(kind) => write!(f, "this is {kind}"),
            Self::Before => f.write_str("bytes before its start were overwritten"),
            Self::Behind(at) => write!(f, "byte {at}, behind its end, was overwritten"),
            Self::AfterFree(addr, size, at, by) => {
                write!(f, "byte {at} of the {size} bytes at {addr:#x} was written after {by} had freed them")
            }
        }
    }
}

/// How a fresh block looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// The pattern of uninitialised memory.
    Uninitialised,
    /// Zeros.
    Zero,
}

/// One host's heap.
#[derive(Debug)]
pub struct Heap<O> {
    arena: Arena,
    firewall: Firewall,
    live: Slab<Block<O>>,
    /// Where each of them is among `live`.
    shadow: Shadow,
    quarantine: VecDeque<Freed<O>>,
    quarantined: usize,
    live_bytes: usize,
}

impl<O: Clone> Heap<O> {
    /// An empty heap in an arena of its own.
    ///
    /// # Errors
    ///
    /// When the process has no address range left.
    pub fn new(firewall: Firewall) -> Result<Self, ArenaError> {
        let arena = Arena::new()?;
        let shadow = Shadow::new(arena.start(), arena.pages());
        Ok(Self {
            arena,
            firewall,
            live: Slab::new(),
            shadow,
            quarantine: VecDeque::new(),
            quarantined: 0,
            live_bytes: 0,
        })
    }

    /// A block of `size` bytes at a multiple of `align` (a power of two, at least 8). A block that asks for no more than 8
    /// gets no more: it never starts at a multiple of 16.
    ///
    /// # Errors
    ///
    /// When the arena is used up.
    pub fn alloc(
        &mut self,
        size: usize,
        align: usize,
        kind: Kind,
        fill: Fill,
        origin: O,
    ) -> Result<Mem, ArenaError> {
        let walled = self.wall(size, align, kind);
        let mem = match walled {
            Some(walled) => self.before_wall(walled, size, align),
            None => self.between_red_zones(size, align)?,
        };
        let addr = mem.addr();
        match fill {
            Fill::Uninitialised => mem.fill(UNINITIALISED),
            Fill::Zero if walled.is_some_and(|walled| walled.zeroed) => {}
            Fill::Zero => mem.set(0),
        }
        self.live_bytes += size;
        let number = self.live.insert(Block { addr, size, kind, origin, align, walled });
        self.shadow.set(addr, size, number);
        Ok(mem)
    }

    fn between_red_zones(&mut self, size: usize, align: usize) -> Result<Mem, ArenaError> {
        let layout = Layout::new(size, align);
        let raw = self.arena.take(layout.total, layout.align)?;
        raw.part(layout.front - ZONE, ZONE).fill(RED_ZONE);
        raw.part(layout.front + size, layout.slack()).set(RED_ZONE_BYTE);
        raw.part(layout.front + size + layout.slack(), ZONE).fill(RED_ZONE);
        Ok(raw.part(layout.front, size))
    }

    /// Pages of its own for a block that is chosen to have them.
    fn wall(&mut self, size: usize, align: usize, kind: Kind) -> Option<Walled> {
        // What is the lab's own the lab reads.
        let chosen = kind != Kind::Lab && (self.firewall.chooses(size) || self.firewall.is_for(size));
        chosen.then(|| self.firewall.build(&mut self.arena, ZONE + size + align.max(16)))?
    }

    /// As near to the wall as the alignment allows; a block that asks for 8 does not get 16 here either.
    fn before_wall(&self, walled: Walled, size: usize, align: usize) -> Mem {
        let last = walled.end() - size;
        let addr = if align <= 8 { (last - 8) / 16 * 16 + 8 } else { last / align * align };
        self.arena.mem(addr - ZONE, ZONE).fill(RED_ZONE);
        self.arena.mem(addr + size, walled.end() - addr - size).set(RED_ZONE_BYTE);
        self.arena.mem(addr, size)
    }

    /// Ends a block's life. The memory is poisoned and goes to quarantine.
    ///
    /// # Errors
    ///
    /// The fault, when `addr`, `size` or `kind` is not that of a live block (nothing is freed then), or when the block's red
    /// zones, or those of a block that leaves quarantine now, are damaged (it is freed).
    pub fn free(
        &mut self,
        addr: usize,
        size: Option<usize>,
        kind: Kind,
        by: O,
    ) -> Result<Block<O>, Fault<O>> {
        let Some(number) = self.number(addr) else {
            return Err(self.why_unknown(addr));
        };
        let block = &self.live[number];
        if block.kind != kind {
            return Err(Fault::Kind(block.kind));
        }
        if size.is_some_and(|size| size != block.size) {
            return Err(Fault::Size(block.size));
        }
        let damage = damaged(&self.arena, block);
        let block = self.live.remove(number);
        self.shadow.clear(addr, block.size);
        match block.walled {
            Some(walled) => Firewall::close(&self.arena, walled),
            None => self.arena.mem(addr, block.size).fill(FREED),
        }
        self.live_bytes -= block.size;
        self.quarantined += block.kept();
        self.quarantine.push_back(Freed { block: block.clone(), by });
        let old = self.release_old();
        match damage.or(old) {
            Some(fault) => Err(fault),
            None => Ok(block),
        }
    }

    fn why_unknown(&self, addr: usize) -> Fault<O> {
        if let Some(block) = self.holder(addr) {
            return Fault::Interior(block.addr, block.size);
        }
        let freed = self.quarantine.iter().rev().find(|freed| freed.block.addr == addr);
        freed.map_or(Fault::Unknown, |freed| Fault::Twice(freed.by.clone()))
    }

    fn release_old(&mut self) -> Option<Fault<O>> {
        let mut found = None;
        while self.quarantined > QUARANTINE_BYTES || self.quarantine.len() > QUARANTINE_BLOCKS {
            let Some(freed) = self.quarantine.pop_front() else { break };
            self.quarantined -= freed.block.kept();
            found = found.or_else(|| written_after_free(&self.arena, &freed));
            let Block { addr, size, align, walled, .. } = freed.block;
            let layout = Layout::new(size, align);
            match walled {
                Some(walled) => self.firewall.reuse(&self.arena, walled),
                None => self.arena.give(addr - layout.front, layout.total, layout.align),
            }
        }
        found
    }

    /// Looks at every red zone and every freed block; the first damage found.
    pub fn sweep(&self) -> Option<(Option<&Block<O>>, Fault<O>)> {
        let live =
            self.blocks().find_map(|block| damaged(&self.arena, block).map(|fault| (Some(block), fault)));
        let freed = || self.quarantine.iter().find_map(|freed| written_after_free(&self.arena, freed));
        live.or_else(|| freed().map(|fault| (None, fault)))
    }

    /// The live block that holds the byte at `addr`.
    pub fn holder(&self, addr: usize) -> Option<&Block<O>> {
        let block = &self.live[self.shadow.get(addr)?];
        (block.addr..block.addr + block.size.max(1)).contains(&addr).then_some(block)
    }

    /// The freed block that held the byte at `addr` last, and who freed it, while it is in quarantine.
    pub fn freed_holder(&self, addr: usize) -> Option<(&Block<O>, &O)> {
        let held =
            |freed: &&Freed<O>| (freed.block.addr..freed.block.addr + freed.block.size).contains(&addr);
        self.quarantine.iter().rev().find(held).map(|freed| (&freed.block, &freed.by))
    }

    /// Whose walled pages these are, if they are any: the block, and who freed it if it is not live.
    pub fn walled(&self, addr: usize) -> Option<(&Block<O>, Option<&O>)> {
        let is_its = |block: &Block<O>| block.walled.is_some_and(|walled| walled.contains(addr));
        let live = self.live.iter().map(|(_, block)| (block, None));
        let freed = self.quarantine.iter().rev().map(|freed| (&freed.block, Some(&freed.by)));
        live.chain(freed).find(|(block, _)| is_its(block))
    }

    /// The live block that starts at `addr`.
    pub fn block(&self, addr: usize) -> Option<&Block<O>> {
        self.number(addr).map(|number| &self.live[number])
    }

    fn number(&self, addr: usize) -> Option<usize> {
        self.shadow.get(addr).filter(|number| self.live[*number].addr == addr)
    }

    /// Every live block, by address.
    pub fn blocks(&self) -> impl Iterator<Item = &Block<O>> {
        let mut blocks: Vec<&Block<O>> = self.live.iter().map(|(_, block)| block).collect();
        blocks.sort_unstable_by_key(|block| block.addr);
        blocks.into_iter()
    }

    /// How many blocks are live.
    pub fn live_blocks(&self) -> usize {
        self.live.len()
    }

    /// Bytes in live blocks.
    pub fn live_bytes(&self) -> usize {
        self.live_bytes
    }

    /// `len` bytes of the heap.
    pub fn mem(&self, addr: usize, len: usize) -> Mem {
        self.arena.mem(addr, len)
    }

    /// Whether `addr` is heap at all, live or not.
    pub fn contains(&self, addr: usize) -> bool {
        self.arena.contains(addr)
    }
}

/// Where a block lies between its red zones.
struct Layout {
    front: usize,
    total: usize,
    align: usize,
    size: usize,
}

impl Layout {
    fn new(size: usize, align: usize) -> Self {
        let (align, front) = if align <= 8 { (16, ZONE + 8) } else { (align, align.max(ZONE)) };
        Self { front, total: front + size.next_multiple_of(8) + ZONE, align, size }
    }

    /// Bytes from the block's end to the red zone proper.
    fn slack(&self) -> usize {
        self.size.next_multiple_of(8) - self.size
    }
}

fn damaged<O>(arena: &Arena, block: &Block<O>) -> Option<Fault<O>> {
    if arena.mem(block.addr - ZONE, ZONE).first_not(RED_ZONE).is_some() {
        return Some(Fault::Before);
    }
    let end = block.addr + block.size;
    if let Some(walled) = block.walled {
        let behind = arena.mem(end, walled.end() - end);
        let byte = behind.first_not(u32::from_ne_bytes([RED_ZONE_BYTE; 4]));
        return byte.map(|at| Fault::Behind(block.size + at));
    }
    let slack = Layout::new(block.size, block.align).slack();
    let behind = arena.mem(end, slack + ZONE);
    let byte = behind.part(0, slack).first_not(u32::from_ne_bytes([RED_ZONE_BYTE; 4]));
    let byte = byte.or_else(|| behind.part(slack, ZONE).first_not(RED_ZONE).map(|at| at + slack));
    byte.map(|at| Fault::Behind(block.size + at))
}

fn written_after_free<O: Clone>(arena: &Arena, freed: &Freed<O>) -> Option<Fault<O>> {
    let Block { addr, size, walled, .. } = freed.block;
    if walled.is_some() {
        // It could not be.
        return None;
    }
    let at = arena.mem(addr, size).first_not(FREED)?;
    Some(Fault::AfterFree(addr, size, at, freed.by.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Named = Heap<&'static str>;

    fn block(heap: &mut Named, size: usize, align: usize) -> Mem {
        heap.alloc(size, align, Kind::Kmem, Fill::Uninitialised, "alice").unwrap()
    }

    fn addr(block: Mem) -> usize {
        block.addr()
    }

    #[test]
    fn eight_byte_alignment_is_all_one_gets_unless_one_asks() {
        let mut heap = Named::new(Firewall::new(0, 0)).unwrap();
        for size in [1, 8, 24, 100] {
            assert_eq!(addr(block(&mut heap, size, 8)) % 16, 8);
        }
        assert_eq!(addr(block(&mut heap, 64, 64)) % 64, 0);
        assert_eq!(addr(block(&mut heap, 4096, 4096)) % 4096, 0);
    }

    #[test]
    fn a_block_is_freed_with_its_own_size_once() {
        let mut heap = Named::new(Firewall::new(0, 0)).unwrap();
        let one = addr(block(&mut heap, 100, 8));
        assert_eq!(heap.free(one, Some(104), Kind::Kmem, "bob").unwrap_err(), Fault::Size(100));
        assert_eq!(heap.free(one + 4, Some(96), Kind::Kmem, "bob").unwrap_err(), Fault::Interior(one, 100));
        assert_eq!(heap.free(one, Some(100), Kind::Mblk, "bob").unwrap_err(), Fault::Kind(Kind::Kmem));
        assert_eq!(heap.free(8, Some(100), Kind::Kmem, "bob").unwrap_err(), Fault::Unknown);
        assert!(heap.free(one, Some(100), Kind::Kmem, "bob").is_ok());
        assert_eq!(heap.free(one, Some(100), Kind::Kmem, "carol").unwrap_err(), Fault::Twice("bob"));
    }

    #[test]
    fn a_write_past_either_end_is_found() {
        let mut heap = Named::new(Firewall::new(0, 0)).unwrap();
        for (size, at, fault) in [
            (13, 13isize, Fault::Behind(13)),
            (16, 16, Fault::Behind(16)),
            (16, 31, Fault::Behind(31)),
            (16, -1, Fault::Before),
        ] {
            let start = addr(block(&mut heap, size, 8));
            heap.arena.mem(start.wrapping_add_signed(at), 1).set(0x5a);
            assert_eq!(
                heap.sweep().map(|(block, fault)| (block.map(|b| b.addr), fault)),
                Some((Some(start), fault.clone()))
            );
            assert_eq!(heap.free(start, Some(size), Kind::Kmem, "bob").unwrap_err(), fault);
        }
        assert!(heap.sweep().is_none());
    }

    #[test]
    fn a_write_after_free_is_found_when_the_block_leaves_quarantine() {
        let mut heap = Named::new(Firewall::new(0, 0)).unwrap();
        let start = addr(block(&mut heap, 64, 64));
        heap.free(start, Some(64), Kind::Kmem, "bob").unwrap();
        heap.arena.mem(start + 5, 1).set(0);
        assert_eq!(heap.freed_holder(start + 5).map(|(_, by)| *by), Some("bob"));
        let mut found = None;
        for _ in 0..=QUARANTINE_BLOCKS {
            let other = addr(block(&mut heap, 8, 8));
            found = found.or(heap.free(other, Some(8), Kind::Kmem, "carol").err());
        }
        assert_eq!(found, Some(Fault::AfterFree(start, 64, 5, "bob")));
    }

    #[test]
    fn a_walled_block_ends_at_the_wall_as_near_as_its_alignment_lets_it() {
        let mut heap = Named::new(Firewall::new(1, 7)).unwrap();
        for (size, align) in [(1, 8), (8, 8), (24, 8), (100, 8), (64, 64), (4096, 64), (5000, 4096), (0, 8)] {
            let mem = block(&mut heap, size, align);
            let walled = heap.block(mem.addr()).and_then(|block| block.walled).expect("one in one");
            assert!(walled.end() - (mem.addr() + size) < align.max(16) + 8, "{size} bytes at {align}");
            assert_eq!(mem.addr() % align.max(16), if align <= 8 { 8 } else { 0 });
            mem.set(0x5a);
            assert!(heap.sweep().is_none());
            assert_eq!(
                heap.walled(walled.end()).map(|(block, by)| (block.addr, by)),
                Some((mem.addr(), None))
            );
            heap.free(mem.addr(), Some(size), Kind::Kmem, "bob").unwrap();
            assert_eq!(heap.walled(mem.addr()).map(|(_, by)| by), Some(Some(&"bob")));
        }
        assert!(heap.sweep().is_none());
    }

    #[test]
    fn walled_pages_serve_again_after_quarantine_and_a_write_behind_the_end_is_found() {
        let mut heap = Named::new(Firewall::new(1, 7)).unwrap();
        let first = addr(block(&mut heap, 100, 8));
        heap.free(first, None, Kind::Kmem, "bob").unwrap();
        for _ in 0..=QUARANTINE_BLOCKS {
            let other = addr(block(&mut heap, 100, 8));
            heap.free(other, None, Kind::Kmem, "carol").unwrap();
        }
        let again = block(&mut heap, 100, 8);
        assert!(heap.block(again.addr()).is_some_and(|block| block.walled.is_some()));
        heap.arena.mem(again.addr() + 100, 1).set(0);
        assert_eq!(heap.free(again.addr(), None, Kind::Kmem, "dave").unwrap_err(), Fault::Behind(100));
    }

    #[test]
    fn the_holder_of_an_address_is_found_by_range() {
        let mut heap = Named::new(Firewall::new(0, 0)).unwrap();
        let one = addr(block(&mut heap, 40, 8));
        assert_eq!(heap.holder(one + 39).map(|b| b.addr), Some(one));
        assert!(heap.holder(one + 40).is_none());
        assert!(heap.holder(one - 1).is_none());
    }
}
