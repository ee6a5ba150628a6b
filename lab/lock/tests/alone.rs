//! What a process with one thread may do, each case in a copy of this one.

use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;

use lab_lock::{Mutex, copy, held, is_alone, settle};

/// `SIGABRT` of `signal.h`.
const ABORTED: i32 = 6;

fn main() {
    let code = |work: fn() -> u8| copy(work).expect("a copy").wait().expect("its end");
    assert_eq!(code(a_process_with_one_thread_settles).code(), Some(0));
    assert_eq!(code(one_that_holds_a_lock_does_not).code(), Some(0));
    assert_eq!(code(a_thread_that_comes_later_and_locks_ends_the_process).signal(), Some(ABORTED));
    assert_eq!(code(|| panic!("on purpose")).code(), Some(101), "a panic is an exit code");
    assert!(!is_alone(), "what a copy settles is its own");
    let refused = std::thread::scope(|scope| scope.spawn(|| copy(|| 0).map(|_| ())).join().expect("joined"));
    assert!(refused.is_err(), "a process with two threads is not copied");
    println!("test result: ok. 6 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}

fn a_process_with_one_thread_settles() -> u8 {
    let number = Mutex::new(1);
    assert!(settle() && is_alone());
    *number.lock() += 1;
    let first = number.lock();
    assert!(number.try_lock().is_none(), "held");
    drop(first);
    u8::from(*number.lock() != 2 || held() != 0)
}

fn one_that_holds_a_lock_does_not() -> u8 {
    let number = Mutex::new(1);
    let _held = number.lock();
    u8::from(settle())
}

fn a_thread_that_comes_later_and_locks_ends_the_process() -> u8 {
    assert!(settle());
    let number = Arc::new(Mutex::new(1));
    std::thread::scope(|scope| {
        scope.spawn(|| *number.lock());
    });
    0
}
