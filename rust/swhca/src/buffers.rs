//! Posted receives, in order: of one queue pair, or of all that share them. And what a connection is to send.

use ibtf_provider::{Segment, Status};
use kernel::{AllocError, KVec};

/// Posted receives, in order.
///
/// Whoever has them alone uses the first one where it is and takes it out afterwards. Of those that are shared it takes the first one,
/// and says later whether it was used; until then nobody gets its place.
///
/// A receive is known by its number; what a connection is to send, in a queue like it, by more.
pub(crate) struct Buffers<R = u64> {
    requests: KVec<(R, u32)>,
    segments: KVec<Segment>,
    per_request: usize,
    head: usize,
    count: usize,
    /// Taken, and neither used nor given back.
    taken: usize,
}

/// Entries of the list of a receive that is shared.
pub(crate) const SHARED_SEGMENTS: usize = 31;

/// A receive that was taken.
pub(crate) struct Taken {
    pub(crate) id: u64,
    segments: [Segment; SHARED_SEGMENTS],
    count: usize,
}

impl Taken {
    /// Room for one.
    pub(crate) const fn none() -> Self {
        const NOTHING: Segment = Segment { address: 0, key: 0, len: 0 };
        Self { id: 0, segments: [NOTHING; SHARED_SEGMENTS], count: 0 }
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        self.segments.get(..self.count).unwrap_or_default()
    }
}

impl<R: Copy + Default> Buffers<R> {
    pub(crate) fn new(requests: u32, segments: u32) -> Result<Self, AllocError> {
        let (requests, per_request) = (requests as usize, segments as usize);
        Ok(Self {
            requests: KVec::from_fn(requests, |_| (R::default(), 0))?,
            segments: KVec::from_fn(requests * per_request, |_| Segment::default())?,
            per_request,
            head: 0,
            count: 0,
            taken: 0,
        })
    }

    /// Room for none.
    pub(crate) const fn none() -> Self {
        Self { requests: KVec::new(), segments: KVec::new(), per_request: 0, head: 0, count: 0, taken: 0 }
    }

    /// Receives that wait.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Receives that were taken, and may come back.
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// A receive with this list.
    pub(crate) fn push(&mut self, id: R, segments: &[Segment]) -> Result<(), Status> {
        if segments.len() > self.per_request {
            return Err(Status::CHAN_SGL_LEN_INVALID);
        }
        if self.count + self.taken >= self.requests.len() {
            return Err(Status::CHAN_FULL);
        }
        let at = (self.head + self.count) % self.requests.len();
        self.put(at, id, segments);
        self.count += 1;
        Ok(())
    }

    fn put(&mut self, at: usize, id: R, segments: &[Segment]) {
        if let Some(place) = self.requests.get_mut(at) {
            *place = (id, segments.len() as u32);
        }
        let places = self.segments.iter_mut().skip(at * self.per_request);
        for (to, from) in places.zip(segments) {
            *to = *from;
        }
    }

    /// The first one's id, and how long its list is.
    pub(crate) fn first(&self) -> Option<(R, u32)> {
        if self.count == 0 { None } else { self.requests.get(self.head).copied() }
    }

    pub(crate) fn first_segments(&self) -> &[Segment] {
        let count = self.first().map_or(0, |(_, count)| count as usize);
        let from = self.head * self.per_request;
        self.segments.get(from..from + count).unwrap_or_default()
    }

    /// The first one is used.
    pub(crate) fn advance(&mut self) {
        if self.count != 0 {
            self.head = (self.head + 1) % self.requests.len();
            self.count -= 1;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }
}

impl Buffers {
    /// Takes the first one; false if there is none.
    pub(crate) fn take(&mut self, taken: &mut Taken) -> bool {
        let Some((id, _)) = self.first() else { return false };
        (taken.id, taken.count) = (id, 0);
        for (to, from) in taken.segments.iter_mut().zip(self.first_segments()) {
            *to = *from;
            taken.count += 1;
        }
        self.advance();
        self.taken += 1;
        true
    }

    /// One that was taken is used.
    pub(crate) fn used(&mut self) {
        self.taken = self.taken.saturating_sub(1);
    }

    /// One that was taken is not: it is the first one again.
    pub(crate) fn give_back(&mut self, taken: &Taken) {
        let all = self.requests.len();
        if self.taken == 0 || all == 0 {
            return;
        }
        self.taken -= 1;
        self.head = (self.head + all - 1) % all;
        self.put(self.head, taken.id, taken.segments());
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{Buffers, Taken};
    use ibtf_provider::{Segment, Status};

    const LIST: [Segment; 2] =
        [Segment { address: 0x1000, key: 7, len: 64 }, Segment { address: 0x2000, key: 7, len: 64 }];

    fn take(buffers: &mut Buffers) -> Option<Taken> {
        let mut taken = Taken::none();
        buffers.take(&mut taken).then_some(taken)
    }

    fn ids(buffers: &mut Buffers) -> Vec<u64> {
        core::iter::from_fn(|| {
            let taken = take(buffers)?;
            buffers.used();
            Some(taken.id)
        })
        .collect()
    }

    fn post(buffers: &mut Buffers, ids: core::ops::Range<u64>) -> Result<(), Status> {
        ids.into_iter().try_for_each(|id| buffers.push(id, &[Segment { address: id * 0x1000, ..LIST[0] }]))
    }

    #[test]
    fn receive_that_was_not_used_is_the_first_again() {
        let mut buffers = Buffers::new(4, 2).unwrap();
        post(&mut buffers, 1..5).unwrap();
        let (one, two) = (take(&mut buffers).unwrap(), take(&mut buffers).unwrap());
        assert_eq!((one.id, two.id, two.segments()[0].address), (1, 2, 0x2000));
        // Another one's place is nobody's before it is used.
        assert_eq!(post(&mut buffers, 5..6), Err(Status::CHAN_FULL));
        buffers.used();
        buffers.give_back(&two);
        assert_eq!(buffers.len(), 3);
        post(&mut buffers, 6..7).unwrap();
        assert_eq!(ids(&mut buffers), [2, 3, 4, 6]);
    }

    #[test]
    fn every_place_is_used_again_and_again() {
        let mut buffers = Buffers::new(3, 1).unwrap();
        for round in 0..10 {
            post(&mut buffers, round * 3..round * 3 + 3).unwrap();
            let first = take(&mut buffers).unwrap();
            buffers.give_back(&first);
            assert_eq!(ids(&mut buffers), [round * 3, round * 3 + 1, round * 3 + 2]);
        }
    }

    #[test]
    fn list_that_is_too_long_and_one_receive_too_many_are_refused() {
        let mut buffers = Buffers::new(1, 1).unwrap();
        assert_eq!(buffers.push(1, &LIST), Err(Status::CHAN_SGL_LEN_INVALID));
        assert_eq!((buffers.push(1, &LIST[..1]), buffers.push(2, &[])), (Ok(()), Err(Status::CHAN_FULL)));
        let empty = Buffers::<u64>::new(0, 0).unwrap();
        assert_eq!(empty.first(), None);
    }
}
