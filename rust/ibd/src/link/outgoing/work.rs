//! What the threads of [`super::super::incoming`] do for connections that the link opens. With no lock held; **may block**.

use ibtf::{Cq, MessageQueue, Opening, PathInfo, Pd, RcChannel, Status};
use ipoib::connections::{Connection, Hello, LONGEST_MESSAGE, OpenError, Service};
use ipoib::paths::Known;
use kernel::{KArc, log};

use super::Visits;
use super::outfit::Outfit;
use super::pipe::{ANSWER, Pipe, SENDS, SIGNAL_EVERY};
use crate::link::Shared;
use crate::link::incoming::adapter;
use crate::now;

/// How often a message that is not acknowledged is sent again, and one that finds no receive.
const RETRIES: u8 = 3;
const RECEIVER_RETRIES: u8 = 6;
/// How often a REQ that is not answered is sent again.
const REQUESTS: u8 = 3;
/// All times of a connection are reckoned from how long a packet may live on the way, as a code: 268 ms. More would make a neighbour that is gone
/// hold what it was sent for half a minute.
const LONGEST_LIFETIME: u8 = 16;

fn with_visits<R>(shared: &Shared, tell: impl FnOnce(&mut Visits) -> R) -> Option<R> {
    let mut control = shared.control.lock();
    let visits = control.guests.as_mut().and_then(|guests| guests.visits.as_mut());
    let told = visits.map(|visits| tell(visits));
    drop(control);
    shared.control.notify_all();
    told
}

/// Begins to make a connection.
#[inline(never)]
pub(crate) fn open(shared: &Shared, connection: Connection, service: Service) {
    shared.guest_counters.opens.increment();
    match begin(shared, connection, service) {
        Ok(channel) => {
            let left = with_visits(shared, |visits| visits.opens(connection, channel)).flatten();
            drop(left);
        }
        Err(status) => {
            log!(note, shared.name, "no connection could be opened: {status}");
            shared.guest_counters.open_failed.increment();
            with_visits(shared, |visits| visits.failed(connection, OpenError::Failed, now()));
        }
    }
}

fn begin(shared: &Shared, connection: Connection, service: Service) -> Result<RcChannel, Status> {
    let (path, own) = way(shared, connection)?;
    let (channel, pipe) = make(shared, connection)?;
    let held = with_visits(shared, |visits| visits.hold(connection, &channel, &pipe)).unwrap_or(false);
    let hello = Hello { qpn: own, longest: LONGEST_MESSAGE }.to_bytes();
    let opening = Opening {
        hca_guid: shared.node.hca.get(),
        path,
        service: service.id(connection.peer.qpn()),
        private: &hello,
        retries: RETRIES,
        receiver_retries: RECEIVER_RETRIES,
        requests: REQUESTS,
        answer_micros: ANSWER.as_micros() as u32,
    };
    let client = shared.connections_client().ok_or(Status::HCA_INVALID)?;
    let opened = if held { channel.open(&client, &opening) } else { Err(Status::CHAN_STATE_INVALID) };
    if let Err(status) = opened {
        end(shared, &pipe);
        return Err(status);
    }
    Ok(channel)
}

/// The way to the neighbour, on which datagrams go, too, and the number of the link's own queue pair.
#[inline(never)]
fn way(shared: &Shared, connection: Connection) -> Result<(PathInfo, ipoib::Qpn), Status> {
    let control = shared.control.lock();
    let index = control.link.port().and_then(|port| port.pkey_index);
    let own = control.link.address();
    let known = control.paths.known(now(), &connection.peer);
    drop(control);
    match (known, index, own) {
        (Known::Ready(neighbour, _), Some(index), Some(own)) => {
            let mut path = neighbour.path(index).ok_or(Status::INVALID_PARAM)?;
            path.packet_lifetime = path.packet_lifetime.min(LONGEST_LIFETIME);
            Ok((path, own.qpn()))
        }
        _ => Err(Status::PATH_RECORDS_NOT_FOUND),
    }
}

/// A queue pair, and what is sent on it.
#[inline(never)]
fn make(shared: &Shared, connection: Connection) -> Result<(RcChannel, Pipe), Status> {
    let outfit = outfit(shared)?;
    let interrupts = shared.interrupts().ok_or(Status::HCA_INVALID)?;
    let departures = &shared.departures;
    let bell = departures.bell(interrupts.departures())?.ok_or(Status::INSUFF_KERNEL_RESOURCE)?;
    let cq = Cq::new(outfit.pd().hca(), SENDS, bell.clone())?;
    let channel = RcChannel::sending(outfit.pd(), &cq, shared.node.port, SENDS)?;
    let queue = MessageQueue::new(&channel, SIGNAL_EVERY)?;
    let pipe = Pipe::new(connection, queue, outfit)?;
    departures.enter(&bell, &pipe)?;
    if !pipe.arm() {
        end(shared, &pipe);
        return Err(Status::CQ_HDL_INVALID);
    }
    Ok((channel, pipe))
}

fn outfit(shared: &Shared) -> Result<KArc<Outfit>, Status> {
    if let Some(outfit) = with_visits(shared, |visits| visits.outfit()).flatten() {
        return Ok(outfit);
    }
    let outfit = KArc::new(Outfit::new(Pd::new(&adapter(shared)?)?)?)?;
    with_visits(shared, |visits| visits.put_outfit(outfit.clone()));
    Ok(outfit)
}

/// Nothing is sent on it any more, and nobody looks for what has completed.
fn end(shared: &Shared, pipe: &Pipe) {
    pipe.close();
    shared.departures.leave(pipe);
}

/// An attempt came to nothing.
#[inline(never)]
pub(crate) fn bury(
    shared: &Shared,
    connection: Connection,
    channel: RcChannel,
    pipe: Option<Pipe>,
    error: OpenError,
) {
    if let Some(pipe) = &pipe {
        end(shared, pipe);
    }
    drop(pipe);
    if free(shared, connection, channel) {
        shared.guest_counters.open_failed.increment();
        with_visits(shared, |visits| visits.failed(connection, error, now()));
    }
}

/// Frees the channel of a connection that is over, now or, if it cannot be, later.
fn free(shared: &Shared, connection: Connection, channel: RcChannel) -> bool {
    // What the communication manager does not know needs no end.
    let _ = channel.close();
    let Err(channel) = channel.free() else { return true };
    let left = with_visits(shared, |visits| visits.free_later(connection, channel, now())).flatten();
    drop(left);
    false
}

/// Closes a connection, or gives an attempt up.
#[inline(never)]
pub(crate) fn close(shared: &Shared, connection: Connection, channel: RcChannel, pipe: Option<Pipe>) {
    if let Some(pipe) = &pipe {
        end(shared, pipe);
    }
    drop(pipe);
    if free(shared, connection, channel) {
        shared.guest_counters.closed.increment();
        with_visits(shared, |visits| visits.closed(connection, now()));
    }
}

impl Outfit {
    /// Ends it, when no connection uses it any more.
    pub(crate) fn end(this: KArc<Self>, shared: &Shared) {
        // Whoever had a clone has closed what he sent from it.
        if let Some(outfit) = KArc::into_inner(this) {
            outfit.into_pools().into_iter().for_each(|pool| shared.retire_one(pool));
        }
    }
}
