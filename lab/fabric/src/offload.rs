//! Checksums and large sends for IPoIB frames (4 bytes of encapsulation, then IPv4 or IPv6).

const IPOIB_LEN: usize = 4;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;
const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;

/// Class bits of `wc_detail`.
const DETAIL_IPV4: u32 = 1 << 22;
const DETAIL_IPV6: u32 = 1 << 24;
const DETAIL_TCP: u32 = 1 << 26;
const DETAIL_UDP: u32 = 1 << 27;

/// Where things are in an IPoIB frame that carries TCP or UDP unfragmented.
struct Layout {
    v4: bool,
    /// Offset of the IP header.
    ip: usize,
    /// Offset of the TCP or UDP header.
    transport: usize,
    /// End of the IP packet; anything beyond is not its.
    end: usize,
    protocol: u8,
}

impl Layout {
    /// Reads lengths out of the headers and checks them against the frame.
    fn of(frame: &[u8]) -> Option<Layout> {
        match be16(frame, 0)? {
            ETHERTYPE_IPV4 => Self::of_v4(frame),
            ETHERTYPE_IPV6 => Self::of_v6(frame),
            _ => None,
        }
    }

    fn of_v4(frame: &[u8]) -> Option<Layout> {
        let ip = frame.get(IPOIB_LEN..)?;
        let header = usize::from(ip.first()? & 0xf) * 4;
        let total = usize::from(be16(ip, 2)?);
        let fragment = be16(ip, 6)? & 0x3fff != 0;
        if ip[0] >> 4 != 4 || header < 20 || total < header || total > ip.len() || fragment {
            return None;
        }
        Self {
            v4: true,
            ip: IPOIB_LEN,
            transport: IPOIB_LEN + header,
            end: IPOIB_LEN + total,
            protocol: *ip.get(9)?,
        }
        .checked()
    }

    fn of_v6(frame: &[u8]) -> Option<Layout> {
        let ip = frame.get(IPOIB_LEN..)?;
        let total = 40 + usize::from(be16(ip, 4)?);
        if ip.first()? >> 4 != 6 || total > ip.len() {
            return None;
        }
        Self {
            v4: false,
            ip: IPOIB_LEN,
            transport: IPOIB_LEN + 40,
            end: IPOIB_LEN + total,
            protocol: *ip.get(6)?,
        }
        .checked()
    }

    fn checked(self) -> Option<Layout> {
        let least = match self.protocol {
            TCP => 20,
            UDP => 8,
            _ => return None,
        };
        (self.transport + least <= self.end).then_some(self)
    }

    fn checksum_at(&self) -> usize {
        self.transport + if self.protocol == TCP { 16 } else { 6 }
    }

    /// Sum over pseudo header and transport, checksum field included.
    fn transport_sum(&self, frame: &[u8]) -> u16 {
        let (from, to) = if self.v4 { (self.ip + 12, self.ip + 20) } else { (self.ip + 8, self.ip + 40) };
        let len = (self.end - self.transport) as u32;
        fold(sum(&frame[from..to]) + u32::from(self.protocol) + len + sum(&frame[self.transport..self.end]))
    }

    fn ip_header<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        &frame[self.ip..self.transport]
    }
}

/// Writes IPv4 header and TCP/UDP checksums. Frames that carry neither are left alone.
pub(crate) fn insert(frame: &mut [u8]) {
    let Some(layout) = Layout::of(frame) else { return };
    if layout.v4 {
        put16(frame, layout.ip + 10, 0);
        let check = !fold(sum(layout.ip_header(frame)));
        put16(frame, layout.ip + 10, check);
    }
    put16(frame, layout.checksum_at(), 0);
    let check = match !layout.transport_sum(frame) {
        // Of UDP alone does zero say that there is none (RFC 768).
        0 if layout.protocol == UDP => 0xffff,
        other => other,
    };
    put16(frame, layout.checksum_at(), check);
}

/// `wc_detail` bits if the frame is unfragmented TCP or UDP whose checksums hold; `None` if there is nothing to vouch for.
pub(crate) fn verify(frame: &[u8]) -> Option<u32> {
    let layout = Layout::of(frame)?;
    if layout.v4 && fold(sum(layout.ip_header(frame))) != 0xffff {
        return None;
    }
    // A UDP checksum of zero means none was computed: nothing to vouch for.
    if layout.protocol == UDP && be16(frame, layout.checksum_at()) == Some(0) {
        return None;
    }
    if layout.transport_sum(frame) != 0xffff {
        return None;
    }
    let ip = if layout.v4 { DETAIL_IPV4 } else { DETAIL_IPV6 };
    let transport = if layout.protocol == TCP { DETAIL_TCP } else { DETAIL_UDP };
    Some(ip | transport)
}

/// Cuts `payload` into segments of `mss` bytes behind copies of `header`, adjusted. `None` if the header is not IPoIB,
/// IP and TCP, or `mss` is 0.
pub(crate) fn segment(header: &[u8], payload: &[u8], mss: usize) -> Option<Vec<Vec<u8>>> {
    let template = TcpTemplate::of(header).filter(|_| mss > 0)?;
    let count = payload.len().div_ceil(mss).max(1);
    let mut out = Vec::with_capacity(count);
    for index in 0..count {
        let at = index * mss;
        let chunk = &payload[at..payload.len().min(at + mss)];
        let mut frame = Vec::with_capacity(header.len() + chunk.len());
        frame.extend_from_slice(header);
        frame.extend_from_slice(chunk);
        template.adjust(&mut frame, index, at, index + 1 == count);
        insert(&mut frame);
        out.push(frame);
    }
    Some(out)
}

struct TcpTemplate {
    v4: bool,
    transport: usize,
    id: u16,
    seq: u32,
    flags: u8,
}

impl TcpTemplate {
    fn of(header: &[u8]) -> Option<TcpTemplate> {
        let ip = header.get(IPOIB_LEN..)?;
        let (v4, transport, protocol) = match (be16(header, 0)?, ip.first()? >> 4) {
            (ETHERTYPE_IPV4, 4) => (true, IPOIB_LEN + usize::from(ip[0] & 0xf) * 4, *ip.get(9)?),
            (ETHERTYPE_IPV6, 6) => (false, IPOIB_LEN + 40, *ip.get(6)?),
            _ => return None,
        };
        let tcp = header.get(transport..)?;
        let tcp_len = usize::from(tcp.get(12)? >> 4) * 4;
        if protocol != TCP || tcp.len() < 20 || tcp_len != tcp.len() {
            return None;
        }
        let seq = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        Some(TcpTemplate { v4, transport, id: if v4 { be16(ip, 4)? } else { 0 }, seq, flags: tcp[13] })
    }

    fn adjust(&self, frame: &mut [u8], index: usize, at: usize, last: bool) {
        let ip_len = frame.len() - IPOIB_LEN;
        if self.v4 {
            put16(frame, IPOIB_LEN + 2, ip_len as u16);
            put16(frame, IPOIB_LEN + 4, self.id.wrapping_add(index as u16));
        } else {
            put16(frame, IPOIB_LEN + 4, (ip_len - 40) as u16);
        }
        let seq = self.seq.wrapping_add(at as u32).to_be_bytes();
        frame[self.transport + 4..self.transport + 8].copy_from_slice(&seq);
        let mut flags = self.flags;
        if !last {
            flags &= !(TCP_FIN | TCP_PSH);
        }
        if index > 0 {
            flags &= !TCP_CWR;
        }
        frame[self.transport + 13] = flags;
    }
}

fn be16(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*b.get(at)?, *b.get(at + 1)?]))
}

fn put16(b: &mut [u8], at: usize, value: u16) {
    b[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn sum(bytes: &[u8]) -> u32 {
    let mut total: u64 = 0;
    let mut pairs = bytes.chunks_exact(2);
    for pair in &mut pairs {
        total += u64::from(u16::from_be_bytes([pair[0], pair[1]]));
    }
    if let [odd] = pairs.remainder() {
        total += u64::from(*odd) << 8;
    }
    u32::from(fold64(total))
}

fn fold64(mut total: u64) -> u16 {
    while total > 0xffff {
        total = (total >> 16) + (total & 0xffff);
    }
    total as u16
}

fn fold(total: u32) -> u16 {
    fold64(u64::from(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp_header(v6: bool) -> Vec<u8> {
        let mut h = if v6 { vec![0x86, 0xdd, 0, 0] } else { vec![0x08, 0, 0, 0] };
        if v6 {
            h.extend([0x60, 0, 0, 0, 0, 0, TCP, 64]);
            h.extend([0xfe; 32]);
        } else {
            h.extend([0x45, 0, 0, 0, 0x12, 0x34, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        }
        h.extend([0x30, 0x39, 0x00, 0x50, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 9, 0x50, 0x19, 1, 0, 0, 0, 0, 0]);
        h
    }

    #[test]
    fn a_large_send_becomes_segments_that_verify_and_join_to_the_payload() {
        for v6 in [false, true] {
            let payload: Vec<u8> = (0..2500u32).map(|n| n as u8).collect();
            let header = tcp_header(v6);
            let segments = segment(&header, &payload, 1000).unwrap();
            assert_eq!(segments.len(), 3);
            let joined: Vec<u8> = segments.iter().flat_map(|s| s[header.len()..].to_vec()).collect();
            assert_eq!(joined, payload);
            let tcp = header.len() - 20;
            for (i, s) in segments.iter().enumerate() {
                assert!(verify(s).is_some(), "segment {i}");
                let seq = u32::from_be_bytes([s[tcp + 4], s[tcp + 5], s[tcp + 6], s[tcp + 7]]);
                assert_eq!(seq, 0xffff_fff0u32.wrapping_add(1000 * i as u32));
                assert_eq!(s[tcp + 13] & (TCP_FIN | TCP_PSH) != 0, i == 2);
            }
        }
    }

    #[test]
    fn a_changed_byte_is_not_vouched_for() {
        let mut frame = segment(&tcp_header(false), b"hello", 100).unwrap().remove(0);
        assert_eq!(verify(&frame), Some(DETAIL_IPV4 | DETAIL_TCP));
        *frame.last_mut().unwrap() ^= 1;
        assert_eq!(verify(&frame), None);
    }

    #[test]
    fn a_sum_of_zero_is_written_as_such_for_tcp_and_in_the_other_notation_for_udp() {
        for (protocol, checksum_at, len, written) in [(TCP, 16, 20, 0), (UDP, 6, 8, 0xffff)] {
            let mut frame = tcp_header(false);
            let transport = frame.len() - 20;
            frame.truncate(transport + len);
            frame[IPOIB_LEN + 9] = protocol;
            put16(&mut frame, IPOIB_LEN + 2, (20 + len) as u16);
            put16(&mut frame, transport, 0);
            // With its checksum in the place of the source port, the frame's sum is zero.
            insert(&mut frame);
            let balance = be16(&frame, transport + checksum_at).unwrap();
            put16(&mut frame, transport, balance);
            insert(&mut frame);
            assert_eq!(be16(&frame, transport + checksum_at), Some(written), "protocol {protocol}");
            assert!(verify(&frame).is_some());
        }
    }

    #[test]
    fn a_fragment_or_foreign_protocol_is_not_vouched_for() {
        let mut frame = segment(&tcp_header(false), b"hello", 100).unwrap().remove(0);
        frame[IPOIB_LEN + 6] |= 0x20;
        assert_eq!(verify(&frame), None);
        assert_eq!(verify(&[0x08, 0x06, 0, 0, 1, 2, 3]), None);
    }
}
