//! A subnet administration MAD: 256 bytes with the general header, the RMPP header and the SA header in front of 200 bytes
//! of attribute data (IBA volume 1, 13.4 and 15.2).

use std::fmt;

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

/// Bytes of a MAD.
pub const MAD_LEN: usize = 256;
/// Bytes of attribute data in one subnet administration MAD.
pub const DATA_LEN: usize = 200;
/// Bytes of the SA header, which RMPP counts as payload.
pub const SA_HEADER_LEN: usize = 20;

/// A MAD as it travels.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Mad(pub [u8; MAD_LEN]);

impl fmt::Debug for Mad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SaMad::parse(self) {
            Ok(sa) => sa.fmt(f),
            Err(error) => write!(f, "Mad({error})"),
        }
    }
}

/// Why 256 bytes are no subnet administration MAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MadError {
    /// Another version of the general header.
    #[error("MAD base version {0}, expected 1")]
    BaseVersion(u8),
    /// Another management class.
    #[error("management class {0:#04x}, expected 0x03 (subnet administration)")]
    Class(u8),
    /// Another version of the class.
    #[error("subnet administration class version {0}, expected 2")]
    ClassVersion(u8),
}

/// A method: seven bits and the response bit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Method(pub u8);

impl Method {
    #![allow(missing_docs, reason = "the standard's names")]
    pub const GET: Self = Self(0x01);
    pub const SET: Self = Self(0x02);
    pub const REPORT: Self = Self(0x06);
    pub const GET_TABLE: Self = Self(0x12);
    pub const GET_TRACE_TABLE: Self = Self(0x13);
    pub const GET_MULTI: Self = Self(0x14);
    pub const DELETE: Self = Self(0x15);
    pub const GET_RESP: Self = Self(0x81);
    pub const REPORT_RESP: Self = Self(0x86);
    pub const GET_TABLE_RESP: Self = Self(0x92);
    pub const GET_MULTI_RESP: Self = Self(0x94);
    pub const DELETE_RESP: Self = Self(0x95);

    /// Whether the R bit is set.
    pub const fn is_response(self) -> bool {
        self.0 & 0x80 != 0
    }

    /// The method of the answer: Set is answered as Get is.
    pub const fn response(self) -> Self {
        match self {
            Self::SET => Self::GET_RESP,
            Self(method) => Self(method | 0x80),
        }
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Self::GET => "Get",
            Self::SET => "Set",
            Self::REPORT => "Report",
            Self::GET_TABLE => "GetTable",
            Self::GET_TRACE_TABLE => "GetTraceTable",
            Self::GET_MULTI => "GetMulti",
            Self::DELETE => "Delete",
            Self::GET_RESP => "GetResp",
            Self::REPORT_RESP => "ReportResp",
            Self::GET_TABLE_RESP => "GetTableResp",
            Self::GET_MULTI_RESP => "GetMultiResp",
            Self::DELETE_RESP => "DeleteResp",
            Self(other) => return write!(f, "method {other:#04x}"),
        };
        f.write_str(name)
    }
}

/// An attribute identifier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attribute(pub u16);

impl Attribute {
    #![allow(missing_docs, reason = "the standard's names")]
    pub const CLASS_PORT_INFO: Self = Self(0x0001);
    pub const NOTICE: Self = Self(0x0002);
    pub const INFORM_INFO: Self = Self(0x0003);
    pub const NODE_RECORD: Self = Self(0x0011);
    pub const PORT_INFO_RECORD: Self = Self(0x0012);
    pub const SERVICE_RECORD: Self = Self(0x0031);
    pub const P_KEY_TABLE_RECORD: Self = Self(0x0033);
    pub const PATH_RECORD: Self = Self(0x0035);
    pub const MC_MEMBER_RECORD: Self = Self(0x0038);
    pub const MULTI_PATH_RECORD: Self = Self(0x003a);
    pub const INFORM_INFO_RECORD: Self = Self(0x00f3);
}

impl fmt::Debug for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Self::CLASS_PORT_INFO => "ClassPortInfo",
            Self::NOTICE => "Notice",
            Self::INFORM_INFO => "InformInfo",
            Self::NODE_RECORD => "NodeRecord",
            Self::PORT_INFO_RECORD => "PortInfoRecord",
            Self::SERVICE_RECORD => "ServiceRecord",
            Self::P_KEY_TABLE_RECORD => "P_KeyTableRecord",
            Self::PATH_RECORD => "PathRecord",
            Self::MC_MEMBER_RECORD => "MCMemberRecord",
            Self::MULTI_PATH_RECORD => "MultiPathRecord",
            Self::INFORM_INFO_RECORD => "InformInfoRecord",
            Self(other) => return write!(f, "attribute {other:#06x}"),
        };
        f.write_str(name)
    }
}

/// The status of a response: general bits in the low byte, the class's own code in the high byte.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(pub u16);

impl Status {
    #![allow(missing_docs, reason = "the standard's names")]
    pub const SUCCESS: Self = Self(0);
    pub const BUSY: Self = Self(0x0001);
    pub const REDIRECT: Self = Self(0x0002);
    pub const BAD_CLASS_VERSION: Self = Self(0x0004);
    pub const UNSUPPORTED_METHOD: Self = Self(0x0008);
    pub const UNSUPPORTED_METHOD_ATTRIBUTE: Self = Self(0x000c);
    pub const INVALID_FIELD: Self = Self(0x001c);
    pub const NO_RESOURCES: Self = Self(0x0100);
    pub const REQ_INVALID: Self = Self(0x0200);
    pub const NO_RECORDS: Self = Self(0x0300);
    pub const TOO_MANY_RECORDS: Self = Self(0x0400);
    pub const REQ_INVALID_GID: Self = Self(0x0500);
    pub const REQ_INSUFFICIENT_COMPONENTS: Self = Self(0x0600);
    pub const REQ_DENIED: Self = Self(0x0700);
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Self::SUCCESS => "SUCCESS",
            Self::BUSY => "BUSY",
            Self::REDIRECT => "REDIRECT",
            Self::BAD_CLASS_VERSION => "BAD_CLASS_VERSION",
            Self::UNSUPPORTED_METHOD => "UNSUPPORTED_METHOD",
            Self::UNSUPPORTED_METHOD_ATTRIBUTE => "UNSUPPORTED_METHOD_ATTRIBUTE",
            Self::INVALID_FIELD => "INVALID_FIELD",
            Self::NO_RESOURCES => "ERR_NO_RESOURCES",
            Self::REQ_INVALID => "ERR_REQ_INVALID",
            Self::NO_RECORDS => "ERR_NO_RECORDS",
            Self::TOO_MANY_RECORDS => "ERR_TOO_MANY_RECORDS",
            Self::REQ_INVALID_GID => "ERR_REQ_INVALID_GID",
            Self::REQ_INSUFFICIENT_COMPONENTS => "ERR_REQ_INSUFFICIENT_COMPONENTS",
            Self::REQ_DENIED => "ERR_REQ_DENIED",
            Self(other) => return write!(f, "status {other:#06x}"),
        };
        f.write_str(name)
    }
}

/// The RMPP header (IBA volume 1, 13.6). All zero where RMPP is not in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rmpp {
    /// 1 where RMPP is in use.
    pub version: u8,
    /// What kind of packet.
    pub kind: RmppKind,
    /// `RRespTime`, an `ib_time_t` of five bits; 31 means none is given.
    pub resp_time: u8,
    /// Three bits: [`Rmpp::ACTIVE`], [`Rmpp::FIRST`], [`Rmpp::LAST`].
    pub flags: u8,
    /// Why a transfer stopped; zero while it runs.
    pub status: u8,
    /// DATA: segment number, from 1. ACK: the last segment received in order.
    pub data1: u32,
    /// DATA: payload length. ACK: the last segment the receiver has room for.
    pub data2: u32,
}

impl Rmpp {
    /// RMPP is in use.
    pub const ACTIVE: u8 = 1;
    /// The first segment.
    pub const FIRST: u8 = 2;
    /// The last segment.
    pub const LAST: u8 = 4;

    /// Whether RMPP is in use in this MAD.
    pub const fn is_active(&self) -> bool {
        self.flags & Self::ACTIVE != 0
    }
}

/// `RMPPType`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RmppKind {
    /// Not an RMPP packet.
    #[default]
    None,
    /// A segment.
    Data,
    /// Segments received.
    Ack,
    /// The receiver is out of resources: stop.
    Stop,
    /// The transfer failed.
    Abort,
    /// No type of the standard's.
    Other(u8),
}

impl RmppKind {
    const fn from_wire(raw: u8) -> Self {
        match raw {
            0 => Self::None,
            1 => Self::Data,
            2 => Self::Ack,
            3 => Self::Stop,
            4 => Self::Abort,
            other => Self::Other(other),
        }
    }

    const fn to_wire(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Data => 1,
            Self::Ack => 2,
            Self::Stop => 3,
            Self::Abort => 4,
            Self::Other(other) => other,
        }
    }
}

/// A subnet administration MAD, taken apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SaMad {
    /// What is asked, or answered.
    pub method: Method,
    /// Zero in requests.
    pub status: Status,
    /// Matches answers to requests; the requester's own choice.
    pub transaction: u64,
    /// Of what.
    pub attribute: Attribute,
    /// Ignored by subnet administration, and repeated.
    pub modifier: u32,
    /// Segmentation.
    pub rmpp: Rmpp,
    /// Zero: not trusted with private fields.
    pub sm_key: u64,
    /// `AttributeOffset`: distance from record to record, in units of eight bytes; zero where there is no table.
    pub attribute_offset: u16,
    /// Which components of the attribute the requester gave.
    pub mask: u64,
    /// The attribute.
    pub data: [u8; DATA_LEN],
}

impl fmt::Debug for SaMad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({:?})", self.method, self.attribute)?;
        write!(f, " transaction {:#x} mask {:#x}", self.transaction, self.mask)?;
        if self.method.is_response() {
            write!(f, " {:?}", self.status)?;
        }
        Ok(())
    }
}

/// The layout on the wire.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Wire {
    base_version: u8,
    class: u8,
    class_version: u8,
    method: u8,
    status: U16,
    class_specific: U16,
    transaction: U64,
    attribute: U16,
    reserved1: U16,
    modifier: U32,
    rmpp_version: u8,
    rmpp_type: u8,
    rmpp_time_flags: u8,
    rmpp_status: u8,
    rmpp_data1: U32,
    rmpp_data2: U32,
    sm_key: [u8; 8],
    attribute_offset: U16,
    reserved2: U16,
    mask: U64,
    data: [u8; DATA_LEN],
}

const _: () = assert!(size_of::<Wire>() == MAD_LEN);

const BASE_VERSION: u8 = 1;
const CLASS_SUBNET_ADMINISTRATION: u8 = 3;
const CLASS_VERSION: u8 = 2;

impl SaMad {
    /// A request of `attribute` with its data and the mask that says which components count.
    pub fn request(method: Method, attribute: Attribute, transaction: u64, mask: u64) -> Self {
        Self {
            method,
            status: Status::SUCCESS,
            transaction,
            attribute,
            modifier: 0xffff_ffff,
            rmpp: Rmpp::default(),
            sm_key: 0,
            attribute_offset: 0,
            mask,
            data: [0; DATA_LEN],
        }
    }

    /// Takes a MAD apart.
    pub fn parse(mad: &Mad) -> Result<Self, MadError> {
        let wire: Wire = transmute!(mad.0);
        if wire.base_version != BASE_VERSION {
            return Err(MadError::BaseVersion(wire.base_version));
        }
        if wire.class != CLASS_SUBNET_ADMINISTRATION {
            return Err(MadError::Class(wire.class));
        }
        if wire.class_version != CLASS_VERSION {
            return Err(MadError::ClassVersion(wire.class_version));
        }
        Ok(Self {
            method: Method(wire.method),
            status: Status(wire.status.get()),
            transaction: wire.transaction.get(),
            attribute: Attribute(wire.attribute.get()),
            modifier: wire.modifier.get(),
            rmpp: Rmpp {
                version: wire.rmpp_version,
                kind: RmppKind::from_wire(wire.rmpp_type),
                resp_time: wire.rmpp_time_flags >> 3,
                flags: wire.rmpp_time_flags & 7,
                status: wire.rmpp_status,
                data1: wire.rmpp_data1.get(),
                data2: wire.rmpp_data2.get(),
            },
            sm_key: u64::from_be_bytes(wire.sm_key),
            attribute_offset: wire.attribute_offset.get(),
            mask: wire.mask.get(),
            data: wire.data,
        })
    }

    /// Puts it together again.
    pub fn emit(&self) -> Mad {
        let wire = Wire {
            base_version: BASE_VERSION,
            class: CLASS_SUBNET_ADMINISTRATION,
            class_version: CLASS_VERSION,
            method: self.method.0,
            status: self.status.0.into(),
            class_specific: 0.into(),
            transaction: self.transaction.into(),
            attribute: self.attribute.0.into(),
            reserved1: 0.into(),
            modifier: self.modifier.into(),
            rmpp_version: self.rmpp.version,
            rmpp_type: self.rmpp.kind.to_wire(),
            rmpp_time_flags: self.rmpp.resp_time << 3 | (self.rmpp.flags & 7),
            rmpp_status: self.rmpp.status,
            rmpp_data1: self.rmpp.data1.into(),
            rmpp_data2: self.rmpp.data2.into(),
            sm_key: self.sm_key.to_be_bytes(),
            attribute_offset: self.attribute_offset.into(),
            reserved2: 0.into(),
            mask: self.mask.into(),
            data: self.data,
        };
        Mad(transmute!(wire))
    }

    /// The answer to this request with `status`, the request's data repeated, and SM_Key zero.
    pub fn respond(&self, status: Status) -> Self {
        Self { method: self.method.response(), status, sm_key: 0, rmpp: Rmpp::default(), ..*self }
    }

    /// Puts `data` where the attribute goes; what does not fit in 200 bytes is left out, the rest is zero.
    pub fn with_data(mut self, data: &[u8]) -> Self {
        let taken = data.len().min(DATA_LEN);
        self.data = [0; DATA_LEN];
        self.data[..taken].copy_from_slice(&data[..taken]);
        self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_stand_where_the_standard_puts_them() {
        let mut mad =
            SaMad::request(Method::SET, Attribute::MC_MEMBER_RECORD, 0x1122_3344_5566_7788, 0x1_0003);
        mad.data[0] = 0xaa;
        mad.rmpp =
            Rmpp { version: 1, kind: RmppKind::Data, resp_time: 3, flags: 7, status: 9, data1: 1, data2: 20 };
        let Mad(bytes) = mad.emit();
        assert_eq!(bytes[..4], [1, 3, 2, 0x02]);
        assert_eq!(bytes[8..16], [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
        assert_eq!(bytes[16..18], [0x00, 0x38]);
        assert_eq!(bytes[24..28], [1, 1, 3 << 3 | 7, 9]);
        assert_eq!(bytes[28..36], [0, 0, 0, 1, 0, 0, 0, 20]);
        assert_eq!(bytes[48..56], [0, 0, 0, 0, 0, 1, 0, 3]);
        assert_eq!(bytes[56], 0xaa);
    }

    #[test]
    fn a_mad_of_another_class_is_refused() {
        let mut mad = SaMad::request(Method::GET, Attribute::CLASS_PORT_INFO, 1, 0).emit();
        mad.0[1] = 7;
        assert_eq!(SaMad::parse(&mad), Err(MadError::Class(7)));
    }

    proptest! {
        #[test]
        fn any_256_bytes_parse_or_are_refused_and_survive_the_round_trip(bytes in prop::collection::vec(any::<u8>(), MAD_LEN),
                                                                         fix in any::<bool>()) {
            let mut bytes: [u8; MAD_LEN] = bytes.try_into().unwrap();
            if fix {
                bytes[..3].copy_from_slice(&[1, 3, 2]);
            }
            if let Ok(sa) = SaMad::parse(&Mad(bytes)) {
                prop_assert_eq!(SaMad::parse(&sa.emit()), Ok(sa));
            } else {
                prop_assert!(!fix);
            }
        }
    }
}
