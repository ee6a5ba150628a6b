//! What the queue pairs of a link carry while it has a port and a broadcast group: their buffers and queues, as values that undo
//! themselves.

use ibtf::{Attachment, BufferPool, BufferUse, Pd, ReceiveQueue, SendQueue, Status, UdChannel};
use ipoib::link::{Generation, Plan, Standing};
use ipoib::{LinkAddr, Mtu, Qpn};
use kernel::{KArc, KVec};

use super::build_context::BuildContext;
use super::limits::{MOST_TRANSMIT_RINGS, SIGNAL_EVERY};
use super::neighbour::NeighbourPath;
use super::queue_pairs::{LARGEST_SEND, QueuePairHandles};
use super::receive::{ReceiveSide, Receiver};
use super::settings::{Key, LSO_UNIT, Settings};
use super::transmit::{self, SendSide, Transmitters, Wire};

/// Both sides of a link's traffic, made ready for a generation that does not carry anything yet.
pub(crate) struct BuiltTraffic {
    generation: Generation,
    send: KVec<SendSide>,
    receive: ReceiveSide,
    receiver: KArc<Receiver>,
    /// To the broadcast group.
    attachment: Attachment,
}

impl BuiltTraffic {
    /// Makes everything beside `attachment`, which is the first queue pair's to the broadcast group; what was made before a failure undoes
    /// itself. **May block.**
    #[inline(never)]
    pub(crate) fn new(
        parts: &BuildContext<'_>,
        handles: &QueuePairHandles,
        Standing { generation, plan }: &Standing,
        attachment: Attachment,
    ) -> Result<Self, Status> {
        let first = handles.first()?;
        // As many again as the adapter holds can be lent.
        let (count, size) = (2 * handles.queue_config.sizes.receive, plan.mtu.receive_buffer());
        let pool = new_pool(parts.pd, count, size, BufferUse::Receive)?;
        let send = KVec::try_from_fn(handles.channels.len(), |ring| {
            let channel =
                handles.channels.get(ring).and_then(Option::as_ref).ok_or(Status::CHAN_HDL_INVALID)?;
            send_side(parts, handles, channel, plan.mtu)
        })?;
        let senders = send.len() - 1;
        let qpn = |side: &SendSide| Qpn::from_low_bits(side.queue.channel().qpn());
        let own = LinkAddr::unicast(Qpn::from_low_bits(first.qpn()), plan.gid);
        let own = if handles.listens { own.with_connections() } else { own };
        // Each once more, in the place of the one before it that it may replace one day.
        let place = |n: usize| send.get(n % senders + 1).map_or(own.qpn(), qpn);
        let senders = KVec::from_fn(2 * senders, place)?;
        let queue = ReceiveQueue::new(first, &pool)?;
        let receive = ReceiveSide { queue, pool, cq: first.receive_cq().clone(), own, senders };
        Ok(Self { generation: *generation, send, receive, receiver: handles.receiver.clone(), attachment })
    }

    /// Gives the adapter its buffers, and then lets in who has the link's Q_Key. A failure leaves the queue pairs with something to
    /// forget. **May block.**
    #[inline(never)]
    pub(crate) fn post_receives(&mut self, handles: &QueuePairHandles, plan: &Plan) -> Result<(), Status> {
        self.receive.queue.refill()?;
        if handles.keys.qkey == plan.qkey {
            return Ok(());
        }
        handles.channels.iter().flatten().try_for_each(|channel| channel.set_qkey(plan.qkey.get()))
    }

    pub(crate) fn qpn(&self) -> Qpn {
        self.receive.own.qpn()
    }

    /// The attachment, which the link keeps, and what starts the traffic.
    pub(crate) fn split(self) -> (Attachment, Start) {
        let Self { generation, send, receive, receiver, attachment } = self;
        (attachment, Start { generation, send, receive, receiver })
    }

    /// Undoes what nobody wants any more. Its buffers, some of which the adapter may have. **May block.**
    #[inline(never)]
    pub(crate) fn discard(self) -> Pools {
        let Self { send, receive, attachment, .. } = self;
        drop(attachment);
        let mut pools = Pools::default();
        send.into_iter().for_each(|side| side.into_pools(&mut pools));
        pools.add(receive.into_pool());
        pools
    }
}

/// What a queue pair sends from. **May block.**
#[inline(never)]
pub(crate) fn send_side(
    parts: &BuildContext<'_>,
    handles: &QueuePairHandles,
    channel: &UdChannel,
    mtu: Mtu,
) -> Result<SendSide, Status> {
    let sends = handles.queue_config.sizes.send;
    let pool = new_pool(parts.pd, sends, mtu.bytes(), BufferUse::Send)?;
    let queue = new_queue(channel, sends)?;
    Ok(SendSide::new(queue, pool, handles.abilities()))
}

/// Both sides of traffic that does not flow yet.
pub(crate) struct Start {
    generation: Generation,
    send: KVec<SendSide>,
    receive: ReceiveSide,
    receiver: KArc<Receiver>,
}

impl Start {
    /// Starts the traffic, unless its generation is over: the buffers of each side that was not opened, to be closed.
    pub(crate) fn open(self, transmitters: &Transmitters) -> Pools {
        let Self { generation, send, receive, receiver } = self;
        let mut unused = transmitters.open(generation, send);
        if let Some(side) = Receiver::open(&receiver, generation, receive) {
            unused.add(side.into_pool());
        }
        unused
    }
}

/// Ends all traffic of generations up to this one: nothing is sent and nothing taken from the CQ once this returns. Its buffers; some
/// of them are the adapter's until the queue pairs are freed. **May block**, with no lock held.
#[inline(never)]
pub(crate) fn end_traffic(
    transmitters: &Transmitters,
    receiver: Option<&KArc<Receiver>>,
    up_to: Option<Generation>,
) -> Pools {
    let mut pools = transmitters.close(up_to);
    if let Some(pool) = receiver.and_then(|receiver| receiver.close(up_to)) {
        pools.add(pool);
    }
    pools
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
fn new_queue(channel: &UdChannel, ring: u32) -> Result<SendQueue<Wire, NeighbourPath>, Status> {
    SendQueue::new(channel, ring, transmit::BATCH, SIGNAL_EVERY)
}

#[inline(never)]
fn new_pool(pd: &Pd, count: u32, size: u32, used_for: BufferUse) -> Result<BufferPool, Status> {
    BufferPool::new(pd, count, size, used_for)
}
