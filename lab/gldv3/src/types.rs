//! Values that cross between a host and its links.

use fakekernel::Errno;

use crate::address::{Destination, LinkAddress};

/// Carrier state of a link (`link_state_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// The driver has not said yet.
    Unknown,
    /// No carrier.
    Down,
    /// Carrier.
    Up,
}

/// One line of `dladm show-link`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSummary {
    /// Link name, e.g. `ibd0` or what a partition was called.
    pub name: String,
    /// Name of the mac under it: driver name and instance.
    pub mac: String,
    /// Datalink id, from 1.
    pub id: u32,
    /// Whether it is a partition object rather than an attached instance.
    pub partition: bool,
    /// The zone that has it; 0 is the global one.
    pub zone: i32,
    /// The zone that made it, and alone may look at its properties and change them.
    pub owner: i32,
    /// Carrier.
    pub state: LinkState,
    /// The driver's instance, or what GLDv3 chose for a partition.
    pub instance: u32,
    /// Greatest payload in bytes.
    pub max_sdu: u32,
}

/// A data link as the management daemon knows it, whether there is a mac under it or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datalink {
    /// Its id, from 1.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Whether it is a partition object rather than an attached instance.
    pub partition: bool,
}

/// What `DL_INFO_REQ` and the statistics tell about a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkDetails {
    /// What kind of link it is, as DLPI numbers them: 0x1a is InfiniBand.
    pub media: u32,
    /// Bytes of an address.
    pub address_length: usize,
    /// Current address; zeros until the driver published one.
    pub address: LinkAddress,
    /// What the driver registered as its address (`DL_FACT_PHYS_ADDR`).
    pub factory_address: LinkAddress,
    /// The plugin's broadcast address: scope and P_Key are zero.
    pub broadcast: LinkAddress,
    /// Least and greatest payload in bytes, without the link header.
    pub min_sdu: u32,
    /// See `min_sdu`.
    pub max_sdu: u32,
    /// Greatest payload of a packet to a group.
    pub multicast_sdu: u32,
    /// Bits per second.
    pub speed: u64,
    /// Carrier.
    pub state: LinkState,
}

/// A packet as a stream delivers it, copied out of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Who sent it; `None` when it came without a GRH and nobody can tell (and in raw mode).
    pub source: Option<LinkAddress>,
    /// To whom, as in the header; zeros in raw mode.
    pub destination: LinkAddress,
    /// What kind of destination that is.
    pub kind: Destination,
    /// Type of the payload.
    pub sap: u16,
    /// The payload; in raw mode the 4-byte IPoIB header first.
    pub payload: Vec<u8>,
    /// The IPv4 header checksum was verified below (`HCK_IPV4_HDRCKSUM_OK`).
    pub ip_checksum_ok: bool,
    /// The TCP or UDP checksum was verified below (`HCK_FULLCKSUM_OK`).
    pub full_checksum_ok: bool,
    /// A copy of what this host sent itself (promiscuous streams only).
    pub loopback: bool,
}

/// What the stack asks the link to do for a packet it sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Compute the IPv4 header checksum.
    pub ip_checksum: bool,
    /// Compute the whole TCP or UDP checksum.
    pub full_checksum: bool,
    /// Split into segments of that many payload bytes.
    pub large_send: Option<u16>,
}

/// The packet was taken. What about the next one?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backpressure {
    /// Send on.
    Clear,
    /// Taken into the link's queue, which is full: send no more before [`crate::Stream::wait_writable`] returns.
    Stop,
}

/// Why a packet was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransmitError {
    /// The stream is not bound.
    #[error("the stream is not bound")]
    NotBound,
    /// Larger than the link's SDU: that many bytes.
    #[error("the payload exceeds the link's maximum of {0} bytes")]
    TooLarge(u32),
    /// No message block could be had, or no header could be made.
    #[error("no memory for the message")]
    NoMemory,
}

/// Why a request on a stream was refused: the error of `DL_ERROR_ACK`, and the errno that goes with `DL_SYSERR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DlpiError {
    /// `DL_BADADDR`: no address, group or SAP of this kind of link.
    #[error("DL_BADADDR")]
    BadAddress,
    /// `DL_OUTSTATE`: not while the stream is as it is.
    #[error("DL_OUTSTATE")]
    OutOfState,
    /// `DL_TOOMANY`.
    #[error("DL_TOOMANY")]
    TooMany,
    /// `DL_NOTENAB`: what is to be undone was not done.
    #[error("DL_NOTENAB")]
    NotEnabled,
    /// `DL_SYSERR`, for this reason.
    #[error("{0}")]
    System(Errno),
}

/// As a program sees it that knows no DLPI.
impl From<DlpiError> for Errno {
    fn from(error: DlpiError) -> Self {
        match error {
            DlpiError::BadAddress => Self::EINVAL,
            DlpiError::OutOfState => Self::EPROTO,
            DlpiError::TooMany => Self::ENOSPC,
            DlpiError::NotEnabled => Self::ENOENT,
            DlpiError::System(errno) => errno,
        }
    }
}

/// Receive more than what is addressed here (`DL_PROMISC_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promiscuity {
    /// Whatever is on the wire, and what this host sends.
    Physical,
    /// Every SAP.
    Sap,
    /// Every group.
    Multicast,
}

/// `DL_NOTIFY_IND`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// Carrier, with the speed in bits per second.
    LinkUp {
        /// Bits per second.
        speed: u64,
    },
    /// Carrier lost.
    LinkDown,
    /// The link has another address.
    Address(LinkAddress),
    /// The link carries other sizes.
    Sdu {
        /// Greatest payload, bytes.
        max: u32,
        /// Greatest payload to a group, bytes.
        multicast: u32,
    },
    /// The device went into or out of promiscuous mode.
    Promiscuous(bool),
    /// Capabilities should be asked again.
    Capabilities,
    /// Cached headers are void.
    FastpathFlush,
    /// Other IP addresses may be used.
    AllowedIps,
    /// The queue that was full has room.
    Writable,
}

/// A link's generic statistics (`MAC_STAT_*`); what the driver does not answer is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct MacStatistics {
    pub ifspeed: u64,
    pub multircv: u64,
    pub brdcstrcv: u64,
    pub multixmt: u64,
    pub brdcstxmt: u64,
    pub norcvbuf: u64,
    pub ierrors: u64,
    pub unknowns: u64,
    pub noxmtbuf: u64,
    pub oerrors: u64,
    pub collisions: u64,
    pub rbytes: u64,
    pub ipackets: u64,
    pub obytes: u64,
    pub opackets: u64,
    pub underflows: u64,
    pub overflows: u64,
}

/// What went over one ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingStatistics {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A link property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyId {
    /// `mtu`.
    Mtu,
    /// `linkmode`: 0 datagram, 1 connected.
    IbLinkMode,
    /// `state`.
    Status,
    /// `speed`.
    Speed,
    /// `duplex`.
    Duplex,
    /// A name that starts with an underscore.
    Private(String),
    /// Any other one, by its number (`mac_prop_id_t`), with room for a value of 256 bytes.
    Numbered(i32),
}

impl PropertyId {
    /// Those with a number.
    pub const PUBLIC: [Self; 5] = [Self::Mtu, Self::IbLinkMode, Self::Status, Self::Speed, Self::Duplex];
}

/// A property's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyValue {
    /// Everything but private ones, the speed and what has a number only.
    U32(u32),
    /// The speed, and the first eight bytes of what has a number only.
    U64(u64),
    /// Private ones.
    Text(String),
}

/// Who may do what with a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Read.
    ReadOnly,
    /// Write.
    WriteOnly,
    /// Both.
    ReadWrite,
}

/// What is known of a property beside its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropertyInfo {
    /// Who may do what.
    pub permission: Permission,
    /// The default, if the driver told one.
    pub default: Option<PropertyValue>,
    /// Permitted ranges, both ends included; empty if none were told.
    pub ranges: Vec<(u32, u32)>,
}

/// Why a partition was not created or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{errno} (IBD status {status})")]
pub struct PartitionError {
    /// The ioctl's error.
    pub errno: Errno,
    /// `IBD_*` status of the driver, 0 if none.
    pub status: i32,
}
