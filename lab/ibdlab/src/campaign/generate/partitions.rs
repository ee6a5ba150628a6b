//! What the broadcast group of a partition is like, as site administrators configure it.

use rand::RngExt;

use super::{Generator, at};
use crate::report::SmKind;
use crate::scenario::PartitionSpec;

/// The usual Q_Key and others, also with the bit that has a sender use its own queue pair's.
const QKEYS: [u32; 4] = [0xb1b, 0x8000_0b1b, 0x1234_5678, 0x8000_0001];

impl Generator<'_> {
    /// Every third group that the subnet manager makes has something of its own.
    pub(super) fn group_of(&mut self, pkey: u16, ready_made: bool, sm: SmKind) -> PartitionSpec {
        let spec = PartitionSpec::new(at(pkey), ready_made);
        if !ready_made || self.rng.random_range(0..3) > 0 {
            return spec;
        }
        // OpenSM gives a group the hop limit of its scope.
        let hop_limit = self.pick(&[None, None, Some(0), Some(1), Some(64)]);
        PartitionSpec {
            sl: self.pick(&[None, Some(1), Some(7), Some(15)]).map(at),
            qkey: Some(at(self.pick(&QKEYS))),
            tclass: self.pick(&[None, Some(0x28), Some(0xff)]).map(at),
            flow_label: self.pick(&[None, Some(5), Some(0xf_ffff)]).map(at),
            hop_limit: hop_limit.filter(|_| sm == SmKind::Embedded).map(at),
            scope: self.pick(&[None, None, Some(5), Some(8), Some(0xe)]).map(at),
            ..spec
        }
    }
}
