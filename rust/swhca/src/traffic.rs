//! What passes a port, counted.

use kernel::MayBlock;
use kernel::counter::Counter;
use kernel::sync::Mutex;

use crate::mad::Mad;
use crate::packet::Header;
use crate::pma::{self, Bases, Counts};

/// What is counted of a port.
pub(crate) struct Traffic {
    sent: Counter,
    sent_octets: Counter,
    sent_multicast: Counter,
    received: Counter,
    received_octets: Counter,
    received_multicast: Counter,
    discarded: Counter,
    /// Where performance management has set the counters to.
    bases: Mutex<Bases>,
}

impl Traffic {
    /// Nothing yet.
    pub(crate) fn new(may_block: &MayBlock) -> Self {
        let zero = Counter::new;
        Self {
            sent: zero(),
            sent_octets: zero(),
            sent_multicast: zero(),
            received: zero(),
            received_octets: zero(),
            received_multicast: zero(),
            discarded: zero(),
            bases: Mutex::new_waiting(Bases::default(), may_block),
        }
    }

    /// The answer of performance management; false if there is none.
    pub(crate) fn answer(&self, request: &Mad, answer: &mut Mad) -> bool {
        pma::answer(request, &self.counts(), &mut self.bases.lock(), answer)
    }

    /// A datagram leaves.
    pub(crate) fn leaves(&self, header: &Header) {
        self.sent.increment();
        self.sent_octets.add(header.octets());
        if header.is_multicast() {
            self.sent_multicast.increment();
        }
    }

    /// One has been received.
    pub(crate) fn came(&self, header: &Header) {
        self.received.increment();
        self.received_octets.add(header.octets());
        if header.is_multicast() {
            self.received_multicast.increment();
        }
    }

    /// So many packets of a connection leave, with so many octets.
    pub(crate) fn leave(&self, packets: u32, octets: u64) {
        self.sent.add(packets.into());
        self.sent_octets.add(octets);
    }

    /// And come.
    pub(crate) fn come(&self, packets: u32, octets: u64) {
        self.received.add(packets.into());
        self.received_octets.add(octets);
    }

    /// A packet is not sent.
    pub(crate) fn discards(&self) {
        self.discarded.increment();
    }

    fn counts(&self) -> Counts {
        Counts {
            sent: self.sent.get(),
            sent_octets: self.sent_octets.get(),
            sent_multicast: self.sent_multicast.get(),
            received: self.received.get(),
            received_octets: self.received_octets.get(),
            received_multicast: self.received_multicast.get(),
            discarded: self.discarded.get(),
        }
    }
}
