//! The driver's small lock-free types, compiled from their own files with loom's atomics in the place of the processor's.
//!
//! loom runs a model once for each order of the atomic operations in it, and for each value that the C11 memory model lets a load
//! return. What the lab cannot see, because one of its threads runs at a time, is seen here: an order that is too weak.
//!
//! The files say `crate::atomic`, `crate::mem`, `crate::time` and `kernel`, which their own crates have and so has this one; nothing
//! else of them is changed.

#![allow(rustdoc::broken_intra_doc_links, reason = "the files name their own crates' items")]
#![allow(unused_extern_crates, reason = "the files are those of crates without std")]

extern crate alloc;
extern crate self as kernel;

#[allow(dead_code, reason = "each type has every method of its kind")]
mod atomic;
pub mod models;
mod time;

#[allow(dead_code, reason = "the driver uses more of it than the models do")]
#[path = "../../../rust/gldv3/src/admission.rs"]
mod admission;
#[allow(dead_code, reason = "as above")]
#[path = "../../../rust/kernel/src/arc.rs"]
mod arc;
#[allow(dead_code, reason = "as above")]
#[path = "../../../rust/kernel/src/boxed.rs"]
mod boxed;
#[allow(dead_code, reason = "as above")]
#[path = "../../../rust/kernel/src/sync/callback_slot.rs"]
mod callback_slot;
#[allow(dead_code, reason = "as above")]
#[path = "../../../rust/ibtf/src/lock_free_stack.rs"]
mod lock_free_stack;
#[allow(dead_code, reason = "as above")]
#[path = "../../../rust/kernel/src/may_block.rs"]
mod may_block;
#[allow(dead_code, reason = "as above")]
#[path = "../../../rust/kernel/src/mem.rs"]
mod mem;
#[allow(dead_code, reason = "as above")]
#[path = "../../../rust/kernel/src/sync/once.rs"]
mod once;
#[allow(dead_code, reason = "as above")]
#[path = "../../../rust/ibtf/src/stack.rs"]
mod stack;
#[allow(dead_code, reason = "as above")]
#[path = "../../../rust/ipoib/src/paths/validity.rs"]
mod validity;
#[allow(dead_code, reason = "as above")]
#[path = "../../../rust/kernel/src/vec.rs"]
mod vec;

pub use arc::KArc;
pub use boxed::KBox;
pub use mem::AllocError;
pub use vec::KVec;
