//! Joins.

use ibtf::{JoinState, McgAttributes, McgInfo, Status, Wanted};
use ipoib::groups::{self, JoinError, Joined, Roles};
use ipoib::link::{self, BroadcastGroup, SaError, Ticket};
use ipoib::window::End;
use ipoib::{Gid, Mgid, Mlid, Mtu, QKey, Rate};
use kernel::{KArc, log};

use super::groups::{join_state, listed, was_not_asked};
use super::{end, sa_error};
use crate::counters::Asked;
use crate::link::Shared;
use crate::link::mcg_places::{Rank, has_no_place};
use crate::link::mcg_record::{self, McgRecord};
use crate::node::{gid, ibtf_gid};
use crate::now;
use crate::sa_pool::Turn;

/// A join, but for what goes through the group.
struct Join<'a> {
    port: Gid,
    mgid: Mgid,
    like: Option<&'a BroadcastGroup>,
    state: JoinState,
}

impl Join<'_> {
    /// Asks for a group with what `carries` names exactly, so that one created by this has that. If the SA refuses, because the group
    /// is there with others, those are named; if it is not there, at most the same, because the port, or its way to the switch,
    /// may carry less. To name nothing would not do even for a group that is there: its last member may have left meanwhile, the SA
    /// would make one as fast as this port, and every slower port would be refused for good. A new SA refuses for a while whatever it
    /// is asked, and is asked again later.
    fn ask(&self, shared: &Shared, turn: &Turn<'_>, carries: Option<Carries>) -> Result<McgInfo, Status> {
        let Some(carries) = carries else { return self.ask_once(shared, Named::Nothing) };
        let answer = self.ask_once(shared, Named::Exactly(carries));
        if !is_refused(&answer) {
            return answer;
        }
        turn.again();
        match self.listed(shared) {
            Ok(group) => self.ask_as_listed(shared, turn, &group),
            Err(Status::MCG_RECORDS_NOT_FOUND) => {
                turn.again();
                self.ask_once(shared, Named::AtMost(carries))
            }
            Err(_) => answer,
        }
    }

    /// Names what the SA has listed. If it refuses even that, and lists the group still, it is asked for the group whatever it carries.
    fn ask_as_listed(&self, shared: &Shared, turn: &Turn<'_>, group: &McgInfo) -> Result<McgInfo, Status> {
        let mut answer = Err(Status::MCG_RECORDS_NOT_FOUND);
        if let Some(carries) = Carries::of_record(group) {
            turn.again();
            answer = self.ask_once(shared, Named::Exactly(carries));
        }
        if !is_refused(&answer) {
            return answer;
        }
        turn.again();
        if self.listed(shared).is_err() {
            return answer;
        }
        turn.again();
        self.ask_once(shared, Named::Nothing)
    }

    fn listed(&self, shared: &Shared) -> Result<McgInfo, Status> {
        listed(shared, self.port, self.mgid)
    }

    fn ask_once(&self, shared: &Shared, named: Named) -> Result<McgInfo, Status> {
        let Self { port, mgid, like, state, .. } = *self;
        if self.is_outdated(shared) {
            return Err(NOT_ASKED);
        }
        shared.ask(Asked::Join, mgid.gid(), || {
            // No clone of the adapter is kept: whoever removes it does not wait for the SA.
            let present = shared.hardware().is_some();
            let join = || ibtf::join(ibtf_gid(port), &join_attributes(shared, mgid, like, state, named));
            if present { join() } else { Err(NOT_ASKED) }
        })
    }

    /// Whether the broadcast group that a join of another group follows is in doubt, or another one. A group that is made like it could keep
    /// ports out that the new one lets in.
    fn is_outdated(&self, shared: &Shared) -> bool {
        !self.mgid.is_broadcast() && shared.certain_broadcast().as_ref() != self.like
    }

    /// Whether the SA has the group, and not with what this would name.
    fn group_is_unlike(&self, shared: &Shared, turn: &Turn<'_>, like: &BroadcastGroup) -> bool {
        if self.is_outdated(shared) {
            return false;
        }
        let listed = self.listed(shared);
        turn.again();
        listed.is_ok_and(|group| {
            let McgInfo { qkey, address, .. } = group;
            let carried = Carries::of_record(&group).map(|Carries { mtu, rate, .. }| (mtu, rate));
            let named = (QKey::new(qkey), address.sl, address.tclass, address.flow);
            carried != Some((like.mtu, like.rate))
                || named != (like.qkey, like.sl, like.tclass, like.flow_label)
        })
    }
}

/// As if IBTF had found nothing to ask by.
const NOT_ASKED: Status = Status::HCA_INVALID;

fn is_refused(answer: &Result<McgInfo, Status>) -> bool {
    matches!(answer, Err(Status::MCG_RECORDS_NOT_FOUND))
}

#[inline(never)]
pub(super) fn join_broadcast(
    shared: &KArc<Shared>,
    turn: &Turn<'_>,
    ticket: Ticket,
    port: Gid,
    mgid: Mgid,
    group: Option<BroadcastGroup>,
) -> End {
    // Those that the group had before, or the usual ones.
    let carries = group.as_ref().map_or(Carries::USUAL, Carries::of);
    let join = Join { port, mgid, like: group.as_ref(), state: JoinState::Full };
    let joined = join.ask(shared, turn, Some(carries));
    let end = end(&joined);
    broadcast_joined(shared, ticket, port, mgid, joined);
    end
}

#[inline(never)]
fn broadcast_joined(
    shared: &KArc<Shared>,
    ticket: Ticket,
    port: Gid,
    mgid: Mgid,
    result: Result<McgInfo, Status>,
) {
    let joined = result.map_err(sa_error).and_then(|info| match mcg_record::broadcast(&info, mgid) {
        Some(group) => {
            shared.pool.paid(&shared.node, mgid, port, Roles::FULL);
            Ok((group, info))
        }
        None => {
            let counts_another = forget_another(port, mgid.gid(), &info, JoinState::Full);
            senseless(shared, mgid, Some(info));
            Err(if counts_another { SaError::Unanswered(0) } else { SaError::Unusable })
        }
    });
    shared.tell(|control| {
        control.link.handle_event(now(), link::Event::Joined(ticket, port, mgid, joined));
    });
}

/// IBTF counts a join for the group of the answer, whatever was asked: a group that was not asked for is never left.
/// Whether it was for another one.
pub(super) fn forget_another(port: Gid, asked: Gid, answer: &McgInfo, state: JoinState) -> bool {
    let other = gid(answer.address.dgid);
    let is_another = other != asked;
    if is_another {
        ibtf::forget_join(ibtf_gid(port), ibtf_gid(other), state);
    }
    is_another
}

/// What the SA says of a group is of no use.
#[inline(never)]
pub(super) fn senseless(shared: &Shared, asked: Mgid, record: Option<McgInfo>) {
    let McgInfo { address, mtu_code, .. } = record.unwrap_or_default();
    let (dgid, dlid) = (address.dgid, address.dlid);
    log!(
        warn,
        shared.name,
        "the SA's record of group {asked:?} makes no sense: MGID {dgid}, MLID {dlid:#06x}, MTU code {mtu_code}"
    );
}

/// What goes through a group: named by whoever creates it, and by whoever wants no other.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Carries {
    mtu: Mtu,
    rate: Option<Rate>,
    /// 0 names none. A group that has another one than the broadcast group cannot be joined by hosts that name the latter.
    hop_limit: u8,
}

impl Carries {
    fn of(group: &BroadcastGroup) -> Self {
        Self { mtu: group.mtu, rate: group.rate, hop_limit: group.hop_limit }
    }

    /// `None` of a record that names no MTU there is.
    fn of_record(group: &McgInfo) -> Option<Self> {
        let rate = u8::try_from(group.address.rate).ok().and_then(Rate::from_code);
        let hop_limit = group.address.hop_limit;
        Some(Self { mtu: Mtu::from_code(group.mtu_code)?, rate, hop_limit })
    }

    /// What OpenSM gives the broadcast groups it makes.
    const USUAL: Self = Self { mtu: Mtu::B2048, rate: Some(Rate::SDR_4X), hop_limit: 0 };
}

/// What a join says of that.
#[derive(Clone, Copy)]
enum Named {
    Nothing,
    Exactly(Carries),
    AtMost(Carries),
}

impl Named {
    fn mtu(self) -> Option<Wanted<u8>> {
        match self {
            Self::Nothing => None,
            Self::Exactly(Carries { mtu, .. }) => Some(Wanted::Exactly(mtu.code())),
            Self::AtMost(Carries { mtu, .. }) => Some(Wanted::LessThan(mtu.next_larger()?.code())),
        }
    }

    fn hop_limit(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Exactly(carries) | Self::AtMost(carries) => carries.hop_limit,
        }
    }

    fn rate(self) -> Option<Wanted<u32>> {
        match self {
            Self::Nothing => None,
            Self::Exactly(Carries { rate, .. }) => Some(Wanted::Exactly(rate?.code().into())),
            Self::AtMost(Carries { rate, .. }) => Some(Wanted::LessThan(rate?.next_faster()?.code().into())),
        }
    }
}

fn join_attributes(
    shared: &Shared,
    mgid: Mgid,
    like: Option<&BroadcastGroup>,
    state: JoinState,
    named: Named,
) -> McgAttributes {
    let common = McgAttributes {
        mtu: named.mtu(),
        rate: named.rate(),
        hop_limit: named.hop_limit(),
        mgid: ibtf_gid(mgid.gid()),
        pkey: shared.pkey.get(),
        scope: mgid.scope().map_or(0, ipoib::Scope::nibble),
        join_state: Some(state),
        qkey: QKey::IPOIB_DEFAULT.get(),
        ..Default::default()
    };
    let Some(like) = like else { return common };
    McgAttributes { qkey: like.qkey.get(), sl: like.sl, flow: like.flow_label, tclass: like.tclass, ..common }
}

#[inline(never)]
pub(super) fn join_group(
    shared: &KArc<Shared>,
    turn: &Turn<'_>,
    mgid: Mgid,
    role: Roles,
    outdated: bool,
) -> End {
    let state = join_state(role);
    // A link that has lost its broadcast group meanwhile knows no Q_Key, and no MTU and rate for a group that this would make.
    let (like, port) = shared.broadcast_and_port();
    let (end, joined) = match (&like, port) {
        (Some(like), Some(port)) => {
            let join = Join { port, mgid, like: Some(like), state };
            if outdated && role == Roles::FULL && join.group_is_unlike(shared, turn, like) {
                (End::Answered, Err(JoinError::Unlike))
            } else {
                let joined = join.ask(shared, turn, (role == Roles::FULL).then(|| Carries::of(like)));
                let outdated = joined.is_err() && join.is_outdated(shared);
                (end(&joined), joined.map_err(|status| join_error(status, outdated)))
            }
        }
        _ => (End::Unanswered, Err(JoinError::LinkDown)),
    };
    group_joined(shared, mgid, role, port, joined);
    end
}

/// What was refused or not asked says nothing of a group if what was named is `outdated`.
fn join_error(status: Status, outdated: bool) -> JoinError {
    match status {
        Status::HCA_PORT_NOT_ACTIVE => JoinError::LinkDown,
        Status::MCG_RECORDS_NOT_FOUND if outdated => JoinError::Outdated,
        Status::MCG_RECORDS_NOT_FOUND => JoinError::Refused,
        status if was_not_asked(status) && outdated => JoinError::Outdated,
        status if was_not_asked(status) => JoinError::NotAsked,
        _ => JoinError::Unanswered,
    }
}

#[inline(never)]
fn group_joined(
    shared: &KArc<Shared>,
    mgid: Mgid,
    role: Roles,
    port: Option<Gid>,
    result: Result<McgInfo, JoinError>,
) {
    let mut has_place = true;
    let result = match result {
        // An answer about something else: what it says of the membership means nothing.
        Ok(info) if Mgid::new(gid(info.address.dgid)) != Some(mgid) => {
            let _ = port.is_some_and(|port| forget_another(port, mgid.gid(), &info, join_state(role)));
            senseless(shared, mgid, Some(info));
            Err(JoinError::Unanswered)
        }
        Ok(mut info) => {
            if let Some(port) = port {
                shared.pool.paid(&shared.node, mgid, port, role);
            }
            let usable = Mlid::new(info.address.dlid).is_some();
            if !usable {
                senseless(shared, mgid, Some(info));
            }
            // The port that has to leave is the one that has joined, whatever the record says.
            info.address.sgid = port.map_or(info.address.sgid, ibtf_gid);
            let attached =
                if usable && role.hears() { shared.attach_group(&info, Rank::of(role)) } else { Ok(()) };
            has_place = !attached.is_err_and(has_no_place);
            let attached = usable && attached.is_ok();
            Ok(Joined { info: McgRecord::new(info), attached })
        }
        Err(error) => Err(error),
    };
    shared.tell(|control| {
        control.groups.handle_event(now(), groups::Event::Joined(mgid, role, result));
        if !has_place && role == Roles::NON {
            control.groups.handle_event(now(), groups::Event::Displaced(mgid));
        }
    });
}
