//! One test program, from its start to its end.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::programs::Program;

/// How a program ended.
pub struct Outcome {
    /// With exit status 0.
    pub well: bool,
    pub seconds: f64,
    /// All that it wrote.
    pub said: Vec<u8>,
    /// Each test with its seconds.
    pub tests: Vec<(String, f64)>,
}

/// Runs a program as cargo would.
pub fn run(program: &Program) -> Outcome {
    let begun = Instant::now();
    let mut said = Vec::new();
    let mut tests = Vec::new();
    let result = listen(program, &mut said, &mut tests);
    let well = result.unwrap_or_else(|error| {
        said.extend_from_slice(format!("{}: {error}\n", program.path.display()).as_bytes());
        false
    });
    Outcome { well, seconds: begun.elapsed().as_secs_f64(), said, tests }
}

fn listen(program: &Program, said: &mut Vec<u8>, tests: &mut Vec<(String, f64)>) -> std::io::Result<bool> {
    let (hears, tells) = std::io::pipe()?;
    let mut command = Command::new(&program.path);
    command.args(&program.arguments).current_dir(&program.directory).stdin(Stdio::null());
    // What cargo has said of this program here is not true there.
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"CARGO_PKG_"))
    {
        command.env_remove(name);
    }
    command.env("CARGO_MANIFEST_DIR", &program.directory).env("CARGO_TERM_COLOR", "never");
    let mut child = command.stdout(tells.try_clone()?).stderr(tells).spawn()?;
    // It has the other end of the pipe, too.
    drop(command);
    read_tests(BufReader::new(hears), said, tests)?;
    Ok(child.wait()?.success())
}

/// With one thread a test begins when the one before it has ended.
fn read_tests(
    mut from: BufReader<impl Read>,
    said: &mut Vec<u8>,
    tests: &mut Vec<(String, f64)>,
) -> std::io::Result<()> {
    let mut since = Instant::now();
    loop {
        let start = said.len();
        if from.read_until(b'\n', said)? == 0 {
            return Ok(());
        }
        let line = String::from_utf8_lossy(said.get(start..).unwrap_or_default());
        if let Some(test) = ended_test(&line) {
            tests.push((test.to_owned(), since.elapsed().as_secs_f64()));
            since = Instant::now();
        } else if line.starts_with("running ") {
            since = Instant::now();
        }
    }
}

/// The test that a line is about. Others may have written between its name and its result.
fn ended_test(line: &str) -> Option<&str> {
    let (name, _) = line.strip_prefix("test ")?.split_once(" ... ")?;
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(script: &str) -> Program {
        Program {
            name: "a program".to_owned(),
            path: "/bin/sh".into(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
            directory: std::env::temp_dir(),
        }
    }

    #[test]
    fn a_program_s_tests_and_all_that_it_says_are_told() {
        let script = "echo running 2 tests; echo 'test one ... ok'; echo 'test two ... noise' >&2; echo ok";
        let outcome = run(&program(script));
        let names: Vec<&str> = outcome.tests.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((outcome.well, names), (true, vec!["one", "two"]));
        assert!(outcome.said.ends_with(b"noise\nok\n"), "{}", String::from_utf8_lossy(&outcome.said));
    }

    #[test]
    fn a_program_that_fails_or_is_not_there_is_not_well() {
        assert!(!run(&program("kill -SEGV $$")).well);
        let absent = Program { path: "/nonexistent".into(), ..program("") };
        let outcome = run(&absent);
        assert!(!outcome.well && outcome.said.starts_with(b"/nonexistent: "));
    }

    #[test]
    fn the_result_of_a_program_is_no_test() {
        assert_eq!(ended_test("test result: ok. 1 passed; 0 failed"), None);
        assert_eq!(ended_test("test a::b - should panic ... ok\n"), Some("a::b - should panic"));
    }
}
