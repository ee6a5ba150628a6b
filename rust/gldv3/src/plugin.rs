//! MAC-type plugins: the addresses and headers of one media type (`sys/mac.h`, `mactype_ops_t`).

use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt::{self, Write};
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};

use illumos_sys_hdrs as sys;
use kernel::mblk::Mblk;
use kernel::module::Pin;
use kernel::sync::Mutex;
use kernel::{Errno, MayBlock};

use crate::stat::Stat;
use crate::{ADDRESS_LEN, Address};

/// The rules of a media type.
///
/// All functions are called by any thread in any context, several at once and per packet, except
/// [`Plugin::link_details`]; none of those may block, or keep anything. Drivers of this media type have no plugin
/// data (`m_pdata` is NULL).
pub trait Plugin: 'static {
    /// The type's name, by which drivers ask for it and under which the module is found (`mac/<ident>`).
    const IDENT: &'static CStr;
    /// `DL_*` of `sys/dlpi.h`, the media type and the native one.
    const MEDIA: u32;
    /// The broadcast address the framework announces.
    const BROADCAST: Address;

    /// Whether `address` may be a station's own.
    fn is_unicast(address: &Address) -> bool;

    /// Whether `address` is a group that may be joined. The broadcast address is not: the framework handles it.
    fn is_multicast(address: &Address) -> bool;

    /// The SAP under which packets for a stream bound to `sap` are found; `None` if nothing may bind to `sap`.
    fn bind_sap(sap: u32) -> Option<u32>;

    /// A header for a packet to `destination`, with `extra` bytes of room behind it. `None` for a bad SAP or without
    /// memory.
    fn header(destination: &Address, sap: u32, extra: usize) -> Option<Mblk>;

    /// Reads the header at the start of a packet's first block; `None` if it is too short.
    fn header_info(first_block: &[u8]) -> Option<HeaderInfo>;

    /// From the form a raw-mode program writes to the form drivers send. On failure the same message goes back.
    fn cook(packet: Mblk) -> Result<Mblk, Mblk>;

    /// From the form drivers receive to the form a raw-mode program reads. Must return the message it got.
    fn uncook(packet: Mblk) -> Mblk;

    /// What the log says about a link that came up (`8000 Mbps`). **May block.**
    fn link_details(link: &LinkStats, text: &mut dyn fmt::Write) -> fmt::Result;
}

/// What [`Plugin::header_info`] finds; positions are bytes from the start of the first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderInfo {
    /// Length of the header.
    pub header_len: usize,
    /// Where the destination address stands.
    pub destination: usize,
    /// Where the source address stands, if there is one.
    pub source: Option<usize>,
    /// The protocol.
    pub sap: u32,
    /// What kind of destination it is.
    pub class: DestinationClass,
}

/// Who a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum DestinationClass {
    Unicast,
    Multicast,
    Broadcast,
}

impl DestinationClass {
    fn raw(self) -> sys::mac_addrtype_t {
        match self {
            Self::Unicast => sys::MAC_ADDRTYPE_UNICAST,
            Self::Multicast => sys::MAC_ADDRTYPE_MULTICAST,
            Self::Broadcast => sys::MAC_ADDRTYPE_BROADCAST,
        }
    }
}

/// The statistics of a link whose details are asked for.
pub struct LinkStats(sys::mac_handle_t);

impl LinkStats {
    /// What the link's driver answers; 0 if it has no such statistic. **May block.**
    pub fn get(&self, stat: Stat) -> u64 {
        // SAFETY: the framework keeps the link during the callback this value belongs to.
        unsafe { sys::mac_stat_get(self.0, stat as sys::uint_t) }
    }
}

/// A plugin the framework knows. The module stays loaded until [`PluginRegistration::unregister`] has succeeded.
pub struct PluginRegistration<P: Plugin> {
    /// Until the framework has no pointers into the module any more.
    registered: Mutex<Option<Pin>>,
    plugin: PhantomData<fn() -> P>,
}

impl<P: Plugin> PluginRegistration<P> {
    /// Makes the media type known (`mactype_register`). `EEXIST` if it is already. From `_init`. **May block.**
    pub fn register(may_block: &MayBlock) -> Result<Self, Errno> {
        let registered = Mutex::new_waiting(Some(Pin::new()), may_block);
        // SAFETY: allocates a record, or answers NULL to a version it does not know.
        let record = unsafe { sys::mactype_alloc(sys::MACTYPE_VERSION as sys::uint_t) };
        let record = NonNull::new(record).ok_or(Errno::ENOTSUP)?;
        let mut ops = Self::ops();
        let mut broadcast = P::BROADCAST;
        {
            // SAFETY: the framework's record is ours until it is freed below.
            let record = unsafe { &mut *record.as_ptr() };
            record.mtr_ident = P::IDENT.as_ptr();
            record.mtr_ops = &mut ops;
            record.mtr_mactype = P::MEDIA;
            record.mtr_nativetype = P::MEDIA;
            record.mtr_addrlen = ADDRESS_LEN as sys::uint_t;
            record.mtr_brdcst_addr = broadcast.as_mut_ptr();
        }
        // SAFETY: complete; ops and broadcast address are copied, the ident is static.
        let result = unsafe { sys::mactype_register(record.as_ptr()) };
        // SAFETY: allocated above; the caller frees it, whatever the result.
        unsafe { sys::mactype_free(record.as_ptr()) };
        Errno::check(result)?;
        Ok(Self { registered, plugin: PhantomData })
    }

    /// Takes the media type back; `EBUSY` while a link of it is registered. From
    /// [`kernel::module::Module::prepare_unload`]. **May block.**
    pub fn unregister(&self) -> Result<(), Errno> {
        let mut registered = self.registered.lock();
        if registered.is_some() {
            // SAFETY: the ident is static.
            Errno::check(unsafe { sys::mactype_unregister(P::IDENT.as_ptr()) })?;
            *registered = None;
        }
        Ok(())
    }

    fn ops() -> sys::mactype_ops_t {
        sys::mactype_ops_t {
            mtops_ops: sys::MTOPS_HEADER_COOK | sys::MTOPS_HEADER_UNCOOK | sys::MTOPS_LINK_DETAILS,
            mtops_unicst_verify: Some(unicst_verify::<P>),
            mtops_multicst_verify: Some(multicst_verify::<P>),
            mtops_sap_verify: Some(sap_verify::<P>),
            mtops_header: Some(header::<P>),
            mtops_header_info: Some(header_info::<P>),
            mtops_pdata_verify: None,
            mtops_header_cook: Some(cook::<P>),
            mtops_header_uncook: Some(uncook::<P>),
            mtops_link_details: Some(link_details::<P>),
        }
    }
}

impl<P: Plugin> Drop for PluginRegistration<P> {
    /// For a module that could not be installed, where nobody can use the type yet: `_fini` does not come here before
    /// [`PluginRegistration::unregister`] has succeeded.
    fn drop(&mut self) {
        let _ = self.unregister();
    }
}

// The operations. The framework's promises, common to all of them: addresses point at 20 readable bytes (of any
// alignment), messages are live, `pdata` is NULL.

fn verdict(ok: bool) -> c_int {
    if ok { 0 } else { Errno::EINVAL.get() }
}

/// # Safety
///
/// The framework's promises above.
unsafe extern "C" fn unicst_verify<P: Plugin>(address: *const c_void, _pdata: *mut c_void) -> c_int {
    // SAFETY: 20 readable bytes.
    verdict(P::is_unicast(unsafe { &*address.cast() }))
}

/// # Safety
///
/// The framework's promises above.
unsafe extern "C" fn multicst_verify<P: Plugin>(address: *const c_void, _pdata: *mut c_void) -> c_int {
    // SAFETY: 20 readable bytes.
    verdict(P::is_multicast(unsafe { &*address.cast() }))
}

/// # Safety
///
/// The framework's promises above; `bind_sap` is NULL or writable.
unsafe extern "C" fn sap_verify<P: Plugin>(
    sap: u32,
    bind_sap: *mut u32,
    _pdata: *mut c_void,
) -> sys::boolean_t {
    let Some(found) = P::bind_sap(sap) else { return sys::B_FALSE };
    if !bind_sap.is_null() {
        // SAFETY: writable if not NULL.
        unsafe { bind_sap.write(found) };
    }
    sys::B_TRUE
}

/// # Safety
///
/// The framework's promises above.
unsafe extern "C" fn header<P: Plugin>(
    _source: *const c_void,
    destination: *const c_void,
    sap: u32,
    _pdata: *mut c_void,
    _payload: *mut sys::mblk_t,
    extra: usize,
) -> *mut sys::mblk_t {
    // SAFETY: 20 readable bytes.
    let destination = unsafe { &*destination.cast() };
    P::header(destination, sap, extra).map_or(ptr::null_mut(), Mblk::into_raw)
}

/// # Safety
///
/// The framework's promises above; `info` is writable. The message stays the framework's.
unsafe extern "C" fn header_info<P: Plugin>(
    mp: *mut sys::mblk_t,
    _pdata: *mut c_void,
    info: *mut sys::mac_header_info_t,
) -> c_int {
    // SAFETY: a live message, looked at for the length of this call and never dropped here.
    let packet = ManuallyDrop::new(unsafe { Mblk::from_raw(mp) });
    let Some(packet) = packet.as_ref() else { return Errno::EINVAL.get() };
    let bytes = packet.first();
    let Some((found, addresses)) =
        P::header_info(bytes).and_then(|found| Some((found, locate(bytes, found)?)))
    else {
        return Errno::EINVAL.get();
    };
    // SAFETY: the framework's record; nobody else has it during the call.
    let info = unsafe { &mut *info };
    info.mhi_hdrsize = found.header_len;
    info.mhi_pktsize = 0;
    (info.mhi_daddr, info.mhi_saddr) = addresses;
    info.mhi_origsap = found.sap;
    info.mhi_bindsap = found.sap;
    info.mhi_dsttype = found.class.raw();
    0
}

/// Where in the block the addresses are; `None` if they do not lie inside it.
fn locate(bytes: &[u8], found: HeaderInfo) -> Option<(*const u8, *const u8)> {
    let at = |start: usize| bytes.get(start..start.checked_add(ADDRESS_LEN)?).map(<[u8]>::as_ptr);
    let source = match found.source {
        Some(start) => at(start)?,
        None => ptr::null(),
    };
    Some((at(found.destination)?, source))
}

/// # Safety
///
/// The framework's promises above; the message is given up on success only, and its buffer is not shared.
unsafe extern "C" fn cook<P: Plugin>(mp: *mut sys::mblk_t, _pdata: *mut c_void) -> *mut sys::mblk_t {
    // SAFETY: a complete message.
    let Some(packet) = (unsafe { Mblk::from_raw(mp) }) else { return ptr::null_mut() };
    match P::cook(packet) {
        Ok(cooked) => cooked.into_raw(),
        Err(packet) => {
            // Still the caller's.
            let _ = packet.into_raw();
            ptr::null_mut()
        }
    }
}

/// # Safety
///
/// As for [`cook`].
unsafe extern "C" fn uncook<P: Plugin>(mp: *mut sys::mblk_t, _pdata: *mut c_void) -> *mut sys::mblk_t {
    // SAFETY: a complete message.
    let Some(packet) = (unsafe { Mblk::from_raw(mp) }) else { return ptr::null_mut() };
    P::uncook(packet).into_raw()
}

/// # Safety
///
/// `text` has room for `len` bytes; the link is held by the caller.
unsafe extern "C" fn link_details<P: Plugin>(
    text: *mut c_char,
    len: usize,
    link: sys::mac_handle_t,
    _pdata: *mut c_void,
) {
    if text.is_null() || len == 0 {
        return;
    }
    // SAFETY: the framework's buffer, ours for the call. It may be uninitialised, hence filled before it is borrowed.
    unsafe { text.write_bytes(0, len) };
    // SAFETY: as above.
    let buffer = unsafe { core::slice::from_raw_parts_mut(text.cast::<u8>(), len) };
    // Details that do not fit are cut.
    let _ = P::link_details(&LinkStats(link), &mut Text { buffer, len: 0 });
}

/// Text into a buffer of zeros whose last byte stays zero.
pub(crate) struct Text<'a> {
    pub(crate) buffer: &'a mut [u8],
    pub(crate) len: usize,
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.buffer.len().saturating_sub(1).saturating_sub(self.len);
        let taken = text.len().min(room);
        if let (Some(to), Some(from)) =
            (self.buffer.get_mut(self.len..self.len + taken), text.as_bytes().get(..taken))
        {
            to.copy_from_slice(from);
            self.len += taken;
        }
        if taken == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}
