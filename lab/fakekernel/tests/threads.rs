//! Threads, locks, timers and soft interrupts of a C module, under many seeds and on the wall clock.

mod probe;

use std::sync::LazyLock;

use fakekernel::{Config, Halt};
use probe::{Probe, go, go_with};

/// Two workers hand a token to each other a hundred times.
static PING_PONG: LazyLock<Probe> = LazyLock::new(|| {
    Probe::build(
        "pingpong",
        "",
        r"
        static kmutex_t lock; static kcondvar_t cv; static int turn, rounds;
        static void play(void *me) {
            long mine = (long)me; int i;
            for (i = 0; i < 50; i++) {
                mutex_enter(&lock);
                while (turn != mine) cv_wait(&cv, &lock);
                turn = !turn; rounds++;
                cv_broadcast(&cv);
                mutex_exit(&lock);
            }
        }
        int go(void) {
            unsigned long a, b;
            mutex_init(&lock, NULL, 4, NULL); cv_init(&cv, NULL, 1, NULL);
            a = SPAWN(play, (void *)0); b = SPAWN(play, (void *)1);
            thread_join(a); thread_join(b);
            cv_destroy(&cv); mutex_destroy(&lock);
            return (rounds);
        }",
    )
});

#[test]
fn two_threads_hand_a_token_over_under_1000_seeds() {
    for seed in 0..1000 {
        assert_eq!(go(seed, &PING_PONG).unwrap_or_else(|halt| panic!("seed {seed}: {halt}")), 100);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let trace = |seed| {
        let (machine, result) = go_with(Config::seeded(seed), &PING_PONG);
        result.unwrap();
        (machine.trace_hash(), machine.crossings(), machine.now())
    };
    let first: Vec<_> = (0..20).map(trace).collect();
    let second: Vec<_> = (0..20).map(trace).collect();
    assert_eq!(first, second);
    let mut different = first.clone();
    different.sort_unstable();
    different.dedup();
    assert!(different.len() > 10, "seeds hardly differ");
}

#[test]
fn live_mode_runs_the_same_module() {
    let (_, result) = go_with(Config::live(), &PING_PONG);
    assert_eq!(result.unwrap(), 100);
    let (_, result) = go_with(Config { checks: false, ..Config::live() }, &PING_PONG);
    assert_eq!(result.unwrap(), 100);
}

/// The flag is set outside the lock: the signal can come between look and wait.
static LOST_WAKEUP: LazyLock<Probe> = LazyLock::new(|| {
    Probe::build(
        "lostwakeup",
        "",
        r"
        static kmutex_t lock; static kcondvar_t cv; static volatile int ready;
        static void setter(void *arg) { ready = 1; cv_signal(&cv); }
        int go(void) {
            unsigned long t;
            mutex_init(&lock, NULL, 4, NULL); cv_init(&cv, NULL, 1, NULL);
            t = SPAWN(setter, NULL);
            mutex_enter(&lock);
            if (!ready) { mutex_exit(&lock); mutex_enter(&lock); cv_wait(&cv, &lock); }
            mutex_exit(&lock);
            thread_join(t);
            cv_destroy(&cv); mutex_destroy(&lock);
            return (0);
        }",
    )
});

#[test]
fn a_lost_wakeup_is_found_as_a_hang_that_says_who_waits_for_what() {
    let config = |seed| Config { switch_one_in: 2, spurious_one_in: 0, ..Config::seeded(seed) };
    let hang = (0..200).find_map(|seed| match go_with(config(seed), &LOST_WAKEUP).1 {
        Err(Halt::Hang(hang)) => Some(hang),
        Err(other) => panic!("{other}"),
        Ok(_) => None,
    });
    let hang = hang.expect("no seed of 200 loses the wake-up");
    let main = hang.threads.iter().find(|t| t.name == "main").unwrap();
    assert!(main.waits_for.contains("condition variable"), "{}", main.waits_for);
    assert_eq!((main.host.as_str(), main.last_call.as_str()), ("alpha", "cv_wait"));
    assert!(main.backtrace.iter().any(|f| f.module == "lostwakeup" && f.symbol == "go"));
}

#[test]
fn timeouts_fire_in_order_and_untimeout_says_what_was_left() {
    let probe = Probe::build(
        "timers",
        "",
        r"
        static kmutex_t lock; static kcondvar_t cv; static int fired, order;
        static void tick(void *arg) {
            mutex_enter(&lock); order = order * 10 + (long)arg; fired++; cv_signal(&cv); mutex_exit(&lock);
        }
        int go(void) {
            unsigned long late; long left;
            mutex_init(&lock, NULL, 4, NULL); cv_init(&cv, NULL, 1, NULL);
            late = timeout(tick, (void *)9, 1000);
            (void) timeout(tick, (void *)3, 30);
            (void) timeout(tick, (void *)1, 10);
            (void) timeout(tick, (void *)2, 20);
            mutex_enter(&lock);
            while (fired < 3) cv_wait(&cv, &lock);
            mutex_exit(&lock);
            left = untimeout(late);
            if (left < 900 || left > 970) return (-1);
            if (untimeout(late) != -1) return (-2);
            if (ddi_get_lbolt() < 30) return (-3);
            cv_destroy(&cv); mutex_destroy(&lock);
            return (order);
        }",
    );
    for seed in 0..50 {
        assert_eq!(go(seed, &probe).unwrap_or_else(|halt| panic!("seed {seed}: {halt}")), 123);
    }
}

#[test]
fn timed_waits_end_at_their_time() {
    let probe = Probe::build(
        "timedwait",
        "",
        r"
        static kmutex_t lock; static kcondvar_t cv;
        int go(void) {
            long begun = ddi_get_lbolt();
            mutex_init(&lock, NULL, 4, NULL); cv_init(&cv, NULL, 1, NULL);
            mutex_enter(&lock);
            while (cv_timedwait(&cv, &lock, begun + 50) != -1) ;
            if (ddi_get_lbolt() - begun < 50) return (-1);
            while (cv_reltimedwait(&cv, &lock, 5, 0) != -1) ;
            mutex_exit(&lock);
            delay(100);
            cv_destroy(&cv); mutex_destroy(&lock);
            return (ddi_get_lbolt() - begun >= 150);
        }",
    );
    for seed in 0..50 {
        assert_eq!(go(seed, &probe).unwrap(), 1);
    }
}

#[test]
fn soft_interrupts_coalesce_and_a_trigger_during_the_run_is_not_lost() {
    let probe = Probe::build(
        "softint",
        "",
        r"
        static kmutex_t lock; static kcondvar_t cv; static int work, done, runs; static void *id;
        static uint_t handler(char *arg) {
            mutex_enter(&lock); runs++; done += work; work = 0; cv_signal(&cv); mutex_exit(&lock);
            return (1);
        }
        int go(void) {
            void *cookie; int i;
            if (ddi_add_softintr(NULL, 8, &id, &cookie, NULL, handler, NULL) != 0) return (-1);
            mutex_init(&lock, NULL, 4, cookie); cv_init(&cv, NULL, 1, NULL);
            for (i = 0; i < 100; i++) {
                mutex_enter(&lock); work++; mutex_exit(&lock);
                ddi_trigger_softintr(id);
            }
            mutex_enter(&lock);
            while (done < 100) cv_wait(&cv, &lock);
            mutex_exit(&lock);
            ddi_remove_softintr(id);
            cv_destroy(&cv); mutex_destroy(&lock);
            return (runs > 100 ? -2 : done);
        }",
    );
    for seed in 0..100 {
        assert_eq!(go(seed, &probe).unwrap_or_else(|halt| panic!("seed {seed}: {halt}")), 100);
    }
    assert_eq!(go_with(Config::live(), &probe).1.unwrap(), 100);
}

#[test]
fn a_task_queue_of_one_thread_keeps_order_and_destroy_drains() {
    let probe = Probe::build(
        "taskq",
        "",
        r#"
        static int next, wrong;
        static void task(void *arg) { if ((long)arg != next++) wrong = 1; }
        int go(void) {
            long i; void *tq = ddi_taskq_create(NULL, "probe", 1, -1, 0);
            for (i = 0; i < 20; i++) if (ddi_taskq_dispatch(tq, task, (void *)i, 0) != 0) return (-1);
            ddi_taskq_destroy(tq);
            return (wrong ? -2 : next);
        }"#,
    );
    for seed in 0..50 {
        assert_eq!(go(seed, &probe).unwrap(), 20);
    }
}

#[test]
fn thread_exit_ends_a_thread_from_a_nested_function() {
    let probe = Probe::build(
        "threadexit",
        "",
        r"
        static int reached;
        static void deeper(void) { reached++; thread_exit(); reached = 100; }
        static void body(void *arg) { deeper(); reached = 200; }
        int go(void) { thread_join(SPAWN(body, NULL)); thread_join(999999); return (reached); }",
    );
    assert_eq!(go(1, &probe).unwrap(), 1);
}

/// As an object built to call for its atomic operations: two threads each read a number and write one more.
static LOST_UPDATE: LazyLock<Probe> = LazyLock::new(|| {
    Probe::build(
        "lostupdate",
        "",
        r"
        unsigned __tsan_atomic32_load(const volatile unsigned *, int);
        void __tsan_atomic32_store(volatile unsigned *, unsigned, int);
        static volatile unsigned number;
        static void bump(void *arg) {
            unsigned seen = __tsan_atomic32_load(&number, 2);
            __tsan_atomic32_store(&number, seen + 1, 3);
        }
        int go(void) {
            unsigned long a, b;
            __tsan_atomic32_store(&number, 0, 3);
            a = SPAWN(bump, NULL); b = SPAWN(bump, NULL);
            thread_join(a); thread_join(b);
            return (__tsan_atomic32_load(&number, 2));
        }",
    )
});

#[test]
fn threads_change_between_two_atomic_operations_of_an_object_that_calls_for_them() {
    let count = |seed| {
        let config = Config { switch_one_in: 2, ..Config::seeded(seed) };
        go_with(config, &LOST_UPDATE).1.unwrap_or_else(|halt| panic!("seed {seed}: {halt}"))
    };
    let counts: Vec<i32> = (0..100).map(count).collect();
    assert!(counts.contains(&1) && counts.contains(&2), "{counts:?}");
    assert!(counts.iter().all(|count| [1, 2].contains(count)), "{counts:?}");
}
