//! The locks, condition variables and semaphores of one host, by address.

use std::collections::BTreeSet;
use std::sync::Arc;

use sim::{Class, HostGuard, HostMutex, Machine, WaitQueue};

use crate::loader::services::LiveObject;
use crate::unix::by_address::ByAddress;
use crate::unix::sync;

/// Every lock and condition variable that modules of a host have initialised and not destroyed.
#[derive(Debug)]
pub(crate) struct Locks {
    machine: Machine,
    tables: HostMutex<Tables>,
}

#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub objects: ByAddress<Object>,
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
        let seen = self.lock().objects.get(addr).map(|object| object.seen(addr));
        match seen {
            Some(seen) => format!("{addr:#x} ({})", self.words(seen)),
            None => format!("{addr:#x}"),
        }
    }

    pub(crate) fn live_in(&self, start: usize, len: usize) -> Option<LiveObject> {
        let (addr, seen) = {
            let tables = self.lock();
            // Nearly always asked about a stack, which lies above everything that has locks.
            tables.objects.last().filter(|last| *last >= start)?;
            let all = tables.objects.within(start..start.saturating_add(len));
            let mut seen = all.filter_map(|addr| Some((addr, tables.objects.get(addr)?.seen(addr))));
            let first = seen.next()?;
            if first.1.busy { first } else { seen.find(|(_, seen)| seen.busy).unwrap_or(first) }
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
        self.lock().forget_dead_cvs(start, start.saturating_add(len));
    }

    /// The memory is released: whatever was in it is gone.
    pub(crate) fn forget_range(&self, start: usize, len: usize) -> Vec<usize> {
        let mut tables = self.lock();
        let end = start.saturating_add(len);
        let gone: Vec<usize> = tables.objects.within(start..end).collect();
        for addr in &gone {
            tables.objects.remove(*addr);
        }
        tables.forget_dead_cvs(start, end);
        gone
    }
}

impl Tables {
    fn forget_dead_cvs(&mut self, start: usize, end: usize) {
        while let Some(cv) = self.dead_cvs.range(start..end).next().copied() {
            self.dead_cvs.remove(&cv);
        }
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
