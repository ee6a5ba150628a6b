//! `--suppress FILE`: what a foreign module is known to do wrong.
//!
//! ```toml
//! [[suppress]]
//! module = "ibp"
//! rule = 44
//! call = "list_insert_head"
//! function = "ibd_acache_recycle"
//! evidence = "one sentence: what the module does there, and what shows it"
//! ```
//!
//! An entry is about a foreign object (`--module`): our own of the same name is held to every rule. It names a module, a rule, and a place: the kernel function or entry point `call`, a `function` of the module that is at work,
//! or both.

use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use fakekernel::{Rule, Suppression, Suppressions};
use serde::Deserialize;
use serde_spanned::Spanned;

use crate::scenario::{ModuleOverride, line_of};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    suppress: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    module: String,
    rule: Spanned<u8>,
    call: Option<String>,
    function: Option<String>,
    evidence: Spanned<String>,
}

/// Reads a file of known violations.
///
/// # Errors
///
/// What is wrong with it: `FILE:LINE: what, and what was expected`.
pub fn load(file: &Path) -> Result<Suppressions> {
    let text =
        crate::text_file::read(file).with_context(|| format!("the suppressions {}", file.display()))?;
    read(file, &text)
}

/// The same of a file's text; `file` is for the message.
///
/// # Errors
///
/// As for [`load`].
pub fn read(file: &Path, text: &str) -> Result<Suppressions> {
    parse(text)
        .map_err(|(span, message)| anyhow!("{}:{}: {message}", file.display(), line_of(text, span.start)))
}

/// The entries for each of the foreign objects. What is about none of them stays as it is, for a host that there is not.
pub(crate) fn for_objects(list: &Suppressions, foreign: &[ModuleOverride]) -> Suppressions {
    let entries = list.0.iter().flat_map(|entry| {
        let hosts: Vec<String> =
            foreign.iter().filter(|object| object.name == entry.module).map(|o| o.host.clone()).collect();
        let hosts = if hosts.is_empty() { vec![String::new()] } else { hosts };
        hosts.into_iter().map(|host| Suppression { host: Some(host), ..entry.clone() })
    });
    Suppressions(entries.collect())
}

type Wrong = (Range<usize>, String);

fn parse(text: &str) -> Result<Suppressions, Wrong> {
    let list: List =
        toml::from_str(text).map_err(|error| (error.span().unwrap_or(0..0), error.message().to_owned()))?;
    list.suppress.into_iter().map(check).collect::<Result<_, _>>().map(Suppressions)
}

fn check(entry: Spanned<Entry>) -> Result<Suppression, Wrong> {
    let span = entry.span();
    let Entry { module, rule, call, function, evidence } = entry.into_inner();
    let known = Rule::from_number(*rule.get_ref())
        .ok_or_else(|| (rule.span(), format!("there is no rule {}, expected 1 to 50", rule.get_ref())))?;
    if call.is_none() && function.is_none() {
        let message = "neither `call` nor `function`: a rule is not switched off as a whole";
        return Err((span, message.to_owned()));
    }
    if evidence.get_ref().trim().is_empty() {
        return Err((evidence.span(), "without evidence it is no known violation".to_owned()));
    }
    Ok(Suppression { host: None, module, rule: known, call, function, evidence: evidence.into_inner() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "[[suppress]]\nmodule = \"ibp\"\nrule = 44\ncall = \"list_remove\"\nevidence = \"seen\"\n";

    #[test]
    fn entries_are_for_foreign_objects_alone() {
        let list = parse(GOOD).expect("a good file");
        let object = |host: &str, name: &str| ModuleOverride {
            host: host.into(),
            name: name.into(),
            path: "object".into(),
        };
        let foreign = [object("alice", "ibp"), object("bob", "ibp"), object("carol", "mac_ib")];
        let hosts = |foreign: &[ModuleOverride]| -> Vec<Option<String>> {
            for_objects(&list, foreign).0.into_iter().map(|entry| entry.host).collect()
        };
        assert_eq!(hosts(&foreign), [Some("alice".to_owned()), Some("bob".to_owned())]);
        assert_eq!(hosts(&[]), [Some(String::new())]);
    }

    #[test]
    fn an_entry_has_a_place_and_evidence() {
        let list = parse(GOOD).expect("a good file");
        assert_eq!(list.0[0].rule, Rule::BadList);
        assert_eq!(list.0[0].call.as_deref(), Some("list_remove"));
        let cases = [
            ("call = \"list_remove\"\n", "", "neither `call` nor `function`"),
            ("rule = 44", "rule = 99", "there is no rule 99"),
            ("\"seen\"", "\" \"", "without evidence"),
            ("call", "cal", "unknown field `cal`"),
        ];
        for (old, new, expected) in cases {
            let (_, message) = parse(&GOOD.replace(old, new)).expect_err("must be refused");
            assert!(message.contains(expected), "{message}");
        }
    }
}
