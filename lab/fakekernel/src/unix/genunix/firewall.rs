//! Blocks that stand before a wall, as with KMF_FIREWALL of illumos: one in so many ends where a page ends, and the page behind
//! cannot be read. Once freed the block itself cannot be read either. So reading too far and reading what is gone, which
//! patterns in memory show only by luck, end the run at the instruction that does it. All large blocks are such: to fill them and to
//! look at them takes longer than to close their pages, and of those the system makes what is touched only.

use std::collections::BTreeMap;

use crate::loader::arena::{Arena, PAGE};

/// Of blocks larger than this none is chosen by chance.
const LARGEST: usize = 64 << 10;
/// From this size on a block is large.
pub const LARGE: usize = 256 << 10;
/// Walled blocks of one heap at once, freed ones in quarantine among them: each divides the process's mappings.
const MOST: usize = 512;

/// Where a walled block lies: pages of its own, and the wall behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walled {
    base: usize,
    pages: usize,
    /// Whether there were zeros in it when it was built.
    pub zeroed: bool,
}

impl Walled {
    /// End of the last page that can be read while the block lives.
    pub fn end(self) -> usize {
        self.base + self.pages * PAGE
    }

    /// Whether its pages hold nothing once they are closed.
    pub fn is_large(self) -> bool {
        self.pages * PAGE >= LARGE
    }

    /// Whether `addr` lies in its pages or in the wall.
    pub fn contains(self, addr: usize) -> bool {
        (self.base..self.end() + PAGE).contains(&addr)
    }
}

/// Chooses the blocks, and keeps the pages that are free again, by how many they are.
#[derive(Debug)]
pub struct Firewall {
    /// One block in so many; 0 is none.
    one_in: u64,
    /// State of the choice, by the seed.
    choice: u64,
    blocks: usize,
    free: BTreeMap<usize, Vec<usize>>,
}

impl Firewall {
    pub fn new(one_in: u32, seed: u64) -> Self {
        let choice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { one_in: one_in.into(), choice, blocks: 0, free: BTreeMap::new() }
    }

    /// Whether the next block is to be walled. The sequence of questions decides, so two runs of one seed agree.
    pub fn chooses(&mut self, size: usize) -> bool {
        // Xorshift: any sequence will do that differs from seed to seed.
        self.choice ^= self.choice << 13;
        self.choice ^= self.choice >> 7;
        self.choice ^= self.choice << 17;
        let chosen = self.one_in > 0 && self.choice.is_multiple_of(self.one_in);
        chosen && size <= LARGEST && self.blocks < MOST
    }

    /// Whether a block of that size has pages of its own whatever was chosen.
    pub fn is_for(&self, size: usize) -> bool {
        self.one_in > 0 && size >= LARGE && self.blocks < MOST
    }

    /// Pages for `bytes` bytes and a wall; `None` if the arena has no room for them.
    pub fn build(&mut self, arena: &mut Arena, bytes: usize) -> Option<Walled> {
        let pages = bytes.div_ceil(PAGE).max(1);
        let known = self.free.get_mut(&pages).and_then(Vec::pop);
        let base = known.or_else(|| arena.take_pages(pages + 1))?;
        let walled = Walled { base, pages, zeroed: known.is_none() };
        let walled = Walled { zeroed: walled.zeroed || walled.is_large(), ..walled };
        // A wall stays where it is.
        if known.is_none() {
            arena.wall(walled.end());
        }
        self.blocks += 1;
        Some(walled)
    }

    /// Nobody can read the block any more.
    pub fn close(arena: &Arena, walled: Walled) {
        let len = walled.pages * PAGE;
        if walled.is_large() {
            arena.discard(walled.base, len);
        } else {
            arena.close(walled.base, len);
        }
    }

    /// The pages can hold another block.
    pub fn reuse(&mut self, arena: &Arena, walled: Walled) {
        arena.open(walled.base, walled.pages * PAGE);
        self.blocks -= 1;
        self.free.entry(walled.pages).or_default().push(walled.base);
    }
}

#[cfg(test)]
mod tests {
    use super::{Firewall, LARGE};
    use crate::unix::genunix::heap::{Fill, Heap, Kind};

    const BUFFERS: usize = 5 << 20;

    #[test]
    fn a_large_block_is_nobodys_to_read_from_its_free_until_it_is_given_out_again_with_zeros() {
        let mut heap = Heap::new(Firewall::new(32, 1)).unwrap();
        let buffers = heap.alloc(BUFFERS, 4096, Kind::Kmem, Fill::Zero, "alice").unwrap();
        assert!(buffers.addr().is_multiple_of(4096) && heap.walled(buffers.addr() + BUFFERS).is_some());
        assert_eq!(buffers.first_not(0), None);
        buffers.set(7);
        assert!(heap.free(buffers.addr(), Some(BUFFERS), Kind::Kmem, "bob").is_ok());
        // Quarantine has room for these, and the large one takes none of it.
        (0..4).for_each(|_| others_block(&mut heap, LARGE / 2));
        assert_eq!(heap.walled(buffers.addr() + 100).and_then(|(_, by)| by), Some(&"bob"));
        (0..1_100).for_each(|_| others_block(&mut heap, 64));
        assert!(heap.walled(buffers.addr() + 100).is_none(), "it has left quarantine");
        let again = heap.alloc(BUFFERS, 4096, Kind::Kmem, Fill::Zero, "dave").unwrap();
        assert_eq!((again.addr(), again.first_not(0)), (buffers.addr(), None));
    }

    fn others_block(heap: &mut Heap<&'static str>, size: usize) {
        let block = heap.alloc(size, 64, Kind::Kmem, Fill::Zero, "carol").unwrap();
        assert!(heap.free(block.addr(), None, Kind::Kmem, "carol").is_ok());
    }

    #[test]
    fn a_write_before_a_large_block_is_found_when_it_is_freed() {
        let mut heap = Heap::new(Firewall::new(32, 1)).unwrap();
        let buffers = heap.alloc(BUFFERS, 4096, Kind::Kmem, Fill::Uninitialised, "alice").unwrap();
        heap.mem(buffers.addr() - 4, 4).set(0);
        assert!(heap.free(buffers.addr(), Some(BUFFERS), Kind::Kmem, "bob").is_err());
    }
}
