//! Asking gcc, with the kernel's flags and a gate's headers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};
use kmod::shim::CFLAGS;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use tempfile::TempDir;

use super::checks::Check;
use super::tables::{BitField, Tables};
use crate::gate::Gate;

/// What the gates' own headers take for granted: sys/mac_ib.h uses what the C driver's header declares.
const FIRST: [&str; 2] = ["sys/types.h", "sys/ib/clients/ibd/ibd.h"];

/// Enumerations that the tables have without their header.
const ENUMERATIONS: [&str; 1] = ["sys/mac_impl.h"];

/// gcc for one gate.
pub struct Compiler<'a> {
    gate: &'a Gate,
    /// All `#include`s, a line each: what comes behind them has its own line numbers.
    preamble: String,
    scratch: TempDir,
}

/// Where a gate's kernel sources look for headers, in order.
pub fn include_dirs(gate: &Gate) -> Vec<PathBuf> {
    ["uts/common", "uts/intel", "uts/i86pc", "common"].map(|dir| gate.root.join("usr/src").join(dir)).into()
}

impl<'a> Compiler<'a> {
    /// With every header that our modules or the tables name.
    pub fn new(tree: &Path, gate: &'a Gate, tables: &Tables) -> Result<Compiler<'a>> {
        let wrapper = tree.join("rust/illumos-sys-hdrs/wrapper.h");
        let text = fs::read_to_string(&wrapper).with_context(|| wrapper.display().to_string())?;
        let included = text.lines().filter_map(|line| line.strip_prefix("#include <")?.strip_suffix('>'));
        let included: Vec<&str> = included.collect();
        let dirs = include_dirs(gate);
        let there = |header: &&str| dirs.iter().any(|dir| dir.join(header).is_file());
        if let Some(header) = included.iter().find(|header| !there(header)) {
            bail!("the gate has no <{header}>, which our modules are compiled against");
        }
        let mut headers = FIRST.to_vec();
        headers.extend(included);
        headers.extend(tables.headers());
        headers.extend(ENUMERATIONS);
        let preamble =
            headers.into_iter().filter(there).map(|header| format!("#include <{header}>\n")).collect();
        let scratch = tempfile::tempdir().context("creating a scratch directory")?;
        Ok(Compiler { gate, preamble, scratch })
    }

    /// # Errors
    ///
    /// The gate's headers do not compile by themselves, so nothing can be said about them.
    pub fn preamble_compiles(&self) -> Result<()> {
        let output = self.gcc("preamble", "", &["-fsyntax-only"])?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let first: Vec<&str> = said.lines().filter(|line| line.contains("error")).take(5).collect();
            bail!("the gate's headers do not compile by themselves:\n{}", first.join("\n"));
        }
        Ok(())
    }

    /// The numbers of the conditions that do not hold, and whether that is because something is not there.
    pub fn failing(&self, checks: &[Check]) -> Result<BTreeMap<usize, bool>> {
        let lines: Vec<String> = checks
            .iter()
            .map(|check| format!("_Static_assert({}, \"differs\");", check.condition()))
            .collect();
        let output = self.gcc("asserts", &lines.join("\n"), &["-fsyntax-only", "-fmax-errors=0"])?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let mut failing = BTreeMap::new();
        for (line, message) in self.errors("asserts", &said) {
            let missing = !message.contains("static assertion failed");
            let known: &mut bool = failing.entry(line).or_default();
            *known |= missing;
        }
        if !output.status.success() && failing.is_empty() {
            bail!("gcc: {}", said.trim_end());
        }
        Ok(failing)
    }

    /// What the expressions of `checks` are there: numbers, or types in the compiler's words.
    pub fn values(&self, checks: &[&Check]) -> Result<Vec<String>> {
        let numbers: Vec<&str> =
            checks.iter().filter(|check| !check.is_type()).map(|check| check.expression.as_str()).collect();
        let types: Vec<&str> =
            checks.iter().filter(|check| check.is_type()).map(|check| check.expression.as_str()).collect();
        let (numbers, types) = (self.numbers(&numbers)?, self.types(&types)?);
        let (mut numbers, mut types) = (numbers.into_iter(), types.into_iter());
        let next = |check: &&Check| if check.is_type() { types.next() } else { numbers.next() };
        Ok(checks.iter().map(next).map(Option::unwrap_or_default).collect())
    }

    fn numbers(&self, expressions: &[&str]) -> Result<Vec<String>> {
        let values: Vec<String> =
            expressions.iter().map(|expression| format!("(long)({expression}),")).collect();
        let body = format!("const long abi_values[] = {{\n{}\n0 }};", values.join("\n"));
        let bytes = self.data("values", &body, "abi_values")?;
        let words = bytes.chunks_exact(8).filter_map(|chunk| chunk.try_into().ok()).map(i64::from_le_bytes);
        Ok(words.take(expressions.len()).map(|value| value.to_string()).collect())
    }

    /// The compiler names a type when it refuses to convert it.
    fn types(&self, expressions: &[&str]) -> Result<Vec<String>> {
        let lines: Vec<String> = expressions
            .iter()
            .enumerate()
            .map(|(at, expression)| {
                format!("void abi_{at}(void) {{ struct abi_{at} *p = &({expression}); }}")
            })
            .collect();
        let output = self.gcc("types", &lines.join("\n"), &["-fsyntax-only", "-fmax-errors=0"])?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let mut names = vec![String::from("another"); expressions.len()];
        for (line, message) in self.errors("types", &said) {
            let quoted =
                message.rsplit(" type ").next().unwrap_or(message).trim_matches(['‘', '’', '\'', '"']);
            if let Some(name) = names.get_mut(line) {
                *name = quoted.split('’').next().unwrap_or(quoted).into();
            }
        }
        Ok(names)
    }

    /// Where bit fields are: the first bit and how many, or `None` if there is no such field.
    pub fn bit_fields(&self, fields: &[BitField<'_>]) -> Result<Vec<Option<(usize, usize)>>> {
        let mut found = Vec::new();
        for field in fields {
            let body = format!("const {} abi_bits = {{ .{} = -1 }};", field.record, field.field);
            let bytes = self.data("bits", &body, "abi_bits").unwrap_or_default();
            let set: Vec<usize> =
                (0..bytes.len() * 8).filter(|bit| bytes[bit / 8] & (1 << (bit % 8)) != 0).collect();
            found.push(set.first().map(|first| (*first, set.len())));
        }
        Ok(found)
    }

    /// The bytes of `symbol` in the object that `body` becomes.
    fn data(&self, name: &str, body: &str, symbol: &str) -> Result<Vec<u8>> {
        let path = self.scratch.path().join(name).with_extension("o");
        let output = self.gcc(name, body, &["-c", "-o", &path.to_string_lossy()])?;
        if !output.status.success() {
            bail!("gcc: {}", String::from_utf8_lossy(&output.stderr).trim_end());
        }
        let image = fs::read(&path).with_context(|| path.display().to_string())?;
        let file = object::File::parse(&*image).context("what gcc wrote")?;
        let symbol = file.symbol_by_name(symbol).context("the compiler left the data out")?;
        let section = file.section_by_index(symbol.section_index().context("data without a section")?)?;
        let data = section.data_range(symbol.address(), symbol.size())?;
        Ok(data.unwrap_or_default().to_vec())
    }

    /// The line, from the body's first, and the text of each error in the file `name`; what is in headers is not ours.
    fn errors<'t>(&self, name: &str, said: &'t str) -> Vec<(usize, &'t str)> {
        let file = self.source(name).display().to_string();
        let first = self.preamble.lines().count() + 1;
        let errors = said.lines().filter_map(|line| {
            let (at, message) = line.strip_prefix(&file)?.strip_prefix(':')?.split_once(": error: ")?;
            let line: usize = at.split(':').next()?.parse().ok()?;
            Some((line.checked_sub(first)?, message))
        });
        errors.collect()
    }

    fn source(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name).with_extension("c")
    }

    fn gcc(&self, name: &str, body: &str, options: &[&str]) -> Result<Output> {
        let source = self.source(name);
        fs::write(&source, format!("{}{body}\n", self.preamble))
            .with_context(|| source.display().to_string())?;
        let mut gcc = Command::new("gcc");
        gcc.args(CFLAGS).args(["-D_ASM_INLINES", "-fno-diagnostics-show-caret", "-fdiagnostics-color=never"]);
        gcc.args(["-Werror=incompatible-pointer-types"]).args(options).env("LC_ALL", "C.UTF-8");
        for dir in include_dirs(self.gate) {
            gcc.arg("-I").arg(dir);
        }
        gcc.arg(&source).output().context("cannot run gcc")
    }
}
