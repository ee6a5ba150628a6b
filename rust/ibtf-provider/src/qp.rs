//! Queue pairs: how they are asked for, moved from state to state, and queried.

use illumos_sys_hdrs as sys;
use kernel::KArc;

use crate::event::ClientQp;
use crate::provider::Provider;
use crate::status::Status;

/// What a queue pair is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Datagrams.
    Datagram,
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

/// Where a queue pair is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// There.
    pub to: QpState,
    /// From where, as far as the client says: checked for a move to [`QpState::ReadyToSend`] only.
    pub from: Option<QpState>,
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

/// A change of a queue pair. A field that is `None` is not to be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpChange {
    /// The state.
    pub transition: Option<Transition>,
    /// From reset to init all three are there.
    pub port: Option<u8>,
    /// See above.
    pub pkey_index: Option<u16>,
    /// See above.
    pub qkey: Option<u32>,
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
    /// What else it has.
    pub ud: UdAttributes,
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
        raw.qp_info.qp_trans = sys::IBT_UD_SRV as _;
        raw.qp_info.qp_transport.ud = sys::ibt_qp_ud_attr_t {
            ud_qkey: self.ud.qkey,
            ud_pkey_ix: self.ud.pkey_index,
            ud_port: self.ud.port,
            ..Default::default()
        };
    }
}

/// The flags that say where to go, and from where: the flag counts, for the state in the record can be anything.
const MOVES: [(u32, QpState, QpState); 3] = [
    (sys::IBT_CEP_SET_RESET_INIT, QpState::Reset, QpState::Init),
    (sys::IBT_CEP_SET_INIT_RTR, QpState::Init, QpState::ReadyToReceive),
    (sys::IBT_CEP_SET_RTR_RTS, QpState::ReadyToReceive, QpState::ReadyToSend),
];

impl QpChange {
    /// What a client asks of a datagram queue pair. `CHAN_SRV_TYPE_INVALID` if it takes it for another kind, `CHAN_STATE_INVALID` for
    /// a state that there is not, `NOT_SUPPORTED` for queues of other sizes.
    pub(crate) fn from_raw(flags: u32, info: &sys::ibt_qp_info_t) -> Result<Self, Status> {
        if info.qp_trans != sys::IBT_UD_SRV {
            return Err(Status::CHAN_SRV_TYPE_INVALID);
        }
        if flags & (sys::IBT_CEP_SET_SQ_SIZE.0 | sys::IBT_CEP_SET_RQ_SIZE.0) != 0 {
            return Err(Status::NOT_SUPPORTED);
        }
        let transition = Self::transition(flags, info)?;
        // SAFETY: every member of the union is plain data, and any bytes are a value of this one.
        let ud = unsafe { info.qp_transport.ud };
        let initial = flags & sys::IBT_CEP_SET_RESET_INIT != 0;
        let given = |flag: u32| initial || flags & flag != 0;
        Ok(Self {
            transition,
            port: given(sys::IBT_CEP_SET_PORT.0).then_some(ud.ud_port),
            pkey_index: given(sys::IBT_CEP_SET_PKEY_IX).then_some(ud.ud_pkey_ix),
            qkey: given(sys::IBT_CEP_SET_QKEY.0).then_some(ud.ud_qkey),
        })
    }

    fn transition(flags: u32, info: &sys::ibt_qp_info_t) -> Result<Option<Transition>, Status> {
        if let Some(&(_, from, to)) = MOVES.iter().find(|(flag, ..)| flags & flag != 0) {
            return Ok(Some(Transition { to, from: Some(from) }));
        }
        if flags & sys::IBT_CEP_SET_STATE == 0 {
            return Ok(None);
        }
        let to = QpState::from_raw(info.qp_state).ok_or(Status::CHAN_STATE_INVALID)?;
        Ok(Some(Transition { to, from: QpState::from_raw(info.qp_current_state) }))
    }
}

#[cfg(test)]
mod tests {
    use super::{QpChange, QpState, Transition};
    use crate::Status;
    use illumos_sys_hdrs as sys;

    fn info() -> sys::ibt_qp_info_t {
        let mut info = sys::ibt_qp_info_t { qp_trans: sys::IBT_UD_SRV as _, ..Default::default() };
        info.qp_transport.ud =
            sys::ibt_qp_ud_attr_t { ud_port: 2, ud_pkey_ix: 1, ud_qkey: 0xb1b, ..Default::default() };
        info
    }

    #[test]
    fn the_flag_says_where_to_go_and_the_state_in_the_record_does_not() {
        let mut info = info();
        info.qp_state = sys::IBT_STATE_RESET;
        let change = QpChange::from_raw(sys::IBT_CEP_SET_RTR_RTS, &info).unwrap();
        let expected = Transition { to: QpState::ReadyToSend, from: Some(QpState::ReadyToReceive) };
        assert_eq!(change, QpChange { transition: Some(expected), ..Default::default() });
    }

    #[test]
    fn what_no_flag_names_is_not_read() {
        let change = QpChange::from_raw(sys::IBT_CEP_SET_QKEY.0, &info()).unwrap();
        assert_eq!(change, QpChange { qkey: Some(0xb1b), ..Default::default() });
        let change = QpChange::from_raw(sys::IBT_CEP_SET_RESET_INIT, &info()).unwrap();
        assert_eq!((change.port, change.pkey_index, change.qkey), (Some(2), Some(1), Some(0xb1b)));
    }

    #[test]
    fn another_kind_of_queue_pair_and_a_drained_queue_are_refused() {
        let mut other = info();
        other.qp_trans = sys::IBT_RC_SRV as _;
        assert_eq!(QpChange::from_raw(sys::IBT_CEP_SET_STATE, &other), Err(Status::CHAN_SRV_TYPE_INVALID));
        let mut drained = info();
        drained.qp_state = sys::IBT_STATE_SQD;
        assert_eq!(QpChange::from_raw(sys::IBT_CEP_SET_STATE, &drained), Err(Status::CHAN_STATE_INVALID));
    }
}
