//! Where each packet ends: what was given to a link is what another one has handed up, and what named counters say was lost on
//! the way, to the last packet.

use std::collections::BTreeMap;
use std::sync::Mutex;

use fabric::{LinkFaults, Probability};
use fakekernel::{FaultKind, FaultPlan, Nanos};
use ibdlab::packets::{Content, Target, inject};
use ibdlab::scenario::trouble::Malformed;
use lab_gldv3::{LinkAddress, LinkState, Offload, ReceiveQueue, Stream};
use sm::Attribute;
use sm::fault::FaultAction;

use crate::bench::{Bench, Host, PLAIN, Setup, address_of, group};

/// What every counter said at one moment.
#[derive(Clone, Debug, Default)]
struct Books(BTreeMap<String, u64>);

impl Books {
    fn of(bench: &Bench, receiver: &Stream) -> Self {
        let mut all = BTreeMap::new();
        for (host, name) in [(&bench.alpha, "alpha"), (&bench.beta, "beta")] {
            let counters = host.counters().into_iter();
            let named = counters.map(|(counter, value)| (format!("{name} {counter}"), value));
            all.extend(named);
            let statistics = host.statistics();
            all.insert(format!("{name} sent"), statistics.opackets);
            all.insert(format!("{name} received"), statistics.ipackets);
        }
        for (reason, count) in bench.world.fabric().drops() {
            all.insert(format!("fabric {}", reason.name()), count);
        }
        let (up, _, unknown) = receiver.framework_drops();
        all.insert("stack full".to_owned(), up);
        all.insert("stack unknown".to_owned(), unknown);
        Self(all)
    }

    fn since(&self, before: &Self) -> Self {
        let grown = |(name, now): (&String, &u64)| {
            let then = before.0.get(name).copied().unwrap_or(0);
            (*now != then).then(|| (name.clone(), now.wrapping_sub(then)))
        };
        Self(self.0.iter().filter_map(grown).collect())
    }

    fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// All that begin so.
    fn sum(&self, prefix: &str) -> u64 {
        self.0.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, count)| count).sum()
    }
}

/// What was done so far.
#[derive(Default)]
struct Done {
    given: u64,
    injected: u64,
}

impl Done {
    fn burst(&mut self, from: &Stream, to: LinkAddress, count: u64) {
        for _ in 0..count {
            from.transmit(to, &[0; 40], Offload::default()).expect("the stream is bound");
            self.given += 1;
        }
    }

    fn send(&mut self, from: &Stream, to: LinkAddress, len: usize, count: u64) {
        for n in 0..count {
            from.transmit(to, &vec![n as u8; len], Offload::default()).expect("the stream is bound");
            self.given += 1;
            if n % 64 == 63 {
                fakekernel::sleep(Nanos::from_millis(2));
            }
        }
    }
}

fn hca(bench: &Bench, host: &Host) -> fabric::Hca {
    bench.world.fabric().hca(host.adapter()).expect("it is plugged in")
}

fn up_again(bench: &Bench) {
    let up = || [&bench.alpha, &bench.beta].iter().all(|host| host.state() == LinkState::Up);
    bench.wait_for("both links up", Nanos::from_secs(60), up);
}

fn on_a_bad_cable(bench: &Bench, done: &mut Done, alpha: &Stream, to: LinkAddress) {
    let bad = LinkFaults {
        loss: Probability::per_million(50_000),
        corrupt: Probability::per_million(30_000),
        corrupt_inside: Probability::per_million(20_000),
        ..LinkFaults::default()
    };
    bench.world.fabric().set_faults(bench.beta.port(), bad, bad);
    done.send(alpha, to, 100, 500);
    done.send(alpha, to, 1_500, 500);
    bench.world.fabric().set_faults(bench.beta.port(), LinkFaults::default(), LinkFaults::default());
}

/// Peers that nobody is, and a group that nobody is in.
fn to_nobody(bench: &Bench, done: &mut Done, alpha: &Stream, to: LinkAddress) {
    for n in 0..4 {
        let mut stranger = to;
        stranger.0[12..].fill(0xee);
        stranger.0[19] = n;
        done.send(alpha, stranger, 40, 200);
    }
    // More than wait for one path.
    bench.fault(Attribute::PATH_RECORD, None, None, FaultAction::Delay(sm::Nanos(100_000_000)));
    let mut stranger = to;
    stranger.0[12..].fill(0xed);
    done.burst(alpha, stranger, 100);
    bench.settle();
    bench.no_faults();
    done.send(alpha, group(0x000a_0001), 40, 100);
    fakekernel::sleep(Nanos::from_secs(5));
    bench.settle();
}

fn to_a_full_ring(bench: &Bench, done: &mut Done, alpha: &Stream, to: LinkAddress) {
    let late = fabric::Nanos(50_000_000);
    hca(bench, &bench.beta).set_late_interrupts(Some((late, late)));
    for n in 0..1_500_u32 {
        alpha.transmit(to, &n.to_be_bytes(), Offload::default()).expect("the stream is bound");
        done.given += 1;
    }
    bench.settle();
    hca(bench, &bench.beta).set_late_interrupts(None);
}

fn while_the_cable_is_out(bench: &Bench, done: &mut Done, alpha: &Stream, to: LinkAddress) {
    bench.world.set_cable(bench.alpha.port(), false);
    done.send(alpha, to, 100, 50);
    bench.settle();
    done.send(alpha, to, 100, 50);
    bench.world.set_cable(bench.alpha.port(), true);
    done.send(alpha, to, 100, 50);
    up_again(bench);
    done.send(alpha, to, 100, 50);
}

fn without_memory(bench: &Bench, done: &mut Done, alpha: &Stream, to: LinkAddress) {
    let driver = Some(bench.beta.driver().name());
    bench.beta.kernel.set_fault(FaultKind::ALLOCB, driver, FaultPlan::OneIn(3));
    done.send(alpha, to, 100, 100);
    bench.settle();
    bench.beta.kernel.set_fault(FaultKind::ALLOCB, driver, FaultPlan::Never);
}

fn malformed(bench: &Bench, done: &mut Done) {
    let target = Target { hca: bench.beta.adapter(), port: bench.beta.port(), pkey: 0xffff };
    for kind in Malformed::ALL {
        inject(&bench.world, &bench.sm, target, &Content::Malformed(kind));
        done.injected += 1;
        bench.settle();
    }
}

/// Until packets have met it, and others the link while it was down: that is a race between the sender and whoever hears of it.
fn from_a_broken_queue_pair(bench: &Bench, done: &mut Done, alpha: &Stream, to: LinkAddress) {
    let counted = |name| bench.alpha.counter(name) != 0;
    while !counted("tx_failed") || !counted("tx_drop_link_down") {
        from_one_that_breaks(bench, done, alpha, to);
    }
}

fn from_one_that_breaks(bench: &Bench, done: &mut Done, alpha: &Stream, to: LinkAddress) {
    let qpn = u32::from_be_bytes(address_of(alpha).0[..4].try_into().expect("four bytes"));
    assert!(hca(bench, &bench.alpha).break_qpn(fabric::Qpn::truncating(qpn)), "alpha's has another number");
    done.send(alpha, to, 100, 50);
    bench.settle();
    up_again(bench);
    done.send(alpha, to, 100, 50);
}

/// What the packets of this test are lost to.
const CAUSES: [&str; 9] = [
    "alpha tx_drop_link_down",
    "alpha tx_drop_unreachable",
    "alpha tx_drop_queue_full",
    "alpha tx_failed",
    "beta rx_drop_no_memory",
    "beta rx_drop_short",
    "beta rx_drop_completion",
    "fabric loss",
    "fabric no_receive",
];
/// How often each was met, in all runs.
static SEEN: Mutex<BTreeMap<&str, u64>> = Mutex::new(BTreeMap::new());

/// Everything at rest.
fn comes_to_rest(bench: &Bench, alpha: &Stream) {
    up_again(bench);
    fakekernel::sleep(Nanos::from_secs(10));
    assert_eq!(alpha.transmit_queue(), 0, "packets that the MAC layer was given back");
}

#[track_caller]
fn the_books_balance(done: &Done, books: &Books, heard: &ReceiveQueue) {
    let Done { given, injected } = *done;
    let sent = books.get("alpha sent");
    assert_eq!(given, sent + books.sum("alpha tx_drop_"), "given to alpha's link, {books:?}");
    let left = sent - books.get("alpha tx_failed");
    let arrived = books.get("beta received");
    let lost = books.sum("fabric ") + books.sum("beta rx_drop_");
    assert_eq!(left + injected, arrived + lost, "on the wire: {left} and {injected}, {books:?}");
    let read = std::iter::from_fn(|| heard.try_next()).count() as u64;
    assert_eq!(arrived, read + books.sum("stack "), "handed up, {books:?}");
}

#[test]
fn every_packet_is_read_or_in_a_counter_that_says_why_not() {
    Setup { seeds: 8, ..Setup::default() }.run(|bench| {
        let (alpha, beta, heard) = bench.talking(PLAIN);
        let (mut done, before) = (Done::default(), Books::of(bench, &beta));
        let to = || address_of(&beta);
        done.send(&alpha, to(), 100, 500);
        done.send(&alpha, beta.details().broadcast, 100, 20);
        on_a_bad_cable(bench, &mut done, &alpha, to());
        to_nobody(bench, &mut done, &alpha, to());
        to_a_full_ring(bench, &mut done, &alpha, to());
        while_the_cable_is_out(bench, &mut done, &alpha, to());
        without_memory(bench, &mut done, &alpha, to());
        malformed(bench, &mut done);
        // The second one is replaced after a pause.
        from_a_broken_queue_pair(bench, &mut done, &alpha, to());
        from_a_broken_queue_pair(bench, &mut done, &alpha, to());
        comes_to_rest(bench, &alpha);
        let books = Books::of(bench, &beta).since(&before);
        the_books_balance(&done, &books, &heard);
        for name in CAUSES {
            *SEEN.lock().expect("nobody panics").entry(name).or_default() += books.get(name);
        }
    });
    // Nothing of this was for show. In one run the driver may hear of a broken queue pair before the first packet does.
    let seen = SEEN.lock().expect("nobody panics");
    assert!(CAUSES.iter().all(|name| seen[name] != 0), "{seen:?}");
}
