//! Reliable connections (InfiniBand Architecture volume 1, chapter 9.7): what a queue pair of that service has beside its queues.
//!
//! Messages are cut at the path MTU, each packet has a sequence number, the receiver acknowledges the last of each message, and what is
//! not acknowledged in time is sent again from the first packet that may be missing. Two pure machines know the protocol: the
//! [`Requester`] of a queue pair and its [`Responder`]. What else is here moves their packets. RDMA and atomics are not there.

mod arrive;
mod channel;
mod post;
mod requester;
mod responder;
mod timer;
mod transmit;

use crate::cq::CompletionKind;
use crate::qp::flushed;
use crate::queue::WorkQueue;
use crate::send::SendJob;
use crate::wire::Frame;
use crate::{AddressVector, Cq, Mtu, Nanos, Pd, PortNum, QpSizes, Qpn, RecvWr, Sge, Signalling, Srq};
use std::collections::VecDeque;

pub use timer::rnr_time;

use requester::Requester;
use responder::Responder;

/// A sequence number has 24 bits.
pub(crate) const PSN_MASK: u32 = 0x00ff_ffff;

/// A queue pair of a connection to be made. As for datagrams, sizes are minima.
#[derive(Clone)]
pub struct RcConfig {
    /// Port it sends and receives on, as long as it is in INIT.
    pub port: PortNum,
    /// Its partition, as an index into the port's table, until it gets another one.
    pub pkey_ix: u16,
    /// Protection domain of its buffers.
    pub pd: Pd,
    /// Send completions.
    pub scq: Cq,
    /// Receive completions; may be the same.
    pub rcq: Cq,
    /// Receives from here instead of its own queue.
    pub srq: Option<Srq>,
    /// Minima.
    pub sizes: QpSizes,
    /// Send completions.
    pub signalling: Signalling,
    /// SGL entries may carry the reserved key.
    pub uses_reserved_lkey: bool,
}

/// What INIT to RTR needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyToReceive {
    /// The way to the peer; its port is the queue pair's own whatever it says.
    pub vector: AddressVector,
    /// Index of the partition in the port's table.
    pub pkey_ix: u16,
    /// The peer's queue pair.
    pub peer: Qpn,
    /// Number of the first packet that comes; 24 bits.
    pub first_psn: u32,
    /// Longest packet either way.
    pub path_mtu: Mtu,
    /// What a peer is told to wait when there is no receive for its message: a code of [`rnr_time`].
    pub min_rnr: u8,
}

/// What RTR to RTS needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyToSend {
    /// Number of the first packet that goes; 24 bits.
    pub first_psn: u32,
    /// What an acknowledgement may take: 4.096 us to the power of this, five bits; 0 waits for ever.
    pub ack_timeout: u8,
    /// How often packets are sent again that nobody acknowledges; 0..=7.
    pub retry: u8,
    /// How often a message is sent again that the peer had no receive for; 0..=6, 7 = for ever.
    pub rnr_retry: u8,
}

/// How a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RcAttr {
    /// What it was given for RTR; `None` before.
    pub receive: Option<ReadyToReceive>,
    /// What it was given for RTS; `None` before.
    pub send: Option<ReadyToSend>,
    /// Messages that are sent and not acknowledged.
    pub unacknowledged: u32,
    /// The number of the next packet that is to come.
    pub expected_psn: u32,
}

/// A send on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RcSendWr {
    /// Given back in the completion.
    pub id: u64,
    /// Ask for a completion (only matters with [`Signalling::PerRequest`]).
    pub signal: bool,
    /// The receiver's completion counts as solicited.
    pub solicited: bool,
    /// Immediate data.
    pub immediate: Option<u32>,
    /// Message.
    pub sgl: Vec<Sge>,
}

/// A receive taken for a message, and how much of it is there.
pub(crate) struct InMessage {
    pub(crate) seq: u64,
    pub(crate) wr: RecvWr,
    pub(crate) pd: Pd,
    pub(crate) reserved_lkey: bool,
    pub(crate) at: usize,
}

/// The connection of a queue pair.
pub(crate) struct Connection {
    pub(crate) receive: Option<ReadyToReceive>,
    pub(crate) send: Option<ReadyToSend>,
    pub(crate) requester: Requester,
    pub(crate) responder: Responder,
    pub(crate) message: Option<InMessage>,
    /// A thread sends for it; it looks again before it leaves off.
    pub(crate) sending: bool,
    /// A thread deals with a packet that arrived; others that arrive meanwhile wait in `inbox`.
    pub(crate) arriving: bool,
    pub(crate) inbox: VecDeque<Frame>,
    /// Threads that gather a message.
    pub(crate) gathering: u32,
    /// A receive is being filled; whoever fails the queue pair leaves it to that thread.
    pub(crate) placing: bool,
    /// The end of the queue pair's receives is to be told by that thread.
    pub(crate) owes_empty: bool,
    /// That the first message came while the queue pair was in RTR has been told.
    pub(crate) told_of_first: bool,
    /// When it is woken next.
    pub(crate) wake: Option<Nanos>,
    /// Its sends never complete: see [`crate::Hca::set_sends_hang`].
    pub(crate) hangs: bool,
}

impl Connection {
    pub(crate) fn new() -> Self {
        Connection {
            receive: None,
            send: None,
            requester: Requester::new(),
            responder: Responder::new(),
            message: None,
            sending: false,
            arriving: false,
            inbox: VecDeque::new(),
            gathering: 0,
            placing: false,
            owes_empty: false,
            told_of_first: false,
            wake: None,
            hangs: false,
        }
    }

    /// No thread is at it.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.sending && !self.arriving && self.gathering == 0
    }

    /// Ends what is under way, all flushed; true if no receive is being filled.
    pub(crate) fn abandon(
        &mut self,
        qpn: Qpn,
        sq: &mut WorkQueue<SendJob>,
        rq: &mut WorkQueue<RecvWr>,
    ) -> bool {
        for message in self.requester.abandon() {
            sq.finish(message.seq, flushed(message.wr_id, CompletionKind::Send, qpn));
        }
        if let Some(message) = self.message.take() {
            rq.finish(message.seq, flushed(message.wr.id, CompletionKind::Recv, qpn));
        }
        self.owes_empty |= self.placing;
        !self.placing
    }
}
