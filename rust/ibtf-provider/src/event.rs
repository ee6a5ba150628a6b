//! Calls into `ibtl`: [`ClientCq`], [`ClientQp`], [`ClientSrq`], [`Client`].
//!
//! Each is a door that is open as long as `ibtl` has what is behind it: opened when the operation that made it has returned, shut
//! by the one that frees it, which waits for a call that is inside.

use core::ptr::NonNull;

use illumos_sys_hdrs as sys;
use kernel::sync::CallbackSlot;

/// A thing of `ibtl`'s that calls are about.
struct Door<H> {
    handle: H,
    client: sys::ibc_clnt_hdl_t,
    calls: CallbackSlot<Self>,
}

// SAFETY: the handles are `ibtl`'s; it takes them from every thread.
unsafe impl<H> Send for Door<H> {}
// SAFETY: as above.
unsafe impl<H> Sync for Door<H> {}

impl<H: Copy> Door<H> {
    fn new(client: sys::ibc_clnt_hdl_t, handle: H) -> Self {
        Self { handle, client, calls: CallbackSlot::new() }
    }

    fn open(&self) {
        // SAFETY: the door is shut before it is dropped, see `Drop`, and it may be shared.
        unsafe { self.calls.open(NonNull::from(self)) };
    }

    fn call(&self, call: impl FnOnce(sys::ibc_clnt_hdl_t, H)) -> bool {
        self.calls.call(|door| call(door.client, door.handle)).is_some()
    }

    fn shut(&self) {
        self.calls.quiesce();
    }
}

impl<H> Drop for Door<H> {
    fn drop(&mut self) {
        // Shut already, unless the operation that made it failed.
        self.calls.quiesce();
    }
}

/// A client's completion queue.
pub struct ClientCq(Door<sys::ibt_cq_hdl_t>);

impl ClientCq {
    pub(crate) fn new(client: sys::ibc_clnt_hdl_t, handle: sys::ibt_cq_hdl_t) -> Self {
        Self(Door::new(client, handle))
    }

    pub(crate) fn open(&self) {
        self.0.open();
    }

    /// **May block**, until no call is inside; never from one.
    pub(crate) fn shut(&self) {
        self.0.shut();
    }

    /// Calls the client's handler (`ibc_cq_handler`). False if the CQ is being freed, or not yet made. The caller holds no lock, is
    /// in none of the provider's operations, and makes one call at a time for a CQ. **Any** context.
    pub fn call_handler(&self) -> bool {
        // SAFETY: the door is open, so both handles are `ibtl`'s live ones.
        self.0.call(|client, cq| unsafe { sys::ibc_cq_handler(client, cq) })
    }

    /// Says that completions were lost (`IBT_ERROR_CQ`), once. False as above. **Any** context below high-level interrupts.
    pub fn raise_overrun(&self) -> bool {
        self.0.call(|client, cq| {
            let mut event = sys::ibc_async_event_t { ev_cq_hdl: cq, ..Default::default() };
            // SAFETY: as above; the record is copied.
            unsafe { sys::ibc_async_handler(client, sys::IBT_ERROR_CQ, &mut event) };
        })
    }
}

/// A client's queue pair.
pub struct ClientQp(Door<sys::ibtl_qp_hdl_t>);

impl ClientQp {
    pub(crate) fn new(client: sys::ibc_clnt_hdl_t, handle: sys::ibtl_qp_hdl_t) -> Self {
        Self(Door::new(client, handle))
    }

    pub(crate) fn open(&self) {
        self.0.open();
    }

    pub(crate) fn shut(&self) {
        self.0.shut();
    }

    /// Says that the queue pair went to the error state by itself (`IBT_ERROR_CATASTROPHIC_CHAN`). False if it is being freed.
    /// **Any** context below high-level interrupts, in none of the provider's operations.
    pub fn raise_catastrophe(&self) -> bool {
        self.raise(sys::IBT_ERROR_CATASTROPHIC_CHAN)
    }

    /// Says that the queue pair, which is in the error state and has a shared receive queue, holds no receive of that any more
    /// (`IBT_EVENT_EMPTY_CHAN`). False and **any** context as above.
    pub fn raise_empty(&self) -> bool {
        self.raise(sys::IBT_EVENT_EMPTY_CHAN)
    }

    /// Says that a connection has received though it cannot send yet (`IBT_EVENT_COM_EST`). `ibcm` hears of it, with locks of its own held: not
    /// to be raised while the other side's last message of the handshake may still come. False and **any** context as above.
    pub fn raise_established(&self) -> bool {
        self.raise(sys::IBT_EVENT_COM_EST)
    }

    fn raise(&self, code: sys::ibt_async_code_t) -> bool {
        self.0.call(|client, qp| {
            let mut event = sys::ibc_async_event_t { ev_qp_hdl: qp, ..Default::default() };
            // SAFETY: the door is open, so both handles are `ibtl`'s live ones; the record is copied.
            unsafe { sys::ibc_async_handler(client, code, &mut event) };
        })
    }
}

/// A client's shared receive queue.
pub struct ClientSrq(Door<sys::ibt_srq_hdl_t>);

impl ClientSrq {
    pub(crate) fn new(client: sys::ibc_clnt_hdl_t, handle: sys::ibt_srq_hdl_t) -> Self {
        Self(Door::new(client, handle))
    }

    pub(crate) fn open(&self) {
        self.0.open();
    }

    pub(crate) fn shut(&self) {
        self.0.shut();
    }

    /// Says that fewer receives are left than the client's limit (`IBT_EVENT_LIMIT_REACHED_SRQ`). False if the queue is being freed.
    /// **Any** context below high-level interrupts, in none of the provider's operations.
    pub fn raise_limit(&self) -> bool {
        self.0.call(|client, srq| {
            let mut event = sys::ibc_async_event_t { ev_srq_hdl: srq, ..Default::default() };
            // SAFETY: the door is open, so both handles are `ibtl`'s live ones; the record is copied.
            unsafe { sys::ibc_async_handler(client, sys::IBT_EVENT_LIMIT_REACHED_SRQ, &mut event) };
        })
    }
}

/// What of a port has changed, as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortChange(u32);

impl PortChange {
    /// The GID table or the prefix.
    pub const GID: Self = Self(sys::IBT_PORT_CHANGE_SGID.0);
    /// The P_Key table.
    pub const PKEY: Self = Self(sys::IBT_PORT_CHANGE_PKEY.0);
    /// The subnet manager's LID.
    pub const SM_LID: Self = Self(sys::IBT_PORT_CHANGE_SM_LID.0);
}

/// What happens to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortEvent {
    /// It has become active. Strictly in turn with `Down`: a client counts them.
    Up,
    /// It is not active any more.
    Down,
    /// Something has changed while it is active.
    Changed(PortChange),
    /// The subnet manager has forgotten what clients had registered.
    Reregister,
}

/// `ibtl`'s idea of the adapter.
pub struct Client(Door<()>);

impl Client {
    pub(crate) fn new(handle: sys::ibc_clnt_hdl_t) -> Self {
        Self(Door::new(handle, ()))
    }

    pub(crate) fn handle(&self) -> sys::ibc_clnt_hdl_t {
        self.0.client
    }

    pub(crate) fn open(&self) {
        self.0.open();
    }

    pub(crate) fn shut(&self) {
        self.0.shut();
    }

    /// Raises an event of a port (`ibc_async_handler`), which `ibtl` queues. Nothing is raised once the adapter is being detached.
    /// In none of the provider's operations, with none of its locks. **Any** context below high-level interrupts.
    pub fn raise(&self, port: u8, event: PortEvent) -> bool {
        let (code, flags) = match event {
            PortEvent::Up => (sys::IBT_EVENT_PORT_UP, 0),
            PortEvent::Down => (sys::IBT_ERROR_PORT_DOWN, 0),
            PortEvent::Changed(change) => (sys::IBT_PORT_CHANGE_EVENT, change.0),
            PortEvent::Reregister => (sys::IBT_CLNT_REREG_EVENT, 0),
        };
        self.0.call(|client, ()| {
            let mut record = sys::ibc_async_event_t {
                ev_port: port,
                ev_port_flags: sys::ibt_port_change_e(flags),
                ..Default::default()
            };
            // SAFETY: the door is open, so `client` is `ibtl`'s live handle; the record is copied.
            unsafe { sys::ibc_async_handler(client, code, &mut record) };
        })
    }
}
