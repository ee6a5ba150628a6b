//! An HCA as IBTL keeps it: attributes fixed at attach, the cached ports, the objects events are about.

use super::events::Pending;
use super::objects::{Channel, CqObject, Opaque};
use crate::adapter::Adapter;
use fabric::{CqNum, PortAttr, Qpn, SrqNum};
use fakekernel::HostMutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// One HCA of a host.
pub(crate) struct Device {
    pub(crate) guid: u64,
    pub(crate) adapter: Adapter,
    /// The HCA's own device node, for `hca_dip`.
    pub(crate) dip: super::objects::Opaque,
    /// What the HCA last said, and which question that answers.
    ports: HostMutex<(u64, Vec<PortAttr>)>,
    /// Questions asked of it.
    asked: AtomicU64,
    pub(crate) pending: HostMutex<Pending>,
    /// No new opens: the HCA is being removed.
    pub(crate) detaching: HostMutex<bool>,
    cqs: HostMutex<BTreeMap<CqNum, Weak<CqObject>>>,
    channels: HostMutex<BTreeMap<Qpn, Weak<Channel>>>,
    /// Handles of the model's shared receive queues.
    srqs: HostMutex<BTreeMap<SrqNum, Opaque>>,
    /// Live `ibt_map_mem_iov` pieces: start to (end, how often).
    mapped: HostMutex<BTreeMap<(u64, u64), u32>>,
}

impl Device {
    pub(crate) fn new(adapter: Adapter, dip: super::objects::Opaque) -> Self {
        let ports = adapter.query_ports().unwrap_or_default();
        let held = adapter.driver().is_some();
        Device {
            guid: adapter.guid(),
            adapter,
            dip,
            ports: HostMutex::new((0, ports)),
            asked: AtomicU64::new(0),
            pending: HostMutex::new(if held { Pending::held() } else { Pending::default() }),
            detaching: HostMutex::new(false),
            cqs: HostMutex::new(BTreeMap::new()),
            channels: HostMutex::new(BTreeMap::new()),
            srqs: HostMutex::new(BTreeMap::new()),
            mapped: HostMutex::new(BTreeMap::new()),
        }
    }

    /// Number of ports.
    pub(crate) fn nports(&self) -> u8 {
        self.adapter.nports()
    }

    /// Asks the HCA and remembers the answer; if it does not answer, what was remembered stays, and so does the answer to a question that
    /// was asked later.
    pub(crate) fn refresh_ports(&self) {
        let question = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some(fresh) = self.adapter.query_ports() {
            let mut ports = self.ports.lock();
            if ports.0 < question {
                *ports = (question, fresh);
            }
        }
    }

    /// The remembered ports.
    pub(crate) fn cached_ports(&self) -> Vec<PortAttr> {
        self.ports.lock().1.clone()
    }

    /// One remembered port.
    pub(crate) fn cached_port(&self, num: u8) -> Option<PortAttr> {
        self.ports.lock().1.get(usize::from(num).checked_sub(1)?).cloned()
    }

    /// Index of a P_Key in a remembered table; all 16 bits must agree.
    pub(crate) fn pkey_index(&self, port: u8, pkey: u16) -> Option<u16> {
        let ports = self.ports.lock();
        let table = &ports.1.get(usize::from(port).checked_sub(1)?)?.pkeys;
        table.iter().position(|p| p.0 == pkey).map(|ix| ix as u16)
    }

    pub(crate) fn know_cq(&self, cq: &Arc<CqObject>) {
        self.cqs.lock().insert(cq.cq.num(), Arc::downgrade(cq));
    }

    pub(crate) fn forget_cq(&self, num: CqNum) {
        self.cqs.lock().remove(&num);
    }

    pub(crate) fn cq(&self, num: CqNum) -> Option<Arc<CqObject>> {
        self.cqs.lock().get(&num)?.upgrade()
    }

    pub(crate) fn know_channel(&self, channel: &Arc<Channel>) {
        self.channels.lock().insert(channel.qp.num(), Arc::downgrade(channel));
    }

    pub(crate) fn forget_channel(&self, qpn: Qpn) {
        self.channels.lock().remove(&qpn);
    }

    pub(crate) fn channel(&self, qpn: Qpn) -> Option<Arc<Channel>> {
        self.channels.lock().get(&qpn)?.upgrade()
    }

    pub(crate) fn know_srq(&self, num: SrqNum, handle: Opaque) {
        self.srqs.lock().insert(num, handle);
    }

    pub(crate) fn forget_srq(&self, num: SrqNum) {
        self.srqs.lock().remove(&num);
    }

    /// The handle of the shared receive queue of this number.
    pub(crate) fn srq(&self, num: SrqNum) -> Option<Opaque> {
        self.srqs.lock().get(&num).copied()
    }

    pub(crate) fn map(&self, start: u64, end: u64) {
        *self.mapped.lock().entry((start, end)).or_default() += 1;
    }

    pub(crate) fn unmap(&self, start: u64, end: u64) {
        let mut mapped = self.mapped.lock();
        if let Some(n) = mapped.get_mut(&(start, end)) {
            *n -= 1;
            if *n == 0 {
                mapped.remove(&(start, end));
            }
        }
    }

    /// Is all of `[start, end)` inside one live mapping?
    pub(crate) fn is_mapped(&self, start: u64, end: u64) -> bool {
        self.mapped.lock().range(..=(start, u64::MAX)).rev().any(|(&(_, e), _)| end <= e)
    }
}
