//! From the lab into a module.

use crate::context::Ctx;

/// What kind of call into a module this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryKind {
    /// Name for reports: the entry point, e.g. "attach", "mc_tx".
    pub name: &'static str,
    /// The context the callee runs in; `None` keeps the caller's.
    pub ctx: Option<Ctx>,
    /// What kind of caller, for the rules that depend on it.
    pub role: Role,
}

/// Roles of entries that rules distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An entry point or callback.
    Callback,
    /// A thread's start routine.
    ThreadStart,
    /// A timeout handler (rule 25).
    TimeoutHandler,
    /// A soft interrupt handler (rule 26).
    SoftInterrupt,
}

impl EntryKind {
    /// An entry point or callback in the caller's context.
    pub const fn callback(name: &'static str) -> Self {
        Self { name, ctx: None, role: Role::Callback }
    }

    /// The same in another context.
    pub const fn callback_in(name: &'static str, ctx: Ctx) -> Self {
        Self { name, ctx: Some(ctx), role: Role::Callback }
    }
}

mod sealed {
    pub trait Sealed {}
}

/// An `extern "C"` function pointer of 0 to 10 arguments.
pub trait ModuleFn: Copy + sealed::Sealed {
    /// Its arguments as a tuple.
    type Args;
    /// What it returns.
    type Ret;
    /// Its address.
    fn addr(self) -> usize;
    /// Calls it.
    ///
    /// # Safety
    ///
    /// As the function demands.
    unsafe fn call(self, args: Self::Args) -> Self::Ret;
}

macro_rules! module_fn {
    ($($arg:ident)*) => {
        impl<R, $($arg),*> sealed::Sealed for unsafe extern "C" fn($($arg),*) -> R {}
        impl<R, $($arg),*> ModuleFn for unsafe extern "C" fn($($arg),*) -> R {
            type Args = ($($arg,)*);
            type Ret = R;
            fn addr(self) -> usize {
                self as *const () as usize
            }
            #[allow(non_snake_case)]
            unsafe fn call(self, ($($arg,)*): Self::Args) -> R {
                // SAFETY: by this function's contract.
                unsafe { self($($arg),*) }
            }
        }
    };
}

module_fn!();
module_fn!(A);
module_fn!(A B);
module_fn!(A B C);
module_fn!(A B C D);
module_fn!(A B C D E);
module_fn!(A B C D E F);
module_fn!(A B C D E F G);
module_fn!(A B C D E F G H);
module_fn!(A B C D E F G H I);
module_fn!(A B C D E F G H I J);
