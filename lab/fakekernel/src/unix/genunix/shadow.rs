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
    /// The block's number and one; 0 where there is none.
    chunks: Vec<Option<Box<[u32; CHUNK]>>>,
}

impl Shadow {
    /// The shadow of the addresses from `base`, without a block.
    pub fn new(base: usize) -> Self {
        Self { base, chunks: Vec::new() }
    }

    /// The number of the block at `addr`, or within a granule of it.
    pub fn get(&self, addr: usize) -> Option<usize> {
        let granule = addr.checked_sub(self.base)? / GRANULE;
        let chunk = self.chunks.get(granule / CHUNK)?.as_ref()?;
        (chunk[granule % CHUNK] as usize).checked_sub(1)
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
        let first = (addr - self.base) / GRANULE;
        let last = (addr + size.max(1) - 1 - self.base) / GRANULE;
        for number in first / CHUNK..=last / CHUNK {
            if number >= self.chunks.len() {
                self.chunks.resize_with(number + 1, || None);
            }
            let chunk = self.chunks[number].get_or_insert_with(|| Box::new([0; CHUNK]));
            let begin = number * CHUNK;
            chunk[first.max(begin) - begin..=last.min(begin + CHUNK - 1) - begin].fill(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Shadow;

    #[test]
    fn a_block_is_found_at_each_of_its_bytes_until_it_is_gone() {
        let mut shadow = Shadow::new(0x1000);
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
        let mut shadow = Shadow::new(0);
        shadow.set(64, 0, 0);
        assert_eq!(shadow.get(64), Some(0));
    }
}
