//! What an HCA is and can do (`ibt_hca_attr_t`; section names follow `sys/ib/ibtl/ibtl_types.h`).

use crate::{Arithmetic, Guid, LinkSpeed, LinkWidth, Mtu, Nanos, Subnet};

/// What arming a CQ does about completions that are already there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ArmSemantics {
    /// Fire at once if the CQ is not empty: what the reference HCA does and clients came to rely on.
    #[default]
    FireIfPending,
    /// Only a completion added after arming fires: the contract's minimum, which shows drivers that forget to poll again.
    OnlyNew,
}

/// Attributes fixed when the HCA appears. Counts are maxima per HCA unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HcaAttr {
    /// How it counts the room in its queues, and what it does with a mapping that does not fit.
    pub arithmetic: Arithmetic,
    /// Checksum insertion and verification for IPoIB frames (`CKSUM_FULL`).
    pub cksum_full: bool,
    /// SGL entries may carry [`HcaAttr::reserved_lkey`] and a DMA address (`RES_LKEY`).
    pub res_lkey: bool,
    /// Value of the reserved key.
    pub reserved_lkey: u32,
    /// Longest LSO payload in bytes; 0 = no LSO.
    pub max_lso_size: u32,
    /// Longest LSO header in bytes (the 4-byte IPoIB header counts).
    pub max_lso_hdr_size: u32,
    /// Longest inline send in bytes.
    pub max_inline: u32,
    /// Work requests per queue.
    pub max_chan_sz: u32,
    /// Entries per SGL.
    pub max_sgl: u32,
    /// SGL entries of a UD send WR.
    pub ud_send_sgl: u32,
    /// SGL entries of a send WR on a connection.
    pub conn_send_sgl: u32,
    /// SGL entries of a receive WR.
    pub recv_sgl: u32,
    /// Completion queues.
    pub max_cq: u32,
    /// Entries per CQ.
    pub max_cq_sz: u32,
    /// Queue pairs.
    pub max_qp: u32,
    /// Protection domains.
    pub max_pd: u32,
    /// Address handles; 0 = unlimited.
    pub max_ah: u32,
    /// Memory regions.
    pub max_mr: u32,
    /// Bytes per memory region.
    pub max_mr_len: u64,
    /// Multicast groups.
    pub max_mcg: u32,
    /// QPs per multicast group.
    pub max_qp_per_mcg: u32,
    /// Codes of the static rates that an address handle may have; another is refused.
    pub static_rates: &'static [u8],
    /// Shared receive queues.
    pub max_srq: u32,
    /// Work requests per SRQ.
    pub max_srq_sz: u32,
    /// SGL entries per SRQ receive.
    pub max_srq_sgl: u32,
    /// An SRQ may be asked to tell when it runs low; the reference adapter's driver refuses.
    pub srq_limit: bool,
    /// Interrupts a CQ may be pinned to, counted from 1.
    pub max_cq_handlers: u32,
    /// Vendor, device and revision as NodeInfo shows them.
    pub vendor_id: u32,
    /// Device identifier.
    pub device_id: u16,
    /// Hardware revision.
    pub version_id: u32,
}

impl Default for HcaAttr {
    fn default() -> Self {
        HcaAttr {
            arithmetic: Arithmetic::default(),
            cksum_full: false,
            res_lkey: false,
            reserved_lkey: 0x0000_ff00,
            max_lso_size: 0,
            max_lso_hdr_size: 0,
            max_inline: 0,
            // 16384 less what may be fetched ahead of the shortest requests.
            max_chan_sz: 16 * 1024 - 33,
            max_sgl: 32,
            // 1008 bytes, less the 64 of the headers.
            ud_send_sgl: 59,
            // 1008 bytes, less the 16 of the control segment.
            conn_send_sgl: 62,
            recv_sgl: 32,
            max_cq: 4096,
            max_cq_sz: 4 * 1024 * 1024 - 1,
            max_qp: 4096,
            max_pd: 1024,
            max_ah: 0,
            max_mr: 64 * 1024,
            max_mr_len: 1 << 40,
            max_mcg: 256,
            max_qp_per_mcg: 248,
            static_rates: &HcaAttr::HERMON_RATES,
            max_srq: 256,
            max_srq_sz: 16 * 1024 - 1,
            max_srq_sgl: 31,
            srq_limit: false,
            max_cq_handlers: 1,
            vendor_id: 0x0002c9,
            device_id: 0x6750,
            version_id: 0xb0,
        }
    }
}

impl HcaAttr {
    /// What hermon knows (`hermon_set_addr_path`): IBTF's codes, which end at 120 Gb/s, and none.
    pub const HERMON_RATES: [u8; 10] = [0, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    /// What tavor knows of an adapter whose ports do DDR (`tavor_set_addr_path`).
    pub const TAVOR_RATES: [u8; 5] = [0, 2, 3, 5, 6];

    /// Everything IPoIB can use: checksum, reserved key, LSO.
    #[must_use]
    pub fn with_offloads() -> Self {
        HcaAttr {
            cksum_full: true,
            res_lkey: true,
            max_lso_size: 65_536,
            max_lso_hdr_size: 924,
            ..Default::default()
        }
    }
}

/// One port of an HCA to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Port GUID; GID index 0 is the subnet prefix with it.
    pub guid: Guid,
    /// The GUID that the port says it has, if that is another port's: adapters that were flashed alike. The fabric knows it by `guid`.
    pub claims: Option<Guid>,
    /// MTU capability.
    pub mtu: Mtu,
    /// Active width once the link is up.
    pub width: LinkWidth,
    /// Active speed once the link is up.
    pub speed: LinkSpeed,
    /// Entries of the P_Key table, at least 1.
    pub pkeys: u16,
    /// Entries of the GID table, at least 1.
    pub gids: u16,
    /// Whether a cable joins it to the switch from the start.
    pub cabled: bool,
    /// Whose switch it is cabled to.
    pub subnet: Subnet,
}

impl PortConfig {
    /// 4x DDR, MTU 2048 capable of 4096, 64 P_Keys, 32 GIDs, cabled.
    #[must_use]
    pub fn new(guid: Guid) -> Self {
        PortConfig {
            guid,
            claims: None,
            mtu: Mtu::M4096,
            width: LinkWidth::X4,
            speed: LinkSpeed::Ddr,
            pkeys: 64,
            gids: 32,
            cabled: true,
            subnet: Subnet::default(),
        }
    }
}

/// What a node is to a subnet manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeKind {
    /// An adapter of a host.
    #[default]
    ChannelAdapter,
    /// It passes packets with a GRH on from subnet to subnet, and takes none itself.
    Router,
}

/// An HCA to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HcaConfig {
    /// Node GUID, unique in the fabric.
    pub guid: Guid,
    /// What it is.
    pub kind: NodeKind,
    /// What the node calls itself (NodeDescription).
    pub description: String,
    /// Capabilities and limits.
    pub attr: HcaAttr,
    /// 1..=254 ports.
    pub ports: Vec<PortConfig>,
    /// Arming behaviour.
    pub arming: ArmSemantics,
    /// Keep a QP's own multicast from coming back to it. The reference HCA means to and does not; so the default is off.
    pub loopback_block: bool,
    /// How long the HCA takes per send work request; 0 processes it inside the post.
    pub send_latency: Nanos,
    /// A shared receive queue that a QP has ever taken from cannot be freed, as hermon and tavor have it, unless the HCA is gone.
    pub keeps_srqs: bool,
}

impl HcaConfig {
    /// One HCA with `ports` ports, GUIDs counted up from `guid` (port n = node + n), default attributes.
    #[must_use]
    pub fn new(guid: Guid, ports: u8) -> Self {
        HcaConfig {
            guid,
            kind: NodeKind::default(),
            description: format!("hca {guid}"),
            attr: HcaAttr::default(),
            ports: (1..=u64::from(ports)).map(|n| PortConfig::new(Guid(guid.0 + n))).collect(),
            arming: ArmSemantics::default(),
            loopback_block: false,
            send_latency: Nanos(0),
            keeps_srqs: false,
        }
    }
}
