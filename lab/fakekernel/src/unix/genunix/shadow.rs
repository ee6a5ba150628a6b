//! Which block holds an address, found by an array that lies beside the arena as a shadow.
//!
//! Red zones keep blocks at least two granules apart, so a granule belongs to one block at most.

/// Bytes of the arena for one entry of the shadow.
const GRANULE: usize = 16;
/// Entries that are made at a time: they stand for 64 KiB of the arena.
const CHUNK: usize = 4096;

/// For each granule of a stretch of addresses, the number of the block that lies in it.
#[derive(Debug, Default)]
pub struct Shadow {
    /// First address of the stretch.
    base: usize,
    /// Where its upper part begins: no block lies in both.
    middle: usize,
    lower: Vec<Chunk>,
    upper: Vec<Chunk>,
}

/// What is in a chunk: for each granule the block's number and one, 0 where there is none.
#[derive(Debug)]
enum Chunk {
    /// The same in all granules.
    Same(u32),
    Each(Box<[u32; CHUNK]>),
}

impl Chunk {
    fn each(&mut self) -> &mut [u32; CHUNK] {
        if let Self::Same(entry) = *self {
            *self = Self::Each(Box::new([entry; CHUNK]));
        }
        match self {
            Self::Each(entries) => entries,
            Self::Same(_) => unreachable!("it has just become the other"),
        }
    }
}

impl Shadow {
    /// The shadow of the addresses from `base`, without a block; blocks lie before `middle` or behind.
    pub fn new(base: usize, middle: usize) -> Self {
        Self { base, middle, lower: Vec::new(), upper: Vec::new() }
    }

    /// The number of the block at `addr`, or within a granule of it.
    #[inline]
    pub fn get(&self, addr: usize) -> Option<usize> {
        let (base, chunks) =
            if addr < self.middle { (self.base, &self.lower) } else { (self.middle, &self.upper) };
        let granule = addr.checked_sub(base)? / GRANULE;
        let entry = match chunks.get(granule / CHUNK)? {
            Chunk::Same(entry) => *entry,
            Chunk::Each(entries) => entries[granule % CHUNK],
        };
        (entry as usize).checked_sub(1)
    }

    /// Notes that block `number` holds `size` bytes from `addr`; a block without bytes is found by its address.
    pub fn set(&mut self, addr: usize, size: usize, number: usize) {
        self.fill(addr, size, number as u32 + 1);
    }

    /// Notes that no block holds these bytes any more.
    pub fn clear(&mut self, addr: usize, size: usize) {
        self.fill(addr, size, 0);
    }

    fn fill(&mut self, addr: usize, size: usize, entry: u32) {
        let lower = addr < self.middle;
        let (base, chunks) =
            if lower { (self.base, &mut self.lower) } else { (self.middle, &mut self.upper) };
        let first = (addr - base) / GRANULE;
        let last = (addr + size.max(1) - 1 - base) / GRANULE;
        if last / CHUNK >= chunks.len() {
            chunks.resize_with(last / CHUNK + 1, || Chunk::Same(0));
        }
        for (number, chunk) in chunks.iter_mut().enumerate().take(last / CHUNK + 1).skip(first / CHUNK) {
            let begin = number * CHUNK;
            let (from, to) = (first.max(begin) - begin, last.min(begin + CHUNK - 1) - begin);
            if (from, to) == (0, CHUNK - 1) {
                *chunk = Chunk::Same(entry);
            } else {
                chunk.each()[from..=to].fill(entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Shadow;

    #[test]
    fn a_block_is_found_at_each_of_its_bytes_until_it_is_gone() {
        let mut shadow = Shadow::new(0x1000, usize::MAX);
        shadow.set(0x1018, 100, 7);
        shadow.set(0x1000 + 65_528, 100_000, 9);
        assert_eq!(
            [0x1018, 0x1018 + 99, 0x1000 + 165_527].map(|addr| shadow.get(addr)),
            [Some(7), Some(7), Some(9)]
        );
        assert_eq!([0, 0x1000, 0x1090, 0x10_0000].map(|addr| shadow.get(addr)), [None; 4]);
        shadow.clear(0x1018, 100);
        assert_eq!(shadow.get(0x1020), None);
    }

    #[test]
    fn a_block_without_bytes_is_found_by_its_address() {
        let mut shadow = Shadow::new(0, usize::MAX);
        shadow.set(64, 0, 0);
        assert_eq!(shadow.get(64), Some(0));
    }

    #[test]
    fn whole_chunks_of_a_block_and_both_ends_are_its_own() {
        let middle = 1 << 30;
        let mut shadow = Shadow::new(0, middle);
        shadow.set(middle + 32, 300_000, 1);
        shadow.set(64, 16, 2);
        let last = middle + 32 + 300_000 - 1;
        assert_eq!(
            [middle + 32, middle + 100_000, last, 64].map(|addr| shadow.get(addr)),
            [1, 1, 1, 2].map(Some)
        );
        assert_eq!([middle, last + 16, 0].map(|addr| shadow.get(addr)), [None; 3]);
        shadow.set(middle + 65_536 - 16, 0, 3);
        shadow.clear(middle + 32, 300_000);
        assert_eq!([middle + 32, middle + 65_536, last].map(|addr| shadow.get(addr)), [None; 3]);
    }
}
