//! What the lab's IP reads of IPv6 beside neighbours: messages of routers, and fragments.

use std::net::Ipv6Addr;
use std::time::Duration;

use lab_ip::ipv6_fragments::{Reassembly, cut};
use lab_ip::routers::{Message, Routers};

const HEADER: usize = 40;
const NEXT_HEADER: usize = 6;
const ICMPV6: u8 = 58;
const UDP: u8 = 17;
/// The least MTU that a fragment fits.
const LEAST_MTU: usize = HEADER + 16;
const TO: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// An input as parts: an octet that says how long a part is, and the part.
fn parts(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = bytes.split_first()?;
        let (part, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        bytes = rest;
        Some(part)
    })
}

fn packet(source: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (payload.len() as u16).to_be_bytes();
    let head = [0x60, 0, 0, 0, high, low, next, 255];
    [&head[..], &source.octets(), &TO.octets(), payload].concat()
}

/// With the checksum of ICMPv6 that a sender would write.
fn with_checksum(mut packet: Vec<u8>) -> Vec<u8> {
    let Some(body) = packet.get_mut(HEADER..).filter(|body| body.len() >= 4) else { return packet };
    body[2..4].fill(0);
    let words =
        packet[8..].chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0)));
    let mut sum = words.sum::<u64>() + (packet.len() - HEADER) as u64 + u64::from(ICMPV6);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[HEADER + 2..HEADER + 4].copy_from_slice(&(!sum as u16).to_be_bytes());
    packet
}

/// What routers say, one after the other: each part's first octet says which router and how much later, the rest is the message.
pub fn routers(bytes: &[u8]) {
    let _ = Message::parse(bytes);
    let (mut routers, mut now) = (Routers::default(), Duration::ZERO);
    for part in parts(bytes) {
        let Some((who, body)) = part.split_first() else { continue };
        now += Duration::from_secs(u64::from(who >> 2));
        let source = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, u16::from(who & 3) + 1);
        let Some(message) = Message::parse(&with_checksum(packet(source, ICMPV6, body))) else { continue };
        let first_hop = match &message {
            Message::Redirect { destination, .. } => routers.first_hop(now, *destination),
            Message::Advertisement { .. } => None,
        };
        let believed = routers.hear(now, &message);
        if let Message::Redirect { router, .. } = &message {
            assert_eq!(believed, first_hop == Some(*router), "a redirect is its first hop's word alone");
        }
        if who & 0x80 != 0 {
            routers.forget(&source);
        }
        let _ = routers.first_hop(now, TO);
    }
}

/// Fragments as anybody sends them: what is put together is as long as it says. And what is cut here comes back whole.
pub fn ipv6_fragments(bytes: &[u8]) {
    let mut reassembly = Reassembly::default();
    for (n, part) in parts(bytes).enumerate() {
        let now = Duration::from_secs(n as u64);
        let source = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
        let (next, payload) = part.split_first().unwrap_or((&UDP, &[]));
        for came in [part.to_vec(), packet(source, *next, payload)] {
            let is_fragment = came.get(NEXT_HEADER) != Some(&UDP);
            let Some(whole) = reassembly.take(now, came.clone()) else { continue };
            let says = |packet: &[u8]| HEADER + usize::from(u16::from_be_bytes([packet[4], packet[5]]));
            assert!(whole == came || is_fragment && says(&whole) == whole.len());
        }
    }
    let Some((mtu, payload)) = bytes.split_first() else { return };
    let whole = packet(Ipv6Addr::LOCALHOST, UDP, payload);
    let mtu = LEAST_MTU + usize::from(*mtu) * 8;
    let pieces = cut(&whole, mtu, 7).unwrap_or_default();
    assert!(pieces.iter().all(|piece| piece.len() <= mtu));
    let mut reassembly = Reassembly::default();
    let back = pieces.iter().rev().filter_map(|piece| reassembly.take(Duration::ZERO, piece.clone())).last();
    assert_eq!(back, (!payload.is_empty()).then_some(whole));
}
