//! The rules about the symbols a module defines.

use std::collections::BTreeSet;

use object::elf::{
    SHN_COMMON, SHN_UNDEF, STB_LOCAL, STB_WEAK, STT_FUNC, STT_GNU_IFUNC, STT_SECTION, STT_TLS, SymbolSection,
};

use super::{Finding, Intent, Report, Rule};
use crate::elf::{Elf, Symbol};
use crate::names;

/// The most symbols a module may have; krtld's limit is 65,535.
pub const MAX_SYMBOLS: usize = 60_000;

/// What only code that aborts on a failed allocation refers to: parts of symbol names.
const ABORTING_SYMBOLS: [&str; 5] = [
    "handle_alloc_error",
    "alloc_error_handler",
    "rg_oom",
    "raw_vec::capacity_overflow",
    "raw_vec::handle_error",
];

/// The messages of that code, in case it was inlined: parts of `.rodata`.
const ABORTING_MESSAGES: [&str; 2] = ["memory allocation of ", "capacity overflow"];

pub(super) fn check(elf: &Elf, image: &[u8], intent: Intent<'_>, report: &mut Report) {
    let findings = &mut report.findings;
    if elf.symbols.len() >= MAX_SYMBOLS {
        findings.push(Finding::new(Rule::SymbolCount, format!("{} symbols", elf.symbols.len())));
    }
    for symbol in &elf.symbols {
        kind(symbol, findings);
        function_name(symbol, findings);
    }
    globals(elf, intent.globals, findings);
    depends_on(elf, image, intent.depends, findings);
    infallible_allocation(elf, image, findings);
}

fn kind(symbol: &Symbol, findings: &mut Vec<Finding>) {
    let wrong = if symbol.bind == STB_WEAK.0 && symbol.section == SHN_UNDEF.0 {
        "is weak and undefined"
    } else if symbol.section == SHN_COMMON.0 {
        "is common"
    } else if symbol.kind == STT_TLS.0 {
        "is thread-local"
    } else if symbol.kind == STT_GNU_IFUNC.0 {
        "is an indirect function"
    } else {
        return;
    };
    findings.push(Finding::new(Rule::SymbolKind, format!("{} {wrong}", super::readable(&symbol.name))));
}

fn function_name(symbol: &Symbol, findings: &mut Vec<Finding>) {
    if symbol.kind == STT_FUNC.0 && symbol.name.len() > names::LONGEST {
        let what = format!("{} has {} letters", super::readable(&symbol.name), symbol.name.len());
        findings.push(Finding::new(Rule::FunctionName, what));
    }
}

fn globals(elf: &Elf, intended: &[String], findings: &mut Vec<Finding>) {
    let is_global = |symbol: &&Symbol| symbol.bind != STB_LOCAL.0 && symbol.section != SHN_UNDEF.0;
    let found: BTreeSet<&str> =
        elf.symbols.iter().filter(is_global).map(|symbol| symbol.name.as_str()).collect();
    let intended: BTreeSet<&str> = intended.iter().map(String::as_str).collect();
    for name in found.difference(&intended) {
        findings.push(Finding::new(Rule::Globals, format!("{} is global", super::readable(name))));
    }
    for name in intended.difference(&found) {
        findings.push(Finding::new(Rule::Globals, format!("{name} is not defined, or not global")));
    }
    for name in ["_init", "_fini", "_info"] {
        let defined = elf.symbols.iter().find(|symbol| symbol.name == name && symbol.section != SHN_UNDEF.0);
        if defined.is_some_and(|symbol| symbol.kind != STT_FUNC.0) {
            findings.push(Finding::new(Rule::Globals, format!("{name} is no function")));
        }
    }
}

fn depends_on(elf: &Elf, image: &[u8], depends: &[String], findings: &mut Vec<Finding>) {
    let wanted = depends.join(" ");
    let defined =
        elf.symbols.iter().find(|symbol| symbol.name == "_depends_on" && symbol.section != SHN_UNDEF.0);
    let what = match defined {
        None if depends.is_empty() => return,
        None => format!("_depends_on is missing; \"{wanted}\" is declared"),
        Some(symbol) => match contents(elf, image, symbol) {
            None => "_depends_on lies outside the file".into(),
            Some(bytes) if bytes.strip_suffix(&[0]) == Some(wanted.as_bytes()) => return,
            Some(bytes) => {
                let found = String::from_utf8_lossy(bytes).escape_default().to_string();
                format!(
                    "_depends_on is \"{found}\" in {} bytes; \"{wanted}\" and one NUL is declared",
                    symbol.size
                )
            }
        },
    };
    findings.push(Finding::new(Rule::DependsOn, what));
}

fn contents<'a>(elf: &Elf, image: &'a [u8], symbol: &Symbol) -> Option<&'a [u8]> {
    let section = elf.sections.get(usize::from(symbol.section))?;
    let start = usize::try_from(symbol.value).ok()?;
    let end = start.checked_add(usize::try_from(symbol.size).ok()?)?;
    image.get(section.contents.clone())?.get(start..end)
}

fn infallible_allocation(elf: &Elf, image: &[u8], findings: &mut Vec<Finding>) {
    for symbol in elf.symbols.iter().filter(|symbol| symbol.kind != STT_SECTION.0) {
        let name = super::readable(&symbol.name);
        if ABORTING_SYMBOLS.iter().any(|part| name.contains(part)) {
            let how = if symbol.section == SHN_UNDEF.0 { "imported" } else { "linked" };
            findings.push(Finding::new(Rule::InfallibleAllocation, format!("{name} is {how}")));
        }
    }
    for section in elf.sections.iter().filter(|section| section.is_loaded()) {
        let bytes = image.get(section.contents.clone()).unwrap_or_default();
        for message in ABORTING_MESSAGES {
            if let Some(at) = bytes.windows(message.len()).position(|window| window == message.as_bytes()) {
                let what = format!("{}+{at:#x} holds the message \"{message}\"", section.name);
                findings.push(Finding::new(Rule::InfallibleAllocation, what));
            }
        }
    }
}

/// Whether `symbol` is imported.
pub(super) fn is_import(symbol: &Symbol) -> bool {
    SymbolSection(symbol.section) == SHN_UNDEF && !symbol.name.is_empty()
}
