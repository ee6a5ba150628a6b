//! What a channel needs around it: address handles, multicast groups, memory regions, shared receive queues.

use super::Hca;
use crate::ah::AhInner;
use crate::calls::Call;
use crate::{Access, AddressVector, Ah, Error, Gid, Lid, Mr, Pd, Qp, Srq, SrqNum, SrqSizes, cq};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lab_lock::Mutex;
impl Hca {
    // Address handles.

    /// A new handle with [`AddressVector::PLACEHOLDER`].
    ///
    /// # Errors
    /// [`Error::InsuffResource`], [`Error::PdHdlInvalid`].
    pub fn alloc_ah(&self, pd: &Pd) -> Result<Ah, Error> {
        self.check(Call::AllocAh)?;
        let max = self.0.config.attr.max_ah;
        let room = |n: u32| (max == 0 || n < max).then_some(n + 1);
        pd.hold()?;
        if self.0.ahs.fetch_update(Ordering::AcqRel, Ordering::Acquire, room).is_err() {
            pd.release();
            return Err(Error::InsuffResource);
        }
        Ok(Ah(Arc::new(AhInner { pd: pd.clone(), vector: Mutex::new(Some(AddressVector::PLACEHOLDER)) })))
    }

    /// Takes effect for requests posted from now on.
    ///
    /// # Errors
    /// [`Error::HcaPortInvalid`], [`Error::StaticRateInvalid`], [`Error::SgidInvalid`], [`Error::AhHdlInvalid`]; nothing changed
    /// then.
    pub fn modify_ah(&self, ah: &Ah, vector: AddressVector) -> Result<(), Error> {
        self.check(Call::ModifyAh)?;
        self.check_vector(&vector)?;
        let mut slot = ah.0.vector.lock();
        if slot.is_none() {
            return Err(Error::AhHdlInvalid);
        }
        *slot = Some(vector);
        Ok(())
    }

    /// Whether the adapter can send that way.
    pub(crate) fn check_vector(&self, vector: &AddressVector) -> Result<(), Error> {
        let port = self.port(vector.port).ok_or(Error::HcaPortInvalid)?;
        *self.0.rates_asked.lock().entry(vector.rate).or_default() += 1;
        if !self.0.config.attr.static_rates.contains(&vector.rate.code()) {
            return Err(Error::StaticRateInvalid);
        }
        if let Some(grh) = vector.grh {
            port.gid(grh.sgid_ix).ok_or(Error::SgidInvalid)?;
        }
        Ok(())
    }

    /// Frees it. Requests already posted keep their copy.
    ///
    /// # Errors
    /// [`Error::AhHdlInvalid`] if it was freed.
    pub fn free_ah(&self, ah: &Ah) -> Result<(), Error> {
        self.check(Call::FreeAh)?;
        ah.0.vector.lock().take().ok_or(Error::AhHdlInvalid)?;
        ah.0.pd.release();
        self.0.ahs.fetch_sub(1, Ordering::AcqRel);
        Ok(())
    }

    // Multicast.

    /// The QP hears `gid` from now on. Attaching again changes nothing.
    ///
    /// # Errors
    /// [`Error::McMlidInvalid`], [`Error::McMgidInvalid`], [`Error::HcaMcgChanExceeded`], [`Error::InsuffResource`].
    pub fn attach_mcg(&self, qp: &Qp, gid: Gid, mlid: Lid) -> Result<(), Error> {
        self.check(Call::AttachMcg)?;
        check_group(gid, mlid)?;
        let mut core = qp.0.core.lock();
        if core.freed {
            return Err(Error::ChanHdlInvalid);
        }
        if core.connection.is_some() {
            return Err(Error::ChanSrvTypeInvalid);
        }
        let attr = &self.0.config.attr;
        if self.0.groups.attach(gid, qp, attr.max_mcg, attr.max_qp_per_mcg)? {
            core.attached += 1;
        }
        Ok(())
    }

    /// The QP no longer hears `gid`, however often it was attached.
    ///
    /// # Errors
    /// [`Error::McMlidInvalid`]; [`Error::McMgidInvalid`] if the HCA knows no such group; [`Error::ChanHdlInvalid`] if this
    /// QP is not in it.
    pub fn detach_mcg(&self, qp: &Qp, gid: Gid, mlid: Lid) -> Result<(), Error> {
        self.check(Call::DetachMcg)?;
        check_group(gid, mlid)?;
        self.0.groups.detach(gid, qp.num())?;
        let mut core = qp.0.core.lock();
        core.attached = core.attached.saturating_sub(1);
        Ok(())
    }

    // Memory.

    /// Registers `len` bytes at `base`.
    ///
    /// # Errors
    /// [`Error::MrAccessReqInvalid`] for remote writes or atomics without local ones; [`Error::MrLenInvalid`];
    /// [`Error::MrVaInvalid`] if it is not memory; [`Error::PdHdlInvalid`]; [`Error::InsuffResource`].
    pub fn register_mr(&self, pd: &Pd, base: u64, len: u64, access: Access) -> Result<Mr, Error> {
        self.check(Call::RegisterMr)?;
        let attr = &self.0.config.attr;
        if (access.remote_write || access.remote_atomic) && !access.local_write {
            return Err(Error::MrAccessReqInvalid);
        }
        if len == 0 || len > attr.max_mr_len || base.checked_add(len).is_none() {
            return Err(Error::MrLenInvalid);
        }
        if !self.0.dma.is_memory(base, len) {
            return Err(Error::MrVaInvalid);
        }
        self.0.memory.register(pd, base, len, access, attr.max_mr)
    }

    /// Ends it; waits for an access under way.
    ///
    /// # Errors
    /// [`Error::MrHdlInvalid`] if it was deregistered.
    pub fn deregister_mr(&self, mr: &Mr) -> Result<(), Error> {
        self.check(Call::DeregisterMr)?;
        self.0.memory.deregister(mr)
    }

    // Shared receive queues.

    /// A new SRQ; `sizes` are minima.
    ///
    /// # Errors
    /// [`Error::HcaWrExceeded`], [`Error::HcaSglExceeded`], [`Error::InsuffResource`], [`Error::PdHdlInvalid`].
    pub fn alloc_srq(&self, pd: &Pd, sizes: SrqSizes) -> Result<Srq, Error> {
        self.check(Call::AllocSrq)?;
        let attr = &self.0.config.attr;
        if sizes.wrs > attr.max_srq_sz {
            return Err(Error::HcaWrExceeded);
        }
        if sizes.sgl > attr.max_srq_sgl {
            return Err(Error::HcaSglExceeded);
        }
        let mut objects = self.0.objects.lock();
        if objects.srqs.len() >= attr.max_srq as usize {
            return Err(Error::InsuffResource);
        }
        pd.hold()?;
        objects.next_srq += 1;
        let real = SrqSizes { wrs: cq::real_size(sizes.wrs), sgl: sizes.sgl.max(1) };
        let srq = Srq::new(SrqNum(objects.next_srq), pd.clone(), real);
        objects.srqs.insert(srq.num(), srq.clone());
        Ok(srq)
    }

    /// Has [`crate::AsyncEvent::SrqLimit`] told once, as soon as a receive is taken that leaves fewer than `limit`; 0 takes that back.
    ///
    /// # Errors
    /// [`Error::NotSupported`] unless the adapter can ([`crate::HcaAttr::srq_limit`]): the reference adapter's driver refuses it;
    /// [`Error::SrqHdlInvalid`].
    pub fn set_srq_limit(&self, srq: &Srq, limit: u32) -> Result<(), Error> {
        if !self.0.config.attr.srq_limit {
            return Err(Error::NotSupported);
        }
        srq.set_limit(limit)
    }

    /// Frees it and the receives in it.
    ///
    /// # Errors
    /// [`Error::SrqInUse`] while a QP uses it; [`Error::SrqHdlInvalid`] if it was freed.
    pub fn free_srq(&self, srq: &Srq) -> Result<(), Error> {
        self.check(Call::FreeSrq)?;
        srq.retire(self.config().keeps_srqs && !self.is_gone())?;
        srq.0.pd.release();
        self.0.objects.lock().srqs.remove(&srq.num());
        Ok(())
    }
}

fn check_group(gid: Gid, mlid: Lid) -> Result<(), Error> {
    if !mlid.is_multicast() {
        return Err(Error::McMlidInvalid);
    }
    if !gid.is_valid_multicast() {
        return Err(Error::McMgidInvalid);
    }
    Ok(())
}
