//! Memory regions and the key check in front of every access.

use crate::{Error, Pd, Sge};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lab_lock::Mutex;
/// What a region may be used for besides local reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The HCA may write: needed for receive buffers.
    pub local_write: bool,
    /// Remote reads (yields an rkey; no transport of this fabric uses it).
    pub remote_read: bool,
    /// Remote writes; asks for `local_write`.
    pub remote_write: bool,
    /// Remote atomics; asks for `local_write`.
    pub remote_atomic: bool,
}

/// A registered memory region. Clones name the same one.
#[derive(Clone)]
pub struct Mr(pub(crate) Arc<MrInner>);

pub(crate) struct MrInner {
    pub(crate) key: u32,
    pub(crate) base: u64,
    pub(crate) len: u64,
    pub(crate) access: Access,
    pub(crate) pd: Pd,
    /// Accesses under way: deregistration waits for them.
    pins: AtomicU32,
}

impl Mr {
    /// Local key, as SGL entries carry it.
    #[must_use]
    pub fn lkey(&self) -> u32 {
        self.0.key
    }

    /// First address.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.0.base
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len
    }

    /// Never: a region has at least one byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Access it was registered with.
    #[must_use]
    pub fn access(&self) -> Access {
        self.0.access
    }
}

/// Keeps a region from going away while its bytes are copied.
pub(crate) struct Pin(Option<Arc<MrInner>>);

impl Drop for Pin {
    fn drop(&mut self) {
        if let Some(mr) = &self.0 {
            mr.pins.fetch_sub(1, Ordering::Release);
        }
    }
}

#[derive(Default)]
struct Regions {
    by_key: BTreeMap<u32, Arc<MrInner>>,
    next: u32,
}

/// The regions of one HCA.
#[derive(Default)]
pub(crate) struct Memory(Mutex<Regions>);

/// Keys advance by this much so that a stale or mistyped key rarely hits another region.
const KEY_STRIDE: u32 = 0x101;

impl Memory {
    pub(crate) fn register(
        &self,
        pd: &Pd,
        base: u64,
        len: u64,
        access: Access,
        max: u32,
    ) -> Result<Mr, Error> {
        let mut regions = self.0.lock();
        if regions.by_key.len() >= max as usize {
            return Err(Error::InsuffResource);
        }
        pd.hold()?;
        loop {
            regions.next = regions.next.wrapping_add(KEY_STRIDE);
            if regions.next > 0x1_0000 && !regions.by_key.contains_key(&regions.next) {
                break;
            }
        }
        let key = regions.next;
        let mr = Arc::new(MrInner { key, base, len, access, pd: pd.clone(), pins: AtomicU32::new(0) });
        regions.by_key.insert(key, mr.clone());
        Ok(Mr(mr))
    }

    pub(crate) fn deregister(&self, mr: &Mr) -> Result<(), Error> {
        let removed = {
            let mut regions = self.0.lock();
            match regions.by_key.get(&mr.0.key) {
                Some(known) if Arc::ptr_eq(known, &mr.0) => regions.by_key.remove(&mr.0.key),
                _ => None,
            }
        };
        let removed = removed.ok_or(Error::MrHdlInvalid)?;
        // No new access can find it; those under way are a copy of at most one MTU.
        while removed.pins.load(Ordering::Acquire) != 0 {
            std::thread::yield_now();
        }
        removed.pd.release();
        Ok(())
    }

    /// The check of one SGL entry: key known, same protection domain, range inside, right to write if `write`.
    pub(crate) fn pin(&self, sge: &Sge, pd: &Pd, write: bool, reserved: Option<u32>) -> Option<Pin> {
        if reserved == Some(sge.lkey) {
            return Some(Pin(None));
        }
        let regions = self.0.lock();
        let mr = regions.by_key.get(&sge.lkey)?;
        let end = sge.va.checked_add(u64::from(sge.len))?;
        let covered = sge.va >= mr.base && end <= mr.base + mr.len;
        if !covered || !mr.pd.same(pd) || (write && !mr.access.local_write) {
            return None;
        }
        mr.pins.fetch_add(1, Ordering::Acquire);
        Some(Pin(Some(mr.clone())))
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().by_key.len()
    }
}
