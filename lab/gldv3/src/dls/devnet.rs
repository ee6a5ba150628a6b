//! `dls_devnet_create` and `dls_devnet_destroy`: the association of a mac with a datalink id (`DLS/dls_mgmt.c`).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_char, c_int};
use std::sync::Arc;

use fakekernel::genunix::KstatId;
use fakekernel::mem::c_string;
use fakekernel::{Ctx, Errno, Export, FaultKind, HostMutex, Kernel, WaitQueue, cx, export};
use illumos_sys_hdrs::{B_FALSE, B_TRUE, boolean_t, datalink_id_t, mac_handle_t, zoneid_t};

use super::link::Link;
use super::management::{Class, Management};
use crate::mac::{Mac, Property, mac_of};

pub(crate) fn exports() -> Vec<Export> {
    export! {
        UK: dls_devnet_create, dls_devnet_destroy, dls_devnet_islinkvisible, dls_devnet_macname2linkid;
    }
}

/// The links of a host.
#[derive(Debug)]
pub(crate) struct Devnets {
    links: HostMutex<BTreeMap<u32, Devnet>>,
    /// Names of macs that have an entry without an id: what destroying a link leaves behind that there is not.
    without_id: HostMutex<BTreeSet<String>>,
    /// For those who wait for a property task to end.
    changed: WaitQueue,
}

#[derive(Debug)]
struct Devnet {
    link: Arc<Link>,
    /// Streams open on it.
    holds: u32,
    /// The zone that has it; while that is not the one that made it, it can neither be renamed nor destroyed.
    zone: i32,
    /// The daemon is setting its properties.
    property_task: bool,
    /// It is being destroyed: nobody may open it.
    going: bool,
}

impl Devnet {
    fn is_in_use(&self) -> bool {
        self.holds > 0 || self.zone != self.link.owner
    }
}

impl Devnets {
    fn new() -> Self {
        Self {
            links: HostMutex::new(BTreeMap::new()),
            without_id: HostMutex::new(BTreeSet::new()),
            changed: WaitQueue::new("a link's property task"),
        }
    }

    pub(crate) fn of(kernel: &Kernel) -> Arc<Self> {
        kernel.state(Self::new)
    }

    /// Every link, by id.
    pub(crate) fn all(&self) -> Vec<(u32, Arc<Link>)> {
        self.links.lock().iter().map(|(id, devnet)| (*id, devnet.link.clone())).collect()
    }

    /// Whether a zone made a link or has it.
    fn is_visible(&self, id: u32, zone: i32) -> bool {
        self.links.lock().get(&id).is_some_and(|devnet| devnet.zone == zone || devnet.link.owner == zone)
    }

    /// The zone that has a link.
    pub(crate) fn zone(&self, id: u32) -> Option<i32> {
        self.links.lock().get(&id).map(|devnet| devnet.zone)
    }

    /// What `dls_devnet_setzid` does: gives a link that nobody has open to a zone.
    ///
    /// # Errors
    ///
    /// ENOENT when there is no such link, EBUSY when a stream is open.
    pub(crate) fn set_zone(&self, id: u32, zone: i32) -> Result<(), Errno> {
        let mut links = self.links.lock();
        let devnet = links.get_mut(&id).ok_or(Errno::ENOENT)?;
        if devnet.holds > 0 || devnet.going {
            return Err(Errno::EBUSY);
        }
        devnet.zone = zone;
        Ok(())
    }

    /// A stream opens the link.
    pub(crate) fn hold(&self, id: u32) -> Option<Arc<Link>> {
        let mut links = self.links.lock();
        let devnet = links.get_mut(&id).filter(|devnet| !devnet.going)?;
        devnet.holds += 1;
        Some(devnet.link.clone())
    }

    /// A stream has closed.
    pub(crate) fn release(&self, id: u32) {
        if let Some(devnet) = self.links.lock().get_mut(&id) {
            devnet.holds -= 1;
        }
    }

    /// Waits until no link's properties are being set.
    pub(crate) fn settle(&self) {
        let mut links = self.links.lock();
        while links.values().any(|devnet| devnet.property_task) {
            links = self.changed.wait(links);
        }
    }

    fn end_property_task(&self, id: u32) {
        if let Some(devnet) = self.links.lock().get_mut(&id) {
            devnet.property_task = false;
        }
        self.changed.wake_all();
    }
}

/// The link of a name.
pub(crate) fn find_link(kernel: &Kernel, name: &str) -> Result<(u32, Arc<Link>), Errno> {
    let links = Devnets::of(kernel).all();
    links.into_iter().find(|(_, link)| link.name() == name).ok_or(Errno::ENOENT)
}

/// What `dls_devnet_create` does.
///
/// # Errors
///
/// ENOENT when the daemon does not know the id; EEXIST when id or mac has a link; EINVAL when the mac has an entry without an id and is no
/// physical link's; what opening the mac failed with.
pub(crate) fn create(mac: &Arc<Mac>, id: u32, zone: i32) -> Result<(), Errno> {
    let devnets = Devnets::of(&mac.kernel);
    let _inside = mac.perimeter.enter();
    let entry = Management::of(&mac.kernel).entry(id).ok_or(Errno::ENOENT)?;
    let taken = devnets.all().iter().any(|(known, link)| *known == id || link.mac.name == mac.name);
    if taken {
        return Err(Errno::EEXIST);
    }
    if devnets.without_id.lock().contains(&mac.name) {
        if entry.class != Class::Physical {
            return Err(Errno::EINVAL);
        }
        devnets.without_id.lock().remove(&mac.name);
    }
    mac.open()?;
    mac.device.hold();
    let link = Link::new(mac.clone(), id, entry.name, zone, entry.class);
    let devnet = Devnet { link: link.clone(), holds: 0, zone, property_task: true, going: false };
    devnets.links.lock().insert(id, devnet);
    *mac.client.lock() = Some(link.clone());
    install_kstat(&link);
    load_properties(&link);
    Ok(())
}

fn kstat_id(link: &Link) -> KstatId {
    KstatId { module: "link".to_owned(), instance: 0, name: link.name() }
}

fn install_kstat(link: &Arc<Link>) {
    let shown = Arc::downgrade(link);
    let reader = move || {
        shown.upgrade().map_or_else(Vec::new, |link| link.mac.link_kstat_entries(link.unknowns() as u32))
    };
    link.mac.kernel.add_kstat(kstat_id(link), Arc::new(reader));
}

/// Has the daemon set the link's persistent properties, on a thread of its own; it wants the perimeter, which the caller has.
fn load_properties(link: &Arc<Link>) {
    let id = link.id;
    let properties = Management::of(&link.mac.kernel).properties(id);
    if properties.is_empty() {
        Devnets::of(&link.mac.kernel).end_property_task(id);
        return;
    }
    let link = link.clone();
    let kernel = link.mac.kernel.clone();
    kernel.spawn(&format!("link properties {}", link.name()), Ctx::User, move || {
        for (property, value) in properties {
            // A property the driver refuses stays as it is; `dladm show-linkprop` shows which.
            let _ = link.mac.set_property(&Property::of(&property), &value);
        }
        Devnets::of(&link.mac.kernel).end_property_task(id);
    });
}

/// What `dls_devnet_rename` does: a link that nobody has open gets another name, and so does its kstat.
///
/// # Errors
///
/// ENOENT when there is no such link; EEXIST when the name is another's; EBUSY when a stream is open; EINVAL for a name that is
/// none.
pub(crate) fn rename(kernel: &Kernel, id: u32, name: &str) -> Result<(), Errno> {
    let devnets = Devnets::of(kernel);
    let link = {
        let mut links = devnets.links.lock();
        let devnet = links.get_mut(&id).ok_or(Errno::ENOENT)?;
        if devnet.is_in_use() || devnet.going || devnet.property_task {
            return Err(Errno::EBUSY);
        }
        // Nobody opens it meanwhile.
        devnet.going = true;
        devnet.link.clone()
    };
    let renamed = Management::of(kernel).rename(id, name);
    if renamed.is_ok() {
        kernel.remove_kstat(&kstat_id(&link));
        link.rename(name);
        install_kstat(&link);
    }
    if let Some(devnet) = devnets.links.lock().get_mut(&id) {
        devnet.going = false;
    }
    renamed
}

/// What `dls_devnet_destroy` does; the id the mac had. A mac without a link is left with an entry that has no id, under its name, which
/// nobody but another such call for a physical link ever takes away.
///
/// # Errors
///
/// ENOENT when the mac has no link; EBUSY when a stream is open, or without `wait` when its properties are being set.
pub(crate) fn destroy(mac: &Arc<Mac>, wait: bool) -> Result<u32, Errno> {
    let devnets = Devnets::of(&mac.kernel);
    let Some(link) = Link::of(mac) else {
        devnets.without_id.lock().insert(mac.name.clone());
        return Err(Errno::ENOENT);
    };
    leave(&devnets, link.id, wait)?;
    let _inside = mac.perimeter.enter();
    devnets.links.lock().remove(&link.id);
    mac.kernel.remove_kstat(&kstat_id(&link));
    link.shut_down();
    *mac.client.lock() = None;
    mac.device.release();
    mac.close();
    Ok(link.id)
}

/// Makes sure nobody uses or will use the link.
fn leave(devnets: &Devnets, id: u32, wait: bool) -> Result<(), Errno> {
    let mut links = devnets.links.lock();
    loop {
        let devnet = links.get_mut(&id).ok_or(Errno::ENOENT)?;
        if devnet.is_in_use() || devnet.going || devnet.property_task && !wait {
            return Err(Errno::EBUSY);
        }
        if !devnet.property_task {
            devnet.going = true;
            return Ok(());
        }
        links = devnets.changed.wait(links);
    }
}

fn code(result: Result<(), Errno>) -> c_int {
    result.map_or_else(|error| error.0, |()| 0)
}

unsafe extern "C" fn dls_devnet_create(handle: mac_handle_t, id: datalink_id_t, zone: zoneid_t) -> c_int {
    let cx = cx();
    cx.may_block();
    cx.no_locks();
    if cx.fault(FaultKind("dls_devnet_create")) {
        // The daemon that knows the link's name does not answer.
        return Errno(9).0;
    }
    mac_of(&cx, handle).map_or(Errno::EINVAL.0, |mac| code(create(&mac, id, zone)))
}

unsafe extern "C" fn dls_devnet_islinkvisible(id: datalink_id_t, zone: zoneid_t) -> boolean_t {
    let cx = cx();
    cx.may_block();
    if Devnets::of(cx.kernel()).is_visible(id, zone) { B_TRUE } else { B_FALSE }
}

unsafe extern "C" fn dls_devnet_destroy(
    handle: mac_handle_t,
    id: *mut datalink_id_t,
    wait: boolean_t,
) -> c_int {
    let cx = cx();
    cx.may_block();
    cx.no_locks();
    let Some(mac) = mac_of(&cx, handle) else { return Errno::EINVAL.0 };
    cx.check(!mac.perimeter.is_mine(), fakekernel::Rule::UpcallWithMutex, || {
        format!("dls_devnet_destroy inside the perimeter of {}", mac.name)
    });
    match destroy(&mac, wait != B_FALSE) {
        Ok(found) => {
            // SAFETY: dls_devnet_destroy: a place for the id.
            unsafe { id.write(found) };
            0
        }
        Err(error) => error.0,
    }
}

unsafe extern "C" fn dls_devnet_macname2linkid(name: *const c_char, id: *mut datalink_id_t) -> c_int {
    let cx = cx();
    cx.may_block();
    // SAFETY: dls_devnet_macname2linkid: a string.
    let name = unsafe { c_string(name, Some(32)) };
    let name = String::from_utf8_lossy(&name);
    let links = Devnets::of(cx.kernel()).all();
    match links.iter().find(|(_, link)| link.mac.name == name) {
        Some((found, _)) => {
            // SAFETY: dls_devnet_macname2linkid: a place for the id.
            unsafe { id.write(*found) };
            0
        }
        None => Errno::ENOENT.0,
    }
}
