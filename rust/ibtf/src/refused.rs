//! Objects that an adapter's driver, or IBTF, refuses to free. Nothing can be done about one, and there is no second chance: what the adapter may still use
//! stays allocated, and the module with it where a handler of the module's could still be called. Each is counted and told once a second.

use core::fmt;

use kernel::counter::Counter;
use kernel::log;
use kernel::log::Source;

use crate::status::Status;

static COUNT: Counter = Counter::new();

/// How often a free was refused since the module was loaded.
pub fn refused_frees() -> u64 {
    COUNT.get()
}

/// As whom it is told: there is no link that the object is sure to belong to.
struct Adapter;

impl Source for Adapter {}

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IBTF")
    }
}

/// Passes a result on, and tells of a refusal.
#[inline(never)]
pub(crate) fn told(what: &str, freed: Result<(), Status>) -> Result<(), Status> {
    if let Err(status) = freed {
        COUNT.increment();
        log!(warn, Adapter, "a {what} could not be freed, and stays: {status}");
    }
    freed
}
