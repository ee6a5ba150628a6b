//! The end of a connection: DREQ, DREP, time-wait, and opens that are given up.
#![forbid(unsafe_code)]

use std::sync::Arc;

use fakekernel::{HostGuard, HostMutex, Rule, cx};

use super::conn::{Closed, Conn, NoCallbacks, State, Telling};
use super::handler::Told;
use super::mad::{About, Body, Message};
use super::table::Table;
use super::{closed, failure, reason, silence};
use crate::ibcm::Ibcm;
use crate::ibtl::Channel;

/// How an `ibt_close_rc_channel` waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Blocking,
    NonBlocking,
    NoCallbacks,
}

/// What a close came to.
pub(super) struct Outcome {
    /// `IBT_CM_CLOSED_*`; 0: it is under way.
    pub code: u8,
    pub private: Vec<u8>,
}

const ALREADY: Outcome = Outcome { code: closed::ALREADY, private: Vec::new() };

/// What a close does next.
enum Next {
    /// `blind`: of one whose handler is about to be called.
    Part {
        blind: bool,
    },
    Abort(Arc<HostMutex<Closed>>),
    /// A handler is running: it will be seen to when it returns.
    AbortLater(Arc<HostMutex<Closed>>),
    WaitForEnd(Arc<HostMutex<Closed>>),
    Already,
}

impl Ibcm {
    /// Closes a connection.
    pub(super) fn close(&self, id: u32, mode: Mode, private: Vec<u8>) -> Outcome {
        if mode == Mode::NonBlocking {
            self.on_list(move |ibcm| _ = ibcm.close_now(id, mode, private));
            return Outcome { code: 0, private: Vec::new() };
        }
        self.close_now(id, mode, private)
    }

    fn close_now(&self, id: u32, mode: Mode, private: Vec<u8>) -> Outcome {
        match self.how_to_close(id, mode) {
            Next::Already => ALREADY,
            Next::WaitForEnd(slot) => {
                if mode == Mode::Blocking {
                    self.wait_for_end(&slot);
                }
                ALREADY
            }
            Next::Abort(slot) => {
                self.task(move |ibcm| ibcm.abort_told(id));
                self.aborted(mode, &slot)
            }
            Next::AbortLater(slot) => self.aborted(mode, &slot),
            Next::Part { blind } => {
                cx().check(!blind, Rule::CallAfterUnload, || {
                    "ibt_close_rc_channel with IBT_NOCALLBACKS of a connection that stands and is about to be told so: ibcm calls the handler \
                     that it was to forget, which is NULL"
                        .into()
                });
                self.part(id, mode, private)
            }
        }
    }

    fn aborted(&self, mode: Mode, slot: &HostMutex<Closed>) -> Outcome {
        if mode != Mode::NonBlocking {
            self.wait_for_end(slot);
        }
        Outcome { code: closed::ABORT, private: Vec::new() }
    }

    fn wait_for_end(&self, slot: &HostMutex<Closed>) -> Closed {
        let mut closed = slot.lock();
        while !closed.done {
            closed = self.connections.changed.wait(closed);
        }
        closed.clone()
    }

    fn how_to_close(&self, id: u32, mode: Mode) -> Next {
        let mut table = self.connections.table.lock();
        loop {
            let Some(conn) = table.get_mut(id) else { return Next::Already };
            let slot = conn.closed.clone();
            match conn.state {
                State::Establishing | State::AboutToClose => {
                    table = self.wait_for_change(table);
                    continue;
                }
                State::Established => {
                    let blind = mode == Mode::NoCallbacks && conn.telling == Telling::Soon;
                    if mode == Mode::NoCallbacks {
                        silence(conn);
                        let channel = conn.channel.clone();
                        mark_closing(channel.as_ref());
                    }
                    return Next::Part { blind };
                }
                State::Queued | State::ReqSent | State::RepWait | State::RepSent | State::MraRepReceived => {
                    conn.stranded = conn.state == State::Queued;
                    conn.state = State::Aborting;
                    table.set_due(id, None);
                    return Next::Abort(slot);
                }
                State::ReqReceived | State::RepReceived => {
                    conn.abort = true;
                    let deferred = conn.deferred;
                    if deferred {
                        conn.state = State::Aborting;
                        return Next::Abort(slot);
                    }
                    return Next::AbortLater(slot);
                }
                // Nobody waits for an abort that is under way (`IBCM_STATE_DELETE`), which still uses the channel.
                State::TimeWait | State::RejSent | State::Aborting => return Next::Already,
                State::DreqSent | State::DreqReceived | State::DrepReceived | State::TimedOut => {
                    if mode == Mode::NoCallbacks {
                        if conn.no_callbacks == NoCallbacks::Wait {
                            table = self.wait_for_change(table);
                            continue;
                        }
                        silence(conn);
                        let channel = conn.channel.clone();
                        mark_closing(channel.as_ref());
                    }
                    return Next::WaitForEnd(slot);
                }
            }
        }
    }

    /// Waits for another state of the table; the lock is another one afterwards.
    fn wait_for_change<'a>(&self, table: HostGuard<'a, Table>) -> HostGuard<'a, Table> {
        self.connections.changed.wait(table)
    }

    /// Takes a place of closings, and then leaves.
    fn part(&self, id: u32, mode: Mode, private: Vec<u8>) -> Outcome {
        let slot = {
            let mut table = self.connections.table.lock();
            loop {
                let Some(conn) = table.get(id) else { return ALREADY };
                let slot = conn.closed.clone();
                if conn.state != State::Established {
                    // Somebody else was faster.
                    break (slot, false);
                }
                if table.enter_close(id) {
                    if let Some(conn) = table.get_mut(id) {
                        conn.state = State::AboutToClose;
                    }
                    break (slot, true);
                }
                table = self.wait_for_change(table);
            }
        };
        let (slot, mine) = slot;
        if mine {
            self.send_dreq(id, private);
        }
        if mode != Mode::Blocking {
            return Outcome { code: 0, private: Vec::new() };
        }
        let closed = self.wait_for_end(&slot);
        Outcome { code: closed.code, private: closed.private }
    }

    /// The old connection of a peer that begins anew goes, if it stands.
    pub(super) fn tear_down(&self, id: u32) {
        {
            let mut table = self.connections.table.lock();
            loop {
                let Some(conn) = table.get_mut(id) else { return };
                if conn.state != State::Established {
                    return;
                }
                if conn.telling == Telling::No {
                    break;
                }
                table = self.wait_for_change(table);
            }
            if let Some(conn) = table.get_mut(id) {
                (conn.state, conn.stale) = (State::AboutToClose, true);
            }
        }
        self.send_dreq(id, Vec::new());
    }

    /// The queue pair goes to ERROR, the DREQ to the other side.
    fn send_dreq(&self, id: u32, private: Vec<u8>) {
        let channel = self.connections.table.lock().get(id).and_then(|conn| conn.channel.clone());
        Self::to_error(channel.as_ref());
        {
            let mut table = self.connections.table.lock();
            let Some(conn) = table.get_mut(id) else { return };
            conn.state = State::DreqSent;
            conn.transaction = conn.transaction.wrapping_add(1 << 24);
            conn.message = Some(Message {
                transaction: conn.transaction,
                local: id,
                remote: conn.remote_id,
                body: Body::Dreq { qpn: conn.remote_qpn, private },
            });
            conn.retries_left = conn.max_retries;
            conn.interval = conn.parting_time();
            let interval = conn.interval;
            self.arm(&mut table, id, interval);
        }
        self.send_of(id, |conn| conn.message.clone());
        self.table_changed();
    }

    pub(super) fn on_dreq(&self, theirs: u32, id: u32, transaction: u64, qpn: u32, private: &[u8]) {
        let found = {
            let mut table = self.connections.table.lock();
            loop {
                let Some(conn) = table.get_mut(id) else { return };
                let meant = conn.remote_id == theirs && conn.local_qpn().is_some_and(|own| own.get() == qpn);
                if !meant {
                    return;
                }
                match conn.state {
                    State::Established if conn.telling != Telling::No => {}
                    State::Established | State::DreqSent => {
                        let was = std::mem::replace(&mut conn.state, State::DreqReceived);
                        table.set_due(id, None);
                        table.leave_close(id);
                        break was;
                    }
                    State::TimeWait => break State::TimeWait,
                    _ => return,
                }
                table = self.wait_for_change(table);
            }
        };
        let drep = |conn: &Conn| Message {
            transaction,
            local: id,
            remote: conn.remote_id,
            body: Body::Drep { private: Vec::new() },
        };
        if found == State::TimeWait {
            return self.send_of(id, |conn| Some(drep(conn)));
        }
        let code = if found == State::DreqSent { closed::DUPLICATE } else { closed::DREQ_RECEIVED };
        // Where this side has asked, too, the queue pair was moved before that, and its client may have freed it since.
        if found == State::Established {
            let channel = self.connections.table.lock().get(id).and_then(|conn| conn.channel.clone());
            Self::to_error(channel.as_ref());
        }
        let answer = self.tell_closed(id, code, Some(private), true);
        self.send_of(id, |conn| {
            let mut message = drep(conn);
            message.body = Body::Drep { private: answer };
            Some(message)
        });
        self.ended(id, code, Vec::new());
    }

    pub(super) fn on_drep(&self, id: u32, transaction: u64, private: Vec<u8>) {
        let stale = {
            let mut table = self.connections.table.lock();
            let Some(conn) = table.get_mut(id) else { return };
            if conn.state != State::DreqSent || conn.transaction != transaction {
                return;
            }
            conn.state = State::DrepReceived;
            let stale = conn.stale;
            table.set_due(id, None);
            stale
        };
        let code = if stale { closed::STALE } else { closed::DREP_RECEIVED };
        let _ = self.tell_closed(id, code, Some(&private).filter(|_| !stale).map(Vec::as_slice), false);
        self.ended(id, closed::DREP_RECEIVED, private);
    }

    /// A connection that stood is over without a DREQ.
    pub(super) fn lost(&self, id: u32, code: u8, private: Option<&[u8]>) {
        let channel = self.connections.table.lock().get(id).and_then(|conn| conn.channel.clone());
        Self::to_error(channel.as_ref());
        let _ = self.tell_closed(id, code, private, false);
        self.ended(id, code, Vec::new());
    }

    /// Tells a client that its connection is over, unless it does not want to hear; the private data it answers with.
    pub(super) fn tell_closed(&self, id: u32, code: u8, private: Option<&[u8]>, answered: bool) -> Vec<u8> {
        let found = {
            let mut table = self.connections.table.lock();
            let Some(conn) = table.get_mut(id) else { return Vec::new() };
            let channel = conn.channel.clone();
            if conn.no_callbacks != NoCallbacks::Never {
                conn.no_callbacks = NoCallbacks::Wait;
                mark_closing(channel.as_ref());
            }
            (conn.handler, channel)
        };
        let told = Told::Closed { code, private, answered };
        let answer = self.tell(found.0, &told, answered.then_some(id), found.1.as_deref());
        answer.map(|answer| answer.private).unwrap_or_default()
    }

    /// A connection goes to time-wait.
    pub(super) fn ended(&self, id: u32, code: u8, private: Vec<u8>) {
        {
            let mut table = self.connections.table.lock();
            table.leave_close(id);
            let Some(conn) = table.get_mut(id) else { return };
            conn.state = State::TimeWait;
            silence(conn);
            let wait = conn.parting_time();
            *conn.closed.lock() = Closed { done: true, code, private };
            self.arm(&mut table, id, wait);
        }
        self.table_changed();
    }

    /// Somebody gave up an open, or a REQ that was answered: the client hears that, then whoever gave it up goes on.
    fn abort_told(&self, id: u32) {
        let found = {
            let table = self.connections.table.lock();
            table
                .get(id)
                .map(|conn| (conn.channel.clone(), conn.handler, conn.opened.clone(), conn.closed.clone()))
        };
        let Some((channel, handler, opened, slot)) = found else { return };
        self.fail_and_unlink(channel.as_ref());
        self.paths.lock().invalidate();
        if let Some(channel) = &channel {
            channel.cm.lock().opening = false;
        }
        let told = Told::Closed { code: closed::ABORT, private: None, answered: false };
        let _ = self.tell(handler, &told, None, channel.as_deref());
        self.open_is_over(id);
        self.connections.table.lock().forget_aborted(id);
        let reason = u32::from(reason::ABORT);
        *opened.lock() = Some(super::Opened { reason, ..super::Opened::default() });
        *slot.lock() = Closed { done: true, code: closed::ABORT, private: Vec::new() };
        self.table_changed();
    }

    /// An open was given up while its handler ran: the other side is told, too.
    pub(super) fn abort_now(&self, id: u32, about: About) {
        self.send_of(id, |conn| {
            let rej = super::Rej { about, reason: reason::CONSUMER, info: Vec::new(), private: Vec::new() };
            let (transaction, remote) = (conn.transaction, conn.remote_id);
            Some(Message { transaction, local: id, remote, body: Body::Rej(rej) })
        });
        self.abort_told(id);
    }

    /// Nobody answered: not the REQ, the REP, or the DREQ.
    pub(super) fn gave_up(&self, id: u32, was: State) {
        let found = {
            let table = self.connections.table.lock();
            table.get(id).map(|conn| (conn.channel.clone(), conn.stale))
        };
        let Some((channel, stale)) = found else { return };
        if was == State::DreqSent {
            let code = if stale { closed::STALE } else { closed::DREQ_TIMEOUT };
            let _ = self.tell_closed(id, code, None, false);
            return self.ended(id, code, Vec::new());
        }
        let accepted = matches!(was, State::RepSent | State::MraRepReceived);
        if accepted {
            Self::to_error(channel.as_ref());
        }
        Self::unlink(channel.as_ref());
        let about = if accepted { About::Rep } else { About::Req };
        let none = [0; super::mad::REJ_PRIVATE];
        self.failed(id, failure::TIMEOUT, about, reason::TIMEOUT, Some(&none));
        self.reject(id, About::Other, reason::TIMEOUT, Vec::new());
    }
}

/// A channel may be freed from now on.
fn mark_closing(channel: Option<&Arc<Channel>>) {
    if let Some(channel) = channel {
        channel.cm.lock().closing = true;
    }
}
