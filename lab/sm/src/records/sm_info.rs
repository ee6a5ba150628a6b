//! `SMInfo`: which subnet manager answers, and in what state (IBA volume 1, 14.2.5.13).

use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Record;
use crate::mad::Attribute;
use crate::types::Guid;

/// Which subnet manager answers, and in what state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmInfo {
    /// The port it runs on.
    pub guid: Guid,
    /// Shown only to those who know it.
    pub sm_key: u64,
    /// Grows while the manager lives; OpenSM counts the SMPs it sent.
    pub act_count: u32,
    /// Four bits.
    pub priority: u8,
    /// Four bits: 0 not active, 1 discovering, 2 standby, 3 master.
    pub state: u8,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Wire {
    guid: U64,
    sm_key: U64,
    act_count: U32,
    priority_state: u8,
}

impl Record for SmInfo {
    /// Of the subnet management class.
    const ATTRIBUTE: Attribute = Attribute(0x0020);
    const LEN: usize = size_of::<Wire>();

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (wire, _) = Wire::ref_from_prefix(bytes).ok()?;
        Some(Self {
            guid: Guid(wire.guid.get()),
            sm_key: wire.sm_key.get(),
            act_count: wire.act_count.get(),
            priority: wire.priority_state >> 4,
            state: wire.priority_state & 0xf,
        })
    }

    fn emit(&self) -> Vec<u8> {
        let wire = Wire {
            guid: self.guid.0.into(),
            sm_key: self.sm_key.into(),
            act_count: self.act_count.into(),
            priority_state: self.priority << 4 | (self.state & 0xf),
        };
        wire.as_bytes().to_vec()
    }
}
