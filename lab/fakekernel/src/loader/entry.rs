//! From the lab into a module.

use std::arch::asm;
use std::sync::atomic::Ordering;

use sim::current::{self, Call, Stack};
use sim::race::{self, Key};
use sim::thread::ThreadInner;
use sim::{Ctx, Rule, driver_locks};

use crate::loader::cx::Cx;
use crate::loader::kernel::Kernel;
use crate::loader::kernels::Working;
use crate::loader::module::Module;

/// What kind of call into a module this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryKind {
    /// Name for reports: the entry point, e.g. "attach", "mc_tx".
    pub name: &'static str,
    /// The context the callee runs in; `None` keeps the caller's.
    pub ctx: Option<Ctx>,
    /// What kind of caller, for the rules that depend on it.
    pub role: Role,
    /// Bytes that the callee's frames may take of the stack (rule 38).
    pub stack: usize,
    /// What it comes after, whichever thread did that (rule 54).
    pub after: Option<Key>,
    /// What comes after it.
    pub before: Option<Key>,
    /// A thread that whoever takes its callback back does not wait for.
    pub fleeting: bool,
}

/// Of a kernel stack of 20 KiB, what a module's frames may take in one call chain, however often it was entered.
pub(crate) const CHAIN_STACK: usize = 12 << 10;
/// What they may take of one entry.
const ENTRY_STACK: usize = 6 << 10;
/// What they may take where sockets, IP and a file system, or an adapter's driver, have taken theirs before.
const PACKET_STACK: usize = 3 << 10;

/// Roles of entries that rules distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An entry point or callback.
    Callback,
    /// A thread's start routine.
    ThreadStart,
    /// A timeout handler (rule 25).
    TimeoutHandler,
    /// A soft interrupt handler (rule 26).
    SoftInterrupt,
}

impl EntryKind {
    /// An entry point or callback in the caller's context.
    pub const fn callback(name: &'static str) -> Self {
        Self {
            name,
            ctx: None,
            role: Role::Callback,
            stack: ENTRY_STACK,
            after: None,
            before: None,
            fleeting: false,
        }
    }

    /// The same in another context.
    pub const fn callback_in(name: &'static str, ctx: Ctx) -> Self {
        Self { ctx: Some(ctx), ..Self::callback(name) }
    }

    /// The same in another role.
    pub const fn in_role(self, role: Role) -> Self {
        Self { role, ..self }
    }

    /// The same after whatever was let go of under this key.
    #[must_use]
    pub const fn after(self, key: Key) -> Self {
        Self { after: Some(key), ..self }
    }

    /// The same after whatever was let go of under this key, which it then lets go of itself.
    #[must_use]
    pub const fn in_turn(self, key: Key) -> Self {
        Self { after: Some(key), before: Some(key), ..self }
    }

    /// The same with this let go of at its end.
    #[must_use]
    pub const fn leaving(self, key: Key) -> Self {
        Self { before: Some(key), ..self }
    }

    /// The same by a thread that nobody waits for, neither the interface nor, before the handler's first instruction, the module: it is
    /// over before the module's `_fini`, as an interrupt is.
    #[must_use]
    pub const fn fleeting(self) -> Self {
        Self { fleeting: true, ..self }
    }

    /// The start routine of a thread, which has the stack for itself.
    pub const fn thread_start() -> Self {
        Self { stack: CHAIN_STACK, ..Self::callback("thread").in_role(Role::ThreadStart) }
    }

    /// The same where packets pass: much of the stack is in use.
    pub const fn on_packet_path(self) -> Self {
        Self { stack: PACKET_STACK, ..self }
    }
}

/// An entry in progress: what to put back and what to compare when it returns.
pub(crate) struct EntryRecord {
    pub module: Option<Module>,
    pub kind: EntryKind,
    outer_call: Call,
    outer_stack: Stack,
    outer_kernel: Option<Kernel>,
    outer_ctx: Ctx,
    raised: u8,
    locks: Vec<usize>,
    words: ControlWords,
}

impl EntryRecord {
    /// The call that the lab was serving when it entered the module.
    pub(crate) fn outer_call(&self) -> Call {
        self.outer_call
    }
}

/// Calls `f` as module code (of `module`, or lab code standing in for one) with everything recorded and checked.
///
/// # Safety
///
/// `f` may be called with `args`.
pub(crate) unsafe fn enter<F: ModuleFn>(
    module: Option<&Module>,
    kernel: &Kernel,
    f: F,
    args: F::Args,
    kind: EntryKind,
) -> F::Ret {
    let me = current::thread();
    if !me.machine.0.config.checks {
        let _outer = Unrecorded::new(&me, kernel, kind, stack_pointer());
        // SAFETY: by this function's contract.
        return unsafe { f.call(args) };
    }
    kind.after.into_iter().for_each(race::acquire);
    begin(&me, module, kernel, kind, stack_pointer());
    // SAFETY: by this function's contract.
    let value = unsafe { f.call(args) };
    end(&me);
    kind.before.into_iter().for_each(race::release);
    value
}

/// An entry in a machine without checks: what to put back, and nothing to compare.
struct Unrecorded<'a> {
    me: &'a ThreadInner,
    call: Call,
    stack: Stack,
    ctx: Option<Ctx>,
    /// The host the thread worked for, if it was another.
    kernel: Option<Option<Kernel>>,
    home: *const (),
}

impl<'a> Unrecorded<'a> {
    fn new(me: &'a ThreadInner, kernel: &Kernel, kind: EntryKind, sp: usize) -> Self {
        me.machine.0.point(me);
        let stack = current::stack();
        let mut local = me.local();
        let another = local.work().kernel.as_ref().is_none_or(|own| own.index() != kernel.index());
        let before = another.then(|| local.work_mut().kernel.replace(kernel.clone()));
        drop(local);
        let ctx = kind.ctx.map(|ctx| me.set_ctx(ctx));
        // SAFETY: valid as long as the run, by the contract of `Services::home`.
        let home = unsafe { current::set_home(kernel.services().home(kernel)) };
        let entry = Self { me, call: current::call(), stack, ctx, kernel: before, home };
        current::set_stack(Stack { base: sp, outer: stack.outer, depth: stack.depth + 1, limit: kind.stack });
        current::set_call(Call::NONE);
        entry
    }
}

impl Drop for Unrecorded<'_> {
    fn drop(&mut self) {
        if let Some(ctx) = self.ctx {
            self.me.set_ctx(ctx);
        }
        if let Some(kernel) = self.kernel.take() {
            self.me.local().work_mut().kernel = kernel;
        }
        // SAFETY: it was so before the entry.
        unsafe { current::set_home(self.home) };
        current::set_stack(self.stack);
        current::set_call(self.call);
    }
}

fn begin(me: &ThreadInner, module: Option<&Module>, kernel: &Kernel, kind: EntryKind, sp: usize) {
    sim::assert_none_held("a call into a module");
    let ctx = kind.ctx.unwrap_or_else(|| me.ctx());
    // Counted before it can be held up: what it is about to enter stays until it is through.
    if let Some(module) = module.filter(|_| kind.fleeting || !ctx.may_block()) {
        module.0.fleeting.fetch_add(1, Ordering::AcqRel);
    }
    me.machine.0.point(me);
    if let Some(module) = module {
        module.0.inside.fetch_add(1, Ordering::AcqRel);
    }
    let outer_call = current::call();
    let outer_stack = current::stack();
    let outer_ctx = kind.ctx.map_or_else(|| me.ctx(), |ctx| me.set_ctx(ctx));
    let mut local = me.local();
    let record = EntryRecord {
        module: module.cloned(),
        kind,
        outer_call,
        outer_stack,
        outer_kernel: local.work_mut().kernel.replace(kernel.clone()),
        outer_ctx,
        raised: local.raised,
        locks: driver_locks(&local.held),
        words: ControlWords::read(),
    };
    local.work_mut().entries.push(record);
    drop(local);
    let outer = outer_stack.outer
        + if outer_stack.depth > 0 { outer_stack.base.saturating_sub(outer_call.sp()) } else { 0 };
    current::set_stack(Stack { base: sp, outer, depth: outer_stack.depth + 1, limit: kind.stack });
    current::set_call(Call::NONE);
}

fn end(me: &ThreadInner) {
    let words = ControlWords::read();
    let (record, now_locks, raised) = {
        let mut local = me.local();
        let record = local.work_mut().entries.pop().expect("every entry that ends has begun");
        (record, driver_locks(&local.held), local.raised)
    };
    if me.machine.0.config.checks {
        check_return(&record, &now_locks, raised, words);
        check_frames(me, &record);
    }
    leave(me, record);
}

/// Puts back what the entry changed.
fn leave(me: &ThreadInner, record: EntryRecord) {
    if let Some(module) = &record.module {
        module.0.inside.fetch_sub(1, Ordering::AcqRel);
        if record.kind.fleeting || !me.ctx().may_block() {
            race::release(module.fleeting());
            module.0.fleeting.fetch_sub(1, Ordering::AcqRel);
        }
    }
    if record.kind.ctx.is_some() {
        me.set_ctx(record.outer_ctx);
    }
    me.local().work_mut().kernel = record.outer_kernel;
    current::set_stack(record.outer_stack);
    current::set_call(record.outer_call);
}

/// Ends every entry of a thread that will not return through them (`thread_exit`).
pub(crate) fn leave_all(me: &ThreadInner) {
    loop {
        let Some(record) = me.local().work_mut().entries.pop() else { return };
        leave(me, record);
    }
}

fn check_return(record: &EntryRecord, locks: &[usize], raised: u8, words: ControlWords) {
    let entry = record.kind.name;
    let broken =
        |rule: Rule, detail: String| Cx::of_entry(record.module.as_ref(), entry).violate(rule, detail);
    // Comparing two lists of nothing takes the processor a hundred times as long as seeing that they are.
    if !(locks.is_empty() && record.locks.is_empty()) && locks != record.locks {
        let rule =
            if record.kind.role == Role::ThreadStart { Rule::BadThreadExit } else { Rule::LockBalance };
        broken(rule, lock_difference(&record.locks, locks));
    }
    if raised != record.raised {
        broken(Rule::PilBalance, format!("returned at PIL {raised}, entered at {}", record.raised));
    }
    if words != record.words {
        broken(Rule::FloatingPoint, format!("entered with {:x?}, returned with {words:x?}", record.words));
    }
}

/// Rule 9 for the stack: what the entry's frames contained is gone now.
fn check_frames(me: &ThreadInner, record: &EntryRecord) {
    let Some(module) = &record.module else { return };
    let low = me.stack_bottom();
    let len = current::stack().base.saturating_sub(low);
    if let Some(live) = module.kernel().services().live_lock_in(low, len) {
        module.kernel().forget_memory(low, len);
        let detail = format!("returned with a live object on its stack: {} at {:#x}", live.what, live.addr);
        Cx::of_entry(Some(module), record.kind.name).violate(Rule::LiveObjectInFreedMemory, detail);
    }
}

fn lock_difference(before: &[usize], after: &[usize]) -> String {
    let kept: Vec<String> = after.iter().filter(|l| !before.contains(l)).map(|l| format!("{l:#x}")).collect();
    let lost: Vec<String> = before.iter().filter(|l| !after.contains(l)).map(|l| format!("{l:#x}")).collect();
    match (kept.is_empty(), lost.is_empty()) {
        (false, true) => format!("still holds {}", kept.join(", ")),
        (true, false) => format!("released {}, taken by its caller", lost.join(", ")),
        _ => format!("still holds {}; released {}, taken by its caller", kept.join(", "), lost.join(", ")),
    }
}

/// Floating-point control state and the flags that compiled code relies on (rule 39).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ControlWords {
    mxcsr: u32,
    x87: u16,
    /// Direction and alignment-check flags.
    flags: u64,
}

impl ControlWords {
    fn read() -> Self {
        const MXCSR_CONTROL: u32 = 0xffc0;
        const DF_AC: u64 = 1 << 10 | 1 << 18;
        let (mut mxcsr, mut x87) = (0u32, 0u16);
        let flags: u64;
        // SAFETY: stores the control and status register into a local.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack, preserves_flags)) };
        // SAFETY: stores the control word into a local.
        unsafe { asm!("fnstcw [{}]", in(reg) &raw mut x87, options(nostack, preserves_flags)) };
        // SAFETY: reads the flags through the stack.
        unsafe { asm!("pushfq", "pop {}", out(reg) flags, options(preserves_flags)) };
        if flags & DF_AC != 0 {
            // Only then: setting flags takes longer than the rest of an entry.
            // SAFETY: puts direction and alignment check as the ABI wants them, the other flags as they were a moment ago.
            unsafe { asm!("push {}", "popfq", in(reg) flags & !DF_AC) };
        }
        Self { mxcsr: mxcsr & MXCSR_CONTROL, x87, flags: flags & DF_AC }
    }
}

#[inline(always)]
fn stack_pointer() -> usize {
    let sp: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) sp, options(nomem, nostack, preserves_flags)) };
    sp
}

mod sealed {
    pub trait Sealed {}
}

/// An `extern "C"` function pointer of 0 to 10 arguments.
pub trait ModuleFn: Copy + sealed::Sealed {
    /// Its arguments as a tuple.
    type Args;
    /// What it returns.
    type Ret;
    /// Its address.
    fn addr(self) -> usize;
    /// The function at an address.
    ///
    /// # Safety
    ///
    /// One of this prototype is there.
    unsafe fn at(addr: usize) -> Self;
    /// Calls it.
    ///
    /// # Safety
    ///
    /// As the function demands.
    unsafe fn call(self, args: Self::Args) -> Self::Ret;
}

macro_rules! module_fn {
    ($($arg:ident)*) => {
        impl<R, $($arg),*> sealed::Sealed for unsafe extern "C" fn($($arg),*) -> R {}
        impl<R, $($arg),*> ModuleFn for unsafe extern "C" fn($($arg),*) -> R {
            type Args = ($($arg,)*);
            type Ret = R;
            unsafe fn at(addr: usize) -> Self {
                // SAFETY: by the trait's contract; a function pointer is a pointer.
                unsafe { std::mem::transmute::<*const (), Self>(std::ptr::with_exposed_provenance(addr)) }
            }
            fn addr(self) -> usize {
                self as *const () as usize
            }
            #[allow(non_snake_case)]
            unsafe fn call(self, ($($arg,)*): Self::Args) -> R {
                // SAFETY: by this function's contract.
                unsafe { self($($arg),*) }
            }
        }
    };
}

module_fn!();
module_fn!(A);
module_fn!(A B);
module_fn!(A B C);
module_fn!(A B C D);
module_fn!(A B C D E);
module_fn!(A B C D E F);
module_fn!(A B C D E F G);
module_fn!(A B C D E F G H);
module_fn!(A B C D E F G H I);
module_fn!(A B C D E F G H I J);
