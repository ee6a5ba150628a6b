//! The rules of the kernel's discipline, each broken by a small C module (`probes/rules`) that the lab must catch, and kept by
//! a twin that it must not.
//!
//! One table has a line per case, and a test is made of each: what is built, which function of it is called and in which
//! context, and how the lab says that the rule was broken, with the module, the call and the rule.

#![forbid(unsafe_code)]

mod bench;
mod case;
mod framework;
mod locks;
mod memory;
mod modules;
mod races;
mod rings;
mod threads;
mod transport;

use std::io::Write as _;

use fakekernel::Rule;

use case::Case;

/// Every case with its test's name.
fn all() -> impl Iterator<Item = &'static (&'static str, Case)> {
    let all = [
        framework::CASES,
        locks::CASES,
        memory::CASES,
        modules::CASES,
        races::CASES,
        rings::CASES,
        threads::CASES,
        transport::CASES,
    ];
    all.into_iter().flatten()
}

/// Why no case of the table breaks a rule that has none.
const NOT_BROKEN: &[(Rule, &str)] = &[];

/// What keeps a rule from counting: it has no case, or a case of it went wrong.
fn missing(rule: Rule) -> Option<String> {
    let mine: Vec<_> = all().filter(|(_, case)| case.rule == rule).collect();
    if !mine.iter().any(|(_, case)| case.breaks()) {
        let reason = NOT_BROKEN.iter().find(|(without, _)| *without == rule);
        return Some(reason.map_or("no probe breaks it", |(_, why)| why).to_owned());
    }
    mine.iter().find_map(|(name, case)| case.run().err().map(|why| format!("{name}: {why}")))
}

/// Prints how many rules are enforced. Past the test harness, which keeps to itself what a test prints.
#[test]
fn every_rule_is_broken_by_a_probe_and_named_by_the_lab() {
    let rest: Vec<(Rule, String)> =
        Rule::ALL.into_iter().filter_map(|rule| Some((rule, missing(rule)?))).collect();
    let mut lines = format!("rules enforced: {}/{}\n", Rule::ALL.len() - rest.len(), Rule::ALL.len());
    for (rule, why) in &rest {
        lines.push_str(&format!("  not {}: {why}\n", rule.number()));
    }
    // Whoever closed the output does not want to read it.
    let _ = std::io::stdout().write_all(lines.as_bytes());
    let explained = |rule: &Rule| NOT_BROKEN.iter().any(|(without, _)| without == rule);
    let unexplained: Vec<_> = rest.iter().filter(|(rule, _)| !explained(rule)).collect();
    assert!(unexplained.is_empty(), "{unexplained:#?}");
}

#[test]
fn every_rule_has_a_twin_that_keeps_it() {
    let kept = |rule: &Rule| all().any(|(_, case)| case.rule == *rule && !case.breaks());
    let without: Vec<u8> = Rule::ALL.iter().filter(|rule| !kept(rule)).map(|rule| rule.number()).collect();
    assert!(without.is_empty(), "rules without a twin: {without:?}");
}

#[test]
fn tests_are_named_after_their_rules() {
    for (name, case) in all() {
        assert!(
            name.starts_with(&format!("rule_{:02}_", case.rule.number())),
            "{name} is about {}",
            case.rule
        );
    }
}
