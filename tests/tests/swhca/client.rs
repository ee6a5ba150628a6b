//! What the adapter owes a client that is no link: the probe `probes/swhca/client.c`.

use conformance::probe::Probe;
use fakekernel::{Ctx, Kernel, Module, Nanos, Rule};
use lab_gldv3::{LinkAddress, Offload};
use swhca_ioctl::command;

use super::bench::{Bench, Setup};

/// The probe in the kernel of the adapter.
#[derive(Clone)]
pub(super) struct Client {
    kernel: Kernel,
    module: Module,
}

impl Client {
    /// What a function of the probe returns.
    pub(super) fn ask(&self, probe: &'static str, argument: i64) -> i64 {
        self.kernel.scope(|| self.module.call_probe(probe, Some(Ctx::User), argument))
    }

    /// Calls a function of the probe, which answers a number that is not above 0, and tells it.
    #[track_caller]
    pub(super) fn run(&self, probe: &'static str, argument: i64) -> i64 {
        let value = self.ask(probe, argument);
        let (line, status) = if value >> 32 == 0 { (value, 0) } else { (value >> 32, value as u32) };
        assert!(value <= 0, "{probe}: line {line}, status {status}");
        -value
    }

    /// The same on a thread of its own.
    pub(super) fn run_aside(&self, probe: &'static str, argument: i64) -> fakekernel::Thread {
        let client = self.clone();
        self.kernel.spawn("client", Ctx::Kernel, move || {
            client.run(probe, argument);
        })
    }
}

/// A test with a client that is open, with several seeds.
pub(super) fn with_client(seeds: u64, test: fn(&Bench, &Client)) {
    with_any_client(Setup { seeds, ..Setup::default() }, test);
}

pub(super) fn with_any_client(setup: Setup, test: fn(&Bench, &Client)) {
    with_probe("client", setup, test);
}

/// The same with another probe, `probes/swhca/NAME.c`.
pub(super) fn with_probe(
    name: &'static str,
    setup: Setup,
    test: impl Fn(&Bench, &Client) + Clone + Send + 'static,
) {
    let path = Probe::new(name)
        .file(format!("probes/swhca/{name}.c"))
        .headers("tests/probes/ibtl")
        .depends("misc/ibtl")
        .build();
    setup.run(move |bench| {
        let kernel = bench.software.kernel.clone();
        let module = kernel.scope(|| {
            let module = kernel.load(&path, name, "misc").expect("the probe loads");
            module.install().expect("the probe installs");
            module
        });
        let client = Client { kernel, module };
        client.run("probe_start", bench.software.guid().0 as i64);
        test(bench, &client);
        client.run("probe_stop", 0);
        client.kernel.scope(|| client.module.unload()).expect("the probe unloads");
    });
}

#[test]
fn flush_gives_back_512_receives_and_100_sends_once_and_in_order() {
    with_client(2, |_, client| {
        client.run("probe_flush", 0);
    });
}

#[test]
fn sends_behind_one_that_failed_are_flushed_and_those_before_it_were_sent() {
    with_client(2, |_, client| {
        client.run("probe_flush_behind_a_failed_send", 0);
    });
}

#[test]
fn queue_pair_whose_completions_are_lost_fails_and_its_neighbour_goes_on() {
    with_client(4, |_, client| {
        client.run("probe_overrun", 0);
        fakekernel::sleep(Nanos::from_millis(50));
        client.run("probe_overran", 0);
    });
}

#[test]
fn cq_is_freed_after_the_handler_that_is_running_has_returned() {
    with_client(8, |_, client| {
        client.run("probe_start_slow_handler", 0);
        while client.ask("probe_turns", 0) == 0 {
            fakekernel::sleep(Nanos::from_micros(100));
        }
        client.run("probe_free_while_it_runs", 0);
    });
}

#[test]
fn protection_domain_stays_as_long_as_anything_is_in_it() {
    with_client(2, |_, client| {
        client.run("probe_domain_in_use", 0);
    });
}

#[test]
fn channel_has_neither_receives_nor_address_handles_of_another_protection_domain() {
    with_client(2, |_, client| {
        client.run("probe_other_domain", 0);
    });
}

#[test]
fn no_more_is_made_than_the_adapter_says_that_there_can_be() {
    with_client(1, |_, client| {
        client.run("probe_too_many", 0);
    });
}

#[test]
fn reserved_key_is_for_queue_pairs_that_were_made_for_it() {
    with_client(2, |_, client| {
        client.run("probe_reserved_key", 0);
    });
}

#[test]
fn not_a_byte_beyond_a_region_is_read_or_written() {
    with_client(2, |_, client| {
        client.run("probe_one_byte_past", 0);
    });
}

#[test]
fn queue_pair_whose_receive_memory_is_gone_fails_and_its_owner_is_told_once() {
    // Nobody may deregister it under a receive that is posted; the adapter must live with it.
    let careless = Setup { seeds: 4, broken: Some(Rule::PostedMemory), ..Setup::default() };
    with_any_client(careless, |_, client| {
        client.run("probe_receive_without_memory", 0);
        fakekernel::sleep(Nanos::from_millis(50));
        client.run("probe_received_without_memory", 0);
    });
}

#[test]
fn memory_is_not_read_any_more_once_it_is_deregistered() {
    // Nobody may do that to a request that is out; the adapter must live with it.
    let careless = Setup { seeds: 48, broken: Some(Rule::PostedMemory), ..Setup::default() };
    with_any_client(careless, |bench, client| {
        client.run("probe_start_moving", 0);
        // From the beginning of the post to behind its end.
        let when = (bench.seed % 24) as i64 * 8;
        let taken = client.run_aside("probe_take_it_away", when);
        client.run("probe_send_from_it", 0);
        taken.join();
        client.run("probe_stop_moving", 0);
    });
}

#[test]
fn ports_are_modified_while_they_come_and_go() {
    with_client(4, |bench, client| {
        let asked = client.run_aside("probe_modify_ports", 400);
        for _ in 0..20 {
            for command in [command::PORT_DOWN, command::PORT_UP] {
                bench.software.ioctl(command, [2, 0, 0, 0]).expect("there is such a port");
                fakekernel::sleep(Nanos::from_micros(200));
            }
        }
        asked.join();
        fakekernel::sleep(Nanos::from_millis(100));
        assert!(client.ask("probe_events", 0) >= 2, "the client has heard of it");
    });
}

#[test]
fn queue_pair_that_is_attached_hears_a_group_once_its_port_has_joined() {
    const LOW: i64 = 0x0f01_0203;
    with_client(4, |bench, client| {
        let (alpha, beta) = (bench.open(&bench.alpha), bench.open(&bench.beta));
        alpha.reaches(&beta, b"both are up");
        let mut group = LinkAddress([0; 20]);
        group.0[..12].copy_from_slice(&[0, 0xff, 0xff, 0xff, 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0]);
        group.0[16..].copy_from_slice(&(LOW as u32).to_be_bytes());
        let send = || {
            beta.stream.transmit(group, b"to all", Offload::default()).expect("the stream is bound");
            fakekernel::sleep(Nanos::from_millis(200));
            client.run("probe_heard", 0)
        };
        client.run("probe_attach", LOW);
        // Beta's port is the first member; what it hears of its own is none of this one's.
        beta.stream.enable_multicast(group).expect("a group");
        fakekernel::sleep(Nanos::from_millis(500));
        assert_eq!(send(), 0, "the port of the client has not joined");
        alpha.stream.enable_multicast(group).expect("a group");
        fakekernel::sleep(Nanos::from_millis(500));
        assert_eq!(send(), 1);
        alpha.stream.disable_multicast(group).expect("it was enabled");
        fakekernel::sleep(Nanos::from_millis(500));
        assert_eq!(send(), 0, "the port has left");
        client.run("probe_detach", LOW);
    });
}

#[test]
fn both_cqs_of_a_queue_pair_that_hears_a_group_fail_on_request_and_each_is_told_once() {
    with_client(2, |bench, client| {
        let fail = || bench.software.ioctl(command::FAIL_CQS, [1, 0, 0, 0]).expect("there is such a port");
        assert_eq!(fail(), 0, "nobody hears a group");
        client.run("probe_attach", 0x0f01_0203);
        assert_eq!(fail(), 1);
        fakekernel::sleep(Nanos::from_millis(50));
        assert_eq!(client.ask("probe_cqs_failed", 0), 1 | 1 << 8);
        client.run("probe_detach", 0x0f01_0203);
    });
}

#[test]
fn handler_of_a_moderated_cq_is_called_for_many_or_when_the_post_is_over() {
    with_client(12, |bench, client| {
        let allowed = [4, 8, 16, 100][bench.seed as usize % 4];
        client.run("probe_moderated", allowed);
        fakekernel::sleep(Nanos::from_millis(10));
        let first = client.run("probe_first_time", 0);
        assert!((allowed.min(16)..=16).contains(&first), "called for {first}, {allowed} were allowed");
        client.run("probe_unmoderate", 0);
    });
}
