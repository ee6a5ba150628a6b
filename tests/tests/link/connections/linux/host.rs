//! What a Linux host does with connections, and when.

use std::sync::Arc;

use fabric::{
    Fabric, Gid, Guid, Lid, ManagementPeer, Mtu, PKey, PortNum, Qp, Qpn, ReadyToReceive, ReadyToSend, Sl,
};
use fakekernel::Nanos;
use lab_gldv3::LinkAddress;

use super::adapter::{Adapter, Done};
use super::cm::{ACK_DELAY, Body, Ends, Message, Rep, Req, said, say};
use super::{ARP, Counts, DATAGRAM, Mode, Way};

const LEGACY: u64 = 0x1000_0000_0000_0000;
const IETF: u64 = 0x0100_0000_0000_0000;
const CONNECTED: u8 = 0x80;
const PKEY: PKey = PKey(0xffff);
/// Packets kept for a neighbour that it connects to.
const KEPT: usize = 3;
/// Between two REQs: an answer may take 4.3 s, and as long to come.
const REPEAT: Nanos = Nanos(2 * (4_096 << 20));
const REPEATS: u32 = 15;
/// The other side waits so long for an acknowledgement, as a code; and what it wants of this one.
const ACK_TIMEOUT: u8 = 19;
const NO_SERVICE: u16 = 8;
const REFUSED: u16 = 28;
/// Connections of others are looked at so often; those that look older than this go, the DREQ later.
const STALE_LOOK: Nanos = Nanos::from_secs(768);
const STALE: Nanos = Nanos::from_secs(512);
/// The time of the last message is noted no more often, and only of every fourth buffer.
const STAMP: Nanos = Nanos::from_secs(256);
const STALE_DREQ: Nanos = Nanos::from_secs(1);
/// Neighbours are looked at so often; those that nothing was sent to for two such times go, with their connections.
const GC: Nanos = Nanos::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asked,
    Answered,
    Up,
    /// In ERROR; a DREQ is to come, or is out.
    Parting,
}

struct Connection {
    id: u32,
    theirs: u32,
    /// Opened by this side.
    own: bool,
    lid: Lid,
    /// Whom it goes to, if it is this side's.
    to: Option<LinkAddress>,
    qp: Qp,
    remote_qpn: u32,
    state: State,
    longest: u32,
    waiting: Vec<Vec<u8>>,
    used: Nanos,
    stamp: Nanos,
    message: Message,
    due: Nanos,
    left: u32,
}

pub struct Host {
    fabric: Fabric,
    adapter: Arc<Adapter>,
    mode: Mode,
    connections: Vec<Connection>,
    last: u32,
    sends: u64,
    next_gc: Nanos,
    next_stale: Nanos,
    pub refuses: bool,
    pub silent: bool,
    /// It asks for so much time instead of an answer, as a code.
    pub asks_for_time: Option<u8>,
    /// In REQs it says that it is somebody else.
    pub claims: Option<LinkAddress>,
    /// And that it is where that one is.
    pub claims_place: bool,
    pub longest: u32,
    pub delay: u8,
    pub heard: Vec<(Way, Vec<u8>)>,
    pub asked: Vec<(u64, [u8; 8])>,
    pub answered: Vec<[u8; 8]>,
    pub counts: Counts,
}

fn now() -> Nanos {
    fakekernel::now()
}

fn after(span: Nanos) -> Nanos {
    Nanos(now().0 + span.0)
}

fn qpn_of(address: &LinkAddress) -> u32 {
    u32::from_be_bytes(address.0[..4].try_into().expect("four octets")) & 0x00ff_ffff
}

fn gid_of(address: LinkAddress) -> Option<Gid> {
    Some(Gid::from_bytes(address.0[4..].try_into().ok()?))
}

fn same(a: &LinkAddress, b: &LinkAddress) -> bool {
    a.0[1..] == b.0[1..]
}

impl Host {
    pub fn new(fabric: Fabric, adapter: Arc<Adapter>, mode: Mode) -> Self {
        Self {
            fabric,
            adapter,
            mode,
            connections: Vec::new(),
            last: 0x4c69_0000,
            sends: 0,
            next_gc: after(GC),
            next_stale: Nanos::NEVER,
            refuses: false,
            silent: false,
            asks_for_time: None,
            claims: None,
            claims_place: false,
            longest: 65_524,
            delay: ACK_DELAY,
            heard: Vec::new(),
            asked: Vec::new(),
            answered: Vec::new(),
            counts: Counts::default(),
        }
    }

    fn gid(&self) -> Gid {
        Gid { prefix: Gid::DEFAULT_PREFIX, guid: self.adapter.port.0 }
    }

    fn qpn(&self) -> u32 {
        self.adapter.ud.num().get()
    }

    pub fn address(&self) -> LinkAddress {
        let mut octets = [0; 20];
        octets[..4].copy_from_slice(&self.qpn().to_be_bytes());
        octets[0] = if self.mode == Mode::Without { 0 } else { CONNECTED };
        octets[4..].copy_from_slice(&self.gid().to_bytes());
        LinkAddress(octets)
    }

    fn lid_of(&self, to: &LinkAddress) -> Option<Lid> {
        let guid = Guid(u64::from_be_bytes(to.0[12..].try_into().expect("eight octets")));
        self.fabric.subnet_port(guid).map(|port| port.attr.lid)
    }

    pub fn send(&mut self, to: &LinkAddress, ethertype: u16, payload: &[u8]) {
        let frame = [&ethertype.to_be_bytes()[..], &[0, 0], payload].concat();
        let connects = matches!(self.mode, Mode::Connected | Mode::Rfc4755) && to.0[0] & CONNECTED != 0;
        let Some(lid) = self.lid_of(to) else { return };
        if !connects || ethertype == ARP {
            if payload.len() > DATAGRAM {
                self.counts.too_big += 1;
                return;
            }
            self.sends += 1;
            let qpn = Qpn::truncating(qpn_of(to));
            return self.adapter.send_datagram(self.sends, (lid, qpn), &frame);
        }
        let own = |connection: &&mut Connection| {
            connection.own
                && connection.state != State::Parting
                && connection.to.is_some_and(|other| same(&other, to))
        };
        let Some(connection) = self.connections.iter_mut().find(own) else {
            return self.open(to, lid, frame);
        };
        connection.used = now();
        if connection.state != State::Up {
            match connection.waiting.len() {
                KEPT.. => self.counts.dropped += 1,
                _ => connection.waiting.push(frame),
            }
        } else if frame.len() > connection.longest as usize {
            self.counts.too_big += 1;
        } else {
            self.sends += 1;
            if !self.adapter.send_message(&connection.qp, self.sends, &frame) {
                self.counts.dropped += 1;
            }
        }
    }

    pub fn send_back(&mut self, payload: &[u8]) -> bool {
        let frame = [&0x88b5_u16.to_be_bytes()[..], &[0, 0], payload].concat();
        let theirs = |connection: &&Connection| !connection.own && connection.state == State::Up;
        self.sends += 1;
        let found = self.connections.iter().find(theirs);
        found.is_some_and(|connection| self.adapter.send_message(&connection.qp, self.sends, &frame))
    }

    /// Opens one connection more, and says that it is this neighbour.
    pub fn open_as(&mut self, claims: LinkAddress, to: &LinkAddress, payload: &[u8]) {
        let frame = [&0x88b5_u16.to_be_bytes()[..], &[0, 0], payload].concat();
        let Some(lid) = self.lid_of(to) else { return };
        self.claims = Some(claims);
        self.open(to, lid, frame);
        self.claims = None;
    }

    /// On each connection that it has opened.
    pub fn send_on_all(&mut self, payload: &[u8]) -> usize {
        let frame = [&0x88b5_u16.to_be_bytes()[..], &[0, 0], payload].concat();
        let own = |connection: &&Connection| connection.own && connection.state == State::Up;
        let well =
            self.connections.iter().filter(own).filter(|one| self.adapter.send_message(&one.qp, 0, &frame));
        well.count()
    }

    fn service(&self) -> u64 {
        if self.mode == Mode::Rfc4755 { IETF } else { LEGACY }
    }

    fn open(&mut self, to: &LinkAddress, lid: Lid, frame: Vec<u8>) {
        self.last += 1;
        let qp = self.adapter.queue_pair();
        let base = if self.mode == Mode::Rfc4755 { IETF } else { LEGACY };
        let request = Req {
            service: base + u64::from(qpn_of(to)),
            qpn: qp.num().get(),
            psn: 0,
            transport: 0,
            retry: 0,
            rnr_retry: 0,
            path_mtu: 4,
            hello: say(self.claims.map_or(self.qpn(), |claimed| qpn_of(&claimed))),
        };
        let transaction = u64::from(self.last) << 8;
        let message = Message { transaction, from: self.last, to: 0, body: Body::Req(request) };
        self.connections.push(Connection {
            id: self.last,
            theirs: 0,
            own: true,
            lid,
            to: Some(*to),
            qp,
            remote_qpn: 0,
            state: State::Asked,
            longest: 0,
            waiting: vec![frame],
            used: now(),
            stamp: now(),
            message: message.clone(),
            due: after(REPEAT),
            left: REPEATS,
        });
        self.say(lid, Some(to), &message);
    }

    fn say(&self, lid: Lid, to: Option<&LinkAddress>, message: &Message) {
        let own = self.fabric.subnet_port(self.adapter.port).map_or(Lid::NONE, |port| port.attr.lid);
        let own =
            self.claims.filter(|_| self.claims_place).and_then(|claims| self.lid_of(&claims)).unwrap_or(own);
        let gid = to.and_then(|to| gid_of(*to));
        let ends = Ends {
            guid: self.adapter.hca.guid().0,
            lids: [own.0, lid.0],
            gids: [self.claims.and_then(gid_of).unwrap_or(self.gid()), gid.unwrap_or_default()],
            pkey: PKEY.0,
            rate: 3,
        };
        let peer = ManagementPeer { lid, qpn: Qpn::GSI, sl: Sl::truncating(0), pkey: PKEY };
        let _ = self.adapter.hca.send_management(PortNum(1), &peer, &message.emit(&ends));
    }

    /// Deals with everything there is; until when nothing is to be done if nothing happens.
    pub fn live(&mut self) -> Nanos {
        loop {
            let mad = self.adapter.told.inbox.lock().mads.pop_front();
            let Some((from, mad)) = mad else { break };
            if let Some(message) = Message::parse(&mad).filter(|_| !self.silent) {
                self.on_message(from.lid, message);
            }
        }
        self.adapter.told.inbox.lock().events.clear();
        for done in self.adapter.completed() {
            self.on_done(done);
        }
        self.on_time();
        let due = self.connections.iter().map(|connection| connection.due);
        due.chain([self.next_gc, self.next_stale]).min().unwrap_or(Nanos::NEVER)
    }

    fn on_message(&mut self, lid: Lid, message: Message) {
        let (own, theirs, transaction) = (message.to, message.from, message.transaction);
        let at = self.connections.iter().position(|connection| connection.id == own);
        match (message.body, at) {
            (Body::Req(request), _) => self.on_req(lid, theirs, transaction, &request),
            (Body::Rep(reply), Some(at)) => self.on_rep(at, theirs, transaction, &reply),
            (Body::Rtu, Some(at)) => self.stands(at),
            (Body::Mra(_), Some(at)) => self.connections[at].due = after(Nanos(2 * REPEAT.0)),
            (Body::Rej(_), Some(at)) => self.end(at),
            (Body::Drep, Some(at)) if self.connections[at].state == State::Parting => self.end(at),
            (Body::Dreq(_), at) => {
                self.counts.dreqs += 1;
                let drep = Message { transaction, from: own, to: theirs, body: Body::Drep };
                self.say(lid, None, &drep);
                // The side that sends goes on until a send fails.
                if let Some(at) = at.filter(|at| !self.connections[*at].own) {
                    self.end(at);
                }
            }
            _ => {}
        }
    }

    fn on_req(&mut self, lid: Lid, theirs: u32, transaction: u64, request: &Req) {
        let known = |connection: &&Connection| {
            !connection.own && connection.theirs == theirs && connection.lid == lid
        };
        if let Some(known) = self.connections.iter().find(known) {
            return self.say(lid, None, &known.message);
        }
        self.asked.push((request.service, request.hello));
        if let Some(time) = self.asks_for_time {
            self.last += 1;
            let mra = Message { transaction, from: self.last, to: theirs, body: Body::Mra(time) };
            return self.say(lid, None, &mra);
        }
        let here = request.service == self.service() + u64::from(self.qpn()) && self.mode != Mode::Without;
        if !here || self.refuses || request.transport != 0 {
            self.counts.refused += 1;
            let reason = if here { REFUSED } else { NO_SERVICE };
            let rej = Message { transaction, from: 0, to: theirs, body: Body::Rej(reason) };
            return self.say(lid, None, &rej);
        }
        self.last += 1;
        let qp = self.adapter.queue_pair();
        // As good as any.
        let psn = self.last.wrapping_mul(0x9e37) & 0x00ff_ffff;
        let receive = ReadyToReceive {
            vector: self.adapter.way(lid),
            pkey_ix: 0,
            peer: Qpn::truncating(request.qpn),
            first_psn: psn,
            path_mtu: Mtu::from_code(request.path_mtu).expect("it is one"),
            min_rnr: 0,
        };
        let send = ReadyToSend {
            first_psn: request.psn,
            ack_timeout: ACK_TIMEOUT,
            retry: request.retry,
            rnr_retry: request.rnr_retry,
        };
        self.adapter.hca.rc_to_rtr(&qp, receive).expect("it is in INIT");
        self.adapter.hca.rc_to_rts(&qp, send).expect("it is in RTR");
        let hello = (u64::from(self.qpn()) << 32 | u64::from(self.longest)).to_be_bytes();
        let reply = Rep { qpn: qp.num().get(), psn, rnr_retry: request.rnr_retry, delay: self.delay, hello };
        let message = Message { transaction, from: self.last, to: theirs, body: Body::Rep(reply) };
        self.say(lid, None, &message);
        if self.next_stale == Nanos::NEVER {
            self.next_stale = after(STALE_LOOK);
        }
        self.connections.push(Connection {
            id: self.last,
            theirs,
            own: false,
            lid,
            to: None,
            qp,
            remote_qpn: request.qpn,
            state: State::Answered,
            longest: said(request.hello).1,
            waiting: Vec::new(),
            used: now(),
            stamp: now(),
            message,
            due: after(REPEAT),
            left: REPEATS,
        });
    }

    fn on_rep(&mut self, at: usize, theirs: u32, transaction: u64, reply: &Rep) {
        let connection = &mut self.connections[at];
        if connection.state != State::Asked {
            // The RTU was lost.
            let rtu = Message { transaction, from: connection.id, to: theirs, body: Body::Rtu };
            let lid = connection.lid;
            return self.say(lid, None, &rtu);
        }
        self.answered.push(reply.hello);
        let longest = said(reply.hello).1;
        let lid = connection.lid;
        if longest <= 4 {
            let rej = Message { transaction, from: connection.id, to: theirs, body: Body::Rej(REFUSED) };
            self.say(lid, None, &rej);
            return self.end(at);
        }
        (connection.theirs, connection.remote_qpn, connection.longest) = (theirs, reply.qpn, longest);
        let receive = ReadyToReceive {
            vector: self.adapter.way(lid),
            pkey_ix: 0,
            peer: Qpn::truncating(reply.qpn),
            first_psn: 0,
            path_mtu: Mtu::M2048,
            min_rnr: 0,
        };
        let send = ReadyToSend {
            first_psn: reply.psn,
            ack_timeout: ACK_TIMEOUT,
            retry: 0,
            rnr_retry: reply.rnr_retry,
        };
        self.adapter.hca.rc_to_rtr(&connection.qp, receive).expect("it is in INIT");
        self.adapter.hca.rc_to_rts(&connection.qp, send).expect("it is in RTR");
        let rtu = Message { transaction, from: connection.id, to: theirs, body: Body::Rtu };
        (connection.state, connection.due) = (State::Up, Nanos::NEVER);
        self.counts.opened += 1;
        for frame in std::mem::take(&mut connection.waiting) {
            self.sends += 1;
            let _ = self.adapter.send_message(&connection.qp, self.sends, &frame);
        }
        self.say(lid, None, &rtu);
    }

    /// The other side has got the REP.
    fn stands(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        if connection.state == State::Answered {
            (connection.state, connection.due) = (State::Up, Nanos::NEVER);
            self.counts.accepted += 1;
        }
    }

    fn on_done(&mut self, done: Done) {
        let by_qpn = |qpn: Qpn| self.connections.iter().position(|connection| connection.qp.num() == qpn);
        match done {
            Done::Datagram(frame) if frame.len() >= 4 => {
                // What is for groups comes here, too; nobody tells those apart.
                self.heard.push((Way::Datagram, frame[4..].to_vec()));
            }
            Done::Message(qpn, buffer, frame) if frame.len() >= 4 => {
                let Some(at) = by_qpn(qpn) else { return };
                if self.connections[at].own {
                    self.counts.fatal += 1;
                    return;
                }
                self.stands(at);
                let connection = &mut self.connections[at];
                if buffer % 4 == 0 && now().0 - connection.stamp.0 >= STAMP.0 {
                    connection.stamp = now();
                }
                self.heard.push((Way::Connection, frame[4..].to_vec()));
            }
            Done::Sent(qpn, false) => {
                if let Some(at) = by_qpn(qpn).filter(|at| self.connections[*at].own) {
                    self.counts.dropped += 1;
                    self.part(at, now());
                }
            }
            Done::Sent(..) | Done::Datagram(_) | Done::Message(..) | Done::Nothing => {}
        }
    }

    /// To ERROR at once, with a DREQ then.
    fn part(&mut self, at: usize, dreq_at: Nanos) {
        let connection = &mut self.connections[at];
        let _ = self.adapter.hca.flush_qp(&connection.qp);
        let body = Body::Dreq(connection.remote_qpn);
        let transaction = connection.message.transaction + 1;
        connection.message = Message { transaction, from: connection.id, to: connection.theirs, body };
        (connection.state, connection.due, connection.left) = (State::Parting, dreq_at, REPEATS);
    }

    fn end(&mut self, at: usize) {
        let connection = self.connections.remove(at);
        self.counts.dropped += connection.waiting.len() as u64;
        let _ = self.adapter.hca.flush_qp(&connection.qp);
        let _ = self.adapter.hca.free_qp(&connection.qp);
    }

    fn on_time(&mut self) {
        let time = now();
        if time >= self.next_gc {
            self.next_gc = after(GC);
            let unused = |connection: &Connection| {
                connection.own && connection.state == State::Up && time.0 - connection.used.0 >= 2 * GC.0
            };
            while let Some(at) = self.connections.iter().position(unused) {
                self.part(at, time);
            }
        }
        if time >= self.next_stale {
            self.next_stale = after(STALE_LOOK);
            let stale = |connection: &Connection| {
                !connection.own && connection.state == State::Up && time.0 - connection.stamp.0 > STALE.0
            };
            while let Some(at) = self.connections.iter().position(stale) {
                self.counts.stale += 1;
                self.part(at, after(STALE_DREQ));
            }
        }
        while let Some(at) = self.connections.iter().position(|connection| connection.due <= time) {
            let connection = &mut self.connections[at];
            if connection.left == 0 {
                self.end(at);
                continue;
            }
            connection.left -= 1;
            connection.due = after(REPEAT);
            let (lid, to, message) = (connection.lid, connection.to, connection.message.clone());
            self.say(lid, to.as_ref(), &message);
        }
    }
}
