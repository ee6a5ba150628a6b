//! What a link asks subnet administration, and the answers it brings to the machines. The module's pool makes the calls
//! ([`crate::sa_pool`]): each waits for its answer.

mod groups;
mod joins;
mod paths;

use ibtf::Status;
use ipoib::groups::{JoinError, Left, Roles};
use ipoib::link::{self, BroadcastGroup, SaError, Ticket};
use ipoib::paths::LookupError;
use ipoib::window::{End, Kind};
use ipoib::{Gid, LinkAddr, Mgid, PKey};
use kernel::KArc;

pub(crate) use groups::{Membership, end_debt, join_state};
pub(super) use paths::follow_port;

use super::Shared;
use crate::counters::Asked;
use crate::now;
use crate::sa_pool::Turn;

/// One call.
pub(crate) enum Call {
    Find(Ticket, Mgid),
    JoinBroadcast(Ticket, Gid, Mgid, Option<BroadcastGroup>),
    LeaveBroadcast {
        mgid: Mgid,
        gid: Gid,
        joins: u32,
    },
    /// Whether the join of before named values that may be outdated.
    JoinGroup(Mgid, Roles, bool),
    LeaveGroup(Mgid, Membership),
    ListGroups,
    /// How fast the port with this GID is.
    AskRate(Gid),
    Lookup(LinkAddr),
}

impl Call {
    /// What it is about.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Find(..) | Self::JoinBroadcast(..) => Kind::Broadcast,
            Self::JoinGroup(..) | Self::ListGroups => Kind::Group,
            Self::LeaveBroadcast { .. } | Self::LeaveGroup(..) => Kind::Leave,
            Self::Lookup(_) => Kind::Path,
            Self::AskRate(_) => Kind::Rate,
        }
    }

    /// The group that it joins or leaves, and whether it leaves.
    pub(crate) fn group(&self) -> Option<(Mgid, bool)> {
        match self {
            Self::JoinBroadcast(_, _, mgid, _) | Self::JoinGroup(mgid, ..) => Some((*mgid, false)),
            Self::LeaveBroadcast { mgid, .. } | Self::LeaveGroup(mgid, _) => Some((*mgid, true)),
            Self::Find(..) | Self::ListGroups | Self::AskRate(_) | Self::Lookup(_) => None,
        }
    }

    /// Makes the call. **May block**, for minutes.
    pub(crate) fn make(self, shared: &KArc<Shared>, turn: &Turn<'_>) -> End {
        match self {
            Self::Find(ticket, mgid) => groups::find(shared, ticket, mgid),
            Self::JoinBroadcast(ticket, gid, mgid, group) => {
                joins::join_broadcast(shared, turn, ticket, gid, mgid, group)
            }
            Self::LeaveBroadcast { mgid, gid, joins } => {
                groups::leave_broadcast(shared, turn, gid, mgid, joins)
            }
            Self::JoinGroup(mgid, role, outdated) => joins::join_group(shared, turn, mgid, role, outdated),
            Self::LeaveGroup(mgid, membership) => groups::leave_group(shared, turn, mgid, membership),
            Self::ListGroups => groups::list(shared),
            Self::AskRate(gid) => paths::ask_rate(shared, gid),
            Self::Lookup(to) => paths::lookup(shared, to),
        }
    }

    /// Answers a call that is not made.
    pub(crate) fn refuse(self, shared: &Shared) {
        let (now, not_asked) = (now(), SaError::NotAsked(0));
        shared.tell(|control| match self {
            Self::Find(ticket, _) => {
                control.link.handle_event(now, link::Event::Found(ticket, Err(not_asked)))
            }
            Self::JoinBroadcast(ticket, gid, mgid, _) => {
                control.link.handle_event(now, link::Event::Joined(ticket, gid, mgid, Err(not_asked)));
            }
            Self::LeaveBroadcast { mgid, gid, joins } => {
                control.link.handle_event(now, link::Event::Left { mgid, gid, owed: Some(joins) });
            }
            Self::JoinGroup(mgid, role, _) => {
                let event = ipoib::groups::Event::Joined(mgid, role, Err(JoinError::NotAsked));
                control.groups.handle_event(now, event);
            }
            Self::LeaveGroup(mgid, _) => {
                control.groups.handle_event(now, ipoib::groups::Event::Left(mgid, Left::NotAsked));
            }
            Self::AskRate(gid) => control.link.handle_event(now, link::Event::Rate(gid, None)),
            Self::ListGroups => {
                let event = ipoib::groups::Event::Listed(Err(JoinError::NotAsked));
                control.groups.handle_event(now, event);
            }
            Self::Lookup(to) => control.looked_up(now, to, Err(LookupError::Unanswered)),
        });
    }
}

/// Who asks subnet administration: a link, or the pool for what a link has left.
pub(crate) trait Asker {
    /// The partition of the groups.
    fn pkey(&self) -> PKey;

    /// Asks the SA about a GID. **May block**, for minutes.
    fn put<T>(&self, what: Asked, about: Gid, call: impl FnOnce() -> Result<T, Status>) -> Result<T, Status>;
}

impl Asker for Shared {
    fn pkey(&self) -> PKey {
        self.pkey
    }

    fn put<T>(&self, what: Asked, about: Gid, call: impl FnOnce() -> Result<T, Status>) -> Result<T, Status> {
        self.ask(what, about, call)
    }
}

impl Shared {
    /// Calls that wait for their turn make no sense any more: they are answered here. Leaves are still owed.
    pub(super) fn take_calls_back(&self) {
        while let Some(call) = self.pool.take_back(self.number) {
            call.refuse(self);
        }
    }
}

/// Whether the administrator has answered.
fn end<T>(result: &Result<T, Status>) -> End {
    match result {
        Ok(_) | Err(Status::MCG_RECORDS_NOT_FOUND | Status::PATH_RECORDS_NOT_FOUND) => End::Answered,
        Err(_) => End::Unanswered,
    }
}

fn sa_error(status: Status) -> SaError {
    let raw = status.get() as i32;
    match status {
        Status::MCG_RECORDS_NOT_FOUND => SaError::Refused(raw),
        status if groups::was_not_asked(status) => SaError::NotAsked(raw),
        _ => SaError::Unanswered(raw),
    }
}
