//! What `dladm` does: links, properties, statistics, partitions.

use fakekernel::{Errno, Kernel};

use super::types::{LinkSummary, MacStatistics, PartitionError, PropertyId, PropertyInfo, PropertyValue};

/// Every link of the host, by name.
pub fn links(kernel: &Kernel) -> Vec<LinkSummary> {
    let _ = kernel;
    unimplemented!()
}

/// The statistics of a link, asked from the driver now.
///
/// # Errors
///
/// ENOENT for a link that is not there.
pub fn mac_statistics(kernel: &Kernel, link: &str) -> Result<MacStatistics, Errno> {
    let _ = (kernel, link);
    unimplemented!()
}

/// `dladm set-linkprop`.
///
/// # Errors
///
/// ENOENT for a link that is not there; what the framework or the driver refused with.
pub fn set_property(
    kernel: &Kernel,
    link: &str,
    id: &PropertyId,
    value: &PropertyValue,
) -> Result<(), Errno> {
    let _ = (kernel, link, id, value);
    unimplemented!()
}

/// `dladm show-linkprop`, the value.
///
/// # Errors
///
/// As for [`set_property`].
pub fn get_property(kernel: &Kernel, link: &str, id: &PropertyId) -> Result<PropertyValue, Errno> {
    let _ = (kernel, link, id);
    unimplemented!()
}

/// `dladm show-linkprop`, the rest.
///
/// # Errors
///
/// As for [`set_property`].
pub fn property_info(kernel: &Kernel, link: &str, id: &PropertyId) -> Result<PropertyInfo, Errno> {
    let _ = (kernel, link, id);
    unimplemented!()
}

/// `ioctl(2)` on `/dev/dld` by a privileged process: `buffer` is the argument in user memory, copied in and out by the
/// command's flags.
///
/// # Errors
///
/// The dispatcher's or the driver's; the buffer may have been written all the same.
pub fn dld_ioctl(kernel: &Kernel, command: u32, buffer: &mut [u8]) -> Result<i32, Errno> {
    let _ = (kernel, command, buffer);
    unimplemented!()
}

/// `dladm create-part -l PORT -P PKEY NAME`: afterwards there is a link `name`.
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
    let _ = (kernel, port, pkey, name, force);
    unimplemented!()
}

/// `dladm delete-part NAME`.
///
/// # Errors
///
/// The driver's errno and status; ENOENT when there is no such link.
pub fn delete_partition(kernel: &Kernel, name: &str) -> Result<(), PartitionError> {
    let _ = (kernel, name);
    unimplemented!()
}
