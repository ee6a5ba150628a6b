//! [`Registered`]: a service ID of the module's. `ibcm` knows an ID once on a computer, whatever adapter it is asked on, but lets it be
//! bound to any number of ports. Two links on two adapters may well have queue pairs of the same number, and so the same IDs: each ID is
//! registered with the first link that listens there, bound once for each, and given back with the last.

use core::ptr;

use illumos_sys_hdrs as sys;
use kernel::list::{List, Room};
use kernel::module::Pin;
use kernel::sync::Monitor;
use kernel::{KArc, MayBlock};

use crate::client::{Client, ClientHandler, ClientInfo};
use crate::clients::Registry;
use crate::cm::connection_event;
use crate::event::AsyncEvent;
use crate::status::Status;

/// As whom IBTF knows the owner of an ID, which is no link: any of those that listen there may be the first to go.
static OWNER: ClientInfo = ClientInfo::of_module(c"ibd_sid");

/// The IDs of a module.
pub(crate) struct Services(Monitor<List<Entry>>);

struct Entry {
    id: u64,
    users: u32,
    /// `None` while a thread registers it or gives it back.
    registration: Option<Registration>,
}

/// Given back when dropped (**may block**).
struct Registration {
    service: sys::ibt_srv_hdl_t,
    owner: Client,
}

// SAFETY: the handle is used by IBTF, from any thread.
unsafe impl Send for Registration {}

/// One use of an ID.
pub(crate) struct Registered {
    id: u64,
    service: sys::ibt_srv_hdl_t,
    registry: KArc<Registry>,
}

/// The owner of an ID opens no adapter.
struct Deaf;

impl ClientHandler for Deaf {
    fn async_event(&self, _: AsyncEvent, _: &MayBlock) {}
}

impl Services {
    /// None yet.
    pub(crate) fn new(may_block: &MayBlock) -> Self {
        Self(Monitor::new_waiting(List::new(), may_block))
    }

    /// Registers the ID, unless another use of it has. Waits for a thread that is about to. **May block.**
    pub(crate) fn register(
        registry: &KArc<Registry>,
        id: u64,
        may_block: &MayBlock,
    ) -> Result<Registered, Status> {
        let registered = |service| Registered { id, service, registry: registry.clone() };
        let room = Room::new_waiting(may_block);
        let this = registry.services();
        let mut entries = this.0.lock();
        while let Some(entry) = entries.find_mut(|entry| entry.id == id) {
            if let Some(registration) = &entry.registration {
                entry.users += 1;
                return Ok(registered(registration.service));
            }
            entries.wait();
        }
        entries.put(room, Entry { id, users: 1, registration: None });
        drop(entries);
        let made = Registration::new(registry, id, may_block);
        let mut entries = this.0.lock();
        let done = match made {
            Ok(registration) => {
                let service = registration.service;
                if let Some(entry) = entries.find_mut(|entry| entry.id == id) {
                    entry.registration = Some(registration);
                }
                Ok(registered(service))
            }
            Err(status) => {
                drop(entries.take(|entry| entry.id == id));
                Err(status)
            }
        };
        drop(entries);
        this.0.notify_all();
        done
    }

    fn release(&self, id: u64) {
        let mut entries = self.0.lock();
        let Some(entry) = entries.find_mut(|entry| entry.id == id) else { return };
        entry.users -= 1;
        if entry.users != 0 {
            return;
        }
        let last = entry.registration.take();
        drop(entries);
        drop(last);
        let gone = self.0.lock().take(|entry| entry.id == id);
        self.0.notify_all();
        drop(gone);
    }
}

impl Registered {
    pub(crate) fn handle(&self) -> sys::ibt_srv_hdl_t {
        self.service
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.registry.services().release(self.id);
    }
}

impl Registration {
    fn new(registry: &KArc<Registry>, id: u64, may_block: &MayBlock) -> Result<Self, Status> {
        let owner = Client::attach_without_node(registry.clone(), &OWNER, may_block, Deaf)?;
        let mut description = sys::ibt_srv_desc_t {
            sd_ud_handler: None,
            sd_handler: Some(connection_event),
            sd_flags: sys::IBT_SRV_NO_FLAGS,
        };
        let mut service = ptr::null_mut();
        // SAFETY: attached; the description is copied by the call, the handler is of this module, which stays as long as the service.
        Status::check(unsafe {
            sys::ibt_register_service(owner.handle(), &mut description, id, 1, &mut service, ptr::null_mut())
        })?;
        Ok(Self { service, owner })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: registered, and bound no more; waits for handlers that run.
        if Status::check(unsafe { sys::ibt_deregister_service(self.owner.handle(), self.service) }).is_err() {
            // It will go on calling: the text may not go.
            core::mem::forget(Pin::new());
        }
    }
}
