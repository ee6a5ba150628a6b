//! Where neighbours ask for connections: two services with the number of the link's queue pair, one of RFC 4755 and one that Linux and
//! the C driver ask; and what is looked at before anything is done for who asks.

use core::time::Duration;

use ibtf::{AsyncEvent, ChannelId, Client, ClientHandler, Reply, Request, Service, Session, SrqId, Status};
use ipoib::connections::{self, ConnectRequest, Wrong};
use ipoib::link::Generation;
use ipoib::{Gid, LinkAddr, Qpn};
use kernel::kstat::Kstat;
use kernel::list::Room;
use kernel::{KArc, KBox, MayBlock, log};

use super::{Asker, ConnectionCounters, IncomingConnections, SharedReceive, work};
use crate::adapter::Overdue;
use crate::link::Shared;
use crate::link::events::CLIENT;
use crate::link::long_answers::LongAnswers;
use crate::link::outgoing::OutgoingConnections;
use crate::link::queue_pairs::QueuePairHandles;
use crate::link::settings::Settings;
use crate::{node, now, probes, secret};

/// How long the removal of an adapter is held up by connections at most, beside [what closing them takes](connections::closing_takes): the communication
/// manager repeats a DREQ that is not answered as often as the neighbour has asked for. And how often they are looked at.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: kernel::time::Duration = kernel::time::Duration::from_millis(10);

/// Who sees to a link's connections, from the first time it listens to its end: in the order in which they go.
pub(crate) struct Listener {
    _counters: Kstat<ConnectionCounters>,
    _threads: work::Threads,
    client: Client,
}

impl Listener {
    /// As whom IBTF knows it.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }
}

/// The link listens as long as this lives. Who is just asking when it is dropped (**may block**) is told by the machine that the link is stopped.
pub(crate) struct Listening {
    _services: [Service; 2],
}

impl Listening {
    fn new(client: &Client, qpn: Qpn, gid: Gid, may_block: &MayBlock) -> Result<Self, Status> {
        let service = |service: connections::Service| {
            Service::new(client, service.id(qpn), node::ibtf_gid(gid), may_block)
        };
        let _services = [service(connections::Service::Ietf)?, service(connections::Service::Legacy)?];
        Ok(Self { _services })
    }
}

/// Has the link listen if it is to take connections and does not yet. Without success its address says so, and all is as if it took none.
/// **May block.**
pub(crate) fn listen(shared: &KArc<Shared>, handles: &mut QueuePairHandles, may_block: &MayBlock) {
    try_to_listen(shared, handles, may_block);
    // What is built on it is told of the same address as everybody.
    handles.listens = shared
        .control
        .lock()
        .queue_pairs
        .as_ref()
        .is_some_and(|pairs| pairs.is_listening(handles.generation));
}

#[inline(never)]
fn try_to_listen(shared: &KArc<Shared>, handles: &QueuePairHandles, may_block: &MayBlock) {
    let settings = *shared.settings.lock();
    if !settings.takes_connections() {
        return;
    }
    let control = shared.control.lock();
    let listens = control.queue_pairs.as_ref().is_none_or(|pairs| pairs.is_listening(handles.generation));
    let port = control.link.port().copied();
    drop(control);
    let (Some(port), Ok(first), false) = (port.filter(|port| port.active), handles.first(), listens) else {
        return;
    };
    let hca = first.pd().hca();
    if !hca.attributes().shared_receive_queues() {
        return log!(
            note,
            shared.name,
            "the link accepts no connections: the adapter has no shared receive queues"
        );
    }
    let begun = match begin(shared, hca.client(), may_block) {
        Ok((incoming, client)) => {
            put_incoming(shared, incoming);
            prepare_outgoing(shared, &settings, may_block);
            Ok(client)
        }
        Err(status) => Err(status),
    };
    let made = begun.and_then(|client| {
        let listening = Listening::new(&client, Qpn::from_low_bits(first.qpn()), port.gid, may_block)?;
        Ok(listening)
    });
    match made {
        Ok(listening) => put(shared, handles.generation, listening),
        Err(status) => log!(note, shared.name, "the link accepts no connections: {status}"),
    }
}

/// What the first listening of a link needs: room for connections, and who sees to them.
fn begin(
    shared: &KArc<Shared>,
    link: &Client,
    may_block: &MayBlock,
) -> Result<(Option<KBox<IncomingConnections>>, Client), Status> {
    let seed = secret();
    let known = shared.control.lock().incoming.is_some();
    let incoming = || KBox::new_waiting(IncomingConnections::new(seed, may_block), may_block);
    let incoming = (!known).then(incoming);
    let client = shared.listener.lock().as_ref().map(Listener::client);
    if let Some(client) = client {
        return Ok((incoming, client));
    }
    let client = link.attach_another(shared.dip, &CLIENT, may_block, ConnectionEvents(shared.clone()))?;
    let (driver, counters) = (shared.dip.driver_name(), shared.connection_counters.clone());
    let counters = Kstat::new(driver, shared.number, c"connections", c"net", counters);
    let counters = counters.map_err(|_| Status::INSUFF_KERNEL_RESOURCE)?;
    let listener =
        Listener { _counters: counters, _threads: work::spawn(shared, may_block), client: client.clone() };
    // Only this thread makes one.
    let before = shared.listener.lock().replace(listener);
    drop(before);
    Ok((incoming, client))
}

fn put_incoming(shared: &Shared, incoming: Option<KBox<IncomingConnections>>) {
    let mut control = shared.control.lock();
    // Only this thread makes them, and only if there are none.
    if incoming.is_some() {
        control.incoming = incoming;
    }
}

/// What a link needs that is to open connections.
#[inline(never)]
fn prepare_outgoing(shared: &Shared, settings: &Settings, may_block: &MayBlock) {
    let known = |incoming: &KBox<IncomingConnections>| incoming.outgoing.is_some();
    if !settings.connected || shared.control.lock().incoming.as_ref().is_some_and(known) {
        return;
    }
    let outgoing = OutgoingConnections::new(secret(), may_block);
    if let Some(incoming) = &mut shared.control.lock().incoming {
        incoming.outgoing = Some(outgoing);
    }
}

fn put(shared: &Shared, generation: Generation, listening: Listening) {
    let mut listening = Some(listening);
    let mut control = shared.control.lock();
    let control_now = &mut *control;
    if let Some(pairs) = control_now.queue_pairs.as_mut().filter(|pairs| pairs.generation() == generation) {
        pairs.listen(&mut listening);
        control_now.link.take_connections(true);
        if let Some(incoming) = &mut control_now.incoming {
            incoming.run();
        }
    }
    drop(control);
    // The queue pairs are gone meanwhile, if it is left.
    drop(listening);
}

/// Where what is asked and told of connections goes.
struct ConnectionEvents(KArc<Shared>);

impl ConnectionEvents {
    fn tell(&self, tell: impl FnOnce(&mut IncomingConnections)) {
        self.0.tell(|control| control.tell_incoming(tell));
    }

    /// The adapter goes: waits until nothing of it is open for connections.
    fn hca_removed(&self) {
        let count = self.0.control.lock().incoming.as_ref().map_or(0, |incoming| incoming.count());
        let deadline = now() + connections::closing_takes(count, LongAnswers::are_some(now())) + PATIENCE;
        let open = || self.0.control.lock().incoming.as_ref().is_some_and(|incoming| !incoming.is_idle());
        let mut overdue = Overdue::begins();
        while open() && now() < deadline {
            if let Some(seconds) = overdue.seconds() {
                log!(
                    note,
                    self.0.name,
                    "the adapter that goes has waited for {seconds} s for connections to end"
                );
            }
            // Once the link's own client has heard of it, too, nobody is let in any more.
            let mut control = self.0.control.lock();
            let shared_receive = control.incoming.as_mut().and_then(|incoming| incoming.stop());
            drop(control);
            self.0.control.notify_all();
            if let Some(shared_receive) = shared_receive {
                self.0.end_shared_receive(shared_receive);
            }
            kernel::time::sleep(LOOK_AGAIN);
        }
        if open() {
            log!(warn, self.0.name, "the adapter that was removed is still in use");
        }
        // No link has what rests now.
        self.0.kept.hca_removed(self.0.node.hca.get());
    }
}

/// A shared receive queue has failed; false if the link does not use it.
pub(crate) fn shared_queue_failed(shared: &KArc<Shared>, id: SrqId) -> bool {
    let mut found = false;
    ConnectionEvents(shared.clone()).tell(|incoming| found = incoming.srq_failed(id));
    found
}

/// What the adapter tells of a link's connections.
pub(crate) fn adapter_event(shared: &KArc<Shared>, event: AsyncEvent, may_block: &MayBlock) {
    ConnectionEvents(shared.clone()).async_event(event, may_block);
}

impl ClientHandler for ConnectionEvents {
    fn async_event(&self, event: AsyncEvent, _: &MayBlock) {
        match event {
            AsyncEvent::ChannelFailed(id) => self.tell(|incoming| incoming.failed(id, now())),
            AsyncEvent::ChannelEmpty(id) => self.tell(|incoming| incoming.emptied(id)),
            AsyncEvent::CqFailed(id) => self.tell(|incoming| incoming.cq_failed(id, now())),
            AsyncEvent::HcaDetached { hca_guid } if hca_guid == self.0.node.hca.get() => self.hca_removed(),
            _ => {}
        }
    }

    fn connection_requested(&self, request: &Request<'_>, session: Session) -> Reply {
        self.0.connection_requested(request, session)
    }

    fn connection_replied(&self, channel: ChannelId, private: &[u8]) -> bool {
        let mut wanted = false;
        self.0.tell(|control| {
            control.tell_outgoing(|outgoing| wanted = outgoing.replied(channel, private));
        });
        wanted
    }

    fn connection_delayed(&self, channel: ChannelId, time: Duration) {
        let mut waits = true;
        self.0.tell(|control| {
            control.tell_outgoing(|outgoing| waits = outgoing.delayed(channel, time, now()));
        });
        if !waits {
            self.0.connection_counters.slow.increment();
        }
    }

    fn connection_established(&self, channel: ChannelId, answer: Option<u8>) {
        let (mut opened, mut slow) = (None, false);
        self.0.tell(|control| {
            opened = control.connection_established(channel, now());
            slow = control.answers_take(channel, answer, now());
        });
        if slow {
            self.0.connection_counters.slow.increment();
        }
        if let Some(connection) = opened {
            self.0.connection_counters.opened.increment();
            probes::cm_opened(self.0.number, &connection.peer);
        }
    }

    fn connection_ended(&self, channel: ChannelId) {
        self.tell(|incoming| incoming.ended(channel, now()));
    }

    fn connection_failed(&self, channel: ChannelId, reason: u16) {
        self.tell(|incoming| incoming.refused(channel, reason, now()));
    }
}

impl Shared {
    /// Ends what a [stop](IncomingConnections::stop) has handed out. **May block**, for the adapter only.
    pub(in crate::link) fn end_shared_receive(&self, shared_receive: SharedReceive) {
        shared_receive.end();
        let mut ended = Some(shared_receive);
        self.tell(|control| {
            control.tell_incoming(|incoming| {
                if let Some(ended) = ended.take() {
                    incoming.shared_receive_ended(ended);
                }
            });
        });
    }

    /// See [`ibtf::ClientHandler::connection_requested`].
    fn connection_requested(&self, request: &Request<'_>, session: Session) -> Reply {
        let counters = &self.connection_counters;
        counters.requests.increment();
        let reply = match (self.who_asks(request), Room::new()) {
            (Ok(peer), Ok(room)) => {
                let asker = Asker { peer, lid: request.lid, session };
                self.control.lock().connection_requested(room, asker, now())
            }
            (Ok(_), Err(_)) => Reply::NoRoom,
            (Err(_), _) => Reply::Refused,
        };
        let refused = match reply {
            Reply::Later => None,
            Reply::NoRoom => Some((&counters.no_room, c"no room")),
            Reply::Refused => Some((&counters.refused, c"refused")),
        };
        if let Some((counter, why)) = refused {
            counter.increment();
            probes::cm_refused(self.number, node::gid(request.from), why);
        }
        // Also to make room for whoever asks again.
        self.control.notify_all();
        reply
    }

    /// The neighbour, if it may ask.
    fn who_asks(&self, request: &Request<'_>) -> Result<LinkAddr, Wrong> {
        let asked = ConnectRequest {
            reliable: request.reliable,
            pkey: request.pkey,
            from: node::gid(request.from),
            to: node::gid(request.to),
            lid: request.lid,
            private: request.private,
        };
        asked.check(self.pkey, self.port_gid().ok_or(Wrong::Port)?)
    }
}
