//! Capabilities as clients ask for them.

use std::ptr;

use super::Mac;
use crate::types::Offload;

const HCKSUM: u32 = 0x1;
const LSO: u32 = 0x8;
const ANCHOR_VNIC: u32 = 0x0002_0000;
const NO_ZCOPY: u32 = 0x0010_0000;
pub(super) const LEGACY: u32 = 0x0020_0000;
const VRRP: u32 = 0x0040_0000;

/// `HCKSUM_*` bits.
const ENABLE: u32 = 0x1;
const INET_FULL_V4: u32 = 0x4;
const INET_FULL_V6: u32 = 0x8;
const IPHDRCKSUM: u32 = 0x10;
/// `LSO_TX_BASIC_TCP_IPV4`
const TCP_IPV4: u32 = 0x1;

/// What a driver computes for the packets it sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffloadCapability {
    /// The IPv4 header checksum.
    pub ip_header: bool,
    /// TCP and UDP checksums over IPv4.
    pub full_v4: bool,
    /// The same over IPv6.
    pub full_v6: bool,
    /// Largest TCP payload over IPv4 that is split into segments.
    pub large_send: Option<u32>,
}

impl OffloadCapability {
    /// Whether a packet may ask for this.
    pub fn allows(&self, wanted: Offload) -> bool {
        (self.ip_header || !wanted.ip_checksum)
            && (self.full_v4 || self.full_v6 || !wanted.full_checksum)
            && (self.large_send.is_some() || wanted.large_send.is_none())
    }
}

impl Mac {
    /// Whether a driver of before GLDv3 is behind it; `dls` asks at every open and close.
    pub(crate) fn is_legacy(&self) -> bool {
        self.call_getcapab(LEGACY, ptr::null_mut())
    }

    /// Whether links are made over it only, and no stream opens it (`mac_unicast_add`).
    pub(crate) fn is_anchor(&self) -> bool {
        self.call_getcapab(ANCHOR_VNIC, ptr::null_mut())
    }

    /// What `DL_CAPABILITY_REQ` asks the driver: its checksum capability, whether it would rather copy, whether it is a virtual
    /// router's; and for large send, which is of use only with checksums. Larger buffers than this gate's records are offered,
    /// zeroed: newer drivers may fill in more.
    pub(crate) fn offload_capability(&self) -> OffloadCapability {
        let mut words = [0u32; 32];
        let computes = self.call_getcapab(HCKSUM, words.as_mut_ptr().cast());
        self.call_getcapab(NO_ZCOPY, ptr::null_mut());
        self.call_getcapab(VRRP, [0u64; 16].as_mut_ptr().cast());
        let mut lso = [0u32; 32];
        let splits = self.call_getcapab(LSO, lso.as_mut_ptr().cast());
        if !computes {
            return OffloadCapability::default();
        }
        let flags = words[0];
        let splits = splits && flags & !ENABLE != 0;
        OffloadCapability {
            ip_header: flags & IPHDRCKSUM != 0,
            full_v4: flags & INET_FULL_V4 != 0,
            full_v6: flags & INET_FULL_V6 != 0,
            large_send: (splits && lso[0] & TCP_IPV4 != 0).then_some(lso[1]),
        }
    }
}
