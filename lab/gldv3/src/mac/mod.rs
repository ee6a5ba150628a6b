//! `mac`: macs of drivers, and what drivers may ask of the framework.

mod capability;
mod client;
mod control;
mod counting;
mod driver;
mod driver_ops;
mod notify;
mod offload;
mod perimeter;
mod prop_info;
mod property;
mod register;
mod rings;
mod stat;
mod upcall;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::fmt;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};

use fakekernel::genunix::DevInfo;
use fakekernel::{Cx, Export, Handles, HostMutex, Kernel, Module, Rule};
use illumos_sys_hdrs::{mac_callbacks_t, mac_handle_t};

use crate::address::LinkAddress;
use crate::plugin::MacType;
use crate::types::LinkState;

pub use capability::OffloadCapability;
pub(crate) use client::Client;
pub(crate) use counting::Counting;
pub(crate) use notify::Note;
pub(crate) use perimeter::Perimeter;
pub(crate) use prop_info::PropInfo;
pub(crate) use property::Property;
pub(crate) use rings::{Ring, Rings};

pub(crate) fn exports() -> Vec<Export> {
    [
        register::exports(),
        driver_ops::exports(),
        upcall::exports(),
        offload::exports(),
        prop_info::exports(),
        stat::exports(),
    ]
    .concat()
}

/// The macs of a host, and what its drivers have handles of.
#[derive(Debug)]
pub(crate) struct Macs {
    live: Handles<Mac>,
    by_name: HostMutex<BTreeMap<String, Arc<Mac>>>,
    /// Numbers given to macs without a minor node, from before they have their name until nothing is left of them.
    numbers: HostMutex<BTreeSet<u32>>,
    rings: Handles<Ring>,
    prop_infos: Handles<PropInfo>,
    /// Names of drivers that `mac_init_ops` marked as GLDv3.
    drivers: HostMutex<BTreeSet<String>>,
}

impl Macs {
    fn new() -> Self {
        Self {
            live: Handles::new("mac_handle_t"),
            by_name: HostMutex::new(BTreeMap::new()),
            numbers: HostMutex::new(BTreeSet::new()),
            rings: Handles::new("mac_ring_handle_t"),
            prop_infos: Handles::new("mac_prop_info_handle_t"),
            drivers: HostMutex::new(BTreeSet::new()),
        }
    }

    pub(crate) fn of(kernel: &Kernel) -> Arc<Self> {
        kernel.state(Self::new)
    }

    /// A number that no mac has; `None` when all are given. It is nobody else's until it is given back.
    fn take_number(&self) -> Option<u32> {
        let mut numbers = self.numbers.lock();
        let free = (MOST_MINOR_INSTANCE + 1..1 << 18).find(|number| !numbers.contains(number))?;
        numbers.insert(free);
        Some(free)
    }

    /// Gives it back; nothing to do for an instance that is the device's.
    fn give_back(&self, number: u32) {
        self.numbers.lock().remove(&number);
    }

    /// The mac of a name, unless it is disabled.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Mac>> {
        self.by_name.lock().get(name).filter(|mac| !mac.state.lock().disabled).cloned()
    }

    /// The mac with a minor node of its own that a device node's driver registered.
    pub(crate) fn of_device(&self, device: &DevInfo) -> Option<Arc<Mac>> {
        let macs = self.by_name.lock();
        macs.values().find(|mac| mac.device == *device && mac.instance <= MOST_MINOR_INSTANCE).cloned()
    }
}

/// Instances above have no minor nodes.
pub(crate) const MOST_MINOR_INSTANCE: u32 = 999;

/// A driver's mac.
pub(crate) struct Mac {
    pub(crate) kernel: Kernel,
    /// Driver name and instance.
    pub(crate) name: String,
    pub(crate) instance: u32,
    pub(crate) module: Module,
    pub(crate) device: DevInfo,
    /// The driver's argument for its callbacks, an address.
    cookie: usize,
    /// The driver's callbacks, in its own memory.
    callbacks: usize,
    pub(crate) plugin: Arc<MacType>,
    handle: OnceLock<usize>,
    pub(crate) perimeter: Perimeter,
    pub(crate) state: HostMutex<MacState>,
    /// Who uses it: the link made of it by `dls_devnet_create`.
    pub(crate) client: HostMutex<Option<Arc<dyn Client>>>,
    /// Somebody measures it: packets that come up end there.
    pub(crate) counting: HostMutex<Option<Arc<Counting>>>,
    notes: notify::Notes,
    /// Threads of the driver inside an upcall.
    upcalls: AtomicU32,
    rings: OnceLock<Rings>,
    /// Threads inside a call for a ring from which nothing may come up.
    ring_calls: HostMutex<BTreeSet<u64>>,
    private_properties: Vec<String>,
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mac({})", self.name)
    }
}

/// What changes in the life of a mac.
#[derive(Debug)]
pub(crate) struct MacState {
    pub(crate) disabled: bool,
    /// `mac_open`s.
    pub(crate) references: u32,
    /// From before `mc_start` until `mc_stop` has returned: packets may come up.
    pub(crate) running: bool,
    /// Users that need it started.
    pub(crate) active: u32,
    /// Listeners that need the device promiscuous.
    pub(crate) promiscuous: u32,
    pub(crate) address: LinkAddress,
    /// What its receive group was given, while the link is used.
    pub(crate) programmed: Option<LinkAddress>,
    /// What the driver registered as its address.
    pub(crate) factory: LinkAddress,
    pub(crate) min_sdu: u32,
    pub(crate) max_sdu: u32,
    pub(crate) multicast_sdu: u32,
    /// What the driver says.
    pub(crate) low_state: LinkState,
    /// What clients see.
    pub(crate) link_state: LinkState,
    /// Users of each enabled group.
    pub(crate) groups: BTreeMap<LinkAddress, u32>,
}

impl Mac {
    /// The pointer the driver knows it by.
    pub(crate) fn as_handle(&self) -> mac_handle_t {
        std::ptr::without_provenance_mut(self.handle.get().copied().unwrap_or(0))
    }

    fn cookie(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.cookie)
    }

    /// The callbacks as they are now: the structure is the driver's and kept by reference.
    fn callbacks(&self) -> mac_callbacks_t {
        let callbacks: *const mac_callbacks_t = std::ptr::with_exposed_provenance(self.callbacks);
        // SAFETY: mac_register(9F): the structure lives as long as the registration; the module is loaded as long as that.
        unsafe { callbacks.read() }
    }

    /// What is in the log and on kstats.
    pub(crate) fn driver_name(&self) -> &str {
        self.module.name()
    }
}

/// The mac behind a driver's handle; a stale one is a use of freed memory (rule 16), and there is none then.
pub(crate) fn mac_of(cx: &Cx, handle: mac_handle_t) -> Option<Arc<Mac>> {
    match Macs::of(cx.kernel()).live.get(handle) {
        Ok(mac) => Some(mac),
        Err(error) => {
            cx.violate(Rule::HeapCorruption, error.to_string());
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_MINOR_INSTANCE, Macs};

    #[test]
    fn two_macs_that_are_being_registered_have_two_numbers() {
        let macs = Macs::new();
        let first = MOST_MINOR_INSTANCE + 1;
        assert_eq!(macs.take_number(), Some(first));
        // Neither has its name yet.
        assert_eq!(macs.take_number(), Some(first + 1));
        macs.give_back(first);
        assert_eq!(macs.take_number(), Some(first));
    }
}
