//! Which memory a key means.

use ibtf_provider::{Region, Segment, Status};
use kernel::{KArc, KVec};

/// Keys are 32 bits: an index, and above it how often the place has been used. Neither 0 nor the reserved key of other adapters,
/// which has only the highest bit.
const INDEX_BITS: u32 = 16;
/// The key of all kernel memory, for queue pairs that may use it. No region has it: the highest bit of theirs is never set.
pub(crate) const RESERVED_KEY: u32 = 1 << 31;
/// Regions that there can be.
pub(crate) const MAX_REGIONS: usize = 1 << INDEX_BITS;

/// All regions of an adapter.
pub(crate) struct KeyTable {
    places: KVec<Place>,
    free: Option<u32>,
    used: usize,
}

struct Place {
    generation: u32,
    held: Held,
}

enum Held {
    Region {
        region: KArc<Region>,
        pd: u32,
    },
    /// The next free place.
    Free(Option<u32>),
}

/// The generations, of the bits that the index leaves; the highest is never set.
const GENERATIONS: u32 = 1 << (31 - INDEX_BITS);

impl KeyTable {
    pub(crate) const fn new() -> Self {
        Self { places: KVec::new(), free: None, used: 0 }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// A key for a region of that protection domain.
    pub(crate) fn insert(&mut self, region: KArc<Region>, pd: u32) -> Result<u32, Status> {
        let index = match self.free {
            Some(index) => index,
            None => {
                if self.places.len() >= MAX_REGIONS {
                    return Err(Status::INSUFF_RESOURCE);
                }
                self.places.push(Place { generation: 1, held: Held::Free(None) })?;
                (self.places.len() - 1) as u32
            }
        };
        let place = self.places.get_mut(index as usize).ok_or(Status::INSUFF_RESOURCE)?;
        if let Held::Free(next) = place.held {
            self.free = next;
        }
        place.held = Held::Region { region, pd };
        self.used += 1;
        Ok(place.generation << INDEX_BITS | index)
    }

    /// Makes a key mean nothing. `MR_HDL_INVALID` if it does not mean anything.
    pub(crate) fn remove(&mut self, key: u32) -> Result<(), Status> {
        let index = key & (MAX_REGIONS as u32 - 1);
        let place = self.places.get_mut(index as usize).ok_or(Status::MR_HDL_INVALID)?;
        if place.generation != key >> INDEX_BITS || matches!(place.held, Held::Free(_)) {
            return Err(Status::MR_HDL_INVALID);
        }
        place.held = Held::Free(self.free);
        place.generation = if place.generation + 1 == GENERATIONS { 1 } else { place.generation + 1 };
        self.free = Some(index);
        self.used -= 1;
        Ok(())
    }

    /// The region that has all of a segment, for work in that protection domain.
    pub(crate) fn find(&self, pd: u32, segment: &Segment) -> Option<KArc<Region>> {
        let place = self.places.get((segment.key & (MAX_REGIONS as u32 - 1)) as usize)?;
        let Held::Region { region, pd: owner } = &place.held else { return None };
        let valid = place.generation == segment.key >> INDEX_BITS
            && *owner == pd
            && region.window(segment.address, segment.len).is_some();
        valid.then(|| region.clone())
    }
}
