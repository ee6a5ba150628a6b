//! Searches for groups, and leaves.

use ibtf::{JoinState, McgAttributes, McgList, Status};
use ipoib::groups::{self, JoinError, Left, Roles};
use ipoib::link::{self, SaError, Ticket};
use ipoib::window::End;
use ipoib::{Gid, Mgid};
use kernel::{KArc, log};

use super::joins::senseless;
use super::{end, sa_error};
use crate::counters::Asked;
use crate::link::{Shared, group};
use crate::node::{gid, ibtf_gid};
use crate::now;
use crate::pool::Turn;

#[inline(never)]
pub(super) fn find(shared: &KArc<Shared>, ticket: Ticket, mgid: Mgid) -> End {
    let attributes = McgAttributes {
        mgid: ibtf_gid(mgid.gid()),
        pkey: shared.pkey.get(),
        scope: mgid.scope().map_or(0, ipoib::Scope::nibble),
        ..Default::default()
    };
    let answer = query(shared, &attributes, 1);
    let end = end(&answer);
    let result = match answer {
        Ok(list) => match list.iter().find_map(|info| group::broadcast(&info, mgid)) {
            Some(group) => Ok(Some(group)),
            // There is one. Without this it would be created.
            None => {
                senseless(shared, mgid, list.iter().next());
                Err(SaError::Unanswered(0))
            }
        },
        Err(Status::MCG_RECORDS_NOT_FOUND) => Ok(None),
        Err(status) => {
            log!(note, shared.name, "search for the IPoIB broadcast group failed: {status}");
            Err(sa_error(status))
        }
    };
    shared.tell(|control| control.link.handle_event(now(), link::Event::Found(ticket, result)));
    end
}

/// Asks for the groups there are; for all of them if `most` is 0. **May block**, for minutes.
pub(super) fn query(shared: &Shared, attributes: &McgAttributes, most: u32) -> Result<McgList, Status> {
    let port = shared.port_gid().ok_or(Status::HCA_PORT_NOT_ACTIVE)?;
    let like = gid(attributes.mgid);
    shared.asks(Asked::Query, like);
    let answer = ibtf::query(ibtf_gid(port), attributes, most);
    shared.answered(Asked::Query, like, &answer);
    answer
}

/// Unless it is the group that the link is in now, by another port GID.
fn stop_hearing_broadcast(shared: &Shared, mgid: Mgid) {
    let (current, _) = shared.broadcast_and_port();
    if current.is_none_or(|group| group.mgid != mgid) {
        shared.stop_hearing(mgid);
    }
}

pub(super) fn leave_broadcast(
    shared: &KArc<Shared>,
    turn: &Turn<'_>,
    gid: Gid,
    mgid: Mgid,
    joins: u32,
) -> End {
    stop_hearing_broadcast(shared, mgid);
    let (_, end) = leave(shared, turn, gid, mgid, Roles::FULL, joins);
    let left = link::Event::Left { mgid, gid, owed: 0 };
    shared.tell(|control| control.link.handle_event(now(), left));
    end
}

/// As often as was joined; how the last leave ended, the only one for which the SA is asked. IBTF counts a leave before it looks for
/// the port, and the joins of a port together, whichever prefix its GID had with them: a leave for which there is no port must
/// not be repeated, it would undo somebody's next join.
fn leave(shared: &Shared, turn: &Turn<'_>, port: Gid, mgid: Mgid, roles: Roles, joins: u32) -> (Left, End) {
    let state = [JoinState::Full, JoinState::NonMember, JoinState::SendOnlyNonMember]
        .into_iter()
        .find(|state| roles.bits() & state.bits() != 0)
        .unwrap_or(JoinState::Full);
    let mut left_as = (Left::Confirmed, End::Unanswered);
    for left in (1..=joins).rev() {
        turn.again();
        // Those before it are IBTF's own bookkeeping.
        let last = left == 1;
        if last {
            shared.asks(Asked::Leave, mgid.gid());
        }
        let answer = ibtf::leave(ibtf_gid(port), ibtf_gid(mgid.gid()), state);
        if last {
            shared.answered(Asked::Leave, mgid.gid(), &answer);
        }
        let end = end(&answer);
        left_as = match answer {
            // Or no ACTIVE port has the GID: the SA ends the membership of a port that is gone by itself.
            Ok(()) | Err(Status::INVALID_PARAM | Status::HCA_BUSY_DETACHING) => (Left::Confirmed, end),
            Err(_) => (Left::Unconfirmed, end),
        };
    }
    left_as
}

#[inline(never)]
pub(super) fn leave_group(
    shared: &KArc<Shared>,
    turn: &Turn<'_>,
    mgid: Mgid,
    roles: Roles,
    joins: u32,
    port: Gid,
) -> End {
    shared.stop_hearing(mgid);
    let (left, end) = leave(shared, turn, port, mgid, roles, joins);
    shared.tell(|control| control.groups.handle_event(now(), groups::Event::Left(mgid, left)));
    end
}

#[inline(never)]
pub(super) fn list(shared: &KArc<Shared>) -> End {
    let attributes = McgAttributes { pkey: shared.pkey.get(), ..Default::default() };
    let answer = query(shared, &attributes, 0);
    let end = end(&answer);
    let result = match answer {
        Ok(list) => {
            for mgid in list.iter().filter_map(|info| Mgid::new(gid(info.address.dgid))) {
                shared.tell(|control| control.groups.handle_event(now(), groups::Event::Exists(mgid)));
            }
            Ok(())
        }
        Err(Status::MCG_RECORDS_NOT_FOUND) => Ok(()),
        Err(status) => {
            log!(note, shared.name, "Could not get list of IBA multicast groups: {status}");
            Err(JoinError::Unanswered)
        }
    };
    shared.tell(|control| control.groups.handle_event(now(), groups::Event::Listed(result)));
    end
}
