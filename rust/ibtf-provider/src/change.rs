//! Changes of queue pairs, as `ibtl` and `ibcm` ask for them.

use illumos_sys_hdrs as sys;

use crate::address::AddressVector;
use crate::qp::{PSN_MASK, QpState, ReceiveSide, SendSide};
use crate::status::Status;

/// Where a queue pair is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// There.
    pub to: QpState,
    /// From where, as far as the client says: checked for a move to [`QpState::ReadyToSend`] only.
    pub from: Option<QpState>,
}

/// Attributes that the flags of a change name, beside the state (`IBT_CEP_SET_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Named(u32);

impl Named {
    /// None at all.
    pub const NOTHING: Self = Self(0);
    /// Rights to RDMA and to atomic operations.
    pub const RIGHTS: Self =
        Self(sys::IBT_CEP_SET_RDMA_R.0 | sys::IBT_CEP_SET_RDMA_W.0 | sys::IBT_CEP_SET_ATOMIC.0);
    /// The port.
    pub const PORT: Self = Self(sys::IBT_CEP_SET_PORT.0);
    /// The index in its P_Key table.
    pub const PKEY_INDEX: Self = Self(sys::IBT_CEP_SET_PKEY_IX);
    /// The Q_Key.
    pub const QKEY: Self = Self(sys::IBT_CEP_SET_QKEY.0);
    /// [`ReceiveSide::min_rnr`].
    pub const MIN_RNR: Self = Self(sys::IBT_CEP_SET_MIN_RNR_NAK.0);
    /// The rest of [`ReceiveSide`], and how many RDMA reads may come.
    pub const TO_RECEIVE: Self =
        Self(sys::IBT_CEP_SET_ADDS_VECT.0 | sys::IBT_CEP_SET_MTU | sys::IBT_CEP_SET_RDMARA_IN.0);
    /// [`SendSide`], and how many RDMA reads may go.
    pub const TO_SEND: Self = Self(
        sys::IBT_CEP_SET_TIMEOUT
            | sys::IBT_CEP_SET_RETRY.0
            | sys::IBT_CEP_SET_RNR_NAK_RETRY.0
            | sys::IBT_CEP_SET_RDMARA_OUT.0,
    );

    fn from_raw(flags: u32) -> Self {
        let all = [
            Self::RIGHTS,
            Self::PORT,
            Self::PKEY_INDEX,
            Self::QKEY,
            Self::MIN_RNR,
            Self::TO_RECEIVE,
            Self::TO_SEND,
        ];
        Self(flags & all.iter().fold(0, |all, some| all | some.0))
    }

    /// Those of both.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of these are among those.
    pub const fn is_within(self, others: Self) -> bool {
        self.0 & !others.0 == 0
    }
}

/// A change of a queue pair. A field that is `None` is not to be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpChange {
    /// The state.
    pub transition: Option<Transition>,
    /// What its flags name. The provider says which states can have it; what is in the fields below may go with the state alone.
    pub named: Named,
    /// From reset to init the port and the index are there.
    pub port: Option<u8>,
    /// See above.
    pub pkey_index: Option<u16>,
    /// The index if this takes a connection from reset to init; whoever changes the port in init leaves it empty.
    pub initial_pkey_index: Option<u16>,
    /// From reset to init, of a datagram queue pair.
    pub qkey: Option<u32>,
    /// There on the way to [`QpState::ReadyToReceive`], of a connection.
    pub receive_side: Option<ReceiveSide>,
    /// There from [`QpState::ReadyToReceive`] to [`QpState::ReadyToSend`], of a connection.
    pub send_side: Option<SendSide>,
    /// [`ReceiveSide::min_rnr`] alone.
    pub min_rnr: Option<u8>,
}

/// The flags that say where to go, and from where: the flag counts, for the state in the record can be anything.
const MOVES: [(u32, QpState, QpState); 3] = [
    (sys::IBT_CEP_SET_RESET_INIT, QpState::Reset, QpState::Init),
    (sys::IBT_CEP_SET_INIT_RTR, QpState::Init, QpState::ReadyToReceive),
    (sys::IBT_CEP_SET_RTR_RTS, QpState::ReadyToReceive, QpState::ReadyToSend),
];

fn receive_side(rc: &sys::ibt_qp_rc_attr_t) -> ReceiveSide {
    ReceiveSide {
        vector: AddressVector::from_raw(&rc.rc_path.cep_adds_vect),
        peer: rc.rc_dst_qpn & 0xff_ffff,
        path_mtu: rc.rc_path_mtu.0 as u8,
        psn: rc.rc_rq_psn() & PSN_MASK,
        min_rnr: (rc.rc_min_rnr_nak.0 & 0x1f) as u8,
    }
}

fn send_side(rc: &sys::ibt_qp_rc_attr_t) -> SendSide {
    SendSide {
        psn: rc.rc_sq_psn() & PSN_MASK,
        ack_timeout: rc.rc_path.cep_cm_opaque1 & 0x1f,
        retries: rc.rc_retry_cnt() & 7,
        rnr_retries: (rc.rc_rnr_retry_cnt.0 & 7) as u8,
    }
}

impl QpChange {
    /// What a client asks of a queue pair, of a connection or of datagrams. `CHAN_SRV_TYPE_INVALID` if it takes it for another kind,
    /// `CHAN_STATE_INVALID` for a state that there is not, `NOT_SUPPORTED` for queues of other sizes and for alternate paths.
    pub(crate) fn from_raw(
        flags: u32,
        info: &sys::ibt_qp_info_t,
        is_connection: bool,
    ) -> Result<Self, Status> {
        let kind = if is_connection { sys::IBT_RC_SRV } else { sys::IBT_UD_SRV };
        if info.qp_trans != kind {
            return Err(Status::CHAN_SRV_TYPE_INVALID);
        }
        if flags & (sys::IBT_CEP_SET_SQ_SIZE.0 | sys::IBT_CEP_SET_RQ_SIZE.0) != 0 {
            return Err(Status::NOT_SUPPORTED);
        }
        let transition = Self::transition(flags, info)?;
        if is_connection {
            return Self::of_connection(flags, info, transition);
        }
        // SAFETY: every member of the union is plain data, and any bytes are a value of this one.
        let ud = unsafe { info.qp_transport.ud };
        let initial = flags & sys::IBT_CEP_SET_RESET_INIT != 0;
        let given = |flag: u32| initial || flags & flag != 0;
        Ok(Self {
            transition,
            named: Named::from_raw(flags),
            port: given(sys::IBT_CEP_SET_PORT.0).then_some(ud.ud_port),
            pkey_index: given(sys::IBT_CEP_SET_PKEY_IX).then_some(ud.ud_pkey_ix),
            qkey: given(sys::IBT_CEP_SET_QKEY.0).then_some(ud.ud_qkey),
            ..Self::default()
        })
    }

    /// Rights to RDMA and how much of it there may be are taken and mean nothing.
    fn of_connection(
        flags: u32,
        info: &sys::ibt_qp_info_t,
        transition: Option<Transition>,
    ) -> Result<Self, Status> {
        if flags & (sys::IBT_CEP_SET_ALT_PATH.0 | sys::IBT_CEP_SET_MIG) != 0 {
            return Err(Status::NOT_SUPPORTED);
        }
        // SAFETY: every member of the union is plain data, and any bytes are a value of this one.
        let rc = unsafe { info.qp_transport.rc };
        let initial = flags & sys::IBT_CEP_SET_RESET_INIT != 0;
        let receives = transition.is_some_and(|way| way.to == QpState::ReadyToReceive);
        let sends = transition
            .is_some_and(|way| way.to == QpState::ReadyToSend && way.from == Some(QpState::ReadyToReceive));
        let given = |flag: u32| flags & flag != 0;
        // Who moves it to where it receives leaves the port empty.
        let port = (initial || given(sys::IBT_CEP_SET_PORT.0)) && !receives && !sends;
        let min_rnr = given(sys::IBT_CEP_SET_MIN_RNR_NAK.0) && !receives;
        let index = rc.rc_path.cep_pkey_ix;
        let pkey_index = initial || receives || given(sys::IBT_CEP_SET_PKEY_IX);
        Ok(Self {
            transition,
            named: Named::from_raw(flags),
            port: port.then_some(rc.rc_path.cep_hca_port_num),
            pkey_index: pkey_index.then_some(index),
            initial_pkey_index: transition.is_some_and(|way| way.to == QpState::Init).then_some(index),
            qkey: None,
            receive_side: receives.then(|| receive_side(&rc)),
            send_side: sends.then(|| send_side(&rc)),
            min_rnr: min_rnr.then_some((rc.rc_min_rnr_nak.0 & 0x1f) as u8),
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
    use super::{Named, QpChange, QpState, SendSide, Transition};
    use crate::Status;
    use crate::qp::{QpQuery, UdAttributes};
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
        let change = QpChange::from_raw(sys::IBT_CEP_SET_RTR_RTS, &info, false).unwrap();
        let expected = Transition { to: QpState::ReadyToSend, from: Some(QpState::ReadyToReceive) };
        assert_eq!(change, QpChange { transition: Some(expected), ..Default::default() });
    }

    #[test]
    fn what_no_flag_names_is_not_read() {
        let change = QpChange::from_raw(sys::IBT_CEP_SET_QKEY.0, &info(), false).unwrap();
        let named = Named::QKEY;
        assert_eq!(change, QpChange { named, qkey: Some(0xb1b), ..Default::default() });
        let change = QpChange::from_raw(sys::IBT_CEP_SET_RESET_INIT, &info(), false).unwrap();
        assert_eq!((change.port, change.pkey_index, change.qkey), (Some(2), Some(1), Some(0xb1b)));
    }

    #[test]
    fn another_kind_of_queue_pair_and_a_drained_queue_are_refused() {
        let mut other = info();
        other.qp_trans = sys::IBT_RC_SRV as _;
        let refused = QpChange::from_raw(sys::IBT_CEP_SET_STATE, &other, false);
        assert_eq!(refused, Err(Status::CHAN_SRV_TYPE_INVALID));
        let mut drained = info();
        drained.qp_state = sys::IBT_STATE_SQD;
        let refused = QpChange::from_raw(sys::IBT_CEP_SET_STATE, &drained, false);
        assert_eq!(refused, Err(Status::CHAN_STATE_INVALID));
    }

    /// Something in every field of a connection's record.
    fn connection() -> sys::ibt_qp_info_t {
        let mut info = sys::ibt_qp_info_t { qp_trans: sys::IBT_RC_SRV, ..Default::default() };
        let mut rc = sys::ibt_qp_rc_attr_t {
            rc_dst_qpn: 0x77,
            rc_path_mtu: sys::ib_mtu_t(4),
            rc_min_rnr_nak: sys::ibt_rnr_nak_time_e(12),
            rc_rnr_retry_cnt: sys::ibt_rnr_retry_cnt_e(7),
            ..Default::default()
        };
        rc.rc_path.cep_pkey_ix = 3;
        rc.rc_path.cep_cm_opaque1 = 14;
        rc.rc_path.cep_adds_vect.set_av_dlid(9);
        rc.set_rc_rq_psn(5);
        rc.set_rc_sq_psn(6);
        rc.set_rc_retry_cnt(2);
        info.qp_transport.rc = rc;
        info
    }

    #[test]
    fn connection_that_is_to_receive_keeps_the_port_of_init_and_takes_everything_else() {
        let flags = sys::IBT_CEP_SET_INIT_RTR | sys::IBT_CEP_SET_PKEY_IX;
        let change = QpChange::from_raw(flags, &connection(), true).unwrap();
        assert_eq!((change.port, change.pkey_index, change.send_side), (None, Some(3), None));
        let side = change.receive_side.unwrap();
        assert_eq!((side.peer, side.path_mtu, side.psn, side.min_rnr), (0x77, 4, 5, 12));
        assert_eq!(side.vector.dlid, 9);
    }

    #[test]
    fn connection_that_is_to_send_is_told_its_times_and_the_state_in_the_record_is_not_read() {
        let change = QpChange::from_raw(sys::IBT_CEP_SET_RTR_RTS, &connection(), true).unwrap();
        let side = SendSide { psn: 6, ack_timeout: 14, retries: 2, rnr_retries: 7 };
        assert_eq!((change.send_side, change.receive_side, change.port), (Some(side), None, None));
        let way = Transition { to: QpState::ReadyToSend, from: Some(QpState::ReadyToReceive) };
        assert_eq!(change.transition, Some(way));
    }

    #[test]
    fn connection_in_init_gets_another_port_and_one_that_was_reset_its_index_too() {
        let mut info = connection();
        info.qp_state = sys::IBT_STATE_INIT;
        info.qp_transport.rc.rc_path.cep_hca_port_num = 2;
        let flags = sys::IBT_CEP_SET_STATE | sys::IBT_CEP_SET_PORT.0;
        let change = QpChange::from_raw(flags, &info, true).unwrap();
        assert_eq!((change.port, change.pkey_index, change.initial_pkey_index), (Some(2), None, Some(3)));
    }

    #[test]
    fn alternate_paths_are_refused_and_what_flags_name_is_told_apart() {
        let ask = |flags: u32| QpChange::from_raw(flags, &connection(), true);
        let nothing = QpChange::default();
        assert_eq!(ask(sys::IBT_CEP_SET_TIMEOUT), Ok(QpChange { named: Named(1 << 21), ..nothing }));
        assert!(Named(1 << 21).is_within(Named::TO_SEND) && !Named(1 << 21).is_within(Named::TO_RECEIVE));
        assert_eq!(ask(sys::IBT_CEP_SET_STATE | sys::IBT_CEP_SET_MIG), Err(Status::NOT_SUPPORTED));
        let rights = sys::IBT_CEP_SET_RDMA_R.0 | sys::IBT_CEP_SET_ATOMIC.0;
        assert!(ask(rights).is_ok_and(|change| change.named.is_within(Named::RIGHTS)));
        let pause = QpChange { named: Named::MIN_RNR, min_rnr: Some(12), ..nothing };
        assert_eq!(ask(sys::IBT_CEP_SET_MIN_RNR_NAK.0), Ok(pause));
    }

    #[test]
    fn query_of_a_connection_says_what_it_was_told() {
        let change = QpChange::from_raw(sys::IBT_CEP_SET_INIT_RTR, &connection(), true).unwrap();
        let query = QpQuery {
            qpn: 0x42,
            state: QpState::ReadyToSend,
            sizes: Default::default(),
            ud: UdAttributes { port: 2, pkey_index: 3, qkey: 0 },
            connection: change.receive_side.zip(Some(SendSide { psn: 8, ..Default::default() })),
        };
        let mut raw = sys::ibt_qp_query_attr_t::default();
        query.fill(&mut raw);
        assert_eq!((raw.qp_qpn, raw.qp_info.qp_trans), (0x42, sys::IBT_RC_SRV));
        // SAFETY: plain data.
        let rc = unsafe { raw.qp_info.qp_transport.rc };
        assert_eq!((rc.rc_rq_psn(), rc.rc_sq_psn(), rc.rc_dst_qpn), (5, 8, 0x77));
        let path = rc.rc_path;
        assert_eq!((path.cep_hca_port_num, path.cep_adds_vect.av_port_num, path.cep_pkey_ix), (2, 2, 3));
    }
}
