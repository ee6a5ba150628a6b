//! Other functions in the place of a module's imports, for a while.

use std::io;
use std::sync::Arc;

use crate::loader::gate::{Import, STUB_SIZE, gated_stub, stub, stub_to};
use crate::loader::module::{Access, Module};

/// The module calls other functions as long as this is there.
#[derive(Debug)]
#[must_use]
pub struct Rebound(Module);

impl Module {
    /// Has the module call these functions, by the names of its imports, with nothing between: no gate, no count. What it does not import is
    /// left out. Its other imports go through the gate: on a thread that belongs to no machine such a call ends the process.
    ///
    /// # Errors
    ///
    /// The module's text cannot be made writable.
    ///
    /// # Safety
    ///
    /// Nobody is in the module, nor comes in while this runs and while the value is dropped. The addresses are those of functions with the
    /// prototypes of the imports, and whoever is in the module meanwhile may call them.
    pub unsafe fn rebind(&self, functions: &[(&str, usize)]) -> io::Result<Rebound> {
        let of = |import: &Import| functions.iter().find(|(name, _)| *name == import.name);
        self.write_stubs(|import| {
            of(import).map_or_else(|| gated_stub(import), |(_, function)| stub_to(*function))
        })?;
        Ok(Rebound(self.clone()))
    }

    fn write_stubs(&self, code: impl Fn(&Arc<Import>) -> [u8; STUB_SIZE]) -> io::Result<()> {
        self.0.text.protect(Access::ReadWrite)?;
        self.0.imports.iter().for_each(|import| self.0.text.write_at(import.stub, &code(import)));
        self.0.text.protect(Access::ReadExecute)
    }
}

impl Drop for Rebound {
    fn drop(&mut self) {
        // It could be written when this was made.
        let _ = self.0.write_stubs(stub);
    }
}
