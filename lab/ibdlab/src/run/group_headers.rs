//! What hosts have sent to groups, against what the subnet administrator says of these groups.
//!
//! RFC 4391, section 4, has every packet of a group carry what the group's record says: Q_Key, SL, TClass, FlowLabel and hop limit.

use std::collections::BTreeMap;

use fabric::{Fabric, GroupHeaders, PKey};
use lab_ibtf::InfiniBand;
use serde_spanned::Spanned;
use sm::partition::broadcast_mgid;
use sm::records::McMemberRecord;

use crate::scenario::Scenario;
use crate::setup;

/// What the headers are held against.
pub struct GroupRecords {
    /// What the broadcast group of each partition has, by the P_Key without the membership bit; where hosts make it, nothing.
    partitions: BTreeMap<u16, McMemberRecord>,
}

impl GroupRecords {
    /// Begins to watch what is sent.
    pub fn watch(fabric: &Fabric, scenario: &Scenario) -> Self {
        fabric.watch_groups();
        let specs = scenario.partition.iter().map(Spanned::get_ref).map(setup::partition);
        let broadcast = |partition: sm::Partition| {
            let group = partition.groups.first()?;
            Some((partition.p_key.base(), group.record(partition.p_key, 0)))
        };
        Self { partitions: specs.filter_map(broadcast).collect() }
    }

    /// The first header since the last call that no record of its group has.
    pub fn first_misfit(&self, infiniband: &InfiniBand) -> Option<String> {
        let sent = infiniband.fabric().take_sent_to_groups();
        if sent.is_empty() {
            return None;
        }
        match infiniband.sms() {
            // What it said that was not so, its packets have.
            sms if sms.iter().any(|sm| sm.inspect(|sm| sm.sa().has_lied())) => None,
            sms if !sms.is_empty() => {
                let records: Vec<_> = sms.iter().flat_map(|sm| sm.change(sm::Sm::group_records)).collect();
                sent.iter().find_map(|headers| misfit(headers, &records))
            }
            // A real one is asked for members alone: its configuration says what groups have.
            _ => {
                let of = |headers: &GroupHeaders| self.partitions.get(&headers.mgid.ipoib_pkey().base());
                let fits = |headers: &GroupHeaders| of(headers).is_none_or(|record| alike(headers, record));
                let wrong = sent.iter().find(|headers| !fits(headers))?;
                Some(format!("sent to a group with {wrong:?}; its partition has {:?}", of(wrong)))
            }
        }
    }
}

/// What is wrong with headers: no record of the group has them, or none of the broadcast group, which every group of a link follows
/// (RFC 4391, section 5).
fn misfit(sent: &GroupHeaders, records: &[McMemberRecord]) -> Option<String> {
    let of = |mgid| records.iter().filter(move |record| record.mgid == mgid);
    let exact = |record: &McMemberRecord| record.mlid == sent.mlid && alike(sent, record);
    if !of(sent.mgid).any(exact) {
        let known = of(sent.mgid).collect::<Vec<_>>();
        return Some(format!("sent to a group with {sent:?}; the SA's records of the group are {known:?}"));
    }
    let broadcast = broadcast_mgid(sent.mgid.ipoib_pkey(), sent.mgid.scope());
    let known = of(broadcast).collect::<Vec<_>>();
    let follows = known.is_empty() || known.iter().any(|record| alike(sent, record));
    (!follows).then(|| format!("sent to a group with {sent:?}; its broadcast group has {known:?}"))
}

/// Apart from where the group is.
fn alike(sent: &GroupHeaders, record: &McMemberRecord) -> bool {
    sent.sl == record.sl
        && sent.t_class == record.t_class
        && sent.flow_label == record.flow_label
        && sent.hop_limit == record.hop_limit
        && sent.q_key == record.q_key
        && held(sent).any(|key| key.base() == record.p_key.base())
}

/// The P_Key that the packet has, and what its sender may have meant.
fn held(sent: &GroupHeaders) -> impl Iterator<Item = PKey> {
    std::iter::once(sent.p_key).chain(sent.p_keys_before.iter().copied())
}
