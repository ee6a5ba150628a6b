//! From what an HCA reports to what handlers are told.
//!
//! Port events of one HCA merge while they wait: the last of UP and DOWN wins and discards an earlier change or
//! re-registration of its port. Delivery is in a fixed order, first to the communication manager, then to the clients, IBMA
//! before DM and CM before the rest; all are waited for, so no client has two port events of one HCA in its hands at once.

use super::objects::{Channel, Client, CqObject, Dispatch, Opaque, OpenHca};
use super::{Device, Ibtl};
use crate::tasks::{Latch, Tasks};
use fabric::{AsyncEvent, CqNum, Gid, HcaEvents, ManagementPeer, PortChange, PortNum, Qpn};
use fakekernel::{Account, Ctx, EntryKind, Kernel, ModuleFn, TaskFlag, cx, race, system_taskq};
use illumos_sys_hdrs::{
    IBT_CLNT_REREG_EVENT, IBT_CM, IBT_DM, IBT_ERROR_CATASTROPHIC_CHAN, IBT_ERROR_CATASTROPHIC_SRQ,
    IBT_ERROR_CQ, IBT_ERROR_INVALID_REQUEST_CHAN, IBT_ERROR_LOCAL_CATASTROPHIC, IBT_ERROR_PORT_DOWN,
    IBT_EVENT_EMPTY_CHAN, IBT_EVENT_LIMIT_REACHED_SRQ, IBT_EVENT_PORT_UP, IBT_HCA_ATTACH_EVENT,
    IBT_HCA_DETACH_EVENT, IBT_IBMA, IBT_PORT_CHANGE_EVENT, ibt_async_code_e, ibt_async_event_t,
    ibt_hca_hdl_t, ibt_port_change_e,
};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};

/// The priority HCAs interrupt at.
const HCA_PIL: u8 = 6;

/// A port event as the communication manager hears it, after the port cache was refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortEvent {
    Up,
    Down,
    Change(PortChange),
    Reregister,
}

/// What hears of port events before any client: it restarts its SA sessions and purges its path cache, and returns.
pub(crate) trait CmHooks: Send + Sync {
    /// Runs on an IBTL thread that may block.
    fn port_event(&self, kernel: &Kernel, device: &Arc<Device>, port: u8, event: PortEvent);
    /// The first message came on a channel that is not in RTS yet. Runs on an IBTL thread that may block.
    fn established(&self, kernel: &Kernel, channel: &Arc<Channel>);
    /// A management datagram of 256 bytes came for a port's queue pair 1. Any context: records and returns.
    fn management(&self, device: &Arc<Device>, port: u8, from: ManagementPeer, mad: &[u8]) -> bool;
    /// A new HCA, before clients hear of it.
    fn hca_added(&self, kernel: &Kernel, device: &Arc<Device>);
    /// What of the communication manager's keeps an HCA that every client let go of; `ibcm_hca_detach` waits for that.
    fn keeps(&self, guid: u64) -> Option<String>;
    /// The communication manager is told that an HCA goes (`ibcm_hca_detach`), which waits a while for what is asked of its ports. May block.
    ///
    /// # Errors
    /// What keeps it.
    fn lets_go(&self, guid: u64) -> Result<(), String>;
    /// The HCA stays.
    fn hca_stays(&self, guid: u64);
    /// The HCA is out of its place: nothing is asked of its ports from now on.
    fn hca_pulled(&self, guid: u64);
    /// An HCA is going, after every client let go of it.
    fn hca_removed(&self, kernel: &Kernel, guid: u64);
    /// The last client of a network class is gone.
    fn clients_are_gone(&self);
    /// GID index 0 of each port whose subscription to reports does not stand: a new listener is told so.
    fn unsubscribed_ports(&self, kernel: &Kernel) -> Vec<Gid>;
}

/// What waits for one port.
#[derive(Clone, Copy, Debug, Default)]
struct PortPending {
    up: Option<bool>,
    change: PortChange,
    reregister: bool,
}

/// What waits for one HCA.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    catastrophic: bool,
    ports: BTreeMap<u8, PortPending>,
    /// An IBTL thread is about to look or looking.
    queued: bool,
}

impl Pending {
    /// Of an adapter that clients have not heard of yet: what is added waits for [`deliver`].
    pub(crate) fn held() -> Self {
        Self { queued: true, ..Self::default() }
    }

    /// An IBTL thread is about to look or looking.
    pub(crate) const fn is_queued(&self) -> bool {
        self.queued
    }

    fn port(&mut self, num: PortNum) -> &mut PortPending {
        self.ports.entry(num.0).or_default()
    }

    /// Merges an event in; true if nobody is looking yet.
    fn add(&mut self, event: AsyncEvent) -> bool {
        match event {
            AsyncEvent::PortUp(n) => *self.port(n) = PortPending { up: Some(true), ..Default::default() },
            AsyncEvent::PortDown(n) => *self.port(n) = PortPending { up: Some(false), ..Default::default() },
            AsyncEvent::PortChange(n, change) => {
                let pending = self.port(n);
                pending.change = pending.change.with(change);
            }
            AsyncEvent::ClientReregister(n) => self.port(n).reregister = true,
            AsyncEvent::LocalCatastrophic => self.catastrophic = true,
            AsyncEvent::CatastrophicChannel(_)
            | AsyncEvent::InvalidRequest(_)
            | AsyncEvent::EmptyChannel(_)
            | AsyncEvent::Established(_)
            | AsyncEvent::SrqLimit(_)
            | AsyncEvent::SrqError(_)
            | AsyncEvent::CqError(_)
            | AsyncEvent::Detach => return false,
        }
        !std::mem::replace(&mut self.queued, true)
    }

    /// Everything that waits, in the order of delivery; `None` ends the looking.
    fn take(&mut self) -> Option<Vec<Delivery>> {
        let ports = std::mem::take(&mut self.ports);
        let mut out = Vec::new();
        if std::mem::take(&mut self.catastrophic) {
            out.push(Delivery { code: IBT_ERROR_LOCAL_CATASTROPHIC, port: 0, event: None });
        }
        for up in [false, true] {
            let code = if up { IBT_EVENT_PORT_UP } else { IBT_ERROR_PORT_DOWN };
            let event = if up { PortEvent::Up } else { PortEvent::Down };
            let hit = ports.iter().filter(|(_, p)| p.up == Some(up));
            out.extend(hit.map(|(&port, _)| Delivery { code, port, event: Some(event) }));
        }
        let changed = ports.iter().filter(|(_, p)| !p.change.is_empty());
        out.extend(changed.map(|(&port, p)| {
            let event = Some(PortEvent::Change(p.change));
            Delivery { code: IBT_PORT_CHANGE_EVENT, port, event }
        }));
        let asked = ports.iter().filter(|(_, p)| p.reregister);
        out.extend(asked.map(|(&port, _)| Delivery {
            code: IBT_CLNT_REREG_EVENT,
            port,
            event: Some(PortEvent::Reregister),
        }));
        self.queued = !out.is_empty();
        self.queued.then_some(out)
    }
}

/// One event on its way to everybody.
#[derive(Clone, Copy, Debug)]
struct Delivery {
    code: ibt_async_code_e,
    port: u8,
    event: Option<PortEvent>,
}

/// IBTL's threads for asynchronous events.
pub(crate) struct AsyncQueue(Arc<Tasks>);

impl AsyncQueue {
    pub(crate) fn new() -> Self {
        AsyncQueue(Tasks::new("ibtl_async_thread", 4))
    }
}

/// What the fabric tells about one HCA, turned into work for the host's threads.
pub(crate) struct HostEvents {
    kernel: Kernel,
    device: OnceLock<Weak<Device>>,
}

impl HostEvents {
    pub(crate) fn new(kernel: &Kernel) -> Self {
        HostEvents { kernel: kernel.clone(), device: OnceLock::new() }
    }

    /// Events before this are of no interest: nobody can have opened the HCA.
    pub(crate) fn bind(&self, device: &Arc<Device>) {
        let _ = self.device.set(Arc::downgrade(device));
    }

    fn device(&self) -> Option<Arc<Device>> {
        self.device.get()?.upgrade()
    }
}

/// A management datagram came in for a port's queue pair 1. False if the communication manager does not take it. Any context.
pub(crate) fn management(
    kernel: &Kernel,
    device: &Arc<Device>,
    port: u8,
    from: ManagementPeer,
    mad: &[u8],
) -> bool {
    let hooks = Ibtl::of(kernel).cm.lock().clone();
    hooks.is_some_and(|hooks| hooks.management(device, port, from, mad))
}

impl HcaEvents for HostEvents {
    fn management(&self, port: PortNum, from: ManagementPeer, mad: &[u8]) -> bool {
        self.device().is_some_and(|device| management(&self.kernel, &device, port.0, from, mad))
    }

    fn completion(&self, cq: CqNum) {
        if let Some(cq) = self.device().and_then(|d| d.cq(cq)) {
            dispatch_cq(&self.kernel, &cq);
        }
    }

    fn async_event(&self, event: AsyncEvent) {
        if let Some(device) = self.device() {
            happened(&self.kernel, &device, event);
        }
    }
}

/// An adapter reports something; IBTL's threads deliver it. Any context.
pub(crate) fn happened(kernel: &Kernel, device: &Arc<Device>, event: AsyncEvent) {
    let ibtl = Ibtl::of(kernel);
    let (inner, device) = (kernel.clone(), device.clone());
    match event {
        AsyncEvent::CatastrophicChannel(qpn) => {
            let code = IBT_ERROR_CATASTROPHIC_CHAN;
            ibtl.events.0.run(kernel, move || deliver_of_channel(&inner, &device, qpn, code));
        }
        AsyncEvent::InvalidRequest(qpn) => {
            let code = IBT_ERROR_INVALID_REQUEST_CHAN;
            ibtl.events.0.run(kernel, move || deliver_of_channel(&inner, &device, qpn, code));
        }
        AsyncEvent::EmptyChannel(qpn) => emptied(kernel, &device, qpn),
        // The communication manager's alone.
        AsyncEvent::Established(qpn) => {
            ibtl.events.0.run(kernel, move || {
                let hooks = Ibtl::of(&inner).cm.lock().clone();
                if let (Some(hooks), Some(channel)) = (hooks, device.channel(qpn)) {
                    hooks.established(&inner, &channel);
                }
            });
        }
        AsyncEvent::SrqLimit(num) => {
            if let Some(srq) = device.srq(num) {
                runs_out(kernel, srq);
            }
        }
        AsyncEvent::SrqError(num) => {
            if let Some(srq) = device.srq(num) {
                tell_of_shared_queue(kernel, srq, IBT_ERROR_CATASTROPHIC_SRQ);
            }
        }
        AsyncEvent::CqError(num) => {
            ibtl.events.0.run(kernel, move || deliver_cq_error(&inner, &device, num));
        }
        // Whoever removes the HCA delivers and waits.
        AsyncEvent::Detach => {}
        _ => {
            let look = device.pending.lock().add(event);
            if look {
                ibtl.events.0.run(kernel, move || deliver_pending(&inner, &device));
            }
        }
    }
}

/// What an adapter reported before its clients had heard of it is delivered: until then it waits ([`Pending::held`]).
pub(crate) fn deliver(kernel: &Kernel, device: &Arc<Device>) {
    let (inner, device) = (kernel.clone(), device.clone());
    Ibtl::of(kernel).events.0.run(kernel, move || deliver_pending(&inner, &device));
}

// Completions.

/// A CQ fired: its handler will run soon, never twice at once.
fn dispatch_cq(kernel: &Kernel, cq: &Arc<CqObject>) {
    {
        let mut d = cq.dispatch.lock();
        if d.running {
            d.again = true;
            return;
        }
        if std::mem::replace(&mut d.queued, true) {
            return;
        }
    }
    let (job_kernel, job_cq) = (kernel.clone(), cq.clone());
    let job = move || run_cq_handler(&job_kernel, &job_cq);
    if cq.in_thread {
        Ibtl::of(kernel).cq_threads.run(job);
    } else {
        let cpus = kernel.machine().config().cpus.max(1);
        kernel.interrupt("hca completion", Ctx::Soft { pil: HCA_PIL }, cq.cq.num().0 % cpus, job);
    }
}

/// A loaded adapter calls, in its interrupt: the handler runs there, one of IBTL's threads' aside.
pub(crate) fn fired(kernel: &Kernel, cq: &Arc<CqObject>) {
    if cq.in_thread {
        dispatch_cq(kernel, cq);
    } else {
        run_cq_handler(kernel, cq);
    }
}

fn run_cq_handler(kernel: &Kernel, cq: &Arc<CqObject>) {
    *cq.dispatch.lock() = Dispatch { queued: false, running: true, again: false };
    loop {
        let (handler, arg) = *cq.handler.lock();
        if let Some(handler) = handler {
            let kind = EntryKind::callback("CQ handler").on_packet_path().in_turn(cq.key());
            // SAFETY: the client gave the function for the handler of this queue and the argument with it, and has not taken them back
            // (`ibt_free_cq` waits for a call where the interface promises it).
            unsafe { kernel.enter(handler, (cq.handle.get(), arg.get()), kind) };
        }
        let mut d = cq.dispatch.lock();
        if !std::mem::take(&mut d.again) {
            d.running = false;
            break;
        }
    }
    cq.idle.wake_all();
}

/// Calls a handler that a client registered.
pub(crate) fn call<F: ModuleFn>(kernel: &Kernel, f: F, args: F::Args, name: &'static str) -> F::Ret {
    // SAFETY: the client gave the function for exactly this use and has not withdrawn it (detach, free and deregistration
    // wait for callbacks where the interface promises it); the arguments are what the interface says it gets.
    unsafe { kernel.enter(f, args, EntryKind::callback(name)) }
}

// Asynchronous events.

fn deliver_pending(kernel: &Kernel, device: &Arc<Device>) {
    loop {
        let Some(batch) = device.pending.lock().take() else { return };
        for delivery in batch {
            device.refresh_ports();
            tell_cm(kernel, device, &delivery);
            tell_clients(kernel, device, delivery);
        }
    }
}

fn tell_cm(kernel: &Kernel, device: &Arc<Device>, delivery: &Delivery) {
    let hooks = Ibtl::of(kernel).cm.lock().clone();
    if let (Some(hooks), Some(event)) = (hooks, delivery.event) {
        hooks.port_event(kernel, device, delivery.port, event);
    }
}

/// The waves of clients that hear of an event or of a new HCA, each over before the next begins: IBMA, then DM and CM (one after the other
/// when an HCA comes), then all others.
fn waves(kernel: &Kernel, attaching: bool) -> [Vec<Arc<Client>>; 4] {
    let mut waves: [Vec<Arc<Client>>; 4] = Default::default();
    for client in Ibtl::of(kernel).clients.all() {
        let wave = match client.class {
            class if class == IBT_IBMA.0 => 0,
            class if class == IBT_DM.0 => 1,
            class if class == IBT_CM.0 => 1 + usize::from(attaching),
            _ => 3,
        };
        waves[wave].push(client);
    }
    waves
}

fn tell_clients(kernel: &Kernel, device: &Arc<Device>, delivery: Delivery) {
    for wave in waves(kernel, delivery.code == IBT_HCA_ATTACH_EVENT) {
        tell_wave(kernel, device, wave, delivery);
    }
}

/// Every client hears of an HCA that is there: also of one that was to go and stays, and also a client that has it open. May block.
pub(super) fn tell_attached(kernel: &Kernel, device: &Arc<Device>) {
    tell_clients(kernel, device, Delivery { code: IBT_HCA_ATTACH_EVENT, port: 0, event: None });
}

/// These clients hear that an HCA goes, as far as they have it open. May block.
pub(super) fn tell_detached(kernel: &Kernel, device: &Arc<Device>, clients: Vec<Arc<Client>>) {
    tell_wave(kernel, device, clients, Delivery { code: IBT_HCA_DETACH_EVENT, port: 0, event: None });
}

fn tell_wave(kernel: &Kernel, device: &Arc<Device>, wave: Vec<Arc<Client>>, delivery: Delivery) {
    let tasks = system_taskq(kernel);
    let wave: Vec<_> = wave.into_iter().filter(|client| client.handler().is_some()).collect();
    let latch = Latch::new(wave.len());
    for client in wave {
        client.begin_callback();
        let (kernel2, device, latch2) = (kernel.clone(), device.clone(), latch.clone());
        let account = Account::kernel("asynchronous event");
        tasks.dispatch(TaskFlag::Sleep, account, move || {
            tell_client(&kernel2, &client, &device, delivery);
            client.end_callback();
            latch2.count_down();
        });
    }
    latch.wait();
}

fn tell_client(kernel: &Kernel, client: &Client, device: &Device, delivery: Delivery) {
    let open = client.open(device.guid);
    if delivery.code != IBT_HCA_ATTACH_EVENT && open.is_none() {
        return;
    }
    if delivery.code == IBT_HCA_ATTACH_EVENT && client.handler().is_none() {
        // It was there when the task was dispatched, and the task does not look.
        cx().panic(format!("ibtl_tell_client_about_new_hca: {} has no handler any more", client.name));
    }
    let mut event =
        ibt_async_event_t { ev_hca_guid: device.guid, ev_port: delivery.port, ..Default::default() };
    if let Some(PortEvent::Change(change)) = delivery.event {
        event.ev_port_flags = ibt_port_change_e(change.0);
    }
    let handle = if delivery.code == IBT_HCA_ATTACH_EVENT { None } else { open };
    let hca = handle.map_or(std::ptr::null_mut(), |o| o.handle.get());
    tell(kernel, client, hca, delivery.code, &mut event, ASYNC_HANDLER);
}

const ASYNC_HANDLER: EntryKind = EntryKind::callback("async handler");

fn tell(
    kernel: &Kernel,
    client: &Client,
    hca: ibt_hca_hdl_t,
    code: ibt_async_code_e,
    event: &mut ibt_async_event_t,
    kind: EntryKind,
) {
    if let Some(handler) = client.handler() {
        race::acquire(client.key());
        // SAFETY: the client gave the function as its handler and is attached; the arguments are what the interface says it gets.
        unsafe { kernel.enter(handler, (client.private.get(), hca, code, event), kind) };
    }
}

// Errors of a channel or a CQ are not told once it is freed. A call that has begun is not counted: neither freeing nor closing
// nor detaching waits for it.

fn tell_owner(kernel: &Kernel, open: &OpenHca, code: ibt_async_code_e, event: &mut ibt_async_event_t) {
    tell(kernel, &open.client, open.handle.get(), code, event, ASYNC_HANDLER.fleeting());
}

fn deliver_of_channel(kernel: &Kernel, device: &Device, qpn: Qpn, code: ibt_async_code_e) {
    let Some(channel) = device.channel(qpn) else { return };
    let mut event = ibt_async_event_t { ev_chan_hdl: channel.handle.get(), ..Default::default() };
    tell_owner(kernel, &channel.open, code, &mut event);
}

/// A channel that has failed holds none of a shared queue's receives any more. Any context.
pub(crate) fn emptied(kernel: &Kernel, device: &Arc<Device>, qpn: Qpn) {
    let (inner, device) = (kernel.clone(), device.clone());
    let deliver = move || deliver_of_channel(&inner, &device, qpn, IBT_EVENT_EMPTY_CHAN);
    Ibtl::of(kernel).events.0.run(kernel, deliver);
}

/// A shared queue has fewer receives than its client's limit. Any context.
pub(super) fn runs_out(kernel: &Kernel, srq: Opaque) {
    tell_of_shared_queue(kernel, srq, IBT_EVENT_LIMIT_REACHED_SRQ);
}

fn tell_of_shared_queue(kernel: &Kernel, srq: Opaque, code: ibt_async_code_e) {
    let inner = kernel.clone();
    let deliver = move || {
        let Ok(object) = Ibtl::of(&inner).srqs.get(srq.get()) else { return };
        let mut event = ibt_async_event_t { ev_srq_hdl: srq.get().cast(), ..Default::default() };
        tell_owner(&inner, &object.open, code, &mut event);
    };
    Ibtl::of(kernel).events.0.run(kernel, deliver);
}

fn deliver_cq_error(kernel: &Kernel, device: &Device, num: CqNum) {
    let Some(cq) = device.cq(num) else { return };
    let mut event = ibt_async_event_t { ev_cq_hdl: cq.handle.get(), ..Default::default() };
    tell_owner(kernel, &cq.open, IBT_ERROR_CQ, &mut event);
}
