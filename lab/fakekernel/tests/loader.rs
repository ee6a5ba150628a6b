//! What the loader accepts, refuses, and does with it.

mod probe;

use std::path::Path;

use fakekernel::{Config, Contexts, Errno, Export, Kernel, LoadError, Machine, Module};
use probe::{Probe, function, install};

/// Runs `body` on a host of a fresh machine.
fn on_host<R: Send + 'static>(body: impl FnOnce(&Kernel) -> R + Send + 'static) -> R {
    let machine = Machine::new(Config::default());
    let host = machine.add_host("alpha");
    machine.run(move || host.scope(|| body(&host))).unwrap_or_else(|halt| panic!("{halt}"))
}

fn complaints(probe: &Probe) -> Vec<String> {
    let path = probe.path();
    let name = probe.name;
    on_host(move |host| match host.load(&path, name, "misc") {
        Err(LoadError::Refused { complaints, .. }) => complaints,
        other => panic!("{other:?}"),
    })
}

fn call(module: &Module, name: &str) -> i32 {
    // SAFETY: the probes' functions take nothing and return an int.
    let f: probe::Int = unsafe { function(module, name) };
    // SAFETY: as above.
    unsafe { module.enter(f, (), fakekernel::EntryKind::callback("probe")) }
}

#[test]
fn every_unresolved_symbol_is_named() {
    let probe = Probe::build(
        "undef",
        "",
        "int nowhere(void); extern int nothing; int go(void) { return (nowhere() + nothing); }",
    );
    let complaints = complaints(&probe);
    assert_eq!(complaints, ["undef: undefined symbol 'nowhere'", "undef: undefined symbol 'nothing'"]);
}

unsafe extern "C" fn answer() -> i32 {
    42
}

fn provide_misc_answer(host: &Kernel) {
    let export = Export::raw("the_answer", answer as *const () as usize, Contexts::UK);
    host.provide("answer", "misc/answer", vec![export, Export::data("the_number", &[7, 0, 0, 0])]);
}

const ASKS: &str =
    "int the_answer(void); extern int the_number; int go(void) { return (the_answer() + the_number); }";

#[test]
fn an_import_from_a_module_that_is_not_listed_fails_the_load() {
    let (unlisted, listed) =
        (Probe::build("unlisted", "", ASKS), Probe::build("listed", "misc/answer", ASKS));
    on_host(move |host| {
        provide_misc_answer(host);
        let error = host.load(&unlisted.path(), "unlisted", "misc").unwrap_err().to_string();
        assert!(
            error.contains("undefined symbol 'the_answer' (exported by misc/answer, which is not listed")
        );
        assert!(error.ends_with("WARNING: mod_load: cannot load module 'unlisted'"), "{error}");
        let module = install(host, &listed.path(), "listed");
        assert_eq!(call(&module, "go"), 49);
        assert_eq!(module.calls_of("the_answer"), 1);
        module.unload().unwrap();
    });
}

#[test]
fn a_dependency_can_be_a_real_object_and_keeps_it_loaded() {
    let below = Probe::build("below", "", "int state = 5; int add(int n) { return (state += n); }");
    let above = Probe::build(
        "above",
        "misc/below",
        "extern int state; int add(int); int go(void) { return (add(10) + state); }",
    );
    on_host(move |host| {
        host.add_object("misc/below", &below.path());
        let module = install(host, &above.path(), "above");
        let dependency = host.module("below").expect("the dependency is loaded");
        assert!(dependency.is_installed());
        assert_eq!(call(&module, "go"), 30);
        assert_eq!(dependency.unload(), Err(Errno::EBUSY));
        module.unload().unwrap();
        dependency.unload().unwrap();
        assert!(host.module("below").is_none());
    });
}

#[test]
fn a_missing_dependency_is_named_when_a_symbol_stays_undefined() {
    let probe = Probe::build("lonely", "misc/absent", "int gone(void); int go(void) { return (gone()); }");
    let complaints = complaints(&probe);
    assert_eq!(complaints[0], "lonely: undefined symbol 'gone'");
    assert_eq!(complaints[1], "unable to resolve dependency, module 'misc/absent' not found");
}

#[test]
fn data_symbols_are_per_host_and_low() {
    let probe = Probe::build("ticks", "", "int go(void) { return (hz); }");
    let path = probe.path();
    let machine = Machine::new(Config::default());
    let (alpha, beta) = (machine.add_host("alpha"), machine.add_host("beta"));
    machine
        .run(move || {
            let beta_hz = beta.data("hz").unwrap();
            assert!(beta_hz.addr() < 1 << 31 && Some(beta_hz) != alpha.data("hz"));
            // SAFETY: the host's own copy of an int; nobody else runs.
            unsafe { beta_hz.cast::<i32>().write(1000) };
            let ask = |host: &Kernel| host.scope(|| call(&install(host, &path, "ticks"), "go"));
            assert_eq!((ask(&alpha), ask(&beta)), (100, 1000));
        })
        .unwrap();
}

#[test]
fn probe_points_become_no_operations() {
    let probe = Probe::build(
        "probed",
        "",
        "void __dtrace_probe_hit(long); int go(void) { __dtrace_probe_hit(1); return (3); }",
    );
    let path = probe.path();
    on_host(move |host| {
        let module = install(host, &path, "probed");
        assert_eq!(call(&module, "go"), 3);
        assert!(!module.imports().iter().any(|i| i.contains("probe_hit")));
    });
}

#[test]
fn a_probe_that_is_jumped_to_is_refused() {
    let probe = Probe::build(
        "tailprobe",
        "",
        "__asm__(\".globl go\\n.type go,@function\\ngo: jmp __dtrace_probe_hit\\n.size go,.-go\");",
    );
    let complaints = complaints(&probe);
    assert_eq!(
        complaints,
        ["tailprobe: probe '__dtrace_probe_hit' is jumped to: the loader would fall through"]
    );
}

#[test]
fn relocations_the_kernels_loader_mishandles_are_refused() {
    let got = Probe::build("gotpcrel", "", "__asm__(\"go: movq hz@GOTPCREL(%rip), %rax\\nret\");");
    assert!(complaints(&got)[0].contains("krtld: invalid relocation type"));
    let short = Probe::build("thirtytwo", "", "__asm__(\"go: movl $hz, %eax\\nret\");");
    assert!(complaints(&short)[0].contains("krtld: invalid relocation type 10"));
    let tls = Probe::build("tls", "", "static __thread int t = 5; int go(void) { return (t++); }");
    assert!(complaints(&tls).iter().any(|c| c.contains("TLS")));
    let weak = Probe::build("weak", "", "extern int w __attribute__((weak)); int go(void) { return (w); }");
    assert!(complaints(&weak)[0].contains("weak undefined symbol 'w'"));
}

#[test]
fn what_is_no_module_is_refused_in_the_kernels_words() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text");
    std::fs::write(&text, "hello").unwrap();
    let executable = std::env::current_exe().unwrap();
    on_host(move |host| {
        let error = |path: &Path| host.load(path, "x", "misc").unwrap_err().to_string();
        assert!(error(&text).starts_with("x not an elf module\n"));
        assert!(error(&executable).starts_with("x isn't a relocatable (ET_REL) module\n"));
        assert!(error(Path::new("/nonexistent/module")).starts_with("cannot read /nonexistent/module"));
    });
}

#[test]
fn any_truncation_or_bit_flip_of_an_object_is_an_error_or_a_module_and_never_a_crash() {
    let probe = Probe::build("mangled", "", "int go(void) { mutex_owned((kmutex_t *)p0); return (1); }");
    let object = std::fs::read(probe.path()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    on_host(move |host| {
        let mut loaded = 0;
        for step in 0..object.len() / 7 {
            let mut bytes = object.clone();
            if step % 2 == 0 {
                bytes.truncate(step * 7);
            } else {
                // The header's and the section headers' bytes; text itself may be anything.
                bytes[step * 7] ^= 0x10;
            }
            let path = dir.path().join("mangled");
            std::fs::write(&path, &bytes).unwrap();
            if fakekernel::object_is_acceptable("mangled", &bytes).is_ok() {
                loaded += 1;
            }
        }
        assert!(loaded > 0 && host.module("mangled").is_none());
    });
}

#[test]
fn a_failing_init_unloads_without_fini() {
    let probe = Probe::build_own_linkage(
        "failing",
        "int fini_ran; int _init(void) { return (5); } int _fini(void) { mutex_exit((kmutex_t *)p0); return (0); }
         int _info(void *p) { return (mod_info(&probe_linkage, p)); }",
    );
    let path = probe.path();
    on_host(move |host| {
        let module = host.load(&path, "failing", "misc").unwrap();
        assert_eq!(module.install(), Err(Errno::EIO));
        assert!(module.is_unloaded() && host.module("failing").is_none());
        let again = host.load(&path, "failing", "misc").unwrap();
        assert!(again.symbol("_init") != module.symbol("_init"), "addresses are not used twice");
    });
}

#[test]
fn fini_that_refuses_keeps_the_module() {
    let probe = Probe::build_own_linkage(
        "stays",
        "int busy = 1; int _init(void) { return (mod_install(&probe_linkage)); }
         int _fini(void) { if (busy) return (16); return (mod_remove(&probe_linkage)); }
         int _info(void *p) { return (mod_info(&probe_linkage, p)); }
         int go(void) { busy = 0; return (0); }",
    );
    let path = probe.path();
    on_host(move |host| {
        let module = install(host, &path, "stays");
        assert_eq!(module.unload(), Err(Errno::EBUSY));
        assert!(module.is_installed());
        call(&module, "go");
        module.unload().unwrap();
    });
}

const DRIVER: &str = "struct modldrv { struct mod_ops *ops; const char *info; void *dev_ops; };
    static struct { char pad[112]; int flag; int rev; char rest[16]; } cb = { {0}, 0x20, 1 };
    static struct { int rev; int refcnt; char pad[48]; void *cb_ops; char rest[24]; } ops = { 4, 0, {0}, &cb };
    static struct modldrv drv = { &mod_driverops, \"a driver\", &ops };
    static struct modlinkage link = { 1, { &drv, NULL } };
    int _init(void) { return (mod_install(&link)); }
    int _fini(void) { return (mod_remove(&link)); }
    int _info(void *p) { return (mod_info(&link, p)); }
    int hold(void) { return (++ops.refcnt); }
    int release(void) { return (--ops.refcnt); }";

#[test]
fn a_driver_needs_a_major_number_and_stays_while_it_is_held() {
    let probe = Probe::build_own_linkage("drv", DRIVER);
    let path = probe.path();
    on_host(move |host| {
        let module = host.load(&path, "drv", "drv").unwrap();
        assert_eq!(module.install(), Err(Errno::ENXIO));
        host.add_major("drv");
        let module = host.load(&path, "drv", "drv").unwrap();
        module.install().unwrap();
        assert!(module.dev_ops().is_some());
        call(&module, "hold");
        assert_eq!(module.unload(), Err(Errno::EBUSY));
        call(&module, "release");
        module.unload().unwrap();
        assert!(module.dev_ops().is_none());
    });
}

#[test]
fn stack_arguments_pass_through_the_gate() {
    unsafe extern "C" fn nine(a: i32, b: i32, c: i32, d: i32, e: i32, f: i32, g: i32, h: i32, i: i64) -> i64 {
        i64::from(a + b + c + d + e + f + g + h) + i
    }
    let probe = Probe::build(
        "many",
        "misc/nine",
        "long nine(int, int, int, int, int, int, int, int, long);
         int go(void) { return (nine(1, 2, 3, 4, 5, 6, 7, 8, 1000)); }",
    );
    let path = probe.path();
    on_host(move |host| {
        let export = Export::raw("nine", nine as *const () as usize, Contexts::ANY);
        host.provide("nine", "misc/nine", vec![export]);
        assert_eq!(call(&install(host, &path, "many"), "go"), 1036);
    });
}

#[test]
fn indirect_thunks_and_stack_guards_of_other_compilers_are_there() {
    let source = "
        extern void __x86_indirect_thunk_rax(void), __x86_indirect_thunk_r10(void);
        extern unsigned long __stack_chk_guard;
        static int five(void) { return (5); }
        static int through(int (*f)(void)) {
            int a, b;
            __asm__ volatile(\"call __x86_indirect_thunk_rax\" : \"=a\"(a) : \"a\"(f) : \"memory\", \"rcx\", \"rdx\", \"rsi\", \"rdi\", \"r8\", \"r9\", \"r10\", \"r11\");
            __asm__ volatile(\"movq %1, %%r10; call __x86_indirect_thunk_r10\" : \"=a\"(b) : \"r\"(f) : \"memory\", \"rcx\", \"rdx\", \"rsi\", \"rdi\", \"r8\", \"r9\", \"r10\", \"r11\");
            return (a + b);
        }
        int go(void) { return (through(five) + (__stack_chk_guard != 0)); }";
    let probe = Probe::build("thunks", "", source);
    let path = probe.path();
    on_host(move |host| assert_eq!(call(&install(host, &path, "thunks"), "go"), 11));
}

#[test]
fn a_failed_assertion_of_a_debug_module_is_a_panic_with_the_kernels_text() {
    let source = "int assfail(const char *, const char *, int);
        int go(void) { return (assfail(\"n > 0\", \"probe.c\", 12)); }";
    let probe = Probe::build("debug", "", source);
    let halt = probe::go(0, &probe).unwrap_err();
    let fakekernel::Halt::Panic(panic) = &halt else { panic!("{halt}") };
    assert_eq!(panic.message, "assertion failed: n > 0, file: probe.c, line: 12");
    assert_eq!((panic.module.as_str(), panic.backtrace[0].symbol.as_str()), ("debug", "go"));
}
