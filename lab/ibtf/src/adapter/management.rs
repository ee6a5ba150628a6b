//! Protection domains, address handles, memory, shared receive queues.
#![forbid(unsafe_code)]

use fabric::{Access, SrqSizes};
use illumos_sys_hdrs::{
    IBT_MR_ENABLE_LOCAL_WRITE, IBT_MR_ENABLE_REMOTE_ATOMIC, IBT_MR_ENABLE_REMOTE_READ,
    IBT_MR_ENABLE_REMOTE_WRITE, IBT_MR_HDL_INVALID, IBT_PD_HDL_INVALID, IBT_SRQ_HDL_INVALID,
    IBT_STATIC_RATE_INVALID, IBT_UD_DEST_HDL_INVALID, ibt_adds_vect_t, ibt_mr_attr_t, ibt_mr_flags_t,
};

use super::{Adapter, Ah, Answer, Mr, Pd, Srq, of_model};
use crate::convert::vector_from_c;

impl Adapter {
    pub(crate) fn alloc_pd(&self) -> Answer<Pd> {
        match self {
            Self::Model(hca) => of_model(hca.alloc_pd()).map(Pd::Model),
            Self::Driver(driver) => driver.alloc_pd().map(Pd::Driver),
        }
    }

    pub(crate) fn free_pd(&self, pd: &Pd) -> Answer<()> {
        match (self, pd) {
            (Self::Model(hca), Pd::Model(pd)) => of_model(hca.free_pd(pd)),
            (Self::Driver(driver), Pd::Driver(pd)) => driver.free_pd(*pd),
            _ => Err(IBT_PD_HDL_INVALID),
        }
    }

    pub(crate) fn alloc_ah(&self, pd: &Pd) -> Answer<Ah> {
        match (self, pd) {
            (Self::Model(hca), Pd::Model(pd)) => of_model(hca.alloc_ah(pd)).map(Ah::Model),
            (Self::Driver(driver), Pd::Driver(pd)) => driver.alloc_ah(*pd).map(Ah::Driver),
            _ => Err(IBT_PD_HDL_INVALID),
        }
    }

    pub(crate) fn free_ah(&self, ah: &Ah) -> Answer<()> {
        match (self, ah) {
            (Self::Model(hca), Ah::Model(ah)) => of_model(hca.free_ah(ah)),
            (Self::Driver(driver), Ah::Driver(ah)) => driver.free_ah(*ah),
            _ => Err(IBT_UD_DEST_HDL_INVALID),
        }
    }

    /// Any context.
    pub(crate) fn modify_ah(&self, ah: &Ah, vector: &ibt_adds_vect_t) -> Answer<()> {
        match (self, ah) {
            (Self::Model(hca), Ah::Model(ah)) => {
                let vector = vector_from_c(vector).ok_or(IBT_STATIC_RATE_INVALID)?;
                of_model(hca.modify_ah(ah, vector))
            }
            (Self::Driver(driver), Ah::Driver(ah)) => driver.modify_ah(*ah, *vector),
            _ => Err(IBT_UD_DEST_HDL_INVALID),
        }
    }

    /// Kernel memory, as a client asked for it.
    pub(crate) fn register_mr(&self, pd: &Pd, attr: &ibt_mr_attr_t) -> Answer<Mr> {
        match (self, pd) {
            (Self::Model(hca), Pd::Model(pd)) => {
                of_model(hca.register_mr(pd, attr.mr_vaddr, attr.mr_len, access(attr.mr_flags)))
                    .map(Mr::Model)
            }
            (Self::Driver(driver), Pd::Driver(pd)) => driver.register_mr(*pd, *attr).map(Mr::Driver),
            _ => Err(IBT_PD_HDL_INVALID),
        }
    }

    pub(crate) fn deregister_mr(&self, mr: &Mr) -> Answer<()> {
        match (self, mr) {
            (Self::Model(hca), Mr::Model(mr)) => of_model(hca.deregister_mr(mr)),
            (Self::Driver(driver), Mr::Driver(mr)) => driver.deregister_mr(mr),
            _ => Err(IBT_MR_HDL_INVALID),
        }
    }

    pub(crate) fn alloc_srq(&self, pd: &Pd, sizes: SrqSizes) -> Answer<Srq> {
        match (self, pd) {
            (Self::Model(hca), Pd::Model(pd)) => of_model(hca.alloc_srq(pd, sizes)).map(Srq::Model),
            (Self::Driver(driver), Pd::Driver(pd)) => driver.alloc_srq(*pd, sizes).map(Srq::Driver),
            _ => Err(IBT_PD_HDL_INVALID),
        }
    }

    pub(crate) fn free_srq(&self, srq: &Srq) -> Answer<()> {
        match (self, srq) {
            (Self::Model(hca), Srq::Model(srq)) => of_model(hca.free_srq(srq)),
            (Self::Driver(driver), Srq::Driver(srq)) => driver.free_srq(srq),
            _ => Err(IBT_SRQ_HDL_INVALID),
        }
    }
}

fn access(flags: ibt_mr_flags_t) -> Access {
    let bit = |flag: ibt_mr_flags_t| flags.0 & flag.0 != 0;
    Access {
        local_write: bit(IBT_MR_ENABLE_LOCAL_WRITE),
        remote_read: bit(IBT_MR_ENABLE_REMOTE_READ),
        remote_write: bit(IBT_MR_ENABLE_REMOTE_WRITE),
        remote_atomic: bit(IBT_MR_ENABLE_REMOTE_ATOMIC),
    }
}
