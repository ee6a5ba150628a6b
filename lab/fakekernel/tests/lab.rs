//! Lab code on the machine's threads: waiting, sleeping, locks, how a run ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fakekernel::{
    Config, Ctx, Halt, HostMutex, Kernel, Machine, Mode, Nanos, Rule, SleepMutex, Thread, WaitQueue, now,
    sleep,
};

/// A bounded queue of lab code.
struct Queue {
    items: HostMutex<Vec<u32>>,
    not_empty: WaitQueue,
    not_full: WaitQueue,
}

impl Queue {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            items: HostMutex::new(Vec::new()),
            not_empty: WaitQueue::new("an item"),
            not_full: WaitQueue::new("room"),
        })
    }

    fn put(&self, item: u32) {
        let mut items = self.items.lock();
        while items.len() >= 4 {
            items = self.not_full.wait(items);
        }
        items.push(item);
        drop(items);
        self.not_empty.wake_one();
    }

    fn take(&self) -> u32 {
        let mut items = self.items.lock();
        while items.is_empty() {
            items = self.not_empty.wait(items);
        }
        let item = items.remove(0);
        drop(items);
        self.not_full.wake_one();
        item
    }
}

fn produce_and_consume(host: &Kernel) -> u32 {
    let queue = Queue::new();
    let producers: Vec<Thread> = (0..3)
        .map(|n| {
            let queue = queue.clone();
            host.spawn(&format!("producer {n}"), Ctx::Kernel, move || (0..100).for_each(|i| queue.put(i)))
        })
        .collect();
    let sum = (0..300).map(|_| queue.take()).sum();
    producers.iter().for_each(Thread::join);
    sum
}

#[test]
fn producers_and_a_consumer_meet_in_both_modes() {
    let configs = (0..200).map(Config::seeded).chain([Config::live()]);
    for config in configs {
        let machine = Machine::new(config);
        let host = machine.add_host("alpha");
        assert_eq!(machine.run(move || produce_and_consume(&host)).unwrap(), 3 * 4950);
    }
}

#[test]
fn the_virtual_clock_jumps_to_the_next_sleeper() {
    let machine = Machine::new(Config::default());
    let host = machine.add_host("alpha");
    let order = machine
        .run(move || {
            let order = Arc::new(HostMutex::new(Vec::new()));
            let threads: Vec<Thread> = [3u64, 1, 2]
                .into_iter()
                .map(|hours| {
                    let order = order.clone();
                    host.spawn("sleeper", Ctx::Kernel, move || {
                        sleep(Nanos::from_secs(hours * 3600));
                        order.lock().push((hours, now().0 / 3_600_000_000_000));
                    })
                })
                .collect();
            threads.iter().for_each(Thread::join);
            order.lock().clone()
        })
        .unwrap();
    assert_eq!(order, [(1, 1), (2, 2), (3, 3)]);
}

#[test]
fn a_wait_ends_at_its_deadline_and_says_so() {
    for config in [Config::default(), Config::live()] {
        let machine = Machine::new(config);
        let queue = WaitQueue::new("nobody");
        let (woken, took) = machine
            .run(move || {
                let (state, begun) = (HostMutex::new(()), now());
                let (guard, woken) = queue.wait_until(state.lock(), begun + Nanos::from_millis(3));
                drop(guard);
                (woken, now().since(begun))
            })
            .unwrap();
        assert!(!woken && took >= Nanos::from_millis(3), "{took}");
    }
}

#[test]
fn everybody_waiting_is_a_hang_in_both_modes() {
    for config in [Config::default(), Config::live()] {
        let machine = Machine::new(config);
        let host = machine.add_host("alpha");
        let halt = machine
            .run(move || {
                let lock = Arc::new(SleepMutex::new("perimeter", ()));
                let taken = Arc::new((HostMutex::new(false), WaitQueue::new("the holder")));
                let (mine, told) = (lock.clone(), taken.clone());
                let holder = host.spawn("holder", Ctx::Kernel, move || {
                    let _held = mine.lock();
                    *told.0.lock() = true;
                    told.1.wake_all();
                    let state = HostMutex::new(());
                    drop(WaitQueue::new("an answer").wait(state.lock()));
                });
                let mut is_taken = taken.0.lock();
                while !*is_taken {
                    is_taken = taken.1.wait(is_taken);
                }
                drop(is_taken);
                let _never = lock.lock();
                holder.join();
            })
            .unwrap_err();
        let Halt::Hang(hang) = &halt else { panic!("{halt}") };
        let holder = hang.threads.iter().find(|t| t.name == "holder").unwrap();
        assert_eq!((holder.waits_for.as_str(), holder.host.as_str()), ("an answer", "alpha"));
        assert_eq!(holder.holds, ["perimeter (lab lock)"]);
        assert_eq!(hang.threads.iter().find(|t| t.name == "main").unwrap().waits_for, "perimeter");
    }
}

#[test]
fn lab_locks_taken_in_both_orders_break_rule_34_without_a_deadlock() {
    let machine = Machine::new(Config::default());
    let host = machine.add_host("alpha");
    let halt = machine
        .run(move || {
            host.scope(|| {
                let (a, b) = (SleepMutex::new("perimeter", 1), SleepMutex::new("dls lock", 2));
                let first = a.lock();
                drop(b.lock());
                drop(first);
                let _second = b.lock();
                drop(a.lock());
            });
        })
        .unwrap_err();
    assert_eq!(halt.rule(), Some(Rule::LockOrder), "{halt}");
    assert!(halt.to_string().contains("perimeter, then dls lock"), "{halt}");
}

#[test]
fn a_panic_of_a_lab_thread_is_a_panic_of_the_run() {
    let machine = Machine::new(Config::default());
    let host = machine.add_host("alpha");
    let panicked = std::panic::catch_unwind(move || {
        machine.run(move || {
            host.spawn("unlucky", Ctx::Kernel, || panic!("as the test wants it")).join();
        })
    });
    let payload = panicked.unwrap_err();
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"as the test wants it"));
}

#[test]
fn threads_of_a_machine_that_stops_drop_what_they_own() {
    struct Counted(Arc<AtomicU32>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = Arc::new(AtomicU32::new(0));
    let machine = Machine::new(Config::default());
    let host = machine.add_host("alpha");
    let count = dropped.clone();
    machine
        .run(move || {
            for _ in 0..10 {
                let owned = Counted(count.clone());
                host.spawn("waits", Ctx::Kernel, move || {
                    let _owned = owned;
                    let state = HostMutex::new(());
                    drop(WaitQueue::new("nothing").wait(state.lock()));
                });
            }
            sleep(Nanos::from_millis(1));
        })
        .unwrap();
    assert_eq!(dropped.load(Ordering::Relaxed), 10);
}

#[test]
fn a_run_that_never_ends_meets_the_time_limit() {
    let machine = Machine::new(Config { time_limit: Nanos::from_secs(60), ..Config::default() });
    let halt = machine
        .run(|| {
            while now() < Nanos::NEVER {
                sleep(Nanos::from_secs(1));
            }
        })
        .unwrap_err();
    assert!(matches!(halt, Halt::TimeLimit(..)), "{halt}");
    assert!(halt.to_string().starts_with("time limit of the run passed, 60.000000 s, "), "{halt}");
}

#[test]
fn something_outside_may_wake_a_live_machine() {
    let machine = Machine::new(Config::live());
    let queue = Queue::new();
    let (inside, waker) = (queue.clone(), machine.outside_waker());
    let outside = std::thread::spawn(move || {
        std::thread::yield_now();
        queue.put(7);
        drop(waker);
    });
    assert_eq!(machine.run(move || inside.take()).unwrap(), 7);
    outside.join().unwrap();
}

#[test]
fn two_machines_run_side_by_side() {
    let run = |seed: u64| {
        std::thread::spawn(move || {
            let machine = Machine::new(Config { mode: Mode::Virtual { seed }, ..Config::default() });
            let host = machine.add_host("alpha");
            machine.run(move || produce_and_consume(&host)).unwrap();
            machine.now()
        })
    };
    let (a, b, again) = (run(1), run(2), run(1));
    let (a, _, again) = (a.join().unwrap(), b.join().unwrap(), again.join().unwrap());
    assert_eq!(a, again);
}

/// Runs this test again in a process of its own, where it does what must abort.
#[test]
fn a_wait_with_a_leaf_lock_held_aborts_and_says_why() {
    const CHILD: &str = "FAKEKERNEL_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let machine = Machine::new(Config::default());
        let _ = machine.run(|| {
            let lock = HostMutex::new(());
            let _held = lock.lock();
            sleep(Nanos::TICK);
        });
        return;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_wait_with_a_leaf_lock_held_aborts_and_says_why"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("a wait is a scheduling point, reached with 1 HostMutex held"), "{text}");
}
