//! Connections with neighbours whose answers may take long, of all links of the module. Of `ibcm`'s twelve places, which the whole computer shares, one
//! that is closed keeps one for as long as such an answer takes, and its queue pair keeps its number for seventeen times as long. `ibcm` does not tell
//! when the neighbour has answered. So both are reckoned to be taken to the end.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ipoib::Instant;
use ipoib::connections::{AnswerTime, LONG_ANSWER, closing_takes};

/// Of those that nothing explains: 0 for a free place, [`TAKEN`], or when it comes free, in nanoseconds.
static PLACES: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
const TAKEN: u64 = u64::MAX;
/// How many there are, explained or not.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// Until when queue pairs of such that are gone may keep their numbers.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// One of them, as long as this lives.
pub(crate) struct LongAnswers {
    place: Option<&'static AtomicU64>,
    closed: Option<Instant>,
}

/// There are too many already, or its answers take too long: it is counted as long as it is there, but should not be.
pub(crate) struct TooMany(pub(crate) LongAnswers);

impl LongAnswers {
    /// One more, if its answers take longer than usual. **Any** context.
    pub(crate) fn new(time: AnswerTime, now: Instant) -> Result<Option<Self>, TooMany> {
        let place = match time {
            AnswerTime::Usual => return Ok(None),
            AnswerTime::Explained => None,
            AnswerTime::Long => match PLACES.iter().find(|place| take(place, now)) {
                Some(place) => Some(place),
                None => return Err(TooMany(Self::counted(None))),
            },
            AnswerTime::TooLong => return Err(TooMany(Self::counted(None))),
        };
        Ok(Some(Self::counted(place)))
    }

    fn counted(place: Option<&'static AtomicU64>) -> Self {
        COUNT.fetch_add(1, Ordering::Relaxed);
        Self { place, closed: None }
    }

    /// `ibcm` is told to close it, and waits for the neighbour's answer.
    pub(crate) fn closes(&mut self, now: Instant) {
        self.closed = Some(now);
    }

    /// Whether there are some, or were, so that their numbers may still be taken.
    pub(crate) fn are_some(now: Instant) -> bool {
        COUNT.load(Ordering::Relaxed) != 0 || NUMBERS.load(Ordering::Relaxed) > now.as_nanos()
    }
}

fn take(place: &AtomicU64, now: Instant) -> bool {
    let is_free = |until: u64| (until != TAKEN && until <= now.as_nanos()).then_some(TAKEN);
    place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_free).is_ok()
}

impl Drop for LongAnswers {
    fn drop(&mut self) {
        if let Some(closed) = self.closed {
            NUMBERS.fetch_max((closed + closing_takes(1, true)).as_nanos(), Ordering::Relaxed);
        }
        if let Some(place) = self.place {
            let until = self.closed.map_or(0, |closed| (closed + LONG_ANSWER).as_nanos());
            place.store(until, Ordering::Relaxed);
        }
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::LongAnswers;
    use core::time::Duration;
    use ipoib::Instant;
    use ipoib::connections::AnswerTime::{Explained, Long, Usual};

    #[test]
    fn a_place_is_free_when_the_answer_to_the_end_of_a_connection_can_have_come() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let one = |time, now| LongAnswers::new(time, now).ok().flatten();
        assert!(one(Usual, at(0)).is_none() && !LongAnswers::are_some(at(0)));
        let (mut first, second, _third) =
            (one(Long, at(0)).unwrap(), one(Long, at(0)).unwrap(), one(Long, at(0)).unwrap());
        assert!(one(Long, at(1)).is_none(), "there are three");
        first.closes(at(10));
        drop(first);
        assert!(one(Long, at(44)).is_none());
        drop(one(Long, at(45)).expect("it is over"));
        drop(second);
        let mut other = one(Long, at(45)).expect("that was not closed by us");
        let mut explained = one(Explained, at(45)).unwrap();
        other.closes(at(46));
        explained.closes(at(47));
        drop((other, explained, _third));
        // Eighteen times 34.36 s, but for the first turn.
        assert!(LongAnswers::are_some(at(47 + 618)) && !LongAnswers::are_some(at(47 + 619)));
    }
}
