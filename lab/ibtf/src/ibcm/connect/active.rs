//! The side that opens.
#![forbid(unsafe_code)]

use std::sync::Arc;

use fabric::{AddressVector, Gid, ManagementPeer, Mtu, Nanos, PKey, Qpn, ReadyToReceive, ReadyToSend};
use fakekernel::{HostMutex, cx};
use illumos_sys_hdrs::{
    IBT_CHAN_HDL_INVALID, IBT_CHAN_IN_USE, IBT_CHAN_STATE_INVALID, IBT_HCA_PORT_NOT_ACTIVE,
    IBT_INVALID_PARAM, ibt_status_t,
};

use super::conn::{Closed, Conn, NoCallbacks, Opened, State, Telling};
use super::handler::{Answer, Handler, Told};
use super::mad::{About, Body, Message, Rep, Req, ReqPath};
use super::{ACCEPT, DEFER, PROCESSING, RETRIES, Refusal, code_of, failure, now, reason, refusal, span};
use crate::ibcm::{Ibcm, Local};
use crate::ibtl::{Channel, Device};

/// What the other side's software takes (`ibcm_sw_delay`).
const SOFTWARE: Nanos = Nanos(1_000_000);

/// What a client asks for.
pub(super) struct Open {
    pub hca: u64,
    pub service_id: u64,
    pub vector: AddressVector,
    pub sgid: Gid,
    pub dgid: Gid,
    pub pkey_ix: u16,
    pub mtu: Mtu,
    /// An `ib_time_t`.
    pub lifetime: u8,
    pub handler: Handler,
    pub retry: u8,
    pub rnr_retry: u8,
    pub rdma_in: u8,
    pub rdma_out: u8,
    pub cm_retries: Option<u8>,
    pub first_psn: Option<u32>,
    /// What this side's, and the other side's, CM may take to answer.
    pub local_response: Option<Nanos>,
    pub remote_response: Option<Nanos>,
    pub private: Vec<u8>,
}

/// What an open's caller waits for.
pub(super) type Outcome = Arc<HostMutex<Option<Opened>>>;

impl Ibcm {
    /// Begins an open; the REQ goes when it is its turn.
    pub(super) fn open(&self, channel: &Arc<Channel>, open: &Open) -> Result<(u32, Outcome), ibt_status_t> {
        let local = self.local(open.sgid).map_err(|_| IBT_HCA_PORT_NOT_ACTIVE)?;
        if local.device.guid != channel.open.device.guid || open.hca != local.device.guid {
            return Err(IBT_CHAN_HDL_INVALID);
        }
        let now_is = channel.open.adapter().query_qp(&channel.qp)?;
        if now_is.state != fabric::QpState::Init {
            return Err(IBT_CHAN_STATE_INVALID);
        }
        let (device, port) = (local.device.clone(), local.attr.num);
        if now_is.port != port {
            channel.open.adapter().set_rc_port(&channel.qp, port)?;
        }
        let p_key = local.attr.pkeys.get(usize::from(open.pkey_ix)).copied().filter(|key| key.is_valid());
        let p_key = p_key.ok_or(IBT_INVALID_PARAM)?;
        self.start_clock();
        let outcome = Outcome::default();
        let begins = {
            let mut table = self.connections.table.lock();
            let id = table.fresh_id();
            {
                let mut link = channel.cm.lock();
                if link.session.is_some() {
                    return Err(IBT_CHAN_IN_USE);
                }
                (link.session, link.opening) = (Some(id), true);
            }
            table.insert(conn_of(id, channel, &local, device, open, p_key, outcome.clone()));
            (table.enter_open(id), id)
        };
        if begins.0 {
            self.send_req(begins.1);
        }
        Ok((begins.1, outcome))
    }

    /// Waits until an open is over.
    pub(super) fn wait_for_open(&self, outcome: &Outcome) -> Opened {
        let mut slot = outcome.lock();
        loop {
            if let Some(opened) = slot.take() {
                return opened;
            }
            slot = self.connections.changed.wait(slot);
        }
    }

    pub(super) fn send_req(&self, id: u32) {
        {
            let mut table = self.connections.table.lock();
            let Some(conn) = table.get_mut(id).filter(|conn| conn.state == State::Queued) else { return };
            conn.state = State::ReqSent;
            let interval = conn.interval;
            self.arm(&mut table, id, interval);
        }
        self.connections.clock.wake_all();
        self.send_of(id, |conn| conn.message.clone());
    }

    pub(super) fn on_rep(
        &self,
        whence: (&Arc<Device>, u8, ManagementPeer),
        theirs: u32,
        id: u32,
        transaction: u64,
        rep: Rep,
    ) {
        let (device, port, from) = whence;
        let mut again = false;
        let mut stale = false;
        let found = {
            let mut table = self.connections.table.lock();
            let known = table.get(id).is_some_and(|conn| conn.active && conn.transaction == transaction);
            stale |= known && table.active_to(rep.qpn, rep.guid, id).is_some_and(is_standing);
            let Some(conn) = table.get_mut(id).filter(|_| known) else {
                drop(table);
                let remote = theirs;
                let about = About::Rep;
                return self.refuse(
                    (device, port, from),
                    Refusal { about, reason: reason::INVALID_ID, transaction, remote },
                );
            };
            match conn.state {
                State::ReqSent | State::RepWait => {
                    conn.state = State::RepReceived;
                    conn.remote_id = theirs;
                    (conn.remote_qpn, conn.remote_guid) = (rep.qpn, rep.guid);
                    conn.remote_ack_delay = span(rep.target_ack_delay);
                    conn.rep = Some(rep.clone());
                    conn.in_handler = !stale;
                    conn.handler_thread = cx().thread().did();
                    let used = Nanos((2 * conn.lifetime.0).saturating_sub(SOFTWARE.0));
                    let left = span(conn.req.local_response).0 as i64 - used.0 as i64;
                    let service_time = left / 1_000;
                    let found = (conn.handler, conn.channel.clone(), service_time);
                    table.set_due(id, None);
                    Some(found)
                }
                State::Established | State::RejSent => {
                    again = true;
                    None
                }
                _ => None,
            }
        };
        if again {
            self.send_of(id, |conn| conn.message.clone());
        }
        let Some((handler, channel, service_time)) = found else { return };
        if stale {
            Self::unlink(channel.as_ref());
            self.failed(id, failure::STALE, About::Rep, reason::STALE, None);
            return self.reject(id, About::Rep, reason::STALE, Vec::new());
        }
        let answer = self.tell(handler, &Told::Rep { rep: &rep, service_time }, Some(id), channel.as_deref());
        let answer = answer.unwrap_or(Answer { status: ACCEPT, ..Answer::default() });
        let aborted = self.handler_returned(id, answer.status == DEFER);
        if aborted {
            self.abort_now(id, About::Rep);
        } else if answer.status != DEFER {
            self.rep_answered(id, answer);
        }
    }

    /// A handler for a REQ or a REP has returned. True if the connection is to be aborted.
    pub(super) fn handler_returned(&self, id: u32, deferred: bool) -> bool {
        let aborted = {
            let mut table = self.connections.table.lock();
            let Some(conn) = table.get_mut(id) else { return false };
            conn.in_handler = false;
            conn.deferred = deferred;
            conn.abort
        };
        self.table_changed();
        aborted
    }

    /// The client has looked at the REP.
    pub(super) fn rep_answered(&self, id: u32, answer: Answer) {
        let found = {
            let mut table = self.connections.table.lock();
            let Some(conn) = table.get_mut(id).filter(|conn| conn.state == State::RepReceived) else {
                return;
            };
            conn.deferred = false;
            let Some(rep) = conn.rep.clone() else { return };
            conn.channel.clone().map(|channel| (channel, conn.req.clone(), rep, conn.lifetime))
        };
        let Some((channel, req, rep, lifetime)) = found else { return };
        let refused = refusal(answer.status, ACCEPT).or_else(|| {
            let ready = self.to_rts_as_opener(id, &channel, &req, &rep, lifetime);
            ready.err().map(|_| reason::NO_RESOURCES)
        });
        if let Some(reason) = refused {
            Self::unlink(Some(&channel));
            self.failed(id, failure::REJ_SENT, About::Rep, reason, None);
            return self.reject(id, About::Rep, reason, answer.private);
        }
        {
            let mut table = self.connections.table.lock();
            let Some(conn) = table.get_mut(id) else { return };
            (conn.state, conn.telling) = (State::Established, Telling::Soon);
            {
                let mut link = channel.cm.lock();
                (link.opening, link.connected) = (false, true);
            }
            conn.message = Some(Message {
                transaction: conn.transaction,
                local: id,
                remote: conn.remote_id,
                body: Body::Rtu { private: answer.private },
            });
        }
        self.send_of(id, |conn| conn.message.clone());
        self.tell_established(id, None, &channel);
        let outcome = {
            let mut table = self.connections.table.lock();
            table.get_mut(id).map(|conn| conn.opened.clone())
        };
        self.open_is_over(id);
        if let Some(outcome) = outcome {
            *outcome.lock() = Some(Opened {
                reason: 0,
                private: rep.private,
                rdma_in: rep.initiator_depth,
                rdma_out: rep.responder_resources,
            });
        }
        self.table_changed();
    }

    fn to_rts_as_opener(
        &self,
        id: u32,
        channel: &Channel,
        req: &Req,
        rep: &Rep,
        lifetime: Nanos,
    ) -> Result<(), ibt_status_t> {
        let way = {
            let table = self.connections.table.lock();
            table.get(id).and_then(|conn| conn.way)
        };
        let (vector, pkey_ix) = way.ok_or(IBT_INVALID_PARAM)?;
        let receive = ReadyToReceive {
            vector,
            pkey_ix,
            peer: Qpn::truncating(rep.qpn),
            // A side says with which number the other one shall begin.
            first_psn: req.first_psn,
            path_mtu: Mtu::from_code(req.path_mtu).ok_or(IBT_INVALID_PARAM)?,
            min_rnr: 0,
        };
        let wait = Nanos(2 * lifetime.0 + span(rep.target_ack_delay).0);
        let send = ReadyToSend {
            first_psn: rep.first_psn,
            ack_timeout: code_of(wait),
            retry: req.retry,
            rnr_retry: rep.rnr_retry,
        };
        channel.open.adapter().rc_to_rtr(&channel.qp, receive)?;
        channel.open.adapter().rc_to_rts(&channel.qp, send)
    }

    /// The other side takes longer, and says how long: so long each time that it is asked again, and as often as at first. Once only, whatever
    /// it says that this is about.
    pub(super) fn on_mra(&self, id: u32, service: u8, private: &[u8]) {
        let (about, handler, channel) = {
            let mut table = self.connections.table.lock();
            let Some(conn) = table.get_mut(id) else { return };
            let (about, state) = match conn.state {
                State::ReqSent => (About::Req, State::RepWait),
                State::RepSent => (About::Rep, State::MraRepReceived),
                _ => return,
            };
            conn.state = state;
            let found = (about, conn.handler, conn.channel.clone());
            table.set_due(id, None);
            found
        };
        let told = Told::Mra { about, service, private };
        let _ = self.tell(handler, &told, None, channel.as_deref());
        {
            let mut table = self.connections.table.lock();
            let waits = |conn: &&mut Conn| matches!(conn.state, State::RepWait | State::MraRepReceived);
            let Some(conn) = table.get_mut(id).filter(waits) else { return };
            conn.retries_left = conn.max_retries;
            conn.interval = Nanos(span(service).0 + conn.lifetime.0);
            let interval = conn.interval;
            self.arm(&mut table, id, interval);
        }
        self.connections.clock.wake_all();
    }
}

fn is_standing(conn: &Conn) -> bool {
    matches!(conn.state, State::Established | State::AboutToClose | State::DreqSent)
}

/// A connection that is about to be asked for.
fn conn_of(
    id: u32,
    channel: &Arc<Channel>,
    local: &Local,
    device: Arc<Device>,
    open: &Open,
    p_key: PKey,
    outcome: Outcome,
) -> Conn {
    let lifetime = span(open.lifetime);
    let local_time = open.local_response.unwrap_or(PROCESSING);
    let remote_time = open.remote_response.unwrap_or(PROCESSING);
    let grh = open.vector.grh;
    let ack_delay = span(crate::ibcm::ACK_DELAY);
    let req = Req {
        service_id: open.service_id,
        guid: device.guid,
        qpn: channel.qp.num().get(),
        responder_resources: open.rdma_in,
        initiator_depth: open.rdma_out,
        remote_response: code_of(remote_time),
        transport: 0,
        flow_control: true,
        first_psn: open.first_psn.unwrap_or(0),
        local_response: code_of(Nanos(local_time.0 + 2 * lifetime.0 + 1_000_000)),
        retry: open.retry,
        p_key: p_key.0,
        path_mtu: open.mtu.code(),
        rnr_retry: open.rnr_retry,
        cm_retries: open.cm_retries.unwrap_or(RETRIES),
        srq: !channel.srq.get().is_null(),
        path: ReqPath {
            local_lid: local.attr.lid.0 | u16::from(open.vector.src_path),
            remote_lid: open.vector.dlid.0,
            local_gid: open.sgid,
            remote_gid: open.dgid,
            flow_label: grh.map_or(0, |grh| grh.flow_label),
            rate: open.vector.rate.code(),
            tclass: grh.map_or(0, |grh| grh.tclass),
            hop_limit: grh.map_or(0, |grh| grh.hop_limit),
            sl: open.vector.sl.get(),
            subnet_local: true,
            ack_timeout: code_of(Nanos(2 * lifetime.0 + ack_delay.0)),
        },
        private: open.private.clone(),
    };
    let interval = span(code_of(Nanos(2 * lifetime.0 + remote_time.0)));
    let transaction = device.guid << 32 | u64::from(id);
    let body = Body::Req(Box::new(req.clone()));
    Conn {
        id,
        remote_id: 0,
        active: true,
        state: State::Queued,
        channel: Some(channel.clone()),
        remote_qpn: 0,
        remote_guid: 0,
        device,
        port: local.attr.num.0,
        peer: ManagementPeer { lid: open.vector.dlid, qpn: Qpn::GSI, sl: open.vector.sl, pkey: p_key },
        way: Some((open.vector, open.pkey_ix)),
        handler: open.handler,
        service: None,
        transaction,
        message: Some(Message { transaction, local: id, remote: 0, body }),
        retries_left: req.cm_retries,
        max_retries: req.cm_retries,
        req,
        rep: None,
        interval,
        due: None,
        lifetime,
        remote_ack_delay: ack_delay,
        stale_after: now(),
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
        opened: outcome,
        closed: Arc::new(HostMutex::new(Closed::default())),
    }
}
