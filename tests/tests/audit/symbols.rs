//! Violations in the symbols a module defines and imports.

use kmod::audit::{Allowed, MAX_SYMBOLS, Rule, panics_of};

use super::{CLEAN, Module, asm_function, framed};

/// `CLEAN` with one thing changed.
fn clean_but(old: &str, new: &str) -> Module {
    let source = CLEAN.replace(old, new);
    assert_ne!(source, CLEAN, "nothing to replace");
    Module::from_c(&source)
}

#[test]
fn unintended_global_is_refused() {
    Module::with("").objcopy(&["--globalize-symbol=text"]).breaks(Rule::Globals, "text is global");
}

#[test]
fn entry_point_that_is_not_global_is_refused() {
    Module::with("")
        .objcopy(&["--localize-symbol=_fini"])
        .breaks(Rule::Globals, "_fini is not defined, or not global");
}

#[test]
fn entry_point_that_is_data_is_refused() {
    clean_but("int _fini(void) { return (mod_remove(&linkage)); }", "int _fini = 1;")
        .breaks(Rule::Globals, "_fini is no function");
}

#[test]
fn dependencies_other_than_declared_are_refused() {
    for wrong in [r#"[] = "misc/mac""#, r#"[] = "misc/ibtl misc/mac""#] {
        clean_but(r#"[] = "misc/mac misc/ibtl""#, wrong).breaks(Rule::DependsOn, "_depends_on is");
    }
}

#[test]
fn dependencies_of_the_wrong_size_are_refused() {
    for wrong in [18, 32] {
        let array = format!(r#"[{wrong}] = "misc/mac misc/ibtl""#);
        clean_but(r#"[] = "misc/mac misc/ibtl""#, &array)
            .breaks(Rule::DependsOn, &format!("in {wrong} bytes"));
    }
}

#[test]
fn missing_dependencies_are_refused() {
    clean_but(r#"char _depends_on[] = "misc/mac misc/ibtl";"#, "")
        .breaks_all(&[Rule::DependsOn, Rule::Globals], "_depends_on is missing");
}

#[test]
fn weak_undefined_symbol_is_refused() {
    Module::with("extern int hz __attribute__((weak)); int *ticks(void) { return (&hz); }")
        .breaks(Rule::SymbolKind, "hz is weak and undefined");
}

#[test]
fn thread_local_data_is_refused() {
    Module::with_asm(".section .tdata,\"awT\",@progbits\n.type mine,@object\n.size mine,8\nmine: .quad 1")
        .breaks_all(&[Rule::SymbolKind, Rule::LoadedSection], "mine is thread-local");
}

#[test]
fn indirect_function_is_refused() {
    let asm = asm_function("chosen", "ret").replace("@function", "@gnu_indirect_function");
    Module::with_asm(&asm).breaks(Rule::SymbolKind, "chosen is an indirect function");
}

#[test]
fn common_symbol_is_refused() {
    use object::read::elf::FileHeader;
    const SHN_COMMON: u16 = 0xfff2;
    // The link allocates commons, so one is put back: into the section index of a symbol nothing else is said about.
    let mut module = Module::with("");
    let image = module.image.as_slice();
    let header = object::elf::FileHeader64::<object::LittleEndian>::parse(image).unwrap();
    let sections = header.sections(object::LittleEndian, image).unwrap();
    let symbols = sections.symbols(object::LittleEndian, image, object::elf::SHT_SYMTAB).unwrap();
    let named = |symbol: &&_| symbols.symbol_name(object::LittleEndian, symbol).unwrap() == b"counters";
    let symbol = symbols.iter().find(named).unwrap();
    let at = std::ptr::from_ref(symbol).addr() - image.as_ptr().addr();
    module.image[at + 6..at + 8].copy_from_slice(&SHN_COMMON.to_le_bytes());
    module.breaks(Rule::SymbolKind, "counters is common");
}

#[test]
fn too_many_symbols_are_refused() {
    let asm: String = (0..MAX_SYMBOLS).map(|number| format!("s{number}=0\n")).collect();
    Module::with_asm(&asm).breaks(Rule::SymbolCount, "symbols");
}

#[test]
fn function_with_a_longer_name_than_a_probe_holds_is_refused() {
    let renamed = format!("--redefine-sym=planted={}", "t".repeat(128));
    Module::with_asm(&framed("")).objcopy(&[&renamed]).breaks(Rule::FunctionName, "has 128 letters");
}

#[test]
fn a_module_s_functions_have_names_that_a_probe_holds() {
    let long = "t".repeat(200);
    assert_eq!(Module::with(&format!("int {long}(int n) {{ return (n); }}")).findings(), []);
}

#[test]
fn import_that_nobody_exports_is_refused() {
    Module::with("extern void dmu_sync(void); void sync(void) { dmu_sync(); }")
        .breaks(Rule::Imports, "dmu_sync is exported by no module");
}

#[test]
fn import_from_an_undeclared_dependency_is_refused() {
    Module::with(
        "extern int dls_mgmt_get_linkinfo(void); int ask(void) { return (dls_mgmt_get_linkinfo()); }",
    )
    .breaks(Rule::Imports, "dls_mgmt_get_linkinfo is exported by dls, which is not a declared dependency");
}

#[test]
fn allocation_that_aborts_is_refused_by_its_name() {
    for (symbol, name) in [
        ("_ZN5alloc5alloc18handle_alloc_error17h0123456789abcdefE", "alloc::alloc::handle_alloc_error"),
        ("_ZN5alloc7raw_vec17capacity_overflow17h0123456789abcdefE", "alloc::raw_vec::capacity_overflow"),
        ("_ZN5alloc7raw_vec12handle_error17h0123456789abcdefE", "alloc::raw_vec::handle_error"),
    ] {
        Module::with_asm(&asm_function(symbol, "ud2"))
            .breaks(Rule::InfallibleAllocation, &format!("{name} is linked"));
    }
}

#[test]
fn allocation_that_aborts_is_refused_by_its_message() {
    Module::with(r#"const char inlined[] = "memory allocation of 24 bytes failed";"#)
        .breaks(Rule::InfallibleAllocation, "memory allocation of ");
}

#[test]
fn code_that_can_panic_and_is_not_listed_is_refused() {
    const PANIC: &str = "_ZN4core9panicking5panic17h0123456789abcdefE";
    let asm = format!("{}\n{}", asm_function(PANIC, "ret"), framed(&format!("call {PANIC}")));
    let found = panics_of(&Module::with_asm(&asm).image).unwrap();
    let findings = Allowed::default().compare("planted", &found);
    assert_eq!(findings.iter().map(|finding| finding.rule).collect::<Vec<_>>(), [Rule::Panics]);
    assert!(findings[0].what.starts_with("planted can panic"), "{}", findings[0].what);
    assert!(panics_of(&Module::with("").image).unwrap().is_empty());
}
