//! What an interrupt from outside finds: a process of its own, for it is meant for all machines of one.

mod probe;

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use fakekernel::{Config, Halt, Machine, interrupt};
use probe::{Probe, go_with, install};

type Go = unsafe extern "C" fn(*mut i32) -> i32;

/// Before, such a run ended without a word.
#[test]
fn an_interrupt_names_where_a_module_loops_and_where_one_waits() {
    let probe = Probe::build(
        "endless",
        "",
        "static volatile int zero; static void around(void) { while (zero == 0) ; }
         int go(volatile int *begun) { (void) ddi_get_lbolt(); *begun = 1; around(); return (0); }",
    );
    let machine = Machine::new(Config::seeded(0));
    let host = machine.add_host("alpha");
    let begun = Arc::new(AtomicI32::new(0));
    let watched = begun.clone();
    let asking = std::thread::spawn(move || {
        // The call is over by then: it has been noted, and the module is on its way around.
        while watched.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        assert!(!interrupt::ask());
    });
    let path = probe.path();
    let result = machine.run(move || {
        host.scope(|| {
            let module = install(&host, &path, "endless");
            // SAFETY: the probe's `go` takes the address of an int and returns one.
            let go: Go = unsafe { probe::function(&module, "go") };
            // SAFETY: as above; the int is there as long as the test.
            unsafe { module.enter(go, (begun.as_ptr(),), fakekernel::EntryKind::callback("go")) }
        })
    });
    asking.join().unwrap();
    let halt = result.unwrap_err();
    let text = halt.to_string();
    let Halt::Interrupted(dump) = halt else { panic!("{text}") };
    let places: Vec<&str> = dump.backtrace.iter().map(|frame| frame.symbol.as_str()).collect();
    assert!(places[0].starts_with("around") || places == ["go"], "{text}");
    assert_eq!((&*dump.host, &*dump.last_call), ("alpha", "ddi_get_lbolt"), "{text}");

    let probe = Probe::build("waits", "", "int go(void) { for (;;) delay(1000); }");
    let (_, result) = go_with(Config::seeded(0), &probe);
    assert!(matches!(result, Err(Halt::Interrupted(_))), "{result:?}");
    assert!(interrupt::ask(), "it was asked for before");
}
