//! Which protocol numbers may be bound: 0 to 255 are 802 SAPs, the rest up to 65535 ethertypes. There is no gap between
//! them as on Ethernet.

/// `MAC_IB_MAX_802_SAP` of `sys/mac_ib.h`.
const SAP_802_MAX: u32 = 255;
const FIRST_ETHERTYPE: u32 = SAP_802_MAX + 1;
/// `MAC_IB_ETHERTYPE_MAX` of `sys/mac_ib.h`.
const ETHERTYPE_MAX: u32 = 65535;
/// `DLS_SAP_LLC` of `sys/dls.h`: the one key under which all 802 SAPs are bound.
const SAP_LLC: u32 = 0;

/// The key under which a stream bound to `sap` is found; `None` if `sap` is no protocol number.
pub const fn bind_key(sap: u32) -> Option<u32> {
    match sap {
        0..=SAP_802_MAX => Some(SAP_LLC),
        FIRST_ETHERTYPE..=ETHERTYPE_MAX => Some(sap),
        _ => None,
    }
}

/// The type field of a header for `sap`; `None` if it is no protocol number. 802 SAPs go in as they are.
pub fn header_type(sap: u32) -> Option<u16> {
    u16::try_from(sap).ok()
}

#[cfg(test)]
mod tests {
    use super::{bind_key, header_type};

    #[test]
    fn saps_fold_into_one_and_ethertypes_stay() {
        for (sap, key) in
            [(0, Some(0)), (255, Some(0)), (256, Some(256)), (0x800, Some(0x800)), (65535, Some(65535))]
        {
            assert_eq!(bind_key(sap), key);
        }
        assert_eq!(bind_key(65536), None);
        assert_eq!(bind_key(u32::MAX), None);
    }

    #[test]
    fn header_carries_the_sap_as_it_is() {
        assert_eq!(header_type(5), Some(5));
        assert_eq!(header_type(65535), Some(0xffff));
        assert_eq!(header_type(65536), None);
    }
}
