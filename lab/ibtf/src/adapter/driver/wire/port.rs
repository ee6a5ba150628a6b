//! The queue pairs of a port, made and taken down.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use fabric::{PKey, PortAttr, QpSizes};
use fakekernel::race::{self, Key};
use fakekernel::{HostMutex, WaitQueue};
use illumos_sys_hdrs::{
    IBT_ALL_SIGNALED, IBT_MR_ENABLE_LOCAL_WRITE, IBT_NEXT_COMPLETION, IBT_PKEY_IX_INVALID, ibt_cq_attr_t,
    ibt_mr_attr_t,
};

use super::memory::Memory;
use super::{ENTRIES, QKEY, QUEUE, RECEIVES, SENDS, Wire};
use crate::adapter::driver::queue_pair::Kind;
use crate::adapter::driver::{Cq, Driver, Mr, Qp};
use crate::adapter::{self, Answer, UdConfig};
use crate::ibtl::{Device, Opaque};

/// The management of a port.
pub(super) struct Port {
    pub(super) wire: Weak<Wire>,
    pub(super) driver: Arc<Driver>,
    pub(super) device: Weak<Device>,
    pub(super) guid: sm::Guid,
    pub(super) number: u8,
    /// `None` until it could be made.
    made: HostMutex<Option<Arc<Made>>>,
    /// Somebody is at it.
    making: AtomicBool,
}

/// What it consists of.
pub(super) struct Made {
    pd: Opaque,
    /// Of queue pair 1, and of the other one: a CQ is for one of both kinds (IBA C11-15).
    pub(super) cqs: [Arc<Cq>; 2],
    pub(super) mr: Arc<Mr>,
    pub(super) gsi: Arc<Qp>,
    pub(super) qp: Arc<Qp>,
    /// Receives of the first queue pair, those of the second, sends.
    pub(super) memory: Memory,
    /// Places for sends and address handles that are not in use.
    pub(super) free: HostMutex<Vec<(usize, Opaque)>>,
    pub(super) handles: Vec<Opaque>,
    /// Requests that are posted.
    out: HostMutex<usize>,
    drained: WaitQueue,
    pub(super) closing: AtomicBool,
}

impl Port {
    pub(super) fn new(wire: Weak<Wire>, driver: &Arc<Driver>, device: &Arc<Device>, attr: &PortAttr) -> Self {
        Self {
            wire,
            driver: driver.clone(),
            device: Arc::downgrade(device),
            guid: sm::Guid(attr.guid.0),
            number: attr.num.0,
            made: HostMutex::new(None),
            making: AtomicBool::new(false),
        }
    }

    /// What it has, if that is made.
    pub(super) fn made(&self) -> Option<Arc<Made>> {
        self.made.lock().clone()
    }

    /// As `ibcm` and `ibmf`'s client of subnet administration do when they hear of an adapter. May block.
    pub(super) fn make(self: &Arc<Self>) -> Answer<Arc<Made>> {
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
        let first = self.make_cq(0)?;
        let made = self.on_first_cq(pd, &first);
        made.inspect_err(|_| self.driver.must(self.driver.free_cq(&first)))
    }

    fn on_first_cq(self: &Arc<Self>, pd: Opaque, first: &Arc<Cq>) -> Answer<Arc<Made>> {
        let second = self.make_cq(1)?;
        let made = self.on_cqs(pd, [first, &second]);
        made.inspect_err(|_| self.driver.must(self.driver.free_cq(&second)))
    }

    fn make_cq(self: &Arc<Self>, which: usize) -> Answer<Arc<Cq>> {
        let cq = self.driver.alloc_cq(ibt_cq_attr_t { cq_size: ENTRIES, ..Default::default() })?;
        let me = Arc::downgrade(self);
        cq.set_owner(move || {
            if let Some(port) = me.upgrade() {
                port.completed(which);
            }
        });
        Ok(cq)
    }

    fn on_cqs(self: &Arc<Self>, pd: Opaque, cqs: [&Arc<Cq>; 2]) -> Answer<Arc<Made>> {
        let driver = &*self.driver;
        let memory = Memory::new();
        let attr = ibt_mr_attr_t {
            mr_vaddr: memory.base(),
            mr_len: memory.len() as u64,
            mr_flags: IBT_MR_ENABLE_LOCAL_WRITE,
            ..Default::default()
        };
        let mr = driver.register_mr(pd, attr)?;
        let made = self.with_memory(pd, cqs, &mr, memory);
        made.inspect_err(|_| driver.must(driver.deregister_mr(&mr)))
    }

    fn with_memory(
        self: &Arc<Self>,
        pd: Opaque,
        cqs: [&Arc<Cq>; 2],
        mr: &Arc<Mr>,
        memory: Memory,
    ) -> Answer<Arc<Made>> {
        let driver = &*self.driver;
        let [config, other] = [self.config(pd, cqs[0])?, self.config(pd, cqs[1])?];
        let gsi = driver.alloc_gsi_qp(&config)?;
        let qp = driver.alloc_ud_qp(&other).inspect_err(|_| driver.must(driver.free_qp(&gsi)))?;
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
            cqs: cqs.map(Arc::clone),
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
        for cq in cqs {
            let _ = driver.notify_cq(cq, IBT_NEXT_COMPLETION);
        }
        Ok(made)
    }

    /// `ibmf` does not register where there is no default P_Key.
    fn config(&self, pd: Opaque, cq: &Arc<Cq>) -> Answer<UdConfig> {
        let attr = self.device.upgrade().and_then(|device| device.cached_port(self.number));
        let pkeys = attr.map(|attr| attr.pkeys).unwrap_or_default();
        let index = |wanted| pkeys.iter().position(|pkey| *pkey == PKey(wanted));
        let pkey_ix = index(0x7fff).or_else(|| index(0xffff)).ok_or(IBT_PKEY_IX_INVALID)? as u16;
        Ok(UdConfig {
            port: fabric::PortNum(self.number),
            pkey_ix,
            qkey: QKEY,
            pd: adapter::Pd::Driver(pd),
            scq: adapter::Cq::Driver(cq.clone()),
            rcq: adapter::Cq::Driver(cq.clone()),
            srq: None,
            sizes: QpSizes { sq: QUEUE, rq: QUEUE, sq_sgl: 1, rq_sgl: 1 },
            flags: IBT_ALL_SIGNALED,
        })
    }

    /// What the adapter says to a queue pair of datagrams on the CQ of queue pair 1, and to queue pair 1 on the CQ of the other one.
    pub(super) fn mix_kinds(&self) -> Option<[Answer<()>; 2]> {
        let made = self.made()?;
        let [special, ordinary] = &made.cqs;
        let one = |cq, kind| {
            let qp = self.driver.make(&self.config(made.pd, cq)?, kind)?;
            self.driver.free_qp(&qp)
        };
        Some([one(special, Kind::Datagrams), one(ordinary, Kind::GeneralServices(self.number))])
    }

    /// Flushes, waits until everything posted has come back, as ibmf does and without a limit, and frees everything.
    pub(super) fn unmake(&self) {
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
        race::acquire(made.key());
        *self.made.lock() = None;
        for qp in [&made.qp, &made.gsi] {
            driver.must(driver.free_qp(qp));
        }
        made.handles.iter().for_each(|handle| driver.must(driver.free_ah(*handle)));
        driver.must(driver.deregister_mr(&made.mr));
        made.cqs.iter().for_each(|cq| driver.must(driver.free_cq(cq)));
        driver.must(driver.free_pd(made.pd));
    }
}

impl Made {
    pub(super) fn posting(&self) {
        *self.out.lock() += 1;
    }

    /// Whatever is done with it comes before its end.
    fn key(&self) -> Key {
        Key("management of a port", (&raw const *self).addr() as u64)
    }

    pub(super) fn is_back(&self) {
        race::release(self.key());
        let mut out = self.out.lock();
        *out -= 1;
        let none = *out == 0;
        drop(out);
        if none {
            self.drained.wake_all();
        }
    }
}
