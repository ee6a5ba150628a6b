//! What a packet costs: calls, completions, and what is kept of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use fabric::wire::Packet;
use fabric::{Direction, Guid, Hca, Reason, Tap};
use fakekernel::{Ctx, Nanos, Thread};
use lab_gldv3::{LinkAddress, Offload, Stream};

use crate::bench::{Bench, Host, PLAIN, Setup, address_of, group, holds};

const IPOIB_HEADER: usize = 4;
const CACHE_LINE: u64 = 64;

fn adapter_of(bench: &Bench, host: &Host) -> Hca {
    bench.world.fabric().hca(host.adapter()).expect("it is plugged in")
}

/// Sends `count` packets, as fast as a sender that looks up from time to time.
fn send_all(from: &Stream, to: impl Fn(u32) -> LinkAddress, count: u32) {
    for n in 0..count {
        from.transmit(to(n), &[0; 100], Offload::default()).expect("the stream is bound");
        if n % 64 == 63 {
            fakekernel::sleep(Nanos::from_millis(5));
        }
    }
}

/// Groups have one queue pair number, as the hosts of a cluster do that were installed alike.
#[test]
fn an_address_among_two_hundred_with_one_queue_pair_number_costs_what_it_costs_alone() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| {
        const GROUPS: u32 = 200;
        const PACKETS: u32 = 2_000;
        let (alpha, beta, _heard) = bench.talking(PLAIN);
        let nth = |n: u32| group(0x0008_0000 + n % GROUPS);
        (0..GROUPS).for_each(|n| beta.enable_multicast(nth(n)).expect("a group"));
        bench.settle();
        // Each is joined and known after this.
        (0..2 * GROUPS).for_each(|n| {
            send_all(&alpha, |_| nth(n), 1);
            fakekernel::sleep(Nanos::from_millis(10));
        });
        bench.settle();
        let cost = |to: &dyn Fn(u32) -> LinkAddress| {
            let (before, sent) = (bench.alpha.kernel_calls(), bench.alpha.statistics().opackets);
            send_all(&alpha, to, PACKETS);
            bench.settle();
            assert_eq!(bench.alpha.statistics().opackets - sent, u64::from(PACKETS), "all were sent");
            (bench.alpha.kernel_calls() - before) as f64 / f64::from(PACKETS)
        };
        let alone = cost(&|_| nth(7));
        let among = cost(&nth);
        assert!(
            among < alone + 4.0,
            "{alone:.1} calls a packet to one group, {among:.1} to {GROUPS} in turn"
        );
    });
}

/// Which packets left on which thread: of whom by whom, and how many.
#[derive(Default)]
struct Posted(Mutex<BTreeMap<(u8, u64), u64>>);

/// Records them where they leave the port.
struct OnTheWay {
    port: Guid,
    posted: Arc<Posted>,
}

impl Tap for OnTheWay {
    fn frame(&self, _: fabric::Nanos, port: Guid, way: Direction, _: Option<Reason>, bytes: &[u8]) {
        if port != self.port || way != Direction::ToSwitch {
            return;
        }
        let packet = Packet::parse(bytes).expect("the fabric made it");
        let Some(sender) = packet.payload.get(IPOIB_HEADER) else { return };
        let by = Thread::current().did();
        *self.posted.0.lock().expect("nobody panics").entry((*sender, by)).or_default() += 1;
    }
}

/// A lock that every ring's misses and every ARP packet take.
#[test]
fn a_flood_at_a_peer_that_is_gone_takes_no_more_locks_than_one_at_a_peer_that_is_there() {
    holds(|bench| {
        const PACKETS: u32 = 500;
        let (alpha, beta, _heard) = bench.talking(PLAIN);
        let there = address_of(&beta);
        let mut gone = there;
        gone.0[12..].fill(0xee);
        // Until its path is denied, so long that no second question falls into what is counted.
        for _ in 0..6 {
            send_all(&alpha, |_| gone, 1);
            fakekernel::sleep(Nanos::from_secs(40));
        }
        send_all(&alpha, |_| gone, 1);
        bench.settle();
        let locks = |to: LinkAddress| {
            let (before, dropped) =
                (bench.alpha.calls("mutex_enter"), bench.alpha.counter("tx_drop_unreachable"));
            (0..PACKETS).for_each(|_| send_all(&alpha, |_| to, 1));
            let dropped = bench.alpha.counter("tx_drop_unreachable") - dropped;
            assert_eq!(dropped, if to == there { 0 } else { u64::from(PACKETS) });
            bench.alpha.calls("mutex_enter") - before
        };
        let (to_nobody, to_beta) = (locks(gone), locks(there));
        assert!(
            to_nobody <= to_beta + 20,
            "{to_nobody} locks for {PACKETS} packets to nobody, {to_beta} to beta"
        );
    });
}

#[test]
fn nobody_posts_the_packets_of_others() {
    Setup { seeds: 8, ..Setup::default() }.run(|bench| {
        const SENDERS: u8 = 4;
        const EACH: u64 = 200;
        let (alpha, beta, _heard) = bench.talking(PLAIN);
        let (alpha, to) = (Arc::new(alpha), address_of(&beta));
        let posted = Arc::new(Posted::default());
        let tap = OnTheWay { port: bench.alpha.port(), posted: posted.clone() };
        bench.world.fabric().set_tap(Some(Arc::new(tap)));
        let senders: Vec<(u8, Thread)> = (1..=SENDERS)
            .map(|sender| {
                let alpha = alpha.clone();
                let body = move || {
                    for _ in 0..EACH {
                        alpha.transmit(to, &[sender; 100], Offload::default()).expect("the stream is bound");
                    }
                };
                (sender, bench.alpha.kernel.spawn("sender", Ctx::Kernel, body))
            })
            .collect();
        senders.iter().for_each(|(_, thread)| thread.join());
        bench.settle();
        bench.world.fabric().set_tap(None);
        let expected: BTreeMap<(u8, u64), u64> =
            senders.iter().map(|(sender, thread)| ((*sender, thread.did()), EACH)).collect();
        let posted = posted.0.lock().expect("nobody panics").clone();
        let all: u64 = posted.values().sum();
        assert_eq!(all, EACH * u64::from(SENDERS), "all left");
        let foreign: u64 =
            posted.iter().filter(|(by, _)| !expected.contains_key(by)).map(|(_, count)| count).sum();
        assert_eq!(foreign, 0, "packets that another thread than their sender's posted, of {all}");
    });
}

#[test]
fn a_copied_packet_is_free_before_its_send_completes() {
    holds(|bench| {
        let (alpha, beta, _heard) = bench.talking(PLAIN);
        bench.settle();
        let late = fabric::Nanos(2_000_000_000);
        adapter_of(bench, &bench.alpha).set_late_interrupts(Some((late, late)));
        let before = bench.alpha.messages_kept();
        for _ in 0..100 {
            alpha.transmit(address_of(&beta), &[1; 1_000], Offload::default()).expect("the stream is bound");
        }
        let kept = bench.alpha.messages_kept() - before;
        assert_eq!(kept, 0, "blocks of 100 packets that were sent are kept");
        adapter_of(bench, &bench.alpha).set_late_interrupts(None);
    });
}

#[test]
fn few_sends_complete_and_they_tell_about_all() {
    holds(|bench| {
        const SENDS: u32 = 6_400;
        let (alpha, beta, _heard) = bench.talking(PLAIN);
        let hca = adapter_of(bench, &bench.alpha);
        let completed = || -> u64 { hca.qpns().into_iter().filter_map(|qpn| hca.sends_completed(qpn)).sum() };
        let before = completed();
        let to = address_of(&beta);
        send_all(&alpha, |_| to, SENDS);
        bench.settle();
        let made = completed() - before;
        // One in 64, and a few that nothing came behind.
        assert!((90..=160).contains(&made), "{made} completions for {SENDS} sends");
    });
}

#[test]
fn a_slow_reader_of_short_packets_keeps_no_buffer_of_the_adapter() {
    holds(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let hca = adapter_of(bench, &bench.beta);
        let posted = || hca.qpns().into_iter().filter_map(|qpn| hca.receives_posted(qpn)).max();
        let ring = posted();
        let held = beta.hold_received();
        let to = address_of(&beta);
        send_all(&alpha, |_| to, 400);
        bench.settle();
        assert_eq!((held.len(), std::iter::from_fn(|| heard.try_next()).count()), (400, 400));
        assert_eq!(posted(), ring, "receives posted while a reader keeps 400 packets of 100 bytes");
    });
}

#[test]
fn no_two_receive_buffers_share_a_cache_line() {
    holds(|bench| {
        let (_alpha, _beta, _heard) = bench.talking(PLAIN);
        let hca = adapter_of(bench, &bench.beta);
        let of = |qpn| hca.receive_buffers(qpn).expect("it is there");
        let buffers = hca.qpns().into_iter().map(of).max_by_key(Vec::len).expect("a ring");
        assert!(buffers.len() >= 500, "{} receives are posted", buffers.len());
        let (mut lines, mut astray) = (BTreeSet::new(), 0);
        for piece in buffers.iter().flatten() {
            let (first, last) = (piece.va / CACHE_LINE, (piece.va + u64::from(piece.len) - 1) / CACHE_LINE);
            let shared = (first..=last).filter(|line| !lines.insert(*line)).count();
            astray += usize::from(shared != 0 || piece.va % CACHE_LINE != 0);
        }
        assert_eq!(astray, 0, "of {} buffers share a line or begin within one", buffers.len());
    });
}

/// Cache lines of alpha's driver in which a word has grown by so much since `before`.
fn lines_grown_by(bench: &Bench, before: &BTreeMap<usize, u64>, growth: u64) -> BTreeSet<usize> {
    let after = bench.alpha.words();
    let grown = |(addr, value): &(&usize, &u64)| {
        before.get(addr).is_some_and(|before| before.wrapping_add(growth) == **value)
    };
    after.iter().filter(grown).map(|(addr, _)| addr / CACHE_LINE as usize).collect()
}

#[test]
fn what_is_counted_as_sent_and_what_as_received_share_no_cache_line() {
    holds(|bench| {
        // Unlikely for anything that is no count of packets.
        const SENT: u32 = 1_009;
        const RECEIVED: u32 = 1_013;
        let (alpha, beta, _heard) = bench.talking(PLAIN);
        let (here, there) = (address_of(&alpha), address_of(&beta));
        send_all(&beta, |_| here, 1);
        bench.settle();
        let before = bench.alpha.words();
        send_all(&alpha, |_| there, SENT);
        bench.settle();
        let sent = lines_grown_by(bench, &before, SENT.into());
        let before = bench.alpha.words();
        send_all(&beta, |_| here, RECEIVED);
        bench.settle();
        let received = lines_grown_by(bench, &before, RECEIVED.into());
        assert!(!sent.is_empty() && !received.is_empty(), "no count was found");
        let both = sent.intersection(&received).count();
        assert_eq!(both, 0, "lines with counts of packets of both directions");
    });
}
