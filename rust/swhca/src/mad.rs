//! Management datagrams: 256 bytes, big-endian (IBA 13.4, 15.2).

use ibtf_provider::Gid;
use kernel::KVec;

/// Bytes in one.
pub(crate) const LEN: usize = 256;
/// Where an attribute's data begin in one of the SA's.
pub(crate) const DATA: usize = 56;
/// Bytes of such data.
pub(crate) const DATA_LEN: usize = LEN - DATA;
/// The Q_Key of general services.
pub(crate) const QKEY: u32 = 0x8001_0000;

/// The class of subnet administration.
pub(crate) const CLASS_SA: u8 = 3;

pub(crate) const GET: u8 = 0x01;
pub(crate) const SET: u8 = 0x02;
pub(crate) const REPORT: u8 = 0x06;
pub(crate) const GET_TABLE: u8 = 0x12;
pub(crate) const DELETE: u8 = 0x15;
/// In a method: it is an answer.
pub(crate) const RESPONSE: u8 = 0x80;

/// Why the SA refuses (IBA 15.2.3; general statuses 13.4.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) u16);

impl Refusal {
    pub(crate) const UNSUPPORTED: Self = Self(0x000c);
    pub(crate) const NO_RESOURCES: Self = Self(0x0100);
    pub(crate) const INVALID: Self = Self(0x0200);
    pub(crate) const NO_RECORDS: Self = Self(0x0300);
    pub(crate) const TOO_MANY_RECORDS: Self = Self(0x0400);
    pub(crate) const INVALID_GID: Self = Self(0x0500);
    pub(crate) const INSUFFICIENT_COMPONENTS: Self = Self(0x0600);
}

/// One, as a request or as an answer in the making.
#[derive(Clone, Copy)]
pub(crate) struct Mad(pub(crate) [u8; LEN]);

impl Mad {
    /// All zero.
    pub(crate) const fn new() -> Self {
        Self([0; LEN])
    }

    pub(crate) fn class(&self) -> u8 {
        self.0[1]
    }

    pub(crate) fn method(&self) -> u8 {
        self.0[3]
    }

    pub(crate) fn attribute(&self) -> u16 {
        be16(&self.0, 16)
    }

    /// Whether it belongs to a transfer in segments: an acknowledgement, or data.
    pub(crate) fn is_transfer(&self) -> bool {
        self.0[25] != 0
    }

    /// The group that a port is to join or to leave.
    pub(crate) fn group(&self) -> Option<Gid> {
        const MC_MEMBER: u16 = 0x38;
        let changes = self.class() == CLASS_SA && [SET, DELETE].contains(&self.method());
        (changes && self.attribute() == MC_MEMBER).then(|| gid(self.data(), 0))
    }

    /// Which fields of the data a request means.
    pub(crate) fn mask(&self) -> u64 {
        be64(&self.0, 48)
    }

    /// The attribute.
    pub(crate) fn data(&self) -> &[u8; DATA_LEN] {
        // A range of that length.
        self.0[DATA..].try_into().unwrap_or(&[0; DATA_LEN])
    }

    /// Becomes the answer to `request` with its own data, until something else is put there.
    pub(crate) fn begin(&mut self, request: &Self) {
        self.0.copy_from_slice(&request.0);
        let method = request.method();
        self.0[3] = if method == SET { GET | RESPONSE } else { method | RESPONSE };
        self.0[4..6].fill(0);
        self.0[24..44].fill(0);
    }

    /// Becomes the answer to a request that is refused unseen. False if it is no request.
    pub(crate) fn begin_refusal(&mut self, request: &Self, refusal: Refusal) -> bool {
        if request.method() & RESPONSE != 0 {
            return false;
        }
        self.begin(request);
        self.refuse(refusal);
        true
    }

    /// Becomes the answer that there is nothing: no records in a table, a status to a Get (IBA 15.4.4), zeros to a Set. False if it is
    /// no request.
    pub(crate) fn begin_empty(&mut self, request: &Self) -> bool {
        if request.method() == GET {
            return self.begin_refusal(request, Refusal::NO_RECORDS);
        }
        if request.method() & RESPONSE != 0 {
            return false;
        }
        self.begin(request);
        put16(&mut self.0, 44, 0);
        self.data_mut().fill(0);
        if request.method() == GET_TABLE {
            self.set_segment(1, true, true, 20);
        }
        true
    }

    /// Says why not.
    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        put16(&mut self.0, 4, refusal.0);
    }

    /// Becomes a report of the SA's (IBA 13.4.9), its notice yet to come.
    pub(crate) fn begin_report(&mut self, transaction: u64) {
        self.0.fill(0);
        (self.0[0], self.0[1], self.0[2], self.0[3]) = (1, CLASS_SA, 2, REPORT);
        put64(&mut self.0, 8, transaction);
        put16(&mut self.0, 16, 2);
    }

    /// The data, to be written.
    pub(crate) fn data_mut(&mut self) -> &mut [u8] {
        &mut self.0[DATA..]
    }

    /// One record as the answer to Set, Get or Delete.
    pub(crate) fn put_record(&mut self, record: &[u8]) {
        put16(&mut self.0, 44, padded(record.len()) / 8);
        let data = self.data_mut();
        data.fill(0);
        put(data, 0, record);
    }

    /// Says which segment of a transfer this is, and how many bytes of payload it tells of: of all in the first one.
    pub(crate) fn set_segment(&mut self, number: u32, first: bool, last: bool, bytes: u32) {
        let flags = NO_TIME | 1 | u8::from(first) << 1 | u8::from(last) << 2;
        (self.0[24], self.0[25], self.0[26]) = (1, 1, flags);
        put32(&mut self.0, 28, number);
        put32(&mut self.0, 32, bytes);
    }
}

/// In the flags of a segment: it does not say how long a response takes (IBA 13.6.2.1).
const NO_TIME: u8 = 0x1f << 3;

/// The length of a record in a table: whole words of 8 bytes.
fn padded(len: usize) -> u16 {
    u16::try_from(len.next_multiple_of(8)).unwrap_or(0)
}

/// Records of an answer to GetTable, or the one of an answer to Get.
pub(crate) struct Records<'a> {
    answer: &'a mut Mad,
    /// All of them, one behind the other; what does not fit the answer is sent in further segments.
    all: &'a mut KVec<u8>,
    len: usize,
    count: usize,
    lost: bool,
}

/// Bytes of all records of an answer.
const MAX_RECORDS: usize = 64 * 1024;

impl<'a> Records<'a> {
    /// None yet, of `len` bytes each.
    pub(crate) fn new(answer: &'a mut Mad, all: &'a mut KVec<u8>, len: usize) -> Self {
        all.clear();
        Self { answer, all, len, count: 0, lost: false }
    }

    /// One more.
    pub(crate) fn push(&mut self, record: &[u8]) {
        let len = usize::from(padded(self.len));
        self.count += 1;
        if self.all.len() + len > MAX_RECORDS || self.all.reserve(len).is_err() {
            self.lost = true;
            return;
        }
        for byte in record.iter().copied().chain(core::iter::repeat(0)).take(len) {
            // There is room.
            let _ = self.all.push_within_capacity(byte);
        }
    }

    /// Makes the answer of them, or its first segment.
    pub(crate) fn finish(self) -> Result<(), Refusal> {
        let table = self.answer.method() == GET_TABLE | RESPONSE;
        match self.count {
            _ if self.lost => return Err(Refusal::NO_RESOURCES),
            0 if !table => return Err(Refusal::NO_RECORDS),
            1.. if !table && self.count > 1 => return Err(Refusal::TOO_MANY_RECORDS),
            _ => {}
        }
        put16(&mut self.answer.0, 44, if self.count == 0 { 0 } else { padded(self.len) / 8 });
        let data = self.answer.data_mut();
        data.fill(0);
        put(data, 0, self.all);
        if table {
            let segments = self.all.len().div_ceil(DATA_LEN).max(1);
            let bytes = self.all.len() + 20 * segments;
            self.answer.set_segment(1, true, segments == 1, u32::try_from(bytes).unwrap_or(0));
        }
        Ok(())
    }
}

/// Bytes put at a place; those that do not fit are left out.
pub(crate) fn put(to: &mut [u8], at: usize, from: &[u8]) {
    for (to, from) in to.iter_mut().skip(at).zip(from) {
        *to = *from;
    }
}

fn get<const N: usize>(from: &[u8], at: usize) -> [u8; N] {
    from.get(at..).and_then(|rest| rest.first_chunk::<N>()).copied().unwrap_or([0; N])
}

pub(crate) fn be16(from: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(get(from, at))
}

pub(crate) fn be32(from: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(get(from, at))
}

pub(crate) fn be64(from: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(get(from, at))
}

pub(crate) fn gid(from: &[u8], at: usize) -> Gid {
    Gid { prefix: be64(from, at), guid: be64(from, at + 8) }
}

pub(crate) fn put16(to: &mut [u8], at: usize, value: u16) {
    put(to, at, &value.to_be_bytes());
}

pub(crate) fn put32(to: &mut [u8], at: usize, value: u32) {
    put(to, at, &value.to_be_bytes());
}

pub(crate) fn put64(to: &mut [u8], at: usize, value: u64) {
    put(to, at, &value.to_be_bytes());
}

pub(crate) fn put_gid(to: &mut [u8], at: usize, gid: Gid) {
    put64(to, at, gid.prefix);
    put64(to, at + 8, gid.guid);
}
