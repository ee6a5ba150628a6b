//! [`UdChannel`]: a UD queue pair, ready to send and receive.

use core::ptr;

use illumos_sys_hdrs as sys;
use kernel::{AllocError, KArc, KBox};

use crate::adapter_owned::{AdapterOwned, Keep};
use crate::cq::Cq;
use crate::event::ChannelId;
use crate::multicast::McgInfo;
use crate::pd::Pd;
use crate::refused::told;
use crate::status::Status;

/// How a channel is made.
#[derive(Clone, Copy, Debug)]
pub struct UdChannelConfig {
    /// The adapter's port, from 1.
    pub port: u8,
    /// Index in the port's P_Key table; all traffic of the channel carries that P_Key.
    pub pkey_index: u16,
    /// The Q_Key of what is accepted.
    pub qkey: u32,
    /// How large the queues shall be at least.
    pub sizes: ChannelSizes,
    /// Whether every send completes; otherwise only those that are signalled.
    pub signal_all: bool,
    /// Whether large sends will be posted.
    pub large_sends: bool,
    /// Whether packets will be sent from where they are (the reserved key).
    pub mapped_sends: bool,
}

/// Queue sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelSizes {
    /// Sends outstanding.
    pub send: u32,
    /// Receives outstanding.
    pub receive: u32,
    /// Pieces of a send.
    pub send_sgl: u32,
    /// Pieces of a receive.
    pub receive_sgl: u32,
}

/// A UD queue pair. Cheap to clone; the last clone frees it (**may block**), which must not be while it is attached to a
/// group: an [`Attachment`] keeps a clone.
#[derive(Clone)]
pub struct UdChannel(KArc<Inner>);

struct Inner {
    handle: sys::ibt_channel_hdl_t,
    qpn: u32,
    sizes: ChannelSizes,
    /// What the adapter may still be using; goes when the channel is freed. In front of `pd`, which keeps the adapter that this
    /// is given back to.
    adapter_owned: AdapterOwned,
    send_cq: Cq,
    receive_cq: Cq,
    pd: Pd,
}

// SAFETY: the handle is used by IBTF, from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl UdChannel {
    /// Makes a queue pair and brings it to the state in which it sends and receives (`ibt_alloc_ud_channel`).
    /// `INVALID_PARAM` for objects of two adapters. **May block.**
    pub fn new(pd: &Pd, send_cq: &Cq, receive_cq: &Cq, config: &UdChannelConfig) -> Result<Self, Status> {
        pd.hca().check(send_cq.hca())?;
        pd.hca().check(receive_cq.hca())?;
        let adapter_owned = AdapterOwned::new()?;
        let mut flags = if config.signal_all { sys::IBT_ALL_SIGNALED } else { sys::IBT_WR_SIGNALED };
        if config.large_sends {
            flags |= sys::IBT_USES_LSO;
        }
        if config.mapped_sends {
            flags |= sys::IBT_FAST_REG_RES_LKEY;
        }
        let mut args = KBox::new(sys::ibt_ud_chan_alloc_args_t {
            ud_flags: flags,
            ud_hca_port_num: config.port,
            ud_pkey_ix: config.pkey_index,
            ud_sizes: config.sizes.raw(),
            ud_qkey: config.qkey,
            ud_scq: send_cq.handle(),
            ud_rcq: receive_cq.handle(),
            ud_pd: pd.handle(),
            ..Default::default()
        })?;
        let (mut handle, mut real) = (ptr::null_mut(), sys::ibt_chan_sizes_t::default());
        // SAFETY: all objects belong to one adapter, as was checked, and are kept by the channel.
        Status::check(unsafe {
            sys::ibt_alloc_ud_channel(
                pd.hca().handle(),
                sys::IBT_ACHAN_NO_FLAGS,
                &mut *args,
                &mut handle,
                &mut real,
            )
        })?;
        let mut inner = Inner {
            handle,
            qpn: 0,
            sizes: config.sizes.at_most(&real),
            adapter_owned,
            send_cq: send_cq.clone(),
            receive_cq: receive_cq.clone(),
            pd: pd.clone(),
        };
        // If one of these fails the value is dropped, which frees again.
        inner.qpn = inner.query_qpn()?;
        Ok(Self(KArc::new(inner)?))
    }

    /// Its queue pair number, 24 bits.
    pub fn qpn(&self) -> u32 {
        self.0.qpn
    }

    /// What events call it.
    pub fn id(&self) -> ChannelId {
        ChannelId(self.handle().addr())
    }

    /// How large its queues are, as far as was asked for. What an adapter's driver says beyond that is not to be relied on: `hermon`
    /// counts three pieces of a send that do not fit (`hermon_qp_sgl_to_logwqesz`), and makes a receive queue longer than its CQ.
    pub fn sizes(&self) -> ChannelSizes {
        self.0.sizes
    }

    /// Its protection domain.
    pub fn pd(&self) -> &Pd {
        &self.0.pd
    }

    /// The CQ its sends complete on.
    pub fn send_cq(&self) -> &Cq {
        &self.0.send_cq
    }

    /// The CQ its receives complete on.
    pub fn receive_cq(&self) -> &Cq {
        &self.0.receive_cq
    }

    /// Changes the Q_Key of what is accepted (`ibt_modify_ud_channel`). **May block.**
    pub fn set_qkey(&self, qkey: u32) -> Result<(), Status> {
        let mut attributes = KBox::new(sys::ibt_ud_chan_modify_attr_t::default())?;
        attributes.ud_qkey = qkey;
        let mut sizes = sys::ibt_queue_sizes_t::default();
        // SAFETY: allocated.
        Status::check(unsafe {
            sys::ibt_modify_ud_channel(self.handle(), sys::IBT_CEP_SET_QKEY, &mut *attributes, &mut sizes)
        })
    }

    /// Whether it is in a state of error, asked of the adapter. **May block.**
    pub fn has_failed(&self) -> Result<bool, Status> {
        let attributes = self.0.query()?;
        Ok(attributes.ud_state != sys::IBT_STATE_RTS)
    }

    /// Has it send again after a send has failed (`ibt_recover_ud_channel`): its sends were flushed then (SQ error state), and it has received all
    /// the time. Number, groups and receives stay. One that sends is left as it is. `CHAN_STATE_INVALID` in another state, above all in
    /// that of error. **May block.**
    pub fn recover(&self) -> Result<(), Status> {
        match self.0.query()?.ud_state {
            sys::IBT_STATE_RTS => Ok(()),
            // SAFETY: allocated.
            sys::IBT_STATE_SQE => Status::check(unsafe { sys::ibt_recover_ud_channel(self.handle()) }),
            _ => Err(Status::CHAN_STATE_INVALID),
        }
    }

    /// Lets packets to a group in (`ibt_attach_mcg`), until the attachment is dropped. Local to the adapter: packets
    /// come only once the group was joined. Attaching twice is one attachment for the adapter. **May block.**
    pub fn attach(&self, group: &McgInfo) -> Result<Attachment, Status> {
        let mut group = group.raw();
        // SAFETY: allocated.
        Status::check(unsafe { sys::ibt_attach_mcg(self.handle(), &mut group) })?;
        Ok(Attachment { group, channel: self.clone() })
    }

    pub(crate) fn handle(&self) -> sys::ibt_channel_hdl_t {
        self.0.handle
    }

    /// Makes sure that [`UdChannel::keep_until_freed`] will have room.
    pub(crate) fn promise(&self) -> Result<(), AllocError> {
        self.0.adapter_owned.promise()
    }

    /// A promise is not needed.
    pub(crate) fn keep_nothing(&self) {
        self.0.adapter_owned.keep_nothing();
    }

    /// Drops `what` when the channel is freed. Needs a promise.
    pub(crate) fn keep_until_freed(&self, what: KBox<dyn Keep>) {
        self.0.adapter_owned.keep(what);
    }
}

impl Inner {
    fn query_qpn(&self) -> Result<u32, Status> {
        Ok(self.query()?.ud_qpn & sys::IB_QPN_MASK)
    }

    fn query(&self) -> Result<KBox<sys::ibt_ud_chan_query_attr_t>, Status> {
        let mut attributes = KBox::new(sys::ibt_ud_chan_query_attr_t::default())?;
        // SAFETY: allocated.
        Status::check(unsafe { sys::ibt_query_ud_channel(self.handle, &mut *attributes) })?;
        Ok(attributes)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: allocated, not attached to a group; nobody posts or polls for it any more.
        let freed = Status::check(unsafe { sys::ibt_free_channel(self.handle) });
        if told("queue pair", freed).is_err() {
            self.adapter_owned.forget_all();
        }
    }
}

impl ChannelSizes {
    fn raw(self) -> sys::ibt_chan_sizes_t {
        sys::ibt_chan_sizes_t {
            cs_sq: self.send,
            cs_rq: self.receive,
            cs_sq_sgl: self.send_sgl,
            cs_rq_sgl: self.receive_sgl,
            cs_inline: 0,
        }
    }

    fn at_most(self, real: &sys::ibt_chan_sizes_t) -> Self {
        Self {
            send: self.send.min(real.cs_sq),
            receive: self.receive.min(real.cs_rq),
            send_sgl: self.send_sgl.min(real.cs_sq_sgl),
            receive_sgl: self.receive_sgl.min(real.cs_rq_sgl),
        }
    }
}

/// A channel's attachment to a group; detaches when dropped (**may block**).
pub struct Attachment {
    group: sys::ibt_mcg_info_t,
    channel: UdChannel,
}

// SAFETY: a plain record and a channel.
unsafe impl Send for Attachment {}
// SAFETY: as above.
unsafe impl Sync for Attachment {}

impl Drop for Attachment {
    fn drop(&mut self) {
        // SAFETY: attached. A failure means that the adapter does not know the attachment.
        let _ = unsafe { sys::ibt_detach_mcg(self.channel.handle(), &mut self.group) };
    }
}
