//! What the link management daemon answers at its door: ids, names and classes of data links.

use fakekernel::genunix::{Cred, UserBuffer};
use fakekernel::{Errno, Kernel};

use super::admin::dld_ioctl_as;
use crate::dls::{Class, Devnets, Management};
use crate::types::{Datalink, PropertyId, PropertyValue};

/// Every data link the daemon has an id for, in the order of their ids: those of macs, and those that are being made.
pub fn datalinks(kernel: &Kernel) -> Vec<Datalink> {
    let entries = Management::of(kernel).entries();
    let line = |(id, name, class)| Datalink { id, name, partition: class == Class::Partition };
    entries.into_iter().map(line).collect()
}

/// `dladm_create_datalink_id`: an id for a name. `properties` are set as soon as a mac becomes that link.
///
/// # Errors
///
/// EEXIST when the name is taken; EINVAL for a name that is none.
pub fn create_datalink(
    kernel: &Kernel,
    name: &str,
    partition: bool,
    properties: &[(PropertyId, PropertyValue)],
) -> Result<u32, Errno> {
    let management = &Management::of(kernel);
    let class = if partition { Class::Partition } else { Class::Physical };
    let id = management.create(name, class)?;
    for (property, value) in properties {
        management.keep_property(id, property, value);
    }
    Ok(id)
}

/// `dladm_rename_link`: another name for a link that nobody has open.
///
/// # Errors
///
/// ENOENT, EEXIST, EBUSY, or EINVAL for a name that is none.
pub fn rename_datalink(kernel: &Kernel, id: u32, name: &str) -> Result<(), Errno> {
    kernel.scope(|| crate::dls::rename_link(kernel, id, name))
}

/// `dladm_destroy_datalink_id`: the id is nobody's any more.
pub fn destroy_datalink(kernel: &Kernel, id: u32) {
    Management::of(kernel).destroy(id);
}

/// Waits until every link that has come has the properties it was to have. User context.
pub fn wait_for_properties(kernel: &Kernel) {
    Devnets::of(kernel).settle();
}

/// A part of a process's memory that an ioctl's argument points to.
#[derive(Debug)]
pub struct PointedTo<'a> {
    /// Where in the argument the 64-bit pointer is.
    pub at: usize,
    /// What is there; copied back when the ioctl is done.
    pub bytes: &'a mut [u8],
}

/// As [`dld_ioctl_as`], with something that the argument points to.
///
/// # Errors
///
/// As there; both buffers may have been written all the same.
///
/// # Panics
///
/// When the pointer's place is outside the argument.
pub fn dld_ioctl_with(
    kernel: &Kernel,
    cred: Cred,
    command: u32,
    argument: &mut [u8],
    pointed_to: Option<PointedTo<'_>>,
) -> Result<i32, Errno> {
    let Some(PointedTo { at, bytes }) = pointed_to else {
        return dld_ioctl_as(kernel, cred, command, argument);
    };
    let user = UserBuffer::new(kernel, bytes);
    argument[at..at + 8].copy_from_slice(&(user.as_ptr().addr() as u64).to_ne_bytes());
    let result = dld_ioctl_as(kernel, cred, command, argument);
    bytes.copy_from_slice(&user.content());
    result
}
