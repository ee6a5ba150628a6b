//! What IBTF tells a client on its own initiative.

use illumos_sys_hdrs as sys;

use crate::Gid;

/// An asynchronous event (`ibt_async_code_t`). IBTL merges events that wait: of a quick down and up only the up may be
/// seen, and port events come after the port's cached attributes were refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncEvent {
    /// A port became active. Multicast memberships are gone.
    PortUp {
        /// The adapter.
        hca_guid: u64,
        /// The port, from 1.
        port: u8,
    },
    /// A port is active no longer.
    PortDown {
        /// The adapter.
        hca_guid: u64,
        /// The port, from 1.
        port: u8,
    },
    /// Something about a port changed.
    PortChange {
        /// The adapter.
        hca_guid: u64,
        /// The port, from 1.
        port: u8,
        /// What.
        what: PortChange,
    },
    /// The subnet manager has lost joins, subscriptions and services of this port: do them again.
    Reregister {
        /// The adapter.
        hca_guid: u64,
        /// The port, from 1.
        port: u8,
    },
    /// An adapter was added.
    HcaAttached {
        /// The adapter.
        hca_guid: u64,
    },
    /// An adapter goes. Everything on it must be dropped, the [`Hca`](crate::Hca) included, before the handler returns.
    HcaDetached {
        /// The adapter.
        hca_guid: u64,
    },
    /// The adapter failed; an [`AsyncEvent::HcaDetached`] usually follows.
    HcaFailed {
        /// The adapter.
        hca_guid: u64,
    },
    /// A CQ overran or lost access to its memory: no more completions.
    CqFailed(CqId),
    /// A shared receive queue (`IBT_ERROR_CATASTROPHIC_SRQ`): nothing that is posted to it completes any more.
    SrqFailed(SrqId),
    /// A channel is in the error state.
    ChannelFailed(ChannelId),
    /// A channel in the error state holds no receive of a shared queue any more.
    ChannelEmpty(ChannelId),
    /// Anything else, by its code.
    Other(u32),
}

/// Which channel an event is about: that of [`UdChannel::id`](crate::UdChannel::id) or [`RcChannel::id`](crate::RcChannel::id), while
/// it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelId(pub(crate) usize);

/// Which CQ an event is about: that of [`Cq::id`](crate::Cq::id), while it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CqId(pub(crate) usize);

/// Which shared receive queue an event is about: that of [`Srq::id`](crate::Srq::id), while it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqId(pub(crate) usize);

/// What changed about a port (`ibt_port_change_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortChange(pub(crate) u32);

impl PortChange {
    /// The GID table.
    pub const fn gids(self) -> bool {
        self.0 & sys::IBT_PORT_CHANGE_SGID.0 != 0
    }

    /// The P_Key table.
    pub const fn pkeys(self) -> bool {
        self.0 & sys::IBT_PORT_CHANGE_PKEY.0 != 0
    }

    /// The subnet manager's LID or service level: another subnet manager.
    pub const fn subnet_manager(self) -> bool {
        self.0 & (sys::IBT_PORT_CHANGE_SM_LID.0 | sys::IBT_PORT_CHANGE_SM_SL.0) != 0
    }

    /// The subnet manager asks for registrations to be repeated.
    pub const fn reregister(self) -> bool {
        self.0 & sys::IBT_PORT_CHANGE_REREG.0 != 0
    }
}

impl AsyncEvent {
    pub(crate) fn from_raw(code: sys::ibt_async_code_t, event: &sys::ibt_async_event_t) -> Self {
        let (hca_guid, port) = (event.ev_hca_guid, event.ev_port);
        match code {
            sys::IBT_EVENT_PORT_UP => Self::PortUp { hca_guid, port },
            sys::IBT_ERROR_PORT_DOWN => Self::PortDown { hca_guid, port },
            sys::IBT_PORT_CHANGE_EVENT => {
                Self::PortChange { hca_guid, port, what: PortChange(event.ev_port_flags.0) }
            }
            sys::IBT_CLNT_REREG_EVENT => Self::Reregister { hca_guid, port },
            sys::IBT_HCA_ATTACH_EVENT => Self::HcaAttached { hca_guid },
            sys::IBT_HCA_DETACH_EVENT => Self::HcaDetached { hca_guid },
            sys::IBT_ERROR_LOCAL_CATASTROPHIC => Self::HcaFailed { hca_guid },
            sys::IBT_ERROR_CQ => Self::CqFailed(CqId(event.ev_cq_hdl.addr())),
            sys::IBT_ERROR_CATASTROPHIC_SRQ => Self::SrqFailed(SrqId(event.ev_srq_hdl.addr())),
            sys::IBT_ERROR_CATASTROPHIC_CHAN
            | sys::IBT_ERROR_INVALID_REQUEST_CHAN
            | sys::IBT_ERROR_ACCESS_VIOLATION_CHAN => {
                Self::ChannelFailed(ChannelId(event.ev_chan_hdl.addr()))
            }
            sys::IBT_EVENT_EMPTY_CHAN => Self::ChannelEmpty(ChannelId(event.ev_chan_hdl.addr())),
            sys::ibt_async_code_e(other) => Self::Other(other),
        }
    }
}

/// A notice of the subnet manager (`ibt_subnet_event_code_t`). Order is not kept, and calls may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubnetEvent {
    /// A multicast group exists.
    GroupCreated(Gid),
    /// A multicast group is gone; whoever was a member no longer is one.
    GroupDeleted(Gid),
    /// The port's subscription works (again).
    NoticesAvailable,
    /// The port's subscription does not work.
    NoticesUnavailable,
    /// A port appeared.
    PortAvailable(Gid),
    /// A port disappeared.
    PortUnavailable(Gid),
    /// Anything else, by its code.
    Other(u32),
}

impl SubnetEvent {
    pub(crate) fn from_raw(code: sys::ibt_subnet_event_code_t, subject: Gid) -> Self {
        match code {
            sys::IBT_SM_EVENT_MCG_CREATED => Self::GroupCreated(subject),
            sys::IBT_SM_EVENT_MCG_DELETED => Self::GroupDeleted(subject),
            sys::IBT_SM_EVENT_AVAILABLE => Self::NoticesAvailable,
            sys::IBT_SM_EVENT_UNAVAILABLE => Self::NoticesUnavailable,
            sys::IBT_SM_EVENT_GID_AVAIL => Self::PortAvailable(subject),
            sys::IBT_SM_EVENT_GID_UNAVAIL => Self::PortUnavailable(subject),
            sys::ibt_subnet_event_code_e(other) => Self::Other(other),
        }
    }
}
