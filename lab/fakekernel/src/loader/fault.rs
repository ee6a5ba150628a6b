//! Processor faults in module code, or in lab code that a module called.
//!
//! The handler runs on a stack of its own, notes registers and sends the thread to [`landing`] on a second stack, outside signal
//! context, where the report is made and the machine halts. Every other fault is left to whoever handled it before.

use std::cell::Cell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use sim::current::{self, Call};
use sim::thread::ThreadInner;
use sim::{Fault, Halt, Rule, Violation};

use crate::loader::backtrace;
use crate::loader::cx::import_of;
use crate::loader::kernels::Working;
use crate::loader::kernels::kernels;
use crate::loader::module::{self, Module};

const SIGNALS: [(i32, &str); 4] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
];
/// Guard page, handler's stack, landing stack.
const GUARD: usize = 4096;
const HANDLER_STACK: usize = 64 << 10;
const LANDING_STACK: usize = 256 << 10;
const WHOLE: usize = GUARD + HANDLER_STACK + LANDING_STACK;

#[derive(Clone, Copy, Default)]
struct Raw {
    signal: i32,
    address: usize,
    /// The processor gave no address: it was no canonical one.
    non_canonical: bool,
    pc: usize,
    rbp: usize,
    rsp: usize,
    /// A register held a pattern of freed or uninitialised memory.
    pattern: Option<&'static str>,
}

thread_local! {
    static LANDING_TOP: Cell<usize> = const { Cell::new(0) };
    static RAW: Cell<Option<Raw>> = const { Cell::new(None) };
}

static OLD: OnceLock<[libc::sigaction; 4]> = OnceLock::new();

/// A thread's alternate stacks.
pub(crate) struct SignalStack {
    base: *mut c_void,
}

impl SignalStack {
    pub(crate) fn install() -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh anonymous mapping.
        let base = unsafe { libc::mmap(ptr::null_mut(), WHOLE, prot, flags, -1, 0) };
        assert_ne!(base, libc::MAP_FAILED, "no memory for a signal stack");
        // SAFETY: the first page of the mapping just made.
        unsafe { libc::mprotect(base, GUARD, libc::PROT_NONE) };
        let stack =
            libc::stack_t { ss_sp: base.wrapping_byte_add(GUARD), ss_flags: 0, ss_size: HANDLER_STACK };
        // SAFETY: the stack is mapped and stays so until `drop`, which takes it out of use first.
        unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) };
        LANDING_TOP.set(base.addr() + WHOLE);
        Self { base }
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        LANDING_TOP.set(0);
        let off =
            libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: HANDLER_STACK };
        // SAFETY: disabling the alternate stack needs nothing.
        unsafe { libc::sigaltstack(&raw const off, ptr::null_mut()) };
        // SAFETY: the mapping made by `install`, no longer in use.
        unsafe { libc::munmap(self.base, WHOLE) };
    }
}

/// Installs the handlers, once per process.
pub(crate) fn install_handlers() {
    OLD.get_or_init(|| SIGNALS.map(|(signal, _)| install(signal, handler, 0)));
}

/// What handles a signal.
pub(crate) type Handler = unsafe extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void);

/// `handler` takes `signal` from here on, on the stack for signals; it does nothing that is not async-signal-safe.
pub(crate) fn install(signal: i32, handler: Handler, flags: i32) -> libc::sigaction {
    // SAFETY: all-zero is a valid `sigaction`.
    let mut new: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    new.sa_sigaction = handler as *const () as usize;
    new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | flags;
    // SAFETY: as above.
    let mut old: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: `handler` does nothing that is not async-signal-safe.
    unsafe { libc::sigaction(signal, &raw const new, &raw mut old) };
    old
}

unsafe extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid context to a SA_SIGINFO handler.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let pc = registers[libc::REG_RIP as usize] as usize;
    let mine = current::is_thread() && (current::stack().depth > 0 || module::in_window_range(pc));
    let top = LANDING_TOP.get();
    if !mine || top == 0 || RAW.get().is_some() {
        return hand_back(signal);
    }
    // SAFETY: the kernel passes a valid siginfo.
    let info = unsafe { &*info };
    let code = info.si_code;
    // SAFETY: the four signals carry an address.
    let address = unsafe { info.si_addr() }.addr();
    const SI_KERNEL: i32 = 0x80;
    RAW.set(Some(Raw {
        signal,
        address,
        non_canonical: code == SI_KERNEL,
        pc,
        rbp: registers[libc::REG_RBP as usize] as usize,
        rsp: registers[libc::REG_RSP as usize] as usize,
        pattern: registers[..16].iter().find_map(|r| pattern_of(*r as u64)),
    }));
    go_to(registers, landing, top);
}

/// The registers of a thread, as a signal finds them.
pub(crate) type Registers = [i64; 23];

/// The thread goes on in `landing`, on the stack that ends at `top`, when the handler returns.
fn go_to(registers: &mut Registers, landing: extern "C" fn() -> !, top: usize) {
    const DIRECTION_AND_TRAP: i64 = 1 << 10 | 1 << 8;
    registers[libc::REG_RIP as usize] = landing as *const () as usize as i64;
    registers[libc::REG_RSP as usize] = (top - 8) as i64;
    registers[libc::REG_EFL as usize] &= !DIRECTION_AND_TRAP;
}

/// For a handler that finds the thread in module text: it goes on in `landing` instead, which finds by [`taken_at`] where it was.
/// False if it is on its way to one already.
pub(crate) fn take(registers: &mut Registers, landing: extern "C" fn() -> !) -> bool {
    let top = LANDING_TOP.get();
    if top == 0 || RAW.get().is_some() {
        return false;
    }
    let [pc, rbp, rsp] =
        [libc::REG_RIP, libc::REG_RBP, libc::REG_RSP].map(|r| registers[r as usize] as usize);
    RAW.set(Some(Raw { pc, rbp, rsp, ..Raw::default() }));
    go_to(registers, landing, top);
    true
}

/// Where [`take`] took the calling thread.
pub(crate) fn taken_at() -> Call {
    let raw = RAW.take().unwrap_or_default();
    current::call().at(raw.pc, raw.rbp, raw.rsp)
}

/// Puts the earlier handler back and lets the instruction fault again.
fn hand_back(signal: i32) {
    let index = SIGNALS.iter().position(|(s, _)| *s == signal).unwrap_or(0);
    if let Some(old) = OLD.get() {
        // SAFETY: `old` is what `sigaction` returned for this signal.
        unsafe { libc::sigaction(signal, &raw const old[index], ptr::null_mut()) };
    }
}

fn pattern_of(value: u64) -> Option<&'static str> {
    match value >> 32 {
        0xdead_beef => Some("a register holds 0xdeadbeef: memory that was freed"),
        0xbadd_cafe => Some("a register holds 0xbaddcafe: memory that was never initialised"),
        high if high >> 24 == 0x5a => Some("a register holds an opaque handle: it is not to be dereferenced"),
        _ => None,
    }
}

/// Where a faulted thread continues: makes the report, halts the machine, ends the thread.
extern "C" fn landing() -> ! {
    let me = current::thread();
    let raw = RAW.get().unwrap_or_default();
    let halt = report(&me, raw);
    me.machine.0.halt(halt);
    RAW.set(None);
    sim::thread::abandon_here()
}

fn report(me: &ThreadInner, raw: Raw) -> Halt {
    let call = current::call();
    let hosts = kernels(&me.machine).all.lock().clone();
    let find = |addr: usize| hosts.iter().find_map(|h| h.module_ever_at(addr));
    let at = faulted_at(me, raw, call);
    let in_text = at.pc() == raw.pc || raw.pc == raw.address;
    let entered = || me.local().work().entries.iter().rev().find_map(|e| e.module.clone());
    let module = find(at.pc()).or_else(entered);
    let name = module.as_ref().map_or_else(String::new, |m| m.name().to_owned());
    let in_call = if in_text || call.import().is_null() {
        String::new()
    } else {
        import_of(call.import()).name.clone()
    };
    let host = me.local().work().kernel.as_ref().map_or_else(String::new, |k| k.name().to_owned());
    let backtrace = backtrace::of_thread(me, at);
    // A broken rule is somebody's doing: that of the entry point, when no call of the kernel was in progress.
    let entry = || me.local().work().entries.last().map_or_else(String::new, |e| e.kind.name.to_owned());
    let violation = |rule: Rule, call: String, detail: String| {
        let call = if call.is_empty() { entry() } else { call };
        Halt::Violation(Box::new(Violation {
            rule,
            host: host.clone(),
            module: name.clone(),
            call,
            thread: me.name.to_string(),
            ctx: me.ctx(),
            detail,
            backtrace: backtrace.clone(),
        }))
    };
    if let Some(gone) = find(raw.pc).filter(Module::is_unloaded) {
        return violation(
            Rule::BadThreadExit,
            in_call,
            format!("ran text of {} after its unload", gone.name()),
        );
    }
    if let Some((rule, what)) =
        hosts.iter().find_map(|h| h.trap_at(raw.address)).filter(|_| !raw.non_canonical)
    {
        return violation(rule, in_call, format!("{what}: access to {:#x}", raw.address));
    }
    let injected = me.local().injected.clone();
    if let (Some(failed), true) = (injected, raw.address < GUARD && !raw.non_canonical && in_text) {
        let detail = format!("NULL dereferenced (address {:#x}) after {failed} had failed", raw.address);
        return violation(Rule::UncheckedAllocation, failed, detail);
    }
    Halt::Fault(Box::new(Fault {
        signal: SIGNALS.iter().find(|(s, _)| *s == raw.signal).map_or("?", |(_, text)| text),
        address: raw.address as u64,
        host: host.clone(),
        thread: me.name.to_string(),
        module: name.clone(),
        call: in_call,
        hint: hint(me, raw, find(raw.address)),
        backtrace,
    }))
}

/// The innermost frame. After a call through a bad pointer the return address is on top of the stack; in text it is the faulting
/// instruction; in the lab it is the module's call.
fn faulted_at(me: &ThreadInner, raw: Raw, call: Call) -> Call {
    if module::in_window_range(raw.pc) {
        return call.at(raw.pc, raw.rbp, raw.rsp);
    }
    let top = me.stack_top.get().copied().unwrap_or(0);
    if raw.pc == raw.address && raw.rsp + 8 <= top && raw.rsp.is_multiple_of(8) {
        let slot = std::ptr::with_exposed_provenance::<usize>(raw.rsp);
        // SAFETY: a call has just pushed there, on this thread's own stack.
        let pc = unsafe { slot.read_volatile() };
        if module::in_window_range(pc) {
            return call.at(pc, raw.rbp, raw.rsp);
        }
    }
    call
}

fn hint(me: &ThreadInner, raw: Raw, owner: Option<Module>) -> String {
    let stack_top = me.stack_top.get().copied().unwrap_or(0);
    if raw.non_canonical {
        return raw.pattern.unwrap_or("no canonical address").to_owned();
    }
    if raw.address < GUARD {
        return format!("NULL plus {:#x}", raw.address);
    }
    if raw.address < stack_top && raw.address + (1 << 20) > stack_top && raw.address + GUARD > raw.rsp {
        return "the kernel stack overflowed".to_owned();
    }
    match owner {
        Some(m) if m.is_unloaded() => format!("memory of {}, which has been unloaded", m.name()),
        Some(m) => format!("text or read-only data of {}", m.name()),
        None => raw.pattern.unwrap_or_default().to_owned(),
    }
}
