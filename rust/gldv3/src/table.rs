//! The callback table and its trampolines.
//!
//! Promises of the framework, common to all: `driver` is the pointer given to `mac_register`, and no callback runs
//! before that call or after a successful `mac_unregister`.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;

use illumos_sys_hdrs as sys;
use kernel::mblk::MblkChain;
use kernel::user::Cred;
use kernel::{Errno, MayBlock};

use crate::property::{PropertyBuffer, PropertyId, PropertyInfo, PropertyValue};
use crate::provider::Provider;
use crate::registration::Link;
use crate::stat::Stat;
use crate::stream_ioctl;

/// The table of a provider type, in memory that lasts as long as the module: the framework keeps the pointer.
pub(crate) trait Callbacks {
    const TABLE: sys::mac_callbacks_t;
    /// The same for a link with rings: addresses are its receive group's business, and the framework insists.
    const RING_TABLE: sys::mac_callbacks_t;
}

impl<P: Provider> Callbacks for P {
    const TABLE: sys::mac_callbacks_t = sys::mac_callbacks_t {
        mc_callbacks: (sys::MC_IOCTL
            | sys::MC_GETCAPAB
            | sys::MC_SETPROP
            | sys::MC_GETPROP
            | sys::MC_PROPINFO) as sys::uint_t,
        mc_getstat: Some(getstat::<P>),
        mc_start: Some(start::<P>),
        mc_stop: Some(stop::<P>),
        mc_setpromisc: Some(setpromisc::<P>),
        mc_multicst: Some(multicst::<P>),
        mc_unicst: Some(unicst::<P>),
        mc_tx: Some(tx::<P>),
        mc_reserved: ptr::null_mut(),
        mc_ioctl: Some(ioctl::<P>),
        mc_getcapab: Some(getcapab::<P>),
        mc_open: None,
        mc_close: None,
        mc_setprop: Some(setprop::<P>),
        mc_getprop: Some(getprop::<P>),
        mc_propinfo: Some(propinfo::<P>),
    };
    const RING_TABLE: sys::mac_callbacks_t = sys::mac_callbacks_t { mc_unicst: None, ..Self::TABLE };
}

/// # Safety
///
/// The framework's promises above.
unsafe fn link<'a, P: Provider>(driver: *mut c_void) -> &'a Link<P> {
    // SAFETY: the pointer given to mac_register; the registration keeps the link until mac_unregister succeeds.
    unsafe { &*driver.cast() }
}

/// # Safety
///
/// The framework's promises above; `value` is writable.
unsafe extern "C" fn getstat<P: Provider>(driver: *mut c_void, stat: sys::uint_t, value: *mut u64) -> c_int {
    // SAFETY: the framework's promises.
    let link = unsafe { link::<P>(driver) };
    let Some(found) = Stat::from_raw(stat).and_then(|stat| link.provider.stat(stat)) else {
        return Errno::ENOTSUP.get();
    };
    // SAFETY: the framework's promises.
    unsafe { value.write(found) };
    0
}

/// # Safety
///
/// The framework's promises above; in the perimeter, may block.
unsafe extern "C" fn start<P: Provider>(driver: *mut c_void) -> c_int {
    // SAFETY: the framework's promises.
    Errno::raw(unsafe { link::<P>(driver) }.start())
}

/// # Safety
///
/// As for [`start`].
unsafe extern "C" fn stop<P: Provider>(driver: *mut c_void) {
    // SAFETY: the framework's promises.
    unsafe { link::<P>(driver) }.stop();
}

/// # Safety
///
/// As for [`start`].
unsafe extern "C" fn setpromisc<P: Provider>(driver: *mut c_void, on: sys::boolean_t) -> c_int {
    // SAFETY: the framework's promises.
    let link = unsafe { link::<P>(driver) };
    Errno::raw(link.provider.set_promiscuous(on != sys::B_FALSE))
}

/// # Safety
///
/// As for [`start`]; `address` points at 20 bytes of any alignment, for the length of the call.
unsafe extern "C" fn multicst<P: Provider>(
    driver: *mut c_void,
    add: sys::boolean_t,
    address: *const u8,
) -> c_int {
    // SAFETY: the framework's promises.
    let link = unsafe { link::<P>(driver) };
    // SAFETY: 20 readable bytes.
    let address = unsafe { &*address.cast() };
    Errno::raw(link.provider.multicast(add != sys::B_FALSE, address))
}

/// # Safety
///
/// As for [`multicst`].
unsafe extern "C" fn unicst<P: Provider>(driver: *mut c_void, address: *const u8) -> c_int {
    // SAFETY: the framework's promises.
    let link = unsafe { link::<P>(driver) };
    // SAFETY: 20 readable bytes.
    Errno::raw(link.provider.set_address(unsafe { &*address.cast() }))
}

/// # Safety
///
/// The framework's promises above; `message` is an `M_IOCTL` given up, `queue` where it is answered. May block.
unsafe extern "C" fn ioctl<P: Provider>(
    driver: *mut c_void,
    queue: *mut sys::queue_t,
    message: *mut sys::mblk_t,
) {
    // SAFETY: the framework's promises.
    let link = unsafe { link::<P>(driver) };
    let provider =
        |command, argument: &mut [u8], cred: Cred<'_>| link.provider.ioctl(command, argument, cred);
    // SAFETY: the framework's promises.
    unsafe { stream_ioctl::answer(queue, message, provider) };
}

/// # Safety
///
/// The framework's promises above; `chain` is given up, except for what is returned.
unsafe extern "C" fn tx<P: Provider>(driver: *mut c_void, chain: *mut sys::mblk_t) -> *mut sys::mblk_t {
    // SAFETY: the framework's promises.
    let link = unsafe { link::<P>(driver) };
    // SAFETY: given up by the framework.
    let packets = unsafe { MblkChain::from_raw(chain) };
    link.provider.transmit(packets).into_raw()
}

/// # Safety
///
/// The framework's promises above; `data` is what the capability asks for.
unsafe extern "C" fn getcapab<P: Provider>(
    driver: *mut c_void,
    capability: sys::mac_capab_t,
    data: *mut c_void,
) -> sys::boolean_t {
    // SAFETY: the framework's promises.
    let link = unsafe { link::<P>(driver) };
    if data.is_null() {
        return sys::B_FALSE;
    }
    match capability {
        sys::MAC_CAPAB_HCKSUM => {
            let Some(offload) = link.provider.checksum_offload() else { return sys::B_FALSE };
            // SAFETY: this capability's data is a u32, or begins with one in newer trees.
            unsafe { data.cast::<u32>().write(offload.raw()) };
        }
        sys::MAC_CAPAB_LSO => {
            let Some(max) = link.provider.large_send() else { return sys::B_FALSE };
            let offer = sys::mac_capab_lso_t {
                lso_flags: sys::LSO_TX_BASIC_TCP_IPV4 as _,
                lso_basic_tcp_ipv4: sys::lso_basic_tcp_ipv4_s { lso_max: max },
            };
            // SAFETY: this capability's data is such a record; newer trees append to it.
            unsafe { data.cast::<sys::mac_capab_lso_t>().write(offer) };
        }
        sys::MAC_CAPAB_RINGS => {
            let asked: *mut sys::mac_capab_rings_t = data.cast();
            // SAFETY: this capability's data is such a record with the type filled in.
            let kind = unsafe { (*asked).mr_type };
            let Some(rings) = link.rings.as_ref().and_then(|rings| rings.capability(kind)) else {
                return sys::B_FALSE;
            };
            // SAFETY: as above.
            unsafe { asked.write(rings) };
        }
        _ => return sys::B_FALSE,
    }
    sys::B_TRUE
}

/// # Safety
///
/// `name` is NULL or a string that outlives `'a`.
unsafe fn property<'a>(id: sys::mac_prop_id_t, name: *const c_char) -> PropertyId<'a> {
    // SAFETY: by this function's contract.
    let name = if name.is_null() { c"" } else { unsafe { CStr::from_ptr(name) } };
    PropertyId::new(id, name)
}

/// # Safety
///
/// As for [`start`]; `name` is a string, `value` has `size` readable bytes or is NULL.
unsafe extern "C" fn setprop<P: Provider>(
    driver: *mut c_void,
    name: *const c_char,
    id: sys::mac_prop_id_t,
    size: sys::uint_t,
    value: *const c_void,
) -> c_int {
    // SAFETY: the framework's promises.
    let link = unsafe { link::<P>(driver) };
    // SAFETY: the framework's promises.
    let id = unsafe { property(id, name) };
    let bytes = if value.is_null() {
        &[]
    } else {
        // SAFETY: `size` readable bytes during the call.
        unsafe { core::slice::from_raw_parts(value.cast::<u8>(), size as usize) }
    };
    // SAFETY: in the perimeter, where sleeping is legal, for this call.
    let may_block = unsafe { MayBlock::new() };
    Errno::raw(link.provider.set_property(id, PropertyValue(bytes), &may_block))
}

/// # Safety
///
/// As for [`start`]; `name` is a string, `value` has room for `size` bytes, which are zero.
unsafe extern "C" fn getprop<P: Provider>(
    driver: *mut c_void,
    name: *const c_char,
    id: sys::mac_prop_id_t,
    size: sys::uint_t,
    value: *mut c_void,
) -> c_int {
    // SAFETY: the framework's promises.
    let link = unsafe { link::<P>(driver) };
    // SAFETY: the framework's promises.
    let id = unsafe { property(id, name) };
    if value.is_null() {
        return Errno::ENOBUFS.get();
    }
    // SAFETY: `size` bytes, the framework's, ours during the call.
    let room = unsafe { core::slice::from_raw_parts_mut(value.cast::<u8>(), size as usize) };
    Errno::raw(link.provider.get_property(id, &mut PropertyBuffer(room)))
}

/// # Safety
///
/// As for [`start`]; `name` is a string, `handle` is good during the call.
unsafe extern "C" fn propinfo<P: Provider>(
    driver: *mut c_void,
    name: *const c_char,
    id: sys::mac_prop_id_t,
    handle: sys::mac_prop_info_handle_t,
) {
    // SAFETY: the framework's promises.
    let link = unsafe { link::<P>(driver) };
    // SAFETY: the framework's promises.
    let id = unsafe { property(id, name) };
    // SAFETY: used during the callback only.
    let mut info = unsafe { PropertyInfo::new(handle) };
    link.provider.property_info(id, &mut info);
}
