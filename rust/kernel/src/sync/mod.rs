//! Locks, condition variables and one-time statics (`mutex(9F)`, `condvar(9F)`, `rwlock(9F)`).
//!
//! The kernel's locks must not move once initialised, while Rust moves values freely. So a lock and the value it
//! guards live together in one heap block that is initialised in place: a [`Mutex`] is the pointer to it and may be
//! moved at will. The block is a cache line of its own, so that two queues' locks never share one.
//!
//! All locks here are adaptive: **Any** context may take them, none above `LOCK_LEVEL`. Holding one while calling up
//! (`mac_rx`, `mac_tx_update`, `mac_link_update`, freeing a foreign message) is against GLDv3's rules; a guard is
//! not `Send`, so at least it cannot wander to another thread.

mod callback_slot;
mod monitor;
mod mutex;
mod once;
mod raw;

pub use callback_slot::CallbackSlot;
pub use monitor::{Monitor, MonitorGuard};
pub use mutex::{Mutex, MutexGuard};
pub use once::Once;
