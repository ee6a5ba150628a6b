//! What passes a port, counted.

use kernel::counter::Counter;

use crate::packet::Header;
use crate::pma::Counts;

/// What is counted of a port.
#[derive(Default)]
pub(crate) struct Traffic {
    sent: Counter,
    sent_octets: Counter,
    sent_multicast: Counter,
    received: Counter,
    received_octets: Counter,
    received_multicast: Counter,
    discarded: Counter,
}

impl Traffic {
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

    /// One is not put on the way.
    pub(crate) fn discards(&self) {
        self.discarded.increment();
    }

    /// All of it.
    pub(crate) fn counts(&self) -> Counts {
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
