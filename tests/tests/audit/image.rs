//! Violations in ELF identity, sections and relocations.

use kmod::audit::Rule;
use object::LittleEndian as LE;
use object::elf::{self, FileHeader64};
use object::read::elf::FileHeader;

use super::{CLEAN, Module};

/// A section that is not loaded, to be made into something else.
const SPARE: &str = ".section .spare,\"\",@progbits\n.quad 0";

/// Offsets of fields in an `Elf64_Shdr`.
const SH_TYPE: usize = 4;
const SH_ADDR: usize = 16;
const SH_LINK: usize = 40;

impl Module {
    /// Offset in the file of the header of the section called `name`, and of its contents.
    fn section(&self, name: &str) -> (usize, usize) {
        let image = self.image.as_slice();
        let header = FileHeader64::<LE>::parse(image).unwrap();
        let sections = header.sections(LE, image).unwrap();
        let (index, section) = sections.section_by_name(LE, name.as_bytes()).expect(name);
        let table = header.e_shoff.get(LE) as usize;
        (table + index.0 * size_of::<elf::SectionHeader64<LE>>(), section.sh_offset.get(LE) as usize)
    }

    fn patch(mut self, at: usize, bytes: &[u8]) -> Module {
        self.image[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    fn patch_header(self, section: &str, field: usize, value: u32) -> Module {
        let (header, _) = self.section(section);
        self.patch(header + field, &value.to_le_bytes())
    }

    fn patch_first_relocation(self, field: usize, bytes: &[u8]) -> Module {
        let (_, entries) = self.section(".rela.text");
        self.patch(entries + field, bytes)
    }
}

#[test]
fn file_that_is_no_object_is_refused() {
    let mut module = Module::with("");
    module.image = b"#!/bin/sh\n".to_vec();
    module.breaks(Rule::Identity, "not an ELF64 object");
}

#[test]
fn truncated_object_is_refused() {
    let mut module = Module::with("");
    for length in (0..module.image.len()).rev().step_by(61) {
        module.image.truncate(length);
        assert!(!module.findings().is_empty(), "{length} bytes");
    }
}

#[test]
fn executable_instead_of_relocatable_is_refused() {
    Module::with("").patch(16, &elf::ET_EXEC.0.to_le_bytes()).breaks(Rule::Identity, "e_type is 2");
}

#[test]
fn object_for_another_machine_is_refused() {
    Module::with("").patch(18, &elf::EM_AARCH64.0.to_le_bytes()).breaks(Rule::Identity, "e_machine is 183");
}

#[test]
fn thirty_two_bit_object_is_refused() {
    Module::with("").patch(4, &[elf::ELFCLASS32.0]).breaks(Rule::Identity, "not an ELF64 object");
}

#[test]
fn second_symbol_table_is_refused() {
    let module = Module::with_asm(SPARE).patch_header(".spare", SH_TYPE, elf::SHT_SYMTAB.0);
    let (header, _) = module.section(".spare");
    // Empty, and with the string table of the first, it is well-formed.
    let strings = module.image[module.section(".symtab").0 + SH_LINK..][..4].to_vec();
    let module = module.patch(header + 32, &[0; 8]).patch(header + SH_LINK, &strings);
    let findings = module.findings();
    assert!(findings.iter().any(|finding| finding.rule == Rule::SymbolTable), "{findings:#?}");
}

#[test]
fn missing_symbol_table_is_refused() {
    let module = Module::with("").patch_header(".symtab", SH_TYPE, elf::SHT_PROGBITS.0);
    let findings = module.findings();
    assert!(findings.iter().any(|finding| finding.rule == Rule::SymbolTable), "{findings:#?}");
}

#[test]
fn relocations_without_addends_are_refused() {
    Module::with_asm(SPARE)
        .patch_header(".spare", SH_TYPE, elf::SHT_REL.0)
        .breaks(Rule::SectionKind, "SHT_REL");
}

#[test]
fn dynamic_section_is_refused() {
    let module = Module::with_asm(SPARE).patch_header(".spare", SH_TYPE, elf::SHT_DYNAMIC.0);
    module.breaks(Rule::SectionKind, ".spare is a dynamic section");
}

#[test]
fn section_with_an_address_is_refused() {
    let module = Module::with("").patch_header(".bss", SH_ADDR, 0x1000);
    module.breaks(Rule::SectionAddress, ".bss is at 0x1000, not 0");
}

#[test]
fn constructors_and_unknown_loaded_sections_are_refused() {
    for section in [".init_array", ".fini_array", ".ctors", ".surprise"] {
        let module = Module::with_asm(&format!(".section {section},\"a\",@progbits\n.quad 0"));
        module.breaks(Rule::LoadedSection, section);
    }
}

#[test]
fn unwind_tables_and_notes_are_refused() {
    for section in [".eh_frame", ".note.gnu.property"] {
        // The linker script drops them, so one is put back after the link.
        let module = Module::with_asm(".section .surprise,\"a\",@progbits\n.quad 0");
        let rename = format!(".surprise={section}");
        module.objcopy(&["--rename-section", &rename]).breaks(Rule::LoadedSection, section);
    }
}

#[test]
fn linker_script_drops_unwind_tables_and_notes() {
    for section in [".eh_frame", ".note.gnu.property", ".gcc_except_table", ".llvmbc"] {
        let module = Module::with_asm(&format!(".section {section},\"a\"\n.long 0"));
        assert_eq!(module.findings(), [], "{section}");
    }
}

#[test]
fn debug_section_is_refused() {
    let module = Module::with_asm(SPARE).objcopy(&["--rename-section", ".spare=.debug_info"]);
    module.breaks(Rule::DebugSection, ".debug_info");
}

#[test]
fn relocation_that_krtld_does_not_implement_is_refused() {
    for (data, kind) in
        [(".long _init", 10), (".word _init", 12), (".byte _init", 14), (".long bcopy@SIZE", 32)]
    {
        let module = Module::with_asm(&format!(".data\n{data}"));
        module.breaks(Rule::RelocationType, &format!("type {kind},"));
    }
}

#[test]
fn field_that_is_not_zero_is_refused() {
    let module = Module::with_asm(".data\n.quad _init");
    let (_, entries) = module.section(".rela.data");
    let offset = u64::from_le_bytes(module.image[entries..entries + 8].try_into().unwrap()) as usize;
    let (_, data) = module.section(".data");
    module.patch(data + offset, &[0x10]).breaks(Rule::RelocationField, "the field holds [10, 00,");
}

#[test]
fn relocation_beyond_its_section_is_refused() {
    let module = Module::with("").patch_first_relocation(0, &0x10_0000u64.to_le_bytes());
    module.breaks(Rule::RelocationPlace, ".text+0x100000");
}

#[test]
fn relocation_against_a_symbol_that_does_not_exist_is_refused() {
    let module = Module::with("").patch_first_relocation(12, &60_000u32.to_le_bytes());
    module.breaks(Rule::RelocationPlace, "symbol 60000 of");
}

#[test]
fn relocations_with_another_symbol_table_are_refused() {
    let module = Module::with("").patch_header(".rela.text", SH_LINK, 1);
    module.breaks(Rule::RelocationPlace, "not linked to the symbol table");
}

#[test]
fn got_access_with_a_direct_form_is_rewritten() {
    let body = "call *bcopy@GOTPCREL(%rip)\nmov bcopy@GOTPCREL(%rip),%rax";
    assert_eq!(Module::with_asm(&super::framed(body)).findings(), []);
}

#[test]
#[should_panic(expected = "no direct form")]
fn got_access_without_a_direct_form_fails_the_build() {
    Module::build(&[("module.c", CLEAN), ("extra.S", &super::framed("cmp bcopy@GOTPCREL(%rip),%rax"))]);
}
