//! A loaded module's symbols, local ones too: for dependents, for the kernel's look-ups by name, and for backtraces.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Symbols {
    names: BTreeMap<String, Defined>,
    /// Start, size, name; sorted by start.
    functions: Vec<(usize, usize, String)>,
}

/// A definition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defined {
    pub addr: usize,
    pub function: bool,
    pub local: bool,
}

impl Symbols {
    /// Adds a definition; the first of a name counts.
    pub(super) fn add(&mut self, name: &str, addr: usize, size: usize, function: bool, local: bool) {
        self.names.entry(name.to_owned()).or_insert(Defined { addr, function, local });
        if function {
            self.functions.push((addr, size, name.to_owned()));
        }
    }

    pub(super) fn finish(&mut self) {
        self.functions.sort();
    }

    pub(super) fn get(&self, name: &str) -> Option<Defined> {
        self.names.get(name).copied()
    }

    /// The function around `pc`, and the offset into it.
    pub(super) fn function_at(&self, pc: usize) -> Option<(&str, usize)> {
        let after = self.functions.partition_point(|(start, _, _)| *start <= pc);
        let (start, size, name) = self.functions[..after].last()?;
        let offset = pc - start;
        // One past the end counts: the return address of a last call that does not return.
        (*size == 0 || offset <= *size).then_some((name, offset))
    }
}
