//! Performance management: a port's counters (IBA 16.1). No lock and no call.

use crate::mad::{self, Mad, Refusal};

/// The class.
pub(crate) const CLASS: u8 = 4;
const GET: u8 = 0x01;
const SET: u8 = 0x02;

const CLASS_PORT_INFO: u16 = 0x01;
const PORT_COUNTERS: u16 = 0x12;
const PORT_COUNTERS_EXTENDED: u16 = 0x1d;
/// Where an attribute begins.
const DATA: usize = 64;
/// The extended counters are all there.
const EXTENDED: u16 = 0x0200;
/// 4.096 us * 2^14.
const RESPONSE_TIME: u32 = 14;

/// What a port has counted since its adapter attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Packets, and the octets of them with their headers, multicasts among them: what left.
    pub(crate) sent: u64,
    pub(crate) sent_octets: u64,
    pub(crate) sent_multicast: u64,
    /// The same of what came, once for each queue pair that it was for.
    pub(crate) received: u64,
    pub(crate) received_octets: u64,
    pub(crate) received_multicast: u64,
    /// What was not sent: the port was down, or had no P_Key.
    pub(crate) discarded: u64,
}

/// Where the counters that a manager sees begin: what was counted when they were set, less what they were set to. Those of the two
/// attributes are set apart, as those of hardware are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bases {
    short: [u64; SHORT.len()],
    long: [u64; LONG.len()],
}

/// A counter in an attribute: its bit of those that a Set is for, its place and its octets.
type Field = (u16, usize, usize);

/// Packets not sent, words and packets that left and came.
const SHORT: [Field; 5] =
    [(1 << 6, 14, 2), (1 << 12, 24, 4), (1 << 13, 28, 4), (1 << 14, 32, 4), (1 << 15, 36, 4)];
/// Words and packets that left and came, unicasts of the packets, and multicasts.
const LONG: [Field; 8] = [
    (1, 8, 8),
    (1 << 1, 16, 8),
    (1 << 2, 24, 8),
    (1 << 3, 32, 8),
    (1 << 4, 40, 8),
    (1 << 5, 48, 8),
    (1 << 6, 56, 8),
    (1 << 7, 64, 8),
];

/// The answer to a request about a port; false if it is none that is answered.
pub(crate) fn answer(request: &Mad, counts: &Counts, bases: &mut Bases, answer: &mut Mad) -> bool {
    if !matches!(request.method(), GET | SET) {
        return false;
    }
    answer.0.copy_from_slice(&request.0);
    answer.0[3] = GET | mad::RESPONSE;
    mad::put16(&mut answer.0, 4, 0);
    let set = request.method() == SET;
    match request.attribute() {
        CLASS_PORT_INFO if !set => {
            (answer.0[DATA], answer.0[DATA + 1]) = (1, 1);
            mad::put16(&mut answer.0, DATA + 2, EXTENDED);
            mad::put32(&mut answer.0, DATA + 4, RESPONSE_TIME);
        }
        PORT_COUNTERS => report(answer, set, &SHORT, &counts.short(), &mut bases.short),
        PORT_COUNTERS_EXTENDED => report(answer, set, &LONG, &counts.long(), &mut bases.long),
        _ => mad::put16(&mut answer.0, 4, Refusal::UNSUPPORTED.0),
    }
    true
}

impl Counts {
    /// In the order of [`SHORT`]: words, not octets.
    fn short(&self) -> [u64; SHORT.len()] {
        [self.discarded, self.sent_octets / 4, self.received_octets / 4, self.sent, self.received]
    }

    /// In the order of [`LONG`].
    fn long(&self) -> [u64; LONG.len()] {
        [
            self.sent_octets / 4,
            self.received_octets / 4,
            self.sent,
            self.received,
            self.sent.saturating_sub(self.sent_multicast),
            self.received.saturating_sub(self.received_multicast),
            self.sent_multicast,
            self.received_multicast,
        ]
    }
}

/// Sets the counters that a Set names to what it says, and tells all. One that does not fit its field stays at the highest value.
fn report(answer: &mut Mad, set: bool, fields: &[Field], counts: &[u64], bases: &mut [u64]) {
    let named = if set { mad::be16(&answer.0, DATA + 2) } else { 0 };
    for (((bit, at, len), count), base) in fields.iter().zip(counts).zip(bases.iter_mut()) {
        if named & bit != 0 {
            *base = count.wrapping_sub(value(answer, DATA + at, *len));
        }
    }
    answer.0.get_mut(DATA + 4..).unwrap_or_default().fill(0);
    for (((_, at, len), count), base) in fields.iter().zip(counts).zip(bases) {
        let highest = u64::MAX >> (64 - 8 * len);
        let bytes = count.wrapping_sub(*base).min(highest).to_be_bytes();
        mad::put(&mut answer.0, DATA + at, bytes.get(8 - len..).unwrap_or_default());
    }
}

fn value(mad: &Mad, at: usize, len: usize) -> u64 {
    mad.0.get(at..at + len).unwrap_or_default().iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::{Bases, Counts, answer};
    use crate::mad::Mad;

    fn asked(method: u8, attribute: u16) -> Mad {
        let mut request = Mad::new();
        request.0[..4].copy_from_slice(&[1, 4, 1, method]);
        request.0[16..18].copy_from_slice(&attribute.to_be_bytes());
        request.0[8..16].fill(0x77);
        request.0[65] = 1;
        request
    }

    const COUNTS: Counts = Counts {
        sent: 10,
        sent_octets: 0x5_0000_0000,
        sent_multicast: 3,
        received: 20,
        received_octets: 400,
        received_multicast: 5,
        discarded: 70_000,
    };

    fn told(method: u8, attribute: u16) -> Mad {
        let mut told = Mad::new();
        assert!(answer(&asked(method, attribute), &COUNTS, &mut Bases::default(), &mut told));
        assert_eq!((told.0[3], &told.0[8..16]), (0x81, &[0x77; 8][..]));
        told
    }

    #[test]
    fn short_counters_are_words_and_packets_and_stay_at_their_highest_value() {
        let told = told(1, 0x12).0;
        assert_eq!(told[65], 1, "of the port that was asked about");
        assert_eq!(told[78..80], [0xff, 0xff]);
        assert_eq!(told[88..92], [0xff; 4]);
        assert_eq!(told[92..104], [0, 0, 0, 100, 0, 0, 0, 10, 0, 0, 0, 20]);
    }

    #[test]
    fn long_counters_tell_unicasts_from_multicasts() {
        let told = told(1, 0x1d).0;
        let value = |at: usize| u64::from_be_bytes(told[at..at + 8].try_into().unwrap());
        let values: Vec<u64> = (72..136).step_by(8).map(value).collect();
        assert_eq!(values, [0x1_4000_0000, 100, 10, 20, 7, 15, 3, 5]);
    }

    #[test]
    fn a_counter_that_is_set_counts_on_from_there_and_the_others_stay() {
        let (mut bases, mut told) = (Bases::default(), Mad::new());
        let mut set = asked(2, 0x12);
        // Received packets to 0, words received to 7, and discarded packets not, though a value is there.
        set.0[66..68].copy_from_slice(&(1u16 << 15 | 1 << 13).to_be_bytes());
        set.0[79] = 9;
        set.0[95] = 7;
        assert!(answer(&set, &COUNTS, &mut bases, &mut told));
        assert_eq!((told.0[3], told.0[78..80].to_vec()), (0x81, vec![0xff, 0xff]));
        assert_eq!(told.0[92..104], [0, 0, 0, 7, 0, 0, 0, 10, 0, 0, 0, 0]);
        let later = Counts { received: 25, received_octets: 408, ..COUNTS };
        assert!(answer(&asked(1, 0x12), &later, &mut bases, &mut told));
        assert_eq!(told.0[92..104], [0, 0, 0, 9, 0, 0, 0, 10, 0, 0, 0, 5]);
        assert!(answer(&asked(1, 0x1d), &later, &mut bases, &mut told));
        assert_eq!(told.0[96..104], 25u64.to_be_bytes(), "the long ones are set apart");
    }

    #[test]
    fn other_attributes_are_refused_and_answers_are_not_answered() {
        assert_eq!(told(1, 0x10).0[4..6], [0, 0x0c]);
        let mut nothing = Mad::new();
        assert!(!answer(&asked(0x81, 0x12), &COUNTS, &mut Bases::default(), &mut nothing));
        assert_eq!(told(1, 0x01).0[64..68], [1, 1, 2, 0]);
    }
}
