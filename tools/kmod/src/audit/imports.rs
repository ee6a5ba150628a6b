//! The rule about the symbols a module imports.
//!
//! krtld searches the direct dependencies in the order of `_depends_on`, not theirs in turn, and then unix and genunix.

use std::collections::BTreeSet;

use super::symbols::is_import;
use super::{Exports, Finding, Intent, Report, Rule};
use crate::elf::Elf;

/// Calls of these are DTrace probe sites: krtld overwrites them and resolves nothing.
pub(super) const PROBE_PREFIX: &str = "__dtrace_probe_";

pub(super) fn check(elf: &Elf, intent: Intent<'_>, exports: &Exports, report: &mut Report) {
    probes(elf, intent.probes, report);
    let dependencies: Vec<&str> = intent.depends.iter().map(|path| module_name(path)).collect();
    let mut used = BTreeSet::new();
    let imports =
        elf.symbols.iter().filter(|symbol| is_import(symbol) && !symbol.name.starts_with(PROBE_PREFIX));
    for symbol in imports {
        report.figures.imports += 1;
        let searched = dependencies.iter().copied().chain(["unix", "genunix"]);
        match searched.into_iter().find(|module| exports.has(module, &symbol.name)) {
            Some(module) => _ = used.insert(module),
            None => report.findings.push(Finding::new(Rule::Imports, unresolved(&symbol.name, exports))),
        }
    }
    let unused = intent.depends.iter().filter(|path| !used.contains(module_name(path)));
    report.figures.unused_dependencies = unused.cloned().collect();
}

/// The name of a probe as DTrace shows it.
fn probe_name(symbol: &str) -> Option<String> {
    Some(symbol.strip_prefix(PROBE_PREFIX)?.replace("__", "-"))
}

fn probes(elf: &Elf, declared: &[String], report: &mut Report) {
    let sites = elf.symbols.iter().filter(|symbol| is_import(symbol));
    let found: BTreeSet<String> = sites.filter_map(|symbol| probe_name(&symbol.name)).collect();
    let declared: BTreeSet<String> = declared.iter().cloned().collect();
    for name in found.difference(&declared) {
        report.findings.push(Finding::new(Rule::ProbeSite, format!("{name} is not declared")));
    }
    for name in declared.difference(&found) {
        report.findings.push(Finding::new(Rule::ProbeSite, format!("{name} is declared and has no site")));
    }
}

fn module_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn unresolved(symbol: &str, exports: &Exports) -> String {
    match exports.owner(symbol) {
        Some(module) => format!("{symbol} is exported by {module}, which is not a declared dependency"),
        None => format!("{} is exported by no module on the lists", super::readable(symbol)),
    }
}
