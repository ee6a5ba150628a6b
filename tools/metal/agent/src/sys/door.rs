//! A door: the kernel asks this process a question, and it answers.

use core::arch::asm;
use core::ffi::CStr;

use super::files::attach;
use super::{Fd, Result, call};

/// Subcodes of `doorfs` (`sys/door.h`).
const CREATE: usize = 0;
const RETURN: usize = 10;

/// Makes a door and lets it be called by `path`.
///
/// # Errors
///
/// Those of `door_create` and of mount(2).
pub fn create(path: &CStr) -> Result<Fd> {
    // The procedure that the kernel would tell us to call is not used: `serve` knows what to do.
    // SAFETY: door_create keeps two numbers and gives them back with each question.
    let door = Fd(unsafe { call(201, [1, 0, 0, 0, 0, CREATE]) }? as i32);
    attach(door, path)?;
    Ok(door)
}

/// Where the kernel puts a question: from its end downwards the data and a `door_results`.
#[repr(align(16))]
struct Desk([u8; 16384]);

/// The beginning of a `struct door_results`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Results {
    cookie: usize,
    data: *const u8,
    length: usize,
}

/// Answers questions for ever; `answer` gives what [`AsRef`] makes octets of.
pub fn serve<R: AsRef<[u8]>>(mut answer: impl FnMut(&[u8]) -> R) -> ! {
    let mut desk = Desk([0; 16384]);
    let mut reply = None;
    loop {
        let question = hand_over(reply.as_ref().map_or(&[], R::as_ref), &mut desk);
        reply = question.map(&mut answer);
    }
}

/// Gives the kernel the answer to the last question and waits for the next. `None`: interrupted, the answer is lost.
fn hand_over<'a>(reply: &[u8], desk: &'a mut Desk) -> Option<&'a [u8]> {
    let end = desk.0.as_mut_ptr_range().end;
    let results: *const Results;
    let failed: u8;
    // SAFETY: door_return copies the reply and sleeps. When a question comes, the kernel writes it below `end`, within the length
    // given, and points the stack there, which is put back at once: nothing is pushed meanwhile. Registers other than the
    // results of a call keep their values.
    unsafe {
        asm!(
            "mov r12, rsp",
            "syscall",
            "setc {failed}",
            "mov r13, rsp",
            "mov rsp, r12",
            failed = out(reg_byte) failed,
            out("r12") _,
            out("r13") results,
            inlateout("rax") 201_usize => _,
            inlateout("rdi") reply.as_ptr() => _,
            inlateout("rsi") reply.len() => _,
            inlateout("rdx") 0_usize => _,
            inlateout("r10") end => _,
            inlateout("r8") desk.0.len() - 256 => _,
            inlateout("r9") RETURN => _,
            out("rcx") _,
            out("r11") _,
        );
    }
    if failed != 0 {
        return None;
    }
    // SAFETY: without an error, the kernel has put a door_results there, on the desk.
    let Results { data, length, .. } = unsafe { results.read() };
    if data.is_null() {
        return Some(&[]);
    }
    // SAFETY: the data lies on the desk, which nobody writes to while the answer is made.
    Some(unsafe { core::slice::from_raw_parts(data, length) })
}
