//! The lab's InfiniBand Transport Framework: `misc/ibtl`, `misc/ibcm` and `misc/ibmf` as an illumos driver finds them, over
//! the software fabric, and the fabric with its subnet manager as the lab handles them.

mod convert;
mod dma;
mod ibcm;
mod ibtl;
pub mod nexus;
mod os;
mod ptr;
pub mod saa;
mod status;
mod tasks;
mod world;

pub use world::{Capture, FABRIC_HOST, InfiniBand, RemoveError};

use fakekernel::Kernel;

/// Adds `misc/ibtl`, `misc/ibcm` and `misc/ibmf` to a host. Before any module is loaded.
pub fn provide(kernel: &Kernel) {
    ibtl::provide(kernel);
    ibcm::provide(kernel);
    saa::provide(kernel);
}
