//! Opaque pointers given to modules.
//!
//! A handle looks like a pointer and is none: its value is no canonical address, so a module that dereferences it faults.
//! It carries a generation, so one kept after its release is recognised, and the mark of its table, so one of another kind
//! is too.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sim::HostMutex;
use slab::Slab;

/// Bits 56 to 63 of every handle: with them set so, bit 63 differs from bit 47 and the processor refuses the address.
const NON_CANONICAL: u64 = 0x5a << 56;
const KIND_SHIFT: u32 = 48;
const GENERATION_SHIFT: u32 = 24;
const GENERATION_MASK: u32 = 0x00ff_ffff;
/// Entries are spaced like objects, so that a handle is aligned and small offsets from one are recognisable.
const INDEX_SHIFT: u32 = 4;
const INDEX_LIMIT: usize = 1 << (GENERATION_SHIFT - INDEX_SHIFT);

static NEXT_KIND: AtomicU32 = AtomicU32::new(1);

/// Why a pointer from a module is not a live handle of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandleError {
    /// It is NULL.
    #[error("{0} is NULL")]
    Null(&'static str),
    /// It was a handle of this table and has been released.
    #[error("{0} {1:#x} has been released")]
    Stale(&'static str, u64),
    /// It never was one.
    #[error("{0} {1:#x} was never given out")]
    Foreign(&'static str, u64),
}

/// A table of objects that a module knows by opaque pointers. Lookups clone the `Arc`, so no lock is held afterwards.
#[derive(Debug)]
pub struct Handles<T> {
    name: &'static str,
    kind: u8,
    entries: HostMutex<Table<T>>,
}

#[derive(Debug)]
struct Table<T> {
    slab: Slab<(u32, Arc<T>)>,
    /// Of the next entry put in; grows, so a reused slot never gives an old handle a new meaning.
    generation: u32,
}

impl<T> Handles<T> {
    /// A table for handles of the C type `name`.
    pub fn new(name: &'static str) -> Self {
        let kind = (NEXT_KIND.fetch_add(1, Ordering::Relaxed) % 255 + 1) as u8;
        Self { name, kind, entries: HostMutex::new(Table { slab: Slab::new(), generation: 1 }) }
    }

    /// Takes `value` in and returns the pointer for the module: never NULL, 16-byte aligned, never dereferencable.
    ///
    /// # Panics
    ///
    /// With a million live handles.
    pub fn insert(&self, value: T) -> *mut c_void {
        self.insert_arc(Arc::new(value))
    }

    /// As [`insert`](Self::insert) for a shared object.
    pub fn insert_arc(&self, value: Arc<T>) -> *mut c_void {
        let mut table = self.entries.lock();
        let generation = table.generation;
        table.generation = (generation + 1) & GENERATION_MASK;
        let index = table.slab.insert((generation, value));
        assert!(index < INDEX_LIMIT, "too many live {}", self.name);
        self.handle(generation, index)
    }

    /// The object behind a pointer from a module.
    pub fn get<P>(&self, handle: *const P) -> Result<Arc<T>, HandleError> {
        let (index, generation) = self.decode(handle.addr() as u64)?;
        match self.entries.lock().slab.get(index) {
            Some((live, value)) if *live == generation => Ok(value.clone()),
            _ => Err(HandleError::Stale(self.name, handle.addr() as u64)),
        }
    }

    /// Takes the object out; the pointer is stale from now on.
    pub fn remove<P>(&self, handle: *const P) -> Result<Arc<T>, HandleError> {
        let (index, generation) = self.decode(handle.addr() as u64)?;
        let mut table = self.entries.lock();
        match table.slab.get(index) {
            Some((live, _)) if *live == generation => Ok(table.slab.remove(index).1),
            _ => Err(HandleError::Stale(self.name, handle.addr() as u64)),
        }
    }

    /// Every live object, in order of its slot.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.entries.lock().slab.iter().map(|(_, (_, value))| value.clone()).collect()
    }

    /// Every live object with its handle, in order of its slot.
    pub fn with_handles(&self) -> Vec<(*mut c_void, Arc<T>)> {
        let table = self.entries.lock();
        table.slab.iter().map(|(index, (of, value))| (self.handle(*of, index), value.clone())).collect()
    }

    fn handle(&self, generation: u32, index: usize) -> *mut c_void {
        let raw = NON_CANONICAL
            | u64::from(self.kind) << KIND_SHIFT
            | u64::from(generation) << GENERATION_SHIFT
            | (index as u64) << INDEX_SHIFT;
        std::ptr::without_provenance_mut(raw as usize)
    }

    /// How many are live.
    pub fn len(&self) -> usize {
        self.entries.lock().slab.len()
    }

    /// Is none live?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn decode(&self, raw: u64) -> Result<(usize, u32), HandleError> {
        if raw == 0 {
            return Err(HandleError::Null(self.name));
        }
        let mine = NON_CANONICAL | u64::from(self.kind) << KIND_SHIFT;
        if raw & (0xffff << KIND_SHIFT) != mine || raw & ((1 << INDEX_SHIFT) - 1) != 0 {
            return Err(HandleError::Foreign(self.name, raw));
        }
        let index = (raw & ((1 << GENERATION_SHIFT) - 1)) >> INDEX_SHIFT;
        Ok((index as usize, (raw >> GENERATION_SHIFT) as u32 & GENERATION_MASK))
    }
}

#[cfg(test)]
mod tests {
    use super::{HandleError, Handles};

    #[test]
    fn a_released_handle_is_stale_even_when_its_slot_is_reused() {
        let table = Handles::new("mac_handle_t");
        let first = table.insert("a");
        assert_eq!(*table.get(first).unwrap(), "a");
        assert_eq!(*table.remove(first).unwrap(), "a");
        let second = table.insert("b");
        assert_ne!(first, second);
        assert_eq!(table.get(first), Err(HandleError::Stale("mac_handle_t", first.addr() as u64)));
        assert_eq!(*table.get(second).unwrap(), "b");
        assert_eq!(table.with_handles().iter().map(|(handle, _)| *handle).collect::<Vec<_>>(), [second]);
    }

    #[test]
    fn pointers_of_other_tables_are_foreign() {
        let (one, two) = (Handles::new("ibt_cq_hdl_t"), Handles::<u8>::new("ibt_pd_hdl_t"));
        let cq = one.insert(1);
        assert!(matches!(two.get(cq), Err(HandleError::Foreign(..)) | Err(HandleError::Stale(..))));
        assert!(matches!(one.get(&raw const cq), Err(HandleError::Foreign(..))));
        assert_eq!(one.get(std::ptr::null::<u8>()), Err(HandleError::Null("ibt_cq_hdl_t")));
    }
}
