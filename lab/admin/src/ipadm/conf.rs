//! `/etc/ipadm/ipadm.conf`: interfaces and addresses for good. A line an item, `name=value;` for each part of it.

use std::net::IpAddr;

use crate::system::{AddressKind, FileError, System, change_both};

pub(crate) const FILE: &str = "etc/ipadm/ipadm.conf";

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// An interface, for each of its families.
    Interface { name: String, ipv6: bool },
    /// An IPMP interface, and those under it.
    Group { name: String, members: Vec<String> },
    /// An address object.
    Address { interface: String, object: String, kind: AddressKind },
}

const IPV4: &str = "2";
const IPV6: &str = "26";
/// The class of an IPMP interface.
const IPMP: &str = "1";

impl Line {
    fn parse(line: &str) -> Option<Self> {
        let part = |name: &str| {
            line.split_terminator(';').find_map(|item| item.strip_prefix(name)?.strip_prefix('='))
        };
        let interface = part("_ifname")?.to_owned();
        if part("_ifclass") == Some(IPMP) {
            let members = part("_mifnames").unwrap_or_default();
            let members = members.split_terminator(',').map(str::to_owned).collect();
            return Some(Self::Group { name: interface, members });
        }
        let Some(object) = part("_aobjname") else {
            return Some(Self::Interface { name: interface, ipv6: part("_family")? == IPV6 });
        };
        let kind = if part("_intfid").is_some() {
            AddressKind::Addrconf
        } else if part("_dhcp").is_some() {
            AddressKind::Dhcp
        } else {
            let (address, length) = part("_ipv4addr").or_else(|| part("_ipv6addr"))?.split_once('/')?;
            let address: IpAddr = address.parse().ok()?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            AddressKind::Static(address, length.parse().ok().filter(|length| *length <= most)?)
        };
        Some(Self::Address { interface, object: object.to_owned(), kind })
    }

    fn text(&self) -> String {
        match self {
            Self::Interface { name, ipv6 } => {
                format!("_ifname={name};_family={};", if *ipv6 { IPV6 } else { IPV4 })
            }
            Self::Group { name, members } => {
                let members: String = members.iter().map(|member| format!("{member},")).collect();
                format!("_ifname={name};_ifclass={IPMP};_families={IPV4},{IPV6};_mifnames={members};")
            }
            Self::Address { interface, object, kind: AddressKind::Addrconf } => {
                format!("_ifname={interface};_aobjname={object};_intfid=::/0;")
            }
            Self::Address { interface, object, kind: AddressKind::Dhcp } => {
                format!("_ifname={interface};_aobjname={object};_dhcp=-1,no;")
            }
            Self::Address { interface, object, kind: AddressKind::Static(address, length) } => {
                let family = if matches!(address, IpAddr::V4(_)) { "_ipv4addr" } else { "_ipv6addr" };
                format!("_ifname={interface};_aobjname={object};{family}={address}/{length};up=yes;")
            }
        }
    }

    pub(super) fn interface(&self) -> &str {
        match self {
            Self::Interface { name, .. } | Self::Group { name, .. } => name,
            Self::Address { interface, .. } => interface,
        }
    }

    pub(super) fn object(&self) -> Option<&str> {
        if let Self::Address { object, .. } = self { Some(object) } else { None }
    }
}

/// Reads every line of a text and what it would be written as.
pub(crate) fn read_back(text: &str) {
    for line in text.lines().filter_map(Line::parse) {
        assert_eq!(Line::parse(&line.text()), Some(line), "a line is read back as written");
    }
}

pub(super) fn lines(system: &dyn System) -> Vec<Line> {
    let text = system.read_file(FILE).unwrap_or_default();
    text.lines().filter_map(Line::parse).collect()
}

/// Lines that name an address object, and do not say which address.
pub(super) fn not_understood(system: &dyn System) -> Vec<String> {
    let text = system.read_file(FILE).unwrap_or_default();
    let damaged = |line: &&str| line.contains(";_aobjname=") && Line::parse(line).is_none();
    text.lines().filter(damaged).map(|line| format!("{FILE}: not understood: {line}")).collect()
}

/// Whether there is a file at all.
pub(super) fn is_there(system: &dyn System) -> bool {
    system.read_file(FILE).is_some()
}

/// Changes the lines as one step; what is no line of ours stays.
pub(super) fn change(system: &dyn System, change: impl Fn(&mut Vec<Line>)) -> Result<(), FileError> {
    system.change_file(FILE, &mut |text| changed(&text, &change))
}

/// Changes the lines and does `act`: both, or neither.
///
/// # Errors
///
/// Those of `act`, or that the file cannot be written.
pub(super) fn change_and(
    system: &dyn System,
    change: impl Fn(&mut Vec<Line>),
    act: impl FnOnce() -> Result<(), &'static str>,
) -> Result<(), &'static str> {
    change_both(system, FILE, &mut |text| changed(&text, &change), act, super::FAILED)
}

fn changed(text: &str, change: impl Fn(&mut Vec<Line>)) -> String {
    let other = text.lines().filter(|line| Line::parse(line).is_none()).map(str::to_owned);
    let mut lines: Vec<Line> = text.lines().filter_map(Line::parse).collect();
    change(&mut lines);
    other.chain(lines.iter().map(Line::text)).map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_back_as_written() {
        let kinds = [
            AddressKind::Addrconf,
            AddressKind::Dhcp,
            AddressKind::Static("10.0.0.1".parse().expect("an address"), 24),
            AddressKind::Static("fd00::1".parse().expect("an address"), 64),
        ];
        for kind in kinds {
            let line = Line::Address { interface: "ibd0".into(), object: "ibd0/x".into(), kind };
            assert_eq!(Line::parse(&line.text()), Some(line));
        }
        let line = Line::Interface { name: "ibd0".into(), ipv6: true };
        assert_eq!(Line::parse(&line.text()), Some(line));
        for members in [&[][..], &["ibd0"], &["ibd0", "ibd1"]] {
            let members = members.iter().map(|member| (*member).to_owned()).collect();
            let line = Line::Group { name: "ipmp0".into(), members };
            assert_eq!(Line::parse(&line.text()), Some(line));
        }
        for bad in ["_ipv4addr=10.0.0.1;", "_ipv4addr=10.0.0.1/33;", "_ipv6addr=fd00::1/129;"] {
            assert_eq!(Line::parse(&format!("_ifname=ibd0;_aobjname=ibd0/x;{bad}")), None, "{bad}");
        }
    }
}
