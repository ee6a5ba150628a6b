//! How long three million kernel calls take. The bound is generous: it catches a scheduler that has become useless, not a slow day.

mod probe;

use std::time::{Duration, Instant};

use fakekernel::Config;
use probe::{Probe, go_with};

#[test]
fn three_million_kernel_calls_with_four_threads_take_seconds() {
    let probe = Probe::build(
        "busy",
        "",
        r"
        static kmutex_t lock[4]; static kmutex_t shared; static int sum;
        static void body(void *arg) {
            int i; long me = (long)arg;
            for (i = 0; i < 375000; i++) {
                mutex_enter(&lock[me]); mutex_exit(&lock[me]);
                if ((i & 15) == 0) { mutex_enter(&shared); sum++; mutex_exit(&shared); }
            }
        }
        int go(void) {
            unsigned long t[4]; long i;
            mutex_init(&shared, NULL, 4, NULL);
            for (i = 0; i < 4; i++) mutex_init(&lock[i], NULL, 4, NULL);
            for (i = 0; i < 4; i++) t[i] = SPAWN(body, (void *)i);
            for (i = 0; i < 4; i++) thread_join(t[i]);
            for (i = 0; i < 4; i++) mutex_destroy(&lock[i]);
            mutex_destroy(&shared);
            return (sum);
        }",
    );
    for (what, config) in [
        ("virtual", Config::seeded(1)),
        ("virtual, no checks", Config { checks: false, ..Config::seeded(1) }),
        ("live", Config::live()),
        ("live, no checks", Config { checks: false, ..Config::live() }),
    ] {
        let begun = Instant::now();
        let (machine, result) = go_with(config, &probe);
        assert_eq!(result.unwrap(), 4 * (375_000 / 16 + 1));
        println!("{what}: {:?}, {} kernel calls", begun.elapsed(), machine.crossings());
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}
