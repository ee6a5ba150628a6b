//! Two subnets and the router between them.

use crate::rig::*;
use fabric::subnet::PortSet;
use fabric::wire::{Bth, Deth, Grh, Lrh, Packet};
use fabric::*;
use std::collections::BTreeSet;

const ROUTER: Guid = Guid(0x77_0000);
/// Of the router, in either subnet: LIDs are the subnet's own.
const ROUTER_LID: Lid = Lid(2);
const PREFIXES: [u64; 2] = [Gid::DEFAULT_PREFIX, 0xfec0_0000_0000_0001];
/// In the site-local scope.
const SITE: Gid = Gid { prefix: 0xff15_401b_ffff_0000, guid: 0xffff_ffff };
const FAR_MLID: Lid = Lid(0xc007);

/// A host in each subnet, and the router.
fn two_subnets() -> World {
    let w = world_with(2, |config| {
        let second = config.guid != Guid(0x10_0000);
        config.ports[0].subnet = Subnet(second.into());
    });
    w.fabric.add_router(HcaConfig::router(ROUTER, &[Subnet(0), Subnet(1)])).unwrap();
    for (n, prefix) in (0..).zip(PREFIXES) {
        let port = Guid(ROUTER.0 + 1 + n);
        activate(&w.fabric, port, ROUTER_LID);
        for guid in [port, w.hosts[n as usize].port] {
            let set = PortSet { prefix: Some(prefix), ..PortSet::default() };
            w.fabric.program_port(guid, &set).unwrap();
        }
        let members = BTreeSet::from([port, w.hosts[n as usize].port]);
        let mlid = [MLID, FAR_MLID][n as usize];
        w.fabric.set_multicast_route_in(Subnet(n as u8), mlid, &members);
        w.fabric.set_routed_group(Subnet(n as u8), SITE, Some(mlid));
        w.hosts[n as usize].events.asyncs();
    }
    w
}

fn gid(w: &World, n: usize) -> Gid {
    Gid { prefix: PREFIXES[n], guid: w.hosts[n].port.0 }
}

fn vector(dgid: Gid, dlid: Lid, hop_limit: u8) -> AddressVector {
    let grh = Some(GlobalRoute { dgid, sgid_ix: 0, flow_label: 0x12345, tclass: 7, hop_limit });
    AddressVector { dlid, grh, ..AddressVector::PLACEHOLDER }
}

fn send(w: &World, to: AddressVector, qpn: Qpn, bytes: &[u8]) {
    let a = &w.hosts[0];
    let ah = a.hca.alloc_ah(&a.pd).unwrap();
    a.hca.modify_ah(&ah, to).unwrap();
    a.send(1, bytes, UdDest { ah, qpn, qkey: QKEY }).unwrap();
}

#[test]
fn a_packet_with_a_grh_crosses_a_router_one_hop_poorer() {
    let w = two_subnets();
    let b = &w.hosts[1];
    b.post(0, 200);
    send(&w, vector(gid(&w, 1), ROUTER_LID, 9), b.qp.num(), b"over there");
    let got = b.received();
    assert_eq!(b.payload(&got[0]), b"over there");
    let info = got[0].recv.unwrap();
    assert_eq!((info.grh, info.slid), (true, ROUTER_LID), "the link is the router's, in b's subnet");
    let grh = b.memory.get(slot(0), 40);
    assert_eq!(grh[7], 8, "the hop limit");
    assert_eq!(grh[8..24], gid(&w, 0).to_bytes());
    assert_eq!(grh[24..40], gid(&w, 1).to_bytes());
    assert!(w.drops().is_empty());
}

#[test]
fn a_frame_with_sums_has_right_ones_behind_the_router() {
    let w = two_subnets();
    let b = &w.hosts[1];
    b.post(0, 200);
    let lrh = Lrh { vl: 0, sl: Sl::default(), dlid: ROUTER_LID, slid: w.hosts[0].lid };
    let (sgid, dgid) = (gid(&w, 0), gid(&w, 1));
    let packet = Packet {
        lrh,
        grh: Some(Grh { tclass: 0, flow_label: 0, hop_limit: 2, sgid, dgid }),
        bth: Bth { solicited: false, pkey: PKey::DEFAULT_FULL, dest: b.qp.num(), psn: 0 },
        deth: Deth { qkey: QKEY, src: w.hosts[0].qp.num() },
        immediate: None,
        payload: b"with sums",
    };
    let mut frame = packet.emit();
    w.fabric.deliver(Guid(ROUTER.0 + 1), &frame).unwrap();
    assert_eq!(b.received().len(), 1, "{:?}", w.drops());
    let last = frame.len() - 1;
    frame[last] ^= 1;
    w.fabric.deliver(Guid(ROUTER.0 + 1), &frame).unwrap();
    assert_eq!(w.drops().get(&Reason::CrcAtPort), Some(&1));
}

#[test]
fn a_packet_that_may_go_no_further_is_dropped_and_counted() {
    let w = two_subnets();
    w.hosts[1].post(0, 200);
    for hop_limit in [0, 1] {
        send(&w, vector(gid(&w, 1), ROUTER_LID, hop_limit), w.hosts[1].qp.num(), b"too far");
    }
    assert!(w.hosts[1].received().is_empty());
    assert_eq!(w.drops().get(&Reason::HopLimit), Some(&2));
    send(&w, vector(gid(&w, 1), ROUTER_LID, 2), w.hosts[1].qp.num(), b"just so far");
    assert_eq!(w.hosts[1].received().len(), 1);
}

#[test]
fn a_router_drops_what_it_cannot_place() {
    let w = two_subnets();
    let qpn = w.hosts[1].qp.num();
    send(&w, AddressVector { dlid: ROUTER_LID, ..AddressVector::PLACEHOLDER }, qpn, b"no GRH");
    assert_eq!(w.drops().get(&Reason::NoGrh), Some(&1));
    let absent = Gid { guid: 0xdead, ..gid(&w, 1) };
    send(&w, vector(absent, ROUTER_LID, 9), qpn, b"absent");
    // Of the sender's own subnet, and of another port's prefix.
    send(&w, vector(gid(&w, 0), ROUTER_LID, 9), qpn, b"back");
    let mixed = Gid { prefix: PREFIXES[0], ..gid(&w, 1) };
    send(&w, vector(mixed, ROUTER_LID, 9), qpn, b"mixed");
    assert_eq!(w.drops().get(&Reason::NoRoute), Some(&3));
    send(&w, vector(SITE, ROUTER_LID, 9), qpn, b"a group at a LID of a port");
    assert_eq!(w.drops().get(&Reason::WrongGid), Some(&1));
    w.fabric.set_cable(Guid(ROUTER.0 + 2), false).unwrap();
    send(&w, vector(gid(&w, 1), ROUTER_LID, 9), qpn, b"no cable there");
    assert_eq!(w.drops().get(&Reason::SenderPortDown), Some(&1));
    assert!(w.hosts[1].received().is_empty());
}

#[test]
fn a_packet_that_is_longer_than_the_far_link_is_dropped() {
    let w = two_subnets();
    let set = PortSet { mtu: Some(Mtu::M1024), ..PortSet::default() };
    w.fabric.program_port(Guid(ROUTER.0 + 2), &set).unwrap();
    w.hosts[1].post(0, 2100);
    send(&w, vector(gid(&w, 1), ROUTER_LID, 9), w.hosts[1].qp.num(), &[1; 1025]);
    assert_eq!(w.drops().get(&Reason::Mtu), Some(&1));
    send(&w, vector(gid(&w, 1), ROUTER_LID, 9), w.hosts[1].qp.num(), &[1; 1024]);
    assert_eq!(w.hosts[1].received().len(), 1);
}

#[test]
fn a_group_of_the_site_crosses_and_one_of_the_link_does_not() {
    let w = two_subnets();
    let b = &w.hosts[1];
    for id in 0..3 {
        b.post(id, 200);
    }
    b.hca.attach_mcg(&b.qp, SITE, FAR_MLID).unwrap();
    b.hca.attach_mcg(&b.qp, MGID, FAR_MLID).unwrap();
    w.fabric.set_routed_group(Subnet(1), MGID, Some(FAR_MLID));
    send(&w, vector(SITE, MLID, 255), Qpn::MULTICAST, b"to the site");
    send(&w, vector(MGID, MLID, 255), Qpn::MULTICAST, b"to the link");
    let got = b.received();
    assert_eq!(got.len(), 1);
    assert_eq!(b.payload(&got[0]), b"to the site");
    assert!(w.drops().is_empty(), "the group of the link has reached all that it is for: {:?}", w.drops());
    send(&w, vector(SITE, MLID, 0), Qpn::MULTICAST, b"not beyond the subnet");
    assert_eq!(w.drops().get(&Reason::HopLimit), Some(&1));
    w.fabric.set_routed_group(Subnet(1), SITE, None);
    send(&w, vector(SITE, MLID, 255), Qpn::MULTICAST, b"the last one has left");
    assert!(b.received().is_empty());
}

#[test]
fn a_lid_is_its_subnets_own() {
    let w = two_subnets();
    // The LID that b has in the other subnet.
    let to = AddressVector { dlid: w.hosts[1].lid, ..AddressVector::PLACEHOLDER };
    send(&w, to, w.hosts[1].qp.num(), b"astray");
    assert_eq!(w.drops().get(&Reason::NoRoute), Some(&1));
}
