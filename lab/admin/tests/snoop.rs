//! What `snoop` shows of the packets of a first conversation: ARP, echo, neighbour discovery. A `·` stands for a blank at the end of
//! a line.

#![forbid(unsafe_code)]

mod scripted;

use scripted::{HCA, Scripted, link_address, run};

const PEER: u64 = 0x0002_c903_000a_1c11;
/// 15:04:05.12 of a day.
const SECONDS: u32 = 15 * 3600 + 4 * 60 + 5;
const MICROS: u32 = 120_000;

fn frame(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&ethertype.to_be_bytes()[..], &[0, 0], payload].concat()
}

fn arp(operation: u8) -> Vec<u8> {
    let (one, two) = (link_address(0x8000_0048, HCA + 1).0, link_address(0x8000_0049, PEER).0);
    let fixed = [0, 32, 8, 0, 20, 4, 0, operation];
    let (a, b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let rest = match operation {
        1 => [&one[..], &a, &[0; 20], &b].concat(),
        _ => [&two[..], &b, &one, &a].concat(),
    };
    frame(0x0806, &[&fixed[..], &rest].concat())
}

fn echo(kind: u8) -> Vec<u8> {
    let mut header = vec![0x45, 0, 0, 84, 0x12, 0x34, 0x40, 0, 255, 1, 0x55, 0x72];
    let ends = [[10, 0, 0, 1], [10, 0, 0, 2]];
    let (from, to) = if kind == 8 { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
    header.extend(from.iter().chain(&to));
    header.extend([kind, 0, 0x1b, 0x3a, 0x04, 0xd2, 0, 0]);
    header.resize(84, 0);
    frame(0x0800, &header)
}

/// A part of the echo's datagram, of so many bytes, at that offset.
fn fragment(offset: u16, more: bool, length: u16) -> Vec<u8> {
    let mut frame = echo(8);
    let packet = &mut frame[4..];
    packet[2..4].copy_from_slice(&(20 + length).to_be_bytes());
    let place = (offset / 8) | (u16::from(more) << 13);
    packet[6..8].copy_from_slice(&place.to_be_bytes());
    frame.truncate(24 + usize::from(length));
    frame
}

fn neighbour(kind: u8) -> Vec<u8> {
    let host = |last: [u8; 3]| {
        let mut ip = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x02, 0x02, 0xc9, 0x03, 0, 0, 0, 0];
        ip[13..].copy_from_slice(&last);
        ip
    };
    let (one, two) = (host([0x0a, 0x1b, 0x2d]), host([0x0a, 0x1c, 0x11]));
    let mut group = [0; 16];
    group[..2].copy_from_slice(&[0xff, 0x02]);
    group[11..].copy_from_slice(&[1, 0xff, 0x0a, 0x1c, 0x11]);
    let mut packet = vec![0x60, 0, 0, 0, 0, 48, 58, 255];
    let (from, to, flags, option, link) = match kind {
        135 => (one, group, 0, 1, link_address(0x8000_0048, HCA + 1)),
        _ => (two, one, 0x60, 2, link_address(0x8000_0049, PEER)),
    };
    packet.extend(from.iter().chain(&to));
    packet.extend([kind, 0, 0x30, 0x0c, flags, 0, 0, 0]);
    packet.extend(two);
    packet.extend([option, 3]);
    packet.extend(link.0);
    packet.extend([0, 0]);
    frame(0x86dd, &packet)
}

fn capture(frames: &[Vec<u8>]) -> Scripted {
    let mut bytes = b"snoop\0\0\0\0\0\0\x02\0\0\0\x1a".to_vec();
    for frame in frames {
        let size = frame.len() as u32;
        let padding = frame.len().next_multiple_of(4) - frame.len();
        for word in [size, size, 24 + size + padding as u32, 0, SECONDS, MICROS] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(frame);
        bytes.resize(bytes.len() + padding, 0);
    }
    let system = Scripted::new();
    system.captures.borrow_mut().insert("file".into(), bytes);
    system
}

fn conversation() -> Scripted {
    capture(&[arp(1), arp(2), echo(8), echo(0), neighbour(135), neighbour(136)])
}

fn shows(system: &Scripted, line: &str) -> String {
    let (out, err, exit) = run(system, line);
    assert_eq!((err.as_str(), exit), ("", 0), "{line}");
    out
}

/// The lines without number and time.
fn bare(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.get(14..).unwrap_or(line))).collect()
}

#[test]
fn a_line_for_each_packet_is_that_of_its_last_layer() {
    let system = conversation();
    let text = shows(&system, "snoop -i file -r");
    let first = "  1   0.00000     10.0.0.1 -> *            ARP C Who is 10.0.0.2, 10.0.0.2 ?\n";
    assert!(text.starts_with(first), "{text}");
    let expected = "
    10.0.0.1 -> *            ARP C Who is 10.0.0.2, 10.0.0.2 ?
    10.0.0.2 -> 10.0.0.1     ARP R 10.0.0.2, 10.0.0.2 is 80:0:0:49:fe:80:0:0:0:0:0:0:0:2:c9:3:0:a:1c:11
    10.0.0.1 -> 10.0.0.2     ICMP Echo request (ID: 1234 Sequence number: 0)
    10.0.0.2 -> 10.0.0.1     ICMP Echo reply (ID: 1234 Sequence number: 0)
fe80::202:c903:a:1b2d -> ff02::1:ff0a:1c11 ICMPv6 Neighbor solicitation
fe80::202:c903:a:1c11 -> fe80::202:c903:a:1b2d ICMPv6 Neighbor advertisement
";
    assert_eq!(bare(&text), expected[1..]);
    let named = shows(&system, "snoop -i file -c 1");
    assert!(named.ends_with("10.0.0.1 -> *            ARP C Who is 10.0.0.2, bob ?\n"), "{named}");
}

#[test]
fn all_summary_lines_stand_under_a_rule() {
    let text = shows(&capture(&[echo(8)]), "snoop -i file -r -V");
    let expected = "\
________________________________
    10.0.0.1 -> 10.0.0.2     IPIB Type=0800 (IP), size = 88 bytes
    10.0.0.1 -> 10.0.0.2     IP  D=10.0.0.2 S=10.0.0.1 LEN=84, ID=4660, TOS=0x0, TTL=255
    10.0.0.1 -> 10.0.0.2     ICMP Echo request (ID: 1234 Sequence number: 0)
";
    let (rule, rest) = text.split_at(33);
    assert_eq!(format!("{rule}{}", bare(rest)), expected);
    let text = shows(&capture(&[arp(1), neighbour(135)]), "snoop -i file -r -V");
    let lines = bare(&text);
    for line in [
        "    10.0.0.1 -> *            IPIB Type=0806 (ARP), size = 60 bytes\n",
        "fe80::202:c903:a:1b2d -> ff02::1:ff0a:1c11 IPIB Type=86DD (IPv6), size = 92 bytes\n",
        "fe80::202:c903:a:1b2d -> ff02::1:ff0a:1c11 IPv6  S=fe80::202:c903:a:1b2d D=ff02::1:ff0a:1c11 LEN=48 HOPS=255 CLASS=0x0 FLOW=0x0\n",
    ] {
        assert!(lines.contains(line), "{line} in\n{lines}");
    }
}

#[test]
fn a_page_shows_the_question_of_arp() {
    let expected = "\
IPIB:  ----- IPIB Header -----
IPIB: ·
IPIB:  Packet 1 arrived at 15:04:5.12
IPIB:  Packet size = 60 bytes
IPIB:  Ethertype = 0806 (ARP)
IPIB: ·
ARP:  ----- ARP/RARP Frame -----
ARP: ·
ARP:  Hardware type = 32 (IPIB)
ARP:  Protocol type = 0800 (IP)
ARP:  Length of hardware address = 20 bytes
ARP:  Length of protocol address = 4 bytes
ARP:  Opcode 1 (ARP Request)
ARP:  Sender's hardware address = 80:0:0:48:fe:80:0:0:0:0:0:0:0:2:c9:3:0:a:1b:2d
ARP:  Sender's protocol address = 10.0.0.1, 10.0.0.1
ARP:  Target hardware address = ?
ARP:  Target protocol address = 10.0.0.2, 10.0.0.2
ARP: ·

";
    assert_eq!(shows(&capture(&[arp(1)]), "snoop -i file -r -v"), expected.replace('·', " "));
}

#[test]
fn a_page_shows_an_echo() {
    let expected = "\
IP:   ----- IP Header -----
IP:  ·
IP:   Version = 4
IP:   Header length = 20 bytes
IP:   Type of service = 0x00
IP:         xxx. .... = 0 (precedence)
IP:         ...0 .... = normal delay
IP:         .... 0... = normal throughput
IP:         .... .0.. = normal reliability
IP:         .... ..0. = not ECN capable transport
IP:         .... ...0 = no ECN congestion experienced
IP:   Total length = 84 bytes
IP:   Identification = 4660
IP:   Flags = 0x4
IP:         .1.. .... = do not fragment
IP:         ..0. .... = last fragment
IP:   Fragment offset = 0 bytes
IP:   Time to live = 255 seconds/hops
IP:   Protocol = 1 (ICMP)
IP:   Header checksum = 5572
IP:   Source address = 10.0.0.1, 10.0.0.1
IP:   Destination address = 10.0.0.2, 10.0.0.2
IP:   No options
IP:  ·
ICMP:  ----- ICMP Header -----
ICMP: ·
ICMP:  Type = 8 (Echo request)
ICMP:  Code = 0 (ID: 1234 Sequence number: 0)
ICMP:  Checksum = 1b3a
ICMP: ·

";
    let text = shows(&capture(&[echo(8)]), "snoop -i file -r -v");
    let (link, rest) = text.split_at(text.find("IP:   -----").expect("the network layer"));
    assert_eq!(rest, expected.replace('·', " "));
    assert!(link.contains("IPIB:  Packet size = 88 bytes\nIPIB:  Ethertype = 0800 (IP)\n"), "{link}");
}

#[test]
fn a_page_shows_neighbour_discovery_with_the_padding_of_the_option() {
    let expected = "\
IPv6:   ----- IPv6 Header -----
IPv6:  ·
IPv6:   Version = 6
IPv6:   Traffic Class = 0
IPv6:   Flow label = 0x0
IPv6:   Payload length = 48
IPv6:   Next Header = 58 (ICMPv6)
IPv6:   Hop Limit = 255
IPv6:   Source address = fe80::202:c903:a:1b2d
IPv6:   Destination address = ff02::1:ff0a:1c11
IPv6:  ·
ICMPv6:  ----- ICMPv6 Header -----
ICMPv6: ·
ICMPv6:  Type = 135 (Neighbor solicitation)
ICMPv6:  Code = 0
ICMPv6:  Checksum = 300c
ICMPv6:  Target node = fe80::202:c903:a:1c11, fe80::202:c903:a:1c11
ICMPv6: ·
ICMPv6:  +++ ICMPv6 Source LL Addr option +++
ICMPv6:  Link Layer address: 80:0:0:48:fe:80:0:0:0:0:0:0:0:2:c9:3:0:a:1b:2d:0:0
ICMPv6: ·

";
    let text = shows(&capture(&[neighbour(135)]), "snoop -i file -r -v");
    let at = text.find("IPv6:   -----").expect("the network layer");
    assert_eq!(&text[at..], expected.replace('·', " "));
    let text = shows(&capture(&[neighbour(136)]), "snoop -i file -r -v");
    assert!(text.contains("ICMPv6:  Type = 136 (Neighbor advertisement)\n"));
    assert!(text.contains("ICMPv6:  Router flag: NOT SET, Solicited flag: SET, Override flag: SET\n"));
    assert!(text.contains("ICMPv6:  +++ ICMPv6 Target LL Addr option +++\n"));
}

#[test]
fn a_fragment_is_shown_as_one_and_a_filter_for_its_protocol_takes_it() {
    let system = capture(&[fragment(0, true, 24), fragment(24, true, 24), fragment(48, false, 16), echo(0)]);
    let expected = "
    10.0.0.1 -> 10.0.0.2     ICMP IP fragment ID=4660 Offset=0    MF=1 TOS=0x0 TTL=255
    10.0.0.1 -> 10.0.0.2     ICMP IP fragment ID=4660 Offset=24   MF=1 TOS=0x0 TTL=255
    10.0.0.1 -> 10.0.0.2     ICMP IP fragment ID=4660 Offset=48   MF=0 TOS=0x0 TTL=255
    10.0.0.2 -> 10.0.0.1     ICMP Echo reply (ID: 1234 Sequence number: 0)
";
    assert_eq!(bare(&shows(&system, "snoop -i file -r icmp")), expected[1..]);
    assert_eq!(shows(&system, "snoop -i file -r tcp or udp or icmp6"), "");
    let lines = bare(&shows(&system, "snoop -i file -r -V -c 1"));
    let expected = "
    10.0.0.1 -> 10.0.0.2     IPIB Type=0800 (IP), size = 48 bytes
    10.0.0.1 -> 10.0.0.2     ICMP IP fragment ID=4660 Offset=0    MF=1 TOS=0x0 TTL=255
";
    assert!(lines.ends_with(expected), "{lines}");
    // The first has the header of the layer above, the others say whose they are.
    let pages = shows(&system, "snoop -i file -r -v");
    assert_eq!(pages.matches("ICMP:  Type = 8 (Echo request)\n").count(), 1, "{pages}");
    for line in [
        "IP:         ..1. .... = more fragments\n",
        "IP:   Fragment offset = 24 bytes\n",
        "\nICMP:  [24 byte(s) of data, continuation of IP ident=4660]\n",
        "\nICMP:  [16 byte(s) of data, continuation of IP ident=4660]\n",
    ] {
        assert!(pages.contains(line), "{line} in\n{pages}");
    }
}

#[test]
fn filters_take_what_they_name() {
    let system = conversation();
    let count = |filter: &str| shows(&system, &format!("snoop -i file -r {filter}")).lines().count();
    for (filter, expected) in [
        ("arp", 2),
        ("ip", 2),
        ("ip6", 2),
        ("icmp or icmp6", 4),
        ("host 10.0.0.1", 4),
        ("from 10.0.0.1", 2),
        ("bob and not arp", 2),
        ("not ( arp or ip6 )", 2),
        ("port 80", 0),
    ] {
        assert_eq!(count(filter), expected, "{filter}");
    }
    for (filter, words) in [
        ("broadcast", "snoop: filter option unsupported on media\n"),
        ("multicast or arp", "snoop: filter option unsupported on media\n"),
        ("host carol", "snoop: could not resolve \"carol\"\n"),
        ("port x", "snoop: invalid port: \"x\"\n"),
        ("net 10.0.0.0", "snoop: filter option unsupported in the lab: \"net\"\n"),
        ("arp or greater 100", "snoop: filter option unsupported in the lab: \"greater\"\n"),
        ("( arp", "snoop: syntax error: `)' expected\n"),
    ] {
        let (_, err, exit) = run(&system, &format!("snoop -i file {filter}"));
        assert_eq!((err.as_str(), exit), (words, 1), "{filter}");
    }
}

#[test]
fn a_filter_without_end_is_refused_and_the_longest_one_is_taken() {
    let system = conversation();
    // The capture has ARP, so every term is looked at.
    let filter = |terms: usize| format!("snoop -i file {}", vec!["ip6"; terms].join(" or "));
    assert_eq!(run(&system, &filter(512)).2, 0);
    let (_, err, exit) = run(&system, &filter(100_000));
    assert_eq!((err.as_str(), exit), ("snoop: expression too long\n", 1));
}

#[test]
fn a_damaged_file_or_frame_is_told_and_nothing_more() {
    let system = conversation();
    let whole = system.captures.borrow()["file"].clone();
    for cut in 0..whole.len() {
        // Inside the file's header it is no capture; behind it the records that are whole count.
        system.captures.borrow_mut().insert("file".into(), whole[..cut].to_vec());
        let (_, err, exit) = run(&system, "snoop -i file -v");
        assert_eq!(exit == 0, err.is_empty(), "{cut}: {err}");
    }
    for bad in [b"pcap\0\0\0\0\0\0\0\x02\0\0\0\x1a".to_vec(), b"snoop\0\0\0\0\0\0\x02\0\0\0\x04".to_vec()] {
        system.captures.borrow_mut().insert("file".into(), bad);
        assert_eq!(run(&system, "snoop -i file").2, 1);
    }
    for frame in [arp(1), echo(8), fragment(8, true, 24), neighbour(136)] {
        for cut in 0..frame.len() {
            for style in ["", " -v", " -V", " -x 0"] {
                let (_, err, exit) =
                    run(&capture(&[frame[..cut].to_vec()]), &format!("snoop -i file{style}"));
                assert_eq!((err.as_str(), exit), ("", 0), "{cut}{style}");
            }
        }
    }
}
