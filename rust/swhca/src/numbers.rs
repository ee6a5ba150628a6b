//! Numbers of queue pairs: which are in use, and whose they are.

use ibtf_provider::Status;
use kernel::KVec;

use crate::line::Line;
use crate::states::Kind;

/// A number is 24 bits: an index, and above it how often the place has been used, from 1: 0 and 1 are the special ones'.
const INDEX_BITS: u32 = 13;
/// Queue pairs that there can be.
pub(crate) const MAX: usize = 1 << INDEX_BITS;
/// Of connections. The rest is for datagrams: without those there is no link, and no communication manager.
const MAX_CONNECTIONS: usize = MAX / 4 * 3;
const GENERATIONS: u32 = 1 << (24 - INDEX_BITS);

/// Places of queue pairs, of a type that this does not look at.
pub(crate) struct Numbers<T> {
    places: KVec<Place<T>>,
    /// Indices that nobody has.
    free: Line<u32>,
    used: usize,
    /// Numbers of connections, the kept ones, too.
    connections: usize,
}

struct Place<T> {
    generation: u32,
    kind: Kind,
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
        Self { places: KVec::new(), free: Line::new(), used: 0, connections: 0 }
    }

    /// How many numbers are in use, the kept ones not counted.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// How many numbers are kept, or given out and not yet used.
    pub(crate) fn reserved(&self) -> usize {
        self.places.len() - self.free.len() - self.used
    }

    /// A number for a queue pair to be. `INSUFF_RESOURCE` if there are as many as there can be of its kind.
    pub(crate) fn reserve(&mut self, kind: Kind) -> Result<u32, Status> {
        let is_connection = kind == Kind::Connection;
        if is_connection && self.connections >= MAX_CONNECTIONS {
            return Err(Status::INSUFF_RESOURCE);
        }
        let index = match self.free.pop() {
            Some(index) => index as usize,
            None => self.grow()?,
        };
        let place = self.places.get_mut(index).ok_or(Status::INSUFF_RESOURCE)?;
        (place.held, place.kind) = (Held::Reserved, kind);
        self.connections += usize::from(is_connection);
        Ok(place.generation << INDEX_BITS | index as u32)
    }

    /// One place more.
    fn grow(&mut self) -> Result<usize, Status> {
        let index = self.places.len();
        if index >= MAX {
            return Err(Status::INSUFF_RESOURCE);
        }
        self.free.reserve(index + 1)?;
        self.places.push(Place { generation: 1, kind: Kind::Datagrams, held: Held::Free })?;
        Ok(index)
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
        let Some(place) = self.place(number) else { return };
        if !matches!(place.held, Held::Reserved) {
            return;
        }
        place.held = Held::Free;
        place.generation = if place.generation + 1 == GENERATIONS { 1 } else { place.generation + 1 };
        let is_connection = place.kind == Kind::Connection;
        self.connections -= usize::from(is_connection);
        // There is room for all of them.
        let refused = self.free.push(number & (MAX as u32 - 1));
        debug_assert!(refused.is_ok());
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
    use super::{MAX, Numbers};
    use crate::states::Kind;
    use ibtf_provider::Status;

    #[test]
    fn a_number_that_was_freed_means_nobody_even_when_its_place_is_used_again() {
        let mut numbers = Numbers::new();
        let first = numbers.reserve(Kind::Datagrams).unwrap();
        assert!(first > 1 && first < 1 << 24);
        numbers.put(first, 'a');
        assert_eq!(numbers.find(first), Some(&'a'));
        assert_eq!(numbers.take(first, false), Some('a'));
        let second = numbers.reserve(Kind::Datagrams).unwrap();
        numbers.put(second, 'b');
        assert_ne!(first, second);
        assert_eq!((numbers.find(first), numbers.find(second)), (None, Some(&'b')));
    }

    #[test]
    fn a_kept_number_is_not_given_out_until_it_is_released() {
        let mut numbers = Numbers::new();
        let kept = numbers.reserve(Kind::Datagrams).unwrap();
        numbers.put(kept, 'a');
        numbers.take(kept, true);
        let other = numbers.reserve(Kind::Datagrams).unwrap();
        assert_ne!(kept % MAX as u32, other % MAX as u32);
        numbers.release(kept);
        assert_eq!(numbers.reserve(Kind::Datagrams).unwrap() % MAX as u32, kept % MAX as u32);
        assert_eq!(numbers.len(), 0);
    }

    #[test]
    fn datagrams_have_numbers_when_connections_have_all_that_are_theirs() {
        let mut numbers = Numbers::new();
        let mut all = 0;
        let refused = loop {
            match numbers.reserve(Kind::Connection) {
                Ok(number) => {
                    numbers.put(number, number);
                    // Kept ones count, too.
                    numbers.take(number, all % 2 == 0).unwrap();
                    if all % 2 != 0 {
                        let again = numbers.reserve(Kind::Connection).unwrap();
                        numbers.put(again, again);
                    }
                    all += 1;
                }
                Err(status) => break status,
            }
        };
        assert_eq!((all, refused), (MAX / 4 * 3, Status::INSUFF_RESOURCE));
        assert_eq!((numbers.len(), numbers.reserved()), (all / 2, all / 2));
        let rest: Vec<_> = core::iter::from_fn(|| numbers.reserve(Kind::Datagrams).ok()).collect();
        assert_eq!(rest.len(), MAX / 4);
        let one = *numbers.iter().next().unwrap();
        numbers.take(one, false).unwrap();
        assert!(numbers.reserve(Kind::Connection).is_ok(), "one is free again");
        assert_eq!(numbers.reserve(Kind::Connection), Err(Status::INSUFF_RESOURCE));
    }
}
