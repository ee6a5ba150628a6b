//! Protection domains, address handles, memory.

use illumos_sys_hdrs::{IBT_PD_NO_FLAGS, ibt_adds_vect_t, ibt_mr_attr_t, ibt_mr_desc_t, ibt_ud_dest_flags_t};
use std::ptr;
use std::sync::Arc;

use super::{Answer, Driver, Mr, answer, down, garbage};
use crate::ibtl::Opaque;

impl Driver {
    pub(crate) fn alloc_pd(&self) -> Answer<Opaque> {
        let mut pd = ptr::null_mut();
        answer(down!(self, ibc_alloc_pd(IBT_PD_NO_FLAGS, &raw mut pd)))?;
        let pd = Opaque::of(pd);
        self.gave("ibc_pd_hdl_t", pd);
        Ok(pd)
    }

    pub(crate) fn free_pd(&self, pd: Opaque) -> Answer<()> {
        self.give_back("ibc_pd_hdl_t", pd, || answer(down!(self, ibc_free_pd(pd.get().cast()))))
    }

    /// One that says nothing yet, as `ibt_alloc_ud_dest` makes it: port 1, and the address comes later.
    pub(crate) fn alloc_ah(&self, pd: Opaque) -> Answer<Opaque> {
        let mut vector = ibt_adds_vect_t { av_port_num: 1, ..Default::default() };
        vector.set_av_sgid_ix(0);
        let mut ah = ptr::null_mut();
        let flags = ibt_ud_dest_flags_t::default();
        answer(down!(self, ibc_alloc_ah(flags, pd.get().cast(), &raw mut vector, &raw mut ah)))?;
        let ah = Opaque::of(ah);
        self.gave("ibc_ah_hdl_t", ah);
        Ok(ah)
    }

    pub(crate) fn free_ah(&self, ah: Opaque) -> Answer<()> {
        self.give_back("ibc_ah_hdl_t", ah, || answer(down!(self, ibc_free_ah(ah.get().cast()))))
    }

    /// Any context.
    pub(crate) fn modify_ah(&self, ah: Opaque, mut vector: ibt_adds_vect_t) -> Answer<()> {
        answer(down!(self, ibc_modify_ah(ah.get().cast(), &raw mut vector)))
    }

    pub(crate) fn register_mr(&self, pd: Opaque, mut attr: ibt_mr_attr_t) -> Answer<Arc<Mr>> {
        let mut handle = ptr::null_mut();
        // SAFETY: integers, and no pointer is followed.
        let mut description: ibt_mr_desc_t = unsafe { garbage() };
        let pd = pd.get().cast();
        answer(down!(
            self,
            ibc_register_mr(pd, &raw mut attr, ptr::null_mut(), &raw mut handle, &raw mut description)
        ))?;
        let handle = Opaque::of(handle);
        self.gave("ibt_mr_hdl_t", handle);
        // IBTL says the caller's own address.
        Ok(Arc::new(Mr { handle, base: attr.mr_vaddr, len: attr.mr_len, lkey: description.md_lkey }))
    }

    pub(crate) fn deregister_mr(&self, mr: &Mr) -> Answer<()> {
        self.give_back("ibt_mr_hdl_t", mr.handle, || {
            answer(down!(self, ibc_deregister_mr(mr.handle.get().cast())))
        })
    }
}
