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
    /// What was not put on the way: the port was down, or had no P_Key.
    pub(crate) discarded: u64,
}

/// The answer to a request about a port; false if it is none that is answered. Counters go on: nobody can set them back.
pub(crate) fn answer(request: &Mad, counts: &Counts, answer: &mut Mad) -> bool {
    if !matches!(request.method(), GET | SET) {
        return false;
    }
    answer.0.copy_from_slice(&request.0);
    answer.0[3] = GET | mad::RESPONSE;
    mad::put16(&mut answer.0, 4, 0);
    let refused = request.method() == SET && request.attribute() == CLASS_PORT_INFO;
    match request.attribute() {
        CLASS_PORT_INFO if !refused => {
            (answer.0[DATA], answer.0[DATA + 1]) = (1, 1);
            mad::put16(&mut answer.0, DATA + 2, EXTENDED);
            mad::put32(&mut answer.0, DATA + 4, RESPONSE_TIME);
        }
        PORT_COUNTERS => short(answer, counts),
        PORT_COUNTERS_EXTENDED => long(answer, counts),
        _ => mad::put16(&mut answer.0, 4, Refusal::UNSUPPORTED.0),
    }
    true
}

/// Counters of 32 bits and less stay at their highest value.
fn short(answer: &mut Mad, counts: &Counts) {
    let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    zero(answer, DATA + 4);
    mad::put16(&mut answer.0, DATA + 14, u16::try_from(counts.discarded).unwrap_or(u16::MAX));
    mad::put32(&mut answer.0, DATA + 24, narrow(counts.sent_octets / 4));
    mad::put32(&mut answer.0, DATA + 28, narrow(counts.received_octets / 4));
    mad::put32(&mut answer.0, DATA + 32, narrow(counts.sent));
    mad::put32(&mut answer.0, DATA + 36, narrow(counts.received));
}

fn long(answer: &mut Mad, counts: &Counts) {
    zero(answer, DATA + 4);
    let values = [
        counts.sent_octets / 4,
        counts.received_octets / 4,
        counts.sent,
        counts.received,
        counts.sent.saturating_sub(counts.sent_multicast),
        counts.received.saturating_sub(counts.received_multicast),
        counts.sent_multicast,
        counts.received_multicast,
    ];
    for (value, at) in values.into_iter().zip((DATA + 8..).step_by(8)) {
        mad::put64(&mut answer.0, at, value);
    }
}

fn zero(answer: &mut Mad, from: usize) {
    answer.0.get_mut(from..).unwrap_or_default().fill(0);
}

#[cfg(test)]
mod tests {
    use super::{Counts, answer};
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
        assert!(answer(&asked(method, attribute), &COUNTS, &mut told));
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
    fn other_attributes_are_refused_and_answers_are_not_answered() {
        assert_eq!(told(1, 0x10).0[4..6], [0, 0x0c]);
        let mut nothing = Mad::new();
        assert!(!answer(&asked(0x81, 0x12), &COUNTS, &mut nothing));
        assert_eq!(told(1, 0x01).0[64..68], [1, 1, 2, 0]);
    }
}
