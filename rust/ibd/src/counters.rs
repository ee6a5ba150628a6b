//! What a link counts. Every packet is in exactly one of "sent" and the transmit drops, or "received" and the receive drops.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering};

use gldv3::Stat;
use ibtf::Status;
use ipoib::Cast;
use ipoib::header::{GRH_LEN, Rejected};
use ipoib::link::{self, BroadcastState, WaitsFor};
use ipoib::paths;
use kernel::counter::{CacheLine, Counter, sum};
use kernel::kstat::Source;
use kernel::{AllocError, KArc, KVec};

use crate::probes;

/// Why a packet to send was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum TxDrop {
    /// The link is not up.
    LinkDown,
    /// Less than a pseudo header in front, or nothing behind it that could be a packet.
    Malformed,
    /// An address that neither a group nor a port can have.
    BadDestination,
    /// Longer than the link's SDU.
    TooLong,
    /// See [`paths::DropReason::Unreachable`].
    Unreachable,
    /// See [`paths::DropReason::LookupFailed`].
    LookupFailed,
    /// See [`paths::DropReason::QueueFull`].
    QueueFull,
    /// See [`paths::DropReason::TableFull`].
    TableFull,
    /// See [`paths::DropReason::LinkReset`].
    LinkReset,
    /// The adapter takes no sends: the queue pair has failed, or is full.
    PostFailed,
    /// The adapter refused this one, and takes others.
    Refused,
    /// A large send that must be copied, and no memory for that.
    NoLargeBuffer,
}

/// Why a received frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum RxDrop {
    /// Our own multicast, come back: dropped on purpose, no error.
    OwnMulticast,
    /// Shorter than GRH and IPoIB header.
    Short,
    /// The adapter reported an error.
    Completion,
    /// No memory for a message.
    NoMemory,
    /// The link was stopped, or got another queue pair, between a completion and its packet.
    LinkReset,
}

const TX_DROPS: usize = TxDrop::NoLargeBuffer as usize + 1;
const RX_DROPS: usize = RxDrop::LinkReset as usize + 1;

impl From<paths::DropReason> for TxDrop {
    fn from(reason: paths::DropReason) -> Self {
        match reason {
            paths::DropReason::Unreachable => Self::Unreachable,
            paths::DropReason::LookupFailed => Self::LookupFailed,
            paths::DropReason::QueueFull => Self::QueueFull,
            paths::DropReason::TableFull => Self::TableFull,
            paths::DropReason::LinkReset => Self::LinkReset,
        }
    }
}

impl From<Rejected> for RxDrop {
    fn from(rejected: Rejected) -> Self {
        match rejected {
            Rejected::Short => Self::Short,
            Rejected::OwnMulticast => Self::OwnMulticast,
        }
    }
}

/// One direction's packets.
#[derive(Default)]
struct Traffic {
    packets: Counter,
    bytes: Counter,
    multicast: Counter,
    broadcast: Counter,
}

impl Traffic {
    /// With the lock of the queue whose packets these are.
    fn count(&self, tally: &Tally) {
        self.packets.add_alone(tally.packets);
        self.bytes.add_alone(tally.bytes);
        if tally.multicast | tally.broadcast != 0 {
            self.multicast.add_alone(tally.multicast);
            self.broadcast.add_alone(tally.broadcast);
        }
    }
}

/// Packets of one batch, counted together: a counter is shared by every processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    packets: u64,
    bytes: u64,
    multicast: u64,
    broadcast: u64,
}

impl Tally {
    /// `bytes` in all, IPoIB headers included.
    #[inline]
    pub(crate) fn add(&mut self, cast: Cast, packets: u32, bytes: u32) {
        self.packets += u64::from(packets);
        self.bytes += u64::from(bytes);
        if cast != Cast::Unicast {
            self.add_to_group(cast, packets);
        }
    }

    #[inline(never)]
    fn add_to_group(&mut self, cast: Cast, packets: u32) {
        if let Some(count) = self.groups_count(cast) {
            *count += u64::from(packets);
        }
    }

    /// None any more.
    #[inline]
    pub(crate) fn clear(&mut self) {
        (self.packets, self.bytes) = (0, 0);
        if self.multicast | self.broadcast != 0 {
            (self.multicast, self.broadcast) = (0, 0);
        }
    }

    /// Undoes [`Tally::add`].
    pub(crate) fn take_out(&mut self, cast: Cast, packets: u32, bytes: u32) {
        self.packets = self.packets.saturating_sub(packets.into());
        self.bytes = self.bytes.saturating_sub(bytes.into());
        if let Some(count) = self.groups_count(cast) {
            *count = count.saturating_sub(packets.into());
        }
    }

    fn groups_count(&mut self, cast: Cast) -> Option<&mut u64> {
        match cast {
            Cast::Unicast => None,
            Cast::Multicast => Some(&mut self.multicast),
            Cast::Broadcast => Some(&mut self.broadcast),
        }
    }

    /// A received frame: `buffer` bytes of it, the GRH's 40 included, which are not counted.
    pub(crate) fn add_received(&mut self, cast: Cast, buffer: u32) {
        self.add(cast, 1, buffer.saturating_sub(GRH_LEN as u32));
    }
}

/// What the transmit side writes where something is out of the ordinary; what it sends is counted by ring.
#[derive(Default)]
pub(crate) struct TxCounters {
    link: i32,
    drops: [Counter; TX_DROPS],
    /// Packets given back to the MAC layer for want of a slot; they come again.
    pub(crate) put_off: Counter,
    /// Sends that the adapter took and then failed.
    pub(crate) failed: Counter,
    /// Packets the adapter was given where they are, without a copy.
    pub(crate) mapped: Counter,
    /// Large sends, each of which the adapter cuts into packets.
    pub(crate) large: Counter,
    /// Queue pairs replaced because they did not complete sends.
    pub(crate) timeouts: Counter,
}

impl TxCounters {
    /// The number of the link that these are of.
    pub(crate) fn link(&self) -> i32 {
        self.link
    }

    /// A packet that goes no further.
    pub(crate) fn dropped(&self, reason: TxDrop) {
        self.dropped_many(reason, 1);
    }

    /// Several packets that go no further.
    pub(crate) fn dropped_many(&self, reason: TxDrop, packets: usize) {
        if packets != 0 {
            self.drops[reason as usize].add(packets as u64);
            probes::tx_drop(self.link, Counters::NAMES[reason as usize], packets);
        }
    }
}

/// What the receive side writes.
#[derive(Default)]
pub(crate) struct RxCounters {
    link: i32,
    received: Traffic,
    drops: [Counter; RX_DROPS],
    /// Frames passed up in the adapter's own buffer.
    pub(crate) lent: Counter,
    /// Frames passed up as a copy.
    pub(crate) copied: Counter,
    /// Interrupts that left the rest to a thread.
    pub(crate) left: Counter,
    /// Frames that the MAC layer fetched from the receive ring with its interrupt off.
    pub(crate) fetched: Counter,
    /// How often it switched that interrupt off.
    pub(crate) quiet: Counter,
}

impl RxCounters {
    /// Frames passed up, `copied` of them as a copy and the others in the adapter's own buffer. By the one thread that is on the way
    /// up (`link/upward.rs`), for datagrams and messages of connections.
    pub(crate) fn received(&self, tally: &Tally, copied: u64) {
        self.received.count(tally);
        self.copied.add_alone(copied);
        self.lent.add_alone(tally.packets.saturating_sub(copied));
    }

    /// A frame that goes no further.
    pub(crate) fn dropped(&self, reason: RxDrop) {
        self.drops[reason as usize].increment();
        probes::rx_drop(self.link, Counters::NAMES[TX_DROPS + reason as usize]);
    }

    /// Several frames that go no further.
    pub(crate) fn dropped_many(&self, reason: RxDrop, frames: usize) {
        (0..frames).for_each(|_| self.dropped(reason));
    }
}

/// What the SA is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Asked {
    /// The path to an address.
    Path,
    /// Membership in a group; creates it, if need be and allowed.
    Join,
    /// An end of it.
    Leave,
    /// Which groups there are.
    Query,
}

impl Asked {
    /// As probes and the log have it.
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Self::Path => c"path",
            Self::Join => c"join",
            Self::Leave => c"leave",
            Self::Query => c"query",
        }
    }
}

const QUESTIONS: usize = Asked::Query as usize + 1;

/// Calls to the SA; some questions about paths and groups the communication manager answers from memory.
#[derive(Default)]
pub(crate) struct SaCounters {
    asked: [Counter; QUESTIONS],
    failed: [Counter; QUESTIONS],
    /// `ibt_status_t` of the last failure.
    last_failure: AtomicU32,
}

impl SaCounters {
    /// A call is about to be made.
    pub(crate) fn ask(&self, what: Asked) {
        self.asked[what as usize].increment();
    }

    /// And this came of it.
    pub(crate) fn note(&self, what: Asked, result: Result<(), Status>) {
        if let Err(status) = result {
            self.failed[what as usize].increment();
            self.last_failure.store(status.get(), Ordering::Relaxed);
        }
    }

    /// `ibt_status_t` of the last failure; 0 if there was none.
    pub(crate) fn last_failure(&self) -> u32 {
        self.last_failure.load(Ordering::Relaxed)
    }
}

/// How the link is, for whoever reads statistics; the control thread writes it.
#[derive(Default)]
pub(crate) struct State {
    link: AtomicU32,
    broadcast: AtomicU32,
}

impl State {
    pub(crate) fn show(&self, link: LinkState, broadcast: BroadcastState) {
        self.link.store(link as u32, Ordering::Relaxed);
        self.broadcast.store(broadcast as u32, Ordering::Relaxed);
    }
}

/// What a link is or waits for; the numbers are those of the kstat `link_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum LinkState {
    Stopped = 0,
    Port = 1,
    PKey = 2,
    BroadcastGroup = 3,
    QueuePair = 4,
    Up = 5,
}

impl From<link::Status> for LinkState {
    fn from(status: link::Status) -> Self {
        match status {
            link::Status::Stopped => Self::Stopped,
            link::Status::Down(WaitsFor::Port) => Self::Port,
            link::Status::Down(WaitsFor::PKey) => Self::PKey,
            link::Status::Down(WaitsFor::BroadcastGroup) => Self::BroadcastGroup,
            link::Status::Down(WaitsFor::QueuePair) => Self::QueuePair,
            link::Status::Up(_) => Self::Up,
        }
    }
}

impl LinkState {
    /// As properties, probes and the log have it.
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Self::Stopped => c"stopped",
            Self::Port => c"waits for port",
            Self::PKey => c"waits for P_Key",
            Self::BroadcastGroup => c"waits for broadcast group",
            Self::QueuePair => c"waits for queue pair",
            Self::Up => c"up",
        }
    }
}

/// All counters of a link; they live as long as it is attached, over any number of starts. What two sides write, or two transmit
/// rings, never shares a cache line.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) state: State,
    /// Packets the adapter has taken, by transmit ring.
    sent: KVec<CacheLine<Traffic>>,
    pub(crate) tx: CacheLine<TxCounters>,
    pub(crate) rx: CacheLine<RxCounters>,
    pub(crate) sa: CacheLine<SaCounters>,
}

impl Counters {
    /// Those of the link with this number, which sends from so many rings; a link without rings sends from one.
    #[inline(never)]
    pub(crate) fn of(link: i32, rings: usize) -> Result<KArc<Self>, AllocError> {
        let sent = KVec::from_fn(rings.max(1), |_| CacheLine::default())?;
        KArc::new(Self {
            state: State::default(),
            sent,
            tx: CacheLine(TxCounters { link, ..TxCounters::default() }),
            rx: CacheLine(RxCounters { link, ..RxCounters::default() }),
            sa: CacheLine::default(),
        })
    }

    /// The adapter has taken packets from a ring.
    #[inline]
    pub(crate) fn sent(&self, ring: usize, tally: &Tally) {
        if let Some(sent) = self.sent.get(ring) {
            sent.count(tally);
        }
    }

    /// What was sent from one ring; `None` for what is not counted by ring.
    pub(crate) fn ring_stat(&self, ring: usize, stat: Stat) -> Option<u64> {
        let sent = self.sent.get(ring)?;
        match stat {
            Stat::PacketsSent => Some(sent.packets.get()),
            Stat::BytesSent => Some(sent.bytes.get()),
            _ => None,
        }
    }

    /// The MAC layer's view; `None` for what is not counted here.
    pub(crate) fn stat(&self, stat: Stat) -> Option<u64> {
        let (tx, rx) = (&self.tx.0, &self.rx.0);
        let sent = |of: fn(&Traffic) -> &Counter| sum(self.sent.iter().map(|ring| of(ring)));
        let rx_drop = |reason: RxDrop| rx.drops[reason as usize].get();
        Some(match stat {
            Stat::PacketsSent => sent(|ring| &ring.packets),
            Stat::BytesSent => sent(|ring| &ring.bytes),
            Stat::MulticastSent => sent(|ring| &ring.multicast),
            Stat::BroadcastSent => sent(|ring| &ring.broadcast),
            Stat::PacketsReceived => rx.received.packets.get(),
            Stat::BytesReceived => rx.received.bytes.get(),
            Stat::MulticastReceived => rx.received.multicast.get(),
            Stat::BroadcastReceived => rx.received.broadcast.get(),
            Stat::TransmitErrors => sum(&tx.drops) + tx.failed.get(),
            Stat::NoTransmitBuffer => tx.put_off.get(),
            Stat::ReceiveErrors => rx_drop(RxDrop::Short) + rx_drop(RxDrop::Completion),
            Stat::NoReceiveBuffer => rx_drop(RxDrop::NoMemory),
            _ => return None,
        })
    }
}

/// The named statistics of a link: every reason on its own.
impl Source for Counters {
    const NAMES: &'static [&'static CStr] = &[
        c"tx_drop_link_down",
        c"tx_drop_malformed",
        c"tx_drop_bad_destination",
        c"tx_drop_too_long",
        c"tx_drop_unreachable",
        c"tx_drop_lookup_failed",
        c"tx_drop_queue_full",
        c"tx_drop_table_full",
        c"tx_drop_link_reset",
        c"tx_drop_post_failed",
        c"tx_drop_refused",
        c"tx_drop_no_large_buffer",
        c"rx_drop_own_multicast",
        c"rx_drop_short",
        c"rx_drop_completion",
        c"rx_drop_no_memory",
        c"rx_drop_link_reset",
        c"tx_put_off",
        c"tx_failed",
        c"tx_mapped",
        c"tx_large",
        c"tx_timeouts",
        c"rx_lent",
        c"rx_copied",
        c"rx_left",
        c"rx_fetched",
        c"rx_quiet",
        c"sa_paths",
        c"sa_joins",
        c"sa_leaves",
        c"sa_queries",
        c"sa_paths_failed",
        c"sa_joins_failed",
        c"sa_leaves_failed",
        c"sa_queries_failed",
        c"sa_last_failure",
        c"link_state",
        c"broadcast_state",
    ];

    fn read(&self, values: &mut dyn FnMut(usize, u64)) {
        let (tx, rx) = (&self.tx, &self.rx);
        let sent = [&tx.put_off, &tx.failed, &tx.mapped, &tx.large, &tx.timeouts];
        let received = [&rx.lent, &rx.copied, &rx.left, &rx.fetched, &rx.quiet];
        let rest = sent.into_iter().chain(received);
        let sa = self.sa.asked.iter().chain(&self.sa.failed);
        let all = self.tx.drops.iter().chain(&self.rx.drops).chain(rest).chain(sa);
        for (index, counter) in all.enumerate() {
            values(index, counter.get());
        }
        let shown = [&self.sa.last_failure, &self.state.link, &self.state.broadcast];
        for (index, number) in (Self::NAMES.len() - shown.len()..).zip(shown) {
            values(index, number.load(Ordering::Relaxed).into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_name() {
        let mut seen = std::vec::Vec::new();
        Counters::default().read(&mut |index, _| seen.push(index));
        assert!(seen.into_iter().eq(0..Counters::NAMES.len()));
        assert_eq!(Counters::NAMES.len(), TX_DROPS + RX_DROPS + 10 + 2 * QUESTIONS + 3);
    }

    #[test]
    fn bytes_count_the_ipoib_header_and_not_the_grh_in_both_directions() {
        let counters = Counters::of(0, 0).unwrap();
        let mut sent = Tally::default();
        sent.add(Cast::Broadcast, 1, 4 + 28);
        counters.sent(0, &sent);
        let mut received = Tally::default();
        received.add_received(Cast::Broadcast, 40 + 4 + 28);
        counters.rx.received(&received, 1);
        for stat in [Stat::BytesSent, Stat::BytesReceived] {
            assert_eq!(counters.stat(stat), Some(32));
        }
        for stat in [Stat::BroadcastSent, Stat::BroadcastReceived, Stat::PacketsSent, Stat::PacketsReceived] {
            assert_eq!(counters.stat(stat), Some(1));
        }
        assert_eq!(counters.stat(Stat::MulticastReceived), Some(0));
    }

    #[test]
    fn rings_count_on_lines_of_their_own_and_add_up() {
        let counters = Counters::of(0, 4).unwrap();
        for ring in 0..4 {
            let mut sent = Tally::default();
            sent.add(Cast::Unicast, ring as u32 + 1, 100);
            counters.sent(ring, &sent);
            assert_eq!(counters.ring_stat(ring, Stat::PacketsSent), Some(ring as u64 + 1));
        }
        assert_eq!(counters.stat(Stat::PacketsSent), Some(1 + 2 + 3 + 4));
        assert_eq!(counters.stat(Stat::BytesSent), Some(400));
        let line = |at: &CacheLine<Traffic>| core::ptr::from_ref(at).addr() / 64;
        let lines: std::collections::BTreeSet<usize> = counters.sent.iter().map(line).collect();
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn own_multicast_is_no_error() {
        let counters = Counters::default();
        counters.rx.dropped(RxDrop::OwnMulticast);
        counters.rx.dropped(RxDrop::Short);
        assert_eq!(counters.stat(Stat::ReceiveErrors), Some(1));
    }
}
