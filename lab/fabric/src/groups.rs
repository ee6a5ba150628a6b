//! What ports have sent to groups: which headers each group's packets have, for comparison with the group's record.

use std::collections::{BTreeMap, BTreeSet};

use lab_lock::Mutex;

use crate::port::Port;
use crate::wire::Packet;
use crate::{Fabric, Gid, Guid, Lid, PKey, QKey, Sl};

/// What a group's record decides about the headers of a packet to the group (InfiniBand Architecture volume 1, 15.2.5.17).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// What the entry of the port's table held before, since the last [`Fabric::take_sent_to_groups`]. A queue pair names the entry, and
    /// a subnet manager may give it another key at any time: the sender's driver hears of that only afterwards.
    pub p_keys_before: BTreeSet<PKey>,
}

/// Nothing is kept until it is asked for.
#[derive(Default)]
pub(crate) struct SentToGroups(Mutex<Option<Seen>>);

#[derive(Default)]
struct Seen {
    headers: BTreeSet<GroupHeaders>,
    /// What entries of P_Key tables held before, by port and index.
    replaced: BTreeMap<(Guid, u16), BTreeSet<PKey>>,
}

impl SentToGroups {
    /// A port sends a packet with the P_Key at this index of its table.
    pub(crate) fn note(&self, packet: &Packet<'_>, port: &Port, pkey_ix: u16) {
        let (Some(grh), true) = (packet.grh, packet.lrh.dlid.is_multicast()) else { return };
        if let Some(seen) = &mut *self.0.lock() {
            let before = seen.replaced.get(&(port.guid, pkey_ix));
            seen.headers.insert(GroupHeaders {
                mgid: grh.dgid,
                mlid: packet.lrh.dlid,
                sl: packet.lrh.sl,
                t_class: grh.tclass,
                flow_label: grh.flow_label,
                hop_limit: grh.hop_limit,
                q_key: packet.deth.qkey,
                p_key: packet.bth.pkey,
                p_keys_before: before.cloned().unwrap_or_default(),
            });
        }
    }

    /// A port's table of P_Keys becomes another one.
    pub(crate) fn replace(&self, port: Guid, before: &[PKey], after: &[PKey]) {
        if let Some(seen) = &mut *self.0.lock() {
            for (index, (was, _)) in (0..).zip(before.iter().zip(after)).filter(|(_, (was, is))| was != is) {
                seen.replaced.entry((port, index)).or_default().insert(*was);
            }
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
        self.0.sent_to_groups.0.lock().as_mut().map(std::mem::take).unwrap_or_default().headers
    }
}
