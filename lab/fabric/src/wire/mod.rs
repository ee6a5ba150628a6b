//! Packets as bytes. Of datagrams: LRH, optional GRH, BTH, DETH, optional immediate, payload, ICRC, VCRC; of reliable connections an
//! AETH, if any, instead of the DETH.
//!
//! InfiniBand Architecture volume 1, chapters 5, 7 and 9; `sys/ib/ib_pkt_hdrs.h`. Datagrams: opcodes 0x64 and 0x65; connections: SEND and
//! acknowledgement.

mod connected;
pub mod crc;
mod frame;
mod headers;

pub use connected::{Aeth, NakCode, RcOpcode, RcPacket, Syndrome};
pub(crate) use frame::{AnyPacket, Frame};
use headers::LNH_GRH;

pub use headers::{
    Bth, Deth, FrameError, GRH_LEN, Grh, LRH_LEN, Lrh, Packet, UD_SEND_ONLY, UD_SEND_ONLY_IMMEDIATE,
};
