//! Looking at queue pairs from outside, by number, as a test of their owner does.

use std::collections::BTreeMap;

use crate::{Hca, Qpn, Rate, Sge};

impl Hca {
    /// Numbers of the queue pairs that exist now, ascending.
    ///
    /// # Panics
    /// If another thread panicked in here.
    #[must_use]
    pub fn qpns(&self) -> Vec<Qpn> {
        self.0.objects.lock().unwrap().qps.keys().copied().collect()
    }

    /// Receives posted to a queue pair and not yet filled; `None` if there is no such queue pair.
    #[must_use]
    pub fn receives_posted(&self, qpn: Qpn) -> Option<usize> {
        self.find_qp(qpn).map(|qp| qp.0.core.lock().unwrap().rq.waiting().count())
    }

    /// The memory of those receives, in the order in which they will be filled, the pieces of each.
    #[must_use]
    pub fn receive_buffers(&self, qpn: Qpn) -> Option<Vec<Vec<Sge>>> {
        let qp = self.find_qp(qpn)?;
        let core = qp.0.core.lock().unwrap();
        Some(core.rq.waiting().map(|receive| receive.sgl.clone()).collect())
    }

    /// Completions that the sends of a queue pair have made so far; `None` if there is no such queue pair.
    #[must_use]
    pub fn sends_completed(&self, qpn: Qpn) -> Option<u64> {
        self.find_qp(qpn).map(|qp| qp.0.core.lock().unwrap().sq.reported())
    }

    /// Static rates that address handles were to have so far, refused ones too, and how often.
    ///
    /// # Panics
    /// If another thread panicked in here.
    #[must_use]
    pub fn rates_asked(&self) -> BTreeMap<Rate, u64> {
        self.0.rates_asked.lock().unwrap().clone()
    }
}
