//! What the workers do, and the answers they bring to the machines.

use core::time::Duration;

use ibtf::{
    Hca, JoinState, McgAttributes, McgInfo, McgList, PathInfo, PathRequest, Pd, PortInfo, PortState, Status,
};
use ipoib::groups::{self, JoinError, Joined, Left, Roles};
use ipoib::link::{self, BroadcastGroup, Port, SaError, Ticket};
use ipoib::paths::{LookupError, Resolution};
use ipoib::{Gid, Lid, LinkAddr, Mgid, Mlid, Mtu, QKey, Qpn, Rate};
use kernel::{KArc, log};

use super::Shared;
use super::build;
use super::datapath;
use super::dest::Dest;
use super::group::{self, Group};
use super::jobs::Job;
use super::replacement::replace_sender;
use crate::counters::Asked;
use crate::node::{gid, ibtf_gid};
use crate::now;

/// Does one job. **May block.**
pub(crate) fn run(shared: &KArc<Shared>, job: Job) {
    match job {
        Job::QueryPort(ticket) => query_port(shared, ticket),
        Job::Find(ticket, mgid) => find(shared, ticket, mgid),
        Job::JoinBroadcast(ticket, gid, mgid, group) => {
            join_broadcast(shared, ticket, gid, mgid, group, true)
        }
        Job::LeaveBroadcast { mgid, gid, joins } => {
            stop_hearing_broadcast(shared, mgid);
            let owed = match leave(shared, gid, mgid, Roles::FULL, joins) {
                Left::NotAsked(owed) => owed,
                Left::Confirmed | Left::Unconfirmed => 0,
            };
            let left = link::Event::Left { mgid, gid, owed };
            shared.tell(|control| control.link.handle_event(now(), left));
        }
        Job::Make(ticket, pkey_index) => build::make(shared, ticket, pkey_index),
        Job::Build(ticket, plan, info) => build::build(shared, ticket, &plan, &info),
        Job::AttachBroadcast(ticket, info) => attach_broadcast(shared, ticket, &info),
        Job::End(traffic) => build::end(shared, traffic),
        Job::Inspect(ring, channel, serial) => build::inspect(shared, ring, &channel, serial),
        Job::ReplaceSender(ring, why) => replace_sender(shared, ring, why),
        Job::JoinGroup(mgid, role) => join_group(shared, mgid, role, role == Roles::FULL),
        Job::LeaveGroup(mgid, roles, joins, port) => leave_group(shared, mgid, roles, joins, port),
        Job::AskRate(gid) => ask_rate(shared, gid),
        Job::ListGroups => list_groups(shared),
        Job::MakeDest(to, info, refresh) => make_dest(shared, to, &info, refresh),
        Job::Lookup(to) => lookup(shared, to),
        Job::Tidy => shared.tidy(),
        Job::MakeRoom(addresses) => make_room(shared, addresses),
        Job::LargeBuffers => large_buffers(shared),
    }
}

/// Answers a job that could not be queued, or that nothing can be asked for any more.
pub(crate) fn refuse(shared: &KArc<Shared>, job: Job) {
    let (now, lost) = (now(), SaError::Unanswered(0));
    shared.tell(|control| match job {
        Job::QueryPort(ticket) => control.link.handle_event(now, link::Event::Port(ticket, None)),
        Job::Find(ticket, _) => control.link.handle_event(now, link::Event::Found(ticket, Err(lost))),
        Job::JoinBroadcast(ticket, gid, ..) => {
            control.link.handle_event(now, link::Event::Joined(ticket, gid, Err(lost)));
        }
        Job::LeaveBroadcast { mgid, gid, joins } => {
            control.link.handle_event(now, link::Event::Left { mgid, gid, owed: joins });
        }
        Job::Make(ticket, _) | Job::Build(ticket, ..) | Job::AttachBroadcast(ticket, ..) => {
            control.link.handle_event(now, link::Event::Built(ticket, None));
        }
        Job::JoinGroup(mgid, role) => {
            let event = groups::Event::Joined(mgid, role, Err(JoinError::Unanswered));
            control.groups.handle_event(now, event);
        }
        Job::LeaveGroup(mgid, _, joins, _) => {
            control.groups.handle_event(now, groups::Event::Left(mgid, Left::NotAsked(joins)));
        }
        Job::AskRate(gid) => control.link.handle_event(now, link::Event::Rate(gid, None)),
        Job::ListGroups => {
            control.groups.handle_event(now, groups::Event::Listed(Err(JoinError::Unanswered)));
        }
        Job::MakeDest(to, ..) | Job::Lookup(to) => control.looked_up(now, to, Err(LookupError::Unanswered)),
        Job::MakeRoom(_) => control.room_made(now, false),
        Job::ReplaceSender(..) => control.link.handle_event(now, link::Event::Broken),
        Job::End(_) | Job::Inspect(..) | Job::LargeBuffers | Job::Tidy => {}
    });
}

#[inline(never)]
fn query_port(shared: &KArc<Shared>, ticket: Ticket) {
    let port = shared.hardware().and_then(|(hca, _)| match hca.port(shared.node.port) {
        Ok(info) => {
            let port = read_port(shared, &info);
            if port.is_none() {
                log!(note, shared.name, "the port has no GID, or MTU {} it says", info.mtu_code());
            }
            port
        }
        Err(status) => {
            log!(note, shared.name, "port query failed: {status}");
            None
        }
    });
    shared.tell(|control| control.link.handle_event(now(), link::Event::Port(ticket, port)));
}

/// `None` if the port's answer makes no sense.
fn read_port(shared: &Shared, info: &PortInfo) -> Option<Port> {
    let index = info.pkeys().iter().position(|pkey| *pkey == shared.pkey.get());
    Some(Port {
        active: info.state() == PortState::Active,
        gid: gid(info.gids().next()?),
        lid: info.base_lid(),
        sm_lid: info.sm_lid(),
        pkey_index: index.and_then(|index| u16::try_from(index).ok()),
        mtu: Mtu::from_code(info.mtu_code())?,
        // 8b/10b: what the speed codes of PortInfo can say.
        speed: u64::from(info.width()) * info.lane_speed() * 8 / 10,
        speed_is_least: info.lane_speed_is_least(),
    })
}

#[inline(never)]
fn find(shared: &KArc<Shared>, ticket: Ticket, mgid: Mgid) {
    let attributes = McgAttributes {
        mgid: ibtf_gid(mgid.gid()),
        pkey: shared.pkey.get(),
        scope: mgid.scope().map_or(0, ipoib::Scope::nibble),
        ..Default::default()
    };
    let answer = query(shared, &attributes, 1);
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
}

/// Asks for the groups there are; for all of them if `most` is 0. **May block**, for minutes.
fn query(shared: &Shared, attributes: &McgAttributes, most: u32) -> Result<McgList, Status> {
    let port = shared.port_gid().ok_or(Status::HCA_PORT_NOT_ACTIVE)?;
    let like = gid(attributes.mgid);
    shared.asks(Asked::Query, like);
    let answer = ibtf::query(ibtf_gid(port), attributes, most);
    shared.answered(Asked::Query, like, &answer);
    answer
}

/// Joins without waiting. `exact` asks for MTU and rate too, so that a group created by this has those it had before, or the usual
/// ones. If the SA refuses that, because a group is there with others or the port cannot have these, the group is joined as it
/// is, or created as the SA likes.
#[inline(never)]
fn join_broadcast(
    shared: &KArc<Shared>,
    ticket: Ticket,
    port: Gid,
    mgid: Mgid,
    group: Option<BroadcastGroup>,
    exact: bool,
) {
    let carries = exact.then(|| group.as_ref().map_or_else(|| Carries::usual(shared), Carries::of));
    let attributes = join_attributes(shared, mgid, group.as_ref(), JoinState::Full, carries);
    shared.asks(Asked::Join, mgid.gid());
    let answer = shared.clone();
    let then = move |result: Result<McgInfo, Status>| match result {
        Err(Status::MCG_RECORDS_NOT_FOUND) if exact => {
            join_broadcast(&answer, ticket, port, mgid, group, false)
        }
        result => broadcast_joined(&answer, ticket, port, mgid, result),
    };
    let asked = match shared.hardware() {
        Some((hca, _)) => hca.client().join_then(ibtf_gid(port), &attributes, then),
        None => Err(Status::HCA_INVALID),
    };
    if let Err(status) = asked {
        broadcast_joined(shared, ticket, port, mgid, Err(status));
    }
}

#[inline(never)]
fn broadcast_joined(
    shared: &KArc<Shared>,
    ticket: Ticket,
    port: Gid,
    mgid: Mgid,
    result: Result<McgInfo, Status>,
) {
    shared.answered(Asked::Join, mgid.gid(), &result);
    let joined = result.map_err(sa_error).and_then(|info| match group::broadcast(&info, mgid) {
        Some(group) => Ok((group, info)),
        None => {
            senseless(shared, mgid, Some(info));
            Err(SaError::Unusable(mgid))
        }
    });
    shared.tell(|control| {
        control.link.handle_event(now(), link::Event::Joined(ticket, port, joined));
    });
}

/// What the SA says of a group is of no use.
#[inline(never)]
fn senseless(shared: &Shared, asked: Mgid, record: Option<McgInfo>) {
    let McgInfo { address, mtu_code, .. } = record.unwrap_or_default();
    let (dgid, dlid) = (address.dgid, address.dlid);
    log!(
        warn,
        shared.name,
        "the SA's record of group {asked:?} makes no sense: MGID {dgid}, MLID {dlid:#06x}, MTU code {mtu_code}"
    );
}

/// What goes through a group: named by whoever creates it, and by whoever wants no other.
#[derive(Clone, Copy)]
struct Carries {
    mtu: Mtu,
    rate: Option<Rate>,
}

impl Carries {
    fn of(group: &BroadcastGroup) -> Self {
        Self { mtu: group.mtu, rate: group.rate }
    }

    /// What OpenSM gives the broadcast groups it makes. Who names nothing gets a group of his own port's MTU and rate, which every
    /// slower port is refused.
    fn usual(shared: &Shared) -> Self {
        let port = shared.control.lock().link.port().map(|port| port.mtu);
        Self { mtu: port.map_or(Mtu::B2048, |mtu| mtu.min(Mtu::B2048)), rate: Some(Rate::SDR_4X) }
    }
}

fn join_attributes(
    shared: &Shared,
    mgid: Mgid,
    like: Option<&BroadcastGroup>,
    state: JoinState,
    carries: Option<Carries>,
) -> McgAttributes {
    let common = McgAttributes {
        mtu_code: carries.map(|carries| carries.mtu.code()),
        rate: carries.and_then(|carries| carries.rate).map(|rate| rate.code().into()),
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

fn leave(shared: &Shared, port: Gid, mgid: Mgid, roles: Roles, joins: u32) -> Left {
    let state = [JoinState::Full, JoinState::NonMember, JoinState::SendOnlyNonMember]
        .into_iter()
        .find(|state| roles.bits() & state.bits() != 0)
        .unwrap_or(JoinState::Full);
    let mut end = Left::Confirmed;
    for left in (1..=joins).rev() {
        shared.asks(Asked::Leave, mgid.gid());
        let answer = ibtf::leave(ibtf_gid(port), ibtf_gid(mgid.gid()), state);
        shared.answered(Asked::Leave, mgid.gid(), &answer);
        end = match answer {
            Ok(()) => Left::Confirmed,
            // No active port has the GID: refused before it was counted.
            Err(Status::INVALID_PARAM | Status::HCA_BUSY_DETACHING) => return Left::NotAsked(left),
            Err(_) => Left::Unconfirmed,
        };
    }
    end
}

/// Unless it is the group that the link is in now, by another port GID.
fn stop_hearing_broadcast(shared: &Shared, mgid: Mgid) {
    let (current, _) = shared.broadcast_and_port();
    if current.is_none_or(|group| group.mgid != mgid) {
        shared.stop_hearing(mgid);
    }
}

#[inline(never)]
fn attach_broadcast(shared: &KArc<Shared>, ticket: Ticket, info: &McgInfo) {
    // Which number is told does not matter: the queue pair stays the one it is.
    let qpn = shared.hear(info).is_ok().then_some(Qpn::MULTICAST);
    shared.tell(|control| control.link.handle_event(now(), link::Event::Built(ticket, qpn)));
}

#[inline(never)]
fn join_group(shared: &KArc<Shared>, mgid: Mgid, role: Roles, exact: bool) {
    let state = match role {
        Roles::FULL => JoinState::Full,
        Roles::NON => JoinState::NonMember,
        _ => JoinState::SendOnlyNonMember,
    };
    shared.asks(Asked::Join, mgid.gid());
    let (like, port) = shared.broadcast_and_port();
    let carries = like.as_ref().filter(|_| exact).map(Carries::of);
    let attributes = join_attributes(shared, mgid, like.as_ref(), state, carries);
    let answer = shared.clone();
    let then = move |result: Result<McgInfo, Status>| match result {
        Err(Status::MCG_RECORDS_NOT_FOUND) if exact => join_group(&answer, mgid, role, false),
        result => group_joined(&answer, mgid, role, port, result),
    };
    let asked = match (shared.hardware(), port) {
        (Some((hca, _)), Some(port)) => hca.client().join_then(ibtf_gid(port), &attributes, then),
        _ => Err(Status::HCA_PORT_NOT_ACTIVE),
    };
    if let Err(status) = asked {
        group_joined(shared, mgid, role, port, Err(status));
    }
}

#[inline(never)]
fn group_joined(
    shared: &KArc<Shared>,
    mgid: Mgid,
    role: Roles,
    port: Option<Gid>,
    result: Result<McgInfo, Status>,
) {
    shared.answered(Asked::Join, mgid.gid(), &result);
    let result = match result {
        // An answer about something else: what it says of the membership means nothing.
        Ok(info) if Mgid::new(gid(info.address.dgid)) != Some(mgid) => {
            senseless(shared, mgid, Some(info));
            Err(JoinError::Unanswered)
        }
        Ok(mut info) => {
            let usable = Mlid::new(info.address.dlid).is_some();
            if !usable {
                senseless(shared, mgid, Some(info));
            }
            // The port that has to leave is the one that has joined, whatever the record says.
            info.address.sgid = port.map_or(info.address.sgid, ibtf_gid);
            let attached = usable && (!role.hears() || shared.hear(&info).is_ok());
            Ok(Joined { info: Group::new(info), attached })
        }
        Err(Status::MCG_RECORDS_NOT_FOUND) => Err(JoinError::Refused),
        Err(Status::HCA_PORT_NOT_ACTIVE) => Err(JoinError::LinkDown),
        Err(_) => Err(JoinError::Unanswered),
    };
    shared.tell(|control| control.groups.handle_event(now(), groups::Event::Joined(mgid, role, result)));
}

#[inline(never)]
fn leave_group(shared: &KArc<Shared>, mgid: Mgid, roles: Roles, joins: u32, port: Gid) {
    shared.stop_hearing(mgid);
    let end = leave(shared, port, mgid, roles, joins);
    shared.tell(|control| control.groups.handle_event(now(), groups::Event::Left(mgid, end)));
}

#[inline(never)]
fn list_groups(shared: &KArc<Shared>) {
    let attributes = McgAttributes { pkey: shared.pkey.get(), ..Default::default() };
    let answer = query(shared, &attributes, 0);
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
}

#[inline(never)]
fn make_dest(shared: &KArc<Shared>, to: LinkAddr, info: &McgInfo, refresh: Option<Duration>) {
    let made = match shared.hardware() {
        Some((_, pd)) => Dest::group(&pd, &shared.rates, info),
        None => Err(Status::HCA_INVALID),
    };
    let made = made.inspect_err(|status| no_handle(shared, *status));
    let made = made.inspect(|dest| tell_narrow(shared, dest));
    let result = made.map(|handle| Resolution { handle, refresh }).map_err(|_| LookupError::Unanswered);
    shared.tell(|control| control.looked_up(now(), to, result));
}

/// What waits for it is dropped and counted; this says why.
#[inline(never)]
fn no_handle(shared: &Shared, status: Status) {
    log!(note, shared.name, "no address handle: {status}");
}

/// What the link's MTU allows and the way there does not is dropped; IP is told of the link's MTU only.
#[inline(never)]
fn tell_narrow(shared: &Shared, dest: &Dest) {
    let (group, _) = shared.broadcast_and_port();
    if let (Some(link), Some(way)) = (group.map(|group| group.mtu), dest.mtu())
        && way < link
    {
        let (way, link, to) = (way.bytes(), link.bytes(), dest.address().dgid);
        log!(note, shared.name, "the way to {to} carries {way} bytes, the link {link}");
    }
}

/// Asks for the path to a port, without waiting.
#[inline(never)]
fn lookup(shared: &KArc<Shared>, to: LinkAddr) {
    shared.asks(Asked::Path, to.gid());
    let answer = shared.clone();
    let then = move |result: Result<PathInfo, Status>| path_found(&answer, to, result);
    let asked = match (shared.hardware(), shared.port_gid()) {
        (Some((hca, _)), Some(port)) => {
            let request = PathRequest {
                sgid: ibtf_gid(port),
                dgid: ibtf_gid(to.gid()),
                pkey: Some(shared.pkey.get()),
                ..Default::default()
            };
            hca.client().path_then(&request, then)
        }
        _ => Err(Status::HCA_PORT_NOT_ACTIVE),
    };
    if let Err(status) = asked {
        path_found(shared, to, Err(status));
    }
}

/// Asks how fast the way from the port to itself is, without waiting.
#[inline(never)]
fn ask_rate(shared: &KArc<Shared>, port: Gid) {
    shared.asks(Asked::Path, port);
    let answer = shared.clone();
    let then = move |result: Result<PathInfo, Status>| rate_told(&answer, port, &result);
    let request = PathRequest {
        sgid: ibtf_gid(port),
        dgid: ibtf_gid(port),
        pkey: Some(shared.pkey.get()),
        ..Default::default()
    };
    let asked = match shared.hardware() {
        Some((hca, _)) => hca.client().path_then(&request, then),
        None => Err(Status::HCA_INVALID),
    };
    if let Err(status) = asked {
        rate_told(shared, port, &Err(status));
    }
}

fn rate_told(shared: &Shared, port: Gid, result: &Result<PathInfo, Status>) {
    shared.answered(Asked::Path, port, result);
    let code = result.as_ref().ok().and_then(|path| u8::try_from(path.address.rate).ok());
    let rate = code.and_then(Rate::from_code);
    shared.tell(|control| control.link.handle_event(now(), link::Event::Rate(port, rate)));
}

#[inline(never)]
fn path_found(shared: &KArc<Shared>, to: LinkAddr, result: Result<PathInfo, Status>) {
    shared.answered(Asked::Path, to.gid(), &result);
    let (group, _) = shared.broadcast_and_port();
    let made = result.and_then(|path| match (shared.hardware(), group) {
        _ if Lid::new(path.address.dlid).is_none() => {
            log!(
                warn,
                shared.name,
                "the SA's path to {:?} leads to LID {:#06x}, which no port has",
                to.gid(),
                path.address.dlid
            );
            Err(Status::INVALID_PARAM)
        }
        (Some((_, pd)), Some(group)) => {
            let made = Dest::port(&pd, &shared.rates, to.qpn(), group.qkey, &path);
            made.inspect_err(|status| no_handle(shared, *status))
        }
        _ => Err(Status::HCA_INVALID),
    });
    let made = made.inspect(|dest| tell_narrow(shared, dest));
    let result = match made {
        Ok(handle) => Ok(Resolution { handle, refresh: None }),
        Err(Status::PATH_RECORDS_NOT_FOUND) => Err(LookupError::Absent),
        Err(_) => Err(LookupError::Unanswered),
    };
    shared.tell(|control| control.looked_up(now(), to, result));
}

fn make_room(shared: &Shared, addresses: usize) {
    let made = shared.make_room(addresses);
    if made.is_err() {
        log!(note, shared.name, "no memory to remember {addresses} addresses");
    }
    shared.tell(|control| control.room_made(now(), made.is_ok()));
}

#[inline(never)]
fn large_buffers(shared: &Shared) {
    let settings = *shared.settings.lock();
    for transmitter in shared.transmitters.iter() {
        let epoch = transmitter.epoch();
        if !transmitter.wants_large() {
            continue;
        }
        let pool = match shared.hardware() {
            Some((_, pd)) => datapath::large_pool(&pd, &settings),
            None => Err(Status::HCA_INVALID),
        };
        if let Err(status) = &pool {
            log!(note, shared.name, "no memory for large sends that must be copied: {status}");
        }
        if let Some(unused) = transmitter.bring_large(epoch, pool.ok()) {
            shared.retire_one(unused);
        }
    }
}

fn sa_error(status: Status) -> SaError {
    let raw = status.get() as i32;
    if status == Status::MCG_RECORDS_NOT_FOUND { SaError::Refused(raw) } else { SaError::Unanswered(raw) }
}

/// What a link asks its adapter through.
pub(crate) type Hardware = (Hca, Pd);
