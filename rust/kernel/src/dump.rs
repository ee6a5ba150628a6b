//! What a crash dump is read by: a symbol that leads to records as C lays them out.
//!
//! A debugger knows no type of a module's. So [`dump_root!`](crate::dump_root!) defines a symbol that stays global; it leads to a list
//! of records, and each record to names and to where the values behind them are: values are read where they are counted.

use core::ffi::{CStr, c_char};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::KVec;
use crate::counter::{Counter, Gauge};
use crate::list::{List, Room};
use crate::may_block::MayBlock;
use crate::sync::Mutex;

/// A value that a dump has: 24 octets, three pointers.
#[repr(C)]
pub struct Value {
    /// The kstat that shows it, or would.
    kstat: *const c_char,
    name: *const c_char,
    at: *const u64,
}

// SAFETY: only who reads a dump follows the pointers.
unsafe impl Send for Value {}
// SAFETY: as above.
unsafe impl Sync for Value {}

impl Value {
    /// A counter. Whoever keeps this keeps the counter, too.
    pub const fn counter(kstat: &'static CStr, name: &'static CStr, counter: &Counter) -> Self {
        Self { kstat: kstat.as_ptr(), name: name.as_ptr(), at: ptr::from_ref(counter).cast() }
    }

    /// The same of a gauge.
    pub const fn gauge(kstat: &'static CStr, name: &'static CStr, gauge: &Gauge) -> Self {
        Self { kstat: kstat.as_ptr(), name: name.as_ptr(), at: ptr::from_ref(gauge).cast() }
    }
}

/// Several values. For C: where the first is, and how many there are, 16 octets; what is behind that is nothing of C's.
#[repr(C)]
pub struct Values {
    first: *const Value,
    count: usize,
    _kept: KVec<Value>,
}

// SAFETY: only who reads a dump follows the pointer; the values are their own.
unsafe impl Send for Values {}
// SAFETY: as above.
unsafe impl Sync for Values {}

impl From<KVec<Value>> for Values {
    fn from(kept: KVec<Value>) -> Self {
        Self { first: kept.as_ptr(), count: kept.len(), _kept: kept }
    }
}

/// The symbol: `magic`, then where the pointer to the first record is. 16 octets.
#[repr(C)]
pub struct Root<R> {
    magic: [u8; 8],
    /// NULL unless there are [`Records`].
    records: AtomicPtr<List<R>>,
}

impl<R> Root<R> {
    /// Nothing yet. `magic` names the layout of a record.
    pub const fn new(magic: [u8; 8]) -> Self {
        Self { magic, records: AtomicPtr::new(ptr::null_mut()) }
    }

    /// What tells a reader how a record is laid out.
    pub fn magic(&self) -> [u8; 8] {
        self.magic
    }
}

/// The records behind a root, as long as the value lives. A pointer to the next one comes before each.
pub struct Records<R: 'static> {
    records: Mutex<List<R>>,
    root: &'static Root<R>,
}

impl<R> Records<R> {
    /// None yet. One root has one of these at a time. Waits for memory: **may block**.
    pub fn new(root: &'static Root<R>, may_block: &MayBlock) -> Self {
        let records = Mutex::new_waiting(List::new(), may_block);
        root.records.store(records.address().cast_mut(), Ordering::Release);
        Self { records, root }
    }

    /// One more. Waits for memory: **may block**.
    pub fn add(&self, record: R, may_block: &MayBlock) {
        let room = Room::new_waiting(may_block);
        self.records.lock().put(room, record);
    }

    /// Takes out the one that `wanted` accepts.
    pub fn take(&self, wanted: impl Fn(&R) -> bool) -> Option<R> {
        self.records.lock().take(wanted)
    }
}

impl<R> Drop for Records<R> {
    fn drop(&mut self) {
        self.root.records.store(ptr::null_mut(), Ordering::Release);
    }
}

/// Defines the [`Root`] of a module, a symbol that stays global in its object: `dump_root!(ibd_root: LinkRecord, *b"ibd_v001");`
#[macro_export]
macro_rules! dump_root {
    ($name:ident: $record:ty, $magic:expr) => {
        #[cfg_attr(target_os = "none", unsafe(no_mangle))]
        #[allow(non_upper_case_globals, reason = "debuggers know it by this name")]
        static $name: $crate::dump::Root<$record> = $crate::dump::Root::new($magic);
    };
}
