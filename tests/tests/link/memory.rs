//! The kernel has no memory to give at once: what an administrator does waits for memory and is not refused, as in the C driver.

use fakekernel::{FaultKind, FaultPlan, Nanos};
use lab_gldv3::{Offload, PropertyId, PropertyValue, set_property};

use crate::bench::{Bench, Driver, Host, LINK, PLAIN, Setup, address_of};

/// Runs `during` while no allocation succeeds that a module of ours makes and that does not wait. What dld allocates for an ioctl is
/// not among them: without that every driver's ioctl is refused.
fn without_memory<R>(host: &Host, during: impl FnOnce() -> R) -> R {
    let modules = [Some(host.driver().name()), Some("mac_ib")];
    for module in modules {
        host.kernel.set_fault(FaultKind::KMEM, module, FaultPlan::From(0));
    }
    let result = during();
    for module in modules {
        host.kernel.clear_fault(FaultKind::KMEM, module);
    }
    result
}

/// The link carries packets, and nothing was said of memory.
fn carries(bench: &Bench) {
    let (alpha, beta, heard) = bench.talking(PLAIN);
    alpha.transmit(address_of(&beta), &[7; 100], Offload::default()).expect("the stream is bound");
    bench.wait_for("a packet", Nanos::from_secs(10), || heard.try_next().is_some());
    let console = bench.alpha.console();
    assert!(!console.iter().any(|line| line.contains("memory")), "{console:?}");
}

/// Before, each of the first sixty allocations that failed refused `dladm create-part` with ENOMEM.
#[test]
fn a_partition_is_made_without_memory_at_once() {
    Setup { driver: Driver::Ibp, ..Setup::default() }.run(|bench| {
        bench.alpha.try_delete_partition().expect("the link is closed");
        without_memory(&bench.alpha, || bench.alpha.create_partition());
        carries(bench);
    });
}

/// Each of a link's rings has tables of its own.
#[test]
fn a_link_with_rings_attaches_without_memory_at_once() {
    const CONF: &[(&str, i32)] = &[("ibd_rx_rings", 1), ("ibd_tx_rings", 4)];
    Setup { conf: CONF, ..Setup::default() }.run(|bench| {
        bench.alpha.unload();
        without_memory(&bench.alpha, || bench.alpha.make_link()).expect("the driver attaches");
        carries(bench);
    });
}

/// Before, modules that could not be loaded, and a port that could not be attached, said "out of kernel memory".
#[test]
fn modules_load_and_a_port_attaches_without_memory_at_once() {
    Setup { driver: Driver::Ibp, ..Setup::default() }.run(|bench| {
        bench.alpha.unload();
        without_memory(&bench.alpha, || bench.alpha.make_link()).expect("the driver attaches");
        carries(bench);
    });
}

/// Before, a property that could not have its table was taken for set, and the table stayed as it was.
#[test]
fn a_property_is_set_without_memory_at_once() {
    Setup::default().run(|bench| {
        let set = |name, value| without_memory(&bench.alpha, || bench.alpha.set(name, value));
        set("_ibd_num_ah", "8192").expect("within its bounds");
        set("_ibd_hash_size", "1024").expect("within its bounds");
        assert_eq!(bench.alpha.named("paths", "capacity"), 8192);
        carries(bench);
    });
}

/// Before, the link came up and accepted no connections until its next queue pair.
#[test]
fn a_link_listens_although_an_allocation_fails() {
    for refused in 0..24 {
        Setup { seeds: 1, ..Setup::default() }.run(move |bench| {
            let connected = PropertyValue::U32(1);
            set_property(&bench.alpha.kernel, LINK, &PropertyId::IbLinkMode, &connected)
                .expect("a closed link");
            bench.alpha.kernel.set_fault(FaultKind::KMEM, Some("ibd"), FaultPlan::Nth(refused));
            let (alpha, _) = bench.alpha.open_up(PLAIN);
            bench.alpha.kernel.clear_fault(FaultKind::KMEM, Some("ibd"));
            let console = bench.alpha.console();
            assert!(!console.iter().any(|line| line.contains("accepts no connections")), "{console:?}");
            drop(alpha);
        });
    }
}
