//! Echo requests and their answers, and test data that can be made again from its number.

/// Octets of an ICMP or ICMPv6 echo header.
pub const ECHO_HEADER: usize = 8;

/// The family of an echo: the type octets and who computes the checksum differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// ICMP (RFC 792): we compute the checksum, and what is received begins with the IP header.
    V4,
    /// ICMPv6 (RFC 4443): the kernel computes the checksum, and what is received begins with the ICMP header.
    V6,
}

/// Which echo it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// IPv4 or IPv6.
    pub family: Family,
    /// Tells the echoes of one process from those of another.
    pub identifier: u16,
    /// Tells the echoes of one process apart.
    pub sequence: u16,
}

impl Echo {
    /// Writes the request with `size` octets of data into `into` and returns its length, or `None` if it does not fit.
    pub fn request(&self, size: usize, into: &mut [u8]) -> Option<usize> {
        let length = ECHO_HEADER + size;
        let packet = into.get_mut(..length)?;
        let kind = if self.family == Family::V4 { 8 } else { 128 };
        packet[..4].copy_from_slice(&[kind, 0, 0, 0]);
        packet[4..6].copy_from_slice(&self.identifier.to_be_bytes());
        packet[6..8].copy_from_slice(&self.sequence.to_be_bytes());
        fill(&mut packet[ECHO_HEADER..], u32::from(self.sequence));
        if self.family == Family::V4 {
            let sum = checksum(packet);
            packet[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        Some(length)
    }

    /// What `received` is, as a raw socket of this family delivers it: `None` if it is no answer to this echo, otherwise whether
    /// all `size` octets of data came back as they were sent.
    pub fn answered_by(&self, received: &[u8], size: usize) -> Option<bool> {
        let (begin, kind) = match self.family {
            Family::V4 => (usize::from(received.first()? & 15) * 4, 0),
            Family::V6 => (0, 129),
        };
        let packet = received.get(begin..)?;
        let header = packet.get(..ECHO_HEADER)?;
        let ours = header[0] == kind
            && header[4..6] == self.identifier.to_be_bytes()
            && header[6..8] == self.sequence.to_be_bytes();
        let data = &packet[ECHO_HEADER..];
        ours.then(|| data.len() == size && is_filled(data, u32::from(self.sequence)))
    }
}

/// The checksum of RFC 1071 over `data`, whose checksum field is zero.
pub fn checksum(data: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in data.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(u16::MAX)
}

/// Fills `data` with octets that follow from `seed`.
pub fn fill(data: &mut [u8], seed: u32) {
    let mut numbers = Numbers::new(seed);
    data.fill_with(|| numbers.octet());
}

/// Whether `data` is what [`fill`] made of `seed`.
pub fn is_filled(data: &[u8], seed: u32) -> bool {
    let mut numbers = Numbers::new(seed);
    data.iter().all(|&octet| octet == numbers.octet())
}

/// Octets that look random and follow from a seed (xorshift).
pub struct Numbers(u32);

impl Numbers {
    /// The sequence of `seed`.
    pub fn new(seed: u32) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9) | 1)
    }

    /// The next octet.
    pub fn octet(&mut self) -> u8 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        (self.0 >> 9).to_le_bytes()[0]
    }
}

/// A sum over a stream, in which order counts (FNV-1a, 64 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum(pub u64);

impl Default for Sum {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Sum {
    /// Takes more of the stream.
    pub fn add(&mut self, data: &[u8]) {
        for &octet in data {
            self.0 = (self.0 ^ u64::from(octet)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECHO: Echo = Echo { family: Family::V4, identifier: 0x4242, sequence: 7 };

    fn answer(request: &[u8], kind: u8, header: usize) -> Vec<u8> {
        let mut packet = vec![0; header];
        if header > 0 {
            packet[0] = 0x40 | u8::try_from(header / 4).expect("a short header");
        }
        packet.extend_from_slice(request);
        packet[header] = kind;
        packet
    }

    #[test]
    fn the_sum_over_a_packet_with_its_checksum_is_zero() {
        for size in [0, 1, 2, 55, 56, 9000] {
            let mut packet = vec![0; 10_000];
            let length = ECHO.request(size, &mut packet).expect("it fits");
            assert_eq!((length, checksum(&packet[..length])), (size + 8, 0), "{size}");
        }
        // The example of RFC 1071, section 3.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    #[test]
    fn an_answer_is_known_by_its_numbers_and_checked_to_the_last_octet() {
        let mut packet = vec![0; 100];
        let length = ECHO.request(56, &mut packet).expect("it fits");
        let good = answer(&packet[..length], 0, 20);
        assert_eq!(ECHO.answered_by(&good, 56), Some(true));
        assert_eq!(ECHO.answered_by(&good[..good.len() - 1], 56), Some(false));
        let mut flipped = good.clone();
        flipped[75] ^= 1;
        assert_eq!(ECHO.answered_by(&flipped, 56), Some(false));
        assert_eq!(Echo { sequence: 8, ..ECHO }.answered_by(&good, 56), None);
        assert_eq!(ECHO.answered_by(&answer(&packet[..length], 8, 20), 56), None, "the request itself");
        assert_eq!(ECHO.answered_by(&good[..25], 56), None, "cut in the header");
        assert_eq!(ECHO.answered_by(&[], 56), None);
    }

    #[test]
    fn an_answer_of_ipv6_has_no_ip_header_in_front() {
        let echo = Echo { family: Family::V6, ..ECHO };
        let mut packet = vec![0; 100];
        let length = echo.request(3, &mut packet).expect("it fits");
        assert_eq!(packet[0], 128);
        assert_eq!(echo.answered_by(&answer(&packet[..length], 129, 0), 3), Some(true));
    }

    #[test]
    fn a_request_that_does_not_fit_is_not_made() {
        assert_eq!(ECHO.request(93, &mut [0; 100]), None);
    }

    #[test]
    fn data_follows_from_its_seed_and_the_sum_from_the_order() {
        let (mut one, mut two) = ([0; 64], [0; 64]);
        fill(&mut one, 1);
        fill(&mut two, 2);
        assert!(is_filled(&one, 1) && !is_filled(&one, 2) && one != two);
        let sum_of = |parts: [&[u8]; 2]| {
            let mut sum = Sum::default();
            parts.iter().for_each(|part| sum.add(part));
            sum
        };
        assert_ne!(sum_of([&one, &two]), sum_of([&two, &one]));
        assert_eq!(sum_of([&one[..5], &one[5..]]), sum_of([&one, &[]]));
    }
}
