//! What is counted of an adapter, as a kstat and by number.

use core::ffi::CStr;

use kernel::KArc;
use kernel::kstat::Source;
use swhca_ioctl::Counter;

use crate::node::Node;

/// The numbers of an adapter, read when somebody asks.
pub(crate) struct Statistics(pub(crate) KArc<Node>);

impl Source for Statistics {
    const NAMES: &'static [&'static CStr] = &names();

    fn read(&self, values: &mut dyn FnMut(usize, u64)) {
        for (index, (counter, _)) in Counter::NAMED.iter().enumerate() {
            values(index, value(&self.0, *counter));
        }
    }
}

const fn names() -> [&'static CStr; Counter::NAMED.len()] {
    let mut names = [c""; Counter::NAMED.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = Counter::NAMED[index].1;
        index += 1;
    }
    names
}

/// One of them.
pub(crate) fn value(node: &Node, counter: Counter) -> u64 {
    let (cells, census) = (&node.counters, node.census());
    match counter {
        Counter::Sent => cells.sent.get(),
        Counter::SentBytes => cells.sent_bytes.get(),
        Counter::Received => cells.received.get(),
        Counter::Dropped => cells.dropped.get(),
        Counter::PkeyViolations => cells.pkey_violations.get(),
        Counter::QkeyViolations => cells.qkey_violations.get(),
        Counter::SaRequests => cells.sa_requests.get(),
        Counter::SaDropped => cells.sa_dropped.get(),
        Counter::Pds => census.pds.into(),
        Counter::AddressHandles => census.address_handles.into(),
        Counter::Cqs => census.cqs.into(),
        Counter::Qps => census.qps.into(),
        Counter::Regions => census.regions.into(),
        Counter::LargeSends => cells.large_sends.get(),
        Counter::Checksums => cells.checksums.get(),
        Counter::CopiedBytes => cells.copied_bytes.get(),
        Counter::ReadBytes => cells.read_bytes.get(),
        Counter::Srqs => census.srqs.into(),
        Counter::Messages => cells.messages.get(),
        Counter::MessageBytes => cells.message_bytes.get(),
        Counter::MessagesReceived => cells.messages_received.get(),
        Counter::MessagesAgain => cells.messages_again.get(),
        Counter::ReceiverWaits => cells.receiver_waits.get(),
        Counter::FailedConnections => cells.failed_connections.get(),
        Counter::KeptNumbers => census.kept_numbers.into(),
    }
}
