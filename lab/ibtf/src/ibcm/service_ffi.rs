//! `ibt_register_service` and what belongs to it.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fakekernel::{Cx, Export, cx, export};
use illumos_sys_hdrs::{
    IBT_INVALID_PARAM, IBT_SUCCESS, ib_gid_t, ib_svc_id_t, ibt_clnt_hdl_t, ibt_sbind_hdl_t, ibt_srv_bind_t,
    ibt_srv_desc_t, ibt_srv_hdl_t, ibt_status_t,
};
use sm::PKey;

use super::Ibcm;
use super::path_ffi::name;
use super::service::{Announcement, Binding, Service, SrvData};
use crate::convert::gid_from_c;
use crate::ibtl::{Ibtl, Opaque, hdl, take};
use crate::ptr::{load, store};

pub(super) fn exports() -> Vec<Export> {
    export! {
        UK: ibt_register_service, ibt_deregister_service, ibt_bind_service, ibt_unbind_service,
            ibt_unbind_all_services;
    }
}

unsafe extern "C" fn ibt_register_service(
    ibt_hdl: ibt_clnt_hdl_t,
    service: *mut ibt_srv_desc_t,
    sid: ib_svc_id_t,
    num_sids: c_int,
    srv_hdl_p: *mut ibt_srv_hdl_t,
    ret_sid_p: *mut ib_svc_id_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibtl = Ibtl::of(cx.kernel());
    let client = hdl!(cx, ibtl.clients, ibt_hdl, IBT_INVALID_PARAM);
    let Some(count) = u64::try_from(num_sids).ok().filter(|count| *count > 0) else {
        return IBT_INVALID_PARAM;
    };
    // SAFETY: the caller's description, or NULL.
    let Some(description) = (unsafe { load(service) }) else { return IBT_INVALID_PARAM };
    if srv_hdl_p.is_null() {
        return IBT_INVALID_PARAM;
    }
    let ibcm = Ibcm::of(cx.kernel());
    let service = match ibcm.services.register(client, description.sd_handler, sid, count) {
        Ok(service) => service,
        Err(status) => return status,
    };
    let first = service.first;
    let handle = ibcm.services.services.insert(service);
    // SAFETY: the caller's own variable, not NULL.
    unsafe { store(srv_hdl_p, handle.cast()) };
    // SAFETY: the caller's own variable, or NULL.
    unsafe { store(ret_sid_p, first) };
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_deregister_service(ibt_hdl: ibt_clnt_hdl_t, srv_hdl: ibt_srv_hdl_t) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibtl = Ibtl::of(cx.kernel());
    let _client = hdl!(cx, ibtl.clients, ibt_hdl, IBT_INVALID_PARAM);
    let ibcm = Ibcm::of(cx.kernel());
    let service = hdl!(cx, ibcm.services.services, srv_hdl, IBT_INVALID_PARAM);
    if let Err(status) = service.check_unbound() {
        return status;
    }
    if take(&cx, &ibcm.services.services, srv_hdl).is_some() {
        service.wait();
        service.client.services.fetch_sub(1, Ordering::AcqRel);
    }
    IBT_SUCCESS
}

unsafe extern "C" fn ibt_bind_service(
    srv_hdl: ibt_srv_hdl_t,
    gid: ib_gid_t,
    srv_bind: *mut ibt_srv_bind_t,
    cm_private: *mut c_void,
    sb_hdl_p: *mut ibt_sbind_hdl_t,
) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibcm = Ibcm::of(cx.kernel());
    let service = hdl!(cx, ibcm.services.services, srv_hdl, IBT_INVALID_PARAM);
    // SAFETY: the caller's description, or NULL; it and its name stay as they are during the call.
    let record = match unsafe { announcement(srv_bind) } {
        Ok(record) => record,
        Err(status) => return status,
    };
    match ibcm.bind(&service, gid_from_c(gid), Opaque::of(cm_private), record) {
        Ok(binding) => {
            let handle = ibcm.services.bindings.insert(binding);
            service.bound.lock().push(handle.addr());
            // SAFETY: the caller's own variable, or NULL.
            unsafe { store(sb_hdl_p, handle.cast()) };
            IBT_SUCCESS
        }
        Err(status) => status,
    }
}

/// What subnet administration shall be told; `None` for a NULL pointer.
///
/// # Safety
///
/// `srv_bind` is NULL or points to a description whose name, if any, ends with a zero byte.
unsafe fn announcement(srv_bind: *const ibt_srv_bind_t) -> Result<Option<Announcement>, ibt_status_t> {
    // SAFETY: by this function's contract.
    let Some(bind) = (unsafe { load(srv_bind) }) else { return Ok(None) };
    if bind.sb_pkey == 0 {
        return Err(IBT_INVALID_PARAM);
    }
    let name = if bind.sb_name.is_null() {
        [0; 64]
    } else {
        // SAFETY: by this function's contract.
        unsafe { name(bind.sb_name) }.ok_or(IBT_INVALID_PARAM)?
    };
    let mut key = [0; 16];
    for (to, from) in key.iter_mut().zip(bind.sb_key.iter().flat_map(|half| half.to_be_bytes())) {
        *to = from;
    }
    let data = SrvData::from_c(&bind.sb_data);
    Ok(Some(Announcement { p_key: PKey(bind.sb_pkey), lease: bind.sb_lease, key, name, data }))
}

unsafe extern "C" fn ibt_unbind_service(srv_hdl: ibt_srv_hdl_t, sb_hdl: ibt_sbind_hdl_t) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibcm = Ibcm::of(cx.kernel());
    let service = hdl!(cx, ibcm.services.services, srv_hdl, IBT_INVALID_PARAM);
    match unbind(&cx, &ibcm, &service, sb_hdl.addr()) {
        Some(_) => IBT_SUCCESS,
        None => IBT_INVALID_PARAM,
    }
}

unsafe extern "C" fn ibt_unbind_all_services(srv_hdl: ibt_srv_hdl_t) -> ibt_status_t {
    let cx = cx();
    cx.may_block();
    let ibcm = Ibcm::of(cx.kernel());
    let service = hdl!(cx, ibcm.services.services, srv_hdl, IBT_INVALID_PARAM);
    let all = service.bound.lock().clone();
    for handle in all {
        // One that somebody else unbinds at the same time is unbound all the same.
        let _ = unbind(&cx, &ibcm, &service, handle);
    }
    IBT_SUCCESS
}

/// Undoes a binding of `service`; `None` if it has no such binding.
fn unbind(cx: &Cx, ibcm: &Ibcm, service: &Service, handle: usize) -> Option<Arc<Binding>> {
    {
        let mut bound = service.bound.lock();
        let at = bound.iter().position(|own| *own == handle)?;
        bound.remove(at);
    }
    let binding = take(cx, &ibcm.services.bindings, std::ptr::without_provenance::<c_void>(handle))?;
    ibcm.withdraw(&binding);
    Some(binding)
}
