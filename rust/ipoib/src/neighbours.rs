//! Which IP address has which link address: learned from the ARP and ND frames that pass a link, in either direction.
//!
//! IP keeps its own table, where a driver cannot look. This one is for whoever asks the driver how an IP address is reached; no
//! packet is sent by it. What is learned is what a frame says of a *neighbour*: the sender of a frame that comes in, the target of
//! one that goes out.
//!
//! Bounded: a new neighbour takes the place of the one confirmed longest ago. What nobody has confirmed for
//! [`Neighbours::LIFETIME`] is forgotten.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::DerefMut;
use core::time::Duration;

use crate::addr::LinkAddr;
use crate::header::EtherType;
use crate::nd;
use crate::table::{Key, Slot, Table, mix};
use crate::time::Instant;

/// Room for one neighbour.
pub type NeighbourSlot = Slot<IpAddr, LinkAddr, 1>;

/// The neighbours, the one confirmed longest ago first.
const OLDEST: usize = 0;

impl Key for IpAddr {
    fn hash(&self, seed: u64) -> u64 {
        match self {
            Self::V4(address) => mix(seed, u64::from(address.to_bits())),
            Self::V6(address) => {
                let bits = address.to_bits();
                mix(mix(seed ^ 6, (bits >> 64) as u64), bits as u64)
            }
        }
    }
}

/// The table; `S` is its memory.
#[derive(Debug)]
pub struct Neighbours<S> {
    table: Table<IpAddr, LinkAddr, S, 1>,
}

impl<S: DerefMut<Target = [NeighbourSlot]>> Neighbours<S> {
    /// How long a neighbour is remembered that nobody confirms: as long as IP remembers one of ARP.
    pub const LIFETIME: Duration = Duration::from_secs(20 * 60);

    /// A table of at most `places.len()` neighbours. `seed` keys the hash.
    pub fn new(places: S, seed: u64) -> Self {
        Self { table: Table::new(places, seed) }
    }

    /// How many neighbours are known.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A frame has said so. The latest one counts, unless it says itself that it is not to replace another.
    pub fn learn(&mut self, now: Instant, news: News) {
        match news {
            News::At(neighbour) => self.set(now, neighbour),
            News::AtUnlessKnown(neighbour) => {
                if self.get(now, &neighbour.ip).is_none_or(|known| known == neighbour.link) {
                    self.set(now, neighbour);
                }
            }
            News::Sought(ip) => {
                if let Some(id) = self.table.find(&ip) {
                    self.table.remove(id);
                }
            }
        }
    }

    fn set(&mut self, now: Instant, Neighbour { ip, link }: Neighbour) {
        if self.table.find(&ip).is_none()
            && self.table.len() == self.table.capacity()
            && let Some(oldest) = self.table.front(OLDEST)
        {
            self.table.remove(oldest);
        }
        let Some(id) = self.table.find(&ip).or_else(|| self.table.insert(ip, link)) else { return };
        if let Some(known) = self.table.get_mut(id) {
            *known = link;
        }
        self.table.push_back(OLDEST, id);
        self.table.set_deadline(id, Some(now + Self::LIFETIME));
    }

    /// The link address of a neighbour.
    pub fn get(&self, now: Instant, ip: &IpAddr) -> Option<LinkAddr> {
        let id = self.table.find(ip)?;
        // A timeout may be on its way.
        let fresh = self.table.deadline(id).is_none_or(|until| until > now);
        self.table.get(id).copied().filter(|_| fresh)
    }

    /// Nobody is known any more.
    pub fn clear(&mut self) {
        while let Some(id) = self.table.front(OLDEST) {
            self.table.remove(id);
        }
    }

    /// When [`Neighbours::handle_timeout`] wants to be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.table.next_deadline()
    }

    /// Time has passed. Early and spurious calls are harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(id) = self.table.pop_due(now) {
            self.table.remove(id);
        }
    }
}

/// An IP address and the link address of who has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Unicast.
    pub ip: IpAddr,
    /// A port's, without flags.
    pub link: LinkAddr,
}

/// What a frame says of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It is there, whatever was known before.
    At(Neighbour),
    /// It is there, unless another place is known: an advertisement without the override flag (RFC 4861 section 7.2.5).
    AtUnlessKnown(Neighbour),
    /// IP asks a group for this address, and so knows no place. Whatever answers is believed.
    Sought(IpAddr),
}

impl News {
    /// The neighbour that the frame names, whether or not it replaces what is known.
    pub fn neighbour(&self) -> Option<&Neighbour> {
        match self {
            Self::At(neighbour) | Self::AtUnlessKnown(neighbour) => Some(neighbour),
            Self::Sought(_) => None,
        }
    }
}

impl Neighbour {
    /// `None` for what no neighbour has: groups, loopback, "no address", and link addresses that are no port's.
    fn new(ip: IpAddr, link: LinkAddr) -> Option<Self> {
        let nobody = match ip {
            IpAddr::V4(ip) => {
                ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast() || ip.is_loopback()
            }
            IpAddr::V6(ip) => {
                ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() || ip.to_ipv4_mapped().is_some()
            }
        };
        (!nobody && link.is_port()).then(|| Self { ip, link: link.without_flags() })
    }
}

/// Which way a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the fabric: its sender is the neighbour.
    In,
    /// To this link address: its target is the neighbour.
    Out(LinkAddr),
}

/// Bytes of payload that [`read`] wants to see, at most.
pub const PREFIX_LEN: usize = 40 + 24 + 3 * 24;

/// What a frame says of a neighbour. `payload` starts behind the IPoIB header and may be cut off after [`PREFIX_LEN`] bytes;
/// link-layer options are as IP has them (see [`nd`]).
pub fn read(ethertype: EtherType, payload: &[u8], direction: Direction) -> Option<News> {
    match ethertype {
        EtherType::ARP => arp(payload, direction).map(News::At),
        EtherType::IPV6 => discovery(payload, direction),
        _ => None,
    }
}

/// Why a frame from the fabric is not for IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It says that a neighbour is at a group. No neighbour is: IP would send to a whole group what is for one host, and have each group
    /// joined for that.
    Group,
    /// It has not the form of RFC 4391. IP takes more: ARP of any hardware type, ARP without hardware addresses (RFC 1868), and neighbour
    /// discovery in fragments (RFC 6980). What such a frame says is not looked at here, so IP must not read it.
    Form,
}

/// Why a frame of ARP or IPv6 must not reach IP; `None` if it may. `payload` is whole, and its link-layer options are as IP has them.
pub fn refuse(ethertype: EtherType, payload: &mut [u8]) -> Option<Refusal> {
    match ethertype {
        EtherType::ARP => match arp_sender(payload) {
            None => Some(Refusal::Form),
            Some(sender) => is_of_group(&sender).then_some(Refusal::Group),
        },
        EtherType::IPV6 if nd::is_fragment_of_discovery(payload) => Some(Refusal::Form),
        EtherType::IPV6 => nd::any_link_address(payload, is_of_group).then_some(Refusal::Group),
        _ => None,
    }
}

fn is_of_group(link: &LinkAddr) -> bool {
    link.is_multicast() || link.gid().is_multicast()
}

/// The sender's hardware address in ARP of any operation; `None` unless it is whole and has the form of RFC 4391.
fn arp_sender(payload: &[u8]) -> Option<LinkAddr> {
    let (header, rest) = payload.split_at_checked(8)?;
    let is_whole = header[..6] == ARP_HEADER && rest.len() >= 2 * PAIR;
    if is_whole { LinkAddr::from_slice(rest) } else { None }
}

/// The IP address that a frame asks for; `None` for all that is no question of ARP or neighbour discovery. `payload` as in [`read`].
pub fn asked_for(ethertype: EtherType, payload: &[u8]) -> Option<IpAddr> {
    match ethertype {
        EtherType::ARP => {
            arp_pairs(payload).filter(|(operation, _)| *operation == 1).and_then(|(_, pairs)| {
                let ip: [u8; 4] = *pairs.get(PAIR + LinkAddr::LEN..)?.first_chunk()?;
                Some(IpAddr::V4(Ipv4Addr::from(ip)))
            })
        }
        EtherType::IPV6 => nd::Message::parse(payload)
            .filter(|message| message.kind == nd::Kind::Solicitation)
            .map(|message| IpAddr::V6(Ipv6Addr::from(message.target))),
        _ => None,
    }
}

/// Whether a frame asks for a neighbour that IP has a packet for: a solicitation with a source. One without asks whether another host has the
/// address that IP is about to take, which no other host makes it do. `payload` as in [`read`].
pub fn solicits(ethertype: EtherType, payload: &[u8]) -> bool {
    let message = if ethertype == EtherType::IPV6 { nd::Message::parse(payload) } else { None };
    message.is_some_and(|message| message.kind == nd::Kind::Solicitation && message.source != [0; 16])
}

/// Bytes of a link address and an IP address in ARP.
const PAIR: usize = LinkAddr::LEN + 4;

/// RFC 4391 section 9.2: hardware type 32, protocol IPv4, addresses of 20 and 4 bytes.
const ARP_HEADER: [u8; 6] = [0, 32, 8, 0, 20, 4];

fn arp_pairs(payload: &[u8]) -> Option<(u16, &[u8])> {
    let (header, rest) = payload.split_at_checked(8)?;
    let operation = u16::from_be_bytes([header[6], header[7]]);
    (header[..6] == ARP_HEADER && matches!(operation, 1 | 2)).then_some((operation, rest))
}

fn arp(payload: &[u8], direction: Direction) -> Option<Neighbour> {
    let (_, rest) = arp_pairs(payload)?;
    let at = if direction == Direction::In { 0 } else { PAIR };
    let pair = rest.get(at..at + PAIR)?;
    let ip: [u8; 4] = *pair[LinkAddr::LEN..].first_chunk()?;
    Neighbour::new(IpAddr::V4(Ipv4Addr::from(ip)), LinkAddr::from_slice(pair)?)
}

/// RFC 4861 sections 4.3 and 4.4.
fn discovery(packet: &[u8], direction: Direction) -> Option<News> {
    let message = nd::Message::parse(packet)?;
    let v6 = |bytes: [u8; 16]| IpAddr::V6(Ipv6Addr::from(bytes));
    let at = |ip, link| Neighbour::new(v6(ip), link).map(News::At);
    match (direction, message.kind) {
        (Direction::In, nd::Kind::Solicitation) => at(message.source, message.link?),
        (Direction::In, nd::Kind::Advertisement { overrides: true }) => at(message.target, message.link?),
        (Direction::In, nd::Kind::Advertisement { overrides: false }) => {
            Neighbour::new(v6(message.target), message.link?).map(News::AtUnlessKnown)
        }
        // One that goes to a port asks whether the neighbour is still there.
        (Direction::Out(to), nd::Kind::Solicitation) if to.is_multicast() => {
            Some(News::Sought(v6(message.target)))
        }
        (Direction::Out(to), nd::Kind::Solicitation) => at(message.target, to),
        (Direction::Out(to), nd::Kind::Advertisement { .. }) => at(message.destination, to),
    }
}

#[cfg(test)]
mod tests;
