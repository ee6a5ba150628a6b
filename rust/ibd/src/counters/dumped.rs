//! The counters as a crash dump has them: each where it is counted, under the name of the kstat that shows it.

use core::ffi::CStr;

use kernel::counter::Counter;
use kernel::dump::Value;
use kernel::{KVec, MayBlock};

use super::shown::{ASKING, STATE};
use super::{Counters, HISTORY, RX_RING, TX_RING};

const TX_RINGS: [&CStr; 8] = [
    c"tx_ring_0",
    c"tx_ring_1",
    c"tx_ring_2",
    c"tx_ring_3",
    c"tx_ring_4",
    c"tx_ring_5",
    c"tx_ring_6",
    c"tx_ring_7",
];

impl Counters {
    /// All values of the link. They are valid as long as the counters are.
    #[inline(never)]
    pub(crate) fn dumped(&self, may_block: &MayBlock) -> KVec<Value> {
        let mut values = KVec::default();
        let [last_failure, link_state, broadcast_state] = STATE;
        let [link, broadcast] = self.state.gauges();
        values.push_waiting(Value::gauge(c"datagram", link_state, link), may_block);
        values.push_waiting(Value::gauge(c"datagram", broadcast_state, broadcast), may_block);
        let (ups, [last_down, since], queue_pairs) = self.history.all();
        let [times_up, name_of_last_down, name_of_since, names_of_queue_pairs @ ..] = HISTORY;
        values.push_waiting(Value::counter(c"port", times_up, ups), may_block);
        values.push_waiting(Value::gauge(c"port", name_of_last_down, last_down), may_block);
        values.push_waiting(Value::gauge(c"port", name_of_since, since), may_block);
        counters(&mut values, c"port", &names_of_queue_pairs, queue_pairs, may_block);
        for (ring, kstat) in self.tx.iter().zip(TX_RINGS) {
            counters(&mut values, kstat, &TX_RING, ring.all(), may_block);
        }
        counters(&mut values, c"rx_ring_0", &RX_RING, self.rx.all(), may_block);
        counters(&mut values, c"datagram", &ASKING, self.sa.all(), may_block);
        values.push_waiting(Value::gauge(c"datagram", last_failure, &self.sa.last_failure), may_block);
        values
    }
}

/// Those of one kstat, or the first of them.
pub(crate) fn counters<'a>(
    values: &mut KVec<Value>,
    kstat: &'static CStr,
    names: &[&'static CStr],
    counters: impl IntoIterator<Item = &'a Counter>,
    may_block: &MayBlock,
) {
    for (counter, name) in counters.into_iter().zip(names) {
        values.push_waiting(Value::counter(kstat, name, counter), may_block);
    }
}
