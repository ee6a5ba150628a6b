//! [`KVec`]: a growable array, with an allocation that can fail.

use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};

use crate::may_block::MayBlock;
use crate::mem::{self, AllocError};

/// How many elements the first one to be pushed makes room for.
const FIRST_ROOM: usize = 4;

/// A `Vec` that never grows without telling.
///
/// **Any** context: it does not sleep without a [`MayBlock`]. Reading, indexing and iteration are those of a slice.
pub struct KVec<T>(Vec<T>);

impl<T> KVec<T> {
    /// An empty array; allocates nothing.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// An empty array with room for exactly `capacity` elements.
    pub fn with_capacity(capacity: usize) -> Result<Self, AllocError> {
        let mut vec = Self::new();
        vec.0.try_reserve_exact(capacity).map_err(|_| AllocError)?;
        Ok(vec)
    }

    /// `len` elements, each made by `make(index)`.
    pub fn from_fn(len: usize, mut make: impl FnMut(usize) -> T) -> Result<Self, AllocError> {
        let mut vec = Self::with_capacity(len)?;
        for index in 0..len {
            vec.place(make(index));
        }
        Ok(vec)
    }

    /// `len` elements, each made by `make(index)`, stopping at the first failure.
    pub fn try_from_fn<E: From<AllocError>>(
        len: usize,
        mut make: impl FnMut(usize) -> Result<T, E>,
    ) -> Result<Self, E> {
        let mut vec = Self::with_capacity(len)?;
        for index in 0..len {
            vec.place(make(index)?);
        }
        Ok(vec)
    }

    /// An empty array with room for exactly `capacity` elements; waits for memory. **May block.**
    ///
    /// # Panics
    ///
    /// If the array is larger than the address space. So does each that waits.
    pub fn with_capacity_waiting(capacity: usize, may_block: &MayBlock) -> Self {
        let memory = mem::alloc_array_waiting::<T>(capacity, may_block);
        // SAFETY: from the global allocator, for an array of so many elements, of which none is initialised.
        Self(unsafe { Vec::from_raw_parts(memory.as_ptr(), 0, capacity) })
    }

    /// `len` elements, each made by `make(index)`; waits for memory. **May block.**
    pub fn from_fn_waiting(len: usize, may_block: &MayBlock, mut make: impl FnMut(usize) -> T) -> Self {
        let mut vec = Self::with_capacity_waiting(len, may_block);
        for index in 0..len {
            vec.place(make(index));
        }
        vec
    }

    /// Appends, growing if necessary; waits for memory. **May block.**
    pub fn push_waiting(&mut self, value: T, may_block: &MayBlock) {
        if self.0.len() == self.0.capacity() {
            let room = self.0.len().saturating_mul(2).max(FIRST_ROOM);
            let mut larger = Self::with_capacity_waiting(room, may_block);
            for value in core::mem::take(&mut self.0) {
                larger.place(value);
            }
            *self = larger;
        }
        self.place(value);
    }

    /// Makes room for `additional` more elements.
    pub fn reserve(&mut self, additional: usize) -> Result<(), AllocError> {
        self.0.try_reserve(additional).map_err(|_| AllocError)
    }

    /// Appends, growing if necessary. On failure the element is dropped.
    pub fn push(&mut self, value: T) -> Result<(), AllocError> {
        self.reserve(1)?;
        self.place(value);
        Ok(())
    }

    /// Appends without growing, or hands the element back.
    pub fn push_within_capacity(&mut self, value: T) -> Result<(), T> {
        if self.0.len() == self.0.capacity() {
            return Err(value);
        }
        self.place(value);
        Ok(())
    }

    /// Takes the last element.
    pub fn pop(&mut self) -> Option<T> {
        self.0.pop()
    }

    /// Takes element `index`, putting the last one in its place. `None` past the end.
    pub fn swap_remove(&mut self, index: usize) -> Option<T> {
        if index < self.0.len() { Some(self.0.swap_remove(index)) } else { None }
    }

    /// Drops every element, keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// How many elements fit without growing.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Appends to an array that has room: the callers above have made it.
    fn place(&mut self, value: T) {
        let len = self.0.len();
        if let Some(slot) = self.0.spare_capacity_mut().first_mut() {
            slot.write(value);
            // SAFETY: element `len` is inside the capacity and was initialised just now.
            unsafe { self.0.set_len(len + 1) };
        }
    }
}

impl<T: Copy> KVec<T> {
    /// A copy of `slice`.
    pub fn from_slice(slice: &[T]) -> Result<Self, AllocError> {
        let mut vec = Self::with_capacity(slice.len())?;
        for &value in slice {
            vec.place(value);
        }
        Ok(vec)
    }
}

impl<T> Default for KVec<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Deref for KVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for KVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T> IntoIterator for KVec<T> {
    type Item = T;
    type IntoIter = alloc::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a KVec<T> {
    type Item = &'a T;
    type IntoIter = core::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T: fmt::Debug> fmt::Debug for KVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::KVec;
    use crate::may_block::MayBlock;

    #[test]
    fn grows_on_push_and_not_within_capacity() {
        let mut vec = KVec::with_capacity(2).unwrap();
        assert_eq!(vec.push_within_capacity(1), Ok(()));
        assert_eq!(vec.push_within_capacity(2), Ok(()));
        assert_eq!(vec.push_within_capacity(3), Err(3));
        vec.push(3).unwrap();
        assert_eq!(&*vec, [1, 2, 3]);
    }

    #[test]
    fn an_array_that_waits_grows_and_frees_what_it_had() {
        let may_block = MayBlock::on_host();
        let mut vec = KVec::from_fn_waiting(3, &may_block, std::rc::Rc::new);
        for index in 3..100 {
            vec.push_waiting(std::rc::Rc::new(index), &may_block);
        }
        assert!(vec.iter().enumerate().all(|(index, value)| **value == index));
        assert_eq!(vec.len(), 100);
        let mut units = KVec::from_fn_waiting(5, &may_block, |_| ());
        units.push_waiting((), &may_block);
        assert_eq!(units.len(), 6);
    }

    #[test]
    fn absurd_capacity_is_refused() {
        assert!(KVec::<u64>::with_capacity(usize::MAX / 4).is_err());
    }
}
