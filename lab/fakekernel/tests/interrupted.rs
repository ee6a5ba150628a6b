//! What an interrupt from outside finds: a process of its own, for it is meant for all machines of one.

mod probe;

use fakekernel::{Config, Halt, Machine, interrupt};
use probe::{Probe, go_with, install};

/// Before, such a run ended without a word.
#[test]
fn an_interrupt_names_where_a_module_loops_and_where_one_waits() {
    let probe = Probe::build(
        "endless",
        "",
        "static volatile int zero; static void around(void) { while (zero == 0) ; }
         int go(void) { (void) ddi_get_lbolt(); (void) ddi_get_lbolt(); around(); return (0); }",
    );
    let machine = Machine::new(Config::seeded(0));
    let host = machine.add_host("alpha");
    let watched = machine.clone();
    let asking = std::thread::spawn(move || {
        // The second call is the last one, and the first is noted by then. It most likely returns in the meantime.
        while watched.crossings() < 2 {
            std::thread::yield_now();
        }
        (0..10_000).for_each(|_| std::thread::yield_now());
        assert!(!interrupt::ask());
    });
    let path = probe.path();
    let result = machine.run(move || {
        host.scope(|| {
            let module = install(&host, &path, "endless");
            // SAFETY: the probe's `go` takes nothing and returns an int.
            let go: probe::Int = unsafe { probe::function(&module, "go") };
            // SAFETY: as above.
            unsafe { module.enter(go, (), fakekernel::EntryKind::callback("go")) }
        })
    });
    asking.join().unwrap();
    let halt = result.unwrap_err();
    let text = halt.to_string();
    let Halt::Interrupted(dump) = halt else { panic!("{text}") };
    let places: Vec<&str> = dump.backtrace.iter().map(|frame| frame.symbol.as_str()).collect();
    // None if the call itself has not returned yet.
    let is_around = |place: &&str| place.starts_with("around");
    assert!(places.first().is_none_or(is_around) || places == ["go"], "{text}");
    assert_eq!((&*dump.host, &*dump.last_call), ("alpha", "ddi_get_lbolt"), "{text}");

    let probe = Probe::build("waits", "", "int go(void) { for (;;) delay(1000); }");
    let (_, result) = go_with(Config::seeded(0), &probe);
    assert!(matches!(result, Err(Halt::Interrupted(_))), "{result:?}");
    assert!(interrupt::ask(), "it was asked for before");
}
