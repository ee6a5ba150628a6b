//! MAC-type plugins: the registry, and each operation as the framework calls it.

mod ops;
mod registry;

pub(crate) use ops::HeaderInfo;
pub(crate) use registry::{MacType, Registry, exports};
