//! `mac_register`, `mac_disable`, `mac_unregister` (`M/mac_provider.c`).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use fakekernel::genunix::{DevInfo, Level, MinorNode};
use fakekernel::mem::{Mem, c_string};
use fakekernel::{Cx, Errno, Export, FaultKind, HostMutex, Module, Rule, cx, export, race};
use illumos_sys_hdrs::{mac_callbacks_t, mac_handle_t, mac_register_t, uint_t};

use super::capability::LEGACY;
use super::notify::Notes;
use super::rings::virtualisation;
use super::{MOST_MINOR_INSTANCE, Mac, MacState, Macs, Perimeter, mac_of, stat};
use crate::address::LinkAddress;
use crate::plugin::{MacType, Registry};
use crate::types::LinkState;

pub(crate) fn exports() -> Vec<Export> {
    export! { UK: mac_alloc, mac_free, mac_register, mac_disable, mac_unregister; }
}

const VERSION: uint_t = 1;
const RECORD: &str = "mac_register_t";
/// Longest name of a private property, the NUL included.
const PROPERTY_NAME: usize = 256;

unsafe extern "C" fn mac_alloc(version: uint_t) -> *mut mac_register_t {
    let cx = cx();
    cx.may_block();
    if version != VERSION {
        return ptr::null_mut();
    }
    let record = cx.kernel().genunix().lend_structure(&cx, size_of::<mac_register_t>(), RECORD);
    let record: *mut mac_register_t = record.cast();
    // SAFETY: fresh memory of that size, 8-aligned.
    unsafe { record.write(mac_register_t { m_version: version, ..mac_register_t::default() }) };
    record
}

unsafe extern "C" fn mac_free(record: *mut mac_register_t) {
    let cx = cx();
    cx.kernel().genunix().return_structure(&cx, record.cast(), RECORD);
}

unsafe extern "C" fn mac_register(record: *mut mac_register_t, handle: *mut mac_handle_t) -> c_int {
    let cx = cx();
    cx.may_block();
    // SAFETY: mac_register(9F): a record of mac_alloc, filled in.
    let record = unsafe { record.read() };
    if cx.fault(FaultKind("mac_register")) {
        return Errno::ENOMEM.0;
    }
    cx.kernel().journal(|| format!("{} mac_register()", cx.module_name()));
    match register(&cx, &record) {
        Ok(mac) => {
            race::release(mac.key());
            // SAFETY: mac_register(9F): a place for the handle.
            unsafe { handle.write(mac.as_handle()) };
            0
        }
        Err(error) => error.0,
    }
}

/// The checks in the order of the C framework, then the work.
fn register(cx: &Cx, record: &mac_register_t) -> Result<Arc<Mac>, Errno> {
    let kernel = cx.kernel();
    let macs = Macs::of(kernel);
    let device = kernel.device(cx, record.m_dip).ok_or(Errno::EINVAL)?;
    if !macs.drivers.lock().contains(device.driver()) {
        return Err(Errno::EINVAL);
    }
    let module = driver_of(cx, &device)?;
    // SAFETY: mac_register(9F): the plugin's name is a string.
    let ident = String::from_utf8_lossy(&unsafe { c_string(record.m_type_ident, None) }).into_owned();
    let plugin = Registry::of(kernel).get(kernel, &ident).ok_or(Errno::EINVAL)?;
    match build(cx, &macs, record, device, module, plugin.clone()) {
        Ok(mac) => Ok(mac),
        Err(error) => {
            plugin.release();
            Err(error)
        }
    }
}

/// The module whose callbacks these are.
fn driver_of(cx: &Cx, device: &DevInfo) -> Result<Module, Errno> {
    cx.kernel().module(device.driver()).ok_or(Errno::EINVAL)
}

fn build(
    cx: &Cx,
    macs: &Macs,
    record: &mac_register_t,
    device: DevInfo,
    module: Module,
    plugin: Arc<MacType>,
) -> Result<Arc<Mac>, Errno> {
    let instance = instance_of(macs, record, &device)?;
    let built = build_as(cx, macs, record, device, module, plugin, instance);
    built.inspect_err(|_| macs.give_back(instance))
}

fn build_as(
    cx: &Cx,
    macs: &Macs,
    record: &mac_register_t,
    device: DevInfo,
    module: Module,
    plugin: Arc<MacType>,
    instance: u32,
) -> Result<Arc<Mac>, Errno> {
    let name = format!("{}{instance}", device.driver());
    let multicast_sdu = if record.m_multicast_sdu == 0 { record.m_max_sdu } else { record.m_multicast_sdu };
    if record.m_max_sdu <= record.m_min_sdu || !(record.m_min_sdu..=record.m_max_sdu).contains(&multicast_sdu)
    {
        return Err(Errno::EINVAL);
    }
    if (plugin.addrlen > 0) == record.m_src_addr.is_null() || !record.m_pdata.is_null() {
        return Err(Errno::EINVAL);
    }
    check_callbacks(record)?;
    let factory = read_address(record.m_src_addr, plugin.addrlen);
    let mac = Arc::new(Mac {
        kernel: cx.kernel().clone(),
        name,
        instance,
        module,
        device,
        cookie: record.m_driver.expose_provenance(),
        callbacks: record.m_callbacks.expose_provenance(),
        plugin,
        handle: OnceLock::new(),
        perimeter: Perimeter::new(),
        state: HostMutex::new(MacState {
            disabled: false,
            references: 0,
            running: false,
            active: 0,
            promiscuous: 0,
            address: factory,
            programmed: None,
            factory,
            min_sdu: record.m_min_sdu,
            max_sdu: record.m_max_sdu,
            multicast_sdu,
            low_state: LinkState::Unknown,
            link_state: LinkState::Unknown,
            groups: BTreeMap::new(),
        }),
        client: HostMutex::new(None),
        counting: HostMutex::new(None),
        notes: Notes::new(),
        upcalls: AtomicU32::new(0),
        rings: OnceLock::new(),
        ring_calls: HostMutex::new(BTreeSet::new()),
        private_properties: private_properties(record),
    });
    ask_capabilities(&mac);
    let result = with_rings(cx, macs, record, &mac);
    if result.is_err() {
        mac.forget_rings();
    }
    result.map(|()| mac)
}

fn with_rings(cx: &Cx, macs: &Macs, record: &mac_register_t, mac: &Arc<Mac>) -> Result<(), Errno> {
    let rings = virtualisation(record.m_v12n)?;
    if rings {
        mac.init_rings()?;
    }
    // A receive group is told of addresses, and the driver must not want to be told as well.
    if mac.callbacks().mc_unicst.is_none() != rings {
        return Err(Errno::EINVAL);
    }
    publish(cx, macs, mac)
}

fn instance_of(macs: &Macs, record: &mac_register_t, device: &DevInfo) -> Result<u32, Errno> {
    const ANY: u32 = u32::MAX;
    match record.m_instance {
        0 => Ok(device.instance()),
        ANY => macs.take_number().ok_or(Errno::ENOSPC),
        explicit if explicit > MOST_MINOR_INSTANCE => Err(Errno::EINVAL),
        explicit => Ok(explicit),
    }
}

fn check_callbacks(record: &mac_register_t) -> Result<(), Errno> {
    if record.m_callbacks.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: mac_register(9F): the driver's callbacks, not null.
    let callbacks: mac_callbacks_t = unsafe { record.m_callbacks.read() };
    let complete = callbacks.mc_getstat.is_some()
        && callbacks.mc_start.is_some()
        && callbacks.mc_stop.is_some()
        && callbacks.mc_setpromisc.is_some()
        && callbacks.mc_multicst.is_some();
    if complete { Ok(()) } else { Err(Errno::EINVAL) }
}

fn read_address(address: *const u8, len: usize) -> LinkAddress {
    let mut bytes = [0; 20];
    if len > 0 {
        // SAFETY: mac_register(9F): an address of the plugin's length, just found not null.
        unsafe { Mem::of(address, len.min(20)) }.copy_to(&mut bytes);
    }
    LinkAddress(bytes)
}

fn private_properties(record: &mac_register_t) -> Vec<String> {
    let mut names = Vec::new();
    let mut next = record.m_priv_props;
    while !next.is_null() {
        // SAFETY: mac_register(9F): an array of strings that a null pointer ends.
        let name = unsafe { next.read() };
        if name.is_null() {
            break;
        }
        // SAFETY: as above.
        let text = unsafe { c_string(name, Some(PROPERTY_NAME - 1)) };
        names.push(String::from_utf8_lossy(&text).into_owned());
        next = next.wrapping_add(1);
    }
    names
}

/// The capabilities the framework asks for while registering, in its order. The answers matter for LEGACY and its like only,
/// which no driver of the lab's has; that they are asked before the driver has its handle matters to the driver.
fn ask_capabilities(mac: &Mac) {
    const MULTIFACTADDR: u32 = 0x40;
    const TRANSCEIVER: u32 = 0x0100_0000;
    const LED: u32 = 0x0200_0000;
    const VNIC: u32 = 0x0001_0000;
    const AGGR: u32 = 0x0004_0000;
    let mut room = [0u64; 16];
    mac.call_getcapab(LEGACY, room.as_mut_ptr().cast());
    for boolean in [VNIC, AGGR] {
        mac.call_getcapab(boolean, ptr::null_mut::<c_void>());
    }
    for described in [MULTIFACTADDR, TRANSCEIVER, LED] {
        room.fill(0);
        mac.call_getcapab(described, room.as_mut_ptr().cast());
    }
}

fn publish(cx: &Cx, macs: &Macs, mac: &Arc<Mac>) -> Result<(), Errno> {
    // Looked at before anything of that name is made, which would be the other mac's too.
    if macs.by_name.lock().contains_key(&mac.name) {
        return Err(Errno::EEXIST);
    }
    mac.start_notes();
    stat::install(mac);
    add_minors(mac);
    let handle = macs.live.insert_arc(mac.clone());
    mac.handle.get_or_init(|| handle.addr());
    let taken = {
        let mut names = macs.by_name.lock();
        let taken = names.contains_key(&mac.name);
        if !taken {
            names.insert(mac.name.clone(), mac.clone());
        }
        taken
    };
    if taken {
        // The handle was inserted a few lines above and nobody else has it.
        drop(macs.live.remove(handle));
        mac.take_down();
        return Err(Errno::EEXIST);
    }
    cx.kernel().resources().add("mac handle", handle.addr() as u64, mac.name.clone());
    let text = format!("!{} registered", mac.name);
    cx.kernel().genunix().cmn_err(cx, Level::Notice, &text);
    Ok(())
}

fn add_minors(mac: &Mac) {
    const S_IFCHR: i32 = 0x2000;
    if mac.instance > MOST_MINOR_INSTANCE {
        return;
    }
    let minor = |name: &str, minor| MinorNode {
        name: name.to_owned(),
        spec_type: S_IFCHR,
        minor,
        node_type: "ddi_network".to_owned(),
    };
    mac.device.add_minor(minor(mac.driver_name(), 0));
    mac.device.add_minor(minor(&mac.name, mac.instance + 1));
}

impl Mac {
    /// Undoes what `publish` did beside the name and the handle.
    fn take_down(&self) {
        self.stop_notes();
        stat::remove(self);
        if self.instance <= MOST_MINOR_INSTANCE {
            self.device.remove_minors(Some(self.driver_name()));
            self.device.remove_minors(Some(&self.name));
        }
    }

    /// Marks it disabled, if nobody uses it. The caller is inside the perimeter.
    fn disable(&self) -> Result<(), Errno> {
        let mut state = self.state.lock();
        if state.references > 0 {
            return Err(Errno::EBUSY);
        }
        state.disabled = true;
        drop(state);
        // mac has waited for whoever was in a callback.
        self.come_after_callbacks();
        self.ask_notes_to_stop();
        Ok(())
    }
}

unsafe extern "C" fn mac_disable(handle: mac_handle_t) -> c_int {
    let cx = cx();
    cx.may_block();
    let Some(mac) = mac_of(&cx, handle) else { return Errno::EINVAL.0 };
    let _inside = mac.perimeter.enter();
    mac.disable().map_or_else(|error| error.0, |()| 0)
}

unsafe extern "C" fn mac_unregister(handle: mac_handle_t) -> c_int {
    let cx = cx();
    cx.may_block();
    cx.no_locks();
    let Some(mac) = mac_of(&cx, handle) else { return Errno::EINVAL.0 };
    mac.told(|| "mac_unregister()".to_owned());
    {
        let Some(_inside) = mac.perimeter.enter_nowait() else { return Errno::EBUSY.0 };
        if let Err(error) = mac.disable() {
            return error.0;
        }
    }
    mac.stop_notes();
    let upcalls = mac.upcalls.load(Ordering::Acquire);
    cx.check(upcalls == 0, Rule::HeapCorruption, || {
        format!("mac_unregister of {} while {upcalls} of its threads are inside an upcall", mac.name)
    });
    let macs = Macs::of(cx.kernel());
    macs.by_name.lock().remove(&mac.name);
    let _inside = mac.perimeter.enter();
    mac.take_down();
    mac.forget_rings();
    // Nothing of that name is left.
    macs.give_back(mac.instance);
    mac.plugin.release();
    // The handle was valid when this call looked it up; two racing calls are told apart here.
    drop(macs.live.remove(handle));
    cx.kernel().resources().remove("mac handle", handle.addr() as u64);
    0
}
