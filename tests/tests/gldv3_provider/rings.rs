//! Rings: in which order a driver is asked for them and started, when its receive ring is polled, and where packets to send go.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use fakekernel::genunix::DevInfoSpec;
use fakekernel::{Ctx, Module};
use lab_gldv3::{Offload, Stream};

use crate::rig::{Host, examine};
use crate::{IP, PEER, settle};

const LINK: &str = "ring0";
const TX_RINGS: i64 = 3;
const REFUSE_TX: i64 = 9;
const REFUSE_ADDRESS: i64 = 10;

/// What the driver writes down; the order is that of the C source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Start,
    Stop,
    RingStart,
    RingStop,
    TxStart,
    TxStop,
    GroupStart,
    GroupStop,
    Add,
    Remove,
    Enable,
    Disable,
    Poll,
    Promisc,
}

use Event::{
    Add, Disable, Enable, GroupStart, GroupStop, Poll, Promisc, Remove, RingStart, RingStop, Start, Stop,
    TxStart, TxStop,
};

struct Driver {
    host: Host,
    module: Module,
    node: fakekernel::genunix::DevInfo,
}

impl Driver {
    fn attached(host: &Host) -> Self {
        let module = host.load("ring", "drv", &[]).expect("the driver installs");
        let spec = DevInfoSpec { name: "ring".into(), driver: "ring".into(), ..DevInfoSpec::default() };
        let node = host.kernel.add_device(spec);
        host.kernel.attach(&module, &node).expect("the driver attaches");
        Self { host: host.clone(), module, node }
    }

    fn call(&self, probe: &'static str, arg: i64) -> i64 {
        self.module.call_probe(probe, Some(Ctx::User), arg)
    }

    fn events(&self) -> Vec<Event> {
        const ALL: [Event; 14] = [
            Start, Stop, RingStart, RingStop, TxStart, TxStop, GroupStart, GroupStop, Add, Remove, Enable,
            Disable, Poll, Promisc,
        ];
        let event = |index| usize::try_from(self.call("probe_event", index)).ok().map(|event| ALL[event]);
        (0..).map_while(event).collect()
    }

    /// Without the polls and the switches of the interrupt, of which the seed says how many there are.
    fn steps(&self) -> Vec<Event> {
        self.events().into_iter().filter(|event| !matches!(event, Enable | Disable | Poll)).collect()
    }

    fn bound(&self) -> Stream {
        let stream = Stream::open(&self.host.kernel, LINK).expect("the link is there");
        stream.bind(IP).expect("a legal SAP");
        stream
    }

    fn leave(self) {
        self.host.kernel.detach(&self.module, &self.node).expect("nothing holds the link");
        self.module.unload().expect("no instance is left");
        assert_eq!(self.host.kernel.genunix().live_messages(), 0);
    }
}

#[test]
fn rings_start_behind_the_device_and_stop_before_it() {
    examine(|host| {
        let driver = Driver::attached(host);
        drop(driver.bound());
        assert_eq!(
            driver.steps(),
            [
                Start, TxStart, GroupStart, RingStart, TxStart, TxStart, Add, // and back
                Remove, TxStop, TxStop, RingStop, GroupStop, TxStop, Stop,
            ]
        );
        driver.leave();
    });
}

#[test]
fn group_is_given_the_address_that_was_announced_at_start() {
    examine(|host| {
        let driver = Driver::attached(host);
        let stream = driver.bound();
        let byte = |at| driver.call("probe_programmed", at);
        assert_eq!((byte(3), byte(4), byte(5)), (0x48, 0xfe, 0x80));
        assert!(!driver.events().contains(&Promisc));
        drop(stream);
        driver.leave();
    });
}

#[test]
fn link_whose_group_refuses_its_address_goes_promiscuous() {
    examine(|host| {
        let driver = Driver::attached(host);
        driver.call("probe_misdeed", REFUSE_ADDRESS);
        drop(driver.bound());
        let steps = driver.steps();
        assert_eq!(steps.iter().filter(|event| **event == Promisc).count(), 2, "{steps:?}");
        driver.leave();
    });
}

/// The packets of each flow, and how many came before their predecessor.
type Flows = Arc<Mutex<BTreeMap<u32, (u32, u32)>>>;

fn listening(driver: &Driver) -> (Stream, Flows) {
    let stream = Stream::open(&driver.host.kernel, LINK).expect("the link is there");
    let flows = Flows::default();
    let table = flows.clone();
    stream.on_receive(move |packet| {
        let word = |at: usize| u32::from_be_bytes(packet.payload[at..at + 4].try_into().unwrap());
        let (flow, sequence) = (word(28), word(32));
        let mut table = table.lock().unwrap();
        let (next, wrong) = table.entry(flow).or_default();
        *wrong += u32::from(sequence != *next);
        *next = sequence + 1;
    });
    stream.bind(IP).unwrap();
    (stream, flows)
}

#[test]
fn backlog_switches_to_polling_and_back_and_every_flow_keeps_its_order() {
    examine(|host| {
        let driver = Driver::attached(host);
        let (stream, flows) = listening(&driver);
        for _ in 0..20 {
            driver.call("probe_arrive", 50);
            settle();
            // What arrived while the ring was polled and was not fetched calls once the interrupt is on.
            while driver.call("probe_call", 0) != 0 {
                settle();
            }
        }
        settle();
        let events = driver.events();
        for expected in [Disable, Poll, Enable] {
            assert!(events.contains(&expected), "{events:?}");
        }
        let flows = std::mem::take(&mut *flows.lock().unwrap());
        assert_eq!(flows.values().map(|(seen, _)| seen).sum::<u32>(), 1_000);
        assert!(flows.values().all(|(_, wrong)| *wrong == 0), "{flows:?}");
        drop(stream);
        driver.leave();
    });
}

#[test]
fn interrupt_is_on_again_when_the_ring_is_stopped() {
    examine(|host| {
        let driver = Driver::attached(host);
        let (stream, _) = listening(&driver);
        driver.call("probe_arrive", 200);
        drop(stream);
        let events = driver.events();
        let switches = |which| events.iter().filter(|event| **event == which).count();
        assert_eq!(switches(Disable), switches(Enable), "{events:?}");
        driver.leave();
    });
}

/// An IPv4 packet with a UDP header that begins with this port.
fn udp(port: u16) -> Vec<u8> {
    let mut packet = vec![0; 36];
    packet[0] = 0x45;
    packet[3] = 36;
    packet[9] = 17;
    packet[12..16].copy_from_slice(&[10, 0, 0, 1]);
    packet[16..20].copy_from_slice(&[10, 0, 0, 2]);
    packet[20..22].copy_from_slice(&port.to_be_bytes());
    packet
}

fn sent(driver: &Driver) -> Vec<i64> {
    (0..TX_RINGS).map(|ring| driver.call("probe_sent", ring)).collect()
}

#[test]
fn flow_keeps_to_one_ring_and_flows_use_them_all() {
    examine(|host| {
        let driver = Driver::attached(host);
        let stream = driver.bound();
        let send =
            |port| stream.transmit(PEER, &udp(port), Offload::default()).expect("bound, and small enough");
        for _ in 0..10 {
            send(4_711);
        }
        let one = sent(&driver);
        assert_eq!(one.iter().filter(|count| **count == 10).count(), 1, "{one:?}");
        for port in 0..64 {
            send(port);
        }
        assert!(sent(&driver).iter().all(|count| *count > 0), "{:?}", sent(&driver));
        drop(stream);
        driver.leave();
    });
}

#[test]
fn refused_packet_waits_for_the_update_of_its_own_ring() {
    examine(|host| {
        let driver = Driver::attached(host);
        let stream = driver.bound();
        driver.call("probe_misdeed", REFUSE_TX);
        stream.transmit(PEER, &udp(4_711), Offload::default()).expect("bound, and small enough");
        settle();
        driver.call("probe_misdeed", 0);
        assert_eq!((stream.transmit_queue(), sent(&driver)), (1, vec![0, 0, 0]));
        // An update of no ring wakes nobody where there are rings, nor does one of another.
        driver.call("probe_update", 0);
        settle();
        assert_eq!(stream.transmit_queue(), 1);
        for ring in 0..TX_RINGS {
            driver.call("probe_ring_update", ring);
            settle();
        }
        assert_eq!((stream.transmit_queue(), sent(&driver).iter().sum::<i64>()), (0, 1));
        drop(stream);
        driver.leave();
    });
}

#[test]
fn packet_without_a_hint_goes_to_the_first_of_several_rings_and_is_dropped_if_refused() {
    examine(|host| {
        let driver = Driver::attached(host);
        let stream = driver.bound();
        let send = || stream.transmit_as(0x0806, PEER, &[0; 28], Offload::default()).expect("bound");
        send();
        assert_eq!(sent(&driver), [1, 0, 0]);
        driver.call("probe_misdeed", REFUSE_TX);
        send();
        settle();
        assert_eq!((stream.transmit_queue(), stream.framework_drops().1), (0, 1));
        drop(stream);
        driver.leave();
    });
}

#[test]
fn registration_that_contradicts_itself_is_refused() {
    // mc_unicst beside a receive group, a group that takes no addresses, transmit rings alone.
    for define in ["WITH_UNICST", "NO_ADDMAC", "NO_RX_RING"] {
        examine(move |host| {
            let module = host.load("ring", "drv", &[define]).expect("the driver installs");
            let spec = DevInfoSpec { name: "ring".into(), driver: "ring".into(), ..DevInfoSpec::default() };
            let node = host.kernel.add_device(spec);
            assert!(host.kernel.attach(&module, &node).is_err(), "{define}");
            assert!(
                host.log_since(0).iter().any(|line| line.contains("mac_register failed: 22")),
                "{define}"
            );
            module.unload().expect("no instance is left");
        });
    }
}
