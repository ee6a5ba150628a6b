//! What `dladm` does: links, properties, statistics.

use std::sync::Arc;

use fakekernel::genunix::Cred;
use fakekernel::{Errno, Kernel};

use crate::dld;
use crate::dls::{Class, Devnets, Management, find_link};
use crate::mac::{Mac, Macs, Property};
use crate::types::{
    LinkSummary, MacStatistics, Permission, PropertyId, PropertyInfo, PropertyValue, RingStatistics,
};

/// Every link of the host, by name.
pub fn links(kernel: &Kernel) -> Vec<LinkSummary> {
    let mut links: Vec<LinkSummary> = Devnets::of(kernel)
        .all()
        .into_iter()
        .map(|(id, link)| {
            let (state, max_sdu) = {
                let mac = link.mac.state.lock();
                (mac.link_state, mac.max_sdu)
            };
            LinkSummary {
                name: link.name(),
                mac: link.mac.name.clone(),
                id,
                partition: link.class == Class::Partition,
                zone: Devnets::of(kernel).zone(link.id).unwrap_or(link.owner),
                owner: link.owner,
                state,
                instance: link.mac.instance,
                max_sdu,
            }
        })
        .collect();
    links.sort_by(|a, b| a.name.cmp(&b.name));
    links
}

fn mac(kernel: &Kernel, link: &str) -> Result<Arc<Mac>, Errno> {
    find_link(kernel, link).map(|(_, link)| link.mac.clone())
}

/// Gives a link to a zone, as the link property `zone` does.
///
/// # Errors
///
/// ENOENT for a link that is not there, EBUSY while somebody has it open.
pub fn set_link_zone(kernel: &Kernel, link: &str, zone: i32) -> Result<(), Errno> {
    let (id, _) = find_link(kernel, link)?;
    Devnets::of(kernel).set_zone(id, zone)
}

/// The statistics of a link, asked from the driver now.
///
/// # Errors
///
/// ENOENT for a link that is not there.
pub fn mac_statistics(kernel: &Kernel, link: &str) -> Result<MacStatistics, Errno> {
    let mac = mac(kernel, link)?;
    Ok(kernel.scope(|| mac.statistics()))
}

/// What each transmit ring of a link has sent, in their order; nothing for a link without such rings.
///
/// # Errors
///
/// ENOENT for a link that is not there.
pub fn transmit_ring_statistics(kernel: &Kernel, link: &str) -> Result<Vec<RingStatistics>, Errno> {
    let mac = mac(kernel, link)?;
    Ok(kernel.scope(|| mac.transmit_ring_statistics()))
}

/// `dladm set-linkprop`, until the link goes.
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
    let (_, link) = find_link(kernel, link)?;
    if let (&TAG_MODE, PropertyValue::U64(mode)) = (id, value) {
        return link.set_tag_mode(*mode);
    }
    kernel.scope(|| link.mac.set_property(&Property::of(id), value))
}

/// `MAC_PROP_TAGMODE`, which is dls's own: no driver is asked.
const TAG_MODE: PropertyId = PropertyId::Numbered(48);

/// Has a property set whenever the link comes (`dladm set-linkprop` without `-t`), and now.
///
/// # Errors
///
/// As for [`set_property`]; the property is kept all the same.
pub fn keep_property(
    kernel: &Kernel,
    link: &str,
    id: &PropertyId,
    value: &PropertyValue,
) -> Result<(), Errno> {
    let (link_id, found) = find_link(kernel, link)?;
    Management::of(kernel).keep_property(link_id, id, value);
    kernel.scope(|| found.mac.set_property(&Property::of(id), value))
}

/// `dladm show-linkprop`, the value.
///
/// # Errors
///
/// As for [`set_property`].
pub fn get_property(kernel: &Kernel, link: &str, id: &PropertyId) -> Result<PropertyValue, Errno> {
    let (_, link) = find_link(kernel, link)?;
    if *id == TAG_MODE {
        return Ok(PropertyValue::U64(link.tag_mode().into()));
    }
    let mac = &link.mac;
    kernel.scope(|| {
        // As the framework does for a value: what it is first, then what it is now.
        mac.property_info(&Property::of(id))?;
        mac.get_property(&Property::of(id))
    })
}

/// `dladm show-linkprop`, the rest.
///
/// # Errors
///
/// As for [`set_property`].
pub fn property_info(kernel: &Kernel, link: &str, id: &PropertyId) -> Result<PropertyInfo, Errno> {
    let mac = mac(kernel, link)?;
    if *id == TAG_MODE {
        return Ok(PropertyInfo { permission: Permission::ReadWrite, default: None, ranges: Vec::new() });
    }
    kernel.scope(|| mac.property_info(&Property::of(id)))
}

/// Names of the private properties a link's driver registered.
///
/// # Errors
///
/// ENOENT for a link that is not there.
pub fn private_properties(kernel: &Kernel, link: &str) -> Result<Vec<String>, Errno> {
    mac(kernel, link).map(|mac| mac.private_properties().to_vec())
}

/// `ioctl(2)` on `/dev/dld` by a privileged process: `buffer` is the argument in user memory, copied in and out by the
/// command's flags.
///
/// # Errors
///
/// The dispatcher's or the driver's; the buffer may have been written all the same.
pub fn dld_ioctl(kernel: &Kernel, command: u32, buffer: &mut [u8]) -> Result<i32, Errno> {
    dld_ioctl_as(kernel, Cred::ROOT, command, buffer)
}

/// The same, by a process that may be anybody's.
///
/// # Errors
///
/// As for [`dld_ioctl`].
pub fn dld_ioctl_as(kernel: &Kernel, cred: Cred, command: u32, buffer: &mut [u8]) -> Result<i32, Errno> {
    kernel.scope(|| dld::ioctl(kernel, cred, command, buffer))
}

/// A reference to a mac, as another layer's `mac_open` takes it (an aggregation, a bridge): while it lives the driver cannot
/// unregister the mac.
#[derive(Debug)]
pub struct MacReference(Arc<Mac>);

impl MacReference {
    /// Opens a mac by its name: the driver's and the instance.
    ///
    /// # Errors
    ///
    /// ENOENT when there is none, or when it is disabled; what `mc_open` refused with.
    pub fn open(kernel: &Kernel, name: &str) -> Result<Self, Errno> {
        let mac = Macs::of(kernel).find(name).ok_or(Errno::ENOENT)?;
        kernel.scope(|| mac.open())?;
        Ok(Self(mac))
    }
}

impl Drop for MacReference {
    fn drop(&mut self) {
        if !self.0.kernel.machine().is_stopping() {
            self.0.kernel.clone().scope(|| self.0.close());
        }
    }
}
