//! Protection domains and address handles.

use illumos_sys_hdrs as sys;
use kernel::KArc;

use super::{Raw, provider, store};
use crate::address::AddressVector;
use crate::objects::{behind, release, share};
use crate::provider::Provider;
use crate::status::answer;

pub(super) unsafe extern "C" fn alloc_pd<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    _flags: sys::ibt_pd_flags_t,
    pd: *mut sys::ibc_pd_hdl_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    answer(provider.alloc_pd().map(|made| {
        // SAFETY: the caller has room for the handle.
        unsafe { store(pd, KArc::into_raw(made).as_ptr().cast()) }
    }))
}

pub(super) unsafe extern "C" fn free_pd<P: Provider>(hca: sys::ibc_hca_hdl_t, pd: sys::ibc_pd_hdl_t) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(held) = (unsafe { share::<P::Pd, _>(pd) }) else { return sys::IBT_PD_HDL_INVALID };
    answer(provider.free_pd(&held).map(|()| {
        // SAFETY: freed: the client does not use it any more.
        unsafe { release::<P::Pd, _>(pd) }
    }))
}

pub(super) unsafe extern "C" fn alloc_ah<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    _flags: sys::ibt_ud_dest_flags_t,
    pd: sys::ibc_pd_hdl_t,
    vector: *mut sys::ibt_adds_vect_t,
    ah: *mut sys::ibc_ah_hdl_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(pd) = (unsafe { share::<P::Pd, _>(pd) }) else { return sys::IBT_PD_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(vector) = (unsafe { vector.as_ref() }) else { return sys::IBT_INVALID_PARAM };
    answer(provider.alloc_ah(&pd, AddressVector::from_raw(vector)).map(|made| {
        // SAFETY: the caller has room for the handle.
        unsafe { store(ah, KArc::into_raw(made).as_ptr().cast()) }
    }))
}

pub(super) unsafe extern "C" fn free_ah<P: Provider>(hca: sys::ibc_hca_hdl_t, ah: sys::ibc_ah_hdl_t) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(held) = (unsafe { share::<P::AddressHandle, _>(ah) }) else {
        return sys::IBT_UD_DEST_HDL_INVALID;
    };
    answer(provider.free_ah(&held).map(|()| {
        // SAFETY: freed: the client does not use it any more.
        unsafe { release::<P::AddressHandle, _>(ah) }
    }))
}

pub(super) unsafe extern "C" fn query_ah<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    ah: sys::ibc_ah_hdl_t,
    pd: *mut sys::ibc_pd_hdl_t,
    vector: *mut sys::ibt_adds_vect_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(handle) = (unsafe { behind::<P::AddressHandle, _>(ah) }) else {
        return sys::IBT_UD_DEST_HDL_INVALID;
    };
    // SAFETY: the caller has room for the domain's handle, which it was given when it made the domain.
    unsafe { store(pd, KArc::as_ptr(provider.domain_of(handle)).as_ptr().cast()) };
    // SAFETY: the caller has room for the vector.
    unsafe { store(vector, provider.query_ah(handle).raw()) };
    sys::IBT_SUCCESS
}

pub(super) unsafe extern "C" fn modify_ah<P: Provider>(
    hca: sys::ibc_hca_hdl_t,
    ah: sys::ibc_ah_hdl_t,
    vector: *mut sys::ibt_adds_vect_t,
) -> Raw {
    // SAFETY: the contract of the operation.
    let Some(provider) = (unsafe { provider::<P>(hca) }) else { return sys::IBT_HCA_HDL_INVALID };
    // SAFETY: the contract of the operation.
    let Some(handle) = (unsafe { behind::<P::AddressHandle, _>(ah) }) else {
        return sys::IBT_UD_DEST_HDL_INVALID;
    };
    // SAFETY: the contract of the operation.
    let Some(vector) = (unsafe { vector.as_ref() }) else { return sys::IBT_INVALID_PARAM };
    answer(provider.modify_ah(handle, AddressVector::from_raw(vector)))
}
