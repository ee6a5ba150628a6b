//! Who allocated what a kernel still holds: gdb reads it from the records of the allocators.
//!
//! With `kmem_flags=0xf` kmem keeps for each buffer, and vmem for each segment, when it was allocated and from where.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, RelocationKind, RelocationTarget, SymbolKind,
};

use super::debugger::Debugger;
use super::symbols::demangled;

/// The part that gdb runs.
const SCRIPT: &str = include_str!("owners.py");

impl Debugger {
    /// Who allocated what is left in these caches (`cache/kmem_alloc_32`) and arenas (`arena/heap`) since then, nanoseconds since the
    /// machine started: a line for each stack, functions with their modules (``ip`arp_rput``) unless unix's or genunix's. Stops the machine for as long as it takes.
    ///
    /// Functions of a module that was unloaded have the names that they had where the module was last known to be.
    ///
    /// # Errors
    ///
    /// gdb is not there, or cannot read the machine.
    pub fn owners(&self, names: &BTreeSet<String>, since: u64) -> Result<Vec<String>> {
        let script = self.place().join("owners.py");
        let genunix = self.object("genunix").context("genunix has no file")?;
        let genunix = std::fs::read(genunix)?;
        let lists = [reference(&genunix, "kmem_caches")?, reference(&genunix, "vmem_list")?];
        let text = self.text_of("genunix").context("where genunix is was not learned")?;
        std::fs::write(&script, format!("TEXT = {text}\n{}", script_for(names, since, lists)))?;
        let said = self.ask_gdb(&format!("source {}\n", script.display()))?;
        Ok(said.lines().filter_map(|line| line.strip_prefix("owner ")).map(demangled).collect())
    }
}

/// An instruction of a module's that has the address of a variable: where it is from the start of the text, and what to take from the
/// four octets there. gdb is told where a module's text is; where its variables are only such an instruction says.
pub(super) type Reference = (u64, i64);

pub(super) fn reference(module: &[u8], variable: &str) -> Result<Reference> {
    let file = object::File::parse(module).context("not an object")?;
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(variable)).context(variable.to_owned())?;
    let text = file.section_by_name(".text").context("no text")?;
    let of_variable = |(at, relocation): (u64, object::Relocation)| {
        let absolute = relocation.kind() == RelocationKind::Absolute && relocation.size() == 32;
        match relocation.target() {
            RelocationTarget::Symbol(index) if absolute && index == symbol.index() => {
                Some((at, relocation.addend()))
            }
            RelocationTarget::Symbol(index) if absolute => {
                let target = file.symbol_by_index(index).ok()?;
                let section = target.kind() == SymbolKind::Section && target.section() == symbol.section();
                section.then(|| (at, relocation.addend() - symbol.address().cast_signed()))
            }
            _ => None,
        }
    };
    text.relocations().find_map(of_variable).with_context(|| format!("nothing refers to {variable}"))
}

/// The script with what it is about; the literals are Python's as they are Rust's.
fn script_for(names: &BTreeSet<String>, since: u64, lists: [Reference; 2]) -> String {
    let mut text = String::from("WANTED = {\"\"");
    for name in names {
        // Writing to a String cannot fail.
        let _ = write!(text, ", {name:?}");
    }
    let [caches, arenas] = lists;
    format!("{text}}}\nSINCE = {since}\nCACHES, ARENAS = {caches:?}, {arenas:?}\n{SCRIPT}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_says_which_caches_and_since_when() {
        let names = BTreeSet::from(["cache/kmem_alloc_32".to_owned()]);
        let text = script_for(&names, 77, [(16, -2), (32, 0)]);
        assert!(text.starts_with(
            "WANTED = {\"\", \"cache/kmem_alloc_32\"}\nSINCE = 77\nCACHES, ARENAS = (16, -2), (32, 0)\n"
        ));
    }
}
