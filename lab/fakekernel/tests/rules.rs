//! Each probe breaks one rule; the machine must halt and name module, call and rule.

mod probe;

use fakekernel::{Config, Halt, Machine, Rule, Suppression, Suppressions};
use probe::{Probe, go, go_with, install};

/// Runs `body` as the probe's `go` after `globals`, under a few seeds.
fn breaks(rule: Rule, call: &str, globals: &str, body: &str) {
    let probe = Probe::build("culprit", "", &format!("{globals}\nint go(void) {{ {body} return (0); }}"));
    for seed in 0..8 {
        match go(seed, &probe) {
            Err(Halt::Violation(v)) => {
                assert_eq!(v.rule, rule, "{v}");
                assert_eq!((v.module.as_str(), v.call.as_str()), ("culprit", call), "{v}");
                assert_eq!(v.host, "alpha");
            }
            Err(other) => panic!("{rule}: {other}"),
            Ok(value) => panic!("{rule} was not noticed, go returned {value}"),
        }
    }
}

const LOCKS: &str = "static kmutex_t a, b; static kcondvar_t cv; static void *cookie;
static void init(void) { mutex_init(&a, NULL, 4, cookie); mutex_init(&b, NULL, 4, cookie); cv_init(&cv, NULL, 1, NULL); }";

#[test]
fn rule_1_delay_in_a_timeout_handler() {
    breaks(
        Rule::SleepInInterrupt,
        "delay",
        "static void handler(void *arg) { delay(1); }",
        "(void) timeout(handler, NULL, 1); delay(100);",
    );
}

#[test]
fn rule_2_wait_with_a_spin_mutex() {
    breaks(
        Rule::BlockWithSpinMutex,
        "delay",
        LOCKS,
        "mutex_init(&b, NULL, 1, NULL); mutex_enter(&b); delay(5);",
    );
}

#[test]
fn rule_3_sleeping_with_a_mutex_is_noted_and_tolerated() {
    let probe = Probe::build(
        "sleeper",
        "",
        &format!(
            "{LOCKS} int go(void) {{ init(); mutex_enter(&a); delay(3); mutex_exit(&a);
            mutex_destroy(&a); mutex_destroy(&b); cv_destroy(&cv); return (0); }}"
        ),
    );
    let (machine, result) = go_with(Config::seeded(0), &probe);
    result.unwrap();
    let notes = machine.notes();
    let note = notes.iter().find(|n| n.rule == Rule::BlockWithMutex).expect("no note");
    assert_eq!((note.module.as_str(), note.call.as_str(), note.count), ("sleeper", "delay", 1));
}

#[test]
fn rule_4_thread_join_with_a_mutex() {
    let globals = format!("{LOCKS} static void body(void *arg) {{ }}");
    breaks(
        Rule::UpcallWithMutex,
        "thread_join",
        &globals,
        "init(); mutex_enter(&a); thread_join(SPAWN(body, NULL));",
    );
}

#[test]
fn rule_5_recursive_mutex_enter() {
    breaks(Rule::RecursiveMutex, "mutex_enter", LOCKS, "init(); mutex_enter(&a); mutex_enter(&a);");
}

#[test]
fn rule_6_mutex_exit_by_a_stranger() {
    breaks(Rule::MutexNotOwner, "mutex_exit", LOCKS, "init(); mutex_exit(&a);");
}

#[test]
fn rule_7_mutex_after_destroy_and_mutex_of_garbage() {
    breaks(Rule::BadMutex, "mutex_enter", LOCKS, "init(); mutex_destroy(&a); mutex_enter(&a);");
    breaks(Rule::BadMutex, "mutex_tryenter", LOCKS, "*(long *)&a = 0x1238; (void) mutex_tryenter(&a);");
}

#[test]
fn rule_8_mutex_destroyed_while_another_thread_holds_it() {
    let globals =
        format!("{LOCKS} static void body(void *arg) {{ mutex_enter(&a); delay(50); mutex_exit(&a); }}");
    breaks(
        Rule::BadMutexDestroy,
        "mutex_destroy",
        &globals,
        "init(); SPAWN(body, NULL); delay(10); mutex_destroy(&a);",
    );
    breaks(Rule::BadMutexDestroy, "mutex_destroy", LOCKS, "init(); mutex_destroy(&a); mutex_destroy(&a);");
}

#[test]
fn rule_9_module_unloaded_with_a_held_lock_in_its_data() {
    let globals = format!("{LOCKS} static void tick(void *arg) {{ }}");
    breaks(Rule::LockBalance, "go", &globals, "init(); mutex_enter(&a);");
    breaks(Rule::Leak, "_fini", &globals, "init();");
}

#[test]
fn rule_9_a_frame_left_with_a_live_condition_variable() {
    breaks(
        Rule::LiveObjectInFreedMemory,
        "go",
        "",
        "kcondvar_t here; cv_init(&here, NULL, 1, NULL); cv_signal(&here);",
    );
}

#[test]
fn rule_10_cv_wait_without_the_mutex() {
    breaks(Rule::BadCvMutex, "cv_wait", LOCKS, "init(); cv_wait(&cv, &a);");
}

#[test]
fn rule_12_cv_destroyed_with_a_waiter_or_used_after() {
    let globals =
        format!("{LOCKS} static void body(void *arg) {{ mutex_enter(&a); for (;;) cv_wait(&cv, &a); }}");
    breaks(Rule::BadCv, "cv_destroy", &globals, "init(); SPAWN(body, NULL); delay(10); cv_destroy(&cv);");
    breaks(Rule::BadCv, "cv_signal", LOCKS, "init(); cv_destroy(&cv); cv_signal(&cv);");
    breaks(Rule::BadCv, "cv_signal", LOCKS, "*(short *)&cv = 77; cv_signal(&cv);");
}

#[test]
fn rule_13_one_cv_with_two_mutexes() {
    let globals =
        format!("{LOCKS} static void body(void *arg) {{ mutex_enter(&a); for (;;) cv_wait(&cv, &a); }}");
    breaks(
        Rule::CvTwoMutexes,
        "cv_wait",
        &globals,
        "init(); SPAWN(body, NULL); delay(10); mutex_enter(&b); cv_wait(&cv, &b);",
    );
}

#[test]
fn rule_14_rwlock_entered_twice_left_by_a_stranger_destroyed_active() {
    let globals = "static krwlock_t rw;";
    breaks(
        Rule::BadRwlock,
        "rw_enter",
        globals,
        "rw_init(&rw, NULL, 2, NULL); rw_enter(&rw, 0); rw_enter(&rw, 0);",
    );
    breaks(Rule::BadRwlock, "rw_exit", globals, "rw_init(&rw, NULL, 2, NULL); rw_exit(&rw);");
    breaks(
        Rule::BadRwlock,
        "rw_destroy",
        globals,
        "rw_init(&rw, NULL, 2, NULL); rw_enter(&rw, 1); rw_destroy(&rw);",
    );
}

#[test]
fn rule_19_a_timeout_still_pending_at_fini() {
    breaks(Rule::Leak, "_fini", "static void tick(void *arg) { }", "(void) timeout(tick, NULL, 100000);");
    breaks(Rule::Leak, "_fini", "static kmutex_t a;", "mutex_init(&a, NULL, 4, NULL);");
}

#[test]
fn rule_24_untimeout_of_a_wild_id_or_under_the_handlers_lock() {
    breaks(Rule::BadUntimeout, "untimeout", "", "(void) untimeout(0x1234);");
    let globals = format!("{LOCKS} static void tick(void *arg) {{ mutex_enter(&a); mutex_exit(&a); }}");
    breaks(
        Rule::BadUntimeout,
        "untimeout",
        &globals,
        "init(); (void) timeout(tick, NULL, 1); delay(10); mutex_enter(&a); (void) untimeout(timeout(tick, NULL, 50));",
    );
}

#[test]
fn rule_25_a_timeout_handler_that_waits_or_takes_long() {
    let globals = format!(
        "{LOCKS} static void tick(void *arg) {{ mutex_enter(&a); cv_wait(&cv, &a); mutex_exit(&a); }}"
    );
    breaks(
        Rule::TimeoutHandlerBlocks,
        "cv_wait",
        &globals,
        "init(); (void) timeout(tick, NULL, 1); delay(100);",
    );
    let globals = format!("{LOCKS} static void tick(void *arg) {{ mutex_enter(&a); mutex_exit(&a); }}");
    breaks(
        Rule::TimeoutHandlerBlocks,
        "timeout handler",
        &globals,
        "init(); (void) timeout(tick, NULL, 1); mutex_enter(&a); delay(100); mutex_exit(&a); delay(100);",
    );
}

const SOFTINT: &str = "static void *id;
static kmutex_t a;
static uint_t handler(char *arg) { mutex_enter(&a); mutex_exit(&a); return (1); }
static void add(void) { void *cookie; (void) ddi_add_softintr(NULL, 8, &id, &cookie, NULL, handler, NULL);
    mutex_init(&a, NULL, 4, cookie); }";

#[test]
fn rule_26_soft_interrupt_after_removal_and_removal_under_its_lock() {
    breaks(
        Rule::BadSoftintr,
        "ddi_trigger_softintr",
        SOFTINT,
        "add(); ddi_remove_softintr(id); ddi_trigger_softintr(id);",
    );
    breaks(
        Rule::BadSoftintr,
        "ddi_remove_softintr",
        SOFTINT,
        "add(); ddi_trigger_softintr(id); delay(10); mutex_enter(&a); ddi_remove_softintr(id);",
    );
}

#[test]
fn rule_29_a_call_above_lock_level() {
    breaks(
        Rule::HighLevelCall,
        "cv_signal",
        LOCKS,
        "cv_init(&cv, NULL, 1, NULL); mutex_init(&a, NULL, 1, (void *)12); mutex_enter(&a); cv_signal(&cv);",
    );
    breaks(
        Rule::HighLevelCall,
        "mutex_enter",
        LOCKS,
        "mutex_init(&b, NULL, 4, NULL); mutex_init(&a, NULL, 1, (void *)12); mutex_enter(&a); mutex_enter(&b);",
    );
}

#[test]
fn rule_29_a_spin_mutex_of_a_lower_level() {
    breaks(
        Rule::HighLevelCall,
        "mutex_enter",
        LOCKS,
        "mutex_init(&b, NULL, 1, (void *)11); mutex_init(&a, NULL, 1, (void *)12); mutex_enter(&a); mutex_enter(&b);",
    );
}

#[test]
fn rule_30_thread_joins_itself_or_ends_with_a_lock() {
    let globals = format!(
        "{LOCKS} static void *self; static void body(void *arg) {{ delay(5); thread_join(DID(self)); }}
         static void keeps(void *arg) {{ mutex_enter(&a); }}
         static void exits(void *arg) {{ mutex_enter(&a); thread_exit(); }}"
    );
    let create = "thread_create(NULL, 0, (void (*)())body, NULL, 0, p0, 2, 60)";
    breaks(Rule::BadThreadExit, "thread_join", &globals, &format!("self = {create}; delay(50);"));
    breaks(Rule::BadThreadExit, "thread", &globals, "init(); SPAWN(keeps, NULL); delay(50);");
    breaks(Rule::BadThreadExit, "thread_exit", &globals, "init(); SPAWN(exits, NULL); delay(50);");
}

#[test]
fn rule_31_fini_that_does_not_remove_its_linkage() {
    let source = "#define IGNORED
        int _init(void) { return (mod_install(&probe_linkage)); }
        int _fini(void) { return (0); }
        int _info(void *p) { return (mod_info(&probe_linkage, p)); }
        int go(void) { return (0); }";
    let probe = Probe::build_own_linkage("culprit", source);
    let halt = go(0, &probe).unwrap_err();
    assert_eq!(halt.rule(), Some(Rule::BadFini), "{halt}");
    assert_eq!(halt.violation().unwrap().call, "_fini");
}

#[test]
fn rule_34_two_locks_in_both_orders() {
    breaks(
        Rule::LockOrder,
        "mutex_enter",
        LOCKS,
        "init(); mutex_enter(&a); mutex_enter(&b); mutex_exit(&b); mutex_exit(&a); mutex_enter(&b); mutex_enter(&a);",
    );
}

#[test]
fn rule_36_an_entry_point_that_keeps_a_lock() {
    breaks(Rule::LockBalance, "go", LOCKS, "init(); mutex_enter(&a);");
}

#[test]
fn rule_37_an_entry_point_that_returns_at_a_raised_level() {
    breaks(
        Rule::PilBalance,
        "go",
        LOCKS,
        "mutex_init(&a, NULL, 1, (void *)12); mutex_enter(&a); mutex_destroy(&a);",
    );
}

#[test]
fn rule_38_a_call_chain_with_too_much_stack() {
    let globals = "static int deep(int n) { volatile char room[900]; room[0] = n;
        if (n == 0) { (void) ddi_get_lbolt(); return (0); }
        return (deep(n - 1) + room[0]); }";
    breaks(Rule::StackUse, "ddi_get_lbolt", globals, "(void) deep(14);");
}

#[test]
fn rule_39_direction_flag_left_set() {
    breaks(Rule::FloatingPoint, "go", "", "__asm__ volatile(\"std\");");
    breaks(
        Rule::FloatingPoint,
        "go",
        "static unsigned int csr = 0x1f80 | 0x6000;",
        "__asm__ volatile(\"ldmxcsr %0\" :: \"m\"(csr));",
    );
}

#[test]
fn rule_42_delay_of_no_ticks_is_noted() {
    let probe = Probe::build("hasty", "", "int go(void) { delay(0); return (7); }");
    let (machine, result) = go_with(Config::seeded(0), &probe);
    assert_eq!(result.unwrap(), 7);
    assert!(machine.notes().iter().any(|n| n.rule == Rule::BadDelay && n.call == "delay"));
}

#[test]
fn rule_43_mod_install_twice() {
    breaks(Rule::LinkageOrder, "mod_install", "", "(void) mod_install(&probe_linkage);");
}

#[test]
fn a_suppressed_violation_is_counted_and_the_run_goes_on() {
    let probe = Probe::build(
        "known",
        "",
        "static void body(void *arg) { } static kmutex_t a;
         int go(void) { mutex_init(&a, NULL, 4, NULL); mutex_enter(&a); thread_join(SPAWN(body, NULL));
            mutex_exit(&a); mutex_destroy(&a); return (5); }",
    );
    let suppress = Suppressions(vec![Suppression {
        host: None,
        module: "known".into(),
        rule: Rule::UpcallWithMutex,
        call: Some("thread_join".into()),
        function: Some("go".into()),
        evidence: "as the test wants it".into(),
    }]);
    let (machine, result) = go_with(Config { suppress, ..Config::seeded(3) }, &probe);
    assert_eq!(result.unwrap(), 5);
    let notes = machine.notes();
    assert!(
        notes.iter().any(|n| n.suppressed == Some(0) && n.rule == Rule::UpcallWithMutex && n.count == 1),
        "{notes:?}"
    );
}

#[test]
fn a_fault_in_module_text_names_module_function_and_address() {
    let probe = Probe::build(
        "faulty",
        "",
        "static volatile int one = 1; static int deeper(volatile int *p) { delay(one); return (*p); }
         int go(void) { return (deeper((int *)0x18) + one); }",
    );
    match go(0, &probe).unwrap_err() {
        Halt::Fault(fault) => {
            assert_eq!((fault.signal, fault.address, fault.module.as_str()), ("SIGSEGV", 0x18, "faulty"));
            assert_eq!(fault.hint, "NULL plus 0x18");
            let names: Vec<&str> = fault.backtrace.iter().map(|f| f.symbol.as_str()).collect();
            assert!(names[0].starts_with("deeper") && names[1] == "go", "{fault}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_fault_in_the_kernel_is_charged_to_the_module_that_called_it() {
    let probe = Probe::build("wild", "", "int go(void) { mutex_enter((kmutex_t *)0x40); return (0); }");
    match go(0, &probe).unwrap_err() {
        Halt::Fault(fault) => {
            assert_eq!((fault.module.as_str(), fault.call.as_str()), ("wild", "mutex_enter"), "{fault}");
            assert_eq!(fault.backtrace[0].symbol, "go");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn an_illegal_instruction_and_a_write_to_text_halt_the_machine() {
    let probe = Probe::build("illegal", "", "int go(void) { __asm__ volatile(\"ud2\"); return (0); }");
    assert!(matches!(go(0, &probe), Err(Halt::Fault(f)) if f.signal == "SIGILL"));
    let probe = Probe::build(
        "constwriter",
        "",
        "static const int k = 5; int go(void) { *(volatile int *)&k = 6; return (0); }",
    );
    match go(0, &probe).unwrap_err() {
        Halt::Fault(fault) => assert!(fault.hint.contains("read-only data of constwriter"), "{fault}"),
        other => panic!("{other}"),
    }
}

#[test]
fn endless_recursion_is_a_fault_of_its_module() {
    let probe = Probe::build(
        "recursive",
        "",
        "static volatile int zero; static int down(int n) { volatile int here = n; return (down(here + zero) + here); }
         int go(void) { return (down(1)); }",
    );
    match go(0, &probe).unwrap_err() {
        Halt::Fault(fault) => assert_eq!(fault.hint, "the kernel stack overflowed", "{fault}"),
        other => panic!("{other}"),
    }
}

#[test]
fn text_that_runs_after_the_unload_is_rule_30() {
    let probe = Probe::build("gone", "", "int go(void) { return (1); }");
    let machine = Machine::new(Config::default());
    let host = machine.add_host("alpha");
    let path = probe.path();
    let halt = machine
        .run(move || {
            host.scope(|| {
                let module = install(&host, &path, "gone");
                // SAFETY: the probe's `go` takes nothing and returns an int.
                let go: probe::Int = unsafe { probe::function(&module, "go") };
                module.unload().unwrap();
                // SAFETY: that it is gone is what the test is about.
                unsafe { go() }
            })
        })
        .unwrap_err();
    assert_eq!(halt.rule(), Some(Rule::BadThreadExit), "{halt}");
}

#[test]
fn a_callback_into_an_unloaded_module_is_rule_35() {
    let probe = Probe::build("gone", "", "int go(void) { return (1); }");
    let machine = Machine::new(Config::default());
    let host = machine.add_host("alpha");
    let path = probe.path();
    let halt = machine
        .run(move || {
            host.scope(|| {
                let module = install(&host, &path, "gone");
                // SAFETY: the probe's `go` takes nothing and returns an int.
                let go: probe::Int = unsafe { probe::function(&module, "go") };
                module.unload().unwrap();
                // SAFETY: the lab refuses it, which is what the test is about.
                unsafe { host.enter(go, (), fakekernel::EntryKind::callback("go")) }
            })
        })
        .unwrap_err();
    let violation = halt.violation().unwrap();
    assert_eq!(
        (violation.rule, violation.module.as_str(), violation.call.as_str()),
        (Rule::CallAfterUnload, "gone", "go")
    );
}

#[test]
fn a_call_through_a_null_function_pointer_shows_who_called() {
    let probe = Probe::build(
        "nullcall",
        "",
        "static void (*volatile op)(void); int go(void) { mutex_owned((kmutex_t *)p0); op(); return (0); }",
    );
    match go(0, &probe).unwrap_err() {
        Halt::Fault(fault) => {
            assert_eq!((fault.address, fault.call.as_str()), (0, ""), "{fault}");
            assert_eq!(fault.backtrace[0].symbol, "go", "{fault}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn where_packets_pass_a_module_has_three_kilobytes_of_stack() {
    let deep = "static int deep(int n) { volatile char room[512]; room[0] = n; \
                return (n == 0 ? (int)ddi_get_lbolt() : deep(n - 1) + room[0]); }";
    for (depth, broken) in [(4, false), (8, true)] {
        let probe = Probe::build("deep", "", &format!("{deep} int go(void) {{ return (deep({depth})); }}"));
        let machine = Machine::new(Config::default());
        let host = machine.add_host("alpha");
        let path = probe.path();
        let run = machine.run(move || {
            host.scope(|| {
                let module = install(&host, &path, "deep");
                // SAFETY: the probe's `go` takes nothing and returns an int.
                let go: probe::Int = unsafe { probe::function(&module, "go") };
                let kind = fakekernel::EntryKind::callback("mc_tx").on_packet_path();
                // SAFETY: as above.
                unsafe { module.enter(go, (), kind) };
                module.unload().unwrap();
            })
        });
        assert_eq!(run.err().and_then(|halt| halt.rule()), broken.then_some(Rule::StackUse), "{depth}");
    }
}

#[test]
fn a_soft_interrupt_has_three_kilobytes_of_stack() {
    for (depth, broken) in [(4, false), (8, true)] {
        let probe = Probe::build(
            "dig",
            "",
            &format!(
                r#"
                static void *id; static volatile int ran;
                static int __attribute__((noinline)) deep(int n) {{
                    volatile char room[512]; room[0] = n;
                    return (n == 0 ? (int)ddi_get_lbolt() : deep(n - 1) + room[0]);
                }}
                static unsigned handler(char *arg) {{ (void) deep({depth}); ran = 1; return (1); }}
                int go(void) {{
                    if (ddi_add_softintr(NULL, 8, &id, NULL, NULL, handler, NULL) != 0) return (-1);
                    ddi_trigger_softintr(id);
                    while (!ran) delay(1);
                    ddi_remove_softintr(id);
                    return (0);
                }}"#
            ),
        );
        assert_eq!(
            go(0, &probe).err().and_then(|halt| halt.rule()),
            broken.then_some(Rule::StackUse),
            "{depth}"
        );
    }
}
