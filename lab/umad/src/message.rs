//! A MAD as a program has it: 256 bytes, or with RMPP as many as it takes, with the headers of the first segment in front of all
//! the data.

use rustix::io::Errno;
use sm::mad::{DATA_LEN, MAD_LEN};
use sm::rmpp::{Message, segments};
use sm::{Mad, Method, SaMad};

/// General header.
pub(crate) const MAD_HEADER: usize = 24;
/// General and RMPP header: less is no MAD.
pub(crate) const RMPP_HEADER: usize = 36;
/// What stands in front of the data in subnet administration's MADs.
const SA_HEADER: usize = MAD_LEN - DATA_LEN;

const RESPONSE: u8 = 0x80;
/// Trap repression answers a trap although it has no response bit.
const TRAP_REPRESS: u8 = 0x07;

/// Management class.
pub(crate) fn class(mad: &Mad) -> u8 {
    mad.0[1]
}

/// Version of that class.
pub(crate) fn class_version(mad: &Mad) -> u8 {
    mad.0[2]
}

/// With the response bit.
pub(crate) fn method(mad: &Mad) -> Method {
    Method(mad.0[3])
}

/// Whether it answers something.
pub(crate) fn is_response(mad: &Mad) -> bool {
    mad.0[3] & RESPONSE != 0 || mad.0[3] == TRAP_REPRESS
}

/// Transaction ID.
pub(crate) fn transaction(mad: &Mad) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&mad.0[8..16]);
    u64::from_be_bytes(bytes)
}

/// The same, with the agent's number in the high half.
pub(crate) fn with_high_half(mut mad: Mad, high: u32) -> Mad {
    mad.0[8..12].copy_from_slice(&high.to_be_bytes());
    mad
}

/// What a program wants sent.
pub(crate) enum Wanted {
    /// As it is.
    One(Box<Mad>),
    /// In segments: the first one's header, and all the data.
    Segmented(Box<SaMad>, Vec<u8>),
}

impl Wanted {
    /// The bytes behind a header. `rmpp`: the agent leaves segments to the device.
    pub fn parse(bytes: &[u8], rmpp: bool) -> Result<Self, Errno> {
        if bytes.len() < RMPP_HEADER {
            return Err(Errno::INVAL);
        }
        let mut first = Mad([0; MAD_LEN]);
        let taken = bytes.len().min(MAD_LEN);
        first.0[..taken].copy_from_slice(&bytes[..taken]);
        match SaMad::parse(&first) {
            Ok(header) if rmpp && header.rmpp.is_active() => {
                let data = bytes.get(SA_HEADER..).ok_or(Errno::INVAL)?;
                Ok(Self::Segmented(Box::new(header), data.to_vec()))
            }
            _ if bytes.len() > MAD_LEN => Err(Errno::INVAL),
            _ => Ok(Self::One(Box::new(first))),
        }
    }

    /// Its first MAD.
    pub fn first(&self) -> Mad {
        match self {
            Self::One(mad) => **mad,
            Self::Segmented(header, data) => header.with_data(data).emit(),
        }
    }

    /// The agent's number in the transaction.
    pub fn for_agent(self, high: u32) -> Self {
        match self {
            Self::One(mad) => Self::One(Box::new(with_high_half(*mad, high))),
            Self::Segmented(mut header, data) => {
                header.transaction = u64::from(high) << 32 | header.transaction & 0xffff_ffff;
                Self::Segmented(header, data)
            }
        }
    }
}

/// A message that was put together, as a program reads it: the first segment's headers, which say that RMPP was in use, and the data.
pub(crate) fn assembled(message: &Message) -> Vec<u8> {
    let first = segments(&message.header, &message.data).into_iter().next().unwrap_or(message.header);
    let mut bytes = first.emit().0[..SA_HEADER].to_vec();
    bytes.extend(&message.data);
    bytes
}
