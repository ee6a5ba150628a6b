//! How a queue pair goes from state to state (IBA 10.3.1).

use ibtf_provider::{Named, QpChange, QpState, Status};

/// What a queue pair is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Datagrams,
    Connection,
}

/// What a queue pair in a state can be told: without a move, and beside that on the way to the next state.
const fn changeable(kind: Kind, from: QpState) -> (Named, Named) {
    let anywhere = match kind {
        Kind::Datagrams => Named::RIGHTS.and(Named::QKEY),
        // It has none, and nobody minds.
        Kind::Connection => Named::RIGHTS.and(Named::QKEY).and(Named::MIN_RNR),
    };
    let place = Named::PORT.and(Named::PKEY_INDEX);
    match (from, kind) {
        (QpState::Reset, Kind::Datagrams) => (Named::NOTHING, place.and(Named::RIGHTS).and(Named::QKEY)),
        (QpState::Reset, Kind::Connection) => (Named::RIGHTS, place.and(Named::QKEY)),
        (QpState::Init, _) => (place.and(anywhere), Named::TO_RECEIVE),
        (QpState::ReadyToReceive, _) => (anywhere, Named::TO_SEND),
        (QpState::ReadyToSend | QpState::SendError, _) => (anywhere, Named::NOTHING),
        (QpState::Error, _) => (Named::NOTHING, Named::NOTHING),
    }
}

/// The state after a change. `CHAN_STATE_INVALID` if there is no way from here, or if it leads to reset with attributes that would be
/// lost there: who asks for that takes the state for another one than it is. `CHAN_ATTR_RO` if the state cannot have the change.
pub(crate) fn next(kind: Kind, from: QpState, change: &QpChange) -> Result<QpState, Status> {
    let to = way(kind, from, change)?;
    if to == QpState::Reset && change.transition.is_some() && !change.named.is_within(Named::NOTHING) {
        return Err(Status::CHAN_STATE_INVALID);
    }
    let (here, onwards) = changeable(kind, from);
    let onwards = if to == from || to == QpState::Error { Named::NOTHING } else { onwards };
    if change.named.is_within(here.and(onwards)) { Ok(to) } else { Err(Status::CHAN_ATTR_RO) }
}

fn way(kind: Kind, from: QpState, change: &QpChange) -> Result<QpState, Status> {
    use QpState::{Error, Init, ReadyToReceive, ReadyToSend, Reset, SendError};
    let Some(transition) = change.transition else { return Ok(from) };
    let to = transition.to;
    // A client's view is checked where it says that it has one: on the way to where it sends.
    let agrees = to != ReadyToSend || transition.from.is_none_or(|view| view == from);
    let allowed = match (from, to) {
        (_, Error | Reset) => true,
        (Reset | Init, Init) => change.port.is_some() || from == Init,
        (Init, ReadyToReceive) | (ReadyToReceive | ReadyToSend | SendError, ReadyToSend) => agrees,
        _ => false,
    };
    // The failure of a send is the connection's own.
    let allowed = allowed && !(kind == Kind::Connection && from == SendError);
    if allowed { Ok(to) } else { Err(Status::CHAN_STATE_INVALID) }
}

#[cfg(test)]
mod tests {
    use super::{Kind, next};
    use ibtf_provider::{Named, QpChange, QpState, Status, Transition};

    fn go(from: QpState, to: QpState, view: Option<QpState>) -> Result<QpState, Status> {
        let transition = Some(Transition { to, from: view });
        let keys = QpChange { port: Some(1), pkey_index: Some(0), qkey: Some(1), ..QpChange::default() };
        next(Kind::Datagrams, from, &QpChange { transition, ..keys })
    }

    #[test]
    fn datagram_queue_pair_goes_the_usual_way_and_back() {
        use QpState::{Error, Init, ReadyToReceive, ReadyToSend, Reset, SendError};
        for (from, to) in [
            (Reset, Init),
            (Init, ReadyToReceive),
            (ReadyToReceive, ReadyToSend),
            (SendError, ReadyToSend),
            (ReadyToSend, Error),
            (Error, Reset),
            (Reset, Error),
        ] {
            assert_eq!(go(from, to, Some(from)), Ok(to), "{from:?} to {to:?}");
        }
    }

    #[test]
    fn nobody_skips_a_state() {
        use QpState::{Error, Init, ReadyToReceive, ReadyToSend, Reset};
        for (from, to) in [(Reset, ReadyToReceive), (Reset, ReadyToSend), (Init, ReadyToSend), (Error, Init)]
        {
            assert_eq!(go(from, to, Some(from)), Err(Status::CHAN_STATE_INVALID), "{from:?} to {to:?}");
        }
    }

    #[test]
    fn a_client_that_has_lost_track_is_told() {
        let (sending, failed) = (QpState::ReadyToSend, QpState::SendError);
        assert_eq!(go(failed, sending, Some(QpState::ReadyToReceive)), Err(Status::CHAN_STATE_INVALID));
        assert_eq!(go(failed, sending, Some(failed)), Ok(sending));
    }

    #[test]
    fn the_qkey_can_be_changed_alone_and_the_port_not_later_than_in_init() {
        let key = QpChange { named: Named::QKEY, qkey: Some(1), ..QpChange::default() };
        assert_eq!(next(Kind::Datagrams, QpState::ReadyToSend, &key), Ok(QpState::ReadyToSend));
        let port = QpChange { named: Named::PORT, port: Some(1), ..QpChange::default() };
        assert_eq!(next(Kind::Datagrams, QpState::Init, &port), Ok(QpState::Init));
        assert_eq!(next(Kind::Datagrams, QpState::ReadyToSend, &port), Err(Status::CHAN_ATTR_RO));
    }

    #[test]
    fn connection_goes_the_usual_way_and_has_no_state_of_failed_sends() {
        use QpState::{Error, Init, ReadyToReceive, ReadyToSend, Reset, SendError};
        let go = |from, to| {
            let transition = Some(Transition { to, from: Some(from) });
            next(Kind::Connection, from, &QpChange { transition, port: Some(1), ..QpChange::default() })
        };
        let way = [Reset, Init, Init, ReadyToReceive, ReadyToSend, ReadyToSend, Error, Reset];
        for pair in way.windows(2) {
            assert_eq!(go(pair[0], pair[1]), Ok(pair[1]), "{pair:?}");
        }
        for (from, to) in [(SendError, ReadyToSend), (Init, ReadyToSend), (Error, Init)] {
            assert_eq!(go(from, to), Err(Status::CHAN_STATE_INVALID), "{from:?} to {to:?}");
        }
        let pause = QpChange { named: Named::MIN_RNR, min_rnr: Some(3), ..QpChange::default() };
        assert_eq!(next(Kind::Connection, ReadyToSend, &pause), Ok(ReadyToSend));
        assert_eq!(next(Kind::Connection, Reset, &pause), Err(Status::CHAN_ATTR_RO));
        assert_eq!(next(Kind::Connection, Reset, &QpChange::default()), Ok(Reset));
    }

    /// All states that a connection can be in.
    const STATES: [QpState; 5] =
        [QpState::Reset, QpState::Init, QpState::ReadyToReceive, QpState::ReadyToSend, QpState::Error];

    fn told(from: QpState, to: Option<QpState>, named: Named) -> Result<QpState, Status> {
        let transition = to.map(|to| Transition { to, from: Some(from) });
        next(Kind::Connection, from, &QpChange { transition, named, port: Some(1), ..QpChange::default() })
    }

    #[test]
    fn what_a_state_cannot_have_is_refused_with_a_move_as_without() {
        use QpState::{Error, Init, ReadyToReceive, ReadyToSend, Reset};
        let read_only = Err(Status::CHAN_ATTR_RO);
        for named in [Named::PORT, Named::PKEY_INDEX, Named::TO_SEND, Named::TO_RECEIVE] {
            assert_eq!(told(ReadyToSend, Some(ReadyToSend), named), read_only, "{named:?}");
            assert_eq!(told(ReadyToSend, None, named), read_only, "{named:?}");
        }
        assert_eq!(told(Init, Some(ReadyToReceive), Named::PKEY_INDEX), Ok(ReadyToReceive));
        assert_eq!(told(Init, Some(ReadyToReceive), Named::TO_SEND), read_only);
        assert_eq!(told(Init, None, Named::TO_RECEIVE), read_only, "it goes with the move");
        assert_eq!(told(ReadyToReceive, Some(ReadyToSend), Named::TO_SEND), Ok(ReadyToSend));
        assert_eq!(told(ReadyToReceive, Some(ReadyToSend), Named::PORT), read_only);
        assert_eq!(told(ReadyToReceive, None, Named::TO_SEND), read_only, "it goes with the move");
        assert_eq!(told(Reset, Some(Init), Named::PORT.and(Named::RIGHTS)), Ok(Init));
        assert_eq!(told(Error, Some(Error), Named::MIN_RNR), read_only);
        for from in STATES {
            let rights = if from == Error { read_only } else { Ok(from) };
            assert_eq!(told(from, None, Named::RIGHTS), rights, "{from:?}");
            assert_eq!(told(from, Some(Error), Named::NOTHING), Ok(Error), "{from:?}");
        }
    }

    #[test]
    fn nobody_resets_a_connection_and_changes_it_at_once() {
        let lost_track = Err(Status::CHAN_STATE_INVALID);
        for from in STATES {
            for named in [Named::MIN_RNR, Named::RIGHTS, Named::PORT] {
                assert_eq!(told(from, Some(QpState::Reset), named), lost_track, "{from:?}, {named:?}");
            }
            assert_eq!(told(from, Some(QpState::Reset), Named::NOTHING), Ok(QpState::Reset));
        }
    }
}
