//! What modules have taken and not given back (rules 19 and 9).

use crate::halt::Frame;

/// The ledger of a host.
#[derive(Debug, Default)]
pub struct Resources {}

/// A line of the ledger.
#[derive(Clone, Debug)]
pub struct Resource {
    /// "kmem", "mutex", "thread", "timeout", "mac handle" ...
    pub kind: &'static str,
    /// Address or id; with `kind` the key of the line.
    pub key: u64,
    /// What it is, for the leak report.
    pub detail: String,
    /// Module that took it.
    pub module: String,
    /// Instance being attached when it was taken.
    pub instance: Option<u32>,
    /// Where.
    pub backtrace: Vec<Frame>,
}

impl Resources {
    /// Enters a line for the calling module (`cx()`), with its backtrace. Calls of lab code on its own behalf are not entered.
    pub fn add(&self, kind: &'static str, key: u64, detail: impl Into<String>) {
        let _ = (kind, key, detail.into());
        unimplemented!()
    }

    /// Strikes the line out; false if there is none.
    pub fn remove(&self, kind: &'static str, key: u64) -> bool {
        let _ = (kind, key);
        unimplemented!()
    }

    /// What a module holds (of one instance, if given), in the order taken.
    pub fn of(&self, module: &str, instance: Option<u32>) -> Vec<Resource> {
        let _ = (module, instance);
        unimplemented!()
    }
}

/// While it lives, what the thread's module calls take is entered for this instance (attach and detach).
#[derive(Debug)]
pub struct InstanceScope {
    _private: (),
}

impl InstanceScope {
    /// Begins the scope on the calling thread.
    pub fn new(instance: u32) -> Self {
        let _ = instance;
        unimplemented!()
    }
}
