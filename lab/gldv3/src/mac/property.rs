//! Link properties: what the framework answers itself, and what it asks the driver.

use fakekernel::Errno;

use super::driver::flag;
use super::prop_info::PropInfo;
use super::{Mac, Macs};
use crate::types::{LinkState, Permission, PropertyId, PropertyInfo, PropertyValue};

/// A property's number and name, as drivers are asked.
pub(crate) struct Property {
    id: i32,
    name: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    U32,
    U64,
    /// Eight bytes and room.
    Roomy,
    Text,
}

/// Room for the text of a private property (`DLD_PROP...` buffers of `dladm`).
const TEXT: usize = 1024;
/// And for one that is known by its number.
const ROOM: usize = 256;
const MTU: i32 = 6;
const STATUS: i32 = 3;

impl Property {
    pub(crate) fn of(id: &PropertyId) -> Self {
        let (number, name, kind) = match id {
            PropertyId::Duplex => (1, "duplex".to_owned(), Kind::U32),
            PropertyId::Speed => (2, "speed".to_owned(), Kind::U64),
            PropertyId::Status => (STATUS, "state".to_owned(), Kind::U32),
            PropertyId::Mtu => (MTU, "mtu".to_owned(), Kind::U32),
            PropertyId::IbLinkMode => (62, "linkmode".to_owned(), Kind::U32),
            PropertyId::Numbered(number) => (*number, format!("#{number}"), Kind::Roomy),
            PropertyId::Private(name) => (-1, name.clone(), Kind::Text),
        };
        Self { id: number, name, kind }
    }

    fn size(&self) -> usize {
        match self.kind {
            Kind::U32 => 4,
            Kind::U64 => 8,
            Kind::Roomy => ROOM,
            Kind::Text => TEXT,
        }
    }

    fn encode(&self, value: &PropertyValue) -> Result<Vec<u8>, Errno> {
        match (self.kind, value) {
            (Kind::U32, PropertyValue::U32(v)) => Ok(v.to_ne_bytes().to_vec()),
            (Kind::U64, PropertyValue::U64(v)) => Ok(v.to_ne_bytes().to_vec()),
            (Kind::Roomy, PropertyValue::U64(v)) => {
                let mut bytes = v.to_ne_bytes().to_vec();
                bytes.resize(ROOM, 0);
                Ok(bytes)
            }
            (Kind::Text, PropertyValue::Text(text)) => Ok([text.as_bytes(), b"\0"].concat()),
            _ => Err(Errno::ENOBUFS),
        }
    }

    fn decode(&self, bytes: &[u8]) -> PropertyValue {
        match (self.kind, bytes) {
            (Kind::U32, [a, b, c, d, ..]) => PropertyValue::U32(u32::from_ne_bytes([*a, *b, *c, *d])),
            (Kind::U64 | Kind::Roomy, [a, b, c, d, e, f, g, h, ..]) => {
                PropertyValue::U64(u64::from_ne_bytes([*a, *b, *c, *d, *e, *f, *g, *h]))
            }
            _ => {
                let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
                PropertyValue::Text(String::from_utf8_lossy(&bytes[..end]).into_owned())
            }
        }
    }
}

impl Mac {
    /// `mac_set_prop`.
    pub(crate) fn set_property(&self, property: &Property, value: &PropertyValue) -> Result<(), Errno> {
        let _inside = self.perimeter.enter();
        let bytes = property.encode(value)?;
        if property.id == MTU {
            return self.set_mtu(property, &bytes);
        }
        self.call_setprop(&property.name, property.id, &bytes)
    }

    /// The order of the C framework's checks; the range the driver tells is not among them.
    fn set_mtu(&self, property: &Property, bytes: &[u8]) -> Result<(), Errno> {
        let PropertyValue::U32(mtu) = property.decode(bytes) else { return Err(Errno::ENOBUFS) };
        if !self.has(flag::SETPROP | flag::GETPROP) {
            return Err(Errno::ENOTSUP);
        }
        let (min, max) = {
            let state = self.state.lock();
            (state.min_sdu, state.max_sdu)
        };
        if mtu == 0 || mtu < min {
            return Err(Errno::EINVAL);
        }
        if mtu == max {
            return Ok(());
        }
        self.call_setprop(&property.name, property.id, bytes)?;
        self.update_sdu(mtu, None)
    }

    /// `mac_get_prop`.
    pub(crate) fn get_property(&self, property: &Property) -> Result<PropertyValue, Errno> {
        let _inside = self.perimeter.enter();
        match property.id {
            MTU => Ok(PropertyValue::U32(self.state.lock().max_sdu)),
            STATUS => Ok(PropertyValue::U32(match self.state.lock().link_state {
                LinkState::Up => 1,
                LinkState::Down => 0,
                LinkState::Unknown => u32::MAX,
            })),
            _ => self.call_getprop(&property.name, property.id, property.size()).map(|b| property.decode(&b)),
        }
    }

    /// `mac_prop_info`.
    pub(crate) fn property_info(&self, property: &Property) -> Result<PropertyInfo, Errno> {
        let _inside = self.perimeter.enter();
        if property.id == STATUS {
            return Ok(PropertyInfo { permission: Permission::ReadOnly, default: None, ranges: Vec::new() });
        }
        let macs = Macs::of(&self.kernel);
        let handle = macs.prop_infos.insert(PropInfo::new(property.size()));
        self.call_propinfo(&property.name, property.id, handle.cast());
        // It was inserted above, and drivers cannot remove it.
        let said = macs.prop_infos.remove(handle).map_err(|_| Errno::EINVAL)?.said();
        if let Some(error) = said.error {
            return Err(error);
        }
        let mut info = PropertyInfo {
            permission: said.permission.unwrap_or(Permission::ReadWrite),
            default: said.default,
            ranges: said.ranges,
        };
        if property.id == MTU {
            let max = self.state.lock().max_sdu;
            info.default.get_or_insert(PropertyValue::U32(max));
            if info.ranges.is_empty() {
                info.ranges.push((max, max));
            }
        }
        Ok(info)
    }

    /// Names of the private properties the driver registered.
    pub(crate) fn private_properties(&self) -> &[String] {
        &self.private_properties
    }
}
