//! [`Registration`]: a link the framework knows.

use core::ffi::{CStr, c_char};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, Ordering};

use illumos_sys_hdrs as sys;
use kernel::ddi::DevInfo;
use kernel::module::Pin;
use kernel::{Errno, KArc, KVec, MayBlock};

use crate::Address;
use crate::devnet::LinkId;
use crate::provider::Provider;
use crate::rings::{RingProvider, Rings};
use crate::table::Callbacks;
use crate::upcalls::Mac;

/// What a link is registered with (`mac_register_t`).
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The device node the link belongs to.
    pub dip: DevInfo,
    /// Which number the link gets behind the driver's name.
    pub instance: InstanceNumber,
    /// The MAC-type plugin (`mac_ib`).
    pub plugin: &'static CStr,
    /// The address announced at first; all zero if it is not known before start.
    pub address: Address,
    /// The smallest payload in bytes.
    pub min_sdu: u32,
    /// The largest payload in bytes, above `min_sdu`.
    pub max_sdu: u32,
    /// The largest multicast payload in bytes, from `min_sdu` to `max_sdu`.
    pub multicast_sdu: u32,
}

/// The number behind the driver's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceNumber {
    /// The device's instance. The link gets minor nodes.
    Device,
    /// The next free one from 1000 on. The link gets no minor nodes: it is reached through
    /// [`Registration::create_devnet`] only.
    Allocate,
}

/// What the framework's `driver` pointer points at.
pub(crate) struct Link<P> {
    pub(crate) provider: P,
    pub(crate) mac: Mac,
    pub(crate) rings: Option<Rings<P>>,
    started: AtomicBool,
    /// A registration that is forgotten stays one.
    _pin: Pin,
}

impl<P: Provider> Link<P> {
    pub(crate) fn start(&self) -> Result<(), Errno> {
        // The first user can be faster than mac_register's return.
        self.mac.wait_registered();
        self.provider.start()?;
        self.started.store(true, Ordering::SeqCst);
        Ok(())
    }

    pub(crate) fn stop(&self) {
        self.provider.stop();
        self.started.store(false, Ordering::SeqCst);
    }
}

/// A registered link. Owns its [`Provider`].
///
/// Unregister it with [`Registration::unregister`], which can fail. Dropping a registration tries the same, and when
/// the framework still uses the link the provider is left to it for good: it leaks, and the module stays loaded.
pub struct Registration<P: Provider> {
    /// `None` only once unregistered.
    link: Option<KArc<Link<P>>>,
}

impl<P: Provider> Registration<P> {
    /// Registers a link (`mac_register`).
    ///
    /// `make` gets the link's upcalls, which stay closed until the link is registered, and returns the provider. The
    /// framework loads the plugin and asks for capabilities in the course of this call. `EINVAL` without the plugin
    /// or for contradictory sizes, `ENOSPC` without a free instance number. **May block**; as the last step of attach.
    pub fn register(
        config: &Config,
        may_block: &MayBlock,
        make: impl FnOnce(Mac) -> Result<P, Errno>,
    ) -> Result<Self, Errno> {
        Self::register_link(config, Mac::new(0, may_block), None, may_block, make)
    }

    /// As [`Registration::register`] for a link with one receive ring and `transmit` transmit rings, none of them if that is 0.
    /// The framework asks for the rings in the course of this call.
    pub fn register_with_rings(
        config: &Config,
        transmit: usize,
        may_block: &MayBlock,
        make: impl FnOnce(Mac) -> Result<P, Errno>,
    ) -> Result<Self, Errno>
    where
        P: RingProvider,
    {
        let rings = Rings::new(transmit, may_block);
        Self::register_link(config, Mac::new(transmit, may_block), Some(rings), may_block, make)
    }

    fn register_link(
        config: &Config,
        mac: Mac,
        rings: Option<Rings<P>>,
        may_block: &MayBlock,
        make: impl FnOnce(Mac) -> Result<P, Errno>,
    ) -> Result<Self, Errno> {
        let provider = make(mac.clone())?;
        let (started, _pin) = (AtomicBool::new(false), Pin::of_registration());
        let link = KArc::new_waiting(Link { provider, mac, rings, started, _pin }, may_block);
        if let Some(rings) = &link.rings {
            rings.belong_to(KArc::as_ptr(&link).as_ptr());
        }
        let handle = Self::call_register(config, &link, may_block)?;
        link.mac.open(handle);
        Ok(Self { link: Some(link) })
    }

    fn call_register(
        config: &Config,
        link: &KArc<Link<P>>,
        may_block: &MayBlock,
    ) -> Result<sys::mac_handle_t, Errno> {
        // The list ends with NULL.
        let names = P::PRIVATE_PROPERTIES;
        let name = |index| names.get(index).map_or(ptr::null_mut(), |name: &&CStr| name.as_ptr().cast_mut());
        let mut properties: KVec<*mut c_char> = KVec::from_fn_waiting(names.len() + 1, may_block, name);
        let mut address = config.address;
        // SAFETY: allocates a record, or answers NULL to a version it does not know.
        let record = unsafe { sys::mac_alloc(sys::MAC_VERSION as sys::uint_t) };
        let record = NonNull::new(record).ok_or(Errno::ENOTSUP)?;
        {
            // SAFETY: the framework's record is ours until it is freed below.
            let record = unsafe { &mut *record.as_ptr() };
            record.m_type_ident = config.plugin.as_ptr();
            record.m_driver = KArc::as_ptr(link).as_ptr().cast();
            record.m_dip = config.dip.as_raw();
            record.m_instance = match config.instance {
                InstanceNumber::Device => 0,
                InstanceNumber::Allocate => sys::uint_t::MAX,
            };
            record.m_src_addr = address.as_mut_ptr();
            record.m_callbacks = (&raw const *Self::callbacks(link.rings.is_some())).cast_mut();
            record.m_min_sdu = config.min_sdu;
            record.m_max_sdu = config.max_sdu;
            record.m_multicast_sdu = config.multicast_sdu;
            record.m_priv_props = properties.as_mut_ptr();
            record.m_v12n = if link.rings.is_some() { sys::MAC_VIRT_LEVEL1 } else { sys::MAC_VIRT_NONE };
        }
        let mut handle = ptr::null_mut();
        // SAFETY: complete. Address and names are copied, the table is static (the framework only reads it), and the
        // link stays until mac_unregister succeeds.
        let result = unsafe { sys::mac_register(record.as_ptr(), &mut handle) };
        // SAFETY: allocated above; the caller frees it, whatever the result.
        unsafe { sys::mac_free(record.as_ptr()) };
        Errno::check(result).map(|()| handle)
    }

    fn callbacks(rings: bool) -> &'static sys::mac_callbacks_t {
        if rings { const { &<P as Callbacks>::RING_TABLE } } else { const { &<P as Callbacks>::TABLE } }
    }

    /// The provider.
    pub fn provider(&self) -> &P {
        &self.link().provider
    }

    /// Whether the framework has the link started. **Any** context; it may change any time.
    pub fn is_started(&self) -> bool {
        self.link().started.load(Ordering::SeqCst)
    }

    /// The link's upcalls.
    pub fn mac(&self) -> &Mac {
        &self.link().mac
    }

    /// Unregisters the link and drops the provider, or hands the registration back.
    ///
    /// `EBUSY` while the link is started, held (by `dls`, by anybody), or a thread of the driver is in an upcall; the
    /// link then works on. **Enters the perimeter** without waiting for it: never from a perimeter callback.
    pub fn unregister(mut self) -> Result<(), (Self, Errno)> {
        match self.try_unregister() {
            Ok(()) => Ok(()),
            Err(error) => Err((self, error)),
        }
    }

    /// Makes the framework refuse new users (`mac_disable`); cannot be taken back. `EBUSY` while somebody uses the
    /// link. **Enters the perimeter.**
    pub fn disable(&self) -> Result<(), Errno> {
        // SAFETY: registered.
        self.mac().with_handle(|handle| Errno::check(unsafe { sys::mac_disable(handle) })).unwrap_or(Ok(()))
    }

    /// Makes the link visible under a data-link id, in a zone (`dls_devnet_create`). From then on the framework holds
    /// the link. `EEXIST` if either is taken. **Enters the perimeter.**
    pub fn create_devnet(&self, id: LinkId, zone: i32) -> Result<(), Errno> {
        // SAFETY: registered.
        let create = |handle| Errno::check(unsafe { sys::dls_devnet_create(handle, id.0, zone) });
        self.mac().with_handle(create).unwrap_or(Err(Errno::ENXIO))
    }

    /// Takes the link away from the data-link ids (`dls_devnet_destroy`) and returns the one it had. With `wait`, waits
    /// for the property task, which may need the perimeter. `EBUSY` while a stream is open. **Enters the perimeter.**
    pub fn destroy_devnet(&self, wait: bool) -> Result<LinkId, Errno> {
        let wait = if wait { sys::B_TRUE } else { sys::B_FALSE };
        let destroy = |handle| {
            let mut id = 0;
            // SAFETY: registered.
            Errno::check(unsafe { sys::dls_devnet_destroy(handle, &mut id, wait) }).map(|()| LinkId(id))
        };
        self.mac().with_handle(destroy).unwrap_or(Err(Errno::ENXIO))
    }

    fn link(&self) -> &KArc<Link<P>> {
        // `link` is taken by a successful `try_unregister` alone, and its callers give `self` up then.
        match &self.link {
            Some(link) => link,
            None => gone(),
        }
    }

    fn try_unregister(&mut self) -> Result<(), Errno> {
        let Some(link) = &self.link else { return Ok(()) };
        if link.started.load(Ordering::SeqCst) {
            return Err(Errno::EBUSY);
        }
        let handle = link.mac.close()?;
        // SAFETY: registered, and no upcall is inside or can get in.
        match Errno::check(unsafe { sys::mac_unregister(handle) }) {
            Ok(()) => {
                self.link = None;
                Ok(())
            }
            Err(error) => {
                link.mac.open(handle);
                Err(error)
            }
        }
    }
}

impl<P: Provider> Drop for Registration<P> {
    fn drop(&mut self) {
        if self.try_unregister().is_ok() {
            return;
        }
        // The framework calls the provider whenever it likes: neither it nor its text, which it pins, may go, ever.
        core::mem::forget(self.link.take());
    }
}

/// Out of line, so that a caller has no message of its own.
#[cold]
#[inline(never)]
fn gone() -> ! {
    unreachable!("a registration without a link")
}
