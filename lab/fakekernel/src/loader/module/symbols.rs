//! A loaded module's symbols, local ones too: for dependents, for the kernel's look-ups by name, and for backtraces.

use std::sync::{Arc, OnceLock};

use super::elf::ObjectFile;

pub(super) struct Symbols {
    file: Arc<ObjectFile>,
    /// The value of each of the file's symbols.
    values: Vec<usize>,
    /// The functions among them by start, size and name, once somebody has asked.
    functions: OnceLock<Vec<usize>>,
}

/// A definition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defined {
    pub addr: usize,
    pub function: bool,
    pub local: bool,
}

impl Symbols {
    pub(super) fn new(file: Arc<ObjectFile>, values: Vec<usize>) -> Self {
        Self { file, values, functions: OnceLock::new() }
    }

    /// The first definition of a name.
    pub(super) fn get(&self, name: &str) -> Option<Defined> {
        let number = *self.file.names.get(name)?;
        let symbol = &self.file.symbols[number];
        Some(Defined { addr: self.values[number], function: symbol.function, local: symbol.local })
    }

    /// Start, size and name of every function, by start.
    pub(super) fn functions(&self) -> impl Iterator<Item = (usize, usize, &str)> {
        let symbol = |number: &usize| &self.file.symbols[*number];
        self.in_order()
            .iter()
            .map(move |number| (self.values[*number], symbol(number).size, &*symbol(number).name))
    }

    /// The function around `pc`, and the offset into it.
    pub(super) fn function_at(&self, pc: usize) -> Option<(&str, usize)> {
        let functions = self.in_order();
        let after = functions.partition_point(|number| self.values[*number] <= pc);
        let number = *functions[..after].last()?;
        let symbol = &self.file.symbols[number];
        let offset = pc - self.values[number];
        // One past the end counts: the return address of a last call that does not return.
        (symbol.size == 0 || offset <= symbol.size).then_some((&*symbol.name, offset))
    }

    fn in_order(&self) -> &[usize] {
        let symbols = &self.file.symbols;
        self.functions.get_or_init(|| {
            let is_function = |number: &usize| symbols[*number].function && symbols[*number].is_defined();
            let mut functions: Vec<usize> = (0..symbols.len()).filter(is_function).collect();
            functions
                .sort_by_key(|number| (self.values[*number], symbols[*number].size, &symbols[*number].name));
            functions
        })
    }
}
