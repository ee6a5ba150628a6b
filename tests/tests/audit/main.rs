//! Every rule of the audit of module objects has a violation planted here, which it must find, and nothing else.

mod code;
mod image;
mod symbols;
mod workspace;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use conformance::probe::workspace_root;
use kmod::audit::{self, Exports, Finding, Intent, Report, Rule};
use kmod::link::Link;
use kmod::shim::Compile;
use tempfile::TempDir;

/// A module with nothing wrong; the tests add to it or change it.
const CLEAN: &str = r#"
    extern int mod_install(void *), mod_remove(void *), mod_info(void *, void *);
    extern void bcopy(const void *, void *, unsigned long);
    static struct { int rev; void *linkage[7]; } linkage = { 1, { &linkage } };
    static char counters[4096];
    const char text[] = "text";
    char _depends_on[] = "misc/mac misc/ibtl";
    int _init(void) { bcopy(text, counters, sizeof (text)); return (mod_install(&linkage)); }
    int _fini(void) { return (mod_remove(&linkage)); }
    int _info(void *info) { return (mod_info(&linkage, info)); }
"#;

/// A module object on its way from C and assembler to an audit.
struct Module {
    scratch: TempDir,
    image: Vec<u8>,
    probes: Vec<String>,
}

impl Module {
    /// `CLEAN` and some more C, built the way modules are.
    fn with(c: &str) -> Module {
        Module::from_c(&format!("{CLEAN}\n{c}"))
    }

    /// Other C than `CLEAN`.
    fn from_c(c: &str) -> Module {
        Module::build(&[("module.c", c)])
    }

    /// `CLEAN` and an assembler file.
    fn with_asm(asm: &str) -> Module {
        Module::build(&[("module.c", CLEAN), ("extra.S", &format!("{asm}\n"))])
    }

    fn build(sources: &[(&str, &str)]) -> Module {
        let scratch = tempfile::tempdir().unwrap();
        let inputs: Vec<PathBuf> =
            sources.iter().map(|(name, text)| compile(scratch.path(), name, text)).collect();
        let output = scratch.path().join("module");
        Link { inputs: &inputs, globals: Some(&globals()), scratch: scratch.path(), output: &output }
            .run()
            .unwrap();
        let image = fs::read(&output).unwrap();
        Module { scratch, image, probes: Vec::new() }
    }

    /// A module that is meant to have these probes.
    fn declaring(mut self, probes: &[&str]) -> Module {
        self.probes = strings(probes);
        self
    }

    /// Runs `objcopy` on the finished object.
    fn objcopy(mut self, args: &[&str]) -> Module {
        let path = self.scratch.path().join("module");
        fs::write(&path, &self.image).unwrap();
        let status = Command::new("objcopy").args(args).arg(&path).status().unwrap();
        assert!(status.success(), "objcopy {args:?}");
        self.image = fs::read(&path).unwrap();
        self
    }

    fn report(&self) -> Report {
        let exports = Exports::read(&workspace_root().join("tools/kmod/exports")).unwrap();
        audit::object(
            &self.image,
            Intent { globals: &globals(), depends: &depends(), probes: &self.probes },
            &exports,
        )
    }

    fn findings(&self) -> Vec<Finding> {
        self.report().findings
    }

    /// Asserts that the audit finds `rules` broken and no others, with a finding of the first that says `what`.
    #[track_caller]
    fn breaks_all(&self, rules: &[Rule], what: &str) {
        let findings = self.findings();
        let found: BTreeSet<Rule> = findings.iter().map(|finding| finding.rule).collect();
        assert_eq!(found, BTreeSet::from_iter(rules.iter().copied()), "{findings:#?}");
        let said = findings.iter().any(|finding| finding.rule == rules[0] && finding.what.contains(what));
        assert!(said, "nothing says {what:?}: {findings:#?}");
    }

    /// Asserts that the audit finds `rule` broken and no other, in a finding that says `what`.
    #[track_caller]
    fn breaks(&self, rule: Rule, what: &str) {
        self.breaks_all(&[rule], what);
    }
}

fn compile(dir: &Path, name: &str, text: &str) -> PathBuf {
    let source = dir.join(name);
    fs::write(&source, text).unwrap();
    let object = source.with_extension("o");
    Compile { source: &source, object: &object, includes: &[], defines: &[] }.run().unwrap();
    object
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

/// The globals that the modules here are meant to have.
fn globals() -> Vec<String> {
    strings(&["_init", "_fini", "_info", "_depends_on"])
}

/// The dependencies that the modules here are meant to have.
fn depends() -> Vec<String> {
    strings(&["misc/mac", "misc/ibtl"])
}

/// A function in assembler: a symbol with a type and a size.
fn asm_function(name: &str, body: &str) -> String {
    format!(".text\n.globl {name}\n.type {name},@function\n{name}:\n{body}\n.size {name}, .-{name}")
}

/// A function `planted` that sets up a frame, runs `body` and returns.
fn framed(body: &str) -> String {
    asm_function("planted", &format!("push %rbp\nmov %rsp,%rbp\n{body}\npop %rbp\nret"))
}

#[test]
fn clean_module_breaks_no_rule() {
    assert_eq!(Module::with("").findings(), []);
}

#[test]
fn figures_name_sizes_imports_and_the_largest_frame() {
    let report = Module::with_asm(&framed("sub $0x120,%rsp\ncall bcopy\nadd $0x120,%rsp")).report();
    assert_eq!(report.findings, []);
    assert_eq!(report.figures.largest_frame, (0x120 + 8, "planted".to_owned()));
    assert_eq!(report.figures.sizes[3], 4096, "the counters are the only zeroed data");
    assert_eq!(report.figures.imports, 4);
    assert_eq!(report.figures.unused_dependencies, depends());
}

#[test]
fn every_rule_has_a_planted_violation() {
    let tests = [
        include_str!("code.rs"),
        include_str!("image.rs"),
        include_str!("symbols.rs"),
        include_str!("workspace.rs"),
    ];
    for rule in Rule::ALL {
        let name = format!("Rule::{rule:?}");
        let in_code = |line: &str| !line.trim_start().starts_with("//") && line.contains(&name);
        assert!(tests.iter().any(|text| text.lines().any(in_code)), "no test plants a violation of {name}");
    }
}
