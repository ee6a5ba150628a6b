//! A transmit queue's own memory of what is known about an address.
//!
//! Lives under the queue's lock, so that a packet to a known peer takes that one lock and no other. Fixed size, four places
//! per set: what does not fit is asked for again from [`ipoib::paths`], at the price of one more lock.

use ipoib::{AddrWords, LinkAddr};
use kernel::{KVec, MayBlock};

const WAYS: usize = 4;

/// Addresses, and what is known about each.
pub(crate) struct AddressCache<H> {
    sets: KVec<[Option<Place<H>>; WAYS]>,
    /// Sets minus one; a power of two minus one.
    mask: u32,
    seed: u64,
    /// Which place of a full set goes next.
    victim: u32,
}

struct Place<H> {
    to: AddrWords,
    handle: H,
    /// Hit since its set was last full.
    used: bool,
}

impl<H> AddressCache<H> {
    /// Room for `addresses`, rounded up to a power of two, at least four. `seed` keeps outsiders from choosing addresses that
    /// collide.
    pub(crate) fn new(addresses: usize, seed: u64, may_block: &MayBlock) -> Self {
        let sets = addresses.div_ceil(WAYS).max(1).next_power_of_two();
        let empty = |_| [const { None }; WAYS];
        let all = KVec::from_fn_waiting(sets, may_block, empty);
        Self { sets: all, mask: (sets - 1) as u32, seed, victim: 0 }
    }

    /// The handle of an address.
    #[inline(always)]
    pub(crate) fn get(&mut self, to: AddrWords) -> Option<&H> {
        let set = self.sets.get_mut(to.hash(self.seed) as usize & self.mask as usize)?;
        for place in set.iter_mut().flatten() {
            if place.to == to {
                place.used = true;
                return Some(&place.handle);
            }
        }
        None
    }

    /// Remembers a handle, in place of another address's if the set is full: one that was not used since the set was full before.
    pub(crate) fn insert(&mut self, to: LinkAddr, handle: H) {
        self.victim = (self.victim + 1) % WAYS as u32;
        let victim = self.victim as usize;
        let to = to.words();
        let set = self.set(to);
        let known = set.iter().position(|place| place.as_ref().is_some_and(|place| place.to == to));
        let free = || set.iter().position(Option::is_none);
        let at = known.or_else(free).unwrap_or_else(|| idle(set, victim));
        if let Some(place) = set.get_mut(at) {
            *place = Some(Place { to, handle, used: true });
        }
    }

    /// Forgets an address.
    pub(crate) fn remove(&mut self, to: &LinkAddr) {
        let to = to.words();
        for place in self.set(to) {
            if place.as_ref().is_some_and(|place| place.to == to) {
                *place = None;
            }
        }
    }

    /// Forgets what this does not hold for. Looks at every place.
    pub(crate) fn retain(&mut self, holds: impl Fn(&H) -> bool) {
        for place in self.sets.iter_mut().flatten() {
            if place.as_ref().is_some_and(|place| !holds(&place.handle)) {
                *place = None;
            }
        }
    }

    /// Forgets every address.
    pub(crate) fn clear(&mut self) {
        self.sets.iter_mut().flatten().for_each(|place| *place = None);
    }

    fn set(&mut self, to: AddrWords) -> &mut [Option<Place<H>>] {
        let set = self.sets.get_mut(to.hash(self.seed) as usize & self.mask as usize);
        set.map(|set| &mut set[..]).unwrap_or_default()
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
        let mut cache = AddressCache::new(256, 1, &kernel::MayBlock::on_host());
        for n in 0..128 {
            cache.insert(peer(n), n);
        }
        let kept = (0..128).filter(|n| cache.get(peer(*n).words()) == Some(n)).count();
        assert!(kept > 110, "{kept} of 128 fit in 256 places");
    }

    #[test]
    fn a_handle_is_replaced_and_forgotten() {
        let mut cache = AddressCache::new(16, 1, &kernel::MayBlock::on_host());
        cache.insert(peer(1), 10);
        cache.insert(peer(1), 11);
        assert_eq!(cache.get(peer(1).words()), Some(&11));
        cache.remove(&peer(1));
        assert_eq!(cache.get(peer(1).words()), None);
    }

    #[test]
    fn a_full_set_gives_up_an_address_that_was_not_used() {
        let mut cache = AddressCache::new(4, 1, &kernel::MayBlock::on_host());
        for n in 0..4 {
            cache.insert(peer(n), n);
        }
        // One of those that were all used goes for it.
        cache.insert(peer(4), 4);
        for n in 8..20 {
            cache.insert(peer(n), n);
            assert_eq!(cache.get(peer(4).words()), Some(&4), "in use all the time");
        }
    }
}
