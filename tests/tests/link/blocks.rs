//! Large sends in the blocks that applications write them in, wherever these begin: an adapter is given each page of a block apart,
//! takes fewer pieces than it says, and loses memory when a mapping does not fit.

use fabric::{Arithmetic, Call, Error, HcaConfig, Injection};
use fakekernel::Nanos;
use lab_gldv3::{Layout, Offload, Received};

use crate::bench::{Bench, IPV4, PLAIN, Setup, address_of};

const MSS: usize = 1448;
/// Payload of the largest send there is.
const LONGEST: usize = 65_535 - 80;
/// With time stamps TCP's header is 32 bytes, and without 20.
const WITH_STAMPS: usize = 20 + 32;
const WITHOUT: usize = 20 + 20;
const WRITES: [usize; 6] = [4096, 5 * 1024, 6 * 1024, 8192, 10 * 1024, 16_384];

/// A large send of TCP with headers of so many bytes and `len` bytes of payload, the first of which is number `first`.
fn large(headers: usize, first: usize, len: usize) -> Vec<u8> {
    let mut packet = vec![0; headers];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&((headers + len) as u16).to_be_bytes());
    packet[8..10].copy_from_slice(&[64, 6]);
    packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    packet[20..24].copy_from_slice(&[0x12, 0x34, 0, 80]);
    packet[24..28].copy_from_slice(&(first as u32).to_be_bytes());
    packet[32] = ((headers - 20) as u8 / 4) << 4;
    packet[33] = 0x18;
    packet[40..].fill(1);
    packet.extend((first..first + len).map(byte));
    packet
}

/// Byte number `n` of a stream.
fn byte(n: usize) -> u8 {
    ((n * 31) >> 3) as u8
}

/// Beta has heard exactly the bytes from `first` to `end` of alpha's stream, in order.
fn came(heard: impl Iterator<Item = Received>, headers: usize, first: usize, end: usize) -> bool {
    let mut next = first;
    for packet in heard {
        let sequence = u32::from_be_bytes(packet.payload[24..28].try_into().expect("a header")) as usize;
        let payload = &packet.payload[headers..];
        let right = payload.iter().zip(next..).all(|(got, n)| *got == byte(n));
        if !packet.full_checksum_ok || sequence != next || !right {
            return false;
        }
        next += payload.len();
    }
    next == end
}

const LARGE: Offload = Offload { ip_checksum: false, full_checksum: true, large_send: Some(MSS as u16) };

/// Sends that are as large as they can be, in blocks of each of these sizes, beginning at every 37th byte of a page and at its ends.
fn in_every_layout(bench: &Bench, headers: usize, writes: &[usize]) {
    let (alpha, beta, heard) = bench.talking(IPV4);
    let (to, own) = (address_of(&beta), address_of(&alpha));
    let mut first = 0;
    let starts = || (0..4096).step_by(37).chain([1, 4095]);
    for (block, offset) in writes.iter().flat_map(|block| starts().map(move |at| (*block, at))) {
        let layout = Layout { headers, block, offset };
        alpha.transmit_in_blocks(to, &large(headers, first, LONGEST), LARGE, layout).unwrap();
        fakekernel::sleep(Nanos::from_millis(2));
        let end = first + LONGEST;
        let packets = std::iter::from_fn(|| heard.try_next());
        assert!(
            came(packets, headers, first, end),
            "{layout:?}: not every byte came; {:?}, {:?}",
            bench.alpha.counters(),
            bench.alpha.console()
        );
        assert_eq!(address_of(&alpha), own, "{layout:?}: another queue pair: {:?}", bench.alpha.console());
        first = end;
    }
}

fn hermon(config: &mut HcaConfig) {
    config.attr = fabric::HcaAttr::with_offloads();
    assert_eq!(config.attr.arithmetic, Arithmetic::Hermon);
}

/// One that takes as many pieces as it says, half of what others take.
fn exact(config: &mut HcaConfig) {
    hermon(config);
    (config.attr.arithmetic, config.attr.ud_send_sgl) = (Arithmetic::Exact, 28);
}

#[test]
fn large_sends_in_blocks_of_any_size_and_start_arrive_whole_and_from_one_queue_pair() {
    for hca in [hermon, exact] {
        let once = Setup { hca, seeds: 1, ..Setup::default() };
        once.run(|bench| {
            in_every_layout(bench, WITH_STAMPS, &WRITES);
            assert!(bench.alpha.counter("tx_mapped") > 0, "all were copied");
        });
        once.run(|bench| in_every_layout(bench, WITHOUT, &WRITES));
    }
}

/// What `ibt_map_mem_iov` loses is found when the driver is unloaded.
#[test]
fn a_large_send_in_more_pages_than_the_adapter_takes_is_copied_and_no_memory_is_lost() {
    Setup { hca: hermon, seeds: 1, ..Setup::default() }
        .run(|bench| in_every_layout(bench, WITH_STAMPS, &[1448, 2100, 4096]));
}

/// The adapter of alpha refuses the next send but so many.
fn refuse_a_send(bench: &Bench, skip: u32, error: Error) {
    let hca = bench.world.fabric().hca(bench.alpha.adapter()).expect("it is plugged in");
    hca.inject(Call::PostSend, Injection { skip, times: 1, error });
}

const WAITING: u32 = 8;

/// Of the packets that wait for their path, and are posted together, the adapter refuses one.
fn one_is_refused<const WHICH: u32>(bench: &Bench) {
    let (alpha, _) = bench.alpha.open_up(PLAIN);
    let (beta, heard) = bench.beta.open_up(PLAIN);
    let own = address_of(&alpha);
    let reasons = [Error::ChanSglLenInvalid, Error::ChanOpTypeInvalid, Error::AhHdlInvalid];
    refuse_a_send(bench, WHICH, reasons[WHICH as usize % 3]);
    for n in 0..WAITING {
        alpha.transmit(address_of(&beta), &[n as u8; 60], Offload::default()).unwrap();
    }
    bench.settle();
    let came = || std::iter::from_fn(|| heard.try_next()).map(|packet| u32::from(packet.payload[0]));
    let (counters, console) = (bench.alpha.counters(), bench.alpha.console());
    assert!(came().eq((0..WAITING).filter(|n| *n != WHICH)), "{counters:?}, {console:?}");
    assert_eq!(bench.alpha.counter("tx_drop_refused"), 1);
    assert_eq!(address_of(&alpha), own, "another queue pair: {console:?}");
    assert!(console.iter().any(|line| line.contains("the adapter refused to send a packet")), "{console:?}");
    // More than there is room for, unless sends complete as before.
    for n in 0..1000 {
        alpha.transmit(address_of(&beta), &[n as u8; 60], Offload::default()).unwrap();
    }
    bench.settle();
    assert_eq!(came().count(), 1000, "{:?}", bench.alpha.counters());
}

#[test]
fn a_packet_that_the_adapter_refuses_is_dropped_alone_and_those_behind_it_go_on() {
    for which in [one_is_refused::<0>, one_is_refused::<4>, one_is_refused::<{ WAITING - 1 }>] {
        Setup { hca: hermon, ..Setup::default() }.run(which);
    }
}

/// TCP sends the same blocks again.
#[test]
fn a_large_send_of_as_many_pieces_as_the_adapter_has_refused_is_copied_from_then_on() {
    Setup { hca: hermon, ..Setup::default() }.run(|bench| {
        let (alpha, beta, heard) = bench.talking(IPV4);
        let layout = Layout { headers: WITH_STAMPS, block: 8192, offset: 132 };
        let packet = large(WITH_STAMPS, 0, LONGEST);
        let sent = |mapped: u64| {
            alpha.transmit_in_blocks(address_of(&beta), &packet, LARGE, layout).unwrap();
            bench.settle();
            assert_eq!(bench.alpha.counter("tx_mapped"), mapped);
            came(std::iter::from_fn(|| heard.try_next()), WITH_STAMPS, 0, LONGEST)
        };
        refuse_a_send(bench, 0, Error::ChanSglLenInvalid);
        assert!(!sent(1) && sent(1), "{:?}, {:?}", bench.alpha.counters(), bench.alpha.console());
    });
}
