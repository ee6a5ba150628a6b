//! The code of a loaded module, function by function, for whoever counts what was run.

use crate::loader::module::Module;

/// A function of a loaded module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its symbol.
    pub name: String,
    /// Where it begins.
    pub start: usize,
    /// Its instructions, as they lie in memory.
    pub code: Vec<u8>,
}

impl Module {
    /// All functions of the module itself, by address: what it imports is none of them, nor are the stubs it calls those by. Of a
    /// module that is unloaded none has any code.
    pub fn functions(&self) -> Vec<Function> {
        let functions = self.0.symbols.functions().filter(|(_, size, _)| *size != 0);
        let read = |start, size| if self.is_unloaded() { Vec::new() } else { self.0.text.read(start, size) };
        functions
            .map(|(start, size, name)| Function { name: name.to_owned(), start, code: read(start, size) })
            .collect()
    }
}
