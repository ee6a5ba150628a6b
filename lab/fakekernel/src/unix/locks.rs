//! The locks, condition variables and semaphores of one host, by address.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sim::{Class, HostGuard, HostMutex, WaitQueue};

use crate::loader::services::LiveObject;

/// Every lock and condition variable that modules of a host have initialised and not destroyed.
#[derive(Debug, Default)]
pub(crate) struct Locks(HostMutex<Tables>);

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
    /// Name of the thread that holds it.
    pub owner: Option<Arc<str>>,
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
    pub(crate) fn lock(&self) -> HostGuard<'_, Tables> {
        self.0.lock()
    }

    /// "0x1234 (from module`function+0x10)".
    pub(crate) fn describe(&self, addr: usize) -> String {
        match self.lock().objects.get(&addr) {
            Some(object) => format!("{addr:#x} ({})", object.words()),
            None => format!("{addr:#x}"),
        }
    }

    pub(crate) fn live_in(&self, start: usize, len: usize) -> Option<LiveObject> {
        let tables = self.lock();
        let range = tables.objects.range(start..start.saturating_add(len));
        let mut idle = None;
        for (addr, object) in range {
            let live = LiveObject { addr: *addr, what: object.words(), busy: object.is_busy() };
            if live.busy {
                return Some(live);
            }
            idle = idle.or(Some(live));
        }
        idle
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

impl Object {
    fn is_busy(&self) -> bool {
        match self {
            Self::Mutex(m) => m.owner.is_some() || !m.queue.is_empty(),
            Self::Cv(c) => c.waiters > 0,
            Self::Rw(r) => r.writer != 0 || !r.readers.is_empty(),
            Self::Sema(s) => !s.queue.is_empty(),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Mutex(m) => match &m.owner {
                Some(owner) => format!("mutex {}, held by {owner}", m.origin),
                None => format!("mutex {}", m.origin),
            },
            Self::Cv(c) => format!("condition variable {}, {} waiters", c.origin, c.waiters),
            Self::Rw(r) if r.writer != 0 => format!("rwlock {}, held by a writer", r.origin),
            Self::Rw(r) => format!("rwlock {}, {} readers", r.origin, r.readers.len()),
            Self::Sema(s) => format!("semaphore {}, {} waiters", s.origin, s.queue.len()),
        }
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
