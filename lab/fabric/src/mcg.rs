//! Which QPs of an HCA hear which multicast GID.

use crate::{Error, Gid, Qp, Qpn};
use std::collections::BTreeMap;

use lab_lock::Mutex;
/// The multicast table of one HCA. Membership is not counted: a second attach changes nothing.
#[derive(Default)]
pub(crate) struct Groups(Mutex<BTreeMap<Gid, BTreeMap<Qpn, Qp>>>);

impl Groups {
    /// True if the QP was not in the group before.
    pub(crate) fn attach(&self, gid: Gid, qp: &Qp, max_groups: u32, max_qps: u32) -> Result<bool, Error> {
        let mut groups = self.0.lock();
        if !groups.contains_key(&gid) && groups.len() >= max_groups as usize {
            return Err(Error::InsuffResource);
        }
        let group = groups.entry(gid).or_default();
        if group.contains_key(&qp.num()) {
            return Ok(false);
        }
        if group.len() >= max_qps as usize {
            return Err(Error::HcaMcgChanExceeded);
        }
        group.insert(qp.num(), qp.clone());
        Ok(true)
    }

    pub(crate) fn detach(&self, gid: Gid, qpn: Qpn) -> Result<(), Error> {
        let mut groups = self.0.lock();
        let group = groups.get_mut(&gid).ok_or(Error::McMgidInvalid)?;
        group.remove(&qpn).ok_or(Error::ChanHdlInvalid)?;
        if group.is_empty() {
            groups.remove(&gid);
        }
        Ok(())
    }

    /// Members in QPN order; empty if the HCA knows no such group.
    pub(crate) fn members(&self, gid: Gid) -> Vec<Qp> {
        self.0.lock().get(&gid).map(|g| g.values().cloned().collect()).unwrap_or_default()
    }
}
