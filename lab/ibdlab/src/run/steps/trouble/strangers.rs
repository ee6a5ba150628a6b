//! A flood of forged ARP requests, neighbour solicitations or pings, or of requests for connections, put on a host's wire one at a time.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fabric::{Gid, Guid};
use fakekernel::{Ctx, Kernel, Nanos, Thread, now, sleep};
use lab_ibtf::InfiniBand;
use lab_ibtf::saa::EmbeddedSm;
use lab_ip::arp::Arp;
use lab_ip::link_addr::LinkAddr;
use lab_ip::nd::Nd;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv6Packet, Ipv6Repr};

use super::hand::Hand;
use super::requests::{self, Ends};
use super::subnet::adapter;
use crate::packets;
use crate::scenario::trouble::{Claim, Strangers};

/// Where an IPv6 packet has the option of a solicitation: headers of 40 and 24 bytes come first.
const OPTION: usize = 64;
/// GUIDs of ports that are not there; those of hosts begin otherwise.
const ABSENT: u64 = 0x0057_5241_4e00_0000;
const BROADCAST: u64 = 0xffff_ffff;
/// Signatures of groups (RFC 4391 section 4), and that of groups that the SA names for other software.
const IPV4: u64 = 0x401b;
const IPV6: u64 = 0x601b;
const FOREIGN: u64 = 0xa01b;
/// The queue pair of a port that is not there, and the first of one that is.
const QPN: u32 = 0x48;
const FIRST_QPN: u32 = 0x10_0000;

/// Whom a flood is for, and what the forgers know.
pub struct Target {
    port: Guid,
    pkey: u16,
    addresses: Vec<IpAddr>,
    /// A port that is there: another host's, if there is another.
    neighbour: Guid,
}

impl Target {
    pub fn of(host: &Hand, hands: &[Hand]) -> Self {
        let other = hands.iter().find(|hand| hand.port != host.port).unwrap_or(host);
        let addresses = host.addresses.clone();
        Self { port: host.port, pkey: host.pkey, addresses, neighbour: other.port }
    }
}

/// The thread that sends one.
pub struct Flood {
    stop: Arc<AtomicBool>,
    thread: Thread,
}

impl Flood {
    /// A host without addresses gets no packet.
    pub fn begin(
        infiniband: &InfiniBand,
        sm: &Arc<EmbeddedSm>,
        kernel: &Kernel,
        target: Target,
        flood: &Strangers,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (infiniband, sm, flood, stopped) = (infiniband.clone(), sm.clone(), flood.clone(), stop.clone());
        let thread = kernel.spawn("strangers", Ctx::User, move || {
            let begun = now();
            let packets = u64::from(flood.per_second) * flood.for_ms / 1_000;
            for number in 0..packets {
                let due = begun + Nanos(number * 1_000_000_000 / u64::from(flood.per_second));
                sleep(due.since(now().min(due)));
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                send(&infiniband, &sm, &target, flood.claim, number);
            }
        });
        Self { stop, thread }
    }

    /// No packet of it comes any more when this returns.
    pub fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join();
    }
}

fn send(infiniband: &InfiniBand, sm: &EmbeddedSm, target: &Target, claim: Claim, number: u64) {
    if claim == Claim::Connections {
        ask_to_connect(infiniband, sm, target, number);
        return;
    }
    let prefix = sm.inspect(|sm| sm.config().sa.prefix);
    let asked = target.addresses.get(number as usize % target.addresses.len().max(1)).copied();
    let packet = match claim {
        Claim::Nowhere => target.addresses.iter().find_map(|own| ping(*own, number)),
        _ => asked.map(|own| question(own, claimed(claim, target, prefix, number), number)),
    };
    let Some(packet) = packet else { return };
    let to = packets::Target { hca: adapter(target.port), port: target.port, pkey: target.pkey };
    packets::inject(infiniband, sm, to, &packets::Content::Raw(&packet, true));
}

/// A port that is there asks for a connection, it says.
fn ask_to_connect(infiniband: &InfiniBand, sm: &EmbeddedSm, target: &Target, number: u64) {
    let ports = infiniband.fabric().subnet_ports();
    let end = |guid: Guid| {
        let view = ports.iter().find(|view| view.attr.guid == guid)?;
        Some((view.attr.lid, *view.attr.gids.first()?))
    };
    let (Some(to), Some(from)) = (end(target.port), end(target.neighbour)) else { return };
    let hca = adapter(target.port);
    let qpns = infiniband.fabric().hca(hca).map(|hca| hca.qpns()).unwrap_or_default();
    let Some(qpn) = qpns.get(number as usize / 64 % qpns.len().max(1)) else { return };
    let ends = Ends { qpn: qpn.get(), pkey: target.pkey, to, from };
    let place = packets::Target { hca, port: target.port, pkey: target.pkey };
    let mad = requests::request(number, &ends);
    packets::inject(infiniband, sm, place, &packets::Content::Management(&mad, from.0));
}

/// A ping from another address of the network; `None` if `own` is none of IPv6.
fn ping(own: IpAddr, number: u64) -> Option<Vec<u8>> {
    let IpAddr::V6(own) = own else { return None };
    let network = own.to_bits() >> 64 << 64;
    let source = Ipv6Addr::from(network | 0x5752_0000_0000_0000 | u128::from(number));
    let icmp = Icmpv6Repr::EchoRequest { ident: 1, seq_no: number as u16, data: &[0x77; 8] };
    let ip = Ipv6Repr {
        src_addr: source,
        dst_addr: own,
        next_header: IpProtocol::Icmpv6,
        payload_len: icmp.buffer_len(),
        hop_limit: 64,
    };
    let mut bytes = vec![0; ip.buffer_len() + ip.payload_len];
    let mut packet = Ipv6Packet::new_unchecked(&mut bytes[..]);
    ip.emit(&mut packet);
    let body = &mut Icmpv6Packet::new_unchecked(packet.payload_mut());
    icmp.emit(&source, &own, body, &ChecksumCapabilities::default());
    Some(packets::ipoib(packets::IPV6, &bytes))
}

/// Who has this address? Asked by a sender of its own IP address, in the form that it has on the wire.
fn question(own: IpAddr, sender: LinkAddr, number: u64) -> Vec<u8> {
    match own {
        IpAddr::V4(own) => {
            // 100.64.0.0/10 is no network of a scenario's hosts.
            let ip = Ipv4Addr::from(0x6440_0001 + (number as u32 & 0x1f_ffff));
            packets::ipoib(packets::ARP, &Arp::request((ip, sender), own).emit())
        }
        IpAddr::V6(own) => {
            let ip = Ipv6Addr::from(0xfe80 << 112 | 0x5752_0000_0000_0000 | u128::from(number));
            let mut bytes = Nd::solicit((ip, sender), own).emit();
            // The option's two spare bytes are behind the address above the driver, and in front of it on the wire.
            bytes[OPTION + 2..].rotate_right(2);
            packets::ipoib(packets::IPV6, &bytes)
        }
    }
}

fn claimed(claim: Claim, target: &Target, prefix: u64, number: u64) -> LinkAddr {
    let group =
        |signature: u64| 0xff12_0000_0000_0000 | signature << 32 | u64::from(target.pkey | 0x8000) << 16;
    let solicited = 1 << 32 | 0xff00_0000 | number & 0xff_ffff;
    let qpn = FIRST_QPN + (number as u32 & 0xf_ffff);
    match claim {
        Claim::AbsentPorts => link_addr(QPN, Gid { prefix, guid: ABSENT + number }),
        Claim::QueuePairs => link_addr(qpn, Gid { prefix, guid: target.neighbour.0 }),
        Claim::Groups => link_addr(0xff_ffff, Gid { prefix: group(IPV6), guid: solicited }),
        Claim::ForeignGroups => link_addr(0xff_ffff, Gid { prefix: group(FOREIGN), guid: number }),
        // No claim is made in a frame.
        Claim::Connections | Claim::Broadcast => {
            link_addr(0xff_ffff, Gid { prefix: group(IPV4), guid: BROADCAST })
        }
        Claim::Nowhere => LinkAddr::ZERO,
    }
}

fn link_addr(qpn: u32, gid: Gid) -> LinkAddr {
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&qpn.to_be_bytes());
    bytes[4..12].copy_from_slice(&gid.prefix.to_be_bytes());
    bytes[12..].copy_from_slice(&gid.guid.to_be_bytes());
    LinkAddr(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target { port: Guid(1), pkey: 0x8001, addresses: Vec::new(), neighbour: Guid(2) }
    }

    #[test]
    fn each_stranger_of_a_flood_claims_another_place() {
        let is_one = |claim: &Claim| !matches!(claim, Claim::Broadcast | Claim::Connections | Claim::Nowhere);
        for claim in Claim::ALL.into_iter().filter(is_one) {
            let claims: std::collections::BTreeSet<LinkAddr> =
                (0..5_000).map(|number| claimed(claim, &target(), 0xfe80 << 48, number)).collect();
            assert_eq!(claims.len(), 5_000, "{claim:?}");
        }
    }

    #[test]
    fn each_forged_ping_has_another_source_of_the_network() {
        let own: IpAddr = "fd00:78::1".parse().expect("an address");
        let sources: std::collections::BTreeSet<_> = (0..5_000)
            .map(|number| {
                let packet = ping(own, number).expect("it is of IPv6");
                let ip = Ipv6Packet::new_checked(&packet[4..]).expect("it is whole");
                let source = ip.src_addr();
                let icmp = Icmpv6Packet::new_checked(ip.payload()).expect("it is whole");
                assert!(icmp.verify_checksum(&source, &ip.dst_addr()));
                assert_eq!(IpAddr::from(ip.dst_addr()), own);
                assert!(source.octets().starts_with(&[0xfd, 0, 0, 0x78, 0, 0, 0, 0]), "{source}");
                source
            })
            .collect();
        assert_eq!(sources.len(), 5_000);
        assert_eq!(ping(Ipv4Addr::LOCALHOST.into(), 1), None);
    }

    #[test]
    fn a_forged_solicitation_has_the_form_of_the_wire() {
        let sender = claimed(Claim::Groups, &target(), 0xfe80 << 48, 7);
        let wire = question("fd00::1".parse().expect("an address"), sender, 7);
        let option = &wire[4 + OPTION..];
        assert_eq!((&option[..4], &option[4..]), (&[1, 3, 0, 0][..], &sender.0[..]));
        let mut above = wire[4..].to_vec();
        above[OPTION + 2..].rotate_left(2);
        assert_eq!(
            Nd::parse(&above).and_then(|nd| nd.link),
            Some(sender),
            "its checksum is right in both forms"
        );
    }
}
