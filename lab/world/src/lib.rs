//! A fabric and its hosts, and the one life of a host: its adapter, the modules, the driver's instance, the link, and all of it back to
//! a kernel with nothing left in it. Runs of scenarios, labs that stay up, the bench and the conformance tests have their hosts from
//! here.
//!
//! It knows no scenario, report, command or test, and no IP: who uses a host opens its link and puts on it what it likes.

#![forbid(unsafe_code)]

mod driver;
mod host;
mod life;
mod plan;
mod software;
mod world;

pub use driver::{Driver, shipped_conf};
pub use host::Host;
pub use plan::Plan;
pub use software::{Software, SoftwarePlan};
pub use world::{World, provide};

/// The link of `ibp`'s first port, which partitions are made on.
pub const PORT_LINK: &str = "ibp0";
