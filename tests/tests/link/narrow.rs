//! Ways that carry less than the link: what is too long for one is dropped and counted here, not lost in a switch.

use lab_gldv3::{LinkAddress, Offload, Stream};
use sm::Attribute;
use sm::fault::FaultAction;

use crate::bench::{Bench, IPV4, PLAIN, Setup, address_of, group, holds};

/// "Exactly 1024 bytes" in a record; IPoIB's header is among them.
const B1024: u8 = 0x80 | 3;
const LONGEST: usize = 1024 - 4;
/// Where a path record and a member record have their MTU.
const PATH_MTU: usize = 54;
const GROUP_MTU: usize = 38;

fn narrow(bench: &Bench, attribute: Attribute, at: usize) {
    bench.fault(attribute, None, None, FaultAction::Overwrite { at, bytes: &[B1024] });
}

/// Sends a packet, and says how many were dropped for their length meanwhile, and how many arrived.
fn sent(
    bench: &Bench,
    alpha: &Stream,
    heard: &lab_gldv3::ReceiveQueue,
    to: LinkAddress,
    len: usize,
) -> (u64, usize) {
    let before = bench.alpha.counter("tx_drop_too_long");
    alpha.transmit(to, &vec![0; len], Offload::default()).unwrap();
    bench.settle();
    let arrived =
        std::iter::from_fn(|| heard.try_next()).filter(|packet| packet.payload.len() == len).count();
    (bench.alpha.counter("tx_drop_too_long") - before, arrived)
}

#[test]
fn a_packet_too_long_for_the_way_to_its_port_is_dropped_and_counted() {
    holds(|bench| {
        narrow(bench, Attribute::PATH_RECORD, PATH_MTU);
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, heard) = bench.beta.open_up(PLAIN);
        let beta = address_of(&beta);
        // It waits for its way, and then the way is known.
        for known in [false, true] {
            assert_eq!(sent(bench, &alpha, &heard, beta, LONGEST + 1), (1, 0), "way known: {known}");
        }
        assert_eq!(sent(bench, &alpha, &heard, beta, LONGEST), (0, 1));
        bench.alpha.statistics();
        assert_eq!(bench.alpha.statistics().oerrors, 2);
    });
}

#[test]
fn a_packet_too_long_for_its_group_is_dropped_and_counted() {
    holds(|bench| {
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let (beta, heard) = bench.beta.open_up(PLAIN);
        beta.enable_multicast(group(0x0008_0001)).unwrap();
        bench.settle();
        narrow(bench, Attribute::MC_MEMBER_RECORD, GROUP_MTU);
        for known in [false, true] {
            let sent = sent(bench, &alpha, &heard, group(0x0008_0001), LONGEST + 1);
            assert_eq!(sent, (1, 0), "group known: {known}");
        }
        assert_eq!(sent(bench, &alpha, &heard, group(0x0008_0001), LONGEST), (0, 1));
    });
}

#[test]
fn a_large_send_of_segments_too_long_for_the_way_is_dropped_and_counted() {
    Setup { hca: |config| config.attr = fabric::HcaAttr::with_offloads(), ..Setup::default() }.run(|bench| {
        narrow(bench, Attribute::PATH_RECORD, PATH_MTU);
        let (alpha, _) = bench.alpha.open_up(IPV4);
        let (beta, heard) = bench.beta.open_up(IPV4);
        let segment = |len: u16| {
            let mut packet = vec![0; usize::from(len)];
            (packet[0], packet[9], packet[32]) = (0x45, 6, 5 << 4);
            packet[2..4].copy_from_slice(&len.to_be_bytes());
            packet
        };
        let large = |mss| Offload { full_checksum: true, large_send: Some(mss), ..Offload::default() };
        // Two headers of twenty bytes are in front of each segment.
        for (mss, dropped) in [(LONGEST as u16 - 40 + 1, 1), (LONGEST as u16 - 40, 0)] {
            let before = bench.alpha.counter("tx_drop_too_long");
            alpha.transmit(address_of(&beta), &segment(8_000), large(mss)).unwrap();
            bench.settle();
            let arrived = std::iter::from_fn(|| heard.try_next()).count();
            assert_eq!(bench.alpha.counter("tx_drop_too_long") - before, dropped, "segments of {mss}");
            assert_eq!(arrived > 0, dropped == 0, "segments of {mss}");
        }
    });
}
