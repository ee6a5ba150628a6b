//! [`Client`]: a driver as IBTF knows it.

use core::ffi::{CStr, c_void};
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use illumos_sys_hdrs as sys;
use kernel::ddi::DevInfo;
use kernel::module::Pin;
use kernel::{KArc, KBox};

use crate::Gid;
use crate::event::{AsyncEvent, SubnetEvent};
use crate::status::Status;

/// Where a client's events go.
pub trait ClientHandler: Send + Sync + 'static {
    /// An asynchronous event. On a thread of IBTL that **may block** but serves every client: record and return. Only
    /// [`AsyncEvent::HcaDetached`] must be dealt with completely before returning. Never drop the client here.
    fn async_event(&self, event: AsyncEvent);

    /// A notice heard by the port whose first GID is `port`; only after [`Client::subscribe`]. On a system task queue
    /// that **may block**: record and return. Never drop the client here.
    fn subnet_event(&self, port: Gid, event: SubnetEvent) {
        let _ = (port, event);
    }
}

/// An attached client. Cheap to clone; the last clone detaches, which waits for event callbacks that are running
/// (**may block**, and never from one of them).
#[derive(Clone)]
pub struct Client(KArc<Inner>);

struct Inner {
    handle: sys::ibt_clnt_hdl_t,
    cookie: *mut c_void,
    notice: sys::ibt_sm_notice_handler_t,
    outstanding: KArc<AtomicUsize>,
    /// What IBTL uses until the client is detached: its description, and the handler behind the cookie.
    kept: Option<(KBox<sys::ibt_clnt_modinfo_t>, KBox<dyn Keep>)>,
}

// SAFETY: handle and cookie are used by IBTF, from any thread; the handler is Send + Sync.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// Something that only has to be kept.
pub(crate) trait Keep: Send + Sync {}

impl<T: Send + Sync> Keep for T {}

impl Client {
    /// Attaches a network client (`ibt_attach`). The node must be a child of the IB nexus. **May block.**
    ///
    /// `handler` must not own a [`Client`], or neither ever goes: give it what it records events in, and nothing else.
    pub fn attach<H: ClientHandler>(
        dip: DevInfo,
        name: &'static CStr,
        handler: KArc<H>,
    ) -> Result<Self, Status> {
        let mut module = KBox::new(sys::ibt_clnt_modinfo_t {
            mi_ibt_version: sys::IBTI_V_CURR as _,
            mi_clnt_class: sys::IBT_NETWORK,
            mi_async_handler: Some(async_event::<H>),
            mi_reserved: None,
            mi_clnt_name: name.as_ptr().cast_mut(),
        })?;
        let cookie = KArc::as_ptr(&handler).as_ptr().cast();
        let handler = KBox::new(handler)?.map_unsized(|handler| handler as _);
        let outstanding = KArc::new(AtomicUsize::new(0))?;
        let mut handle = ptr::null_mut();
        // SAFETY: description and handler stay until the client is detached (`kept`).
        Status::check(unsafe { sys::ibt_attach(&mut *module, dip.as_raw(), cookie, &mut handle) })?;
        let attached = Inner {
            handle,
            cookie,
            notice: Some(subnet_event::<H>),
            outstanding,
            kept: Some((module, handler)),
        };
        // If this fails the value is dropped, which detaches again.
        Ok(Self(KArc::new(attached)?))
    }

    /// Asks for the subnet manager's notices (`ibt_register_subnet_notices`), until the client is detached.
    /// **May block.**
    pub fn subscribe(&self) {
        // SAFETY: attached; the cookie's handler stays until detached.
        unsafe { sys::ibt_register_subnet_notices(self.handle(), self.0.notice, self.0.cookie) };
    }

    /// How many callbacks of this client are still to come (joins and path look-ups that were not made to wait).
    ///
    /// Nothing in IBTF waits for them: detach must refuse while there are any.
    pub fn outstanding(&self) -> usize {
        self.0.outstanding.load(Ordering::Acquire)
    }

    pub(crate) fn handle(&self) -> sys::ibt_clnt_hdl_t {
        self.0.handle
    }

    pub(crate) fn expect_callback(&self) -> Outstanding {
        self.0.outstanding.fetch_add(1, Ordering::Relaxed);
        Outstanding { count: self.0.outstanding.clone(), _pin: Pin::new() }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: attached; NULL takes the subscription back, if there was one.
        unsafe { sys::ibt_register_subnet_notices(self.handle, None, ptr::null_mut()) };
        // SAFETY: attached, and every adapter it opened keeps a clone, so all are closed.
        if Status::check(unsafe { sys::ibt_detach(self.handle) }).is_err() {
            // IBTL will go on calling: neither handler nor text may go.
            core::mem::forget((self.kept.take(), Pin::new()));
        }
    }
}

/// One callback to come. Dropped as the last thing the callback does.
pub(crate) struct Outstanding {
    count: KArc<AtomicUsize>,
    _pin: Pin,
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Release);
    }
}

/// # Safety
///
/// Called by IBTL with the cookie given to `ibt_attach`, before the client is detached.
unsafe extern "C" fn async_event<H: ClientHandler>(
    cookie: *mut c_void,
    _hca: sys::ibt_hca_hdl_t,
    code: sys::ibt_async_code_t,
    event: *mut sys::ibt_async_event_t,
) {
    // SAFETY: the handler lives until the client is detached.
    let handler = unsafe { &*cookie.cast::<H>() };
    // SAFETY: IBTL's record, during the call.
    let event = unsafe { &*event };
    handler.async_event(AsyncEvent::from_raw(code, event));
}

/// # Safety
///
/// Called by IBTF with the cookie given to `ibt_register_subnet_notices`, before the client is detached.
unsafe extern "C" fn subnet_event<H: ClientHandler>(
    cookie: *mut c_void,
    port: sys::ib_gid_t,
    code: sys::ibt_subnet_event_code_t,
    event: *mut sys::ibt_subnet_event_t,
) {
    // SAFETY: the handler lives until the client is detached.
    let handler = unsafe { &*cookie.cast::<H>() };
    // SAFETY: IBTF's record, during the call.
    let subject =
        unsafe { event.as_ref() }.map(|event| Gid::from_raw(&event.sm_notice_gid)).unwrap_or_default();
    handler.subnet_event(Gid::from_raw(&port), SubnetEvent::from_raw(code, subject));
}
