//! Walking module frames. Modules keep frame pointers, the lab does not: a walk covers the module frames of one entry and goes on with
//! those of the entry around it.

use sim::current::Call;
use sim::thread::ThreadInner;
use sim::{Frame, Held, HeldKind, ThreadDump};

use crate::loader::kernel::Kernel;
use crate::loader::kernels::Working;
use crate::loader::kernels::kernels;

/// Frames of one walk at most.
const DEPTH: usize = 32;

/// Return addresses from `at` on, innermost first: those of one entry.
pub(crate) fn pcs(thread: &ThreadInner, at: Call, depth: usize) -> Vec<usize> {
    let mut pcs = Vec::new();
    walk(thread, at, depth, |pc| pcs.push(pc));
    pcs
}

/// The first `N` of them; 0 where there are fewer.
pub(crate) fn innermost<const N: usize>(thread: &ThreadInner, at: Call) -> [usize; N] {
    let mut pcs = [0; N];
    let mut places = pcs.iter_mut();
    walk(thread, at, N, |pc| {
        if let Some(place) = places.next() {
            *place = pc;
        }
    });
    pcs
}

fn walk(thread: &ThreadInner, at: Call, depth: usize, mut visit: impl FnMut(usize)) {
    if at.pc() == 0 || depth == 0 {
        return;
    }
    visit(at.pc());
    let top = thread.stack_top.get().copied().unwrap_or(0);
    let (mut rbp, mut floor) = (at.rbp(), at.sp().saturating_sub(16));
    for _ in 1..depth {
        if rbp < floor || rbp + 16 > top || !rbp.is_multiple_of(8) {
            break;
        }
        let frame = std::ptr::with_exposed_provenance::<[usize; 2]>(rbp);
        // SAFETY: between the stack pointer of a thread that is stopped here and the top of its stack.
        let [next, pc] = unsafe { frame.read_volatile() };
        if !crate::loader::module::in_window_range(pc) {
            break;
        }
        visit(pc);
        floor = rbp + 16;
        rbp = next;
    }
}

/// The module frames of a thread that is at `at`, through all its entries.
pub(crate) fn of_thread(thread: &ThreadInner, at: Call) -> Vec<Frame> {
    let outer: Vec<Call> = thread.local().work().entries.iter().rev().map(|e| e.outer_call()).collect();
    let mut frames = Vec::new();
    for call in std::iter::once(at).chain(outer) {
        frames.extend(pcs(thread, call, DEPTH).into_iter().map(|pc| frame(&thread.machine, pc)));
    }
    frames
}

/// The function at `pc`, in whichever host's module.
pub(crate) fn frame(machine: &sim::Machine, pc: usize) -> Frame {
    let hosts = kernels(machine).all.lock().clone();
    match hosts.iter().find_map(|host| host.module_ever_at(pc)) {
        // A return address may be the first byte after a function that ends in a call.
        Some(module) => module.frame(pc),
        None => Frame { module: "lab".to_owned(), symbol: String::new(), offset: pc as u64 },
    }
}

/// What a thread is doing.
pub(crate) fn dump_thread(thread: &ThreadInner) -> ThreadDump {
    let (kernel, held, parked, waits_for) = {
        let local = thread.local();
        (local.work().kernel.clone(), local.held.clone(), local.parked, local.waits_for)
    };
    let waits_for = match waits_for {
        None => "running".to_owned(),
        Some(w) if w.addr == 0 => w.what.to_owned(),
        Some(w) => match &kernel {
            Some(kernel) => format!("{} {}", w.what, kernel.services().describe_lock(w.addr)),
            None => format!("{} {:#x}", w.what, w.addr),
        },
    };
    let last_call = if parked.import().is_null() {
        String::new()
    } else {
        crate::loader::cx::import_of(parked.import()).name.clone()
    };
    ThreadDump {
        name: thread.name.to_string(),
        host: kernel.as_ref().map_or_else(String::new, |k| k.name().to_owned()),
        waits_for,
        holds: held.iter().map(|h| lock_words(h, kernel.as_ref())).collect(),
        last_call,
        backtrace: of_thread(thread, parked),
    }
}

/// A lock that a thread of `kernel` holds: what kind, where, and taken by whom.
pub(crate) fn lock_words(lock: &Held, kernel: Option<&Kernel>) -> String {
    let what = match lock.kind {
        HeldKind::Lab(name) => return format!("{name} (lab lock)"),
        HeldKind::Adaptive => "mutex",
        HeldKind::Spin { .. } => "spin mutex",
        HeldKind::Reader => "rwlock (reader)",
        HeldKind::Writer => "rwlock (writer)",
    };
    match kernel {
        Some(k) if lock.pc != 0 => {
            format!(
                "{what} {} taken at {}",
                k.services().describe_lock(lock.addr),
                frame(k.machine(), lock.pc)
            )
        }
        Some(k) => format!("{what} {}", k.services().describe_lock(lock.addr)),
        None => format!("{what} {:#x}", lock.addr),
    }
}
