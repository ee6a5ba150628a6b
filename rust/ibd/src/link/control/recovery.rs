//! Queue pairs and CQs that fail, however that is told: what is replaced, the queue pair of one ring or the link's.

use ibtf::UdChannel;
use ipoib::Instant;
use ipoib::link::{Event, Failed, Generation, Why};

use super::Control;
use crate::link::fma::Fault;
use crate::link::job_queue::Job;
use crate::link::qp_failures::{Erred, Failure};
use crate::link::queue_pairs::QueuePairs;

impl Control {
    /// The queue pair of a transmit queue, or of the link if there are no rings, has failed.
    pub(crate) fn send_side_failed(&mut self, now: Instant, ring: usize, generation: Generation, why: Why) {
        let failed = match ring {
            0 if self.link.stands(generation) => Failed::Link,
            // One that is gone.
            0 => Failed::Nothing,
            ring => self.rings.failed(now, ring, generation, why),
        };
        self.replace(now, failed, why);
    }

    /// Sends of a transmit queue have failed. The queue pair sends nothing until it is made to, and receives all the time.
    pub(crate) fn send_erred(&mut self, now: Instant, ring: usize, generation: Generation, how: Erred) {
        let stands = match ring {
            0 => self.link.stands(generation),
            ring => self.rings.stands(ring, generation),
        };
        if !stands || self.failures.erred(now, ring, generation) {
            return;
        }
        let channel = self.queue_pairs.as_ref().and_then(|pairs| pairs.channel_of(ring));
        match (how, channel) {
            // What was posted before the queue pair was made to send again is flushed, too: the adapter is asked how it is now.
            (Erred::Flushed, Some(channel)) => self.failures.keep(Failure::Channel(channel.id())),
            _ => self.send_side_failed(now, ring, generation, Why::Failed),
        }
    }

    /// The next queue pair to be made to send again.
    pub(super) fn next_erred(&mut self) -> Option<Job> {
        let (ring, generation) = self.failures.next_erred()?;
        let channel = self.queue_pairs.as_ref().and_then(|pairs| pairs.channel_of(ring));
        match channel {
            Some(channel) => Some(Job::Recover(ring, channel.clone(), generation)),
            None => {
                self.failures.forget_erred();
                None
            }
        }
    }

    /// It sends again, or has failed.
    pub(crate) fn sends_again(&mut self, now: Instant, ring: usize, generation: Generation, well: bool) {
        self.failures.recovered(now, ring, well);
        if !well {
            self.send_side_failed(now, ring, generation, Why::Failed);
        }
    }

    /// The receive side of this generation has failed.
    pub(crate) fn receive_side_failed(&mut self, now: Instant, generation: Generation) {
        if self.link.stands(generation) {
            self.replace(now, Failed::Link, Why::Failed);
        }
    }

    /// What stands is of no use any more, whatever it is.
    pub(crate) fn link_failed(&mut self, now: Instant) {
        if let Some(standing) = self.link.standing() {
            self.link.handle_event(now, Event::Broken(standing.generation));
        }
    }

    /// The next look at what IBTF has told of, or what follows at once.
    pub(super) fn next_failure(&mut self, now: Instant) -> Option<Job> {
        // One of a queue pair that is being made is looked at when that has its place.
        if self.link.is_building() || self.rings.is_replacing() {
            return None;
        }
        while let Some(failure) = self.failures.take() {
            let Some(pairs) = &mut self.queue_pairs else { continue };
            // Otherwise of one that is gone.
            let Some((ring, channel)) = pairs.ring_of(failure) else { continue };
            match (failure, self.link.standing()) {
                (Failure::Channel(_), Some(standing)) => {
                    return Some(Job::Inspect(ring, channel.clone(), standing.generation));
                }
                // Nothing follows until they are to carry something.
                (Failure::Channel(_), None) => pairs.failed(),
                (Failure::Cq(_), None) => {
                    pairs.failed();
                    return Some(Job::Report(Fault::Broken));
                }
                (Failure::Cq(_), Some(_)) if ring != 0 => {
                    let failed = self.rings.failed_as_it_is(now, ring);
                    self.replace(now, failed, Why::Failed);
                }
                (Failure::Cq(_), Some(_)) => {
                    self.failures.lost_cq();
                    self.replace(now, Failed::Link, Why::Failed);
                }
            }
        }
        None
    }

    /// A queue pair has failed, if it still is that of the ring.
    pub(crate) fn channel_has_failed(
        &mut self,
        now: Instant,
        ring: usize,
        channel: &UdChannel,
        generation: Generation,
    ) {
        let failure = Failure::Channel(channel.id());
        let stands = |pairs: &QueuePairs| pairs.ring_of(failure).is_some_and(|(at, _)| at == ring);
        if !self.link.stands(generation) || !self.queue_pairs.as_ref().is_some_and(stands) {
            return;
        }
        let failed = if ring == 0 { Failed::Link } else { self.rings.failed_as_it_is(now, ring) };
        self.replace(now, failed, Why::Failed);
    }

    fn replace(&mut self, now: Instant, failed: Failed, why: Why) {
        let Some(standing) = self.link.standing().filter(|_| failed == Failed::Link) else { return };
        // A failure is told in several ways; the first one counts.
        let event = match why {
            Why::Failed => {
                self.failures.failed(now);
                Event::Broken(standing.generation)
            }
            // Fault management is told of each.
            Why::Stalled => Event::Stalled(standing.generation),
        };
        self.link.handle_event(now, event);
    }
}
