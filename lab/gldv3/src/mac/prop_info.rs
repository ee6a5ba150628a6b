//! `mac_prop_info_*`: how a driver describes a property, inside `mc_propinfo` alone.

use std::ffi::c_char;

use fakekernel::mem::c_string;
use fakekernel::{Errno, Export, HostMutex, Rule, cx, export};
use illumos_sys_hdrs::{link_flowctrl_t, mac_prop_info_handle_t};

use crate::mac::Macs;
use crate::types::{Permission, PropertyValue};

pub(crate) fn exports() -> Vec<Export> {
    export! {
        ANY: mac_prop_info_set_default_uint8, mac_prop_info_set_default_uint32, mac_prop_info_set_default_uint64,
            mac_prop_info_set_default_link_flowctrl, mac_prop_info_set_default_str, mac_prop_info_set_range_uint32,
            mac_prop_info_set_perm;
    }
}

/// Ranges the asker has room for.
const MOST_RANGES: usize = 8;

/// What a driver has said of a property so far.
#[derive(Debug, Default)]
pub(crate) struct PropInfo(HostMutex<Said>);

/// See [`PropInfo`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) permission: Option<Permission>,
    pub(crate) default: Option<PropertyValue>,
    pub(crate) ranges: Vec<(u32, u32)>,
    pub(crate) error: Option<Errno>,
    /// Room for a default, bytes.
    room: usize,
}

impl PropInfo {
    /// An asker with room for a default of that many bytes.
    pub(crate) fn new(room: usize) -> Self {
        Self(HostMutex::new(Said { room, ..Said::default() }))
    }

    pub(crate) fn said(&self) -> Said {
        self.0.lock().clone()
    }
}

fn say(handle: mac_prop_info_handle_t, f: impl FnOnce(&mut Said)) {
    let cx = cx();
    match Macs::of(cx.kernel()).prop_infos.get(handle) {
        Ok(info) => f(&mut info.0.lock()),
        Err(error) => {
            cx.violate(Rule::HeapCorruption, format!("{error}: it is valid inside mc_propinfo only"))
        }
    }
}

unsafe extern "C" fn mac_prop_info_set_default_uint8(handle: mac_prop_info_handle_t, value: u8) {
    say(handle, |said| said.default = Some(PropertyValue::U32(value.into())));
}

unsafe extern "C" fn mac_prop_info_set_default_uint32(handle: mac_prop_info_handle_t, value: u32) {
    say(handle, |said| said.default = Some(PropertyValue::U32(value)));
}

unsafe extern "C" fn mac_prop_info_set_default_uint64(handle: mac_prop_info_handle_t, value: u64) {
    say(handle, |said| said.default = Some(PropertyValue::U64(value)));
}

unsafe extern "C" fn mac_prop_info_set_default_link_flowctrl(
    handle: mac_prop_info_handle_t,
    value: link_flowctrl_t,
) {
    say(handle, |said| said.default = Some(PropertyValue::U32(value.0)));
}

unsafe extern "C" fn mac_prop_info_set_default_str(handle: mac_prop_info_handle_t, text: *const c_char) {
    // SAFETY: mac_prop_info_set_default_str(9F): a string.
    let text = unsafe { c_string(text, None) };
    say(handle, |said| {
        if text.len() < said.room {
            said.default = Some(PropertyValue::Text(String::from_utf8_lossy(&text).into_owned()));
        } else {
            said.error = Some(Errno::ENOBUFS);
        }
    });
}

unsafe extern "C" fn mac_prop_info_set_range_uint32(handle: mac_prop_info_handle_t, min: u32, max: u32) {
    say(handle, |said| {
        if said.ranges.len() < MOST_RANGES {
            said.ranges.push((min, max));
        } else {
            said.error = Some(Errno::ENOSPC);
        }
    });
}

unsafe extern "C" fn mac_prop_info_set_perm(handle: mac_prop_info_handle_t, permission: u8) {
    say(handle, |said| {
        said.permission = match permission {
            0x1 => Some(Permission::ReadOnly),
            0x10 => Some(Permission::WriteOnly),
            0x11 => Some(Permission::ReadWrite),
            _ => said.permission,
        }
    });
}
