//! A subnet of the software fabric as its manager sees it.

use fabric::subnet::{PortSet, PortView};
use fabric::{Fabric, Lmc, Mtu, NodeKind, PhysState, PortState};
use sm::records::{NodeRecord, NodeType, PortInfo};
use sm::{Endport, PortSettings, Subnet};

/// The switch and the ports on it.
pub(super) struct FabricSubnet(pub Fabric, pub fabric::Subnet);

impl Subnet for FabricSubnet {
    fn endports(&mut self) -> Vec<Endport> {
        let ports = self.0.subnet_ports();
        let linked = ports.iter().filter(|port| port.attr.phys == PhysState::LinkUp && port.subnet == self.1);
        linked.map(|port| endport(port, &ports)).collect()
    }

    fn set_port(&mut self, port: sm::Guid, settings: &PortSettings) {
        let set = PortSet {
            lid: Some(settings.lid),
            lmc: Lmc::new(settings.lmc),
            state: Some(port_state(settings.state)),
            sm_lid: Some(settings.sm_lid),
            sm_sl: Some(settings.sm_sl),
            mtu: Mtu::from_code(settings.neighbor_mtu.0),
            prefix: Some(settings.gid_prefix),
            subnet_timeout: Some(settings.subnet_timeout),
            init_type_reply: None,
            client_reregister: settings.client_reregister,
        };
        for claimant in
            self.claimants(port).filter(|claimant| settings.client_reregister || !has(claimant, settings))
        {
            // A port that has gone since it was found is missed by the next sweep.
            let _ = self.0.program_port(claimant.attr.guid, &set);
        }
    }

    fn set_p_keys(&mut self, port: sm::Guid, table: &[sm::PKey]) {
        for claimant in self.claimants(port) {
            // As above.
            let _ = self.0.set_pkeys(claimant.attr.guid, table);
        }
    }

    fn set_multicast_route(&mut self, mlid: sm::Lid, ports: &[sm::Guid]) {
        let ports = ports.iter().filter_map(|port| self.reached(*port)).collect();
        self.0.set_multicast_route_in(self.1, mlid, &ports);
    }
}

impl FabricSubnet {
    /// The ports that say they have this GUID.
    fn claimants(&self, guid: sm::Guid) -> impl Iterator<Item = PortView> {
        let subnet = self.1;
        let is = move |port: &PortView| port.subnet == subnet && port.attr.claimed() == guid;
        self.0.subnet_ports().into_iter().filter(is)
    }

    /// Of the ports of this GUID, that which the switch sends packets for their LID to: a subnet manager has one port of a GUID.
    fn reached(&self, guid: sm::Guid) -> Option<sm::Guid> {
        let first = self.claimants(guid).next()?.attr;
        let at_lid = self.0.subnet_port_at_in(self.1, first.lid).filter(|port| port.attr.claimed() == guid);
        Some(at_lid.map_or(first.guid, |port| port.attr.guid))
    }
}

fn has(port: &PortView, settings: &PortSettings) -> bool {
    let mut info = port_info(port);
    let before = info;
    settings.apply(&mut info);
    info == before
}

fn endport(port: &PortView, all: &[PortView]) -> Endport {
    let ports_of_node = all.iter().filter(|other| other.node == port.node).count();
    let mut description = [0; 64];
    let text = port.description.as_bytes();
    let shown = text.len().min(description.len());
    description[..shown].copy_from_slice(&text[..shown]);
    let attr = &port.attr;
    let node = NodeRecord {
        lid: attr.lid,
        node_type: match port.kind {
            NodeKind::ChannelAdapter => NodeType::ChannelAdapter,
            NodeKind::Router => NodeType::Router,
        },
        num_ports: u8::try_from(ports_of_node).unwrap_or(u8::MAX),
        system_image_guid: port.node,
        node_guid: port.node,
        port_guid: attr.claimed(),
        partition_cap: u16::try_from(attr.pkeys.len()).unwrap_or(u16::MAX),
        device_id: 0,
        revision: 0,
        local_port_num: port.num.0,
        vendor_id: 0,
        description,
    };
    Endport { node, info: port_info(port), p_keys: attr.pkeys.clone() }
}

fn port_info(port: &PortView) -> PortInfo {
    let attr = &port.attr;
    let prefix = attr.gids.first().map_or(0, |gid| gid.prefix);
    PortInfo {
        gid_prefix: prefix,
        lid: attr.lid,
        master_sm_lid: attr.sm_lid,
        capability_mask: attr.capabilities,
        local_port_num: port.num.0,
        link_width_enabled: attr.width as u8,
        link_width_supported: attr.width as u8,
        link_width_active: attr.width as u8,
        link_speed_supported: attr.speed.code(),
        port_state: attr.state as u8,
        port_physical_state: attr.phys as u8,
        m_key_protect_lmc: attr.lmc.get(),
        link_speed_active: attr.speed.code(),
        link_speed_enabled: attr.speed.code(),
        link_speed_ext_active: attr.speed.extended_code(),
        link_speed_ext_supported: attr.speed.extended_code(),
        link_speed_ext_enabled: attr.speed.extended_code(),
        neighbor_mtu: sm::MtuCode(attr.mtu.code()),
        master_sm_sl: attr.sm_sl,
        init_type_reply: attr.init_type_reply,
        mtu_cap: sm::MtuCode(attr.mtu_cap.code()),
        guid_cap: u8::try_from(attr.gids.len()).unwrap_or(u8::MAX),
        p_key_violations: u16::try_from(attr.pkey_violations).unwrap_or(u16::MAX),
        q_key_violations: u16::try_from(attr.qkey_violations).unwrap_or(u16::MAX),
        subnet_timeout: attr.subnet_timeout,
        ..PortInfo::default()
    }
}

pub(super) const fn port_state(state: sm::PortState) -> PortState {
    match state {
        sm::PortState::Down => PortState::Down,
        sm::PortState::Init => PortState::Init,
        sm::PortState::Armed => PortState::Armed,
        sm::PortState::Active => PortState::Active,
    }
}
