//! IP interfaces: made, configured and taken away by the ioctls that ifconfig uses.
//!
//! In a zone there is no /dev: its processes see what the case has put into its root by `node`.

use core::fmt::Write as _;

use super::{Failure, Named as _, Outcome, Path};
use crate::abi::ip::{Address, BROADCAST, FLAGS, INET, INET6, IPV4, IPV6, Interface, UP};
use crate::answer::{Answer, Hex};
use crate::sys::files::{Open, close, open};
use crate::sys::sockets::{Kind, configure, socket};
use crate::sys::{
    Control, Errno, Fd, GET_ADDRESS, GET_FLAGS, GET_INDEX, GET_MTU, GET_STREAMS, Plain, SET_ADDRESS,
    SET_FLAGS, SET_MASK, SET_NAME, SET_STREAMS, plain, streams,
};
use crate::words::Words;

/// IPv4, or IPv6 after the word `6`.
fn family(words: &mut Words<'_>) -> u16 {
    if words.maybe() == Some("6") { INET6 } else { INET }
}

/// `sockets`: which module each kind of socket is, as soconfig says it at boot.
pub fn sockets() -> Outcome {
    let inet = usize::from(INET);
    let inet6 = usize::from(INET6);
    for (family, kind, protocol, module) in [
        (inet, 2, 0, c"tcp"),
        (inet, 2, 6, c"tcp"),
        (inet6, 2, 0, c"tcp"),
        (inet6, 2, 6, c"tcp"),
        (inet, 1, 0, c"udp"),
        (inet, 1, 17, c"udp"),
        (inet6, 1, 0, c"udp"),
        (inet6, 1, 17, c"udp"),
        (inet, 4, 0, c"icmp"),
        (inet6, 4, 0, c"icmp"),
        (24, 4, 0, c"rts"),
    ] {
        match configure(family, kind, protocol, module) {
            Ok(_) | Err(Errno(17)) => {}
            Err(errno) => return Err(Failure::Call("sockconfig", errno)),
        }
    }
    Ok(())
}

/// The stream below which the streams of interfaces are linked: UDP's, with ARP on top instead of what is there.
fn multiplexer(family: u16) -> Result<Fd, Failure> {
    let six = family == INET6;
    let in_zone = if six { c"/udp6" } else { c"/udp" };
    let global = if six { c"/devices/pseudo/udp6@0:udp6" } else { c"/devices/pseudo/udp@0:udp" };
    let fd = open(in_zone, Open::Both).or_else(|_| open(global, Open::Both)).named("open udp")?;
    while plain(fd, Plain::Pop, 0).is_ok() {}
    streams::push(fd, c"arp").named("push arp")?;
    Ok(fd)
}

/// Descriptors that are closed when a command ends, however it does.
struct Held<const N: usize>([Option<Fd>; N]);

impl<const N: usize> Drop for Held<N> {
    fn drop(&mut self) {
        for fd in self.0.iter().flatten() {
            // Nothing can be done about it.
            let _ = close(*fd);
        }
    }
}

/// `plumb INTERFACE DEVICE [6]`: IP over the link of that device.
pub fn plumb(words: &mut Words<'_>) -> Outcome {
    let (name, device) = (words.word()?, Path::new(words.word()?)?);
    let family = family(words);
    let link = open(device.c(), Open::Both).named("open the link")?;
    let mut held = Held([Some(link), None, None]);
    streams::push(link, c"ip").named("push ip")?;
    let mut interface = Interface::named("");
    GET_FLAGS.call(link, &mut interface).named("SIOCGLIFFLAGS")?;
    let flags = interface.flags();
    interface = Interface::named(name);
    interface.set_flags(if family == INET6 { (flags | IPV6) & !(BROADCAST | IPV4) } else { flags });
    interface.ppa = name.bytes().last().map_or(0, |digit| u32::from(digit.wrapping_sub(b'0')));
    SET_NAME.call(link, &mut interface).named("SIOCSLIFNAME")?;
    let below = multiplexer(family)?;
    held.0[1] = Some(below);
    let ip = plain(below, Plain::Link, link.0 as usize).named("I_PLINK ip");
    let arp = if family == INET { Some(arp_stream(&device, &mut interface, &mut held)?) } else { None };
    interface.set_number(0, ip? as u32);
    interface.set_number(
        1,
        match arp {
            Some(arp) => plain(below, Plain::Link, arp.0 as usize).named("I_PLINK arp")? as u32,
            None => 0,
        },
    );
    SET_STREAMS.call(below, &mut interface).named("SIOCSLIFMUXID")?;
    Ok(())
}

/// A second stream over the link, on which ARP knows the interface.
fn arp_stream(device: &Path, interface: &mut Interface, held: &mut Held<3>) -> Result<Fd, Failure> {
    let arp = open(device.c(), Open::Both).named("open the link for arp")?;
    held.0[2] = Some(arp);
    streams::push(arp, c"arp").named("push arp on the link")?;
    streams::control(arp, &SET_NAME, interface).named("SIOCSLIFNAME of arp")?;
    Ok(arp)
}

/// A socket for questions about interfaces, for the time of one command.
fn asking<T>(family: u16, act: impl FnOnce(Fd) -> Result<T, Failure>) -> Result<T, Failure> {
    let fd = socket(family, Kind::Datagram, 0).named("socket")?;
    let _held = Held([Some(fd)]);
    act(fd)
}

fn ask(fd: Fd, control: &Control<Interface>, name: &str, call: &'static str) -> Result<Interface, Failure> {
    let mut interface = Interface::named(name);
    control.call(fd, &mut interface).named(call)?;
    Ok(interface)
}

fn change_flags(fd: Fd, name: &str, change: impl FnOnce(u64) -> u64) -> Outcome {
    let mut interface = ask(fd, &GET_FLAGS, name, "SIOCGLIFFLAGS")?;
    interface.set_flags(change(interface.flags()));
    SET_FLAGS.call(fd, &mut interface).named("SIOCSLIFFLAGS")?;
    Ok(())
}

/// `unplumb INTERFACE [6]`.
pub fn unplumb(words: &mut Words<'_>) -> Outcome {
    let name = words.word()?;
    let family = family(words);
    asking(family, |fd| change_flags(fd, name, |flags| flags & !UP))?;
    let below = multiplexer(family)?;
    let _held = Held([Some(below)]);
    let streams = ask(below, &GET_STREAMS, name, "SIOCGLIFMUXID")?;
    if family == INET {
        plain(below, Plain::Unlink, streams.number(1) as usize).named("I_PUNLINK arp")?;
    }
    plain(below, Plain::Unlink, streams.number(0) as usize).named("I_PUNLINK ip")?;
    Ok(())
}

/// `address INTERFACE A.B.C.D ONES`: an IPv4 address with a netmask, and up.
pub fn address(words: &mut Words<'_>) -> Outcome {
    let (name, address, ones) = (words.word()?, words.ipv4()?, words.number()?);
    asking(INET, |fd| {
        let mut interface = Interface::named(name);
        interface.set_address(&Address::mask(ones));
        SET_MASK.call(fd, &mut interface).named("SIOCSLIFNETMASK")?;
        interface.set_address(&Address::v4(address, 0));
        SET_ADDRESS.call(fd, &mut interface).named("SIOCSLIFADDR")?;
        change_flags(fd, name, |flags| flags | UP)
    })
}

/// `up INTERFACE [6]`, `down INTERFACE [6]`.
pub fn set_up(words: &mut Words<'_>, up: bool) -> Outcome {
    let name = words.word()?;
    asking(family(words), |fd| change_flags(fd, name, |flags| if up { flags | UP } else { flags & !UP }))
}

/// `interface INTERFACE [6]`: flags, MTU, index, and the address over IPv6.
pub fn show(words: &mut Words<'_>, answer: &mut Answer) -> Outcome {
    let name = words.word()?;
    let family = family(words);
    asking(family, |fd| {
        let flags = ask(fd, &GET_FLAGS, name, "SIOCGLIFFLAGS")?.flags();
        let mtu = ask(fd, &GET_MTU, name, "SIOCGLIFMTU")?.number(0);
        let index = ask(fd, &GET_INDEX, name, "SIOCGLIFINDEX")?.number(0);
        // Writing to a Text cannot fail, here and below.
        let _ = write!(answer, " flags=0x{flags:x} mtu={mtu} index={index}");
        for (name, bit) in FLAGS {
            let _ = write!(answer, " {name}={}", u8::from(flags & bit != 0));
        }
        if family == INET6 {
            let address = ask(fd, &GET_ADDRESS, name, "SIOCGLIFADDR")?.ipv6();
            let _ = write!(answer, " address={} hex={}", core::net::Ipv6Addr::from(address), Hex(&address));
        }
        Ok(())
    })
}
