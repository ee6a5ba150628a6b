//! The 20-byte link-layer address as the framework handles it: opaque but for the three kinds of destination.

use std::fmt;

/// An IPoIB link-layer address: flags and QPN, then the GID (RFC 4391, section 9.1.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkAddress(pub [u8; 20]);

impl fmt::Display for LinkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02x}", if at == 0 { "" } else { ":" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for LinkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Whom a packet was sent to, as the MAC-type plugin classifies the destination (`mhi_dsttype`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// One station.
    Unicast,
    /// A group.
    Multicast,
    /// Everybody on the link.
    Broadcast,
}
