//! The locks, condition variables and semaphores of one host, by address.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sim::{Class, HostGuard, HostMutex, Machine, WaitQueue};

use crate::loader::services::LiveObject;
use crate::unix::sync;

/// Every lock and condition variable that modules of a host have initialised and not destroyed.
#[derive(Debug)]
pub(crate) struct Locks {
    machine: Machine,
    tables: HostMutex<Tables>,
}

#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub objects: BTreeMap<usize, Object>,
    /// Condition variables destroyed in memory that was not released since: their word does not tell.
    pub dead_cvs: BTreeSet<usize>,
}

#[derive(Debug)]
pub(crate) enum Object {
    Mutex(MutexObject),
    Cv(CvObject),
    Rw(RwObject),
    Sema(SemaObject),
}

#[derive(Debug)]
pub(crate) struct MutexObject {
    pub class: Class,
    /// Where it was initialised, in words.
    pub origin: String,
    /// PIL of a spin mutex, 0 for an adaptive one.
    pub pil: u8,
    pub queue: Arc<WaitQueue>,
}

#[derive(Debug)]
pub(crate) struct CvObject {
    pub origin: String,
    pub waiters: u16,
    /// The mutex the present waiters gave.
    pub mutex: usize,
    pub queue: Arc<WaitQueue>,
}

#[derive(Debug)]
pub(crate) struct RwObject {
    pub class: Class,
    pub origin: String,
    /// `kthread_t *` of the writer, 0 if none.
    pub writer: usize,
    pub readers: Vec<usize>,
    pub waiting_writers: u32,
    pub queue: Arc<WaitQueue>,
}

#[derive(Debug)]
pub(crate) struct SemaObject {
    pub origin: String,
    /// Units nobody has taken.
    pub count: u32,
    pub queue: Arc<WaitQueue>,
}

impl Locks {
    pub(crate) fn new(machine: &Machine) -> Self {
        Self { machine: machine.clone(), tables: HostMutex::default() }
    }

    pub(crate) fn lock(&self) -> HostGuard<'_, Tables> {
        self.tables.lock()
    }

    /// "0x1234 (from module`function+0x10)".
    pub(crate) fn describe(&self, addr: usize) -> String {
        let seen = self.lock().objects.get(&addr).map(|object| object.seen(addr));
        match seen {
            Some(seen) => format!("{addr:#x} ({})", self.words(seen)),
            None => format!("{addr:#x}"),
        }
    }

    pub(crate) fn live_in(&self, start: usize, len: usize) -> Option<LiveObject> {
        let (addr, seen) = {
            let tables = self.lock();
            // Nearly always asked about a stack, which lies above everything that has locks.
            tables.objects.last_key_value().filter(|(last, _)| **last >= start)?;
            let mut all = tables.objects.range(start..start.saturating_add(len));
            let first = all.clone().next()?;
            let (addr, object) = all.find(|(addr, object)| object.seen(**addr).busy).unwrap_or(first);
            (*addr, object.seen(*addr))
        };
        Some(LiveObject { addr, busy: seen.busy, what: self.words(seen) })
    }

    fn words(&self, seen: Seen) -> String {
        match seen.owner {
            Some(owner) => match self.machine.0.name_of(owner) {
                Some(name) => format!("{}, held by {name}", seen.words),
                None => format!("{}, held by a thread that has ended", seen.words),
            },
            None => seen.words,
        }
    }

    /// Zeroed memory in this range is to be used as new condition variables.
    pub(crate) fn revive_cvs(&self, start: usize, len: usize) {
        self.lock().dead_cvs.retain(|cv| !(start..start.saturating_add(len)).contains(cv));
    }

    /// The memory is released: whatever was in it is gone.
    pub(crate) fn forget_range(&self, start: usize, len: usize) -> Vec<usize> {
        let mut tables = self.lock();
        let end = start.saturating_add(len);
        let gone: Vec<usize> = tables.objects.range(start..end).map(|(addr, _)| *addr).collect();
        for addr in &gone {
            tables.objects.remove(addr);
        }
        tables.dead_cvs.retain(|cv| !(start..end).contains(cv));
        gone
    }
}

/// What an object looks like now.
struct Seen {
    /// Somebody holds it or waits for it.
    busy: bool,
    words: String,
    /// `kthread_t *` of a mutex's holder.
    owner: Option<usize>,
}

impl Object {
    fn seen(&self, addr: usize) -> Seen {
        let (busy, words) = match self {
            Self::Mutex(m) => {
                let owner = sync::mutex_owner(addr);
                let busy = owner.is_some() || !m.queue.is_empty();
                return Seen { busy, words: format!("mutex {}", m.origin), owner };
            }
            Self::Cv(c) => (c.waiters > 0, format!("condition variable {}, {} waiters", c.origin, c.waiters)),
            Self::Rw(r) if r.writer != 0 => (true, format!("rwlock {}, held by a writer", r.origin)),
            Self::Rw(r) => {
                (!r.readers.is_empty(), format!("rwlock {}, {} readers", r.origin, r.readers.len()))
            }
            Self::Sema(s) => {
                (!s.queue.is_empty(), format!("semaphore {}, {} waiters", s.origin, s.queue.len()))
            }
        };
        Seen { busy, words, owner: None }
    }

    pub(crate) fn mutex(&mut self) -> Option<&mut MutexObject> {
        if let Self::Mutex(m) = self { Some(m) } else { None }
    }

    pub(crate) fn cv(&mut self) -> Option<&mut CvObject> {
        if let Self::Cv(c) = self { Some(c) } else { None }
    }

    pub(crate) fn sema(&mut self) -> Option<&mut SemaObject> {
        if let Self::Sema(s) = self { Some(s) } else { None }
    }

    pub(crate) fn rw(&mut self) -> Option<&mut RwObject> {
        if let Self::Rw(r) = self { Some(r) } else { None }
    }
}
