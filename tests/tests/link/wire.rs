//! What goes over the wire is what IP gave, and it is counted alike at both ends.

use fabric::{Call, Injection};
use lab_gldv3::Offload;

use crate::bench::{Bench, PLAIN, address_of, group, holds};

const IPV6: u32 = 0x86dd;
const ICMPV6: u8 = 58;
const ECHO: u8 = 128;
const SOLICITATION: u8 = 135;
const IPOIB_HEADER: u64 = 4;

fn ipv6(kind: u8, fixed: &[u8], rest: &[u8]) -> Vec<u8> {
    let ip = |n: u8| [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n];
    let payload = (4 + fixed.len() + rest.len()) as u16;
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend_from_slice(&payload.to_be_bytes());
    packet.extend_from_slice(&[ICMPV6, 255]);
    packet.extend_from_slice(&[ip(1), ip(2)].concat());
    packet.extend_from_slice(&[kind, 0, 0x12, 0x34]);
    packet.extend_from_slice(fixed);
    packet.extend_from_slice(rest);
    packet
}

/// An echo request that is so long in all.
fn echo(len: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..len - 48).map(|n| n as u8).collect();
    ipv6(ECHO, &[0, 1, 0, 1], &data)
}

/// A solicitation with these options, as they are.
fn solicitation(options: &[u8]) -> Vec<u8> {
    let mut fixed = vec![0; 4];
    fixed.extend_from_slice(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    ipv6(SOLICITATION, &fixed, options)
}

#[track_caller]
fn arrives_as_it_is(bench: &Bench, packets: &[Vec<u8>]) {
    let (alpha, _) = bench.alpha.open_up(IPV6);
    let (beta, heard) = bench.beta.open_up(IPV6);
    for packet in packets {
        alpha.transmit(address_of(&beta), packet, Offload::default()).unwrap();
        bench.settle();
        let arrived = heard.try_next().map(|packet| packet.payload);
        let (sent, len) = (packet.len(), arrived.as_ref().map(Vec::len));
        assert!(arrived.as_ref() == Some(packet), "{sent} bytes were sent, {len:?} or others arrived");
    }
}

#[test]
fn an_icmpv6_packet_arrives_as_long_as_it_was_sent() {
    holds(|bench| arrives_as_it_is(bench, &[echo(48), echo(104), echo(1_000)]));
}

#[test]
fn an_icmpv6_packet_that_fills_the_link_arrives() {
    holds(|bench| arrives_as_it_is(bench, &[echo(2_043), echo(2_044)]));
}

#[test]
fn neighbour_discovery_without_a_link_address_option_goes_up_as_it_came() {
    holds(|bench| {
        let nonce = [14, 1, 1, 2, 3, 4, 5, 6];
        let options = [vec![], nonce.to_vec(), [nonce, nonce, nonce].concat()];
        arrives_as_it_is(bench, &options.map(|options| solicitation(&options)));
    });
}

#[test]
fn a_broadcast_counts_as_a_broadcast_and_another_group_as_a_multicast() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let some = group(0x0007_0001);
        beta.enable_multicast(some).unwrap();
        bench.settle();
        // Whoever is not in a group yet may give the routers the first packet.
        alpha.transmit(some, &[1; 100], Offload::default()).unwrap();
        bench.settle();
        while heard.try_next().is_some() {}
        let before = bench.beta.statistics();
        for to in [beta.details().broadcast, beta.details().broadcast, some] {
            alpha.transmit(to, &[1; 100], Offload::default()).unwrap();
        }
        bench.settle();
        assert_eq!(std::iter::from_fn(|| heard.try_next()).count(), 3);
        let after = bench.beta.statistics();
        let (broadcasts, multicasts) = (after.brdcstrcv - before.brdcstrcv, after.multircv - before.multircv);
        assert_eq!((broadcasts, multicasts), (2, 1), "broadcasts and multicasts received");
    });
}

#[test]
fn a_packet_counts_as_many_bytes_where_it_arrives_as_where_it_left() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let (left, arrived) = (bench.alpha.statistics(), bench.beta.statistics());
        for to in [address_of(&beta), beta.details().broadcast] {
            alpha.transmit(to, &[1; 100], Offload::default()).unwrap();
        }
        bench.settle();
        assert_eq!(std::iter::from_fn(|| heard.try_next()).count(), 2);
        let sent = bench.alpha.statistics().obytes - left.obytes;
        let received = bench.beta.statistics().rbytes - arrived.rbytes;
        let expected = 2 * (100 + IPOIB_HEADER);
        assert_eq!((sent, received), (expected, expected), "bytes sent and received");
    });
}

#[test]
fn every_receive_is_posted_again_after_a_burst() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let hca = bench.world.fabric().hca(bench.beta.adapter()).expect("beta's");
        let posted = || hca.qpns().into_iter().filter_map(|qpn| hca.receives_posted(qpn)).max();
        let ring = posted();
        for n in 0..300_u32 {
            alpha.transmit(address_of(&beta), &n.to_be_bytes().repeat(100), Offload::default()).unwrap();
        }
        bench.settle();
        assert_eq!(std::iter::from_fn(|| heard.try_next()).count(), 300);
        assert_eq!(posted(), ring, "receives posted after a burst");
    });
}

#[test]
fn receives_that_the_adapter_refuses_once_are_posted_later() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let hca = bench.world.fabric().hca(bench.beta.adapter()).expect("beta's");
        let posted = || hca.qpns().into_iter().filter_map(|qpn| hca.receives_posted(qpn)).max();
        let ring = posted();
        let refuse = Injection { skip: 0, times: 1, error: fabric::Error::InsuffResource };
        hca.inject(Call::PostRecv, refuse);
        for n in 0..600_u32 {
            alpha.transmit(address_of(&beta), &n.to_be_bytes(), Offload::default()).unwrap();
            if n % 100 == 99 {
                bench.settle();
            }
        }
        assert_eq!(std::iter::from_fn(|| heard.try_next()).count(), 600);
        assert_eq!(posted(), ring, "receives posted after one refusal");
    });
}
