//! What handles stand for.

use super::Device;
use crate::adapter::driver::Mapped;
use crate::adapter::{Adapter, Ah, Cq, Mr, Pd, Qp, RcConfig, Srq, UdConfig};
use fakekernel::race::{self, Key};
use fakekernel::{HostMutex, Kernel, WaitQueue};
use illumos_sys_hdrs::{
    ibt_adds_vect_t, ibt_async_handler_t, ibt_cep_flags_t, ibt_clnt_modinfo_t, ibt_cq_handler_t,
    ibt_sm_notice_handler_t,
};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// A pointer a module owns and the lab only hands back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Opaque(usize);

impl Opaque {
    pub(crate) fn of<T>(p: *const T) -> Self {
        Opaque(p.expose_provenance())
    }

    pub(crate) fn get(self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.0)
    }
}

/// A slot for such a pointer that the module sets and reads without further ado.
#[derive(Default)]
pub(crate) struct Private(AtomicUsize);

impl Private {
    pub(crate) fn set(&self, p: *mut c_void) {
        self.0.store(p.expose_provenance(), Ordering::Release);
    }

    pub(crate) fn get(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.0.load(Ordering::Acquire))
    }
}

/// The pointer a module knows an object by, for callbacks that pass it. Set right after the object entered its table.
#[derive(Default)]
pub(crate) struct SelfHandle(OnceLock<usize>);

impl SelfHandle {
    pub(crate) fn set(&self, handle: *mut c_void) {
        // Nobody else sets it: the object is not known to anyone before.
        let _ = self.0.set(handle.addr());
    }

    pub(crate) fn get<P>(&self) -> *mut P {
        std::ptr::without_provenance_mut(self.0.get().copied().unwrap_or(0))
    }
}

/// One `ibt_attach`.
pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) class: u32,
    /// What the client said of itself, which stays its own: who is called is read there before each call, as `ibtl_async_client_call` does.
    /// Null for a client that is no module's.
    pub(crate) info: Opaque,
    /// An adapter keeps something of it for ever: it cannot be detached.
    pub(crate) kept: AtomicBool,
    /// It has tried to close the adapter for which that is so.
    pub(crate) left: AtomicBool,
    pub(crate) private: Opaque,
    pub(crate) opens: HostMutex<BTreeMap<u64, OpenState>>,
    pub(crate) notices: NoticeHandler,
    /// Registered services.
    pub(crate) services: AtomicU32,
    /// Callbacks that are out.
    pub(crate) callbacks: HostMutex<usize>,
    pub(crate) idle: WaitQueue,
}

/// Who hears subnet notices. The function and its argument are two words that nothing keeps together: between the store of the
/// one and that of the other, and between the two loads, another thread may run.
#[derive(Default)]
pub(crate) struct NoticeHandler {
    function: HostMutex<ibt_sm_notice_handler_t>,
    argument: Private,
}

impl NoticeHandler {
    /// The function first (`ibtl_cm_set_sm_notice_handler`).
    pub(crate) fn set(&self, function: ibt_sm_notice_handler_t, argument: *mut c_void) {
        *self.function.lock() = function;
        fakekernel::reschedule();
        self.argument.set(argument);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.function.lock().is_some()
    }

    /// The function first (`ibtl_sm_notice_task`).
    pub(crate) fn get(&self) -> (ibt_sm_notice_handler_t, *mut c_void) {
        let function = *self.function.lock();
        fakekernel::reschedule();
        (function, self.argument.get())
    }
}

/// What a client's open of one HCA has come to.
#[derive(Clone)]
pub(crate) enum OpenState {
    Open(Arc<OpenHca>),
    Closing,
}

impl Client {
    /// Who is called, as the client's own record says now.
    pub(crate) fn handler(&self) -> ibt_async_handler_t {
        let info = self.info.get().cast::<ibt_clnt_modinfo_t>().cast_const();
        if info.is_null() {
            return None;
        }
        // SAFETY: the client gave its address with `ibt_attach`, and has to keep the record as long as it is attached; a word is read, which it may
        // be writing.
        let handler = unsafe { &raw const (*info).mi_async_handler };
        // SAFETY: as above.
        unsafe { handler.read_volatile() }
    }

    /// A callback is about to be made; `detach` waits for it.
    pub(crate) fn begin_callback(&self) {
        *self.callbacks.lock() += 1;
    }

    pub(crate) fn end_callback(&self) {
        race::release(self.key());
        let mut out = self.callbacks.lock();
        *out -= 1;
        let none = *out == 0;
        drop(out);
        if none {
            self.idle.wake_all();
        }
    }

    pub(crate) fn wait_for_callbacks(&self) {
        let mut out = self.callbacks.lock();
        while *out > 0 {
            out = self.idle.wait(out);
        }
        drop(out);
        race::acquire(self.key());
    }

    /// What `ibt_attach` and the calls of the client leave for those that come after them (rule 54).
    pub(crate) fn key(&self) -> Key {
        Key("IBTF client", (&raw const *self).addr() as u64)
    }

    /// Its handle of an HCA, if open.
    pub(crate) fn open(&self, guid: u64) -> Option<Arc<OpenHca>> {
        match self.opens.lock().get(&guid) {
            Some(OpenState::Open(open)) => Some(open.clone()),
            _ => None,
        }
    }
}

/// What `ibt_close_hca` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Qp,
    Cq,
    Pd,
    Ah,
    Mr,
    Srq,
    /// Numbers of queue pairs that are gone, until the connections they had are forgotten.
    Number,
}

impl Kind {
    pub(crate) const ALL: [Kind; 7] =
        [Kind::Qp, Kind::Cq, Kind::Pd, Kind::Ah, Kind::Mr, Kind::Srq, Kind::Number];

    pub(crate) const fn plural(self) -> &'static str {
        match self {
            Kind::Qp => "queue pairs",
            Kind::Cq => "completion queues",
            Kind::Pd => "protection domains",
            Kind::Ah => "UD destinations",
            Kind::Mr => "memory regions",
            Kind::Srq => "shared receive queues",
            Kind::Number => "queue pair numbers in time-wait",
        }
    }
}

/// One `ibt_open_hca`.
pub(crate) struct OpenHca {
    pub(crate) client: Arc<Client>,
    pub(crate) device: Arc<Device>,
    pub(crate) private: Private,
    pub(crate) handle: SelfHandle,
    counts: [AtomicU32; Kind::ALL.len()],
}

impl OpenHca {
    pub(crate) fn new(client: Arc<Client>, device: Arc<Device>) -> Self {
        OpenHca {
            client,
            device,
            private: Private::default(),
            handle: SelfHandle::default(),
            counts: Default::default(),
        }
    }

    pub(crate) fn adapter(&self) -> &Adapter {
        &self.device.adapter
    }

    fn count(&self, kind: Kind) -> &AtomicU32 {
        &self.counts[kind as usize]
    }

    /// One more object of this kind.
    pub(crate) fn gained(&self, kind: Kind) {
        self.count(kind).fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn lost(&self, kind: Kind) {
        self.count(kind).fetch_sub(1, Ordering::AcqRel);
    }

    /// The kinds of which some are left.
    pub(crate) fn left(&self) -> Vec<(Kind, u32)> {
        let counts = Kind::ALL.map(|k| (k, self.count(k).load(Ordering::Acquire)));
        counts.into_iter().filter(|&(_, n)| n > 0).collect()
    }
}

pub(crate) struct PdObject {
    pub(crate) pd: Pd,
    pub(crate) open: Arc<OpenHca>,
}

pub(crate) struct CqObject {
    pub(crate) cq: Cq,
    pub(crate) open: Arc<OpenHca>,
    pub(crate) in_thread: bool,
    pub(crate) handler: HostMutex<(ibt_cq_handler_t, Opaque)>,
    pub(crate) private: Private,
    pub(crate) handle: SelfHandle,
    pub(crate) dispatch: HostMutex<Dispatch>,
    pub(crate) idle: WaitQueue,
}

impl CqObject {
    /// What arming it and each call of its handler leave for the next call, and for whoever frees it (rule 54).
    pub(crate) fn key(&self) -> Key {
        Key("CQ", (&raw const *self).addr() as u64)
    }
}

/// Where a CQ stands with its handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dispatch {
    /// A call is on its way.
    pub(crate) queued: bool,
    /// A call is running.
    pub(crate) running: bool,
    /// Another event came while it ran.
    pub(crate) again: bool,
}

pub(crate) struct Channel {
    pub(crate) qp: Qp,
    /// What it was made from: what another one like it is.
    pub(crate) made: Made,
    pub(crate) open: Arc<OpenHca>,
    pub(crate) scq: Opaque,
    pub(crate) rcq: Opaque,
    pub(crate) pd: Opaque,
    pub(crate) srq: Opaque,
    pub(crate) flags: illumos_sys_hdrs::ibt_attr_flags_t,
    pub(crate) private: Private,
    pub(crate) handle: SelfHandle,
    pub(crate) cm: HostMutex<CmLink>,
    /// `ibtl` remembers that it is in RTS, from a query: `ibcm` names no state when it brings it there.
    pub(crate) seen_ready: AtomicBool,
}

/// What a channel was made from.
pub(crate) enum Made {
    Datagrams(UdConfig),
    Connected(RcConfig, ibt_cep_flags_t),
}

/// What the communication manager has to do with a channel of connected mode (`rc_free_flags` and `ch_cm_private` of `ibtl`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CmLink {
    /// Its own number of the connection, as long as the two are linked.
    pub(crate) session: Option<u32>,
    /// An open is under way.
    pub(crate) opening: bool,
    /// A connection stands, or stood and its number is not free yet.
    pub(crate) connected: bool,
    /// It is being closed: the channel may be freed.
    pub(crate) closing: bool,
    /// It was, and its number is still taken.
    pub(crate) freed: bool,
    /// The last one is over and forgotten.
    pub(crate) closed: bool,
}

pub(crate) struct Destination {
    pub(crate) ah: Ah,
    pub(crate) open: Arc<OpenHca>,
    pub(crate) pd: Opaque,
    pub(crate) target: HostMutex<Target>,
}

/// QPN, Q_Key and the address as the client gave it.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) qpn: u32,
    pub(crate) qkey: u32,
    pub(crate) vector: ibt_adds_vect_t,
}

pub(crate) struct Region {
    pub(crate) mr: Mr,
    pub(crate) open: Arc<OpenHca>,
    pub(crate) pd: Opaque,
}

pub(crate) struct SrqObject {
    pub(crate) srq: Srq,
    pub(crate) open: Arc<OpenHca>,
    pub(crate) pd: Opaque,
    pub(crate) private: Private,
}

/// One `ibt_map_mem_iov`.
pub(crate) struct Mapping {
    pub(crate) device: Arc<Device>,
    pub(crate) pieces: Vec<(u64, u64)>,
    /// A loaded adapter's own.
    pub(crate) mapped: Option<Mapped>,
}

/// Enters an object in the host's ledger of what modules hold.
pub(crate) fn hold(kernel: &Kernel, kind: &'static str, handle: *mut c_void, detail: impl Into<String>) {
    kernel.resources().add(kind, handle.addr() as u64, detail);
}

/// Strikes it out.
pub(crate) fn drop_hold<P>(kernel: &Kernel, kind: &'static str, handle: *const P) {
    kernel.resources().remove(kind, handle.addr() as u64);
}
