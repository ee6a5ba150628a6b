//! [`Framework`] and [`Attachment`]: a module and its adapters, as `ibtl` knows them.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use illumos_sys_hdrs as sys;
use kernel::ddi::DevInfo;
use kernel::module::{Env, Pin};
use kernel::{Errno, KArc, KBox, MayBlock};

use crate::attributes::Attributes;
use crate::event::Client;
use crate::objects::Adapter;
use crate::operations::Table;
use crate::provider::Provider;

/// The module's bond with `ibtl` (`ibc_init`), until dropped (`ibc_fini`).
///
/// Made in `_init` before the module is installed, or its devices get no children: `ib` puts its bus operations into the shim's
/// `dev_ops` here, and the kernel takes a driver that has none for one without children.
pub struct Framework {
    linkage: NonNull<sys::modlinkage>,
    _pin: Pin,
}

// SAFETY: the linkage is touched by `ibtl`, in `_init` and `_fini`.
unsafe impl Send for Framework {}
// SAFETY: as above.
unsafe impl Sync for Framework {}

impl Framework {
    /// Once for a module: `EBUSY` the second time. The module depends on `drv/ib` and `misc/ibtl`, in this order. **May block.**
    pub fn register(env: &Env) -> Result<Self, Errno> {
        let linkage = env.take_linkage().ok_or(Errno::EBUSY)?;
        // SAFETY: the shim's linkage, whose first entry is a driver's, and which lives as long as the module.
        Errno::check(unsafe { sys::ibc_init(linkage.as_ptr()) })?;
        Ok(Self { linkage, _pin: Pin::of_registration() })
    }
}

impl Drop for Framework {
    fn drop(&mut self) {
        // SAFETY: registered above; the module is removed, or was never installed.
        unsafe { sys::ibc_fini(self.linkage.as_ptr()) };
    }
}

/// An adapter that `ibtl` has.
pub struct Attachment<P: Provider> {
    /// What `ibtl` points at; `None` once it does not any more.
    kept: Option<Kept<P>>,
    client: KArc<Client>,
    _pin: Pin,
}

struct Kept<P: Provider> {
    _adapter: KBox<Adapter<P>>,
    _attributes: KBox<sys::ibt_hca_attr_t>,
}

// SAFETY: the attributes are only read, by `ibtl`; the pointers in them are to the device node, which is there as long as this is.
unsafe impl<P: Provider> Send for Kept<P> {}
// SAFETY: as above.
unsafe impl<P: Provider> Sync for Kept<P> {}

impl<P: Provider> Attachment<P> {
    /// Attaches an adapter (`ibc_attach`). Its ports are queried in the course of this: they are active by now, or the first
    /// configuration of its children waits 8 seconds. `EIO` if `ibtl` refuses. **May block**; in attach(9E) only.
    pub fn attach(
        dip: DevInfo,
        attributes: Attributes,
        provider: KArc<P>,
        may_block: &MayBlock,
    ) -> Result<Self, Errno> {
        let client = AtomicPtr::new(ptr::null_mut());
        let adapter = KBox::new_waiting(Adapter { provider, attributes, client }, may_block);
        let mut attributes = KBox::new_waiting(attributes.raw(dip), may_block);
        let mut info = sys::ibc_hca_info_t {
            hca_ci_vers: sys::IBCI_V4 as _,
            hca_handle: ptr::from_ref(&*adapter).cast_mut().cast(),
            hca_ops: ptr::from_ref(Table::<P>::OPERATIONS).cast_mut(),
            hca_attr: &mut *attributes,
        };
        let mut handle = ptr::null_mut();
        // SAFETY: the operations are static; the adapter and its attributes stay where they are until `ibc_detach`.
        if unsafe { sys::ibc_attach(&mut handle, &mut info) } != sys::IBC_SUCCESS {
            return Err(Errno::EIO);
        }
        adapter.client.store(handle, Ordering::Release);
        let client = KArc::new_waiting(Client::new(handle), may_block);
        client.open();
        let kept = Some(Kept { _adapter: adapter, _attributes: attributes });
        Ok(Self { kept, client, _pin: Pin::of_registration() })
    }

    /// For events.
    pub fn client(&self) -> &KArc<Client> {
        &self.client
    }

    /// Tells all clients, and waits for them (`ibc_post_attach`). Nothing may fail after this. **May block**; once, in attach(9E).
    pub fn announce(&self) {
        // SAFETY: attached.
        unsafe { sys::ibc_post_attach(self.client.handle()) };
    }

    /// Detaches the adapter if every client lets go of it, or hands it back working. No event is raised any more by now, and those
    /// that were have been heard: `ibtl` frees what it would deliver them to. **May block**; in detach(9E) only.
    pub fn detach(mut self) -> Result<(), Self> {
        if self.leave() { Ok(()) } else { Err(self) }
    }

    fn leave(&mut self) -> bool {
        // SAFETY: attached.
        let left = unsafe { sys::ibc_pre_detach(self.client.handle(), sys::DDI_DETACH) } == sys::IBC_SUCCESS;
        if left {
            self.client.shut();
            // SAFETY: no client has it any more, and nobody calls in.
            unsafe { sys::ibc_detach(self.client.handle()) };
            self.kept = None;
        }
        left
    }
}

impl<P: Provider> Drop for Attachment<P> {
    fn drop(&mut self) {
        if self.kept.is_some() && !self.leave() {
            // A client has it: what it calls stays, and with it the module.
            core::mem::forget(self.kept.take());
            core::mem::forget(Pin::new());
        }
    }
}
