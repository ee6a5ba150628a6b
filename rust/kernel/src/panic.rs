//! What a Rust panic is in the kernel: a kernel panic that says where.

use core::fmt::Write;
use core::panic::PanicInfo;

use illumos_sys_hdrs as sys;

use crate::log::Line;

/// Formats into the stack (an allocation could be what failed) and never uses the text as a format.
#[panic_handler]
fn rust_panic(info: &PanicInfo<'_>) -> ! {
    let mut line = Line::<256>::new();
    // A message that does not fit is cut; there is nobody left to tell.
    let _ = write!(line, "{info}");
    // SAFETY: the format takes one NUL-terminated string, which outlives the call because the call never returns.
    unsafe { sys::panic(c"%s".as_ptr(), line.as_c_str().as_ptr()) }
}
