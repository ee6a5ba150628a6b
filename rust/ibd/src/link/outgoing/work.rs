//! What the threads of [`super::super::incoming`] do for connections that the link opens. With no lock held; **may block**.

use ibtf::{Cq, MessageQueue, Opening, PathInfo, Pd, RcChannel, Status};
use ipoib::connections::{Connection, LONGEST_MESSAGE, OpenError, PrivateData, Service};
use ipoib::paths::Known;
use kernel::{KArc, MayBlock, log};

use super::send_pools::SendPools;
use super::sender::{ANSWER, ConnectedSender, SENDS, SIGNAL_EVERY};
use super::{OutgoingConnections, Route};
use crate::link::Shared;
use crate::link::incoming::adapter;
use crate::{now, probes};

/// How often a message that is not acknowledged is sent again, and one that finds no receive.
const RETRIES: u8 = 3;
const RECEIVER_RETRIES: u8 = 6;
/// How often a REQ that is not answered is sent again.
const REQUESTS: u8 = 3;
/// All times of a connection are reckoned from how long a packet may live on the way, as a code: 268 ms. More would make a neighbour that is gone
/// hold what it was sent for half a minute.
const LONGEST_LIFETIME: u8 = 16;

fn with_outgoing<R>(shared: &Shared, tell: impl FnOnce(&mut OutgoingConnections) -> R) -> Option<R> {
    let mut control = shared.control.lock();
    let outgoing = control.incoming.as_mut().and_then(|incoming| incoming.outgoing.as_mut());
    let told = outgoing.map(|outgoing| tell(outgoing));
    drop(control);
    shared.control.notify_all();
    told
}

/// Begins to make a connection.
#[inline(never)]
pub(crate) fn open(shared: &KArc<Shared>, connection: Connection, service: Service, may_block: &MayBlock) {
    shared.connection_counters.opens.increment();
    probes::cm_open(shared.number, &connection.peer);
    match begin(shared, connection, service, may_block) {
        Ok(channel) => {
            let left = with_outgoing(shared, |outgoing| outgoing.opens(connection, channel)).flatten();
            drop(left);
        }
        Err(status) => {
            log!(note, shared.name, "cannot open a connection: {status}");
            shared.connection_counters.open_failed.increment();
            probes::cm_open_failed(shared.number, &connection.peer, OpenError::Failed);
            with_outgoing(shared, |outgoing| outgoing.failed(connection, OpenError::Failed, now()));
        }
    }
}

fn begin(
    shared: &KArc<Shared>,
    connection: Connection,
    service: Service,
    may_block: &MayBlock,
) -> Result<RcChannel, Status> {
    let (path, own, route) = way(shared, connection)?;
    let (channel, sender) = make(shared, connection, may_block)?;
    let held = with_outgoing(shared, |outgoing| outgoing.hold(connection, &channel, &sender, route))
        .unwrap_or(false);
    let private = PrivateData { qpn: own, longest: LONGEST_MESSAGE }.to_bytes();
    let opening = Opening {
        hca_guid: shared.node.hca.get(),
        path,
        service: service.id(connection.peer.qpn()),
        private: &private,
        retries: RETRIES,
        receiver_retries: RECEIVER_RETRIES,
        requests: REQUESTS,
        answer_micros: ANSWER.as_micros() as u32,
    };
    let client = shared.connections_client().ok_or(Status::HCA_INVALID)?;
    let opened = if held { channel.open(&client, &opening) } else { Err(Status::CHAN_STATE_INVALID) };
    if let Err(status) = opened {
        end(shared, &sender);
        return Err(status);
    }
    Ok(channel)
}

/// The way to the neighbour, on which datagrams go, too, and the number of the link's own queue pair.
#[inline(never)]
fn way(shared: &Shared, connection: Connection) -> Result<(PathInfo, ipoib::Qpn, Route), Status> {
    let control = shared.control.lock();
    let port = control.link.port().map(|port| (port.pkey_index, port.lid));
    let own = control.link.address();
    let known = control.paths.known(now(), &connection.peer);
    drop(control);
    match (known, port, own) {
        (Known::Ready(neighbour, _), Some((Some(index), own_lid)), Some(own)) => {
            let mut path = neighbour.path(index).ok_or(Status::INVALID_PARAM)?;
            path.packet_lifetime = path.packet_lifetime.min(LONGEST_LIFETIME);
            Ok((path, own.qpn(), Route { own_lid, pkey_index: index, to: *neighbour.address() }))
        }
        _ => Err(Status::PATH_RECORDS_NOT_FOUND),
    }
}

/// A queue pair, and what is sent on it.
#[inline(never)]
fn make(
    shared: &KArc<Shared>,
    connection: Connection,
    may_block: &MayBlock,
) -> Result<(RcChannel, ConnectedSender), Status> {
    let send_pools = send_pools(shared, may_block)?;
    let interrupts = shared.interrupts().ok_or(Status::HCA_INVALID)?;
    let send_completions = &shared.send_completions;
    let notifier =
        send_completions.notifier(interrupts.send_completions())?.ok_or(Status::INSUFF_KERNEL_RESOURCE)?;
    let cq = Cq::new(send_pools.pd().hca(), SENDS, notifier.clone())?;
    let channel = RcChannel::sending(send_pools.pd(), &cq, shared.node.port, SENDS)?;
    let queue = MessageQueue::new(&channel, SIGNAL_EVERY)?;
    let counters = shared.connection_counters.clone();
    let sender = ConnectedSender::new(connection, queue, send_pools, counters)?;
    send_completions.enter(&notifier, &sender)?;
    if !sender.arm() {
        end(shared, &sender);
        return Err(Status::CQ_HDL_INVALID);
    }
    Ok((channel, sender))
}

fn send_pools(shared: &KArc<Shared>, may_block: &MayBlock) -> Result<KArc<SendPools>, Status> {
    if let Some(send_pools) = with_outgoing(shared, |outgoing| outgoing.send_pools()).flatten() {
        return Ok(send_pools);
    }
    let pd = Pd::new(&adapter(shared, may_block)?, may_block)?;
    let send_pools = KArc::new_waiting(SendPools::new(pd)?, may_block);
    with_outgoing(shared, |outgoing| outgoing.put_send_pools(send_pools.clone()));
    Ok(send_pools)
}

/// Nothing is sent on it any more, and nobody looks for what has completed.
pub(crate) fn end(shared: &Shared, sender: &ConnectedSender) {
    sender.close();
    shared.send_completions.leave(sender);
}

/// An attempt came to nothing.
#[inline(never)]
pub(crate) fn free_failed(
    shared: &Shared,
    connection: Connection,
    channel: RcChannel,
    sender: Option<ConnectedSender>,
    error: OpenError,
) {
    if let Some(sender) = &sender {
        end(shared, sender);
    }
    drop(sender);
    if free(shared, connection, channel) {
        shared.connection_counters.open_failed.increment();
        probes::cm_open_failed(shared.number, &connection.peer, error);
        with_outgoing(shared, |outgoing| outgoing.failed(connection, error, now()));
    }
}

/// Frees the channel of a connection that is over, now or, if it cannot be, later.
fn free(shared: &Shared, connection: Connection, channel: RcChannel) -> bool {
    // What the communication manager does not know needs no end.
    let _ = channel.close();
    let Err(channel) = channel.free() else { return true };
    let left = with_outgoing(shared, |outgoing| outgoing.free_later(connection, channel, now())).flatten();
    drop(left);
    false
}

/// Closes a connection, or gives an attempt up.
#[inline(never)]
pub(crate) fn close(
    shared: &Shared,
    connection: Connection,
    channel: RcChannel,
    sender: Option<ConnectedSender>,
) {
    if let Some(sender) = &sender {
        end(shared, sender);
    }
    drop(sender);
    if free(shared, connection, channel) {
        shared.connection_counters.closed.increment();
        probes::cm_closed(shared.number, &connection.peer, c"link");
        with_outgoing(shared, |outgoing| outgoing.closed(connection, now()));
    }
}

impl SendPools {
    /// Ends it, when no connection uses it any more.
    pub(crate) fn end(this: KArc<Self>, shared: &Shared) {
        // Whoever had a clone has closed what he sent from it.
        if let Some(send_pools) = KArc::into_inner(this) {
            send_pools.into_pools().into_iter().for_each(|pool| shared.retire_one(pool));
        }
    }
}
