//! Neighbours that are said to be at groups, and what is for one host and would go to a group.

use fakekernel::Nanos;
use lab_gldv3::{LinkAddress, Offload, Stream};

use crate::bench::{Bench, address_of, group, holds};

const ARP: u32 = 0x0806;
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;

/// A link address of the multicast queue pair, or of another one, with this GID.
fn link(qpn: u32, prefix: u64, guid: u64) -> LinkAddress {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&qpn.to_be_bytes());
    bytes[4..12].copy_from_slice(&prefix.to_be_bytes());
    bytes[12..].copy_from_slice(&guid.to_be_bytes());
    LinkAddress(bytes)
}

/// Groups of IP in this partition and in another one, the broadcast group, groups of other software; a group without the queue pair of groups,
/// and the reverse.
fn of_groups() -> Vec<LinkAddress> {
    vec![
        link(0xff_ffff, 0xff12_601b_ffff_0000, 0x0001_ff00_0001),
        link(0xff_ffff, 0xff12_401b_8005_0000, 0x0e01_0203),
        link(0xff_ffff, 0xff12_401b_ffff_0000, 0xffff_ffff),
        link(0xff_ffff, 0xff12_a01b_fe80_0000, 7),
        link(0x80ff_ffff, 0xff12_401b_ffff_0000, 0x0e01_0203),
        link(0x48, 0xff12_401b_ffff_0000, 0x0e01_0203),
        link(0xff_ffff, 0xfe80_0000_0000_0000, 0x0002_c903_0000_9999),
    ]
}

fn arp(operation: u8, sender: LinkAddress) -> Vec<u8> {
    let mut bytes = vec![0, 32, 8, 0, 20, 4, 0, operation];
    bytes.extend(sender.0);
    bytes.extend([10, 0, 0, 9]);
    bytes.extend([0; 20]);
    bytes.extend([10, 0, 0, 1]);
    bytes
}

/// A message of neighbour discovery with this link address, in the form that IP has.
fn discovery(message: u8, link: LinkAddress) -> Vec<u8> {
    let (fixed, option) = match message {
        ROUTER_SOLICITATION => (8, 1),
        ROUTER_ADVERTISEMENT => (16, 1),
        SOLICITATION => (24, 1),
        REDIRECT => (40, 2),
        _ => (24, 2),
    };
    let mut bytes = vec![0x60, 0, 0, 0, 0, fixed + 24, 58, 255];
    let address = |last| [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    bytes.extend(address(9));
    bytes.extend(address(1));
    bytes.push(message);
    bytes.resize(40 + usize::from(fixed), 0);
    bytes.extend([option, 3]);
    bytes.extend(link.0);
    bytes.extend([0, 0]);
    bytes
}

fn send(stream: &Stream, to: LinkAddress, payload: &[u8]) {
    stream.transmit(to, payload, Offload::default()).unwrap();
}

/// Before, IP took such an address, had the link join the group for its answer, and sent to all of the group what was for one host.
#[test]
fn who_is_said_to_be_at_a_group_is_nobody_for_ip() {
    holds(|bench| {
        let (alpha, arps) = bench.alpha.open_up(ARP);
        let (alpha6, discovered) = bench.alpha.open_up(IPV6);
        let (beta, _) = bench.beta.open_up(ARP);
        let (beta6, _) = bench.beta.open_up(IPV6);
        let (own, to) = (address_of(&beta), address_of(&alpha));
        // Of a port, so that the test sees what passes.
        send(&beta, to, &arp(1, own));
        let messages = [ROUTER_SOLICITATION, ROUTER_ADVERTISEMENT, SOLICITATION, ADVERTISEMENT, REDIRECT];
        messages.iter().for_each(|message| send(&beta6, to, &discovery(*message, own)));
        bench.settle();
        let heard = || [&arps, &discovered].map(|queue| std::iter::from_fn(|| queue.try_next()).count());
        assert_eq!(heard(), [1, messages.len()]);
        let mut sent = 0;
        for claimed in of_groups() {
            for operation in [1, 2] {
                send(&beta, to, &arp(operation, claimed));
            }
            messages.iter().for_each(|message| send(&beta6, to, &discovery(*message, claimed)));
            sent += 2 + messages.len() as u64;
        }
        bench.settle();
        assert_eq!(heard(), [0, 0]);
        assert_eq!(bench.alpha.counter("rx_drop_group_sender"), sent);
        drop((alpha, alpha6));
    });
}

/// ARP that IP takes although RFC 4391 has another form, and neighbour discovery with longer options or in fragments. All of it passed.
#[test]
fn a_group_is_no_neighbour_in_whatever_form_ip_takes() {
    holds(|bench| {
        let (alpha, arps) = bench.alpha.open_up(ARP);
        let (alpha6, discovered) = bench.alpha.open_up(IPV6);
        let (beta, _) = bench.beta.open_up(ARP);
        let (beta6, _) = bench.beta.open_up(IPV6);
        let (own, to) = (address_of(&beta), address_of(&alpha));
        let longer = |link| {
            let mut packet = discovery(SOLICITATION, link);
            (packet[5], packet[65]) = (56, 4);
            [&packet[..], &[0; 8]].concat()
        };
        send(&beta6, to, &longer(own));
        bench.settle();
        assert!(discovered.try_next().is_some(), "of a port it is taken");
        let (mut of_group, mut of_form) = (0, 0);
        for claimed in of_groups() {
            send(&beta6, to, &longer(claimed));
            of_group += 1;
            for (offset, value) in [(1, 1), (1, 6), (4, 0), (4, 6), (5, 16)] {
                let mut packet = arp(1, claimed);
                packet[offset] = value;
                send(&beta, to, &packet);
                of_form += 1;
            }
            send(&beta, to, &arp(1, claimed)[..55]);
            let mut fragment = discovery(SOLICITATION, claimed);
            fragment.splice(40..40, [58, 0, 0, 1, 0, 0, 0, 7]);
            (fragment[5], fragment[6]) = (56, 44);
            send(&beta6, to, &fragment);
            of_form += 2;
        }
        bench.settle();
        assert_eq!((arps.try_next().is_some(), discovered.try_next().is_some()), (false, false));
        assert_eq!(bench.alpha.counter("rx_drop_group_sender"), of_group);
        assert_eq!(bench.alpha.counter("rx_drop_neighbour_form"), of_form);
        drop((alpha, alpha6));
    });
}

fn joins(bench: &Bench) -> u64 {
    bench.alpha.calls("ibt_join_mcg")
}

/// Before, each group that a neighbour claimed cost the SA a join, and the packet went to all that are in it.
#[test]
fn what_is_for_one_host_joins_no_group() {
    holds(|bench| {
        let mut ipv4 = vec![0; 28];
        (ipv4[0], ipv4[3], ipv4[16]) = (0x45, 28, 10);
        let cases =
            [(ARP, arp(2, link(0x48, 0xfe80 << 48, 9))), (IPV4, ipv4), (IPV6, discovery(136, group(1)))];
        let mut astray = 0;
        for (sap, packet) in cases {
            let (alpha, _) = bench.alpha.open_up(sap);
            bench.settle();
            let before = joins(bench);
            for to in of_groups().into_iter().filter(|to| to.0[16..] != [0xff; 4]) {
                send(&alpha, to, &packet);
                astray += 1;
            }
            bench.settle();
            assert_eq!(joins(bench), before, "{sap:#x}");
            assert_eq!(
                bench.alpha.counter("tx_drop_bad_destination"),
                astray,
                "{:?}",
                bench.alpha.counters()
            );
        }
    });
}

/// A group that is sent to already was not looked at, nor was the broadcast group.
#[test]
fn what_is_for_one_host_goes_to_no_group_that_is_in_use() {
    holds(|bench| {
        let (alpha, _) = bench.alpha.open_up(IPV6);
        let (beta, heard) = bench.beta.open_up(IPV6);
        let (broadcast, joined) = (alpha.details().broadcast, group(0x0e01_0203));
        beta.enable_multicast(joined).unwrap();
        bench.settle();
        let mut packet = discovery(200, link(0x48, 0xfe80 << 48, 9));
        let dropped = || bench.alpha.counter("tx_drop_bad_destination");
        packet[24] = 0xff;
        for to in [broadcast, joined] {
            // The first one has the group joined, and may be sent before the switches know.
            send(&alpha, to, &packet);
            bench.settle();
            while heard.try_next().is_some() {}
            for (first, arrive, dropped_now) in [(0xff, 1, 0), (0xfe, 0, 1), (0x20, 0, 1), (0xff, 1, 0)] {
                let before = dropped();
                packet[24] = first;
                send(&alpha, to, &packet);
                bench.settle();
                let came = std::iter::from_fn(|| heard.try_next()).count();
                assert_eq!((came, dropped() - before), (arrive, dropped_now), "{to:?} {first:#x}");
            }
        }
        drop(beta);
    });
}

/// IP alone knows which addresses are broadcast addresses of IPv4.
#[test]
fn ipv4_goes_to_the_broadcast_group_as_ip_says() {
    holds(|bench| {
        let (alpha, _) = bench.alpha.open_up(IPV4);
        let (beta, heard) = bench.beta.open_up(IPV4);
        let mut packet = vec![0; 28];
        (packet[0], packet[3]) = (0x45, 28);
        for to in [[255; 4], [10, 255, 255, 255], [10, 0, 0, 0], [10, 0, 0, 254], [224, 0, 0, 1]] {
            packet[16..20].copy_from_slice(&to);
            send(&alpha, alpha.details().broadcast, &packet);
        }
        bench.settle();
        assert_eq!(std::iter::from_fn(|| heard.try_next()).count(), 5);
        drop(beta);
    });
}

/// Group addresses that IP never makes, whatever is in the packet.
#[test]
fn nothing_is_sent_to_a_group_that_is_none_of_ip() {
    holds(|bench| {
        let (alpha, _) = bench.alpha.open_up(0x88b5);
        let before = joins(bench);
        for n in 0..100 {
            send(&alpha, link(0xff_ffff, 0xff12_a01b_fe80_0000, n), &[1; 60]);
        }
        bench.settle();
        assert_eq!((joins(bench), bench.alpha.counter("tx_drop_bad_destination")), (before, 100));
        // One of IP's is joined.
        send(&alpha, group(0x0e01_0203), &[1; 60]);
        fakekernel::sleep(Nanos::from_millis(100));
        assert!(joins(bench) > before);
    });
}
