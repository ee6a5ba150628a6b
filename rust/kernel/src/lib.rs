//! Safe wrappers over `unix` and `genunix`, the two modules that every kernel module may call.
//!
//! A driver written against this crate contains no `unsafe`: each contract of the C interface is either kept by a
//! type or checked here. What is left to the caller is *context*, which no type can see, and every item says it in
//! one of these words:
//!
//! * **Any** - user thread, kernel thread, soft interrupt or interrupt thread up to `LOCK_LEVEL` (PIL 10).
//! * **May block** - user or kernel thread only: never from an interrupt, a timeout handler, a CQ handler or a
//!   buffer's free routine.
//!
//! Nothing here calls back into the caller while holding one of the caller's locks, and nothing here allocates
//! without giving the caller the refusal: [`KBox`], [`KArc`] and [`KVec`] replace the `alloc` types that abort. A caller that has a
//! [`MayBlock`] can wait for memory instead (`..._waiting`), and gets no refusal.
//!
//! On a host (`target_os` other than `none`) the crate compiles and its pure parts can be tested; whatever calls the
//! kernel does not link there, and neither the allocator, the panic handler nor a module's entry points exist.

#![cfg_attr(not(test), no_std)]

extern crate alloc;

/// The processor's. Files that `tests/interleavings` compiles once more, with loom's, take them from here.
mod atomic {
    pub(crate) use core::sync::atomic::*;
}

mod arc;
mod boxed;
pub mod counter;
pub mod ddi;
pub mod dump;
mod errno;
pub mod fm;
pub mod kstat;
pub mod list;
pub mod log;
mod may_block;
pub mod mblk;
mod mem;
pub mod module;
mod pages;
#[cfg(target_os = "none")]
mod panic;
mod probe;
pub mod random;
pub mod softint;
pub mod sync;
pub mod taskq;
pub mod thread;
pub mod time;
pub mod user;
mod vec;

pub use arc::{ArcRoom, KArc};
pub use boxed::{KBox, Vacant};
pub use errno::Errno;
pub use may_block::MayBlock;
pub use mem::{AllocError, kernel_base};
pub use pages::Pages;
pub use vec::KVec;

/// The raw interface, for the border crates (`gldv3`, `ibtf`) and this crate's macros; not for drivers.
#[doc(hidden)]
pub use illumos_sys_hdrs as sys;
