//! One table of requests for every subnet administrator that is to be like OpenSM: the embedded one, and OpenSM itself.
//!
//! Each row names the subnet it is asked in, what was asked before, the request, and what comes back. What the rows before
//! have joined is left again, so each begins with an administrator that has only its permanent groups.

#![allow(dead_code, reason = "each test binary uses its part")]

mod groups;
mod queries;
mod send_only;
mod speeds;

pub use crate::world::records::*;

use sm::mad::DATA_LEN;
use sm::partition::{GroupParams, PermanentGroup, Ports, broadcast_mgid};
use sm::records::{McMemberRecord, PathRecord, Record, mc_member_mask};
use sm::*;

/// A subnet of the ports A, B and C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subnet {
    /// The default partition, open, with its broadcast group.
    Open,
    /// Broadcast groups the ports are too slow or too small for, and a partition that only B is in.
    Demanding,
    /// B is in partition 1 with A, limited, and in no other with it; C only in partition 2.
    Partitioned,
    /// Partition 1 without groups, beside the default one.
    NoGroup,
    /// Three partitions that everybody is in.
    Three,
    /// A site-local broadcast group beside the usual one.
    SiteLocal,
    /// A has an EDR port, B a QDR one, C one of SDR; in the others all are SDR.
    Mixed,
}

impl Subnet {
    pub const ALL: [Self; 7] = [
        Self::Open,
        Self::Demanding,
        Self::Partitioned,
        Self::NoGroup,
        Self::Three,
        Self::SiteLocal,
        Self::Mixed,
    ];

    /// What each of the four lanes of a port does.
    pub fn lane(self, port: Guid) -> Lane {
        match (self, port) {
            (Self::Mixed, A) => Lane::Edr,
            (Self::Mixed, B) => Lane::Qdr,
            _ => Lane::Sdr,
        }
    }

    pub fn partitions(self) -> Vec<Partition> {
        let named = |p_key| Partition::new("p", PKey(p_key));
        let all = |p_key| named(p_key).with_members(Ports::All, Membership::Full);
        let usual = GroupParams::default();
        match self {
            Self::Open | Self::Mixed => vec![Partition::default_open()],
            Self::Demanding => vec![
                all(1).with_ipoib(GroupParams { mtu: MtuCode::B4096, ..usual }),
                all(2).with_ipoib(GroupParams { rate: RateCode(7), ..usual }),
                named(3).with_members(Ports::One(B), Membership::Full).with_ipoib(usual),
            ],
            Self::Partitioned => vec![
                named(1)
                    .with_members(Ports::One(A), Membership::Full)
                    .with_members(Ports::One(B), Membership::Limited)
                    .with_ipoib(usual),
                named(2)
                    .with_members(Ports::One(A), Membership::Limited)
                    .with_members(Ports::One(C), Membership::Limited),
            ],
            Self::NoGroup => vec![Partition::default_open(), all(1)],
            Self::Three => vec![Partition::default_open(), all(0x10), all(2)],
            Self::SiteLocal => {
                let mgid = Gid { prefix: 0xff15_401b_0000_0000, guid: 0xffff_ffff };
                vec![Partition::default_open().with_group(PermanentGroup { mgid, params: usual })]
            }
        }
    }
}

/// What somebody asks.
#[derive(Clone, Debug)]
pub struct Request {
    pub from: Guid,
    pub method: Method,
    pub attribute: Attribute,
    pub mask: u64,
    pub sm_key: u64,
    pub data: Vec<u8>,
    /// A port whose LID goes into the data at an offset: LIDs are the manager's choice.
    pub lid: Option<(usize, Guid)>,
}

impl Request {
    pub fn of<R: Record>(from: Guid, method: Method, mask: u64, record: &R) -> Self {
        let data = record.emit();
        Self { from, method, attribute: R::ATTRIBUTE, mask, sm_key: 0, data, lid: None }
    }

    pub fn mad(&self, transaction: u64, lid_of: impl Fn(Guid) -> Lid) -> SaMad {
        let request = SaMad::request(self.method, self.attribute, transaction, self.mask);
        let mut mad = SaMad { sm_key: self.sm_key, ..request.with_data(&self.data) };
        if let Some((at, port)) = self.lid {
            mad.data[at..at + 2].copy_from_slice(&lid_of(port).0.to_be_bytes());
        }
        mad
    }

    pub fn trusted(self) -> Self {
        Self { sm_key: 1, ..self }
    }
}

/// What comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Status(Status),
    /// Success, and so many records of a table.
    Records(usize),
    /// No answer at all.
    Silence,
}

pub struct Row {
    pub what: &'static str,
    pub subnet: Subnet,
    pub before: Vec<Request>,
    pub ask: Request,
    pub expect: Expect,
}

impl Row {
    pub fn new(what: &'static str, ask: Request, expect: Expect) -> Self {
        Self { what, subnet: Subnet::Open, before: Vec::new(), ask, expect }
    }

    pub fn of(self, subnet: Subnet) -> Self {
        Self { subnet, ..self }
    }

    pub fn after(self, before: impl IntoIterator<Item = Request>) -> Self {
        Self { before: before.into_iter().collect(), ..self }
    }

    pub fn from(mut self, port: Guid) -> Self {
        self.ask.from = port;
        self
    }

    pub fn method(mut self, method: Method) -> Self {
        self.ask.method = method;
        self
    }
}

/// Set(MCMemberRecord).
pub fn set(from: Guid, mask: u64, record: &McMemberRecord) -> Request {
    Request::of(from, Method::SET, mask, record)
}

/// All rows.
pub fn rows() -> Vec<Row> {
    groups::rows().into_iter().chain(queries::rows()).chain(speeds::rows()).chain(send_only::rows()).collect()
}

/// An answer, put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: Status,
    pub offset: u16,
    /// Of a table all records; otherwise the one record of the attribute.
    pub data: Vec<u8>,
}

impl Answer {
    /// The answer in one MAD that is no table.
    pub fn of_one(mad: &SaMad) -> Self {
        let len = record_len(mad.attribute).min(DATA_LEN);
        Self { status: mad.status, offset: 0, data: mad.data[..len].to_vec() }
    }

    /// What was expected, or something else.
    pub fn meets(answer: Option<&Self>, expect: Expect) -> bool {
        match (expect, answer) {
            (Expect::Silence, None) => true,
            (Expect::Status(status), Some(answer)) => answer.status == status,
            (Expect::Records(count), Some(answer)) => {
                answer.status == Status::SUCCESS && answer.records().len() == count
            }
            _ => false,
        }
    }

    pub fn records(&self) -> Vec<&[u8]> {
        match usize::from(self.offset) * 8 {
            0 => Vec::new(),
            stride => self.data.chunks(stride).collect(),
        }
    }
}

fn record_len(attribute: Attribute) -> usize {
    match attribute {
        Attribute::MC_MEMBER_RECORD => McMemberRecord::LEN,
        Attribute::PATH_RECORD => PathRecord::LEN,
        Attribute::INFORM_INFO => sm::records::InformInfo::LEN,
        Attribute::CLASS_PORT_INFO => sm::records::ClassPortInfo::LEN,
        Attribute::SERVICE_RECORD => sm::records::ServiceRecord::LEN,
        _ => 0,
    }
}

/// An administrator that can be asked.
pub trait Administrator {
    /// `silent`: no answer is expected. Otherwise it is worth waiting for.
    fn ask(&mut self, request: &Request, silent: bool) -> Option<Answer>;
}

/// Asks what comes before the row and the row itself; then leaves what was joined.
pub fn play(administrator: &mut dyn Administrator, row: &Row) -> Option<Answer> {
    let mut joined: Vec<McMemberRecord> = Vec::new();
    let mut answer = None;
    let silent = row.before.iter().map(|_| false).chain([row.expect == Expect::Silence]);
    for (request, silent) in row.before.iter().chain([&row.ask]).zip(silent) {
        answer = administrator.ask(request, silent);
        let is_join = request.method == Method::SET && request.attribute == Attribute::MC_MEMBER_RECORD;
        if let Some(granted) = answer.as_ref().filter(|answer| is_join && answer.status == Status::SUCCESS) {
            joined.push(McMemberRecord::parse(&granted.data).expect("a whole record"));
        }
    }
    for record in joined {
        for way in 0..4 {
            let one = JoinState::truncating(1 << way);
            let leave = McMemberRecord { join_state: one, ..record };
            let from = Guid(record.port_gid.guid);
            // Most of them are refused: it is in few of these ways.
            administrator.ask(&Request::of(from, Method::DELETE, mc_member_mask::JOIN, &leave), false);
        }
    }
    answer
}
