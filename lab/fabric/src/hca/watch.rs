//! Looking at queue pairs from outside, by number, as a test of their owner does.

use std::collections::BTreeMap;

use crate::{CqNum, Hca, Moderation, Qp, QpState, Qpn, Rate, Sge, SrqNum, SrqSizes};

impl Hca {
    /// Numbers of the queue pairs that exist now, ascending.
    ///
    /// # Panics
    /// If another thread panicked in here.
    #[must_use]
    pub fn qpns(&self) -> Vec<Qpn> {
        self.0.objects.lock().qps.keys().copied().collect()
    }

    /// Receives posted to a queue pair and not yet filled; `None` if there is no such queue pair.
    #[must_use]
    pub fn receives_posted(&self, qpn: Qpn) -> Option<usize> {
        self.find_qp(qpn).map(|qp| qp.0.core.lock().rq.waiting().count())
    }

    /// The memory of those receives, in the order in which they will be filled, the pieces of each.
    #[must_use]
    pub fn receive_buffers(&self, qpn: Qpn) -> Option<Vec<Vec<Sge>>> {
        let qp = self.find_qp(qpn)?;
        let core = qp.0.core.lock();
        Some(core.rq.waiting().map(|receive| receive.sgl.clone()).collect())
    }

    /// Requests that may complete in a CQ of this queue pair, and its places, if they are more: a reader that sleeps until the queues are
    /// empty, or a flush of those who complete there, overruns it.
    #[must_use]
    pub fn overcommitted(&self, qp: &Qp) -> Option<(u32, u32)> {
        let [send, receive] = {
            let core = qp.0.core.lock();
            [core.config.scq.clone(), core.config.rcq.clone()]
        };
        let objects = self.0.objects.lock();
        [send, receive].into_iter().find_map(|cq| {
            let requests = objects.qps.values().map(|qp| qp.0.core.lock().completing_in(&cq)).sum();
            (requests > cq.size()).then(|| (requests, cq.size()))
        })
    }

    /// The interrupt moderation of the CQ in which the sends of a queue pair complete; `None` if there is no such queue pair.
    #[must_use]
    pub fn send_moderation(&self, qpn: Qpn) -> Option<Moderation> {
        self.find_qp(qpn).map(|qp| qp.0.core.lock().config.scq.moderation())
    }

    /// Completions that the sends of a queue pair have made so far; `None` if there is no such queue pair.
    #[must_use]
    pub fn sends_completed(&self, qpn: Qpn) -> Option<u64> {
        self.find_qp(qpn).map(|qp| qp.0.core.lock().sq.reported())
    }

    /// Queue pairs with sends that left and will never complete ([`Hca::set_sends_hang`]), ascending.
    #[must_use]
    pub fn hanging(&self) -> Vec<Qpn> {
        let objects = self.0.objects.lock();
        let hangs = |qp: &Qp| {
            let core = qp.0.core.lock();
            let hangs = core.connection.as_ref().is_some_and(|c| c.hangs && c.requester.waiting() > 0);
            core.state == QpState::Rts && (hangs || core.sq.waiting().next().is_some())
        };
        objects.qps.iter().filter(|(_, qp)| hangs(qp)).map(|(&qpn, _)| qpn).collect()
    }

    /// Connections that stand: queue pairs of theirs that can send.
    ///
    /// # Panics
    /// If another thread panicked in here.
    #[must_use]
    pub fn connections(&self) -> usize {
        let qps: Vec<Qp> = self.0.objects.lock().qps.values().cloned().collect();
        let stands = |qp: &&Qp| {
            let core = qp.0.core.lock();
            core.connection.is_some() && core.state == QpState::Rts
        };
        qps.iter().filter(stands).count()
    }

    /// Static rates that address handles were to have so far, refused ones too, and how often.
    ///
    /// # Panics
    /// If another thread panicked in here.
    #[must_use]
    pub fn rates_asked(&self) -> BTreeMap<Rate, u64> {
        self.0.rates_asked.lock().clone()
    }

    /// Bytes that the reference adapter's driver takes for the work queues of all queue pairs and shared receive queues, and for CQs with so
    /// many places in all: each in whole pages.
    ///
    /// # Panics
    /// If another thread panicked in here.
    #[must_use]
    pub fn queue_bytes(&self) -> u64 {
        let qps: Vec<Qp> = self.0.objects.lock().qps.values().cloned().collect();
        let mut cqs: BTreeMap<CqNum, u32> = BTreeMap::new();
        let mut srqs: BTreeMap<SrqNum, SrqSizes> = BTreeMap::new();
        let mut bytes = 0;
        for qp in qps {
            let core = qp.0.core.lock();
            for cq in [&core.config.scq, &core.config.rcq] {
                cqs.insert(cq.num(), cq.size());
            }
            if let Some(srq) = &core.config.srq {
                srqs.insert(srq.num(), srq.sizes());
            }
            bytes += pages(crate::arithmetic::queue_bytes(core.config.sizes));
        }
        bytes += cqs.values().map(|size| pages(u64::from(size + 1) * COMPLETION)).sum::<u64>();
        bytes + srqs.values().map(|sizes| pages(u64::from(sizes.wrs + 1) * SHARED_RECEIVE)).sum::<u64>()
    }
}

/// Bytes of a completion, and of a shared receive of one piece.
const COMPLETION: u64 = 32;
const SHARED_RECEIVE: u64 = 32;

fn pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(4_096)
}
