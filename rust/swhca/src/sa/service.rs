//! Services (ServiceRecord, IBA 15.2.5.14): kept for whoever offers one, given to whoever looks for one.

use kernel::{KVec, MayBlock};

use super::PortView;
use crate::mad::{self, Mad, Records, Refusal};

/// Fields of a record, as bits of a request's mask.
const ID: u64 = 1 << 0;
const GID: u64 = 1 << 1;
const PKEY: u64 = 1 << 2;
const LEASE: u64 = 1 << 4;
const KEY: u64 = 1 << 5;
const NAME: u64 = 1 << 6;
/// The first of 30 parts of the service's data.
const DATA: u32 = 7;
/// Their widths: 16 bytes, 8 half words, 4 words, 2 double words.
const WIDTHS: [(usize, usize); 4] = [(16, 1), (8, 2), (4, 4), (2, 8)];

/// Where the fields are.
const GID_AT: usize = 8;
const PKEY_AT: usize = 24;
const LEASE_AT: usize = 28;
const KEY_AT: usize = 32;
const NAME_AT: usize = 48;
const DATA_AT: usize = 112;
const LEN: usize = 176;

/// A lease that does not end.
const FOR_EVER: u32 = u32::MAX;
const NANOS: u64 = 1_000_000_000;

struct Service {
    record: [u8; LEN],
    /// In nanoseconds; `None` for never.
    ends: Option<u64>,
}

/// What names a service: its id, its port and its partition.
fn name(record: &[u8]) -> &[u8] {
    record.get(..PKEY_AT + 2).unwrap_or_default()
}

/// All services of the subnet.
pub(super) struct Services(KVec<Service>);

/// Services that there can be.
const SERVICES: usize = 256;

impl Services {
    pub(super) fn new(may_block: &MayBlock) -> Self {
        Self(KVec::with_capacity_waiting(SERVICES, may_block))
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Set: one that is there is replaced.
    #[inline(never)]
    pub(super) fn set(
        &mut self,
        request: &Mad,
        ports: &[PortView],
        asker: &PortView,
        now: u64,
        answer: &mut Mad,
    ) -> Result<(), Refusal> {
        let mut record = record_of(request);
        check_partition(request, &record, ports, asker)?;
        if request.mask() & (ID | GID) != ID | GID {
            return Err(Refusal::INVALID);
        }
        if request.mask() & LEASE == 0 {
            mad::put32(&mut record, LEASE_AT, FOR_EVER);
        }
        let lease = mad::be32(&record, LEASE_AT);
        let ends = (lease != FOR_EVER).then(|| now.saturating_add(u64::from(lease) * NANOS));
        let known = self.0.iter_mut().find(|known| name(&known.record) == name(&record));
        match known {
            Some(known) => *known = Service { record, ends },
            None => {
                let kept = self.0.push_within_capacity(Service { record, ends });
                kept.map_err(|_| Refusal::NO_RESOURCES)?;
            }
        }
        if request.mask() & PKEY == 0 {
            mad::put16(&mut record, PKEY_AT, 0xffff);
        }
        show(answer, record);
        Ok(())
    }

    /// Delete. `NO_RECORDS` if there is none.
    #[inline(never)]
    pub(super) fn delete(
        &mut self,
        request: &Mad,
        ports: &[PortView],
        asker: &PortView,
        answer: &mut Mad,
    ) -> Result<(), Refusal> {
        let record = record_of(request);
        check_partition(request, &record, ports, asker)?;
        let index = self.0.iter().position(|known| name(&known.record) == name(&record));
        let gone = index.and_then(|index| self.0.swap_remove(index)).ok_or(Refusal::NO_RECORDS)?;
        show(answer, gone.record);
        Ok(())
    }

    /// Get and GetTable: those that agree and are of a partition that the asker is in.
    #[inline(never)]
    pub(super) fn query(
        &mut self,
        request: &Mad,
        asker: &PortView,
        now: u64,
        answer: &mut Mad,
        all: &mut KVec<u8>,
    ) -> Result<(), Refusal> {
        while let Some(over) = self.0.iter().position(|known| known.ends.is_some_and(|end| end <= now)) {
            self.0.swap_remove(over);
        }
        let mut records = Records::new(answer, all, LEN);
        for known in &*self.0 {
            let pkey = mad::be16(&known.record, PKEY_AT);
            let seen = pkey & 0x7fff == 0 || asker.pkey_for(pkey).is_some();
            if seen && agrees(request, &known.record) {
                records.push(&shown(known.record));
            }
        }
        records.finish()
    }
}

fn record_of(request: &Mad) -> [u8; LEN] {
    let mut record = [0; LEN];
    mad::put(&mut record, 0, request.data());
    record
}

/// The key is for those who know it.
fn shown(mut record: [u8; LEN]) -> [u8; LEN] {
    mad::put(&mut record, KEY_AT, &[0; NAME_AT - KEY_AT]);
    record
}

fn show(answer: &mut Mad, record: [u8; LEN]) {
    answer.put_record(&shown(record));
}

/// A partition that is named is one of the asker's, and of the port that offers the service.
fn check_partition(
    request: &Mad,
    record: &[u8],
    ports: &[PortView],
    asker: &PortView,
) -> Result<(), Refusal> {
    if request.mask() & PKEY == 0 {
        return Ok(());
    }
    let pkey = mad::be16(record, PKEY_AT);
    let offers = mad::gid(record, GID_AT);
    let has = |port: &PortView| port.pkey_for(pkey).is_some();
    let there = request.mask() & GID == 0
        || offers.is_multicast()
        || ports.iter().any(|port| port.gid.guid == offers.guid && has(port));
    if has(asker) && there { Ok(()) } else { Err(Refusal::INVALID) }
}

/// Whether a record has what a request names.
fn agrees(request: &Mad, record: &[u8]) -> bool {
    let (data, mask) = (request.data(), request.mask());
    let same = |at: usize, len: usize| data.get(at..at + len) == record.get(at..at + len);
    let fields = [(ID, 0, 8), (GID, GID_AT, 16), (PKEY, PKEY_AT, 2), (KEY, KEY_AT, 16), (NAME, NAME_AT, 64)];
    let widths = WIDTHS.iter().flat_map(|(count, width)| core::iter::repeat_n(*width, *count));
    let mut at = DATA_AT;
    let mut parts = (DATA..).zip(widths).map(|(bit, width)| {
        at += width;
        (1 << bit, at - width, width)
    });
    fields.into_iter().all(|(bit, at, len)| mask & bit == 0 || same(at, len))
        && parts.all(|(bit, at, len): (u64, usize, usize)| mask & bit == 0 || same(at, len))
}

#[cfg(test)]
mod tests {
    use ibtf_provider::Gid;
    use kernel::KVec;

    use super::{LEASE, NANOS, Services};
    use crate::mad::{self, DATA, DELETE, GET, GET_TABLE, Mad, Refusal, SET};
    use crate::sa::{PKEYS, PortView};

    const NAMED: u64 = super::ID | super::GID | super::PKEY;

    fn port(number: u8, pkeys: &[u16]) -> PortView {
        let mut table = [0; PKEYS];
        table[..pkeys.len()].copy_from_slice(pkeys);
        PortView {
            gid: Gid { prefix: 0xfe80 << 48, guid: number.into() },
            lid: number.into(),
            manager: 0x400,
            node_guid: 0x10,
            number,
            ports: 2,
            active: true,
            pkeys: table,
            mtu: 5,
            speed: 4,
            told_rate: None,
        }
    }

    fn ports() -> [PortView; 2] {
        [port(1, &[0xffff, 0x8001]), port(2, &[0xffff])]
    }

    /// Service `id` on port 1, in a partition, with a key, a name and its third byte of data.
    fn request(method: u8, mask: u64, id: u64, pkey: u16, lease: u32) -> Mad {
        let mut mad = Mad::new();
        (mad.0[1], mad.0[3]) = (mad::CLASS_SA, method);
        mad::put16(&mut mad.0, 16, 0x31);
        mad::put64(&mut mad.0, 48, mask);
        mad::put64(&mut mad.0, DATA, id);
        mad::put_gid(&mut mad.0, DATA + 8, ports()[0].gid);
        mad::put16(&mut mad.0, DATA + 24, pkey);
        mad::put32(&mut mad.0, DATA + 28, lease);
        mad.0[DATA + 32..DATA + 48].fill(9);
        mad::put(&mut mad.0, DATA + 48, b"a service");
        mad.0[DATA + 114] = 3;
        mad
    }

    struct Subnet(Services);

    impl Subnet {
        fn new() -> Self {
            Self(Services::new(&kernel::MayBlock::on_host()))
        }

        fn set(&mut self, request: &Mad, now: u64) -> Result<Mad, Refusal> {
            let mut answer = Mad::new();
            self.0.set(request, &ports(), &ports()[0], now, &mut answer).map(|()| answer)
        }

        /// Ids of the services that port `asker` finds.
        fn found(&mut self, asker: usize, request: &Mad, now: u64) -> Vec<u64> {
            let (mut answer, mut all) = (Mad::new(), KVec::new());
            answer.begin(request);
            let _ = self.0.query(request, &ports()[asker], now, &mut answer, &mut all);
            all.chunks(176).map(|record| mad::be64(record, 0)).collect()
        }
    }

    fn any() -> Mad {
        request(GET_TABLE, 0, 0, 0, 0)
    }

    #[test]
    fn service_is_found_by_what_it_is_until_it_is_withdrawn() {
        let mut subnet = Subnet::new();
        let answer = subnet.set(&request(SET, NAMED, 7, 0xffff, 0), 0).unwrap();
        assert_eq!(mad::be32(&answer.0, DATA + 28), u32::MAX, "a lease that nobody named does not end");
        assert_eq!(answer.0[DATA + 32..DATA + 48], [0; 16], "nobody is told the key");
        subnet.set(&request(SET, NAMED, 8, 0xffff, 0), 0).unwrap();
        subnet.set(&request(SET, NAMED, 8, 0xffff, 0), 0).unwrap();
        assert_eq!(subnet.found(1, &any(), 1), [7, 8]);
        assert_eq!(subnet.found(1, &request(GET, super::ID, 8, 0, 0), 1), [8]);
        let mut third = request(GET_TABLE, super::NAME | super::KEY | 1 << 9, 0, 0, 0);
        assert_eq!(subnet.found(1, &third, 1), [7, 8]);
        third.0[DATA + 114] = 4;
        assert!(subnet.found(1, &third, 1).is_empty(), "other data");
        let mut answer = Mad::new();
        let withdrawn = request(DELETE, NAMED, 7, 0xffff, 0);
        subnet.0.delete(&withdrawn, &ports(), &ports()[0], &mut answer).unwrap();
        let again = subnet.0.delete(&withdrawn, &ports(), &ports()[0], &mut answer);
        assert_eq!((again, subnet.found(1, &any(), 1)), (Err(Refusal::NO_RECORDS), vec![8]));
    }

    #[test]
    fn lease_ends() {
        let mut subnet = Subnet::new();
        subnet.set(&request(SET, NAMED | LEASE, 7, 0xffff, 10), 5 * NANOS).unwrap();
        assert_eq!(subnet.found(0, &any(), 15 * NANOS - 1), [7]);
        assert!(subnet.found(0, &any(), 15 * NANOS).is_empty());
    }

    #[test]
    fn service_of_a_partition_is_for_those_who_are_in_it() {
        let mut subnet = Subnet::new();
        subnet.set(&request(SET, NAMED, 7, 0x8001, 0), 0).unwrap();
        assert_eq!((subnet.found(0, &any(), 1), subnet.found(1, &any(), 1)), (vec![7], vec![]));
        let refused = subnet.set(&request(SET, NAMED, 8, 0x8002, 0), 0);
        assert_eq!(refused.err(), Some(Refusal::INVALID));
        let nameless = subnet.set(&request(SET, super::ID, 8, 0, 0), 0);
        assert_eq!(nameless.err(), Some(Refusal::INVALID));
    }
}
