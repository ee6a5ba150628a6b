//! The attributes of subnet administration (IBA volume 1, 14.2.5 and 15.2.5), each a value with a fixed layout.

mod class_port_info;
mod inform;
mod mc_member;
mod node;
mod p_key_table;
mod path;
mod port_info;
mod service;
mod sm_info;

pub use class_port_info::ClassPortInfo;
pub use inform::{InformInfo, Notice, Trap};
pub use mc_member::{McMemberRecord, mc_member_mask};
pub use node::{NodeRecord, NodeType, node_mask};
pub use p_key_table::{PKeyTableRecord, p_key_table_mask};
pub use path::{PathRecord, path_mask};
pub use port_info::{PortInfo, PortInfoRecord, port_capability, port_info_mask};
pub use service::{ServiceRecord, service_mask};
pub use sm_info::SmInfo;

use crate::mad::{Attribute, SaMad};

/// An attribute with a layout on the wire.
///
/// Parsing a slice that is long enough cannot fail: reserved bits are dropped, and numbers that mean nothing stay numbers.
pub trait Record: Sized {
    /// Which attribute this is.
    const ATTRIBUTE: Attribute;
    /// Bytes of one record, without padding.
    const LEN: usize;

    /// Takes one record from the front of `bytes`; `None` if there are fewer than [`LEN`](Self::LEN).
    fn parse(bytes: &[u8]) -> Option<Self>;

    /// Writes one record, [`LEN`](Self::LEN) bytes.
    fn emit(&self) -> Vec<u8>;
}

/// Distance between records of `R` in a table, in units of eight bytes.
pub const fn attribute_offset<R: Record>() -> u16 {
    R::LEN.div_ceil(8) as u16
}

impl SaMad {
    /// The record in this MAD's data.
    pub fn record<R: Record>(&self) -> Option<R> {
        R::parse(&self.data)
    }

    /// This MAD with `record` as its data.
    pub fn with_record<R: Record>(self, record: &R) -> Self {
        self.with_data(&record.emit())
    }
}

/// The records of a table whose `attribute_offset` came with it. An offset smaller than a record (zero included) is no
/// table, and a rest too short for a record is left out.
pub fn parse_table<R: Record>(data: &[u8], attribute_offset: u16) -> Vec<R> {
    let stride = usize::from(attribute_offset) * 8;
    if stride < R::LEN {
        return Vec::new();
    }
    data.chunks(stride).filter_map(R::parse).collect()
}

/// A table of records, each padded to a multiple of eight bytes.
pub fn emit_table<R: Record>(records: &[R]) -> Vec<u8> {
    let mut table = Vec::with_capacity(records.len() * R::LEN.next_multiple_of(8));
    for record in records {
        table.extend(record.emit());
        table.resize(table.len().next_multiple_of(8), 0);
    }
    table
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn survives<R: Record + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
        let Some(record) = R::parse(bytes) else {
            assert!(bytes.len() < R::LEN);
            return;
        };
        let emitted = record.emit();
        assert_eq!(emitted.len(), R::LEN);
        assert_eq!(R::parse(&emitted).as_ref(), Some(&record));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_and_survive_the_round_trip(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
            survives::<ClassPortInfo>(&bytes);
            survives::<InformInfo>(&bytes);
            survives::<Notice>(&bytes);
            survives::<McMemberRecord>(&bytes);
            survives::<NodeRecord>(&bytes);
            survives::<PathRecord>(&bytes);
            survives::<PortInfo>(&bytes);
            survives::<PortInfoRecord>(&bytes);
            survives::<ServiceRecord>(&bytes);
            survives::<SmInfo>(&bytes);
        }

        #[test]
        fn any_table_splits_into_records(bytes in prop::collection::vec(any::<u8>(), 0..1024), offset in any::<u16>()) {
            let records: Vec<PathRecord> = parse_table(&bytes, offset);
            prop_assert!(records.len() <= bytes.len() / PathRecord::LEN);
        }
    }

    #[test]
    fn record_sizes_are_those_of_the_standard() {
        let offsets = [
            (attribute_offset::<NodeRecord>(), 14),
            (attribute_offset::<PortInfoRecord>(), 9),
            (attribute_offset::<ServiceRecord>(), 22),
            (attribute_offset::<PathRecord>(), 8),
            (attribute_offset::<McMemberRecord>(), 7),
        ];
        for (got, expected) in offsets {
            assert_eq!(got, expected);
        }
    }
}
