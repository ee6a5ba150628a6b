//! Service records.

use super::{Found, Refusal, Sa, Verdict, record_of, require};
use crate::mad::{SaMad, Status};
use crate::records::{ServiceRecord, service_mask as mask};
use crate::types::{Guid, Nanos, PKey};

/// A record, and until when it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Service {
    record: ServiceRecord,
    /// `None`: for ever.
    expires: Option<Nanos>,
}

const FOR_EVER: u32 = 0xffff_ffff;

impl Sa {
    /// `Set(ServiceRecord)`: one record per service, port and partition.
    pub(super) fn set_service(&mut self, now: Nanos, requester: Guid, mad: &SaMad) -> Verdict {
        const IDENTITY: u64 = mask::SERVICE_ID | mask::SERVICE_GID;
        let mut record: ServiceRecord = record_of(mad)?;
        self.check_partition(requester, mad.mask, &record)?;
        require(mad.mask & IDENTITY == IDENTITY, Status::REQ_INVALID)?;
        if mad.mask & mask::LEASE == 0 {
            record.lease = FOR_EVER;
        }
        let lease = (record.lease != FOR_EVER).then(|| Nanos(u64::from(record.lease) * 1_000_000_000));
        let service = Service { record, expires: lease.map(|lease| now.after(lease)) };
        match self.services.iter_mut().find(|old| same(&old.record, &record)) {
            Some(old) => *old = service,
            None => self.services.push(service),
        }
        if mad.mask & mask::P_KEY == 0 {
            record.p_key = PKey::DEFAULT_FULL;
        }
        Ok(answer(mad, &[record]))
    }

    /// `Delete(ServiceRecord)`.
    pub(super) fn delete_service(&mut self, requester: Guid, mad: &SaMad) -> Verdict {
        let asked: ServiceRecord = record_of(mad)?;
        self.check_partition(requester, mad.mask, &asked)?;
        let at = self.services.iter().position(|old| same(&old.record, &asked)).ok_or(Status::NO_RECORDS)?;
        let service = self.services.remove(at);
        Ok(answer(mad, &[service.record]))
    }

    /// `Get` and `GetTable(ServiceRecord)`.
    pub(super) fn query_services(&mut self, now: Nanos, requester: Guid, mad: &SaMad) -> Verdict {
        let asked: ServiceRecord = record_of(mad)?;
        self.services.retain(|service| service.expires.is_none_or(|end| now < end));
        let requester = self.ports.get(&requester).ok_or(Refusal::Silence)?;
        let found: Vec<ServiceRecord> = (self.services.iter().map(|service| service.record))
            .filter(|record| matches(mad.mask, &asked, record) && requester.holds(record.p_key))
            .collect();
        Ok(answer(mad, &found))
    }

    /// A partition that is named must be one of the requester's and of the port that offers the service.
    fn check_partition(&self, requester: Guid, given: u64, record: &ServiceRecord) -> Result<(), Refusal> {
        if given & mask::P_KEY == 0 {
            return Ok(());
        }
        let holds = |guid: Guid| self.ports.get(&guid).is_some_and(|port| port.holds(record.p_key));
        require(holds(requester), Status::REQ_INVALID)?;
        let names_port = given & mask::SERVICE_GID != 0 && !record.service_gid.is_multicast();
        require(!names_port || holds(Guid(record.service_gid.guid)), Status::REQ_INVALID)
    }
}

fn same(one: &ServiceRecord, other: &ServiceRecord) -> bool {
    (one.service_id, one.service_gid, one.p_key) == (other.service_id, other.service_gid, other.p_key)
}

/// Service keys are shown to the trusted only.
fn answer(mad: &SaMad, records: &[ServiceRecord]) -> Found {
    let shown = |record: &ServiceRecord| match mad.sm_key {
        0 => ServiceRecord { key: [0; 16], ..*record },
        _ => *record,
    };
    Found::records(&records.iter().map(shown).collect::<Vec<_>>())
}

/// Widths of the 30 parts of a service's data: 16 bytes, 8 half words, 4 words, 2 double words.
fn data_parts() -> impl Iterator<Item = std::ops::Range<usize>> {
    let widths = [1; 16].into_iter().chain([2; 8]).chain([4; 4]).chain([8; 2]);
    widths.scan(0, |at, width| {
        let start = *at;
        *at += width;
        Some(start..*at)
    })
}

fn matches(given: u64, asked: &ServiceRecord, record: &ServiceRecord) -> bool {
    let agrees = |bit: u64, same: bool| given & bit == 0 || same;
    agrees(mask::SERVICE_ID, asked.service_id == record.service_id)
        && agrees(mask::SERVICE_GID, asked.service_gid == record.service_gid)
        && agrees(mask::P_KEY, asked.p_key == record.p_key)
        && agrees(mask::KEY, asked.key == record.key)
        && agrees(mask::NAME, asked.name == record.name)
        && data_parts()
            .enumerate()
            .all(|(at, part)| agrees(mask::DATA_FIRST << at, asked.data[part.clone()] == record.data[part]))
}
