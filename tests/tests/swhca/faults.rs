//! What `swhca` cannot have: each call of it that can fail fails in turn. It says no, leaves nothing, and does it the next time.

use std::sync::Arc;

use conformance::probe::shipped;
use fakekernel::{Config, FaultKind, FaultPlan, Kernel, Machine};
use lab_world::{Software, SoftwarePlan};
use swhca_ioctl::command;

use super::bench::Setup;

/// What a driver asks of the kernel and may be refused.
const KINDS: [FaultKind; 4] = [FaultKind::KMEM, FaultKind::DDI, FaultKind::TASKQ, FaultKind("ibc_attach")];

/// Has each call of a kind fail in turn while `act` is done, until one is not reached any more; how many there were. What `act` did when
/// nothing failed is undone by `undo`.
fn each(kernel: &Kernel, act: impl Fn() -> bool, undo: impl Fn()) -> u64 {
    let mut failed = 0;
    for kind in KINDS {
        for nth in 0.. {
            kernel.set_fault(kind, Some("swhca"), FaultPlan::Nth(nth));
            let done = act();
            let reached = kernel.clear_fault(kind, Some("swhca")).unwrap_or(0) > nth;
            if done {
                undo();
            }
            if !reached {
                assert!(done, "it fails though nothing does: {:?}", kernel.genunix().messages());
                break;
            }
            failed += 1;
        }
    }
    failed
}

fn on_a_kernel(test: fn(&Arc<Software>)) {
    let machine = Machine::new(Config::seeded(1));
    let inner = machine.clone();
    let outcome = machine.run(move || {
        let plan = SoftwarePlan::new("host", shipped("drv", "swhca"), shipped("mac", "mac_ib"));
        let software = Arc::new(Software::place(&inner, &plan));
        test(&software);
        software.unload().expect("nobody has the adapter");
        software.check_nothing_is_left().expect("an empty kernel");
    });
    outcome.unwrap_or_else(|halt| panic!("{halt}"));
}

/// Before, each of ten allocations and more kept the driver from being loaded.
#[test]
fn no_refusal_keeps_the_driver_from_being_loaded() {
    on_a_kernel(|software| {
        let unload = || software.unload().expect("nobody has it");
        let failed = each(&software.kernel, || software.install().is_ok(), unload);
        assert_eq!(failed, 0, "it waits for memory");
    });
}

#[test]
fn each_refusal_while_the_adapter_attaches_leaves_nothing() {
    on_a_kernel(|software| {
        software.install().expect("it loads");
        let detach = || software.try_detach().expect("nobody has it");
        let failed = each(&software.kernel, || software.attach().is_ok(), detach);
        assert!(failed >= 50, "only {failed} calls failed");
    });
}

#[test]
fn management_that_could_not_have_its_queue_pairs_has_them_when_it_asks() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        bench.software.try_detach().expect("nobody has it");
        let kernel = &bench.software.kernel;
        let mut nth = 0;
        loop {
            kernel.set_fault(FaultKind::KMEM, Some("swhca"), FaultPlan::Nth(nth));
            let attached = bench.software.attach().is_ok();
            let reached = kernel.clear_fault(FaultKind::KMEM, Some("swhca")).unwrap_or(0) > nth;
            if attached && reached {
                let (alpha, beta) = (bench.open(&bench.alpha), bench.open(&bench.beta));
                alpha.reaches(&beta, b"both have joined");
                drop((alpha, beta));
                bench.alpha.unload().expect("nobody has the link open");
                bench.beta.unload().expect("nobody has the link open");
            }
            if attached {
                bench.software.try_detach().expect("nobody has it");
            }
            if !reached {
                break;
            }
            // Every third: each takes a link's life.
            nth += 3;
        }
        bench.software.attach().expect("it attaches");
    });
}

#[test]
fn subnet_manager_that_cannot_tell_of_its_restart_does_not_restart() {
    Setup { seeds: 1, ..Setup::default() }.run(|bench| {
        let (alpha, beta) = (bench.open(&bench.alpha), bench.open(&bench.beta));
        let groups =
            || lab_ibtf::groups_of(&bench.software.kernel, bench.alpha.port).expect("an answer").len();
        let before = groups();
        assert!(before > 0, "the link is in its broadcast group");
        bench.software.kernel.set_fault(FaultKind::KMEM, Some("swhca"), FaultPlan::Nth(0));
        let refused = bench.software.ioctl(command::RESTART_MANAGER, [0; 4]);
        bench.software.kernel.clear_fault(FaultKind::KMEM, Some("swhca"));
        assert_eq!(refused, Err(fakekernel::Errno::ENOMEM));
        assert_eq!(groups(), before, "what nobody was told of is not forgotten");
        alpha.reaches(&beta, b"as before");
    });
}
