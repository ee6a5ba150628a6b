//! [`Clients`]: whom a call of IBTF is for.
//!
//! IBTL counts most of its calls to a client, and `ibt_detach` waits for those. The errors of channels and CQs it does not count: a
//! call that has begun goes on after the client was detached. And the argument of a notice handler may be read before it was
//! stored, or after it was taken back. So the argument that IBTF is given is a number, not an address. It is looked up under a
//! lock, and a number that is nobody's any more leads nowhere.

use core::ffi::c_void;
use core::ptr::{self, NonNull};

use kernel::list::{List, Room};
use kernel::sync::{CallbackSlot, Monitor, Mutex};
use kernel::{AllocError, Errno, KArc, KBox, KVec, MayBlock};

use crate::client::ClientHandler;
use crate::cq::CqSlot;
use crate::services::Services;

/// The clients of a module. One value of the module's own state: make it in `_init`, keep it until after `mod_remove`.
///
/// Dropping it waits for calls that are being made (**may block**); clients that are left hear nothing any more.
pub struct Clients(KArc<Registry>);

/// The way to the registry of the module's one [`Clients`].
static REGISTRY: CallbackSlot<Registry> = CallbackSlot::new();

pub(crate) struct Registry {
    clients: Monitor<Table>,
    /// The arguments of CQ handlers. IBTL and the adapter's driver wait for no call of a handler, neither when its CQ is freed nor when
    /// the adapter is closed, so an argument stays as long as the module; one whose CQ is gone is used for the next.
    slots: Mutex<KVec<KBox<CqSlot>>>,
    services: Services,
}

struct Table {
    entries: List<Entry>,
    last: usize,
}

struct Entry {
    number: usize,
    handler: KArc<KBox<dyn ClientHandler>>,
    /// Calls that are being made.
    inside: u32,
    /// No further ones are made.
    leaving: bool,
}

impl Clients {
    /// No clients yet; `EBUSY` if this module has a registry already. Waits for memory: **may block**.
    pub fn new(may_block: &MayBlock) -> Result<Self, Errno> {
        let table = Table { entries: List::new(), last: 0 };
        let slots = Mutex::new_waiting(KVec::new(), may_block);
        let services = Services::new(may_block);
        let clients = Monitor::new_waiting(table, may_block);
        let registry = KArc::new_waiting(Registry { clients, slots, services }, may_block);
        // SAFETY: this value keeps the registry and shuts the way to it first; a registry may be used by any thread.
        if !unsafe { REGISTRY.open(KArc::as_ptr(&registry)) } {
            return Err(Errno::EBUSY);
        }
        Ok(Self(registry))
    }

    pub(crate) fn registry(&self) -> &KArc<Registry> {
        &self.0
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        REGISTRY.quiesce();
    }
}

/// The number of a client: what IBTF is given as an argument. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number(usize);

impl Number {
    pub(crate) fn cookie(self) -> *mut c_void {
        ptr::without_provenance_mut(self.0)
    }
}

/// Makes a call to whoever the argument stands for, if that is anybody. On a thread that **may block**.
pub(crate) fn call<R>(cookie: *mut c_void, call: impl FnOnce(&dyn ClientHandler) -> R) -> Option<R> {
    REGISTRY.call(|registry| registry.call(Number(cookie.addr()), call)).flatten()
}

impl Registry {
    /// IDs that clients listen at.
    pub(crate) fn services(&self) -> &Services {
        &self.services
    }

    /// An argument for the handler of a new CQ.
    pub(crate) fn take_slot(&self) -> Result<NonNull<CqSlot>, AllocError> {
        let mut slots = self.slots.lock();
        if let Some(free) = slots.iter().find(|slot| slot.claim()) {
            return Ok(NonNull::from(&**free));
        }
        let slot = KBox::new(CqSlot::claimed())?;
        let address = NonNull::from(&*slot);
        slots.push(slot)?;
        Ok(address)
    }

    /// From now on calls reach `handler`. Waits for memory: **may block**.
    pub(crate) fn enter(&self, handler: KBox<dyn ClientHandler>, may_block: &MayBlock) -> Number {
        let room = Room::new_waiting(may_block);
        let handler = KArc::new_waiting(handler, may_block);
        let mut table = self.clients.lock();
        table.last += 1;
        let number = table.last;
        table.entries.put(room, Entry { number, handler, inside: 0, leaving: false });
        Number(number)
    }

    /// No further call is made, and those that are being made are waited for. **May block**; never from such a call.
    pub(crate) fn leave(&self, number: Number) {
        let mut table = self.clients.lock();
        while let Some(entry) = table.find(number) {
            entry.leaving = true;
            if entry.inside == 0 {
                break;
            }
            table.wait();
        }
        let entry = table.entries.take(|entry| entry.number == number.0);
        drop(table);
        drop(entry);
    }

    fn call<R>(&self, number: Number, call: impl FnOnce(&dyn ClientHandler) -> R) -> Option<R> {
        let handler = self.begin(number)?;
        let result = call(&**handler);
        // Not the last one: the entry stays until nobody is inside.
        drop(handler);
        self.end(number);
        Some(result)
    }

    fn begin(&self, number: Number) -> Option<KArc<KBox<dyn ClientHandler>>> {
        let mut table = self.clients.lock();
        let entry = table.find(number).filter(|entry| !entry.leaving)?;
        entry.inside += 1;
        Some(entry.handler.clone())
    }

    fn end(&self, number: Number) {
        let mut table = self.clients.lock();
        if let Some(entry) = table.find(number) {
            entry.inside -= 1;
        }
        drop(table);
        self.clients.notify_all();
    }
}

impl Table {
    fn find(&mut self, number: Number) -> Option<&mut Entry> {
        self.entries.find_mut(|entry| entry.number == number.0)
    }
}
