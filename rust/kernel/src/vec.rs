//! [`KVec`]: a growable array, with an allocation that can fail.

use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};

use crate::mem::AllocError;

/// A `Vec` that never grows without telling.
///
/// **Any** context (never sleeps). Reading, indexing and iteration are those of a slice.
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
    fn absurd_capacity_is_refused() {
        assert!(KVec::<u64>::with_capacity(usize::MAX / 4).is_err());
    }
}
