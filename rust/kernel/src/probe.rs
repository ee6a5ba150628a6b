//! Statically defined DTrace probes (`sys/sdt.h`).

/// Fires the SDT probe `$provider-$name` with up to four integer arguments.
///
/// `probe!(ibd, rx__drop, qpn, len)` is the probe `sdt:ibd::ibd-rx-drop`. The arguments are evaluated once, outside
/// any unsafe code, and converted with `as u64`.
///
/// krtld overwrites the call with no-ops until the probe is enabled, so it must be a `call` with a return address:
/// the barrier behind it keeps the compiler from making it a jump. On a host it only evaluates its arguments.
///
/// **Any** context.
#[macro_export]
macro_rules! probe {
    ($provider:ident, $name:ident $(, $arg:expr)* $(,)?) => {
        $crate::probe!(@fire $provider $name [] $($arg),*)
    };
    (@fire $provider:ident $name:ident [$($done:ident)*]) => {{
        #[cfg(target_os = "none")]
        {
            unsafe extern "C" {
                #[link_name = concat!("__dtrace_probe_", stringify!($provider), "__", stringify!($name))]
                safe fn fire($($done: u64),*);
            }
            fire($($done),*);
            ::core::hint::black_box(());
        }
        #[cfg(not(target_os = "none"))]
        { $(let _ = $done;)* }
    }};
    (@fire $provider:ident $name:ident [] $a:expr) => {{
        let a = ($a) as u64;
        $crate::probe!(@fire $provider $name [a])
    }};
    (@fire $provider:ident $name:ident [] $a:expr, $b:expr) => {{
        let (a, b) = (($a) as u64, ($b) as u64);
        $crate::probe!(@fire $provider $name [a b])
    }};
    (@fire $provider:ident $name:ident [] $a:expr, $b:expr, $c:expr) => {{
        let (a, b, c) = (($a) as u64, ($b) as u64, ($c) as u64);
        $crate::probe!(@fire $provider $name [a b c])
    }};
    (@fire $provider:ident $name:ident [] $a:expr, $b:expr, $c:expr, $d:expr) => {{
        let (a, b, c, d) = (($a) as u64, ($b) as u64, ($c) as u64, ($d) as u64);
        $crate::probe!(@fire $provider $name [a b c d])
    }};
}
