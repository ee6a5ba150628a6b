//! Codes of MTUs and rates (IBA 15.2.5.16), and how a request asks for one.

/// Tenths of Gb/s of a rate; 0 for a code that there is not. The codes are in no order.
pub(crate) fn speed(code: u8) -> u32 {
    match code {
        2 => 25,
        3 => 100,
        4 => 300,
        5 => 50,
        6 => 200,
        7 => 400,
        8 => 600,
        9 => 800,
        10 => 1200,
        11 => 140,
        12 => 560,
        13 => 1120,
        14 => 1680,
        15 => 250,
        16 => 1000,
        17 => 2000,
        18 => 3000,
        _ => 0,
    }
}

/// The rate of a 4x port by the speed of its lanes; 10 Gb/s for a speed that there is not.
pub(crate) fn of_port(speed: u8) -> u8 {
    match speed {
        2 => 6,
        4 => 7,
        16 => 12,
        32 => 16,
        _ => 3,
    }
}

/// The slower of two.
pub(crate) fn slower(one: u8, other: u8) -> u8 {
    if speed(one) <= speed(other) { one } else { other }
}

/// Bytes of an MTU code; 0 for one that there is not.
pub(crate) fn mtu_bytes(code: u8) -> u32 {
    if (1..=5).contains(&code) { 128 << code } else { 0 }
}

/// What a request says of a value: a selector (greater, less, exactly, the largest there is) and a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    selector: u8,
    code: u8,
}

impl Wish {
    /// From its byte in a record, if the request means it: the selector has bit `mask`, the code the next one.
    pub(crate) fn read(byte: u8, mask: u64, selector_bit: u64) -> Option<Self> {
        (mask & selector_bit << 1 != 0).then(|| {
            let selector = if mask & selector_bit != 0 { byte >> 6 } else { 2 };
            Self { selector, code: byte & 0x3f }
        })
    }

    /// Whether a value, of which `measure` says how much it is, is what is wished. Nothing is for a code that there is not, but for "more
    /// than 0": that is what they say who do not mind.
    pub(crate) fn accepts(self, value: u8, measure: fn(u8) -> u32) -> bool {
        let (value, code) = (measure(value), measure(self.code));
        let is_code = code != 0;
        match self.selector {
            0 => value > code && (is_code || self.code == 0),
            1 => value < code,
            2 => value == code && is_code,
            _ => true,
        }
    }

    /// What a group gets that is made with this wish by a port that has `own`: if less is wished than the port has, the most of that.
    pub(crate) fn choose(self, own: u8, measure: fn(u8) -> u32) -> u8 {
        let less = |code: &u8| measure(*code) != 0 && self.accepts(*code, measure);
        match self.selector {
            1 if !self.accepts(own, measure) => {
                (1..=18).filter(less).max_by_key(|code| measure(*code)).unwrap_or(own)
            }
            2 => self.code,
            _ => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Wish, mtu_bytes, slower, speed};

    #[test]
    fn rates_compare_by_what_they_carry_and_not_by_their_codes() {
        assert_eq!(slower(5, 3), 5);
        assert_eq!(slower(2, 5), 2);
        let more_than_ten = Wish::read(3, 0x300, 0x100).unwrap();
        assert!(more_than_ten.accepts(6, speed) && !more_than_ten.accepts(5, speed));
        assert_eq!(Wish::read(3, 0x100, 0x100), None);
    }

    #[test]
    fn who_wishes_less_gets_the_most_of_it_that_the_port_has() {
        let mtu = |code: u8, own| Wish::read(0x40 | code, 0x30, 0x10).unwrap().choose(own, mtu_bytes);
        assert_eq!([mtu(5, 5), mtu(5, 3), mtu(1, 5)], [4, 3, 5], "nothing is less than the least");
        let rate = |code: u8, own| Wish::read(0x40 | code, 0x300, 0x100).unwrap().choose(own, speed);
        assert_eq!([rate(11, 7), rate(11, 2), rate(3, 7)], [3, 2, 5]);
    }

    #[test]
    fn nothing_is_exactly_or_more_than_a_code_that_there_is_not() {
        let accepts = |byte: u8, value: u8| Wish::read(byte, 0x300, 0x100).unwrap().accepts(value, speed);
        assert!(!accepts(0x80 | 63, 63) && !accepts(63, 3) && !accepts(0x40 | 63, 3));
        assert!(accepts(0, 3) && !accepts(0x80, 0), "who does not mind says more than 0");
    }
}
