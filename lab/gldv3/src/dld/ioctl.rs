//! `dld_ioc_register` and the dispatcher.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use fakekernel::genunix::{Cred, UserBuffer};
use fakekernel::{Ctx, EntryKind, Errno, Export, FaultKind, HostMutex, Kernel, cx, export};
use illumos_sys_hdrs::{dld_ioc_info_t, uint_t};

pub(crate) fn exports() -> Vec<Export> {
    export! { UK: dld_ioc_register, dld_ioc_unregister; }
}

/// The modules that may have ioctls: number and name, as the kernel's table has them.
const TABLE: [(u16, &str); 7] = [
    (0x0d1d, "dld"),
    (0x0a66, "aggr"),
    (0x0171, "vnic"),
    (0x5132, "simnet"),
    (0xb81d, "bridge"),
    (0x454a, "iptun"),
    (0x6171, "ibp"),
];

const COPY_IN: u32 = 1;
const COPY_OUT: u32 = 2;
/// The caller's data model: LP64.
const NATIVE: c_int = 0x0020_0000;
const ARGUMENT: &str = "dld ioctl argument";

/// What drivers have registered, by module number.
#[derive(Debug)]
pub(crate) struct Ioctls {
    lists: HostMutex<BTreeMap<u16, List>>,
}

/// A driver's list, kept by reference.
#[derive(Clone, Copy, Debug)]
struct List {
    addr: usize,
    count: usize,
}

impl Ioctls {
    fn of(kernel: &Kernel) -> Arc<Self> {
        kernel.state(|| Self { lists: HostMutex::new(BTreeMap::new()) })
    }
}

unsafe extern "C" fn dld_ioc_register(module: u16, list: *mut dld_ioc_info_t, count: uint_t) -> c_int {
    let cx = cx();
    cx.may_block();
    if !TABLE.iter().any(|(known, _)| *known == module) {
        return Errno::ENOENT.0;
    }
    let ioctls = Ioctls::of(cx.kernel());
    if list.is_null() {
        ioctls.lists.lock().remove(&module);
        cx.kernel().resources().remove("dld ioctls", module.into());
    } else {
        let kept = List { addr: list.expose_provenance(), count: count as usize };
        ioctls.lists.lock().insert(module, kept);
        cx.kernel().resources().add("dld ioctls", module.into(), format!("{count} commands of {module:#x}"));
    }
    0
}

unsafe extern "C" fn dld_ioc_unregister(module: u16) {
    // SAFETY: a null list takes the registration back.
    let failed = unsafe { dld_ioc_register(module, ptr::null_mut(), 0) };
    if failed != 0 {
        cx().panic(format!("VERIFY(dld_ioc_register(modid, NULL, 0) == 0) for {module:#x}"));
    }
}

/// The registered entry for a command.
///
/// # Errors
///
/// ENOTSUP for a module or command nobody knows; ENODEV when the driver is not there or has no list.
fn find(kernel: &Kernel, command: u32) -> Result<dld_ioc_info_t, Errno> {
    let module = (command >> 16) as u16;
    let (_, driver) = TABLE.iter().find(|(known, _)| *known == module).ok_or(Errno::ENOTSUP)?;
    if !kernel.module(driver).is_some_and(|module| module.is_installed()) {
        return Err(Errno::ENODEV);
    }
    let list = Ioctls::of(kernel).lists.lock().get(&module).copied().ok_or(Errno::ENODEV)?;
    let first: *const dld_ioc_info_t = ptr::with_exposed_provenance(list.addr);
    let entries = (0..list.count).map(|at| {
        // SAFETY: dld_ioc_register: that many entries in the driver's data, and the driver is installed.
        unsafe { first.wrapping_add(at).read() }
    });
    entries.into_iter().find(|entry| entry.di_cmd == command).ok_or(Errno::ENOTSUP)
}

/// An ioctl by a process with these credentials; the argument is its memory.
///
/// # Errors
///
/// The dispatcher's, or what the driver returned; the argument may have been written all the same.
pub(crate) fn ioctl(kernel: &Kernel, cred: Cred, command: u32, argument: &mut [u8]) -> Result<i32, Errno> {
    let entry = find(kernel, command)?;
    let user = UserBuffer::new(kernel, argument);
    let result = kernel.with_cred(cred, |cred| {
        if let Some(privilege) = entry.di_priv_func {
            // SAFETY: the driver's own check, on credentials that are valid during the call.
            let refused =
                unsafe { kernel.enter(privilege, (cred.cast_const(),), EntryKind::callback("di_priv_func")) };
            Errno::check(refused)?;
        }
        dispatch(kernel, &entry, &user, cred)
    });
    argument.copy_from_slice(&user.content());
    result
}

fn dispatch(
    kernel: &Kernel,
    entry: &dld_ioc_info_t,
    user: &UserBuffer,
    cred: *mut illumos_sys_hdrs::cred_t,
) -> Result<i32, Errno> {
    let cx = cx();
    if cx.fault(FaultKind::KMEM) {
        return Err(Errno::ENOMEM);
    }
    let genunix = kernel.genunix();
    let buffer: *mut c_void = genunix.lend_structure(&cx, entry.di_argsize.max(1), ARGUMENT);
    let copied =
        if entry.di_flags & COPY_IN != 0 { genunix.copy_in(user, buffer, entry.di_argsize) } else { Ok(()) };
    let result = copied.and_then(|()| {
        let result = call(kernel, entry, user, cred, buffer);
        let out = if entry.di_flags & COPY_OUT != 0 {
            genunix.copy_out(user, buffer, entry.di_argsize)
        } else {
            Ok(())
        };
        // The copy is made after an error too, and its own failure tells only when there was none.
        result.and_then(|value| out.map(|()| value))
    });
    genunix.return_structure(&cx, buffer, ARGUMENT);
    result
}

fn call(
    kernel: &Kernel,
    entry: &dld_ioc_info_t,
    user: &UserBuffer,
    cred: *mut illumos_sys_hdrs::cred_t,
    buffer: *mut c_void,
) -> Result<i32, Errno> {
    let f = entry.di_func.ok_or(Errno::ENOTSUP)?;
    let mut value: c_int = 0;
    let args = (buffer, user.as_ptr().addr() as isize, NATIVE, cred, &raw mut value);
    // SAFETY: the driver registered this function for an argument of this size; the buffer and the credentials are valid during
    // the call, and the value has a place.
    let failed = unsafe { kernel.enter(f, args, EntryKind::callback_in("dld ioctl", Ctx::User)) };
    Errno::check(failed).map(|()| value)
}
