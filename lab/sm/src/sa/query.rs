//! What the administrator says of itself, of nodes and of ports.

use super::{Endport, Found, Refusal, Sa, Verdict, record_of};
use crate::mad::SaMad;
use crate::records::{ClassPortInfo, NodeRecord, PortInfoRecord, node_mask, port_info_mask};
use crate::types::{Guid, QKey, Qpn};

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

    /// The ports that share a partition with the requester.
    fn seen_by(&self, requester: Guid) -> Result<Vec<&Endport>, Refusal> {
        let requester = self.ports.get(&requester).ok_or(Refusal::Silence)?;
        Ok(self.ports.values().filter(|port| port.is_reachable_from(requester)).collect())
    }
}

/// What OpenSM 3.3.23 announces, less MultiPathRecord: it is not implemented here, and clients that see it missing ask for one
/// path at a time.
const OPENSM_CAPABILITIES: u16 = 0x2602 & !ClassPortInfo::MULTI_PATH;
/// OpenSM's second capability mask.
const OPENSM_CAPABILITIES2: u32 = 0xb5e8;
