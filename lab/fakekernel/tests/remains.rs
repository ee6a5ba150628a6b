//! What runs leave in the process: nothing, however they end.

mod probe;

use fakekernel::{Config, Halt};
use probe::{Probe, go_with};

/// Waits for a thousand things at once: threads, a timer, a soft interrupt, a task queue.
const BUSY: &str = r#"
    static kmutex_t lock; static kcondvar_t cv; static int mode;
    static void sleeper(void *arg) { mutex_enter(&lock); for (;;) cv_wait(&cv, &lock); }
    static void tick(void *arg) { mutex_enter(&lock); mutex_exit(&lock); }
    int go(void) {
        int i;
        mutex_init(&lock, NULL, 4, NULL); cv_init(&cv, NULL, 1, NULL);
        for (i = 0; i < 5; i++) SPAWN(sleeper, NULL);
        (void) ddi_taskq_create(NULL, "left", 2, -1, 0);
        (void) timeout(tick, NULL, 1);
        delay(5);
        return (*(volatile int *)0x20);
    }"#;

fn status(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with(key)).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

fn low_mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let low = |l: &&str| l.len() > 8 && l.find('-').is_some_and(|dash| dash <= 8);
    maps.lines().filter(low).count()
}

/// One test, because it counts what belongs to the whole process.
#[test]
fn runs_leave_no_thread_no_window_and_little_memory_however_they_end() {
    three_hundred_faulting_runs_leave_no_thread_no_window_and_little_memory();
    a_run_that_ends_well_gives_its_windows_back();
}

fn three_hundred_faulting_runs_leave_no_thread_no_window_and_little_memory() {
    let probe = Probe::build("busy", "", BUSY);
    let run = |seed| match go_with(Config::seeded(seed), &probe).1 {
        Err(Halt::Fault(fault)) => assert_eq!(fault.address, 0x20),
        other => panic!("{other:?}"),
    };
    (0..20).for_each(run);
    let (threads, windows, memory) = (status("Threads:"), low_mappings(), status("VmRSS:"));
    (0..300).for_each(run);
    // The last ones may still be on their way out.
    assert!(status("Threads:") < threads + 50, "{} threads, {threads} before", status("Threads:"));
    let more = status("VmRSS:").saturating_sub(memory);
    assert!(low_mappings() <= windows, "{} low mappings, {windows} before", low_mappings());
    assert!(more < 60 << 10, "{more} KiB more after 300 runs");
}

fn a_run_that_ends_well_gives_its_windows_back() {
    let probe = Probe::build("fine", "", "int go(void) { return (1); }");
    let run = |seed| assert_eq!(go_with(Config::seeded(seed), &probe).1.unwrap(), 1);
    run(0);
    let before = low_mappings();
    (0..100).for_each(run);
    assert!(low_mappings() <= before, "{} low mappings, {before} before", low_mappings());
}
