//! [`Hca`]: an open adapter.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, Ordering};

use illumos_sys_hdrs as sys;
use kernel::module::Pin;
use kernel::{AllocError, KArc, KBox, MayBlock};

use crate::client::Client;
use crate::cq::CqSlot;
use crate::port::PortInfo;
use crate::refused::told;
use crate::status::Status;

/// An adapter, opened by a client. Cheap to clone; the last clone closes it (**may block**).
#[derive(Clone)]
pub struct Hca(KArc<Inner>);

struct Inner {
    handle: sys::ibt_hca_hdl_t,
    closed: AtomicBool,
    attributes: KBox<sys::ibt_hca_attr_t>,
    client: Client,
}

// SAFETY: the handle is used by IBTF, from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Hca {
    /// Opens the adapter with that node GUID (`ibt_open_hca`). `HCA_IN_USE` if this client has it open already,
    /// `HCA_BUSY_DETACHING` while it is being removed. **May block.**
    pub fn open(client: &Client, guid: u64, may_block: &MayBlock) -> Result<Self, Status> {
        let mut attributes = KBox::new_waiting(sys::ibt_hca_attr_t::default(), may_block);
        let mut handle = ptr::null_mut();
        // SAFETY: attached.
        Status::check(unsafe { sys::ibt_open_hca(client.handle(), guid, &mut handle) })?;
        // SAFETY: open, and the record has room for all attributes. Always succeeds.
        let queried = Status::check(unsafe { sys::ibt_query_hca(handle, &mut *attributes) });
        let opened = Inner { handle, closed: AtomicBool::new(false), attributes, client: client.clone() };
        queried?;
        Ok(Self(KArc::new_waiting(opened, may_block)))
    }

    /// What the adapter can do; fixed.
    pub fn attributes(&self) -> HcaAttributes<'_> {
        HcaAttributes(&self.0.attributes)
    }

    /// The present state of a port, asked of the adapter (`ibt_query_hca_ports`). **May block**, and not with a lock
    /// that an event handler takes.
    pub fn port(&self, port: u8) -> Result<PortInfo, Status> {
        PortInfo::query(self, port)
    }

    /// The index of a P_Key, all 16 bits, in a port's cached table (`ibt_pkey2index`). `INVALID_PARAM` if it is not
    /// there. **May block.**
    pub fn pkey_index(&self, port: u8, pkey: u16) -> Result<u16, Status> {
        let mut index = 0;
        // SAFETY: open.
        Status::check(unsafe { sys::ibt_pkey2index(self.handle(), port, pkey, &mut index) })?;
        Ok(index)
    }

    /// The client that opened it.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// Closes it, if this is the last clone and the adapter is done with everything that was made on it: the number of a queue pair whose
    /// connection was closed is taken for some time after it was freed. Hands it back otherwise. **May block.**
    pub fn close(self) -> Result<(), Self> {
        if !KArc::is_unique(&self.0) {
            return Err(self);
        }
        // SAFETY: open, and everything made on it had a clone, so all is freed.
        if Status::check(unsafe { sys::ibt_close_hca(self.handle()) }).is_err() {
            return Err(self);
        }
        self.0.closed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether it can never be closed, because of something that was [left](crate::Srq::leave) to it.
    pub fn is_left(&self) -> bool {
        self.0.client.is_left()
    }

    /// How many clones there are at this moment, this one included; what was made of it has one each.
    pub fn clones(&self) -> usize {
        KArc::count(&self.0)
    }

    /// Whether that is a clone of this one. Objects of two adapters never meet: IBTF and an adapter's driver take a handle for what it is
    /// said to be, and follow it.
    pub(crate) fn is(&self, other: &Self) -> bool {
        KArc::ptr_eq(&self.0, &other.0)
    }

    /// `INVALID_PARAM` unless that is a clone of this one.
    pub(crate) fn check(&self, other: &Self) -> Result<(), Status> {
        if self.is(other) { Ok(()) } else { Err(Status::INVALID_PARAM) }
    }

    pub(crate) fn handle(&self) -> sys::ibt_hca_hdl_t {
        self.0.handle
    }

    /// A slot for the handler of a new CQ.
    pub(crate) fn take_slot(&self) -> Result<NonNull<CqSlot>, AllocError> {
        self.0.client.registry().take_slot()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: open, and everything made on it keeps a clone, so all is freed.
        let closed = told("adapter", Status::check(unsafe { sys::ibt_close_hca(self.handle) }));
        if closed.is_err() && !self.client.is_left() {
            // Something of ours is still known to the adapter: keep the module, and with it the arguments of its handlers.
            core::mem::forget(Pin::new());
        }
    }
}

/// What an adapter can do (`ibt_hca_attr_t`).
#[derive(Clone, Copy)]
pub struct HcaAttributes<'a>(&'a sys::ibt_hca_attr_t);

impl HcaAttributes<'_> {
    /// Node GUID.
    pub fn node_guid(self) -> u64 {
        self.0.hca_node_guid
    }

    /// Number of ports.
    pub fn ports(self) -> u8 {
        self.0.hca_nports
    }

    /// The largest queue of a channel, in work requests.
    pub fn max_channel_size(self) -> u32 {
        self.0.hca_max_chan_sz
    }

    /// The largest CQ, in completions.
    pub fn max_cq_size(self) -> u32 {
        self.0.hca_max_cq_sz
    }

    /// Scatter/gather entries of a UD send.
    pub fn max_ud_send_sgl(self) -> u32 {
        if self.has(sys::IBT_HCA_WQE_SIZE_INFO) { self.0.hca_ud_send_sgl_sz } else { self.0.hca_max_sgl }
    }

    /// Scatter/gather entries of a receive.
    pub fn max_receive_sgl(self) -> u32 {
        if self.has(sys::IBT_HCA_WQE_SIZE_INFO) { self.0.hca_recv_sgl_sz } else { self.0.hca_max_sgl }
    }

    /// Whether it computes and verifies IPv4 header, TCP and UDP checksums of IPoIB frames.
    pub fn checksum_offload(self) -> bool {
        self.has(sys::IBT_HCA_CKSUM_FULL)
    }

    /// The largest send it cuts into segments itself; 0 if it does not.
    pub fn max_lso_size(self) -> u32 {
        self.0.hca_max_lso_size
    }

    /// The longest header of such a send.
    pub fn max_lso_header(self) -> u32 {
        self.0.hca_max_lso_hdr_size
    }

    /// Whether packets can be sent from where they are ([`SendQueue::stage_packet`](crate::SendQueue::stage_packet)):
    /// it has the reserved key.
    pub fn maps_memory(self) -> bool {
        self.0.hca_flags2.0 & sys::IBT_HCA2_RES_LKEY.0 != 0
    }

    /// Whether connections can share a receive queue.
    pub fn shared_receive_queues(self) -> bool {
        self.has(sys::IBT_HCA_SRQ)
    }

    /// Receives that such a queue holds at most.
    pub fn max_shared_receives(self) -> u32 {
        self.0.hca_max_srqs_sz
    }

    /// The longest interrupt moderation, in completions and microseconds; zeros if there is none.
    pub fn max_moderation(self) -> (u32, u32) {
        (self.0.hca_max_cq_mod_count, self.0.hca_max_cq_mod_usec)
    }

    /// How many interrupts CQs can be spread over.
    pub fn cq_interrupts(self) -> u32 {
        self.0.hca_max_cq_handlers
    }

    fn has(self, flag: sys::ibt_hca_flags_t) -> bool {
        self.0.hca_flags.0 & flag.0 != 0
    }
}
