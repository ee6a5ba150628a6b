//! Several adapters in one kernel, on one subnet.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use fakekernel::genunix::{Cred, DevInfoSpec};
use fakekernel::{Errno, Module, Nanos};
use lab_ibtf::nexus;
use sm::{Arrival, Inbound};
use swhca_ioctl::command;

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
        let log = kernel.genunix().messages();
        assert!(log.iter().any(|line| line.text.contains("adapter 0 exists already")), "{log:?}");
        alpha.reaches(&beta, b"as before");
        let groups = lab_ibtf::groups_of(kernel, bench.alpha.port).expect("an answer");
        assert!(!groups.is_empty(), "its port is where it was");
    });
}

#[test]
fn adapter_whose_lid_has_been_given_away_is_refused_until_it_is_free_and_the_log_says_which() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        let kernel = &bench.software.kernel;
        let second = kernel.add_device(plan().node(1));
        let told = |command: i32, port: u64, lid: u64| {
            bench.software.ioctl(command, [port, lid, 0, 0]).expect("nobody has it");
        };
        let refused = |lid: &str| {
            // Of one kind the driver logs one a second.
            fakekernel::sleep(Nanos::from_secs(2));
            let before = kernel.genunix().messages().len();
            assert_eq!(kernel.attach(&module(bench), &second), Err(Errno::EIO), "{lid}");
            let log: Vec<_> = kernel.genunix().messages().split_off(before);
            assert!(log.iter().any(|line| line.text.contains(lid)), "{log:?}");
        };
        // Its ports have 9 and 10.
        told(command::MOVE_MANAGER, 1, 9);
        refused("LID 9 of adapter 1 is taken");
        told(command::MOVE_MANAGER, 1, 0x400);
        told(command::SET_LID, 2, 10);
        refused("LID 10 of adapter 1 is taken");
        // Its ports look for their manager at 1024.
        told(command::MOVE_MANAGER, 1, 0x500);
        told(command::MOVE_MANAGER, 2, 0x500);
        told(command::SET_LID, 2, 0x400);
        refused("LID 1024 of adapter 1 is taken");
        told(command::SET_LID, 2, 2);
        kernel.attach(&module(bench), &second).expect("its LIDs are free");
        kernel.detach(&module(bench), &second).expect("nobody has it");
    });
}

/// The ports that a port is told have gone (trap 65), by GUID.
#[derive(Default)]
struct Gone(Mutex<Vec<u64>>);

impl Inbound for Gone {
    fn receive(&self, arrival: &Arrival) {
        let mad = &arrival.mad.0;
        let field = |at: usize| u64::from_be_bytes(mad[at..at + 8].try_into().expect("eight bytes"));
        // A report of the administrator's: the trap, and whom it is about.
        if (mad[1], mad[3]) == (3, 6) && mad[60..62] == 65_u16.to_be_bytes() {
            self.0.lock().expect("nobody panics with it").push(field(80));
        }
    }
}

#[test]
fn port_without_a_cable_has_gone_once_though_its_adapter_goes_too() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        let kernel = &bench.software.kernel;
        let second = kernel.add_device(plan().node(1));
        kernel.attach(&module(bench), &second).expect("it attaches");
        let ports = nexus::ports(kernel);
        let other = ports.iter().find(|node| node.hca != bench.software.guid());
        let (hca, other) = other.map(|node| (node.hca, node.port_guid)).expect("a port of the second");
        let (wire, gone) = (lab_ibtf::wire(kernel), Arc::new(Gone::default()));
        let inbound: Arc<dyn Inbound> = gone.clone();
        wire.attach(other, &inbound);
        bench.software.ioctl(command::PORT_DOWN, [2, 0, 0, 0]).expect("there is such a port");
        fakekernel::sleep(Nanos::from_secs(1));
        bench.software.try_detach().expect("nobody has it");
        fakekernel::sleep(Nanos::from_secs(1));
        wire.detach(other, &inbound);
        let told = gone.0.lock().expect("nobody panics with it").clone();
        assert_eq!(told, [2, 1].map(|number| bench.software.port(number).0));
        bench.software.attach().expect("it attaches again");
        assert!(nexus::unconfigure(kernel, hca));
        kernel.detach(&module(bench), &second).expect("nobody has it");
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

#[test]
fn ports_of_two_adapters_have_instances_of_their_own_and_hear_each_other() {
    Setup::default().run(|bench| {
        let alpha = bench.open(&bench.alpha);
        let kernel = &bench.software.kernel;
        let second = kernel.add_device(plan().node(1));
        kernel.attach(&module(bench), &second).expect("it attaches");
        let ports = nexus::ports(kernel);
        let instances: BTreeSet<u32> = ports.iter().map(|node| node.device.instance()).collect();
        assert_eq!((ports.len(), instances.len()), (4, 4));
        let other =
            ports.iter().find(|node| node.hca != bench.software.guid()).expect("a port of the second");
        let ibp = kernel.module("ibp").expect("alpha has it");
        nexus::attach(kernel, &ibp, other).expect("it attaches");
        let port = format!("ibp{}", other.device.instance());
        lab_gldv3::create_partition(kernel, &port, 0xffff, "other0", true).expect("a partition");
        let gamma = bench.open_link("other0");
        alpha.reaches(&gamma, b"on another adapter");
        gamma.reaches(&alpha, b"and back");
        drop(gamma);
        lab_gldv3::delete_partition(kernel, "other0").expect("nobody has it open");
        kernel.detach(&ibp, &other.device).expect("nobody has it");
        assert!(nexus::unconfigure(kernel, other.hca));
        kernel.detach(&module(bench), &second).expect("nobody has it");
    });
}

/// Before, a zone whose processes may configure links (exclusive IP) pulled everybody's cables, if it had the device file.
#[test]
fn a_zone_pulls_no_cable_whatever_its_privilege() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        let [cable, of] = [command::PORT_DOWN, command::PORT_UP];
        let ask = |cred, command| bench.software.ioctl_as(cred, command, [1, 0, 0, 0]);
        for refused in [Cred { zone: 5, ..Cred::ROOT }, Cred { zone: 5, ..Cred::USER }, Cred::USER] {
            assert_eq!(ask(refused, cable), Err(Errno::EPERM), "{refused:?}");
        }
        assert!(ask(Cred::ROOT, cable).is_ok() && ask(Cred::ROOT, of).is_ok());
    });
}
