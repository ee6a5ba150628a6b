//! Credentials: opaque to modules, a zone and a privilege to the lab.

use std::ffi::c_int;
use std::sync::Arc;

use illumos_sys_hdrs::{cred_t, gid_t, uid_t, zoneid_t};

use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::errno::Errno;
use crate::loader::export::Export;
use crate::loader::handles::Handles;
use crate::loader::kernel::Kernel;

pub(super) fn exports() -> Vec<Export> {
    export! {
        UK: secpolicy_dl_config, drv_priv;
        ANY: crgetzoneid, crgetuid, crgetgid;
    }
}

/// What a process may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// Everything.
    All,
    /// Nothing beyond any user's.
    Basic,
}

/// Who a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cred {
    /// User and group id.
    pub id: u32,
    /// Zone; 0 is the global one.
    pub zone: i32,
    /// Privilege.
    pub privilege: Privilege,
}

impl Cred {
    /// Root in the global zone.
    pub const ROOT: Self = Self { id: 0, zone: 0, privilege: Privilege::All };
    /// Nobody in particular in the global zone.
    pub const USER: Self = Self { id: 100, zone: 0, privilege: Privilege::Basic };
}

/// The credentials of a host.
#[derive(Debug)]
pub(crate) struct Creds {
    live: Handles<Cred>,
}

impl Creds {
    pub(super) fn new() -> Self {
        Self { live: Handles::new("cred_t") }
    }
}

impl Kernel {
    /// Runs `f` with a pointer to these credentials as modules know them; stale afterwards.
    pub fn with_cred<R>(&self, cred: Cred, f: impl FnOnce(*mut cred_t) -> R) -> R {
        let genunix = self.genunix();
        let handle = genunix.creds.live.insert(cred);
        let result = f(handle.cast());
        // It was inserted above and modules cannot remove it.
        drop(genunix.creds.live.remove(handle));
        result
    }
}

fn find(cx: &Cx, cred: *const cred_t) -> Arc<Cred> {
    match cx.kernel().genunix().creds.live.get(cred) {
        Ok(cred) => cred,
        Err(error) => cx.panic(format!("BAD TRAP in {}: {error}", cx.call())),
    }
}

unsafe extern "C" fn crgetzoneid(cred: *const cred_t) -> zoneid_t {
    find(&cx(), cred).zone
}

unsafe extern "C" fn crgetuid(cred: *const cred_t) -> uid_t {
    find(&cx(), cred).id
}

unsafe extern "C" fn crgetgid(cred: *const cred_t) -> gid_t {
    find(&cx(), cred).id
}

fn privileged(cred: *const cred_t) -> c_int {
    let cx = cx();
    cx.may_block();
    if find(&cx, cred).privilege == Privilege::All { 0 } else { Errno::EPERM.0 }
}

unsafe extern "C" fn secpolicy_dl_config(cred: *const cred_t) -> c_int {
    privileged(cred)
}

unsafe extern "C" fn drv_priv(cred: *mut cred_t) -> c_int {
    privileged(cred)
}
