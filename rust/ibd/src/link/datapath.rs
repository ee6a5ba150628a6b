//! What stands between start and stop: a queue pair with its completion queues and buffers, as values that undo themselves.

use core::sync::atomic::{AtomicU64, Ordering};

use gldv3::Mac;
use ibtf::{
    Attachment, BufferPool, BufferUse, ChannelSizes, Cq, CqHandler, Hca, McgInfo, Pd, ReceiveQueue,
    SendQueue, Status, UdChannel, UdChannelConfig,
};
use ipoib::link::Plan;
use ipoib::{LinkAddr, Mgid, PKey, Qpn, Scope};
use kernel::sync::Monitor;
use kernel::{KArc, KVec};

use super::control::Control;
use super::receive::Receiver;
use super::transmit::{self, Transmitter};
use crate::counters::Counters;
use crate::node;

/// Sends, and receives, that the adapter holds at most.
const RING: u32 = 512;
/// Receive buffers beside those the adapter holds: what may be lent at once.
const LENDABLE: u32 = 512;
/// Completions, and microseconds, before an interrupt: receive and transmit.
const MODERATION: [(u32, u32); 2] = [(4, 10), (16, 300)];

/// A standing queue pair. Take it down with [`Datapath::take_down`].
pub(crate) struct Datapath {
    channel: UdChannel,
    attachments: KVec<(Mgid, u16, Attachment)>,
    receiver: KArc<Receiver>,
    receive_pool: BufferPool,
    serial: u64,
}

/// A queue pair that is made and does not carry traffic yet.
pub(crate) struct Built {
    datapath: Datapath,
    send: transmit::Open,
    receive: ReceiveQueue,
    own: LinkAddr,
}

/// What a queue pair is made from.
pub(crate) struct Parts<'a> {
    pub(crate) pd: &'a Pd,
    pub(crate) port: u8,
    pub(crate) pkey: PKey,
    pub(crate) mac: &'a Mac,
    pub(crate) counters: &'a KArc<Counters>,
    pub(crate) control: &'a KArc<Monitor<Control>>,
    pub(crate) transmitter: &'a KArc<Transmitter>,
}

impl Built {
    /// Makes everything; what was made before a failure undoes itself. **May block.**
    #[inline(never)]
    pub(crate) fn new(
        parts: &Parts<'_>,
        plan: &Plan,
        broadcast: &McgInfo,
        scope: Scope,
    ) -> Result<Self, Status> {
        let Parts { pd, port, pkey, .. } = *parts;
        let ring = ring_size(pd.hca());
        let receive_pool =
            BufferPool::new(pd, ring + LENDABLE, plan.mtu.receive_buffer(), BufferUse::Receive)?;
        let send_pool = new_pool(pd, ring, plan.mtu.bytes(), BufferUse::Send)?;
        let receiver = Receiver::new(parts.mac.clone(), parts.counters.clone(), parts.control.clone())?;
        let receive_cq = new_cq(pd.hca(), ring, receiver.clone())?;
        let send_cq = new_cq(pd.hca(), ring, parts.transmitter.clone())?;
        for (cq, (count, micros)) in [&receive_cq, &send_cq].into_iter().zip(MODERATION) {
            // An adapter without moderation interrupts more often.
            let _ = cq.moderate(count, micros);
        }
        let config = UdChannelConfig {
            port,
            pkey_index: plan.pkey_index,
            qkey: plan.qkey.get(),
            sizes: ChannelSizes { send: ring, receive: ring, send_sgl: 1, receive_sgl: 1 },
            signal_all: false,
            large_sends: false,
            mapped_sends: false,
        };
        let channel = new_channel(pd, &send_cq, &receive_cq, &config)?;
        let queue = new_queue(&channel, ring)?;
        let receive = ReceiveQueue::new(&channel, &receive_pool)?;
        let own = LinkAddr::unicast(Qpn::from_low_bits(channel.qpn()), plan.gid);
        let attachment = channel.attach(broadcast)?;
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let mut datapath = Datapath { channel, attachments: KVec::new(), receiver, receive_pool, serial };
        datapath.keep(broadcast, attachment).map_err(|_| Status::INSUFF_KERNEL_RESOURCE)?;
        Ok(Self { datapath, send: transmit::Open { queue, pool: send_pool, scope, pkey }, receive, own })
    }

    pub(crate) fn qpn(&self) -> Qpn {
        self.own.qpn()
    }

    /// Splits into what the link keeps and what starts the traffic.
    pub(crate) fn split(self) -> (Datapath, Idle) {
        let Self { datapath, send, receive, own } = self;
        let idle = Idle { send, receive, own, receiver: datapath.receiver.clone() };
        (datapath, idle)
    }

    /// Undoes a build that nobody wants any more. **May block.**
    #[inline(never)]
    pub(crate) fn discard(self) -> [Option<BufferPool>; 2] {
        let (datapath, idle) = self.split();
        let Idle { send, receive, receiver, .. } = idle;
        drop((receive, receiver));
        datapath.undo(Some(send))
    }
}

/// The ends of a queue pair that do not carry traffic yet.
pub(crate) struct Idle {
    send: transmit::Open,
    receive: ReceiveQueue,
    own: LinkAddr,
    receiver: KArc<Receiver>,
}

impl Idle {
    /// Starts the traffic, unless the transmit side was closed since `epoch`: then the send side's buffers come back, to be
    /// closed.
    pub(crate) fn open(self, transmitter: &Transmitter, epoch: u64) -> Option<BufferPool> {
        let Self { send, receive, own, receiver } = self;
        let cq = send.queue.channel().receive_cq().clone();
        match transmitter.open(epoch, send) {
            None => {
                receiver.open(receive, cq, own);
                None
            }
            Some(transmit::Open { pool, .. }) => Some(pool),
        }
    }
}

impl Datapath {
    /// Which queue pair this is: a number no other of this module has.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// To attach groups to, without a lock.
    pub(crate) fn channel(&self) -> &UdChannel {
        &self.channel
    }

    /// Whether a group is let in as it is now.
    pub(crate) fn lets_in(&self, group: &McgInfo) -> bool {
        let mgid = Mgid::new(node::gid(group.address.dgid));
        self.attachments
            .iter()
            .any(|(attached, mlid, _)| Some(*attached) == mgid && *mlid == group.address.dlid)
    }

    /// Keeps an attachment for as long as the queue pair stands, or hands it back.
    pub(crate) fn keep(&mut self, group: &McgInfo, attachment: Attachment) -> Result<(), Attachment> {
        let Some(mgid) = Mgid::new(node::gid(group.address.dgid)) else { return Err(attachment) };
        if self.attachments.reserve(1).is_err() {
            return Err(attachment);
        }
        let kept = self.attachments.push_within_capacity((mgid, group.address.dlid, attachment));
        kept.map_err(|(.., attachment)| attachment)
    }

    /// What must be dropped, without a lock, so that a group is let in no more.
    pub(crate) fn detach(&mut self, mgid: Mgid) -> Option<Attachment> {
        let at = self.attachments.iter().position(|(attached, ..)| *attached == mgid)?;
        self.attachments.swap_remove(at).map(|(.., attachment)| attachment)
    }

    /// Ends the traffic and frees everything; pools whose buffers are still lent come back, to be closed later. **May
    /// block**, with no lock held.
    pub(crate) fn take_down(self, transmitter: &Transmitter) -> [Option<BufferPool>; 2] {
        let send = transmitter.close();
        self.undo(send)
    }

    fn undo(self, send: Option<transmit::Open>) -> [Option<BufferPool>; 2] {
        let Self { channel, attachments, receiver, receive_pool, .. } = self;
        receiver.close();
        drop(attachments);
        let send_pool = send.map(|transmit::Open { queue, pool, .. }| {
            drop(queue);
            pool
        });
        // The last clone, unless somebody is attaching a group just now: frees queue pair and CQs, and what the adapter
        // had comes home.
        drop(channel);
        [send_pool, Some(receive_pool)].map(|pool| pool.and_then(|pool| pool.close().err()))
    }
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

fn ring_size(hca: &Hca) -> u32 {
    let attributes = hca.attributes();
    RING.min(attributes.max_channel_size()).min(attributes.max_cq_size()).max(1)
}
