//! Searches for groups, and leaves.

use ibtf::{JoinState, McgAttributes, McgInfo, McgList, Status, Wanted};
use ipoib::debts::Debt;
use ipoib::groups::{self, JoinError, Left, Roles};
use ipoib::link::{self, SaError, Ticket};
use ipoib::window::End;
use ipoib::{Gid, Mgid, PKey};
use kernel::{KArc, log};

use super::joins::{forget_another, senseless};
use super::{Asker, end, sa_error};
use crate::counters::Asked;
use crate::link::lifecycle::unless_busy;
use crate::link::{Shared, mcg_record};
use crate::node::{gid, ibtf_gid};
use crate::now;
use crate::sa_pool::Turn;

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
        Ok(list) => match list.iter().find_map(|info| mcg_record::broadcast(&info, mgid)) {
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
    query_from(shared, port, attributes, most)
}

fn query_from(
    asker: &impl Asker,
    port: Gid,
    attributes: &McgAttributes,
    most: u32,
) -> Result<McgList, Status> {
    asker.put(Asked::Query, gid(attributes.mgid), || ibtf::query(ibtf_gid(port), attributes, most))
}

/// Unless it is the group that the link is in now, by another port GID.
fn stop_hearing_broadcast(shared: &Shared, mgid: Mgid) {
    let (current, _) = shared.broadcast_and_port();
    if current.is_none_or(|group| group.mgid != mgid) {
        shared.detach_group(mgid);
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
    let counted = if joins > 0 { Roles::FULL } else { Roles::NONE };
    let membership = Membership { roles: Roles::FULL, counted, joins, port: gid };
    let Ended { left, end, .. } = leave(&**shared, turn, mgid, &membership);
    // What the SA has not confirmed is owed: IBTF counts none of it any more.
    let owed = (left != Left::Confirmed).then_some(0);
    let left = link::Event::Left { mgid, gid, owed };
    shared.tell(|control| control.link.handle_event(now(), left));
    end
}

/// What there is to leave of a group.
#[derive(Clone, Copy)]
pub(crate) struct Membership {
    /// In which the SA may have the port.
    pub roles: Roles,
    /// Of the joins that IBTF counts; nobody has answered the others.
    pub counted: Roles,
    /// So many.
    pub joins: u32,
    /// The port GID of the joins: the port may have another one by now.
    pub port: Gid,
}

/// What came of a leave.
struct Ended {
    left: Left,
    /// How its last question ended.
    end: End,
    /// The SA has answered one.
    heard: bool,
}

/// As often as was joined, and then each role that IBTF does not count by itself: the SA refuses to end several if it does not know one of
/// them. Nothing is asked after a question that is not answered.
fn leave(asker: &impl Asker, turn: &Turn<'_>, mgid: Mgid, membership: &Membership) -> Ended {
    let Membership { roles, counted, joins, port } = *membership;
    let (mut end, mut heard) = (End::Unanswered, false);
    for left in (1..=joins).rev() {
        turn.again();
        // Those before the last are IBTF's own bookkeeping; with the last it asks for all roles that it counts.
        let (over, answer) = leave_once(asker, port, mgid, counted, left == 1);
        (end, heard) = (answer, heard || answer == End::Answered);
        if left == 1 && !over {
            return Ended { left: Left::Unconfirmed(roles), end, heard };
        }
    }
    let mut unconfirmed = roles.without(counted);
    for role in [Roles::FULL, Roles::NON, Roles::SEND_ONLY] {
        if unconfirmed.contains(role) {
            let (over, answer) = end_uncounted(asker, turn, port, mgid, role, &mut heard);
            end = answer;
            if over {
                unconfirmed = unconfirmed.without(role);
            } else if end == End::Unanswered {
                break;
            }
        }
    }
    let left = if unconfirmed == Roles::NONE { Left::Confirmed } else { Left::Unconfirmed(unconfirmed) };
    Ended { left, end, heard }
}

/// Ends a role that IBTF does not count; whether that is over. IBTF has one count for all links of a port that are in a group: a leave without a
/// join before it would take the join of another link of the partition, and end that link's membership. So the role is joined
/// once more, if the group is there, and as it is: who joins with [`JoinState::Full`] makes it if the last member has left meanwhile.
/// An SA may refuse what it lists because a link of the subnet has become slower: it is asked for the group whatever it carries.
fn end_uncounted(
    asker: &impl Asker,
    turn: &Turn<'_>,
    port: Gid,
    mgid: Mgid,
    role: Roles,
    heard: &mut bool,
) -> (bool, End) {
    let listed = || {
        turn.again();
        listed(asker, port, mgid)
    };
    let join = |group: McgInfo, named: bool| {
        turn.again();
        join_as_listed(asker, port, &group, role, named)
    };
    let found = listed();
    *heard |= end(&found) == End::Answered;
    let joined = match found {
        Ok(group) if role == Roles::FULL => match join(group, true) {
            Err(Status::MCG_RECORDS_NOT_FOUND) => listed().and_then(|group| join(group, false)),
            answer => answer,
        },
        answer => answer.and_then(|group| join(group, false)),
    };
    match joined {
        Ok(_) => {
            turn.again();
            leave_once(asker, port, mgid, role, true)
        }
        // Who may not be in a group is not in it.
        Err(status) => (status == Status::MCG_RECORDS_NOT_FOUND || was_not_asked(status), end(&joined)),
    }
}

/// The pool, for what a link has left.
struct Debtor(PKey);

impl Asker for Debtor {
    fn pkey(&self) -> PKey {
        self.0
    }

    fn put<T>(&self, _: Asked, _: Gid, call: impl FnOnce() -> Result<T, Status>) -> Result<T, Status> {
        unless_busy(call)
    }
}

/// Ends a membership that a link has left; what is left of it, how the last question ended, and whether the SA has answered one. **May block**,
/// for minutes.
pub(crate) fn end_debt(turn: &Turn<'_>, debt: &Debt) -> (Left, End, bool) {
    let Debt { group, port, pkey, roles, counted, joins } = *debt;
    let membership = Membership { roles, counted, joins, port };
    let Ended { left, end, heard } = leave(&Debtor(pkey), turn, group, &membership);
    (left, end, heard)
}

/// A group as the SA has it; what it answers about another group answers nothing. **May block**, for minutes.
pub(super) fn listed(asker: &impl Asker, port: Gid, mgid: Mgid) -> Result<McgInfo, Status> {
    let mgid = ibtf_gid(mgid.gid());
    let list = query_from(asker, port, &McgAttributes { mgid, ..Default::default() }, 1)?;
    let nothing =
        if list.iter().next().is_some() { Status::IBMF_TIMEOUT } else { Status::MCG_RECORDS_NOT_FOUND };
    list.iter().find(|group| group.address.dgid == mgid).ok_or(nothing)
}

/// Joins in a role what is listed; with the MTU and rate that are listed if they are `named`.
fn join_as_listed(
    asker: &impl Asker,
    port: Gid,
    group: &McgInfo,
    role: Roles,
    named: bool,
) -> Result<McgInfo, Status> {
    let mgid = group.address.dgid;
    let join = McgAttributes {
        mgid,
        qkey: group.qkey,
        pkey: asker.pkey().get(),
        mtu: Some(group.mtu_code).filter(|code| named && *code != 0).map(Wanted::Exactly),
        rate: Some(group.address.rate).filter(|code| named && *code != 0).map(Wanted::Exactly),
        sl: group.address.sl,
        flow: group.address.flow,
        tclass: group.address.tclass,
        scope: group.scope,
        join_state: Some(join_state(role)),
        ..Default::default()
    };
    let joined = asker.put(Asked::Join, gid(mgid), || ibtf::join(ibtf_gid(port), &join))?;
    // IBTF counts what it was answered about: a leave of the group that was asked for would not end that.
    match forget_another(port, gid(mgid), &joined, join_state(role)) {
        true => Err(Status::IBMF_TIMEOUT),
        false => Ok(joined),
    }
}

/// How IBTF joins in a role, or leaves: of several in the first.
pub(crate) fn join_state(roles: Roles) -> JoinState {
    [JoinState::Full, JoinState::NonMember, JoinState::SendOnlyNonMember]
        .into_iter()
        .find(|state| roles.bits() & state.bits() != 0)
        .unwrap_or(JoinState::Full)
}

/// Whether IBTF found no ACTIVE port with the GID, or nobody to ask by. The SA ends the membership of a port that is gone by itself.
pub(super) fn was_not_asked(status: Status) -> bool {
    matches!(
        status,
        Status::INVALID_PARAM
            | Status::HCA_BUSY_DETACHING
            | Status::HCA_PORT_NOT_ACTIVE
            | Status::HCA_INVALID
    )
}

/// One leave, in one of these roles; whether that is over. IBTF counts a leave before it looks for the port, and the joins of a port
/// together, whichever prefix its GID had with them: a leave for which there is no port must not be repeated, it would undo
/// somebody's next join.
fn leave_once(asker: &impl Asker, port: Gid, mgid: Mgid, roles: Roles, asks: bool) -> (bool, End) {
    let leave = || ibtf::leave(ibtf_gid(port), ibtf_gid(mgid.gid()), join_state(roles));
    let answer = if asks { asker.put(Asked::Leave, mgid.gid(), leave) } else { leave() };
    // Or no ACTIVE port has the GID: the SA ends the membership of a port that is gone by itself.
    let over = matches!(answer, Ok(()) | Err(Status::INVALID_PARAM | Status::HCA_BUSY_DETACHING));
    (over, end(&answer))
}

#[inline(never)]
pub(super) fn leave_group(shared: &KArc<Shared>, turn: &Turn<'_>, mgid: Mgid, membership: Membership) -> End {
    shared.detach_group(mgid);
    let Ended { mut left, mut end, .. } = leave(&**shared, turn, mgid, &membership);
    // The port has another GID now: a join that nobody has answered since may have put it into the group with that one.
    let now_as = shared.port_gid().filter(|now| *now != membership.port);
    if let (Left::Confirmed, Some(port)) = (left, now_as) {
        let uncounted = Membership { counted: Roles::NONE, joins: 0, port, ..membership };
        Ended { left, end, .. } = leave(&**shared, turn, mgid, &uncounted);
    }
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
