//! What a machine asks of the hosts that run on it: it has threads, a clock and a seed, and knows hosts by this alone.

use std::any::Any;
use std::panic::RefUnwindSafe;

use crate::halt::ThreadDump;
use crate::thread::ThreadInner;

/// What a thread works on, to be told apart by the hosts.
pub type Work = Box<dyn Any + Send>;

/// The hosts of one machine. None of these is a scheduling point.
pub trait Hosts: Any + Send + Sync + RefUnwindSafe {
    /// The calling operating-system thread begins to carry threads of the machine. What this gives is dropped there when it ends.
    fn carrier_begins(&self) -> Box<dyn Any>;

    /// What a thread works on that serves no host.
    fn no_work(&self) -> Work;

    /// What a thread is doing.
    fn describe(&self, thread: &ThreadInner) -> ThreadDump;

    /// Drops what they hold, at the end of the run, which breaks the circles between hosts, modules and threads. With threads left
    /// behind inside modules, what those may still touch stays for good.
    fn take_apart(&self, left_behind: bool);
}
