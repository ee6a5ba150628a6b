//! From a frame to its layers, each with a line and a page.

use std::net::IpAddr;

use super::icmp;
use super::network::{
    Fragment, addresses, ethertype, fragment, ipv4_at, ipv6_at, payload, short, transport, word,
};
use crate::ifconfig::link_address;

pub(super) const IPV4: u16 = 0x0800;
pub(super) const ARP: u16 = 0x0806;
pub(super) const IPV6: u16 = 0x86dd;

/// A layer of a packet.
pub(super) struct Layer {
    /// What its lines begin with on a page.
    pub(super) prefix: &'static str,
    /// Its line, name included; none for what is shown on a page alone.
    pub(super) summary: Option<String>,
    /// Its page.
    pub(super) page: Vec<String>,
}

/// What names an address: the name of a host, or the address again.
pub(super) type Named<'a> = &'a dyn Fn(IpAddr) -> String;

/// The layers, and who speaks to whom as far as they tell.
pub(super) struct Decoded {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) layers: Vec<Layer>,
}

/// Decodes a frame. `arrival` is the line that says when it came.
pub(super) fn decode(frame: &[u8], size: usize, arrival: String, named: Named<'_>) -> Decoded {
    let mut decoded = Decoded { from: "?".into(), to: "*".into(), layers: vec![link(frame, size, arrival)] };
    let question = ethertype(frame) == Some(ARP) && short(payload(frame), 6) == Some(1);
    if let Some((from, to)) = addresses(frame) {
        decoded.from = named(from);
        if let Some(to) = to.filter(|_| !question) {
            decoded.to = named(to);
        }
    }
    let packet = payload(frame);
    match ethertype(frame) {
        Some(ARP) => decoded.layers.extend(arp(packet, named)),
        Some(IPV4) => decoded.layers.extend(ipv4(packet, named)),
        Some(IPV6) => decoded.layers.extend(ipv6(packet)),
        _ => {}
    }
    decoded.layers.extend(match part(frame) {
        None => above(frame, named),
        // The line of IP says what is known of a fragment. The first one has the next header, and shows it on its page.
        Some(Fragment { offset: 0, .. }) => above(frame, named).map(|layer| Layer { summary: None, ..layer }),
        Some(_) => continuation(payload(frame)),
    });
    decoded
}

fn part(frame: &[u8]) -> Option<Fragment> {
    (ethertype(frame)? == IPV4).then(|| fragment(payload(frame))).flatten()
}

/// A fragment that is not the first.
fn continuation(packet: &[u8]) -> Option<Layer> {
    let (header, length) = (u16::from(packet.first()? & 0xf) * 4, short(packet, 2)?);
    let (id, protocol) = (short(packet, 4)?, protocol_name(*packet.get(9)?));
    let bytes = length.saturating_sub(header);
    let line = format!("{protocol}:  [{bytes} byte(s) of data, continuation of IP ident={id}]");
    Some(Layer { prefix: "", summary: None, page: vec![line] })
}

fn above(frame: &[u8], named: Named<'_>) -> Option<Layer> {
    let (protocol, bytes) = transport(frame)?;
    match protocol {
        1 => icmp::icmp(bytes),
        58 => icmp::icmpv6(bytes, named),
        6 => tcp(bytes),
        17 => udp(bytes),
        _ => None,
    }
}

fn link(frame: &[u8], size: usize, arrival: String) -> Layer {
    let kind = ethertype(frame).unwrap_or(0);
    let name = match kind {
        IPV4 => "IP",
        ARP => "ARP",
        IPV6 => "IPv6",
        _ => "Unknown",
    };
    Layer {
        prefix: "IPIB:  ",
        summary: Some(format!("IPIB Type={kind:04X} ({name}), size = {size} bytes")),
        page: vec![
            "----- IPIB Header -----".into(),
            String::new(),
            arrival,
            format!("Packet size = {size} bytes"),
            format!("Ethertype = {kind:04X} ({name})"),
            String::new(),
        ],
    }
}

fn arp(packet: &[u8], named: Named<'_>) -> Option<Layer> {
    let (hardware, protocol) = (usize::from(*packet.get(4)?), *packet.get(5)?);
    let operation = short(packet, 6)?;
    let sender_place = packet.get(8..8 + hardware)?;
    let sender = ipv4_at(packet, 8 + hardware)?;
    let target_place = packet.get(12 + hardware..12 + 2 * hardware)?;
    let target = ipv4_at(packet, 12 + 2 * hardware)?;
    let both = |ip: std::net::Ipv4Addr| format!("{ip}, {}", named(ip.into()));
    let (word, summary) = match operation {
        1 => ("Request", format!("ARP C Who is {} ?", both(target))),
        2 => ("Reply", format!("ARP R {} is {}", both(sender), link_address(sender_place))),
        _ => ("Unknown", format!("ARP operation {operation}")),
    };
    let place = if operation == 1 { "?".to_owned() } else { link_address(target_place) };
    let page = vec![
        "----- ARP/RARP Frame -----".into(),
        String::new(),
        format!("Hardware type = {} (IPIB)", short(packet, 0)?),
        format!("Protocol type = {:04X} (IP)", short(packet, 2)?),
        format!("Length of hardware address = {hardware} bytes"),
        format!("Length of protocol address = {protocol} bytes"),
        format!("Opcode {operation} (ARP {word})"),
        format!("Sender's hardware address = {}", link_address(sender_place)),
        format!("Sender's protocol address = {}", both(sender)),
        format!("Target hardware address = {place}"),
        format!("Target protocol address = {}", both(target)),
        String::new(),
    ];
    Some(Layer { prefix: "ARP:  ", summary: Some(summary), page })
}

/// A line for a bit: where it is, and what it says when it is clear and when it is set.
fn bit(byte: u8, at: u8, words: [&str; 2]) -> String {
    let set = byte >> at & 1;
    let mut text: String = (0..8).rev().map(|n| if n == at { char::from(b'0' + set) } else { '.' }).collect();
    text.insert(4, ' ');
    format!("      {text} = {}", words[usize::from(set)])
}

fn protocol_name(protocol: u8) -> &'static str {
    match protocol {
        1 => "ICMP",
        2 => "IGMP",
        6 => "TCP",
        17 => "UDP",
        58 => "ICMPv6",
        _ => "",
    }
}

fn ipv4(packet: &[u8], named: Named<'_>) -> Option<Layer> {
    let header = (packet.first()? & 0xf) * 4;
    let (tos, length, id) = (*packet.get(1)?, short(packet, 2)?, short(packet, 4)?);
    let (place, ttl, protocol) = (short(packet, 6)?, *packet.get(8)?, *packet.get(9)?);
    let (from, to) = (ipv4_at(packet, 12)?, ipv4_at(packet, 16)?);
    let flags = (place >> 8) as u8;
    let page = vec![
        "----- IP Header -----".into(),
        String::new(),
        format!("Version = {}", packet[0] >> 4),
        format!("Header length = {header} bytes"),
        format!("Type of service = 0x{tos:02x}"),
        format!("      xxx. .... = {} (precedence)", tos >> 5),
        bit(tos, 4, ["normal delay", "low delay"]),
        bit(tos, 3, ["normal throughput", "high throughput"]),
        bit(tos, 2, ["normal reliability", "high reliability"]),
        bit(tos, 1, ["not ECN capable transport", "ECN capable transport"]),
        bit(tos, 0, ["no ECN congestion experienced", "ECN congestion experienced"]),
        format!("Total length = {length} bytes"),
        format!("Identification = {id}"),
        format!("Flags = 0x{:x}", flags >> 4),
        bit(flags, 6, ["may fragment", "do not fragment"]),
        bit(flags, 5, ["last fragment", "more fragments"]),
        format!("Fragment offset = {} bytes", (place & 0x1fff) * 8),
        format!("Time to live = {ttl} seconds/hops"),
        format!("Protocol = {protocol} ({})", protocol_name(protocol)),
        format!("Header checksum = {:04x}", short(packet, 10)?),
        format!("Source address = {from}, {}", named(from.into())),
        format!("Destination address = {to}, {}", named(to.into())),
        if header > 20 { format!("Options: {} bytes", header - 20) } else { "No options".into() },
        String::new(),
    ];
    let summary = match fragment(packet) {
        None => format!("IP  D={to} S={from} LEN={length}, ID={id}, TOS=0x{tos:x}, TTL={ttl}"),
        Some(Fragment { offset, more }) => format!(
            "{} IP fragment ID={id} Offset={offset:<4} MF={} TOS=0x{tos:x} TTL={ttl}",
            protocol_name(protocol),
            u8::from(more)
        ),
    };
    Some(Layer { prefix: "IP:   ", summary: Some(summary), page })
}

fn ipv6(packet: &[u8]) -> Option<Layer> {
    let first = word(packet, 0)?;
    let (class, flow) = (first >> 20 & 0xff, first & 0xf_ffff);
    let (length, next, hops) = (short(packet, 4)?, *packet.get(6)?, *packet.get(7)?);
    let (from, to) = (ipv6_at(packet, 8)?, ipv6_at(packet, 24)?);
    let page = vec![
        "----- IPv6 Header -----".into(),
        String::new(),
        format!("Version = {}", first >> 28),
        format!("Traffic Class = {class}"),
        format!("Flow label = 0x{flow:x}"),
        format!("Payload length = {length}"),
        format!("Next Header = {next} ({})", protocol_name(next)),
        format!("Hop Limit = {hops}"),
        format!("Source address = {from}"),
        format!("Destination address = {to}"),
        String::new(),
    ];
    let summary = format!("IPv6  S={from} D={to} LEN={length} HOPS={hops} CLASS=0x{class:x} FLOW=0x{flow:x}");
    Some(Layer { prefix: "IPv6:   ", summary: Some(summary), page })
}

fn tcp(bytes: &[u8]) -> Option<Layer> {
    const FLAGS: [(u8, &str); 5] =
        [(0x02, " Syn"), (0x01, " Fin"), (0x04, " Rst"), (0x08, " Push"), (0x20, " Urgent")];
    let (from, to) = (short(bytes, 0)?, short(bytes, 2)?);
    let (sequence, acknowledged) = (word(bytes, 4)?, word(bytes, 8)?);
    let (offset, flags) = (usize::from(*bytes.get(12)? >> 4) * 4, *bytes.get(13)?);
    let (window, checksum) = (short(bytes, 14)?, short(bytes, 16)?);
    let mut summary = format!("TCP D={to} S={from}");
    FLAGS.iter().filter(|(bit, _)| flags & bit != 0).for_each(|(_, word)| summary += word);
    if flags & 0x10 != 0 {
        summary += &format!(" Ack={acknowledged}");
    }
    summary += &format!(" Seq={sequence} Len={} Win={window}", bytes.len().saturating_sub(offset));
    let page = vec![
        "----- TCP Header -----".into(),
        String::new(),
        format!("Source port = {from}"),
        format!("Destination port = {to}"),
        format!("Sequence number = {sequence}"),
        format!("Acknowledgement number = {acknowledged}"),
        format!("Data offset = {offset} bytes"),
        format!("Flags = 0x{flags:02x}"),
        format!("Window = {window}"),
        format!("Checksum = 0x{checksum:04x}"),
        String::new(),
    ];
    Some(Layer { prefix: "TCP:  ", summary: Some(summary), page })
}

fn udp(bytes: &[u8]) -> Option<Layer> {
    let (from, to, length) = (short(bytes, 0)?, short(bytes, 2)?, short(bytes, 4)?);
    let page = vec![
        "----- UDP Header -----".into(),
        String::new(),
        format!("Source port = {from}"),
        format!("Destination port = {to}"),
        format!("Length = {length}"),
        format!("Checksum = {:04X}", short(bytes, 6)?),
        String::new(),
    ];
    Some(Layer { prefix: "UDP:  ", summary: Some(format!("UDP D={to} S={from} LEN={length}")), page })
}
