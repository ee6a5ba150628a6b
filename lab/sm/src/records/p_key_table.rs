//! `P_KeyTableRecord`: 32 entries of a port's P_Key table (IBA volume 1, 15.2.5.11).

use zerocopy::byteorder::big_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Record;
use crate::mad::Attribute;
use crate::types::{Lid, PKey};

/// Component mask bits of [`PKeyTableRecord`].
pub mod p_key_table_mask {
    #![allow(missing_docs, reason = "the names of the record's fields")]
    pub const LID: u64 = 1 << 0;
    pub const BLOCK: u64 = 1 << 1;
    pub const PORT_NUM: u64 = 1 << 2;
}

/// Part of a port's P_Key table, and where the port is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PKeyTableRecord {
    /// LID of the port.
    pub lid: Lid,
    /// Which 32 entries, from 0.
    pub block: u16,
    /// Of a switch: which port.
    pub port_num: u8,
    /// The entries; zero where free.
    pub p_keys: [PKey; Self::BLOCK],
}

impl PKeyTableRecord {
    /// Entries of a block.
    pub const BLOCK: usize = 32;
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Wire {
    lid: U16,
    block: U16,
    port_num: u8,
    reserved: [u8; 3],
    p_keys: [U16; PKeyTableRecord::BLOCK],
}

impl Record for PKeyTableRecord {
    const ATTRIBUTE: Attribute = Attribute::P_KEY_TABLE_RECORD;
    const LEN: usize = size_of::<Wire>();

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (wire, _) = Wire::ref_from_prefix(bytes).ok()?;
        Some(Self {
            lid: Lid(wire.lid.get()),
            block: wire.block.get(),
            port_num: wire.port_num,
            p_keys: wire.p_keys.map(|key| PKey(key.get())),
        })
    }

    fn emit(&self) -> Vec<u8> {
        let wire = Wire {
            lid: self.lid.0.into(),
            block: self.block.into(),
            port_num: self.port_num,
            reserved: [0; 3],
            p_keys: self.p_keys.map(|key| key.0.into()),
        };
        wire.as_bytes().to_vec()
    }
}
