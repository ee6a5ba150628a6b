//! The side that is asked.
#![forbid(unsafe_code)]

use std::sync::Arc;

use fabric::{
    AddressVector, GlobalRoute, Lid, ManagementPeer, Mtu, Nanos, PortAttr, PortNum, QpState, Qpn, Rate,
    ReadyToReceive, ReadyToSend, Sl,
};
use fakekernel::{HostMutex, cx};

use super::conn::{Closed, Conn, NoCallbacks, State, Telling};
use super::handler::{Answer, Handler, Told};
use super::mad::{About, Body, Message, Rej, Rep, Req};
use super::{DEFER, Refusal, closed, code_of, failure, now, reason, refusal, span};
use crate::ibcm::Ibcm;
use crate::ibcm::service::{Binding, Service};
use crate::ibtl::{Channel, Device, Ibtl, resolve};

/// Beyond this a REQ with the numbers of an old one is a new one.
const STALE_SLACK: Nanos = Nanos(1_000_000_000);
/// `IBT_CM_REJECT`, what a REQ gets from a client that has no opinion.
const REJECT: u32 = 1;

/// What there is about a REQ already.
enum Known {
    New,
    /// It came before: this is sent again, if anything.
    Again(Option<Message>),
    /// An old connection has its queue pair; it is torn down if it stands.
    Stale {
        old: u32,
        reason: u16,
    },
}

impl Ibcm {
    pub(super) fn on_req(
        &self,
        device: &Arc<Device>,
        port: u8,
        from: ManagementPeer,
        theirs: u32,
        transaction: u64,
        req: Req,
    ) {
        let whence = (&**device, port, from);
        match self.known(theirs, transaction, &req) {
            Known::New => {}
            Known::Again(None) => return,
            Known::Again(Some(message)) => return self.send_cm(device, port, &from, &message),
            Known::Stale { old, reason } => {
                self.tear_down(old);
                let refusal = Refusal { about: About::Req, reason, transaction, remote: theirs };
                return self.refuse(whence, refusal);
            }
        }
        let id = {
            let mut table = self.connections.table.lock();
            let id = table.fresh_id();
            table.insert(conn_of(id, device, port, from, theirs, transaction, &req));
            id
        };
        let found = if req.transport == 0 || req.transport == 1 {
            self.service_for(device, port, &req)
        } else {
            Err(reason::INVALID_TRANSPORT)
        };
        let (service, binding) = match found {
            Ok(found) => found,
            Err(reason) => return self.reject(id, About::Req, reason, Vec::new()),
        };
        let handler = Handler { function: service.handler, private: binding.private };
        {
            let mut table = self.connections.table.lock();
            let Some(conn) = table.get_mut(id) else { return };
            conn.handler = handler;
            conn.service = Some((service.clone(), binding));
            conn.in_handler = true;
            conn.handler_thread = cx().thread().did();
        }
        service.enter();
        let answer = self.tell(handler, &Told::Req { req: &req, port }, Some(id), None);
        service.leave();
        let answer = answer.unwrap_or(Answer { status: REJECT, ..Answer::default() });
        let aborted = self.handler_returned(id, answer.status == DEFER);
        if aborted {
            self.abort_now(id, About::Req);
        } else if answer.status != DEFER {
            self.req_answered(id, answer);
        }
    }

    fn known(&self, theirs: u32, transaction: u64, req: &Req) -> Known {
        let mut table = self.connections.table.lock();
        if let Some(old) = table.passive_of(req.qpn, req.guid) {
            let same = old.remote_id == theirs && old.transaction == transaction && now() <= old.stale_after;
            if same {
                let again = match old.state {
                    State::RepSent | State::RejSent => old.message.clone(),
                    State::ReqReceived => old.mra.clone(),
                    _ => None,
                };
                return Known::Again(again);
            }
            if old.state != State::RejSent || old.remote_id == theirs {
                return Known::Stale { old: old.id, reason: reason::STALE };
            }
            // The queue pair was refused before and tries again.
            let id = old.id;
            table.remove(id);
        }
        match table.by_remote_id(theirs, req.guid, 0).filter(|old| !old.active && old.state != State::RejSent)
        {
            Some(old) => Known::Stale { old: old.id, reason: reason::DUPLICATE_ID },
            None => Known::New,
        }
    }

    /// Whom a REQ is for.
    fn service_for(
        &self,
        device: &Arc<Device>,
        port: u8,
        req: &Req,
    ) -> Result<(Arc<Service>, Arc<Binding>), u16> {
        let services = self.services.services.all();
        let mut serving = services.into_iter().filter(|service| service.serves(req.service_id)).peekable();
        serving.peek().ok_or(reason::INVALID_SERVICE)?;
        let ports: Vec<PortAttr> = device.cached_ports();
        let owner = ports.iter().find(|attr| attr.gids.contains(&req.path.remote_gid));
        let owner = owner.ok_or(reason::PRIMARY_GID)?;
        let mask = !(owner.lmc.lids() - 1);
        if req.path.remote_lid & mask != owner.lid.0 {
            return Err(reason::PRIMARY_LID);
        }
        if owner.num.0 != port {
            return Err(reason::INVALID_SERVICE);
        }
        let bindings = self.services.bindings.all();
        for service in serving {
            let of_port = |binding: &&Arc<Binding>| {
                Arc::ptr_eq(&binding.service, &service)
                    && owner.gids.contains(&binding.gid)
                    && binding.record.as_ref().is_none_or(|record| record.p_key.0 == req.p_key)
            };
            let mut bound = bindings.iter().filter(of_port);
            let exact = bound.clone().find(|binding| binding.gid == req.path.remote_gid);
            if let Some(binding) = exact.or_else(|| bound.next()) {
                return Ok((service, binding.clone()));
            }
        }
        Err(reason::INVALID_SERVICE)
    }

    /// The client has looked at the REQ.
    pub(super) fn req_answered(&self, id: u32, answer: Answer) {
        let found = {
            let mut table = self.connections.table.lock();
            let Some(conn) = table.get_mut(id).filter(|conn| conn.state == State::ReqReceived) else {
                return;
            };
            conn.deferred = false;
            (conn.req.clone(), conn.device.clone(), conn.port)
        };
        let (req, device, port) = found;
        if let Some(reason) = refusal(answer.status, REJECT) {
            return self.reject(id, About::Req, reason, answer.private);
        }
        let accepted = self.accept(id, &req, &device, port, &answer);
        if let Err(reason) = accepted {
            self.failed(id, failure::REJ_SENT, About::Req, reason, None);
            return self.reject(id, About::Req, reason, Vec::new());
        }
        self.connections.clock.wake_all();
        self.send_of(id, |conn| conn.message.clone());
    }

    /// Links the connection with the channel that the client gave, which goes to RTR, and makes the REP.
    fn accept(&self, id: u32, req: &Req, device: &Device, port: u8, answer: &Answer) -> Result<(), u16> {
        let channel = self.channel_for(answer.channel)?;
        {
            let mut table = self.connections.table.lock();
            let conn = table.get_mut(id).ok_or(reason::NO_RESOURCES)?;
            conn.channel = Some(channel.clone());
        }
        let adapter = channel.open.adapter();
        let now_is = adapter.query_qp(&channel.qp).map_err(|_| reason::NO_RESOURCES)?;
        if channel.connection().is_none() {
            return Err(reason::INVALID_TRANSPORT);
        }
        if now_is.state != QpState::Init {
            return Err(reason::BAD_STATE);
        }
        if now_is.port.0 != port {
            adapter.set_rc_port(&channel.qp, PortNum(port)).map_err(|_| reason::NO_RESOURCES)?;
        }
        if answer.rdma_out > req.responder_resources {
            return Err(reason::NOT_SUPPORTED);
        }
        let (vector, pkey_ix) = way_back(req, device, port).ok_or(reason::NO_RESOURCES)?;
        let receive = ReadyToReceive {
            vector,
            pkey_ix,
            peer: Qpn::truncating(req.qpn),
            first_psn: 0,
            path_mtu: Mtu::from_code(req.path_mtu).ok_or(reason::NO_RESOURCES)?,
            min_rnr: 0,
        };
        // A loaded adapter is called without the table's lock.
        adapter.rc_to_rtr(&channel.qp, receive).map_err(|_| reason::NO_RESOURCES)?;
        let mut table = self.connections.table.lock();
        let conn = table.get_mut(id).ok_or(reason::NO_RESOURCES)?;
        channel.cm.lock().session = Some(id);
        let rep = Rep {
            qpn: channel.qp.num().get(),
            first_psn: 0,
            responder_resources: answer.rdma_in,
            initiator_depth: answer.rdma_out,
            target_ack_delay: crate::ibcm::ACK_DELAY,
            flow_control: true,
            rnr_retry: answer.rnr_retry,
            srq: !channel.srq.get().is_null(),
            guid: device.guid,
            private: answer.private.clone(),
        };
        conn.state = State::RepSent;
        conn.message = Some(Message {
            transaction: conn.transaction,
            local: id,
            remote: conn.remote_id,
            body: Body::Rep(rep),
        });
        let interval = conn.interval;
        self.arm(&mut table, id, interval);
        Ok(())
    }

    /// The channel that a client gave for a REQ.
    fn channel_for(&self, handle: usize) -> Result<Arc<Channel>, u16> {
        if handle == 0 {
            return Err(reason::NO_CHANNEL);
        }
        let ibtl = Ibtl::of(&self.kernel);
        let handle = std::ptr::without_provenance::<u8>(handle);
        let channel = resolve(&cx(), &ibtl.channels, handle).ok_or(reason::NO_CHANNEL)?;
        let taken = channel.cm.lock().session.is_some();
        if taken { Err(reason::NO_CHANNEL) } else { Ok(channel) }
    }

    pub(super) fn on_rtu(
        &self,
        (device, port, from): (&Arc<Device>, u8, ManagementPeer),
        theirs: u32,
        id: u32,
        transaction: u64,
        private: &[u8],
    ) {
        let known = {
            let table = self.connections.table.lock();
            table.get(id).map(|conn| conn.transaction == transaction)
        };
        match known {
            Some(true) => self.establish(id, Some(private)),
            Some(false) => {}
            None => {
                let (about, reason) = (About::Other, reason::INVALID_ID);
                self.refuse((device, port, from), Refusal { about, reason, transaction, remote: theirs });
            }
        }
    }

    /// The first message came before the RTU.
    pub(in crate::ibcm) fn channel_established(&self, channel: &Channel) {
        let session = channel.cm.lock().session;
        if let Some(id) = session {
            self.establish(id, None);
        }
    }

    /// The other side is ready: so is this one, and its client hears of it.
    fn establish(&self, id: u32, private: Option<&[u8]>) {
        let found = {
            let mut table = self.connections.table.lock();
            let Some(conn) = table.get_mut(id) else { return };
            if !matches!(conn.state, State::RepSent | State::MraRepReceived) {
                return;
            }
            conn.state = State::Establishing;
            let found = conn.channel.clone().map(|channel| (channel, conn.req.clone()));
            table.set_due(id, None);
            found
        };
        let Some((channel, req)) = found else { return };
        let send = ReadyToSend {
            first_psn: req.first_psn,
            ack_timeout: code_of(span(req.path.ack_timeout)),
            retry: req.retry,
            rnr_retry: req.rnr_retry,
        };
        if channel.open.adapter().rc_to_rts(&channel.qp, send).is_err() {
            Self::to_error(Some(&channel));
            Self::unlink(Some(&channel));
            self.reject(id, About::Other, reason::NO_RESOURCES, Vec::new());
            return self.failed(id, failure::REJ_SENT, About::Other, reason::NO_RESOURCES, None);
        }
        {
            let mut table = self.connections.table.lock();
            let Some(conn) = table.get_mut(id) else { return };
            (conn.state, conn.telling) = (State::Established, Telling::Soon);
            channel.cm.lock().connected = true;
        }
        self.tell_established(id, private, &channel);
    }

    /// The other side refuses.
    pub(super) fn on_rej(&self, theirs: u32, id: u32, rej: &Rej) {
        let guid = rej.info.get(..8).and_then(|info| info.try_into().ok()).map(u64::from_be_bytes);
        let found = {
            let mut table = self.connections.table.lock();
            let id = match guid.filter(|_| id == 0 && rej.reason == reason::TIMEOUT) {
                Some(guid) => table.by_remote_id(theirs, guid, 0).map(|conn| conn.id),
                None => Some(id),
            };
            let Some(conn) = id.and_then(|id| table.get_mut(id)) else { return };
            let (id, was) = (conn.id, conn.state);
            match was {
                State::ReqSent | State::RepWait | State::RepSent | State::MraRepReceived => {
                    conn.state = State::Aborting;
                }
                State::Established => conn.state = State::DreqReceived,
                State::ReqReceived | State::RepReceived if conn.in_handler => {
                    conn.abort = true;
                    return;
                }
                _ => return,
            }
            let found = (id, was, conn.channel.clone());
            table.set_due(id, None);
            found
        };
        let (id, was, channel) = found;
        if was == State::Established {
            return self.lost(id, closed::REJ_RECEIVED, None);
        }
        if matches!(was, State::RepSent | State::MraRepReceived) {
            self.fail_and_unlink(channel.as_ref());
        } else {
            Self::unlink(channel.as_ref());
        }
        self.failed(id, failure::REJ_RECEIVED, rej.about, rej.reason, Some(&rej.private));
        self.connections.table.lock().remove(id);
        self.table_changed();
    }
}

/// The way to who sent a REQ, and the index of its partition.
fn way_back(req: &Req, device: &Device, port: u8) -> Option<(AddressVector, u16)> {
    let path = &req.path;
    let grh = (!path.subnet_local).then_some(GlobalRoute {
        dgid: path.local_gid,
        sgid_ix: 0,
        flow_label: path.flow_label,
        tclass: path.tclass,
        hop_limit: path.hop_limit,
    });
    let base = device.cached_port(port)?.lid;
    let vector = AddressVector {
        port: PortNum(port),
        dlid: Lid(path.local_lid),
        sl: Sl::truncating(path.sl),
        // The port answers from the LID that was asked (`ibcm_sm.c`, `prim_src_path_bits`).
        src_path: path.remote_lid.wrapping_sub(base.0) as u8,
        rate: Rate::new(path.rate)?,
        grh,
    };
    Some((vector, device.pkey_index(port, req.p_key)?))
}

fn conn_of(
    id: u32,
    device: &Arc<Device>,
    port: u8,
    from: ManagementPeer,
    theirs: u32,
    transaction: u64,
    req: &Req,
) -> Conn {
    let ack_delay = span(req.path.ack_timeout);
    let patience = ack_delay.0.saturating_mul(u64::from(req.cm_retries)) / 2;
    Conn {
        id,
        remote_id: theirs,
        active: false,
        state: State::ReqReceived,
        channel: None,
        remote_qpn: req.qpn,
        remote_guid: req.guid,
        device: device.clone(),
        port,
        peer: from,
        way: None,
        handler: Handler::default(),
        service: None,
        transaction,
        message: None,
        retries_left: req.cm_retries,
        max_retries: req.cm_retries,
        interval: span(req.local_response),
        due: None,
        // Nobody tells this side.
        lifetime: Nanos(ack_delay.0 / 2),
        remote_ack_delay: ack_delay,
        stale_after: now().after(STALE_SLACK).after(Nanos(patience)),
        req: req.clone(),
        rep: None,
        mra: None,
        deferred: false,
        in_handler: false,
        handler_thread: 0,
        telling: Telling::No,
        abort: false,
        stale: false,
        stranded: false,
        no_callbacks: NoCallbacks::Free,
        has_open_place: false,
        has_close_place: false,
        opened: Arc::default(),
        closed: Arc::new(HostMutex::new(Closed::default())),
    }
}
