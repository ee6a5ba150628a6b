//! Rings: how packets of one link go up and down in several streams at once (`MAC_CAPAB_RINGS`).
//!
//! A link has one receive ring, in one group, and any number of transmit rings; never transmit rings alone, which the framework
//! refuses. It calls, each time in the perimeter: start of the link, of transmit ring 0, of the group, of the receive ring; then,
//! once somebody uses the link, the group takes the link's address and the other transmit rings start. The way back is the same.
//!
//! From the receive ring packets come up as from a link without one, until the framework has more of them than it can handle. Then
//! it switches the ring's interrupt off and fetches packets when it likes; once it has caught up it switches the interrupt on.
//!
//! What it is told about a link's address it takes from [`Perimeter::address_update`](crate::Perimeter::address_update), as it does without
//! rings, and does not tell the group: the group goes on with the one it took. It takes another when the link is used again.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use illumos_sys_hdrs as sys;
use kernel::mblk::MblkChain;
use kernel::{Errno, KVec, MayBlock};

use crate::Address;
use crate::provider::Provider;
use crate::registration::Link;
use crate::stat::Stat;

/// Which run of a ring packets belong to: the framework counts how often it has stopped one, and frees what comes up late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(pub(crate) u64);

/// One ring of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ring {
    /// The receive ring.
    Receive,
    /// A transmit ring, from 0.
    Transmit(usize),
}

/// What a driver does for a link with rings, beside [`Provider`]. The link's transmit rings replace [`Provider::transmit`].
pub trait RingProvider: Provider {
    /// The receive ring starts: what is taken from now on goes up with this generation
    /// ([`Mac::receive_on_ring`](crate::Mac::receive_on_ring)). After [`Provider::start`], with its interrupt on. **Perimeter.**
    fn receive_ring_start(&self, generation: Generation);

    /// The receive ring stops: when this returns nothing goes up any more. Before [`Provider::stop`]. **Perimeter.**
    fn receive_ring_stop(&self);

    /// Switches the ring's interrupt on or off.
    ///
    /// Off: what was taken before may still go up, nothing that is taken later. On: what has come in meanwhile must go up, whether
    /// or not anything follows it. Called from **any** context with a lock of the framework's held, perhaps on a thread that is
    /// just handing packets up: no upcall, no waiting.
    fn receive_interrupt(&self, on: bool);

    /// Takes packets, while the interrupt is off: at most `bytes` of them, 44 bytes of header and the payload counted. None means
    /// that there are none, or that the next one is too long. No upcall. A thread of the framework's; no lock is held.
    fn poll(&self, bytes: usize) -> MblkChain;

    /// Whether packets for a unicast address come in on the ring. A refusal makes the framework switch the link to promiscuous
    /// mode instead, for as long as the address is used. **Perimeter.**
    fn address(&self, add: bool, address: &Address) -> Result<(), Errno>;

    /// As [`Provider::transmit`] on one ring; the promise is [`Mac::transmit_ring_ready`](crate::Mac::transmit_ring_ready).
    /// Packets of one flow come on one ring.
    fn transmit_on_ring(&self, ring: usize, packets: MblkChain) -> MblkChain;

    /// A statistic of one ring (octets and packets); `None` if the driver has no such thing. As [`Provider::stat`].
    fn ring_stat(&self, ring: Ring, stat: Stat) -> Option<u64>;
}

/// The rings of a registered link.
pub(crate) struct Rings<P> {
    receive: &'static Calls,
    transmit: KVec<TransmitRing<P>>,
}

/// Entry points for one type of provider.
struct Calls {
    get_ring: sys::mac_get_ring_t,
    get_group: sys::mac_get_group_t,
}

/// What the framework's pointer to a transmit ring points at.
pub(crate) struct TransmitRing<P> {
    link: AtomicPtr<Link<P>>,
    index: usize,
}

trait RingCalls {
    const CALLS: Calls;
}

impl<P: RingProvider> RingCalls for P {
    const CALLS: Calls = Calls { get_ring: Some(get_ring::<P>), get_group: Some(get_group::<P>) };
}

impl<P: Provider> Rings<P> {
    pub(crate) fn new(transmit: usize, may_block: &MayBlock) -> Self
    where
        P: RingProvider,
    {
        let ring = |index| TransmitRing { link: AtomicPtr::new(ptr::null_mut()), index };
        let transmit = KVec::from_fn_waiting(transmit, may_block, ring);
        Self { receive: const { &<P as RingCalls>::CALLS }, transmit }
    }

    /// Tells the rings where their link is, before the framework knows of it.
    pub(crate) fn belong_to(&self, link: *mut Link<P>) {
        self.transmit.iter().for_each(|ring| ring.link.store(link, Ordering::Release));
    }

    /// The answer to `MAC_CAPAB_RINGS` for one type; `None` if there are none of it.
    pub(crate) fn capability(&self, kind: sys::mac_ring_type_t) -> Option<sys::mac_capab_rings_t> {
        // One group of one ring; or rings without a group, of which the framework makes groups as it needs them.
        let (rings, groups) = match kind {
            sys::MAC_RING_TYPE_RX => (1, 1),
            sys::MAC_RING_TYPE_TX if !self.transmit.is_empty() => (self.transmit.len(), 0),
            _ => return None,
        };
        Some(sys::mac_capab_rings_t {
            mr_type: kind,
            mr_group_type: sys::MAC_GROUP_TYPE_STATIC,
            mr_rnum: rings as sys::uint_t,
            mr_gnum: groups,
            mr_rget: self.receive.get_ring,
            mr_gget: self.receive.get_group,
            mr_gaddring: None,
            mr_gremring: None,
        })
    }
}

/// # Safety
///
/// `driver` is what `mac_register` was given, and the link is registered or being registered.
unsafe fn link<'a, P: Provider>(driver: *mut c_void) -> &'a Link<P> {
    // SAFETY: by contract; the registration keeps the link until mac_unregister succeeds.
    unsafe { &*driver.cast() }
}

/// # Safety
///
/// `ring` points at a ring of a registered link.
unsafe fn transmit_ring<'a, P: RingProvider>(ring: *mut c_void) -> (&'a Link<P>, usize) {
    // SAFETY: by contract; the link keeps its rings.
    let ring: &TransmitRing<P> = unsafe { &*ring.cast() };
    let link = ring.link.load(Ordering::Acquire);
    // SAFETY: stored before the link was registered.
    (unsafe { &*link }, ring.index)
}

/// # Safety
///
/// As for [`link`]; `info` is a record to fill in, all zero.
unsafe extern "C" fn get_group<P: RingProvider>(
    driver: *mut c_void,
    kind: sys::mac_ring_type_t,
    _index: c_int,
    info: *mut sys::mac_group_info_t,
    _handle: sys::mac_group_handle_t,
) {
    if kind != sys::MAC_RING_TYPE_RX {
        return;
    }
    let group = sys::mac_group_info_t {
        mgi_driver: driver.cast(),
        mgi_count: 1,
        mgi_addmac: Some(add_address::<P>),
        mgi_remmac: Some(remove_address::<P>),
        ..Default::default()
    };
    // SAFETY: the framework's record; newer trees append to it.
    unsafe { info.write(group) };
}

/// # Safety
///
/// As for [`link`]; `info` is a record to fill in, all zero.
unsafe extern "C" fn get_ring<P: RingProvider>(
    driver: *mut c_void,
    kind: sys::mac_ring_type_t,
    _group: c_int,
    index: c_int,
    info: *mut sys::mac_ring_info_t,
    handle: sys::mac_ring_handle_t,
) {
    // SAFETY: the framework's promises.
    let link = unsafe { link::<P>(driver) };
    let Some(rings) = &link.rings else { return };
    let ring = if kind == sys::MAC_RING_TYPE_RX {
        link.mac.ring_named(None, handle);
        receive_ring::<P>(driver)
    } else {
        let index = index as usize;
        let Some(ring) = rings.transmit.get(index) else { return };
        link.mac.ring_named(Some(index), handle);
        sys::mac_ring_info_t {
            mri_driver: ptr::from_ref(ring).cast_mut().cast(),
            mrfunion: sys::mac_ring_info_s__bindgen_ty_1 { send: Some(send::<P>) },
            mri_stat: Some(transmit_stat::<P>),
            ..Default::default()
        }
    };
    // SAFETY: the framework's record.
    unsafe { info.write(ring) };
}

fn receive_ring<P: RingProvider>(driver: *mut c_void) -> sys::mac_ring_info_t {
    sys::mac_ring_info_t {
        mri_driver: driver.cast(),
        mri_start: Some(start::<P>),
        mri_stop: Some(stop::<P>),
        mri_intr: sys::mac_intr_t {
            mi_handle: driver.cast(),
            mi_enable: Some(enable::<P>),
            mi_disable: Some(disable::<P>),
            // The adapter's interrupts are IBTF's to distribute.
            ..Default::default()
        },
        mrfunion: sys::mac_ring_info_s__bindgen_ty_1 { poll: Some(poll::<P>) },
        mri_stat: Some(receive_stat::<P>),
        ..Default::default()
    }
}

/// # Safety
///
/// The framework's promises for a registered link's receive ring; in the perimeter.
unsafe extern "C" fn start<P: RingProvider>(driver: sys::mac_ring_driver_t, generation: u64) -> c_int {
    // SAFETY: the framework's promises.
    let link = unsafe { link::<P>(driver.cast()) };
    link.provider.receive_ring_start(Generation(generation));
    0
}

/// # Safety
///
/// As for [`start`].
unsafe extern "C" fn stop<P: RingProvider>(driver: sys::mac_ring_driver_t) {
    // SAFETY: the framework's promises.
    unsafe { link::<P>(driver.cast()) }.provider.receive_ring_stop();
}

/// # Safety
///
/// The framework's promises for a registered link's receive ring.
unsafe extern "C" fn enable<P: RingProvider>(driver: sys::mac_intr_handle_t) -> c_int {
    // SAFETY: the framework's promises.
    unsafe { link::<P>(driver.cast()) }.provider.receive_interrupt(true);
    0
}

/// # Safety
///
/// As for [`enable`].
unsafe extern "C" fn disable<P: RingProvider>(driver: sys::mac_intr_handle_t) -> c_int {
    // SAFETY: the framework's promises.
    unsafe { link::<P>(driver.cast()) }.provider.receive_interrupt(false);
    0
}

/// # Safety
///
/// As for [`enable`].
unsafe extern "C" fn poll<P: RingProvider>(driver: *mut c_void, bytes: c_int) -> *mut sys::mblk_t {
    // SAFETY: the framework's promises.
    let link = unsafe { link::<P>(driver) };
    link.provider.poll(usize::try_from(bytes).unwrap_or(0)).into_raw()
}

/// # Safety
///
/// The framework's promises for a registered link's receive group; 20 readable bytes at `address`; in the perimeter.
unsafe extern "C" fn add_address<P: RingProvider>(driver: *mut c_void, address: *const u8) -> c_int {
    // SAFETY: the framework's promises.
    unsafe { change_address::<P>(driver, true, address) }
}

/// # Safety
///
/// As for [`add_address`].
unsafe extern "C" fn remove_address<P: RingProvider>(driver: *mut c_void, address: *const u8) -> c_int {
    // SAFETY: the framework's promises.
    unsafe { change_address::<P>(driver, false, address) }
}

/// # Safety
///
/// As for [`add_address`].
unsafe fn change_address<P: RingProvider>(driver: *mut c_void, add: bool, address: *const u8) -> c_int {
    // SAFETY: the framework's promises.
    let link = unsafe { link::<P>(driver) };
    // SAFETY: 20 readable bytes.
    let address: &Address = unsafe { &*address.cast() };
    Errno::raw(link.provider.address(add, address))
}

/// # Safety
///
/// The framework's promises for a registered link's transmit ring; `chain` is given up, except for what is returned.
unsafe extern "C" fn send<P: RingProvider>(ring: *mut c_void, chain: *mut sys::mblk_t) -> *mut sys::mblk_t {
    // SAFETY: the framework's promises.
    let (link, index) = unsafe { transmit_ring::<P>(ring) };
    // SAFETY: given up by the framework.
    let packets = unsafe { MblkChain::from_raw(chain) };
    link.provider.transmit_on_ring(index, packets).into_raw()
}

/// # Safety
///
/// The framework's promises for a registered link's receive ring; `value` is writable.
unsafe extern "C" fn receive_stat<P: RingProvider>(
    driver: sys::mac_ring_driver_t,
    stat: sys::uint_t,
    value: *mut u64,
) -> c_int {
    // SAFETY: the framework's promises.
    let link = unsafe { link::<P>(driver.cast()) };
    // SAFETY: the framework's promises.
    unsafe { ring_stat(link, Ring::Receive, stat, value) }
}

/// # Safety
///
/// As for [`receive_stat`], for a transmit ring.
unsafe extern "C" fn transmit_stat<P: RingProvider>(
    ring: sys::mac_ring_driver_t,
    stat: sys::uint_t,
    value: *mut u64,
) -> c_int {
    // SAFETY: the framework's promises.
    let (link, index) = unsafe { transmit_ring::<P>(ring.cast()) };
    // SAFETY: the framework's promises.
    unsafe { ring_stat(link, Ring::Transmit(index), stat, value) }
}

/// # Safety
///
/// `value` is writable.
unsafe fn ring_stat<P: RingProvider>(
    link: &Link<P>,
    ring: Ring,
    stat: sys::uint_t,
    value: *mut u64,
) -> c_int {
    let Some(found) = Stat::from_raw(stat).and_then(|stat| link.provider.ring_stat(ring, stat)) else {
        return Errno::ENOTSUP.get();
    };
    // SAFETY: by contract.
    unsafe { value.write(found) };
    0
}
