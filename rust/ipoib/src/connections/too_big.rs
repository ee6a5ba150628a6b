//! What a sender is told when its packet is longer than what goes to a neighbour: an ICMP message as a router would send it, which IP takes for
//! the path MTU of that destination (RFC 1191, RFC 8201).
//!
//! IP has no other way to learn that one neighbour of a link takes less than the link does. The message comes from the packet's destination,
//! as nobody else on the way has an address.

/// Octets of the longest answer: the least MTU of IPv6, within which RFC 4443 section 3.2 keeps it.
pub const LONGEST_ANSWER: usize = 1_280;

const IPV6_LEAST_MTU: u32 = 1_280;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
/// Of ICMP in both families: type, code, checksum, and the word with the MTU.
const ICMP_HEADER: usize = 8;
/// Of an IPv4 packet this much is quoted behind its header, where there is so much. TCP wants its ports and sequence number.
const IPV4_QUOTE: usize = 64;
const TTL: u8 = 255;
const ICMPV4: u8 = 1;
const ICMPV6: u8 = 58;
/// Extension headers of IPv6 that are looked behind, at most.
const MOST_EXTENSIONS: usize = 8;

/// Why a sender is not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// It is not IP, or its headers are cut or wrong.
    NotIp,
    /// It may be fragmented: IPv4 without DF.
    Fragmentable,
    /// Nobody can be answered: a source that is no host's, or a later fragment.
    NoSender,
    /// It is an ICMP error itself (RFC 1122 section 3.2.2, RFC 4443 section 2.4).
    Error,
    /// The limit is below what IPv6 asks of every link.
    Limit,
}

/// Writes the answer to `packet`, which begins with its IP header and of which the first [`LONGEST_ANSWER`] octets do, into `answer`; the
/// octets of the answer, which begins with an IP header, too. `mtu` is what goes to the neighbour, without the IPoIB header.
///
/// Does not block and keeps nothing; for any context.
///
/// # Errors
///
/// Why there is no answer.
pub fn answer(packet: &[u8], mtu: u32, answer: &mut [u8; LONGEST_ANSWER]) -> Result<usize, Silence> {
    match packet.first().map(|first| first >> 4) {
        Some(4) => answer_v4(packet, mtu, answer),
        Some(6) => answer_v6(packet, mtu, answer),
        _ => Err(Silence::NotIp),
    }
}

fn answer_v4(packet: &[u8], mtu: u32, answer: &mut [u8; LONGEST_ANSWER]) -> Result<usize, Silence> {
    let header = packet.first_chunk::<IPV4_HEADER>().ok_or(Silence::NotIp)?;
    let header_len = usize::from(header[0] & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header_len < IPV4_HEADER || header_len > packet.len() || total < header_len {
        return Err(Silence::NotIp);
    }
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    if fragment & 0x1fff != 0 {
        return Err(Silence::NoSender);
    }
    if fragment & 0x4000 == 0 {
        return Err(Silence::Fragmentable);
    }
    let [source, destination] = [&header[12..16], &header[16..20]];
    // This network, loopback, multicast and what is beyond it, and the broadcast address.
    if matches!(source[0], 0 | 127 | 224..=255) || matches!(destination[0], 224..=255) {
        return Err(Silence::NoSender);
    }
    if header[9] == ICMPV4 && packet.get(header_len).is_none_or(|kind| is_v4_error(*kind)) {
        return Err(Silence::Error);
    }
    let quoted = (header_len + IPV4_QUOTE).min(total).min(packet.len());
    let len = IPV4_HEADER + ICMP_HEADER + quoted;
    let (ip, rest) = answer.split_at_mut(IPV4_HEADER);
    ip.copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, TTL, ICMPV4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    ip[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    ip[12..16].copy_from_slice(destination);
    ip[16..20].copy_from_slice(source);
    let sum = checksum(0, ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let icmp = &mut rest[..ICMP_HEADER + quoted];
    icmp[..6].copy_from_slice(&[3, 4, 0, 0, 0, 0]);
    icmp[6..8].copy_from_slice(&u16::try_from(mtu).unwrap_or(u16::MAX).to_be_bytes());
    icmp[ICMP_HEADER..].copy_from_slice(&packet[..quoted]);
    let sum = checksum(0, icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    Ok(len)
}

/// Unreachable, source quench, redirect, time exceeded, parameter problem.
const fn is_v4_error(kind: u8) -> bool {
    matches!(kind, 3 | 4 | 5 | 11 | 12)
}

fn answer_v6(packet: &[u8], mtu: u32, answer: &mut [u8; LONGEST_ANSWER]) -> Result<usize, Silence> {
    let header = packet.first_chunk::<IPV6_HEADER>().ok_or(Silence::NotIp)?;
    let [source, destination] = [&header[8..24], &header[24..40]];
    let unspecified = source.iter().all(|byte| *byte == 0);
    if unspecified || source[0] == 0xff {
        return Err(Silence::NoSender);
    }
    if mtu < IPV6_LEAST_MTU {
        return Err(Silence::Limit);
    }
    if is_v6_error(packet, header[6]) {
        return Err(Silence::Error);
    }
    let total = IPV6_HEADER + usize::from(u16::from_be_bytes([header[4], header[5]]));
    let quoted = (LONGEST_ANSWER - IPV6_HEADER - ICMP_HEADER).min(total).min(packet.len());
    let (ip, rest) = answer.split_at_mut(IPV6_HEADER);
    ip[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 0, ICMPV6, TTL]);
    ip[4..6].copy_from_slice(&((ICMP_HEADER + quoted) as u16).to_be_bytes());
    ip[8..24].copy_from_slice(destination);
    ip[24..40].copy_from_slice(source);
    let icmp = &mut rest[..ICMP_HEADER + quoted];
    icmp[..4].copy_from_slice(&[2, 0, 0, 0]);
    icmp[4..8].copy_from_slice(&mtu.to_be_bytes());
    icmp[ICMP_HEADER..].copy_from_slice(&packet[..quoted]);
    // The pseudo-header: both addresses, the length, and what follows.
    let pseudo = sum_of(0, &ip[8..40]) + (ICMP_HEADER + quoted) as u32 + u32::from(ICMPV6);
    let sum = checksum(pseudo, icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    Ok(IPV6_HEADER + ICMP_HEADER + quoted)
}

/// Whether an ICMPv6 error is behind the extension headers, or nobody can tell because they are cut.
fn is_v6_error(packet: &[u8], mut next: u8) -> bool {
    let mut at = IPV6_HEADER;
    for _ in 0..MOST_EXTENSIONS {
        let extension = match next {
            ICMPV6 => return packet.get(at).is_none_or(|kind| *kind < 128),
            // Hop-by-hop options, routing, destination options: their length in units of eight octets beyond the first.
            0 | 43 | 60 => packet.get(at + 1).map(|units| (usize::from(*units) + 1) * 8),
            // A fragment: of a later one nobody knows what it is part of, and it is answered like any other packet.
            44 => Some(8),
            _ => return false,
        };
        let Some((extension, following)) = extension.zip(packet.get(at)) else { return true };
        (at, next) = (at + extension, *following);
    }
    true
}

fn sum_of(start: u32, bytes: &[u8]) -> u32 {
    let (pairs, last) = bytes.as_chunks::<2>();
    let sum = pairs.iter().fold(start, |sum, pair| sum + u32::from(u16::from_be_bytes(*pair)));
    sum + last.first().map_or(0, |byte| u32::from(*byte) << 8)
}

/// RFC 1071, of at most some thousand octets.
pub(super) fn checksum(start: u32, bytes: &[u8]) -> u16 {
    let mut sum = sum_of(start, bytes);
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests;
