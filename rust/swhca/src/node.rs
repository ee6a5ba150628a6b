//! An adapter: its ports, and what its clients have made.

use core::sync::atomic::{AtomicU32, Ordering};

use ibtf_provider::{
    AddressVector, Arm, Client, ClientCq, CqSizes, Gid, Keys, PortEvent, PortReport, Provider, Purpose,
    QpChange, QpQuery, QpRequest, QueueSizes, ReceiveRequest, Region, Segment, SendRequest, Status,
    UdAttributes,
};
use kernel::counter::Counter;
use kernel::sync::Mutex;
use kernel::{Errno, KArc, KVec};

use crate::attributes::{Features, MAX_CQ, MAX_QUEUE, MAX_SEGMENTS};
use crate::cq::{Calls, Cq};
use crate::keys::KeyTable;
use crate::numbers::Numbers;
use crate::pma::Counts;
use crate::port::Port;
use crate::qp::{Parts, Qp};
use crate::sa::PortView;
use crate::send;
use crate::subnet::Subnet;
use crate::traffic::Traffic;

/// An adapter.
pub(crate) struct Node {
    pub(crate) unit: u32,
    pub(crate) subnet: KArc<Subnet>,
    pub(crate) counters: Counters,
    traffic: KVec<Traffic>,
    ports: Mutex<KVec<Port>>,
    objects: Mutex<Objects>,
    keys: Mutex<KeyTable>,
    /// What it does of what it could.
    pub(crate) features: Features,
    /// Behind the reserved key, if there is one.
    everything: Option<KArc<Region>>,
    calls: KArc<Calls>,
    /// `None` until attached.
    client: Mutex<Option<KArc<Client>>>,
    /// Protection domains are told apart by number.
    next_pd: AtomicU32,
}

/// What is counted of an adapter.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) sent: Counter,
    pub(crate) sent_bytes: Counter,
    pub(crate) received: Counter,
    pub(crate) dropped: Counter,
    pub(crate) pkey_violations: Counter,
    pub(crate) qkey_violations: Counter,
    pub(crate) sa_requests: Counter,
    pub(crate) sa_dropped: Counter,
    pub(crate) large_sends: Counter,
    pub(crate) checksums: Counter,
}

struct Objects {
    qps: Numbers<KArc<Qp>>,
    /// The queue pair 1 of each port.
    general: KVec<Option<KArc<Qp>>>,
    census: Census,
}

/// How many of what there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) pds: u32,
    pub(crate) address_handles: u32,
    pub(crate) cqs: u32,
    pub(crate) qps: u32,
    pub(crate) regions: u32,
}

/// A protection domain.
pub(crate) struct Pd(u32);

/// An address handle.
pub(crate) struct AddressHandle(Mutex<AddressVector>);

impl AddressHandle {
    pub(crate) fn vector(&self) -> AddressVector {
        *self.0.lock()
    }
}

impl Node {
    /// An adapter with these ports, active. **May block**; from attach.
    pub(crate) fn new(
        unit: u32,
        ports: KVec<Port>,
        calls: KArc<Calls>,
        subnet: KArc<Subnet>,
        features: Features,
    ) -> Result<Self, Errno> {
        let general = KVec::from_fn(ports.len(), |_| None)?;
        let traffic = KVec::from_fn(ports.len(), |_| Traffic::default())?;
        let objects = Objects { qps: Numbers::new(), general, census: Census::default() };
        Ok(Self {
            unit,
            subnet,
            counters: Counters::default(),
            traffic,
            ports: Mutex::new(ports)?,
            objects: Mutex::new(objects)?,
            keys: Mutex::new(KeyTable::new())?,
            features,
            everything: if features.reserved_key { Some(KArc::new(Region::everything())?) } else { None },
            calls,
            client: Mutex::new(None)?,
            next_pd: AtomicU32::new(1),
        })
    }

    /// Whom events are for.
    pub(crate) fn set_client(&self, client: KArc<Client>) {
        *self.client.lock() = Some(client);
    }

    /// A port as it is now.
    pub(crate) fn port(&self, number: u8) -> Option<Port> {
        self.ports.lock().get(index(number)?).copied()
    }

    /// What is counted of a port.
    pub(crate) fn traffic(&self, number: u8) -> Option<&Traffic> {
        self.traffic.get(index(number)?)
    }

    /// What a port has counted; nothing of one that there is not.
    pub(crate) fn counts(&self, number: u8) -> Counts {
        self.traffic(number).map(Traffic::counts).unwrap_or_default()
    }

    /// How many ports it has.
    pub(crate) fn port_count(&self) -> u8 {
        self.ports.lock().len() as u8
    }

    /// Changes a port, and says what the change returns.
    pub(crate) fn with_port<R>(&self, number: u8, change: impl FnOnce(&mut Port) -> R) -> Option<R> {
        self.ports.lock().get_mut(index(number)?).map(change)
    }

    pub(crate) fn view(&self, number: u8) -> Option<PortView> {
        let ports = self.ports.lock();
        let port = ports.get(index(number)?)?;
        Some(port.view(self.unit, number, ports.len() as u8))
    }

    /// Raises an event of a port. In none of the operations.
    pub(crate) fn raise(&self, number: u8, event: PortEvent) {
        let client = self.client.lock().clone();
        if let Some(client) = client {
            self.with_port(number, |port| port.unread = true);
            client.raise(number, event);
        }
    }

    /// Whether an event has been raised that nobody has asked about since.
    pub(crate) fn has_unread_event(&self) -> bool {
        self.ports.lock().iter().any(|port| port.unread)
    }

    /// The region that a segment of work in a protection domain is in.
    pub(crate) fn region(&self, pd: u32, segment: &Segment) -> Option<KArc<Region>> {
        self.keys.lock().find(pd, segment)
    }

    /// All of the kernel's memory, if the adapter has a key for it and the segment is in it.
    pub(crate) fn everything(&self, segment: &Segment) -> Option<KArc<Region>> {
        let everything = self.everything.as_ref()?;
        everything.window(segment.address, segment.len)?;
        Some(everything.clone())
    }

    /// The queue pair that a datagram to a port is for.
    pub(crate) fn receiver(&self, port: u8, qpn: u32) -> Option<KArc<Qp>> {
        let objects = self.objects.lock();
        if qpn == 1 {
            return objects.general.get(index(port)?)?.clone();
        }
        objects.qps.find(qpn).cloned()
    }

    /// All queue pairs but the special ones, at this moment.
    pub(crate) fn queue_pairs(&self) -> Result<KVec<KArc<Qp>>, Errno> {
        let objects = self.objects.lock();
        let mut all = KVec::with_capacity(objects.qps.len())?;
        for qp in objects.qps.iter().filter(|qp| qp.parts().special.is_none()) {
            all.push(qp.clone())?;
        }
        Ok(all)
    }

    pub(crate) fn census(&self) -> Census {
        let objects = self.objects.lock();
        let qps = objects.qps.len() as u32;
        let census = Census { qps, ..objects.census };
        drop(objects);
        Census { regions: self.keys.lock().len() as u32, ..census }
    }

    fn count(&self, change: impl FnOnce(&mut Census)) {
        change(&mut self.objects.lock().census);
    }

    /// Whether a queue pair can be there.
    fn check(&self, ud: &UdAttributes) -> Result<(), Status> {
        let port = self.port(ud.port).ok_or(Status::HCA_PORT_INVALID)?;
        // An entry that is empty now may be set later.
        if usize::from(ud.pkey_index) < port.pkeys.len() { Ok(()) } else { Err(Status::PKEY_IX_INVALID) }
    }
}

fn index(port: u8) -> Option<usize> {
    usize::from(port).checked_sub(1)
}

impl Provider for Node {
    type Pd = Pd;
    type AddressHandle = AddressHandle;
    type Cq = Cq;
    type Qp = Qp;
    type Mr = u32;

    fn query_port(&self, port: u8, report: &mut PortReport<'_>) {
        self.with_port(port, |state| {
            state.unread = false;
            state.report(port, report);
        });
    }

    fn alloc_pd(&self) -> Result<KArc<Pd>, Status> {
        let pd = KArc::new(Pd(self.next_pd.fetch_add(1, Ordering::Relaxed)))?;
        self.count(|census| census.pds += 1);
        Ok(pd)
    }

    fn free_pd(&self, _pd: &KArc<Pd>) -> Result<(), Status> {
        self.count(|census| census.pds -= 1);
        Ok(())
    }

    fn alloc_ah(&self, _pd: &KArc<Pd>, vector: AddressVector) -> Result<KArc<AddressHandle>, Status> {
        let handle = KArc::new(AddressHandle(Mutex::new(vector)?))?;
        self.count(|census| census.address_handles += 1);
        Ok(handle)
    }

    fn free_ah(&self, _handle: &KArc<AddressHandle>) -> Result<(), Status> {
        self.count(|census| census.address_handles -= 1);
        Ok(())
    }

    fn query_ah(&self, handle: &AddressHandle) -> AddressVector {
        handle.vector()
    }

    fn modify_ah(&self, handle: &AddressHandle, vector: AddressVector) -> Result<(), Status> {
        *handle.0.lock() = vector;
        Ok(())
    }

    fn alloc_cq(&self, entries: u32, client: KArc<ClientCq>) -> Result<(KArc<Cq>, u32), Status> {
        if entries > MAX_CQ {
            return Err(Status::HCA_CQ_EXCEEDED);
        }
        let entries = entries.max(1).next_power_of_two();
        let cqs = self.objects.lock().census.cqs as usize + 1;
        self.calls.reserve(cqs)?;
        let cq = KArc::new(Cq::new(entries as usize, client, self.calls.clone())?)?;
        self.count(|census| census.cqs += 1);
        Ok((cq, entries))
    }

    fn free_cq(&self, cq: &KArc<Cq>) -> Result<(), Status> {
        cq.check_unused()?;
        self.count(|census| census.cqs -= 1);
        Ok(())
    }

    fn query_cq(&self, cq: &Cq) -> CqSizes {
        CqSizes { entries: cq.capacity() as u32, count: 0, micros: 0 }
    }

    fn modify_cq(&self, _cq: &Cq, _count: u32, _micros: u32) -> Result<(), Status> {
        // Every completion fires at once; to wait less than was allowed is no error.
        Ok(())
    }

    fn poll_cq(&self, cq: &Cq, place: &mut dyn FnMut(&ibtf_provider::Completion) -> bool) -> bool {
        cq.poll(place)
    }

    fn arm_cq(&self, cq: &KArc<Cq>, arm: Arm) -> Result<(), Status> {
        Cq::arm(cq, arm);
        Ok(())
    }

    fn alloc_qp(this: &KArc<Self>, request: QpRequest<'_, Self>) -> Result<KArc<Qp>, Status> {
        let special = match request.purpose {
            Purpose::Datagram => None,
            Purpose::GeneralServices(port) if this.port(port).is_some() => Some(port),
            Purpose::GeneralServices(_) => return Err(Status::HCA_PORT_INVALID),
            // Subnet management is this module's own.
            Purpose::SubnetManagement(_) => return Err(Status::CHAN_IN_USE),
        };
        let sizes = sizes(request.sizes)?;
        let number = this.objects.lock().qps.reserve()?;
        let made = Qp::new(Parts {
            node: this.clone(),
            number,
            special,
            pd: request.pd.0,
            sizes,
            all_signaled: request.all_signaled,
            large_sends: request.large_sends,
            reserved_key: request.reserved_key,
            send_cq: request.send_cq.clone(),
            receive_cq: request.receive_cq.clone(),
            client: request.client,
        });
        let made = made.and_then(KArc::new);
        let mut objects = this.objects.lock();
        let qp = match made {
            Ok(qp) => qp,
            Err(error) => {
                objects.qps.release(number);
                return Err(error.into());
            }
        };
        if let Some(place) = special.and_then(index).and_then(|port| objects.general.get_mut(port)) {
            if place.is_some() {
                objects.qps.release(number);
                return Err(Status::CHAN_IN_USE);
            }
            *place = Some(qp.clone());
        }
        objects.qps.put(number, qp.clone());
        drop(objects);
        request.send_cq.add_user();
        request.receive_cq.add_user();
        Ok(qp)
    }

    fn free_qp(&self, qp: &KArc<Qp>, keep_number: bool) {
        let mut objects = self.objects.lock();
        let taken = objects.qps.take(qp.parts().number, keep_number);
        let port = qp.parts().special.and_then(index);
        let general = port.and_then(|port| objects.general.get_mut(port)).and_then(Option::take);
        drop(objects);
        drop((taken, general));
        self.subnet.detach_all(qp);
        qp.free();
    }

    fn release_qpn(&self, qpn: u32) {
        self.objects.lock().qps.release(qpn);
    }

    fn query_qp(&self, qp: &Qp) -> QpQuery {
        let common = qp.common();
        let number = qp.wire_number();
        QpQuery { qpn: number, state: common.state, sizes: qp.parts().sizes, ud: common.ud }
    }

    fn modify_qp(&self, qp: &Qp, change: &QpChange) -> Result<QueueSizes, Status> {
        qp.modify(change, |ud| self.check(ud))
    }

    fn attach_group(&self, qp: &KArc<Qp>, group: Gid, _lid: u16) -> Result<(), Status> {
        if !group.is_multicast() {
            return Err(Status::MC_MGID_INVALID);
        }
        self.subnet.attach(qp, group)
    }

    fn detach_group(&self, qp: &KArc<Qp>, group: Gid, _lid: u16) -> Result<(), Status> {
        self.subnet.detach(qp, group)
    }

    fn register(&self, pd: &KArc<Pd>, region: KArc<Region>) -> Result<(KArc<u32>, Keys), Status> {
        let room = kernel::ArcRoom::new()?;
        let key = self.keys.lock().insert(region, pd.0)?;
        Ok((room.fill(key), Keys { local: key, remote: key }))
    }

    fn deregister(&self, mr: &KArc<u32>) -> Result<(), Status> {
        self.keys.lock().remove(**mr)
    }

    fn post_sends<'a>(
        &self,
        qp: &Qp,
        requests: &mut dyn Iterator<Item = SendRequest<'a>>,
    ) -> (u32, Result<(), Status>) {
        send::post(self, qp, requests)
    }

    fn post_receives<'a>(
        &self,
        qp: &Qp,
        requests: &mut dyn Iterator<Item = ReceiveRequest<'a>>,
    ) -> (u32, Result<(), Status>) {
        qp.post_receives(requests)
    }
}

/// The queues that a request gets: at least one entry, at most what the adapter has.
fn sizes(wanted: QueueSizes) -> Result<QueueSizes, Status> {
    if wanted.send > MAX_QUEUE || wanted.receive > MAX_QUEUE {
        return Err(Status::HCA_WR_EXCEEDED);
    }
    if wanted.send_segments > MAX_SEGMENTS || wanted.receive_segments > MAX_SEGMENTS {
        return Err(Status::HCA_SGL_EXCEEDED);
    }
    Ok(QueueSizes {
        send: wanted.send.max(1),
        receive: wanted.receive.max(1),
        send_segments: wanted.send_segments.max(1),
        receive_segments: wanted.receive_segments.max(1),
    })
}
