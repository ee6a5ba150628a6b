//! Three million kernel calls by four threads that contend: no update is lost, in any way of running them.

mod probe;

use fakekernel::Config;
use probe::{Probe, go_with};

#[test]
fn three_million_contended_kernel_calls_lose_no_update() {
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
        let (_, result) = go_with(config, &probe);
        assert_eq!(result.unwrap(), 4 * (375_000 / 16 + 1), "{what}");
    }
}
