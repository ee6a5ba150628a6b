//! The manual page says what the command line takes: each option, its value, and no other.

use std::collections::BTreeSet;

use clap::CommandFactory as _;
use ibdlab::cli::Cli;

const PAGE: &str = include_str!("../../../docs/man/ibdlab.8");

/// `--name VALUE` of every option, from clap.
fn options() -> BTreeSet<String> {
    let cli = Cli::command();
    let run = cli.find_subcommand("run").expect("there is a command run");
    let options = run.get_arguments().filter_map(|argument| {
        let value = argument.get_value_names().filter(|_| argument.get_action().takes_values());
        let value = value.map(|names| format!(" {}", names.join(" "))).unwrap_or_default();
        Some(format!("--{}{value}", argument.get_long()?))
    });
    options.collect()
}

/// The same from the page's lines that begin with `macros`.
fn documented(macros: &str) -> BTreeSet<String> {
    let lines = PAGE.lines().filter_map(|line| line.strip_prefix(macros));
    lines.map(|line| format!("--{}", line.replace(" Ar ", " "))).collect()
}

#[test]
fn the_page_has_every_option_and_no_other() {
    assert_eq!(documented(".It Fl -"), options(), "docs/man/ibdlab.8, the list of options");
    assert_eq!(documented(".Op Fl -"), options(), "docs/man/ibdlab.8, the synopsis");
}

#[test]
fn the_page_has_every_command() {
    for command in Cli::command().get_subcommands() {
        let line = format!(".Cm {}", command.get_name());
        assert!(PAGE.lines().any(|text| text == line), "docs/man/ibdlab.8 has no {line}");
    }
}
