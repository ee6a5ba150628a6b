//! One port's session with subnet administration: ClassPortInfo, subscriptions, requests.
//!
//! Times and retries are those of ibmf: a MAD is given the administrator's response time plus twice the subnet's; after a
//! timeout the subnet manager's LID is looked at again and the request is sent anew while the administrator shows signs of
//! life; busy answers are retried; redirections are followed.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use fakekernel::{HostMutex, Nanos, WaitQueue, now, sleep};
use sm::records::{ClassPortInfo, InformInfo, Notice, Record, Trap};
use sm::rmpp::{Message, Received, Receiver};
use sm::{Arrival, Attribute, Inbound, Mad, Method, PKey, Qpn, SaMad, SaTransport, SmAddress, Status};

use crate::ibtl::Device;

/// Whose session it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortId {
    pub hca: u64,
    pub num: u8,
    pub guid: sm::Guid,
}

/// Who hears what a session was told unasked.
pub(crate) trait Listener: Send + Sync {
    /// Subscriptions work again, or do not any more. Called on the thread that found out, which may block.
    fn availability(&self, port: PortId, available: bool);
    /// A report came. May not block.
    fn notice(&self, port: PortId, trap: Trap, subject: sm::Gid);
}

/// What is asked of the administrator.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub method: Method,
    pub attribute: Attribute,
    pub mask: u64,
    pub data: Vec<u8>,
}

impl Request {
    pub fn of<R: Record>(method: Method, mask: u64, record: &R) -> Self {
        Self { method, attribute: R::ATTRIBUTE, mask, data: record.emit() }
    }

    fn mad(&self, transaction: u64) -> Mad {
        SaMad::request(self.method, self.attribute, transaction, self.mask).with_data(&self.data).emit()
    }
}

/// Why there is no answer to work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SaError {
    /// The port has no session: it is not ACTIVE.
    NoSession,
    /// Nobody answered.
    Timeout,
    /// Refused with this status.
    Refused(Status),
    /// Busy or redirected ten times over, or redirected to nowhere.
    Lost,
    /// The administrator does not offer this; it was not asked.
    NotOffered,
}

/// How a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Closed,
    /// A thread is at it.
    Opening,
    Open,
}

struct State {
    phase: Phase,
    /// The next transaction.
    transaction: u64,
    pending: BTreeMap<u64, Pending>,
    capabilities: u16,
    /// `None` before ClassPortInfo was asked for.
    resp_time: Option<u8>,
    last_answer: Option<Nanos>,
    /// All subscriptions stand. Assumed until one fails.
    available: bool,
    /// The port's GID 0 when the session was opened first. `ibcm` tells notices with it, whatever the port's prefix has become.
    opened_as: Option<fabric::Gid>,
    /// The adapter was pulled.
    gone: bool,
}

#[derive(Default)]
struct Pending {
    receiver: Receiver,
    outcome: Option<Outcome>,
}

enum Outcome {
    Answer(Box<Message>),
    /// Segmentation failed; the transfer will not be completed.
    Broken,
}

/// One port's session.
pub(crate) struct Session {
    port: PortId,
    device: Weak<Device>,
    transport: Arc<dyn SaTransport>,
    listener: Weak<dyn Listener>,
    state: HostMutex<State>,
    changed: WaitQueue,
}

/// Exponents of times are taken for this much at most.
const LONGEST_EXPONENT: u8 = 20;
/// For an answer to the first request of a session.
const FIRST_TIMEOUT: Nanos = Nanos::from_millis(4_100);
/// An administrator that answered within this time is worth waiting for.
const SIGN_OF_LIFE: Nanos = Nanos::from_secs(60);
/// But not for longer than this.
const PATIENCE: Nanos = Nanos::from_secs(240);
/// Busy answers and redirections of one request.
const DETOURS: u32 = 10;
/// Between busy answers.
const BUSY_DELAY: Nanos = Nanos::from_secs(1);
/// Whose notices are subscribed to, in this order: class managers, channel adapters, switches, routers.
const PRODUCERS: [u32; 4] = [4, 1, 2, 3];
/// Assumed where the administrator does not say what it offers and how long it takes.
const ASSUMED: (u16, u8) = (0xffff, 20);

impl Session {
    /// A closed session, to be attached to the transport. Transactions start at the low half of the port's GUID.
    pub fn new(
        port: PortId,
        device: &Arc<Device>,
        transport: Arc<dyn SaTransport>,
        listener: Weak<dyn Listener>,
    ) -> Arc<Self> {
        let state = State {
            phase: Phase::Closed,
            transaction: port.guid.0 << 32,
            pending: BTreeMap::new(),
            capabilities: ASSUMED.0,
            resp_time: None,
            last_answer: None,
            available: true,
            opened_as: None,
            gone: false,
        };
        let device = Arc::downgrade(device);
        let changed = WaitQueue::new("an answer of subnet administration");
        Arc::new(Self { port, device, transport, listener, state: HostMutex::new(state), changed })
    }

    /// Whose session this is.
    pub const fn port(&self) -> PortId {
        self.port
    }

    /// The GID that notices of the port come with; zero if it has gone before the session was opened.
    pub fn told_as(&self) -> fabric::Gid {
        self.state.lock().opened_as.or_else(|| self.gid0()).unwrap_or_default()
    }

    fn gid0(&self) -> Option<fabric::Gid> {
        self.device.upgrade()?.cached_port(self.port.num)?.gids.first().copied()
    }

    /// Whether all subscriptions stand.
    pub fn is_available(&self) -> bool {
        self.state.lock().available
    }

    /// Whether there was no answer for so long.
    pub fn is_silent(&self, time: Nanos) -> bool {
        self.state.lock().last_answer.is_none_or(|at| now() - at >= time)
    }

    /// Opens the session unless it is open; waits while another thread is at it.
    pub fn ensure_open(&self) {
        let mut state = self.state.lock();
        while state.phase == Phase::Opening {
            state = self.changed.wait(state);
        }
        if state.phase == Phase::Closed {
            state.phase = Phase::Opening;
            drop(state);
            self.introduce(true);
        }
    }

    /// Asks the administrator anew what it offers and, if the clients have to register anew, subscribes anew.
    pub fn restart(&self, subscribe: bool) {
        let mut state = self.state.lock();
        while state.phase == Phase::Opening {
            state = self.changed.wait(state);
        }
        let subscribe = subscribe || state.phase == Phase::Closed;
        state.phase = Phase::Opening;
        drop(state);
        self.introduce(subscribe);
    }

    /// The port is down: what is asked for from now on has no session.
    pub fn close(&self) {
        let mut state = self.state.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Closed;
        }
    }

    /// Whether this is the adapter that the session began with.
    pub fn is_for(&self, device: &Arc<Device>) -> bool {
        std::ptr::eq(self.device.as_ptr(), Arc::as_ptr(device))
    }

    /// The port is gone for good.
    pub fn end(self: &Arc<Self>) {
        self.state.lock().gone = true;
        let inbound: Arc<dyn Inbound> = self.clone();
        self.transport.detach(self.port.guid, &inbound);
    }

    /// Asks and waits for the answer, for minutes if need be. An answer with a status other than success is an error.
    pub fn call(&self, request: &Request) -> Result<Message, SaError> {
        self.call_while(request, || true)
    }

    /// The same of what nobody but the session itself asks: not again for an adapter that was pulled. IBTL has few threads for events, and
    /// those of the next adapter wait for one.
    fn call_for_itself(&self, request: &Request) -> Result<Message, SaError> {
        let is_here = || !self.state.lock().gone;
        if is_here() { self.call_while(request, is_here) } else { Err(SaError::NoSession) }
    }

    fn call_while(&self, request: &Request, matters: impl Fn() -> bool) -> Result<Message, SaError> {
        if request.attribute == Attribute::MC_MEMBER_RECORD
            && self.state.lock().capabilities & ClassPortInfo::UD_MULTICAST == 0
        {
            return Err(SaError::NotOffered);
        }
        let begun = now();
        let mut detours = 0;
        let mut to = self.administrator()?;
        loop {
            let Some(answer) = self.exchange(to, request)? else {
                if !matters() || !self.is_worth_asking_again(begun) {
                    return Err(SaError::Timeout);
                }
                to = self.administrator()?;
                continue;
            };
            let status = answer.header.status;
            if status.0 & (Status::BUSY.0 | Status::REDIRECT.0) == 0 {
                return if status == Status::SUCCESS { Ok(answer) } else { Err(SaError::Refused(status)) };
            }
            if detours == DETOURS {
                return Err(SaError::Refused(status));
            }
            detours += 1;
            if status.0 & Status::REDIRECT.0 != 0 {
                to = redirection(&answer).ok_or(SaError::Lost)?;
            } else {
                sleep(BUSY_DELAY);
            }
        }
    }

    fn is_worth_asking_again(&self, begun: Nanos) -> bool {
        let last = self.state.lock().last_answer;
        let now = now();
        last.is_some_and(|at| now - at <= SIGN_OF_LIFE) && now - begun < PATIENCE
    }

    /// The first requests of a session. Nobody else's wait for them: only the phase says that they are under way.
    fn introduce(&self, subscribe: bool) {
        let gid0 = self.gid0();
        {
            let mut state = self.state.lock();
            state.resp_time = None;
            state.opened_as = state.opened_as.or(gid0);
        }
        let request = Request::of(Method::GET, 0, &ClassPortInfo::default());
        let info = self.call_for_itself(&request).ok().and_then(|answer| ClassPortInfo::parse(&answer.data));
        {
            let mut state = self.state.lock();
            (state.capabilities, state.resp_time) = match info {
                Some(info) => (info.capability_mask, Some(info.resp_time)),
                None => (ASSUMED.0, Some(ASSUMED.1)),
            };
        }
        let available = if subscribe { Some(self.subscribe()) } else { None };
        let changed = {
            let mut state = self.state.lock();
            state.phase = Phase::Open;
            available.filter(|now| std::mem::replace(&mut state.available, *now) != *now)
        };
        self.changed.wake_all();
        if let (Some(available), Some(listener)) = (changed, self.listener.upgrade()) {
            listener.availability(self.port, available);
        }
    }

    /// Subscribes to everything; whether all went well.
    fn subscribe(&self) -> bool {
        let mut all = true;
        for producer in PRODUCERS {
            all &=
                self.call_for_itself(&Request::of(Method::SET, 0, &InformInfo::every_trap(producer))).is_ok();
        }
        all
    }

    /// Where the administrator is, as the port has it now.
    fn administrator(&self) -> Result<SmAddress, SaError> {
        let attr = self.device.upgrade().and_then(|device| device.cached_port(self.port.num));
        let attr = attr.filter(|attr| attr.state == fabric::PortState::Active).ok_or(SaError::NoSession)?;
        Ok(administrator(&attr))
    }

    /// How long an answer may take.
    fn timeout(&self) -> Nanos {
        let Some(resp_time) = self.state.lock().resp_time else { return FIRST_TIMEOUT };
        let attr = self.device.upgrade().and_then(|device| device.cached_port(self.port.num));
        let subnet = attr.map_or(LONGEST_EXPONENT, |attr| attr.subnet_timeout);
        let span = |exponent: u8| sm::ib_time(exponent.min(LONGEST_EXPONENT)).0;
        Nanos(span(resp_time) + 2 * span(subnet))
    }

    /// One MAD and its answer; `None` if the answer does not come in time. One whose segments are wrong is not asked for again: ibmf repeats
    /// what has timed out and nothing else (`ibmf_saa_impl.c`, `IBMF_TRANS_TIMEOUT`).
    fn exchange(&self, to: SmAddress, request: &Request) -> Result<Option<Message>, SaError> {
        let transaction = {
            let mut state = self.state.lock();
            let transaction = state.transaction;
            state.transaction = transaction.wrapping_add(1);
            state.pending.insert(transaction, Pending::default());
            transaction
        };
        let deadline = now() + self.timeout();
        // What cannot be sent is not answered either.
        let _ = self.transport.send(self.port.guid, to, &request.mad(transaction));
        let mut state = self.state.lock();
        loop {
            let outcome = state.pending.get_mut(&transaction).and_then(|pending| pending.outcome.take());
            let timed_out = outcome.is_none() && now() >= deadline;
            if outcome.is_some() || timed_out {
                state.pending.remove(&transaction);
                return match outcome {
                    Some(Outcome::Answer(message)) => Ok(Some(*message)),
                    Some(Outcome::Broken) => Err(SaError::Lost),
                    None => Ok(None),
                };
            }
            state = self.changed.wait_until(state, deadline).0;
        }
    }

    /// Takes an answer, or a segment of one; what has to be sent back. One that may have been cut is refused.
    fn answered(&self, mad: &SaMad, cut: bool) -> Option<Mad> {
        let mut state = self.state.lock();
        let at = now();
        let pending = state.pending.get_mut(&mad.transaction)?;
        let (reply, outcome) = if cut {
            let header = SaMad { status: Status::NO_RESOURCES, ..*mad };
            (None, Some(Outcome::Answer(Box::new(Message { header, data: Vec::new() }))))
        } else if mad.rmpp.is_active() {
            match pending.receiver.receive(mad) {
                Received::More(ack) => (Some(ack), None),
                Received::Complete(ack, message) => (Some(ack), Some(Outcome::Answer(message))),
                Received::Failed(abort, _) => (Some(abort), Some(Outcome::Broken)),
                Received::Aborted(_) => (None, Some(Outcome::Broken)),
            }
        } else {
            let message = Message { header: *mad, data: mad.data.to_vec() };
            (None, Some(Outcome::Answer(Box::new(message))))
        };
        if outcome.is_some() && pending.outcome.is_none() {
            pending.outcome = outcome;
        }
        state.last_answer = Some(at);
        drop(state);
        self.changed.wake_all();
        reply
    }

    fn reported(&self, mad: &SaMad) {
        let response = SaMad { method: Method::REPORT_RESP, ..*mad }.emit();
        self.reply(&response);
        let subject = mad.record::<Notice>().and_then(|notice| notice.subject());
        if let (Some((trap, subject)), Some(listener)) = (subject, self.listener.upgrade()) {
            listener.notice(self.port, trap, subject);
        }
    }

    fn reply(&self, mad: &Mad) {
        if let Ok(to) = self.administrator() {
            // A lost reply is asked for again.
            let _ = self.transport.send(self.port.guid, to, mad);
        }
    }
}

impl Inbound for Session {
    fn receive(&self, arrival: &Arrival) {
        // What is no MAD of subnet administration is not for this session.
        let Ok(mad) = SaMad::parse(&arrival.mad) else { return };
        if mad.method == Method::REPORT {
            self.reported(&mad);
        } else if mad.method.is_response()
            && let Some(reply) = self.answered(&mad, arrival.cut)
        {
            self.reply(&reply);
        }
    }
}

/// Where an answer says to ask instead; `None` if it names no LID.
fn redirection(answer: &Message) -> Option<SmAddress> {
    let info = ClassPortInfo::parse(&answer.data)?;
    let to = SmAddress {
        lid: info.redirect_lid,
        sl: info.redirect_sl,
        qpn: info.redirect_qpn,
        p_key: info.redirect_p_key,
    };
    to.lid.is_unicast().then_some(to)
}

/// Where a port's administrator is: asked in the default partition, as full a member of it as the port is.
pub(crate) fn administrator(attr: &fabric::PortAttr) -> SmAddress {
    let member = attr.pkeys.iter().copied().filter(|key| key.base() == PKey::DEFAULT_FULL.base());
    SmAddress {
        lid: attr.sm_lid,
        sl: attr.sm_sl,
        qpn: Qpn::GSI,
        p_key: member.max().unwrap_or(PKey::DEFAULT_FULL),
    }
}

/// The session of a port.
pub(crate) fn port_id(device: &Device, attr: &fabric::PortAttr) -> PortId {
    PortId { hca: device.guid, num: attr.num.0, guid: attr.guid }
}
