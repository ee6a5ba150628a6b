//! Link properties: their names, their texts, and what a link's framework or driver is asked.

use fakekernel::Errno;
use lab_gldv3::{Permission, PropertyId, PropertyInfo, PropertyValue};

use super::known::Known;
use crate::getopt::Options;
use crate::status;
use crate::system::System;

/// What `set-linkprop` and `reset-linkprop` take.
pub(super) const CHANGE: Options = Options {
    short: "tR:p:",
    long: &[("temporary", 't'), ("root-dir", 'R'), ("prop", 'p')],
    operands_end: false,
};

const READ_ONLY: &str = "read-only property";

/// A property that a link is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    LinkMode,
    State,
    Mtu,
}

impl Asked {
    fn id(self) -> PropertyId {
        match self {
            Self::LinkMode => PropertyId::IbLinkMode,
            Self::State => PropertyId::Status,
            Self::Mtu => PropertyId::Mtu,
        }
    }
}

/// A property that every link has, or every partition.
pub(super) struct Public {
    pub(super) name: &'static str,
    asked: Option<Asked>,
    partitions_only: bool,
    permission: &'static str,
    value: &'static str,
    default: &'static str,
    possible: &'static str,
}

/// One that no driver is asked for.
const fn resource(name: &'static str, permission: &'static str, value: &'static str) -> Public {
    Public { name, asked: None, partitions_only: false, permission, value, default: "", possible: "" }
}

const fn asked(name: &'static str, what: Asked, default: &'static str, possible: &'static str) -> Public {
    Public { name, asked: Some(what), partitions_only: false, permission: "", value: "", default, possible }
}

/// In the order they are shown, and set at boot (`prop_table` of `libdladm`).
pub(super) static PUBLIC: [Public; 22] = [
    Public { partitions_only: true, ..asked("linkmode", Asked::LinkMode, "cm", "cm,ud") },
    resource("autopush", "rw", ""),
    resource("zone", "rw", ""),
    asked("state", Asked::State, "up", "up,down"),
    asked("mtu", Asked::Mtu, "", ""),
    resource("maxbw", "rw", ""),
    resource("cpus", "rw", ""),
    resource("cpus-effective", "r-", ""),
    resource("pool", "rw", ""),
    resource("pool-effective", "r-", ""),
    Public { default: "high", possible: "low,medium,high", ..resource("priority", "rw", "high") },
    Public { possible: "mac-nospoof,restricted,ip-nospoof,dhcp-nospoof", ..resource("protection", "rw", "") },
    resource("allowed-ips", "rw", ""),
    resource("allowed-dhcp-cids", "rw", ""),
    resource("rxrings", "rw", ""),
    resource("rxrings-effective", "r-", ""),
    resource("txrings", "rw", ""),
    resource("txrings-effective", "r-", ""),
    resource("txrings-available", "r-", "0"),
    resource("rxrings-available", "r-", "0"),
    resource("rxhwclnt-available", "r-", "0"),
    resource("txhwclnt-available", "r-", "0"),
];

impl Public {
    pub(super) fn is_for(&self, link: &Known) -> bool {
        !self.partitions_only || link.partition
    }
}

/// A property of a link as it is shown; lists are joined by commas.
pub(super) struct Shown {
    pub(super) permission: String,
    pub(super) value: String,
    pub(super) default: String,
    pub(super) possible: String,
}

/// Why a property was not set.
pub(super) enum Why {
    /// The link has no such property.
    NoSuch,
    /// Its values are these.
    OneOf(String),
    Status(&'static str),
}

impl Why {
    pub(super) fn status(self) -> &'static str {
        match self {
            Self::NoSuch => status::NOT_FOUND,
            Self::OneOf(_) => "invalid property value",
            Self::Status(status) => status,
        }
    }
}

impl From<Errno> for Why {
    fn from(errno: Errno) -> Self {
        Self::Status(status::of_errno(errno))
    }
}

/// `name=value,name=value`; a part without `=` goes on with the value before. `None` for a list that begins so, or has an
/// empty name.
pub(super) fn parse_list(text: &str) -> Option<Vec<(String, String)>> {
    let mut list: Vec<(String, String)> = Vec::new();
    for part in text.split_terminator(',') {
        match part.split_once('=') {
            Some((name, value)) if !name.is_empty() => list.push((name.to_owned(), value.to_owned())),
            Some(_) => return None,
            None => {
                let (_, value) = list.last_mut()?;
                *value += ",";
                *value += part;
            }
        }
    }
    Some(list)
}

fn public(name: &str) -> Option<&'static Public> {
    PUBLIC.iter().find(|property| property.name == name)
}

/// Where a property stands among the public ones; behind them all if it is private.
pub(super) fn place(name: &str) -> usize {
    PUBLIC.iter().position(|property| property.name == name).unwrap_or(PUBLIC.len())
}

/// What a driver is given for a text; `None` for a property no driver is asked for, or a text that is none of its values.
pub(super) fn encode(name: &str, text: &str) -> Option<(PropertyId, PropertyValue)> {
    let value = match (name, text) {
        ("linkmode", "cm") => PropertyValue::U32(1),
        ("linkmode", "ud") => PropertyValue::U32(0),
        ("mtu", text) => PropertyValue::U32(text.parse().ok()?),
        (private, text) if private.starts_with('_') => {
            return Some((PropertyId::Private(private.to_owned()), PropertyValue::Text(text.to_owned())));
        }
        _ => return None,
    };
    Some((public(name)?.asked?.id(), value))
}

/// Sets a property of an active link.
pub(super) fn set_active(system: &dyn System, link: &str, name: &str, text: &str) -> Result<(), Why> {
    let known = super::known::find(system, link).map_err(Why::Status)?;
    if !name.starts_with('_') {
        let property = public(name).ok_or(Why::NoSuch)?;
        if !property.is_for(&known) {
            return Err(Why::Status(status::BAD_ARGUMENT));
        }
        if property.permission == "r-" || name == "state" {
            return Err(Why::Status(READ_ONLY));
        }
        if property.asked.is_none() {
            return Err(Why::Status(status::NOT_SUPPORTED));
        }
    }
    if !system.privileged() {
        return Err(Why::Status(status::DENIED));
    }
    let Some((id, value)) = encode(name, text) else {
        let possible = shown(system, &known, name).map(|shown| shown.possible).unwrap_or_default();
        return Err(Why::OneOf(possible));
    };
    Ok(system.set_property(link, &id, &value)?)
}

/// Sets it to what it was in the beginning.
pub(super) fn reset_active(system: &dyn System, link: &Known, name: &str) -> Result<(), Why> {
    let default = shown(system, link, name)?.default;
    if default.is_empty() {
        return if name.starts_with('_') { Err(Why::Status(status::NOT_SUPPORTED)) } else { Ok(()) };
    }
    set_active(system, &link.name, name, &default)
}

/// A property as the link has it now.
pub(super) fn shown(system: &dyn System, link: &Known, name: &str) -> Result<Shown, Why> {
    if name.starts_with('_') {
        let id = PropertyId::Private(name.to_owned());
        let info = system.property_info(&link.name, &id)?;
        let value = system.get_property(&link.name, &id)?;
        let default = info.default.as_ref().map(text_of).unwrap_or_default();
        let permission = permission_of(&info);
        return Ok(Shown { permission, value: text_of(&value), default, possible: String::new() });
    }
    let property = public(name).ok_or(Why::NoSuch)?;
    if !property.is_for(link) {
        return Err(Why::Status(status::BAD_ARGUMENT));
    }
    let own = |text: &str| text.to_owned();
    if link.active.as_ref().is_some_and(|active| active.owner != system.zone().id) {
        // Whoever made a link may look at its properties, and nobody else.
        return Err(Why::Status(status::NOT_FOUND));
    }
    let Some(asked) = property.asked else {
        let zone = || {
            let active = link.active.as_ref().filter(|active| active.zone != active.owner)?;
            system.zones().into_iter().find(|zone| zone.id == active.zone).map(|zone| zone.name)
        };
        return Ok(Shown {
            permission: own(property.permission),
            value: if name == "zone" { zone().unwrap_or_default() } else { own(property.value) },
            default: own(property.default),
            possible: own(property.possible),
        });
    };
    let info = system.property_info(&link.name, &asked.id())?;
    let value = system.get_property(&link.name, &asked.id())?;
    let (default, possible) = match asked {
        Asked::Mtu => (info.default.as_ref().map(text_of).unwrap_or_default(), ranges_of(&info)),
        _ => (own(property.default), own(property.possible)),
    };
    let value = match (asked, value) {
        (Asked::LinkMode, PropertyValue::U32(mode)) => own(if mode == 1 { "cm" } else { "ud" }),
        (Asked::State, PropertyValue::U32(state)) => own(match state {
            1 => "up",
            0 => "down",
            _ => "unknown",
        }),
        (_, value) => text_of(&value),
    };
    Ok(Shown { permission: permission_of(&info), value, default, possible })
}

fn text_of(value: &PropertyValue) -> String {
    match value {
        PropertyValue::U32(value) => value.to_string(),
        PropertyValue::U64(value) => value.to_string(),
        PropertyValue::Text(text) => text.clone(),
    }
}

fn permission_of(info: &PropertyInfo) -> String {
    match info.permission {
        Permission::ReadOnly => "r-",
        Permission::WriteOnly => "-w",
        Permission::ReadWrite => "rw",
    }
    .to_owned()
}

fn ranges_of(info: &PropertyInfo) -> String {
    let ranges = info.ranges.iter().map(|(least, most)| match least == most {
        true => least.to_string(),
        false => format!("{least}-{most}"),
    });
    ranges.collect::<Vec<_>>().join(",")
}
