//! What the link's own worker asks the adapter, and the answers it brings to the machines.

use core::time::Duration;

use ibtf::{Hca, McgInfo, Pd, PortInfo, PortState, Status};
use ipoib::link::{self, Port, Ticket};
use ipoib::paths::{LookupError, PathSlot, Resolution};
use ipoib::{LinkAddr, Mtu, Qpn};
use kernel::{KArc, KVec, MayBlock, log};

use super::Shared;
use super::handles::make_handle;
use super::job_queue::Job;
use super::mcg_places::Rank;
use super::neighbour::Neighbour;
use super::qp_jobs;
use super::replace_ring::replace_sender;
use super::sa_calls;
use super::traffic;
use super::trials;
use crate::node::gid;
use crate::now;

/// Does one job. **May block.** Out of line: a debugger stops here.
#[inline(never)]
pub(crate) fn run(shared: &KArc<Shared>, job: Job, may_block: &MayBlock) {
    match job {
        Job::QueryPort(ticket) => query_port(shared, ticket),
        Job::Make(ticket, pkey_index) => qp_jobs::make(shared, ticket, pkey_index, may_block),
        Job::Build(ticket, standing, info) => qp_jobs::build(shared, ticket, &standing, &info, may_block),
        Job::AttachBroadcast(ticket, info) => attach_broadcast(shared, ticket, &info),
        Job::End(up_to) => qp_jobs::end(shared, up_to),
        Job::Inspect(ring, channel, generation) => qp_jobs::inspect(shared, ring, &channel, generation),
        Job::Recover(ring, channel, generation) => qp_jobs::recover(shared, ring, &channel, generation),
        Job::ReplaceSender(ring, why) => replace_sender(shared, ring, why),
        Job::Try(ring) => trials::begin(shared, ring),
        Job::EndTrial(ring) => trials::end_of(shared, ring),
        Job::MakeDest(to, info, refresh) => make_dest(shared, to, &info, refresh),
        Job::FollowPort(to, way, followed) => sa_calls::follow_port(shared, to, way, followed),
        Job::Tidy => shared.tidy(),
        Job::GrowPathTable(addresses) => make_room(shared, addresses),
        Job::LargeBuffers => large_buffers(shared),
        Job::Report(fault) => shared.report(fault),
    }
}

/// Answers a job that could not be queued, or that nothing can be asked for any more.
pub(crate) fn refuse(shared: &KArc<Shared>, job: Job) {
    let now = now();
    // What a job has, a queue pair perhaps, is freed without the lock.
    shared.tell(|control| match &job {
        Job::QueryPort(ticket) => control.link.handle_event(now, link::Event::Port(*ticket, None)),
        Job::Make(ticket, _) | Job::Build(ticket, ..) | Job::AttachBroadcast(ticket, ..) => {
            control.link.handle_event(now, link::Event::Built(*ticket, None));
        }
        Job::MakeDest(to, ..) | Job::FollowPort(to, ..) => {
            control.looked_up(now, *to, Err(LookupError::Unanswered))
        }
        Job::GrowPathTable(_) => control.path_table_grown(now, false),
        Job::Recover(ring, _, generation) => control.sends_again(now, *ring, *generation, false),
        Job::ReplaceSender(..) => control.link_failed(now),
        Job::End(_)
        | Job::EndTrial(_)
        | Job::Inspect(..)
        | Job::LargeBuffers
        | Job::Report(_)
        | Job::Tidy
        | Job::Try(_) => {}
    });
}

#[inline(never)]
fn query_port(shared: &KArc<Shared>, ticket: Ticket) {
    let port = shared.hardware().and_then(|(hca, _)| match hca.port(shared.node.port) {
        Ok(info) => {
            let port = read_port(shared, &info);
            if port.is_none() {
                log!(note, shared.name, "port query makes no sense: no GID, or MTU code {}", info.mtu_code());
            }
            port
        }
        Err(status) => {
            log!(note, shared.name, "port query failed: {status}");
            None
        }
    });
    shared.tell(|control| control.port_answered(now(), ticket, port));
}

/// `None` if the port's answer makes no sense.
fn read_port(shared: &Shared, info: &PortInfo) -> Option<Port> {
    let index = info.pkeys().iter().position(|pkey| *pkey == shared.pkey.get());
    Some(Port {
        active: info.state() == PortState::Active,
        gid: gid(info.gids().next()?),
        lid: info.base_lid(),
        lmc: info.lmc(),
        sm_lid: info.sm_lid(),
        pkey_index: index.and_then(|index| u16::try_from(index).ok()),
        mtu: Mtu::from_code(info.mtu_code())?,
        // 8b/10b: what the speed codes of PortInfo can say.
        speed: u64::from(info.width()) * info.lane_speed() * 8 / 10,
        speed_is_least: info.lane_speed_is_least(),
    })
}

#[inline(never)]
fn attach_broadcast(shared: &KArc<Shared>, ticket: Ticket, info: &McgInfo) {
    // Which number is told does not matter: the queue pair stays the one it is.
    let qpn = shared.attach_group(info, Rank::Broadcast).is_ok().then_some(Qpn::MULTICAST);
    shared.tell(|control| control.link.handle_event(now(), link::Event::Built(ticket, qpn)));
}

#[inline(never)]
fn make_dest(shared: &KArc<Shared>, to: LinkAddr, info: &McgInfo, refresh: Option<Duration>) {
    let made = match shared.hardware() {
        Some((_, pd)) => make_handle(shared, || Neighbour::group(&pd, &shared.rates, info)),
        None => Err(LookupError::Unanswered),
    };
    let made = made.inspect(|to| tell_narrow(shared, to));
    let result = made.map(|handle| Resolution { handle, refresh, followed: None });
    shared.tell(|control| control.looked_up(now(), to, result));
}

/// What the link's MTU allows and the way there does not is dropped; IP is told of the link's MTU only.
#[inline(never)]
pub(super) fn tell_narrow(shared: &Shared, to: &Neighbour) {
    let (group, _) = shared.broadcast_and_port();
    if let (Some(link), Some(way)) = (group.map(|group| group.mtu), to.mtu())
        && way < link
    {
        let (way, link, to) = (way.bytes(), link.bytes(), to.address().dgid);
        log!(note, shared.name, "the path to {to} carries {way} bytes, less than the {link} of the link");
    }
}

/// Nobody waits for it, and others wait for this thread: so it does not wait for memory, and asks again later.
fn make_room(shared: &Shared, addresses: usize) {
    let more = KVec::from_fn(addresses, |_| PathSlot::default());
    if more.is_err() {
        log!(note, shared.name, "no memory to remember {addresses} addresses");
    }
    let made = more.map(|more| shared.remember_in(more)).is_ok();
    shared.tell(|control| control.path_table_grown(now(), made));
}

#[inline(never)]
pub(crate) fn large_buffers(shared: &Shared) {
    let settings = *shared.settings.lock();
    for transmitter in shared.transmitters.iter() {
        let Some(generation) = transmitter.wants_large() else { continue };
        let pool = match shared.hardware() {
            Some((_, pd)) => traffic::large_pool(&pd, &settings),
            None => Err(Status::HCA_INVALID),
        };
        if let Err(status) = &pool {
            log!(note, shared.name, "no memory for large sends that must be copied: {status}");
        }
        if let Some(unused) = transmitter.bring_large(generation, pool.ok()) {
            shared.retire_one(unused);
        }
    }
}

/// What a link asks its adapter through.
pub(crate) type Hardware = (Hca, Pd);
