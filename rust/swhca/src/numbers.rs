//! Numbers of queue pairs: which are in use, and whose they are.

use ibtf_provider::Status;
use kernel::KVec;

/// A number is 24 bits: an index, and above it how often the place has been used, from 1: 0 and 1 are the special ones'.
const INDEX_BITS: u32 = 12;
/// Queue pairs that there can be.
pub(crate) const MAX: usize = 1 << INDEX_BITS;
const GENERATIONS: u32 = 1 << (24 - INDEX_BITS);

/// Places of queue pairs, of a type that this does not look at.
pub(crate) struct Numbers<T> {
    places: KVec<Place<T>>,
    used: usize,
}

struct Place<T> {
    generation: u32,
    held: Held<T>,
}

enum Held<T> {
    Free,
    /// Given out, not yet used; or kept after use.
    Reserved,
    Used(T),
}

impl<T> Numbers<T> {
    pub(crate) const fn new() -> Self {
        Self { places: KVec::new(), used: 0 }
    }

    /// How many numbers are in use, the kept ones not counted.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// A number for a queue pair to be.
    pub(crate) fn reserve(&mut self) -> Result<u32, Status> {
        let free = self.places.iter().position(|place| matches!(place.held, Held::Free));
        let index = match free {
            Some(index) => index,
            None if self.places.len() < MAX => {
                self.places.push(Place { generation: 1, held: Held::Free })?;
                self.places.len() - 1
            }
            None => return Err(Status::INSUFF_RESOURCE),
        };
        let place = self.places.get_mut(index).ok_or(Status::INSUFF_RESOURCE)?;
        place.held = Held::Reserved;
        Ok(place.generation << INDEX_BITS | index as u32)
    }

    fn place(&mut self, number: u32) -> Option<&mut Place<T>> {
        let place = self.places.get_mut((number & (MAX as u32 - 1)) as usize)?;
        (place.generation == number >> INDEX_BITS).then_some(place)
    }

    /// The queue pair of a reserved number.
    pub(crate) fn put(&mut self, number: u32, value: T) {
        if let Some(place) = self.place(number)
            && matches!(place.held, Held::Reserved)
        {
            place.held = Held::Used(value);
            self.used += 1;
        }
    }

    pub(crate) fn find(&self, number: u32) -> Option<&T> {
        let place = self.places.get((number & (MAX as u32 - 1)) as usize)?;
        match &place.held {
            Held::Used(value) if place.generation == number >> INDEX_BITS => Some(value),
            _ => None,
        }
    }

    /// Takes a queue pair out; with `keep` nobody else gets its number before [`Numbers::release`].
    pub(crate) fn take(&mut self, number: u32, keep: bool) -> Option<T> {
        let place = self.place(number)?;
        if !matches!(place.held, Held::Used(_)) {
            return None;
        }
        let Held::Used(value) = core::mem::replace(&mut place.held, Held::Reserved) else { return None };
        self.used -= 1;
        if !keep {
            self.release(number);
        }
        Some(value)
    }

    /// A reserved or kept number may be used again, as another one.
    pub(crate) fn release(&mut self, number: u32) {
        if let Some(place) = self.place(number)
            && matches!(place.held, Held::Reserved)
        {
            place.held = Held::Free;
            place.generation = if place.generation + 1 == GENERATIONS { 1 } else { place.generation + 1 };
        }
    }

    /// All queue pairs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|place| match &place.held {
            Held::Used(value) => Some(value),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Numbers;

    #[test]
    fn a_number_that_was_freed_means_nobody_even_when_its_place_is_used_again() {
        let mut numbers = Numbers::new();
        let first = numbers.reserve().unwrap();
        assert!(first > 1 && first < 1 << 24);
        numbers.put(first, 'a');
        assert_eq!(numbers.find(first), Some(&'a'));
        assert_eq!(numbers.take(first, false), Some('a'));
        let second = numbers.reserve().unwrap();
        numbers.put(second, 'b');
        assert_ne!(first, second);
        assert_eq!((numbers.find(first), numbers.find(second)), (None, Some(&'b')));
    }

    #[test]
    fn a_kept_number_is_not_given_out_until_it_is_released() {
        let mut numbers = Numbers::new();
        let kept = numbers.reserve().unwrap();
        numbers.put(kept, 'a');
        numbers.take(kept, true);
        let other = numbers.reserve().unwrap();
        assert_ne!(kept & 0xfff, other & 0xfff);
        numbers.release(kept);
        assert_eq!(numbers.reserve().unwrap() & 0xfff, kept & 0xfff);
        assert_eq!(numbers.len(), 0);
    }
}
