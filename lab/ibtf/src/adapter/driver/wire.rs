//! How management reaches the subnet over a loaded adapter: queue pairs of its own on each port, as `ibmf` has them, and MADs in
//! datagrams. Queue pair 1 takes what is for nobody in particular; requests leave by another one, where the answers come back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use fabric::{Lid, PKey, PortState, QKey, QpSizes, Sl};
use fakekernel::{HostMutex, Kernel, WaitQueue};
use illumos_sys_hdrs::{
    IBT_ALL_SIGNALED, IBT_MR_ENABLE_LOCAL_WRITE, IBT_NEXT_COMPLETION, IBT_UD_SRV, IBT_WRC_SEND,
    ibt_adds_vect_t, ibt_cq_attr_t, ibt_mr_attr_t, ibt_recv_wr_t, ibt_send_wr_t, ibt_ud_dest_t, ibt_wc_t,
    ibt_wr_ds_t,
};
use sm::{Arrival, Inbound, Inbounds, Mad, Qpn, Refused, SaTransport, SmAddress};

use super::{Cq, Driver, Mr, Qp};
use crate::adapter::{self, Answer, UdConfig};
use crate::ibtl::{Device, Opaque};

/// Bytes of a MAD, of the GRH before a received one, and of a place for either.
const MAD: usize = 256;
const GRH: usize = 40;
const PLACE: usize = GRH + MAD;
/// Receives that are posted on a queue pair, and sends that may be out.
const RECEIVES: usize = 64;
const SENDS: usize = 32;
/// What `ibmf` asks for: entries of each queue, and of the CQ of a port.
const QUEUE: u32 = 512;
const ENTRIES: u32 = 1023;
/// Of all management datagrams.
const QKEY: QKey = QKey(0x8001_0000);

/// The management of a host's loaded adapters.
pub(crate) struct Wire {
    ports: HostMutex<BTreeMap<sm::Guid, Arc<Port>>>,
    inbounds: HostMutex<Inbounds>,
}

/// Where a host keeps it.
struct Slot(Arc<Wire>);

/// The management of a port.
struct Port {
    wire: Weak<Wire>,
    driver: Arc<Driver>,
    device: Weak<Device>,
    guid: sm::Guid,
    number: u8,
    /// `None` until it could be made.
    made: HostMutex<Option<Arc<Made>>>,
    /// Somebody is at it.
    making: AtomicBool,
}

/// What it consists of.
struct Made {
    pd: Opaque,
    cq: Arc<Cq>,
    mr: Arc<Mr>,
    gsi: Arc<Qp>,
    qp: Arc<Qp>,
    /// Receives of the first queue pair, those of the second, sends.
    memory: Memory,
    /// Places for sends and address handles that are not in use.
    free: HostMutex<Vec<(usize, Opaque)>>,
    handles: Vec<Opaque>,
    /// Requests that are posted.
    out: HostMutex<usize>,
    drained: WaitQueue,
    closing: AtomicBool,
}

/// Memory that the adapter reads and writes.
struct Memory(Box<[std::cell::UnsafeCell<u8>]>);

// SAFETY: each place of it is the adapter's, or of the one who took it from it or from the list of free ones.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn new() -> Self {
        const PLACES: usize = 2 * RECEIVES + SENDS;
        Self((0..PLACES * PLACE).map(|_| std::cell::UnsafeCell::new(0)).collect())
    }

    fn base(&self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    fn at(&self, place: usize) -> u64 {
        self.base() + (place * PLACE) as u64
    }

    fn read(&self, place: usize) -> [u8; MAD] {
        let from = self.0[place * PLACE + GRH..].as_ptr().cast::<[u8; MAD]>();
        // SAFETY: the adapter has given the place back, and nobody else has it.
        unsafe { from.read() }
    }

    fn write(&self, place: usize, bytes: &[u8; MAD]) {
        let to = self.0[place * PLACE..].as_ptr().cast_mut().cast::<[u8; MAD]>();
        // SAFETY: the place was in the list of free ones and is the caller's.
        unsafe { to.write(*bytes) };
    }
}

impl Wire {
    /// The host's.
    pub(crate) fn of(kernel: &Kernel) -> Arc<Self> {
        let new = || {
            Slot(Arc::new(Self {
                ports: HostMutex::new(BTreeMap::new()),
                inbounds: HostMutex::new(Inbounds::default()),
            }))
        };
        kernel.state(new).0.clone()
    }

    /// The ports of an adapter that has attached get their queue pairs; one that cannot have them now gets them when somebody asks.
    /// May block.
    pub(super) fn add(self: &Arc<Self>, device: &Arc<Device>) {
        let Some(driver) = device.adapter.driver() else { return };
        for attr in device.cached_ports() {
            let port = Arc::new(Port {
                wire: Arc::downgrade(self),
                driver: driver.clone(),
                device: Arc::downgrade(device),
                guid: sm::Guid(attr.guid.0),
                number: attr.num.0,
                made: HostMutex::new(None),
                making: AtomicBool::new(false),
            });
            self.ports.lock().insert(port.guid, port.clone());
            let _ = port.make();
        }
    }

    /// They go with it. May block.
    pub(super) fn remove(&self, device: &Arc<Device>) {
        for attr in device.cached_ports() {
            let port = self.ports.lock().remove(&sm::Guid(attr.guid.0));
            if let Some(port) = port {
                port.unmake();
            }
        }
    }
}

impl SaTransport for Wire {
    fn attach(&self, port: sm::Guid, inbound: &Arc<dyn Inbound>) {
        self.inbounds.lock().attach(port, inbound);
    }

    fn detach(&self, port: sm::Guid, inbound: &Arc<dyn Inbound>) {
        self.inbounds.lock().detach(port, inbound);
    }

    fn send(&self, port: sm::Guid, to: SmAddress, mad: &Mad) -> Result<(), Refused> {
        let place = self.ports.lock().get(&port).cloned();
        let place = place.ok_or(Refused::NoPort(port))?;
        let known = place.made.lock().clone();
        let made = match known {
            Some(made) => made,
            None if fakekernel::cx().ctx().may_block() => place.make().map_err(|_| Refused::NoPort(port))?,
            None => return Err(Refused::NoPort(port)),
        };
        place.send(&made, to, mad);
        Ok(())
    }
}

impl Port {
    /// As `ibcm` and `ibmf`'s client of subnet administration do when they hear of an adapter. May block.
    fn make(self: &Arc<Self>) -> Answer<Arc<Made>> {
        let busy = illumos_sys_hdrs::IBT_INSUFF_RESOURCE;
        if self.making.swap(true, Ordering::AcqRel) {
            return Err(busy);
        }
        let made = self.try_make();
        if let Ok(made) = &made {
            *self.made.lock() = Some(made.clone());
        }
        self.making.store(false, Ordering::Release);
        made
    }

    fn try_make(self: &Arc<Self>) -> Answer<Arc<Made>> {
        let driver = &*self.driver;
        let pd = driver.alloc_pd()?;
        let made = self.on_domain(pd);
        made.inspect_err(|_| driver.must(driver.free_pd(pd)))
    }

    fn on_domain(self: &Arc<Self>, pd: Opaque) -> Answer<Arc<Made>> {
        let driver = &*self.driver;
        let cq = driver.alloc_cq(ibt_cq_attr_t { cq_size: ENTRIES, ..Default::default() })?;
        let me = Arc::downgrade(self);
        cq.set_owner(move || {
            if let Some(port) = me.upgrade() {
                port.completed();
            }
        });
        let made = self.on_cq(pd, &cq);
        made.inspect_err(|_| driver.must(driver.free_cq(&cq)))
    }

    fn on_cq(self: &Arc<Self>, pd: Opaque, cq: &Arc<Cq>) -> Answer<Arc<Made>> {
        let driver = &*self.driver;
        let memory = Memory::new();
        let attr = ibt_mr_attr_t {
            mr_vaddr: memory.base(),
            mr_len: memory.0.len() as u64,
            mr_flags: IBT_MR_ENABLE_LOCAL_WRITE,
            ..Default::default()
        };
        let mr = driver.register_mr(pd, attr)?;
        let made = self.with_memory(pd, cq, &mr, memory);
        made.inspect_err(|_| driver.must(driver.deregister_mr(&mr)))
    }

    fn with_memory(
        self: &Arc<Self>,
        pd: Opaque,
        cq: &Arc<Cq>,
        mr: &Arc<Mr>,
        memory: Memory,
    ) -> Answer<Arc<Made>> {
        let driver = &*self.driver;
        let config = self.config(pd, cq);
        let gsi = driver.alloc_gsi_qp(&config)?;
        let qp = driver.alloc_ud_qp(&config).inspect_err(|_| driver.must(driver.free_qp(&gsi)))?;
        let mut handles = Vec::new();
        let both = |_: &_| [&qp, &gsi].iter().for_each(|qp| driver.must(driver.free_qp(qp)));
        for _ in 0..SENDS {
            match driver.alloc_ah(pd) {
                Ok(handle) => handles.push(handle),
                Err(status) => {
                    handles.iter().for_each(|handle| driver.must(driver.free_ah(*handle)));
                    return Err(status).inspect_err(both);
                }
            }
        }
        let free = handles.iter().enumerate().map(|(n, handle)| (2 * RECEIVES + n, *handle)).collect();
        let made = Arc::new(Made {
            pd,
            cq: cq.clone(),
            mr: mr.clone(),
            gsi,
            qp,
            memory,
            free: HostMutex::new(free),
            handles,
            out: HostMutex::new(0),
            drained: WaitQueue::new("requests of a management queue pair that is flushed"),
            closing: AtomicBool::new(false),
        });
        for place in 0..2 * RECEIVES {
            self.post_receive(&made, place);
        }
        let _ = driver.notify_cq(cq, IBT_NEXT_COMPLETION);
        Ok(made)
    }

    fn config(&self, pd: Opaque, cq: &Arc<Cq>) -> UdConfig {
        let attr = self.device.upgrade().and_then(|device| device.cached_port(self.number));
        let pkeys = attr.map(|attr| attr.pkeys).unwrap_or_default();
        let index = |wanted| pkeys.iter().position(|pkey| *pkey == PKey(wanted));
        let pkey_ix = index(0x7fff).or_else(|| index(0xffff)).unwrap_or(0) as u16;
        UdConfig {
            port: fabric::PortNum(self.number),
            pkey_ix,
            qkey: QKEY,
            pd: adapter::Pd::Driver(pd),
            scq: adapter::Cq::Driver(cq.clone()),
            rcq: adapter::Cq::Driver(cq.clone()),
            srq: None,
            sizes: QpSizes { sq: QUEUE, rq: QUEUE, sq_sgl: 1, rq_sgl: 1 },
            flags: IBT_ALL_SIGNALED,
        }
    }

    /// Flushes, waits until everything posted has come back, as ibmf does and without a limit, and frees everything.
    fn unmake(&self) {
        let Some(made) = self.made.lock().clone() else { return };
        let driver = &*self.driver;
        made.closing.store(true, Ordering::Release);
        for qp in [&made.qp, &made.gsi] {
            driver.must(driver.flush_qp(qp));
        }
        let mut out = made.out.lock();
        while *out > 0 {
            out = made.drained.wait(out);
        }
        drop(out);
        *self.made.lock() = None;
        for qp in [&made.qp, &made.gsi] {
            driver.must(driver.free_qp(qp));
        }
        made.handles.iter().for_each(|handle| driver.must(driver.free_ah(*handle)));
        driver.must(driver.deregister_mr(&made.mr));
        driver.must(driver.free_cq(&made.cq));
        driver.must(driver.free_pd(made.pd));
    }

    /// The number of a receive is its place; of a send, too.
    fn post_receive(&self, made: &Made, place: usize) {
        let qp = if place < RECEIVES { &made.gsi } else { &made.qp };
        let mut piece =
            ibt_wr_ds_t { ds_va: made.memory.at(place), ds_key: made.mr.lkey, ds_len: PLACE as u32 };
        let request = ibt_recv_wr_t { wr_id: place as u64, wr_nds: 1, wr_sgl: &raw mut piece };
        if made.closing.load(Ordering::Acquire) {
            return;
        }
        made.posting();
        // SAFETY: the list is above.
        let (_, posted) = unsafe { self.driver.post_recv(qp, vec![request]) };
        if posted.is_err() {
            made.is_back();
        }
    }

    /// Any context. A MAD for which there is no place is lost.
    fn send(&self, made: &Made, to: SmAddress, mad: &Mad) {
        let attr = self.device.upgrade().and_then(|device| device.cached_port(self.number));
        if attr.is_none_or(|attr| attr.state != PortState::Active) {
            return;
        }
        if made.closing.load(Ordering::Acquire) {
            return;
        }
        let Some((place, handle)) = made.free.lock().pop() else { return };
        let mut vector = ibt_adds_vect_t { av_port_num: self.number, ..Default::default() };
        vector.set_av_dlid(to.lid.0);
        vector.set_av_srvl(to.sl.get());
        // ibmf leaves garbage there, and no GRH is sent.
        vector.set_av_sgid_ix(0xa5a5_a5a5);
        made.memory.write(place, &mad.0);
        let mut piece =
            ibt_wr_ds_t { ds_va: made.memory.at(place), ds_key: made.mr.lkey, ds_len: MAD as u32 };
        let request = ibt_send_wr_t {
            wr_id: place as u64,
            wr_trans: IBT_UD_SRV,
            wr_opcode: IBT_WRC_SEND,
            wr_nds: 1,
            wr_sgl: &raw mut piece,
            ..Default::default()
        };
        let dest = ibt_ud_dest_t {
            ud_ah: handle.get().cast(),
            ud_dst_qpn: to.qpn.get(),
            ud_qkey: QKEY.0,
            ..Default::default()
        };
        made.posting();
        let posted = self.driver.modify_ah(handle, vector).and_then(|()| {
            // SAFETY: the list is above.
            unsafe { self.driver.post_send(&made.qp, vec![request], vec![dest]) }.1
        });
        if posted.is_err() {
            made.free.lock().push((place, handle));
            made.is_back();
        }
    }

    /// The CQ's handler: all there is, then it is armed and looked into once more.
    fn completed(self: &Arc<Self>) {
        let Some(made) = self.made.lock().clone() else { return };
        self.take(&made);
        let _ = self.driver.notify_cq(&made.cq, IBT_NEXT_COMPLETION);
        self.take(&made);
    }

    fn take(&self, made: &Made) {
        const MOST: usize = 8;
        loop {
            let mut room = [ibt_wc_t::default(); MOST];
            // SAFETY: there is room for so many.
            let (count, _) = unsafe { self.driver.poll_cq(&made.cq, room.as_mut_ptr(), MOST as u32) };
            room.iter().take(count as usize).for_each(|wc| self.one(made, wc));
            if (count as usize) < MOST {
                return;
            }
        }
    }

    fn one(&self, made: &Made, wc: &ibt_wc_t) {
        let place = wc.wc_id as usize;
        if let Some(send) = place.checked_sub(2 * RECEIVES) {
            made.free.lock().push((place, made.handles[send]));
        } else if wc.wc_status == 0 {
            let mad = (wc.wc_bytes_xfer as usize == PLACE).then(|| Mad(made.memory.read(place)));
            self.post_receive(made, place);
            if let Some(mad) = mad {
                self.arrived(wc, mad);
            }
        }
        made.is_back();
    }

    fn arrived(&self, wc: &ibt_wc_t, mad: Mad) {
        let from = SmAddress {
            lid: Lid(wc.wc_opaque1),
            sl: Sl::truncating(wc.wc_sl()),
            qpn: Qpn::truncating(wc.wc_qpn),
            p_key: PKey(0xffff),
        };
        let Some(wire) = self.wire.upgrade() else { return };
        let inbounds = wire.inbounds.lock().of(self.guid);
        for inbound in inbounds {
            inbound.receive(&Arrival { from, mad, cut: false });
        }
    }
}

impl Made {
    fn posting(&self) {
        *self.out.lock() += 1;
    }

    fn is_back(&self) {
        let mut out = self.out.lock();
        *out -= 1;
        let none = *out == 0;
        drop(out);
        if none {
            self.drained.wake_all();
        }
    }
}
