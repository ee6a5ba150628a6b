//! The HCA as its driver offers it: objects, their limits and who may not be freed yet.

mod bad_send;
mod channels;
mod credits;
mod resources;
mod watch;

use crate::calls::{Call, Calls, Injection};
use crate::cq::{self, Completion};
use crate::delay::Later;
use crate::mcg::Groups;
use crate::memory::Memory;
use crate::port::Port;
use crate::qp::Effects;
use crate::switch::FabricInner;
use crate::{
    AsyncEvent, Cq, CqNum, Dma, Error, Guid, HcaConfig, HcaEvents, Moderation, Nanos, Notify, Pd, PortAttr,
    PortCounters, PortNum, Qp, Qpn, Rate, Reason, Sge, Srq, SrqNum,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use lab_lock::Mutex;
/// The first number an ordinary QP gets; below are the special and reserved ones.
const FIRST_QPN: u32 = 0x48;

/// One HCA. Clones name the same one.
#[derive(Clone)]
pub struct Hca(Arc<HcaInner>);

struct HcaInner {
    config: HcaConfig,
    fabric: Weak<FabricInner>,
    dma: Arc<dyn Dma>,
    events: Arc<dyn HcaEvents>,
    ports: Vec<Arc<Port>>,
    calls: Calls,
    memory: Memory,
    groups: Groups,
    objects: Mutex<Objects>,
    ahs: AtomicU32,
    rates_asked: Mutex<BTreeMap<Rate, u64>>,
    gone: AtomicBool,
    late_interrupts: Mutex<Option<(Nanos, Nanos)>>,
    sends_hang: AtomicBool,
    no_credits: AtomicBool,
    next_send_fails: AtomicBool,
    empty_channel: Mutex<EmptyChannel>,
}

/// When an adapter tells that a queue pair in ERROR holds no receive of a shared queue any more ([`AsyncEvent::EmptyChannel`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmptyChannel {
    /// At once.
    #[default]
    Prompt,
    /// After this long.
    Late(Nanos),
    /// Never.
    Never,
}

#[derive(Default)]
struct Objects {
    cqs: u32,
    next_cq: u32,
    next_srq: u32,
    pds: u32,
    srqs: BTreeMap<SrqNum, Srq>,
    qps: BTreeMap<Qpn, Qp>,
    /// Numbers that nobody gets although their queue pairs are gone.
    kept: BTreeSet<Qpn>,
    next_qpn: u32,
}

/// How many objects of each kind exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Protection domains.
    pub pds: u32,
    /// Completion queues.
    pub cqs: u32,
    /// Queue pairs.
    pub qps: u32,
    /// Shared receive queues.
    pub srqs: u32,
    /// Address handles.
    pub ahs: u32,
    /// Memory regions.
    pub mrs: u32,
}

impl Hca {
    pub(crate) fn new(
        config: HcaConfig,
        fabric: Weak<FabricInner>,
        dma: Arc<dyn Dma>,
        events: Arc<dyn HcaEvents>,
    ) -> Self {
        let ports =
            config.ports.iter().zip(1u8..).map(|(p, n)| Arc::new(Port::new(PortNum(n), p.clone()))).collect();
        Hca(Arc::new(HcaInner {
            config,
            fabric,
            dma,
            events,
            ports,
            calls: Calls::default(),
            memory: Memory::default(),
            groups: Groups::default(),
            objects: Mutex::new(Objects { next_qpn: FIRST_QPN, ..Default::default() }),
            ahs: AtomicU32::new(0),
            rates_asked: Mutex::default(),
            gone: AtomicBool::new(false),
            late_interrupts: Mutex::new(None),
            sends_hang: AtomicBool::new(false),
            no_credits: AtomicBool::new(false),
            next_send_fails: AtomicBool::new(false),
            empty_channel: Mutex::default(),
        }))
    }

    /// Node GUID.
    #[must_use]
    pub fn guid(&self) -> Guid {
        self.0.config.guid
    }

    /// What it was made from.
    #[must_use]
    pub fn config(&self) -> &HcaConfig {
        &self.0.config
    }

    /// Objects that exist now.
    #[must_use]
    pub fn census(&self) -> Census {
        let objects = self.0.objects.lock();
        Census {
            pds: objects.pds,
            cqs: objects.cqs,
            qps: objects.qps.len() as u32,
            srqs: objects.srqs.len() as u32,
            ahs: self.0.ahs.load(Ordering::Relaxed),
            mrs: self.0.memory.count() as u32,
        }
    }

    /// The ports as they are now, in order.
    ///
    /// # Errors
    /// Only what was injected.
    pub fn query_ports(&self) -> Result<Vec<PortAttr>, Error> {
        self.check(Call::QueryPorts)?;
        Ok(self.0.ports.iter().map(|p| p.attr()).collect())
    }

    /// Sets or clears IsSM in a port's CapabilityMask, as whoever runs a subnet manager behind it does.
    ///
    /// # Errors
    /// [`Error::InvalidParam`] if there is no such port.
    pub fn set_is_sm(&self, port: PortNum, is_sm: bool) -> Result<(), Error> {
        self.port(port).map(|port| port.set_is_sm(is_sm)).ok_or(Error::InvalidParam)
    }

    /// Packet counters of a port; `None` if there is no such port.
    #[must_use]
    pub fn port_counters(&self, port: PortNum) -> Option<PortCounters> {
        self.port(port).map(|p| p.counters())
    }

    // Faults.

    /// Makes a later call of this kind fail.
    pub fn inject(&self, call: Call, injection: Injection) {
        self.0.calls.inject(call, injection);
    }

    /// From now on sends leave and are never completed: neither they nor what is posted to the same queue pair after them, also
    /// when this is over. A queue pair's end flushes them.
    pub fn set_sends_hang(&self, hang: bool) {
        self.0.sends_hang.store(hang, Ordering::SeqCst);
    }

    pub(crate) fn sends_hang(&self) -> bool {
        self.0.sends_hang.load(Ordering::SeqCst)
    }

    /// When the end of a queue pair's receives is told from now on.
    pub fn set_empty_channel(&self, when: EmptyChannel) {
        *self.0.empty_channel.lock() = when;
    }

    /// Every completion interrupt comes late by `min..=max`; `None` restores prompt ones.
    pub fn set_late_interrupts(&self, delay: Option<(Nanos, Nanos)>) {
        *self.0.late_interrupts.lock() = delay;
    }

    /// Puts a QP in ERROR as failing hardware would, and says so.
    pub fn break_qp(&self, qp: &Qp) {
        let mut effects = Effects::default();
        {
            let mut core = qp.0.core.lock();
            core.fail(qp.num(), &mut effects);
        }
        effects.asyncs.push(AsyncEvent::CatastrophicChannel(qp.num()));
        self.raise(effects);
    }

    /// The same by number; false if there is no such QP.
    pub fn break_qpn(&self, qpn: Qpn) -> bool {
        let qp = self.find_qp(qpn);
        if let Some(qp) = &qp {
            self.break_qp(qp);
        }
        qp.is_some()
    }

    /// Has every shared receive queue fail, as failing hardware would, and says so; how many there are.
    ///
    /// # Panics
    /// If another thread panicked in here.
    pub fn break_srqs(&self) -> usize {
        let srqs = self.0.objects.lock().srqs.clone();
        let mut effects = Effects::default();
        for (num, srq) in &srqs {
            srq.fail();
            effects.asyncs.push(AsyncEvent::SrqError(*num));
        }
        self.raise(effects);
        srqs.len()
    }

    /// Has every completion queue that a QP completes to fail, as failing hardware would, and says so; how many there are.
    ///
    /// # Panics
    /// If another thread panicked in here.
    pub fn break_cqs(&self) -> usize {
        let qps: Vec<Qp> = self.0.objects.lock().qps.values().cloned().collect();
        let cqs = qps.iter().flat_map(|qp| {
            let core = qp.0.core.lock();
            [core.config.scq.clone(), core.config.rcq.clone()]
        });
        let cqs: BTreeMap<CqNum, Cq> = cqs.map(|cq| (cq.num(), cq)).collect();
        let mut effects = Effects::default();
        for (num, cq) in &cqs {
            cq.fail();
            effects.asyncs.push(AsyncEvent::CqError(*num));
        }
        self.raise(effects);
        cqs.len()
    }

    /// The HCA is about to be pulled: traffic stops, [`AsyncEvent::Detach`] is raised. Objects stay until their owner frees
    /// them; then [`Hca::remove`].
    pub fn begin_removal(&self) {
        self.0.gone.store(true, Ordering::Release);
        self.0.events.async_event(AsyncEvent::Detach);
    }

    /// Unplugs it from the fabric for good. Its objects may still be freed, its traffic is over.
    pub fn remove(&self) {
        self.0.gone.store(true, Ordering::Release);
        if let Some(fabric) = self.fabric() {
            crate::Fabric(fabric).unplug(self);
        }
    }

    // Protection domains.

    /// A new protection domain.
    ///
    /// # Errors
    /// [`Error::InsuffResource`].
    pub fn alloc_pd(&self) -> Result<Pd, Error> {
        self.check(Call::AllocPd)?;
        let mut objects = self.0.objects.lock();
        if objects.pds >= self.0.config.attr.max_pd {
            return Err(Error::InsuffResource);
        }
        objects.pds += 1;
        Ok(Pd::new())
    }

    /// Frees it.
    ///
    /// # Errors
    /// [`Error::PdInUse`] while a QP, MR, AH or SRQ refers to it; [`Error::PdHdlInvalid`] if it was freed.
    pub fn free_pd(&self, pd: &Pd) -> Result<(), Error> {
        self.check(Call::FreePd)?;
        pd.retire()?;
        self.0.objects.lock().pds -= 1;
        Ok(())
    }

    // Completion queues.

    /// A new, empty, unarmed CQ of at least `size` entries (power of two less one), pinned to interrupt `handler` (0 = any).
    ///
    /// # Errors
    /// [`Error::HcaCqExceeded`], [`Error::InvalidParam`] for an unknown handler, [`Error::InsuffResource`].
    pub fn alloc_cq(&self, size: u32, handler: u32) -> Result<Cq, Error> {
        self.check(Call::AllocCq)?;
        let attr = &self.0.config.attr;
        if size > attr.max_cq_sz {
            return Err(Error::HcaCqExceeded);
        }
        if handler > attr.max_cq_handlers {
            return Err(Error::InvalidParam);
        }
        let mut objects = self.0.objects.lock();
        if objects.cqs >= attr.max_cq {
            return Err(Error::InsuffResource);
        }
        objects.cqs += 1;
        objects.next_cq += 1;
        Ok(Cq::new(CqNum(objects.next_cq), cq::real_size(size), self.0.config.arming, handler))
    }

    /// Changes the size, keeping the content; returns the real one.
    ///
    /// # Errors
    /// [`Error::HcaCqExceeded`]; [`Error::CqSzInsufficient`] if more completions wait than would fit.
    pub fn resize_cq(&self, cq: &Cq, size: u32) -> Result<u32, Error> {
        self.check(Call::ResizeCq)?;
        if size > self.0.config.attr.max_cq_sz {
            return Err(Error::HcaCqExceeded);
        }
        cq.resize(size)
    }

    /// Records interrupt moderation.
    ///
    /// # Errors
    /// [`Error::InvalidParam`] for an unknown handler.
    pub fn modify_cq(&self, cq: &Cq, moderation: Moderation) -> Result<(), Error> {
        self.check(Call::ModifyCq)?;
        if moderation.handler > self.0.config.attr.max_cq_handlers {
            return Err(Error::InvalidParam);
        }
        cq.moderate(moderation);
        Ok(())
    }

    /// Frees it and what is in it.
    ///
    /// # Errors
    /// [`Error::CqBusy`] while a QP uses it; [`Error::CqHdlInvalid`] if it was freed.
    pub fn free_cq(&self, cq: &Cq) -> Result<(), Error> {
        self.check(Call::FreeCq)?;
        cq.retire()?;
        self.0.objects.lock().cqs -= 1;
        Ok(())
    }

    /// Arms it once.
    ///
    /// # Errors
    /// [`Error::CqHdlInvalid`].
    pub fn notify_cq(&self, cq: &Cq, notify: Notify) -> Result<(), Error> {
        self.check(Call::NotifyCq)?;
        if cq.arm(notify)? {
            self.raise(Effects { completions: vec![cq.num()], ..Effects::default() });
        }
        Ok(())
    }

    /// Removes up to `max` completions in order and appends them to `out`; returns how many.
    ///
    /// # Errors
    /// [`Error::CqEmpty`]; [`Error::InvalidParam`] if `max` is 0.
    pub fn poll_cq(&self, cq: &Cq, max: usize, out: &mut Vec<Completion>) -> Result<usize, Error> {
        self.check(Call::PollCq)?;
        if max == 0 {
            return Err(Error::InvalidParam);
        }
        cq.poll(max, out)
    }

    // For the rest of the crate.

    pub(crate) fn check(&self, call: Call) -> Result<(), Error> {
        self.0.calls.check(call)
    }

    pub(crate) fn ports(&self) -> &[Arc<Port>] {
        &self.0.ports
    }

    pub(crate) fn port(&self, num: PortNum) -> Option<&Arc<Port>> {
        self.0.ports.get(usize::from(num.0).checked_sub(1)?)
    }

    pub(crate) fn groups(&self) -> &Groups {
        &self.0.groups
    }

    pub(crate) fn events(&self) -> &dyn HcaEvents {
        &*self.0.events
    }

    pub(crate) fn fabric(&self) -> Option<Arc<FabricInner>> {
        self.0.fabric.upgrade()
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.0.gone.load(Ordering::Acquire)
    }

    pub(crate) fn find_qp(&self, qpn: Qpn) -> Option<Qp> {
        self.0.objects.lock().qps.get(&qpn).cloned()
    }

    pub(crate) fn drop_frame(&self, reason: Reason) {
        if let Some(fabric) = self.fabric() {
            fabric.drop_frame(reason);
        }
    }

    /// Raises collected events; no lock is held here.
    pub(crate) fn raise(&self, effects: Effects) {
        for cq in effects.completions {
            self.interrupt(cq);
        }
        for event in effects.asyncs {
            self.tell(event);
        }
    }

    fn tell(&self, event: AsyncEvent) {
        let when = match event {
            AsyncEvent::EmptyChannel(_) => *self.0.empty_channel.lock(),
            _ => EmptyChannel::Prompt,
        };
        match (when, self.fabric()) {
            (EmptyChannel::Never, _) => {}
            (EmptyChannel::Late(by), Some(fabric)) => {
                let due = fabric.clock.now().after(by);
                fabric.later(due, Later::Event { hca: self.clone(), event });
            }
            _ => self.0.events.async_event(event),
        }
    }

    fn interrupt(&self, cq: CqNum) {
        let late = *self.0.late_interrupts.lock();
        match (late, self.fabric()) {
            (Some((min, max)), Some(fabric)) => {
                let due = fabric.clock.now().after(fabric.between(min, max));
                fabric.later(due, Later::Interrupt { hca: self.clone(), cq });
            }
            _ => self.0.events.completion(cq),
        }
    }

    fn reserved_lkey(&self, allowed: bool) -> Option<u32> {
        let attr = &self.0.config.attr;
        (allowed && attr.res_lkey).then_some(attr.reserved_lkey)
    }

    pub(crate) fn dma_read(&self, sge: &Sge, pd: &Pd, reserved: bool, buf: &mut [u8]) -> Result<(), ()> {
        let _pin = self.0.memory.pin(sge, pd, false, self.reserved_lkey(reserved)).ok_or(())?;
        self.0.dma.read(sge.va, buf).map_err(|_| ())
    }

    pub(crate) fn dma_write(
        &self,
        va: u64,
        lkey: u32,
        pd: &Pd,
        reserved: bool,
        bytes: &[u8],
    ) -> Result<(), ()> {
        let sge = Sge { va, lkey, len: bytes.len() as u32 };
        let _pin = self.0.memory.pin(&sge, pd, true, self.reserved_lkey(reserved)).ok_or(())?;
        self.0.dma.write(va, bytes).map_err(|_| ())
    }
}

impl Objects {
    /// The next number not in use; 24 bits wrap, special numbers are skipped.
    fn fresh_qpn(&mut self) -> Qpn {
        loop {
            let qpn = Qpn::truncating(self.next_qpn);
            self.next_qpn = if self.next_qpn >= 0x00ff_fffe { FIRST_QPN } else { self.next_qpn + 1 };
            if !self.qps.contains_key(&qpn) && !self.kept.contains(&qpn) {
                return qpn;
            }
        }
    }
}
