//! [`RcChannel`]: one end of a reliable connection.

use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use illumos_sys_hdrs as sys;
use kernel::module::Pin;
use kernel::{KArc, KBox};

use crate::adapter_owned::{AdapterOwned, Keep};
use crate::cq::Cq;
use crate::event::ChannelId;
use crate::pd::Pd;
use crate::refused::told;
use crate::srq::Srq;
use crate::status::Status;

/// A queue pair of a connection, or for one. Cheap to clone; the last clone closes the connection, without waiting for the other side, and
/// frees the queue pair (**may block**, and never in a handler of the communication manager). Of one that was opened or accepted use
/// [`RcChannel::free`]: what cannot be freed in this moment is never freed by a drop.
///
/// Whoever has given it to the communication manager ([`Session::accept`](crate::Session::accept)) keeps a clone until he is told of
/// the connection, or [`close`](RcChannel::close) succeeds: until then the communication manager may be about to use it.
#[derive(Clone)]
pub struct RcChannel(KArc<Inner>);

struct Inner {
    handle: sys::ibt_channel_hdl_t,
    closed: AtomicBool,
    /// There is no queue pair any more.
    freed: AtomicBool,
    receives: Option<Receives>,
    sends: Option<Sends>,
}

/// What one that receives is made of.
struct Receives {
    _srq: Srq,
    cq: Cq,
}

/// What one that sends is made of.
struct Sends {
    /// What the adapter may still be reading; in front of `pd`, which keeps the adapter that this is given back to.
    adapter_owned: AdapterOwned,
    size: u32,
    cq: Cq,
    _pd: Pd,
}

// SAFETY: the handle is used by IBTF, from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// What an adapter says of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RcState {
    /// How far the other side has sent: the number of the packet that is due. As long as nothing comes it stays the same.
    pub packet_due: u32,
    /// Where the P_Key is that it was made with, in the port's table.
    pub pkey_index: u16,
}

impl RcChannel {
    /// A queue pair that receives into a shared receive queue and never sends (`ibt_alloc_rc_channel`). Its receives complete on this CQ, which
    /// must hold as many as the queue. `INVALID_PARAM` for objects of two adapters. **May block.**
    pub fn receiving(srq: &Srq, cq: &Cq, port: u8) -> Result<Self, Status> {
        srq.pd().hca().check(cq.hca())?;
        let args = arguments(srq.pd(), cq, port, 1);
        let args = sys::ibt_rc_chan_alloc_args_t { rc_srq: srq.handle(), ..args };
        let (handle, _) = allocate(srq.pd(), sys::IBT_ACHAN_USES_SRQ, args)?;
        // If this fails the value is dropped, which frees again.
        let receives = Receives { _srq: srq.clone(), cq: cq.clone() };
        Ok(Self(KArc::new(Inner::new(handle, Some(receives), None))?))
    }

    /// A queue pair for so many sends that never receives (`ibt_alloc_rc_channel`): what the other side sends finds no receive.
    /// `INVALID_PARAM` for objects of two adapters. **May block.**
    pub fn sending(pd: &Pd, cq: &Cq, port: u8, sends: u32) -> Result<Self, Status> {
        pd.hca().check(cq.hca())?;
        let adapter_owned = AdapterOwned::new()?;
        let (handle, real) = allocate(pd, sys::IBT_ACHAN_NO_FLAGS, arguments(pd, cq, port, sends))?;
        // Each may complete, and a CQ that is overrun is lost.
        let size = sends.min(real.cs_sq).min(cq.size());
        let sends = Sends { adapter_owned, size, cq: cq.clone(), _pd: pd.clone() };
        // As above.
        Ok(Self(KArc::new(Inner::new(handle, None, Some(sends)))?))
    }

    /// The CQ that what it receives completes on; `None` if it never receives.
    pub fn receive_cq(&self) -> Option<&Cq> {
        self.0.receives.as_ref().map(|receives| &receives.cq)
    }

    /// What events call it.
    pub fn id(&self) -> ChannelId {
        ChannelId(self.handle().addr())
    }

    /// How long the other side waits when it finds no receive posted: 20 ms, where it would be 655 (`ibt_modify_rc_channel`); once the
    /// connection stands, or else `CHAN_STATE_INVALID`. **May block.**
    ///
    /// `ibt_modify_rc_channel` tells the adapter the state that `ibtl` remembers. `ibcm` names none when it brings a connection to RTS, so what is
    /// remembered then is RESET (`ibcm_invoke_rtu_qp_modify`), and the adapter would reset what stands. A query has `ibtl` remember what is.
    pub fn shorten_receiver_pause(&self) -> Result<(), Status> {
        self.look_for(sys::IBT_STATE_RTS)?;
        let mut attributes = KBox::new(sys::ibt_rc_chan_modify_attr_t {
            rc_min_rnr_nak: sys::IBT_RNR_NAK_20ms,
            ..Default::default()
        })?;
        // SAFETY: allocated; nothing but the time is changed, and no sizes are asked for.
        Status::check(unsafe {
            sys::ibt_modify_rc_channel(
                self.handle(),
                sys::IBT_CEP_SET_MIN_RNR_NAK,
                &mut *attributes,
                ptr::null_mut(),
            )
        })
    }

    /// `CHAN_STATE_INVALID` if the queue pair is in another state.
    fn look_for(&self, state: sys::ibt_cep_state_t) -> Result<(), Status> {
        let seen = self.attributes()?.qp_info.qp_state;
        if seen == state { Ok(()) } else { Err(Status::CHAN_STATE_INVALID) }
    }

    fn attributes(&self) -> Result<KBox<sys::ibt_qp_query_attr_t>, Status> {
        let mut attributes = KBox::new(sys::ibt_qp_query_attr_t::default())?;
        // SAFETY: allocated.
        Status::check(unsafe { sys::ibt_query_qp(self.handle(), &mut *attributes) })?;
        Ok(attributes)
    }

    /// How a connection that stands receives (`ibt_query_qp`). **May block**, for the adapter.
    pub fn query(&self) -> Result<RcState, Status> {
        let attributes = self.attributes()?;
        // SAFETY: of a queue pair of a connection this is the member that is filled in.
        let connection = unsafe { attributes.qp_info.qp_transport.rc };
        Ok(RcState { packet_due: connection.rc_rq_psn(), pkey_index: connection.rc_path.cep_pkey_ix })
    }

    /// Ends the connection: the queue pair is in the error state when this returns, and no handler is called for it any more
    /// (`ibt_close_rc_channel`, NOCALLBACKS). `CHAN_STATE_INVALID` if the communication manager does not know the channel, or not yet.
    /// Does not wait for the other side, but for its turn: of a machine's connections twelve are being closed at once. **May block.**
    ///
    /// For what came of an attempt or an offer was told of ([`established`](crate::ClientHandler::connection_established),
    /// [`failed`](crate::ClientHandler::connection_failed), [`ended`](crate::ClientHandler::connection_ended)), or for whoever
    /// [asks for time](crate::ClientHandler::connection_delayed). Of one that is about to be told that it stands the communication manager calls the
    /// handler that it has just forgotten (`ibcm_cep_state_rtu`, `ibcm_cep_send_rtu`), and of one that waits to be opened it leaves its own memory behind
    /// (`ibcm_open_done`).
    pub fn close(&self) -> Result<(), Status> {
        self.0.close()
    }

    /// Takes back an offer ([`Session::accept`](crate::Session::accept)) of which nothing was told yet, or ends the connection that just comes of it: the
    /// client is told, and closes it then (`ibt_close_rc_channel`, NONBLOCKING). Once only: a second one may be put into a queue twice. Until the client is told
    /// the communication manager uses the channel, also when its queue pair is in the error state and empty. Errors as for [`RcChannel::close`]. **May block.**
    ///
    /// `ibcm`'s one thread for such things does it (`ibcm_process_tlist`). If the other side has taken the offer up when the thread comes to it, the thread waits for one
    /// of the twelve places of closes, and has no timeout told and no queued open begun as long. There is no smaller call: a close that waits is right only for what was told.
    pub fn take_back(&self) -> Result<(), Status> {
        self.0.end(sys::IBT_NONBLOCKING)
    }

    /// Frees the queue pair of a connection that is closed or was never made. It comes back if there is another clone, or if the communication
    /// manager is ending an attempt in this moment, of its own accord (`CHAN_STATE_INVALID`): to be tried again a little later. **May block.**
    pub fn free(self) -> Result<(), Self> {
        if !KArc::is_unique(&self.0) {
            return Err(self);
        }
        match self.0.free() {
            Err(Status::CHAN_STATE_INVALID) => Err(self),
            // Whatever else it is, it does not pass: the drop keeps what the adapter may use.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    pub(crate) fn handle(&self) -> sys::ibt_channel_hdl_t {
        self.0.handle
    }

    /// How many sends it holds; 0 if it never sends.
    pub(crate) fn sends(&self) -> u32 {
        self.0.sends.as_ref().map_or(0, |sends| sends.size)
    }

    /// The CQ its sends complete on; `None` if it never sends.
    pub fn send_cq(&self) -> Option<&Cq> {
        self.0.sends.as_ref().map(|sends| &sends.cq)
    }

    /// Makes sure that [`RcChannel::keep_until_freed`] will have room. `NOT_SUPPORTED` if it never sends.
    pub(crate) fn promise(&self) -> Result<(), Status> {
        let sends = self.0.sends.as_ref().ok_or(Status::NOT_SUPPORTED)?;
        Ok(sends.adapter_owned.promise()?)
    }

    /// A promise is not needed.
    pub(crate) fn keep_nothing(&self) {
        if let Some(sends) = &self.0.sends {
            sends.adapter_owned.keep_nothing();
        }
    }

    /// Drops `what` when the channel is freed. Needs a promise.
    pub(crate) fn keep_until_freed(&self, what: KBox<dyn Keep>) {
        // Whoever promised has such a channel.
        if let Some(sends) = &self.0.sends {
            sends.adapter_owned.keep(what);
        }
    }
}

/// What all queue pairs of connections have in common. An adapter wants room for one send and one receive.
fn arguments(pd: &Pd, cq: &Cq, port: u8, sends: u32) -> sys::ibt_rc_chan_alloc_args_t {
    sys::ibt_rc_chan_alloc_args_t {
        rc_flags: sys::IBT_WR_SIGNALED,
        rc_hca_port_num: port,
        rc_sizes: sys::ibt_chan_sizes_t { cs_sq: sends, cs_rq: 1, cs_sq_sgl: 1, cs_rq_sgl: 1, cs_inline: 0 },
        rc_scq: cq.handle(),
        rc_rcq: cq.handle(),
        rc_pd: pd.handle(),
        ..Default::default()
    }
}

/// The channel, and how large its queues are. **May block.**
fn allocate(
    pd: &Pd,
    flags: sys::ibt_chan_alloc_flags_t,
    args: sys::ibt_rc_chan_alloc_args_t,
) -> Result<(sys::ibt_channel_hdl_t, sys::ibt_chan_sizes_t), Status> {
    let mut args = KBox::new(args)?;
    let (mut handle, mut real) = (ptr::null_mut(), sys::ibt_chan_sizes_t::default());
    // SAFETY: all objects belong to one adapter and are kept by the channel.
    Status::check(unsafe {
        sys::ibt_alloc_rc_channel(pd.hca().handle(), flags, &mut *args, &mut handle, &mut real)
    })?;
    Ok((handle, real))
}

impl Inner {
    const fn new(handle: sys::ibt_channel_hdl_t, receives: Option<Receives>, sends: Option<Sends>) -> Self {
        Self { handle, closed: AtomicBool::new(false), freed: AtomicBool::new(false), receives, sends }
    }

    /// By whoever has the only reference.
    fn free(&self) -> Result<(), Status> {
        // SAFETY: allocated, and nobody else knows it: this is the only reference.
        let freed = Status::check(unsafe { sys::ibt_free_channel(self.handle) });
        if freed.is_ok() {
            self.freed.store(true, Ordering::Relaxed);
        }
        freed
    }

    fn close(&self) -> Result<(), Status> {
        if self.closed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let closed = self.end(sys::IBT_NOCALLBACKS);
        if closed.is_ok() {
            self.closed.store(true, Ordering::Relaxed);
        }
        closed
    }

    fn end(&self, mode: sys::ibt_execution_mode_t) -> Result<(), Status> {
        // SAFETY: allocated; nothing is sent along, and nothing of the other side's is wanted.
        Status::check(unsafe {
            sys::ibt_close_rc_channel(
                self.handle,
                mode,
                ptr::null_mut(),
                0,
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if *self.freed.get_mut() {
            return;
        }
        // A connection that was never made cannot be closed.
        let _ = self.close();
        if told("queue pair of a connection", self.free()).is_err() {
            // It still takes receives, or sends: they stay, and the text with them.
            core::mem::forget((self.receives.take(), Pin::new()));
            if let Some(sends) = &mut self.sends {
                sends.adapter_owned.forget_all();
            }
        }
    }
}
