//! Several adapters in one kernel, on one subnet.

use fakekernel::genunix::DevInfoSpec;
use fakekernel::{Errno, Module};

use super::bench::{Bench, Setup, plan};

fn module(bench: &Bench) -> Module {
    bench.software.kernel.module("swhca").expect("it is loaded")
}

#[test]
fn second_adapter_of_a_number_is_refused_and_the_first_works_on() {
    Setup { seeds: 2, ..Setup::default() }.run(|bench| {
        let (alpha, beta) = (bench.open(&bench.alpha), bench.open(&bench.beta));
        let kernel = &bench.software.kernel;
        let again = kernel.add_device(DevInfoSpec { instance: 1, ..plan().node(0) });
        assert_eq!(kernel.attach(&module(bench), &again), Err(Errno::EIO));
        alpha.reaches(&beta, b"as before");
        let groups = lab_ibtf::groups_of(kernel, bench.alpha.port).expect("an answer");
        assert!(!groups.is_empty(), "its port is where it was");
    });
}

#[test]
fn three_adapters_come_and_go_a_hundred_times() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        let kernel = &bench.software.kernel;
        let nodes: Vec<_> = [1, 2].map(|unit| kernel.add_device(plan().node(unit))).into();
        for _ in 0..100 {
            for node in &nodes {
                kernel.attach(&module(bench), node).expect("it attaches");
            }
            bench.software.try_detach().expect("nobody has it");
            for node in &nodes {
                kernel.detach(&module(bench), node).expect("nobody has it");
            }
            bench.software.unload().expect("nobody has any");
            bench.software.check_nothing_is_left().expect("an empty kernel");
            bench.software.install().expect("it loads again");
            bench.software.attach().expect("it attaches again");
        }
    });
}
