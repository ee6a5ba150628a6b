//! The gate: every call of a module into the kernel passes here.
//!
//! An import is bound to a stub in the module's text window that loads the address of its [`Import`] and jumps to [`gate`]. The
//! gate keeps the argument registers, lets [`gate_enter`] look at the call, and jumps to the implementation with stack and
//! registers as the module left them, so any number of arguments passes, variadic ones too.

use std::arch::naked_asm;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use sim::current::{self, Call, Stack};
use sim::thread::ThreadInner;
use sim::{Contexts, Ctx, Rule, abort_saying};

use crate::loader::cx::Cx;
use crate::loader::entry::CHAIN_STACK;
use crate::loader::kernel::Kernel;
use crate::loader::module::ModuleInner;
use crate::loader::module::in_window_range;

/// One import of one loaded module.
pub(crate) struct Import {
    /// The implementation.
    pub addr: usize,
    pub name: String,
    pub contexts: Contexts,
    /// Equal in two runs of one seed: from host, module and position.
    pub trace_id: u64,
    pub kernel: Kernel,
    pub module: OnceLock<Weak<ModuleInner>>,
    pub module_name: &'static str,
    pub calls: AtomicU64,
    /// Bound with no gate between ([`Export::leaf`](crate::Export::leaf)), in a machine without checks.
    pub direct: bool,
    /// Where its stub lies.
    pub stub: usize,
}

impl Import {
    /// How far within its module a place of the module's is; for one that is not, which import this is.
    pub(crate) fn offset_of(&self, place: usize) -> usize {
        let start = self.module.get().and_then(Weak::upgrade).and_then(|module| module.text_start(place));
        start.map_or(place & 0xffff, |start| place - start)
    }
}

/// Bytes of a stub.
pub(crate) const STUB_SIZE: usize = 32;
const MOV_R11: [u8; 2] = [0x49, 0xbb];
const JMP_TO_NEXT: [u8; 6] = [0xff, 0x25, 0, 0, 0, 0];

/// The code of a stub: `mov r11, import; jmp [rip]; .quad gate`, or, for a direct one, `mov r11, calls; inc qword [r11];
/// jmp [rip]; .quad implementation`.
pub(crate) fn stub(import: &Arc<Import>) -> [u8; STUB_SIZE] {
    if !import.direct {
        return gated_stub(import);
    }
    const INC_AT_R11: [u8; 3] = [0x49, 0xff, 0x03];
    let calls = import.calls.as_ptr().expose_provenance() as u64;
    let target = import.addr as u64;
    code(&[&MOV_R11, &calls.to_le_bytes(), &INC_AT_R11, &JMP_TO_NEXT, &target.to_le_bytes()])
}

/// The code of a stub that goes through the gate, whatever the import is.
pub(crate) fn gated_stub(import: &Arc<Import>) -> [u8; STUB_SIZE] {
    let import = Arc::as_ptr(import).expose_provenance() as u64;
    let gate = (gate as *const ()).expose_provenance() as u64;
    code(&[&MOV_R11, &import.to_le_bytes(), &JMP_TO_NEXT, &gate.to_le_bytes()])
}

/// The code of a stub that counts nothing: `jmp [rip]; .quad function`.
pub(crate) fn stub_to(function: usize) -> [u8; STUB_SIZE] {
    code(&[&JMP_TO_NEXT, &(function as u64).to_le_bytes()])
}

fn code(parts: &[&[u8]]) -> [u8; STUB_SIZE] {
    let mut code = [0xcc; STUB_SIZE];
    for (to, from) in code.iter_mut().zip(parts.concat()) {
        *to = from;
    }
    code
}

/// Keeps the six argument registers and `rax` (the number of vector registers of a variadic call), asks [`gate_enter`] where to go,
/// and goes there. Entered by a jump from a stub with the import in `r11`.
///
/// # Safety
///
/// Only stubs jump here.
#[unsafe(naked)]
unsafe extern "C" fn gate() {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rax",
        "sub rsp, 8",
        "mov rdi, r11",
        "mov rsi, rbp",
        "call {enter}",
        "mov r11, rax",
        "add rsp, 8",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "pop rbp",
        "jmp r11",
        enter = sym gate_enter,
    )
}

/// Records and checks the call and returns the implementation's address.
///
/// # Safety
///
/// `import` is that of a live module; `frame` points to the caller's frame pointer and return address.
unsafe extern "C" fn gate_enter(import: *const Import, frame: *const [usize; 2]) -> usize {
    // SAFETY: by this function's contract.
    let [rbp, pc] = unsafe { *frame };
    // SAFETY: an import of a live module, which the machine keeps until every thread has ended.
    let call = unsafe { Call::new(import.cast(), pc, rbp, frame.addr() + 16) };
    current::set_call(call);
    // SAFETY: the machine keeps its modules, and they their imports, until every thread has ended.
    let import = unsafe { &*import };
    current::with(|me| match me {
        Some(me) => pass(me, import, frame.addr() + 16),
        None => stray(import),
    });
    import.addr
}

fn pass(me: &ThreadInner, import: &Import, sp: usize) {
    let shared = &me.machine.0;
    // With one thread at a time nobody else counts meanwhile, and a locked instruction takes as long as the rest of this.
    let live = shared.is_live();
    if live && shared.config.checks {
        import.calls.fetch_add(1, Ordering::Relaxed);
    } else {
        add(&import.calls, 1);
    }
    if shared.config.checks {
        if !import.contexts.allows_bit(me.context_bit()) {
            wrong_context(me, import);
        }
        let stack = current::stack();
        let used = stack.base.saturating_sub(sp);
        if stack.base != 0 && (used > stack.limit || stack.outer + used > CHAIN_STACK) {
            too_deep(stack, used);
        }
    }
    if !live {
        add(&shared.crossings, 1);
        let trace = shared.trace.load(Ordering::Relaxed);
        let step = (trace ^ me.did << 32 ^ import.trace_id).wrapping_mul(0x0000_0100_0000_01b3);
        shared.trace.store(step, Ordering::Relaxed);
        add(&shared.now, shared.config.call_cost.0);
    }
    let place = place(current::call().pc(), import.trace_id);
    import.kernel.sites().pass(import, place);
    shared.point_at(me, place, import.kernel.name(), &import.name);
}

/// Where a call is made, equal in two runs of one seed: its return address, or which import it is if it returns into the lab, as the last
/// call of a function does. The lab lies elsewhere in each process.
fn place(pc: usize, trace_id: u64) -> usize {
    if in_window_range(pc) { pc } else { trace_id as usize }
}

/// Adds to a number that others read: what two threads of a live machine add at once may be added once.
fn add(number: &AtomicU64, more: u64) {
    number.store(number.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

#[cold]
fn wrong_context(me: &ThreadInner, import: &Import) {
    let cx = Cx::of_current();
    let ctx = me.ctx();
    let effective = me.context_bit();
    let raised_pil = effective == Contexts::H && !matches!(ctx, Ctx::High { .. });
    let rule = if raised_pil && !import.contexts.allows_bit(Contexts::S) {
        // What only threads may call may sleep.
        Rule::BlockWithSpinMutex
    } else if effective == Contexts::H {
        Rule::HighLevelCall
    } else if effective == Contexts::S {
        Rule::SleepInInterrupt
    } else {
        Rule::CopyOutsideUser
    };
    let raised = if raised_pil { ", level raised by a spin mutex" } else { "" };
    let allowed = import.contexts;
    cx.violate(
        rule,
        format!("{} called in {ctx} context{raised}; it may be called in {allowed}", import.name),
    );
}

#[cold]
fn too_deep(stack: Stack, used: usize) {
    let (outer, limit) = (stack.outer, stack.limit);
    Cx::of_current().violate(
        Rule::StackUse,
        format!(
            "{used} bytes of stack in module frames of this entry, of {limit} allowed, and {outer} in those around it, of \
             {CHAIN_STACK} together"
        ),
    );
}

/// A module called the kernel from a thread that is none of the machine's.
#[cold]
fn stray(import: &Import) -> ! {
    abort_saying(&format!(
        "{} called {} on a thread that belongs to no machine",
        import.module_name, import.name
    ))
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn a_call_that_returns_into_the_lab_is_at_one_place_in_every_process() {
        assert_eq!(place(0x1000_2000, 7), 0x1000_2000);
        assert_eq!(place(0x5575_3f96_253e, 7), place(0x562d_3d8a_253e, 7));
        assert_ne!(place(0x5575_3f96_253e, 7), place(0x5575_3f96_253e, 8));
    }
}
