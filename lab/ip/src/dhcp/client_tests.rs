//! The client against a server that says what a test wants, in virtual time.

use smoltcp::wire::{ArpHardware, DhcpOpCode, DhcpPacket, Ipv4Packet};

use super::*;
use crate::link_addr::LinkAddr;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 5);

fn id(guid: u8) -> ClientId {
    ClientId::of(&LinkAddr([guid; 20]))
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// What a server sees of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Heard {
    kind: Kind,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    transaction: u32,
    broadcast: bool,
    own: Ipv4Addr,
    requested: Option<Ipv4Addr>,
    server: Option<Ipv4Addr>,
}

fn heard(client: &mut Client) -> Option<Heard> {
    let packet = client.transmit()?;
    let ip = Ipv4Packet::new_checked(&packet[..]).expect("IPv4");
    let message = DhcpPacket::new_checked(&ip.payload()[8..]).expect("a message");
    assert_eq!((message.hardware_type(), message.hardware_len()), (ArpHardware::from(32), 0));
    let address = |wanted: u8| {
        let option = message.options().find(|option| option.kind == wanted)?;
        <[u8; 4]>::try_from(option.data).ok().map(Ipv4Addr::from)
    };
    let kind = message.options().find(|option| option.kind == 53).expect("a kind").data[0];
    Some(Heard {
        kind: Kind::from(kind),
        source: ip.src_addr(),
        destination: ip.dst_addr(),
        transaction: message.transaction_id(),
        broadcast: !message.flags().is_empty(),
        own: message.client_ip(),
        requested: address(50),
        server: address(54),
    })
}

fn answer(kind: Kind, transaction: u32, seconds: u32) -> Vec<u8> {
    let mut bytes = vec![0; 240];
    let mut packet = DhcpPacket::new_unchecked(&mut bytes[..]);
    packet.set_opcode(DhcpOpCode::Reply);
    packet.set_transaction_id(transaction);
    packet.set_your_ip(ADDRESS);
    packet.set_magic_number(0x6382_5363);
    bytes.extend([53, 1, kind.into(), 54, 4]);
    bytes.extend(SERVER.octets());
    bytes.extend([51, 4]);
    bytes.extend(seconds.to_be_bytes());
    bytes.extend([1, 4, 255, 255, 255, 0, 255]);
    bytes
}

/// A client that was given an address for so many seconds at the time 0.
fn bound(seconds: u32) -> Client {
    let mut client = Client::new(1);
    client.set_link(at(0), Some(id(1)));
    let discover = heard(&mut client).expect("a DISCOVER");
    client.receive(at(0), &answer(Kind::Offer, discover.transaction, seconds));
    let request = heard(&mut client).expect("a REQUEST");
    client.receive(at(0), &answer(Kind::Ack, request.transaction, seconds));
    client
}

/// Lets time pass until the client speaks; when, and what it says.
fn next(client: &mut Client) -> (Duration, Heard) {
    for _ in 0..100 {
        let now = client.poll_at().expect("something to wait for");
        client.poll(now);
        if let Some(heard) = heard(client) {
            return (now, heard);
        }
    }
    panic!("silence");
}

#[test]
fn a_lease_is_had_by_four_messages() {
    let mut client = Client::new(1);
    assert_eq!(client.poll_at(), None, "the link is down");
    client.set_link(at(0), Some(id(1)));
    let discover = heard(&mut client).expect("a DISCOVER");
    assert_eq!((discover.kind, discover.source, discover.broadcast), (Kind::Discover, [0; 4].into(), true));
    assert_eq!(discover.destination, Ipv4Addr::BROADCAST);
    client.receive(at(1), &answer(Kind::Offer, discover.transaction, 120));
    let request = heard(&mut client).expect("a REQUEST");
    assert_eq!((request.requested, request.server), (Some(ADDRESS), Some(SERVER)));
    assert_eq!((request.own, request.broadcast), (Ipv4Addr::UNSPECIFIED, true));
    assert_eq!(client.lease(), None);
    client.receive(at(2), &answer(Kind::Ack, request.transaction, 120));
    let lease = client.lease().expect("a lease");
    assert_eq!((lease.address, lease.server), (Ipv4Cidr::new(ADDRESS, 24), SERVER));
    assert_eq!(client.poll_at(), Some(at(61)), "half the lease after the request");
}

#[test]
fn a_lease_is_renewed_of_its_server_without_broadcast() {
    let mut client = bound(120);
    let (now, renewal) = next(&mut client);
    assert_eq!((now, renewal.kind), (at(60), Kind::Request));
    assert_eq!((renewal.source, renewal.destination), (ADDRESS, SERVER));
    assert_eq!((renewal.own, renewal.broadcast), (ADDRESS, false));
    assert_eq!((renewal.requested, renewal.server), (None, None));
    client.receive(now, &answer(Kind::Ack, renewal.transaction, 120));
    assert_eq!(client.poll_at(), Some(at(120)), "half of the new time");
}

#[test]
fn a_lease_that_its_server_does_not_renew_is_asked_of_all_and_ends() {
    let mut client = bound(120);
    let (_, renewal) = next(&mut client);
    let (now, rebinding) = next(&mut client);
    assert_eq!((now, rebinding.destination), (at(105), Ipv4Addr::BROADCAST));
    assert_eq!((rebinding.source, rebinding.own, rebinding.broadcast), (ADDRESS, ADDRESS, false));
    assert_ne!(rebinding.transaction, renewal.transaction);
    assert!(client.lease().is_some());
    let (now, discover) = next(&mut client);
    assert_eq!((now, discover.kind), (at(120), Kind::Discover));
    assert_eq!(client.lease(), None, "at its end the address is gone");
}

#[test]
fn a_long_lease_is_asked_for_again_after_half_of_what_is_left() {
    let mut client = bound(8_000);
    let times: Vec<u64> = (0..5).map(|_| next(&mut client).0.as_secs()).collect();
    assert_eq!(times, [4_000, 5_500, 6_250, 6_625, 6_812]);
}

#[test]
fn a_server_that_is_silent_is_asked_at_growing_intervals() {
    let mut client = Client::new(1);
    client.set_link(at(0), Some(id(1)));
    let first = heard(&mut client).expect("a DISCOVER");
    let mut last = at(0);
    for expected in [4, 8, 16, 32, 64, 64] {
        let (now, discover) = next(&mut client);
        assert_eq!(discover.transaction, first.transaction);
        let waited = (now - last).as_millis().abs_diff(expected * 1_000);
        assert!(waited <= 1_000, "{expected} s, off by {waited} ms");
        last = now;
    }
}

#[test]
fn an_offer_that_is_not_kept_is_given_up() {
    let mut client = Client::new(1);
    client.set_link(at(0), Some(id(1)));
    let discover = heard(&mut client).expect("a DISCOVER");
    client.receive(at(0), &answer(Kind::Offer, discover.transaction, 120));
    let kinds: Vec<Kind> = std::iter::once(heard(&mut client).expect("a REQUEST"))
        .chain((0..4).map(|_| next(&mut client).1))
        .map(|heard| heard.kind)
        .collect();
    assert_eq!(kinds, [Kind::Request, Kind::Request, Kind::Request, Kind::Request, Kind::Discover]);
}

#[test]
fn a_nak_takes_the_address_away_at_once() {
    let mut client = bound(120);
    let (now, renewal) = next(&mut client);
    client.receive(now, &answer(Kind::Nak, renewal.transaction, 0));
    assert_eq!(client.lease(), None);
    assert_eq!(heard(&mut client).map(|heard| heard.kind), Some(Kind::Discover));
}

#[test]
fn a_lease_outlives_its_link_and_is_asked_for_again() {
    let mut client = bound(120);
    client.set_link(at(10), None);
    assert!(client.lease().is_some());
    client.set_link(at(20), Some(id(1)));
    let request = heard(&mut client).expect("a REQUEST");
    assert_eq!((request.requested, request.server), (Some(ADDRESS), None));
    assert_eq!((request.own, request.broadcast), (Ipv4Addr::UNSPECIFIED, true));
    client.receive(at(21), &answer(Kind::Ack, request.transaction, 120));
    assert_eq!(client.poll_at(), Some(at(80)));
    client.set_link(at(30), None);
    client.poll(at(140));
    assert_eq!((client.lease(), client.poll_at()), (None, None), "it ended while the link was down");
}

#[test]
fn a_lease_that_nobody_disputes_after_a_flap_goes_on() {
    let mut client = bound(1_200);
    client.set_link(at(10), None);
    client.set_link(at(20), Some(id(1)));
    heard(&mut client).expect("a REQUEST");
    for _ in 0..3 {
        assert_eq!(next(&mut client).1.kind, Kind::Request);
    }
    let (now, renewal) = next(&mut client);
    assert_eq!((now, renewal.destination), (at(600), SERVER), "renewed when it was due");
}

#[test]
fn another_gid_is_another_client() {
    let mut client = bound(120);
    client.set_link(at(10), Some(id(2)));
    assert_eq!(client.lease(), None);
    assert_eq!(heard(&mut client).map(|heard| heard.kind), Some(Kind::Discover));
}

#[test]
fn two_clients_of_one_seed_have_other_transactions() {
    let [one, other] = [1, 2].map(|guid| {
        let mut client = Client::new(7);
        client.set_link(at(0), Some(id(guid)));
        heard(&mut client).expect("a DISCOVER").transaction
    });
    assert_ne!(one, other);
}

#[test]
fn a_release_goes_to_the_server_of_the_lease() {
    let mut client = bound(120);
    assert_eq!(client.release(), Some(SERVER));
    let release = heard(&mut client).expect("a RELEASE");
    assert_eq!((release.kind, release.destination, release.own), (Kind::Release, SERVER, ADDRESS));
    assert_eq!((client.lease(), client.release()), (None, None));
}

#[test]
fn an_address_that_somebody_has_is_declined_and_another_asked_for_after_a_pause() {
    let mut client = bound(120);
    client.decline(at(1));
    let decline = heard(&mut client).expect("a DECLINE");
    assert_eq!((decline.kind, decline.destination), (Kind::Decline, Ipv4Addr::BROADCAST));
    assert_eq!(
        (decline.requested, decline.server, decline.own),
        (Some(ADDRESS), Some(SERVER), [0; 4].into())
    );
    assert_eq!(client.lease(), None);
    let (now, discover) = next(&mut client);
    assert_eq!((now, discover.kind), (at(11), Kind::Discover));
}

#[test]
fn answers_that_nobody_waits_for_do_nothing() {
    let mut client = bound(120);
    let before = client.lease();
    for kind in [Kind::Offer, Kind::Ack, Kind::Nak, Kind::Decline, Kind::Unknown(99)] {
        client.receive(at(1), &answer(kind, 0, 9));
        assert_eq!((client.lease(), client.transmit()), (before, None));
    }
}
