//! Requests for connections (REQ) that strangers make up, written byte by byte (InfiniBand Architecture volume 1, 12.6.5).

use fabric::{Gid, Lid};

/// Bytes of a MAD, and where the message's own begin.
const LEN: usize = 256;
const DATA: usize = 24;
/// `MgmtClass` of communication management, and the attribute of a REQ.
const CLASS: u8 = 7;
const REQ: u16 = 0x10;
/// Service ID of an IPoIB queue pair (RFC 4755 section 6).
const SERVICE: u64 = 0x0100_0000_0000_0000;
/// What a sender says that answers may take, as a code: 67 ms.
const RESPONSE: u8 = 14;
/// Codes of the ACK timeout that are said: up to 4.3 s. With a longer one `ibcm` keeps the queue pair of a connection for hours.
const ACK_TIMEOUTS: [u8; 5] = [0, 1, 14, 18, 20];
/// GUIDs of adapters that are not there.
const ABSENT: u64 = 0x0057_5252_4551_0000;

/// Whom a REQ is for, and in whose name.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    pub qpn: u32,
    pub pkey: u16,
    pub to: (Lid, Gid),
    pub from: (Lid, Gid),
}

/// The REQ of this number: each has another sender; in some a field or two makes no sense.
pub fn request(number: u64, ends: &Ends) -> [u8; LEN] {
    let mut mad = [0; LEN];
    let mut put = |at: usize, bytes: &[u8]| mad[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &[1, CLASS, 2, 3]);
    put(8, &number.to_be_bytes());
    put(16, &REQ.to_be_bytes());
    let mut data = |at: usize, bytes: &[u8]| put(DATA + at, bytes);
    // Of eight REQs one each is for another service, from no queue pair, of another transport, or of another partition.
    let odd = number % 8;
    let qpn = if odd == 1 { [0, 0xff_ffff][(number / 8 % 2) as usize] } else { number as u32 & 0xff_ffff };
    let service = SERVICE | u64::from(if odd == 0 { ends.qpn ^ 1 } else { ends.qpn });
    let transport = if odd == 2 { 1 + (number / 8 % 3) as u8 } else { 0 };
    let pkey = if odd == 3 { ends.pkey ^ 0x0101 } else { ends.pkey };
    data(0, &(number as u32 | 1 << 31).to_be_bytes());
    data(8, &service.to_be_bytes());
    data(16, &(ABSENT + number).to_be_bytes());
    data(32, &(qpn << 8).to_be_bytes());
    data(43, &[RESPONSE << 3 | transport << 1]);
    data(44, &(number as u32).to_be_bytes());
    data(47, &[RESPONSE << 3 | 7]);
    data(48, &pkey.to_be_bytes());
    data(50, &[4 << 4 | 7, 1 << 4 | 1 << 3]);
    data(52, &ends.from.0.0.to_be_bytes());
    data(54, &ends.to.0.0.to_be_bytes());
    data(56, &ends.from.1.to_bytes());
    data(72, &ends.to.1.to_bytes());
    data(91, &[3]);
    let timeout = ACK_TIMEOUTS[(number % ACK_TIMEOUTS.len() as u64) as usize];
    data(94, &[1 << 3, timeout << 3]);
    data(140, &private(number / 8, qpn));
    mad
}

/// What IPoIB says of itself: a queue pair and the longest message. Some make no sense.
fn private(number: u64, qpn: u32) -> [u8; 92] {
    let mut bytes = [0; 92];
    let (qpn, longest) = match number % 6 {
        0 => (0, 65_524),
        1 => (u32::MAX, u32::MAX),
        2 => (qpn, 0),
        3 => (qpn, 3),
        _ => (qpn, 65_524),
    };
    bytes[..4].copy_from_slice(&qpn.to_be_bytes());
    bytes[4..8].copy_from_slice(&longest.to_be_bytes());
    if number % 6 == 1 {
        bytes.fill(0xff);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_req_has_another_sender_and_some_are_right() {
        let gid = |guid| Gid { prefix: 0xfe80 << 48, guid };
        let ends = Ends { qpn: 0x48, pkey: 0x8001, to: (Lid(2), gid(2)), from: (Lid(3), gid(3)) };
        let all: Vec<_> = (0..1_000).map(|number| request(number, &ends)).collect();
        let senders: BTreeSet<&[u8]> = all.iter().map(|mad| &mad[DATA + 16..DATA + 24]).collect();
        assert_eq!(senders.len(), all.len());
        let right = |mad: &&[u8; LEN]| {
            mad[DATA + 8..DATA + 16] == (SERVICE | 0x48).to_be_bytes()
                && mad[DATA + 43] == RESPONSE << 3
                && mad[DATA + 48..DATA + 50] == [0x80, 1]
                && mad[DATA + 144..DATA + 148] == 65_524_u32.to_be_bytes()
        };
        assert!((100..500).contains(&all.iter().filter(right).count()));
    }
}
