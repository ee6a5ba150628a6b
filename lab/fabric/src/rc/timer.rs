//! Times of connections (InfiniBand Architecture volume 1, tables 45 and 46).

use crate::Nanos;

/// Microseconds of the codes 1..=31.
const RNR_MICROS: [u64; 31] = [
    10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840, 5_120, 7_680,
    10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760, 327_680, 491_520,
];
const RNR_LONGEST: Nanos = Nanos(655_360_000);

/// What a sender waits that met a receiver without a receive: the time of a code of five bits. 0 is the longest.
#[must_use]
pub fn rnr_time(code: u8) -> Nanos {
    let at = usize::from(code & 0x1f);
    at.checked_sub(1).map_or(RNR_LONGEST, |at| Nanos(RNR_MICROS[at] * 1_000))
}

/// What an acknowledgement takes at most, of the code of five bits; `None` for 0: nobody looks.
///
/// The standard lets an adapter take one to four times as long as the code says. Here it is twice: what was seen of the reference
/// adapter, 17 s for two tries at a code of 4.29 s.
pub(crate) fn ack_time(code: u8) -> Option<Nanos> {
    const TIMES: u64 = 2;
    let code = code & 0x1f;
    (code != 0).then(|| Nanos((4_096 << code) * TIMES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_what_the_standard_says() {
        assert_eq!(rnr_time(0), Nanos(655_360_000));
        assert_eq!((rnr_time(1), rnr_time(14)), (Nanos(10_000), Nanos(1_280_000)));
        assert_eq!((rnr_time(20), rnr_time(22)), (Nanos(10_240_000), Nanos(20_480_000)));
        assert_eq!(rnr_time(31), Nanos(491_520_000));
        assert_eq!(ack_time(0), None);
        assert_eq!(ack_time(14), Some(Nanos(2 * 67_108_864)));
    }
}
