//! `dladm create-part` and `delete-part`: the argument of the driver's ioctls, laid out by hand as the tool does.

use std::mem::offset_of;

use fakekernel::genunix::Cred;
use fakekernel::{Errno, Kernel};
use illumos_sys_hdrs::{IBD_CREATE_IBPART, IBD_DELETE_IBPART, ibd_ioctl_s, ibpart_ioctl_s};

use crate::dld;
use crate::dls::{Class, Management, find_link};
use crate::types::PartitionError;

/// `ibpart_ioctl_t` as bytes.
struct Argument([u8; size_of::<ibpart_ioctl_s>()]);

impl Argument {
    fn new() -> Self {
        Self([0; size_of::<ibpart_ioctl_s>()])
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn status(&self) -> i32 {
        let at = offset_of!(ibd_ioctl_s, ioc_status);
        i32::from_ne_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    fn run(&mut self, kernel: &Kernel, command: u32, cred: Cred) -> Result<(), PartitionError> {
        let result = kernel.scope(|| dld::ioctl(kernel, cred, command, &mut self.0));
        result.map(drop).map_err(|errno| PartitionError { errno, status: self.status() })
    }
}

fn refused(errno: Errno) -> PartitionError {
    PartitionError { errno, status: 0 }
}

/// `dladm create-part -l PORT -P PKEY NAME`: afterwards there is a link `name`, which must end with a digit.
///
/// # Errors
///
/// The driver's errno and status; ENOENT when there is no link `port`; EEXIST when there is a link `name`.
pub fn create_partition(
    kernel: &Kernel,
    port: &str,
    pkey: u16,
    name: &str,
    force: bool,
) -> Result<(), PartitionError> {
    create_partition_as(kernel, Cred::ROOT, port, pkey, name, force)
}

/// The same by somebody who may configure links, in whichever zone.
///
/// # Errors
///
/// As there.
pub fn create_partition_as(
    kernel: &Kernel,
    cred: Cred,
    port: &str,
    pkey: u16,
    name: &str,
    force: bool,
) -> Result<(), PartitionError> {
    let (port_id, port) = find_link(kernel, port).map_err(refused)?;
    let management = &Management::of(kernel);
    let id = management.create(name, Class::Partition).map_err(refused)?;
    let mut argument = Argument::new();
    argument.put(offset_of!(ibd_ioctl_s, ioc_linkid), &port_id.to_ne_bytes());
    argument.put(offset_of!(ibd_ioctl_s, ioc_port_inst), &port.mac.instance.to_ne_bytes());
    argument.put(offset_of!(ibpart_ioctl_s, ioc_partid), &id.to_ne_bytes());
    argument.put(offset_of!(ibpart_ioctl_s, ioc_pkey), &pkey.to_ne_bytes());
    argument.put(offset_of!(ibpart_ioctl_s, ioc_force_create), &u32::from(force).to_ne_bytes());
    let result = argument.run(kernel, IBD_CREATE_IBPART, cred);
    if result.is_err() {
        management.destroy(id);
    }
    result
}

/// `dladm delete-part NAME`.
///
/// # Errors
///
/// The driver's errno and status; ENOENT when there is no such link.
pub fn delete_partition(kernel: &Kernel, name: &str) -> Result<(), PartitionError> {
    let (id, link) = find_link(kernel, name).map_err(refused)?;
    if link.class != Class::Partition {
        return Err(refused(Errno::EINVAL));
    }
    let mut argument = Argument::new();
    argument.put(offset_of!(ibpart_ioctl_s, ioc_partid), &id.to_ne_bytes());
    argument.run(kernel, IBD_DELETE_IBPART, Cred::ROOT)?;
    Management::of(kernel).destroy(id);
    Ok(())
}
