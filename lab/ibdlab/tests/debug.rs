//! `ibdlab debug`: gdb knows the shipped driver's functions, stops in them, and lets the run end well.

use std::path::Path;
use std::process::{Command, Output};

const SCENARIO: &str = "lab/ibdlab/tests/data/pkey-moves.toml";

fn debug(arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut ibdlab = Command::new(env!("CARGO_BIN_EXE_ibdlab"));
    ibdlab.current_dir(root).arg("debug").args(arguments).output().expect("ibdlab starts")
}

/// What it wrote, without the numbers in brackets that gdb shows behind a crate's name.
fn said(output: &Output) -> String {
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let mut parts = text.split('[');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once("]::") {
            Some((number, rest)) if number.chars().all(|letter| letter.is_ascii_hexdigit()) => {
                plain += &format!("::{rest}");
            }
            _ => plain += &format!("[{part}"),
        }
    }
    plain
}

#[test]
fn gdb_stops_in_a_function_of_the_shipped_driver_and_the_run_ends_well() {
    let script = [
        "--",
        "--batch",
        "-ex",
        "run",
        "-ex",
        "backtrace",
        "-ex",
        "info symbol $pc",
        "-ex",
        "delete",
        "-ex",
        "continue",
    ];
    let arguments = [&[SCENARIO, "--host", "bob", "--break", "ibd::link::worker::run"][..], &script].concat();
    let output = debug(&arguments);
    let said = said(&output);
    let stopped = said.find("Breakpoint 1, ").unwrap_or_else(|| panic!("gdb did not stop:\n{said}"));
    let said = &said[stopped..];
    let line = said.lines().next().unwrap_or_default();
    assert!(line.contains("ibd::link::worker::run"), "{line}");
    let frames: Vec<&str> = said.lines().filter(|line| line.starts_with('#')).collect();
    assert!(frames[0].contains("ibd::link::worker::run"), "{frames:#?}");
    let driver = frames.iter().filter(|frame| frame.contains("ibd::")).count();
    let below = frames.iter().any(|frame| frame.contains("lab/fakekernel/src/"));
    assert!(driver > 1 && below, "the driver's frames, on those of the lab: {frames:#?}");
    assert!(
        said.contains("ibd::link::worker::run + 4 in section .text"),
        "a symbol at its load address: {said}"
    );
    assert!(said.contains("7 steps, all well") && said.contains("exited normally"), "{said}");
}

#[test]
fn gdb_reads_every_link_and_what_it_counts_from_memory() {
    let script = ["--", "--batch", "-ex", "run", "-ex", "ibd-links", "-ex", "delete", "-ex", "continue"];
    // A detach calls this when the link has come to rest.
    let rests = "ibd::sa_pool::SaPool::is_kept_by";
    let arguments = [&[SCENARIO, "--host", "bob", "--break", rests][..], &script].concat();
    let output = debug(&arguments);
    let said = said(&output);
    let mut lines = said.lines().skip_while(|line| !line.starts_with("link "));
    let link = lines.next().unwrap_or_else(|| panic!("no link:\n{said}"));
    assert!(link.contains("pkey ffff port 1 of "), "{link}");
    let values: Vec<&str> = lines.take_while(|line| line.starts_with("  ")).map(str::trim).collect();
    assert!(values.contains(&"datagram link_state 0 (stopped)"), "it is closed: {values:#?}");
    for name in ["port times_up ", "tx_ring_0 packets ", "rx_ring_0 packets ", "datagram sa_joins "] {
        let value = values.iter().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
        assert!(value.parse::<u64>().is_ok_and(|value| value > 0), "{name}: {values:#?}");
    }
    assert!(said.contains("7 steps, all well"), "{said}");
}

#[test]
fn a_function_or_a_host_that_is_not_there_is_refused_before_gdb_is_run() {
    let output = debug(&[SCENARIO, "--break", "link::worker::no_such"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("no function `link::worker::no_such`"), "{}", said(&output));
    let output = debug(&[SCENARIO, "--host", "carol"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("has no host `carol`"), "{}", said(&output));
}
