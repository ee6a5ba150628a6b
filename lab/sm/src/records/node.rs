//! `NodeRecord`: a node as one of its ports shows it (IBA volume 1, 15.2.5.2; NodeInfo 14.2.5.3).

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Record;
use crate::mad::Attribute;
use crate::types::{Guid, Lid};

/// Component mask bits of [`NodeRecord`].
pub mod node_mask {
    #![allow(missing_docs, reason = "the names of the record's fields")]
    pub const LID: u64 = 1 << 0;
    pub const NODE_TYPE: u64 = 1 << 4;
    pub const NUM_PORTS: u64 = 1 << 5;
    pub const SYSTEM_IMAGE_GUID: u64 = 1 << 6;
    pub const NODE_GUID: u64 = 1 << 7;
    pub const PORT_GUID: u64 = 1 << 8;
    pub const PORT_NUM: u64 = 1 << 12;
}

/// `NodeType`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NodeType {
    /// A channel adapter.
    #[default]
    ChannelAdapter,
    /// A switch.
    Switch,
    /// A router.
    Router,
    /// No type of the standard's.
    Other(u8),
}

impl NodeType {
    /// From the wire.
    pub const fn from_wire(raw: u8) -> Self {
        match raw {
            1 => Self::ChannelAdapter,
            2 => Self::Switch,
            3 => Self::Router,
            other => Self::Other(other),
        }
    }

    /// To the wire.
    pub const fn to_wire(self) -> u8 {
        match self {
            Self::ChannelAdapter => 1,
            Self::Switch => 2,
            Self::Router => 3,
            Self::Other(other) => other,
        }
    }
}

/// A node as one of its ports shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// The port's.
    pub lid: Lid,
    /// What it is.
    pub node_type: NodeType,
    /// Ports of the node.
    pub num_ports: u8,
    /// The system it belongs to.
    pub system_image_guid: Guid,
    /// The node's own.
    pub node_guid: Guid,
    /// The port's own.
    pub port_guid: Guid,
    /// Entries in a port's P_Key table.
    pub partition_cap: u16,
    /// The vendor's number for it.
    pub device_id: u16,
    /// The vendor's revision.
    pub revision: u32,
    /// Which port of the node.
    pub local_port_num: u8,
    /// 24 bits, an OUI.
    pub vendor_id: u32,
    /// Text, padded with zero bytes.
    pub description: [u8; 64],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Wire {
    lid: U16,
    reserved: [u8; 2],
    base_version: u8,
    class_version: u8,
    node_type: u8,
    num_ports: u8,
    system_image_guid: U64,
    node_guid: U64,
    port_guid: U64,
    partition_cap: U16,
    device_id: U16,
    revision: U32,
    port_vendor: U32,
    description: [u8; 64],
}

impl Record for NodeRecord {
    const ATTRIBUTE: Attribute = Attribute::NODE_RECORD;
    const LEN: usize = size_of::<Wire>();

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (wire, _) = Wire::ref_from_prefix(bytes).ok()?;
        let port_vendor = wire.port_vendor.get();
        Some(Self {
            lid: Lid(wire.lid.get()),
            node_type: NodeType::from_wire(wire.node_type),
            num_ports: wire.num_ports,
            system_image_guid: Guid(wire.system_image_guid.get()),
            node_guid: Guid(wire.node_guid.get()),
            port_guid: Guid(wire.port_guid.get()),
            partition_cap: wire.partition_cap.get(),
            device_id: wire.device_id.get(),
            revision: wire.revision.get(),
            local_port_num: (port_vendor >> 24) as u8,
            vendor_id: port_vendor & 0xff_ffff,
            description: wire.description,
        })
    }

    fn emit(&self) -> Vec<u8> {
        let wire = Wire {
            lid: self.lid.0.into(),
            reserved: [0; 2],
            base_version: 1,
            class_version: 1,
            node_type: self.node_type.to_wire(),
            num_ports: self.num_ports,
            system_image_guid: self.system_image_guid.0.into(),
            node_guid: self.node_guid.0.into(),
            port_guid: self.port_guid.0.into(),
            partition_cap: self.partition_cap.into(),
            device_id: self.device_id.into(),
            revision: self.revision.into(),
            port_vendor: (u32::from(self.local_port_num) << 24 | (self.vendor_id & 0xff_ffff)).into(),
            description: self.description,
        };
        wire.as_bytes().to_vec()
    }
}
