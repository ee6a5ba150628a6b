//! Memory under the reserved key: `ibc_map_mem_iov`.

use std::ptr;

use illumos_sys_hdrs::{ibt_all_wr_t, ibt_iov_attr_t, ibt_mi_hdl_t};

use super::{Answer, Driver, answer, down};
use crate::ibtl::Opaque;

/// A mapping of the driver's.
#[derive(Clone, Copy)]
pub(crate) struct Mapped(Opaque);

impl Driver {
    /// Fills the list of the request `wr`. Any context with `IBT_IOV_NOSLEEP`.
    pub(crate) fn map_mem_iov(&self, mut attr: ibt_iov_attr_t, wr: *mut ibt_all_wr_t) -> Answer<Mapped> {
        let mut handle: ibt_mi_hdl_t = ptr::null_mut();
        answer(down!(self, ibc_map_mem_iov(&raw mut attr, wr, &raw mut handle)))?;
        let handle = Opaque::of(handle);
        self.gave("ibt_mi_hdl_t", handle);
        Ok(Mapped(handle))
    }

    /// Any context.
    pub(crate) fn unmap_mem_iov(&self, mapped: Mapped) -> Answer<()> {
        self.give_back("ibt_mi_hdl_t", mapped.0, || {
            answer(down!(self, ibc_unmap_mem_iov(mapped.0.get().cast())))
        })
    }
}
