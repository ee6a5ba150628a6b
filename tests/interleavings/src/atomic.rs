//! loom's atomics with constructors that are `const`, as those of the processor are: the driver has some of its types in statics.
//! Such an atomic becomes loom's when it is first used, which has to be before other threads can reach it.

use std::sync::OnceLock;

use loom::sync::atomic as loom_atomic;
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// An atomic that is loom's from its first use on.
macro_rules! atomic {
    ($name:ident $(<$generic:ident>)?, $inner:ty, $value:ty; $($method:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        #[derive(Debug)]
        pub struct $name$(<$generic>)? {
            initial: $value,
            inner: OnceLock<$inner>,
        }

        // SAFETY: the initial value is only handed to loom's atomic, which may be shared.
        unsafe impl$(<$generic>)? Send for $name$(<$generic>)? {}
        // SAFETY: as above.
        unsafe impl$(<$generic>)? Sync for $name$(<$generic>)? {}

        impl$(<$generic>)? $name$(<$generic>)? {
            pub const fn new(initial: $value) -> Self {
                Self { initial, inner: OnceLock::new() }
            }

            fn inner(&self) -> &$inner {
                self.inner.get_or_init(|| <$inner>::new(self.initial))
            }

            $(pub fn $method(&self, $($argument: $type),*) -> $result {
                self.inner().$method($($argument),*)
            })*
        }
    };
}

macro_rules! number {
    ($name:ident, $value:ty) => {
        atomic! {
            $name, loom_atomic::$name, $value;
            load(order: Ordering) -> $value;
            store(value: $value, order: Ordering) -> ();
            fetch_add(value: $value, order: Ordering) -> $value;
            fetch_sub(value: $value, order: Ordering) -> $value;
            fetch_and(value: $value, order: Ordering) -> $value;
            compare_exchange(old: $value, new: $value, done: Ordering, failed: Ordering) -> Result<$value, $value>;
            compare_exchange_weak(old: $value, new: $value, done: Ordering, failed: Ordering) -> Result<$value, $value>;
        }
    };
}

atomic! {
    AtomicBool, loom_atomic::AtomicBool, bool;
    load(order: Ordering) -> bool;
    store(value: bool, order: Ordering) -> ();
    swap(value: bool, order: Ordering) -> bool;
}

number!(AtomicU8, u8);
number!(AtomicUsize, usize);

atomic! {
    AtomicPtr<T>, loom_atomic::AtomicPtr<T>, *mut T;
    load(order: Ordering) -> *mut T;
    store(value: *mut T, order: Ordering) -> ();
    swap(value: *mut T, order: Ordering) -> *mut T;
    compare_exchange(old: *mut T, new: *mut T, done: Ordering, failed: Ordering) -> Result<*mut T, *mut T>;
    compare_exchange_weak(old: *mut T, new: *mut T, done: Ordering, failed: Ordering) -> Result<*mut T, *mut T>;
}
