//! Where the kernel begins to run the program, and where a panic ends it.

use core::arch::global_asm;
use core::fmt::Write as _;
use core::panic::PanicInfo;

use super::files::{Open, open, write_all};
use crate::answer::Text;

// The stack is aligned as the ABI wants it before a call; nothing above it is of use to us.
global_asm!(
    ".globl _start",
    "_start:",
    "xorl %ebp, %ebp",
    "andq $-16, %rsp",
    "call {main}",
    "ud2",
    main = sym main,
    options(att_syntax)
);

extern "C" fn main() -> ! {
    crate::router::run()
}

/// Says on the console what happened, and ends the process; if that is init, the kernel panics, which the host sees.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let mut text = Text::<512>::default();
    // Writing to a Text cannot fail.
    let _ = writeln!(text, "metal-agent: {info}");
    if let Ok(console) = open(crate::router::CONSOLE, Open::Write) {
        let _ = write_all(console, text.bytes());
    }
    super::exit(1)
}
