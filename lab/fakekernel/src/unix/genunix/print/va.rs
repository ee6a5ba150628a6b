//! Variable arguments as the amd64 C ABI passes them.
//!
//! Stable Rust cannot define a variadic function. The entry points here are a few instructions each: they lay down what
//! `va_start` would and call the Rust function that takes the list. Kernel modules are built without floating point, so
//! the vector registers are not saved and the list says there are none.

use illumos_sys_hdrs::__va_list_tag;

use super::format::Arguments;
use crate::loader::mem::c_string;

/// Bytes of general registers that can carry arguments.
const REGISTERS: u32 = 48;

/// The 24 bytes behind a `va_list` (System V ABI for AMD64, section 3.5.7).
#[repr(C)]
struct Head {
    gp_offset: u32,
    fp_offset: u32,
    overflow_arg_area: *const u8,
    reg_save_area: *const u8,
}

/// Takes arguments off a C `va_list`. The list itself is left as it was, as the kernel's formatter leaves it.
#[derive(Debug)]
pub struct VaList {
    next_register: u32,
    registers: *const u8,
    overflow: *const u8,
}

impl VaList {
    /// Reads the list's head.
    ///
    /// # Safety
    ///
    /// `list` is a live `va_list` whose remaining arguments are at least those that will be taken.
    pub unsafe fn new(list: *const __va_list_tag) -> Self {
        // SAFETY: by contract the list is live.
        let head = unsafe { list.cast::<Head>().read() };
        // Nobody passes a floating-point argument to the kernel's formatter: the save area has none.
        let Head { gp_offset, fp_offset: _, overflow_arg_area, reg_save_area } = head;
        Self { next_register: gp_offset, registers: reg_save_area, overflow: overflow_arg_area }
    }

    fn slot(&mut self) -> *const u64 {
        if self.next_register + 8 <= REGISTERS {
            // SAFETY: the register save area has 48 bytes and the offset stays 8 below its end.
            let slot = unsafe { self.registers.add(self.next_register as usize) };
            self.next_register += 8;
            slot.cast()
        } else {
            let slot = self.overflow;
            // SAFETY: by the contract of `new` there is one more argument, and each takes eight bytes on the stack.
            self.overflow = unsafe { slot.add(8) };
            slot.cast()
        }
    }
}

impl Arguments for VaList {
    fn next(&mut self) -> u64 {
        let slot = self.slot();
        // SAFETY: the slot holds an argument by the contract of `new`; stack and save area are 8-aligned.
        unsafe { slot.read() }
    }

    fn string(&mut self, addr: u64, limit: Option<usize>) -> Vec<u8> {
        let start = std::ptr::with_exposed_provenance(addr as usize);
        // SAFETY: the caller of the kernel's formatter vouches for a string here; when it lies the fault is reported as the
        // module's.
        unsafe { c_string(start, limit) }
    }
}

/// Defines `$name`, a variadic C function with `$named` fixed arguments, as a call of `$target` with those and the list.
/// `$list` is the register the list's address goes to: that of argument `$named + 1`.
macro_rules! variadic {
    ($(#[$doc:meta])* $name:ident, named $named:literal, list in $list:literal => $target:path) => {
        $(#[$doc])*
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                "push rbp",
                "mov rbp, rsp",
                "sub rsp, 80",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                // va_list: gp_offset, fp_offset (no vector registers left), overflow area, register save area.
                "mov dword ptr [rsp + 48], 8 * {named}",
                "mov dword ptr [rsp + 52], 176",
                "lea rax, [rbp + 16]",
                "mov [rsp + 56], rax",
                "mov [rsp + 64], rsp",
                concat!("lea ", $list, ", [rsp + 48]"),
                "call {target}",
                "leave",
                "ret",
                named = const $named,
                target = sym $target,
            )
        }
    };
}
pub(crate) use variadic;

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn collect(count: usize, out: *mut u64, list: *const __va_list_tag) -> usize {
        // SAFETY: the test passes as many arguments as it counts.
        let mut args = unsafe { VaList::new(list) };
        for at in 0..count {
            // SAFETY: the test's array has room for `count`.
            let to = unsafe { out.add(at) };
            // SAFETY: as above.
            unsafe { to.write(args.next()) };
        }
        count
    }

    variadic!(collected, named 2, list in "rdx" => collect);

    #[test]
    fn arguments_in_registers_and_on_the_stack_arrive_in_order() {
        type Variadic = unsafe extern "C" fn(usize, *mut u64, ...) -> usize;
        let entry: unsafe extern "C" fn() = collected;
        // SAFETY: the function is variadic by construction.
        let call: Variadic = unsafe { std::mem::transmute(entry) };
        let mut out = [0u64; 7];
        // SAFETY: seven arguments and room for seven.
        let count = unsafe { call(7, out.as_mut_ptr(), 11u64, 12u64, 13u64, 14u64, 15u64, 16u64, 17u64) };
        assert_eq!((count, out), (7, [11, 12, 13, 14, 15, 16, 17]));
    }
}
