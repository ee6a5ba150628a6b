//! How a queue pair goes from state to state (IBA 10.3.1).

use ibtf_provider::{QpChange, QpState, Status};

/// What a queue pair is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Datagrams,
    Connection,
}

/// The state after a change. `CHAN_STATE_INVALID` if there is no way from here; `CHAN_ATTR_RO` if the state cannot have the change.
pub(crate) fn next(kind: Kind, from: QpState, change: &QpChange) -> Result<QpState, Status> {
    use QpState::{Error, Init, ReadyToReceive, ReadyToSend, Reset, SendError};
    let Some(transition) = change.transition else {
        let keys_only = change.port.is_none() && change.pkey_index.is_none();
        return match from {
            Init => Ok(from),
            // Rights are taken in any state.
            Reset if kind == Kind::Connection && keys_only && change.min_rnr.is_none() => Ok(from),
            ReadyToReceive | ReadyToSend | SendError if keys_only => Ok(from),
            _ => Err(Status::CHAN_ATTR_RO),
        };
    };
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
    use ibtf_provider::{QpChange, QpState, Status, Transition};

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
        let key = QpChange { qkey: Some(1), ..QpChange::default() };
        assert_eq!(next(Kind::Datagrams, QpState::ReadyToSend, &key), Ok(QpState::ReadyToSend));
        let port = QpChange { port: Some(1), ..QpChange::default() };
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
        let pause = QpChange { min_rnr: Some(3), ..QpChange::default() };
        assert_eq!(next(Kind::Connection, ReadyToSend, &pause), Ok(ReadyToSend));
        assert_eq!(next(Kind::Connection, Reset, &pause), Err(Status::CHAN_ATTR_RO));
        assert_eq!(next(Kind::Connection, Reset, &QpChange::default()), Ok(Reset));
    }
}
