//! How long tests took, in a file.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Result, Write};
use std::path::Path;

/// Where no times are kept yet these begin, in this order.
const LONGEST: [&str; 16] = [
    "conformance link",
    "gate suite",
    "ibdlab bench",
    "ibdlab campaign",
    "ibdlab swhca",
    "ibdlab linux_offloads",
    "ibdlab connected",
    "ibdlab found",
    "ibdlab suite",
    "ibdlab desk",
    "gate archive",
    "ibdlab seeds",
    "ibdlab six_hosts",
    "ibdlab speeds",
    "ibdlab fabrics",
    "ibdlab two_hosts",
];

/// Seconds by program and test; what a program took as a whole has no test's name.
#[derive(Default)]
pub struct Times(BTreeMap<(String, String), f64>);

impl Times {
    /// Those in a file, or none.
    pub fn read(file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = |line: &str| {
            let mut fields = line.split('\t');
            let who = (fields.next()?.to_owned(), fields.next()?.to_owned());
            Some((who, fields.next()?.parse().ok()?))
        };
        Self(text.lines().filter_map(line).collect())
    }

    pub fn add(&mut self, program: &str, tests: Vec<(String, f64)>, seconds: f64) {
        self.0.insert((program.to_owned(), String::new()), seconds);
        self.0.extend(tests.into_iter().map(|(test, seconds)| ((program.to_owned(), test), seconds)));
    }

    /// A program's, as far as anybody knows: the longest are known beforehand, and one that is new may be long.
    pub fn of_program(&self, program: &str) -> f64 {
        let last = self.0.get(&(program.to_owned(), String::new())).copied();
        let known = LONGEST.iter().rev().position(|long| *long == program);
        last.or_else(|| known.map(|place| 1000.0 + place as f64)).unwrap_or(100.0)
    }

    pub fn write(&self, file: &Path) -> Result<()> {
        let mut out = Vec::new();
        for ((program, test), seconds) in &self.0 {
            writeln!(out, "{program}\t{test}\t{seconds:.3}")?;
        }
        fs::write(file, out)
    }

    /// The longest tests, from the longest on.
    pub fn longest(&self, most: usize) -> Vec<(f64, &str, &str)> {
        let tests = self.0.iter().filter(|((_, test), _)| !test.is_empty());
        let mut all: Vec<_> =
            tests.map(|((program, test), s)| (*s, program.as_str(), test.as_str())).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_were_written_and_a_new_program_comes_first() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("times");
        let mut times = Times::default();
        times.add("fast", vec![("one".to_owned(), 0.5), ("two".to_owned(), 1.25)], 2.0);
        times.write(&file).expect("it is written");
        let times = Times::read(&file);
        assert_eq!(times.longest(1), [(1.25, "fast", "two")]);
        assert!(times.of_program("new") > times.of_program("fast"));
        assert!(times.of_program("conformance link") > times.of_program("ibdlab seeds"));
        assert!(times.of_program("ibdlab two_hosts") > times.of_program("new"));
        assert_eq!(times.of_program("fast"), 2.0);
    }
}
