//! `random_get_pseudo_bytes(9F)`: the numbers follow from the seed of the run and the host, so a run repeats.

use std::ffi::c_int;
use std::slice;

use lab_lock::Mutex;
use sim::Mode;

use crate::export;
use crate::loader::cx::cx;
use crate::loader::export::Export;

/// A host's generator, made when a module first asks.
#[derive(Debug, Default)]
pub(crate) struct Random(Mutex<Option<Generator>>);

/// SplitMix64: Steele, Lea and Flood, OOPSLA 2014.
#[derive(Debug)]
struct Generator(u64);

pub(super) fn unix() -> Vec<Export> {
    export! { UK: random_get_pseudo_bytes; }
}

impl Generator {
    /// Of a host with this name, in a run with this seed.
    fn new(seed: u64, host: &str) -> Self {
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        Self(host.bytes().fold(seed ^ 0x7261_6e64_6f6d_0000, mix))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(size_of::<u64>()) {
            let number = self.next().to_ne_bytes();
            chunk.iter_mut().zip(number).for_each(|(byte, random)| *byte = random);
        }
    }
}

/// The first call loads `misc/kcf`: it is held to what may block.
unsafe extern "C" fn random_get_pseudo_bytes(bytes: *mut u8, len: usize) -> c_int {
    let cx = cx();
    cx.may_block();
    let kernel = cx.kernel();
    let genunix = kernel.genunix();
    let mut random = genunix.random.0.lock();
    let random = random.get_or_insert_with(|| {
        let seed = match kernel.machine().config().mode {
            Mode::Virtual { seed } => seed,
            // Live runs do not repeat.
            Mode::Live => 0,
        };
        Generator::new(seed, kernel.name())
    });
    // SAFETY: the caller says that so many bytes are there.
    random.fill(unsafe { slice::from_raw_parts_mut(bytes, len) });
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_from_the_seed_and_the_host() {
        let first = |seed, host| Generator::new(seed, host).next();
        assert_eq!(first(1, "alpha"), first(1, "alpha"));
        let different: std::collections::BTreeSet<u64> = [(1, "alpha"), (2, "alpha"), (1, "beta")]
            .into_iter()
            .map(|(seed, host)| first(seed, host))
            .collect();
        assert_eq!(different.len(), 3);
    }
}
