//! The queue pairs of a link, with their CQs: made as soon as the port tells where the P_Key is, and freed when the link stops.
//!
//! The number of the first one is in the link's address, which is known as soon as they are made. Until they carry something
//! ([`super::traffic`]) they are closed: no buffers are posted, and their Q_Key is one that nobody knows.
//!
//! What has failed, or has to carry something else, is freed, and others are made: the link gets another address. IBTF could make a queue
//! pair ready again under its number (`ibt_recycle_ud`), but `hermon` does not: it leaves the owner bits in the slots of the send queue as
//! they were (`hermon_wrid_from_reset_handling`), so a ConnectX then sends nothing, or requests of before, whose memory is somebody else's.

use ibtf::{ChannelSizes, Cq, CqHandler, Hca, Status, UdChannel, UdChannelConfig};
use ipoib::QKey;
use ipoib::link::Generation;
use kernel::{AllocError, KArc, KVec};

use super::build_context::BuildContext;
use super::incoming::Listening;
use super::qp_failures::Failure;
use super::receive::{ReceiveConfig, Receiver};
use super::settings::{Key, Moderation, Settings};
use super::transmit::Abilities;
use crate::secret;

/// Pieces of a large send that is sent from where it is: as many as fit the longest request of a ConnectX. 64 KiB are 16 pages, and one
/// more for each write of an application's that begins within a page.
const PIECES: u32 = 59;
/// Payload of the largest send, whatever the adapter could cut: an IPv4 packet's length field ends there.
pub(crate) const LARGEST_SEND: u32 = 65_535;

/// See the module's text.
pub(crate) struct QueuePairs {
    /// Neighbours can ask for connections with the first one's number. Ends before that number can be another's.
    listening: Option<Listening>,
    /// It alone receives, and is attached to groups.
    first: UdChannel,
    /// Those that only send, of the transmit rings beside the first; `None`: being replaced.
    senders: KVec<Option<UdChannel>>,
    receiver: KArc<Receiver>,
    queue_config: QueueConfig,
    keys: QpKeys,
    generation: Generation,
    /// One of them has failed: others are to be made before anything is carried.
    spent: bool,
}

/// How large the queues are, and what is done with them.
#[derive(Clone, Copy)]
pub(crate) struct QueueConfig {
    pub(crate) sizes: ChannelSizes,
    pub(crate) abilities: Abilities,
}

/// In which partition they are, and who may send to them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct QpKeys {
    pub(crate) pkey_index: u16,
    pub(crate) qkey: QKey,
}

impl QpKeys {
    /// Of a queue pair that no host can send to: the upper bit keeps out every sender without privileges, and the rest is a secret.
    pub(crate) fn closed(pkey_index: u16) -> Self {
        Self { pkey_index, qkey: QKey::new(1 << 31 | secret() as u32) }
    }
}

/// What to do with the queue pairs, for whoever does it without a lock.
pub(crate) struct QueuePairHandles {
    /// In the order of the rings; the first is there.
    pub(crate) channels: KVec<Option<UdChannel>>,
    pub(crate) receiver: KArc<Receiver>,
    pub(crate) queue_config: QueueConfig,
    pub(crate) keys: QpKeys,
    pub(crate) generation: Generation,
    /// Neighbours can ask for connections, and the link's address says so.
    pub(crate) listens: bool,
}

impl QueueConfig {
    pub(crate) fn new(hca: &Hca, settings: &Settings) -> Self {
        let abilities = abilities(hca, settings);
        Self { sizes: sizes(hca, settings, &abilities), abilities }
    }

    /// The queue pair of a transmit ring, with its CQ. That of the first one receives as well; the others have the link's receive CQ
    /// because they must have one, and no buffers: nobody knows their numbers as an address. **May block.**
    #[inline(never)]
    pub(crate) fn channel(
        &self,
        parts: &BuildContext<'_>,
        ring: usize,
        receive_cq: &Cq,
        keys: QpKeys,
    ) -> Result<UdChannel, Status> {
        let BuildContext { pd, settings, .. } = *parts;
        let receive = if ring == 0 { self.sizes.receive } else { 1 };
        let sizes = ChannelSizes { receive, ..self.sizes };
        let interrupt = parts.interrupts.transmit(ring).ok_or(Status::INVALID_PARAM)?;
        let send_cq = new_cq(pd.hca(), sizes.send, interrupt.clone())?;
        moderate(pd.hca(), &send_cq, settings.transmit_moderation());
        let config = UdChannelConfig {
            port: parts.port,
            pkey_index: keys.pkey_index,
            qkey: keys.qkey.get(),
            sizes,
            signal_all: false,
            large_sends: self.abilities.large != 0,
            mapped_sends: self.abilities.maps(),
        };
        UdChannel::new(pd, &send_cq, receive_cq, &config)
    }
}

impl QueuePairs {
    /// Makes them; what was made before a failure undoes itself. **May block.**
    #[inline(never)]
    pub(crate) fn new(
        parts: &BuildContext<'_>,
        keys: QpKeys,
        generation: Generation,
    ) -> Result<Self, Status> {
        let BuildContext { pd, settings, .. } = *parts;
        let queue_config = QueueConfig::new(pd.hca(), settings);
        let receiver = Receiver::new(
            parts.mac.clone(),
            parts.counters.clone(),
            parts.control.clone(),
            parts.backlog.clone(),
            parts.delivery.clone(),
            ReceiveConfig::new(settings),
        )?;
        let receive_cq = new_cq(pd.hca(), queue_config.sizes.receive, parts.interrupts.receive().clone())?;
        moderate(pd.hca(), &receive_cq, settings.receive_moderation());
        let first = queue_config.channel(parts, 0, &receive_cq, keys)?;
        let sender = |n| queue_config.channel(parts, n + 1, &receive_cq, keys).map(Some);
        let senders = KVec::try_from_fn(parts.transmitters.len() - 1, sender)?;
        Ok(Self { first, senders, receiver, queue_config, keys, generation, spent: false, listening: None })
    }

    /// Neighbours can ask for connections from now on; what is left was not wanted.
    pub(super) fn listen(&mut self, listening: &mut Option<Listening>) {
        if self.listening.is_none() {
            self.listening = listening.take();
        }
    }

    /// Whether they can, or these are not the queue pairs with that number.
    pub(super) fn is_listening(&self, generation: Generation) -> bool {
        self.listening.is_some() || self.generation != generation
    }

    /// Which queue pairs these are, whatever they carry.
    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    /// Whether they can carry something at this place of the P_Key table.
    pub(crate) fn are_of_use_at(&self, pkey_index: u16) -> bool {
        !self.spent && self.keys.pkey_index == pkey_index
    }

    /// To attach groups to, without a lock.
    pub(crate) fn first(&self) -> &UdChannel {
        &self.first
    }

    /// The receive side.
    pub(crate) fn receiver(&self) -> &KArc<Receiver> {
        &self.receiver
    }

    /// All of them, the one that receives first, but for one that is being replaced.
    pub(crate) fn channels(&self) -> impl Iterator<Item = &UdChannel> {
        core::iter::once(&self.first).chain(self.senders.iter().flatten())
    }

    /// The transmit ring of the queue pair that something concerns: of the first one, before all, what happens to the receive CQ.
    pub(crate) fn ring_of(&self, failure: Failure) -> Option<(usize, &UdChannel)> {
        let all = core::iter::once(Some(&self.first)).chain(self.senders.iter().map(Option::as_ref));
        let mut all = all.enumerate().filter_map(|(ring, channel)| Some((ring, channel?)));
        all.find(|(_, channel)| failure.concerns(channel))
    }

    /// That of a transmit ring, unless it is being replaced.
    pub(crate) fn channel_of(&self, ring: usize) -> Option<&UdChannel> {
        match ring.checked_sub(1) {
            None => Some(&self.first),
            Some(sender) => self.senders.get(sender)?.as_ref(),
        }
    }

    /// Hands out the queue pair of a ring beside the first, to be replaced.
    pub(crate) fn take_sender(&mut self, ring: usize) -> Option<UdChannel> {
        self.senders.get_mut(ring.checked_sub(1)?)?.take()
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

    pub(crate) fn handles(&self) -> Result<QueuePairHandles, AllocError> {
        let channel = |ring| self.channel_of(ring).cloned();
        let (receiver, generation) = (self.receiver.clone(), self.generation);
        let channels = KVec::from_fn(self.senders.len() + 1, channel)?;
        let listens = self.listening.is_some();
        Ok(QueuePairHandles {
            channels,
            receiver,
            queue_config: self.queue_config,
            keys: self.keys,
            generation,
            listens,
        })
    }

    /// Whoever has this Q_Key reaches them from now on.
    pub(crate) fn opened_to(&mut self, qkey: QKey) {
        self.keys.qkey = qkey;
    }

    /// One of them has failed.
    pub(crate) fn failed(&mut self) {
        self.spent = true;
    }
}

impl QueuePairHandles {
    /// What senders may do. Without anybody who listens the link is one of datagrams, as its address says.
    pub(crate) fn abilities(&self) -> Abilities {
        let abilities = self.queue_config.abilities;
        Abilities { connected: abilities.connected && self.listens, ..abilities }
    }

    pub(crate) fn first(&self) -> Result<&UdChannel, Status> {
        self.channels.first().and_then(Option::as_ref).ok_or(Status::CHAN_HDL_INVALID)
    }
}

/// What the adapter does for a sender, as far as the administrator lets it.
pub(crate) fn abilities(hca: &Hca, settings: &Settings) -> Abilities {
    let hca = hca.attributes();
    let connected = settings.connected;
    // Whether a packet goes on a connection, where nobody computes anything, is not known before it is there.
    let checksum = hca.checksum_offload() && !connected;
    let cuts = checksum && settings.is_on(Key::LsoEnable) && hca.max_lso_size() > 0;
    let large = if cuts { hca.max_lso_size().min(LARGEST_SEND) } else { 0 };
    let maps = hca.maps_memory() && hca.max_ud_send_sgl() > 1;
    let copy_up_to = if maps { settings.get(Key::TxCopyThresh) } else { u32::MAX };
    Abilities { checksum, large, large_header: hca.max_lso_header(), copy_up_to, connected }
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
fn new_cq<H: CqHandler>(hca: &Hca, ring: u32, handler: KArc<H>) -> Result<Cq, Status> {
    Cq::new(hca, ring, handler)
}
