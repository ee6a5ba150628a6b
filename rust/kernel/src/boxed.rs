//! [`KBox`]: one heap value, with an allocation that can fail.

use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use crate::may_block::MayBlock;
use crate::mem::{self, AllocError};

/// A `Box` whose construction reports failure instead of aborting, and whose value C may have a pointer to: unlike a `Box`, it may be
/// moved without that pointer losing its validity.
///
/// **Any** context for creation, which does not sleep without a [`MayBlock`], and for drop (as far as `T`'s own drop allows).
///
/// # Invariants
///
/// The pointer came from [`Box::into_raw`], and the value is this one's.
pub struct KBox<T: ?Sized>(NonNull<T>, PhantomData<T>);

// SAFETY: whoever has the box has the value, and nobody else has.
unsafe impl<T: ?Sized + Send> Send for KBox<T> {}
// SAFETY: a shared box gives out shared references only.
unsafe impl<T: ?Sized + Sync> Sync for KBox<T> {}

impl<T> KBox<T> {
    /// Moves `value` to the heap. On failure `value` is dropped; see [`KBox::try_new`] to keep it.
    pub fn new(value: T) -> Result<Self, AllocError> {
        Self::try_new(value).map_err(|(_, error)| error)
    }

    /// Moves `value` to the heap, or hands it back.
    pub fn try_new(value: T) -> Result<Self, (T, AllocError)> {
        match Vacant::new() {
            Ok(vacant) => Ok(vacant.fill(value)),
            Err(error) => Err((value, error)),
        }
    }

    /// Moves `value` to the heap; waits for memory. **May block.**
    pub fn new_waiting(value: T, may_block: &MayBlock) -> Self {
        Vacant::new_waiting(may_block).fill(value)
    }

    /// Takes the value out and frees the block.
    pub fn into_inner(self) -> T {
        *self.into_box()
    }

    /// Takes the value out, and the room that it leaves: another one goes in without memory.
    pub fn take_out(self) -> (T, Vacant<T>) {
        let memory = ManuallyDrop::new(self).0;
        // SAFETY: the box owned the value; from here on the room does not count as filled.
        let value = unsafe { memory.as_ptr().read() };
        (value, Vacant(memory))
    }
}

/// Room for a [`KBox`], to be sure of it before making a value that cannot easily be unmade.
pub struct Vacant<T>(NonNull<T>);

// SAFETY: memory without a value.
unsafe impl<T> Send for Vacant<T> {}

impl<T> Vacant<T> {
    /// Allocates the room. **Any** context.
    pub fn new() -> Result<Self, AllocError> {
        mem::alloc_for::<T>().map(Self)
    }

    /// The same; waits for memory. **May block.**
    pub fn new_waiting(may_block: &MayBlock) -> Self {
        Self(mem::alloc_for_waiting::<T>(may_block))
    }

    /// Moves `value` in.
    pub fn fill(self, value: T) -> KBox<T> {
        let memory = ManuallyDrop::new(self).0;
        // SAFETY: the room is valid for a `T` and nobody else's.
        unsafe { memory.as_ptr().write(value) };
        // The block came from the global allocator with `T`'s layout, as that of a box, and holds a `T`.
        KBox(memory, PhantomData)
    }
}

impl<T> Drop for Vacant<T> {
    fn drop(&mut self) {
        // SAFETY: allocated by `alloc_for` and never filled.
        unsafe { mem::free_for(self.0) };
    }
}

impl<T: ?Sized> KBox<T> {
    /// Changes the type behind the box, for trait objects: `boxed.map_unsized(|b| b as Box<dyn Trait>)`.
    ///
    /// `CoerceUnsized` is not stable, so the coercion happens on the plain `Box` inside.
    pub fn map_unsized<U: ?Sized>(self, coerce: impl FnOnce(Box<T>) -> Box<U>) -> KBox<U> {
        KBox::from_box(coerce(self.into_box()))
    }

    /// Gives up ownership; [`KBox::from_raw`] takes it back.
    pub fn into_raw(self) -> NonNull<T> {
        ManuallyDrop::new(self).0
    }

    /// Takes ownership back.
    ///
    /// # Safety
    ///
    /// `raw` came from [`KBox::into_raw`] and is given back once.
    pub unsafe fn from_raw(raw: NonNull<T>) -> Self {
        Self(raw, PhantomData)
    }

    fn into_box(self) -> Box<T> {
        // SAFETY: the invariants.
        unsafe { Box::from_raw(self.into_raw().as_ptr()) }
    }

    fn from_box(boxed: Box<T>) -> Self {
        // SAFETY: a box is never null.
        Self(unsafe { NonNull::new_unchecked(Box::into_raw(boxed)) }, PhantomData)
    }
}

impl<T: ?Sized> Drop for KBox<T> {
    fn drop(&mut self) {
        // SAFETY: the invariants; the pointer is not used any more.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl<T: ?Sized> Deref for KBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the value is this box's, which is borrowed as long as the reference lives.
        unsafe { self.0.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for KBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the value is this box's, which is borrowed as long as the reference lives.
        unsafe { self.0.as_mut() }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for KBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
