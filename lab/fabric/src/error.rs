//! What a refused call answers, with IBTF's numbers so that the layer above cannot invent others.

/// Status of a refused HCA call (`sys/ib/ibtl/ibtl_status.h`); the discriminant is the `ibt_status_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u32)]
#[allow(missing_docs)] // Each variant's message says it.
pub enum Error {
    #[error("not supported")]
    NotSupported = 2,
    #[error("invalid parameter")]
    InvalidParam = 4,
    #[error("static rate invalid")]
    StaticRateInvalid = 18,
    #[error("source GID index invalid")]
    SgidInvalid = 19,
    #[error("out of HCA resources")]
    InsuffResource = 100,
    #[error("CQ larger than the HCA's maximum")]
    HcaCqExceeded = 101,
    #[error("work queue larger than the HCA's maximum")]
    HcaWrExceeded = 102,
    #[error("SGL longer than the HCA's maximum")]
    HcaSglExceeded = 103,
    #[error("multicast group has its maximum of QPs")]
    HcaMcgChanExceeded = 105,
    #[error("HCA gone")]
    HcaInvalid = 200,
    #[error("port number invalid")]
    HcaPortInvalid = 203,
    #[error("address handle invalid")]
    AhHdlInvalid = 300,
    #[error("channel handle invalid")]
    ChanHdlInvalid = 400,
    #[error("channel in a state that forbids this")]
    ChanStateInvalid = 402,
    #[error("wrong service type")]
    ChanSrvTypeInvalid = 403,
    #[error("operation type invalid")]
    ChanOpTypeInvalid = 408,
    #[error("SGL too long for the queue")]
    ChanSglLenInvalid = 410,
    #[error("queue full")]
    ChanFull = 414,
    #[error("CQ handle invalid")]
    CqHdlInvalid = 500,
    #[error("CQ smaller than its content")]
    CqSzInsufficient = 501,
    #[error("CQ in use by a QP")]
    CqBusy = 502,
    #[error("CQ empty")]
    CqEmpty = 503,
    #[error("virtual address invalid")]
    MrVaInvalid = 800,
    #[error("memory region length invalid")]
    MrLenInvalid = 801,
    #[error("memory region handle invalid")]
    MrHdlInvalid = 806,
    #[error("access rights invalid")]
    MrAccessReqInvalid = 807,
    #[error("multicast LID invalid")]
    McMlidInvalid = 900,
    #[error("multicast GID invalid or unknown")]
    McMgidInvalid = 901,
    #[error("P_Key index past the table")]
    PkeyIxIllegal = 1000,
    #[error("P_Key index names an empty entry")]
    PkeyIxInvalid = 1001,
    #[error("protection domain handle invalid")]
    PdHdlInvalid = 1100,
    #[error("protection domain in use")]
    PdInUse = 1101,
    #[error("SRQ handle invalid")]
    SrqHdlInvalid = 1200,
    #[error("SRQ in error")]
    SrqErrorState = 1201,
    #[error("SRQ in use by a QP, or the QP receives from an SRQ")]
    SrqInUse = 1204,
    #[error("hardware or DMA trouble")]
    CiFailure = 0x8800_0000,
}

impl Error {
    /// The `ibt_status_t`.
    #[must_use]
    pub const fn status(self) -> u32 {
        self as u32
    }
}
