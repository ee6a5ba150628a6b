//! A numbered first-in-first-out queue of fixed size, whose last elements can be taken back.

use kernel::{AllocError, KVec};

use crate::adapter_owned::Keep;

/// Number n is in place n modulo the number of places, a power of two, so numbers may wrap.
pub(crate) struct Ring<E> {
    places: KVec<Option<E>>,
    /// Number of the oldest.
    head: u32,
    /// Number the next one gets.
    tail: u32,
}

impl<E: Send + Sync> Keep for Ring<E> {}

impl<E> Ring<E> {
    /// Room for at least `capacity` (at most 2^31).
    pub(crate) fn new(capacity: u32) -> Result<Self, AllocError> {
        let places = KVec::from_fn(capacity.next_power_of_two() as usize, |_| None)?;
        Ok(Self { places, head: 0, tail: 0 })
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// The number the next element gets.
    #[inline]
    pub(crate) fn next_number(&self) -> u32 {
        self.tail
    }

    /// Whether `number` is one of the oldest `count`.
    #[inline]
    pub(crate) fn is_among(&self, number: u32, count: u32) -> bool {
        number.wrapping_sub(self.head) < count.min(self.len())
    }

    /// Appends, or hands back when full.
    #[inline(always)]
    pub(crate) fn push(&mut self, element: E) -> Result<(), E> {
        match self.place(self.tail) {
            Some(place) if place.is_none() => core::mem::forget(place.replace(element)),
            // The oldest is in it.
            _ => return Err(element),
        }
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }

    /// Takes the oldest, with its number.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<(u32, E)> {
        if self.len() == 0 {
            return None;
        }
        let number = self.head;
        self.head = number.wrapping_add(1);
        let element = self.place(number)?.take()?;
        Some((number, element))
    }

    /// Takes the newest `count` out, the oldest of them first.
    pub(crate) fn take_back(&mut self, count: u32, mut each: impl FnMut(E)) {
        let end = self.tail;
        let mut number = end.wrapping_sub(count.min(self.len()));
        self.tail = number;
        while number != end {
            if let Some(element) = self.place(number).and_then(Option::take) {
                each(element);
            }
            number = number.wrapping_add(1);
        }
    }

    /// Takes one out of the newest; those behind it move up and get the numbers before theirs.
    pub(crate) fn remove(&mut self, number: u32) -> Option<E> {
        if !self.is_among(number, self.len()) {
            return None;
        }
        let removed = self.place(number)?.take();
        let last = self.tail.wrapping_sub(1);
        let mut at = number;
        while at != last {
            let next = at.wrapping_add(1);
            let element = self.place(next).and_then(Option::take);
            if let Some(place) = self.place(at) {
                *place = element;
            }
            at = next;
        }
        self.tail = last;
        removed
    }

    /// The one that was appended last.
    #[inline]
    pub(crate) fn newest(&mut self) -> Option<&mut E> {
        // Of what was taken nothing is left.
        self.place(self.tail.wrapping_sub(1))?.as_mut()
    }

    /// The oldest, and those behind it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &E> {
        let mask = self.places.len().wrapping_sub(1);
        let place = move |n: u32| self.places.get(self.head.wrapping_add(n) as usize & mask)?.as_ref();
        (0..self.len()).filter_map(place)
    }

    /// One that is in it.
    #[inline]
    pub(crate) fn get(&mut self, number: u32) -> Option<&mut E> {
        if self.is_among(number, self.len()) { self.place(number)?.as_mut() } else { None }
    }

    #[inline(always)]
    fn place(&mut self, number: u32) -> Option<&mut Option<E>> {
        let index = number as usize & self.places.len().wrapping_sub(1);
        self.places.get_mut(index)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::Ring;
    use std::vec::Vec;

    #[test]
    fn numbers_go_on_when_places_are_used_again() {
        let mut ring = Ring::new(3).unwrap();
        for round in 0..10u32 {
            assert_eq!(ring.next_number(), round);
            ring.push(round).unwrap();
            assert_eq!(ring.pop(), Some((round, round)));
        }
        assert_eq!(ring.pop(), None);
    }

    #[test]
    fn full_ring_hands_back() {
        let mut ring = Ring::new(2).unwrap();
        ring.push('a').unwrap();
        ring.push('b').unwrap();
        assert_eq!(ring.push('c'), Err('c'));
    }

    #[test]
    fn newest_are_taken_back_in_order_and_their_numbers_used_again() {
        let mut ring = Ring::new(4).unwrap();
        for element in 0..4 {
            ring.push(element).unwrap();
        }
        let mut back = Vec::new();
        ring.take_back(2, |element| back.push(element));
        assert_eq!((back, ring.len(), ring.next_number()), (Vec::from([2, 3]), 2, 2));
        assert!(ring.is_among(1, 4) && !ring.is_among(2, 4) && !ring.is_among(u32::MAX, 4));
    }

    #[test]
    fn one_is_taken_out_and_those_behind_it_move_up() {
        let mut ring = Ring { head: u32::MAX, tail: u32::MAX, ..Ring::new(4).unwrap() };
        for element in 0..4 {
            ring.push(element).unwrap();
        }
        assert_eq!((ring.remove(3), ring.remove(u32::MAX - 1)), (None, None), "numbers that nobody has");
        assert_eq!(ring.remove(0), Some(1));
        assert_eq!((ring.len(), ring.next_number()), (3, 2));
        assert_eq!(ring.remove(1), Some(3));
        assert_eq!([ring.pop(), ring.pop(), ring.pop()], [Some((u32::MAX, 0)), Some((0, 2)), None]);
    }

    #[test]
    fn numbers_wrap() {
        let mut ring = Ring { head: u32::MAX, tail: u32::MAX, ..Ring::new(4).unwrap() };
        ring.push(1).unwrap();
        ring.push(2).unwrap();
        assert!(ring.is_among(0, 2) && !ring.is_among(1, 2));
        assert_eq!((ring.pop(), ring.pop()), (Some((u32::MAX, 1)), Some((0, 2))));
    }
}
