//! Proving that a module is what krtld can load and the kernel can run.
//!
//! Every rule has a name; a finding is a rule that a module breaks, and where. The rules are those of krtld's relocation
//! engine and symbol lookup, of the execution environment (no floating point, no red zone, small frames, frame pointers
//! for DTrace), and of this workspace (who may depend on whom, who may be unsafe).

mod code;
mod exports;
mod image;
mod imports;
mod panics;
mod symbols;
mod workspace;

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

pub use code::MAX_FRAME;
pub use exports::Exports;
pub use panics::{Allowed, found as panics_of};
pub use symbols::MAX_SYMBOLS;
pub use workspace::{Package, check as workspace, dependency_rule, forbids_unsafe};

use crate::elf::Elf;
use crate::manifest::{Manifest, Module};

/// A rule of the audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A relocatable ELF64 object for x86-64, whose headers stay inside the file.
    Identity,
    /// Exactly one symbol table: krtld refuses none, and of several uses the last.
    SymbolTable,
    /// No relocations without addends and no dynamic section.
    SectionKind,
    /// Every section at address 0.
    SectionAddress,
    /// Only text, rodata, data and bss are loaded: no unwind tables, notes, constructors or thread-local data.
    LoadedSection,
    /// No debug sections, whose relocations would cost kernel memory.
    DebugSection,
    /// Only the relocations krtld implements.
    RelocationType,
    /// krtld adds to what is in the field, so the field is zero.
    RelocationField,
    /// A relocation lies inside its section and names a symbol of the one symbol table.
    RelocationPlace,
    /// The global definitions are exactly the intended ones.
    Globals,
    /// `_depends_on` names the declared dependencies and ends in a NUL that its size counts.
    DependsOn,
    /// No weak undefined, thread-local, common or indirect-function symbol.
    SymbolKind,
    /// krtld counts symbols in 16 bits.
    SymbolCount,
    /// No function's name is longer than a DTrace probe can hold.
    FunctionName,
    /// Every import is exported by unix, genunix or a direct dependency.
    Imports,
    /// No allocation that aborts when memory is short.
    InfallibleAllocation,
    /// Only the listed places can end in a Rust panic, and each of them still can.
    Panics,
    /// All code can be decoded.
    Undecodable,
    /// No SSE, AVX, MMX or x87: the kernel saves none of that state.
    FloatingPoint,
    /// Nothing below the stack pointer is used: interrupts arrive on the same stack.
    RedZone,
    /// No `%fs` and no `%gs`: their bases are the kernel's.
    Segment,
    /// No system call or software interrupt.
    SystemCall,
    /// Frames are small: packets pass through many layers on one 20 KiB stack.
    Frame,
    /// `push %rbp` comes first in every function that calls, for fbt and for stack traces.
    FramePointer,
    /// A DTrace probe site is a `call`, and of a probe that is declared; every declared one has a site.
    ProbeSite,
    /// Dependencies point downwards only (docs/design.md).
    DependencyRule,
    /// A crate outside the border forbids unsafe code in its first line of code.
    ForbidUnsafe,
}

impl Rule {
    /// All rules, in the order of the documentation.
    pub const ALL: &[Rule] = &[
        Rule::Identity,
        Rule::SymbolTable,
        Rule::SectionKind,
        Rule::SectionAddress,
        Rule::LoadedSection,
        Rule::DebugSection,
        Rule::RelocationType,
        Rule::RelocationField,
        Rule::RelocationPlace,
        Rule::Globals,
        Rule::DependsOn,
        Rule::SymbolKind,
        Rule::SymbolCount,
        Rule::FunctionName,
        Rule::Imports,
        Rule::InfallibleAllocation,
        Rule::Panics,
        Rule::Undecodable,
        Rule::FloatingPoint,
        Rule::RedZone,
        Rule::Segment,
        Rule::SystemCall,
        Rule::Frame,
        Rule::FramePointer,
        Rule::ProbeSite,
        Rule::DependencyRule,
        Rule::ForbidUnsafe,
    ];

    /// The rule's name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Identity => "identity",
            Rule::SymbolTable => "symbol-table",
            Rule::SectionKind => "section-kind",
            Rule::SectionAddress => "section-address",
            Rule::LoadedSection => "loaded-section",
            Rule::DebugSection => "debug-section",
            Rule::RelocationType => "relocation-type",
            Rule::RelocationField => "relocation-field",
            Rule::RelocationPlace => "relocation-place",
            Rule::Globals => "globals",
            Rule::DependsOn => "depends-on",
            Rule::SymbolKind => "symbol-kind",
            Rule::SymbolCount => "symbol-count",
            Rule::FunctionName => "function-name",
            Rule::Imports => "imports",
            Rule::InfallibleAllocation => "infallible-allocation",
            Rule::Panics => "panics",
            Rule::Undecodable => "undecodable",
            Rule::FloatingPoint => "floating-point",
            Rule::RedZone => "red-zone",
            Rule::Segment => "segment",
            Rule::SystemCall => "system-call",
            Rule::Frame => "frame",
            Rule::FramePointer => "frame-pointer",
            Rule::ProbeSite => "probe-site",
            Rule::DependencyRule => "dependency-rule",
            Rule::ForbidUnsafe => "forbid-unsafe",
        }
    }
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Which rule.
    pub rule: Rule,
    /// Where, and what was found there.
    pub what: String,
}

impl Finding {
    pub(crate) fn new(rule: Rule, what: impl Into<String>) -> Finding {
        Finding { rule, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule.name(), self.what)
    }
}

/// What an object was audited to be.
#[derive(Clone, Copy, Debug)]
pub struct Intent<'a> {
    /// The symbols that are global, and no others.
    pub globals: &'a [String],
    /// The direct dependencies, in order.
    pub depends: &'a [String],
    /// The DTrace probes, and no others.
    pub probes: &'a [String],
}

/// Figures of an object, for the report.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Bytes of the loaded sections `.text`, `.rodata`, `.data`, `.bss`.
    pub sizes: [u64; 4],
    /// Functions in the object.
    pub functions: usize,
    /// Functions without a frame pointer; they call nothing, or only by a jump.
    pub without_frame_pointer: Vec<String>,
    /// The largest frame in bytes, saved registers included, and its function.
    pub largest_frame: (u64, String),
    /// Symbols imported.
    pub imports: usize,
    /// Dependencies from which nothing is imported.
    pub unused_dependencies: Vec<String>,
}

/// The outcome of auditing one object.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The broken rules; none means that the object is fit to be loaded.
    pub findings: Vec<Finding>,
    /// The figures.
    pub figures: Figures,
}

/// Audits the object `image` against `intent`.
pub fn object(image: &[u8], intent: Intent<'_>, exports: &Exports) -> Report {
    let mut report = Report::default();
    let elf = match Elf::parse(image) {
        Ok(elf) => elf,
        Err(error) => {
            report.findings.push(Finding::new(Rule::Identity, format!("{error:#}")));
            return report;
        }
    };
    image::check(&elf, image, &mut report);
    symbols::check(&elf, image, intent, &mut report);
    imports::check(&elf, intent, exports, &mut report);
    code::check(&elf, image, &mut report);
    report.findings.sort();
    report.findings.dedup();
    report
}

/// Audits the built modules called `names` (all if empty) and the workspace at `root`, and prints a report. Returns
/// whether there was no finding.
///
/// # Errors
///
/// A module has not been built, an export list cannot be read, or cargo fails.
pub fn audit(root: &Path, manifest: &Manifest, names: &[String]) -> Result<bool> {
    let exports = Exports::read(&root.join("tools/kmod/exports"))?;
    let allowed = Allowed::read(root)?;
    let mut findings = 0;
    for module in manifest.select(names)? {
        let mut report = built_module(root, module, &exports)?;
        report.findings.extend(allowed.compare(&module.name, &panics_of(&image(root, module)?)?));
        println!("{}: {}", module.name, report.figures);
        findings += print(&module.name, &report.findings);
    }
    findings += print("workspace", &workspace(root)?);
    println!(
        "audit: {}",
        if findings == 0 { "every rule holds".into() } else { format!("{findings} findings") }
    );
    Ok(findings == 0)
}

fn built_module(root: &Path, module: &Module, exports: &Exports) -> Result<Report> {
    let image = image(root, module)?;
    let Module { globals, depends, probes, .. } = module;
    Ok(object(&image, Intent { globals, depends, probes }, exports))
}

fn image(root: &Path, module: &Module) -> Result<Vec<u8>> {
    let path = module.path(root);
    fs::read(&path).with_context(|| format!("{}: run `make modules` first", path.display()))
}

fn print(of: &str, findings: &[Finding]) -> usize {
    for finding in findings {
        println!("{of}: {finding}");
    }
    findings.len()
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [text, rodata, data, bss] = self.sizes;
        let (frame, function) = &self.largest_frame;
        writeln!(f, "text {text}, rodata {rodata}, data {data}, bss {bss} bytes; {} imports", self.imports)?;
        write!(
            f,
            "  {} functions, {} leaves or tail calls",
            self.functions,
            self.without_frame_pointer.len()
        )?;
        write!(f, " without frame pointer; largest frame {frame} of {MAX_FRAME} bytes: {function}")?;
        if !self.unused_dependencies.is_empty() {
            write!(f, "\n  nothing is imported from {}", self.unused_dependencies.join(", "))?;
        }
        Ok(())
    }
}

/// A Rust symbol as it was written; anything else as it is.
fn readable(symbol: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(symbol))
}
