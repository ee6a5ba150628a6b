//! Hosts that forge frames, so that IP answers addresses that no port has, or queue pairs that a port has not: what they cost, and what
//! they take from others. IP's answers are sent here as IP sends them: as many as frames come.

use fabric::{Guid, HcaConfig};
use fakekernel::Nanos;
use lab_gldv3::{LinkAddress, Stream};
use sm::Attribute;
use sm::fault::FaultAction;

use crate::bench::{Bench, PLAIN, Setup, address_of};
use crate::forged::{absent, came, queue_pair, send};

const ARP: u32 = 0x0806;
const IPV6: u32 = 0x86dd;
/// Questions for answers alone that a link asks at once, and in a second (`answers_at_once` and `answers_pace` of the table of paths).
const BURST: u64 = 200;
const PER_SECOND: u64 = 200;
/// Addresses of one port that stay although nothing is sent to them.
const OF_PORT: u64 = 256;

/// A message of ARP.
fn arp(operation: u8, sender: (LinkAddress, [u8; 4]), target: (LinkAddress, [u8; 4])) -> Vec<u8> {
    let mut bytes = vec![0, 32, 8, 0, 20, 4, 0, operation];
    for (link, ip) in [sender, target] {
        bytes.extend_from_slice(&link.0);
        bytes.extend_from_slice(&ip);
    }
    bytes
}

/// What IP answers the `n`th stranger by ARP.
fn reply(own: LinkAddress, to: LinkAddress, n: u32) -> Vec<u8> {
    let [_, high, middle, low] = n.to_be_bytes();
    arp(2, (own, [10, 0, 0, 1]), (to, [11, high, middle, low]))
}

/// The same by neighbour discovery: an advertisement.
fn advertisement(own: LinkAddress, n: u32) -> Vec<u8> {
    let ip = |n: u32| [&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &n.to_be_bytes()].concat();
    let mut packet = vec![0x60, 0, 0, 0, 0, 48, 58, 255];
    packet.extend_from_slice(&[ip(1), ip(0x100 + n)].concat());
    packet.extend_from_slice(&[136, 0, 0, 0, 0x60, 0, 0, 0]);
    packet.extend_from_slice(&ip(1));
    packet.extend_from_slice(&[2, 3]);
    packet.extend_from_slice(&own.0);
    packet.extend_from_slice(&[0, 0]);
    packet
}

/// How a flood is answered.
#[derive(Clone, Copy)]
enum Answer {
    Arp,
    /// The sender sets the flag of connected mode.
    Flagged,
    Discovery,
    /// And then a ping: the second packet to a stranger is an ordinary one.
    ArpAndEcho,
}

const ANSWERS: [Answer; 4] = [Answer::Arp, Answer::Flagged, Answer::Discovery, Answer::ArpAndEcho];

/// Alpha's streams: of ARP, of IPv6, and of what is plain.
struct Alpha {
    arp: Stream,
    ipv6: Stream,
    plain: Stream,
    answer: Answer,
    sent: u32,
}

impl Alpha {
    fn new(bench: &Bench, answer: Answer) -> Self {
        let open = |sap| bench.alpha.open_up(sap).0;
        Self { arp: open(ARP), ipv6: open(IPV6), plain: open(PLAIN), answer, sent: 0 }
    }

    /// IP asks for a neighbour, as it does before it sends it anything, and the neighbour answers.
    fn asks_for(&self, bench: &Bench, beta: &Stream) {
        let (own, to) = (address_of(&self.arp), address_of(beta));
        let (none, ips) = (LinkAddress([0; 20]), [[10, 0, 0, 1], [10, 0, 0, 2]]);
        send(&self.arp, self.arp.details().broadcast, &arp(1, (own, ips[0]), (none, ips[1])));
        let (speaker, _) = bench.beta.open(ARP);
        send(&speaker, own, &arp(2, (to, ips[1]), (own, ips[0])));
    }

    /// IP answers so many strangers.
    fn answers(&mut self, count: u32, stranger: impl Fn(u32) -> LinkAddress) {
        let own = address_of(&self.arp);
        for n in self.sent..self.sent + count {
            let mut to = stranger(n);
            if matches!(self.answer, Answer::Flagged) {
                to.0[0] = 0x80;
            }
            match self.answer {
                Answer::Discovery => send(&self.ipv6, to, &advertisement(own, n)),
                _ => send(&self.arp, to, &reply(own, to, n)),
            }
            if matches!(self.answer, Answer::ArpAndEcho) {
                send(&self.plain, to, &[0; 60]);
            }
        }
        self.sent += count;
    }

    /// For so many steps of a millisecond.
    fn is_flooded(
        &mut self,
        steps: u32,
        per_ms: u32,
        stranger: impl Fn(u32) -> LinkAddress,
        mut each: impl FnMut(&Self, u32),
    ) {
        for step in 0..steps {
            self.answers(per_ms, &stranger);
            each(self, step);
            fakekernel::sleep(Nanos::from_millis(1));
        }
    }
}

/// Each answer of the SA takes so long.
fn slow_sa(bench: &Bench, millis: u64) {
    bench.fault(Attribute::PATH_RECORD, None, None, FaultAction::Delay(sm::Nanos(millis * 1_000_000)));
}

/// One of an echo's two packets in 25 ms, to somebody that nothing was sent to before. None came with the SA of 10 ms, as strangers had
/// all places for packets that wait; and 31 of 100 with the other one.
#[test]
fn who_ip_turns_to_is_reached_whatever_strangers_do() {
    for answer in ANSWERS {
        for (millis, per_ms) in [(10, 2), (1, 20)] {
            Setup { seeds: 1, ..Setup::default() }.run(move |bench| {
                let mut alpha = Alpha::new(bench, answer);
                let (beta, heard) = bench.beta.open_up(PLAIN);
                let to = address_of(&beta);
                slow_sa(bench, millis);
                alpha.is_flooded(300, per_ms, absent, |_, _| ());
                alpha.asks_for(bench, &beta);
                alpha.is_flooded(50, per_ms, absent, |_, _| ());
                alpha.is_flooded(2_675, per_ms, absent, |alpha, step| {
                    if step % 25 == 0 {
                        send(&alpha.plain, to, &[1; 60]);
                    }
                });
                bench.settle();
                assert_eq!(came(&heard), 107, "{:?}", bench.alpha.counters());
            });
        }
    }
}

/// A neighbour's broadcast request has its own GID in the route header, and the answer to it goes first. It was dropped: strangers had
/// all places.
#[test]
fn a_neighbour_that_asks_is_answered_amid_strangers() {
    Setup { seeds: 4, ..Setup::default() }.run(|bench| {
        let mut alpha = Alpha::new(bench, Answer::Arp);
        let (beta, heard) = bench.beta.open_up(ARP);
        let (own, to) = (address_of(&alpha.arp), address_of(&beta));
        slow_sa(bench, 10);
        alpha.is_flooded(500, 20, absent, |_, _| ());
        let (none, ips) = (LinkAddress([0; 20]), [[10, 0, 0, 2], [10, 0, 0, 1]]);
        send(&beta, beta.details().broadcast, &arp(1, (to, ips[0]), (none, ips[1])));
        let answer = arp(2, (own, ips[1]), (to, ips[0]));
        // IP answers as soon as it hears the question.
        alpha.is_flooded(100, 20, absent, |alpha, step| {
            if step == 5 {
                send(&alpha.arp, to, &answer);
            }
        });
        assert_eq!(
            heard.try_next().map(|packet| packet.payload),
            Some(answer),
            "{:?}",
            bench.alpha.counters()
        );
    });
}

/// A known flow loses nothing, the SA is asked no more often than answers may, and little is kept. There were 4,000 questions.
#[test]
fn four_thousand_strangers_cost_few_questions() {
    for answer in ANSWERS {
        Setup { seeds: 1, ..Setup::default() }.run(move |bench| {
            let mut alpha = Alpha::new(bench, answer);
            let (beta, heard) = bench.beta.open_up(PLAIN);
            let to = address_of(&beta);
            send(&alpha.plain, to, &[1; 60]);
            bench.settle();
            let asked = bench.alpha.counter("sa_paths");
            alpha.is_flooded(1_000, 4, absent, |alpha, _| send(&alpha.plain, to, &[1; 60]));
            let questions = bench.alpha.counter("sa_paths") - asked;
            assert!(questions <= BURST + PER_SECOND + 1, "{questions} questions");
            assert!(questions >= BURST, "{questions} questions: strangers are answered as far as that goes");
            bench.settle();
            assert_eq!(came(&heard), 1_001, "of a known flow");
            let dropped = |bench: &Bench| {
                let counted = ["tx_drop_answers", "tx_drop_unreachable", "tx_drop_queue_full"];
                counted.map(|name| bench.alpha.counter(name)).iter().sum::<u64>()
            };
            let before = dropped(bench);
            let sent = u64::from(alpha.sent) * if matches!(answer, Answer::ArpAndEcho) { 2 } else { 1 };
            bench
                .wait_for("nobody waits", Nanos::from_secs(3), || bench.alpha.named("paths", "waiting") == 0);
            let now = dropped(bench);
            assert_eq!((now, before <= now), (sent, true), "each is dropped, and counted");
            fakekernel::sleep(Nanos::from_secs(120));
            assert!(bench.alpha.named("paths", "entries") <= 2, "{}", bench.alpha.named("paths", "entries"));
        });
    }
}

fn replug(bench: &Bench) {
    for plugged in [false, true] {
        assert!(bench.world.set_cable(bench.beta.port(), plugged), "the port is there");
        fakekernel::sleep(Nanos::from_secs(2));
    }
}

/// Each queue pair that was made up was looked up by itself after 30 s, and at every report of the SM: 3,003 questions.
#[test]
fn a_port_that_comes_and_goes_is_asked_about_once() {
    for answer in ANSWERS {
        Setup { seeds: 1, ..Setup::default() }.run(move |bench| {
            let mut alpha = Alpha::new(bench, answer);
            let (beta, heard) = bench.beta.open_up(PLAIN);
            let (to, port) = (address_of(&beta), bench.beta.port());
            send(&alpha.plain, to, &[1; 60]);
            bench.settle();
            let asked = || bench.alpha.counter("sa_paths");
            let before = asked();
            alpha.is_flooded(750, 4, |n| queue_pair(port, n), |_, _| ());
            bench.settle();
            assert!(asked() - before <= 2, "{} questions while they come", asked() - before);
            let entries = bench.alpha.named("paths", "entries");
            assert!(entries <= OF_PORT + 2, "{entries} entries");
            let before = asked();
            replug(bench);
            assert!(asked() - before <= 4, "{} questions for two reports", asked() - before);
            let before = asked();
            fakekernel::sleep(Nanos::from_secs(60));
            assert!(asked() - before <= 4, "{} questions in a minute", asked() - before);
            send(&alpha.plain, to, &[2; 60]);
            bench.settle();
            assert_eq!(came(&heard), 2);
            let entries = bench.alpha.named("paths", "entries");
            assert!(entries <= 130, "{entries} entries that nothing is sent to");
        });
    }
}

/// The same in the half minute after another SM has come: what waits in the background of a port shares one answer.
#[test]
fn another_subnet_manager_is_asked_once_for_a_port() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| {
        let mut alpha = Alpha::new(bench, Answer::ArpAndEcho);
        let (beta, heard) = bench.beta.open_up(PLAIN);
        let (to, port) = (address_of(&beta), bench.beta.port());
        send(&alpha.plain, to, &[1; 60]);
        bench.settle();
        let (asked, mut sent) = (bench.alpha.counter("sa_paths"), 1);
        let lid = bench.sm.inspect(|sm| sm.lid().0) + 0x200;
        alpha.is_flooded(
            1_000,
            4,
            |n| queue_pair(port, n),
            |alpha, step| {
                if step == 300 {
                    bench.sm.fail_over(sm::Lid(lid), sm::Lid(sm::Lid::FIRST_MULTICAST.0 + 16));
                }
                send(&alpha.plain, to, &[1; 60]);
                sent += 1;
            },
        );
        fakekernel::sleep(Nanos::from_secs(61));
        assert_eq!(came(&heard), sent, "of a known flow");
        let questions = bench.alpha.counter("sa_paths") - asked;
        assert!(questions <= 12, "{questions} questions");
    });
}

/// Strangers claim the neighbour's own GID with queue pair after queue pair, while its own one changes: what goes to that arrives.
#[test]
fn a_new_queue_pair_is_reached_amid_forged_ones() {
    Setup { seeds: 4, ..Setup::default() }.run(|bench| {
        let mut alpha = Alpha::new(bench, Answer::ArpAndEcho);
        let port = bench.beta.port();
        for round in 0..3 {
            let (beta, heard) = bench.beta.open_up(PLAIN);
            let to = address_of(&beta);
            // As IP does with an address that is new.
            let (speaker, _) = bench.beta.open(ARP);
            send(&speaker, beta.details().broadcast, &arp(1, (to, [10, 0, 0, 2]), (to, [10, 0, 0, 2])));
            drop(speaker);
            alpha.is_flooded(
                500,
                8,
                |n| queue_pair(port, n),
                |alpha, step| {
                    if step % 5 == 0 {
                        send(&alpha.plain, to, &[1; 60]);
                    }
                },
            );
            bench.settle();
            assert_eq!(came(&heard), 100, "round {round}: {:?}", bench.alpha.counters());
            drop((beta, heard));
            bench.settle();
        }
    });
}

/// Adapters without a driver, and the GUIDs of their ports.
fn more_ports(bench: &Bench) -> Vec<Guid> {
    let config = HcaConfig::new(Guid(0x0002_c903_0002_0000), 15);
    let ports = config.ports.iter().map(|port| port.guid).collect();
    bench.world.add_hca(&bench.beta.kernel, config).expect("GUIDs are unique");
    bench.settle();
    ports
}

/// Handles that run out came never back: no new neighbour was reached within 4,000 s, and there were 38 attempts each second.
#[test]
fn handles_that_run_out_come_back_to_who_needs_them() {
    for (answer, ports) in
        [(Answer::Arp, 1), (Answer::Arp, 15), (Answer::ArpAndEcho, 15), (Answer::Discovery, 15)]
    {
        let hca = |config: &mut HcaConfig| config.attr.max_ah = 1_000;
        Setup { seeds: 1, hca, ..Setup::default() }.run(move |bench| {
            let mut alpha = Alpha::new(bench, answer);
            let guids = more_ports(bench);
            let of = |n: u32| queue_pair(guids[n as usize % ports], n);
            alpha.is_flooded(1_000, 2, of, |_, _| ());
            bench.settle();
            let (beta, heard) = bench.beta.open_up(PLAIN);
            for _ in 0..10 {
                send(&alpha.plain, address_of(&beta), &[1; 60]);
                fakekernel::sleep(Nanos::from_millis(100));
            }
            assert_eq!(came(&heard), 10, "{:?}", bench.alpha.console());
            fakekernel::sleep(Nanos::from_secs(700));
            let (asked, found) = (bench.alpha.counter("sa_paths"), bench.alpha.named("paths", "found"));
            let entries = bench.alpha.named("paths", "entries");
            assert!(entries <= 3, "{entries} entries");
            let handles = bench.world.fabric().hca(bench.alpha.adapter()).expect("alpha's").census().ahs;
            // Up to 64 sends in a row ask for no completion: their handles stay until the next one that does.
            assert!(handles <= 80, "{handles} handles");
            fakekernel::sleep(Nanos::from_secs(60));
            assert!(bench.alpha.counter("sa_paths") - asked <= 2);
            assert!(bench.alpha.named("paths", "found") - found <= 2);
        });
    }
}

/// What hashes and Q_Keys that nobody is to know began with was the time since boot.
#[test]
fn secrets_come_from_the_kernels_generator() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        assert_eq!(bench.alpha.calls("random_get_pseudo_bytes"), 1, "for the tables of the link");
        let (_alpha, _) = bench.alpha.open_up(PLAIN);
        assert_eq!(
            bench.alpha.calls("random_get_pseudo_bytes"),
            2,
            "for a queue pair that nobody may send to"
        );
    });
}
