//! Soft interrupts: `ddi_add_softintr`, `ddi_trigger_softintr`, `ddi_remove_softintr`.
//!
//! Pending is one bit per handler and processor: triggers on one processor run the handler once, triggers on two run it twice, perhaps at
//! the same time. The bit is cleared before the handler runs.

use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use illumos_sys_hdrs::{caddr_t, ddi_iblock_cookie_t, ddi_idevice_cookie_t, ddi_softintr_t, dev_info_t};
use sim::race::{self, Key};
use sim::{Ctx, FaultKind, HostMutex, Rule, SeenLocks, Thread, WaitQueue, driver_locks};

use crate::export;
use crate::loader::backtrace::frame;
use crate::loader::cx::{Cx, cx};
use crate::loader::entry::{EntryKind, Role};
use crate::loader::export::Export;
use crate::loader::handles::Handles;
use crate::loader::kernel::Kernel;
use crate::loader::services::LiveObject;

pub(crate) type Handler = unsafe extern "C" fn(caddr_t) -> c_uint;

const DDI_SUCCESS: c_int = 0;
const DDI_FAILURE: c_int = -1;
const DDI_SOFTINT_HIGH: c_int = 256;
const PIL_LOW: u8 = 4;
const PIL_HIGH: u8 = 6;

struct SoftIntr {
    kernel: Kernel,
    pil: u8,
    handler: Handler,
    arg: usize,
    state: HostMutex<State>,
    idle: WaitQueue,
    seen: SeenLocks,
}

#[derive(Default)]
struct State {
    /// A bit per processor.
    pending: u64,
    /// A bit per processor: an interrupt thread has been asked to look, or is in the handler.
    active: u64,
    runners: Vec<Thread>,
    removed: bool,
}

struct Table(Handles<SoftIntr>);

pub(crate) fn exports() -> Vec<Export> {
    export! {
        UK: ddi_add_softintr, ddi_remove_softintr;
        ANY: ddi_trigger_softintr;
    }
}

fn table(kernel: &Kernel) -> Arc<Table> {
    kernel.state(|| Table(Handles::new("ddi_softintr_t")))
}

/// A soft interrupt of a host's modules.
#[derive(Clone, Copy, Debug)]
pub struct SoftInterrupt {
    /// What it is triggered by.
    pub id: usize,
    /// What runs.
    pub handler: Handler,
    /// Its argument, the module's.
    pub argument: usize,
}

impl Kernel {
    /// The soft interrupts that modules have, for whoever runs them in the kernel's place.
    pub fn soft_interrupts(&self) -> Vec<SoftInterrupt> {
        let live = table(self).0.with_handles().into_iter();
        live.map(|(id, soft)| SoftInterrupt { id: id.addr(), handler: soft.handler, argument: soft.arg })
            .collect()
    }
}

/// A handler whose argument lies in the range.
pub(crate) fn live_in(kernel: &Kernel, start: usize, len: usize) -> Option<LiveObject> {
    let range = start..start.saturating_add(len);
    let hit = table(kernel).0.all().into_iter().find(|s| range.contains(&s.arg))?;
    Some(LiveObject { addr: hit.arg, what: "the argument of a soft interrupt handler".into(), busy: true })
}

unsafe extern "C" fn ddi_add_softintr(
    _dip: *mut dev_info_t,
    preference: c_int,
    id: *mut ddi_softintr_t,
    ibc: *mut ddi_iblock_cookie_t,
    idev: *mut ddi_idevice_cookie_t,
    handler: Option<Handler>,
    arg: caddr_t,
) -> c_int {
    let cx = cx();
    cx.may_block();
    let Some(handler) = handler.filter(|_| !cx.fault(FaultKind::DDI)) else { return DDI_FAILURE };
    let pil = if preference == DDI_SOFTINT_HIGH { PIL_HIGH } else { PIL_LOW };
    let kernel = cx.kernel();
    let handle = table(kernel).0.insert(SoftIntr {
        kernel: kernel.clone(),
        pil,
        handler,
        arg: arg.expose_provenance(),
        state: HostMutex::default(),
        idle: WaitQueue::new("a soft interrupt handler to return"),
        seen: SeenLocks::default(),
    });
    // SAFETY: the caller's `ddi_softintr_t`.
    unsafe { id.write(handle.cast()) };
    if !ibc.is_null() {
        // SAFETY: not NULL, so the caller's `ddi_iblock_cookie_t`.
        unsafe { ibc.write(std::ptr::without_provenance_mut(pil.into())) };
    }
    if !idev.is_null() {
        // SAFETY: not NULL, so the caller's `ddi_idevice_cookie_t`.
        unsafe { idev.cast::<u32>().write(0) };
    }
    let detail = format!("handler {}", frame(kernel.machine(), handler as *const () as usize));
    kernel.resources().add_for(&cx, "softintr", handle.addr() as u64, detail);
    DDI_SUCCESS
}

unsafe extern "C" fn ddi_trigger_softintr(id: ddi_softintr_t) {
    if id.is_null() {
        return;
    }
    let cx = cx();
    let soft = match table(cx.kernel()).0.get(id) {
        Ok(soft) => soft,
        Err(error) => return cx.violate(Rule::BadSoftintr, format!("triggered: {error}")),
    };
    race::release(soft.key());
    let cpu = cx.thread().cpu();
    let bit = 1u64 << (cpu % 64);
    {
        let mut state = soft.state.lock();
        state.pending |= bit;
        if state.active & bit != 0 {
            return;
        }
        state.active |= bit;
    }
    let (kernel, pil) = (soft.kernel.clone(), soft.pil);
    kernel.interrupt("softint", Ctx::Soft { pil }, cpu, move || serve(&soft, bit));
}

impl SoftIntr {
    /// What triggers leave for the handler, and calls of the handler for whoever removes it.
    fn key(&self) -> Key {
        Key("soft interrupt", (&raw const *self).addr() as u64)
    }
}

/// Runs the handler on one processor until nothing is pending there.
fn serve(soft: &SoftIntr, bit: u64) {
    let me = Thread::current();
    loop {
        {
            let mut state = soft.state.lock();
            if state.removed || state.pending & bit == 0 {
                state.active &= !bit;
                drop(state);
                soft.idle.wake_all();
                return;
            }
            state.pending &= !bit;
            state.runners.push(me.clone());
        }
        me.0.local().handler_locks = Some(soft.seen.clone());
        let kind = EntryKind::callback_in("soft interrupt handler", Ctx::Soft { pil: soft.pil })
            .in_role(Role::SoftInterrupt)
            .in_turn(soft.key())
            .on_packet_path();
        let arg = std::ptr::with_exposed_provenance_mut(soft.arg);
        // SAFETY: the module gave handler and argument for each other.
        unsafe { soft.kernel.enter(soft.handler, (arg,), kind) };
        me.0.local().handler_locks = None;
        soft.state.lock().runners.retain(|t| t.did() != me.did());
        soft.idle.wake_all();
    }
}

unsafe extern "C" fn ddi_remove_softintr(id: ddi_softintr_t) {
    if id.is_null() {
        return;
    }
    let cx = cx();
    let soft = match table(cx.kernel()).0.get(id) {
        Ok(soft) => soft,
        Err(error) => return cx.violate(Rule::BadSoftintr, format!("removed: {error}")),
    };
    check_locks(&cx, &soft);
    let mut state = soft.state.lock();
    state.removed = true;
    while !state.runners.is_empty() {
        state = soft.idle.wait(state);
    }
    drop(state);
    race::acquire(soft.key());
    // Somebody else may have removed it while this thread waited.
    if table(cx.kernel()).0.remove(id).is_err() {
        cx.violate(Rule::BadSoftintr, "removed twice at the same time");
    }
    cx.kernel().resources().remove("softintr", id.addr() as u64);
}

/// Rule 26: removal waits for the handler, so the caller may not hold what the handler takes.
fn check_locks(cx: &Cx, soft: &SoftIntr) {
    let held = driver_locks(&cx.thread().0.local().held);
    let runners = soft.state.lock().runners.clone();
    let waits = |addr: &usize| runners.iter().any(|t| t.0.local().waits_for.is_some_and(|w| w.addr == *addr));
    let taken = |addr: &&usize| soft.seen.lock().contains(addr) || waits(addr);
    if let Some(lock) = held.iter().find(taken) {
        let lock = cx.kernel().locks().describe(*lock);
        cx.check(false, Rule::BadSoftintr, || {
            format!("removed while holding {lock}, which the handler takes")
        });
    }
}
