//! The functions of `unix` and `genunix`, and what one host's kernel knows: the top floor, which alone knows both others.

pub(crate) mod assert;
pub(crate) mod by_address;
pub(crate) mod calibrate;
pub(crate) mod callb;
pub(crate) mod callout;
pub mod genunix;
pub(crate) mod host;
pub(crate) mod interleave;
pub(crate) mod interrupt;
pub(crate) mod kthread_api;
pub(crate) mod linkage;
pub(crate) mod locks;
pub(crate) mod races;
pub(crate) mod sleep_mutex;
pub(crate) mod softintr;
pub(crate) mod sync;
pub(crate) mod system_taskq;
pub(crate) mod taskq;
