//! From a file to a checked [`Scenario`].

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::Scenario;
use super::check::check;
use crate::text_file;

/// Why a scenario cannot be run: `FILE:LINE: what is wrong and what was expected`.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    #[error("{}: {why}", .file.display())]
    Unreadable { file: PathBuf, why: std::io::Error },
    #[error("{}:{line}: {message}", .file.display())]
    Wrong { file: PathBuf, line: usize, message: String },
}

/// Reads and checks a scenario file.
pub fn load(file: &Path) -> Result<Scenario, ScenarioError> {
    let text =
        text_file::read(file).map_err(|why| ScenarioError::Unreadable { file: file.to_owned(), why })?;
    parse(file, &text)
}

/// Reads the text of a file; `file` is for errors.
///
/// # Errors
///
/// Where the text is wrong and what was expected there.
pub fn parse(file: &Path, text: &str) -> Result<Scenario, ScenarioError> {
    let wrong = |span: Range<usize>, message: String| ScenarioError::Wrong {
        file: file.to_owned(),
        line: line_of(text, span.start),
        message,
    };
    let mut scenario: Scenario = toml::from_str(text)
        .map_err(|error| wrong(error.span().unwrap_or(0..0), error.message().to_owned()))?;
    scenario.fit_defaults();
    check(&scenario).map_err(|fault| wrong(fault.span, fault.message))?;
    Ok(scenario)
}

/// Lines are counted from 1.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"name = "two hosts"

[[host]]
name = "alice"
addresses = ["10.0.0.1/24"]

[[host]]
name = "bob"
addresses = ["10.0.0.2/24", "fd00::2/64"]

[[step]]
attach = {}

[[step]]
ping = { from = "alice", to = "10.0.0.2", count = 3 }
"#;

    fn error_of(text: &str) -> String {
        parse(Path::new("s.toml"), text).expect_err("must be refused").to_string()
    }

    #[test]
    fn a_good_file_is_read() {
        let scenario = parse(Path::new("s.toml"), GOOD).expect("a good file");
        assert_eq!(scenario.host.len(), 2);
        assert_eq!(scenario.step.len(), 2);
        assert_eq!(scenario.seed, 1);
    }

    #[test]
    fn errors_name_file_line_and_what_was_expected() {
        let cases: [(&str, &str, &str); 12] = [
            ("count = 3", "cuont = 3", "s.toml:15: unknown field `cuont`, expected one of"),
            (
                "from = \"alice\"",
                "from = \"alcie\"",
                "s.toml:15: host `alcie` is not defined, expected one of `alice`, `bob`",
            ),
            ("to = \"10.0.0.2\"", "to = \"10.0.0.9\"", "s.toml:15: no host has the address 10.0.0.9"),
            ("attach = {}", "atach = {}", "s.toml:12: unknown variant `atach`, expected one of `attach`"),
            ("name = \"bob\"", "name = \"alice\"", "s.toml:8: there are two hosts named `alice`"),
            (
                "name = \"bob\"",
                "name = \"../bob\"",
                "s.toml:8: `../bob` is no name for a host: expected up to 32 letters, digits, `-`, `_`, `.`, no sign first",
            ),
            (
                "\"fd00::2/64\"]",
                "\"fd00::2/64\"]\npkey = 0x8001\n[[partition]]\npkey = 0x8001\n[[partition]]\npkey = 0xffff",
                "s.toml:20: 10.0.0.2 is an address of `bob`, in another partition than `alice`",
            ),
            (
                "name = \"bob\"",
                "name = \"bob\"\npkey = 0x8000",
                "s.toml:9: P_Key 0x8000 is not valid, expected",
            ),
            (
                "name = \"bob\"",
                "name = \"bob\"\nproperties = { linkmode = \"rc\" }",
                "s.toml:9: linkmode is `ud` or `cm`",
            ),
            ("name = \"bob\"", "name = \"bob\"\npkey = 0x8001", "s.toml:9: P_Key 0x8001 is in no partition"),
            (
                "[[step]]\nattach",
                "[fabric]\nmtu = 1500\n[[step]]\nattach",
                "s.toml:12: MTU 1500 is not one of 256, 512",
            ),
            ("\"10.0.0.1/24\"", "\"10.0.0.1\"", "s.toml:5: `10.0.0.1` is no address with prefix length"),
        ];
        for (old, new, expected) in cases {
            let message = error_of(&GOOD.replacen(old, new, 1));
            assert!(message.starts_with(expected), "{message}\nshould start with\n{expected}");
        }
    }

    const EVERY_EVENT: &str = include_str!("../../tests/data/trouble-of-every-kind.toml");

    #[test]
    fn a_scenario_written_to_a_file_reads_as_itself() {
        for text in [GOOD, EVERY_EVENT] {
            let scenario = parse(Path::new("s.toml"), text).expect("a good file");
            let written = scenario.to_toml().expect("a scenario is text");
            let again = parse(Path::new("written.toml"), &written)
                .unwrap_or_else(|error| panic!("{error} in\n{written}"));
            assert_eq!(again, scenario);
        }
    }

    #[test]
    fn errors_in_a_timeline_name_the_event_s_line() {
        let cases = [
            (
                "port-up = { host = \"bob\" }",
                "port-pu = { host = \"bob\" }",
                ": unknown variant `port-pu`, expected one of",
            ),
            ("port-up = { host = \"bob\" }", "port-up = { host = \"bbo\" }", ": host `bbo` is not defined"),
            (
                "port-up = { host = \"bob\" }",
                "port-up = { hots = \"bob\" }",
                ": unknown field `hots`, expected `host`",
            ),
            ("at_us = 20_000", "at_us = 900_000", ": 900000 us is later than within_ms = 200"),
            (
                "kind = \"ibt_attach_mcg\"",
                "kind = \"ibt_atach_mcg\"",
                ": `ibt_atach_mcg` is nothing that can fail",
            ),
        ];
        for (old, new, expected) in cases {
            let line = 1 + EVERY_EVENT.lines().position(|line| line.contains(old)).expect("it is there");
            let message = error_of(&EVERY_EVENT.replacen(old, new, 1));
            let expected = format!("s.toml:{line}{expected}");
            assert!(message.starts_with(&expected), "{message}\nshould start with\n{expected}");
        }
    }
}
