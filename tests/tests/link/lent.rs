//! Receive buffers that somebody above the link keeps for long.

use std::collections::BTreeSet;

use fakekernel::{Errno, Nanos};
use lab_gldv3::{LinkState, Offload};
use sm::partition::GroupParams;
use sm::{MtuCode, Partition};

use crate::bench::{Bench, PLAIN, Setup, address_of, holds, partition};

/// More than is copied, so that the adapter's own buffer goes up.
const LONG: [u8; 1_000] = [7; 1_000];

#[test]
fn a_slow_reader_keeps_its_buffers_and_the_ring_never_runs_dry() {
    holds(|bench| {
        bench.beta.set("_ibd_ud_num_rwqe", "512").unwrap();
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let hca = bench.world.fabric().hca(bench.beta.adapter()).expect("beta's");
        let posted = || hca.qpns().into_iter().filter_map(|qpn| hca.receives_posted(qpn)).max();
        let ring = posted().expect("a ring");
        let held = beta.hold_received();
        let mut count = 0;
        for minute in 0..5 {
            for _ in 0..400 {
                alpha.transmit(address_of(&beta), &LONG, Offload::default()).unwrap();
                count += 1;
                if count % 100 == 0 {
                    fakekernel::sleep(Nanos::from_millis(10));
                }
            }
            fakekernel::sleep(Nanos::from_secs(60));
            let arrived = std::iter::from_fn(|| heard.try_next()).count();
            assert_eq!(arrived, 400, "arrived in minute {minute}: {:?}", bench.beta.counters());
            assert!(posted() >= Some(ring / 2), "{:?} of {ring} receives are posted", posted());
        }
        assert_eq!(held.len(), count);
        let lent = bench.beta.counter("rx_lent");
        assert_eq!(lent, 512, "half of the buffers stay with the adapter: {:?}", bench.beta.counters());
        held.release();
        alpha.transmit(address_of(&beta), &LONG, Offload::default()).unwrap();
        bench.settle();
        assert_eq!(bench.beta.counter("rx_lent"), lent + 1, "what came home is lent again");
        assert_eq!(posted(), Some(ring), "and posted again");
    });
}

#[test]
fn a_link_stops_at_once_and_goes_when_what_it_has_lent_is_back() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let held = beta.hold_received();
        for _ in 0..20 {
            alpha.transmit(address_of(&beta), &LONG, Offload::default()).unwrap();
        }
        bench.settle();
        let before = bench.machine.now();
        drop((beta, heard));
        let took = bench.machine.now().since(before);
        assert!(took < Nanos::from_secs(1), "closing took {took}");
        assert_eq!(bench.beta.try_unload(), Err(Errno::EBUSY));
        let console = bench.beta.console();
        assert!(
            console.iter().any(|line| line.contains("received packets that a program has not read")),
            "{console:?}"
        );
        held.release();
        bench.settle();
        // The bench unloads the driver at the end, and finds nothing left.
    });
}

#[test]
fn an_adapter_goes_although_its_buffers_are_lent() {
    holds(|bench| {
        let (alpha, beta, _heard) = bench.talking(PLAIN);
        let held = beta.hold_received();
        for n in 0..20 {
            alpha.transmit(address_of(&beta), &[n; 1_000], Offload::default()).unwrap();
        }
        bench.settle();
        assert_eq!(held.len(), 20);
        let node = fabric::Guid(bench.beta.port().0 - 1);
        bench.world.remove_hca(&bench.beta.kernel, node).expect("everything on it is freed");
        bench.wait_for("the link is down", Nanos::from_secs(1), || bench.beta.state() == LinkState::Down);
        drop(held);
    });
}

/// The default partition, whose broadcast group has this MTU.
fn with_mtu(mtu: MtuCode) -> Partition {
    partition(false).with_ipoib(GroupParams { mtu, ..GroupParams::default() })
}

/// Bytes of the receive buffers that beta's adapter has, each size once.
fn sizes_posted(bench: &Bench) -> BTreeSet<u32> {
    let hca = bench.world.fabric().hca(bench.beta.adapter()).expect("beta's");
    let buffers = hca.qpns().into_iter().filter_map(|qpn| hca.receive_buffers(qpn)).flatten();
    buffers.map(|pieces| pieces.iter().map(|piece| piece.len).sum()).collect()
}

#[test]
fn buffers_follow_the_mtu_of_the_broadcast_group_although_some_of_before_are_lent() {
    const GRH: u32 = 40;
    fn large(config: &mut fabric::HcaConfig) {
        config.ports[0].mtu = fabric::Mtu::M4096;
    }
    Setup { hca: large, ..Setup::default() }.run(|bench| {
        let (alpha, beta, _) = bench.talking(PLAIN);
        let held = beta.hold_received();
        for _ in 0..20 {
            alpha.transmit(address_of(&beta), &LONG, Offload::default()).unwrap();
        }
        bench.settle();
        assert_eq!(held.len(), 20);
        drop((alpha, beta));
        bench.settle();
        bench.sm.set_partitions(vec![partition(false)]);
        bench.settle();
        bench.sm.set_partitions(vec![with_mtu(MtuCode::B4096)]);
        bench.settle();
        let (alpha, beta, heard) = bench.talking(PLAIN);
        assert_eq!(beta.details().max_sdu, 4_092);
        held.release();
        bench.settle();
        let sizes = sizes_posted(bench);
        let enough = sizes.iter().all(|size| *size >= 4_096 + GRH);
        assert!(enough, "receive buffers of {sizes:?} bytes on a link with an MTU of 4096");
        let largest: Vec<u8> = (0..4_092_u32).map(|n| n as u8).collect();
        for _ in 0..1_000 {
            alpha.transmit(address_of(&beta), &largest, Offload::default()).unwrap();
            bench.wait_for("a packet as long as the link's MTU", Nanos::from_secs(1), || {
                heard.try_next().is_some_and(|packet| packet.payload == largest)
            });
        }
    });
}
