//! What the administrator says of itself, of nodes and of ports.

use super::{Endport, Found, Refusal, Sa, Verdict, record_of, require};
use crate::mad::{SaMad, Status};
use crate::records::{
    ClassPortInfo, NodeRecord, PKeyTableRecord, PortInfoRecord, node_mask, p_key_table_mask, port_info_mask,
};
use crate::types::{Guid, PKey, QKey, Qpn};

impl Sa {
    /// `Get(ClassPortInfo)`.
    pub(super) fn class_port_info(&self) -> Found {
        let mut trap = [0; 32];
        trap[28..].copy_from_slice(&QKey::GSI.0.to_be_bytes());
        let info = ClassPortInfo {
            capability_mask: OPENSM_CAPABILITIES,
            capability_mask2: OPENSM_CAPABILITIES2,
            resp_time: self.config.resp_time,
            redirect_qpn: Qpn::GSI,
            redirect_q_key: QKey::GSI,
            trap,
            ..ClassPortInfo::default()
        };
        Found { attribute_offset: 0, ..Found::records(&[info]) }
    }

    /// `Get` and `GetTable(NodeRecord)`.
    pub(super) fn query_nodes(&self, requester: Guid, mad: &SaMad) -> Verdict {
        let asked: NodeRecord = record_of(mad)?;
        let given = |bit: u64| mad.mask & bit != 0;
        let matches = |port: &&Endport| {
            let node = &port.node;
            (!given(node_mask::LID) || port.has_lid(asked.lid))
                && (!given(node_mask::NODE_TYPE) || node.node_type == asked.node_type)
                && (!given(node_mask::NUM_PORTS) || node.num_ports == asked.num_ports)
                && (!given(node_mask::SYSTEM_IMAGE_GUID) || node.system_image_guid == asked.system_image_guid)
                && (!given(node_mask::NODE_GUID) || node.node_guid == asked.node_guid)
                && (!given(node_mask::PORT_GUID) || node.port_guid == asked.port_guid)
                && (!given(node_mask::PORT_NUM) || node.local_port_num == asked.local_port_num)
        };
        let seen = self.seen_by(requester)?.into_iter().filter(matches);
        let records: Vec<NodeRecord> =
            seen.map(|port| NodeRecord { lid: port.info.lid, ..port.node }).collect();
        Ok(Found::records(&records))
    }

    /// `Get` and `GetTable(PortInfoRecord)`. Only the trusted see the M_Key.
    pub(super) fn query_ports(&self, requester: Guid, mad: &SaMad) -> Verdict {
        let asked: PortInfoRecord = record_of(mad)?;
        let given = |bit: u64| mad.mask & bit != 0;
        let matches = |port: &&Endport| {
            (!given(port_info_mask::LID) || port.has_lid(asked.endport_lid))
                && (!given(port_info_mask::PORT_NUM) || port.node.local_port_num == asked.port_num)
                && (!given(port_info_mask::CAPABILITY_MASK)
                    || port.info.capability_mask == asked.info.capability_mask)
        };
        let record = |port: &Endport| {
            let mut info = port.info;
            if mad.sm_key == 0 {
                info.m_key = 0;
            }
            PortInfoRecord {
                endport_lid: port.info.lid,
                port_num: port.node.local_port_num,
                options: 0,
                info,
            }
        };
        let records: Vec<PortInfoRecord> =
            self.seen_by(requester)?.into_iter().filter(matches).map(record).collect();
        Ok(Found::records(&records))
    }

    /// `Get` and `GetTable(P_KeyTableRecord)`, for the trusted. Any block that is asked for by its number is there, if need be empty.
    pub(super) fn query_p_keys(&self, requester: Guid, mad: &SaMad) -> Verdict {
        require(mad.sm_key != 0, Status::REQ_INVALID)?;
        let asked: PKeyTableRecord = record_of(mad)?;
        let given = |bit: u64| mad.mask & bit != 0;
        let matches = |port: &&Endport| {
            (!given(p_key_table_mask::LID) || port.has_lid(asked.lid))
                && (!given(p_key_table_mask::PORT_NUM) || port.node.local_port_num == asked.port_num)
        };
        let blocks = |port: &Endport| {
            let all = port.p_keys.len().div_ceil(PKeyTableRecord::BLOCK) as u16;
            let numbers = if given(p_key_table_mask::BLOCK) {
                asked.block..=asked.block
            } else {
                0..=all.saturating_sub(1)
            };
            numbers.map(|number| p_key_block(port, number)).collect::<Vec<_>>()
        };
        let seen = self.seen_by(requester)?.into_iter().filter(matches);
        Ok(Found::records(&seen.flat_map(blocks).collect::<Vec<_>>()))
    }

    /// The ports that share a partition with the requester.
    fn seen_by(&self, requester: Guid) -> Result<Vec<&Endport>, Refusal> {
        let requester = self.ports.get(&requester).ok_or(Refusal::Silence)?;
        Ok(self.ports.values().filter(|port| port.is_reachable_from(requester)).collect())
    }
}

fn p_key_block(port: &Endport, number: u16) -> PKeyTableRecord {
    let mut p_keys = [PKey(0); PKeyTableRecord::BLOCK];
    let from = port.p_keys.iter().skip(usize::from(number) * PKeyTableRecord::BLOCK);
    for (to, key) in p_keys.iter_mut().zip(from) {
        *to = *key;
    }
    PKeyTableRecord { lid: port.info.lid, block: number, port_num: port.node.local_port_num, p_keys }
}

/// What OpenSM 3.3.23 announces, less MultiPathRecord: it is not implemented here, and clients that see it missing ask for one
/// path at a time.
const OPENSM_CAPABILITIES: u16 = 0x2602 & !ClassPortInfo::MULTI_PATH;
/// OpenSM's second capability mask.
const OPENSM_CAPABILITIES2: u32 = 0xb5e8;
