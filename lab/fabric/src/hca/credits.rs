//! Credits: what an adapter's ports may send.

use std::sync::atomic::Ordering;

use crate::{Hca, Qp};

impl Hca {
    /// From now on the fabric gives the adapter's ports no credits for data: sends wait, in order, and neither leave nor complete. The ports stay
    /// active and receive. When credits come again everything goes on, and nothing is lost. Acknowledgements and management packets go on all
    /// the time, as on a virtual lane of their own.
    ///
    /// # Panics
    /// If another thread panicked in here.
    pub fn set_no_credits(&self, none: bool) {
        if self.0.no_credits.swap(none, Ordering::SeqCst) && !none {
            let qps: Vec<Qp> = self.0.objects.lock().qps.values().cloned().collect();
            for qp in qps {
                let connected = qp.0.core.lock().connection.is_some();
                match connected {
                    true => self.run_requester(&qp),
                    false => self.send_waiting(&qp),
                }
            }
        }
    }

    pub(crate) fn has_no_credits(&self) -> bool {
        self.0.no_credits.load(Ordering::SeqCst)
    }
}
