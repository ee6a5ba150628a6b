//! What routers say of IPv6: that they are there, which prefixes are on the link, and which first hop is a better one (RFC 4861
//! sections 6.3.4 and 8.3), as far as illumos's in.ndpd and `icmp_redirect_v6` follow it. Addresses are not made of prefixes.
//!
//! Pure: messages and the time go in, first hops come out.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use smoltcp::wire::{Icmpv6Packet, IpProtocol, Ipv6Packet};

use super::link_addr::LinkAddr;
use super::nd::find_link_option;

const ADVERTISEMENT: u8 = 134;
const REDIRECT: u8 = 137;
const OPTION_SOURCE: u8 = 1;
const OPTION_TARGET: u8 = 2;
const OPTION_PREFIX: u8 = 3;
/// Octets of a prefix option, and its flag for a prefix that is on the link.
const PREFIX_LEN: usize = 32;
const ON_LINK: u8 = 0x80;
/// A lifetime that does not end.
const FOR_EVER: u32 = u32::MAX;
/// Routers, prefixes and redirected destinations that are remembered. Others are passed over.
const ROUTERS: usize = 16;
const PREFIXES: usize = 32;
const REDIRECTS: usize = 256;

/// A message of a router that may be believed (RFC 4861 sections 6.1.2 and 8.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// It is there.
    Advertisement {
        /// Link-local.
        router: Ipv6Addr,
        /// Where it is, if it says so.
        link: Option<LinkAddr>,
        /// For how long it is a default router; zero if it is none.
        lifetime: Duration,
        /// Prefixes on the link, with their lengths, and for how long; `None` is for ever.
        prefixes: Vec<(Ipv6Addr, u8, Option<Duration>)>,
    },
    /// There is a better first hop.
    Redirect {
        /// Link-local.
        router: Ipv6Addr,
        /// The first hop: another router, or the destination itself.
        target: Ipv6Addr,
        /// For this destination.
        destination: Ipv6Addr,
        /// Where the first hop is, if the router says so.
        link: Option<LinkAddr>,
    },
}

impl Message {
    /// `None` for anything else, and for what is not to be believed.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let ip = Ipv6Packet::new_checked(packet).ok().filter(|ip| ip.version() == 6)?;
        let (router, body) = (ip.src_addr(), ip.payload());
        let icmp = Icmpv6Packet::new_checked(body).ok()?;
        let is_valid = ip.next_header() == IpProtocol::Icmpv6
            && ip.hop_limit() == 255
            && router.is_unicast_link_local()
            && icmp.verify_checksum(&router, &ip.dst_addr())
            && body.get(1) == Some(&0);
        match *body.first().filter(|_| is_valid)? {
            ADVERTISEMENT => {
                let options = body.get(16..)?;
                let link = find_link_option(options, OPTION_SOURCE)?;
                let lifetime = Duration::from_secs(u16::from_be_bytes([body[6], body[7]]).into());
                Some(Self::Advertisement { router, link, lifetime, prefixes: prefixes(options) })
            }
            REDIRECT => {
                let address = |at: usize| body.get(at..)?.first_chunk::<16>().copied().map(Ipv6Addr::from);
                let (target, destination) = (address(8)?, address(24)?);
                let link = find_link_option(body.get(40..)?, OPTION_TARGET)?;
                let good = !destination.is_multicast()
                    && destination.to_ipv4_mapped().is_none()
                    && (target.is_unicast_link_local() || target == destination);
                good.then_some(Self::Redirect { router, target, destination, link })
            }
            _ => None,
        }
    }
}

/// Of options whose lengths are right.
fn prefixes(mut options: &[u8]) -> Vec<(Ipv6Addr, u8, Option<Duration>)> {
    let mut found = Vec::new();
    while let [kind, units, ..] = *options {
        let (option, rest) = options.split_at_checked(usize::from(units) * 8).unwrap_or_default();
        options = rest;
        let Some(option) = option.first_chunk::<PREFIX_LEN>().filter(|_| kind == OPTION_PREFIX) else {
            continue;
        };
        let (_, prefix) = option.split_at(16);
        let (length, seconds) = (option[2], u32::from_be_bytes([option[4], option[5], option[6], option[7]]));
        let Ok(prefix) = <[u8; 16]>::try_from(prefix) else { continue };
        let prefix = Ipv6Addr::from(prefix);
        if option[3] & ON_LINK != 0 && length <= 128 && !prefix.is_unicast_link_local() {
            let lifetime = (seconds != FOR_EVER).then(|| Duration::from_secs(seconds.into()));
            found.push((prefix, length, lifetime));
        }
    }
    found
}

/// What has been heard of routers.
#[derive(Clone, Debug, Default)]
pub struct Routers {
    /// Until when each is a default router.
    defaults: BTreeMap<Ipv6Addr, Duration>,
    /// Until when each prefix is on the link.
    prefixes: BTreeMap<(Ipv6Addr, u8), Duration>,
    /// The first hop to a destination: itself if it is on the link.
    redirects: BTreeMap<Ipv6Addr, Ipv6Addr>,
}

impl Routers {
    /// Follows a message; false if it is one that does not come from whom packets go to.
    pub fn hear(&mut self, now: Duration, message: &Message) -> bool {
        match message {
            Message::Advertisement { router, lifetime, prefixes, .. } => {
                if lifetime.is_zero() {
                    self.forget(router);
                } else if self.defaults.len() < ROUTERS || self.defaults.contains_key(router) {
                    self.defaults.insert(*router, now + *lifetime);
                }
                for (prefix, length, lifetime) in prefixes {
                    let until = lifetime.map_or(Duration::MAX, |lifetime| now + lifetime);
                    let key = (masked(*prefix, *length), *length);
                    if self.prefixes.len() < PREFIXES || self.prefixes.contains_key(&key) {
                        self.prefixes.insert(key, until);
                    }
                }
                true
            }
            Message::Redirect { router, target, destination, .. } => {
                let believed = self.first_hop(now, *destination) == Some(*router);
                if believed && (self.redirects.len() < REDIRECTS || self.redirects.contains_key(destination))
                {
                    self.redirects.insert(*destination, *target);
                }
                believed
            }
        }
    }

    /// It is no router any more.
    pub fn forget(&mut self, router: &Ipv6Addr) {
        self.defaults.remove(router);
        self.redirects.retain(|_, target| target != router);
    }

    /// The neighbour that packets to a destination go to, if routers have said so: a router, or the destination itself.
    pub fn first_hop(&self, now: Duration, destination: Ipv6Addr) -> Option<Ipv6Addr> {
        if let Some(target) = self.redirects.get(&destination) {
            return Some(*target);
        }
        let mut prefixes = self.prefixes.iter().filter(|(_, until)| now < **until);
        if prefixes.any(|((prefix, length), _)| masked(destination, *length) == *prefix) {
            return Some(destination);
        }
        self.defaults.iter().find(|(_, until)| now < **until).map(|(router, _)| *router)
    }
}

fn masked(address: Ipv6Addr, length: u8) -> Ipv6Addr {
    let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
    Ipv6Addr::from_bits(address.to_bits() & mask)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    const OTHER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
    const FAR: Ipv6Addr = Ipv6Addr::new(0xfd0a, 0, 0, 0, 0, 0, 0, 1);
    const PLACE: LinkAddr = LinkAddr([5; 20]);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A message from a router, as IP has it.
    pub(crate) fn message(source: Ipv6Addr, body: &[&[u8]]) -> Vec<u8> {
        let body = body.concat();
        let to = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        let head = [0x60, 0, 0, 0, 0, body.len() as u8, 58, 255];
        let mut packet = [&head[..], &source.octets(), &to.octets(), &body].concat();
        Icmpv6Packet::new_unchecked(&mut packet[40..]).fill_checksum(&source, &to);
        packet
    }

    fn link_option(kind: u8) -> Vec<u8> {
        [&[kind, 3][..], &PLACE.0, &[0, 0]].concat()
    }

    pub(crate) fn advertisement(source: Ipv6Addr, lifetime: u8, options: &[&[u8]]) -> Vec<u8> {
        let fixed = [ADVERTISEMENT, 0, 0, 0, 64, 0, 0, lifetime, 0, 0, 0, 0, 0, 0, 0, 0];
        message(source, &[&fixed, &options.concat()])
    }

    fn prefix_option(flags: u8, seconds: u32) -> Vec<u8> {
        let seconds = seconds.to_be_bytes();
        [&[3, 4, 64, flags][..], &seconds, &seconds, &[0; 4], &FAR.octets()].concat()
    }

    pub(crate) fn redirect(source: Ipv6Addr, target: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
        let fixed = [REDIRECT, 0, 0, 0, 0, 0, 0, 0];
        message(source, &[&fixed, &target.octets(), &destination.octets(), &link_option(OPTION_TARGET)])
    }

    fn told(routers: &mut Routers, now: u64, packet: &[u8]) -> bool {
        Message::parse(packet).is_some_and(|message| routers.hear(at(now), &message))
    }

    /// RFC 4861 section 6.3.4.
    #[test]
    fn a_default_router_is_one_for_as_long_as_it_says() {
        let mut routers = Routers::default();
        assert_eq!(routers.first_hop(at(0), FAR), None);
        assert!(told(&mut routers, 0, &advertisement(ROUTER, 30, &[&link_option(OPTION_SOURCE)])));
        assert_eq!([29, 30].map(|now| routers.first_hop(at(now), FAR)), [Some(ROUTER), None]);
        told(&mut routers, 30, &advertisement(ROUTER, 30, &[]));
        told(&mut routers, 30, &advertisement(ROUTER, 0, &[]));
        assert_eq!(routers.first_hop(at(31), FAR), None, "it says that it is none");
    }

    #[test]
    fn a_prefix_is_on_the_link_if_it_says_so_and_for_as_long() {
        for (flags, seconds, hops) in [
            (ON_LINK, 30, [Some(FAR), Some(ROUTER)]),
            (ON_LINK, FOR_EVER, [Some(FAR), Some(FAR)]),
            (0x40, 30, [Some(ROUTER), Some(ROUTER)]),
        ] {
            let mut routers = Routers::default();
            told(&mut routers, 0, &advertisement(ROUTER, 255, &[&prefix_option(flags, seconds)]));
            assert_eq!([29, 30].map(|now| routers.first_hop(at(now), FAR)), hops);
        }
    }

    /// RFC 4861 sections 8.1 and 8.3 (`icmp_redirect_v6`).
    #[test]
    fn a_redirect_is_believed_of_the_first_hop_alone() {
        let mut routers = Routers::default();
        told(&mut routers, 0, &advertisement(ROUTER, 255, &[]));
        let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 5);
        let global = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
        for (source, target, destination) in
            [(OTHER, OTHER, FAR), (global, OTHER, FAR), (ROUTER, OTHER, group), (ROUTER, global, FAR)]
        {
            assert!(!told(&mut routers, 0, &redirect(source, target, destination)), "{source} {target}");
        }
        assert!(told(&mut routers, 0, &redirect(ROUTER, OTHER, FAR)));
        assert_eq!(routers.first_hop(at(0), FAR), Some(OTHER));
        assert!(!told(&mut routers, 0, &redirect(ROUTER, ROUTER, FAR)), "it is the first hop no more");
        assert!(told(&mut routers, 0, &redirect(OTHER, FAR, FAR)));
        assert_eq!(routers.first_hop(at(0), FAR), Some(FAR), "it is on the link");
        routers.forget(&ROUTER);
        assert_eq!(routers.first_hop(at(0), global), None);
    }

    #[test]
    fn what_does_not_come_from_a_router_of_the_link_is_discarded() {
        let good = advertisement(ROUTER, 30, &[&link_option(OPTION_SOURCE)]);
        assert!(Message::parse(&good).is_some());
        for (octet, value) in [(7, 254), (41, 1), (43, 0x55), (57, 0), (57, 9), (8, 0xfd)] {
            let mut bad = good.clone();
            bad[octet] = value;
            if octet != 43 {
                let source = Ipv6Addr::from(<[u8; 16]>::try_from(&bad[8..24]).expect("an address"));
                let to = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
                Icmpv6Packet::new_unchecked(&mut bad[40..]).fill_checksum(&source, &to);
            }
            assert_eq!(Message::parse(&bad), None, "octet {octet} is {value}");
        }
        for cut in 0..good.len() {
            let mut cut = good[..cut].to_vec();
            if cut.len() > 40 {
                cut[5] = (cut.len() - 40) as u8;
            }
            assert_eq!(Message::parse(&cut), None, "{} octets", cut.len());
        }
    }

    #[test]
    fn what_routers_say_is_bounded() {
        let mut routers = Routers::default();
        for n in 0..1_000 {
            let router = Ipv6Addr::from_bits(ROUTER.to_bits() + n);
            told(&mut routers, 0, &advertisement(router, 255, &[&prefix_option(0, 1)]));
            told(&mut routers, 0, &redirect(ROUTER, OTHER, Ipv6Addr::from_bits(FAR.to_bits() + n)));
        }
        assert_eq!((routers.defaults.len(), routers.redirects.len()), (ROUTERS, REDIRECTS));
    }
}
