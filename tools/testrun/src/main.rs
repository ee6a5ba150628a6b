//! Runs every test program of the workspace, some side by side, and keeps how long each test took.
//!
//! `cargo test` runs one program after the other, each with a thread for each processor: at the end of each program, and while a test waits
//! for the clock, processors are idle. Here each program has one thread, and as many programs run as there are
//! processors, and two more for those that wait. The longest of the last time begin.
//!
//! What a program says is printed when it ends. The times are in `target/test-times.tsv`: program, test, seconds.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "tests take real time")]

mod programs;
mod run;
mod times;

use std::collections::VecDeque;
use std::io::Write;
use std::process::ExitCode;
use std::sync::{Mutex, mpsc};
use std::thread;

use anyhow::{Context, Result};

use programs::Program;
use run::Outcome;
use times::Times;

fn main() -> Result<ExitCode> {
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec().context("cargo metadata")?;
    let file = metadata.target_directory.join("test-times.tsv");
    let last = Times::read(file.as_std_path());
    let mut programs = programs::build(&metadata)?;
    programs.sort_by(|a, b| last.of_program(&b.name).total_cmp(&last.of_program(&a.name)));
    let mut times = Times::default();
    let mut failed = Vec::new();
    run_all(programs, |name, outcome| {
        print(name, &outcome);
        if !outcome.well {
            failed.push(name.to_owned());
        }
        times.add(name, outcome.tests, outcome.seconds);
    });
    times.write(file.as_std_path()).with_context(|| file.to_string())?;
    println!("\nThe longest tests (all are in {file}):");
    for (seconds, program, test) in times.longest(10) {
        println!("{seconds:8.1} s  {program} {test}");
    }
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("\nerror: {} targets failed:", failed.len());
    failed.iter().for_each(|name| println!("    {name}"));
    Ok(ExitCode::FAILURE)
}

/// Runs all, and tells of each when it has ended.
fn run_all(programs: Vec<Program>, mut ended: impl FnMut(&str, Outcome)) {
    let side_by_side = thread::available_parallelism().map_or(1, usize::from) + 2;
    let waiting = Mutex::new(VecDeque::from(programs));
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..side_by_side {
            let (tell, waiting) = (tell.clone(), &waiting);
            scope.spawn(move || {
                loop {
                    let next = waiting.lock().ok().and_then(|mut waiting| waiting.pop_front());
                    let Some(program) = next else { return };
                    let outcome = run::run(&program);
                    if tell.send((program.name, outcome)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(tell);
        for (name, outcome) in told {
            ended(&name, outcome);
        }
    });
}

fn print(name: &str, outcome: &Outcome) {
    let mut out = std::io::stdout().lock();
    // Whoever reads it has gone.
    let _ = writeln!(out, "     Running {name} ({:.1} s)", outcome.seconds);
    let _ = out.write_all(&outcome.said).and_then(|()| out.flush());
}
