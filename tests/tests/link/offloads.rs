//! Checksums and large sends, on adapters that can do all, some or none of it.

use fabric::HcaConfig;
use fakekernel::Nanos;
use lab_gldv3::{Layout, Offload, Received, transmit_ring_statistics};

use crate::bench::{Bench, IPV4, LINK, Setup, address_of, holds};

const MSS: usize = 1448;
const HEADERS: usize = 20 + 32;

/// A TCP segment of IPv4 from 10.0.0.1 to 10.0.0.2 with `payload`, without checksums.
fn segment(sequence: u32, payload: &[u8]) -> Vec<u8> {
    let total = (HEADERS + payload.len()) as u16;
    let mut packet = vec![0; HEADERS];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet[8] = 64;
    packet[9] = 6;
    packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    packet[20..24].copy_from_slice(&[0x12, 0x34, 0, 80]);
    packet[24..28].copy_from_slice(&sequence.to_be_bytes());
    packet[32] = 8 << 4;
    packet[33] = 0x18;
    // Three options that do nothing fill the header up to 32 bytes.
    packet[40..52].fill(1);
    packet.extend_from_slice(payload);
    packet
}

fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|n| ((n * 31 + seed * 7) >> 3) as u8).collect()
}

const LARGE: Offload = Offload { ip_checksum: false, full_checksum: true, large_send: Some(MSS as u16) };

/// Of an application that writes 8 KiB at a time, behind the room that TCP has left for headers.
const WRITES: Layout = Layout { headers: HEADERS, block: 8192, offset: 132 };

/// Sends `count` large segments and checks that every byte arrives, in order, in frames that fit and verify.
fn large_sends_arrive(bench: &Bench, count: usize, len: usize) {
    bench.alpha.set("_ibd_num_lso_bufs", "512").unwrap();
    // Datagrams have no flow control: the receiver must have room for a whole burst.
    bench.beta.set("_ibd_ud_num_rwqe", "4000").unwrap();
    let (alpha, beta, heard) = bench.talking(IPV4);
    let (to, before) = (address_of(&beta), bench.alpha.statistics());
    let mut sent = Vec::new();
    for n in 0..count {
        let payload = bytes(n, len);
        alpha.transmit_in_blocks(to, &segment(sent.len() as u32, &payload), LARGE, WRITES).unwrap();
        sent.extend_from_slice(&payload);
    }
    // No more of them wait in the receiver's MAC layer than it keeps.
    let mut packets: Vec<Received> = Vec::new();
    for _ in 0..400 {
        fakekernel::sleep(Nanos::from_millis(1));
        packets.extend(std::iter::from_fn(|| heard.try_next()));
    }
    let mut received = Vec::new();
    for packet in &packets {
        assert!(packet.full_checksum_ok, "a segment whose checksums do not hold");
        assert!(packet.payload.len() <= HEADERS + MSS);
        let sequence = u32::from_be_bytes(packet.payload[24..28].try_into().unwrap());
        assert_eq!(sequence as usize, received.len(), "the byte that comes next");
        received.extend_from_slice(&packet.payload[HEADERS..]);
    }
    assert!(received == sent, "{} of {} bytes, or others", received.len(), sent.len());
    let after = bench.alpha.statistics();
    assert_eq!(after.opackets - before.opackets, packets.len() as u64, "each segment counts");
    let wire: usize = packets.iter().map(|packet| 4 + packet.payload.len()).sum();
    assert_eq!(after.obytes - before.obytes, wire as u64);
    assert_eq!(after.oerrors, before.oerrors);
}

fn all(config: &mut HcaConfig) {
    config.attr = fabric::HcaAttr::with_offloads();
}

fn without_reserved_key(config: &mut HcaConfig) {
    all(config);
    config.attr.res_lkey = false;
}

#[test]
fn a_large_send_is_cut_by_the_adapter_and_every_segment_verifies() {
    Setup { hca: all, ..Setup::default() }.run(|bench| {
        large_sends_arrive(bench, 20, 60_000);
        assert_eq!(bench.alpha.counter("tx_mapped"), 20);
    });
}

#[test]
fn small_large_sends_are_cut_too() {
    Setup { hca: all, ..Setup::default() }.run(|bench| large_sends_arrive(bench, 200, 2_000));
}

#[test]
fn an_adapter_without_the_reserved_key_gets_a_copy() {
    Setup { hca: without_reserved_key, ..Setup::default() }.run(|bench| {
        large_sends_arrive(bench, 20, 60_000);
        assert_eq!(bench.alpha.counter("tx_mapped"), 0);
    });
}

#[test]
fn more_large_sends_than_there_are_large_buffers_lose_nothing() {
    fn slow(config: &mut HcaConfig) {
        without_reserved_key(config);
        config.send_latency = fabric::Nanos(2_000_000);
    }
    Setup { hca: slow, ..Setup::default() }.run(|bench| {
        large_sends_arrive(bench, 90, 50_000);
        assert!(bench.alpha.statistics().noxmtbuf > 0, "there was always room");
    });
}

#[test]
fn offloads_are_offered_where_the_adapter_has_them_and_the_administrator_wants_them() {
    Setup { hca: all, ..Setup::default() }.run(|bench| {
        let (stream, _) = bench.alpha.open_up(IPV4);
        let offered = stream.offload_capability();
        assert!(offered.full_v4 && !offered.full_v6);
        assert_eq!(offered.large_send, Some(65_530));
        drop(stream);
        bench.settle();
        bench.alpha.set("_ibd_lso_enable", "0").unwrap();
        let (stream, _) = bench.alpha.open_up(IPV4);
        let offered = stream.offload_capability();
        assert!(offered.full_v4 && offered.large_send.is_none());
    });
    holds(|bench| {
        let (stream, _) = bench.alpha.open_up(IPV4);
        assert_eq!(stream.offload_capability(), lab_gldv3::OffloadCapability::default());
    });
}

#[test]
fn a_checksum_the_adapter_was_asked_for_arrives_right() {
    Setup { hca: all, ..Setup::default() }.run(|bench| {
        let (alpha, beta, heard) = bench.talking(IPV4);
        let plain = Offload { full_checksum: true, ..Offload::default() };
        alpha.transmit(address_of(&beta), &segment(1, &bytes(1, 700)), plain).unwrap();
        alpha.transmit(address_of(&beta), &segment(1, &bytes(1, 700)), Offload::default()).unwrap();
        bench.settle();
        let verified: Vec<bool> =
            std::iter::from_fn(|| heard.try_next()).map(|p| p.full_checksum_ok).collect();
        assert_eq!(verified, [true, false], "the second one went out as it was, with no checksum");
    });
}

#[test]
fn a_large_send_that_is_no_tcp_over_ipv4_is_dropped_and_counted() {
    Setup { hca: all, ..Setup::default() }.run(|bench| {
        let (alpha, beta, heard) = bench.talking(IPV4);
        let mut udp = segment(1, &bytes(1, 9_000));
        udp[9] = 17;
        let mut long_header = segment(1, &bytes(1, 9_000));
        long_header[32] = 0;
        let before = bench.alpha.statistics().oerrors;
        for packet in [udp, long_header, vec![0x45; 30]] {
            alpha.transmit(address_of(&beta), &packet, LARGE).unwrap();
        }
        bench.settle();
        assert!(heard.try_next().is_none());
        assert_eq!(bench.alpha.statistics().oerrors - before, 3, "packets dropped are output errors");
        assert_eq!(bench.alpha.counter("tx_drop_malformed"), 3);
    });
}

const RINGS: &[(&str, i32)] = &[("ibd_rx_rings", 1), ("ibd_tx_rings", 4)];

/// Large sends of sixteen connections in turn: every byte arrives, each connection's in order, and every ring carries some.
fn large_sends_of_many_flows_arrive(bench: &Bench) {
    bench.alpha.set("_ibd_num_lso_bufs", "512").unwrap();
    bench.beta.set("_ibd_ud_num_rwqe", "8000").unwrap();
    let (alpha, beta, heard) = bench.talking(IPV4);
    let mut sent = vec![Vec::new(); 16];
    for round in 0..4 {
        for (flow, sent) in sent.iter_mut().enumerate() {
            let payload = bytes(16 * round + flow, 20_000);
            let mut packet = segment(sent.len() as u32, &payload);
            packet[21] = flow as u8;
            alpha.transmit(address_of(&beta), &packet, LARGE).unwrap();
            sent.extend_from_slice(&payload);
        }
    }
    bench.settle();
    let mut received = vec![Vec::new(); 16];
    for packet in std::iter::from_fn(|| heard.try_next()) {
        assert!(packet.full_checksum_ok, "a segment whose checksums do not hold");
        let sequence = u32::from_be_bytes(packet.payload[24..28].try_into().unwrap());
        let flow: &mut Vec<u8> = &mut received[usize::from(packet.payload[21])];
        assert_eq!(sequence as usize, flow.len(), "the byte of its connection that comes next");
        flow.extend_from_slice(&packet.payload[HEADERS..]);
    }
    assert!(received == sent, "{:?}", bench.beta.counters());
    assert_eq!(bench.alpha.counter("tx_large"), 64);
    let rings = transmit_ring_statistics(&bench.alpha.kernel, LINK).expect("the link is there");
    assert_eq!(rings.len(), 4);
    // A large send is fourteen packets.
    assert!(rings.iter().all(|ring| ring.packets >= 14), "{rings:?}");
    let (all, each) = (bench.alpha.statistics(), rings.iter());
    assert_eq!(each.clone().map(|ring| ring.packets).sum::<u64>(), all.opackets);
    assert_eq!(each.map(|ring| ring.bytes).sum::<u64>(), all.obytes);
}

#[test]
fn large_sends_of_many_flows_go_out_of_every_transmit_ring_whole_and_in_order() {
    Setup { hca: all, conf: RINGS, ..Setup::default() }.run(|bench| {
        large_sends_of_many_flows_arrive(bench);
        assert_eq!(bench.alpha.counter("tx_mapped"), 64);
    });
}

#[test]
fn every_transmit_ring_makes_its_own_buffers_for_large_sends_that_must_be_copied() {
    Setup { hca: without_reserved_key, conf: RINGS, ..Setup::default() }.run(|bench| {
        large_sends_of_many_flows_arrive(bench);
        assert_eq!(bench.alpha.counter("tx_mapped"), 0);
    });
}
