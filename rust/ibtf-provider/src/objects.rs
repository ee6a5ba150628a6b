//! What `ibtl`'s handles point at.

use core::ptr::NonNull;
use core::sync::atomic::AtomicPtr;

use illumos_sys_hdrs as sys;
use kernel::{KArc, KBox};

use crate::attributes::Attributes;
use crate::event::{ClientCq, ClientQp, ClientSrq};
use crate::memory::Region;
use crate::provider::Provider;

/// Behind `ibc_hca_hdl_t`.
pub(crate) struct Adapter<P> {
    pub(crate) provider: KArc<P>,
    pub(crate) attributes: Attributes,
    /// NULL until `ibc_attach` has returned: until then only ports are queried.
    pub(crate) client: AtomicPtr<sys::ibtl_hca_devinfo_s>,
}

/// Behind `ibc_cq_hdl_t`.
pub(crate) struct CqRecord<P: Provider> {
    pub(crate) cq: KArc<P::Cq>,
    pub(crate) client: KArc<ClientCq>,
}

/// Behind `ibc_qp_hdl_t`.
pub(crate) struct QpRecord<P: Provider> {
    pub(crate) qp: KArc<P::Qp>,
    pub(crate) client: KArc<ClientQp>,
    /// `ibtl`'s names of its CQs, for queries.
    pub(crate) send_cq: sys::ibt_cq_hdl_t,
    pub(crate) receive_cq: sys::ibt_cq_hdl_t,
    /// As above; NULL if it has receives of its own.
    pub(crate) srq: sys::ibt_srq_hdl_t,
    pub(crate) flags: sys::ibt_attr_flags_t,
    /// Of a connection, not of datagrams.
    pub(crate) is_connection: bool,
}

/// Behind `ibc_srq_hdl_t`.
pub(crate) struct SrqRecord<P: Provider> {
    pub(crate) srq: KArc<P::Srq>,
    pub(crate) client: KArc<ClientSrq>,
    /// The client's handle of its protection domain, for queries.
    pub(crate) pd: sys::ibc_pd_hdl_t,
}

/// Behind `ibc_mr_hdl_t`.
pub(crate) struct MrRecord<P: Provider> {
    pub(crate) mr: KArc<P::Mr>,
    pub(crate) region: KArc<Region>,
}

/// The object behind a handle.
///
/// # Safety
///
/// `handle` is NULL, or is what [`KBox::into_raw`] or [`KArc::into_raw`] gave for a `T` that has not been taken back, nor will be
/// while the reference lives.
pub(crate) unsafe fn behind<'a, T, H>(handle: *mut H) -> Option<&'a T> {
    // SAFETY: by this function's contract.
    unsafe { handle.cast::<T>().as_ref() }
}

/// Another reference to the object behind a handle.
///
/// # Safety
///
/// As for [`behind`]; the handle is from [`KArc::into_raw`].
pub(crate) unsafe fn share<T, H>(handle: *mut H) -> Option<KArc<T>> {
    let raw = NonNull::new(handle.cast::<T>())?;
    // SAFETY: by this function's contract.
    let held = core::mem::ManuallyDrop::new(unsafe { KArc::from_raw(raw) });
    Some((*held).clone())
}

/// Takes the object of a handle back.
///
/// # Safety
///
/// As for [`behind`], and nobody uses the handle any more; it is from [`KBox::into_raw`].
pub(crate) unsafe fn take<T, H>(handle: *mut H) {
    if let Some(raw) = NonNull::new(handle.cast::<T>()) {
        // SAFETY: by this function's contract.
        drop(unsafe { KBox::from_raw(raw) });
    }
}

/// Takes the reference of a handle back.
///
/// # Safety
///
/// As for [`take`]; the handle is from [`KArc::into_raw`].
pub(crate) unsafe fn release<T, H>(handle: *mut H) {
    if let Some(raw) = NonNull::new(handle.cast::<T>()) {
        // SAFETY: by this function's contract.
        drop(unsafe { KArc::from_raw(raw) });
    }
}
