//! A connection as ibcm keeps it (`ibcm_state_data_t`).
#![forbid(unsafe_code)]

use std::sync::Arc;

use fabric::{AddressVector, ManagementPeer, Nanos, Qpn};
use fakekernel::HostMutex;

use super::handler::Handler;
use super::mad::{Message, Rep, Req};
use crate::ibcm::service::{Binding, Service};
use crate::ibtl::{Channel, Device};

/// Where a connection stands; the names are those of `ibcm_conn_state_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Waits for one of the sixteen places of opens.
    Queued,
    ReqSent,
    /// An MRA came for the REQ.
    RepWait,
    /// The client has the REP in hand.
    RepReceived,
    /// The client has the REQ in hand.
    ReqReceived,
    RepSent,
    /// An MRA came for the REP.
    MraRepReceived,
    /// The channel goes to RTS, or CONN_EST is being told.
    Establishing,
    Established,
    /// It waits for one of the twelve places of closings, or for CONN_EST to be told.
    AboutToClose,
    DreqSent,
    DreqReceived,
    DrepReceived,
    TimeWait,
    /// A REJ was sent, and is sent again to whoever asks.
    RejSent,
    /// Over; somebody still has to be told.
    TimedOut,
    /// An abort, or a REJ, is being told (`IBCM_STATE_DELETE`).
    Aborting,
}

/// Whether a close without callbacks has to wait (`close_nocb_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoCallbacks {
    /// Nobody calls the handler.
    Free,
    /// The handler is being told of the end.
    Wait,
    /// The handler is not called any more.
    Never,
}

/// How far CONN_EST is told (`cep_in_rts`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    No,
    /// The handler is about to be called.
    Soon,
    Now,
}

/// How an open ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Opened {
    /// An `ibt_cm_reason_t`; 0 is success.
    pub reason: u32,
    pub private: Vec<u8>,
    pub rdma_in: u8,
    pub rdma_out: u8,
}

/// What a close is waited for.
#[derive(Clone, Debug, Default)]
pub(super) struct Closed {
    pub done: bool,
    /// `IBT_CM_CLOSED_*`.
    pub code: u8,
    pub private: Vec<u8>,
}

/// One connection.
pub(super) struct Conn {
    /// Its number here.
    pub id: u32,
    /// Its number there; 0 before it is known.
    pub remote_id: u32,
    pub active: bool,
    pub state: State,
    pub channel: Option<Arc<Channel>>,
    pub remote_qpn: u32,
    pub remote_guid: u64,
    pub device: Arc<Device>,
    pub port: u8,
    pub peer: ManagementPeer,
    /// The way to the other side, and the index of its partition.
    pub way: Option<(AddressVector, u16)>,
    pub handler: Handler,
    /// Of a passive one: what it came by.
    pub service: Option<(Arc<Service>, Arc<Binding>)>,
    pub transaction: u64,
    /// What is sent again.
    pub message: Option<Message>,
    pub req: Req,
    /// Of an active one: the REP, once it is there.
    pub rep: Option<Rep>,
    pub retries_left: u8,
    pub max_retries: u8,
    pub interval: Nanos,
    pub due: Option<Nanos>,
    pub lifetime: Nanos,
    pub remote_ack_delay: Nanos,
    /// Until when a REQ with these numbers is the same one.
    pub stale_after: Nanos,
    /// An MRA that the client asked for, to be sent again.
    pub mra: Option<Message>,
    /// The client will answer later.
    pub deferred: bool,
    /// A handler is running for the REQ or the REP.
    pub in_handler: bool,
    /// On the thread with this `did`.
    pub handler_thread: u64,
    pub telling: Telling,
    /// Someone aborts it while a handler runs.
    pub abort: bool,
    pub stale: bool,
    /// It was given up before its turn: nobody ever drops what is counted for its REQ.
    pub stranded: bool,
    pub no_callbacks: NoCallbacks,
    pub has_open_place: bool,
    pub has_close_place: bool,
    pub opened: Arc<HostMutex<Option<Opened>>>,
    pub closed: Arc<HostMutex<Closed>>,
}

impl Conn {
    /// The remote ack delay, and of the side that opened two lifetimes more: what a DREQ and time-wait take.
    pub fn parting_time(&self) -> Nanos {
        let own = if self.active { 2 * self.lifetime.0 } else { 0 };
        Nanos(self.remote_ack_delay.0 + own)
    }

    /// The number of its channel's queue pair.
    pub fn local_qpn(&self) -> Option<Qpn> {
        self.channel.as_ref().map(|channel| channel.qp.num())
    }
}
