//! Checksums and large sends of IPoIB frames: 4 bytes of encapsulation, then IPv4 or IPv6, then TCP or UDP. No memory but a head's.
//!
//! A head is the first bytes of a frame, all of its headers among them. What is behind it is summed up piece by piece by whoever has it.

/// Bytes of a head: IPv4 and TCP with all options take 124.
pub(crate) const HEAD: usize = 128;

const IPOIB: usize = 4;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Flags of TCP that only one segment of a large send has: the last, the last, the first.
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// A ones' complement sum (RFC 1071) of big-endian words.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum(u64);

impl Sum {
    /// Adds bytes; an odd number of them ends the data.
    ///
    /// Eight at a time, as this machine has them: the sum of swapped words is the swapped sum (RFC 1071, 2).
    pub(crate) fn add(self, bytes: &[u8]) -> Self {
        const ROW: usize = 32;
        let (rows, rest) = bytes.as_chunks::<ROW>();
        let mut sum = 0;
        for row in rows {
            let (words, _) = row.as_chunks::<8>();
            sum = words.iter().fold(sum, |sum, word| with_carry(sum, u64::from_ne_bytes(*word)));
        }
        let (words, rest) = rest.as_chunks::<8>();
        sum = words.iter().fold(sum, |sum, word| with_carry(sum, u64::from_ne_bytes(*word)));
        let swapped = Self((sum >> 32) + (sum & 0xffff_ffff)).folded();
        let (pairs, rest) = rest.as_chunks::<2>();
        let words = pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum::<u64>();
        let last = rest.first().map_or(0, |last| u64::from(*last) << 8);
        Self(self.0 + u64::from(u16::from_be(swapped)) + words + last)
    }

    fn number(self, value: u32) -> Self {
        Self(self.0 + u64::from(value >> 16) + u64::from(value & 0xffff))
    }

    fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        sum as u16
    }
}

/// A ones' complement sum of 64 bits.
fn with_carry(sum: u64, word: u64) -> u64 {
    let (sum, carry) = sum.overflowing_add(word);
    // There is room: two numbers that overflow do not end at the highest one.
    sum.wrapping_add(u64::from(carry))
}

/// Where the headers of a frame are that has TCP or UDP in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    v4: bool,
    transport: usize,
    /// Bytes of TCP or UDP, header and data.
    len: usize,
    udp: bool,
}

impl Layout {
    /// Of a frame with this head and so many bytes in all; `None` if it is no such frame, or ends before its headers say.
    pub(crate) fn of(head: &[u8], frame: usize) -> Option<Self> {
        let ip = head.get(IPOIB..)?;
        let version = ip.first()? >> 4;
        let (v4, header, total, protocol) = match (be16(head, 0)?, version) {
            (IPV4, 4) if be16(ip, 6)? & 0x3fff == 0 => {
                (true, usize::from(ip.first()? & 0xf) * 4, usize::from(be16(ip, 2)?), *ip.get(9)?)
            }
            (IPV6, 6) => (false, 40, 40 + usize::from(be16(ip, 4)?), *ip.get(6)?),
            _ => return None,
        };
        let least = match protocol {
            TCP => 20,
            UDP => 8,
            _ => return None,
        };
        let transport = IPOIB + header;
        let fits = header >= 20 && IPOIB + total <= frame && header + least <= total;
        let whole = transport + least <= head.len();
        // Not before it fits: the difference may be below zero.
        (fits && whole).then(|| Self { v4, transport, len: total - header, udp: protocol == UDP })
    }

    fn checksum_at(self) -> usize {
        self.transport + if self.udp { 6 } else { 16 }
    }

    /// How many bytes behind a head of `head` bytes are summed up.
    pub(crate) fn behind(self, head: usize) -> usize {
        (self.transport + self.len).saturating_sub(head)
    }

    /// Writes the checksums into the head; `rest` is the sum of what is behind it and belongs to the packet.
    pub(crate) fn finish(self, head: &mut [u8], rest: Sum) {
        if self.v4 {
            put16(head, IPOIB + 10, 0);
            let header = head.get(IPOIB..self.transport).unwrap_or_default();
            let check = !Sum::default().add(header).folded();
            put16(head, IPOIB + 10, check);
        }
        put16(head, self.checksum_at(), 0);
        let addresses = if self.v4 { IPOIB + 12..IPOIB + 20 } else { IPOIB + 8..IPOIB + 40 };
        let own = self.transport..head.len().min(self.transport + self.len);
        let sum = Sum(rest.0)
            .add(head.get(addresses).unwrap_or_default())
            .number(if self.udp { UDP } else { TCP }.into())
            .number(self.len as u32)
            .add(head.get(own).unwrap_or_default());
        // Of UDP alone does zero say that there is none (RFC 768).
        let check = match !sum.folded() {
            0 if self.udp => 0xffff,
            check => check,
        };
        put16(head, self.checksum_at(), check);
    }
}

/// The headers of a large send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Large {
    v4: bool,
    transport: usize,
    id: u16,
    sequence: u32,
    flags: u8,
}

impl Large {
    /// Of the header that each segment gets, which ends where TCP's data begin; `None` if it is none.
    pub(crate) fn of(header: &[u8]) -> Option<Self> {
        let ip = header.get(IPOIB..)?;
        let (v4, len, protocol) = match (be16(header, 0)?, ip.first()? >> 4) {
            (IPV4, 4) => (true, usize::from(ip.first()? & 0xf) * 4, *ip.get(9)?),
            (IPV6, 6) => (false, 40, *ip.get(6)?),
            _ => return None,
        };
        let transport = IPOIB + len;
        let tcp = header.get(transport..)?;
        let whole = usize::from(*tcp.get(12)? >> 4) * 4 == tcp.len() && tcp.len() >= 20;
        if protocol != TCP || len < 20 || !whole {
            return None;
        }
        let sequence = u32::from(be16(tcp, 4)?) << 16 | u32::from(be16(tcp, 6)?);
        Some(Self { v4, transport, id: be16(ip, 4)?, sequence, flags: *tcp.get(13)? })
    }

    /// Makes `head`, a copy of the header, that of segment `index`, whose `len` bytes of data begin at byte `at`.
    pub(crate) fn segment(self, head: &mut [u8], (index, at, len): (u32, u32, u32), last: bool) {
        let total = head.len() - IPOIB + len as usize;
        if self.v4 {
            put16(head, IPOIB + 2, total as u16);
            put16(head, IPOIB + 4, self.id.wrapping_add(index as u16));
        } else {
            put16(head, IPOIB + 4, (total - 40) as u16);
        }
        let sequence = self.sequence.wrapping_add(at);
        put16(head, self.transport + 4, (sequence >> 16) as u16);
        put16(head, self.transport + 6, sequence as u16);
        let not_last = if last { 0 } else { FIN_PSH };
        let not_first = if index == 0 { 0 } else { CWR };
        if let Some(flags) = head.get_mut(self.transport + 13) {
            *flags = self.flags & !(not_last | not_first);
        }
    }
}

fn be16(from: &[u8], at: usize) -> Option<u16> {
    from.get(at..)?.first_chunk::<2>().map(|pair| u16::from_be_bytes(*pair))
}

fn put16(to: &mut [u8], at: usize, value: u16) {
    if let Some(pair) = to.get_mut(at..at + 2) {
        pair.copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::{HEAD, Large, Layout, Sum};

    /// A frame with checksums that are wrong, and data behind its headers.
    fn frame(v4: bool, udp: bool, data: &[u8]) -> Vec<u8> {
        let transport = if udp { 8 } else { 20 } + data.len();
        let mut frame = if v4 { vec![8, 0, 0, 0] } else { vec![0x86, 0xdd, 0, 0] };
        let protocol = if udp { 17 } else { 6 };
        if v4 {
            let total = (20 + transport) as u16;
            frame.extend([
                0x45,
                0,
                (total >> 8) as u8,
                total as u8,
                0x12,
                0x34,
                0x40,
                0,
                64,
                protocol,
                0xee,
                0xee,
            ]);
            frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        } else {
            frame.extend([0x60, 0, 0, 0, (transport >> 8) as u8, transport as u8, protocol, 64]);
            frame.extend([0xfd; 32]);
        }
        if udp {
            frame.extend([0, 7, 0, 9, (transport >> 8) as u8, transport as u8, 0xbb, 0xbb]);
        } else {
            frame.extend([
                0, 7, 0, 9, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 1, 0x50, 0x99, 0x10, 0, 0xbb, 0xbb, 0, 0,
            ]);
        }
        frame.extend(data);
        frame
    }

    #[test]
    fn packet_that_says_it_is_shorter_than_its_header_has_no_layout() {
        let mut frame = frame(true, true, &[1, 2, 3]);
        frame[6..8].copy_from_slice(&[0, 7]);
        assert!(Layout::of(&frame, frame.len()).is_none());
    }

    #[test]
    fn sum_of_eight_at_a_time_is_the_sum_of_words() {
        let bytes: Vec<u8> = (0..300u32).map(|n| (n * 251 + 97) as u8).chain([0xff; 77]).collect();
        for (from, to) in [(0, 0), (0, 1), (0, 7), (0, 8), (1, 32), (0, 63), (2, 259), (0, 377), (300, 377)] {
            let data = &bytes[from..to];
            let words = data
                .chunks(2)
                .map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u64::from(*low)));
            let plain = Sum(words.sum()).folded();
            let fast = Sum::default().add(data).folded();
            // 0 and 0xffff are one number.
            assert_eq!(fast % 0xffff, plain % 0xffff, "{from}..{to}");
        }
    }

    /// As a receiver looks: both sums, over everything.
    fn is_sound(frame: &[u8]) -> bool {
        let v4 = frame[0] == 8;
        let (at, protocol) = if v4 { (24, frame[13]) } else { (44, frame[10]) };
        let total = if v4 { 4 + usize::from(frame[6]) * 256 + usize::from(frame[7]) } else { frame.len() };
        let addresses = if v4 { &frame[16..24] } else { &frame[12..44] };
        let length = (total - at) as u16;
        let sum = Sum::default()
            .add(addresses)
            .add(&[0, protocol])
            .add(&length.to_be_bytes())
            .add(&frame[at..total])
            .folded();
        sum == 0xffff && (!v4 || Sum::default().add(&frame[4..24]).folded() == 0xffff)
    }

    fn finished(mut frame: Vec<u8>) -> Vec<u8> {
        let len = frame.len();
        let head = len.min(HEAD);
        let layout = Layout::of(&frame[..head], len).expect("TCP or UDP");
        let rest = Sum::default().add(&frame[head..head + layout.behind(head)]);
        layout.finish(&mut frame[..head], rest);
        frame
    }

    #[test]
    fn checksums_are_those_that_a_receiver_computes() {
        for len in [0, 1, 2, 63, 64, 65, 100, 999, 1000, 2000] {
            let data: Vec<u8> = (0..len).map(|n| (n * 37) as u8).collect();
            for (v4, udp) in [(true, false), (true, true), (false, false), (false, true)] {
                let frame = frame(v4, udp, &data);
                assert!(!is_sound(&frame));
                assert!(is_sound(&finished(frame)), "{len} bytes, IPv4 {v4}, UDP {udp}");
            }
        }
    }

    #[test]
    fn bytes_behind_the_packet_are_not_its() {
        let mut padded = frame(true, true, b"data");
        padded.extend([0xaa; 7]);
        assert!(is_sound(&finished(padded)));
    }

    #[test]
    fn fragments_other_protocols_and_cut_frames_are_left_alone() {
        let good = frame(true, false, b"data");
        let mut fragment = good.clone();
        fragment[10] = 0x20;
        let mut other = good.clone();
        other[13] = 1;
        let mut arp = good.clone();
        (arp[0], arp[1]) = (8, 6);
        for frame in [&fragment, &other, &arp] {
            assert_eq!(Layout::of(frame, frame.len()), None);
        }
        assert_eq!(Layout::of(&good, good.len() - 1), None);
        assert_eq!(Layout::of(&good[..30], good.len()), None);
    }

    #[test]
    fn large_send_is_cut_as_tcp_would_have_sent_it() {
        let whole = frame(true, false, &[]);
        let large = Large::of(&whole).expect("a header of TCP");
        let data: Vec<u8> = (0..2500u32).map(|n| n as u8).collect();
        let cut: Vec<Vec<u8>> = (0..)
            .zip(data.chunks(1000))
            .map(|(index, chunk)| {
                let mut head = whole.clone();
                large.segment(&mut head, (index, index * 1000, chunk.len() as u32), index == 2);
                head.extend(chunk);
                finished(head)
            })
            .collect();
        assert!(cut.iter().all(|frame| is_sound(frame)));
        let ids: Vec<u8> = cut.iter().map(|frame| frame[9]).collect();
        assert_eq!(ids, [0x34, 0x35, 0x36]);
        let sequences: Vec<u32> =
            cut.iter().map(|frame| u32::from_be_bytes(frame[28..32].try_into().unwrap())).collect();
        assert_eq!(sequences, [0xffff_fff0, 0x3d8, 0x7c0], "it wraps");
        // CWR on the first, FIN and PSH on the last, ACK on all.
        let flags: Vec<u8> = cut.iter().map(|frame| frame[37]).collect();
        assert_eq!(flags, [0x90, 0x10, 0x19]);
        assert!(Large::of(&frame(true, true, &[])).is_none());
        assert!(Large::of(&frame(true, false, b"data behind it")).is_none());
    }
}
