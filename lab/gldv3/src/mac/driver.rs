//! Calls of the driver's callbacks, one method each. Every one may be called from any thread the framework calls it from; the
//! caller sees to the perimeter.

use std::ffi::{CStr, CString, c_int, c_void};

use fakekernel::genunix::Cred;
use fakekernel::race::{self, Key};
use fakekernel::{Ctx, EntryKind, Errno};
use illumos_sys_hdrs::{
    B_FALSE, B_TRUE, boolean_t, mac_capab_t, mac_prop_id_t, mac_prop_info_handle_t, mblk_t, uint_t,
};

use super::Mac;
use crate::address::LinkAddress;
use crate::bare::BareDriver;

/// Bits of `mc_callbacks`: the flag, not the pointer, decides whether an optional callback is called.
pub(super) mod flag {
    pub(in crate::mac) const IOCTL: u32 = 0x2;
    pub(in crate::mac) const GETCAPAB: u32 = 0x4;
    pub(in crate::mac) const OPEN: u32 = 0x8;
    pub(in crate::mac) const CLOSE: u32 = 0x10;
    pub(in crate::mac) const SETPROP: u32 = 0x20;
    pub(in crate::mac) const GETPROP: u32 = 0x40;
    pub(in crate::mac) const PROPINFO: u32 = 0x80;
}

pub(super) fn digits(address: &LinkAddress) -> String {
    address.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn boolean(value: bool) -> boolean_t {
    if value { B_TRUE } else { B_FALSE }
}

/// What a call returned, as a kernel's register has it.
fn code(result: &Result<(), Errno>) -> i32 {
    result.as_ref().map_or_else(|error| error.0, |()| 0)
}

impl Mac {
    /// What the registration and each control callback leave for every callback after them (rule 54): mac's own locks.
    pub(crate) fn key(&self) -> Key {
        Key("mac", (&raw const *self).addr() as u64)
    }

    /// What calls that transmit leave for whoever stops them.
    fn transmissions(&self) -> Key {
        Key("mac transmits", (&raw const *self).addr() as u64)
    }

    /// What the calling thread does from now on comes after every callback that is over.
    pub(super) fn come_after_callbacks(&self) {
        race::acquire(self.key());
        race::acquire(self.transmissions());
    }

    pub(super) fn control(&self, name: &'static str) -> EntryKind {
        EntryKind::callback(name).in_turn(self.key())
    }

    /// Two may run at once, whatever mac knows.
    pub(super) fn transmission(&self, name: &'static str) -> EntryKind {
        EntryKind::callback(name).on_packet_path().after(self.key()).leaving(self.transmissions())
    }

    /// Writes a call down, once it has returned, in the words of `metal run --calls`.
    fn called(&self, call: impl FnOnce() -> String) {
        self.kernel.journal(|| format!("{} {}", self.name, call()));
    }

    pub(super) fn has(&self, flag: u32) -> bool {
        self.callbacks().mc_callbacks & flag != 0
    }

    /// `mc_getstat`: `None` when the driver does not count that.
    pub(super) fn call_getstat(&self, stat: u32) -> Option<u64> {
        let f = self.callbacks().mc_getstat?;
        let mut value = 0u64;
        let args = (self.cookie(), stat, &raw mut value);
        // SAFETY: the driver registered this callback for this cookie and is registered; the value has a place.
        let failed = unsafe { self.module.enter(f, args, self.control("mc_getstat")) };
        (failed == 0).then_some(value)
    }

    pub(super) fn call_start(&self) -> Result<(), Errno> {
        let f = self.callbacks().mc_start.ok_or(Errno::ENOTSUP)?;
        // SAFETY: as above.
        let result =
            Errno::check(unsafe { self.module.enter(f, (self.cookie(),), self.control("mc_start")) });
        self.called(|| format!("mc_start() = {}", code(&result)));
        result
    }

    pub(super) fn call_stop(&self) {
        if let Some(f) = self.callbacks().mc_stop {
            // mac waits for whoever is transmitting.
            self.come_after_callbacks();
            // SAFETY: as above.
            unsafe { self.module.enter(f, (self.cookie(),), self.control("mc_stop")) };
            self.called(|| "mc_stop()".to_owned());
        }
    }

    pub(super) fn call_setpromisc(&self, on: bool) -> Result<(), Errno> {
        let f = self.callbacks().mc_setpromisc.ok_or(Errno::ENOTSUP)?;
        let args = (self.cookie(), boolean(on));
        // SAFETY: as above.
        let result = Errno::check(unsafe { self.module.enter(f, args, self.control("mc_setpromisc")) });
        self.called(|| format!("mc_setpromisc({}) = {}", u8::from(on), code(&result)));
        result
    }

    /// `mc_multicst`, with the address at no particular alignment and gone after the call.
    pub(super) fn call_multicst(&self, add: bool, group: &LinkAddress) -> Result<(), Errno> {
        let f = self.callbacks().mc_multicst.ok_or(Errno::ENOTSUP)?;
        let mut place = [0u8; 24];
        place[1..21].copy_from_slice(&group.0);
        let args = (self.cookie(), boolean(add), place[1..].as_ptr());
        // SAFETY: as above, with 20 readable bytes.
        let result = Errno::check(unsafe { self.module.enter(f, args, self.control("mc_multicst")) });
        place.fill(0xef);
        self.called(|| format!("mc_multicst({}, {}) = {}", u8::from(add), digits(group), code(&result)));
        result
    }

    pub(super) fn call_unicst(&self, address: &LinkAddress) -> Result<(), Errno> {
        let f = self.callbacks().mc_unicst.ok_or(Errno::ENOTSUP)?;
        let args = (self.cookie(), address.0.as_ptr());
        // SAFETY: as above, with 20 readable bytes.
        let result = Errno::check(unsafe { self.module.enter(f, args, self.control("mc_unicst")) });
        self.called(|| format!("mc_unicst({}) = {}", digits(address), code(&result)));
        result
    }

    /// `mc_tx`: what it hands back.
    pub(super) fn call_tx(&self, chain: *mut mblk_t) -> *mut mblk_t {
        let Some(f) = self.callbacks().mc_tx else { return chain };
        // SAFETY: as above; the chain is the driver's from here on.
        unsafe { self.module.enter(f, (self.cookie(), chain), self.transmission("mc_tx")) }
    }

    /// The same of another driver, which has no cookie.
    pub(crate) fn call_tx_of(&self, driver: &BareDriver, chain: *mut mblk_t) -> *mut mblk_t {
        // SAFETY: the function takes a message and a pointer it does not look at; the message is its from here on.
        unsafe { driver.module.enter(driver.tx, (self.cookie(), chain), self.transmission("bare_tx")) }
    }

    /// `mc_getcapab`, with `data` as the capability wants it (null for boolean ones).
    pub(super) fn call_getcapab(&self, capability: u32, data: *mut c_void) -> bool {
        let Some(f) = self.callbacks().mc_getcapab.filter(|_| self.has(flag::GETCAPAB)) else { return false };
        let args = (self.cookie(), mac_capab_t(capability), data);
        // SAFETY: as above; the callers pass what the capability is described with, with room to spare.
        let known: boolean_t = unsafe { self.module.enter(f, args, self.control("mc_getcapab")) };
        self.called(|| format!("mc_getcapab({capability:#x}) = {}", u8::from(known == B_TRUE)));
        known == B_TRUE
    }

    /// `mac_ioctl`: what `mc_ioctl` answers; EINVAL where there is none.
    pub(crate) fn ioctl(&self, cred: Cred, command: i32, argument: &[u8]) -> Result<(i32, Vec<u8>), Errno> {
        let f = self.callbacks().mc_ioctl.filter(|_| self.has(flag::IOCTL)).ok_or(Errno::EINVAL)?;
        self.kernel.stream_ioctl(self.module.name(), cred, command, argument, |queue, message| {
            let args = (self.cookie(), queue, message);
            // SAFETY: as above; the message is the driver's from here on, and the queue has it answered.
            unsafe {
                self.module.enter(f, args, EntryKind::callback_in("mc_ioctl", Ctx::User).in_turn(self.key()))
            };
        })
    }

    pub(super) fn call_open(&self) -> Result<(), Errno> {
        let Some(f) = self.callbacks().mc_open.filter(|_| self.has(flag::OPEN)) else { return Ok(()) };
        // SAFETY: as above.
        Errno::check(unsafe { self.module.enter(f, (self.cookie(),), self.control("mc_open")) })
    }

    pub(super) fn call_close(&self) {
        if let Some(f) = self.callbacks().mc_close.filter(|_| self.has(flag::CLOSE)) {
            // SAFETY: as above.
            unsafe { self.module.enter(f, (self.cookie(),), self.control("mc_close")) };
        }
    }

    pub(super) fn call_setprop(&self, name: &str, id: i32, value: &[u8]) -> Result<(), Errno> {
        let f = self.callbacks().mc_setprop.filter(|_| self.has(flag::SETPROP)).ok_or(Errno::ENOTSUP)?;
        let name = CString::new(name).map_err(|_| Errno::EINVAL)?;
        let args =
            (self.cookie(), name.as_ptr(), mac_prop_id_t(id), value.len() as uint_t, value.as_ptr().cast());
        // SAFETY: as above, with a string and as many bytes as are said.
        let result = Errno::check(unsafe { self.module.enter(f, args, self.control("mc_setprop")) });
        self.property("mc_setprop", &name, id, Some(code(&result)));
        result
    }

    /// `mc_getprop` into a zeroed buffer.
    pub(super) fn call_getprop(&self, name: &str, id: i32, size: usize) -> Result<Vec<u8>, Errno> {
        let f = self.callbacks().mc_getprop.filter(|_| self.has(flag::GETPROP)).ok_or(Errno::ENOTSUP)?;
        let name = CString::new(name).map_err(|_| Errno::EINVAL)?;
        let mut value = vec![0u8; size];
        let args =
            (self.cookie(), name.as_ptr(), mac_prop_id_t(id), size as uint_t, value.as_mut_ptr().cast());
        // SAFETY: as above, with a string and a buffer of that size.
        let failed: c_int = unsafe { self.module.enter(f, args, self.control("mc_getprop")) };
        self.property("mc_getprop", &name, id, Some(failed));
        Errno::check(failed).map(|()| value)
    }

    pub(super) fn call_propinfo(&self, name: &str, id: i32, handle: mac_prop_info_handle_t) {
        let Some(f) = self.callbacks().mc_propinfo.filter(|_| self.has(flag::PROPINFO)) else { return };
        let Ok(name) = CString::new(name) else { return };
        let args = (self.cookie(), name.as_ptr(), mac_prop_id_t(id), handle);
        // SAFETY: as above, with a string and a handle that is valid during the call.
        unsafe { self.module.enter(f, args, self.control("mc_propinfo")) };
        self.property("mc_propinfo", &name, id, None);
    }

    /// Writes a call about a property down, with what it returned if it does.
    fn property(&self, call: &str, name: &CStr, id: i32, returned: Option<i32>) {
        self.called(|| {
            let returned = returned.map(|code| format!(" = {code}")).unwrap_or_default();
            format!("{call}({}, {id:#x}){returned}", name.to_string_lossy())
        });
    }
}
