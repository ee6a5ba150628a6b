//! What a worker does with the queue pairs of a link: makes them, has them carry something, ends that, and makes them ready again.

use ibtf::{McgInfo, Pd, Status, UdChannel};
use ipoib::Qpn;
use ipoib::link::{Event, Generation, Plan, Standing, Ticket};
use kernel::{KArc, log};

use super::Shared;
use super::fma::Fault;
use super::incoming::listen;
use super::queue_pairs::{Health, QpKeys, QueuePairHandles, QueuePairs};
use super::traffic::{BuildContext, BuiltTraffic, Pools, Start, end_traffic};
use crate::{now, probes};

/// The answer to a job whose queue pairs nobody wants any more, or cannot be had.
fn refuse(shared: &Shared, ticket: Ticket) {
    shared.tell(|control| control.link.handle_event(now(), Event::Built(ticket, None)));
}

#[inline(never)]
fn tell(shared: &Shared, status: Status) {
    log!(note, shared.name, "cannot make the queue pair or its buffers: {status}");
}

/// Does something with the adapter; answers the job if it is gone.
fn with_parts(shared: &Shared, ticket: Ticket, work: impl FnOnce(&Pd, &BuildContext<'_>)) {
    let (Some((_, pd)), Some(interrupts)) = (shared.hardware(), shared.interrupts()) else {
        return refuse(shared, ticket);
    };
    let settings = *shared.settings.lock();
    work(&pd, &shared.parts(&pd, &interrupts, &settings));
}

/// Makes the queue pairs, closed: the link has its number then. **May block.**
#[inline(never)]
pub(crate) fn make(shared: &KArc<Shared>, ticket: Ticket, pkey_index: u16) {
    with_parts(shared, ticket, |_, parts| {
        match pairs(shared, parts, ticket, |generation| QpKeys::closed(pkey_index, generation)) {
            Ok(Some(mut handles)) => {
                // Before the link has its address, which says so.
                listen(shared, &mut handles);
                let qpn = handles.first().map(|channel| Qpn::from_low_bits(channel.qpn())).ok();
                shared.tell(|control| control.link.handle_event(now(), Event::Built(ticket, qpn)));
            }
            Ok(None) => refuse(shared, ticket),
            Err(status) => {
                tell(shared, status);
                refuse(shared, ticket);
            }
        }
    });
}

/// The queue pairs there are, or else new ones in this place; `None` if nobody wants them any more. **May block.**
#[inline(never)]
fn pairs(
    shared: &Shared,
    parts: &BuildContext<'_>,
    ticket: Ticket,
    keys: impl FnOnce(Generation) -> QpKeys,
) -> Result<Option<QueuePairHandles>, Status> {
    let mut control = shared.control.lock();
    let known =
        control.queue_pairs.as_ref().map(|pairs| (pairs.health(), pairs.generation(), pairs.handles()));
    let generation = control.link.draw();
    drop(control);
    match known {
        Some((Health::Spent, spent, handles)) => {
            drop(handles);
            give_up(shared, spent, Status::CHAN_STATE_INVALID);
        }
        Some((.., handles)) => return Ok(Some(handles?)),
        None => {}
    }
    let made = QueuePairs::new(parts, keys(generation), generation)?;
    shared.counters.history.made.increment();
    let handles = made.handles()?;
    let mut control = shared.control.lock();
    if control.link.is_wanted(ticket) {
        control.queue_pairs = Some(made);
        drop(control);
        shared.moderate_again(parts.settings);
        return Ok(Some(handles));
    }
    drop(control);
    // Freed here.
    drop((made, handles));
    Ok(None)
}

/// Has the queue pairs carry what the plan says. **May block.**
#[inline(never)]
pub(crate) fn build(shared: &KArc<Shared>, ticket: Ticket, standing: &Standing, broadcast: &McgInfo) {
    with_parts(shared, ticket, |_, parts| match handles_for(shared, parts, ticket, &standing.plan) {
        Ok(Some(mut handles)) => {
            listen(shared, &mut handles);
            build_on(shared, parts, ticket, &handles, standing, broadcast);
        }
        Ok(None) => refuse(shared, ticket),
        Err(status) => {
            tell(shared, status);
            refuse(shared, ticket);
        }
    });
}

/// Queue pairs where the plan wants them.
fn handles_for(
    shared: &Shared,
    parts: &BuildContext<'_>,
    ticket: Ticket,
    plan: &Plan,
) -> Result<Option<QueuePairHandles>, Status> {
    let keys = QpKeys { pkey_index: plan.pkey_index, qkey: plan.qkey };
    match pairs(shared, parts, ticket, |_| keys)? {
        Some(handles) if handles.health == Health::Stale || handles.keys.pkey_index != plan.pkey_index => {
            drop(handles);
            make_ready(shared, parts, Some(plan.pkey_index));
            match pairs(shared, parts, ticket, |_| keys)? {
                Some(handles) if handles.health == Health::Stale => Err(Status::INSUFF_KERNEL_RESOURCE),
                handles => Ok(handles),
            }
        }
        handles => Ok(handles),
    }
}

#[inline(never)]
fn build_on(
    shared: &Shared,
    parts: &BuildContext<'_>,
    ticket: Ticket,
    handles: &QueuePairHandles,
    standing: &Standing,
    broadcast: &McgInfo,
) {
    let held = shared.control.lock().attachments.take(broadcast, handles.generation);
    let held = held.filter(|(mlid, _)| *mlid == broadcast.address.dlid).map(|(_, attachment)| attachment);
    let mut built = match BuiltTraffic::new(parts, handles, standing, broadcast, held) {
        Ok(built) => built,
        Err(status) => {
            tell(shared, status);
            return refuse(shared, ticket);
        }
    };
    if let Err(status) = built.post_receives(handles, &standing.plan) {
        tell(shared, status);
        let mut control = shared.control.lock();
        let pairs = control.queue_pairs.as_mut().filter(|_| status != Status::INSUFF_KERNEL_RESOURCE);
        if let Some(pairs) = pairs {
            pairs.failed(now());
        }
        drop(control);
        discard(shared, Some(parts), built);
        return refuse(shared, ticket);
    }
    install(shared, ticket, handles, built, standing, broadcast);
}

#[inline(never)]
fn install(
    shared: &Shared,
    ticket: Ticket,
    handles: &QueuePairHandles,
    built: BuiltTraffic,
    Standing { generation, plan }: &Standing,
    broadcast: &McgInfo,
) {
    let qpn = built.qpn();
    let mut control = shared.control.lock();
    let wanted = control.link.is_wanted(ticket);
    let pairs =
        control.queue_pairs.as_mut().filter(|pairs| wanted && pairs.generation() == handles.generation);
    let Some(pairs) = pairs else {
        drop(control);
        // Stopped: whoever did that has freed them, or it is done with the handles.
        discard(shared, None, built);
        return refuse(shared, ticket);
    };
    pairs.moved(QpKeys { pkey_index: plan.pkey_index, qkey: plan.qkey });
    control.tell_incoming(|incoming| incoming.run_in(plan.pkey_index, now()));
    let (attachment, start) = built.split();
    let adopted = control.attachments.adopt(broadcast, handles.generation, attachment);
    control.rings.all_stand(*generation);
    // In one step with its place: what breaks before the machine knows of it would never be ended.
    control.link.handle_event(now(), Event::Built(ticket, Some(qpn)));
    if adopted.is_err() {
        control.link.handle_event(now(), Event::Broken(*generation));
    }
    drop(control);
    tell_address(shared);
    drop(adopted);
    open(shared, start);
    shared.counters.history.started.increment();
    probes::qp_up(shared.number, qpn.get());
    shared.control.notify_all();
    // The groups that others were attached to. Each that fails is told of.
    let _ = shared.update_attachments(None);
}

/// Undoes what nobody wants, and makes the queue pairs ready again if they are to be used.
#[inline(never)]
fn discard(shared: &Shared, parts: Option<&BuildContext<'_>>, built: BuiltTraffic) {
    let pools = built.discard();
    if let Some(parts) = parts {
        make_ready(shared, parts, None);
    }
    put_away(shared, pools);
}

/// Whoever receives on connections learns the link's address. He asks the machines with his lock held: not with theirs.
#[inline(never)]
fn tell_address(shared: &Shared) {
    let control = shared.control.lock();
    let receiver = control
        .incoming
        .as_ref()
        .and_then(|incoming| incoming.shared_receive())
        .map(|shared_receive| shared_receive.receiver().clone());
    let own = control.link.address();
    drop(control);
    if let Some((receiver, own)) = receiver.zip(own) {
        receiver.set_own(own);
    }
}

#[inline(never)]
fn open(shared: &Shared, start: Start) {
    shared.retire(start.open(&shared.transmitters));
}

/// Ends the traffic of generations up to this one, and makes the queue pairs ready for the next, or frees them. **May block.**
#[inline(never)]
pub(crate) fn end(shared: &Shared, up_to: Generation) {
    let receiver = shared.control.lock().queue_pairs.as_ref().map(|pairs| pairs.receiver().clone());
    let pools = end_traffic(&shared.transmitters, receiver.as_ref(), Some(up_to));
    drop(receiver);
    probes::qp_down(shared.number);
    if let (Some((_, pd)), Some(interrupts)) = (shared.hardware(), shared.interrupts()) {
        let settings = *shared.settings.lock();
        make_ready(shared, &shared.parts(&pd, &interrupts, &settings), None);
    }
    put_away(shared, pools);
}

/// Frees buffers that are home, and remembers others.
#[inline(never)]
fn put_away(shared: &Shared, mut pools: Pools) {
    pools.close();
    shared.retire(pools);
}

/// Has the adapter forget what the queue pairs have, and closes them; frees those that this does not help. They are then at the place of
/// the P_Key table that is `wanted`, or where the port was last seen to have the P_Key: a plan may be older than that. **May block.**
#[inline(never)]
fn make_ready(shared: &Shared, parts: &BuildContext<'_>, wanted: Option<u16>) {
    let control = shared.control.lock();
    let Some(pairs) = &control.queue_pairs else { return };
    let (generation, health, handles) = (pairs.generation(), pairs.health(), pairs.handles());
    let index = wanted.or_else(|| control.link.port()?.pkey_index);
    drop(control);
    let ready = match handles {
        Ok(handles) if health != Health::Spent => {
            let keys = QpKeys::closed(index.unwrap_or(handles.keys.pkey_index), generation);
            handles.make_ready(parts, keys).map(|missing| (keys, missing))
        }
        Ok(_) => Err(Status::CHAN_STATE_INVALID),
        Err(error) => Err(error.into()),
    };
    let (keys, mut missing) = match ready {
        Ok(ready) => ready,
        Err(Status::INSUFF_KERNEL_RESOURCE) => return ready_later(shared, generation),
        Err(status) => return give_up(shared, generation, status),
    };
    let (mut left, some_were_missing) = (None, !missing.is_empty());
    let mut control = shared.control.lock();
    if let Some(pairs) = control.queue_pairs.as_mut().filter(|pairs| pairs.generation() == generation) {
        pairs.readied(keys);
        while let Some((ring, channel)) = missing.pop() {
            left = pairs.put_sender(ring, channel);
        }
    }
    drop(control);
    if some_were_missing {
        shared.moderate_again(parts.settings);
    }
    // Freed here, if others have taken them down.
    drop((left, missing));
}

/// There was no memory to make queue pairs ready again. That says nothing against them: it is tried again before they carry anything.
fn ready_later(shared: &Shared, generation: Generation) {
    let mut control = shared.control.lock();
    if let Some(pairs) = control.queue_pairs.as_mut().filter(|pairs| pairs.generation() == generation) {
        pairs.failed_idle();
    }
}

/// Frees queue pairs that are of no use: the link has another number afterwards.
#[inline(never)]
fn give_up(shared: &Shared, generation: Generation, why: Status) {
    log!(note, shared.name, "making another queue pair, which changes the address of the link: {why}");
    shared.report(Fault::Broken);
    let mut control = shared.control.lock();
    let pairs = control.queue_pairs.take_if(|pairs| pairs.generation() == generation);
    if pairs.is_some() {
        control.link.take_connections(false);
    }
    drop(control);
    // Nothing is attached by this.
    let _ = shared.update_attachments(None);
    drop(pairs);
    shared.control.lock().failures.forget();
}

/// Looks whether a queue pair has failed, as IBTF says: what it told may be about a failure that was dealt with. **May block.**
#[inline(never)]
pub(crate) fn inspect(shared: &Shared, ring: usize, channel: &UdChannel, generation: Generation) {
    if channel.has_failed().unwrap_or(true) {
        shared.tell(|control| control.channel_has_failed(now(), ring, channel, generation));
    }
}
