//! The rules about ELF identity, sections and relocations.

use object::elf::{self, EM_X86_64, ET_REL, SHF_TLS, SHT_DYNAMIC, SHT_NOBITS, SHT_SYMTAB};

use super::{Finding, Report, Rule};
use crate::elf::{Elf, Relocation, Section};

/// The sections krtld is given to load.
const LOADED: [&str; 4] = [".text", ".rodata", ".data", ".bss"];

/// The relocations krtld implements, and the width of their fields in bytes.
const RELOCATIONS: [(elf::RelocationType, usize); 5] = [
    (elf::R_X86_64_64, 8),
    (elf::R_X86_64_PC32, 4),
    (elf::R_X86_64_PLT32, 4),
    (elf::R_X86_64_32S, 4),
    (elf::R_X86_64_PC64, 8),
];

pub(super) fn check(elf: &Elf, image: &[u8], report: &mut Report) {
    let findings = &mut report.findings;
    identity(elf, findings);
    symbol_tables(elf, findings);
    for section in &elf.sections {
        check_section(section, findings);
        if let Some(index) = LOADED.iter().position(|name| *name == section.name) {
            report.figures.sizes[index] += section.size;
        }
    }
    for relocation in &elf.relocations {
        check_relocation(elf, image, relocation, findings);
    }
}

fn identity(elf: &Elf, findings: &mut Vec<Finding>) {
    if elf.kind != ET_REL.0 {
        findings.push(Finding::new(Rule::Identity, format!("e_type is {}, not relocatable (1)", elf.kind)));
    }
    if elf.machine != EM_X86_64.0 {
        findings.push(Finding::new(Rule::Identity, format!("e_machine is {}, not x86-64 (62)", elf.machine)));
    }
}

fn symbol_tables(elf: &Elf, findings: &mut Vec<Finding>) {
    let tables = elf.sections.iter().filter(|section| section.kind == SHT_SYMTAB.0).count();
    if tables != 1 {
        findings.push(Finding::new(Rule::SymbolTable, format!("{tables} symbol tables instead of 1")));
    }
}

fn check_section(section: &Section, findings: &mut Vec<Finding>) {
    let name = &section.name;
    if section.is_rel() {
        findings.push(Finding::new(
            Rule::SectionKind,
            format!("{name} holds relocations without addends (SHT_REL)"),
        ));
    }
    if section.kind == SHT_DYNAMIC.0 {
        findings.push(Finding::new(Rule::SectionKind, format!("{name} is a dynamic section")));
    }
    if section.addr != 0 {
        findings.push(Finding::new(Rule::SectionAddress, format!("{name} is at {:#x}, not 0", section.addr)));
    }
    let foreign = !LOADED.contains(&name.as_str()) || section.flags & SHF_TLS.0 != 0;
    if section.is_loaded() && foreign {
        findings.push(Finding::new(
            Rule::LoadedSection,
            format!("{name}, {} bytes, would be loaded", section.size),
        ));
    }
    if name.starts_with(".debug_") || name.starts_with(".rela.debug_") {
        findings.push(Finding::new(Rule::DebugSection, format!("{name}, {} bytes", section.size)));
    }
}

fn check_relocation(elf: &Elf, image: &[u8], relocation: &Relocation, findings: &mut Vec<Finding>) {
    let Some(section) = elf.sections.get(relocation.section) else {
        let what =
            format!("{}: for section {}, which does not exist", table(elf, relocation), relocation.section);
        findings.push(Finding::new(Rule::RelocationPlace, what));
        return;
    };
    if !section.is_loaded() {
        return;
    }
    let at =
        format!("{}+{:#x} ({})", section.name, relocation.offset, super::readable(elf.target(relocation)));
    if let Some(what) = misplaced(elf, relocation) {
        findings.push(Finding::new(Rule::RelocationPlace, format!("{at}: {what}")));
    }
    let Some((_, width)) = RELOCATIONS.iter().find(|(kind, _)| kind.0 == relocation.kind) else {
        let what = format!("{at}: type {}, krtld implements 1, 2, 4, 11, 24", relocation.kind);
        findings.push(Finding::new(Rule::RelocationType, what));
        return;
    };
    match field(image, section, relocation.offset, *width) {
        None => {
            let what = format!("{at}: beyond the section's {:#x} bytes", section.size);
            findings.push(Finding::new(Rule::RelocationPlace, what));
        }
        Some(bytes) if bytes.iter().any(|byte| *byte != 0) => {
            findings.push(Finding::new(Rule::RelocationField, format!("{at}: the field holds {bytes:02x?}")));
        }
        Some(_) => (),
    }
}

fn table<'a>(elf: &'a Elf, relocation: &Relocation) -> &'a str {
    elf.sections.get(relocation.table).map_or("?", |section| &section.name)
}

fn misplaced(elf: &Elf, relocation: &Relocation) -> Option<String> {
    let link = elf.sections.get(relocation.table)?.link as usize;
    if elf.sections.get(link).is_none_or(|section| section.kind != SHT_SYMTAB.0) {
        return Some(format!("{} is not linked to the symbol table", table(elf, relocation)));
    }
    let symbol = relocation.symbol;
    (symbol >= elf.symbols.len()).then(|| format!("symbol {symbol} of {}", elf.symbols.len()))
}

fn field<'a>(image: &'a [u8], section: &Section, offset: u64, width: usize) -> Option<&'a [u8]> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(width)?;
    if section.kind == SHT_NOBITS.0 {
        return None; // Nothing in the file to add to; a linker never makes such a relocation.
    }
    image.get(section.contents.clone())?.get(start..end)
}
