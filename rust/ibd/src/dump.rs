//! What a crash dump is read by: `ibd_root` leads to a record of each link. docs/debugging.md says how to read it.

use kernel::ddi::DevInfo;
use kernel::dump::{Records, Values};
use kernel::{KArc, KBox, MayBlock};

use crate::link::Shared;

/// A link, from the first step of its attach to the last of its detach. The address of the next record comes before it; the layout, which
/// `ibd_v001` stands for, ends with the values.
#[repr(C)]
pub(crate) struct LinkRecord {
    number: i32,
    port: u32,
    /// GUID of the adapter.
    hca: u64,
    pkey: u64,
    dip: DevInfo,
    values: Values,
    /// What the values are of.
    shared: KArc<Shared>,
}

kernel::dump_root!(ibd_root: LinkRecord, *b"ibd_v001");

/// The records of the module's links.
pub(crate) struct LinkRecords(Records<LinkRecord>);

/// One of them, gone when this is dropped.
pub(crate) struct Recorded {
    records: KArc<LinkRecords>,
    shared: KArc<Shared>,
}

impl LinkRecords {
    /// Once a module.
    pub(crate) fn new(may_block: &MayBlock) -> KArc<Self> {
        KArc::new_waiting(Self(Records::new(&ibd_root, may_block)), may_block)
    }

    /// One more link.
    #[inline(never)]
    pub(crate) fn record(
        records: &KArc<Self>,
        dip: DevInfo,
        shared: &KArc<Shared>,
        may_block: &MayBlock,
    ) -> KBox<Recorded> {
        let node = &shared.node;
        let record = LinkRecord {
            number: shared.number,
            port: node.port.into(),
            hca: node.hca.get(),
            pkey: shared.pkey.get().into(),
            dip,
            values: shared.dumped(may_block).into(),
            shared: shared.clone(),
        };
        records.0.add(record, may_block);
        KBox::new_waiting(Recorded { records: records.clone(), shared: shared.clone() }, may_block)
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let record = self.records.0.take(|record| KArc::ptr_eq(&record.shared, &self.shared));
        drop(record);
    }
}

/// As docs/debugging.md has it, where the address of the next record is the first field.
#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::LinkRecord;

    #[test]
    fn a_record_is_laid_out_as_its_magic_says() {
        let offsets = [
            offset_of!(LinkRecord, number),
            offset_of!(LinkRecord, port),
            offset_of!(LinkRecord, hca),
            offset_of!(LinkRecord, pkey),
            offset_of!(LinkRecord, dip),
            offset_of!(LinkRecord, values),
        ];
        assert_eq!(offsets, [0, 4, 8, 16, 24, 32]);
    }
}
