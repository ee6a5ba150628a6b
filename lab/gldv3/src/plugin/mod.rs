//! MAC-type plugins: the registry, and each operation as the framework calls it.

mod examine;
mod ops;
mod registry;

pub use examine::{HeaderBlock, HeaderFacts, Plugin, PluginRecord};
pub(crate) use ops::HeaderInfo;
pub(crate) use registry::{MacType, Registry, exports};
