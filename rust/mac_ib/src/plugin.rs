//! The rules as the framework asks for them.

use core::ffi::CStr;
use core::fmt;

use gldv3::{Address, DL_IB, HeaderInfo, LinkStats, Plugin, Stat};
use kernel::mblk::Mblk;

use crate::address::{self, Kind};
use crate::{header, sap};

/// The media type.
pub enum Ib {}

impl Plugin for Ib {
    const IDENT: &'static CStr = c"mac_ib";
    const MEDIA: u32 = DL_IB;
    const BROADCAST: Address = address::BROADCAST;

    fn is_unicast(address: &Address) -> bool {
        address::kind(address) == Kind::Unicast
    }

    fn is_multicast(address: &Address) -> bool {
        address::kind(address) == Kind::Multicast
    }

    fn bind_sap(sap: u32) -> Option<u32> {
        sap::bind_key(sap)
    }

    fn header(destination: &Address, sap: u32, extra: usize) -> Option<Mblk> {
        let header = header::make(destination, sap)?;
        let mut packet = Mblk::new(header::LEN.checked_add(extra)?).ok()?;
        packet.append(&header).ok()?;
        Some(packet)
    }

    fn header_info(first_block: &[u8]) -> Option<HeaderInfo> {
        header::parse(first_block)
    }

    fn cook(mut packet: Mblk) -> Result<Mblk, Mblk> {
        let Some((destination, sap)) = header::parse_raw(packet.first()) else { return Err(packet) };
        let Some(mut cooked) = Self::header(&destination, sap, 0) else { return Err(packet) };
        packet.advance(header::RAW_TRANSMIT_LEN);
        cooked.link(packet);
        Ok(cooked)
    }

    fn uncook(mut packet: Mblk) -> Mblk {
        packet.advance(header::RAW_RECEIVE_SKIP);
        packet
    }

    fn link_details(link: &LinkStats, text: &mut dyn fmt::Write) -> fmt::Result {
        // The C plugin's arithmetic: megabits, truncated, in 32 bits.
        let megabits = (link.get(Stat::Speed) / 1_000_000) as u32;
        write!(text, "{megabits} Mbps")
    }
}
