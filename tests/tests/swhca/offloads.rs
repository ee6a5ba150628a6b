//! Checksums and large sends that the adapter does. What arrives is held to RFC 1071 here, not believed.

use lab_gldv3::{Layout, Offload, Received};
use lab_world::SoftwarePlan;
use swhca_ioctl::Counter;

use super::bench::{Bench, Open, Setup};

/// EtherType of IPv4.
const IPV4: u32 = 0x0800;
const MSS: usize = 1448;
const HEADERS: usize = 20 + 32;
const LARGE: Offload = Offload { ip_checksum: false, full_checksum: true, large_send: Some(MSS as u16) };
const PLAIN: Offload = Offload { ip_checksum: false, full_checksum: true, large_send: None };

/// A TCP segment of IPv4 from 10.0.0.1 to 10.0.0.2 with `payload`, without checksums.
fn segment(sequence: u32, payload: &[u8]) -> Vec<u8> {
    let total = (HEADERS + payload.len()) as u16;
    let mut packet = vec![0; HEADERS];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    (packet[8], packet[9]) = (64, 6);
    packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    packet[20..24].copy_from_slice(&[0x12, 0x34, 0, 80]);
    packet[24..28].copy_from_slice(&sequence.to_be_bytes());
    (packet[32], packet[33]) = (8 << 4, 0x18);
    // Three options that do nothing fill the header up to 32 bytes.
    packet[40..52].fill(1);
    packet.extend_from_slice(payload);
    packet
}

fn sum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let sum: u32 =
        words.map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low))).sum();
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// Both checksums hold.
fn is_sound(packet: &[u8]) -> bool {
    let length = ((packet.len() - 20) as u16).to_be_bytes();
    sum(&[&packet[..20]]) == 0xffff && sum(&[&packet[12..20], &[0, 6], &length, &packet[20..]]) == 0xffff
}

/// The two links, which know each other.
fn talking(bench: &Bench) -> (Open, Open) {
    let (alpha, beta) = (bench.open_for(&bench.alpha, IPV4), bench.open_for(&bench.beta, IPV4));
    alpha.stream.transmit(beta.address(), &segment(0, b"hello"), PLAIN).expect("the stream is bound");
    assert!(is_sound(&beta.next().expect("it is heard")));
    (alpha, beta)
}

fn counter(bench: &Bench, counter: Counter) -> u64 {
    bench.software.counters().expect("the adapter answers")[counter as usize]
}

fn all_received(beta: &Open) -> Vec<Received> {
    fakekernel::sleep(fakekernel::Nanos::from_millis(500));
    std::iter::from_fn(|| beta.heard.try_next()).collect()
}

#[test]
fn checksums_that_the_adapter_computes_hold_and_it_vouches_for_them() {
    Setup::default().run(|bench| {
        let (alpha, beta) = talking(bench);
        for len in [0, 1, 75, 76, 77, 500, 1447, 1900] {
            let payload: Vec<u8> = (0..len).map(|n| (n * 13 + len) as u8).collect();
            alpha.stream.transmit(beta.address(), &segment(7, &payload), PLAIN).expect("the stream is bound");
            let packets = all_received(&beta);
            assert_eq!(packets.len(), 1);
            assert!(is_sound(&packets[0].payload), "{len} bytes");
            assert!(packets[0].full_checksum_ok);
            assert_eq!(&packets[0].payload[HEADERS..], payload);
        }
        assert!(counter(bench, Counter::Checksums) >= 8);
    });
}

#[test]
fn large_send_arrives_as_segments_that_hold() {
    Setup::default().run(|bench| {
        let (alpha, beta) = talking(bench);
        let writes = Layout { headers: HEADERS, block: 8192, offset: 132 };
        let payload: Vec<u8> = (0..60_000u32).map(|n| ((n * 31) >> 3) as u8).collect();
        let bytes = || {
            [Counter::SentBytes, Counter::CopiedBytes, Counter::ReadBytes].map(|name| counter(bench, name))
        };
        let before = bytes();
        alpha
            .stream
            .transmit_in_blocks(beta.address(), &segment(0, &payload), LARGE, writes)
            .expect("it is bound");
        let mut received = Vec::new();
        for packet in all_received(&beta) {
            assert!(is_sound(&packet.payload) && packet.full_checksum_ok);
            assert!(packet.payload.len() <= HEADERS + MSS);
            let sequence = u32::from_be_bytes(packet.payload[24..28].try_into().expect("four bytes"));
            assert_eq!(sequence as usize, received.len(), "the byte that comes next");
            received.extend_from_slice(&packet.payload[HEADERS..]);
        }
        assert!(received == payload, "{} of {} bytes, or others", received.len(), payload.len());
        assert_eq!(counter(bench, Counter::LargeSends), 1);
        let after = bytes();
        let [sent, copied, read] = [0, 1, 2].map(|which| after[which] - before[which]);
        let segments = payload.len().div_ceil(MSS);
        assert_eq!(sent as usize, payload.len() + segments * (4 + HEADERS), "4 bytes of IPoIB each");
        assert_eq!(copied, sent, "each byte once");
        assert_eq!(read as usize, payload.len(), "and read once more, for the checksums");
        assert_eq!(bench.alpha.counter("tx_mapped"), Some(1), "from where it was");
    });
}

#[test]
fn without_offloads_nothing_is_computed_and_nobody_vouches() {
    fn none(plan: &mut SoftwarePlan) {
        plan.conf = ["checksum", "lso", "reserved-lkey"].map(|name| (name.to_owned(), 0)).into();
    }
    Setup { seeds: 1, adapter: none, ..Setup::default() }.run(|bench| {
        let (alpha, beta) = (bench.open_for(&bench.alpha, IPV4), bench.open_for(&bench.beta, IPV4));
        // Of a client that asks for what it was not offered.
        let unfinished = segment(0, b"hello");
        alpha.stream.transmit(beta.address(), &unfinished, PLAIN).expect("the stream is bound");
        let packets = all_received(&beta);
        assert_eq!(packets.len(), 1);
        assert!(packets[0].payload == unfinished, "nobody has touched it");
        assert!(!packets[0].full_checksum_ok, "nobody vouches for it");
        assert_eq!(counter(bench, Counter::Checksums), 0);
    });
}
