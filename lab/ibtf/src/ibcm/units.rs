//! Times as the wire and the interface have them.

/// The smallest `ib_time_t` that is no shorter than `usec` microseconds.
pub(super) fn usec_to_ib(usec: i64) -> u8 {
    let wanted = u64::try_from(usec).unwrap_or(0).saturating_mul(1_000);
    (0..31).find(|code| sm::ib_time(*code).0 >= wanted).unwrap_or(31)
}

/// An `ib_time_t` in microseconds, rounded down.
pub(super) fn ib_to_usec(code: u8) -> i64 {
    i64::try_from(sm::ib_time(code).0 / 1_000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_up_on_the_way_out_and_down_on_the_way_back() {
        assert_eq!(usec_to_ib(0), 0);
        assert_eq!(usec_to_ib(5), 1, "4.096 us is too short");
        assert_eq!(usec_to_ib(i64::MAX), 31);
        assert_eq!(usec_to_ib(-1), 0);
        for code in 1..31 {
            assert_eq!(usec_to_ib(ib_to_usec(code)), code);
        }
    }
}
