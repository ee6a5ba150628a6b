//! [`Found`]: the records of an answer.

use crate::fault::Lie;
use crate::mad::Attribute;
use crate::records::{Record, attribute_offset, emit_table};
use crate::types::Lid;

/// The records a request is answered with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub attribute_offset: u16,
    pub count: usize,
    pub data: Vec<u8>,
}

impl Found {
    pub fn records<R: Record>(records: &[R]) -> Self {
        Self { attribute_offset: attribute_offset::<R>(), count: records.len(), data: emit_table(records) }
    }

    /// Bytes of each record: the offset is in units of eight, and a record alone may come without.
    fn record_len(&self) -> usize {
        match usize::from(self.attribute_offset) * 8 {
            0 => self.data.len().max(1),
            len => len,
        }
    }

    pub fn told(self, attribute: Attribute, lie: Lie, other: Lid) -> Self {
        let data = lie.told(attribute, &self.data, self.record_len(), other);
        Self { data, ..self }
    }

    pub fn overwritten(mut self, at: usize, bytes: &[u8]) -> Self {
        let len = self.record_len();
        for record in self.data.chunks_mut(len) {
            if let Some(place) = record.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        }
        self
    }
}
