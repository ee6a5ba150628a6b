//! On which thread received packets go up, and in which order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fakekernel::{Config, Thread};
use lab_gldv3::{Destination, Received, Stream};

use crate::rig::{Driver, Host, LINK, examine, run};
use crate::{IP, PEER, settle};

/// Where packets came up, in order: the thread's id and the packet.
type Seen = Arc<Mutex<Vec<(u64, Received)>>>;

fn listening(driver: &Driver, sap: u32) -> (Stream, Seen) {
    let stream = Stream::open(&driver.host.kernel, LINK).expect("the link is there");
    let seen = Seen::default();
    let list = seen.clone();
    stream.on_receive(move |packet| list.lock().unwrap().push((Thread::current().did(), packet)));
    stream.bind(sap).expect("a legal SAP");
    (stream, seen)
}

#[test]
fn packet_alone_goes_up_on_the_drivers_own_thread() {
    examine(|host| {
        let driver = host.driver();
        let (stream, seen) = listening(&driver, IP);
        driver.call("probe_rx", 1);
        // It has arrived when mac_rx returns.
        let packets = std::mem::take(&mut *seen.lock().unwrap());
        let [(thread, packet)] = &packets[..] else { panic!("{packets:?}") };
        assert_eq!(*thread, Thread::current().did());
        assert_eq!((packet.source, packet.sap, packet.kind), (Some(PEER), 0x800, Destination::Unicast));
        assert_eq!(packet.payload.len(), 36);
        drop(stream);
        driver.leave();
    });
}

#[test]
fn packets_of_a_chain_go_up_on_other_threads() {
    examine(|host| {
        let driver = host.driver();
        let (stream, seen) = listening(&driver, IP);
        driver.call("probe_rx", 2);
        settle();
        let threads: Vec<u64> = seen.lock().unwrap().iter().map(|(thread, _)| *thread).collect();
        assert_eq!(threads.len(), 2);
        assert!(!threads.contains(&Thread::current().did()), "{threads:?}");
        drop(stream);
        driver.leave();
    });
}

#[test]
fn each_flow_keeps_its_order_over_100_000_packets() {
    const PACKETS: i64 = 100_000;
    let result = run(Config::default(), |host: &Host| {
        let driver = host.driver();
        let stream = Stream::open(&host.kernel, LINK).expect("the link is there");
        // Per flow: packets seen, and how many came before their predecessor.
        let seen: Arc<Mutex<BTreeMap<u32, (u32, u32)>>> = Arc::default();
        let table = seen.clone();
        stream.on_receive(move |packet| {
            let word = |at: usize| u32::from_be_bytes(packet.payload[at..at + 4].try_into().unwrap());
            let (flow, sequence) = (word(28), word(32));
            let mut table = table.lock().unwrap();
            let (next, wrong) = table.entry(flow).or_default();
            *wrong += u32::from(sequence != *next);
            *next = sequence + 1;
        });
        stream.bind(IP).unwrap();
        assert!(stream.fanout() > 1, "flows are spread over several rings");
        driver.call("probe_rx_flows", PACKETS);
        settle();
        assert_eq!(stream.framework_drops(), (0, 0, 0));
        drop(stream);
        driver.leave();
        std::mem::take(&mut *seen.lock().unwrap())
    });
    let flows = result.unwrap_or_else(|halt| panic!("{halt}"));
    assert_eq!(flows.len(), 8);
    assert_eq!(flows.values().map(|(seen, _)| i64::from(*seen)).sum::<i64>(), PACKETS);
    assert!(flows.values().all(|(_, wrong)| *wrong == 0), "{flows:?}");
}

#[test]
fn type_nobody_is_bound_to_is_dropped_and_counted() {
    examine(|host| {
        let driver = host.driver();
        let (stream, seen) = listening(&driver, IP);
        driver.call("probe_rx_sap", 0x1234);
        driver.call("probe_rx", 3);
        settle();
        assert!(seen.lock().unwrap().is_empty());
        assert_eq!(stream.framework_drops().2, 3);
        drop(stream);
        driver.leave();
    });
}

#[test]
fn packet_shorter_than_its_header_is_dropped() {
    examine(|host| {
        let driver = host.driver();
        let (stream, seen) = listening(&driver, IP);
        driver.call("probe_rx_short", 0);
        settle();
        assert!(seen.lock().unwrap().is_empty());
        drop(stream);
        driver.leave();
    });
}

#[test]
fn packets_for_nobody_are_freed() {
    examine(|host| {
        let driver = host.driver();
        let (stream, seen) = listening(&driver, IP);
        stream.unbind().unwrap();
        driver.call("probe_rx", 5);
        settle();
        assert!(seen.lock().unwrap().is_empty());
        drop(stream);
        driver.leave();
    });
}
