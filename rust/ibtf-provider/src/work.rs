//! Work requests as a client posts them (`ibt_send_wr_t`, `ibt_recv_wr_t`): views that last as long as the post.

use core::slice;

use illumos_sys_hdrs as sys;

use crate::provider::Provider;

/// A piece of registered memory by address and key (`ibt_wr_ds_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Segment {
    /// Its address, as it was registered.
    pub address: u64,
    /// The region's local key.
    pub key: u32,
    /// Bytes.
    pub len: u32,
}

const _: () = {
    assert!(size_of::<Segment>() == size_of::<sys::ibt_wr_ds_t>());
    assert!(core::mem::offset_of!(Segment, address) == core::mem::offset_of!(sys::ibt_wr_ds_t, ds_va));
    assert!(core::mem::offset_of!(Segment, key) == core::mem::offset_of!(sys::ibt_wr_ds_t, ds_key));
    assert!(core::mem::offset_of!(Segment, len) == core::mem::offset_of!(sys::ibt_wr_ds_t, ds_len));
};

/// # Safety
///
/// `list` is NULL or has `count` entries for as long as the result lives.
unsafe fn segments<'a>(list: *const sys::ibt_wr_ds_t, count: u32) -> &'a [Segment] {
    if list.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: by this function's contract; the two types have one layout, see above.
    unsafe { slice::from_raw_parts(list.cast(), count as usize) }
}

/// Something to be sent.
#[derive(Clone, Copy)]
pub struct SendRequest<'a>(&'a sys::ibt_send_wr_t);

/// What each datagram of a large send begins with, and how many bytes are behind that at most.
#[derive(Clone, Copy)]
pub struct LargeSend<'a> {
    /// The headers, as the first one has them.
    pub header: &'a [u8],
    /// Bytes of data in a datagram.
    pub mss: u32,
}

/// Where a datagram goes.
pub struct Destination<'a, P: Provider> {
    /// The way.
    pub handle: &'a P::AddressHandle,
    /// The queue pair; 0xffffff for a group.
    pub qpn: u32,
    /// The Q_Key; one with the highest bit means the queue pair's own.
    pub qkey: u32,
}

impl<'a> SendRequest<'a> {
    /// # Safety
    ///
    /// `raw` is a request as `ibt_post_send` takes it, and so are its list and its destination, for as long as the value lives.
    pub(crate) unsafe fn new(raw: &'a sys::ibt_send_wr_t) -> Self {
        Self(raw)
    }

    /// The client's number of it.
    pub fn id(self) -> u64 {
        self.0.wr_id
    }

    /// Whether it is a plain send of a datagram, and nothing else.
    pub fn is_datagram(self) -> bool {
        u32::from(self.0.wr_trans) == sys::IBT_UD_SRV as u32
            && u32::from(self.0.wr_opcode) == sys::IBT_WRC_SEND as u32
    }

    /// Whether it is a plain send on a connection, and nothing else: no RDMA, no atomic operation.
    pub fn is_message(self) -> bool {
        self.0.wr_trans == sys::IBT_RC_SRV && self.0.wr_opcode == sys::IBT_WRC_SEND
    }

    /// What a large send is cut by; `None` of anything else.
    pub fn large(self) -> Option<LargeSend<'a>> {
        let is_one = self.0.wr_trans == sys::IBT_UD_SRV && self.0.wr_opcode == sys::IBT_WRC_SEND_LSO;
        // SAFETY: all members of the union are plain integers and pointers.
        let large = is_one.then_some(unsafe { self.0.wr.ud_lso })?;
        let header = if large.lso_hdr.is_null() {
            &[]
        } else {
            // SAFETY: by the contract of `new`: so many bytes of the caller's.
            unsafe { slice::from_raw_parts(large.lso_hdr, large.lso_hdr_sz as usize) }
        };
        Some(LargeSend { header, mss: large.lso_mss })
    }

    /// Whether the adapter is to compute checksums.
    pub fn wants_checksums(self) -> bool {
        self.has(sys::IBT_WR_SEND_CKSUM as u32)
    }

    /// Whether it wants a completion though the queue pair gives none by itself.
    pub fn is_signaled(self) -> bool {
        self.has(sys::IBT_WR_SEND_SIGNAL as u32)
    }

    /// Whether the receiver is to be woken.
    pub fn is_solicited(self) -> bool {
        self.has(sys::IBT_WR_SEND_SOLICIT as u32)
    }

    /// The immediate data, if there are any. Of a datagram, or a message.
    pub fn immediate(self) -> Option<u32> {
        if !self.has(sys::IBT_WR_SEND_IMMED as u32) {
            return None;
        }
        if self.is_message() {
            // SAFETY: all members of the union are plain integers and pointers.
            let message = unsafe { self.0.wr.rc };
            // SAFETY: as above.
            return Some(unsafe { message.rcwr.send_immed });
        }
        // SAFETY: as above.
        Some(unsafe { self.0.wr.ud }.udwr_immed)
    }

    /// What is sent.
    pub fn segments(self) -> &'a [Segment] {
        // SAFETY: by the contract of `new`.
        unsafe { segments(self.0.wr_sgl, self.0.wr_nds) }
    }

    /// Where it goes; `None` without a destination. Of a datagram, or a large send.
    pub fn destination<P: Provider>(self) -> Option<Destination<'a, P>> {
        let dest = if self.is_datagram() {
            // SAFETY: all members of the union are plain integers and pointers.
            unsafe { self.0.wr.ud }.udwr_dest
        } else {
            // SAFETY: as above.
            unsafe { self.0.wr.ud_lso }.lso_ud_dest
        };
        // SAFETY: by the contract of `new`.
        let dest = unsafe { dest.as_ref() }?;
        // SAFETY: the destination's address handle is one that `alloc_ah` has answered and that is not freed.
        let handle = unsafe { dest.ud_ah.cast::<P::AddressHandle>().as_ref() }?;
        Some(Destination { handle, qpn: dest.ud_dst_qpn & 0xff_ffff, qkey: dest.ud_qkey })
    }

    fn has(self, flag: u32) -> bool {
        u32::from(self.0.wr_flags) & flag != 0
    }
}

/// A buffer for something received.
#[derive(Clone, Copy)]
pub struct ReceiveRequest<'a>(&'a sys::ibt_recv_wr_t);

impl<'a> ReceiveRequest<'a> {
    /// # Safety
    ///
    /// `raw` is a request as `ibt_post_recv` takes it, and so is its list, for as long as the value lives.
    pub(crate) unsafe fn new(raw: &'a sys::ibt_recv_wr_t) -> Self {
        Self(raw)
    }

    /// The client's number of it.
    pub fn id(self) -> u64 {
        self.0.wr_id
    }

    /// The buffer.
    pub fn segments(self) -> &'a [Segment] {
        // SAFETY: by the contract of `new`.
        unsafe { segments(self.0.wr_sgl, self.0.wr_nds) }
    }
}
