//! Who asked for a piece of memory: small enough to keep with every block.

use std::fmt;

use crate::loader::cx::Cx;
use crate::loader::kernel::Kernel;

/// A module (or the lab, "kernel") and the place in its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Module name.
    pub module: &'static str,
    /// Return address in its text; 0 for the lab.
    pub pc: usize,
}

impl Origin {
    /// The lab itself.
    pub const KERNEL: Self = Self { module: "kernel", pc: 0 };

    /// Whoever made the call being served; the lab itself in a machine without checks, which does not ask.
    pub fn of(cx: &Cx) -> Self {
        match cx.module_name() {
            module if !module.is_empty() && cx.checks() => Self { module, pc: cx.caller_pc() },
            _ => Self::KERNEL,
        }
    }

    /// With the function's name, while the module is loaded.
    pub fn describe(&self, kernel: &Kernel) -> String {
        match kernel.module_at(self.pc) {
            Some(module) if self.pc != 0 => module.frame(self.pc).to_string(),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pc == 0 { f.write_str(self.module) } else { write!(f, "{}`{:#x}", self.module, self.pc) }
    }
}
