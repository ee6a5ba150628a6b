//! What a module that the lab provides exports.

use sim::Contexts;

/// One symbol of a provided module.
#[derive(Clone, Debug)]
pub struct Export {
    /// Symbol name.
    pub name: &'static str,
    /// Address of the implementation, or of the initial bytes of a data symbol.
    pub addr: usize,
    /// Function or data.
    pub kind: ExportKind,
    /// See [`Export::leaf`].
    pub leaf: bool,
    /// See [`Export::ungated`].
    pub ungated: bool,
}

/// Function or data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportKind {
    /// A function and where it may be called.
    Func(Contexts),
    /// An object of that many bytes; each host gets its own copy below 2 GiB.
    Data(usize),
}

impl Export {
    /// A function export whose prototype nobody checks: variadic ones and those written in assembly or C.
    /// Others use [`export!`](crate::export!).
    pub const fn raw(name: &'static str, addr: usize, contexts: Contexts) -> Self {
        Self { name, addr, kind: ExportKind::Func(contexts), leaf: false, ungated: false }
    }

    /// A data export, initialised for each host with `init`.
    pub fn data(name: &'static str, init: &'static [u8]) -> Self {
        Self {
            name,
            addr: init.as_ptr().addr(),
            kind: ExportKind::Data(init.len()),
            leaf: false,
            ungated: false,
        }
    }

    /// Says that it never waits and does not mind which module calls: a machine without checks binds it with no gate between,
    /// as a kernel would.
    #[must_use]
    pub fn leaf(self) -> Self {
        Self { leaf: true, ..self }
    }

    /// Says that it is no kernel call: every machine binds it with no gate between, so that it is no scheduling point, and
    /// [`cx`](crate::cx) knows nothing of it.
    #[must_use]
    pub fn ungated(self) -> Self {
        Self { ungated: true, ..self }
    }
}

/// Builds a `Vec<Export>` from functions of the enclosing module, grouped by the contexts they may be called from:
///
/// ```text
/// export! {
///     UK: mac_register, mac_unregister;
///     UKS: mac_rx, mac_tx_update;
/// }
/// ```
///
/// Each function must be an `extern "C"` function with exactly the type that `illumos_sys_hdrs` declares for its name:
/// otherwise the macro does not compile. `unchecked` before a name leaves that check out (for what the headers do not declare).
#[macro_export]
macro_rules! export {
    ($($contexts:ident : $($items:tt)*)?) => {{
        #[allow(unused_mut)]
        let mut exports: ::std::vec::Vec<$crate::Export> = ::std::vec::Vec::new();
        $($crate::export!(@group exports $contexts $($items)*);)?
        exports
    }};
    (@group $v:ident $c:ident) => {};
    (@group $v:ident $c:ident , $($rest:tt)*) => { $crate::export!(@group $v $c $($rest)*) };
    (@group $v:ident $c:ident ;) => {};
    (@group $v:ident $c:ident ; $next:ident : $($rest:tt)*) => { $crate::export!(@group $v $next $($rest)*) };
    (@group $v:ident $c:ident unchecked $name:ident $($rest:tt)*) => {
        $v.extend([$crate::Export::raw(stringify!($name), $name as *const () as usize, $crate::Contexts::$c)]);
        $crate::export!(@group $v $c $($rest)*)
    };
    (@group $v:ident $c:ident $name:ident $($rest:tt)*) => {
        // Never called: it only has to have a type. Two different functions in one array need one common type.
        let _ = || { let _ = [::illumos_sys_hdrs::$name, $name]; };
        $v.extend([$crate::Export::raw(stringify!($name), $name as *const () as usize, $crate::Contexts::$c)]);
        $crate::export!(@group $v $c $($rest)*)
    };
}
