//! What the adapter can do.

use ibtf_provider::Attributes;

use crate::buffers::SHARED_SEGMENTS;
use crate::keys;
use crate::numbers;
use crate::offload;
use crate::port::{GIDS, node_guid};
use crate::sa::{DEVICE, PKEYS, VENDOR};

/// Work requests in a queue.
pub(crate) const MAX_QUEUE: u32 = 16_384;
/// Entries of a scatter/gather list.
pub(crate) const MAX_SEGMENTS: u32 = 60;
/// Completions in a CQ.
pub(crate) const MAX_CQ: u32 = 65_536;

/// Of what there can be so many.
pub(crate) const MAX_SRQS: u32 = 1024;
pub(crate) const MAX_CQS: u32 = 4096;
pub(crate) const MAX_AHS: u32 = 65_536;
pub(crate) const MAX_PDS: u32 = 32_768;

/// Completions, and microseconds, that a call of a CQ's owner can be told to wait for.
pub(crate) const MAX_MODERATION: u32 = 0xffff;

/// What `swhca.conf` can switch off.
#[derive(Clone, Copy)]
pub(crate) struct Features {
    pub(crate) checksum: bool,
    /// With checksums and the reserved key only: a driver does not use them without.
    pub(crate) large_send: bool,
    pub(crate) reserved_key: bool,
    /// Shared receive queues.
    pub(crate) shared: bool,
    /// Of management datagrams that queue pair 1 gets.
    pub(crate) classes: Classes,
}

/// Classes of management: eight at most, and 0, which is none, for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Classes([u8; CLASSES]);

pub(crate) const CLASSES: usize = 8;

impl Classes {
    /// Those that a module of the gate registers for: `ibmf` loads a module for each other one that comes, or tries to. Subnet
    /// administration, device management, communication management.
    pub(crate) const USUAL: Self = Self([3, 6, 7, 0, 0, 0, 0, 0]);

    /// The first eight.
    pub(crate) fn of(classes: impl Iterator<Item = u8>) -> Self {
        let mut all = [0; CLASSES];
        for (to, from) in all.iter_mut().zip(classes) {
            *to = from;
        }
        Self(all)
    }

    pub(crate) fn has(self, class: u8) -> bool {
        class != 0 && self.0.contains(&class)
    }
}

/// The data of a large send.
pub(crate) const MAX_LARGE_SEND: u32 = 65_536;

/// The attributes of adapter `unit` with so many ports.
pub(crate) fn of(unit: u32, ports: u8, features: Features) -> Attributes {
    Attributes {
        node_guid: node_guid(unit),
        vendor_id: VENDOR,
        device_id: DEVICE,
        ports,
        pkeys: PKEYS as u16,
        gids: GIDS,
        max_qps: numbers::MAX as u32,
        max_queue: MAX_QUEUE,
        max_send_segments: MAX_SEGMENTS,
        max_receive_segments: MAX_SEGMENTS,
        max_cqs: MAX_CQS,
        max_cq: MAX_CQ,
        max_moderation: MAX_MODERATION,
        max_regions: keys::MAX_REGIONS as u32,
        max_address_handles: MAX_AHS,
        max_pds: MAX_PDS,
        max_srqs: if features.shared { MAX_SRQS } else { 0 },
        max_srq: if features.shared { MAX_QUEUE } else { 0 },
        max_srq_segments: if features.shared { SHARED_SEGMENTS as u32 } else { 0 },
        max_groups: 4096,
        max_qps_of_group: 1024,
        checksums: features.checksum,
        large_send: if features.large_send { MAX_LARGE_SEND } else { 0 },
        large_send_header: if features.large_send { offload::HEAD as u32 } else { 0 },
        reserved_key: features.reserved_key.then_some(keys::RESERVED_KEY),
    }
}

#[cfg(test)]
mod tests {
    use super::Classes;

    #[test]
    fn only_the_classes_that_are_named_come_up() {
        let all = |set: Classes| (0..=255).filter(|class| set.has(*class)).collect::<Vec<u8>>();
        assert_eq!(all(Classes::USUAL), [3, 6, 7]);
        assert_eq!(all(Classes::of([63, 64, 255].into_iter())), [63, 64, 255]);
    }
}
