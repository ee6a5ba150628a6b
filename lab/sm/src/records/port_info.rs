//! `PortInfo` and `PortInfoRecord`: a port's state (IBA volume 1, 14.2.5.6 and 15.2.5.3).

use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Record;
use crate::mad::Attribute;
use crate::types::{Lid, MtuCode, Sl};

/// Component mask bits of [`PortInfoRecord`].
pub mod port_info_mask {
    #![allow(missing_docs, reason = "the names of the record's fields")]
    pub const LID: u64 = 1 << 0;
    pub const PORT_NUM: u64 = 1 << 1;
    pub const CAPABILITY_MASK: u64 = 1 << 7;
}

/// Bits of `CapabilityMask`.
pub mod port_capability {
    /// A subnet manager runs here.
    pub const IS_SM: u32 = 0x2;
    /// It sends traps.
    pub const IS_TRAP: u32 = 0x8;
    /// The extended speeds mean something.
    pub const EXTENDED_SPEEDS: u32 = 0x4000;
    /// Its capability mask can change.
    pub const CAP_MASK_TRAP: u32 = 0x40_0000;
    /// It can be told to register its clients anew.
    pub const CLIENT_REREGISTRATION: u32 = 0x200_0000;
}

/// A port's state: 64 bytes. Numbers are as on the wire; the methods of the newtypes say what they mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortInfo {
    /// Who may change the port.
    pub m_key: u64,
    /// The subnet prefix of its GIDs.
    pub gid_prefix: u64,
    /// The base LID.
    pub lid: Lid,
    /// Where its subnet manager is.
    pub master_sm_lid: Lid,
    /// [`port_capability`].
    pub capability_mask: u32,
    /// The diagnostic code.
    pub diag_code: u16,
    /// Seconds, 0 for ever.
    pub m_key_lease_period: u16,
    /// Which port.
    pub local_port_num: u8,
    /// Widths allowed.
    pub link_width_enabled: u8,
    /// Widths possible.
    pub link_width_supported: u8,
    /// 1, 2 = 4x, 4 = 8x, 8 = 12x, 16 = 2x.
    pub link_width_active: u8,
    /// Four bits: 1 = 2.5, 2 = 5, 4 = 10 Gb/s per lane.
    pub link_speed_supported: u8,
    /// Four bits: 1 Down, 2 Init, 3 Armed, 4 Active.
    pub port_state: u8,
    /// Four bits: 2 Polling, 3 Disabled, 5 LinkUp.
    pub port_physical_state: u8,
    /// Four bits.
    pub link_down_default_state: u8,
    /// `MKeyProtectBits` and LMC: one byte.
    pub m_key_protect_lmc: u8,
    /// Four bits: 1, 2, 4; 0 if only the extended speed says it.
    pub link_speed_active: u8,
    /// Four bits.
    pub link_speed_enabled: u8,
    /// What the link carries, four bits.
    pub neighbor_mtu: MtuCode,
    /// Service level to the subnet manager.
    pub master_sm_sl: Sl,
    /// Four bits.
    pub vl_cap: u8,
    /// Four bits.
    pub init_type: u8,
    /// Virtual lane arbitration: high limit and two table sizes.
    pub vl_limits: [u8; 3],
    /// Four bits.
    pub init_type_reply: u8,
    /// What the port could carry, four bits.
    pub mtu_cap: MtuCode,
    /// One byte.
    pub vl_stall_hoq: u8,
    /// Four bits: lanes in use.
    pub operational_vls: u8,
    /// Four bits: partition and filter enforcement.
    pub enforcement: u8,
    /// Packets with a wrong M_Key.
    pub m_key_violations: u16,
    /// Packets with a wrong P_Key.
    pub p_key_violations: u16,
    /// Packets with a wrong Q_Key.
    pub q_key_violations: u16,
    /// Entries of the GID table.
    pub guid_cap: u8,
    /// The subnet manager asks the port's clients to register anew.
    pub client_reregister: bool,
    /// An `ib_time_t` of five bits.
    pub subnet_timeout: u8,
    /// An `ib_time_t` of five bits.
    pub resp_time_value: u8,
    /// Four bits: 0 if `link_speed_active` says it, 1 (14.0625 Gb/s a lane), 2 (25.78125), 4 (53.125), 8 (106.25).
    pub link_speed_ext_active: u8,
    /// Four bits, one for each of these.
    pub link_speed_ext_supported: u8,
    /// Five bits.
    pub link_speed_ext_enabled: u8,
}

impl PortInfo {
    /// The port answers to 2^`lmc` LIDs.
    pub const fn lmc(&self) -> u8 {
        self.m_key_protect_lmc & 7
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Wire {
    m_key: U64,
    gid_prefix: U64,
    lid: U16,
    master_sm_lid: U16,
    capability_mask: U32,
    diag_code: U16,
    m_key_lease_period: U16,
    local_port_num: u8,
    link_width_enabled: u8,
    link_width_supported: u8,
    link_width_active: u8,
    speed_supported_state: u8,
    physical_down_default: u8,
    m_key_protect_lmc: u8,
    speed_active_enabled: u8,
    neighbor_mtu_sm_sl: u8,
    vl_cap_init_type: u8,
    vl_limits: [u8; 3],
    init_reply_mtu_cap: u8,
    vl_stall_hoq: u8,
    operational_vls_enforcement: u8,
    m_key_violations: U16,
    p_key_violations: U16,
    q_key_violations: U16,
    guid_cap: u8,
    reregister_timeout: u8,
    resp_time_value: u8,
    reserved: [u8; 9],
    ext_speed_active_supported: u8,
    ext_speed_enabled: u8,
}

const fn nibbles(high: u8, low: u8) -> u8 {
    high << 4 | (low & 0xf)
}

impl From<&Wire> for PortInfo {
    fn from(wire: &Wire) -> Self {
        Self {
            m_key: wire.m_key.get(),
            gid_prefix: wire.gid_prefix.get(),
            lid: Lid(wire.lid.get()),
            master_sm_lid: Lid(wire.master_sm_lid.get()),
            capability_mask: wire.capability_mask.get(),
            diag_code: wire.diag_code.get(),
            m_key_lease_period: wire.m_key_lease_period.get(),
            local_port_num: wire.local_port_num,
            link_width_enabled: wire.link_width_enabled,
            link_width_supported: wire.link_width_supported,
            link_width_active: wire.link_width_active,
            link_speed_supported: wire.speed_supported_state >> 4,
            port_state: wire.speed_supported_state & 0xf,
            port_physical_state: wire.physical_down_default >> 4,
            link_down_default_state: wire.physical_down_default & 0xf,
            m_key_protect_lmc: wire.m_key_protect_lmc,
            link_speed_active: wire.speed_active_enabled >> 4,
            link_speed_enabled: wire.speed_active_enabled & 0xf,
            neighbor_mtu: MtuCode(wire.neighbor_mtu_sm_sl >> 4),
            master_sm_sl: Sl::truncating(wire.neighbor_mtu_sm_sl),
            vl_cap: wire.vl_cap_init_type >> 4,
            init_type: wire.vl_cap_init_type & 0xf,
            vl_limits: wire.vl_limits,
            init_type_reply: wire.init_reply_mtu_cap >> 4,
            mtu_cap: MtuCode(wire.init_reply_mtu_cap & 0xf),
            vl_stall_hoq: wire.vl_stall_hoq,
            operational_vls: wire.operational_vls_enforcement >> 4,
            enforcement: wire.operational_vls_enforcement & 0xf,
            m_key_violations: wire.m_key_violations.get(),
            p_key_violations: wire.p_key_violations.get(),
            q_key_violations: wire.q_key_violations.get(),
            guid_cap: wire.guid_cap,
            client_reregister: wire.reregister_timeout & 0x80 != 0,
            subnet_timeout: wire.reregister_timeout & 31,
            resp_time_value: wire.resp_time_value & 31,
            link_speed_ext_active: wire.ext_speed_active_supported >> 4,
            link_speed_ext_supported: wire.ext_speed_active_supported & 0xf,
            link_speed_ext_enabled: wire.ext_speed_enabled & 31,
        }
    }
}

impl From<&PortInfo> for Wire {
    fn from(info: &PortInfo) -> Self {
        Self {
            m_key: info.m_key.into(),
            gid_prefix: info.gid_prefix.into(),
            lid: info.lid.0.into(),
            master_sm_lid: info.master_sm_lid.0.into(),
            capability_mask: info.capability_mask.into(),
            diag_code: info.diag_code.into(),
            m_key_lease_period: info.m_key_lease_period.into(),
            local_port_num: info.local_port_num,
            link_width_enabled: info.link_width_enabled,
            link_width_supported: info.link_width_supported,
            link_width_active: info.link_width_active,
            speed_supported_state: nibbles(info.link_speed_supported, info.port_state),
            physical_down_default: nibbles(info.port_physical_state, info.link_down_default_state),
            m_key_protect_lmc: info.m_key_protect_lmc,
            speed_active_enabled: nibbles(info.link_speed_active, info.link_speed_enabled),
            neighbor_mtu_sm_sl: nibbles(info.neighbor_mtu.0, info.master_sm_sl.get()),
            vl_cap_init_type: nibbles(info.vl_cap, info.init_type),
            vl_limits: info.vl_limits,
            init_reply_mtu_cap: nibbles(info.init_type_reply, info.mtu_cap.0),
            vl_stall_hoq: info.vl_stall_hoq,
            operational_vls_enforcement: nibbles(info.operational_vls, info.enforcement),
            m_key_violations: info.m_key_violations.into(),
            p_key_violations: info.p_key_violations.into(),
            q_key_violations: info.q_key_violations.into(),
            guid_cap: info.guid_cap,
            reregister_timeout: u8::from(info.client_reregister) << 7 | (info.subnet_timeout & 31),
            resp_time_value: info.resp_time_value & 31,
            reserved: [0; 9],
            ext_speed_active_supported: nibbles(info.link_speed_ext_active, info.link_speed_ext_supported),
            ext_speed_enabled: info.link_speed_ext_enabled & 31,
        }
    }
}

impl Record for PortInfo {
    /// Of the subnet management class.
    const ATTRIBUTE: Attribute = Attribute(0x0015);
    const LEN: usize = size_of::<Wire>();

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (wire, _) = Wire::ref_from_prefix(bytes).ok()?;
        Some(wire.into())
    }

    fn emit(&self) -> Vec<u8> {
        Wire::from(self).as_bytes().to_vec()
    }
}

/// A port's state, and where the port is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortInfoRecord {
    /// LID of the node's end port.
    pub endport_lid: Lid,
    /// Which port of the node.
    pub port_num: u8,
    /// One byte.
    pub options: u8,
    /// Its state.
    pub info: PortInfo,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RecordWire {
    endport_lid: U16,
    port_num: u8,
    options: u8,
    info: Wire,
}

impl Record for PortInfoRecord {
    const ATTRIBUTE: Attribute = Attribute::PORT_INFO_RECORD;
    const LEN: usize = size_of::<RecordWire>();

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (wire, _) = RecordWire::ref_from_prefix(bytes).ok()?;
        Some(Self {
            endport_lid: Lid(wire.endport_lid.get()),
            port_num: wire.port_num,
            options: wire.options,
            info: (&wire.info).into(),
        })
    }

    fn emit(&self) -> Vec<u8> {
        let wire = RecordWire {
            endport_lid: self.endport_lid.0.into(),
            port_num: self.port_num,
            options: self.options,
            info: (&self.info).into(),
        };
        wire.as_bytes().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_standard_puts_them() {
        let info = PortInfo {
            lid: Lid(7),
            master_sm_lid: Lid(1),
            link_width_active: 2,
            port_state: 4,
            link_speed_supported: 1,
            port_physical_state: 5,
            link_speed_active: 1,
            neighbor_mtu: MtuCode::B2048,
            mtu_cap: MtuCode::B4096,
            p_key_violations: 3,
            guid_cap: 32,
            client_reregister: true,
            subnet_timeout: 18,
            resp_time_value: 16,
            link_speed_ext_active: 2,
            link_speed_ext_supported: 7,
            link_speed_ext_enabled: 3,
            ..PortInfo::default()
        };
        let bytes = info.emit();
        assert_eq!(bytes.len(), 64);
        assert_eq!(bytes[16..20], [0, 7, 0, 1]);
        assert_eq!(bytes[31..34], [2, 0x14, 0x50]);
        assert_eq!((bytes[35], bytes[36], bytes[41]), (0x10, 0x40, 0x05));
        assert_eq!(bytes[46..48], [0, 3]);
        assert_eq!(bytes[50..53], [32, 0x80 | 18, 16]);
        assert_eq!(bytes[62..], [0x27, 3]);
    }
}
