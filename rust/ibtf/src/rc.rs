//! [`RcChannel`]: one end of a reliable connection.

use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use illumos_sys_hdrs as sys;
use kernel::module::Pin;
use kernel::{KArc, KBox};

use crate::event::ChannelId;
use crate::srq::Srq;
use crate::status::Status;

/// A queue pair of a connection, or for one. Cheap to clone; the last clone closes the connection, without waiting for the other side, and
/// frees the queue pair (**may block**, and never in a handler of the communication manager).
///
/// Whoever has given it to the communication manager ([`Session::accept`](crate::Session::accept)) keeps a clone until he is told of
/// the connection, or [`close`](RcChannel::close) succeeds: until then the communication manager may be about to use it.
#[derive(Clone)]
pub struct RcChannel(KArc<Inner>);

struct Inner {
    handle: sys::ibt_channel_hdl_t,
    closed: AtomicBool,
    srq: Option<Srq>,
}

// SAFETY: the handle is used by IBTF, from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl RcChannel {
    /// A queue pair that receives into a shared receive queue and never sends (`ibt_alloc_rc_channel`). **May block.**
    pub fn receiving(srq: &Srq, port: u8) -> Result<Self, Status> {
        let cq = srq.receive_cq().handle();
        let mut args = KBox::new(sys::ibt_rc_chan_alloc_args_t {
            rc_flags: sys::IBT_WR_SIGNALED,
            rc_hca_port_num: port,
            // An adapter wants room for one of each.
            rc_sizes: sys::ibt_chan_sizes_t { cs_sq: 1, cs_rq: 1, cs_sq_sgl: 1, cs_rq_sgl: 1, cs_inline: 0 },
            rc_scq: cq,
            rc_rcq: cq,
            rc_pd: srq.pd().handle(),
            rc_srq: srq.handle(),
            ..Default::default()
        })?;
        let mut handle = ptr::null_mut();
        // SAFETY: all objects belong to one adapter and are kept by the channel.
        Status::check(unsafe {
            sys::ibt_alloc_rc_channel(
                srq.pd().hca().handle(),
                sys::IBT_ACHAN_USES_SRQ,
                &mut *args,
                &mut handle,
                ptr::null_mut(),
            )
        })?;
        let inner = Inner { handle, closed: AtomicBool::new(false), srq: Some(srq.clone()) };
        // If this fails the value is dropped, which frees again.
        Ok(Self(KArc::new(inner)?))
    }

    /// What events call it.
    pub fn id(&self) -> ChannelId {
        ChannelId(self.handle().addr())
    }

    /// How long the other side waits when it finds no receive posted: 20 ms, where it would be 655 (`ibt_modify_rc_channel`); once the
    /// connection stands. **May block.**
    pub fn shorten_receiver_pause(&self) -> Result<(), Status> {
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

    /// Ends the connection: the queue pair is in the error state when this returns, and no handler is called for it any more
    /// (`ibt_close_rc_channel`, NOCALLBACKS). `CHAN_STATE_INVALID` if the communication manager does not know the channel, or not yet.
    /// Does not wait for the other side, but for its turn: of a machine's connections twelve are being closed at once. **May block.**
    pub fn close(&self) -> Result<(), Status> {
        self.0.close()
    }

    pub(crate) fn handle(&self) -> sys::ibt_channel_hdl_t {
        self.0.handle
    }
}

impl Inner {
    fn close(&self) -> Result<(), Status> {
        // SAFETY: allocated; nothing is sent along, and nothing of the other side's is wanted.
        let closed = Status::check(unsafe {
            sys::ibt_close_rc_channel(
                self.handle,
                sys::IBT_NOCALLBACKS,
                ptr::null_mut(),
                0,
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
            )
        });
        if closed.is_ok() {
            self.closed.store(true, Ordering::Relaxed);
        }
        closed
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.closed.load(Ordering::Relaxed) {
            // A connection that was never made cannot be closed.
            let _ = self.close();
        }
        // SAFETY: allocated; closed, or unknown to the communication manager.
        if Status::check(unsafe { sys::ibt_free_channel(self.handle) }).is_err() {
            // It still takes receives: they stay, and the text with them.
            core::mem::forget((self.srq.take(), Pin::new()));
        }
    }
}
