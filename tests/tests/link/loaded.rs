//! The driver's module is loaded, or is not and leaves nothing.

use conformance::probe::shipped;
use fakekernel::{Config, Errno, FaultKind, FaultPlan, Machine};

use lab_world::{Driver, provide};

/// The threads that ask the SA, which the module has from the start.
const THREADS: u64 = 8;

#[test]
fn a_driver_that_finds_no_memory_for_its_threads_is_not_loaded_and_leaves_nothing() {
    for driver in [Driver::Ibd, Driver::Ibp] {
        let machine = Machine::new(Config::seeded(1));
        let kernel = machine.add_host("alpha");
        let outcome = machine.run(move || {
            provide(&kernel, &shipped("mac", "mac_ib"));
            let name = driver.name();
            kernel.add_major(name);
            let mut refused = 0;
            let module = loop {
                let module = kernel.load(&shipped("drv", name), name, "drv").expect("it is an object");
                kernel.set_fault(FaultKind::KMEM, Some(name), FaultPlan::Nth(refused));
                match module.install() {
                    Ok(()) => break module,
                    Err(error) => assert_eq!(error, Errno::ENOMEM, "allocation {refused}"),
                }
                refused += 1;
            };
            assert!(refused > 2 * THREADS, "each thread needs memory: {refused}");
            module.unload().expect("no instance is attached");
        });
        if let Err(halt) = outcome {
            panic!("{driver:?}: {halt}");
        }
    }
}
