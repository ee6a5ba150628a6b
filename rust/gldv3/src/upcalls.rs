//! [`Mac`]: calls from the driver up into mac, possible while the link is registered.

use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use illumos_sys_hdrs as sys;
use kernel::mblk::MblkChain;
use kernel::sync::Monitor;
use kernel::{Errno, KArc, KVec, MayBlock};

use crate::Address;
use crate::admission::{Admission, Admitted};
use crate::rings::Generation;

/// What a driver says about its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum LinkState {
    /// Not known.
    Unknown = sys::LINK_STATE_UNKNOWN.0,
    /// Cannot carry packets.
    Down = sys::LINK_STATE_DOWN.0,
    /// Carries packets.
    Up = sys::LINK_STATE_UP.0,
}

/// A link's upcalls. Cheap to clone; give one to every part of the driver that talks to the framework.
///
/// The framework frees a link in `mac_unregister` without looking for callers. So every upcall goes through a gate
/// that is open while the link is registered; unregistering closes it, and fails with `EBUSY` while a call is inside.
/// Behind a closed gate packets are freed and the link state is remembered until it opens (again).
#[derive(Clone)]
pub struct Mac(KArc<Upcalls>);

struct Upcalls {
    handle: AtomicPtr<sys::__mac_handle>,
    admission: Admission,
    /// The last link state announced.
    link: AtomicI32,
    /// Whether the gate was opened for the first time.
    registered: Monitor<bool>,
    receive_ring: AtomicPtr<sys::__mac_ring_handle>,
    transmit_rings: KVec<AtomicPtr<sys::__mac_ring_handle>>,
}

impl Mac {
    /// The upcalls of a link with so many transmit rings.
    pub(crate) fn new(transmit_rings: usize, may_block: &MayBlock) -> Self {
        let ring = |_| AtomicPtr::new(ptr::null_mut());
        let upcalls = Upcalls {
            handle: AtomicPtr::new(ptr::null_mut()),
            admission: Admission::closed(),
            link: AtomicI32::new(LinkState::Unknown as i32),
            registered: Monitor::new_waiting(false, may_block),
            receive_ring: AtomicPtr::new(ptr::null_mut()),
            transmit_rings: KVec::from_fn_waiting(transmit_rings, may_block, ring),
        };
        Self(KArc::new_waiting(upcalls, may_block))
    }

    /// Hands received packets up (`mac_rx`). With one packet, all of IP may run inside this call, and
    /// [`Provider::transmit`](crate::Provider::transmit) with it. **Any** context, no locks.
    pub fn receive(&self, packets: MblkChain) {
        let Some(inside) = self.0.enter() else { return };
        if !packets.is_empty() {
            // SAFETY: registered; the chain is given up.
            unsafe { sys::mac_rx(inside.handle(), ptr::null_mut(), packets.into_raw()) };
        }
    }

    /// As [`Mac::receive`] from the receive ring of a link that has one (`mac_rx_ring`), with the generation in which the packets
    /// were taken.
    pub fn receive_on_ring(&self, generation: Generation, packets: MblkChain) {
        let Some(inside) = self.0.enter() else { return };
        if !packets.is_empty() {
            let ring = self.0.receive_ring.load(Ordering::Relaxed);
            // SAFETY: registered, and with it the ring; the chain is given up.
            unsafe { sys::mac_rx_ring(inside.handle(), ring, packets.into_raw(), generation.0) };
        }
    }

    /// Says that packets refused by [`Provider::transmit`](crate::Provider::transmit) can be sent now
    /// (`mac_tx_update`). **Any** context, no locks.
    pub fn transmit_ready(&self) {
        if let Some(inside) = self.0.enter() {
            // SAFETY: registered.
            unsafe { sys::mac_tx_update(inside.handle()) };
        }
    }

    /// As [`Mac::transmit_ready`] for one transmit ring (`mac_tx_ring_update`). A link with transmit rings must say which: the
    /// other call wakes nobody then.
    pub fn transmit_ring_ready(&self, ring: usize) {
        let Some(ring) = self.0.transmit_rings.get(ring) else { return };
        if let Some(inside) = self.0.enter() {
            // SAFETY: registered, and with it the ring.
            unsafe { sys::mac_tx_ring_update(inside.handle(), ring.load(Ordering::Relaxed)) };
        }
    }

    /// The framework's name for the receive ring, or for a transmit ring. While the link is being registered.
    pub(crate) fn ring_named(&self, transmit: Option<usize>, handle: sys::mac_ring_handle_t) {
        let place = match transmit {
            None => Some(&self.0.receive_ring),
            Some(index) => self.0.transmit_rings.get(index),
        };
        if let Some(place) = place {
            place.store(handle, Ordering::Relaxed);
        }
    }

    /// Announces the link's state (`mac_link_update`). Publish the speed first: the framework sizes its fan-out when
    /// the link comes up. **Any** context, no locks.
    pub fn link_update(&self, state: LinkState) {
        self.0.link.store(state as i32, Ordering::SeqCst);
        self.announce(state as i32);
    }

    fn announce(&self, state: i32) {
        if let Some(inside) = self.0.enter() {
            // SAFETY: registered.
            unsafe { sys::mac_link_update(inside.handle(), sys::link_state_t(state as _)) };
        }
    }

    /// Enters the perimeter (`mac_perim_enter_by_mh`), which whoever is inside may do again: start and stop are. `None` behind a
    /// closed gate. **May block**, for as long as others are inside; no locks.
    pub fn perimeter(&self) -> Option<Perimeter<'_>> {
        let inside = self.0.enter()?;
        let mut entered = ptr::null_mut();
        // SAFETY: registered.
        unsafe { sys::mac_perim_enter_by_mh(inside.handle(), &mut entered) };
        Some(Perimeter { inside, entered, not_send: PhantomData })
    }

    /// Announces the largest payload, in general and for multicast, in bytes behind the link header
    /// (`mac_maxsdu_update2`). `EINVAL` if `multicast` is above `max` or either below the minimum; `ENXIO` behind a
    /// closed gate. **Any** context, no locks.
    pub fn sdu_update(&self, max: u32, multicast: u32) -> Result<(), Errno> {
        let inside = self.0.enter().ok_or(Errno::ENXIO)?;
        // SAFETY: registered.
        Errno::check(unsafe { sys::mac_maxsdu_update2(inside.handle(), max, multicast) })
    }

    /// Says that the capabilities changed (`mac_capab_update`). **Any** context, no locks.
    pub fn capabilities_update(&self) {
        if let Some(inside) = self.0.enter() {
            // SAFETY: registered.
            unsafe { sys::mac_capab_update(inside.handle()) };
        }
    }

    /// Runs `call` with the handle; `None` behind a closed gate.
    pub(crate) fn with_handle<R>(&self, call: impl FnOnce(sys::mac_handle_t) -> R) -> Option<R> {
        let inside = self.0.enter()?;
        Some(call(inside.handle()))
    }

    /// Opens the gate for a registered link and catches up on what was missed.
    pub(crate) fn open(&self, handle: sys::mac_handle_t) {
        self.0.handle.store(handle, Ordering::Relaxed);
        self.0.admission.open();
        let mut registered = self.0.registered.lock();
        let again = core::mem::replace(&mut *registered, true);
        self.0.registered.notify_all();
        drop(registered);
        let mut link = self.0.link.load(Ordering::SeqCst);
        let mut news = link != LinkState::Unknown as i32;
        while news {
            self.announce(link);
            // Somebody may have announced another one in between, and this older one came after it.
            let now = self.0.link.load(Ordering::SeqCst);
            news = now != link;
            link = now;
        }
        if again && self.0.transmit_rings.is_empty() {
            self.transmit_ready();
        } else if again {
            (0..self.0.transmit_rings.len()).for_each(|ring| self.transmit_ring_ready(ring));
        }
    }

    /// Closes the gate if nobody is inside, and gives the handle out.
    pub(crate) fn close(&self) -> Result<sys::mac_handle_t, Errno> {
        if self.0.admission.close() { Ok(self.0.handle.load(Ordering::Relaxed)) } else { Err(Errno::EBUSY) }
    }

    /// Waits until the gate was opened: the framework may call back before `mac_register` has returned the handle.
    /// **May block**, for that long.
    pub(crate) fn wait_registered(&self) {
        let mut registered = self.0.registered.lock();
        while !*registered {
            registered.wait();
        }
    }
}

/// The MAC perimeter: while this lives, nobody else starts or stops the link or changes what it is. Belongs to its thread.
pub struct Perimeter<'a> {
    inside: Inside<'a>,
    entered: sys::mac_perim_handle_t,
    not_send: PhantomData<*mut ()>,
}

impl Perimeter<'_> {
    /// Announces the station's address (`mac_unicst_update`). Whoever has the link open is told, also of an address that has not
    /// changed.
    pub fn address_update(&self, address: &Address) {
        // SAFETY: registered; the address is copied.
        unsafe { sys::mac_unicst_update(self.inside.handle(), address.as_ptr()) };
    }
}

impl Drop for Perimeter<'_> {
    fn drop(&mut self) {
        // SAFETY: entered by this thread.
        unsafe { sys::mac_perim_exit(self.entered) };
    }
}

impl Upcalls {
    fn enter(&self) -> Option<Inside<'_>> {
        self.admission.enter().map(|admitted| Inside { gate: self, _admitted: admitted })
    }
}

/// One call inside the gate.
struct Inside<'a> {
    gate: &'a Upcalls,
    _admitted: Admitted<'a>,
}

impl Inside<'_> {
    fn handle(&self) -> sys::mac_handle_t {
        self.gate.handle.load(Ordering::Relaxed)
    }
}
