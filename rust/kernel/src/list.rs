//! [`List`]: a list with a block of memory per element, so that what an instance adds goes with it.

use crate::boxed::{KBox, Vacant};
use crate::may_block::MayBlock;
use crate::mem::AllocError;

/// Elements, the last one added first. **Any** context, as far as the elements' own drop allows.
#[repr(transparent)]
pub struct List<T> {
    first: Link<T>,
}

type Link<T> = Option<KBox<Node<T>>>;

/// Laid out as [`crate::dump`] says.
#[repr(C)]
struct Node<T> {
    next: Link<T>,
    value: T,
}

/// Memory for an element. Made before a lock is taken or anything is begun: what is at hand then need not be given up.
pub struct Room<T>(Vacant<Node<T>>);

impl<T> Room<T> {
    /// Room for one element.
    pub fn new() -> Result<Self, AllocError> {
        Vacant::new().map(Self)
    }

    /// The same; waits for memory. **May block.**
    pub fn new_waiting(may_block: &MayBlock) -> Self {
        Self(Vacant::new_waiting(may_block))
    }
}

impl<T> List<T> {
    /// No elements.
    pub const fn new() -> Self {
        Self { first: None }
    }

    /// Adds an element, for which there is room.
    pub fn put(&mut self, room: Room<T>, value: T) {
        self.first = Some(room.0.fill(Node { next: self.first.take(), value }));
    }

    /// The elements.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let mut next = self.first.as_deref();
        core::iter::from_fn(move || {
            let node = next?;
            next = node.next.as_deref();
            Some(&node.value)
        })
    }

    /// The first element that `wanted` accepts.
    pub fn find_mut(&mut self, wanted: impl Fn(&T) -> bool) -> Option<&mut T> {
        let mut next = self.first.as_deref_mut();
        while let Some(node) = next {
            if wanted(&node.value) {
                return Some(&mut node.value);
            }
            next = node.next.as_deref_mut();
        }
        None
    }

    /// Of the elements that `wanted` accepts the one that was added before all others. Walks through all of the list.
    pub fn find_oldest_mut(&mut self, wanted: impl Fn(&T) -> bool) -> Option<&mut T> {
        let (oldest, _) = self.iter().enumerate().filter(|(_, value)| wanted(value)).last()?;
        let mut next = self.first.as_deref_mut();
        for _ in 0..oldest {
            next = next?.next.as_deref_mut();
        }
        next.map(|node| &mut node.value)
    }

    /// Takes out the first element that `wanted` accepts.
    pub fn take(&mut self, wanted: impl Fn(&T) -> bool) -> Option<T> {
        let mut passed = Self::new();
        let mut taken = None;
        while let Some(mut node) = self.first.take() {
            self.first = node.next.take();
            if wanted(&node.value) {
                taken = Some(node.into_inner().value);
                break;
            }
            node.next = passed.first.take();
            passed.first = Some(node);
        }
        while let Some(mut node) = passed.first.take() {
            passed.first = node.next.take();
            node.next = self.first.take();
            self.first = Some(node);
        }
        taken
    }
}

impl<T> List<T> {
    /// Hands each element over, and keeps what comes back in its place. Needs no memory.
    pub fn rework(&mut self, mut each: impl FnMut(T) -> Option<T>) {
        let mut kept = Self::new();
        while let Some(node) = self.first.take() {
            let (Node { next, value }, room) = node.take_out();
            self.first = next;
            if let Some(value) = each(value) {
                kept.put(Room(room), value);
            }
        }
        // The order was turned round.
        while let Some(mut node) = kept.first.take() {
            kept.first = node.next.take();
            node.next = self.first.take();
            self.first = Some(node);
        }
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for List<T> {
    /// One by one: dropping the first would drop the rest inside it, a stack frame each.
    fn drop(&mut self) {
        while let Some(mut node) = self.first.take() {
            self.first = node.next.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{List, Room};

    #[test]
    fn elements_are_reworked_in_order_and_in_their_places() {
        let mut list = List::new();
        for n in [1, 2, 3, 4] {
            list.put(Room::new().unwrap(), std::string::String::from_iter(["a"; 4].iter().take(n).copied()));
        }
        let mut seen = std::vec::Vec::new();
        list.rework(|element| {
            seen.push(element.len());
            (element.len() != 3).then(|| element + "b")
        });
        assert_eq!(seen, [4, 3, 2, 1]);
        assert!(list.iter().eq(["aaaab", "aab", "ab"]));
    }

    #[test]
    fn elements_are_found_changed_and_taken_and_the_others_keep_their_order() {
        let mut list = List::new();
        for n in 0..5 {
            list.put(Room::new().unwrap(), n);
        }
        assert_eq!(list.find_mut(|n| n % 2 == 1), Some(&mut 3));
        assert_eq!(list.find_oldest_mut(|n| n % 2 == 1), Some(&mut 1));
        assert_eq!(list.find_oldest_mut(|_| true), Some(&mut 0));
        assert_eq!(list.find_mut(|_| true), Some(&mut 4));
        assert_eq!(list.find_oldest_mut(|n| *n > 4), None);
        *list.find_mut(|n| *n == 3).unwrap() = 30;
        assert_eq!(list.take(|n| *n == 2), Some(2));
        assert_eq!(list.take(|n| *n == 2), None);
        assert!(list.iter().eq(&[4, 30, 1, 0]));
        assert_eq!((list.take(|n| *n == 4), list.take(|n| *n == 0)), (Some(4), Some(0)));
        assert!(list.iter().eq(&[30, 1]));
    }
}
