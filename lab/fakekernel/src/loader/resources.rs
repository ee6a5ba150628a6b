//! What modules have taken and not given back (rules 19 and 9).

use std::collections::BTreeMap;
use std::fmt;

use sim::{Frame, HostMutex, Machine, Rule, Thread};

use crate::loader::backtrace::frame;
use crate::loader::cx::{Cx, cx};

/// The ledger of a host.
pub struct Resources {
    machine: Machine,
    entries: HostMutex<BTreeMap<(&'static str, u64), Entry>>,
}

struct Entry {
    order: u64,
    detail: String,
    module: String,
    instance: Option<u32>,
    pcs: Vec<usize>,
    rule: Rule,
}

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
    /// What leaving it behind breaks: rule 19, or one of its own.
    pub rule: Rule,
}

impl Resources {
    pub(crate) fn new(machine: &Machine) -> Self {
        Self { machine: machine.clone(), entries: HostMutex::default() }
    }

    /// Enters a line for the calling module (`cx()`), with its backtrace. Calls of lab code on its own behalf are not entered.
    pub fn add(&self, kind: &'static str, key: u64, detail: impl Into<String>) {
        self.add_for(&cx(), kind, key, detail);
    }

    /// As [`add`](Self::add) for a call taken earlier.
    pub fn add_for(&self, cx: &Cx, kind: &'static str, key: u64, detail: impl Into<String>) {
        self.add_under(Rule::Leak, cx, kind, key, detail);
    }

    /// As [`add_for`](Self::add_for) for what has a rule of its own against being left behind.
    pub fn add_under(&self, rule: Rule, cx: &Cx, kind: &'static str, key: u64, detail: impl Into<String>) {
        if cx.module_name().is_empty() || !self.machine.config().checks {
            return;
        }
        let entry = Entry {
            order: self.machine.0.next_order(),
            detail: detail.into(),
            module: cx.module_name().to_owned(),
            instance: cx.thread().0.local().instance,
            pcs: cx.pcs(),
            rule,
        };
        self.entries.lock().insert((kind, key), entry);
    }

    /// Strikes the line out; false if there is none. A machine without checks keeps no books: every line is in them.
    pub fn remove(&self, kind: &'static str, key: u64) -> bool {
        if !self.machine.config().checks {
            return true;
        }
        self.entries.lock().remove(&(kind, key)).is_some()
    }

    /// What a module holds (of one instance, if given), in the order taken.
    pub fn of(&self, module: &str, instance: Option<u32>) -> Vec<Resource> {
        let entries = self.entries.lock();
        let mine = entries
            .iter()
            .filter(|(_, e)| e.module == module && (instance.is_none() || e.instance == instance));
        let mut found: Vec<(u64, (&'static str, u64), &Entry)> =
            mine.map(|(k, e)| (e.order, *k, e)).collect();
        found.sort_by_key(|(order, ..)| *order);
        found
            .into_iter()
            .map(|(_, (kind, key), e)| Resource {
                kind,
                key,
                detail: e.detail.clone(),
                module: e.module.clone(),
                instance: e.instance,
                rule: e.rule,
                backtrace: e.pcs.iter().map(|pc| frame(&self.machine, *pc)).collect(),
            })
            .collect()
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resources({})", self.entries.lock().len())
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:#x}", self.kind, self.key)?;
        if !self.detail.is_empty() {
            write!(f, " ({})", self.detail)?;
        }
        let frames: Vec<String> = self.backtrace.iter().take(4).map(ToString::to_string).collect();
        write!(f, " from {}", frames.join(" < "))
    }
}

/// While it lives, what the thread's module calls take is entered for this instance (attach and detach).
#[derive(Debug)]
pub struct InstanceScope {
    before: Option<u32>,
}

impl InstanceScope {
    /// Begins the scope on the calling thread.
    ///
    /// # Panics
    ///
    /// Outside a machine.
    pub fn new(instance: u32) -> Self {
        Self { before: Thread::current().0.local().instance.replace(instance) }
    }
}

impl Drop for InstanceScope {
    fn drop(&mut self) {
        if let Some(thread) = Thread::try_current() {
            thread.0.local().instance = self.before;
        }
    }
}
