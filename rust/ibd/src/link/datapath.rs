//! What stands between start and stop: a queue pair with its completion queues and buffers, as values that undo themselves.

use core::sync::atomic::{AtomicU64, Ordering};

use gldv3::Mac;
use ibtf::{
    Attachment, BufferPool, BufferUse, ChannelSizes, Cq, CqHandler, Hca, McgInfo, Pd, ReceiveQueue,
    SendQueue, Status, UdChannel, UdChannelConfig,
};
use ipoib::link::Plan;
use ipoib::{LinkAddr, Qpn};
use kernel::sync::Monitor;
use kernel::{KArc, KVec};

use super::backlog::Backlog;
use super::control::Control;
use super::failures::Failure;
use super::receive::Receiver;
use super::replacement::Common;
use super::rings::MOST_TRANSMIT_RINGS;
use super::settings::{Key, LSO_UNIT, Moderation, Settings};
use super::transmit::{self, Abilities, LargePool, Transmitters};
use super::upward::Upward;
use crate::counters::Counters;

/// Pieces of a large send that is sent from where it is: as many as fit the longest request of a ConnectX. 64 KiB are 16 pages, and one
/// more for each write of an application's that begins within a page.
const PIECES: u32 = 59;
/// Payload of the largest send, whatever the adapter could cut: an IPv4 packet's length field ends there.
const LARGEST_SEND: u32 = 65_535;

/// A standing queue pair, and those that only send, for a link with several transmit rings. Take it down with
/// [`Datapath::take_down`].
pub(crate) struct Datapath {
    channel: UdChannel,
    /// `None`: being replaced.
    senders: KVec<Option<UdChannel>>,
    receiver: KArc<Receiver>,
    receive_pool: BufferPool,
    serial: u64,
}

/// A queue pair that is made and does not carry traffic yet.
pub(crate) struct Built {
    datapath: Datapath,
    send: KVec<transmit::Open>,
    receive: ReceiveQueue,
    own: LinkAddr,
    sender_qpns: KVec<Qpn>,
    /// To the broadcast group.
    attachment: Attachment,
}

/// What a queue pair is made from.
pub(crate) struct Parts<'a> {
    pub(crate) pd: &'a Pd,
    pub(crate) port: u8,
    pub(crate) mac: &'a Mac,
    pub(crate) counters: &'a KArc<Counters>,
    pub(crate) control: &'a KArc<Monitor<Control>>,
    pub(crate) backlog: &'a KArc<Monitor<Backlog>>,
    pub(crate) upward: &'a KArc<Monitor<Upward>>,
    pub(crate) transmitters: &'a Transmitters,
    pub(crate) settings: &'a Settings,
}

impl Built {
    /// Makes everything; what was made before a failure undoes itself. **May block.**
    #[inline(never)]
    pub(crate) fn new(parts: &Parts<'_>, plan: &Plan, broadcast: &McgInfo) -> Result<Self, Status> {
        let Parts { pd, settings, .. } = *parts;
        let design = Design::new(parts, plan);
        let sizes = design.sizes;
        // As many again as the adapter holds can be lent.
        let receive_pool = new_pool(pd, 2 * sizes.receive, plan.mtu.receive_buffer(), BufferUse::Receive)?;
        let receiver = Receiver::new(
            parts.mac.clone(),
            parts.counters.clone(),
            parts.control.clone(),
            parts.backlog.clone(),
            parts.upward.clone(),
        )?;
        let receive_cq = new_cq(pd.hca(), sizes.receive, receiver.clone())?;
        moderate(pd.hca(), &receive_cq, settings.receive_moderation());
        let send = KVec::try_from_fn(parts.transmitters.len(), |ring| design.send_side(ring, &receive_cq))?;
        let mut channels = send.iter().map(|side| side.queue.channel().clone());
        // There is one at least.
        let channel = channels.next().ok_or(Status::INVALID_PARAM)?;
        let senders = KVec::from_fn(send.len() - 1, |_| channels.next())?;
        let qpn = |channel: &UdChannel| Qpn::from_low_bits(channel.qpn());
        // Each once more, in the place of the one before it that it may replace one day.
        let place = |n: usize| senders.get(n % senders.len()).and_then(Option::as_ref);
        let sender_qpns = KVec::from_fn(2 * senders.len(), |n| place(n).map_or(qpn(&channel), qpn))?;
        let receive = ReceiveQueue::new(&channel, &receive_pool)?;
        let own = LinkAddr::unicast(qpn(&channel), plan.gid);
        let attachment = channel.attach(broadcast)?;
        let datapath = Datapath { channel, senders, receiver, receive_pool, serial: next_serial() };
        Ok(Self { datapath, send, receive, own, sender_qpns, attachment })
    }

    pub(crate) fn qpn(&self) -> Qpn {
        self.own.qpn()
    }

    /// Splits into what the link keeps and what starts the traffic.
    pub(crate) fn split(self) -> (Datapath, Attachment, Idle) {
        let Self { datapath, send, receive, own, sender_qpns, attachment } = self;
        let cq = datapath.channel.receive_cq().clone();
        let (serial, receiver) = (datapath.serial, datapath.receiver.clone());
        let idle = Idle { send, receive, cq, own, sender_qpns, receiver, serial };
        (datapath, attachment, idle)
    }

    /// Undoes a build that nobody wants any more. **May block.**
    #[inline(never)]
    pub(crate) fn discard(self) -> Pools {
        let (datapath, attachment, idle) = self.split();
        let Idle { send, receive, receiver, .. } = idle;
        drop((attachment, receive, receiver));
        let mut pools = Pools::default();
        send.into_iter().for_each(|side| side.into_pools(&mut pools));
        datapath.undo(&mut pools);
        pools
    }
}

/// A number that no queue pair of this module has had.
pub(crate) fn next_serial() -> u64 {
    static SERIAL: AtomicU64 = AtomicU64::new(1);
    SERIAL.fetch_add(1, Ordering::Relaxed)
}

/// What every queue pair of a link is made by.
pub(crate) struct Design<'a> {
    parts: &'a Parts<'a>,
    plan: &'a Plan,
    abilities: Abilities,
    sizes: ChannelSizes,
}

impl<'a> Design<'a> {
    pub(crate) fn new(parts: &'a Parts<'a>, plan: &'a Plan) -> Self {
        let (hca, settings) = (parts.pd.hca(), parts.settings);
        let abilities = abilities(hca, settings);
        Self { parts, plan, abilities, sizes: sizes(hca, settings, &abilities) }
    }

    /// The queue pair of a transmit ring, and what it sends from. That of the first one receives as well; the others have the link's
    /// receive CQ because they must have one, and no buffers: nobody knows their numbers as an address.
    #[inline(never)]
    pub(crate) fn send_side(&self, ring: usize, receive_cq: &Cq) -> Result<transmit::Open, Status> {
        let Self { parts, plan, abilities, .. } = *self;
        let Parts { pd, settings, .. } = *parts;
        let receive = if ring == 0 { self.sizes.receive } else { 1 };
        let sizes = ChannelSizes { receive, ..self.sizes };
        let transmitter = parts.transmitters.of(ring).ok_or(Status::INVALID_PARAM)?;
        let pool = new_pool(pd, sizes.send, plan.mtu.bytes(), BufferUse::Send)?;
        let send_cq = new_cq(pd.hca(), sizes.send, transmitter.clone())?;
        moderate(pd.hca(), &send_cq, settings.transmit_moderation());
        let config = UdChannelConfig {
            port: parts.port,
            pkey_index: plan.pkey_index,
            qkey: plan.qkey.get(),
            sizes,
            signal_all: false,
            large_sends: abilities.large != 0,
            mapped_sends: abilities.maps(),
        };
        let channel = new_channel(pd, &send_cq, receive_cq, &config)?;
        let queue = new_queue(&channel, sizes.send)?;
        let (spare, large) = (KVec::new(), LargePool::Absent);
        Ok(transmit::Open { queue, pool, spare, abilities, large })
    }
}

/// The ends of a queue pair that do not carry traffic yet.
pub(crate) struct Idle {
    send: KVec<transmit::Open>,
    receive: ReceiveQueue,
    cq: Cq,
    own: LinkAddr,
    sender_qpns: KVec<Qpn>,
    receiver: KArc<Receiver>,
    serial: u64,
}

impl Idle {
    /// Starts the traffic, unless the transmit side was closed since `epoch`: then the send side's buffers come back, to be
    /// closed, and whoever closed it closes the receive side as well.
    pub(crate) fn open(self, transmitters: &Transmitters, epoch: u64) -> Pools {
        let Self { send, receive, cq, own, sender_qpns, receiver, serial } = self;
        let unused = transmitters.open(epoch, serial, send);
        receiver.open(receive, cq, own, sender_qpns);
        unused
    }
}

impl Datapath {
    /// Its receive side.
    pub(crate) fn receiver(&self) -> &KArc<Receiver> {
        &self.receiver
    }

    /// Which queue pair this is: a number no other of this module has.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// To attach groups to, without a lock.
    pub(crate) fn channel(&self) -> &UdChannel {
        &self.channel
    }

    /// All its queue pairs, the one that receives first, but for one that is being replaced.
    pub(crate) fn channels(&self) -> impl Iterator<Item = &UdChannel> {
        core::iter::once(&self.channel).chain(self.senders.iter().flatten())
    }

    /// The transmit ring of the queue pair that something concerns: of the first one, before all, what happens to the receive CQ.
    pub(crate) fn ring_of(&self, failure: Failure) -> Option<usize> {
        if failure.concerns(&self.channel) {
            return Some(0);
        }
        let concerned = |sender: &Option<UdChannel>| sender.as_ref().is_some_and(|s| failure.concerns(s));
        Some(self.senders.iter().position(concerned)? + 1)
    }

    /// Hands out the queue pair of a ring beside the first, to be replaced, and what the new one has to fit.
    pub(crate) fn take_sender(&mut self, ring: usize) -> Option<(Common, UdChannel)> {
        let channel = self.senders.get_mut(ring.checked_sub(1)?)?.take()?;
        let common = Common {
            serial: self.serial,
            receive_cq: self.channel.receive_cq().clone(),
            receiver: self.receiver.clone(),
        };
        Some((common, channel))
    }

    /// Its successor; comes back if there is no place for it.
    pub(crate) fn put_sender(&mut self, ring: usize, channel: UdChannel) -> Option<UdChannel> {
        match ring.checked_sub(1).and_then(|sender| self.senders.get_mut(sender)) {
            Some(place) if place.is_none() => {
                *place = Some(channel);
                None
            }
            _ => Some(channel),
        }
    }

    /// Ends the traffic and frees everything; pools whose buffers are still lent come back, to be closed later. Whatever it is
    /// attached to has to be detached first ([`Shared::attach`](super::Shared::attach)). **May block**, with no lock held.
    #[inline(never)]
    pub(crate) fn take_down(self, transmitters: &Transmitters) -> Pools {
        let mut pools = transmitters.close();
        self.undo(&mut pools);
        pools
    }

    /// `pools` are its send sides'.
    #[inline(never)]
    fn undo(self, pools: &mut Pools) {
        let Self { channel, senders, receiver, receive_pool, .. } = self;
        receiver.close();
        // The last clones, unless somebody is attaching a group just now: frees queue pairs and CQs, and what the adapter had
        // comes home.
        drop((channel, senders));
        pools.add(receive_pool);
        pools.close();
    }
}

/// Buffers of queue pairs that carry no traffic any more: small and large ones of each sender, and those of the receiver.
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

/// What the adapter does for a sender, as far as the administrator lets it.
pub(crate) fn abilities(hca: &Hca, settings: &Settings) -> Abilities {
    let hca = hca.attributes();
    let checksum = hca.checksum_offload();
    let cuts = checksum && settings.is_on(Key::LsoEnable) && hca.max_lso_size() > 0;
    let large = if cuts { hca.max_lso_size().min(LARGEST_SEND) } else { 0 };
    let maps = hca.maps_memory() && hca.max_ud_send_sgl() > 1;
    let copy_up_to = if maps { settings.get(Key::TxCopyThresh) } else { u32::MAX };
    Abilities { checksum, large, large_header: hca.max_lso_header(), copy_up_to }
}

/// Buffers for large sends, for a link that has turned out to need them. **May block.**
#[inline(never)]
pub(crate) fn large_pool(pd: &Pd, settings: &Settings) -> Result<BufferPool, Status> {
    let size = LARGEST_SEND.next_multiple_of(LSO_UNIT);
    let count = settings.get(Key::NumLsoBufs) * LSO_UNIT / size;
    BufferPool::new(pd, count, size, BufferUse::Send)
}

/// How large the queues shall be, as far as the adapter goes along.
fn sizes(hca: &Hca, settings: &Settings, abilities: &Abilities) -> ChannelSizes {
    let hca = hca.attributes();
    let most = hca.max_channel_size().min(hca.max_cq_size()).max(1);
    ChannelSizes {
        send: settings.get(Key::NumSwqe).min(most),
        receive: settings.get(Key::NumRwqe).min(most),
        // The header of a large send takes as much room as several pieces, also if the rest is copied into one.
        send_sgl: if abilities.large != 0 { hca.max_ud_send_sgl().min(PIECES) } else { 1 },
        receive_sgl: 1,
    }
}

/// Sets a CQ's interrupt moderation, within the adapter's bounds; one without moderation interrupts more often. **May block.**
pub(crate) fn moderate(hca: &Hca, cq: &Cq, moderation: Moderation) {
    let (count, micros) = hca.attributes().max_moderation();
    let _ = cq.moderate(moderation.count.min(count), moderation.micros.min(micros));
}

#[inline(never)]
fn new_channel(
    pd: &Pd,
    send_cq: &Cq,
    receive_cq: &Cq,
    config: &UdChannelConfig,
) -> Result<UdChannel, Status> {
    UdChannel::new(pd, send_cq, receive_cq, config)
}

#[inline(never)]
fn new_queue(channel: &UdChannel, ring: u32) -> Result<SendQueue<()>, Status> {
    SendQueue::new(channel, ring, transmit::BATCH, transmit::SIGNAL_EVERY)
}

#[inline(never)]
fn new_pool(pd: &Pd, count: u32, size: u32, used_for: BufferUse) -> Result<BufferPool, Status> {
    BufferPool::new(pd, count, size, used_for)
}

#[inline(never)]
fn new_cq<H: CqHandler>(hca: &Hca, ring: u32, handler: KArc<H>) -> Result<Cq, Status> {
    Cq::new(hca, ring, true, handler)
}
