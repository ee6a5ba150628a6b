//! `ipadm create-addr`: static addresses, the link-local one, and those that a DHCP server gives.

use std::net::IpAddr;
use std::time::Duration;

use fakekernel::Errno;

use super::conf::{self, Line};
use super::{FAILED, INVALID, create_if, delete_if, die, parse, text, usage};
use crate::getopt::Options;
use crate::session::{Failure, Outcome, Session};
use crate::system::{AddressKind, AddressState, System};

const OPTIONS: Options = Options {
    short: "tT:a:di:p:w:",
    long: &[
        ("temporary", 't'),
        ("type", 'T'),
        ("address", 'a'),
        ("down", 'd'),
        ("interface-id", 'i'),
        ("prop", 'p'),
        ("wait", 'w'),
    ],
    operands_end: false,
};

pub(super) fn main(session: &mut Session<'_>, arguments: &[String], line: &str) -> Outcome {
    let (options, operands) = parse(&OPTIONS, arguments, line)?;
    let (mut temporary, mut kind, mut address, mut patience, mut other) = (false, None, None, None, false);
    for (letter, value) in options {
        match letter {
            't' => temporary = true,
            'T' => kind = Some(value),
            'a' => address = Some(value),
            'w' => patience = Some(value),
            'p' => {}
            _ => other = true,
        }
    }
    let refused = |why: &str| -> Failure { die(format!("Could not create address: {why}")) };
    if other {
        return Err(refused("Operation not supported"));
    }
    let ([object], Some(kind)) = (&operands[..], kind) else { return Err(usage()) };
    let kind = match (kind.as_str(), address) {
        ("static", Some(address)) => {
            parse_address(&address).map(|(address, length)| AddressKind::Static(address, length))
        }
        ("addrconf", None) => Some(AddressKind::Addrconf),
        ("dhcp", None) => Some(AddressKind::Dhcp),
        ("static" | "addrconf" | "dhcp", _) => return Err(usage()),
        _ => return Err(die(format!("Invalid address type {kind}"))),
    };
    let kind = kind.ok_or_else(|| refused(INVALID))?;
    let patience = match patience {
        Some(_) if kind != AddressKind::Dhcp => return Err(usage()),
        Some(text) => parse_patience(&text).ok_or_else(|| die("Invalid argument"))?,
        None => Patience::For(DHCP_PATIENCE),
    };
    let interface = parse_object(object).ok_or_else(|| refused(INVALID))?;
    let dhcp = kind == AddressKind::Dhcp;
    create(session.system, interface, object, kind, temporary).map_err(refused)?;
    if dhcp && !wait(session.system, object, patience) {
        return Err(refused("Communication with dhcpagent timed out"));
    }
    Ok(())
}

/// How long `ipadm` waits for a server to give an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    For(Duration),
    Forever,
}

fn parse_patience(text: &str) -> Option<Patience> {
    let seconds = || text.parse::<i32>().ok().and_then(|seconds| u64::try_from(seconds).ok());
    match text {
        "forever" => Some(Patience::Forever),
        _ => Some(Patience::For(Duration::from_secs(seconds()?))),
    }
}

/// Waits until the object has an address that nobody else has; false if it has none in time, or nobody waits any more. The agent goes on.
fn wait(system: &dyn System, object: &str, patience: Patience) -> bool {
    let mut left = match patience {
        Patience::For(span) => span,
        Patience::Forever => Duration::MAX,
    };
    let given = || {
        let interfaces = system.interfaces();
        let mut all = interfaces.iter().flat_map(|interface| &interface.addresses);
        all.any(|address| address.object == object && address.state == AddressState::Ok)
    };
    loop {
        if given() {
            return true;
        }
        if left.is_zero() || system.wait(LOOK_EVERY.min(left)) {
            return false;
        }
        left = left.saturating_sub(LOOK_EVERY);
    }
}

/// How long `ipadm` waits for a DHCP server unless it is told otherwise.
const DHCP_PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The interface of `interface/name`.
fn parse_object(object: &str) -> Option<&str> {
    let (interface, name) = object.split_once('/')?;
    let good = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.len() < 32
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (good && !interface.is_empty()).then_some(interface)
}

/// `[local=]address[/length]`; without a length an IPv4 address has that of its class.
fn parse_address(text: &str) -> Option<(IpAddr, u8)> {
    let text = text.strip_prefix("local=").unwrap_or(text);
    let (address, length) = text.split_once('/').map_or((text, None), |(a, length)| (a, Some(length)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length = match (length, address) {
        (Some(length), _) => length.parse().ok()?,
        (None, IpAddr::V4(address)) => match address.octets()[0] {
            0..128 => 8,
            128..192 => 16,
            _ => 24,
        },
        (None, IpAddr::V6(_)) => 64,
    };
    let usable = !address.is_multicast() && !address.is_unspecified() && !address.is_loopback();
    (usable && (1..=most).contains(&length)).then_some((address, length))
}

fn create(
    system: &dyn System,
    interface: &str,
    object: &str,
    kind: AddressKind,
    temporary: bool,
) -> Result<(), &'static str> {
    if !system.privileged() {
        return Err(text(Errno::EPERM));
    }
    // As libipadm makes the interface if there is none (`ipadm_create_addr`), and takes it away if that was for nothing.
    let made = !system.interfaces().iter().any(|known| known.name == interface);
    if made {
        create_if::create(system, interface, temporary)?;
    }
    system.add_address(interface, object, kind.clone()).map_err(|errno| {
        if made {
            let _ = delete_if::delete(system, interface);
        }
        match (&kind, errno) {
            (AddressKind::Dhcp, Errno::ENOTSUP) => "Could not start dhcpagent",
            _ => text(errno),
        }
    })?;
    let kept = conf::lines(system).iter().any(|line| line.interface() == interface);
    if temporary || !kept {
        return Ok(());
    }
    let line = Line::Address { interface: interface.to_owned(), object: object.to_owned(), kind };
    conf::change(system, |lines| {
        lines.retain(|known| known.object() != Some(object));
        lines.push(line.clone());
    })
    .map_err(|_| {
        // Nothing may be left of what could not be written down.
        let _ = system.remove_address(object, false);
        FAILED
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_so_many_seconds_or_for_ever() {
        assert_eq!(parse_patience("90"), Some(Patience::For(Duration::from_secs(90))));
        assert_eq!(parse_patience("forever"), Some(Patience::Forever));
        for bad in ["-1", "", "soon", "1s"] {
            assert_eq!(parse_patience(bad), None, "{bad}");
        }
    }

    #[test]
    fn addresses_are_read_with_and_without_a_length() {
        let read = |text| parse_address(text).map(|(address, length)| format!("{address}/{length}"));
        assert_eq!(read("10.0.0.1/24").as_deref(), Some("10.0.0.1/24"));
        assert_eq!(read("local=172.16.0.1").as_deref(), Some("172.16.0.1/16"));
        assert_eq!(read("fd00::1/64").as_deref(), Some("fd00::1/64"));
        for bad in ["10.0.0.1/33", "10.0.0.1/0", "10.0.0", "224.0.0.1/24", "::/64", "10.0.0.1/x", ""] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
