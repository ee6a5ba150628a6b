//! What is counted of connections: the kstat `connections` of a link that has listened, or was to open some.

use core::ffi::CStr;

use kernel::counter::Counter;
use kernel::kstat::Source;

/// Every attempt to open is in exactly one of `open_failed` and `opened`, is under way, or was given up. Every request is in exactly one of refused, without room and accepted, or waits for its answer; every connection that was accepted is
/// among the ended ones some time.
#[derive(Default)]
pub(crate) struct ConnectionCounters {
    /// Neighbours, and strangers, that asked for a connection.
    pub(crate) requests: Counter,
    /// Those that may have none, or that gave up meanwhile.
    pub(crate) refused: Counter,
    /// Those that there was no room for.
    pub(crate) no_room: Counter,
    /// Those that got one.
    pub(crate) accepted: Counter,
    /// Connections of which nothing is left.
    pub(crate) ended: Counter,
    /// Packets that came on connections; also among all received ones.
    pub(crate) received: Counter,
    /// Neighbours that got no connection because their answers take too long, as they say; also among the refused ones, if they asked.
    pub(crate) slow: Counter,
    /// How often the adapter was given buffers for messages, and how often fewer than it takes.
    pub(crate) refills: Counter,
    pub(crate) refills_short: Counter,
    /// How often there were more receives, and fewer again: by 128.
    pub(crate) grown: Counter,
    pub(crate) shrunk: Counter,
    /// Attempts to open a connection.
    pub(crate) opens: Counter,
    /// Those that nothing came of.
    pub(crate) open_failed: Counter,
    /// Those that a connection came of.
    pub(crate) opened: Counter,
    /// Connections to neighbours, and attempts that were given up, of which nothing is left.
    pub(crate) closed: Counter,
    /// Packets that went on connections; also among all sent ones.
    pub(crate) sent: Counter,
    /// Of the packets sent, those of which nobody knows that they arrived: their connection failed, or ended, before it was said.
    pub(crate) lost: Counter,
    /// Packets that had to wait for a connection.
    pub(crate) waited: Counter,
    /// Packets that were cut because their neighbour takes no such long ones.
    pub(crate) fragmented: Counter,
    /// Packets that IP was told of for that reason.
    pub(crate) too_big: Counter,
}

impl Source for ConnectionCounters {
    const NAMES: &'static [&'static CStr] = &[
        c"requests",
        c"refused",
        c"no_room",
        c"accepted",
        c"ended",
        c"received",
        c"slow",
        c"refills",
        c"refills_short",
        c"grown",
        c"shrunk",
        c"opens",
        c"open_failed",
        c"opened",
        c"closed",
        c"sent",
        c"lost",
        c"waited",
        c"fragmented",
        c"too_big",
    ];

    fn read(&self, values: &mut dyn FnMut(usize, u64)) {
        for (index, counter) in self.all().into_iter().enumerate() {
            values(index, counter.get());
        }
    }
}

impl ConnectionCounters {
    /// In the order of the names.
    pub(crate) fn all(&self) -> [&Counter; 20] {
        [
            &self.requests,
            &self.refused,
            &self.no_room,
            &self.accepted,
            &self.ended,
            &self.received,
            &self.slow,
            &self.refills,
            &self.refills_short,
            &self.grown,
            &self.shrunk,
            &self.opens,
            &self.open_failed,
            &self.opened,
            &self.closed,
            &self.sent,
            &self.lost,
            &self.waited,
            &self.fragmented,
            &self.too_big,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::ConnectionCounters;
    use kernel::kstat::Source;

    #[test]
    fn every_counter_has_a_name() {
        let mut seen = std::vec::Vec::new();
        ConnectionCounters::default().read(&mut |index, _| seen.push(index));
        assert!(seen.into_iter().eq(0..ConnectionCounters::NAMES.len()));
    }
}
