//! Packets that a test sends, and what tshark has to say of them.

use std::net::Ipv6Addr;

use super::tshark::Row;

/// A host of the test.
pub struct Station {
    pub host: String,
    pub ip: [u8; 4],
    /// Its link address.
    pub address: [u8; 20],
}

/// The P_Key of the link.
const P_KEY: u16 = 0xffff;
/// What an address has in front of a GID when it is a group's.
const GROUP: [u8; 4] = [0, 0xff, 0xff, 0xff];
/// Of groups (RFC 4391 section 4).
const IPV4: [u8; 2] = [0x40, 0x1b];
const IPV6: [u8; 2] = [0x60, 0x1b];

impl Station {
    /// From what `ifconfig` prints of the link.
    pub fn new(host: &str, ip: [u8; 4], ifconfig: &str) -> Self {
        let line = ifconfig.lines().find_map(|line| line.trim().strip_prefix("ipib "));
        let octets = line.unwrap_or_else(|| panic!("no link address: {ifconfig}")).trim().split(':');
        let octets: Vec<u8> =
            octets.map(|octet| u8::from_str_radix(octet, 16).expect("hexadecimal")).collect();
        Self { host: host.to_owned(), ip, address: octets.try_into().expect("20 octets") }
    }

    fn qpn(&self) -> String {
        qpn(&self.address)
    }

    fn gid(&self) -> String {
        gid(&self.address)
    }
}

fn qpn(address: &[u8; 20]) -> String {
    format!("0x{:06x}", u32::from_be_bytes([0, address[1], address[2], address[3]]))
}

fn gid(address: &[u8; 20]) -> String {
    let octets: [u8; 16] = address[4..].try_into().expect("16 octets");
    Ipv6Addr::from(octets).to_string()
}

/// A group as the clients of a link name it: without scope and P_Key.
fn group(signature: [u8; 2], id: &[u8]) -> [u8; 20] {
    let mut address = [0; 20];
    address[..4].copy_from_slice(&GROUP);
    address[4..6].copy_from_slice(&[0xff, 0x10]);
    address[6..8].copy_from_slice(&signature);
    address[20 - id.len()..].copy_from_slice(id);
    address
}

/// A packet: to whom, of which type, and what tshark has to find in it.
pub struct Sent {
    pub name: String,
    pub key: String,
    to: [u8; 20],
    kind: u16,
    pub payload: Vec<u8>,
    fields: Vec<(&'static str, String)>,
    /// The link address that a solicitation tells.
    tells: Option<[u8; 20]>,
}

impl Sent {
    /// As `ibdlab send` reads it.
    pub fn line(&self) -> String {
        let header = [self.kind.to_be_bytes(), [0; 2]].concat();
        let octets = self.to.iter().chain(&header).chain(&self.payload);
        octets.map(|octet| format!("{octet:02x}")).collect::<String>() + "\n"
    }

    fn to_group(&self) -> bool {
        self.to[..4] == GROUP
    }

    /// What is above the link, as a host sees it or as it is on the wire.
    pub fn check_packet(&self, on_the_wire: bool, row: &Row, file: &str) {
        let option = self.tells.map(|address| match on_the_wire {
            true => [&[0, 0], &address[..]].concat(),
            false => [&address[..], &[0, 0]].concat(),
        });
        row.expect("icmpv6.opt.src_linkaddr", option.map_or(String::new(), |option| hex(&option)), file);
        for (field, value) in &self.fields {
            row.expect(field, value.as_str(), &format!("{file}: {}", self.name));
        }
    }

    /// Link type 242: with a GRH, as to a group, the sender and the group; without one the destination. A link's clients name
    /// groups without scope and P_Key, and are told of them so.
    pub fn check_link_addresses(&self, from: &Station, row: &Row, file: &str) {
        row.expect("ipoib.type", format!("0x{:04x}", self.kind), file);
        row.expect("ipoib.dgid", gid(&self.to), file);
        let (sender, destination) =
            if self.to_group() { ([from.qpn(), from.gid()], String::new()) } else { Default::default() };
        let destination = if self.to_group() { destination } else { qpn(&self.to) };
        row.expect("ipoib.grh.sqpn", &*sender[0], file);
        row.expect("ipoib.grh.sgid", &*sender[1], file);
        row.expect("ipoib.daddr.qpn", destination, file);
    }

    /// The headers of a frame of the fabric.
    pub fn check_headers(&self, from: &Station, row: &Row) {
        let file = &self.name;
        let (lnh, grh, dgid, sgid) = if self.to_group() {
            // Link-local scope, and the P_Key.
            let mut mgid = self.to;
            (mgid[5], [mgid[8], mgid[9]]) = (mgid[5] | 2, P_KEY.to_be_bytes());
            ("0x03", 40, gid(&mgid), from.gid())
        } else {
            ("0x02", 0, String::new(), String::new())
        };
        row.expect("infiniband.lrh.lnh", lnh, file);
        row.expect("infiniband.grh.dgid", dgid, file);
        row.expect("infiniband.grh.sgid", sgid, file);
        let payload = 4 + self.payload.len();
        let padding = payload.wrapping_neg() & 3;
        let length = (8 + grh + 12 + 8 + payload + padding + 4) / 4;
        row.expect("infiniband.lrh.pktlen", length.to_string(), file);
        row.expect("infiniband.bth.padcnt", padding.to_string(), file);
        row.expect("infiniband.bth.opcode", "100", file);
        row.expect("infiniband.bth.p_key", P_KEY.to_string(), file);
        row.expect("infiniband.bth.destqp", qpn(&self.to), file);
        row.expect(
            "infiniband.deth.srcqp",
            format!("0x{:08x}", u32::from_str_radix(&from.qpn()[2..], 16).expect("a number")),
            file,
        );
        row.expect("infiniband.deth.q_key", "0x0000000000000b1b", file);
        let dlid: u16 = row.get("infiniband.lrh.dlid").parse().expect("a LID");
        assert_eq!(dlid >= 0xc000, self.to_group(), "{file}: DLID {dlid:#06x}");
    }
}

/// The packets of `from`, most of them to `to`, with IPv4 identifications from `first` on.
pub fn all(from: &Station, to: &Station, first: u16) -> Vec<Sent> {
    let mut sent = vec![arp(from, first), solicitation(from, first)];
    let id = |sent: &[Sent]| first + u16::try_from(sent.len()).expect("few");
    for size in [0, 1, 57, 2016] {
        sent.push(icmp(from, to, id(&sent), size));
    }
    for size in [0, 1, 3, 513, 2016] {
        sent.push(udp(from, to.ip, to.address, id(&sent), size));
    }
    for size in [1, 17, 999] {
        sent.push(tcp(from, to, id(&sent), size));
    }
    // Everybody's group, which every host is in.
    let everybody = group(IPV4, &[0, 0, 0, 1]);
    for size in [7, 1024] {
        sent.push(udp(from, [224, 0, 0, 1], everybody, id(&sent), size));
    }
    sent
}

/// Octets that are another sequence for each size.
fn filling(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at * 7 + size) as u8).collect()
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// RFC 1071.
fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let octets = parts.concat();
    let words =
        octets.chunks(2).map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |low| u32::from(*low)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

fn dotted(ip: [u8; 4]) -> String {
    ip.map(|octet| octet.to_string()).join(".")
}

/// Who has an address that nobody has, asked of everybody.
fn arp(from: &Station, number: u16) -> Sent {
    let target = [10, 0, 0, number.to_be_bytes()[0]];
    let mut payload = vec![0, 32, 8, 0, 20, 4, 0, 1];
    payload.extend([&from.address[..], &from.ip, &[0; 20], &target].concat());
    let fields = vec![
        ("arp.opcode", "1".to_owned()),
        ("arp.hw.type", "32".to_owned()),
        ("arp.src.hw", hex(&from.address)),
        ("arp.src.proto_ipv4", dotted(from.ip)),
    ];
    let to = group(IPV4, &[0xff; 4]);
    Sent { name: "ARP".into(), key: dotted(target), to, kind: 0x0806, payload, fields, tells: None }
}

/// The same in IPv6, of all nodes, with the sender's link address as IP has it: two octets of padding are behind it, and in front of
/// it on the wire (RFC 4391 section 9.3).
fn solicitation(from: &Station, number: u16) -> Sent {
    let source: [u8; 16] = from.address[4..].try_into().expect("a link-local address");
    let mut all_nodes = [0; 16];
    all_nodes[..2].copy_from_slice(&[0xff, 2]);
    all_nodes[15] = 1;
    let mut target = [0; 16];
    target[..2].copy_from_slice(&[0xfe, 0x80]);
    target[14..].copy_from_slice(&number.to_be_bytes());
    let mut body = vec![135, 0, 0, 0, 0, 0, 0, 0];
    body.extend(target);
    body.extend([&[1, 3], &from.address[..], &[0, 0]].concat());
    let length = (body.len() as u32).to_be_bytes();
    let sum = checksum(&[&source, &all_nodes, &length, &[0, 0, 0, 58], &body]);
    body[2..4].copy_from_slice(&sum);
    let mut payload = vec![0x60, 0, 0, 0, 0, body.len() as u8, 58, 255];
    payload.extend([&source[..], &all_nodes, &body].concat());
    let fields = vec![
        ("ipv6.src", Ipv6Addr::from(source).to_string()),
        ("ipv6.dst", "ff02::1".to_owned()),
        ("ipv6.plen", body.len().to_string()),
        ("icmpv6.type", "135".to_owned()),
        ("icmpv6.checksum.status", "1".to_owned()),
        ("icmpv6.opt.length", "3".to_owned()),
    ];
    let to = group(IPV6, &[1]);
    let key = Ipv6Addr::from(target).to_string();
    Sent {
        name: "neighbour solicitation".into(),
        key,
        to,
        kind: 0x86dd,
        payload,
        fields,
        tells: Some(from.address),
    }
}

/// An IPv4 packet around `body`.
fn ipv4(
    name: String,
    (from, ip, to): (&Station, [u8; 4], [u8; 20]),
    (id, protocol): (u16, u8),
    body: &[u8],
    more: Vec<(&'static str, String)>,
) -> Sent {
    let length = (20 + body.len() as u16).to_be_bytes();
    let key = id.to_be_bytes();
    let mut header = vec![0x45, 0, length[0], length[1], key[0], key[1], 0, 0, 1, protocol, 0, 0];
    header.extend([from.ip, ip].concat());
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum);
    let mut fields = vec![
        ("ip.src", dotted(from.ip)),
        ("ip.dst", dotted(ip)),
        ("ip.len", (20 + body.len()).to_string()),
        ("ip.proto", protocol.to_string()),
        ("ip.checksum.status", "1".to_owned()),
    ];
    fields.extend(more);
    Sent {
        name,
        key: format!("0x{id:04x}"),
        to,
        kind: 0x0800,
        payload: [&header, body].concat(),
        fields,
        tells: None,
    }
}

/// An echo's answer that nobody waits for.
fn icmp(from: &Station, to: &Station, id: u16, size: usize) -> Sent {
    let data = filling(size);
    let mut body = vec![0, 0, 0, 0, 0x12, 0x34, 0, 1];
    body.extend(&data);
    let sum = checksum(&[&body]);
    body[2..4].copy_from_slice(&sum);
    let fields = vec![
        ("icmp.type", "0".to_owned()),
        ("icmp.checksum.status", "1".to_owned()),
        ("data.data", hex(&data)),
    ];
    ipv4(format!("ICMP with {size} octets"), (from, to.ip, to.address), (id, 1), &body, fields)
}

fn pseudo(from: &Station, ip: [u8; 4], protocol: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u16).to_be_bytes();
    [&from.ip[..], &ip, &[0, protocol], &length].concat()
}

/// To a port that nobody has.
fn udp(from: &Station, ip: [u8; 4], to: [u8; 20], id: u16, size: usize) -> Sent {
    let data = filling(size);
    let length = (8 + size as u16).to_be_bytes();
    let mut body = vec![0x1b, 0x58, 0x9c, 0x41, length[0], length[1], 0, 0];
    body.extend(&data);
    let sum = checksum(&[&pseudo(from, ip, 17, &body), &body]);
    body[6..8].copy_from_slice(&sum);
    let fields = vec![
        ("udp.dstport", "40001".to_owned()),
        ("udp.length", (8 + size).to_string()),
        ("udp.checksum.status", "1".to_owned()),
        ("data.data", hex(&data)),
    ];
    ipv4(format!("UDP with {size} octets to {}", dotted(ip)), (from, ip, to), (id, 17), &body, fields)
}

/// Of a connection that does not exist.
fn tcp(from: &Station, to: &Station, id: u16, size: usize) -> Sent {
    let data = filling(size);
    let mut body = vec![0x1b, 0x58, 0x9c, 0x42, 0, 0, 0, id as u8, 0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0];
    body.extend(&data);
    let sum = checksum(&[&pseudo(from, to.ip, 6, &body), &body]);
    body[16..18].copy_from_slice(&sum);
    let fields = vec![
        ("tcp.dstport", "40002".to_owned()),
        ("tcp.len", size.to_string()),
        ("tcp.checksum.status", "1".to_owned()),
        ("tcp.payload", hex(&data)),
    ];
    ipv4(format!("TCP with {size} octets"), (from, to.ip, to.address), (id, 6), &body, fields)
}
