//! Races in modules that were built to tell of their loads and stores (`kmod build --races`; rule 54).
//!
//! The names are those that LLVM's pass for ThreadSanitizer gives (`compiler-rt/include/sanitizer/tsan_interface.h`); nothing of
//! ThreadSanitizer runs here. These calls are no kernel calls: no gate stands between, so a run goes through the same scheduling points
//! as one of the objects whose atomic operations alone are calls.

use std::arch::naked_asm;
use std::ffi::{c_int, c_void};

use sim::current::{self, Call};
use sim::race::{self, Access, Kind, Race};
use sim::{Rule, Thread};

use crate::export;
use crate::loader::arena;
use crate::loader::backtrace::frame;
use crate::loader::cx::{Cx, cx};
use crate::loader::export::Export;
use crate::loader::kernels::kernel_of;
use crate::loader::module::in_window_range;

const READ: Kind = Kind { writes: false, atomic: false };
const WRITE: Kind = Kind { writes: true, atomic: false };

/// Reads and writes of so many bytes. The module's return address, frame and stack pointers are what the report is made of.
macro_rules! plain {
    ($($read:ident $write:ident $len:literal;)*) => {
        $(
            #[unsafe(naked)]
            unsafe extern "C" fn $read(_addr: usize) {
                naked_asm!("mov rsi, [rsp]", "mov edx, {len}", "mov rcx, rbp", "lea r8, [rsp + 8]", "jmp {then}",
                    len = const $len, then = sym reads)
            }
            #[unsafe(naked)]
            unsafe extern "C" fn $write(_addr: usize) {
                naked_asm!("mov rsi, [rsp]", "mov edx, {len}", "mov rcx, rbp", "lea r8, [rsp + 8]", "jmp {then}",
                    len = const $len, then = sym writes)
            }
        )*

        pub(crate) fn exports() -> Vec<Export> {
            let all = export! {
                ANY: $(unchecked $read, unchecked $write,)* unchecked __tsan_memcpy, unchecked __tsan_memmove,
                    unchecked __tsan_memset;
            };
            all.into_iter().map(Export::ungated).collect()
        }
    };
}

plain! {
    __tsan_read1 __tsan_write1 1;
    __tsan_read2 __tsan_write2 2;
    __tsan_read4 __tsan_write4 4;
    __tsan_read8 __tsan_write8 8;
    __tsan_read16 __tsan_write16 16;
    __tsan_unaligned_read2 __tsan_unaligned_write2 2;
    __tsan_unaligned_read4 __tsan_unaligned_write4 4;
    __tsan_unaligned_read8 __tsan_unaligned_write8 8;
    __tsan_unaligned_read16 __tsan_unaligned_write16 16;
}

extern "C" fn reads(addr: usize, pc: usize, len: usize, rbp: usize, sp: usize) {
    plain(Access { addr, len, pc }, READ, (rbp, sp));
}

extern "C" fn writes(addr: usize, pc: usize, len: usize, rbp: usize, sp: usize) {
    plain(Access { addr, len, pc }, WRITE, (rbp, sp));
}

/// Memory that modules share: a host's heap, and modules' own data. What lies on a stack is its thread's.
fn is_shared(addr: usize) -> bool {
    arena::in_arena_range(addr) || in_window_range(addr)
}

#[inline]
fn plain(access: Access, kind: Kind, (rbp, sp): (usize, usize)) {
    if access.len == 0 || !is_shared(access.addr) {
        return;
    }
    if let Some(race) = race::access(access, kind) {
        let before = current::call();
        current::set_call(Call::NONE.at(access.pc, rbp, sp));
        report(access, if kind.writes { "a store" } else { "a load" }, &race);
        current::set_call(before);
    }
}

/// Memory is about to be freed: who else may still be using it? (rule 54)
pub(crate) fn check_free(cx: &Cx, addr: usize, len: usize) {
    let access = Access { addr, len, pc: cx.caller_pc() };
    if let Some(race) = race::freed(access) {
        let detail = describe(access, "freed", &race);
        cx.violate(Rule::DataRace, detail);
    }
}

impl Cx {
    /// From this call on an adapter may read the memory, or write it (rule 54).
    pub fn gives_to_adapter(&self, addr: usize, len: usize, writes: bool) {
        let access = Access { addr, len, pc: self.caller_pc() };
        if len == 0 || !is_shared(addr) {
            return;
        }
        if let Some(race) = race::access(access, Kind { writes, atomic: false }) {
            let does =
                if writes { "given to an adapter to be written" } else { "given to an adapter to be read" };
            self.violate(Rule::DataRace, describe(access, does, &race));
        }
    }
}

/// The kernel's own text reads memory that a module may have written.
pub(crate) fn kernel_reads(addr: usize, len: usize) {
    let access = Access { addr, len, pc: 0 };
    if len == 0 || !is_shared(addr) {
        return;
    }
    if let Some(race) = race::access(access, READ) {
        report(access, "a load", &race);
    }
}

/// Breaks rule 54 in the module whose text the access is in.
pub(crate) fn report(access: Access, what: &'static str, race: &Race) {
    let module = kernel_of(&Thread::current()).and_then(|kernel| kernel.module_ever_at(access.pc));
    let detail = describe(access, "accessed", race);
    Cx::of_entry(module.as_ref(), what).violate(Rule::DataRace, detail);
}

fn describe(access: Access, does: &str, race: &Race) -> String {
    let cx = cx();
    let machine = cx.thread().machine();
    let earlier = match (race.earlier.writes, race.earlier.atomic) {
        (true, true) => "an atomic store",
        (true, false) => "a store",
        (false, true) => "an atomic load",
        (false, false) => "a load",
    };
    let memory = cx.try_kernel().map_or_else(String::new, |kernel| {
        if in_window_range(race.addr) {
            format!("{:#x} lies in a module's data", race.addr)
        } else {
            kernel.genunix().explain_address(kernel, race.addr)
        }
    });
    format!(
        "{does} at {} after {earlier} at {}, and nothing orders the two, on {} and {}; {memory}",
        place(machine, access.pc),
        place(machine, race.pc),
        cx.thread().name(),
        race.thread,
    )
}

fn place(machine: &sim::Machine, pc: usize) -> String {
    if pc == 0 { "the kernel's own text".to_owned() } else { frame(machine, pc).to_string() }
}

/// A copy or a fill of `n` bytes; the caller's return address, frame and stack pointers behind its own arguments.
macro_rules! ranges {
    ($($name:ident $then:ident;)*) => {$(
        #[unsafe(naked)]
        unsafe extern "C" fn $name(_dst: *mut c_void, _from: usize, _n: usize) -> *mut c_void {
            naked_asm!("mov rcx, [rsp]", "mov r8, rbp", "lea r9, [rsp + 8]", "jmp {then}", then = sym $then)
        }
    )*};
}

ranges! {
    __tsan_memcpy copies;
    __tsan_memmove copies;
    __tsan_memset fills;
}

/// # Safety
///
/// memmove's contract.
unsafe extern "C" fn copies(
    dst: *mut u8,
    src: *const u8,
    len: usize,
    pc: usize,
    rbp: usize,
    sp: usize,
) -> *mut u8 {
    plain(Access { addr: src.addr(), len, pc }, READ, (rbp, sp));
    plain(Access { addr: dst.addr(), len, pc }, WRITE, (rbp, sp));
    // SAFETY: by this function's contract.
    unsafe { src.copy_to(dst, len) };
    dst
}

/// # Safety
///
/// memset's contract.
unsafe extern "C" fn fills(
    dst: *mut u8,
    value: c_int,
    len: usize,
    pc: usize,
    rbp: usize,
    sp: usize,
) -> *mut u8 {
    plain(Access { addr: dst.addr(), len, pc }, WRITE, (rbp, sp));
    // SAFETY: by this function's contract.
    unsafe { dst.write_bytes(value as u8, len) };
    dst
}
