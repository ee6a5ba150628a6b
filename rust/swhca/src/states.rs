//! How a queue pair goes from state to state (IBA 10.3.1).

use ibtf_provider::{QpChange, QpState, Status};

/// The state after a change. `CHAN_STATE_INVALID` if there is no way from here; `CHAN_ATTR_RO` if the state cannot have the change.
pub(crate) fn next(from: QpState, change: &QpChange) -> Result<QpState, Status> {
    use QpState::{Error, Init, ReadyToReceive, ReadyToSend, Reset, SendError};
    let Some(transition) = change.transition else {
        let keys_only = change.port.is_none() && change.pkey_index.is_none();
        return match from {
            Init => Ok(from),
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
    if allowed { Ok(to) } else { Err(Status::CHAN_STATE_INVALID) }
}

#[cfg(test)]
mod tests {
    use super::next;
    use ibtf_provider::{QpChange, QpState, Status, Transition};

    fn go(from: QpState, to: QpState, view: Option<QpState>) -> Result<QpState, Status> {
        let transition = Some(Transition { to, from: view });
        next(from, &QpChange { transition, port: Some(1), pkey_index: Some(0), qkey: Some(1) })
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
        assert_eq!(next(QpState::ReadyToSend, &key), Ok(QpState::ReadyToSend));
        let port = QpChange { port: Some(1), ..QpChange::default() };
        assert_eq!(next(QpState::Init, &port), Ok(QpState::Init));
        assert_eq!(next(QpState::ReadyToSend, &port), Err(Status::CHAN_ATTR_RO));
    }
}
