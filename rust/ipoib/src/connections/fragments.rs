//! IPv4 packets in pieces (RFC 791 section 3.2): of a packet that is too long for a neighbour and may be fragmented, IP is told nothing, because
//! the link can do what a router would.

/// Octets of the longest IPv4 header.
pub const LONGEST_HEADER: usize = 60;

const SHORTEST_HEADER: usize = 20;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;
/// Offsets are in units of so many octets.
const UNIT: usize = 8;
/// The longest packet.
const LONGEST: usize = 65_535;

/// A piece of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    header: [u8; LONGEST_HEADER],
    header_len: usize,
    /// Where its octets begin, counted from the end of the packet's own header.
    pub from: usize,
    /// How many there are.
    pub len: usize,
}

impl Fragment {
    /// Its IPv4 header, checksum included.
    pub fn header(&self) -> &[u8] {
        &self.header[..self.header_len]
    }
}

/// The pieces of a packet, in order.
#[derive(Clone, Debug)]
pub struct Fragments<'a> {
    header: &'a [u8],
    payload: usize,
    at: usize,
    mtu: usize,
}

/// The pieces of a packet that fit `mtu` octets each, with their headers; `packet` begins with its IPv4 header, which must be there whole.
/// `None` if it is no IPv4 packet, may not be fragmented, or the MTU carries nothing behind the header.
pub fn fragments(packet: &[u8], mtu: u32) -> Option<Fragments<'_>> {
    let start = packet.first_chunk::<SHORTEST_HEADER>()?;
    let header_len = usize::from(start[0] & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([start[2], start[3]]));
    let flags = u16::from_be_bytes([start[6], start[7]]);
    let mtu = usize::try_from(mtu).unwrap_or(LONGEST).min(LONGEST);
    let header = packet.get(..header_len)?;
    let payload = total.checked_sub(header_len)?;
    let reaches = usize::from(flags & OFFSET) * UNIT + payload <= LONGEST;
    let right = start[0] >> 4 == 4 && header_len >= SHORTEST_HEADER && flags & DONT_FRAGMENT == 0;
    (right && reaches && mtu >= header_len + UNIT).then_some(Fragments { header, payload, at: 0, mtu })
}

impl Iterator for Fragments<'_> {
    type Item = Fragment;

    fn next(&mut self) -> Option<Fragment> {
        let left = self.payload - self.at;
        if left == 0 {
            return None;
        }
        let mut header = [0; LONGEST_HEADER];
        let header_len = if self.at == 0 {
            copy(self.header, &mut header)
        } else {
            copy_for_later(self.header, &mut header)
        };
        let room = self.mtu - header_len;
        let len = if left <= room { left } else { room / UNIT * UNIT };
        let flags = u16::from_be_bytes([self.header[6], self.header[7]]);
        let more = if len < left { MORE_FRAGMENTS } else { flags & MORE_FRAGMENTS };
        let offset = (flags & OFFSET) + (self.at / UNIT) as u16;
        header[0] = 0x40 | (header_len / 4) as u8;
        header[2..4].copy_from_slice(&((header_len + len) as u16).to_be_bytes());
        header[6..8].copy_from_slice(&(more | offset & OFFSET).to_be_bytes());
        header[10..12].fill(0);
        let sum = super::too_big::checksum(0, &header[..header_len]);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        let fragment = Fragment { header, header_len, from: self.at, len };
        self.at += len;
        Some(fragment)
    }
}

fn copy(header: &[u8], to: &mut [u8; LONGEST_HEADER]) -> usize {
    to[..header.len()].copy_from_slice(header);
    header.len()
}

/// Of the options those that belong into every fragment: whose first bit says so. What is cut or makes no sense ends them.
fn copy_for_later(header: &[u8], to: &mut [u8; LONGEST_HEADER]) -> usize {
    let (fixed, mut options) = header.split_at(SHORTEST_HEADER);
    to[..SHORTEST_HEADER].copy_from_slice(fixed);
    let mut len = SHORTEST_HEADER;
    while let Some(&kind) = options.first().filter(|kind| **kind != 0) {
        let option = match (kind, options.get(1)) {
            (1, _) => 1,
            (_, Some(&octets)) if octets >= 2 && usize::from(octets) <= options.len() => usize::from(octets),
            _ => break,
        };
        let (this, rest) = options.split_at(option);
        if kind & 0x80 != 0 {
            to[len..len + option].copy_from_slice(this);
            len += option;
        }
        options = rest;
    }
    // What is left over of the last word is zero: the end of options.
    len.next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn packet(options: &[u8], payload: usize, flags: u16) -> Vec<u8> {
        let header_len = SHORTEST_HEADER + options.len();
        let mut packet = std::vec![0; SHORTEST_HEADER];
        packet[0] = 0x40 | (header_len / 4) as u8;
        packet[2..4].copy_from_slice(&((header_len + payload) as u16).to_be_bytes());
        packet[6..8].copy_from_slice(&flags.to_be_bytes());
        packet[8..10].copy_from_slice(&[64, 17]);
        packet.extend_from_slice(options);
        packet.extend((0..payload).map(|n| n as u8));
        packet
    }

    /// What a receiver puts together: the octets in order of offset, and whether the last piece is there.
    fn together(pieces: &[Fragment], payload: &[u8], base: usize) -> (Vec<u8>, bool) {
        let mut all = Vec::new();
        let mut last = false;
        for piece in pieces {
            let flags = u16::from_be_bytes([piece.header()[6], piece.header()[7]]);
            assert_eq!(usize::from(flags & OFFSET) * UNIT, base + all.len(), "in order, without a gap");
            assert_eq!(super::super::too_big::checksum(0, piece.header()), 0);
            assert_eq!(
                piece.header().len() + piece.len,
                usize::from(u16::from_be_bytes([piece.header()[2], piece.header()[3]]))
            );
            all.extend_from_slice(&payload[piece.from..piece.from + piece.len]);
            last = flags & MORE_FRAGMENTS == 0;
        }
        (all, last)
    }

    #[test]
    fn later_fragments_have_only_the_options_that_belong_into_each() {
        // A record route (not copied), a no-operation, a stream ID (copied), the end.
        let options = [7, 3, 4, 1, 0x88, 4, 0, 9, 0, 0, 0, 0];
        let packet = packet(&options, 3_000, 0);
        let pieces: Vec<Fragment> = fragments(&packet, 1_000).expect("fragments").collect();
        assert_eq!(pieces[0].header()[20..], options);
        assert!(pieces[1..].iter().all(|piece| piece.header()[20..] == [0x88, 4, 0, 9]));
        assert_eq!(together(&pieces, &packet[32..], 0), (packet[32..].to_vec(), true));
    }

    #[test]
    fn what_may_not_or_cannot_be_fragmented_is_not() {
        assert!(fragments(&packet(&[], 3_000, DONT_FRAGMENT), 1_000).is_none());
        assert!(fragments(&packet(&[], 3_000, 0), 27).is_none());
        assert!(fragments(&packet(&[], 3_000, 0)[..19], 1_000).is_none());
        assert!(fragments(&packet(&[], 3_000, 0x1fff), 1_000).is_none(), "beyond the longest packet");
        let mut six = packet(&[], 3_000, 0);
        six[0] = 0x65;
        assert!(fragments(&six, 1_000).is_none());
    }

    proptest! {
        /// The pieces fit, and together they are the packet; the pieces of a piece, too.
        #[test]
        fn pieces_fit_and_are_the_packet_together(
            words in 0..10_usize,
            option in any::<[u8; 40]>(),
            payload in 0..9_000_usize,
            mtu in 68..3_000_u32,
            offset in 0..100_u16,
            more in any::<bool>(),
        ) {
            let flags = offset | if more { MORE_FRAGMENTS } else { 0 };
            let packet = packet(&option[..words * 4], payload, flags);
            let pieces: Vec<Fragment> = fragments(&packet, mtu).expect("fragments").collect();
            prop_assert!(pieces.iter().all(|piece| piece.header().len() + piece.len <= mtu as usize));
            let body = &packet[SHORTEST_HEADER + words * 4..];
            let (all, last) = together(&pieces, body, usize::from(offset) * UNIT);
            prop_assert_eq!(all, body);
            prop_assert!(pieces.is_empty() || last != more);
        }

        #[test]
        fn any_octets_are_fragmented_without_a_panic(octets in prop::collection::vec(any::<u8>(), 0..80), mtu in any::<u32>()) {
            let mut octets = octets;
            octets.iter_mut().take(1).for_each(|first| *first = 0x40 | *first & 0xf);
            let pieces = fragments(&octets, mtu).map(|pieces| pieces.map(|piece| piece.len).sum::<usize>());
            prop_assert!(pieces.is_none_or(|octets| octets <= LONGEST));
        }
    }
}
