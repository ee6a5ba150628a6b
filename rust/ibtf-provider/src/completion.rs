//! [`Completion`]: what became of a work request (`ibt_wc_t`).

use illumos_sys_hdrs as sys;

/// The kind of request that completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Opcode {
    Send,
    LargeSend,
    Receive,
}

/// How it ended; the numbers are those of `sys/ib/ibtl/ibtl_status.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CompletionStatus {
    /// Done.
    Success = sys::IBT_WC_SUCCESS,
    /// Longer than the path's MTU, or than the receiver's buffer.
    LocalLength = sys::IBT_WC_LOCAL_LEN_ERR,
    /// Not what a queue pair of this kind can do.
    LocalOperation = sys::IBT_WC_LOCAL_CHAN_OP_ERR,
    /// A key that is none, or not of this memory.
    LocalProtection = sys::IBT_WC_LOCAL_PROTECT_ERR,
    /// Given back undone.
    Flushed = sys::IBT_WC_WR_FLUSHED_ERR,
    /// On a connection: the message was longer than the other side's buffer.
    RemoteInvalidRequest = sys::IBT_WC_REMOTE_INVALID_REQ_ERR,
    /// On a connection: the other side's buffer cannot be written.
    RemoteOperation = sys::IBT_WC_REMOTE_OP_ERR,
    /// On a connection: nobody acknowledged it, however often it was sent.
    TransportRetries = sys::IBT_WC_TRANS_TIMEOUT_ERR,
    /// On a connection: the other side had no receive, however often it was sent.
    ReceiverRetries = sys::IBT_WC_RNR_NAK_TIMEOUT_ERR,
}

/// A completed work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's id.
    pub id: u64,
    /// What it was.
    pub opcode: Opcode,
    /// How it ended.
    pub status: CompletionStatus,
    /// Bytes received; of a datagram the 40 of the GRH included.
    pub bytes: u32,
    /// Whether the first 40 bytes are a GRH.
    pub grh: bool,
    /// Immediate data, in the sender's byte order.
    pub immediate: Option<u32>,
    /// The queue pair the request was posted to.
    pub local_qpn: u32,
    /// The queue pair that sent; of a receive.
    pub source_qpn: u32,
    /// The port that sent; of a receive.
    pub source_lid: u16,
    /// Service level; of a receive.
    pub sl: u8,
    /// Index of the P_Key in the port's table; of a receive. `ibmf` turns it into its answer's P_Key.
    pub pkey_index: u16,
    /// Whether the sender asked for an event.
    pub solicited: bool,
    /// Whether the adapter vouches for the checksums of IP, TCP and UDP.
    pub checksums: bool,
}

impl Completion {
    /// One that says nothing but how the request ended.
    pub const fn of(id: u64, opcode: Opcode, status: CompletionStatus, local_qpn: u32) -> Self {
        Self {
            id,
            opcode,
            status,
            bytes: 0,
            grh: false,
            immediate: None,
            local_qpn,
            source_qpn: 0,
            source_lid: 0,
            sl: 0,
            pkey_index: 0,
            solicited: false,
            checksums: false,
        }
    }

    pub(crate) fn raw(&self) -> sys::ibt_wc_t {
        let mut flags = if self.grh { sys::IBT_WC_GRH_PRESENT } else { sys::IBT_WC_NO_FLAGS };
        if self.immediate.is_some() {
            flags |= sys::IBT_WC_IMMED_DATA_PRESENT;
        }
        if self.checksums {
            flags |= sys::IBT_WC_CKSUM_OK;
        }
        let mut raw = sys::ibt_wc_t {
            wc_id: self.id,
            wc_bytes_xfer: self.bytes,
            wc_flags: flags,
            // What the driver believes, and nothing else.
            wc_cksum: if self.checksums { 0xffff } else { 0 },
            wc_type: match self.opcode {
                Opcode::Send => sys::IBT_WRC_SEND,
                Opcode::LargeSend => sys::IBT_WRC_SEND_LSO,
                Opcode::Receive => sys::IBT_WRC_RECV,
            } as _,
            wc_immed_data: self.immediate.unwrap_or(0),
            wc_status: self.status as u8,
            wc_opaque1: self.source_lid,
            wc_opaque2: self.pkey_index,
            wc_qpn: self.source_qpn,
            wc_local_qpn: self.local_qpn,
            ..Default::default()
        };
        raw.set_wc_sl(self.sl & 0xf);
        raw
    }
}
