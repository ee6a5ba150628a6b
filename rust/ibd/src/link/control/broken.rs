//! Queue pairs and CQs that fail, however that is told: what is replaced, the queue pair of one ring or the link's.

use ibtf::UdChannel;
use ipoib::{Instant, link};

use super::Control;
use crate::link::failures::Failure;
use crate::link::jobs::Job;
use crate::link::pairs::Pairs;
use crate::link::senders::{Verdict, Why};

impl Control {
    /// The queue pair of a transmit queue, or of the link if there are no rings, has failed. `serial` names it.
    pub(crate) fn send_side_failed(&mut self, now: Instant, ring: usize, serial: u64, why: Why) {
        let verdict = match ring {
            0 if self.flows(serial) => Verdict::Link,
            // One that is gone.
            0 => Verdict::Nothing,
            ring => self.senders.failed(now, ring, serial, why),
        };
        self.replace(now, verdict, why);
    }

    /// The receive side of the traffic with this serial number has failed.
    pub(crate) fn receive_side_failed(&mut self, now: Instant, serial: u64) {
        if self.flows(serial) {
            self.replace(now, Verdict::Link, Why::Failed);
        }
    }

    /// Whether the traffic with this serial number flows.
    pub(in crate::link) fn flows(&self, serial: u64) -> bool {
        self.traffic.as_ref().is_some_and(|traffic| traffic.serial() == serial)
    }

    /// The next look at what IBTF has told of, or what follows at once.
    pub(super) fn next_failure(&mut self, now: Instant) -> Option<Job> {
        // One of a queue pair that is being made is looked at when that has its place.
        if self.link.is_building() || self.senders.is_replacing() {
            return None;
        }
        while let Some(failure) = self.failures.take() {
            let Some(pairs) = &mut self.pairs else { continue };
            // Otherwise of one that is gone.
            let Some((ring, channel)) = pairs.ring_of(failure) else { continue };
            match (failure, &self.traffic) {
                (Failure::Channel(_), Some(traffic)) => {
                    return Some(Job::Inspect(ring, channel.clone(), traffic.serial()));
                }
                // Nothing follows until they are to carry something.
                (Failure::Channel(_), None) => pairs.failed_idle(),
                (Failure::Cq(_), Some(_)) if ring != 0 => {
                    let verdict = self.senders.failed_as_it_is(now, ring);
                    self.replace(now, verdict, Why::Failed);
                }
                (Failure::Cq(_), _) => {
                    pairs.lost();
                    self.replace(now, Verdict::Link, Why::Failed);
                }
            }
        }
        None
    }

    /// A queue pair has failed, if it still is that of the ring.
    pub(crate) fn channel_has_failed(&mut self, now: Instant, ring: usize, channel: &UdChannel, serial: u64) {
        let failure = Failure::Channel(channel.id());
        let stands = |pairs: &Pairs| pairs.ring_of(failure).is_some_and(|(at, _)| at == ring);
        if !self.flows(serial) || !self.pairs.as_ref().is_some_and(stands) {
            return;
        }
        let verdict = if ring == 0 { Verdict::Link } else { self.senders.failed_as_it_is(now, ring) };
        self.replace(now, verdict, Why::Failed);
    }

    fn replace(&mut self, now: Instant, verdict: Verdict, why: Why) {
        let event = match why {
            Why::Failed => link::Event::Broken,
            Why::Stalled => link::Event::Stalled,
        };
        if verdict == Verdict::Link {
            // A failure is told in several ways; the first one counts.
            if let Some(pairs) = self.pairs.as_mut().filter(|_| self.link.standing().is_some()) {
                pairs.failed(now);
            }
            self.link.handle_event(now, event);
        }
    }
}
