//! What a test has the subnet administrator do wrong with a port's requests, and which of its packets are lost.

use swhca_ioctl::{requests, sa};

use crate::mad::{DELETE, GET, GET_TABLE, Mad, SET};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// What should.
    Usual,
    Silent,
    LosesAnswer,
    Empty,
    Refuses(u16),
}

/// For which requests, and how often still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    does: Does,
    /// 0 for all.
    requests: u64,
    /// 0 for ever.
    times: u64,
}

impl Trouble {
    pub(crate) const NONE: Self = Self { does: Does::Usual, requests: 0, times: 0 };

    /// As an ioctl has it; `None` if that makes no sense.
    pub(crate) fn of(what: u64, requests: u64, times: u64) -> Option<Self> {
        let does = match what {
            sa::NOTHING => Does::Usual,
            sa::SILENT => Does::Silent,
            sa::LOSES_ANSWER => Does::LosesAnswer,
            sa::EMPTY => Does::Empty,
            _ => Does::Refuses(
                u16::try_from(what.checked_sub(sa::REFUSES)?).ok().filter(|status| *status != 0)?,
            ),
        };
        Some(Self { does, requests, times })
    }

    /// What becomes of this one.
    pub(crate) fn meets(&mut self, request: &Mad) -> Does {
        let does = self.does;
        let meant = self.requests == 0 || self.requests & kind(request) != 0;
        if does == Does::Usual || !meant || request.is_transfer() {
            return Does::Usual;
        }
        if self.times == 1 {
            *self = Self::NONE;
        }
        self.times = self.times.saturating_sub(1);
        does
    }
}

/// Of which kind a request is; 0 for none of those that have a name.
fn kind(request: &Mad) -> u64 {
    match (request.attribute(), request.method()) {
        (0x0035, GET | GET_TABLE) => requests::PATH,
        (0x0038, SET) => requests::JOIN,
        (0x0038, DELETE) => requests::LEAVE,
        (0x0038, GET | GET_TABLE) => requests::LIST_GROUPS,
        (0x0003, SET) => requests::SUBSCRIBE,
        _ => 0,
    }
}

/// Packets that are lost at random.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    /// Of a million.
    rate: u32,
    /// Numbers that look random (xorshift); never 0.
    dice: u64,
}

const MILLION: u32 = 1_000_000;

impl Loss {
    /// None; `seed` is what begins the row of numbers.
    pub(crate) fn new(seed: u64) -> Self {
        Self { rate: 0, dice: seed | 1 }
    }

    /// From now on; false for more than all.
    pub(crate) fn set(&mut self, packets: u64) -> bool {
        let rate = u32::try_from(packets).ok().filter(|rate| *rate <= MILLION);
        self.rate = rate.unwrap_or(self.rate);
        rate.is_some()
    }

    /// Whether any is.
    pub(crate) fn is_any(&self) -> bool {
        self.rate != 0
    }

    /// Whether the next one is.
    pub(crate) fn takes_one(&mut self) -> bool {
        if self.rate == 0 {
            return false;
        }
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        // The upper bits are the better ones.
        (self.dice >> 32) % u64::from(MILLION) < u64::from(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::{Does, Loss, Trouble};
    use crate::mad::{DELETE, GET_TABLE, Mad, SET};
    use swhca_ioctl::{requests, sa};

    fn request(attribute: u16, method: u8) -> Mad {
        let mut mad = Mad::new();
        mad.0[3] = method;
        mad.0[16..18].copy_from_slice(&attribute.to_be_bytes());
        mad
    }

    #[test]
    fn trouble_is_for_the_requests_that_are_meant_and_ends_after_so_many() {
        let mut trouble = Trouble::of(sa::REFUSES | 0x0700, requests::JOIN | requests::LEAVE, 2).unwrap();
        assert_eq!(trouble.meets(&request(0x35, GET_TABLE)), Does::Usual);
        assert_eq!(trouble.meets(&request(0x38, SET)), Does::Refuses(0x0700));
        assert_eq!(trouble.meets(&request(0x38, GET_TABLE)), Does::Usual);
        assert_eq!(trouble.meets(&request(0x38, DELETE)), Does::Refuses(0x0700));
        assert_eq!((trouble.meets(&request(0x38, SET)), trouble), (Does::Usual, Trouble::NONE));
    }

    #[test]
    fn trouble_for_all_requests_goes_on_until_it_is_told_otherwise() {
        let mut trouble = Trouble::of(sa::SILENT, 0, 0).unwrap();
        for _ in 0..100 {
            assert_eq!(trouble.meets(&request(0x31, SET)), Does::Silent);
        }
        let mut segment = request(0x38, SET);
        segment.0[25] = 2;
        assert_eq!(
            trouble.meets(&segment),
            Does::Usual,
            "the receiver of an answer in segments asks for nothing"
        );
    }

    #[test]
    fn what_makes_no_sense_is_no_trouble() {
        for what in [4, sa::REFUSES, 0xffff, 2 * sa::REFUSES, u64::MAX] {
            assert_eq!(Trouble::of(what, 0, 0), None, "{what:#x}");
        }
    }

    #[test]
    fn about_as_many_packets_are_lost_as_was_said() {
        let mut loss = Loss::new(0x0253_5700_0000_0001);
        let mut lost = |packets: u64| {
            assert!(loss.set(packets));
            (0..100_000).filter(|_| loss.takes_one()).count()
        };
        assert_eq!((lost(0), lost(1_000_000)), (0, 100_000));
        let half = lost(500_000);
        assert!((49_000..51_000).contains(&half), "{half}");
        assert!(!loss.set(1_000_001));
    }
}
