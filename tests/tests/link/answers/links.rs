//! Partitions and properties, by the ioctls that `dladm` makes.

use std::mem::offset_of;

use fakekernel::genunix::Cred;
use illumos_sys_hdrs::{
    IBD_CREATE_IBPART, IBD_DELETE_IBPART, IBD_INFO_CMD_IBPART, IBD_INFO_CMD_IBPORT, IBD_INFO_CMD_PKEYTBLSZ,
    IBD_INFO_IBPART, ibd_ioctl_s, ibpart_ioctl_s, ibport_ioctl_s,
};
use lab_gldv3::{
    Permission, PointedTo, PropertyId, PropertyValue, create_datalink, destroy_datalink, dld_ioctl_with,
    get_property, links, property_info, set_property,
};
use record::refusal;

use super::{Answer, Lab, number, of, unknown};
use crate::bench::PORT_LINK;

/// The lowest id that the record gives to a partition; `part140` is the name of the link 140.
const FIRST: u32 = 64;
/// The record's id of the port's link.
const PORT: u32 = 1;

/// An argument of an ioctl.
struct Argument(Vec<u8>);

impl Argument {
    fn of<T>() -> Self {
        Self(vec![0; size_of::<T>()])
    }

    fn with(mut self, at: usize, value: u32) -> Self {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.0[at..at + 4].try_into().expect("four bytes"))
    }

    fn guid(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.0[at..at + 8].try_into().expect("eight bytes"))
    }
}

/// The P_Keys of a port, as `ibport_ioctl_t` points at them.
const MOST_KEYS: usize = 256;

impl Lab<'_> {
    /// The lab's id of a link of the record's.
    fn id(&mut self, known: u32) -> u32 {
        if let Some(id) = self.ids.get(&known) {
            return *id;
        }
        let kernel = &self.host.kernel;
        let id = match known {
            PORT => links(kernel).iter().find(|link| link.name == PORT_LINK).map_or(known, |link| link.id),
            FIRST.. => {
                create_datalink(kernel, &format!("part{known}"), true, &[]).expect("a name of its own")
            }
            // The daemon knows nothing of it.
            other => return other,
        };
        self.ids.insert(known, id);
        id
    }

    /// And the other way round.
    pub(super) fn shown(&self, id: u32) -> u32 {
        self.ids.iter().find(|(_, own)| **own == id).map_or(id, |(known, _)| *known)
    }

    /// The daemon forgets the links that were made.
    pub(super) fn forget_ids(&self) {
        for (_, id) in self.ids.iter().filter(|(known, _)| **known >= FIRST) {
            destroy_datalink(&self.host.kernel, *id);
        }
    }

    pub(super) fn about_partitions(&mut self, words: &[&str]) -> Answer {
        match *words {
            ["part-create", link, port, instance, pkey] => {
                self.partition(IBD_CREATE_IBPART, [link, port, instance, pkey], 0)
            }
            ["part-create", link, port, instance, pkey, force] => {
                self.partition(IBD_CREATE_IBPART, [link, port, instance, pkey], number(force))
            }
            ["part-delete", link, port, instance, pkey] => {
                self.partition(IBD_DELETE_IBPART, [link, port, instance, pkey], 0)
            }
            ["part-info", link] => self.partition_information(number(link)),
            ["port-info", instance] => self.port_information(number(instance), None),
            ["port-info", instance, size] => self.port_information(number(instance), Some(number(size))),
            _ => unknown(words),
        }
    }

    fn ioctl(&self, command: u32, argument: &mut Argument, keys: Option<&mut [u8]>) -> Result<(), String> {
        let at = offset_of!(ibport_ioctl_s, ioc_pkeys);
        let pointed_to = keys.map(|bytes| PointedTo { at, bytes });
        let outcome = dld_ioctl_with(&self.host.kernel, Cred::ROOT, command, &mut argument.0, pointed_to);
        let status = argument.word(offset_of!(ibd_ioctl_s, ioc_status));
        outcome.map(drop).map_err(|errno| refusal(errno.0 as u32, &format!("status={status}")))
    }

    fn partition(&mut self, command: u32, words: [&str; 4], force: u32) -> Answer {
        let [link, port, instance, pkey] = words.map(number);
        let mut argument = Argument::of::<ibpart_ioctl_s>()
            .with(offset_of!(ibd_ioctl_s, ioc_linkid), self.id(port))
            .with(offset_of!(ibd_ioctl_s, ioc_port_inst), instance)
            .with(offset_of!(ibpart_ioctl_s, ioc_partid), self.id(link))
            .with(offset_of!(ibpart_ioctl_s, ioc_force_create), force)
            .with(offset_of!(ibpart_ioctl_s, ioc_pkey), pkey);
        self.ioctl(command, &mut argument, None)?;
        let guid = argument.guid(offset_of!(ibd_ioctl_s, ioc_portguid));
        Ok(format!("port={guid:016x} number={}", argument.word(offset_of!(ibd_ioctl_s, ioc_portnum))))
    }

    fn partition_information(&mut self, link: u32) -> Answer {
        let mut argument = Argument::of::<ibpart_ioctl_s>()
            .with(offset_of!(ibd_ioctl_s, ioc_info_cmd), IBD_INFO_CMD_IBPART)
            .with(offset_of!(ibd_ioctl_s, ioc_linkid), self.id(link));
        // This question has no status.
        self.ioctl(IBD_INFO_IBPART, &mut argument, None)
            .map_err(|refused| refused.replace(" status=0", ""))?;
        let word = |at| argument.word(at);
        Ok(format!(
            "port={} instance={} number={} link={} force={} pkey={:04x} adapter={:016x} guid={:016x}",
            self.shown(word(offset_of!(ibd_ioctl_s, ioc_linkid))),
            word(offset_of!(ibd_ioctl_s, ioc_port_inst)),
            word(offset_of!(ibd_ioctl_s, ioc_portnum)),
            self.shown(word(offset_of!(ibpart_ioctl_s, ioc_partid))),
            word(offset_of!(ibpart_ioctl_s, ioc_force_create)),
            word(offset_of!(ibpart_ioctl_s, ioc_pkey)) & 0xffff,
            argument.guid(offset_of!(ibd_ioctl_s, ioc_hcaguid)),
            argument.guid(offset_of!(ibd_ioctl_s, ioc_portguid)),
        ))
    }

    fn port_information(&self, instance: u32, size: Option<u32>) -> Answer {
        let command = if size.is_some() { IBD_INFO_CMD_IBPORT } else { IBD_INFO_CMD_PKEYTBLSZ };
        let mut argument = Argument::of::<ibport_ioctl_s>()
            .with(offset_of!(ibd_ioctl_s, ioc_info_cmd), command)
            .with(offset_of!(ibd_ioctl_s, ioc_port_inst), instance)
            .with(offset_of!(ibport_ioctl_s, ioc_pkey_tbl_sz), size.unwrap_or(0));
        let mut keys = [0; 2 * MOST_KEYS];
        self.ioctl(IBD_INFO_IBPART, &mut argument, Some(&mut keys))?;
        let size_now = argument.word(offset_of!(ibport_ioctl_s, ioc_pkey_tbl_sz));
        if size.is_none() {
            return Ok(format!("size={size_now}"));
        }
        let keys = keys.chunks_exact(2).take(size_now as usize);
        let keys: String = keys.map(|key| format!("{:04x}.", u16::from_ne_bytes([key[0], key[1]]))).collect();
        let port = argument.word(offset_of!(ibd_ioctl_s, ioc_portnum));
        let guid = argument.guid(offset_of!(ibd_ioctl_s, ioc_portguid));
        Ok(format!("size={size_now} number={port} guid={guid:016x} keys={keys}"))
    }

    pub(super) fn about_a_property(&self, words: &[&str]) -> Answer {
        let (link, name) = (number(words[1]), words[2]);
        let link = if link == self.link.id { self.link.name.clone() } else { format!("part{link}") };
        let (kernel, id) = (&self.host.kernel, property(name));
        let info = || property_info(kernel, &link, &id).map_err(of);
        match *words {
            ["prop-get", ..] => {
                let permission = info()?.permission;
                let value = get_property(kernel, &link, &id).map_err(of)?;
                Ok(format!("value={} permission={}", shown(&value), letters(permission)))
            }
            ["prop-default", ..] => {
                let unsaid = || if name.starts_with('_') { String::new() } else { "0".into() };
                Ok(format!("value={}", info()?.default.as_ref().map_or_else(unsaid, shown)))
            }
            ["prop-possible", ..] => {
                let ranges = info()?.ranges;
                let ranges: Vec<String> =
                    ranges.iter().map(|(least, most)| format!("{least}-{most}")).collect();
                Ok(if ranges.is_empty() { "none".into() } else { ranges.join(" ") })
            }
            ["prop-set", _, _, value] => {
                set_property(kernel, &link, &id, &meant(&id, value)).map_err(of)?;
                Ok(String::new())
            }
            _ => unknown(words),
        }
    }
}

fn property(name: &str) -> PropertyId {
    match name {
        "mtu" => PropertyId::Mtu,
        "speed" => PropertyId::Speed,
        "state" => PropertyId::Status,
        "duplex" => PropertyId::Duplex,
        "linkmode" => PropertyId::IbLinkMode,
        _ => match name.strip_prefix('#') {
            Some(number) => PropertyId::Numbered(number.parse().expect("a number")),
            None => PropertyId::Private(name.to_owned()),
        },
    }
}

fn meant(id: &PropertyId, value: &str) -> PropertyValue {
    match id {
        PropertyId::Private(_) => PropertyValue::Text(value.to_owned()),
        PropertyId::Speed | PropertyId::Numbered(_) => PropertyValue::U64(number(value).into()),
        _ => PropertyValue::U32(number(value)),
    }
}

fn shown(value: &PropertyValue) -> String {
    match value {
        PropertyValue::U32(value) => value.to_string(),
        PropertyValue::U64(value) => value.to_string(),
        PropertyValue::Text(text) => text.clone(),
    }
}

fn letters(permission: Permission) -> &'static str {
    match permission {
        Permission::ReadOnly => "r",
        Permission::WriteOnly => "w",
        Permission::ReadWrite => "rw",
    }
}
