//! Operations that no provider here has: a function for each number of arguments, of whatever types.

use illumos_sys_hdrs as sys;

const REFUSED: sys::ibt_status_t = sys::IBT_NOT_SUPPORTED;

macro_rules! refusals {
    ($($name:ident($($argument:ident),*);)*) => {
        $(
            #[allow(non_camel_case_types, reason = "each argument is named for its type")]
            pub(crate) unsafe extern "C" fn $name<$($argument),*>($(_: $argument),*) -> sys::ibt_status_t {
                REFUSED
            }
        )*
    };
}

refusals! {
    refuse0();
    refuse2(a, b);
    refuse3(a, b, c);
    refuse4(a, b, c, d);
    refuse5(a, b, c, d, e);
    refuse6(a, b, c, d, e, f);
    refuse7(a, b, c, d, e, f, g);
    refuse8(a, b, c, d, e, f, g, h);
    refuse10(a, b, c, d, e, f, g, h, i, j);
}
