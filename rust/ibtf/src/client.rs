//! [`Client`]: a driver as IBTF knows it.

use core::ffi::{CStr, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use illumos_sys_hdrs as sys;
use kernel::ddi::DevInfo;
use kernel::module::Pin;
use kernel::{KArc, KBox, MayBlock};

use crate::Gid;
use crate::clients::{self, Clients, Number, Registry};
use crate::cm::{Reply, Request, Session};
use crate::event::{AsyncEvent, ChannelId, SubnetEvent};
use crate::refused::told;
use crate::status::Status;

/// Where a client's events go.
pub trait ClientHandler: Send + Sync + 'static {
    /// An asynchronous event. On a thread of IBTL that **may block** but serves every client: record and return. Only
    /// [`AsyncEvent::HcaDetached`] must be dealt with completely before returning. Never drop the client here.
    fn async_event(&self, event: AsyncEvent, may_block: &MayBlock);

    /// A notice heard by the port whose first GID is `port`; only after [`Client::subscribe`]. On a system task queue
    /// that **may block**: record and return. Never drop the client here.
    fn subnet_event(&self, port: Gid, event: SubnetEvent) {
        let _ = (port, event);
    }

    /// Somebody wants a connection with a [`Service`](crate::Service) of the client's. On a thread of the communication manager that **may
    /// block** but serves all: record and return. Whoever answers [`Reply::Later`] keeps the session, and answers from another thread;
    /// otherwise it means nothing any more.
    fn connection_requested(&self, request: &Request<'_>, session: Session) -> Reply {
        let _ = (request, session);
        Reply::Refused
    }

    /// A connection that was accepted, or opened, stands. As [`ClientHandler::connection_requested`].
    ///
    /// `answer` is how long its queue pair waits for an acknowledgement, as a code: 4.096 us times 2 to this power; `None` if the adapter
    /// does not say. Of a connection that was accepted it is what the REQ said (local ACK timeout). Of one that was opened it is twice
    /// the packet lifetime and what the REP said (target ACK delay), rounded up. The communication manager waits as long for the answer
    /// when the connection is closed. It tells of neither before: a member of `ibt_cm_req_rcv_t` and of `ibt_cm_rep_rcv_t` would do.
    fn connection_established(&self, channel: ChannelId, answer: Option<u8>) {
        let _ = (channel, answer);
    }

    /// The other side of a connection that was [opened](crate::RcChannel::open) has accepted it, with 196 bytes of private data, whatever it
    /// filled in; whether it is still wanted. As [`ClientHandler::connection_requested`].
    fn connection_replied(&self, channel: ChannelId, private: &[u8]) -> bool {
        let _ = (channel, private);
        false
    }

    /// The other side of a connection that is being [opened](crate::RcChannel::open) asks for so much time to answer (an MRA), at most 2.5 hours.
    /// The communication manager gives it that time, as often as it repeats a REQ and once more. As
    /// [`ClientHandler::connection_requested`].
    fn connection_delayed(&self, channel: ChannelId, time: Duration) {
        let _ = (channel, time);
    }

    /// A connection is no more: the channel is in the error state. As [`ClientHandler::connection_requested`].
    fn connection_ended(&self, channel: ChannelId) {
        let _ = channel;
    }

    /// No connection has come of it: the channel will never leave its first state, or is in the error state. `reason` is that of the REJ, 4
    /// if nobody answered (`ibt_cm_reason_t`). As [`ClientHandler::connection_requested`].
    fn connection_failed(&self, channel: ChannelId, reason: u16) {
        let _ = (channel, reason);
    }
}

/// An attached client. Cheap to clone; the last clone detaches, which waits for event callbacks that are running
/// (**may block**, and never from one of them).
#[derive(Clone)]
pub struct Client(KArc<Inner>);

struct Inner {
    handle: sys::ibt_clnt_hdl_t,
    number: Number,
    /// The adapter keeps something of it for ever, and IBTF the client.
    left: AtomicBool,
    /// What IBTF is told of a client that may be left.
    info: Option<KBox<LeavableInfo>>,
    registry: KArc<Registry>,
    /// IBTF calls in as long as the client is attached.
    _pin: Pin,
}

/// As [`ClientInfo`], in memory that can stay when the module goes.
#[repr(C)]
struct LeavableInfo {
    info: sys::ibt_clnt_modinfo_t,
    name: [u8; 16],
}

// SAFETY: written by the one value that owns it, once more when that ends; IBTF reads it.
unsafe impl Send for LeavableInfo {}
// SAFETY: as for `Send`.
unsafe impl Sync for LeavableInfo {}

// SAFETY: the handle is used by IBTF, from any thread.
unsafe impl Send for Inner {}
// SAFETY: as for `Send`.
unsafe impl Sync for Inner {}

/// What IBTL is told of a client. A static, because IBTL may look at it shortly after the client was detached.
#[repr(transparent)]
pub struct ClientInfo(sys::ibt_clnt_modinfo_t);

// SAFETY: never written; what it points to is a string and code of this module.
unsafe impl Sync for ClientInfo {}

impl ClientInfo {
    /// A network client of this name, of which IBTL shows seven letters.
    pub const fn network(name: &'static CStr) -> Self {
        Self::of(name, sys::IBT_NETWORK)
    }

    /// A client that belongs to a module and to none of its device nodes, named likewise.
    pub(crate) const fn of_module(name: &'static CStr) -> Self {
        Self::of(name, sys::IBT_GENERIC_MISC)
    }

    const fn of(name: &'static CStr, class: sys::ibt_clnt_class_t) -> Self {
        Self(sys::ibt_clnt_modinfo_t {
            mi_ibt_version: sys::IBTI_V_CURR as _,
            mi_clnt_class: class,
            mi_async_handler: Some(async_event),
            mi_reserved: None,
            mi_clnt_name: name.as_ptr().cast_mut(),
        })
    }
}

impl Client {
    /// Attaches a client (`ibt_attach`). The node must be a child of the IB nexus. **May block.**
    ///
    /// `handler` must not own a [`Client`], or neither ever goes: give it what it records events in, and nothing else.
    pub fn attach<H: ClientHandler>(
        clients: &Clients,
        dip: DevInfo,
        info: &'static ClientInfo,
        may_block: &MayBlock,
        handler: H,
    ) -> Result<Self, Status> {
        Self::enter(clients.registry().clone(), dip, info, may_block, handler)
    }

    /// Attaches one more client of the module's, as [`Client::attach`].
    pub fn attach_another<H: ClientHandler>(
        &self,
        dip: DevInfo,
        info: &'static ClientInfo,
        may_block: &MayBlock,
        handler: H,
    ) -> Result<Self, Status> {
        Self::enter(self.0.registry.clone(), dip, info, may_block, handler)
    }

    /// Attaches a client that is no device node's: a [module's](ClientInfo::of_module).
    pub(crate) fn attach_without_node<H: ClientHandler>(
        registry: KArc<Registry>,
        info: &'static ClientInfo,
        may_block: &MayBlock,
        handler: H,
    ) -> Result<Self, Status> {
        Self::enter_as(registry, ptr::null_mut(), info, may_block, handler)
    }

    fn enter<H: ClientHandler>(
        registry: KArc<Registry>,
        dip: DevInfo,
        info: &'static ClientInfo,
        may_block: &MayBlock,
        handler: H,
    ) -> Result<Self, Status> {
        Self::enter_as(registry, dip.as_raw(), info, may_block, handler)
    }

    fn enter_as<H: ClientHandler>(
        registry: KArc<Registry>,
        dip: *mut sys::dev_info_t,
        info: &'static ClientInfo,
        may_block: &MayBlock,
        handler: H,
    ) -> Result<Self, Status> {
        Self::enter_with(registry, dip, (&raw const info.0).cast_mut(), None, may_block, handler)
    }

    /// `info` is a static, or that of `leavable`.
    fn enter_with<H: ClientHandler>(
        registry: KArc<Registry>,
        dip: *mut sys::dev_info_t,
        info: *mut sys::ibt_clnt_modinfo_t,
        leavable: Option<KBox<LeavableInfo>>,
        may_block: &MayBlock,
        handler: H,
    ) -> Result<Self, Status> {
        let handler = KBox::new_waiting(handler, may_block).map_unsized(|handler| handler as _);
        let number = registry.enter(handler, may_block);
        let mut handle = ptr::null_mut();
        // SAFETY: IBTL reads the description, which is a static, or stays with the client; the argument is a number.
        let attached = unsafe { sys::ibt_attach(info, dip, number.cookie(), &mut handle) };
        if let Err(status) = Status::check(attached) {
            registry.leave(number);
            return Err(status);
        }
        let inner = Inner {
            handle,
            number,
            left: AtomicBool::new(false),
            info: leavable,
            registry,
            _pin: Pin::of_registration(),
        };
        Ok(Self(KArc::new_waiting(inner, may_block)))
    }

    /// Attaches a client that is no device node's and can be left with what an adapter does not free ([`Srq::leave`](crate::Srq::leave)). IBTL
    /// shows seven letters of the name. **May block.**
    pub fn attach_leavable<H: ClientHandler>(
        &self,
        name: &'static CStr,
        may_block: &MayBlock,
        handler: H,
    ) -> Result<Self, Status> {
        let ClientInfo(info) = ClientInfo::of_module(c"");
        let mut leavable = KBox::new_waiting(LeavableInfo { info, name: [0; 16] }, may_block);
        let LeavableInfo { info, name: kept } = &mut *leavable;
        // The last one stays 0.
        kept.iter_mut().take(15).zip(name.to_bytes()).for_each(|(to, from)| *to = *from);
        info.mi_clnt_name = kept.as_mut_ptr().cast();
        let info = &raw mut *info;
        let registry = self.0.registry.clone();
        Self::enter_with(registry, ptr::null_mut(), info, Some(leavable), may_block, handler)
    }

    /// IBTF will not let go of it.
    pub(crate) fn leave(&self) {
        self.0.left.store(self.0.info.is_some(), Ordering::Release);
    }

    pub(crate) fn is_left(&self) -> bool {
        self.0.left.load(Ordering::Acquire)
    }

    pub(crate) fn registry(&self) -> &KArc<Registry> {
        &self.0.registry
    }

    /// Asks for the subnet manager's notices (`ibt_register_subnet_notices`), until the client is detached.
    /// **May block.**
    pub fn subscribe(&self) {
        // SAFETY: attached; the argument is a number.
        unsafe {
            sys::ibt_register_subnet_notices(self.handle(), Some(subnet_event), self.0.number.cookie())
        };
    }

    pub(crate) fn handle(&self) -> sys::ibt_clnt_hdl_t {
        self.0.handle
    }

    /// What its callbacks are called with: a number.
    pub(crate) fn cookie(&self) -> *mut c_void {
        self.0.number.cookie()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: attached; takes the subscription back, if there was one. The argument stays what it was.
        unsafe { sys::ibt_register_subnet_notices(self.handle, None, self.number.cookie()) };
        // SAFETY: attached, and every adapter it opened keeps a clone, so all are closed.
        let detached = told("client", Status::check(unsafe { sys::ibt_detach(self.handle) }));
        match self.info.take() {
            Some(info) if detached.is_err() && *self.left.get_mut() => silence(info),
            // IBTL will go on calling: the text may not go.
            _ if detached.is_err() => core::mem::forget(Pin::new()),
            _ => {}
        }
        // Also for the calls that IBTL does not count.
        self.registry.leave(self.number);
    }
}

/// How long a call of IBTL's may take to begin, once it has read whom to call.
const CALL_BEGINS: kernel::time::Duration = kernel::time::Duration::from_secs(1);

/// IBTL keeps a client, and calls a function of the kernel's for it that does nothing. Not NULL: `ibtl_tell_client_about_new_hca` does not look whether
/// there is one, and a task that is to call it may wait for long. What IBTL looks at stays for ever. **May block.**
fn silence(info: KBox<LeavableInfo>) {
    let info = KBox::into_raw(info);
    // SAFETY: the block stays; IBTL reads the field at any time.
    let handler = unsafe { &raw mut (*info.as_ptr()).info.mi_async_handler };
    // SAFETY: aligned and valid; a word, which IBTL finds as it was or as it is.
    unsafe { handler.write_volatile(nothing()) };
    kernel::time::sleep(CALL_BEGINS);
}

/// What does nothing, whatever it is called with.
fn nothing() -> sys::ibt_async_handler_t {
    // SAFETY: `nulldev` looks at none of its arguments, which are the caller's on amd64, and IBTL does not look at what it returns.
    unsafe { core::mem::transmute::<unsafe extern "C" fn() -> c_int, sys::ibt_async_handler_t>(sys::nulldev) }
}

/// # Safety
///
/// Called by IBTL, with its record of an event; with an argument that is no client's, too.
unsafe extern "C" fn async_event(
    cookie: *mut c_void,
    _hca: sys::ibt_hca_hdl_t,
    code: sys::ibt_async_code_t,
    event: *mut sys::ibt_async_event_t,
) {
    // SAFETY: IBTL's record, during the call.
    let event = unsafe { &*event };
    // SAFETY: IBTL calls from its own threads, where clients may sleep.
    let may_block = unsafe { MayBlock::new() };
    clients::call(cookie, |handler| handler.async_event(AsyncEvent::from_raw(code, event), &may_block));
}

/// # Safety
///
/// Called by IBTF, with its record of a notice or NULL; with an argument that is no client's, too.
unsafe extern "C" fn subnet_event(
    cookie: *mut c_void,
    port: sys::ib_gid_t,
    code: sys::ibt_subnet_event_code_t,
    event: *mut sys::ibt_subnet_event_t,
) {
    // SAFETY: IBTF's record, during the call.
    let subject =
        unsafe { event.as_ref() }.map(|event| Gid::from_raw(&event.sm_notice_gid)).unwrap_or_default();
    clients::call(cookie, |handler| {
        handler.subnet_event(Gid::from_raw(&port), SubnetEvent::from_raw(code, subject));
    });
}
