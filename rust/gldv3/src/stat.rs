//! Statistics the framework asks a driver for (`enum mac_driver_stat`).

use illumos_sys_hdrs as sys;

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident = $raw:ident,)*) => {
        /// A statistic of a link. Counters must not go back, over stop and start either.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum Stat {
            $($(#[$doc])* $name = sys::$raw,)*
        }

        impl Stat {
            /// The statistic with that id, if this crate knows it.
            pub const fn from_raw(raw: u32) -> Option<Self> {
                $(if raw == sys::$raw { return Some(Self::$name); })*
                None
            }
        }
    };
}

stats! {
    /// Bits per second.
    Speed = MAC_STAT_IFSPEED,
    /// Multicast packets received.
    MulticastReceived = MAC_STAT_MULTIRCV,
    /// Broadcast packets received.
    BroadcastReceived = MAC_STAT_BRDCSTRCV,
    /// Multicast packets sent.
    MulticastSent = MAC_STAT_MULTIXMT,
    /// Broadcast packets sent.
    BroadcastSent = MAC_STAT_BRDCSTXMT,
    /// Received packets dropped for want of a buffer.
    NoReceiveBuffer = MAC_STAT_NORCVBUF,
    /// Packets received with an error.
    ReceiveErrors = MAC_STAT_IERRORS,
    /// Packets received for a protocol nobody wants.
    UnknownProtocol = MAC_STAT_UNKNOWNS,
    /// Packets not sent, or put off, for want of a buffer.
    NoTransmitBuffer = MAC_STAT_NOXMTBUF,
    /// Packets to be sent that were dropped because of an error.
    TransmitErrors = MAC_STAT_OERRORS,
    /// Collisions.
    Collisions = MAC_STAT_COLLISIONS,
    /// Bytes received.
    BytesReceived = MAC_STAT_RBYTES,
    /// Packets received.
    PacketsReceived = MAC_STAT_IPACKETS,
    /// Bytes sent.
    BytesSent = MAC_STAT_OBYTES,
    /// Packets sent.
    PacketsSent = MAC_STAT_OPACKETS,
    /// Transmit underflows.
    Underflows = MAC_STAT_UNDERFLOWS,
    /// Receive overflows.
    Overflows = MAC_STAT_OVERFLOWS,
}
