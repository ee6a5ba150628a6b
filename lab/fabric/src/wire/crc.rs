//! The two check sums of a frame.
//!
//! ICRC: Ethernet's CRC-32 over LRH to padding with the fields a switch or router may change read as ones. VCRC: 16 bits,
//! polynomial 0x100B, over LRH to ICRC. Both are sent least significant byte first.

use super::headers::{ICRC_LEN, VCRC_LEN};
use super::{GRH_LEN, LRH_LEN};
use crc::{Algorithm, CRC_32_ISO_HDLC, Crc};

const VCRC_ALGORITHM: Algorithm<u16> = Algorithm {
    width: 16,
    poly: 0x100b,
    init: 0xffff,
    refin: true,
    refout: true,
    xorout: 0xffff,
    check: 0,
    residue: 0,
};

static ICRC: Crc<u32, crc::Table<16>> = Crc::<u32, crc::Table<16>>::new(&CRC_32_ISO_HDLC);
static VCRC: Crc<u16, crc::Table<16>> = Crc::<u16, crc::Table<16>>::new(&VCRC_ALGORITHM);

/// Bytes of LRH, GRH and the first five bytes of BTH: everything that is masked lies in there.
const MASKED_MAX: usize = LRH_LEN + GRH_LEN + 5;

/// ICRC over `frame`, which runs from LRH through padding (neither CRC included).
#[must_use]
pub fn icrc(frame: &[u8], has_grh: bool) -> [u8; 4] {
    let bth = if has_grh { LRH_LEN + GRH_LEN } else { LRH_LEN };
    let masked_len = (bth + 5).min(frame.len());
    let mut masked = [0u8; MASKED_MAX];
    masked[..masked_len].copy_from_slice(&frame[..masked_len]);
    if has_grh {
        masked[..LRH_LEN].fill(0xff);
        masked[LRH_LEN] |= 0x0f; // TClass, high nibble
        masked[LRH_LEN + 1..LRH_LEN + 4].fill(0xff); // TClass low nibble, flow label
        masked[LRH_LEN + 7] = 0xff; // hop limit
    } else {
        masked[0] |= 0xf0; // virtual lane
    }
    masked[bth + 4] = 0xff; // reserved byte of BTH
    let mut digest = ICRC.digest();
    digest.update(&masked[..masked_len]);
    digest.update(&frame[masked_len..]);
    digest.finalize().to_le_bytes()
}

/// VCRC over `frame`, which runs from LRH through ICRC.
#[must_use]
pub fn vcrc(frame: &[u8]) -> [u8; 2] {
    VCRC.checksum(frame).to_le_bytes()
}

/// Makes both CRCs of a frame right again after something in front of them was changed. Does nothing to a frame that is too
/// short to have them.
pub fn renew(frame: &mut [u8], has_grh: bool) {
    let Some(vcrc_at) = frame.len().checked_sub(VCRC_LEN) else { return };
    let Some(icrc_at) = vcrc_at.checked_sub(ICRC_LEN) else { return };
    let invariant = icrc(&frame[..icrc_at], has_grh);
    frame[icrc_at..vcrc_at].copy_from_slice(&invariant);
    let variant = vcrc(&frame[..vcrc_at]);
    frame[vcrc_at..].copy_from_slice(&variant);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of the reliable transport, without GRH, whose ICRC is published; LRH through payload.
    const PUBLISHED: &str = "7012375C000E17D20A2024870087B1B3000DEC2A01710A1C015D400238F27A05\
                             0000000EBB884D85FD5CFBA4728BC0690ED40000";

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|p| u8::from_str_radix(std::str::from_utf8(p).unwrap(), 16).unwrap()).collect()
    }

    #[test]
    fn the_published_packet_gets_its_published_crcs() {
        let mut frame = bytes(PUBLISHED);
        let icrc = icrc(&frame, false);
        assert_eq!(icrc, [0x96, 0x25, 0xb7, 0x5a]);
        frame.extend_from_slice(&icrc);
        assert_eq!(vcrc(&frame), [0x45, 0xfa]);
    }

    #[test]
    fn fields_a_router_changes_do_not_change_the_icrc() {
        let mut frame = vec![0u8; LRH_LEN + GRH_LEN + 20 + 8];
        for (i, b) in frame.iter_mut().enumerate() {
            *b = i as u8;
        }
        let before = icrc(&frame, true);
        frame[0] ^= 0xff; // LRH
        frame[LRH_LEN + 3] ^= 0x55; // flow label
        frame[LRH_LEN + 7] ^= 0x01; // hop limit
        assert_eq!(icrc(&frame, true), before);
        frame[LRH_LEN + 8] ^= 1; // source GID
        assert_ne!(icrc(&frame, true), before);
    }
}
