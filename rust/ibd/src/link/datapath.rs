//! What the queue pairs of a link carry while it has a port and a broadcast group: their buffers and queues, as values that undo
//! themselves.

use core::sync::atomic::{AtomicU64, Ordering};

use gldv3::Mac;
use ibtf::{Attachment, BufferPool, BufferUse, Cq, McgInfo, Pd, ReceiveQueue, SendQueue, Status, UdChannel};
use ipoib::link::Plan;
use ipoib::{LinkAddr, Mtu, Qpn};
use kernel::sync::Monitor;
use kernel::{KArc, KVec};

use super::backlog::Backlog;
use super::control::Control;
use super::incoming::ConnectionCounters;
use super::interrupts::Interrupts;
use super::neighbour::Way;
use super::pairs::{LARGEST_SEND, Recipe, View};
use super::receive::Receiver;
use super::rings::MOST_TRANSMIT_RINGS;
use super::settings::{Key, LSO_UNIT, Settings};
use super::transmit::{self, Transmitters, Wire};
use super::upward::Upward;
use crate::counters::Counters;

/// Traffic that flows. End it with [`Traffic::end`].
pub(crate) struct Traffic {
    receiver: KArc<Receiver>,
    receive_pool: BufferPool,
    serial: u64,
}

/// Traffic that is made ready and does not flow yet.
pub(crate) struct Built {
    traffic: Traffic,
    send: KVec<transmit::Open>,
    receive: ReceiveQueue,
    cq: Cq,
    own: LinkAddr,
    sender_qpns: KVec<Qpn>,
    /// To the broadcast group.
    attachment: Attachment,
}

/// What queue pairs, and what they carry, are made from.
pub(crate) struct Parts<'a> {
    pub(crate) pd: &'a Pd,
    pub(crate) port: u8,
    pub(crate) mac: &'a Mac,
    pub(crate) counters: &'a KArc<Counters>,
    pub(crate) connection_counters: &'a KArc<ConnectionCounters>,
    pub(crate) control: &'a KArc<Monitor<Control>>,
    pub(crate) backlog: &'a KArc<Monitor<Backlog>>,
    pub(crate) upward: &'a KArc<Upward>,
    pub(crate) transmitters: &'a Transmitters,
    pub(crate) interrupts: &'a Interrupts,
    pub(crate) settings: &'a Settings,
}

impl Built {
    /// Makes everything, and attaches the first queue pair to the broadcast group unless it is `held` already; what was made before a
    /// failure undoes itself. **May block.**
    #[inline(never)]
    pub(crate) fn new(
        parts: &Parts<'_>,
        view: &View,
        plan: &Plan,
        broadcast: &McgInfo,
        held: Option<Attachment>,
    ) -> Result<Self, Status> {
        let first = view.first()?;
        // As many again as the adapter holds can be lent.
        let (count, size) = (2 * view.recipe.sizes.receive, plan.mtu.receive_buffer());
        let receive_pool = new_pool(parts.pd, count, size, BufferUse::Receive)?;
        let send = KVec::try_from_fn(view.channels.len(), |ring| {
            let channel = view.channels.get(ring).and_then(Option::as_ref).ok_or(Status::CHAN_HDL_INVALID)?;
            send_side(parts, &view.recipe, channel, plan.mtu)
        })?;
        let senders = send.len() - 1;
        let qpn = |side: &transmit::Open| Qpn::from_low_bits(side.queue.channel().qpn());
        let own = LinkAddr::unicast(Qpn::from_low_bits(first.qpn()), plan.gid);
        let own = if view.listens { own.with_connections() } else { own };
        // Each once more, in the place of the one before it that it may replace one day.
        let place = |n: usize| send.get(n % senders + 1).map_or(own.qpn(), qpn);
        let sender_qpns = KVec::from_fn(2 * senders, place)?;
        let receive = ReceiveQueue::new(first, &receive_pool)?;
        let attachment = match held {
            Some(attachment) => attachment,
            None => first.attach(broadcast)?,
        };
        let (receiver, serial) = (view.receiver.clone(), next_serial());
        let traffic = Traffic { receiver, receive_pool, serial };
        let cq = first.receive_cq().clone();
        Ok(Self { traffic, send, receive, cq, own, sender_qpns, attachment })
    }

    /// Gives the adapter its buffers, and then lets in who has the link's Q_Key. A failure leaves the queue pairs with something to
    /// forget. **May block.**
    #[inline(never)]
    pub(crate) fn let_in(&mut self, view: &View, plan: &Plan) -> Result<(), Status> {
        self.receive.refill()?;
        if view.place.qkey == plan.qkey {
            return Ok(());
        }
        view.channels.iter().flatten().try_for_each(|channel| channel.set_qkey(plan.qkey.get()))
    }

    pub(crate) fn qpn(&self) -> Qpn {
        self.own.qpn()
    }

    /// Splits into what the link keeps and what starts the traffic, which nothing ends that was done before this.
    pub(crate) fn split(self, transmitters: &Transmitters) -> (Traffic, Attachment, Start) {
        let Self { traffic, send, receive, cq, own, sender_qpns, attachment } = self;
        let (serial, receiver) = (traffic.serial, traffic.receiver.clone());
        let epochs = (transmitters.epoch(), receiver.epoch());
        let start = Start { send, receive, cq, own, sender_qpns, receiver, serial, epochs };
        (traffic, attachment, start)
    }

    /// Undoes what nobody wants any more. Its buffers, some of which the adapter may have. **May block.**
    #[inline(never)]
    pub(crate) fn discard(self) -> Pools {
        let Self { traffic, send, receive, attachment, .. } = self;
        drop((attachment, receive));
        let mut pools = Pools::default();
        send.into_iter().for_each(|side| side.into_pools(&mut pools));
        pools.add(traffic.receive_pool);
        pools
    }
}

/// A number that nothing of this module has had.
pub(crate) fn next_serial() -> u64 {
    static SERIAL: AtomicU64 = AtomicU64::new(1);
    SERIAL.fetch_add(1, Ordering::Relaxed)
}

/// What a queue pair sends from. **May block.**
#[inline(never)]
pub(crate) fn send_side(
    parts: &Parts<'_>,
    recipe: &Recipe,
    channel: &UdChannel,
    mtu: Mtu,
) -> Result<transmit::Open, Status> {
    let pool = new_pool(parts.pd, recipe.sizes.send, mtu.bytes(), BufferUse::Send)?;
    let queue = new_queue(channel, recipe.sizes.send)?;
    Ok(transmit::Open::new(queue, pool, recipe.abilities))
}

/// The ends of traffic that does not flow yet.
pub(crate) struct Start {
    send: KVec<transmit::Open>,
    receive: ReceiveQueue,
    cq: Cq,
    own: LinkAddr,
    sender_qpns: KVec<Qpn>,
    receiver: KArc<Receiver>,
    serial: u64,
    epochs: (u64, u64),
}

impl Start {
    /// Starts the traffic, but for a side that was closed meanwhile: the send side's buffers come back then, to be closed.
    pub(crate) fn open(self, transmitters: &Transmitters) -> Pools {
        let Self { send, receive, cq, own, sender_qpns, receiver, serial, epochs } = self;
        let unused = transmitters.open(epochs.0, serial, send);
        Receiver::open(&receiver, epochs.1, serial, receive, cq, own, sender_qpns);
        unused
    }
}

impl Traffic {
    /// Which traffic this is: a number no other of this module has.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// Ends it: nothing is sent and nothing taken from the CQ once this returns. Its buffers; some of them are the adapter's until the
    /// queue pairs are freed or made ready again. **May block**, with no lock held.
    #[inline(never)]
    pub(crate) fn end(self, transmitters: &Transmitters) -> Pools {
        let mut pools = transmitters.close();
        self.receiver.close();
        pools.add(self.receive_pool);
        pools
    }
}

/// Buffers of traffic that does not flow any more: small and large ones of each sender, and those of the receiver.
#[derive(Default)]
pub(crate) struct Pools([Option<BufferPool>; 2 * MOST_TRANSMIT_RINGS + 1]);

impl Pools {
    /// Of one kind.
    pub(super) fn of(pool: BufferPool) -> Self {
        let mut pools = Self::default();
        pools.add(pool);
        pools
    }

    /// One more kind.
    pub(super) fn add(&mut self, pool: BufferPool) {
        // There is a place for each.
        if let Some(place) = self.0.iter_mut().find(|place| place.is_none()) {
            *place = Some(pool);
        }
    }

    /// Frees those whose buffers are all home. **May block.**
    #[inline(never)]
    pub(super) fn close(&mut self) {
        for place in &mut self.0 {
            *place = place.take().and_then(|pool| pool.close().err());
        }
    }

    /// Takes them out, one by one: seventeen are much for a kernel stack.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = BufferPool> {
        self.0.iter_mut().filter_map(Option::take)
    }
}

/// Buffers for large sends, for a link that has turned out to need them. **May block.**
#[inline(never)]
pub(crate) fn large_pool(pd: &Pd, settings: &Settings) -> Result<BufferPool, Status> {
    let size = LARGEST_SEND.next_multiple_of(LSO_UNIT);
    let count = settings.get(Key::NumLsoBufs) * LSO_UNIT / size;
    BufferPool::new(pd, count, size, BufferUse::Send)
}

#[inline(never)]
fn new_queue(channel: &UdChannel, ring: u32) -> Result<SendQueue<Wire, Way>, Status> {
    SendQueue::new(channel, ring, transmit::BATCH, transmit::SIGNAL_EVERY)
}

#[inline(never)]
fn new_pool(pd: &Pd, count: u32, size: u32, used_for: BufferUse) -> Result<BufferPool, Status> {
    BufferPool::new(pd, count, size, used_for)
}
