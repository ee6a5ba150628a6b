//! The threads that do for connections what the adapter and the communication manager have to be waited for. Closing waits for one of
//! `ibcm`'s twelve places, which the whole computer shares and each of which is taken until the other side answers, or as long as it has said
//! that an answer takes. Nothing else may wait behind that.

use ibtf::{Cq, Hca, Pd, RcChannel, Reply, Session, Srq, Status};
use ipoib::connections::{Connection, LONGEST_MESSAGE, PrivateData};
use kernel::list::{List, Room};
use kernel::thread::{Parker, Worker};
use kernel::{KArc, MayBlock, log};

use super::receive::{ConnectedReceiver, Taken};
use super::shared_receive::{self, SharedReceive};
use super::slabs::Slab;
use super::{Close, IncomingConnections, Step};
use crate::kept::{self, KeptAdapters, Parked, Resting};
use crate::link::Shared;
use crate::link::control::Control;
use crate::link::outgoing::{self, SendPools};
use crate::{kernel_instant, now, probes};

/// How often a neighbour repeats a message that found no buffer: six times, with 20 ms in between.
const RECEIVER_RETRIES: u8 = 6;

/// In the order in which they end.
pub(super) struct Threads {
    _accepts: Worker<Control>,
    _closes: Worker<Control>,
}

/// **May block.**
pub(super) fn spawn(shared: &KArc<Shared>, may_block: &MayBlock) -> Threads {
    let (body, other) = (shared.clone(), shared.clone());
    let control = || shared.control.clone();
    let accepts = move |parker: &Parker<'_, Control>| live(parker, &body);
    let closes = move |parker: &Parker<'_, Control>| live_closing(parker, &other);
    Threads {
        _accepts: Worker::spawn(c"ibd_incoming", control(), may_block, accepts),
        _closes: Worker::spawn(c"ibd_leave", control(), may_block, closes),
    }
}

fn live_closing(parker: &Parker<'_, Control>, shared: &Shared) {
    let mut control = parker.lock();
    while !parker.should_stop() {
        let incoming = control.incoming.as_mut();
        let next = incoming.and_then(|incoming| incoming.next_close(now()));
        match next {
            Some(next) => {
                drop(control);
                close_next(shared, next);
                control = parker.lock();
            }
            None => {
                let next = control.incoming.as_ref().and_then(|incoming| incoming.close_deadline());
                parker.wait_until(&mut control, next.map(kernel_instant));
            }
        }
    }
}

/// With no lock held.
fn close_next(shared: &Shared, next: Close) {
    match next {
        Close::Incoming(connection, channel) => close(shared, connection, channel),
        Close::TakeBack(connection, channel) => take_back(shared, connection, channel),
        Close::Outgoing(connection, channel, sender) => {
            outgoing::close(shared, connection, channel, sender);
            with_incoming(shared, |incoming| {
                incoming.wait_for_numbers(now());
                Some(())
            });
        }
    }
}

/// With no lock held. **May block**, for as long as others that are being closed take.
fn close(shared: &Shared, connection: Connection, channel: RcChannel) {
    let succeeded = channel.close().is_ok();
    let left = with_incoming(shared, |incoming| incoming.closed(connection, channel, succeeded, now()));
    drop(left);
    shared.control.notify_all();
}

/// With no lock held.
fn take_back(shared: &Shared, connection: Connection, channel: RcChannel) {
    let asked = channel.take_back().is_ok();
    let left = with_incoming(shared, |incoming| incoming.takes_back(connection, channel, asked, now()));
    drop(left);
}

fn live(parker: &Parker<'_, Control>, shared: &KArc<Shared>) {
    let mut control = parker.lock();
    while !parker.should_stop() {
        let time = now();
        let incoming = control.incoming.as_mut();
        let step = incoming.and_then(|incoming| incoming.next_step(time));
        let mut news = false;
        control.tell_outgoing(|outgoing| news = outgoing.take_news());
        if news {
            shared.control.notify_all();
        }
        match step {
            Some(step) => {
                drop(control);
                take(shared, step, parker.may_block());
                control = parker.lock();
            }
            None => {
                let next = control.incoming.as_ref().and_then(|incoming| incoming.next_deadline());
                parker.wait_until(&mut control, next.map(kernel_instant));
            }
        }
    }
}

/// With no lock held.
fn take(shared: &KArc<Shared>, step: Step, may_block: &MayBlock) {
    match step {
        Step::Accept(connection, session) => accept(shared, connection, session, may_block),
        Step::Refuse(connection, session) => refuse(shared, connection, session, Reply::Refused),
        Step::Look(connection, channel, is_new) => look(shared, connection, channel, is_new),
        Step::Free(connection, channel, receiver, taken) => {
            free(shared, connection, channel, receiver, taken)
        }
        Step::End(shared_receive) => shared.end_shared_receive(shared_receive),
        Step::Dissolve(shared_receive) => dissolve(shared, shared_receive),
        Step::Grow(receiver, srq) => grow(shared, &receiver, &srq),
        Step::Shrink(receiver) => shrink(shared, &receiver),
        Step::LetGo(hca, number, resting) => {
            // Memory that is registered with it.
            shared.tidy();
            let left = let_go(shared, hca, number, resting);
            with_incoming(shared, |incoming| {
                incoming.let_go(left, now());
                Some(())
            });
        }
        Step::Outgoing(outgoing::Step::Open(connection, service)) => {
            outgoing::open(shared, connection, service, may_block)
        }
        Step::Outgoing(outgoing::Step::FreeFailed(connection, channel, sender, error)) => {
            outgoing::free_failed(shared, connection, channel, sender, error);
        }
        Step::Outgoing(outgoing::Step::Silence(sender)) => outgoing::end(shared, &sender),
        Step::Outgoing(outgoing::Step::End(send_pools)) => SendPools::end(send_pools, shared),
    }
}

/// Closes the adapter, or parks it with what rests on it. What cannot be closed yet.
#[inline(never)]
fn let_go(shared: &Shared, hca: Hca, number: u32, resting: List<Resting>) -> Option<Hca> {
    // What was left to it keeps it open.
    let rests = resting.iter().next().is_some() || hca.is_left();
    let parked = if rests {
        Some(Parked { resting, hca })
    } else {
        match hca.close() {
            Ok(()) => None,
            Err(hca) => return Some(hca),
        }
    };
    shared.kept.give_back(number, parked);
    None
}

/// Frees what connections have shared. What the adapter does not free rests, unless it has failed.
#[inline(never)]
fn dissolve(shared: &Shared, shared_receive: SharedReceive) {
    let (resting, failed, room) = shared_receive.dissolve();
    let Some(Resting { srq, mut slabs }) = resting else { return };
    match srq.free(slabs.queues()) {
        Ok(()) => shared.retire_all(slabs.into_pools()),
        Err((srq, _)) if failed => shared.retire_all(kept::leave(srq, slabs)),
        Err((srq, status)) => {
            shared.kept.tell(&shared.name, status);
            let mut resting = Some(Resting { srq, slabs });
            with_incoming(shared, |incoming| {
                incoming.rest(room, resting.take()?);
                Some(())
            });
        }
    }
}

#[inline(never)]
fn grow(shared: &Shared, receiver: &ConnectedReceiver, srq: &Srq) {
    let slab = if is_away(shared) { None } else { Slab::another(srq).ok() };
    let well = slab.is_some();
    if let Some(unwanted) = receiver.grow(slab) {
        shared.retire_one(unwanted.into_inner().into_pool());
    }
    with_incoming(shared, |incoming| {
        incoming.grown(well, now());
        Some(())
    });
}

/// Whether IP still has messages in buffers that the link has given up. Neither are there more of them then, nor is anything lent of new ones: the
/// memory that readers can keep is bounded.
fn is_away(shared: &Shared) -> bool {
    shared.tidy();
    shared.retired.lock().has_slabs()
}

#[inline(never)]
fn shrink(shared: &Shared, receiver: &ConnectedReceiver) {
    let (empty, again) = receiver.shrink();
    if let Some(empty) = empty {
        shared.retire_one(empty.into_inner().into_pool());
    }
    with_incoming(shared, |incoming| {
        incoming.looked_at_receives(again, now());
        Some(())
    });
}

/// Sees how far a neighbour has sent on a connection.
fn look(shared: &Shared, connection: Connection, channel: RcChannel, is_new: bool) {
    if is_new {
        // Without success the neighbour waits longer.
        let _ = channel.shorten_receiver_pause();
    }
    let seen = channel.query().ok();
    // Whoever frees it needs the only one.
    drop(channel);
    with_incoming(shared, |incoming| {
        incoming.looked(connection, seen, now());
        Some(())
    });
    // It may be to be closed.
    shared.control.notify_all();
}

/// Frees the channel of a connection that is over, once everything that has come on it is taken.
fn free(
    shared: &Shared,
    connection: Connection,
    channel: RcChannel,
    receiver: Option<KArc<ConnectedReceiver>>,
    taken: Option<Taken>,
) {
    let later = |channel, taken| {
        let left = with_incoming(shared, |incoming| incoming.free_later(connection, channel, taken, now()));
        drop(left);
    };
    if let Some(Err(since)) = receiver.map(|receiver| receiver.has_taken_all(taken)) {
        return later(channel, Some(since));
    }
    if let Err(channel) = channel.free() {
        return later(channel, taken);
    }
    forget(shared, connection);
    shared.connection_counters.ended.increment();
    probes::cm_closed(shared.number, &connection.peer, c"neighbour");
}

/// What the closure answers; `None` if there are no connections at all.
fn with_incoming<R>(shared: &Shared, tell: impl FnOnce(&mut IncomingConnections) -> Option<R>) -> Option<R> {
    shared.control.lock().incoming.as_mut().and_then(|incoming| tell(incoming))
}

fn forget(shared: &Shared, connection: Connection) {
    let left = with_incoming(shared, |incoming| incoming.forget(connection, now()));
    drop(left);
}

fn refuse(shared: &Shared, connection: Connection, session: Session, why: Reply) {
    let counters = &shared.connection_counters;
    let (counter, named) =
        if why == Reply::NoRoom { (&counters.no_room, c"no room") } else { (&counters.refused, c"refused") };
    counter.increment();
    probes::cm_refused(shared.number, connection.peer.gid(), named);
    // Who asks may have given up.
    let _ = session.refuse(why);
}

#[inline(never)]
fn accept(shared: &KArc<Shared>, connection: Connection, session: Session, may_block: &MayBlock) {
    let (channel, receiver) = match queue_pair(shared, may_block) {
        Ok(made) => made,
        Err(status) => {
            log!(note, shared.name, "refused a connection: {status}");
            forget(shared, connection);
            return refuse(shared, connection, session, Reply::NoRoom);
        }
    };
    let control = shared.control.lock();
    let own = control.link.address();
    drop(control);
    let held =
        with_incoming(shared, |incoming| incoming.hold(connection, &channel, receiver, now()).then_some(()))
            .is_some();
    let (true, Some(own)) = (held, own) else {
        forget(shared, connection);
        return refuse(shared, connection, session, Reply::Refused);
    };
    let mut private = PrivateData { qpn: own.qpn(), longest: LONGEST_MESSAGE }.to_bytes();
    match session.accept(&channel, RECEIVER_RETRIES, &mut private) {
        Ok(()) => {
            shared.connection_counters.accepted.increment();
            probes::cm_accepted(shared.number, &connection.peer);
        }
        // Who asks has given up: nobody will be told of the channel.
        Err(_) => {
            forget(shared, connection);
            shared.connection_counters.refused.increment();
            probes::cm_refused(shared.number, connection.peer.gid(), c"refused");
        }
    }
}

/// A queue pair for a connection, and what it receives into, if there is none yet.
fn queue_pair(
    shared: &KArc<Shared>,
    may_block: &MayBlock,
) -> Result<(RcChannel, KArc<ConnectedReceiver>), Status> {
    let parts = |incoming: &mut IncomingConnections| {
        incoming.shared_receive().map(SharedReceive::parts_of_connection)
    };
    let (srq, cq, receiver) = match with_incoming(shared, parts) {
        Some(known) => known,
        None => make_shared_receive(shared, may_block)?,
    };
    Ok((shared_receive::channel(&srq, &cq, shared.node.port)?, receiver))
}

/// The adapter, for connections.
pub(in crate::link) fn adapter(shared: &KArc<Shared>, may_block: &MayBlock) -> Result<Hca, Status> {
    if let Some(hca) = with_incoming(shared, |incoming| incoming.hca().cloned()) {
        return Ok(hca);
    }
    let own = shared.connections_client().ok_or(Status::HCA_INVALID)?;
    let guid = shared.node.hca.get();
    let (number, client, parked) = KeptAdapters::take(&shared.kept, guid, shared, &own, may_block)?;
    let (hca, resting) = match parked {
        Some(Parked { hca, resting }) => (hca, resting),
        None => match Hca::open(&client, guid, may_block) {
            Ok(hca) => (hca, List::new()),
            Err(status) => {
                shared.kept.give_back(number, None);
                return Err(status);
            }
        },
    };
    with_incoming(shared, |incoming| {
        incoming.put_hca(hca.clone(), number, resting);
        Some(())
    });
    Ok(hca)
}

/// 0 is no client's.
fn number_of_client(shared: &Shared) -> u32 {
    with_incoming(shared, |incoming| Some(incoming.number())).unwrap_or_default()
}

/// If a queue that rests has failed none of them is used again: which one it was is not known. Their memory comes home.
fn leave_failed(shared: &Shared) {
    if !shared.kept.take_failed(number_of_client(shared)) {
        return;
    }
    log!(warn, shared.name, "a receive queue at rest has failed: no queue at rest is used again");
    while let Some(Resting { srq, slabs }) = with_incoming(shared, IncomingConnections::wake) {
        shared.retire_all(kept::leave(srq, slabs));
    }
}

#[inline(never)]
fn make_shared_receive(
    shared: &KArc<Shared>,
    may_block: &MayBlock,
) -> Result<(Srq, Cq, KArc<ConnectedReceiver>), Status> {
    let hca = adapter(shared, may_block)?;
    leave_failed(shared);
    let pd = match with_incoming(shared, |incoming| incoming.resting_pd()) {
        Some(pd) => pd,
        None => Pd::new(&hca, may_block)?,
    };
    let interrupts = shared.interrupts().ok_or(Status::HCA_INVALID)?;
    let own = shared.control.lock().link.address().ok_or(Status::HCA_PORT_NOT_ACTIVE)?;
    let settings = *shared.settings.lock();
    let room = Room::new()?;
    let made = SharedReceive::new(
        &shared.parts(&pd, &interrupts, &settings),
        // Only this thread takes one.
        || with_incoming(shared, IncomingConnections::wake),
        own,
        !is_away(shared),
    );
    let shared_receive = match made {
        Ok(made) => made,
        Err((Some(made), status)) => {
            // Nothing is connected to it.
            made.end();
            dissolve(shared, made);
            return Err(status);
        }
        Err((None, status)) => return Err(status),
    };
    let (srq, cq, receiver) = shared_receive.parts_of_connection();
    let unwanted = with_incoming(shared, |incoming| incoming.put_shared_receive(shared_receive, room));
    if let Some(shared_receive) = unwanted {
        drop(srq);
        shared_receive.end();
        dissolve(shared, shared_receive);
        return Err(Status::HCA_PORT_NOT_ACTIVE);
    }
    // A queue that failed while it was woken belonged to no link.
    if shared.kept.has_failed(number_of_client(shared)) {
        with_incoming(shared, |incoming| {
            incoming.resting_failed();
            Some(())
        });
    }
    // Who got another address before this had its place was not told so.
    let own = shared.control.lock().link.address();
    if let Some(own) = own {
        receiver.set_own(own);
    }
    Ok((srq, cq, receiver))
}
