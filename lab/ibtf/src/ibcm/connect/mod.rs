//! Connections: REQ, REP, RTU and their kin between the communication managers of two hosts, their times and states, and what a client
//! is told of them (`ibcm_sm.c`, `ibcm_ti.c`).
//!
//! Every message is a datagram between queue pairs 1 and passes the switch, so it can be lost like any other. A message that comes in is
//! dealt with by one of up to 24 threads, which also call the clients' handlers; one thread keeps the time.
mod active;
mod closing;
mod conn;
mod deferred;
mod expiry;
pub(super) mod ffi;
mod handler;
mod mad;
mod passive;
mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fabric::{ManagementPeer, Nanos, PortNum};
use fakekernel::{Ctx, HostMutex, WaitQueue};

use super::Ibcm;
use crate::adapter::Wire;
use crate::ibtl::{Channel, Device};
use crate::tasks::Tasks;
use conn::{Conn, NoCallbacks, Opened, State, Telling};
use handler::{Answer, Handler, Told};
use mad::{About, Body, CLASS, Message, Rej};
use table::Table;

/// Messages that are dealt with at once.
const AT_ONCE: usize = 24;
/// Messages that wait for that; more are dropped.
const WAITING: usize = 127;
/// What a client and its CM may take for an answer.
const PROCESSING: Nanos = Nanos(300_000_000);
/// CM retries of who says nothing else.
const RETRIES: u8 = 11;
/// The statuses of `ibt_cm_status_t` that make a difference here.
const ACCEPT: u32 = 0;
const DEFAULT: u32 = 6;
const DEFER: u32 = 7;

/// Reasons of a REJ.
mod reason {
    pub const NO_CHANNEL: u16 = 1;
    pub const NO_RESOURCES: u16 = 3;
    pub const TIMEOUT: u16 = 4;
    pub const NOT_SUPPORTED: u16 = 5;
    pub const INVALID_ID: u16 = 6;
    pub const INVALID_SERVICE: u16 = 8;
    pub const INVALID_TRANSPORT: u16 = 9;
    pub const STALE: u16 = 10;
    pub const PRIMARY_GID: u16 = 12;
    pub const PRIMARY_LID: u16 = 13;
    pub const CONSUMER: u16 = 28;
    pub const DUPLICATE_ID: u16 = 30;
    /// Of no REJ, but of an open's outcome.
    pub const ABORT: u16 = 1001;
    pub const BAD_STATE: u16 = 1003;
}

/// `cf_code` of a failure.
mod failure {
    pub const REJ_SENT: u8 = 0;
    pub const REJ_RECEIVED: u8 = 1;
    pub const TIMEOUT: u8 = 2;
    pub const STALE: u8 = 4;
}

/// `cm_event.closed`.
mod closed {
    pub const DREP_RECEIVED: u8 = 1;
    pub const DREQ_RECEIVED: u8 = 2;
    pub const REJ_RECEIVED: u8 = 3;
    pub const DREQ_TIMEOUT: u8 = 4;
    pub const DUPLICATE: u8 = 5;
    pub const ABORT: u8 = 6;
    pub const STALE: u8 = 7;
    pub const ALREADY: u8 = 8;
}

/// A host's connections.
pub(super) struct Connections {
    table: HostMutex<Table>,
    /// Something in it changed that somebody may wait for.
    changed: WaitQueue,
    /// The time is to be looked at.
    clock: WaitQueue,
    tasks: Arc<Tasks>,
    /// `ibcm_process_tlist`: one thread for closes that nobody waits for, for what nobody has answered, and for opens whose turn has come.
    list: Arc<Tasks>,
    /// Messages that were taken and are not done with.
    taken: AtomicUsize,
    /// The timer's thread is there.
    timing: AtomicBool,
    /// Between ESTABLISHED and CONN_EST.
    telling_time: HostMutex<Option<fakekernel::Nanos>>,
    /// Between the queue pair's error state and the end of what `ibcm` does with the channel, of what is given up or refused.
    aborting_time: HostMutex<Option<fakekernel::Nanos>>,
}

impl Connections {
    pub fn new() -> Self {
        Self {
            table: HostMutex::default(),
            changed: WaitQueue::new("a connection to be opened or closed"),
            clock: WaitQueue::new("the next timeout of ibcm"),
            tasks: Tasks::new("ibcm_taskq", AT_ONCE),
            list: Tasks::new("ibcm_process_tlist", 1),
            taken: AtomicUsize::new(0),
            timing: AtomicBool::new(false),
            telling_time: HostMutex::new(None),
            aborting_time: HostMutex::new(None),
        }
    }
}

fn now() -> Nanos {
    Nanos(fakekernel::now().0)
}

/// An `ib_time_t`.
fn span(code: u8) -> Nanos {
    Nanos(sm::ib_time(code & 0x1f).0)
}

/// The smallest `ib_time_t` that is no shorter in whole microseconds, which `ibcm` counts (`ibt_usec2ib`): that of a code's own span is the
/// code.
fn code_of(span: Nanos) -> u8 {
    super::units::usec_to_ib(i64::try_from(span.0 / 1_000).unwrap_or(i64::MAX))
}

/// How many connections there are, by how far they have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connected {
    /// Being opened or accepted.
    pub opening: usize,
    /// Established.
    pub established: usize,
    /// Being closed.
    pub closing: usize,
    /// In time-wait, or refused and not forgotten.
    pub waiting: usize,
    /// Given up while they waited for their turn to be opened: those are never forgotten, and their adapter never goes.
    pub stranded: usize,
}

impl Ibcm {
    /// The connections of the host, counted.
    pub(crate) fn connected(&self) -> Connected {
        let table = self.connections.table.lock();
        let waiting = |state| matches!(state, State::TimeWait | State::RejSent);
        let closing = |state| {
            matches!(
                state,
                State::AboutToClose
                    | State::DreqSent
                    | State::DreqReceived
                    | State::DrepReceived
                    | State::Aborting
                    | State::TimedOut
            )
        };
        let established = |state| state == State::Established;
        Connected {
            opening: table.count(|state| !waiting(state) && !closing(state) && !established(state)),
            established: table.count(established),
            closing: table.count(closing),
            waiting: table.count(waiting),
            stranded: table.stranded(None),
        }
    }

    /// See [`crate::set_telling_time`].
    pub(crate) fn set_telling_time(&self, time: Option<fakekernel::Nanos>) {
        *self.connections.telling_time.lock() = time;
    }

    /// See [`crate::set_aborting_time`].
    pub(crate) fn set_aborting_time(&self, time: Option<fakekernel::Nanos>) {
        *self.connections.aborting_time.lock() = time;
    }

    /// What keeps an adapter for ever, if something does.
    pub(super) fn keeps(&self, guid: u64) -> Option<String> {
        let stranded = self.connections.table.lock().stranded(Some(guid));
        (stranded != 0).then(|| format!("ibcm, for ever: {stranded} opens were given up before their turn"))
    }

    /// A management datagram came in for a port's queue pair 1. False if it is not for communication management.
    pub(super) fn cm_datagram(
        &self,
        device: &Arc<Device>,
        port: u8,
        from: ManagementPeer,
        mad: &[u8],
    ) -> bool {
        if mad.get(1) != Some(&CLASS) {
            return false;
        }
        let (Some(message), Some(me)) = (Message::parse(mad), self.me.upgrade()) else { return true };
        let taken = &self.connections.taken;
        if taken.load(Ordering::Acquire) >= AT_ONCE + WAITING {
            return true;
        }
        taken.fetch_add(1, Ordering::AcqRel);
        self.start_clock();
        let device = device.clone();
        self.connections.tasks.run(&self.kernel, move || {
            me.deal_with(&device, port, from, message);
            me.connections.taken.fetch_sub(1, Ordering::AcqRel);
        });
        true
    }

    fn deal_with(&self, device: &Arc<Device>, port: u8, from: ManagementPeer, message: Message) {
        let Message { transaction, local, remote, body } = message;
        match body {
            Body::Req(req) => self.on_req(device, port, from, local, transaction, *req),
            Body::Rep(rep) => self.on_rep((device, port, from), local, remote, transaction, rep),
            Body::Rtu { private } => self.on_rtu((device, port, from), local, remote, transaction, &private),
            Body::Rej(rej) => self.on_rej(local, remote, &rej),
            Body::Mra { service, private, .. } => self.on_mra(remote, service, &private),
            Body::Dreq { qpn, private } => self.on_dreq(local, remote, transaction, qpn, &private),
            Body::Drep { private } => self.on_drep(remote, transaction, private),
        }
    }

    /// Sends a message; it may be lost.
    fn send_cm(&self, device: &Device, port: u8, to: &ManagementPeer, message: &Message) {
        match device.adapter.model() {
            // A port that is not there any more sends nothing.
            Some(hca) => drop(hca.send_management(PortNum(port), to, &message.emit())),
            None => Wire::of(&self.kernel).send_message(port, device, to, sm::Mad(message.emit())),
        }
    }

    /// Sends what a connection last sent, or something else, if it is still there.
    fn send_of(&self, id: u32, message: impl FnOnce(&Conn) -> Option<Message>) {
        let found = {
            let table = self.connections.table.lock();
            table.get(id).and_then(|conn| Some((conn.device.clone(), conn.port, conn.peer, message(conn)?)))
        };
        if let Some((device, port, peer, message)) = found {
            self.send_cm(&device, port, &peer, &message);
        }
    }

    /// Refuses a message of nobody's.
    fn refuse(&self, (device, port, from): (&Device, u8, ManagementPeer), to: Refusal) {
        let rej = Rej { about: to.about, reason: to.reason, info: Vec::new(), private: Vec::new() };
        let message =
            Message { transaction: to.transaction, local: 0, remote: to.remote, body: Body::Rej(rej) };
        self.send_cm(device, port, &from, &message);
    }

    /// Something is due of a connection after this long.
    fn arm(&self, table: &mut Table, id: u32, after: Nanos) {
        table.set_due(id, Some(now().after(after)));
    }

    /// The thread that keeps the time is there from now on.
    fn start_clock(&self) {
        let runs = self.connections.timing.swap(true, Ordering::AcqRel);
        if !runs && let Some(me) = self.me.upgrade() {
            let _ = self.kernel.spawn("ibcm timers", Ctx::Kernel, move || me.keep_time());
        }
    }

    /// Tells whoever waits for the table or for the time.
    fn table_changed(&self) {
        self.connections.changed.wake_all();
        self.connections.clock.wake_all();
    }

    fn task(&self, job: impl FnOnce(&Ibcm) + Send + 'static) {
        if let Some(me) = self.me.upgrade() {
            self.connections.tasks.run(&self.kernel, move || job(&me));
        }
    }

    /// The same, when the one thread comes to it.
    fn on_list(&self, job: impl FnOnce(&Ibcm) + Send + 'static) {
        if let Some(me) = self.me.upgrade() {
            self.connections.list.run(&self.kernel, move || job(&me));
        }
    }

    /// Calls a connection's handler, if it has one.
    fn tell(
        &self,
        handler: Handler,
        told: &Told<'_>,
        id: Option<u32>,
        channel: Option<&Channel>,
    ) -> Option<Answer> {
        let handle = channel.map_or(0, |channel| channel.handle.get::<u8>().addr());
        handler.tell(&self.kernel, told, id, handle)
    }

    /// Tells a client that its connection stands. Nobody waits for that but the end of the connection that the other side asks for: a client that has
    /// its handler forgotten meanwhile has ibcm call none.
    fn tell_established(&self, id: u32, private: Option<&[u8]>, channel: &Channel) {
        let time = *self.connections.telling_time.lock();
        if let Some(time) = time {
            fakekernel::sleep(time);
        }
        let handler = {
            let mut table = self.connections.table.lock();
            table.get_mut(id).map(|conn| {
                conn.telling = Telling::Now;
                conn.handler
            })
        };
        if let Some(handler) = handler {
            let _ = self.tell(handler, &Told::Established(private), None, Some(channel));
        }
        if let Some(conn) = self.connections.table.lock().get_mut(id) {
            conn.telling = Telling::No;
        }
        self.table_changed();
    }

    /// The two do not know each other any more.
    fn unlink(channel: Option<&Arc<Channel>>) {
        if let Some(channel) = channel {
            channel.cm.lock().session = None;
        }
    }

    /// A channel's queue pair goes to ERROR.
    fn to_error(channel: Option<&Arc<Channel>>) {
        if let Some(channel) = channel {
            // It always succeeds, unless the adapter was told to fail: then its client finds out.
            let _ = channel.open.adapter().flush_qp(&channel.qp);
        }
    }

    /// The queue pair of what is given up, or was refused, goes to ERROR, and a little later the two do not know each other any more.
    fn fail_and_unlink(&self, channel: Option<&Arc<Channel>>) {
        Self::to_error(channel);
        let time = *self.connections.aborting_time.lock();
        if let Some(time) = time {
            fakekernel::sleep(time);
        }
        Self::unlink(channel);
    }

    /// A connection could not be made: its client is told, and whoever waits for it.
    fn failed(&self, id: u32, code: u8, about: About, reason: u16, private: Option<&[u8]>) {
        self.paths.lock().invalidate();
        let found = {
            let table = self.connections.table.lock();
            table.get(id).map(|conn| (conn.handler, conn.channel.clone(), conn.opened.clone()))
        };
        let Some((handler, channel, opened)) = found else { return };
        if let Some(channel) = &channel {
            channel.cm.lock().opening = false;
        }
        let told = Told::Failed { code, about, reason: u32::from(reason), private };
        let _ = self.tell(handler, &told, None, channel.as_deref());
        self.open_is_over(id);
        let private = private.map(<[u8]>::to_vec).unwrap_or_default();
        *opened.lock() = Some(Opened { reason: u32::from(reason), private, ..Opened::default() });
        self.table_changed();
    }

    /// An open does not count any more; the next one that waits begins.
    fn open_is_over(&self, id: u32) {
        let next = {
            let mut table = self.connections.table.lock();
            table.leave_open(id);
            table.next_open()
        };
        if let Some(next) = next {
            self.on_list(move |ibcm| ibcm.send_req(next));
        }
    }

    /// Refuses, and remembers for a while that it did.
    fn reject(&self, id: u32, about: About, reason: u16, private: Vec<u8>) {
        {
            let mut table = self.connections.table.lock();
            let Some(conn) = table.get_mut(id) else { return };
            let info =
                if reason == reason::TIMEOUT { conn.device.guid.to_be_bytes().to_vec() } else { Vec::new() };
            conn.state = State::RejSent;
            conn.message = Some(Message {
                transaction: conn.transaction,
                local: if conn.active || about != About::Req { conn.id } else { 0 },
                remote: conn.remote_id,
                body: Body::Rej(Rej { about, reason, info, private }),
            });
            let wait = Nanos(conn.parting_time().0.max(PROCESSING.0));
            self.arm(&mut table, id, wait);
        }
        self.send_of(id, |conn| conn.message.clone());
        self.table_changed();
    }

    /// An HCA is gone: so are its connections.
    pub(super) fn forget_connections(&self, guid: u64) {
        let mut gone = Vec::new();
        {
            let mut table = self.connections.table.lock();
            for id in table.ids() {
                if table.get(id).is_some_and(|conn| conn.device.guid == guid) {
                    gone.extend(table.remove(id));
                }
            }
        }
        for conn in gone {
            Self::unlink(conn.channel.as_ref());
            if let Some(channel) = &conn.channel {
                crate::ibtl::connection_is_over(channel);
            }
            *conn.opened.lock() = Some(Opened { reason: u32::from(reason::ABORT), ..Opened::default() });
            conn.closed.lock().done = true;
        }
        self.table_changed();
    }
}

/// What a message is refused with that belongs to no connection.
struct Refusal {
    about: About,
    reason: u16,
    transaction: u64,
    remote: u32,
}

/// What a handler's answer to a REQ or a REP is refused with; `None`: it was accepted.
fn refusal(status: u32, if_default: u32) -> Option<u16> {
    let status = if status == DEFAULT { if_default } else { status };
    match status {
        ACCEPT => None,
        4 => Some(reason::NO_CHANNEL),
        5 => Some(reason::NO_RESOURCES),
        _ => Some(reason::CONSUMER),
    }
}

/// Nobody calls the handler of a connection from now on.
fn silence(conn: &mut Conn) {
    conn.no_callbacks = NoCallbacks::Never;
    conn.handler = Handler::default();
}
