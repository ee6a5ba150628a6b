//! `mod_install`, `mod_remove`, `mod_info`.

use std::ffi::{c_char, c_int, c_void};

use crate::cx::{Cx, cx};
use crate::errno::Errno;
use crate::export;
use crate::export::Export;
use crate::module::{MI_INFO_LINKAGE, ModInfo, Module};
use crate::rule::Rule;

const MODREV_1: c_int = 1;
const D_MP: c_int = 0x20;
/// Characters of a linkinfo string that are shown.
const LINKINFO: usize = 31;

/// Offsets in `struct dev_ops` and `struct cb_ops`.
const DEVO_REFCNT: usize = 4;
const DEVO_CB_OPS: usize = 56;
const CB_FLAG: usize = 112;

/// `struct modlinkage`.
#[repr(C)]
struct ModLinkage {
    ml_rev: c_int,
    ml_linkage: [*const c_void; 7],
}

/// The start of every `struct mod...`: `struct modldrv` goes on with the `dev_ops`.
#[repr(C)]
struct Linked {
    ops: *const c_void,
    linkinfo: *const c_char,
    dev_ops: *const c_void,
}

/// What an entry of the linkage is.
enum Kind {
    Driver { dev_ops: *const c_void },
    Misc,
}

pub(crate) fn exports() -> Vec<Export> {
    let mut exports = export! {
        UK: unchecked mod_install, unchecked mod_remove, unchecked mod_info;
    };
    // `struct mod_ops`: modules take the addresses only. The contents differ so that two of them never look alike in a dump.
    exports.push(Export::data("mod_driverops", &[1; 24]));
    exports.push(Export::data("mod_miscops", &[2; 24]));
    exports
}

fn entries(linkage: *const ModLinkage) -> Vec<*const Linked> {
    // SAFETY: a module passes its `struct modlinkage`; a wild pointer faults and is reported as the module's.
    let array = unsafe { (*linkage).ml_linkage };
    array.into_iter().take_while(|entry| !entry.is_null()).map(<*const c_void>::cast).collect()
}

fn kind_of(cx: &Cx, entry: *const Linked) -> Kind {
    // SAFETY: every linkage entry begins with the pointer to its `mod_ops`.
    let ops = unsafe { (*entry).ops };
    let driver = cx.kernel().data("mod_driverops").map(|p| p.addr());
    if Some(ops.addr()) != driver {
        return Kind::Misc;
    }
    // SAFETY: an entry with `mod_driverops` is a `struct modldrv`.
    Kind::Driver { dev_ops: unsafe { (*entry).dev_ops } }
}

/// Reads an `int` at `offset` of a kernel structure in module memory.
fn int_at(base: *const c_void, offset: usize) -> c_int {
    // SAFETY: the module gave the structure, which is larger than that; a wild pointer faults and is reported as the module's.
    unsafe { base.wrapping_byte_add(offset).cast::<c_int>().read_volatile() }
}

fn module_of(cx: &Cx, linkage: *const ModLinkage) -> Option<Module> {
    let modules = cx.kernel().modules();
    modules.into_iter().find(|m| m.0.state.lock().linkage == Some(linkage.addr()))
}

unsafe extern "C" fn mod_install(linkage: *const ModLinkage) -> c_int {
    install(&cx(), linkage).map_or_else(|error| error, |()| 0)
}

fn install(cx: &Cx, linkage: *const ModLinkage) -> Result<(), c_int> {
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

fn check_driver(cx: &Cx, linkage: *const ModLinkage, dev_ops: *const c_void) -> Result<(), c_int> {
    let Some(module) = module_of(cx, linkage) else { return Err(Errno::ENXIO.0) };
    if cx.kernel().major(module.name()).is_none() {
        return Err(Errno::ENXIO.0);
    }
    // SAFETY: `dev_ops` is a `struct dev_ops` of the module; the field is a pointer.
    let cb_ops = unsafe { dev_ops.wrapping_byte_add(DEVO_CB_OPS).cast::<*const c_void>().read_volatile() };
    if !cb_ops.is_null() && int_at(cb_ops, CB_FLAG) & D_MP == 0 {
        return Err(Errno::ENXIO.0);
    }
    let installed = module.dev_ops().is_some();
    cx.check(!installed, Rule::LinkageOrder, || "mod_install of a driver that is installed".to_owned());
    if installed { Err(Errno::EALREADY.0) } else { Ok(()) }
}

unsafe extern "C" fn mod_remove(linkage: *const ModLinkage) -> c_int {
    let cx = cx();
    let Some(module) = module_of(&cx, linkage).or_else(|| cx.module().cloned()) else {
        return Errno::EINVAL.0;
    };
    for entry in entries(linkage) {
        if let Kind::Driver { dev_ops } = kind_of(&cx, entry) {
            let other = module.dev_ops().is_some_and(|ops| ops.addr() != dev_ops.addr());
            if other || int_at(dev_ops, DEVO_REFCNT) != 0 {
                return Errno::EBUSY.0;
            }
        }
    }
    let mut state = module.0.state.lock();
    state.linked = false;
    state.dev_ops = None;
    0
}

unsafe extern "C" fn mod_info(linkage: *const ModLinkage, info: *mut ModInfo) -> c_int {
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
        let text = unsafe { (*entry).linkinfo };
        out.linkinfo = linkinfo(text);
        let module = cx.module().filter(|m| m.is_installed());
        out.p0 = match (kind_of(&cx, entry), module) {
            (Kind::Driver { .. }, Some(module)) => {
                cx.kernel().major(module.name()).map_or(-1, |major| major as c_int)
            }
            _ => -1,
        };
    }
    if info.mi_info == MI_INFO_LINKAGE {
        info.mi_base = linkage.expose_provenance();
    }
    1
}

fn linkinfo(text: *const c_char) -> [u8; 32] {
    let mut out = [0; 32];
    for (index, byte) in out.iter_mut().take(LINKINFO).enumerate() {
        // SAFETY: a C string of the module, read up to its NUL.
        let c = if text.is_null() { 0 } else { unsafe { text.add(index).read() } };
        if c == 0 {
            break;
        }
        *byte = c as u8;
    }
    out
}
