//! A queue of fixed capacity.

use kernel::{KVec, MayBlock};

/// First in, first out; never grows.
pub(crate) struct Ring<T> {
    places: KVec<Option<T>>,
    first: usize,
    len: usize,
}

impl<T> Ring<T> {
    /// Room for `capacity` elements, at least one.
    pub(crate) fn new(capacity: usize, may_block: &MayBlock) -> Self {
        Self { places: KVec::from_fn_waiting(capacity.max(1), may_block, |_| None), first: 0, len: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many more elements there is room for.
    pub(crate) fn room(&self) -> usize {
        self.places.len() - self.len
    }

    /// Appends, or hands the element back.
    pub(crate) fn push(&mut self, value: T) -> Result<(), T> {
        let capacity = self.places.len();
        if self.len == capacity {
            return Err(value);
        }
        match self.places.get_mut(wrapped(self.first + self.len, capacity)) {
            Some(place) => *place = Some(value),
            None => return Err(value),
        }
        self.len += 1;
        Ok(())
    }

    /// The first element.
    pub(crate) fn first(&self) -> Option<&T> {
        self.places.get(self.first).and_then(Option::as_ref)
    }

    /// Takes the first element.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let value = self.places.get_mut(self.first)?.take();
        self.first = wrapped(self.first + 1, self.places.len());
        self.len -= 1;
        value
    }
}

/// A place below twice the capacity, counted round.
fn wrapped(at: usize, capacity: usize) -> usize {
    if at < capacity { at } else { at - capacity }
}

#[cfg(test)]
mod tests {
    use super::Ring;

    #[test]
    fn elements_leave_in_the_order_they_came_and_none_is_lost_when_full() {
        let mut ring = Ring::new(2, &kernel::MayBlock::on_host());
        for round in 0..5 {
            assert_eq!(ring.push(round), Ok(()));
            assert_eq!(ring.push(round + 10), Ok(()));
            assert_eq!(ring.push(99), Err(99));
            assert_eq!((ring.pop(), ring.pop(), ring.pop()), (Some(round), Some(round + 10), None));
            assert!(ring.is_empty() && ring.room() == 2);
        }
    }
}
