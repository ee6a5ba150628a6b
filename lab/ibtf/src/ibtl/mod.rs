//! The lab's `misc/ibtl`: every `ibt_*` call that is not the communication manager's, over the software fabric.

mod address;
mod attach;
mod channel;
mod cq;
mod cq_threads;
mod device;
mod events;
mod going;
mod handover;
mod hca;
mod memory;
mod multicast;
mod notices;
mod objects;
mod partition;
mod port;
mod post;
mod posted;
mod protection;
mod rc;
mod srq;
mod util;

pub(crate) use channel::connection_is_over;
pub use cq_threads::Stranger;
pub(crate) use cq_threads::set_stranger;
pub(crate) use device::Device;
pub(crate) use events::{CmHooks, HostEvents, PortEvent, call, deliver, emptied, happened, management};
pub(crate) use going::{Keeper, add_device, remove_device, remove_pulled};
pub use handover::{ChannelShown, CqShown, channels};
pub(crate) use hca::RDMA_DEPTH;
pub(crate) use notices::{SubnetEvent, notify};
pub(crate) use objects::{Channel, Client, Opaque, SelfHandle, drop_hold, hold};
pub(crate) use partition::all_partitions;
pub use rc::{Closing, Told, close_channel, connect_channel, recycle_channel, times_established};

use cq_threads::CqThreads;
use events::AsyncQueue;
use fakekernel::{Cx, HandleError, Handles, HostMutex, Kernel, Nanos, Rule};
use objects::{CqObject, Destination, Mapping, OpenHca, PdObject, Region, SrqObject};
use rand::RngExt;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What one host's IBTL knows.
pub(crate) struct Ibtl {
    pub(crate) clients: Handles<Client>,
    pub(crate) opens: Handles<OpenHca>,
    pub(crate) pds: Handles<PdObject>,
    pub(crate) cqs: Handles<CqObject>,
    pub(crate) channels: Handles<Channel>,
    pub(crate) dests: Handles<Destination>,
    pub(crate) regions: Handles<Region>,
    pub(crate) srqs: Handles<SrqObject>,
    pub(crate) mappings: Handles<Mapping>,
    /// HCAs by node GUID.
    pub(crate) devices: HostMutex<BTreeMap<u64, Arc<Device>>>,
    pub(crate) posted: posted::Posted,
    cq_threads: Arc<CqThreads>,
    events: AsyncQueue,
    cm: HostMutex<Option<Arc<dyn CmHooks>>>,
    partitions: partition::Callbacks,
    /// How long a command to an adapter takes, at least and at most.
    command_time: HostMutex<Option<(Nanos, Nanos)>>,
}

impl Ibtl {
    fn new() -> Self {
        Ibtl {
            clients: Handles::new("ibt_clnt_hdl_t"),
            opens: Handles::new("ibt_hca_hdl_t"),
            pds: Handles::new("ibt_pd_hdl_t"),
            cqs: Handles::new("ibt_cq_hdl_t"),
            channels: Handles::new("ibt_channel_hdl_t"),
            dests: Handles::new("ibt_ud_dest_hdl_t"),
            regions: Handles::new("ibt_mr_hdl_t"),
            srqs: Handles::new("ibt_srq_hdl_t"),
            mappings: Handles::new("ibt_mi_hdl_t"),
            devices: HostMutex::new(BTreeMap::new()),
            posted: posted::Posted::default(),
            cq_threads: CqThreads::new(),
            events: AsyncQueue::new(),
            cm: HostMutex::new(None),
            partitions: partition::Callbacks::new(),
            command_time: HostMutex::new(None),
        }
    }

    /// The host's.
    pub(crate) fn of(kernel: &Kernel) -> Arc<Ibtl> {
        kernel.state(Ibtl::new)
    }

    /// The HCA of that node GUID.
    pub(crate) fn device(&self, guid: u64) -> Option<Arc<Device>> {
        self.devices.lock().get(&guid).cloned()
    }

    /// All HCAs in order of their GUIDs.
    pub(crate) fn all_devices(&self) -> Vec<Arc<Device>> {
        self.devices.lock().values().cloned().collect()
    }

    /// Who is told of port events before the clients are.
    pub(crate) fn set_cm(&self, hooks: Arc<dyn CmHooks>) {
        *self.cm.lock() = Some(hooks);
    }
}

/// What a call does first that asks the adapter for something: it waits for its turn. Only where it may.
fn command(cx: &Cx) {
    cx.may_block();
    let Some((least, most)) = *Ibtl::of(cx.kernel()).command_time.lock() else { return };
    let time = cx.kernel().machine().rng().random_range(least.0..=most.0.max(least.0));
    fakekernel::sleep(Nanos(time));
}

/// See [`crate::set_command_time`].
pub(crate) fn set_command_time(kernel: &Kernel, time: Option<(Nanos, Nanos)>) {
    *Ibtl::of(kernel).command_time.lock() = time;
}

/// Adds `misc/ibtl` to a host.
pub(crate) fn provide(kernel: &Kernel) {
    let exports = [
        attach::exports(),
        hca::exports(),
        port::exports(),
        protection::exports(),
        cq::exports(),
        channel::exports(),
        address::exports(),
        multicast::exports(),
        memory::exports(),
        post::exports(),
        srq::exports(),
        partition::exports(),
        notices::exports(),
        rc::exports(),
        util::exports(),
    ];
    kernel.provide("ibtl", "misc/ibtl", exports.concat());
    kernel.set_lent(posted::lent);
}

/// The object behind a handle. A handle that was released is a use after free on a real system, any other wrong one a wild
/// pointer: both break a rule. `None` only if the case is suppressed.
pub(crate) fn resolve<T, P>(cx: &Cx, table: &Handles<T>, handle: *const P) -> Option<Arc<T>> {
    match table.get(handle) {
        Ok(object) => Some(object),
        Err(e) => {
            complain(cx, &e);
            None
        }
    }
}

/// Takes the object out of its table; as [`resolve`] if there is none.
pub(crate) fn take<T, P>(cx: &Cx, table: &Handles<T>, handle: *const P) -> Option<Arc<T>> {
    match table.remove(handle) {
        Ok(object) => Some(object),
        Err(e) => {
            complain(cx, &e);
            None
        }
    }
}

fn complain(cx: &Cx, e: &HandleError) {
    let rule = match e {
        HandleError::Stale(..) => Rule::HeapCorruption,
        HandleError::Null(_) | HandleError::Foreign(..) => Rule::AbsurdArgument,
    };
    cx.violate(rule, e.to_string());
}

/// `let object = hdl!(cx, table, handle, status)`: the object behind a handle, or the function returns `status` (nothing, if left
/// out).
macro_rules! hdl {
    ($cx:expr, $table:expr, $handle:expr) => {
        match $crate::ibtl::resolve(&$cx, &$table, $handle) {
            Some(object) => object,
            None => return,
        }
    };
    ($cx:expr, $table:expr, $handle:expr, $status:expr) => {
        match $crate::ibtl::resolve(&$cx, &$table, $handle) {
            Some(object) => object,
            None => return $status,
        }
    };
}
pub(crate) use hdl;

/// `let arg = arg!(cx, p, "what")`: the structure behind an argument that must not be NULL, or the function returns
/// `IBT_INVALID_PARAM` after breaking rule 41.
macro_rules! arg {
    ($cx:expr, $p:expr, $what:literal) => {{
        // SAFETY: `p` is an argument of the enclosing call, which the interface wants to point to such a structure; NULL is
        // recognised.
        let value = unsafe { $crate::ptr::load($p) };
        match value {
            Some(value) => value,
            None => {
                $cx.violate(::fakekernel::Rule::AbsurdArgument, concat!($what, " is NULL"));
                return $crate::status::IBT_INVALID_PARAM;
            }
        }
    }};
}
pub(crate) use arg;

/// `out!(p, value)`: stores a result; a NULL pointer means the caller does not want it.
macro_rules! out {
    ($p:expr, $value:expr) => {{
        let value = $value;
        // SAFETY: `p` is an argument of the enclosing call, which the interface wants to be NULL or to point to room for it.
        unsafe { $crate::ptr::store($p, value) }
    }};
}
pub(crate) use out;
