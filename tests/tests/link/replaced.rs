//! A link whose queue pair is replaced: it broke, or the P_Key moved. Nobody else has to do anything about it.

use fabric::{PKey, Qpn};
use fakekernel::Nanos;
use lab_gldv3::{LinkAddress, LinkState, Offload, ReceiveQueue, Stream};

use crate::bench::{Bench, PLAIN, address_of, group, holds};

const SECOND: Nanos = Nanos::from_secs(1);
const GROUP: u32 = 0x0008_0001;

fn adapter(bench: &Bench) -> fabric::Hca {
    bench.world.fabric().hca(bench.alpha.adapter()).expect("alpha's")
}

fn qpn(address: LinkAddress) -> Qpn {
    let LinkAddress([_, a, b, c, ..]) = address;
    Qpn::truncating(u32::from_be_bytes([0, a, b, c]))
}

/// What may happen to alpha's queue pair.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Broken,
    PKeyMoved,
}

impl Blow {
    fn falls(self, bench: &Bench, alpha: &Stream) {
        match self {
            Self::Broken => {
                assert!(adapter(bench).break_qpn(qpn(address_of(alpha))), "it has another number")
            }
            Self::PKeyMoved => {
                let table = [PKey(0x7fff), PKey(0), PKey(0xffff)];
                bench.world.fabric().set_pkeys(bench.alpha.port(), &table).expect("alpha's port");
            }
        }
        let deadline = bench.machine.now() + SECOND;
        let was = bench.machine.now();
        while bench.alpha.state() == LinkState::Up && bench.machine.now() < was + Nanos::from_millis(20) {
            fakekernel::sleep(Nanos::from_micros(20));
        }
        while bench.alpha.state() != LinkState::Up {
            assert!(bench.machine.now() < deadline, "{self:?}: {:?}", bench.alpha.console());
            fakekernel::sleep(Nanos::from_micros(100));
        }
    }
}

fn send(from: &Stream, to: LinkAddress, bytes: &[u8]) {
    from.transmit(to, bytes, Offload::default()).expect("the stream is bound");
}

/// How long it takes until a packet that is sent every millisecond is heard.
fn heard_after(bench: &Bench, from: &Stream, to: LinkAddress, heard: &ReceiveQueue) -> Nanos {
    let before = bench.machine.now();
    loop {
        send(from, to, b"after it");
        fakekernel::sleep(Nanos::from_millis(1));
        let took = bench.machine.now().since(before);
        if std::iter::from_fn(|| heard.try_next()).any(|packet| packet.payload == b"after it") {
            return took;
        }
        assert!(took < SECOND, "not heard: {:?}", bench.alpha.console());
    }
}

/// Both links up and in a group that either has sent to; what alpha hears, and what beta.
fn in_a_group(bench: &Bench) -> (Stream, ReceiveQueue, Stream, ReceiveQueue) {
    let (alpha, at_alpha) = bench.alpha.open_up(PLAIN);
    let (beta, at_beta) = bench.beta.open_up(PLAIN);
    for stream in [&alpha, &beta] {
        stream.enable_multicast(group(GROUP)).expect("a group");
    }
    bench.settle();
    for (from, to) in [(&alpha, &beta), (&beta, &alpha)] {
        send(from, group(GROUP), b"before");
        send(from, address_of(to), b"before");
    }
    bench.settle();
    assert_eq!([&at_alpha, &at_beta].map(|heard| std::iter::from_fn(|| heard.try_next()).count()), [2, 2]);
    (alpha, at_alpha, beta, at_beta)
}

const SOON: Nanos = Nanos::from_millis(3);

fn groups_go_on_without_a_subnet_manager(bench: &Bench, blow: Blow) {
    let (alpha, at_alpha, beta, at_beta) = in_a_group(bench);
    bench.sm.stop();
    blow.falls(bench, &alpha);
    let took = heard_after(bench, &beta, group(GROUP), &at_alpha);
    assert!(took <= SOON, "{blow:?}: alpha hears its group after {took}");
    let took = heard_after(bench, &alpha, group(GROUP), &at_beta);
    assert!(took <= SOON, "{blow:?}: alpha reaches its group after {took}");
    let took = heard_after(bench, &alpha, address_of(&beta), &at_beta);
    assert!(took <= SOON, "{blow:?}: alpha reaches beta after {took}");
}

#[test]
fn a_queue_pair_that_breaks_without_a_subnet_manager_leaves_its_groups_as_they_are() {
    holds(|bench| groups_go_on_without_a_subnet_manager(bench, Blow::Broken));
}

#[test]
fn a_p_key_that_moves_without_a_subnet_manager_leaves_groups_as_they_are() {
    holds(|bench| groups_go_on_without_a_subnet_manager(bench, Blow::PKeyMoved));
}
