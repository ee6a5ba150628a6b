//! Who allocated what a kernel still holds: gdb reads it from the records of the allocators.
//!
//! With `kmem_flags=0xf` kmem keeps for each buffer, and vmem for each segment, when it was allocated and from where.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::Result;

use super::debugger::Debugger;
use super::symbols::demangled;

/// The part that gdb runs.
const SCRIPT: &str = include_str!("owners.py");

impl Debugger {
    /// Who allocated what is left in these caches (`cache/kmem_alloc_32`) and arenas (`arena/heap`) since then, nanoseconds since the
    /// machine started: a line for each stack. Stops the machine for as long as it takes.
    ///
    /// Functions of a module that was unloaded have the names that they had where the module was last known to be.
    ///
    /// # Errors
    ///
    /// gdb is not there, or cannot read the machine.
    pub fn owners(&self, names: &BTreeSet<String>, since: u64) -> Result<Vec<String>> {
        let script = self.place().join("owners.py");
        std::fs::write(&script, script_for(names, since))?;
        let said = self.ask_gdb(&format!("source {}\n", script.display()))?;
        Ok(said.lines().filter_map(|line| line.strip_prefix("owner ")).map(demangled).collect())
    }
}

/// The script with what it is about; the literals are Python's as they are Rust's.
fn script_for(names: &BTreeSet<String>, since: u64) -> String {
    let mut text = String::from("WANTED = {\"\"");
    for name in names {
        // Writing to a String cannot fail.
        let _ = write!(text, ", {name:?}");
    }
    format!("{text}}}\nSINCE = {since}\n{SCRIPT}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_says_which_caches_and_since_when() {
        let names = BTreeSet::from(["cache/kmem_alloc_32".to_owned()]);
        let text = script_for(&names, 77);
        assert!(text.starts_with("WANTED = {\"\", \"cache/kmem_alloc_32\"}\nSINCE = 77\n"));
    }
}
