//! What ports have sent to groups: which headers each group's packets have, for comparison with the group's record.

use std::collections::BTreeSet;

use lab_lock::Mutex;

use crate::wire::Packet;
use crate::{Fabric, Gid, Lid, PKey, QKey, Sl};

/// What a group's record decides about the headers of a packet to the group (InfiniBand Architecture volume 1, 15.2.5.17).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupHeaders {
    /// Destination in the GRH.
    pub mgid: Gid,
    /// Destination in the LRH.
    pub mlid: Lid,
    /// Service level, 0 to 15.
    pub sl: Sl,
    /// Traffic class.
    pub t_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Queue key.
    pub q_key: QKey,
    /// Partition key, as the sender holds it.
    pub p_key: PKey,
}

/// Nothing is kept until somebody asks for it.
#[derive(Default)]
pub(crate) struct SentToGroups(Mutex<Option<BTreeSet<GroupHeaders>>>);

impl SentToGroups {
    pub(crate) fn note(&self, packet: &Packet<'_>) {
        let (Some(grh), true) = (packet.grh, packet.lrh.dlid.is_multicast()) else { return };
        if let Some(seen) = &mut *self.0.lock() {
            seen.insert(GroupHeaders {
                mgid: grh.dgid,
                mlid: packet.lrh.dlid,
                sl: packet.lrh.sl,
                t_class: grh.tclass,
                flow_label: grh.flow_label,
                hop_limit: grh.hop_limit,
                q_key: packet.deth.qkey,
                p_key: packet.bth.pkey,
            });
        }
    }
}

impl Fabric {
    /// Notes from now on which headers ports send to groups with. Each kind of header is kept once.
    pub fn watch_groups(&self) {
        self.0.sent_to_groups.0.lock().get_or_insert_default();
    }

    /// What was noted since the last call.
    pub fn take_sent_to_groups(&self) -> BTreeSet<GroupHeaders> {
        self.0.sent_to_groups.0.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }
}
