//! What is counted of connections from neighbours: the kstat `connections` of a link that has listened.

use core::ffi::CStr;

use kernel::counter::Counter;
use kernel::kstat::Source;

/// Every request is in exactly one of refused, without room and accepted, or waits for its answer; every connection that was accepted is
/// among the ended ones some time.
#[derive(Default)]
pub(crate) struct GuestCounters {
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
}

impl Source for GuestCounters {
    const NAMES: &'static [&'static CStr] =
        &[c"requests", c"refused", c"no_room", c"accepted", c"ended", c"received"];

    fn read(&self, values: &mut dyn FnMut(usize, u64)) {
        let all = [&self.requests, &self.refused, &self.no_room, &self.accepted, &self.ended, &self.received];
        for (index, counter) in all.into_iter().enumerate() {
            values(index, counter.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::GuestCounters;
    use kernel::kstat::Source;

    #[test]
    fn every_counter_has_a_name() {
        let mut seen = std::vec::Vec::new();
        GuestCounters::default().read(&mut |index, _| seen.push(index));
        assert!(seen.into_iter().eq(0..GuestCounters::NAMES.len()));
    }
}
