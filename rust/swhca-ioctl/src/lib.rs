//! What a test, or an administrator, can do to the software adapter `swhca`: pull a cable, move a P_Key, silence the SA.
//!
//! By `ioctl(2)` on `/devices/swhca@0,N:ctl` (N is the adapter's number, see `swhca.conf`), with a command of [`command`] and the
//! address of an [`Argument`]. Needs the privilege to configure data links. Numbers only, no type of the kernel's: the driver and
//! whoever talks to it share this crate and nothing else.
//!
//! ```
//! use swhca_ioctl::{Argument, command};
//!
//! // The first port's second P_Key becomes 0x8001.
//! let (ioctl, argument): (i32, Argument) = (command::SET_PKEY, [1, 1, 0x8001, 0]);
//! assert_eq!((ioctl, argument[2]), (0x4603, 0x8001));
//! ```

#![no_std]
#![forbid(unsafe_code)]

use core::ffi::CStr;

/// The argument of every command: four numbers. What a command does not name is ignored.
pub type Argument = [u64; 4];

/// Commands. Ports are counted from 1; `ENXIO` for one that there is not, `EINVAL` for a value that makes no sense, `ENOTTY` for a
/// command that there is not. PORT_CHANGE is raised of a port that is up, and of a value that it did not have.
pub mod command {
    /// `[port]`: the cable is pulled. Raises PORT_DOWN, unless the port is down already.
    pub const PORT_DOWN: i32 = 0x4601;
    /// `[port]`: and plugged in. Raises PORT_UP, unless the port is up already.
    pub const PORT_UP: i32 = 0x4602;
    /// `[port, index, P_Key]`: the subnet manager sets an entry of the P_Key table; 0 empties it. Raises PORT_CHANGE.
    pub const SET_PKEY: i32 = 0x4603;
    /// `[port, LID]`: the port's subnet manager moves to another LID. Raises PORT_CHANGE, and CLNT_REREG with it.
    /// `EEXIST` if a port has the LID, `EINVAL` for one of a group or of nobody.
    pub const MOVE_MANAGER: i32 = 0x4604;
    /// `[port, 0 or 1]`: the SA does not answer what comes from the port.
    pub const SILENCE_SA: i32 = 0x4605;
    /// `[port, packets]`: of a million packets that the port sends, and of a million that come to it, so many are lost; none of management.
    pub const LOSE_PACKETS: i32 = 0x4606;
    /// `[port, prefix]`: the subnet prefix changes. Raises PORT_CHANGE.
    pub const SET_PREFIX: i32 = 0x4607;
    /// `[port, rate code]`: the rate that the SA tells the port for groups and paths (3 is 10 Gb/s); 0 for the usual one.
    pub const SET_RATE: i32 = 0x4608;
    /// `[port]`: an error on both completion queues of every datagram queue pair of the port that is attached to a group. Answers how
    /// many of those queue pairs there were.
    pub const FAIL_CQS: i32 = 0x4609;
    /// `[port, speed code]`: the speed of the port's lanes (4 QDR, 16 FDR, 32 EDR).
    pub const SET_SPEED: i32 = 0x460a;
    /// `[port]`: every datagram queue pair of the port that is attached to a group goes to the error state by itself. Answers how
    /// many there were.
    pub const FAIL_QPS: i32 = 0x460b;
    /// `[port, milliseconds]`: the SA answers what comes from the port so much later; 10,000 at most.
    pub const DELAY_SA: i32 = 0x460c;
    /// `[]`: the subnet manager is restarted: groups but the configured ones, members and subscriptions are forgotten. Raises
    /// CLNT_REREG on every active port.
    pub const RESTART_MANAGER: i32 = 0x460d;
    /// `[trap, prefix, GUID]`: the subnet manager tells whoever subscribed that something happened elsewhere in the subnet: 64 a port
    /// came, 65 a port went, 66 a group was made, 67 a group was deleted. Nothing that the SA knows changes. `EAGAIN` if 32 wait to be told.
    pub const NOTICE: i32 = 0x460e;
    /// `[port, LID]`: the subnet manager gives the port another LID. A port that is up goes down and comes up. `EEXIST` if somebody has the
    /// LID, `EINVAL` for one of a group or of nobody.
    pub const SET_LID: i32 = 0x460f;
    /// `[port, number]`: one queue pair of the port, of datagrams or of a connection, counted round among those that are none of
    /// management's, goes to the error state by itself. Answers how many those are.
    pub const FAIL_QP: i32 = 0x4611;
    /// `[port, what, requests, times]`: what of [`sa`](super::sa) the SA does with those [`requests`](super::requests) of the port, or with
    /// all if none is named; so many times, or until it is told otherwise if that is 0.
    pub const TROUBLE_SA: i32 = 0x4612;
    /// `[port]`: answers in how many groups the SA has the port.
    pub const COUNT_GROUPS: i32 = 0x4613;
    /// `[]`: writes the counters to the system log.
    pub const LOG_STATISTICS: i32 = 0x4610;
    /// `[address, count]`: copies as many of the counters of [`Counter`](super::Counter), 64-bit numbers, to that address of the caller's. Answers
    /// how many there are.
    pub const READ_STATISTICS: i32 = 0x4620;
}

/// What the SA does wrong. A status of its own (IBA 15.2.3) beside [`sa::REFUSES`] says why it refuses.
pub mod sa {
    /// Nothing.
    pub const NOTHING: u64 = 0;
    /// It does nothing, and does not answer.
    pub const SILENT: u64 = 1;
    /// It does what it is asked, and the answer is lost.
    pub const LOSES_ANSWER: u64 = 2;
    /// It says that there is nothing; a leave it does.
    pub const EMPTY: u64 = 3;
    /// It refuses: `REFUSES | status`.
    pub const REFUSES: u64 = 0x1_0000;
}

/// Kinds of requests to the SA, as a set.
pub mod requests {
    /// A path to a port.
    pub const PATH: u64 = 1;
    /// To be a member of a group, or to make it.
    pub const JOIN: u64 = 2;
    /// To be one no longer.
    pub const LEAVE: u64 = 4;
    /// Which groups there are.
    pub const LIST_GROUPS: u64 = 8;
    /// To be told of events.
    pub const SUBSCRIBE: u64 = 16;
}

/// What is counted, in the order in which the counters are copied out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Datagrams that were sent.
    Sent,
    /// Bytes of them.
    SentBytes,
    /// Datagrams that were put into a buffer: of a multicast one each copy.
    Received,
    /// Datagrams that nobody received: no port, no queue pair, no buffer, or lost on request. Of a message each packet that was lost on
    /// request, and one for the whole message each time that it is sent to a port or queue pair that is not there.
    Dropped,
    /// Datagrams and messages with a P_Key that the receiver has not.
    PkeyViolations,
    /// Datagrams with another Q_Key than the receiver's.
    QkeyViolations,
    /// Requests to the SA.
    SaRequests,
    /// Requests to the SA that were dropped: it has been told to be silent, or was too busy.
    SaDropped,
    /// Protection domains that there are.
    Pds,
    /// Address handles that there are.
    AddressHandles,
    /// Completion queues that there are.
    Cqs,
    /// Queue pairs that there are.
    Qps,
    /// Memory regions that there are.
    Regions,
    /// Large sends that were cut into datagrams.
    LargeSends,
    /// Datagrams whose checksums were computed.
    Checksums,
    /// Bytes that were written into receivers' buffers: payloads, and 40 bytes in front of one that has a global route.
    CopiedBytes,
    /// Bytes of senders' memory that were read beside copying it: for checksums, and of management.
    ReadBytes,
    /// Shared receive queues that there are.
    Srqs,
    /// Messages that connections have sent and the other side has acknowledged.
    Messages,
    /// Bytes of them.
    MessageBytes,
    /// Messages that were put into a buffer, each once.
    MessagesReceived,
    /// How often a message was sent again, or what was missing of it: it was lost, or nobody was there.
    MessagesAgain,
    /// How often a message had to wait because the other side had no receive.
    ReceiverWaits,
    /// Connections that failed: at a message, sent or received.
    FailedConnections,
    /// Numbers of queue pairs of connections that are gone, which nobody else gets yet: the communication manager has not forgotten the
    /// connection.
    KeptNumbers,
}

impl Counter {
    /// All of them, in order, by the names that the log and the kstat `swhca:N:statistics` have.
    pub const NAMED: [(Self, &'static CStr); 25] = [
        (Self::Sent, c"sent"),
        (Self::SentBytes, c"sent-bytes"),
        (Self::Received, c"received"),
        (Self::Dropped, c"dropped"),
        (Self::PkeyViolations, c"pkey-violations"),
        (Self::QkeyViolations, c"qkey-violations"),
        (Self::SaRequests, c"sa-requests"),
        (Self::SaDropped, c"sa-dropped"),
        (Self::Pds, c"pds"),
        (Self::AddressHandles, c"address-handles"),
        (Self::Cqs, c"cqs"),
        (Self::Qps, c"qps"),
        (Self::Regions, c"regions"),
        (Self::LargeSends, c"large-sends"),
        (Self::Checksums, c"checksums"),
        (Self::CopiedBytes, c"copied-bytes"),
        (Self::ReadBytes, c"read-bytes"),
        (Self::Srqs, c"srqs"),
        (Self::Messages, c"messages"),
        (Self::MessageBytes, c"message-bytes"),
        (Self::MessagesReceived, c"messages-received"),
        (Self::MessagesAgain, c"messages-again"),
        (Self::ReceiverWaits, c"receiver-waits"),
        (Self::FailedConnections, c"failed-connections"),
        (Self::KeptNumbers, c"kept-numbers"),
    ];
}
