//! The parts of `kthread_t` and `cpu_t` that compiled module code reads.

use std::arch::asm;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::OnceLock;

/// Offsets in `kthread_t`.
const T_PRI: usize = 48;
const T_CPU: usize = 216;
const T_DID: usize = 272;
const T_LWP: usize = 392;
const KTHREAD_SIZE: usize = 960;

/// Offsets in `cpu_t`.
const CPU_ID: usize = 0;
const CPU_SEQID: usize = 4;
const CPU_SELF: usize = 16;
const CPU_THREAD: usize = 24;
const CPU_LWP: usize = 48;
const CPU_SIZE: usize = 256;

/// `arch_prctl(2)`: set the base of `%gs`, which the C library leaves alone.
const ARCH_SET_GS: i32 = 0x1001;

#[repr(C, align(64))]
struct Areas {
    kthread: [u8; KTHREAD_SIZE],
    cpu: [u8; CPU_SIZE],
}

/// A thread's fake `kthread_t` and the `cpu_t` its `%gs` points to. The address of the first is the thread's identity in lock
/// words: 64-byte aligned, so the low bits are free, and not reused while the machine lives.
pub struct KThread {
    areas: Box<UnsafeCell<Areas>>,
}

// SAFETY: written at creation only; afterwards the lab uses nothing but the address, and module code the contents.
unsafe impl Sync for KThread {}

impl KThread {
    pub(crate) fn new(did: u64, cpu: u32, pri: i16, user: bool) -> Self {
        let mut areas = Box::new(Areas { kthread: [0; KTHREAD_SIZE], cpu: [0; CPU_SIZE] });
        let kthread = areas.kthread.as_ptr().expose_provenance() as u64;
        let cpu_self = areas.cpu.as_ptr().expose_provenance() as u64;
        // Any non-NULL pointer says "has an lwp"; nothing behind it is read.
        let lwp = if user { kthread } else { 0 };
        put(&mut areas.kthread, T_PRI, &pri.to_le_bytes());
        put(&mut areas.kthread, T_CPU, &cpu_self.to_le_bytes());
        put(&mut areas.kthread, T_DID, &did.to_le_bytes());
        put(&mut areas.kthread, T_LWP, &lwp.to_le_bytes());
        put(&mut areas.cpu, CPU_ID, &cpu.to_le_bytes());
        put(&mut areas.cpu, CPU_SEQID, &cpu.to_le_bytes());
        put(&mut areas.cpu, CPU_SELF, &cpu_self.to_le_bytes());
        put(&mut areas.cpu, CPU_THREAD, &kthread.to_le_bytes());
        put(&mut areas.cpu, CPU_LWP, &lwp.to_le_bytes());
        // SAFETY: `UnsafeCell<Areas>` has the layout of `Areas`.
        Self { areas: unsafe { Box::from_raw(Box::into_raw(areas).cast()) } }
    }

    /// The `kthread_t *`.
    pub fn as_ptr(&self) -> *mut c_void {
        self.areas.get().cast()
    }

    /// Its address.
    pub fn addr(&self) -> usize {
        self.areas.get().addr()
    }

    /// Points the calling operating-system thread's `%gs` at the `cpu_t`.
    pub(crate) fn become_cpu(&self) {
        let cpu = self.addr() + std::mem::offset_of!(Areas, cpu);
        if user_may_set_gs() {
            // SAFETY: the instruction is there, and changes only `%gs` of this thread, which neither Rust nor the C library uses.
            return unsafe { asm!("wrgsbase {}", in(reg) cpu, options(nomem, nostack, preserves_flags)) };
        }
        // SAFETY: changes only `%gs` of this thread, which neither Rust nor the C library uses.
        let failed = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, cpu) };
        assert_eq!(failed, 0, "arch_prctl(ARCH_SET_GS)");
    }
}

/// Does the processor have, and Linux allow, the instruction that sets `%gs` without a system call?
fn user_may_set_gs() -> bool {
    /// `HWCAP2_FSGSBASE` of `asm/hwcap2.h`.
    const FSGSBASE: u64 = 1 << 1;
    static MAY: OnceLock<bool> = OnceLock::new();
    // SAFETY: reads the process's auxiliary vector.
    *MAY.get_or_init(|| unsafe { libc::getauxval(libc::AT_HWCAP2) } & FSGSBASE != 0)
}

fn put(area: &mut [u8], offset: usize, bytes: &[u8]) {
    area[offset..offset + bytes.len()].copy_from_slice(bytes);
}
