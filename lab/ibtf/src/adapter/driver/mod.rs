//! An adapter's driver that is loaded into the host, as IBTL calls it (`sys/ib/ibtl/ibci.h`) and is called by it.
//!
//! Calls go through the C records and the table of operations that the driver handed in. What IBTL promises a driver is kept: records
//! have garbage in every field that the operation does not use. What a driver promises is checked, see [`judge`].

mod completion;
mod connected;
mod domain;
mod judge;
mod mapping;
mod port;
pub(crate) mod post;
mod queue_pair;
mod shared;
mod upcalls;
mod wire;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use fabric::{CqNum, Moderation, Qpn, SrqSizes};
use fakekernel::race::Key;
use fakekernel::{Cx, Handles, HostMutex, Kernel, Rule};
use illumos_sys_hdrs::{
    IBT_SUCCESS, ibc_hca_hdl_t, ibc_operations_t, ibt_attr_flags_t, ibt_hca_attr_t, ibt_status_t,
};

use super::{Answer, Identity};
use crate::ibtl::{Device, Opaque, SelfHandle};
use judge::{Calls, Posted};
pub(crate) use mapping::Mapped;
pub(crate) use upcalls::provide;
pub(crate) use wire::Wire;

/// What a driver handed in with `ibc_attach`.
struct Registered {
    operations: ibc_operations_t,
    attributes: ibt_hca_attr_t,
}

// SAFETY: functions of a module that stays until it has detached, and pointers that are handed back and not followed.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

/// An adapter of such a driver.
pub(crate) struct Driver {
    kernel: Kernel,
    registered: Registered,
    hca: Opaque,
    /// What the driver knows it by (`ibc_clnt_hdl_t`).
    client: SelfHandle,
    /// Until it is detached.
    device: HostMutex<Option<Arc<Device>>>,
    cqs: Handles<Cq>,
    qps: Handles<Qp>,
    srqs: Handles<Srq>,
    next_number: AtomicU32,
    calls: Calls,
    /// Handles that it has given out, by kind.
    given: HostMutex<BTreeSet<(&'static str, usize)>>,
}

/// A completion queue of a loaded adapter.
pub(crate) struct Cq {
    num: CqNum,
    handle: OnceLock<Opaque>,
    size: OnceLock<u32>,
    /// What the driver knows it by (`ibt_cq_hdl_t`).
    token: SelfHandle,
    moderation: HostMutex<Moderation>,
    /// Whom a completion is for.
    owner: OnceLock<Box<dyn Fn() + Send + Sync>>,
    calls: HostMutex<judge::CqCalls>,
    /// Queue pairs whose requests complete here.
    users: HostMutex<Vec<Weak<Qp>>>,
}

impl Cq {
    pub(crate) fn num(&self) -> CqNum {
        self.num
    }

    pub(crate) fn size(&self) -> u32 {
        self.size.get().copied().unwrap_or(0)
    }

    pub(crate) fn moderation(&self) -> Moderation {
        *self.moderation.lock()
    }

    fn handle(&self) -> Opaque {
        self.handle.get().copied().unwrap_or_default()
    }

    /// Whom it calls when there is something in it. Once, before it is armed.
    pub(crate) fn set_owner(&self, owner: impl Fn() + Send + Sync + 'static) {
        let _ = self.owner.set(Box::new(owner));
    }
}

/// A queue pair of a loaded adapter.
pub(crate) struct Qp {
    num: OnceLock<Qpn>,
    handle: OnceLock<Opaque>,
    /// What the driver knows it by (`ibtl_qp_hdl_t`).
    token: SelfHandle,
    send_cq: Arc<Cq>,
    receive_cq: Arc<Cq>,
    flags: ibt_attr_flags_t,
    /// Where its receives come from, if they are not its own.
    srq: Option<Arc<Srq>>,
    pub(super) is_connection: bool,
    /// What the driver knows its number by (`ibc_qpn_hdl_t`), once it is freed and its number is not.
    kept: OnceLock<Opaque>,
    /// The driver has said that it has received though it cannot send yet.
    established: AtomicU32,
    sends: HostMutex<Posted>,
    receives: HostMutex<Posted>,
}

impl Qp {
    pub(crate) fn num(&self) -> Qpn {
        self.num.get().copied().unwrap_or(Qpn::truncating(0))
    }

    fn handle(&self) -> Opaque {
        self.handle.get().copied().unwrap_or_default()
    }

    /// What has been asked of it comes before the release of its number.
    fn key(&self) -> Key {
        Key("queue pair of an adapter", (&raw const *self).addr() as u64)
    }

    /// How often the driver has said that it has received though it cannot send yet.
    pub(crate) fn times_established(&self) -> u32 {
        self.established.load(Ordering::Relaxed)
    }
}

/// A shared receive queue of a loaded adapter.
pub(crate) struct Srq {
    handle: OnceLock<Opaque>,
    /// What the driver knows it by (`ibt_srq_hdl_t`).
    token: SelfHandle,
    sizes: OnceLock<SrqSizes>,
    receives: HostMutex<Posted>,
    /// Its client wants to be told, and was not yet.
    armed: HostMutex<bool>,
    /// Whom that is for.
    owner: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Srq {
    pub(crate) fn sizes(&self) -> SrqSizes {
        self.sizes.get().copied().unwrap_or(SrqSizes { wrs: 0, sgl: 0 })
    }

    fn handle(&self) -> Opaque {
        self.handle.get().copied().unwrap_or_default()
    }
}

/// A memory region of a loaded adapter.
pub(crate) struct Mr {
    handle: Opaque,
    pub(crate) base: u64,
    pub(crate) len: u64,
    pub(crate) lkey: u32,
}

/// Calls an operation: `down!(driver, ibc_alloc_pd(arguments))`. The first argument, the adapter, is put in. The machine halts if there
/// is none in the table.
macro_rules! down {
    ($driver:expr, $operation:ident($($argument:expr),* $(,)?)) => {{
        let driver: &$crate::adapter::driver::Driver = $driver;
        let kind = ::fakekernel::EntryKind::callback(stringify!($operation));
        let arguments = (driver.hca(), $($argument),*);
        match driver.registered.operations.$operation {
            Some(operation) => {
                let _inside = driver.calls.enter();
                // SAFETY: the driver's own operation, for its own handle, while it is attached; the caller's records are there for
                // the time of the call and are what the operation takes.
                unsafe { driver.kernel.enter(operation, arguments, kind) }
            }
            None => driver.missing(stringify!($operation)),
        }
    }};
}
use down;

/// A record with garbage in it, as IBTL's callers leave on their stacks what the operation does not use.
///
/// # Safety
///
/// Any bytes are a value of `T`.
unsafe fn garbage<T>() -> T {
    let mut record = std::mem::MaybeUninit::<T>::uninit();
    // SAFETY: as many bytes as it has.
    unsafe { record.as_mut_ptr().cast::<u8>().write_bytes(0xa5, size_of::<T>()) };
    // SAFETY: by this function's contract.
    unsafe { record.assume_init() }
}

/// An answer as a result.
fn answer(status: ibt_status_t) -> Answer<()> {
    if status == IBT_SUCCESS { Ok(()) } else { Err(status) }
}

impl Driver {
    pub(crate) fn guid(&self) -> u64 {
        self.registered.attributes.hca_node_guid
    }

    pub(crate) fn nports(&self) -> u8 {
        self.registered.attributes.hca_nports
    }

    pub(crate) fn identity(&self) -> Identity {
        let attributes = &self.registered.attributes;
        Identity {
            vendor: attributes.hca_vendor_id(),
            device: attributes.hca_device_id,
            version: attributes.hca_version_id,
        }
    }

    /// As `ibt_query_hca` copies them.
    pub(crate) fn attributes(&self) -> ibt_hca_attr_t {
        self.registered.attributes
    }

    fn hca(&self) -> ibc_hca_hdl_t {
        self.hca.get().cast()
    }

    fn number(&self) -> u32 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// The driver's own fault.
    fn blame(&self, rule: Rule, what: impl Into<String>) {
        let address = self.registered.operations.ibc_query_hca_ports.map_or(0, |f| f as *const () as usize);
        let module = self.kernel.module_at(address);
        Cx::of_entry(module.as_ref(), "ibc_operations").violate(rule, what);
    }

    fn missing(&self, operation: &'static str) -> ibt_status_t {
        self.blame(Rule::AbsurdArgument, format!("{operation} is not in the table of operations"));
        illumos_sys_hdrs::IBT_NOT_SUPPORTED
    }
}
