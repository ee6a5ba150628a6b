//! What IBTF tells a link unasked: at the moment it is detached, and about ports that are not its own.

use fabric::{HcaConfig, Qpn};
use fakekernel::{Config, Nanos};
use lab_gldv3::{LinkAddress, Stream};
use sm::fault::FaultAction;
use sm::{Attribute, Fault, Status};

use crate::bench::{Bench, PLAIN, Setup, address_of};

/// Threads are taken off their processors at any point, so a call that has begun may go on when the link is gone.
fn preempted(config: &mut Config) {
    (config.switch_one_in, config.preempt_one_in, config.preempt_at_most) = (4, 20, Nanos::from_millis(40));
}

fn qpn(stream: &Stream) -> Qpn {
    let LinkAddress(bytes) = address_of(stream);
    Qpn::truncating(u32::from_be_bytes([0, bytes[1], bytes[2], bytes[3]]))
}

#[test]
fn a_queue_pair_that_fails_while_its_link_is_detached_disturbs_nobody() {
    Setup { seeds: 150, machine: preempted, ..Setup::default() }.run(|bench| {
        let hca = bench.world.fabric().hca(bench.alpha.adapter()).expect("alpha has an adapter");
        for _ in 0..4 {
            let (stream, _) = bench.alpha.open_up(PLAIN);
            hca.break_qpn(qpn(&stream));
            drop(stream);
            bench.alpha.comes_and_goes()();
        }
    });
}

#[test]
fn a_notice_that_comes_while_a_link_is_detached_disturbs_nobody() {
    Setup { seeds: 60, machine: preempted, ..Setup::default() }.run(|bench| {
        let notices = bench.beta.kernel.spawn("notices", fakekernel::Ctx::Kernel, {
            let (world, port) = (bench.world.clone(), bench.beta.port());
            move || {
                for n in 0..40 {
                    world.set_cable(port, n % 2 != 0);
                    fakekernel::sleep(Nanos::from_millis(5));
                }
            }
        });
        for _ in 0..6 {
            bench.alpha.comes_and_goes()();
        }
        notices.join();
    });
}

/// The lines about traps that alpha logs while its driver is detached and attached.
fn lines_about_traps(bench: &Bench) -> usize {
    let count = || bench.alpha.console().iter().filter(|line| line.contains("multicast traps")).count();
    // More than one line a second of one link would not be logged.
    fakekernel::sleep(Nanos::from_secs(2));
    let before = count();
    bench.alpha.comes_and_goes()();
    bench.settle();
    count() - before
}

#[test]
fn only_of_the_link_s_own_port_and_while_it_is_up_is_it_said_that_it_hears_no_traps() {
    let two_ports = |config: &mut HcaConfig| *config = HcaConfig::new(config.guid, 2);
    Setup { hca: two_ports, ..Setup::default() }.run(|bench| {
        bench.settle();
        let adapter = bench.world.fabric().hca(bench.alpha.adapter()).expect("alpha has an adapter");
        let lid = |port: usize| sm::Lid(adapter.query_ports().expect("it answers")[port].lid.0);
        // Once by the link of each attachment, of which there are three.
        for (port, lines) in [(1, 0), (0, 3)] {
            let refused = Fault::always(FaultAction::Refuse(Status::NO_RESOURCES));
            let subscriptions =
                Fault { attribute: Some(Attribute::INFORM_INFO), from: Some(lid(port)), ..refused };
            bench.sm.faults(|script| script.push(subscriptions));
            bench.sm.restart(sm::Lid(0xc000));
            bench.settle();
            assert_eq!(lines_about_traps(bench), lines, "port {}: {:?}", port + 1, bench.alpha.console());
        }
        bench.world.set_cable(bench.alpha.port(), false);
        bench.settle();
        assert_eq!(lines_about_traps(bench), 0, "the port is down: {:?}", bench.alpha.console());
        bench.no_faults();
    });
}
