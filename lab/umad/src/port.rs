//! The umad device of a port.

use std::collections::{BTreeMap, VecDeque};

use rustix::io::Errno;
use sm::mad::RmppKind;
use sm::rmpp::{Received, Receiver};
use sm::{Arrival, Mad, Nanos, PKey, QKey, Qpn, SaMad, SmAddress};

use crate::agents::{Agent, Agents};
use crate::files::{File, FileId};
use crate::header::{Header, Layout};
use crate::message::{self, MAD_HEADER, Wanted};
use crate::out::{Fate, Key, Out};
use crate::registration::{AgentId, Registration};

/// A MAD to be sent from the port's QP 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// To whom.
    pub to: SmAddress,
    /// What.
    pub mad: Mad,
}

/// A message that comes in segments: from whom (LID), transaction, for which agent, and whether it answers.
type Incoming = (u16, u64, u32, bool);

/// How far such a message has come.
#[derive(Debug)]
struct Progress {
    state: Receiving,
    /// When it is forgotten.
    until: Nanos,
}

#[derive(Debug)]
enum Receiving {
    Under(Receiver),
    /// All of it came, and this was said of it: once more if the sender has not heard it.
    Done(Box<Mad>),
}

/// After so long without a segment the rest of a message does not come any more.
const STALE: Nanos = Nanos::from_millis(40_000);
/// So long its sender may ask whether a message came.
const FINISHED: Nanos = Nanos::from_millis(10_000);

/// Messages in segments that a port keeps in mind; the one that is forgotten first makes room.
const INCOMING: usize = 256;

/// See the crate's documentation.
#[derive(Debug)]
pub struct Port {
    files: BTreeMap<FileId, File>,
    agents: Agents,
    out: BTreeMap<Key, Out>,
    incoming: BTreeMap<Incoming, Progress>,
    outbox: VecDeque<Outgoing>,
    next_file: u64,
    gone: bool,
    dropped: u64,
}

impl Port {
    /// A port with no open file. `reserved` is the high half of transactions that somebody else on the port has.
    pub const fn new(reserved: u32) -> Self {
        Self {
            files: BTreeMap::new(),
            agents: Agents::new(reserved),
            out: BTreeMap::new(),
            incoming: BTreeMap::new(),
            outbox: VecDeque::new(),
            next_file: 0,
            gone: false,
            dropped: 0,
        }
    }

    /// `open(2)`.
    ///
    /// # Errors
    /// `ENXIO` once the port is gone.
    pub fn open(&mut self) -> Result<FileId, Errno> {
        if self.gone {
            return Err(Errno::NXIO);
        }
        self.next_file += 1;
        let id = FileId(self.next_file);
        self.files.insert(id, File::default());
        Ok(id)
    }

    /// `close(2)`: its agents end, requests that are out are not sent again, what comes for them and what was not read is dropped.
    pub fn close(&mut self, file: FileId) {
        if let Some(closed) = self.files.remove(&file) {
            closed.agents.into_values().for_each(|high_half| self.end_agent(high_half));
        }
    }

    /// Whether a file is open.
    pub fn is_open(&self) -> bool {
        !self.files.is_empty()
    }

    /// The port goes: files stay open, and every call on them but closing is refused.
    pub fn remove(&mut self) {
        self.gone = true;
        self.out.clear();
        self.incoming.clear();
        self.outbox.clear();
        for file in self.files.values_mut() {
            file.dead = true;
            std::mem::take(&mut file.agents)
                .into_values()
                .for_each(|high_half| self.agents.remove(high_half));
        }
    }

    fn file(&mut self, id: FileId) -> Result<&mut File, Errno> {
        self.files.get_mut(&id).ok_or(Errno::BADF)
    }

    /// `IB_USER_MAD_ENABLE_PKEY`: the new layout from now on.
    ///
    /// # Errors
    /// `EINVAL` after the first agent.
    pub fn enable_p_key(&mut self, file: FileId) -> Result<(), Errno> {
        let file = self.file(file)?;
        if file.used {
            return Err(Errno::INVAL);
        }
        file.layout = Layout::New;
        Ok(())
    }

    /// The layout that a file speaks.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn layout(&mut self, file: FileId) -> Result<Layout, Errno> {
        self.file(file).map(|file| file.layout)
    }

    /// `IB_USER_MAD_REGISTER_AGENT`.
    ///
    /// # Errors
    /// `EINVAL` for what no agent can be, and where another agent of the port takes the same unsolicited MADs; `EOPNOTSUPP` for
    /// what is not carried here; `ENOMEM` for a file's 33rd agent; `EPIPE` once the port is gone.
    pub fn register(&mut self, file: FileId, wanted: &Registration) -> Result<AgentId, Errno> {
        if self.gone {
            return Err(Errno::PIPE);
        }
        let id = self.file(file)?.free_agent()?;
        let high_half = self.agents.add(Agent { file, id, registration: *wanted })?;
        let file = self.file(file)?;
        file.used = true;
        file.agents.insert(id, high_half);
        Ok(id)
    }

    /// `IB_USER_MAD_UNREGISTER_AGENT`; what is out for it is forgotten.
    ///
    /// # Errors
    /// `EINVAL` if the file has no such agent.
    pub fn unregister(&mut self, file: FileId, agent: AgentId) -> Result<(), Errno> {
        let high_half = self.file(file)?.agents.remove(&agent).ok_or(Errno::INVAL)?;
        self.end_agent(high_half);
        Ok(())
    }

    fn end_agent(&mut self, high_half: u32) {
        self.agents.remove(high_half);
        self.out.retain(|key, _| key.high_half != high_half);
        self.incoming.retain(|(_, _, agent, _), _| *agent != high_half);
    }

    /// `write(2)`: sends a message, header first. `p_keys` is the port's table. The number of bytes taken.
    ///
    /// # Errors
    /// `EINVAL` for less than a header and 36 bytes, an agent or a P_Key index that is not there, more than one MAD without RMPP,
    /// and a transaction that is still out; `EOPNOTSUPP` for a GRH; `EIO` once the port is gone.
    pub fn write(&mut self, now: Nanos, file: FileId, bytes: &[u8], p_keys: &[PKey]) -> Result<usize, Errno> {
        let opened = self.file(file)?;
        if opened.dead {
            return Err(Errno::IO);
        }
        let (header, mad) = Header::parse(opened.layout, bytes).ok_or(Errno::INVAL)?;
        let high_half = *opened.agents.get(&AgentId(header.agent)).ok_or(Errno::INVAL)?;
        let rmpp = self.agents.get(high_half).is_some_and(Agent::has_rmpp);
        let wanted = Wanted::parse(mad, rmpp)?;
        if header.grh_present {
            return Err(Errno::OPNOTSUPP);
        }
        let p_key = p_keys.get(usize::from(header.p_key_index)).filter(|key| key.base() != 0);
        let p_key = *p_key.ok_or(Errno::INVAL)?;
        let response = message::is_response(&wanted.first());
        // An answer keeps the transaction of who asked.
        let wanted = if response { wanted } else { wanted.for_agent(high_half) };
        let first = wanted.first();
        let (transaction, class) = (message::transaction(&first), message::class(&first));
        let peer = if response { header.lid.0 } else { 0 };
        let key = Key { high_half, transaction, class, response, peer };
        if self.out.contains_key(&key) {
            return Err(Errno::INVAL);
        }
        let to = SmAddress { lid: header.lid, sl: header.sl, qpn: header.qpn, p_key };
        let mut out = match wanted {
            Wanted::One(mad) => Out::one(to, header, *mad),
            Wanted::Segmented(mad, data) => Out::segmented(to, header, mad, data),
        };
        let started = out.start(now);
        self.out.insert(key, out);
        self.carry_out(key, started);
        Ok(bytes.len())
    }

    /// Sends what a step of a message wants sent, and ends it if it is over.
    fn carry_out(&mut self, key: Key, (send, fate): (Vec<Mad>, Fate)) {
        let Some(out) = self.out.get(&key) else { return };
        // The receiver drops what has another key than QP 1's.
        if out.header.qpn == Qpn::GSI && out.header.q_key == QKey::GSI {
            self.outbox.extend(send.into_iter().map(|mad| Outgoing { to: out.to, mad }));
        }
        if fate == Fate::Out {
            return;
        }
        let Some(out) = self.out.remove(&key) else { return };
        self.forget_answer(&key);
        if fate == Fate::Unanswered {
            let header = Header { status: Errno::TIMEDOUT.raw_os_error().unsigned_abs(), ..out.header };
            self.put(key.high_half, header, out.first.0[..MAD_HEADER].to_vec());
        }
    }

    /// What has come of the answer to a request that is over.
    fn forget_answer(&mut self, key: &Key) {
        self.incoming.retain(|(_, transaction, agent, response), _| {
            !(*response && *transaction == key.transaction && *agent == key.high_half)
        });
    }

    fn put(&mut self, high_half: u32, header: Header, mad: Vec<u8>) {
        let Some(agent) = self.agents.get(high_half) else { return };
        let header = Header { agent: agent.id.0, ..header };
        let taken = self.files.get_mut(&agent.file).is_some_and(|file| file.put(header, mad));
        self.dropped += u64::from(!taken);
    }

    /// `read(2)`, without waiting.
    ///
    /// # Errors
    /// `EAGAIN` if nothing has come; `EINVAL` for a buffer that is too small for the header and the first MAD; `ENOSPC` for one that
    /// is too small for the rest: header and first MAD are in it, [`Header::length`] is what is needed, and the message stays; `EIO`
    /// once the port is gone.
    pub fn read(&mut self, file: FileId, into: &mut [u8]) -> Result<usize, Errno> {
        self.file(file)?.read(into)
    }

    /// `poll(2)`: whether [`read`](Self::read) would not answer `EAGAIN`.
    pub fn is_readable(&self, file: FileId) -> bool {
        self.files.get(&file).is_none_or(File::is_readable)
    }

    /// Messages that were dropped because their program did not read.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// A MAD came for QP 1. What is nobody's here is passed over.
    pub fn receive(&mut self, now: Nanos, arrival: &Arrival, p_keys: &[PKey]) {
        let mad = &arrival.mad;
        let segment = SaMad::parse(mad).ok().filter(|mad| mad.rmpp.is_active());
        if let Some(segment) = &segment
            && self.acknowledged(now, arrival, segment)
        {
            return;
        }
        let Some((high_half, agent)) = self.agents.addressee(mad) else { return };
        let has_rmpp = agent.has_rmpp();
        let response = message::is_response(mad);
        let key = Key {
            high_half,
            transaction: message::transaction(mad),
            class: message::class(mad),
            response: false,
            peer: 0,
        };
        // An answer that nobody waits for any more is nobody's.
        if response && !self.out.contains_key(&key) {
            return;
        }
        let header = received(arrival, p_keys);
        let whole = match segment {
            Some(segment) if has_rmpp && !arrival.cut => {
                match self.segment(now, arrival, &segment, high_half, response) {
                    Some(whole) => whole,
                    None => return,
                }
            }
            _ => mad.0.to_vec(),
        };
        if response {
            self.out.remove(&key);
            self.forget_answer(&key);
        }
        self.put(high_half, header, whole);
    }

    /// Whether it is the receiver's word on segments that are on their way from here.
    fn acknowledged(&mut self, now: Nanos, arrival: &Arrival, mad: &SaMad) -> bool {
        if !matches!(mad.rmpp.kind, RmppKind::Ack | RmppKind::Stop | RmppKind::Abort) {
            return false;
        }
        let mine = |(key, out): &(&Key, &mut Out)| {
            key.transaction == mad.transaction && out.to.lid == arrival.from.lid && out.is_segmenting()
        };
        let Some((key, out)) = self.out.iter_mut().find(mine) else { return false };
        let (key, step) = (*key, out.acknowledged(now, mad));
        self.carry_out(key, step);
        true
    }

    /// A segment of a message; the message, if it was the last one.
    fn segment(
        &mut self,
        now: Nanos,
        arrival: &Arrival,
        mad: &SaMad,
        high_half: u32,
        response: bool,
    ) -> Option<Vec<u8>> {
        let incoming = (arrival.from.lid.0, mad.transaction, high_half, response);
        if !self.incoming.contains_key(&incoming) {
            // A message begins with its first segment.
            if mad.rmpp.data1 != 1 {
                return None;
            }
            self.make_room();
            let state = Receiving::Under(Receiver::new());
            self.incoming.insert(incoming, Progress { state, until: now.after(STALE) });
        }
        let progress = self.incoming.get_mut(&incoming)?;
        let receiver = match &mut progress.state {
            Receiving::Under(receiver) => receiver,
            Receiving::Done(ack) => {
                self.outbox.push_back(Outgoing { to: arrival.from, mad: **ack });
                return None;
            }
        };
        progress.until = now.after(STALE);
        let (reply, whole) = match receiver.receive(mad) {
            Received::More(ack) => (Some(ack), None),
            Received::Complete(ack, message) => {
                *progress = Progress { state: Receiving::Done(Box::new(ack)), until: now.after(FINISHED) };
                (Some(ack), Some(message::assembled(&message)))
            }
            Received::Failed(abort, _) => {
                self.incoming.remove(&incoming);
                (Some(abort), None)
            }
            Received::Aborted(_) => {
                self.incoming.remove(&incoming);
                (None, None)
            }
        };
        self.outbox.extend(reply.map(|mad| Outgoing { to: arrival.from, mad }));
        for (key, out) in &mut self.out {
            if response && key.high_half == high_half && key.transaction == mad.transaction {
                out.answer_goes_on(now);
            }
        }
        whole
    }

    fn make_room(&mut self) {
        if self.incoming.len() < INCOMING {
            return;
        }
        let first = self.incoming.iter().min_by_key(|(_, progress)| progress.until).map(|(key, _)| *key);
        if let Some(key) = first {
            self.incoming.remove(&key);
        }
    }

    /// The next MAD to send; call until `None`.
    pub fn poll_send(&mut self) -> Option<Outgoing> {
        self.outbox.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let forgotten = self.incoming.values().map(|progress| progress.until);
        self.out.values().filter_map(Out::deadline).chain(forgotten).min()
    }

    /// Sends again what was not answered or acknowledged, and gives back what never is. Early calls are harmless.
    pub fn handle_timeout(&mut self, now: Nanos) {
        self.incoming.retain(|_, progress| progress.until > now);
        let due = |(_, out): &(&Key, &Out)| out.deadline().is_some_and(|due| due <= now);
        let due: Vec<Key> = self.out.iter().filter(due).map(|(key, _)| *key).collect();
        for key in due {
            if let Some(out) = self.out.get_mut(&key) {
                let step = out.handle_timeout(now);
                self.carry_out(key, step);
            }
        }
    }
}

/// In front of a MAD that came.
fn received(arrival: &Arrival, p_keys: &[PKey]) -> Header {
    let from = &arrival.from;
    let index = p_keys.iter().position(|key| key.base() == from.p_key.base() && key.base() != 0);
    let status = if arrival.cut { Errno::OVERFLOW.raw_os_error().unsigned_abs() } else { 0 };
    Header {
        status,
        qpn: from.qpn,
        lid: from.lid,
        sl: from.sl,
        p_key_index: index.and_then(|index| u16::try_from(index).ok()).unwrap_or(0),
        ..Header::default()
    }
}
