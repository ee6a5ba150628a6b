//! `mod_install`, `mod_remove`, `mod_info`.

use std::ffi::{c_char, c_int, c_void};

use illumos_sys_hdrs::{D_MP, MI_INFO_LINKAGE, MODREV_1, cb_ops, dev_ops, modinfo, modldrv, modlinkage};
use sim::Rule;

use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::errno::Errno;
use crate::loader::export::Export;
use crate::loader::module::Module;

/// Characters of a linkinfo string that are shown.
const LINKINFO: usize = 31;

/// What an entry of the linkage is.
enum Kind {
    Driver { dev_ops: *mut dev_ops },
    Misc,
}

pub(crate) fn exports() -> Vec<Export> {
    let mut exports = export! {
        UK: mod_install, mod_remove, mod_info;
    };
    // `struct mod_ops`: modules take the addresses only. The contents differ so that two of them never look alike in a dump.
    exports.push(Export::data("mod_driverops", &[1; 24]));
    exports.push(Export::data("mod_miscops", &[2; 24]));
    exports
}

/// The entries of a linkage. All begin as a `struct modldrv` does: operations, description.
fn entries(linkage: *mut modlinkage) -> Vec<*mut modldrv> {
    // SAFETY: a module passes its `struct modlinkage`; a wild pointer faults and is reported as the module's.
    let array = unsafe { (*linkage).ml_linkage };
    array.into_iter().take_while(|entry| !entry.is_null()).map(<*mut c_void>::cast).collect()
}

fn kind_of(cx: &Cx, entry: *mut modldrv) -> Kind {
    // SAFETY: every linkage entry begins with the pointer to its `mod_ops`.
    let ops = unsafe { (*entry).drv_modops };
    let driver = cx.kernel().data("mod_driverops").map(|p| p.addr());
    if Some(ops.addr()) != driver {
        return Kind::Misc;
    }
    // SAFETY: an entry with `mod_driverops` is a `struct modldrv`.
    Kind::Driver { dev_ops: unsafe { (*entry).drv_dev_ops } }
}

/// Does the driver allow several threads in its entry points?
fn is_mt_safe(ops: *mut dev_ops) -> bool {
    // SAFETY: `ops` is a `struct dev_ops` of the module.
    let cb: *mut cb_ops = unsafe { (*ops).devo_cb_ops };
    // SAFETY: not NULL, so the driver's `struct cb_ops`.
    cb.is_null() || unsafe { (*cb).cb_flag } & D_MP != 0
}

fn module_of(cx: &Cx, linkage: *mut modlinkage) -> Option<Module> {
    let modules = cx.kernel().modules();
    modules.into_iter().find(|m| m.0.state.lock().linkage == Some(linkage.addr()))
}

unsafe extern "C" fn mod_install(linkage: *mut modlinkage) -> c_int {
    install(&cx(), linkage).map_or_else(|error| error, |()| 0)
}

fn install(cx: &Cx, linkage: *mut modlinkage) -> Result<(), c_int> {
    // SAFETY: as in `entries`.
    let revision = unsafe { (*linkage).ml_rev };
    if revision != MODREV_1 {
        return Err(Errno::EINVAL.0);
    }
    let entries = entries(linkage);
    if entries.is_empty() {
        return Err(-1);
    }
    let mut dev_ops = None;
    for entry in entries {
        if let Kind::Driver { dev_ops: ops } = kind_of(cx, entry) {
            check_driver(cx, linkage, ops)?;
            dev_ops = Some(ops.expose_provenance());
        }
    }
    if let Some(module) = module_of(cx, linkage).or_else(|| cx.module().cloned()) {
        let mut state = module.0.state.lock();
        let twice = std::mem::replace(&mut state.linked, true);
        if dev_ops.is_some() {
            state.dev_ops = dev_ops;
        }
        drop(state);
        cx.check(!twice, Rule::LinkageOrder, || "mod_install twice without mod_remove".to_owned());
    }
    Ok(())
}

fn check_driver(cx: &Cx, linkage: *mut modlinkage, dev_ops: *mut dev_ops) -> Result<(), c_int> {
    let Some(module) = module_of(cx, linkage) else { return Err(Errno::ENXIO.0) };
    if cx.kernel().major(module.name()).is_none() {
        return Err(Errno::ENXIO.0);
    }
    if !is_mt_safe(dev_ops) {
        return Err(Errno::ENXIO.0);
    }
    let installed = module.dev_ops().is_some();
    cx.check(!installed, Rule::LinkageOrder, || "mod_install of a driver that is installed".to_owned());
    if installed { Err(Errno::EALREADY.0) } else { Ok(()) }
}

unsafe extern "C" fn mod_remove(linkage: *mut modlinkage) -> c_int {
    let cx = cx();
    let Some(module) = module_of(&cx, linkage).or_else(|| cx.module().cloned()) else {
        return Errno::EINVAL.0;
    };
    for entry in entries(linkage) {
        if let Kind::Driver { dev_ops } = kind_of(&cx, entry) {
            let other = module.dev_ops().is_some_and(|ops| ops.addr() != dev_ops.addr());
            // SAFETY: the module's `struct dev_ops`.
            let held = unsafe { (*dev_ops).devo_refcnt };
            if other || held != 0 {
                return Errno::EBUSY.0;
            }
        }
    }
    let mut state = module.0.state.lock();
    state.linked = false;
    state.dev_ops = None;
    0
}

unsafe extern "C" fn mod_info(linkage: *mut modlinkage, info: *mut modinfo) -> c_int {
    let cx = cx();
    // SAFETY: `_info` passes on the `struct modinfo` it was given.
    let info = unsafe { &mut *info };
    // SAFETY: as in `entries`.
    info.mi_rev = unsafe { (*linkage).ml_rev };
    if info.mi_rev != MODREV_1 {
        return 0;
    }
    for (entry, out) in entries(linkage).into_iter().zip(&mut info.mi_msinfo) {
        // SAFETY: every linkage entry has its linkinfo second.
        let text = unsafe { (*entry).drv_linkinfo };
        out.msi_linkinfo = linkinfo(text);
        let module = cx.module().filter(|m| m.is_installed());
        out.msi_p0 = match (kind_of(&cx, entry), module) {
            (Kind::Driver { .. }, Some(module)) => {
                cx.kernel().major(module.name()).map_or(-1, |major| major as c_int)
            }
            _ => -1,
        };
    }
    if info.mi_info == MI_INFO_LINKAGE {
        info.mi_base = linkage.cast();
    }
    1
}

fn linkinfo(text: *const c_char) -> [c_char; 32] {
    let mut out = [0; 32];
    for (index, byte) in out.iter_mut().take(LINKINFO).enumerate() {
        if text.is_null() {
            break;
        }
        // SAFETY: a C string of the module, read up to its NUL.
        let c = unsafe { text.wrapping_add(index).read() };
        if c == 0 {
            break;
        }
        *byte = c;
    }
    out
}
