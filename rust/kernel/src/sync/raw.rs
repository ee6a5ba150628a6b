//! The block a lock and its value live in.

use core::cell::UnsafeCell;
use core::ptr::{self, NonNull};

use illumos_sys_hdrs as sys;

use crate::boxed::{KBox, Vacant};
use crate::mem::AllocError;

/// A lock, a condition variable and what they guard.
///
/// # Invariants
///
/// From `new` to `drop` the block does not move and `lock` and `cv` are initialised. `value` is touched only by the
/// thread that holds `lock`, or by whoever owns the block exclusively.
#[repr(C, align(64))]
pub(crate) struct Block<T> {
    lock: UnsafeCell<sys::kmutex_t>,
    cv: UnsafeCell<sys::kcondvar_t>,
    value: UnsafeCell<T>,
}

pub(crate) struct RawLock<T>(NonNull<Block<T>>);

// SAFETY: the value is reached by one thread at a time, whoever holds the lock, so `T: Send` is enough.
unsafe impl<T: Send> Send for RawLock<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for RawLock<T> {}

impl<T> RawLock<T> {
    pub(crate) fn new(value: T) -> Result<Self, AllocError> {
        Ok(Self::fill(Vacant::new()?, value))
    }

    /// As [`RawLock::new`], where there is room already.
    pub(crate) fn fill(room: Vacant<Block<T>>, value: T) -> Self {
        let block = room.fill(Block {
            lock: UnsafeCell::default(),
            cv: UnsafeCell::default(),
            value: UnsafeCell::new(value),
        });
        let this = Self(block.into_raw());
        // SAFETY: the lock is at its final address, zeroed, and nobody else knows it; no cookie makes it adaptive.
        unsafe { sys::mutex_init(this.lock_ptr(), ptr::null_mut(), sys::MUTEX_DRIVER, ptr::null_mut()) };
        // SAFETY: as above.
        unsafe { sys::cv_init(this.cv_ptr(), ptr::null_mut(), sys::CV_DRIVER, ptr::null_mut()) };
        this
    }

    pub(crate) fn lock_ptr(&self) -> *mut sys::kmutex_t {
        self.block().lock.get()
    }

    pub(crate) fn cv_ptr(&self) -> *mut sys::kcondvar_t {
        self.block().cv.get()
    }

    pub(crate) fn value_ptr(&self) -> *mut T {
        self.block().value.get()
    }

    pub(crate) fn enter(&self) {
        // SAFETY: the lock is initialised (invariant) and this thread does not hold it, or the kernel panics.
        unsafe { sys::mutex_enter(self.lock_ptr()) };
    }

    pub(crate) fn try_enter(&self) -> bool {
        // SAFETY: the lock is initialised.
        unsafe { sys::mutex_tryenter(self.lock_ptr()) != 0 }
    }

    /// # Safety
    ///
    /// This thread holds the lock, and no reference to the value survives the call.
    pub(crate) unsafe fn exit(&self) {
        // SAFETY: by this function's contract the caller is the owner.
        unsafe { sys::mutex_exit(self.lock_ptr()) };
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        // SAFETY: `&mut self` proves that no guard exists.
        unsafe { &mut *self.value_ptr() }
    }

    pub(crate) fn into_inner(self) -> T {
        self.destroy_locks();
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: the block came from `KBox::into_raw`, and `this` is not dropped.
        let block = unsafe { KBox::from_raw(this.0) };
        block.into_inner().value.into_inner()
    }

    fn destroy_locks(&self) {
        // SAFETY: called once, by the exclusive owner: nobody waits.
        unsafe { sys::cv_destroy(self.cv_ptr()) };
        // SAFETY: as above: nobody holds the lock.
        unsafe { sys::mutex_destroy(self.lock_ptr()) };
    }

    fn block(&self) -> &Block<T> {
        // SAFETY: the block lives as long as `self` (invariant).
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for RawLock<T> {
    fn drop(&mut self) {
        self.destroy_locks();
        // SAFETY: the block came from `KBox::into_raw` and this is its only owner.
        drop(unsafe { KBox::from_raw(self.0) });
    }
}
