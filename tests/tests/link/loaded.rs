//! The driver's module is loaded, or is not and leaves nothing.

use conformance::probe::shipped;
use fakekernel::{Config, FaultKind, FaultPlan, Machine};

use lab_world::{Driver, provide};

/// Before, each of some thirty allocations that failed kept the module from being loaded.
#[test]
fn a_driver_is_loaded_without_memory_at_once() {
    for driver in [Driver::Ibd, Driver::Ibp] {
        let machine = Machine::new(Config::seeded(1));
        let kernel = machine.add_host("alpha");
        let outcome = machine.run(move || {
            provide(&kernel, &shipped("mac", "mac_ib"));
            let name = driver.name();
            kernel.add_major(name);
            let module = kernel.load(&shipped("drv", name), name, "drv").expect("it is an object");
            kernel.set_fault(FaultKind::KMEM, Some(name), FaultPlan::From(0));
            module.install().expect("it waits for memory");
            module.unload().expect("no instance is attached");
        });
        if let Err(halt) = outcome {
            panic!("{driver:?}: {halt}");
        }
    }
}
