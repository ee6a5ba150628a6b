//! What is kept of things by their addresses: found at once, and in the order of addresses for whoever asks about a range.

use std::collections::BTreeSet;
use std::ops::Range;

use rustc_hash::FxHashMap;

/// A value for each of some addresses.
#[derive(Debug)]
pub(crate) struct ByAddress<T> {
    values: FxHashMap<usize, T>,
    order: BTreeSet<usize>,
}

impl<T> Default for ByAddress<T> {
    fn default() -> Self {
        Self { values: FxHashMap::default(), order: BTreeSet::new() }
    }
}

impl<T> ByAddress<T> {
    #[inline]
    pub(crate) fn get(&self, addr: usize) -> Option<&T> {
        self.values.get(&addr)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, addr: usize) -> Option<&mut T> {
        self.values.get_mut(&addr)
    }

    pub(crate) fn insert(&mut self, addr: usize, value: T) {
        self.values.insert(addr, value);
        self.order.insert(addr);
    }

    pub(crate) fn get_or_insert_with(&mut self, addr: usize, make: impl FnOnce() -> T) -> &mut T {
        let order = &mut self.order;
        self.values.entry(addr).or_insert_with(|| {
            order.insert(addr);
            make()
        })
    }

    pub(crate) fn remove(&mut self, addr: usize) -> Option<T> {
        let value = self.values.remove(&addr)?;
        self.order.remove(&addr);
        Some(value)
    }

    /// The addresses in a range, the lowest first.
    pub(crate) fn within(&self, range: Range<usize>) -> impl Iterator<Item = usize> {
        self.order.range(range).copied()
    }

    /// The highest address.
    pub(crate) fn last(&self) -> Option<usize> {
        self.order.last().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::ByAddress;

    #[test]
    fn a_range_has_what_is_there_in_the_order_of_addresses() {
        let mut locks = ByAddress::default();
        [0x30, 0x10, 0x20, 0x40].into_iter().for_each(|addr| locks.insert(addr, addr + 1));
        *locks.get_or_insert_with(0x20, || 7) += 1;
        *locks.get_or_insert_with(0x18, || 7) += 1;
        assert_eq!([0x20, 0x18].map(|addr| locks.get(addr).copied()), [Some(0x22), Some(8)]);
        assert_eq!(locks.remove(0x30), Some(0x31));
        assert_eq!(locks.remove(0x30), None);
        assert_eq!(locks.within(0x10..0x40).collect::<Vec<_>>(), [0x10, 0x18, 0x20]);
        assert_eq!((locks.last(), locks.get_mut(0x30)), (Some(0x40), None));
    }
}
