//! `ServiceRecord`: a service a port offers (IBA volume 1, 15.2.5.14).

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Record;
use crate::mad::Attribute;
use crate::types::{Gid, PKey};

/// Component mask bits of [`ServiceRecord`].
pub mod service_mask {
    #![allow(missing_docs, reason = "the names of the record's fields")]
    pub const SERVICE_ID: u64 = 1 << 0;
    pub const SERVICE_GID: u64 = 1 << 1;
    pub const P_KEY: u64 = 1 << 2;
    pub const LEASE: u64 = 1 << 4;
    pub const KEY: u64 = 1 << 5;
    pub const NAME: u64 = 1 << 6;
    /// The first of 16 bytes, 8 half words, 4 words and 2 double words of data.
    pub const DATA_FIRST: u64 = 1 << 7;
}

/// A service a port offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRecord {
    /// Which service.
    pub service_id: u64,
    /// The port that offers it.
    pub service_gid: Gid,
    /// In which partition.
    pub p_key: PKey,
    /// Seconds until the record is forgotten; 0xffff_ffff for never.
    pub lease: u32,
    /// Whoever knows it may change the record.
    pub key: [u8; 16],
    /// UTF-8, padded with zero bytes.
    pub name: [u8; 64],
    /// The service's own: 16 bytes, 8 half words, 4 words, 2 double words, each in network order.
    pub data: [u8; 64],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Wire {
    service_id: U64,
    service_gid: [u8; 16],
    p_key: U16,
    reserved: U16,
    lease: U32,
    key: [u8; 16],
    name: [u8; 64],
    data: [u8; 64],
}

impl Record for ServiceRecord {
    const ATTRIBUTE: Attribute = Attribute::SERVICE_RECORD;
    const LEN: usize = size_of::<Wire>();

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (wire, _) = Wire::ref_from_prefix(bytes).ok()?;
        Some(Self {
            service_id: wire.service_id.get(),
            service_gid: Gid::from_bytes(wire.service_gid),
            p_key: PKey(wire.p_key.get()),
            lease: wire.lease.get(),
            key: wire.key,
            name: wire.name,
            data: wire.data,
        })
    }

    fn emit(&self) -> Vec<u8> {
        let wire = Wire {
            service_id: self.service_id.into(),
            service_gid: self.service_gid.to_bytes(),
            p_key: self.p_key.0.into(),
            reserved: 0.into(),
            lease: self.lease.into(),
            key: self.key,
            name: self.name,
            data: self.data,
        };
        wire.as_bytes().to_vec()
    }
}
