//! Instructions that a machine executes, counted by a plugin of QEMU's translator, and in which module they are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use object::{Object as _, ObjectSymbol as _};

use super::debugger::Debugger;
use super::session::Fields;

/// Compiles the plugin into a directory.
///
/// # Errors
///
/// The compiler is not there, or refuses.
pub fn build(workspace: &Path, into: &Path) -> Result<PathBuf> {
    let plugin = into.join("count.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&plugin);
    cc.arg(workspace.join("tools/metal/count/count.c")).arg("-lpthread");
    let status = cc.status().context("cc is not there: tools/setup.sh metal installs it")?;
    ensure!(status.success(), "the plugin cannot be compiled");
    Ok(plugin)
}

/// A place of the plugin's table: where a block begins, and how many instructions of it were executed; 8 bytes each.
const PLACE: usize = 16;
/// Below are programs, above is the kernel.
const KERNEL: u64 = 0xffff_0000_0000_0000;

/// What has been executed, by the address at which a block begins.
#[derive(Clone, Debug, Default)]
pub struct Counts(BTreeMap<u64, u64>);

impl Counts {
    /// All of it so far.
    ///
    /// # Errors
    ///
    /// The plugin's file cannot be read, or had no room left.
    pub fn read(file: &Path) -> Result<Self> {
        let bytes = fs::read(file).with_context(|| file.display().to_string())?;
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        let places = bytes.chunks_exact(PLACE).map(|place| (number(&place[..8]), number(&place[8..])));
        let places: Vec<(u64, u64)> = places.filter(|(_, count)| *count != 0).collect();
        ensure!(places.iter().all(|(begins, _)| *begins != 0), "the plugin's table is full");
        Ok(Self(places.into_iter().collect()))
    }

    /// What has been executed since `before`, by module: programs are one, unix is what no module has.
    pub fn since(&self, before: &Self, modules: &Modules) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for (begins, count) in &self.0 {
            let new = count - before.0.get(begins).copied().unwrap_or(0);
            if new != 0 {
                *all.entry(modules.at(*begins).to_owned()).or_default() += new;
            }
        }
        all
    }

    /// The functions of a module in which the most was executed since `before`, with the counts.
    ///
    /// # Errors
    ///
    /// The module is not loaded, or its file cannot be read.
    pub fn functions(&self, before: &Self, debugger: &Debugger, module: &str) -> Result<Vec<(String, u64)>> {
        let base =
            debugger.text_of(module).and_then(|at| u64::from_str_radix(at.trim_start_matches("0x"), 16).ok());
        let base = base.with_context(|| format!("{module} is not loaded"))?;
        let file = debugger.object(module).with_context(|| format!("{module} has no file"))?;
        let symbols = text_symbols(&fs::read(&file)?)?;
        let end = base + symbols.keys().next_back().copied().unwrap_or(0) + 4096;
        let mut all: BTreeMap<&str, u64> = BTreeMap::new();
        for (begins, count) in self.0.range(base..end) {
            let new = count - before.0.get(begins).copied().unwrap_or(0);
            if let Some((_, name)) = symbols.range(..=begins - base).next_back() {
                *all.entry(name).or_default() += new;
            }
        }
        let mut all: Vec<(String, u64)> = all
            .into_iter()
            .filter(|(_, count)| *count != 0)
            .map(|(name, count)| (name.to_owned(), count))
            .collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Ok(all)
    }
}

/// The functions of a module by their places in its text, which is one section.
fn text_symbols(module: &[u8]) -> Result<BTreeMap<u64, String>> {
    let object = object::File::parse(module).context("a module is an object")?;
    let functions = object.symbols().filter(|symbol| symbol.kind() == object::SymbolKind::Text);
    let named = functions.filter_map(|symbol| {
        let name = symbol.name().ok()?;
        Some((symbol.address(), format!("{:#}", rustc_demangle::demangle(name))))
    });
    Ok(named.collect())
}

/// Where the text of each module begins.
#[derive(Clone, Debug, Default)]
pub struct Modules(BTreeMap<u64, String>);

impl Modules {
    /// From the agent's answer to `modules`: `NAME=ID:BASE+SIZE`.
    pub fn of(answer: &Fields) -> Self {
        let place = |place: &str| u64::from_str_radix(place.split_once(':')?.1.split_once('+')?.0, 16).ok();
        Self(answer.pairs().filter_map(|(name, at)| Some((place(at)?, name.to_owned()))).collect())
    }

    fn at(&self, address: u64) -> &str {
        if address < KERNEL {
            return "programs";
        }
        self.0.range(..=address).next_back().map_or("unix", |(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::{Counts, Modules};
    use crate::machine::Fields;

    #[test]
    fn instructions_are_of_the_module_whose_text_begins_last_before_them() {
        let answer = Fields {
            text: "unix=0:fffffffffb800000+100 ip=7:fffffffff7800000+4000 mac=9:fffffffff7810000+10".into(),
        };
        let modules = Modules::of(&answer);
        let before = Counts([(0xffff_ffff_f781_0004, 5)].into());
        let after = Counts(
            [
                (0x40_0000, 1),
                (0xffff_ffff_f781_0004, 25),
                (0xffff_ffff_f780_0008, 300),
                (0xffff_ffff_f780_0010, 30),
                (0xffff_ffff_fb90_0000, 4000),
            ]
            .into(),
        );
        let counted: Vec<(String, u64)> = after.since(&before, &modules).into_iter().collect();
        let expected = [("ip", 330), ("mac", 20), ("programs", 1), ("unix", 4000)];
        assert_eq!(counted, expected.map(|(name, count)| (name.to_owned(), count)));
    }
}
