//! Modules that loop are found and named; modules that only take long are not.

mod probe;

use fakekernel::{Carrier, Config, EntryKind, Halt, Machine, Nanos};
use probe::{Probe, go_with, install};

/// Before, such a run had no end.
#[test]
fn a_loop_without_a_call_halts_the_machine_and_is_named() {
    let limit = Nanos::from_millis(300);
    let coroutines = Config { processor_limit: limit, ..Config::seeded(0) };
    let os_threads = Config { carrier: Carrier::OsThread, ..coroutines.clone() };
    let live = Config { processor_limit: limit, ..Config::live() };
    let loops = [
        ("tight", "static volatile int zero;", "while (zero == 0) ;"),
        ("jump", "", "__asm__ volatile(\"1: jmp 1b\");"),
        (
            "deep",
            "static volatile int zero; static void down(int n) { if (n > 0) down(n - 1); while (zero == 0) zero = 0; }",
            "delay(1); down(20);",
        ),
        (
            "locked",
            "static volatile int zero; static kmutex_t a;",
            "mutex_init(&a, NULL, 4, NULL); mutex_enter(&a); while (zero == 0) ;",
        ),
        (
            "thread",
            "static volatile int zero; static void body(void *arg) { while (zero == 0) ; }",
            "thread_join(SPAWN(body, NULL));",
        ),
    ];
    for (name, globals, body) in loops {
        for config in [&coroutines, &os_threads, &live] {
            let probe = Probe::build(name, "", &format!("{globals} int go(void) {{ {body} return (0); }}"));
            let (_, result) = go_with(config.clone(), &probe);
            let halt = result.unwrap_err();
            let text = halt.to_string();
            let Halt::Loop(told, dump) = halt else { panic!("{name}: {text}") };
            assert_eq!((told, &*dump.host), (limit, "alpha"), "{name}: {text}");
            assert_eq!(dump.backtrace[0].module, name, "{text}");
            assert!(text.starts_with(&format!("{name} loops: ")), "{text}");
            let innermost = match name {
                "deep" => "down",
                "thread" => "body",
                _ => "go",
            };
            assert!(dump.backtrace[0].symbol.starts_with(innermost), "{text}");
            assert_eq!(dump.holds.len(), usize::from(name == "locked"), "{text}");
        }
    }
}

/// It takes long, but calls, or is called, now and then; and what the lab itself takes does not count.
#[test]
fn a_module_that_works_long_is_no_loop() {
    let probe = Probe::build(
        "busy",
        "",
        "static volatile unsigned sink; static int once(void) { unsigned i; for (i = 0; i < 10000000; i++) sink += i; return (0); }
         int go(void) { int i; for (i = 0; i < 60; i++) { (void) once(); (void) ddi_get_lbolt(); } return (7); }",
    );
    let config = Config { processor_limit: Nanos::from_millis(240), ..Config::seeded(0) };
    let (machine, result) = go_with(config.clone(), &probe);
    assert_eq!(result.unwrap(), 7);
    assert!(machine.crossings() >= 60);
    // Entered again and again, without a call of its own.
    let probe = Probe::build(
        "entered",
        "",
        "static volatile unsigned sink; int go(void) { unsigned i; for (i = 0; i < 10000000; i++) sink += i; return (7); }",
    );
    let machine = Machine::new(config);
    let host = machine.add_host("alpha");
    let path = probe.path();
    let result = machine.run(move || {
        host.scope(|| {
            let module = install(&host, &path, "entered");
            // SAFETY: the probe's `go` takes nothing and returns an int.
            let go: probe::Int = unsafe { probe::function(&module, "go") };
            // SAFETY: as above.
            (0..60).map(|_| unsafe { module.enter(go, (), EntryKind::callback("go")) }).sum::<i32>()
        })
    });
    assert_eq!(result.unwrap(), 420);
}
