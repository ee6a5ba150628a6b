use super::*;
use crate::addr::{Gid, Mgid, Qpn};
use crate::numbers::{PKey, Scope};
use proptest::prelude::*;
use std::vec::Vec;

fn link(n: u8) -> LinkAddr {
    LinkAddr::unicast(Qpn::new(0x48).unwrap(), Gid { prefix: 0xfe80 << 48, guid: u64::from(n) + 1 })
}

fn v4(n: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, n))
}

fn v6(n: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n))
}

const FLAGS: usize = 44;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

fn is_at(ip: IpAddr, link: LinkAddr) -> News {
    News::At(Neighbour { ip, link })
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn table(places: usize) -> Neighbours<Vec<NeighbourSlot>> {
    Neighbours::new((0..places).map(|_| NeighbourSlot::default()).collect(), 5)
}

fn arp_frame(operation: u8, pairs: [(LinkAddr, IpAddr); 2]) -> Vec<u8> {
    let mut bytes = std::vec![0, 32, 8, 0, 20, 4, 0, operation];
    for (link, ip) in pairs {
        bytes.extend_from_slice(link.as_bytes());
        let IpAddr::V4(ip) = ip else { panic!("ARP is for IPv4") };
        bytes.extend_from_slice(&ip.octets());
    }
    bytes
}

/// A solicitation (135) or advertisement (136) with a link-layer option, or none. An advertisement overrides.
fn nd_frame(kind: u8, source: IpAddr, to: IpAddr, target: IpAddr, option: Option<LinkAddr>) -> Vec<u8> {
    let octets = |ip| if let IpAddr::V6(ip) = ip { ip.octets() } else { panic!("ND is for IPv6") };
    let mut bytes = std::vec![0x60, 0, 0, 0, 0, 0, 58, 255];
    bytes.extend_from_slice(&octets(source));
    bytes.extend_from_slice(&octets(to));
    let flags = if kind == 136 { OVERRIDE } else { 0 };
    bytes.extend_from_slice(&[kind, 0, 0, 0, flags, 0, 0, 0]);
    bytes.extend_from_slice(&octets(target));
    if let Some(link) = option {
        bytes.extend_from_slice(&[if kind == 135 { 1 } else { 2 }, 3]);
        bytes.extend_from_slice(link.as_bytes());
        bytes.extend_from_slice(&[0, 0]);
    }
    let payload = u16::try_from(bytes.len() - 40).unwrap();
    bytes[4..6].copy_from_slice(&payload.to_be_bytes());
    bytes
}

#[test]
fn arp_tells_of_the_sender_on_its_way_in_and_of_the_target_on_its_way_out() {
    let request = arp_frame(1, [(link(1), v4(1)), (LinkAddr::default(), v4(2))]);
    let reply = arp_frame(2, [(link(2), v4(2)), (link(1), v4(1))]);
    let told = |frame: &[u8], direction| read(EtherType::ARP, frame, direction);
    let everyone = LinkAddr::multicast(Mgid::broadcast(Scope::LinkLocal, PKey::new(0xffff).unwrap()));
    assert_eq!(told(&request, Direction::In), Some(is_at(v4(1), link(1))));
    assert_eq!(told(&request, Direction::Out(everyone)), None);
    assert_eq!(told(&reply, Direction::In), Some(is_at(v4(2), link(2))));
    assert_eq!(told(&reply, Direction::Out(link(1))), Some(is_at(v4(1), link(1))));
}

#[test]
fn a_probe_for_an_address_nobody_has_yet_teaches_nothing() {
    let nobody = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let probe = arp_frame(1, [(link(1), nobody), (LinkAddr::default(), v4(2))]);
    assert_eq!(read(EtherType::ARP, &probe, Direction::In), None);
    let no_port = arp_frame(2, [(LinkAddr::default(), v4(1)), (link(2), v4(2))]);
    assert_eq!(read(EtherType::ARP, &no_port, Direction::In), None);
}

#[test]
fn discovery_tells_of_who_solicits_and_of_who_is_advertised() {
    let solicitation = nd_frame(135, v6(1), v6(2), v6(2), Some(link(1)));
    let advertisement = nd_frame(136, v6(2), v6(1), v6(2), Some(link(2)));
    let told = |frame: &[u8], direction| read(EtherType::IPV6, frame, direction);
    assert_eq!(told(&solicitation, Direction::In), Some(is_at(v6(1), link(1))));
    assert_eq!(told(&solicitation, Direction::Out(link(2))), Some(is_at(v6(2), link(2))));
    assert_eq!(told(&advertisement, Direction::In), Some(is_at(v6(2), link(2))));
    assert_eq!(told(&advertisement, Direction::Out(link(1))), Some(is_at(v6(1), link(1))));
    assert_eq!(told(&nd_frame(135, v6(1), v6(2), v6(2), None), Direction::In), None);
}

#[test]
fn discovery_that_crossed_a_router_is_not_believed() {
    let mut frame = nd_frame(136, v6(2), v6(1), v6(2), Some(link(2)));
    frame[7] = 254;
    assert_eq!(read(EtherType::IPV6, &frame, Direction::In), None);
    frame[7] = 255;
    frame[41] = 1;
    assert_eq!(read(EtherType::IPV6, &frame, Direction::In), None, "a code that is not 0");
}

#[test]
fn a_group_is_nobodys_neighbour() {
    let all = IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1));
    let unsolicited = nd_frame(136, v6(2), all, v6(2), Some(link(2)));
    assert_eq!(read(EtherType::IPV6, &unsolicited, Direction::Out(link(9))), None);
    let flagged = {
        let mut bytes = *link(2).as_bytes();
        bytes[0] = 0x80;
        LinkAddr::from_bytes(bytes)
    };
    let heard = nd_frame(136, v6(2), all, v6(2), Some(flagged));
    assert_eq!(read(EtherType::IPV6, &heard, Direction::In), Some(is_at(v6(2), link(2))));
}

#[test]
fn a_neighbour_that_moves_is_found_where_it_is_and_one_that_is_silent_is_forgotten() {
    let mut known = table(4);
    known.learn(at(0), is_at(v4(1), link(1)));
    known.learn(at(600), is_at(v4(2), link(2)));
    known.learn(at(700), is_at(v4(1), link(9)));
    assert_eq!(known.get(at(700), &v4(1)), Some(link(9)));
    assert_eq!(known.poll_timeout(), Some(at(1800)));
    assert_eq!(known.get(at(1800), &v4(2)), None, "before the timeout has been handled");
    known.handle_timeout(at(1800));
    assert_eq!((known.len(), known.get(at(1800), &v4(1))), (1, Some(link(9))));
    known.clear();
    assert!(known.is_empty() && known.poll_timeout().is_none());
}

#[test]
fn a_full_table_gives_up_the_neighbour_confirmed_longest_ago() {
    let mut known = table(2);
    known.learn(at(0), is_at(v4(1), link(1)));
    known.learn(at(1), is_at(v6(2), link(2)));
    known.learn(at(2), is_at(v4(1), link(1)));
    known.learn(at(3), is_at(v4(3), link(3)));
    let all = [v4(1), v6(2), v4(3)].map(|ip| known.get(at(3), &ip));
    assert_eq!(all, [Some(link(1)), None, Some(link(3))]);
}

/// RFC 4861 section 7.2.5. Before, ibdpath showed the way to an anycast or proxy answer that IP did not take.
#[test]
fn an_advertisement_without_override_replaces_no_known_place() {
    for solicited in [0, SOLICITED] {
        let mut advertisement = nd_frame(136, v6(2), v6(1), v6(2), Some(link(9)));
        advertisement[FLAGS] = solicited;
        let news = read(EtherType::IPV6, &advertisement, Direction::In).unwrap();
        let mut known = table(4);
        known.learn(at(0), news);
        assert_eq!(known.get(at(0), &v6(2)), Some(link(9)), "nothing else was known");
        known.learn(at(1), is_at(v6(2), link(2)));
        known.learn(at(2), news);
        assert_eq!(known.get(at(2), &v6(2)), Some(link(2)));
        assert_eq!(known.poll_timeout(), Some(at(1201)), "and confirms none");
    }
}

/// IP asks a group once it has forgotten a neighbour, and then takes an answer without the override flag.
#[test]
fn an_address_that_ip_asks_for_is_wherever_the_answer_says() {
    let group = LinkAddr::multicast(Mgid::broadcast(Scope::LinkLocal, PKey::new(0xffff).unwrap()));
    let question = nd_frame(135, v6(1), v6(2), v6(2), Some(link(1)));
    let mut answer = nd_frame(136, v6(2), v6(1), v6(2), Some(link(9)));
    answer[FLAGS] = SOLICITED;
    let mut known = table(4);
    known.learn(at(0), is_at(v6(2), link(2)));
    for (frame, direction) in [(question, Direction::Out(group)), (answer, Direction::In)] {
        known.learn(at(1), read(EtherType::IPV6, &frame, direction).unwrap());
    }
    assert_eq!(known.get(at(1), &v6(2)), Some(link(9)));
}

/// RFC 4861 sections 7.1.1 and 7.1.2.
#[test]
fn what_ip_discards_teaches_nothing() {
    let all = IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1));
    let mapped = IpAddr::V6(Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped());
    let mut frames = std::vec![
        nd_frame(136, v6(2), v6(1), all, Some(link(2))),
        nd_frame(136, v6(2), v6(1), mapped, Some(link(2))),
        nd_frame(135, v6(2), v6(1), all, Some(link(2))),
    ];
    let mut to_all = nd_frame(136, v6(2), all, v6(2), Some(link(2)));
    to_all[FLAGS] |= SOLICITED;
    frames.push(to_all);
    for (length, trailing) in [(3, &[2, 0, 0, 0, 0, 0, 0, 0][..]), (3, &[2, 2, 0, 0]), (3, &[1]), (4, &[])] {
        let mut frame = nd_frame(136, v6(2), v6(1), v6(2), Some(link(2)));
        frame[65] = length;
        frame.extend_from_slice(trailing);
        frame[5] = (frame.len() - 40) as u8;
        frames.push(frame);
    }
    for frame in frames {
        assert_eq!(read(EtherType::IPV6, &frame, Direction::In), None, "{frame:x?}");
    }
}

/// IP takes all of these but the short ones. They passed, and what they say was not looked at.
#[test]
fn arp_in_another_form_is_refused() {
    let group = LinkAddr::multicast(Mgid::broadcast(Scope::LinkLocal, PKey::new(0xffff).unwrap()));
    let frame = |sender, operation| arp_frame(operation, [(sender, v4(9)), (LinkAddr::default(), v4(1))]);
    for operation in [0, 1, 2, 3, 9] {
        assert_eq!(refuse(EtherType::ARP, &mut frame(link(2), operation)), None);
        assert_eq!(refuse(EtherType::ARP, &mut frame(group, operation)), Some(Refusal::Group));
        for (offset, value) in
            [(0, 1), (1, 1), (1, 6), (2, 0), (3, 6), (4, 0), (4, 6), (4, 21), (5, 0), (5, 16)]
        {
            let mut odd = frame(group, operation);
            odd[offset] = value;
            assert_eq!(refuse(EtherType::ARP, &mut odd), Some(Refusal::Form), "byte {offset} = {value}");
        }
        for len in 0..56 {
            let short = &mut frame(group, operation)[..len];
            assert_eq!(refuse(EtherType::ARP, short), Some(Refusal::Form), "{len} bytes");
        }
    }
}

proptest! {
    #[test]
    fn whatever_a_frame_says_a_neighbour_is_one_host(bytes in prop::collection::vec(any::<u8>(), 0..200), which in 0usize..4) {
        let (mut bytes, ethertype) = match which {
            0 => (bytes, EtherType::ARP),
            1 => (bytes, EtherType::IPV6),
            2 => { let mut f = arp_frame(2, [(link(2), v4(2)), (link(1), v4(1))]); f.splice(8.., bytes); (f, EtherType::ARP) }
            _ => { let mut f = nd_frame(136, v6(2), v6(1), v6(2), Some(link(2))); f.splice(40.., bytes); (f, EtherType::IPV6) }
        };
        bytes.truncate(PREFIX_LEN);
        for direction in [Direction::In, Direction::Out(link(7))] {
            if let Some(News::At(found) | News::AtUnlessKnown(found)) = read(ethertype, &bytes, direction) {
                prop_assert!(!found.ip.is_multicast() && !found.ip.is_unspecified() && found.link.is_port());
            }
        }
    }
}
