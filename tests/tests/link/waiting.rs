//! Packets whose path is known and whose transmit ring is full.

use std::sync::{Arc, Mutex};

use fabric::wire::Packet;
use fabric::{Direction, Guid, HcaConfig, Reason, Tap};
use fakekernel::Nanos;
use lab_gldv3::{LinkAddress, Offload, ReceiveQueue, Stream};
use sm::fault::FaultAction;
use sm::{Attribute, Lid};

use crate::bench::{Bench, PLAIN, Setup, address_of};

/// Sends that alpha's ring has room for.
const RING: u32 = 256;
/// The number of a broadcast that only takes room.
const FILLER: u32 = u32::MAX;
/// How long a send takes: longer than anything else here.
const LATENCY: Nanos = Nanos::from_secs(100);
/// Where the service level is in a path record, and the one that the subnet manager changes to.
const SL_AT: usize = 53;
const NEW_SL: u8 = 3;

fn slow(config: &mut HcaConfig) {
    config.send_latency = fabric::Nanos(LATENCY.0);
    config.attr.max_chan_sz = RING;
}

/// The service level of every frame for one queue pair, as they leave a port.
struct Levels {
    port: Guid,
    to: fabric::Qpn,
    seen: Mutex<Vec<(u32, u8)>>,
}

impl Tap for Levels {
    fn frame(&self, _: fabric::Nanos, port: Guid, way: Direction, _: Option<Reason>, bytes: &[u8]) {
        let packet = Packet::parse(bytes).expect("the fabric made it");
        if port != self.port || way != Direction::ToSwitch || packet.bth.dest != self.to {
            return;
        }
        self.seen.lock().expect("nobody panics").push((number_in(&packet.payload[4..]), packet.lrh.sl.get()));
    }
}

fn number_in(payload: &[u8]) -> u32 {
    u32::from_be_bytes(payload[..4].try_into().expect("four bytes at least"))
}

/// Sends a packet with this number in it.
fn send(from: &Stream, to: LinkAddress, number: u32) {
    from.transmit(to, &number.to_be_bytes().repeat(8), Offload::default()).expect("the stream is bound");
}

fn heard_in_order(heard: &ReceiveQueue, count: u32) {
    let all = std::iter::from_fn(|| heard.try_next()).map(|packet| number_in(&packet.payload));
    let numbers: Vec<u32> = all.filter(|number| *number != FILLER).collect();
    let first = numbers.iter().zip(0..).find(|(number, at)| *number != at);
    assert!(numbers.len() == count as usize && first.is_none(), "{} of {count}, {first:?}", numbers.len());
}

/// Eight packets to beta wait for a ring that is full, and their path is known. What alpha hears at beta.
fn eight_wait_for_room(bench: &Bench) -> (Stream, LinkAddress, (Stream, ReceiveQueue)) {
    bench.alpha.set("_ibd_tx_timeout", "0").unwrap();
    bench.beta.set("_ibd_ud_num_rwqe", "8000").unwrap();
    let (alpha, _) = bench.alpha.open_up(PLAIN);
    let (beta, heard) = bench.beta.open_up(PLAIN);
    let to = address_of(&beta);
    let everyone = alpha.details().broadcast;
    send(&alpha, everyone, FILLER);
    bench.settle();
    bench.fault(Attribute::PATH_RECORD, None, Some(1), FaultAction::Delay(sm::Nanos(100_000_000)));
    (0..8).for_each(|number| send(&alpha, to, number));
    (1..RING).for_each(|_| send(&alpha, everyone, FILLER));
    bench.settle();
    assert_eq!(
        (alpha.transmit_queue(), bench.alpha.counter("sa_paths")),
        (0, 1),
        "the ring is full, and nobody was refused"
    );
    assert!(heard.try_next().is_none());
    (alpha, to, (beta, heard))
}

#[test]
fn a_path_that_changes_while_packets_wait_for_room_is_the_new_one_for_all_that_leave_after() {
    Setup { hca: slow, ..Setup::default() }.run(|bench| {
        let (alpha, to, (_beta, heard)) = eight_wait_for_room(bench);
        let qpn = u32::from_be_bytes([0, to.0[1], to.0[2], to.0[3]]);
        let levels = Arc::new(Levels {
            port: bench.alpha.port(),
            to: fabric::Qpn::truncating(qpn),
            seen: Mutex::default(),
        });
        bench.world.fabric().set_tap(Some(levels.clone()));
        bench.fault(
            Attribute::PATH_RECORD,
            None,
            None,
            FaultAction::Overwrite { at: SL_AT, bytes: &[NEW_SL] },
        );
        bench.sm.stop();
        bench.sm.restart(Lid(Lid::FIRST_MULTICAST.0 + 16));
        bench.wait_for("the path is looked up again", LATENCY, || bench.alpha.counter("sa_paths") == 2);
        bench.no_faults();
        assert_eq!(levels.seen.lock().unwrap().len(), 0, "nothing has left");
        fakekernel::sleep(LATENCY);
        (8..40).for_each(|number| send(&alpha, to, number));
        fakekernel::sleep(LATENCY);
        fakekernel::sleep(LATENCY);
        bench.world.fabric().set_tap(None);
        let old: Vec<_> =
            levels.seen.lock().unwrap().iter().filter(|(_, sl)| *sl != NEW_SL).copied().collect();
        assert!(old.is_empty(), "packets that left by the old path, and its service level: {old:?}");
        heard_in_order(&heard, 40);
    });
}

#[test]
fn no_packet_overtakes_those_that_wait_for_room() {
    Setup { hca: slow, seeds: 8, ..Setup::default() }.run(|bench| {
        let (alpha, to, (_beta, heard)) = eight_wait_for_room(bench);
        (8..400).for_each(|number| send(&alpha, to, number));
        fakekernel::sleep(LATENCY - Nanos::from_millis(600));
        for number in 400..2_000 {
            fakekernel::sleep(Nanos::from_micros(500));
            send(&alpha, to, number);
        }
        (0..12).for_each(|_| fakekernel::sleep(LATENCY));
        heard_in_order(&heard, 2_000);
    });
}
