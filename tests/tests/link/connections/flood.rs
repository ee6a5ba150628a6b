//! Packets come faster than IP takes them, so whoever hands them up never finds that there are none left; and something else begins.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use fakekernel::Nanos;
use lab_gldv3::{LinkAddress, Offload, Promiscuity, Stream};

use super::guest::Guest;
use super::opened::set_connected;
use super::unwanted::{DONT_FRAGMENT, v4};
use super::{LEGACY, READY_TO_SEND, counted_by, pattern};
use crate::bench::{Bench, Host, IPV4, LINK, PLAIN, Setup, address_of};

/// What IP takes over one packet, and how many come before it is over with a few.
const EACH: Nanos = Nanos::from_micros(20);
const BURST: usize = 64;
const ROUNDS: usize = 200;
const FLOOD: usize = 60;

/// What a slow IP has heard: packets of the flood, and the others.
#[derive(Clone, Default)]
struct Heard {
    flood: Arc<AtomicUsize>,
    others: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Heard {
    fn others(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.others.lock().expect("nobody has panicked"))
    }
}

/// Opens a host's link. Who hands packets up shows them to somebody slow first, who listens to everything.
fn open_slow(bench: &Bench, host: &Host, sap: u32) -> ([Stream; 2], Heard) {
    host.set("_ibd_ud_num_rwqe", "4000").expect("it is closed");
    let heard = Heard::default();
    let (fed, machine) = (heard.clone(), bench.machine.clone());
    let slow = Stream::open_passive(&host.kernel, LINK).expect("the link is there");
    slow.on_receive(move |packet| {
        machine.0.spend(EACH);
        // Others run on other processors meanwhile.
        (0..32).for_each(|_| fakekernel::reschedule());
        fed.flood.fetch_add(usize::from(packet.payload.len() == FLOOD), Ordering::Relaxed);
    });
    slow.bind(sap).expect("the stream binds");
    slow.set_promiscuous(Promiscuity::Sap, true).expect("it may listen");
    let stream = Stream::open(&host.kernel, LINK).expect("the link is there");
    let fed = heard.clone();
    stream.on_receive(move |packet| {
        if packet.payload.len() != FLOOD {
            fed.others.lock().expect("nobody has panicked").push(packet.payload);
        }
    });
    stream.bind(sap).expect("the stream binds");
    ([stream, slow], heard)
}

/// Packets that come faster than they are taken.
struct Flood<'a> {
    from: &'a Stream,
    to: LinkAddress,
    heard: &'a Heard,
    sent: usize,
}

impl<'a> Flood<'a> {
    fn begin(from: &'a Stream, to: LinkAddress, heard: &'a Heard) -> Self {
        let before = heard.flood.load(Ordering::Relaxed);
        let mut flood = Self { from, to, heard, sent: before };
        (0..40).for_each(|_| flood.go_on());
        flood
    }

    fn go_on(&mut self) {
        let mut packet = [0; FLOOD];
        (packet[0], packet[3]) = (0x45, FLOOD as u8);
        for _ in 0..BURST {
            self.from.transmit(self.to, &packet, Offload::default()).expect("the stream is bound");
        }
        self.sent += BURST;
        fakekernel::sleep(EACH);
        let waiting = self.sent - self.heard.flood.load(Ordering::Relaxed);
        assert!(waiting > BURST / 2, "{waiting} packets are no flood");
    }

    /// Whether something comes to be so while the flood goes on.
    fn brings(&mut self, mut holds: impl FnMut() -> bool) -> bool {
        (0..ROUNDS).any(|_| {
            self.go_on();
            holds()
        })
    }
}

#[test]
fn a_connection_that_begins_while_datagrams_never_stop_coming_is_taken_from() {
    Setup { seeds: 4, machine: |config| config.switch_one_in = 1, ..Setup::default() }.run(|bench| {
        bench.beta.set("_ibd_rc_accept", "1").expect("it is closed");
        let (alpha, _) = bench.alpha.open_up(PLAIN);
        let ([beta, _slow], heard) = open_slow(bench, &bench.beta, PLAIN);
        bench.settle();
        let to = address_of(&beta);
        alpha.transmit(to, &[0; FLOOD], Offload::default()).expect("the stream is bound");
        bench.settle();
        let qpn = u32::from_be_bytes(to.0[..4].try_into().expect("four bytes")) & 0x00ff_ffff;
        let guest = Guest::new(bench, 1);
        guest.aim(&bench.beta, LEGACY + i64::from(qpn), 0x99, 65_524);
        let mut flood = Flood::begin(&alpha, to, &heard);
        guest.run("probe_begin", 0);
        let stands = || guest.ask("probe_state", 0) == READY_TO_SEND;
        assert!(flood.brings(stands), "it is not accepted");
        guest.send(0, 1_000, PLAIN);
        let came = || heard.others() == [pattern(1_000)];
        assert!(flood.brings(came), "{:?}", bench.beta.counters());
        bench.settle();
        guest.leave();
    });
}

#[test]
fn ip_hears_that_a_packet_is_too_long_while_datagrams_never_stop_coming() {
    for conf in [&[][..], &[("ibd_rx_rings", 1)]] {
        Setup { seeds: 4, conf, machine: |config| config.switch_one_in = 1, ..Setup::default() }.run(
            move |bench| {
                set_connected(&bench.alpha, true);
                let ([alpha, _slow], heard) = open_slow(bench, &bench.alpha, IPV4);
                let (beta, _) = bench.beta.open_up(IPV4);
                bench.settle();
                let own = address_of(&alpha);
                alpha.transmit(address_of(&beta), &v4(FLOOD, 0), Offload::default()).expect("it is bound");
                beta.transmit(own, &v4(FLOOD, 0), Offload::default()).expect("the stream is bound");
                bench.settle();
                let mut flood = Flood::begin(&beta, own, &heard);
                drop(heard.others());
                alpha
                    .transmit(address_of(&beta), &v4(3_000, DONT_FRAGMENT), Offload::default())
                    .expect("the stream is bound");
                let mut told = Vec::new();
                let is_told = || {
                    told.extend(heard.others());
                    !told.is_empty()
                };
                let succeeded = flood.brings(is_told);
                assert!(
                    succeeded,
                    "{conf:?}: too_big {} {:?} {:?}",
                    counted_by(&bench.alpha, "too_big"),
                    alpha.framework_drops(),
                    bench.alpha.counters()
                );
                assert_eq!((told.len(), told[0][9], &told[0][20..22]), (1, 1, &[3, 4][..]));
                assert_eq!(counted_by(&bench.alpha, "too_big"), 1);
                bench.settle();
            },
        );
    }
}
