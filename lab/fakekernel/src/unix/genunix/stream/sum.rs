//! The Internet checksum over scattered bytes, as `ip_cksum` and `ip_csum_hdr` compute it (`U/os/ip_cksum.c`): 16-bit
//! halfwords in native byte order, an odd byte at the end of one piece pairing with the first of the next.

/// A one's complement sum being built up.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum {
    total: u64,
    odd: bool,
}

impl Sum {
    /// Starts from a partial sum.
    pub fn from(partial: u32) -> Self {
        Self { total: u64::from(partial), odd: false }
    }

    /// Adds the next bytes.
    pub fn add(&mut self, mut bytes: &[u8]) {
        if self.odd
            && let Some((&first, rest)) = bytes.split_first()
        {
            self.total += u64::from(u16::from_ne_bytes([0, first]));
            self.odd = false;
            bytes = rest;
        }
        let pairs = bytes.chunks_exact(2);
        if let [last] = *pairs.remainder() {
            self.total += u64::from(u16::from_ne_bytes([last, 0]));
            self.odd = true;
        }
        self.total += pairs.map(|pair| u64::from(u16::from_ne_bytes([pair[0], pair[1]]))).sum::<u64>();
    }

    /// Adds a sum somebody else made of the bytes that come next (`even`: there is an even number of them).
    pub fn add_partial(&mut self, sum: u16, even: bool) {
        self.total += u64::from(if self.odd { sum.swap_bytes() } else { sum });
        self.odd ^= !even;
    }

    /// The folded sum, not complemented.
    pub fn fold(self) -> u16 {
        let mut total = self.total;
        while total > 0xffff {
            total = (total & 0xffff) + (total >> 16);
        }
        total as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of RFC 1071-style worked examples: its checksum field is 0xb861 in network order.
    const HEADER: [u8; 20] =
        [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];

    #[test]
    fn a_header_with_its_checksum_sums_to_all_ones() {
        let mut sum = Sum::default();
        sum.add(&HEADER);
        assert_eq!(sum.fold(), 0xffff);
    }

    #[test]
    fn cutting_the_bytes_anywhere_changes_nothing() {
        let mut whole = Sum::from(0x1234);
        whole.add(&HEADER[..19]);
        for first in 0..19 {
            for second in first..19 {
                let mut cut = Sum::from(0x1234);
                for piece in [&HEADER[..first], &HEADER[first..second], &HEADER[second..19]] {
                    cut.add(piece);
                }
                assert_eq!(cut.fold(), whole.fold(), "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn a_partial_sum_behind_an_odd_byte_counts_swapped() {
        let mut tail = Sum::default();
        tail.add(&HEADER[3..]);
        let mut spliced = Sum::default();
        spliced.add(&HEADER[..3]);
        spliced.add_partial(tail.fold(), false);
        let mut whole = Sum::default();
        whole.add(&HEADER);
        assert_eq!(spliced.fold(), whole.fold());
    }
}
