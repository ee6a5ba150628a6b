//! The counters as kstats: names, and values in the same order.

use core::ffi::CStr;

use kernel::counter::{Counter, sum};
use kernel::kstat::Source;

use super::Counters;
use super::drops::{RX_NAMES, TX_NAMES};
use super::questions::QUESTIONS;

/// Values on their way to a reader, in the order of the names.
pub(crate) struct Shown<'a> {
    values: &'a mut dyn FnMut(usize, u64),
    next: usize,
}

impl<'a> Shown<'a> {
    /// For [`Source::read`].
    pub(crate) fn new(values: &'a mut dyn FnMut(usize, u64)) -> Self {
        Self { values, next: 0 }
    }

    /// The next values.
    pub(crate) fn put<const N: usize>(&mut self, values: [u64; N]) {
        for value in values {
            (self.values)(self.next, value);
            self.next += 1;
        }
    }
}

/// Several lists of names, one behind the other. `N` is how many there are in all: a wrong one does not compile.
pub(crate) const fn names<const N: usize>(parts: &[&[&'static CStr]]) -> [&'static CStr; N] {
    let mut all = [c""; N];
    let (mut part, mut at) = (0, 0);
    while part < parts.len() {
        let mut i = 0;
        while i < parts[part].len() {
            all[at] = parts[part][i];
            at += 1;
            i += 1;
        }
        part += 1;
    }
    assert!(at == N);
    all
}

pub(super) const TRAFFIC: [&CStr; 4] = [c"packets", c"bytes", c"multicast", c"broadcast"];
pub(super) const RX_WAYS: [&CStr; 5] = [c"rx_lent", c"rx_copied", c"rx_left", c"rx_fetched", c"rx_quiet"];

/// What [`super::TxCounters::show`] shows.
pub(crate) const TX_RING: [&CStr; TX_NAMES.len() + 11] = names(&[
    &TRAFFIC,
    &TX_NAMES,
    &[c"tx_put_off", c"tx_full", c"tx_failed", c"tx_mapped", c"tx_large", c"tx_timeouts", c"tx_posts"],
]);

/// What [`super::RxCounters::show`] shows.
pub(crate) const RX_RING: [&CStr; RX_NAMES.len() + 11] =
    names(&[&TRAFFIC, &RX_NAMES, &RX_WAYS, &[c"rx_refills", c"rx_refills_short"]]);

/// What [`super::History::show`] shows.
pub(crate) const HISTORY: [&CStr; 7] =
    [c"times_up", c"last_down", c"since", c"qp_made", c"qp_started", c"qp_failed", c"qp_stalled"];

const SENDING: [&CStr; 5] = [c"tx_put_off", c"tx_failed", c"tx_mapped", c"tx_large", c"tx_timeouts"];
pub(super) const ASKING: [&CStr; 2 * QUESTIONS] = [
    c"sa_paths",
    c"sa_joins",
    c"sa_leaves",
    c"sa_queries",
    c"sa_paths_failed",
    c"sa_joins_failed",
    c"sa_leaves_failed",
    c"sa_queries_failed",
];
pub(super) const STATE: [&CStr; 3] = [c"sa_last_failure", c"link_state", c"broadcast_state"];

/// The kstat `datagram`: of all rings together, every reason on its own.
impl Source for Counters {
    const NAMES: &'static [&'static CStr] = &names::<{ TX_NAMES.len() + RX_NAMES.len() + 21 }>(&[
        &TX_NAMES, &RX_NAMES, &SENDING, &RX_WAYS, &ASKING, &STATE,
    ]);

    fn read(&self, values: &mut dyn FnMut(usize, u64)) {
        let mut shown = Shown::new(values);
        let drops = |reason| self.tx.iter().map(|ring| ring.drop_count(reason)).sum();
        shown.put(core::array::from_fn::<u64, { TX_NAMES.len() }, _>(drops));
        shown.put(self.rx.drop_counts());
        shown.put([
            self.over_rings(|ring| &ring.put_off),
            self.over_rings(|ring| &ring.failed),
            self.over_rings(|ring| &ring.mapped),
            self.over_rings(|ring| &ring.large),
            self.over_rings(|ring| &ring.timeouts),
        ]);
        shown.put(self.rx.ways().map(Counter::get));
        shown.put(self.sa.asked.each_ref().map(Counter::get));
        shown.put(self.sa.failed.each_ref().map(Counter::get));
        shown.put([self.sa.last_failure.get()]);
        shown.put(self.state.numbers());
    }
}

impl Counters {
    pub(super) fn over_rings(&self, of: fn(&super::TxCounters) -> &Counter) -> u64 {
        sum(self.tx.iter().map(|ring| of(ring)))
    }
}
