//! Reliable connections: the two ends of `probes/swhca/connection.c`, which the test connects in `ibcm`'s place.

use std::sync::atomic::{AtomicUsize, Ordering};

use fakekernel::Nanos;
use lab_ibtf::Told;
use swhca_ioctl::{Counter, command};

use super::bench::{Bench, Setup};
use super::client::{Client, with_probe};
use super::management::unicasts;

/// `IBT_WC_*`.
mod status {
    pub const SUCCESS: i64 = 0;
    pub const LOCAL_LENGTH: i64 = 10;
    pub const LOCAL_PROTECTION: i64 = 13;
    pub const FLUSHED: i64 = 14;
    pub const REMOTE_INVALID_REQUEST: i64 = 22;
    pub const REMOTE_OPERATION: i64 = 24;
    pub const TRANSPORT_RETRIES: i64 = 25;
    pub const RECEIVER_RETRIES: i64 = 26;
}

/// How something is sent.
mod how {
    pub const SIGNALED: i64 = 1;
    pub const IMMEDIATE: i64 = 4;
    pub const RDMA: i64 = 8;
    pub const BAD_KEY: i64 = 16;
}

/// `IBT_CHAN_*`, and the states of a channel.
const STATE_INVALID: i64 = 402;
const OP_TYPE_INVALID: i64 = 408;
const FULL: i64 = 414;
const RTS: i64 = 3;
const ERROR: i64 = 6;

/// 4.096 us to the power of this: 67 ms, and 640 us.
const ACK_TIMEOUT: u8 = 14;
const PAUSE: u8 = 12;
/// The last number but one, so that each test passes zero.
const FIRST: u32 = 0xff_fffe;

struct Ends<'a> {
    bench: &'a Bench,
    client: &'a Client,
}

/// A completion: the request, how it ended, bytes, whether the immediate data came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Done {
    id: i64,
    status: i64,
    bytes: i64,
    immediate: bool,
}

impl Ends<'_> {
    /// What an end is told: that of the other one, and how patient it is.
    fn told(&self, end: i64, retries: (u8, u8)) -> Told {
        let other = 1 - end;
        Told {
            lid: 1 + other as u16,
            qpn: u32::try_from(self.client.ask("probe_number", other)).expect("a number"),
            psn: FIRST,
            min_rnr: PAUSE,
            ack_timeout: ACK_TIMEOUT,
            retries,
            sends: true,
        }
    }

    fn handle(&self, end: i64) -> usize {
        self.client.ask("probe_handle", end) as usize
    }

    fn connect(&self, end: i64, told: &Told) {
        let kernel = &self.bench.software.kernel;
        kernel.scope(|| lab_ibtf::connect_channel(kernel, self.handle(end), told)).expect("it is in INIT");
    }

    fn connect_both(&self, retries: (u8, u8)) {
        for end in 0..2 {
            self.connect(end, &self.told(end, retries));
        }
    }

    fn post(&self, probe: &'static str, end: i64, id: i64, len: i64, how: i64) -> i64 {
        self.client.ask(probe, end | id << 1 | how << 8 | len << 16)
    }

    #[track_caller]
    fn receive(&self, end: i64, id: i64, len: i64) {
        assert_eq!(self.post("probe_receive", end, id, len, 0), 0);
    }

    #[track_caller]
    fn send(&self, end: i64, id: i64, len: i64) {
        assert_eq!(self.post("probe_send", end, id, len, how::SIGNALED), 0);
    }

    fn next(&self, probe: &'static str, end: i64) -> Option<Done> {
        let value = self.client.ask(probe, end);
        (value >= 0).then_some(Done {
            id: value & 0x7f,
            status: value >> 8 & 0x7f,
            bytes: value >> 16,
            immediate: value & 0x8000 != 0,
        })
    }

    /// Ids and statuses of all completions.
    fn all(&self, probe: &'static str, end: i64) -> Vec<(i64, i64)> {
        std::iter::from_fn(|| self.next(probe, end)).map(|done| (done.id, done.status)).collect()
    }

    fn sent(&self, end: i64) -> Vec<(i64, i64)> {
        self.all("probe_sent", end)
    }

    fn received(&self, end: i64) -> Vec<(i64, i64)> {
        self.all("probe_received", end)
    }

    fn states(&self) -> [i64; 2] {
        [0, 1].map(|end| self.client.ask("probe_state", end))
    }

    fn counter(&self, counter: Counter) -> u64 {
        self.bench.software.counters().expect("the adapter answers")[counter as usize]
    }
}

fn wait(millis: u64) {
    fakekernel::sleep(Nanos::from_millis(millis));
}

/// A test with two ends that are not connected yet; `shared`: the receives of the second one are.
fn with_ends(seeds: u64, test: fn(&Ends<'_>)) {
    ends(seeds, 0, test);
}

fn with_shared(seeds: u64, test: fn(&Ends<'_>)) {
    ends(seeds, 1, test);
}

fn ends(seeds: u64, shared: i64, test: fn(&Ends<'_>)) {
    let setup = Setup { seeds, ..Setup::default() };
    with_probe("connection", setup, move |bench, client| {
        client.run("probe_make", shared);
        test(&Ends { bench, client });
        client.run("probe_unmake", 0);
    });
}

#[test]
fn message_of_every_size_arrives_whole_once_and_both_sides_count_its_packets() {
    with_ends(2, |ends| {
        ends.connect_both((1, 1));
        let mut due = i64::from(FIRST);
        for (id, len) in (0..).zip([1, 2, 2047, 2048, 2049, 65_540, 1 << 20, 0]) {
            for end in 0..2 {
                ends.receive(1 - end, id, len);
                ends.send(end, id, len);
                assert_eq!(ends.sent(end), [(id, status::SUCCESS)], "{len} bytes");
                let came = ends.next("probe_received", 1 - end).expect("it came");
                assert_eq!(came, Done { id, status: status::SUCCESS, bytes: len, immediate: false });
                assert_eq!(ends.post("probe_same", 1 - end, id, len, 0), 0, "{len} bytes");
            }
            due = (due + (len + 2047) / 2048 + i64::from(len == 0)) & 0xff_ffff;
            assert_eq!([0, 1].map(|end| ends.client.ask("probe_due", end)), [due; 2], "{len} bytes");
        }
        assert_eq!(ends.counter(Counter::Messages), 16);
        assert_eq!(ends.counter(Counter::MessagesReceived), 16);
        assert_eq!(ends.states(), [RTS; 2]);
    });
}

#[test]
fn send_that_asks_for_nothing_gives_no_completion_and_immediate_data_come() {
    with_ends(2, |ends| {
        ends.connect_both((1, 1));
        ends.receive(1, 0, 8);
        ends.receive(1, 1, 8);
        assert_eq!(ends.post("probe_send", 0, 0, 8, 0), 0);
        assert_eq!(ends.post("probe_send", 0, 1, 8, how::SIGNALED | how::IMMEDIATE), 0);
        assert_eq!(ends.sent(0), [(1, status::SUCCESS)]);
        let came = [0, 1].map(|_| ends.next("probe_received", 1).expect("it came").immediate);
        assert_eq!(came, [false, true]);
    });
}

#[test]
fn message_that_is_longer_than_its_buffer_fails_both_ends_and_what_is_posted_comes_back_in_order() {
    with_ends(4, |ends| {
        ends.connect_both((1, 1));
        ends.receive(1, 0, 100);
        ends.receive(1, 1, 100);
        ends.receive(0, 2, 100);
        ends.send(0, 3, 101);
        assert_eq!(ends.sent(0), [(3, status::REMOTE_INVALID_REQUEST)]);
        assert_eq!(ends.received(1), [(0, status::LOCAL_LENGTH), (1, status::FLUSHED)]);
        assert_eq!(ends.received(0), [(2, status::FLUSHED)]);
        wait(10);
        assert_eq!(ends.states(), [ERROR; 2]);
        // What is posted later comes back, too.
        ends.send(0, 4, 8);
        ends.send(1, 5, 8);
        ends.receive(1, 6, 8);
        assert_eq!((ends.sent(0), ends.sent(1)), (vec![(4, status::FLUSHED)], vec![(5, status::FLUSHED)]));
        assert_eq!(ends.received(1), [(6, status::FLUSHED)]);
        assert_eq!(ends.counter(Counter::FailedConnections), 2);
    });
}

#[test]
fn memory_that_cannot_be_used_fails_whose_it_is_and_the_other_end_hears_of_the_receivers() {
    with_ends(2, |ends| {
        ends.connect_both((1, 1));
        ends.receive(1, 0, 8);
        assert_eq!(ends.post("probe_send", 0, 1, 8, how::SIGNALED | how::BAD_KEY), 0);
        assert_eq!(ends.sent(0), [(1, status::LOCAL_PROTECTION)]);
        assert_eq!((ends.received(1), ends.states()), (vec![], [ERROR, RTS]));
    });
    with_ends(2, |ends| {
        ends.connect_both((1, 1));
        assert_eq!(ends.post("probe_receive", 1, 0, 8, how::BAD_KEY), 0);
        ends.send(0, 1, 8);
        assert_eq!(ends.sent(0), [(1, status::REMOTE_OPERATION)]);
        assert_eq!(ends.received(1), [(0, status::LOCAL_PROTECTION)]);
    });
}

#[test]
fn rdma_and_what_comes_too_early_or_is_too_much_is_refused_at_the_post() {
    with_ends(2, |ends| {
        assert_eq!(ends.post("probe_send", 0, 0, 8, how::SIGNALED), STATE_INVALID);
        ends.connect(0, &ends.told(0, (1, 7)));
        assert_eq!(ends.post("probe_send", 0, 0, 8, how::SIGNALED | how::RDMA), OP_TYPE_INVALID);
        // Nobody receives yet.
        let posted = (0..).take_while(|id| ends.post("probe_send", 0, *id, 8, 0) == 0).count();
        assert_eq!(ends.post("probe_send", 0, 0, 8, 0), FULL);
        assert!(posted >= 8, "{posted}");
        ends.client.run("probe_flush", 0);
        let back: Vec<_> = (0..posted as i64).map(|id| (id, status::FLUSHED)).collect();
        assert_eq!(ends.sent(0), back);
    });
}

#[test]
fn message_without_a_receive_waits_and_goes_when_there_is_one() {
    with_ends(4, |ends| {
        ends.connect_both((1, 7));
        for id in 0..3 {
            ends.send(0, id, 100);
        }
        wait(200);
        assert_eq!((ends.sent(0), ends.states()), (vec![], [RTS; 2]));
        assert!(ends.counter(Counter::ReceiverWaits) >= 8);
        for id in 10..13 {
            ends.receive(1, id, 100);
        }
        wait(25);
        assert_eq!(ends.sent(0), [0, 1, 2].map(|id| (id, status::SUCCESS)));
        assert_eq!(ends.received(1), [10, 11, 12].map(|id| (id, status::SUCCESS)));
    });
}

#[test]
fn receiver_that_never_has_a_receive_ends_the_connection_after_as_many_tries_as_were_said() {
    for retries in [0, 1, 6] {
        let setup = Setup { seeds: 2, ..Setup::default() };
        with_probe("connection", setup, move |bench, client| {
            client.run("probe_make", 0);
            let ends = Ends { bench, client };
            ends.connect_both((1, retries));
            ends.send(0, 0, 100);
            ends.send(0, 1, 100);
            if retries > 0 {
                assert_eq!((ends.sent(0), ends.states()), (vec![], [RTS; 2]));
            }
            // The clock of a kernel ticks every 10 ms.
            wait(20 + 20 * u64::from(retries));
            assert_eq!(ends.sent(0), [(0, status::RECEIVER_RETRIES), (1, status::FLUSHED)]);
            assert_eq!(ends.counter(Counter::ReceiverWaits), u64::from(retries));
            assert_eq!(ends.states(), [ERROR, RTS], "nothing has happened to the receiver");
            client.run("probe_unmake", 0);
        });
    }
}

/// Makes the other end deaf.
type Deafen = fn(&Ends<'_>);

#[test]
fn sends_to_an_end_that_is_gone_fail_after_as_many_timeouts_as_were_said_whatever_state_it_was_in() {
    const DEAF: [(&str, Deafen); 6] = [
        ("in INIT", |_| ()),
        ("flushed", |ends| {
            ends.connect(1, &ends.told(1, (1, 1)));
            ends.client.run("probe_flush", 1);
        }),
        ("freed", |ends| {
            ends.connect(1, &ends.told(1, (1, 1)));
            ends.client.run("probe_free", 1);
        }),
        ("connected to another one", |ends| {
            ends.connect(1, &Told { qpn: 0x12_3456, ..ends.told(1, (1, 1)) });
        }),
        ("counting from elsewhere", |ends| {
            ends.connect(1, &Told { psn: FIRST - 100, ..ends.told(1, (1, 1)) })
        }),
        ("without a cable", |ends| {
            ends.connect(1, &ends.told(1, (1, 1)));
            ends.bench.software.ioctl(command::PORT_DOWN, [2, 0, 0, 0]).expect("there is such a port");
        }),
    ];
    for (how, deafen) in DEAF {
        let setup = Setup { seeds: 2, ..Setup::default() };
        with_probe("connection", setup, move |bench, client| {
            client.run("probe_make", 0);
            let ends = Ends { bench, client };
            ends.connect(0, &ends.told(0, (2, 7)));
            deafen(&ends);
            ends.send(0, 0, 100);
            ends.send(0, 1, 100);
            // Three times 67 ms.
            wait(190);
            assert_eq!(ends.sent(0), [], "{how}");
            wait(60);
            let expected = [(0, status::TRANSPORT_RETRIES), (1, status::FLUSHED)];
            assert_eq!(ends.sent(0), expected, "{how}");
            assert_eq!(ends.client.ask("probe_state", 0), ERROR, "{how}");
            assert_eq!(ends.counter(Counter::MessagesAgain), 2, "{how}: of three times two were again");
            client.run("probe_unmake", 0);
        });
    }
}

#[test]
fn message_that_is_never_sent_again_is_not_counted_as_one() {
    with_ends(2, |ends| {
        // Nobody receives, and it is sent once.
        ends.connect(0, &ends.told(0, (0, 7)));
        ends.send(0, 0, 100);
        wait(100);
        assert_eq!(ends.sent(0), [(0, status::TRANSPORT_RETRIES)]);
        assert_eq!(ends.counter(Counter::MessagesAgain), 0);
    });
    with_ends(2, |ends| {
        // Or waits for ever.
        ends.connect(0, &Told { ack_timeout: 0, ..ends.told(0, (7, 7)) });
        ends.send(0, 0, 100);
        wait(10_000);
        ends.client.run("probe_flush", 0);
        assert_eq!(ends.sent(0), [(0, status::FLUSHED)]);
        assert_eq!(ends.counter(Counter::MessagesAgain), 0);
    });
}

#[test]
fn cable_that_is_back_in_time_costs_nothing_but_time() {
    with_ends(4, |ends| {
        ends.connect_both((7, 7));
        ends.receive(1, 0, 5_000);
        ends.bench.software.ioctl(command::PORT_DOWN, [1, 0, 0, 0]).expect("there is such a port");
        ends.send(0, 1, 5_000);
        wait(200);
        assert_eq!(ends.sent(0), []);
        ends.bench.software.ioctl(command::PORT_UP, [1, 0, 0, 0]).expect("there is such a port");
        wait(100);
        assert_eq!((ends.sent(0), ends.received(1)), (vec![(1, 0)], vec![(0, 0)]));
        assert_eq!(ends.post("probe_same", 1, 0, 5_000, 0), 0);
    });
}

#[test]
fn packets_and_acknowledgements_that_are_lost_are_sent_again_and_no_message_comes_twice() {
    with_ends(6, |ends| {
        ends.connect_both((7, 7));
        let lose = |packets| {
            for port in [1, 2] {
                ends.bench.software.ioctl(command::LOSE_PACKETS, [port, packets, 0, 0]).expect("a port");
            }
        };
        let before = unicasts(ends.bench, 1).0;
        lose(100_000);
        const ROUNDS: i64 = 60;
        for round in 0..ROUNDS {
            // Another one is there for a message that comes twice.
            ends.receive(1, 1, 40_000);
            ends.send(0, 0, 40_000);
            let mut done = vec![];
            for _ in 0..100 {
                done.extend(ends.sent(0));
                if !done.is_empty() {
                    break;
                }
                wait(30);
            }
            assert_eq!(done, [(0, status::SUCCESS)], "round {round}");
            assert_eq!(ends.received(1), [(1, status::SUCCESS)], "round {round}");
            assert_eq!(ends.post("probe_same", 1, 1, 40_000, 0), 0, "round {round}");
        }
        lose(0);
        assert_eq!(ends.counter(Counter::MessagesReceived), ROUNDS as u64);
        let again = ends.counter(Counter::MessagesAgain);
        assert!(again > 10, "nothing was lost");
        // Twenty packets each; what has come does not leave again. (The question after it counts, too.)
        let left = unicasts(ends.bench, 1).0 - before - 1;
        let (least, most) = (20 * ROUNDS as u64, 20 * (ROUNDS as u64 + again));
        assert!(left > least && left < most, "{left} packets, {again} times again");
    });
}

#[test]
fn shared_receives_go_in_order_and_the_failed_end_says_once_that_it_holds_none() {
    with_shared(4, |ends| {
        ends.connect_both((1, 7));
        for id in 0..3 {
            ends.receive(1, id, 100);
        }
        ends.send(0, 10, 100);
        ends.send(0, 11, 101);
        assert_eq!(ends.sent(0), [(10, status::SUCCESS), (11, status::REMOTE_INVALID_REQUEST)]);
        // The last one stays in the shared queue.
        assert_eq!(ends.received(1), [(0, status::SUCCESS), (1, status::LOCAL_LENGTH)]);
        wait(50);
        ends.client.run("probe_flush", 1);
        wait(50);
        assert_eq!((ends.received(1), ends.client.ask("probe_emptied", 0)), (vec![], 1));
    });
}

#[test]
fn long_backlog_is_sent_in_turns_and_the_connection_can_be_asked_in_between() {
    static LEFT: AtomicUsize = AtomicUsize::new(0);
    const LONG: i64 = 1 << 18;
    const ALL: i64 = 8;
    // In one of twenty or so the client asks in between.
    with_ends(64, |ends| {
        ends.connect_both((1, 7));
        (0..ALL).for_each(|id| ends.send(0, id, LONG));
        (0..ALL).for_each(|id| ends.receive(1, id, LONG));
        let mut sent = vec![];
        while sent.is_empty() {
            sent = ends.sent(0);
            fakekernel::sleep(Nanos::from_micros(if sent.is_empty() { 1 } else { 0 }));
        }
        assert_eq!(ends.client.ask("probe_state", 0), RTS);
        sent.extend(ends.sent(0));
        LEFT.fetch_max(ALL as usize - sent.len(), Ordering::Relaxed);
        wait(100);
        sent.extend(ends.sent(0));
        let expected: Vec<_> = (0..ALL).map(|id| (id, status::SUCCESS)).collect();
        assert_eq!((&sent, ends.received(1)), (&expected, expected.clone()));
    });
    assert!(LEFT.load(Ordering::Relaxed) > 0, "whoever asks waits until all is sent");
}

#[test]
fn channel_that_is_gone_and_whose_number_is_kept_has_no_queues_any_more() {
    with_ends(2, |ends| {
        let kernel = &ends.bench.software.kernel;
        let used =
            || -> usize { kernel.genunix().memory_of("swhca").iter().map(|(_, bytes)| bytes.len()).sum() };
        ends.connect_both((1, 7));
        ends.receive(0, 0, 8);
        let (before, qps) = (used(), ends.counter(Counter::Qps));
        let closing = lab_ibtf::close_channel(kernel, ends.handle(0)).expect("there is such a channel");
        ends.client.run("probe_free", 0);
        let now = [Counter::Qps, Counter::KeptNumbers].map(|counter| ends.counter(counter));
        assert_eq!(now, [qps - 1, 1]);
        // Two queues of eight, each with lists of two.
        let gone = before - used();
        assert!(gone > 2 * 8 * 2 * 16, "{gone} bytes");
        closing.is_over();
        assert_eq!(ends.counter(Counter::KeptNumbers), 0);
    });
}

#[test]
fn end_that_receives_before_it_can_send_says_so_once_and_not_before_a_tenth_of_a_second() {
    with_ends(4, |ends| {
        ends.connect(0, &ends.told(0, (1, 7)));
        ends.connect(1, &Told { sends: false, ..ends.told(1, (1, 7)) });
        let times = |end| lab_ibtf::times_established(&ends.bench.software.kernel, ends.handle(end));
        for id in 0..2 {
            ends.receive(1, id, 8);
            ends.send(0, id, 8);
        }
        assert_eq!(ends.received(1).len(), 2);
        wait(90);
        assert_eq!(times(1), 0, "it may be about to be able");
        wait(50);
        assert_eq!((times(0), times(1)), (0, 1));
        wait(300);
        // It still cannot, and somebody knows.
        ends.receive(1, 2, 8);
        ends.send(0, 2, 8);
        wait(500);
        assert_eq!(times(1), 1);
        // Another connection is another matter.
        for end in 0..2 {
            ends.client.run("probe_flush", end);
            let kernel = &ends.bench.software.kernel;
            kernel
                .scope(|| lab_ibtf::recycle_channel(kernel, ends.handle(end), 1 + end as u8))
                .expect("it is in ERROR");
        }
        ends.connect(0, &ends.told(0, (1, 7)));
        ends.connect(1, &Told { sends: false, ..ends.told(1, (1, 7)) });
        ends.receive(1, 3, 8);
        ends.send(0, 3, 8);
        wait(150);
        assert_eq!(times(1), 2);
    });
    with_ends(2, |ends| {
        ends.connect_both((1, 7));
        ends.receive(1, 0, 8);
        ends.send(0, 0, 8);
        wait(300);
        let kernel = &ends.bench.software.kernel;
        assert_eq!(lab_ibtf::times_established(kernel, ends.handle(1)), 0, "it could send");
    });
}

#[test]
fn recycled_end_expects_the_packet_zero_until_it_is_connected_again_and_then_works() {
    with_ends(2, |ends| {
        let kernel = &ends.bench.software.kernel;
        for _ in 0..3 {
            ends.connect_both((1, 7));
            ends.receive(1, 0, 8);
            ends.receive(1, 1, 8);
            ends.send(0, 0, 8);
            assert_eq!((ends.sent(0), ends.received(1)), (vec![(0, 0)], vec![(0, 0)]));
            for end in 0..2 {
                ends.client.run("probe_flush", end);
                assert_eq!(ends.received(end), if end == 1 { vec![(1, status::FLUSHED)] } else { vec![] });
                let recycled =
                    kernel.scope(|| lab_ibtf::recycle_channel(kernel, ends.handle(end), 1 + end as u8));
                assert_eq!(recycled, Ok(()));
                assert_eq!(ends.client.ask("probe_due", end), 0);
            }
        }
    });
}

#[test]
fn both_ends_send_at_once_and_each_message_comes_in_order() {
    with_ends(32, |ends| {
        ends.connect_both((1, 7));
        const ROUNDS: i64 = 20;
        // Both queues have room for less.
        fn all(client: &Client, end: i64) {
            for id in 0..ROUNDS {
                for probe in ["probe_receive", "probe_send"] {
                    while client.ask(probe, end | id << 1 | how::SIGNALED << 8 | 64 << 16) != 0 {
                        fakekernel::sleep(Nanos::from_micros(100));
                    }
                }
            }
        }
        let (client, kernel) = (ends.client.clone(), &ends.bench.software.kernel);
        let other = kernel.spawn("other end", fakekernel::Ctx::Kernel, move || all(&client, 1));
        all(ends.client, 0);
        other.join();
        wait(100);
        let expected: Vec<_> = (0..ROUNDS).map(|id| (id, status::SUCCESS)).collect();
        for end in 0..2 {
            assert_eq!((ends.sent(end), ends.received(end)), (expected.clone(), expected.clone()), "{end}");
        }
    });
}

#[test]
fn thousands_of_connections_come_and_go_and_leave_no_number_and_no_queue_pair() {
    with_ends(1, |ends| {
        let before = [Counter::Qps, Counter::Cqs].map(|counter| ends.counter(counter));
        // More than there are places for numbers.
        for round in 0..5_000 {
            ends.client.run("probe_unmake", 0);
            ends.client.run("probe_make", round % 2);
            if round % 50 == 0 {
                ends.connect_both((1, 1));
                ends.send(0, 0, 8);
            }
        }
        assert_eq!([Counter::Qps, Counter::Cqs].map(|counter| ends.counter(counter)), before);
    });
}
