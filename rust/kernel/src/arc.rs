//! [`KArc`]: a shared value, with an allocation that can fail.

use crate::atomic::{AtomicUsize, Ordering, fence};
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

use crate::boxed::Vacant;
use crate::may_block::MayBlock;
use crate::mem::{self, AllocError};

/// A reference-counted pointer without weak references.
///
/// There is no weak count because a driver's objects form a tree: a child holds its parent (a channel its CQs, a
/// worker its inbox), never the other way round. Where a parent must reach a child that may go first, keep an
/// `Option` behind the parent's lock and take it out; a cycle of `KArc`s is a leak that the unload check will find.
///
/// **Any** context, except that the last drop runs `T`'s drop where it happens.
pub struct KArc<T: ?Sized> {
    inner: NonNull<Inner<T>>,
    owns: PhantomData<Inner<T>>,
}

#[repr(C)]
struct Inner<T: ?Sized> {
    strong: AtomicUsize,
    value: T,
}

// SAFETY: a KArc hands out `&T` on every thread that has one and drops `T` on whichever is last.
unsafe impl<T: ?Sized + Send + Sync> Send for KArc<T> {}
// SAFETY: as above; sharing a KArc is sharing `&T` and the means to clone it.
unsafe impl<T: ?Sized + Send + Sync> Sync for KArc<T> {}

impl<T> KArc<T> {
    /// Moves `value` to the heap with a count of one.
    pub fn new(value: T) -> Result<Self, AllocError> {
        let memory = mem::alloc_for::<Inner<T>>()?;
        // SAFETY: `memory` is valid for an `Inner<T>` and nobody else's.
        unsafe { memory.as_ptr().write(Inner { strong: AtomicUsize::new(1), value }) };
        Ok(Self { inner: memory, owns: PhantomData })
    }

    /// The same; waits for memory. **May block.**
    pub fn new_waiting(value: T, may_block: &MayBlock) -> Self {
        ArcRoom::new_waiting(may_block).fill(value)
    }

    /// The value, if this is the only reference; otherwise `self` again.
    pub fn try_unwrap(self) -> Result<T, Self> {
        if self.inner().strong.compare_exchange(1, 0, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return Err(self);
        }
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: the count was one and is now zero: nobody else can reach the block.
        let inner = unsafe { this.inner.as_ptr().read() };
        // SAFETY: the contents were moved out; the block came from `alloc_for::<Inner<T>>`.
        unsafe { mem::free_for(this.inner) };
        Ok(inner.value)
    }

    /// Lets go of this reference; the value, if it was the last one, when its memory is free already.
    pub fn into_inner(this: Self) -> Option<T> {
        let this = core::mem::ManuallyDrop::new(this);
        if this.inner().strong.fetch_sub(1, Ordering::Release) != 1 {
            return None;
        }
        // As in `drop`.
        fence(Ordering::Acquire);
        // SAFETY: the count reached zero, so this is the only access left.
        let inner = unsafe { this.inner.as_ptr().read() };
        // SAFETY: the contents were moved out; the block came from `alloc_for::<Inner<T>>`.
        unsafe { mem::free_for(this.inner) };
        Some(inner.value)
    }

    /// The value's address, for C to hold as a cookie; the count stays taken until [`KArc::from_raw`].
    pub fn into_raw(this: Self) -> NonNull<T> {
        let raw = Self::as_ptr(&this);
        core::mem::forget(this);
        raw
    }

    /// The value's address; keeps no count.
    pub fn as_ptr(this: &Self) -> NonNull<T> {
        // SAFETY: the block is alive. Taking a field's address this way keeps the provenance of the whole block, which
        // `from_raw` needs to get back to its start.
        let value = unsafe { &raw mut (*this.inner.as_ptr()).value };
        // SAFETY: a field of a live block is not at null.
        unsafe { NonNull::new_unchecked(value) }
    }

    /// Takes back the count given up by [`KArc::into_raw`].
    ///
    /// # Safety
    ///
    /// `raw` came from [`KArc::into_raw`] and that count has not been taken back yet.
    pub unsafe fn from_raw(raw: NonNull<T>) -> Self {
        let offset = core::mem::offset_of!(Inner<T>, value);
        // SAFETY: `raw` points at the `value` of an `Inner<T>`, `offset` bytes behind its start.
        let inner = unsafe { raw.cast::<u8>().sub(offset) };
        Self { inner: inner.cast(), owns: PhantomData }
    }
}

/// Memory for a value that is not there yet: filling it cannot fail.
pub struct ArcRoom<T>(Vacant<Inner<T>>);

impl<T> ArcRoom<T> {
    /// Memory for one value with its count.
    pub fn new() -> Result<Self, AllocError> {
        Vacant::new().map(Self)
    }

    /// The same; waits for memory. **May block.**
    pub fn new_waiting(may_block: &MayBlock) -> Self {
        Self(Vacant::new_waiting(may_block))
    }

    /// Moves `value` there, with a count of one.
    pub fn fill(self, value: T) -> KArc<T> {
        let inner = self.0.fill(Inner { strong: AtomicUsize::new(1), value }).into_raw();
        KArc { inner, owns: PhantomData }
    }
}

impl<T: ?Sized> KArc<T> {
    /// Whether this is the only reference at this moment.
    pub fn is_unique(this: &Self) -> bool {
        this.inner().strong.load(Ordering::Acquire) == 1
    }

    /// How many references there are at this moment.
    pub fn count(this: &Self) -> usize {
        this.inner().strong.load(Ordering::Acquire)
    }

    /// Whether both point at the same value.
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        core::ptr::addr_eq(this.inner.as_ptr(), other.inner.as_ptr())
    }

    fn inner(&self) -> &Inner<T> {
        // SAFETY: this reference's count keeps the block alive, and nobody has `&mut` to it.
        unsafe { self.inner.as_ref() }
    }
}

impl<T: ?Sized> Clone for KArc<T> {
    fn clone(&self) -> Self {
        // The new reference is made from an existing one, so nothing has to be ordered before it. The count does not
        // overflow even if clones are made and forgotten in a loop: 2^64 of them, one a nanosecond, take 584 years.
        self.inner().strong.fetch_add(1, Ordering::Relaxed);
        Self { inner: self.inner, owns: PhantomData }
    }
}

impl<T: ?Sized> Drop for KArc<T> {
    fn drop(&mut self) {
        if self.inner().strong.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // Everything other holders did to the value happens before it is dropped.
        fence(Ordering::Acquire);
        // SAFETY: the count reached zero, so this is the only access left.
        let layout = core::alloc::Layout::for_value(unsafe { self.inner.as_ref() });
        // SAFETY: as above; the value is dropped once.
        unsafe { core::ptr::drop_in_place(self.inner.as_ptr()) };
        // SAFETY: the block was allocated with this layout; `Inner` is never zero-sized.
        unsafe { alloc::alloc::dealloc(self.inner.as_ptr().cast(), layout) };
    }
}

impl<T: ?Sized> Deref for KArc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner().value
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for KArc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::KArc;
    use core::sync::atomic::{AtomicUsize, Ordering};

    struct Count<'a>(&'a AtomicUsize);

    impl Drop for Count<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn value_is_dropped_once_by_the_last_reference() {
        let drops = AtomicUsize::new(0);
        let first = KArc::new(Count(&drops)).unwrap();
        let second = first.clone();
        assert!(!KArc::is_unique(&first));
        drop(first);
        assert_eq!(drops.load(Ordering::Relaxed), 0);
        drop(second);
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn raw_cookie_keeps_its_count() {
        let first = KArc::new(7u64).unwrap();
        let raw = KArc::into_raw(first.clone());
        assert_eq!(KArc::count(&first), 2);
        // SAFETY: `raw` is from the into_raw above.
        let again = unsafe { KArc::from_raw(raw) };
        assert_eq!((*again, KArc::count(&first)), (7, 2));
    }

    #[test]
    fn only_a_sole_owner_gets_the_value_back() {
        let first = KArc::new(5u32).unwrap();
        let second = first.clone();
        let first = first.try_unwrap().unwrap_err();
        drop(second);
        assert_eq!(first.try_unwrap().unwrap(), 5);
    }
}
