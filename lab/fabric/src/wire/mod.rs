//! A UD packet as bytes: LRH, optional GRH, BTH, DETH, optional immediate, payload, ICRC, VCRC.
//!
//! InfiniBand Architecture volume 1, chapters 5 and 7; `sys/ib/ib_pkt_hdrs.h`. UD only: opcodes 0x64 and 0x65.

pub mod crc;
mod frame;
mod headers;

pub(crate) use frame::Frame;
use headers::LNH_GRH;

pub use headers::{
    Bth, Deth, FrameError, GRH_LEN, Grh, LRH_LEN, Lrh, Packet, UD_SEND_ONLY, UD_SEND_ONLY_IMMEDIATE,
};
