//! The link management daemon's table: ids and names of datalinks, and what `dladm` has set for good.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::sync::Arc;

use fakekernel::mem::{Mem, c_string};
use fakekernel::{Errno, Export, HostMutex, Kernel, cx, export};
use illumos_sys_hdrs::{datalink_class_t, datalink_id_t};

use crate::types::{PropertyId, PropertyValue};

pub(crate) fn exports() -> Vec<Export> {
    export! { UK: dls_mgmt_get_linkinfo, dls_mgmt_get_linkid; }
}

/// Longest link name, the NUL included.
const NAME: usize = 32;
/// `DL_IB`
const MEDIA_IB: u32 = 0x1a;
/// `DLMGMT_PERSIST`
const PERSISTENT: u32 = 0x2;

/// What kind of link it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// An attached instance.
    Physical = 0x1,
    /// A partition object.
    Partition = 0x100,
}

/// A line of the daemon's table.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) class: Class,
    properties: Vec<(PropertyId, PropertyValue)>,
}

/// The daemon of a host.
#[derive(Debug, Default)]
pub(crate) struct Management {
    state: HostMutex<State>,
}

#[derive(Debug, Default)]
struct State {
    links: BTreeMap<u32, Entry>,
    last_id: u32,
}

impl Management {
    pub(crate) fn of(kernel: &Kernel) -> Arc<Self> {
        kernel.state(Self::default)
    }

    /// `dladm_create_datalink_id`: the id of a name, which keeps it for good if it is a physical link's.
    ///
    /// # Errors
    ///
    /// EEXIST when another class of link has the name; EINVAL for a name that is none.
    pub(crate) fn create(&self, name: &str, class: Class) -> Result<u32, Errno> {
        if !is_name(name) {
            return Err(Errno::EINVAL);
        }
        let mut state = self.state.lock();
        if let Some((id, entry)) = state.links.iter().find(|(_, entry)| entry.name == name) {
            let again = entry.class == class && class == Class::Physical;
            return if again { Ok(*id) } else { Err(Errno::EEXIST) };
        }
        state.last_id += 1;
        let id = state.last_id;
        state.links.insert(id, Entry { name: name.to_owned(), class, properties: Vec::new() });
        Ok(id)
    }

    /// Another name for an id.
    ///
    /// # Errors
    ///
    /// ENOENT, EEXIST, EINVAL for a name that is none.
    pub(crate) fn rename(&self, id: u32, name: &str) -> Result<(), Errno> {
        if !is_name(name) {
            return Err(Errno::EINVAL);
        }
        let mut state = self.state.lock();
        if state.links.values().any(|entry| entry.name == name) {
            return Err(Errno::EEXIST);
        }
        name.clone_into(&mut state.links.get_mut(&id).ok_or(Errno::ENOENT)?.name);
        Ok(())
    }

    /// `dladm_destroy_datalink_id`.
    pub(crate) fn destroy(&self, id: u32) {
        self.state.lock().links.remove(&id);
    }

    /// The line of an id.
    pub(crate) fn entry(&self, id: u32) -> Option<Entry> {
        self.state.lock().links.get(&id).cloned()
    }

    /// Every line: id, name, class.
    pub(crate) fn entries(&self) -> Vec<(u32, String, Class)> {
        let state = self.state.lock();
        state.links.iter().map(|(id, entry)| (*id, entry.name.clone(), entry.class)).collect()
    }

    /// The id of a name.
    pub(crate) fn id_of(&self, name: &str) -> Option<u32> {
        self.state.lock().links.iter().find(|(_, entry)| entry.name == name).map(|(id, _)| *id)
    }

    /// Remembers a property, to be set whenever the link comes.
    pub(crate) fn keep_property(&self, id: u32, property: &PropertyId, value: &PropertyValue) {
        if let Some(entry) = self.state.lock().links.get_mut(&id) {
            entry.properties.retain(|(known, _)| known != property);
            entry.properties.push((property.clone(), value.clone()));
        }
    }

    /// What is to be set when the link comes, in the order it was asked for.
    pub(crate) fn properties(&self, id: u32) -> Vec<(PropertyId, PropertyValue)> {
        self.state.lock().links.get(&id).map_or_else(Vec::new, |entry| entry.properties.clone())
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() < NAME && name.ends_with(|c: char| c.is_ascii_digit())
}

unsafe extern "C" fn dls_mgmt_get_linkinfo(
    id: datalink_id_t,
    name: *mut c_char,
    class: *mut datalink_class_t,
    media: *mut u32,
    flags: *mut u32,
) -> c_int {
    let cx = cx();
    cx.may_block();
    let Some(entry) = Management::of(cx.kernel()).entry(id) else { return Errno::ENOENT.0 };
    if !name.is_null() {
        // SAFETY: dls_mgmt_get_linkinfo: room for a link name, not null.
        let place = unsafe { Mem::of(name, NAME) };
        place.set(0);
        place.put(entry.name.as_bytes());
    }
    if !class.is_null() {
        // SAFETY: writable, not null.
        unsafe { class.write(datalink_class_t(entry.class as u32)) };
    }
    for (place, value) in [(media, MEDIA_IB), (flags, PERSISTENT)] {
        if !place.is_null() {
            // SAFETY: writable, not null.
            unsafe { place.write(value) };
        }
    }
    0
}

unsafe extern "C" fn dls_mgmt_get_linkid(name: *const c_char, id: *mut datalink_id_t) -> c_int {
    let cx = cx();
    cx.may_block();
    // SAFETY: dls_mgmt_get_linkid: a string.
    let name = unsafe { c_string(name, Some(NAME)) };
    match Management::of(cx.kernel()).id_of(&String::from_utf8_lossy(&name)) {
        Some(found) => {
            // SAFETY: dls_mgmt_get_linkid: a place for the id.
            unsafe { id.write(found) };
            0
        }
        None => Errno::ENOENT.0,
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, Management};
    use fakekernel::Errno;

    #[test]
    fn a_physical_link_keeps_its_id_and_names_are_unique() {
        let daemon = Management::default();
        let id = daemon.create("ibd0", Class::Physical).unwrap();
        assert_eq!(daemon.create("ibd0", Class::Physical), Ok(id));
        assert_eq!(daemon.create("ibd0", Class::Partition), Err(Errno::EEXIST));
        let part = daemon.create("p8001ibp0", Class::Partition).unwrap();
        assert_eq!(daemon.create("p8001ibp0", Class::Partition), Err(Errno::EEXIST));
        daemon.destroy(part);
        assert!(daemon.create("p8001ibp0", Class::Partition).unwrap() > part);
        assert_eq!(daemon.create("nodigit", Class::Physical), Err(Errno::EINVAL));
    }
}
