//! What a host believes and what not: each clause of an RFC, as illumos has it.

use std::net::IpAddr;
use std::time::Duration;

use smoltcp::wire::{IpCidr, Ipv4Packet, Ipv6Address};

use super::{BROADCAST, LinkAddr, Stack, ip, link, newcomer, stack};
use crate::arp::{Arp, Operation};
use crate::dad::Standing;
use crate::layer::{Frame, SAP_ARP, SAP_IPV4, SAP_IPV6};
use crate::nd::{self, Kind, Nd};
use crate::neighbours::Flags;
use crate::routers::tests::{advertisement as advertisement_of, redirect};

const ELSEWHERE: LinkAddr = LinkAddr([0x77; 20]);
const PEER: LinkAddr = LinkAddr([1; 20]);

fn v4(text: &str) -> std::net::Ipv4Addr {
    text.parse().expect("an address")
}

fn v6(text: &str) -> Ipv6Address {
    text.parse().expect("an address")
}

/// What a stack sends after a frame has come up, and what becomes due then.
fn hears(stack: &mut Stack, now: u64, sap: u16, payload: Vec<u8>) -> Vec<Frame> {
    let now = Duration::from_secs(now);
    stack.receive(now, sap, payload);
    stack.poll(now);
    std::iter::from_fn(|| stack.transmit()).collect()
}

fn discovers(stack: &mut Stack, now: u64, nd: &Nd) -> Vec<Nd> {
    let frames = hears(stack, now, SAP_IPV6, nd.emit());
    frames.iter().filter_map(|frame| Nd::parse(&frame.payload)).collect()
}

fn solicitation(source: &str, destination: &str, link: Option<LinkAddr>) -> Nd {
    let (source, destination, target) = (v6(source), v6(destination), v6("fd00::2"));
    Nd { kind: Kind::Solicit, source, destination, target, link }
}

fn advertisement(target: &str, flags: Flags, destination: &str, link: Option<LinkAddr>) -> Nd {
    let target = v6(target);
    Nd { kind: Kind::Advert(flags), source: target, destination: v6(destination), target, link }
}

const SOLICITED: Flags = Flags { router: false, solicited: true, overrides: false };
const OVERRIDES: Flags = Flags { router: false, solicited: false, overrides: true };

/// bob, who knows fd00::1.
fn acquainted() -> Stack {
    let mut bob = stack(2);
    let question = solicitation("fd00::1", "ff02::1:ff00:2", Some(PEER));
    assert_eq!(discovers(&mut bob, 0, &question).len(), 1);
    bob
}

fn place(stack: &Stack, of: &str) -> Option<LinkAddr> {
    stack.link().neighbours().get(&ip(of))
}

/// RFC 4861 sections 7.2.5 and 7.1.2. Before, each of the three changed the place.
#[test]
fn an_advertisement_without_override_leaves_a_neighbour_where_it_is() {
    let mut bob = acquainted();
    let all = Flags { solicited: true, ..OVERRIDES };
    for (flags, to) in [(Flags::default(), "fd00::2"), (SOLICITED, "fd00::2"), (all, "ff02::1")] {
        discovers(&mut bob, 1, &advertisement("fd00::1", flags, to, Some(ELSEWHERE)));
        assert_eq!(place(&bob, "fd00::1"), Some(PEER), "{flags:?} to {to}");
    }
    discovers(&mut bob, 1, &advertisement("fd00::1", OVERRIDES, "ff02::1", Some(ELSEWHERE)));
    assert_eq!(place(&bob, "fd00::1"), Some(ELSEWHERE));
}

/// RFC 4861 sections 4.3, 7.2.4. Before, the first of these got no answer.
#[test]
fn a_host_that_asks_us_without_its_address_is_answered() {
    let mut bob = acquainted();
    let question = solicitation("fd00::1", "fd00::2", None);
    let [answer] = discovers(&mut bob, 1, &question)[..] else { panic!("one answer") };
    let flags = Flags { solicited: true, ..OVERRIDES };
    assert_eq!((answer.kind, answer.destination), (Kind::Advert(flags), v6("fd00::1")));
    let stranger = solicitation("fd00::9", "fd00::2", None);
    let [asked] = discovers(&mut bob, 1, &stranger)[..] else { panic!("one question") };
    assert_eq!((asked.kind, asked.target), (Kind::Solicit, v6("fd00::9")), "whose place is not known");
    let found = advertisement("fd00::9", flags, "fd00::2", Some(ELSEWHERE));
    assert_eq!(discovers(&mut bob, 2, &found).len(), 1, "the answer has waited");
}

/// RFC 4861 section 7.1.1, and illumos wants the address of who asks a group. Before, both probes were answered to all.
#[test]
fn a_solicitation_that_makes_no_sense_is_not_answered() {
    let mut bob = stack(2);
    let group = "ff02::1:ff00:2";
    for bad in [
        solicitation("::", group, Some(PEER)),
        solicitation("::", "ff02::1", None),
        solicitation("::", "fd00::2", None),
        solicitation("fd00::1", group, None),
        solicitation("fd00::1", "fd00::7", Some(PEER)),
        Nd { target: v6("ff02::1"), ..solicitation("fd00::1", group, Some(PEER)) },
    ] {
        assert_eq!(discovers(&mut bob, 0, &bad), [], "{bad:?}");
    }
    let [told] = discovers(&mut bob, 0, &solicitation("::", group, None))[..] else { panic!("one answer") };
    assert_eq!((told.kind, told.destination), (Kind::Advert(OVERRIDES), nd::ALL_NODES));
}

fn claim_by_arp(address: &str, place: LinkAddr) -> Vec<u8> {
    Arp::request((v4(address), place), v4(address)).emit().to_vec()
}

fn notices(stack: &mut Stack) -> Vec<String> {
    std::iter::from_fn(|| stack.link_mut().notice()).map(|notice| notice.text("l0")).collect()
}

/// RFC 5227 section 2.4 and RFC 4862 section 5.4.4 (`ip_nce_conflict`). Before, no frame and no line came of it.
#[test]
fn a_claim_for_an_address_in_use_is_met_by_an_announcement() {
    let mut bob = stack(2);
    let frames = hears(&mut bob, 0, SAP_ARP, claim_by_arp("10.0.0.2", ELSEWHERE));
    let announced = Arp::request((v4("10.0.0.2"), LinkAddr([2; 20])), v4("10.0.0.2"));
    assert_eq!(frames.len(), 1);
    assert_eq!((frames[0].dst, Arp::parse(&frames[0].payload)), (BROADCAST, Some(announced)));
    let claim = advertisement("fd00::2", OVERRIDES, "ff02::1", Some(ELSEWHERE));
    let announced = Nd::announce((v6("fd00::2"), LinkAddr([2; 20])), false);
    assert_eq!(discovers(&mut bob, 0, &claim), [announced]);
    let digits = ["77"; 20].join(":");
    let said = [
        format!("proxy ARP problem?  Node '{digits}' is using 10.0.0.2 on l0"),
        format!("node 'fd00::2' is using {digits} on l0"),
    ];
    assert_eq!(notices(&mut bob), said);
}

/// illumos's `_max_defend`, `_defend_interval` and `_dup_recovery`.
#[test]
fn an_address_that_another_host_insists_on_is_given_up_for_five_minutes() {
    let mut bob = stack(2);
    bob.link_mut().set_up(true);
    bob.poll(Duration::ZERO);
    let mut defends = |now| {
        let frames = hears(&mut bob, now, SAP_ARP, claim_by_arp("10.0.0.2", ELSEWHERE));
        frames.iter().filter(|frame| frame.sap == SAP_ARP).count()
    };
    defends(0);
    assert_eq!([1, 2, 3].map(&mut defends), [1, 1, 0]);
    assert_eq!(bob.link().standing(ip("10.0.0.2")), Standing::Duplicate);
    assert_eq!(bob.link().addresses().len(), 1);
    let said = notices(&mut bob);
    let digits = ["77"; 20].join(":");
    assert_eq!(said.len(), 4);
    assert_eq!(said[3], format!("l0 has duplicate address 10.0.0.2 (in use by {digits}); disabled"));
    let question = Arp::request((v4("10.0.0.1"), PEER), v4("10.0.0.2"));
    let answers = hears(&mut bob, 5, SAP_ARP, question.emit().to_vec());
    assert!(answers.iter().all(|frame| frame.sap != SAP_ARP), "the address is nobody's here");
    bob.poll(Duration::from_secs(303));
    assert_eq!(bob.link().standing(ip("10.0.0.2")), Standing::Good);
    assert_eq!(notices(&mut bob), ["recovered address 10.0.0.2 on l0"]);
}

#[test]
fn what_comes_from_the_host_itself_is_no_claim() {
    let mut bob = stack(2);
    let own = LinkAddr([2; 20]);
    bob.link_mut().set_siblings([PEER].into());
    for place in [own, PEER] {
        assert!(hears(&mut bob, 0, SAP_ARP, claim_by_arp("10.0.0.2", place)).is_empty());
        let claim = advertisement("fd00::2", OVERRIDES, "ff02::1", Some(place));
        assert_eq!(discovers(&mut bob, 0, &claim), []);
    }
    assert_eq!(notices(&mut bob), [""; 0]);
}

/// `arp_process_packet`: an answer for a tentative address is a claim, whoever sends it; one to a question of before is none.
#[test]
fn a_proxy_that_answers_for_a_tentative_address_has_it() {
    for (to, standing) in [(PEER, Standing::Duplicate), (LinkAddr([2; 20]), Standing::Tentative)] {
        let mut bob = newcomer(2, &["10.0.0.2/24"]);
        bob.poll(Duration::ZERO);
        let sender = (v4("10.0.0.7"), ELSEWHERE);
        let answer = Arp { operation: Operation::Reply, sender, target: (v4("10.0.0.2"), to) };
        hears(&mut bob, 0, SAP_ARP, answer.emit().to_vec());
        assert_eq!(bob.link().standing(ip("10.0.0.2")), standing);
    }
}

fn rows(stack: &Stack) -> Vec<(IpAddr, LinkAddr)> {
    stack.link().neighbours().iter().map(|(ip, place)| (*ip, place)).collect()
}

/// A broadcast address, a group and loopback are no host's (RFC 1122 section 3.2.1.3, `arp_process_packet`). Before, each had a row.
#[test]
fn who_asks_by_arp_from_no_hosts_address_is_not_remembered() {
    let mut bob = stack(2);
    for sender in ["10.0.0.255", "255.255.255.255", "224.0.0.9", "127.0.0.1", "0.0.0.0"] {
        let question = Arp::request((v4(sender), ELSEWHERE), v4("10.0.0.2"));
        hears(&mut bob, 0, SAP_ARP, question.emit().to_vec());
    }
    assert_eq!(rows(&bob), []);
}

/// RFC 1812 section 3.3.2 has a router disbelieve it. illumos looks at no sender's link address, and so sends to the group or to nowhere.
#[test]
fn a_sender_by_arp_that_is_at_no_port_is_believed_as_illumos_does() {
    let mut bob = stack(2);
    for place in [BROADCAST, LinkAddr::ZERO] {
        let question = Arp::request((v4("10.0.0.1"), place), v4("10.0.0.2"));
        hears(&mut bob, 0, SAP_ARP, question.emit().to_vec());
        assert_eq!(rows(&bob), [(ip("10.0.0.1"), place)]);
    }
}

/// An echo request of alice's, who learns where bob is.
fn echo(to: &str) -> Vec<u8> {
    let (mut alice, bob) = (stack(1), LinkAddr([2; 20]));
    let from = if to.contains(':') { "fd00::1" } else { "10.0.0.1" };
    let mut ping = super::Ping::new(ip(from), ip(to), 1, vec![8]);
    super::run(&mut ping, Duration::ZERO, &mut alice);
    alice.poll(Duration::ZERO);
    let target = (v4("10.0.0.1"), PEER);
    let by_arp = Arp { operation: Operation::Reply, sender: (v4("10.0.0.2"), bob), target };
    let by_nd = advertisement("fd00::2", Flags { solicited: true, ..OVERRIDES }, "fd00::1", Some(bob));
    alice.receive(Duration::ZERO, SAP_ARP, by_arp.emit().to_vec());
    alice.receive(Duration::ZERO, SAP_IPV6, by_nd.emit());
    let frames = std::iter::from_fn(|| alice.transmit());
    frames.filter(|frame| frame.dst == bob).last().expect("an echo").payload
}

/// RFC 1122 section 3.2.2.6 lets a host be silent; illumos answers, with `_respond_to_echo_multicast`. Before, a host was silent.
#[test]
fn an_echo_to_a_group_of_ipv4_is_answered_by_its_members() {
    let mut bob = acquainted();
    for (group, answers) in [("224.0.0.1", 1), ("239.1.2.3", 0)] {
        let mut request = echo("10.0.0.2");
        let mut packet = Ipv4Packet::new_unchecked(&mut request[..]);
        packet.set_dst_addr(v4(group));
        packet.fill_checksum();
        let sent = hears(&mut bob, 0, SAP_IPV4, request);
        assert_eq!(sent.iter().filter(|frame| frame.sap == SAP_ARP).count(), answers, "who asked is sought");
    }
    let who = Arp {
        operation: Operation::Reply,
        sender: (v4("10.0.0.1"), PEER),
        target: (v4("10.0.0.2"), LinkAddr([2; 20])),
    };
    let sent = hears(&mut bob, 0, SAP_ARP, who.emit().to_vec());
    let answer = Ipv4Packet::new_checked(&sent[0].payload[..]).expect("an answer");
    assert_eq!((answer.src_addr(), answer.dst_addr()), (v4("10.0.0.2"), v4("10.0.0.1")));
    assert_eq!(answer.payload()[0], 0, "an echo reply");
}

/// RFC 1122 section 3.2.1.1: on illumos each EtherType has a stream of its own. Before, both were answered.
#[test]
fn a_packet_of_another_version_than_its_ethertype_is_dropped() {
    let mut bob = acquainted();
    for (to, right, wrong) in [("10.0.0.2", SAP_IPV4, SAP_IPV6), ("fd00::2", SAP_IPV6, SAP_IPV4)] {
        assert!(hears(&mut bob, 0, wrong, echo(to)).is_empty());
        assert_eq!(hears(&mut bob, 0, right, echo(to)).len(), 1, "{to}");
    }
    assert_eq!(bob.link().counters().wrong_version, 2);
    assert!(hears(&mut bob, 0, SAP_IPV4, Vec::new()).is_empty());
}

/// RFC 1122 section 3.3.1.1. Before, a neighbour of another subnet was asked for and answered.
#[test]
fn no_packet_goes_to_another_subnet_without_a_route() {
    let mut alice = stack(1);
    for (from, to, asks) in
        [("10.0.0.1", "10.0.0.2", true), ("10.0.0.1", "10.1.0.2", false), ("fd00::1", "fd01::2", false)]
    {
        let mut ping = super::Ping::new(ip(from), ip(to), 1, vec![8]);
        super::run(&mut ping, Duration::ZERO, &mut alice);
        alice.poll(Duration::ZERO);
        let asked = std::iter::from_fn(|| alice.transmit())
            .any(|frame| frame.dst == BROADCAST || frame.dst.is_ipv6_group());
        assert_eq!(asked, asks, "{to}");
    }
    assert_eq!(alice.link().counters().unsendable, 2);
}

/// RFC 4861 sections 6.3.4, 8.3 and 7.2.5: by what routers say there is a way, a better one, and none any more.
#[test]
fn packets_to_another_subnet_go_by_the_router_that_says_it_is_one() {
    let (mut alice, router, better) = (stack(1), v6("fe80::1"), v6("fe80::9"));
    let sends = |alice: &mut Stack| {
        let mut ping = super::Ping::new(ip("fd00::1"), ip("fd0a::1"), 1, vec![8]);
        super::run(&mut ping, Duration::ZERO, alice);
        alice.poll(Duration::ZERO);
        let frames = std::iter::from_fn(|| alice.transmit());
        frames.filter(|frame| frame.sap == SAP_IPV6).map(|frame| frame.dst).collect::<Vec<LinkAddr>>()
    };
    assert_eq!(sends(&mut alice), []);
    let place = |link: LinkAddr, kind| [&[kind, 3][..], &link.0, &[0, 0]].concat();
    hears(&mut alice, 0, SAP_IPV6, advertisement_of(router, 60, &[&place(ELSEWHERE, 1)]));
    assert_eq!(sends(&mut alice), [ELSEWHERE]);
    hears(&mut alice, 0, SAP_IPV6, redirect(router, better, v6("fd0a::1")));
    assert_eq!(sends(&mut alice), [LinkAddr([5; 20])], "where the redirect says that it is");
    let host = Flags { solicited: true, ..OVERRIDES };
    for (who, link) in [("fe80::9", LinkAddr([5; 20])), ("fe80::1", ELSEWHERE)] {
        hears(&mut alice, 0, SAP_IPV6, advertisement(who, host, "fd00::1", Some(link)).emit());
    }
    assert_eq!(sends(&mut alice), [], "they are routers no more");
}

/// RFC 4291 section 2.7 keeps the scope to the interface. illumos has no such rule for what it sends: it goes out as any group.
#[test]
fn a_group_of_interface_local_scope_goes_out_as_illumos_sends_it() {
    let mut alice = stack(1);
    let mut say = super::GroupSay::new((ip("ff01::5"), 7), 1, Duration::ZERO, Duration::ZERO);
    super::run(&mut say, Duration::ZERO, &mut alice);
    alice.poll(Duration::ZERO);
    let sent: Vec<Frame> = std::iter::from_fn(|| alice.transmit()).collect();
    assert_eq!(sent[0].dst, LinkAddr::ipv6_group(&link(1).broadcast, v6("ff01::5")));
}

/// A host with link-local addresses sends to such an address, and one of another prefix length to its subnet alone.
#[test]
fn a_destination_is_on_the_link_by_the_subnet_of_an_address() {
    let has: Vec<IpCidr> = ["10.0.0.1/30", "fd00::1/64"].iter().map(|a| a.parse().expect("one")).collect();
    for (to, on_link) in [
        ("10.0.0.2", true),
        ("10.0.0.4", false),
        ("255.255.255.255", true),
        ("224.0.0.1", true),
        ("fd00::ffff", true),
        ("fd00:0:0:1::1", false),
        ("fe80::1", true),
        ("ff02::1", true),
    ] {
        assert_eq!(crate::routes::is_on_link(ip(to), &has), on_link, "{to}");
    }
}
