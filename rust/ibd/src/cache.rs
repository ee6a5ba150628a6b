//! A transmit queue's own memory of what is known about an address.
//!
//! Lives under the queue's lock, so that a packet to a known peer takes that one lock and no other. Fixed size, four places
//! per set: what does not fit is asked for again from [`ipoib::paths`], at the price of one more lock.

use ipoib::LinkAddr;
use kernel::{AllocError, KVec};

const WAYS: usize = 4;

/// Addresses, and what is known about each.
pub(crate) struct AddressCache<H> {
    places: KVec<Option<Place<H>>>,
    /// Sets minus one; a power of two minus one.
    mask: usize,
    seed: u64,
    /// Which place of a full set goes next.
    victim: usize,
}

struct Place<H> {
    to: LinkAddr,
    handle: H,
    /// Hit since its set was last full.
    used: bool,
}

impl<H> AddressCache<H> {
    /// Room for `addresses`, rounded up to a power of two, at least four. `seed` keeps outsiders from choosing addresses that
    /// collide.
    pub(crate) fn new(addresses: usize, seed: u64) -> Result<Self, AllocError> {
        let sets = addresses.div_ceil(WAYS).max(1).next_power_of_two();
        Ok(Self { places: KVec::from_fn(sets * WAYS, |_| None)?, mask: sets - 1, seed, victim: 0 })
    }

    /// The handle of an address.
    pub(crate) fn get(&mut self, to: &LinkAddr) -> Option<&H> {
        let place = self.set(to).iter_mut().flatten().find(|place| place.to == *to)?;
        place.used = true;
        Some(&place.handle)
    }

    /// Remembers a handle, in place of another address's if the set is full: one that was not used since the set was full before.
    pub(crate) fn insert(&mut self, to: LinkAddr, handle: H) {
        self.victim = (self.victim + 1) % WAYS;
        let victim = self.victim;
        let set = self.set(&to);
        let known = set.iter().position(|place| place.as_ref().is_some_and(|place| place.to == to));
        let free = || set.iter().position(Option::is_none);
        let at = known.or_else(free).unwrap_or_else(|| idle(set, victim));
        if let Some(place) = set.get_mut(at) {
            *place = Some(Place { to, handle, used: true });
        }
    }

    /// Forgets an address.
    pub(crate) fn remove(&mut self, to: &LinkAddr) {
        for place in self.set(to) {
            if place.as_ref().is_some_and(|place| place.to == *to) {
                *place = None;
            }
        }
    }

    /// Forgets every address.
    pub(crate) fn clear(&mut self) {
        self.places.iter_mut().for_each(|place| *place = None);
    }

    fn set(&mut self, to: &LinkAddr) -> &mut [Option<Place<H>>] {
        let first = (self.hash(to) & self.mask) * WAYS;
        self.places.get_mut(first..first + WAYS).unwrap_or_default()
    }

    /// Depends on all 20 bytes: hosts of a cluster share the queue pair number, groups most of the GID.
    fn hash(&self, to: &LinkAddr) -> usize {
        let bytes = to.as_bytes();
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(word)
        };
        let mix = |hash: u64, word: u64| {
            let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
            (product >> 64) as u64 ^ product as u64
        };
        // The middle word overlaps the others: 20 bytes in three words.
        let hash = mix(mix(mix(self.seed | 1, word(0)), word(6)), word(12));
        (hash ^ hash >> 32) as usize
    }
}

/// The place of a full set that goes; the others have to be used again.
fn idle<H>(set: &mut [Option<Place<H>>], victim: usize) -> usize {
    let used = |place: &Option<Place<H>>| place.as_ref().is_some_and(|place| place.used);
    let idle = set.iter().position(|place| !used(place)).unwrap_or(victim);
    set.iter_mut().flatten().for_each(|place| place.used = false);
    idle
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipoib::{Gid, Qpn};

    fn peer(n: u64) -> LinkAddr {
        LinkAddr::unicast(Qpn::new(0x48).unwrap(), Gid { prefix: 0xfe80 << 48, guid: n })
    }

    #[test]
    fn peers_that_differ_in_one_byte_of_the_guid_do_not_share_a_set() {
        let mut cache = AddressCache::new(256, 1).unwrap();
        for n in 0..128 {
            cache.insert(peer(n), n);
        }
        let kept = (0..128).filter(|n| cache.get(&peer(*n)) == Some(n)).count();
        assert!(kept > 110, "{kept} of 128 fit in 256 places");
    }

    #[test]
    fn a_handle_is_replaced_and_forgotten() {
        let mut cache = AddressCache::new(16, 1).unwrap();
        cache.insert(peer(1), 10);
        cache.insert(peer(1), 11);
        assert_eq!(cache.get(&peer(1)), Some(&11));
        cache.remove(&peer(1));
        assert_eq!(cache.get(&peer(1)), None);
    }

    #[test]
    fn a_full_set_gives_up_an_address_that_was_not_used() {
        let mut cache = AddressCache::new(4, 1).unwrap();
        for n in 0..4 {
            cache.insert(peer(n), n);
        }
        // One of those that were all used goes for it.
        cache.insert(peer(4), 4);
        for n in 8..20 {
            cache.insert(peer(n), n);
            assert_eq!(cache.get(&peer(4)), Some(&4), "in use all the time");
        }
    }
}
