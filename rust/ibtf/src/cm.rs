//! Connections as the communication manager (`ibcm`) has them: [`Service`], where a client listens, and what it is asked and told.

use core::ffi::c_void;
use core::ptr;
use core::time::Duration;

use illumos_sys_hdrs as sys;
use kernel::{KBox, MayBlock};

use crate::Gid;
use crate::client::Client;
use crate::clients;
use crate::event::ChannelId;
use crate::rc::RcChannel;
use crate::services::{Registered, Services};
use crate::status::Status;

/// `IBT_CM_MRA_TYPE_REQ`: the side that opens is told.
const MRA_OF_A_REQ: u8 = 0;

/// A client listens at a port for who wants a connection with a service: its
/// [`ClientHandler::connection_requested`](crate::ClientHandler::connection_requested) is asked. Ends when dropped (**may block**, and never
/// in that handler): who has begun to ask is still answered by the client.
pub struct Service {
    binding: sys::ibt_sbind_hdl_t,
    registered: Registered,
    _client: Client,
}

// SAFETY: the handles are used by IBTF, from any thread.
unsafe impl Send for Service {}
// SAFETY: as above.
unsafe impl Sync for Service {}

impl Service {
    /// Registers a service ID (`ibt_register_service`), unless another client of the module has, and binds it to the port with this GID
    /// (`ibt_bind_service`), for every P_Key and without a word to the SA. `CM_SERVICE_EXISTS` if another module has the ID, or this one at
    /// this port; `INVALID_PARAM` if no active port has the GID. **May block.**
    pub fn new(client: &Client, id: u64, port: Gid, may_block: &MayBlock) -> Result<Self, Status> {
        // If the rest fails this is dropped, which takes the registration back.
        let registered = Services::register(client.registry(), id, may_block)?;
        let mut binding = ptr::null_mut();
        // SAFETY: registered; the argument is a number.
        Status::check(unsafe {
            sys::ibt_bind_service(
                registered.handle(),
                port.raw(),
                ptr::null_mut(),
                client.cookie(),
                &mut binding,
            )
        })?;
        Ok(Self { binding, registered, _client: client.clone() })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // SAFETY: bound.
        let _ = unsafe { sys::ibt_unbind_service(self.registered.handle(), self.binding) };
    }
}

/// Somebody wants a connection (a REQ).
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Whether it is to be a reliable one.
    pub reliable: bool,
    /// In this partition, membership included.
    pub pkey: u16,
    /// The GID of who asks.
    pub from: Gid,
    /// The GID that is asked.
    pub to: Gid,
    /// The LID that who asks wants acknowledgements at.
    pub lid: u16,
    /// What came with the REQ: 92 bytes, whatever the other side filled in.
    pub private: &'a [u8],
}

/// What somebody who wants a connection is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// No (REJ 28, consumer reject).
    Refused,
    /// Not now (REJ 3, no resources).
    NoRoom,
    /// An answer follows: through the [`Session`].
    Later,
}

impl Reply {
    const fn raw(self) -> sys::ibt_cm_status_t {
        match self {
            Self::Refused => sys::IBT_CM_REJECT,
            Self::NoRoom => sys::IBT_CM_NO_RESOURCE,
            Self::Later => sys::IBT_CM_DEFER,
        }
    }
}

/// The right to answer a REQ, once, of whoever has said [`Reply::Later`]. One that is never used leaves the communication manager waiting.
#[must_use]
pub struct Session(*mut c_void);

// SAFETY: a name, which the communication manager alone looks behind.
unsafe impl Send for Session {}
// SAFETY: as above.
unsafe impl Sync for Session {}

impl Session {
    /// Accepts the connection with this channel. The other side repeats what finds no receive at most `receiver_retries` times (7: for
    /// ever), and is sent `private`, at most 196 bytes. The client is told what comes of it, unless this fails. **May block**, and never
    /// in a handler of the communication manager.
    pub fn accept(self, channel: &RcChannel, receiver_retries: u8, private: &mut [u8]) -> Result<(), Status> {
        let reply = sys::ibt_cm_ret_rep_t {
            cm_channel: channel.handle(),
            cm_rnr_retry_cnt: sys::ibt_rnr_retry_cnt_e(receiver_retries.min(7).into()),
            ..Default::default()
        };
        self.proceed(sys::IBT_CM_ACCEPT, sys::ibt_cm_proceed_reply_t { rep: reply }, private)
    }

    /// Refuses it, [`Reply::Refused`] or [`Reply::NoRoom`]. **May block**, and never in a handler of the communication manager.
    pub fn refuse(self, why: Reply) -> Result<(), Status> {
        let status = if why == Reply::NoRoom { sys::IBT_CM_NO_RESOURCE } else { sys::IBT_CM_REJECT };
        self.proceed(status, sys::ibt_cm_proceed_reply_t::default(), &mut [])
    }

    fn proceed(
        self,
        status: sys::ibt_cm_status_t,
        mut reply: sys::ibt_cm_proceed_reply_t,
        private: &mut [u8],
    ) -> Result<(), Status> {
        let len = u8::try_from(private.len()).map_err(|_| Status::INVALID_PARAM)?;
        // SAFETY: the session is answered once; reply and private data are copied by the call.
        Status::check(unsafe {
            sys::ibt_cm_proceed(
                sys::IBT_CM_EVENT_REQ_RCV,
                self.0,
                status,
                &mut reply,
                private.as_mut_ptr().cast(),
                len,
            )
        })
    }
}

/// # Safety
///
/// Called by the communication manager with its record of an event; with an argument that is no client's, too.
pub(crate) unsafe extern "C" fn connection_event(
    cookie: *mut c_void,
    event: *mut sys::ibt_cm_event_t,
    _answer: *mut sys::ibt_cm_return_args_t,
    _private: *mut c_void,
    _room: sys::ibt_priv_data_len_t,
) -> sys::ibt_cm_status_t {
    // SAFETY: its record, during the call.
    let event = unsafe { &*event };
    match event.cm_type {
        sys::IBT_CM_EVENT_REQ_RCV => requested(cookie, event),
        sys::IBT_CM_EVENT_CONN_EST => {
            let (channel, answer) = (ChannelId(event.cm_channel.addr()), ack_timeout(event.cm_channel));
            clients::call(cookie, |handler| handler.connection_established(channel, answer));
            sys::IBT_CM_ACCEPT
        }
        sys::IBT_CM_EVENT_REP_RCV => replied(cookie, event),
        sys::IBT_CM_EVENT_MRA_RCV => delayed(cookie, event),
        sys::IBT_CM_EVENT_CONN_CLOSED => {
            let channel = ChannelId(event.cm_channel.addr());
            clients::call(cookie, |handler| handler.connection_ended(channel));
            sys::IBT_CM_ACCEPT
        }
        sys::IBT_CM_EVENT_FAILURE => {
            let channel = ChannelId(event.cm_channel.addr());
            // SAFETY: of a failure this is the member that is filled in.
            let reason = unsafe { event.cm_event.failed }.cf_reason.0 as u16;
            clients::call(cookie, |handler| handler.connection_failed(channel, reason));
            sys::IBT_CM_ACCEPT
        }
        _ => sys::IBT_CM_DEFAULT,
    }
}

/// What came with an event, while its handler runs.
fn private_data(event: &sys::ibt_cm_event_t) -> &[u8] {
    match ptr::NonNull::new(event.cm_priv_data.cast::<u8>()) {
        // SAFETY: so many bytes, as long as the event is there.
        Some(data) => unsafe { core::slice::from_raw_parts(data.as_ptr(), event.cm_priv_data_len.into()) },
        None => &[],
    }
}

/// How long the queue pair waits for an acknowledgement, as the communication manager has set it: the channel stands.
fn ack_timeout(channel: sys::ibt_channel_hdl_t) -> Option<u8> {
    let mut attributes = KBox::new(sys::ibt_qp_query_attr_t::default()).ok()?;
    // SAFETY: the communication manager keeps the channel while it tells of it, on a thread that may block.
    Status::check(unsafe { sys::ibt_query_qp(channel, &mut *attributes) }).ok()?;
    // SAFETY: of a queue pair of a connection this is the member that is filled in. The field is `cep_timeout`.
    Some(unsafe { attributes.qp_info.qp_transport.rc }.rc_path.cep_cm_opaque1 & 0x1f)
}

fn replied(cookie: *mut c_void, event: &sys::ibt_cm_event_t) -> sys::ibt_cm_status_t {
    let channel = ChannelId(event.cm_channel.addr());
    let replied =
        |handler: &dyn crate::ClientHandler| handler.connection_replied(channel, private_data(event));
    let wanted = clients::call(cookie, replied);
    if wanted == Some(true) { sys::IBT_CM_ACCEPT } else { sys::IBT_CM_REJECT }
}

fn delayed(cookie: *mut c_void, event: &sys::ibt_cm_event_t) -> sys::ibt_cm_status_t {
    // SAFETY: of an MRA this is the member that is filled in.
    let asked = unsafe { event.cm_event.mra };
    if asked.mra_msg_type == MRA_OF_A_REQ {
        let channel = ChannelId(event.cm_channel.addr());
        let time = Duration::from_micros(u64::try_from(asked.mra_service_time).unwrap_or(0));
        clients::call(cookie, |handler| handler.connection_delayed(channel, time));
    }
    sys::IBT_CM_ACCEPT
}

fn requested(cookie: *mut c_void, event: &sys::ibt_cm_event_t) -> sys::ibt_cm_status_t {
    // SAFETY: of a REQ this is the member that is filled in.
    let request = unsafe { &event.cm_event.req };
    let request = Request {
        reliable: request.req_transport == sys::IBT_RC_SRV,
        pkey: request.req_pkey,
        // As an answer would go.
        from: Gid::from_raw(&request.req_prim_addr.av_dgid),
        to: Gid::from_raw(&request.req_prim_addr.av_sgid),
        // `av_dlid`.
        lid: request.req_prim_addr.av_opaque2,
        private: private_data(event),
    };
    let session = Session(event.cm_session_id);
    let reply = clients::call(cookie, |handler| handler.connection_requested(&request, session));
    // Of a client that is gone nobody wants to hear.
    reply.unwrap_or(Reply::Refused).raw()
}
