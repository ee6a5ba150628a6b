//! Queue pairs: how they are asked for, moved from state to state, and queried.

use illumos_sys_hdrs as sys;
use kernel::KArc;

use crate::address::AddressVector;
use crate::event::ClientQp;
use crate::provider::Provider;

/// What a queue pair is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Datagrams.
    Datagram,
    /// A reliable connection.
    Connection,
    /// Subnet management (QP 0) of a port.
    SubnetManagement(u8),
    /// General services (QP 1) of a port.
    GeneralServices(u8),
}

/// Lengths of the two queues and of their scatter/gather lists. A request is for at least so much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSizes {
    /// Work requests in the send queue.
    pub send: u32,
    /// Work requests in the receive queue.
    pub receive: u32,
    /// Entries of a send's list.
    pub send_segments: u32,
    /// Entries of a receive's list.
    pub receive_segments: u32,
}

/// A request for a queue pair.
pub struct QpRequest<'a, P: Provider> {
    /// What it is for.
    pub purpose: Purpose,
    /// Where completions of sends go.
    pub send_cq: &'a KArc<P::Cq>,
    /// Where completions of receives go.
    pub receive_cq: &'a KArc<P::Cq>,
    /// Its protection domain.
    pub pd: &'a KArc<P::Pd>,
    /// Where its receives come from, if not from a queue of its own.
    pub srq: Option<&'a KArc<P::Srq>>,
    /// At least so much.
    pub sizes: QueueSizes,
    /// Whether every send gives a completion.
    pub all_signaled: bool,
    /// Whether large sends may be posted.
    pub large_sends: bool,
    /// Whether lists may have the reserved key.
    pub reserved_key: bool,
    /// For events about it.
    pub client: KArc<ClientQp>,
}

/// The states of a queue pair. Draining (SQD) is none that a provider here knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpState {
    /// New, or made as new.
    Reset,
    /// Takes receives.
    Init,
    /// Receives.
    ReadyToReceive,
    /// Receives and sends.
    ReadyToSend,
    /// A send has failed: receives.
    SendError,
    /// Gives everything back.
    Error,
}

impl QpState {
    /// `None` for a state that there is not.
    pub(crate) fn from_raw(raw: sys::ibt_cep_state_t) -> Option<Self> {
        Some(match raw {
            sys::IBT_STATE_RESET => Self::Reset,
            sys::IBT_STATE_INIT => Self::Init,
            sys::IBT_STATE_RTR => Self::ReadyToReceive,
            sys::IBT_STATE_RTS => Self::ReadyToSend,
            sys::IBT_STATE_SQE => Self::SendError,
            sys::IBT_STATE_ERROR => Self::Error,
            _ => return None,
        })
    }

    fn raw(self) -> sys::ibt_cep_state_t {
        match self {
            Self::Reset => sys::IBT_STATE_RESET,
            Self::Init => sys::IBT_STATE_INIT,
            Self::ReadyToReceive => sys::IBT_STATE_RTR,
            Self::ReadyToSend => sys::IBT_STATE_RTS,
            Self::SendError => sys::IBT_STATE_SQE,
            Self::Error => sys::IBT_STATE_ERROR,
        }
    }
}

/// What a datagram queue pair has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdAttributes {
    /// Its port, from 1.
    pub port: u8,
    /// Index in the port's P_Key table.
    pub pkey_index: u16,
    /// Q_Key.
    pub qkey: u32,
}

/// What the queue pair of a connection has to know to receive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveSide {
    /// The way to the other side. Its port and the index of the source GID mean nothing: the queue pair has its port since init.
    pub vector: AddressVector,
    /// The other side's queue pair, 24 bits.
    pub peer: u32,
    /// The path's MTU, as a code (1 is 256 bytes).
    pub path_mtu: u8,
    /// Number of the first packet that comes, 24 bits.
    pub psn: u32,
    /// What the other side is told to wait when there is no receive for its message: a code of five bits (IBA 9.7.5.2.8).
    pub min_rnr: u8,
}

/// What it has to know to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendSide {
    /// Number of the first packet that goes, 24 bits.
    pub psn: u32,
    /// What an acknowledgement may take: 4.096 us to the power of this, five bits; 0 waits for ever.
    pub ack_timeout: u8,
    /// How often packets are sent again that nobody acknowledges, 0 to 7.
    pub retries: u8,
    /// How often a message is sent again that the other side had no receive for, 0 to 6; 7 is for ever.
    pub rnr_retries: u8,
}

/// What is asked of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpQuery {
    /// Its number: 0 or 1 for a special one.
    pub qpn: u32,
    /// Its state, truly: `ibtl` asks when it has lost track.
    pub state: QpState,
    /// Its sizes.
    pub sizes: QueueSizes,
    /// What else it has; of a connection the port and the index.
    pub ud: UdAttributes,
    /// Of a connection: both sides as they are now, with the numbers of the packets that are next.
    pub connection: Option<(ReceiveSide, SendSide)>,
}

impl QpQuery {
    pub(crate) fn fill(&self, raw: &mut sys::ibt_qp_query_attr_t) {
        *raw = sys::ibt_qp_query_attr_t::default();
        raw.qp_qpn = self.qpn;
        raw.qp_sq_sgl = self.sizes.send_segments;
        raw.qp_rq_sgl = self.sizes.receive_segments;
        raw.qp_info.qp_sq_sz = self.sizes.send;
        raw.qp_info.qp_rq_sz = self.sizes.receive;
        raw.qp_info.qp_state = self.state.raw();
        raw.qp_info.qp_current_state = self.state.raw();
        if let Some((receive, send)) = &self.connection {
            raw.qp_info.qp_trans = sys::IBT_RC_SRV;
            raw.qp_info.qp_transport.rc = self.connected(receive, send);
            return;
        }
        raw.qp_info.qp_trans = sys::IBT_UD_SRV as _;
        raw.qp_info.qp_transport.ud = sys::ibt_qp_ud_attr_t {
            ud_qkey: self.ud.qkey,
            ud_pkey_ix: self.ud.pkey_index,
            ud_port: self.ud.port,
            ..Default::default()
        };
    }

    fn connected(&self, receive: &ReceiveSide, send: &SendSide) -> sys::ibt_qp_rc_attr_t {
        let vector = AddressVector { port: self.ud.port, ..receive.vector };
        let mut raw = sys::ibt_qp_rc_attr_t {
            rc_dst_qpn: receive.peer,
            rc_path_mtu: sys::ib_mtu_t(receive.path_mtu.into()),
            rc_min_rnr_nak: sys::ibt_rnr_nak_time_e(receive.min_rnr.into()),
            rc_rnr_retry_cnt: sys::ibt_rnr_retry_cnt_e(send.rnr_retries.into()),
            rc_path: sys::ibt_cep_path_t {
                cep_adds_vect: vector.raw(),
                cep_pkey_ix: self.ud.pkey_index,
                cep_hca_port_num: self.ud.port,
                cep_cm_opaque1: send.ack_timeout,
            },
            ..Default::default()
        };
        raw.set_rc_rq_psn(receive.psn & PSN_MASK);
        raw.set_rc_sq_psn(send.psn & PSN_MASK);
        raw.set_rc_retry_cnt(send.retries & 7);
        raw
    }
}

/// The bits of a packet's number.
pub(crate) const PSN_MASK: u32 = 0xff_ffff;
