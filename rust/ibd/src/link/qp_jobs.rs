//! What a worker does with the queue pairs of a link: makes them, has them carry something, ends that, and frees them.

use ibtf::{Attachment, McgInfo, Pd, Status, UdChannel};
use ipoib::Qpn;
use ipoib::link::{Event, Generation, Standing, Ticket};
use kernel::{KArc, MayBlock, log};

use super::Shared;
use super::build_context::BuildContext;
use super::incoming::listen;
use super::mcg_places::Rank;
use super::queue_pairs::{QpKeys, QueuePairHandles, QueuePairs};
use super::traffic::{BuiltTraffic, Pools, Start, end_traffic};
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
pub(crate) fn make(shared: &KArc<Shared>, ticket: Ticket, pkey_index: u16, may_block: &MayBlock) {
    with_parts(shared, ticket, |_, parts| {
        match pairs(shared, parts, ticket, QpKeys::closed(pkey_index)) {
            Ok(Some(mut handles)) => {
                // Before the link has its address, which says so.
                listen(shared, &mut handles, may_block);
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

/// The queue pairs there are, if they are of use in this place, or else new ones; `None` if nobody wants them any more. **May block.**
#[inline(never)]
fn pairs(
    shared: &Shared,
    parts: &BuildContext<'_>,
    ticket: Ticket,
    keys: QpKeys,
) -> Result<Option<QueuePairHandles>, Status> {
    let mut control = shared.control.lock();
    if let Some(pairs) = control.queue_pairs.as_ref().filter(|pairs| pairs.are_of_use_at(keys.pkey_index)) {
        return Ok(Some(pairs.handles()?));
    }
    let generation = control.link.draw();
    drop(control);
    free(shared, generation);
    let made = QueuePairs::new(parts, keys, generation)?;
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
pub(crate) fn build(
    shared: &KArc<Shared>,
    ticket: Ticket,
    standing: &Standing,
    broadcast: &McgInfo,
    may_block: &MayBlock,
) {
    let keys = QpKeys { pkey_index: standing.plan.pkey_index, qkey: standing.plan.qkey };
    with_parts(shared, ticket, |_, parts| match pairs(shared, parts, ticket, keys) {
        Ok(Some(mut handles)) => {
            listen(shared, &mut handles, may_block);
            if handles.abilities().connected {
                shared
                    .transmitters
                    .iter()
                    .for_each(|transmitter| transmitter.remember_connections(may_block));
            }
            build_on(shared, parts, ticket, &handles, standing, broadcast);
        }
        Ok(None) => refuse(shared, ticket),
        Err(status) => {
            tell(shared, status);
            refuse(shared, ticket);
        }
    });
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
    let attachment = match attach_broadcast(shared, handles, broadcast) {
        Ok(attachment) => attachment,
        Err(status) => {
            tell(shared, status);
            return refuse(shared, ticket);
        }
    };
    let mut built = match BuiltTraffic::new(parts, handles, standing, attachment) {
        Ok(built) => built,
        Err(status) => {
            tell(shared, status);
            return refuse(shared, ticket);
        }
    };
    if let Err(status) = built.post_receives(handles, &standing.plan) {
        tell(shared, status);
        // The adapter may have some of the buffers.
        discard(shared, built, Some(handles.generation));
        return refuse(shared, ticket);
    }
    install(shared, ticket, handles, built, standing, broadcast);
}

/// The attachment that the queue pair has already, or one that is made now.
#[inline(never)]
fn attach_broadcast(
    shared: &Shared,
    handles: &QueuePairHandles,
    broadcast: &McgInfo,
) -> Result<Attachment, Status> {
    let held = shared.control.lock().attachments.take(broadcast, handles.generation);
    match held.filter(|(mlid, _)| *mlid == broadcast.address.dlid) {
        Some((_, attachment)) => Ok(attachment),
        None => shared.attach_in_place(handles.first()?, broadcast, Rank::Broadcast),
    }
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
        discard(shared, built, None);
        return refuse(shared, ticket);
    };
    pairs.opened_to(plan.qkey);
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

/// Undoes what nobody wants, and frees the queue pairs of this generation.
#[inline(never)]
fn discard(shared: &Shared, built: BuiltTraffic, generation: Option<Generation>) {
    let pools = built.discard();
    if let Some(generation) = generation {
        free(shared, generation);
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

/// Ends the traffic of generations up to this one, and frees what it went over. **May block.**
#[inline(never)]
pub(crate) fn end(shared: &Shared, up_to: Generation) {
    let receiver = shared.control.lock().queue_pairs.as_ref().map(|pairs| pairs.receiver().clone());
    let pools = end_traffic(&shared.transmitters, receiver.as_ref(), Some(up_to));
    drop(receiver);
    shared.trials.end();
    probes::qp_down(shared.number);
    free(shared, up_to);
    put_away(shared, pools);
}

/// Frees buffers that are home, and remembers others.
#[inline(never)]
fn put_away(shared: &Shared, mut pools: Pools) {
    pools.close();
    shared.retire(pools);
}

/// Frees queue pairs up to this generation, if there are any: the link has no address until it has others, and another one then. Nobody uses them any more. **May block.**
#[inline(never)]
fn free(shared: &Shared, up_to: Generation) {
    let mut control = shared.control.lock();
    let Some(pairs) = control.queue_pairs.take_if(|pairs| pairs.generation() <= up_to) else { return };
    control.link.queue_pairs_are_freed();
    drop(control);
    log!(note, shared.name, "the queue pair is freed; another one gives the link another address");
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

/// Has a queue pair send again after a failed send. If it cannot, it has failed itself. **May block.**
#[inline(never)]
pub(crate) fn recover(shared: &Shared, ring: usize, channel: &UdChannel, generation: Generation) {
    let recovered = channel.recover();
    if recovered.is_ok() {
        log!(note, shared.name, "a send failed; the queue pair sends again, under its number");
    }
    shared.tell(|control| control.sends_again(now(), ring, generation, recovered.is_ok()));
}
