//! How threads are interleaved: by chance, by priorities, in turns, and again as in another run; as coroutines and as threads of
//! the operating system.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use fakekernel::{
    Carrier, Choice, Config, Ctx, Decision, Machine, Mode, Nanos, Strategy, now, reschedule, sleep,
};

/// What happened, in order, and what was decided.
type Run = (Vec<String>, Vec<Decision>);

/// Three threads that pass scheduling points and sleep, and say so.
fn stroll(config: Config) -> Run {
    let machine = Machine::new(config);
    let host = machine.add_host("alpha");
    let diary = Arc::new(Mutex::new(Vec::new()));
    let said = diary.clone();
    machine
        .run(move || {
            let threads = ["a", "b", "c"].map(|name| {
                let diary = diary.clone();
                host.spawn(name, Ctx::Kernel, move || {
                    for step in 0..20 {
                        diary.lock().unwrap().push(format!("{name}{step} at {}", now()));
                        if step % 7 == 6 { sleep(Nanos::from_millis(1)) } else { reschedule() }
                    }
                })
            });
            threads.iter().for_each(|thread| thread.join());
        })
        .unwrap();
    let said = said.lock().unwrap().clone();
    (said, machine.decisions())
}

fn by(strategy: Strategy, seed: u64) -> Config {
    Config { strategy, switch_one_in: 3, ..Config::seeded(seed) }
}

fn priorities(changes: u32, within: u64) -> Strategy {
    Strategy::Priorities { changes, within }
}

#[test]
fn a_seed_gives_the_same_run_whatever_its_threads_are_carried_by() {
    for strategy in [Strategy::Random, priorities(3, 60), Strategy::Turns(2)] {
        for seed in 0..20 {
            let with = |carrier| stroll(Config { carrier, ..by(strategy.clone(), seed) });
            assert_eq!(with(Carrier::Coroutine), with(Carrier::OsThread), "seed {seed}, {strategy:?}");
        }
    }
}

#[test]
fn a_run_is_repeated_from_its_decisions_alone() {
    for strategy in [Strategy::Random, priorities(3, 60), Strategy::Turns(2)] {
        for seed in 0..20 {
            let first = stroll(Config { preempt_one_in: 9, ..by(strategy.clone(), seed) });
            let replay = Strategy::Replay(first.1.clone().into());
            assert_eq!(stroll(by(replay, seed + 1)), first, "seed {seed}, {strategy:?}");
        }
    }
}

#[test]
fn without_decisions_the_thread_that_could_run_longest_runs_until_it_waits() {
    let (said, decisions) = stroll(by(Strategy::Replay(Arc::new([])), 1));
    assert_eq!(decisions, []);
    let names: String = said.iter().map(|line| &line[..1]).collect();
    assert_eq!(names, ["aaaaaaabbbbbbbccccccc"; 2].concat() + "aaaaaabbbbbbcccccc");
}

#[test]
fn in_turns_each_thread_has_as_many_points_as_the_others() {
    let (said, _) = stroll(by(Strategy::Turns(2), 1));
    let names: String = said.iter().skip(1).take(12).map(|line| &line[..1]).collect();
    assert_eq!(names, "bbccaabbccaa", "the first point of all ends the first turn");
}

#[test]
fn a_decision_reads_as_it_is_written() {
    for choice in [Choice::Next(7), Choice::Switch(8), Choice::Off(Nanos(9)), Choice::Spurious(Nanos(10))] {
        let decision = Decision { thread: 3, step: 12, choice };
        assert_eq!(decision.to_string().parse::<Decision>().unwrap(), decision);
    }
    for (line, why) in [
        ("3 12 next", "expected THREAD STEP next|switch|off|spurious NUMBER, not \"3 12 next\""),
        ("3 12 jump 4", "expected THREAD STEP next|switch|off|spurious NUMBER, not \"3 12 jump 4\""),
        ("3 x next 4", "invalid digit found in string"),
    ] {
        assert_eq!(line.parse::<Decision>().unwrap_err().to_string(), why);
    }
}

/// In how many of `seeds` runs one thread was left at the one of its hundred points that matters until another had passed all of
/// its four hundred.
fn times_found(strategy: &Strategy, seeds: u64) -> usize {
    (0..seeds).filter(|seed| left_for_long(by(strategy.clone(), *seed))).count()
}

fn left_for_long(config: Config) -> bool {
    let machine = Machine::new(Config { switch_one_in: 32, ..config });
    let host = machine.add_host("alpha");
    let done = Arc::new(AtomicBool::new(false));
    let found = Arc::new(AtomicBool::new(false));
    let end = found.clone();
    machine
        .run(move || {
            let seen = done.clone();
            let looker = host.spawn("looker", Ctx::Kernel, move || {
                for point in 0..100 {
                    let before = seen.load(Ordering::Relaxed);
                    reschedule();
                    let overtaken = point == 40 && !before && seen.load(Ordering::Relaxed);
                    found.fetch_or(overtaken, Ordering::Relaxed);
                }
            });
            let doer = host.spawn("doer", Ctx::Kernel, move || {
                (0..400).for_each(|_| reschedule());
                done.store(true, Ordering::Relaxed);
            });
            [looker, doer].iter().for_each(|thread| thread.join());
        })
        .unwrap();
    end.load(Ordering::Relaxed)
}

#[test]
fn priorities_find_what_takes_a_thread_to_be_left_for_long_where_chance_does_not() {
    let (random, ordered) = (times_found(&Strategy::Random, 2000), times_found(&priorities(1, 150), 2000));
    assert!(ordered > 5 * random.max(1), "by chance {random}, by priorities {ordered} of 2000");
}

#[test]
fn a_thread_that_polls_without_waiting_lets_the_one_it_polls_for_run() {
    for seed in 0..40 {
        let machine = Machine::new(by(priorities(0, 1), seed));
        let host = machine.add_host("alpha");
        machine
            .run(move || {
                let done = Arc::new(Mutex::new(false));
                let seen = done.clone();
                let poller = host.spawn("poller", Ctx::Kernel, move || {
                    while !*seen.lock().unwrap() {
                        reschedule();
                    }
                });
                let worker = host.spawn("worker", Ctx::Kernel, move || *done.lock().unwrap() = true);
                [poller, worker].iter().for_each(|thread| thread.join());
            })
            .unwrap_or_else(|halt| panic!("seed {seed}: {halt}"));
    }
}

#[test]
fn the_seed_alone_decides_in_virtual_mode() {
    let run = |seed| stroll(Config { mode: Mode::Virtual { seed }, ..Config::default() });
    assert_eq!(run(7), run(7));
    assert!((0..20).any(|seed| run(seed) != run(7)), "seeds hardly differ");
}
