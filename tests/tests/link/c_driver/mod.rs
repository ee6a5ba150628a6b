//! The tests of closed weaknesses with illumos's own objects in the place of ours: each fails there, for the reason that its row
//! states. A test that the C driver passes too would show nothing about it.

mod rows;

use std::env;
use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Command, ExitStatus};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::object::{HELD_TO, HOSTS, NOTHING_TO_COMPARE, OBJECTS};
use rows::{Outcome, ROWS};

/// How long a test may take; with our objects the longest of them takes some seconds.
const PATIENCE: Duration = Duration::from_secs(600);
/// What the C driver can do: were these to fail, the failures of the others would mean nothing.
const CONTROLS: [(&str, &str); 6] = [
    ("alpha", "offloads::a_checksum_the_adapter_was_asked_for_arrives_right"),
    ("beta", "offloads::a_checksum_the_adapter_was_asked_for_arrives_right"),
    ("alpha,beta", "starts::a_link_that_carried_traffic_is_unloaded_without_a_trace"),
    ("alpha", "announced::a_port_that_goes_down_and_comes_back_tells_carrier_and_nothing_else"),
    ("alpha", "starts::a_join_that_nobody_answered_before_a_stop_keeps_nobody_from_an_address_after_it"),
    ("alpha", "properties::rings_of_another_size_carry_more_than_they_hold"),
];

/// How a test ended; `None` is that it did not. And what it said.
struct Ended(Option<ExitStatus>, String);

#[expect(clippy::disallowed_methods, reason = "the patience with a process")]
fn run(test: &str, on: &str, held_to: &str) -> Ended {
    let mut said = tempfile::tempfile().expect("a file");
    let to = |file: &File| file.try_clone().expect("another handle");
    let mut child = Command::new(env::current_exe().expect("this binary"))
        .args(["--exact", test, "--nocapture"])
        .env(OBJECTS, env::var_os("FOREIGN").expect("FOREIGN names the directory of the objects"))
        .env(HOSTS, on)
        .env(HELD_TO, held_to)
        .env("RUST_BACKTRACE", "0")
        .stdout(to(&said))
        .stderr(to(&said))
        .spawn()
        .expect("this binary runs");
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().expect("it is our child") {
            Some(status) => break Some(status),
            None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            None => {
                child.kill().expect("it is our child");
                child.wait().expect("it is our child");
                break None;
            }
        }
    };
    let mut text = String::new();
    said.rewind().expect("a file");
    said.read_to_string(&mut text).expect("text");
    Ended(status, text)
}

fn check(outcome: &Outcome) -> Result<(), String> {
    let (test, on, held_to) = match outcome {
        Outcome::Fails { test, on, held_to, .. } => (test, on, *held_to),
        Outcome::Uncounted { test, on } => (test, on, ""),
        Outcome::Latent => return Ok(()),
    };
    let Ended(status, said) = run(test, on, held_to);
    let wanted: &[&str] = match outcome {
        Outcome::Fails { says, .. } => says,
        Outcome::Uncounted { .. } => &[NOTHING_TO_COMPARE],
        Outcome::Latent => &[],
    };
    let missing = wanted.iter().find(|text| !said.contains(**text));
    let began = said.contains("running 1 test");
    // A test that our own driver alone can pass fails for no reason that counts.
    let uncounted = said.contains(NOTHING_TO_COMPARE) && !matches!(outcome, Outcome::Uncounted { .. });
    let failed = status.is_some_and(|status| !status.success());
    if began && !uncounted && missing.is_none() && failed {
        return Ok(());
    }
    let ended = status.map_or("did not end".to_owned(), |status| status.to_string());
    Err(format!("{test} on {on}: {ended}; expected {wanted:?}\n{said}"))
}

#[test]
fn every_closed_weakness_shows_in_the_c_driver_or_is_latent() {
    for (on, test) in CONTROLS {
        let Ended(status, said) = run(test, on, "");
        assert!(status.is_some_and(|status| status.success()), "{test} on {on}:\n{said}");
    }
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(row) = ROWS.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match check(&row.outcome) {
                        Ok(()) => println!("{}: {}", row.id, row.told),
                        Err(why) => wrong.lock().expect("nobody panics").push(format!("{}: {why}", row.id)),
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("nobody panics");
    assert!(wrong.is_empty(), "{} rows are not true:\n{}", wrong.len(), wrong.join("\n"));
}
