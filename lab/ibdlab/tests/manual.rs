//! The manual page says what the command line takes: each command, each of its options with its value, and no other.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{CommandFactory as _, Parser as _};
use ibdlab::campaign::Campaign;
use ibdlab::cli::{Cli, Command};

const PAGE: &str = include_str!("../../../docs/man/ibdlab.8");

/// `--name VALUE` of every option of a command, from clap.
fn options(command: &clap::Command) -> BTreeSet<String> {
    let options = command.get_arguments().filter_map(|argument| {
        let value = argument.get_action().takes_values().then(|| argument.get_value_names());
        let name = argument.get_id().as_str().to_uppercase();
        let value = value.map(|names| names.map_or(name, |names| names.join(" ")));
        Some(format!("--{}{}", argument.get_long()?, value.map(|v| format!(" {v}")).unwrap_or_default()))
    });
    options.collect()
}

/// The same from the page: the lines that begin with `macros`, from the line `from` to the next that begins with `to`.
fn documented(from: &str, to: &str, macros: &str) -> BTreeSet<String> {
    let lines = PAGE.lines().skip_while(|line| *line != from).skip(1);
    let lines = lines.take_while(|line| !line.starts_with(to)).filter_map(|line| line.strip_prefix(macros));
    lines.map(|line| format!("--{}", line.replace(" Ar ", " "))).collect()
}

#[test]
fn the_page_has_every_command_with_every_option_and_no_other() {
    let cli = Cli::command();
    let commands = || cli.get_subcommands().filter(|command| !command.is_hide_set());
    for command in commands() {
        let (name, options) = (command.get_name(), options(command));
        let synopsis = documented(&format!(".Cm {name}"), ".Nm", ".Op Fl -");
        assert_eq!(synopsis, options, "docs/man/ibdlab.8: the synopsis of {name}");
        let list = documented(&format!(".Ss Options of {name}"), ".S", ".It Fl -");
        assert_eq!(list, options, "docs/man/ibdlab.8: the options of {name}");
    }
    let described = PAGE.lines().filter(|line| line.starts_with(".Ss Options of ")).count();
    assert_eq!(described, commands().count(), "docs/man/ibdlab.8 has a command that is gone");
}

#[test]
fn a_campaign_on_objects_of_one_s_own_uses_no_others_but_those_that_are_named() {
    let directory = tempfile::tempdir().expect("a directory");
    for made in ["proto/coverage", "proto/atomics", "proto/races", "mine", "my-races"] {
        std::fs::create_dir_all(directory.path().join(made)).expect("made");
    }
    // The usual places are in the directory that one is in.
    std::env::set_current_dir(directory.path()).expect("it is there");
    let campaign = |words: &[&str]| {
        let cli = Cli::try_parse_from([&["ibdlab", "campaign"], words].concat()).expect("a command line");
        let Command::Campaign(args) = cli.command else { panic!("a campaign") };
        let Campaign { proto, counting, atomics, races, .. } = args.campaign();
        let text = |path: PathBuf| path.to_str().expect("text").to_owned();
        (text(proto), [counting, atomics, races].map(|path| path.map(text).unwrap_or_default()))
    };
    let none = String::new;
    let usual = ["proto/coverage", "proto/atomics", "proto/races"].map(str::to_owned);
    assert_eq!(campaign(&[]), ("proto/kernel".into(), usual));
    assert_eq!(campaign(&["--proto", "mine"]), ("mine".into(), [none(), none(), none()]));
    let found = campaign(&["--proto", "mine", "--races", "my-races", "--atomics", "nowhere"]);
    assert_eq!(found, ("mine".into(), [none(), none(), "my-races".into()]));
}

#[test]
fn a_number_of_the_bench_s_that_no_run_can_have_is_refused() {
    for (option, number, expected) in [
        ("--bytes", "0", "28..=65535"),
        ("--bytes", "27", "28..=65535"),
        ("--bytes", "65536", "28..=65535"),
        ("--burst", "0", "1..=65536"),
        ("--burst", "65537", "1..=65536"),
        ("--burst", "18446744073709551615", "number too large"),
        ("--made", "1000001", "0..=1000000"),
    ] {
        let words = ["ibdlab", "bench", "--drive", "receive", option, number];
        let why = Cli::try_parse_from(words).expect_err("it is refused").to_string();
        assert!(why.contains(number) && why.contains(expected), "{why}");
    }
    for (option, number) in [("--bytes", "28"), ("--bytes", "65535"), ("--burst", "65536")] {
        let words = ["ibdlab", "bench", "--drive", "transmit", option, number];
        assert!(Cli::try_parse_from(words).is_ok(), "{option} {number}");
    }
}
