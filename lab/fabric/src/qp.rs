//! Queue pairs: what those of datagrams and of connections have in common, and the former's own.

use crate::cq::{Added, Completion, CompletionKind, CompletionStatus};
use crate::queue::{Done, WorkQueue};
use crate::rc::Connection;
use crate::send::SendJob;
use crate::{AsyncEvent, Cq, CqNum, Error, Pd, PortNum, QKey, Qpn, RecvWr, Srq};
use std::sync::Arc;

use lab_lock::Mutex;
/// Queue pair state (`ibt_cep_state_t`, the same numbers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum QpState {
    /// Not initialised.
    Reset = 0,
    /// Receives may be posted.
    Init = 1,
    /// Receives.
    Rtr = 2,
    /// Receives and sends.
    Rts = 3,
    /// A send failed: sends flush, receives go on.
    Sqe = 5,
    /// Everything flushes.
    Error = 6,
}

/// Which sends are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signalling {
    /// Every one.
    All,
    /// Those that ask for it, and errors.
    PerRequest,
}

/// Queue sizes. Asked for: minima. Answered: what there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpSizes {
    /// Send work requests.
    pub sq: u32,
    /// Receive work requests.
    pub rq: u32,
    /// SGL entries per send.
    pub sq_sgl: u32,
    /// SGL entries per receive.
    pub rq_sgl: u32,
}

/// A UD queue pair to be made.
#[derive(Clone)]
pub struct UdConfig {
    /// Port it sends and receives on.
    pub port: PortNum,
    /// Its partition, as an index into the port's table.
    pub pkey_ix: u16,
    /// Its queue key.
    pub qkey: QKey,
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
    /// Large sends may be posted.
    pub uses_lso: bool,
    /// SGL entries may carry the reserved key.
    pub uses_reserved_lkey: bool,
}

/// What a query tells.
#[derive(Clone)]
pub struct QpAttr {
    /// As made (sizes are the real ones) or modified.
    pub config: UdConfig,
    /// State now.
    pub state: QpState,
}

/// A queue pair. Clones name the same one.
#[derive(Clone)]
pub struct Qp(pub(crate) Arc<QpInner>);

pub(crate) struct QpInner {
    pub(crate) num: Qpn,
    pub(crate) core: Mutex<QpCore>,
}

pub(crate) struct QpCore {
    pub(crate) config: UdConfig,
    pub(crate) state: QpState,
    pub(crate) sq: WorkQueue<SendJob>,
    pub(crate) rq: WorkQueue<RecvWr>,
    pub(crate) psn: u32,
    /// Of reliable connections alone.
    pub(crate) connection: Option<Connection>,
    /// Groups it is attached to.
    pub(crate) attached: u32,
    pub(crate) freed: bool,
    /// A receive was posted since it was made or recycled; and before it was recycled, but not since.
    pub(crate) posted: bool,
    pub(crate) stale: bool,
    /// See [`Qp::strayed`].
    pub(crate) strayed: u64,
    /// See [`Qp::has_sent`].
    pub(crate) sent: bool,
}

/// Events to be raised once no lock is held.
#[derive(Default)]
pub(crate) struct Effects {
    pub(crate) completions: Vec<CqNum>,
    pub(crate) asyncs: Vec<AsyncEvent>,
    /// A CQ has taken its last completion.
    pub(crate) overrun: bool,
}

impl Effects {
    pub(crate) fn note(&mut self, cq: &Cq, added: Added) {
        match added {
            Added::Quiet => {}
            Added::Fire => self.completions.push(cq.num()),
            Added::Overrun => {
                self.overrun = true;
                self.asyncs.push(AsyncEvent::CqError(cq.num()));
            }
        }
    }
}

impl Qp {
    pub(crate) fn new(num: Qpn, config: UdConfig, connection: Option<Connection>) -> Self {
        let core = QpCore {
            sq: WorkQueue::new(config.sizes.sq),
            rq: WorkQueue::new(config.sizes.rq),
            config,
            state: if connection.is_some() { QpState::Init } else { QpState::Rts },
            psn: 0,
            connection,
            attached: 0,
            freed: false,
            posted: false,
            stale: false,
            strayed: 0,
            sent: false,
        };
        Qp(Arc::new(QpInner { num, core: Mutex::new(core) }))
    }

    /// Its number.
    #[must_use]
    pub fn num(&self) -> Qpn {
        self.0.num
    }

    /// State now.
    #[must_use]
    pub fn state(&self) -> QpState {
        self.0.core.lock().state
    }

    /// Attributes and state now.
    #[must_use]
    pub fn query(&self) -> QpAttr {
        let core = self.0.core.lock();
        QpAttr { config: core.config.clone(), state: core.state }
    }

    /// Datagrams that it let in after it was recycled and before a receive was posted. An adapter whose driver leaves it the count of
    /// receives that were posted before (`hermon`) writes them where those were posted.
    #[must_use]
    pub fn strayed(&self) -> u64 {
        self.0.core.lock().strayed
    }

    /// Whether a send was posted since it was made, also if it was recycled since. `hermon` leaves the owner bits of a send queue as they
    /// are when a queue pair is recycled (`hermon_wrid_from_reset_handling`), and toggles them with each post
    /// (`HERMON_SET_SEND_WQE_OWNER`). The adapter begins to count again: of places that were used an odd number of times it takes
    /// new requests for none, and old ones for new.
    #[must_use]
    pub fn has_sent(&self) -> bool {
        self.0.core.lock().sent
    }

    /// Takes its receives away, the oldest first, for whoever stands in for the adapter and gives back what is posted then
    /// ([`Qp::give_receives`]).
    #[must_use]
    pub fn take_receives(&self) -> Vec<RecvWr> {
        self.0.core.lock().rq.take_waiting()
    }

    /// Receives as if they were posted one after the other.
    ///
    /// # Errors
    ///
    /// There are more of them than places.
    pub fn give_receives(&self, receives: Vec<RecvWr>) -> Result<(), Error> {
        let mut core = self.0.core.lock();
        receives.into_iter().try_for_each(|receive| {
            let id = receive.id;
            core.rq.post(receive, id).map(drop)
        })
    }

    /// Multicast groups it is attached to.
    #[must_use]
    pub fn groups(&self) -> u32 {
        self.0.core.lock().attached
    }
}

impl QpCore {
    /// Requests of its own queues, not yet given back by a poll, that may complete in this CQ: of sends each, as an error is reported
    /// unasked.
    pub(crate) fn completing_in(&self, cq: &Cq) -> u32 {
        let of = |own: &Cq, used: u32| if own.num() == cq.num() { used } else { 0 };
        of(&self.config.scq, self.sq.used()) + of(&self.config.rcq, self.rq.used())
    }

    pub(crate) fn report_sends(&mut self, effects: &mut Effects) {
        let cq = self.config.scq.clone();
        self.sq.report(&cq, |added| effects.note(&cq, added));
    }

    pub(crate) fn report_recvs(&mut self, effects: &mut Effects) {
        let cq = self.config.rcq.clone();
        self.rq.report(&cq, |added| effects.note(&cq, added));
    }

    /// Flushes what waits to be sent.
    pub(crate) fn flush_sends(&mut self, qpn: Qpn, effects: &mut Effects) {
        self.sq.flush(|id| flushed(id, CompletionKind::Send, qpn));
        self.report_sends(effects);
    }

    /// Moves to ERROR and flushes both queues.
    pub(crate) fn fail(&mut self, qpn: Qpn, effects: &mut Effects) {
        let again = std::mem::replace(&mut self.state, QpState::Error) == QpState::Error;
        let Self { connection, sq, rq, .. } = self;
        let empty = connection.as_mut().map(|connection| connection.abandon(qpn, sq, rq));
        self.flush_sends(qpn, effects);
        self.rq.flush(|id| flushed(id, CompletionKind::Recv, qpn));
        self.report_recvs(effects);
        if empty == Some(true) && !again && self.config.srq.is_some() {
            effects.asyncs.push(AsyncEvent::EmptyChannel(qpn));
        }
    }

    /// No request is being carried out right now.
    pub(crate) fn is_quiet(&self) -> bool {
        match &self.connection {
            Some(connection) => connection.is_quiet(),
            None => !self.sq.busy() && !self.rq.busy(),
        }
    }

    /// Forgets all work, as RESET does.
    pub(crate) fn reset(&mut self, qpn: Qpn) {
        self.state = QpState::Reset;
        self.sq.clear();
        self.rq.clear();
        self.psn = 0;
        self.connection = self.connection.take().map(|_| Connection::new());
        self.config.scq.purge(qpn);
        self.config.rcq.purge(qpn);
    }
}

pub(crate) fn flushed(wr_id: u64, kind: CompletionKind, qpn: Qpn) -> Done {
    ended(wr_id, CompletionStatus::Flushed, kind, qpn, true)
}

pub(crate) fn ended(
    wr_id: u64,
    status: CompletionStatus,
    kind: CompletionKind,
    qpn: Qpn,
    signalled: bool,
) -> Done {
    let signalled = signalled || status != CompletionStatus::Success;
    Done {
        completion: Completion { wr_id, status, kind, bytes: 0, recv: None, qpn },
        signalled,
        solicited: false,
    }
}
