//! Services: ranges of service IDs, where they are bound, and their records at subnet administration.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fabric::{Gid, PortAttr};
use fakekernel::{Handles, HostMutex, WaitQueue};
use illumos_sys_hdrs::{
    IBT_CM_SERVICE_BUSY, IBT_CM_SERVICE_EXISTS, IBT_INVALID_PARAM, ibt_cm_handler_t, ibt_srv_data_t,
    ibt_status_t,
};
use sm::records::{ServiceRecord, parse_table, service_mask as mask};
use sm::{Method, PKey};

use super::{Ibcm, Local, status};
use crate::ibtl::{Client, Device, Opaque};
use crate::saa::Request;

/// A host's services and bindings.
pub(super) struct Services {
    pub services: Handles<Service>,
    pub bindings: Handles<Binding>,
    /// For service IDs nobody chose.
    next_local: HostMutex<u64>,
}

/// A range of service IDs.
pub(super) struct Service {
    pub client: Arc<Client>,
    pub first: u64,
    pub count: u64,
    /// Whom a REQ is told.
    pub handler: ibt_cm_handler_t,
    /// REQs in its handler.
    inside: HostMutex<usize>,
    idle: WaitQueue,
    /// Handles of its bindings, in the order made.
    pub bound: HostMutex<Vec<usize>>,
}

/// A service at a port.
pub(super) struct Binding {
    pub service: Arc<Service>,
    /// What its handler gets.
    pub private: Opaque,
    pub gid: Gid,
    /// What subnet administration is told; `None`: nothing, and any P_Key will do.
    pub record: Option<Announcement>,
}

/// What subnet administration is told of a binding.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Announcement {
    pub p_key: PKey,
    /// Seconds; 0 leaves it to the administrator.
    pub lease: u32,
    pub key: [u8; 16],
    pub name: [u8; 64],
    pub data: SrvData,
}

/// Service data by width, host byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SrvData {
    pub bytes: [u8; 16],
    pub halves: [u16; 8],
    pub words: [u32; 4],
    pub doubles: [u64; 2],
}

impl SrvData {
    /// As the interface has it.
    pub fn to_c(self) -> ibt_srv_data_t {
        ibt_srv_data_t {
            s_data8: self.bytes,
            s_data16: self.halves,
            s_data32: self.words,
            s_data64: self.doubles,
        }
    }

    /// From the interface.
    pub fn from_c(data: &ibt_srv_data_t) -> Self {
        Self { bytes: data.s_data8, halves: data.s_data16, words: data.s_data32, doubles: data.s_data64 }
    }

    fn to_wire(self) -> [u8; 64] {
        let mut wire = [0; 64];
        let halves = self.halves.iter().flat_map(|half| half.to_be_bytes());
        let words = self.words.iter().flat_map(|word| word.to_be_bytes());
        let doubles = self.doubles.iter().flat_map(|double| double.to_be_bytes());
        let all = self.bytes.into_iter().chain(halves).chain(words).chain(doubles);
        for (to, from) in wire.iter_mut().zip(all) {
            *to = from;
        }
        wire
    }
}

/// From the wire: 16 bytes, 8 half words, 4 words and 2 double words in network order.
pub(super) fn to_srv_data(wire: &[u8; 64]) -> SrvData {
    let mut data = SrvData::default();
    let (bytes, rest) = wire.split_at(16);
    data.bytes.copy_from_slice(bytes);
    let (halves, rest) = rest.split_at(16);
    let (words, doubles) = rest.split_at(16);
    for (to, from) in data.halves.iter_mut().zip(halves.as_chunks().0) {
        *to = u16::from_be_bytes(*from);
    }
    for (to, from) in data.words.iter_mut().zip(words.as_chunks().0) {
        *to = u32::from_be_bytes(*from);
    }
    for (to, from) in data.doubles.iter_mut().zip(doubles.as_chunks().0) {
        *to = u64::from_be_bytes(*from);
    }
    data
}

/// First byte of service IDs that a host gives out itself.
const LOCAL_RANGE: u8 = 0x02;
/// The first of them.
const FIRST_LOCAL: u64 = (LOCAL_RANGE as u64) << 56;

impl Services {
    pub fn new() -> Self {
        Self {
            services: Handles::new("ibt_srv_hdl_t"),
            bindings: Handles::new("ibt_sbind_hdl_t"),
            next_local: HostMutex::new(FIRST_LOCAL),
        }
    }

    /// A new service of `client`; service ID 0 is one the host chooses.
    pub fn register(
        &self,
        client: Arc<Client>,
        handler: ibt_cm_handler_t,
        wanted: u64,
        count: u64,
    ) -> Result<Service, ibt_status_t> {
        let first = if wanted == 0 { self.local_range(count) } else { wanted };
        let is_local = first.to_be_bytes()[0] == LOCAL_RANGE;
        let end =
            first.checked_add(count - 1).filter(|_| wanted == 0 || !is_local).ok_or(IBT_INVALID_PARAM)?;
        let taken = |other: &Arc<Service>| first < other.first + other.count && other.first <= end;
        if self.services.all().iter().any(taken) {
            return Err(IBT_CM_SERVICE_EXISTS);
        }
        client.services.fetch_add(1, Ordering::AcqRel);
        Ok(Service {
            client,
            first,
            count,
            handler,
            inside: HostMutex::new(0),
            idle: WaitQueue::new("REQs in a service's handler"),
            bound: HostMutex::new(Vec::new()),
        })
    }

    fn local_range(&self, count: u64) -> u64 {
        let mut next = self.next_local.lock();
        let first = *next;
        *next += count;
        first
    }
}

impl Service {
    /// Whether it may be taken out of the table.
    pub fn check_unbound(&self) -> Result<(), ibt_status_t> {
        if self.bound.lock().is_empty() { Ok(()) } else { Err(IBT_CM_SERVICE_BUSY) }
    }

    /// Is this one of its identifiers?
    pub fn serves(&self, id: u64) -> bool {
        self.ids().contains(&id)
    }

    /// A REQ is about to be told.
    pub fn enter(&self) {
        *self.inside.lock() += 1;
    }

    /// It has been.
    pub fn leave(&self) {
        *self.inside.lock() -= 1;
        self.idle.wake_all();
    }

    /// Waits until no REQ is in its handler.
    pub fn wait(&self) {
        let mut inside = self.inside.lock();
        while *inside > 0 {
            inside = self.idle.wait(inside);
        }
    }

    fn ids(&self) -> std::ops::Range<u64> {
        self.first..self.first + self.count
    }
}

impl Ibcm {
    /// Binds a service to a port and tells subnet administration if there is something to tell.
    pub(super) fn bind(
        &self,
        service: &Arc<Service>,
        gid: Gid,
        private: Opaque,
        record: Option<Announcement>,
    ) -> Result<Binding, ibt_status_t> {
        let local = self.local(gid)?;
        let p_key = record.as_ref().map(|record| record.p_key);
        let clashes = |other: &Arc<Binding>| {
            let other_key = other.record.as_ref().map(|record| record.p_key);
            let same_key = p_key.is_none() || other_key.is_none() || p_key == other_key;
            Arc::ptr_eq(&other.service, service) && other.gid == gid && same_key
        };
        if self.services.bindings.all().iter().any(clashes) {
            return Err(IBT_CM_SERVICE_EXISTS);
        }
        let binding = Binding { service: service.clone(), private, gid, record };
        if let Some(record) = &binding.record {
            self.forget_stale(&local, service, gid);
            for id in service.ids() {
                self.announce(&local, id, gid, record).inspect_err(|_| self.withdraw(&binding))?;
            }
        }
        Ok(binding)
    }

    /// Takes back what subnet administration was told of a binding, as far as that is possible.
    pub(super) fn withdraw(&self, binding: &Binding) {
        let (Some(record), Ok(local)) = (&binding.record, self.local(binding.gid)) else { return };
        for id in binding.service.ids() {
            let request = Request::of(Method::DELETE, IDENTITY, &to_wire(id, binding.gid, record));
            // The administrator may have forgotten it already.
            let _ = self.ask(&local, &request);
        }
    }

    /// The administrator may have forgotten everything: tells it again what is bound to a port.
    pub(super) fn rewrite_services(&self, device: &Arc<Device>, attr: &PortAttr) {
        for binding in self.services.bindings.all() {
            let at = attr.gids.iter().position(|gid| *gid == binding.gid);
            let (Some(record), Some(at)) = (&binding.record, at) else { continue };
            let local = Local { device: device.clone(), attr: attr.clone(), sgid_ix: at as u32 };
            for id in binding.service.ids() {
                // The next event that calls for it tries again.
                let _ = self.announce(&local, id, binding.gid, record);
            }
        }
    }

    fn announce(&self, local: &Local, id: u64, gid: Gid, record: &Announcement) -> Result<(), ibt_status_t> {
        let wire = to_wire(id, gid, record);
        let lease = if record.lease == 0 { 0 } else { mask::LEASE };
        let key = if record.key == [0; 16] { 0 } else { mask::KEY };
        let name = if record.name == [0; 64] { 0 } else { mask::NAME };
        let given = IDENTITY | ALL_DATA | lease | key | name;
        self.ask(local, &Request::of(Method::SET, given, &wire)).map(|_| ()).map_err(status::of_service)
    }

    /// Deletes what an earlier life of this host left at the administrator.
    fn forget_stale(&self, local: &Local, service: &Service, gid: Gid) {
        for id in service.ids() {
            let query = to_wire(id, gid, &Announcement::default());
            let request = Request::of(Method::GET_TABLE, mask::SERVICE_ID | mask::SERVICE_GID, &query);
            let Ok(answer) = self.ask(local, &request) else { continue };
            let stale: Vec<ServiceRecord> = parse_table(&answer.data, answer.header.attribute_offset);
            for record in stale {
                // What cannot be deleted is overwritten.
                let _ = self.ask(local, &Request::of(Method::DELETE, IDENTITY, &record));
            }
        }
    }
}

const IDENTITY: u64 = mask::SERVICE_ID | mask::SERVICE_GID | mask::P_KEY;
/// All 30 parts of a service's data.
const ALL_DATA: u64 = ((1 << 30) - 1) * mask::DATA_FIRST;

impl Default for Announcement {
    fn default() -> Self {
        Self { p_key: PKey(0), lease: 0, key: [0; 16], name: [0; 64], data: SrvData::default() }
    }
}

fn to_wire(service_id: u64, gid: Gid, record: &Announcement) -> ServiceRecord {
    ServiceRecord {
        service_id,
        service_gid: gid,
        p_key: record.p_key,
        lease: record.lease,
        key: record.key,
        name: record.name,
        data: record.data.to_wire(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_data_survives_the_wire_in_network_order() {
        let data = SrvData {
            bytes: std::array::from_fn(|n| n as u8),
            halves: [0x0102; 8],
            words: [0x0304_0506; 4],
            doubles: [7, 8],
        };
        let wire = data.to_wire();
        assert_eq!(wire[16..18], [1, 2]);
        assert_eq!(wire[32..36], [3, 4, 5, 6]);
        assert_eq!((wire[55], wire[63]), (7, 8));
        assert_eq!(to_srv_data(&wire), data);
    }
}
