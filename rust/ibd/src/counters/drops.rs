//! Why packets and frames are dropped: one counter for each reason, under one name in kstats and probes.

use core::ffi::CStr;

use ipoib::header::Rejected;
use ipoib::neighbours::Refusal;
use ipoib::paths;

/// Why a packet to send was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum TxDrop {
    /// The link is not up.
    LinkDown,
    /// Less than a pseudo header in front, or nothing behind it that could be a packet.
    Malformed,
    /// An address that neither a group nor a port can have.
    BadDestination,
    /// Longer than the link's SDU.
    TooLong,
    /// See [`paths::DropReason::Unreachable`].
    Unreachable,
    /// See [`paths::DropReason::LookupFailed`].
    LookupFailed,
    /// See [`paths::DropReason::QueueFull`].
    QueueFull,
    /// See [`paths::DropReason::TableFull`].
    TableFull,
    /// See [`paths::DropReason::Answers`].
    Answers,
    /// See [`paths::DropReason::Questions`].
    Questions,
    /// See [`paths::DropReason::LinkReset`].
    LinkReset,
    /// The adapter takes no sends: the queue pair has failed, or is full.
    PostFailed,
    /// The adapter refused this one, and takes others.
    Refused,
    /// A large send that must be copied, and no memory for that.
    NoLargeBuffer,
}

/// Why a received frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum RxDrop {
    /// Our own multicast, come back: dropped on purpose, no error.
    OwnMulticast,
    /// Shorter than GRH and IPoIB header.
    Short,
    /// The adapter reported an error.
    Completion,
    /// No memory for a message.
    NoMemory,
    /// The link was stopped, or got another queue pair, between a completion and its packet.
    LinkReset,
    /// ARP or neighbour discovery that says that a neighbour is at a group.
    GroupSender,
    /// ARP that has not the form of RFC 4391, or neighbour discovery in fragments.
    NeighbourForm,
}

/// One name for each [`TxDrop`], in its order.
pub(super) const TX_NAMES: [&CStr; TxDrop::NoLargeBuffer as usize + 1] = [
    c"tx_drop_link_down",
    c"tx_drop_malformed",
    c"tx_drop_bad_destination",
    c"tx_drop_too_long",
    c"tx_drop_unreachable",
    c"tx_drop_lookup_failed",
    c"tx_drop_queue_full",
    c"tx_drop_table_full",
    c"tx_drop_answers",
    c"tx_drop_questions",
    c"tx_drop_link_reset",
    c"tx_drop_post_failed",
    c"tx_drop_refused",
    c"tx_drop_no_large_buffer",
];

/// One name for each [`RxDrop`], in its order.
pub(super) const RX_NAMES: [&CStr; RxDrop::NeighbourForm as usize + 1] = [
    c"rx_drop_own_multicast",
    c"rx_drop_short",
    c"rx_drop_completion",
    c"rx_drop_no_memory",
    c"rx_drop_link_reset",
    c"rx_drop_group_sender",
    c"rx_drop_neighbour_form",
];

impl TxDrop {
    /// As kstats and probes have it.
    pub(crate) fn name(self) -> &'static CStr {
        TX_NAMES[self as usize]
    }
}

impl RxDrop {
    /// As kstats and probes have it.
    pub(crate) fn name(self) -> &'static CStr {
        RX_NAMES[self as usize]
    }
}

impl From<paths::DropReason> for TxDrop {
    fn from(reason: paths::DropReason) -> Self {
        match reason {
            paths::DropReason::Unreachable => Self::Unreachable,
            paths::DropReason::LookupFailed => Self::LookupFailed,
            paths::DropReason::QueueFull => Self::QueueFull,
            paths::DropReason::TableFull => Self::TableFull,
            paths::DropReason::Answers => Self::Answers,
            paths::DropReason::Questions => Self::Questions,
            paths::DropReason::LinkReset => Self::LinkReset,
        }
    }
}

impl From<Refusal> for RxDrop {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Group => Self::GroupSender,
            Refusal::Form => Self::NeighbourForm,
        }
    }
}

impl From<Rejected> for RxDrop {
    fn from(rejected: Rejected) -> Self {
        match rejected {
            Rejected::Short => Self::Short,
            Rejected::OwnMulticast => Self::OwnMulticast,
        }
    }
}
