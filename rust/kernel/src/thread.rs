//! Long-lived kernel threads: suspend-aware, and joined before their text can go.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use illumos_sys_hdrs as sys;

use crate::may_block::MayBlock;
use crate::module::Pin;
use crate::sync::{Monitor, MonitorGuard};
use crate::time::Instant;
use crate::{KArc, KBox};

/// Bits of `cc_events` in `callb_cpr_t` (`sys/callb.h`; the header has them inside macros only).
const CPR_START: c_char = 1;
const CPR_SAFE: c_char = 2;

/// A kernel thread that waits in a [`Monitor`].
///
/// Dropping the worker asks the thread to stop ([`Parker::should_stop`]), wakes it and waits until it has gone: the
/// body must return soon after, and must not need a lock that the dropping thread holds. **May block** (creation and
/// drop). Dropped by its own body, a worker does not wait: the thread keeps the module loaded until it ends. So does one that is
/// forgotten.
pub struct Worker<S: Send + 'static> {
    shared: KArc<Shared<S>>,
}

/// # Invariants
///
/// `cpr` does not move (the block is behind a `KArc`), and its fields are read and written under the monitor's lock,
/// by the thread and by the kernel's `callb_generic_cpr`, which is given that lock in `cc_lockp`.
struct Shared<S> {
    monitor: KArc<Monitor<S>>,
    stop: AtomicBool,
    /// The thread's id once it runs, 0 before.
    id: AtomicU64,
    /// The thread's entry in the kernel's checkpoint/resume table.
    cpr: UnsafeCell<sys::callb_cpr>,
    /// For a worker that is forgotten.
    _pin: Pin,
}

// SAFETY: everything but `cpr` is `Send` by itself; `cpr` is a plain record, see the invariants.
unsafe impl<S: Send> Send for Shared<S> {}
// SAFETY: `cpr` is accessed under the monitor's lock only.
unsafe impl<S: Send> Sync for Shared<S> {}

impl<S: Send + 'static> Worker<S> {
    /// Starts `body` on a new thread of system priority.
    ///
    /// `name` (at most 31 characters) is what a suspend that cannot stop the thread reports. Several workers may share
    /// a monitor. The body waits through its [`Parker`], never in the monitor directly, so that a suspend finds the
    /// thread at a safe point. Waits for memory, as `thread_create` does.
    pub fn spawn<F>(name: &'static CStr, monitor: KArc<Monitor<S>>, may_block: &MayBlock, body: F) -> Self
    where
        F: FnOnce(&Parker<'_, S>) + Send + 'static,
    {
        let shared = Shared {
            monitor,
            stop: AtomicBool::new(false),
            id: AtomicU64::new(0),
            cpr: UnsafeCell::default(),
            _pin: Pin::of_registration(),
        };
        let shared = KArc::new_waiting(shared, may_block);
        let start = Start { shared: shared.clone(), name, body, pin: Pin::of_registration() };
        let start = KBox::new_waiting(start, may_block);
        let arg = start.into_raw().as_ptr().cast();
        // SAFETY: the prototype leaves the argument list open; the kernel passes `arg` as the only argument.
        let entry =
            unsafe { core::mem::transmute::<unsafe extern "C" fn(*mut c_void), ThreadEntry>(run::<S, F>) };
        // SAFETY: only the address of the kernel's process 0 is used.
        let p0 = &raw mut sys::p0;
        // SAFETY: minclsyspri is a constant of the running kernel.
        let priority = unsafe { sys::minclsyspri };
        // SAFETY: a kernel-sized stack (NULL, 0); `arg` is consumed by `run`, once; the call never fails.
        unsafe { sys::thread_create(ptr::null_mut(), 0, entry, arg, 0, p0, sys::TS_RUN, priority) };
        Self { shared }
    }

    /// Asks the body to return, without waiting. **Any** context.
    pub fn request_stop(&self) {
        let guard = self.shared.monitor.lock();
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.monitor.notify_all();
        drop(guard);
    }

    /// The monitor the thread waits in.
    pub fn monitor(&self) -> &KArc<Monitor<S>> {
        &self.shared.monitor
    }

    fn wait_until_started(&self) -> u64 {
        let mut guard = self.shared.monitor.lock();
        loop {
            let id = self.shared.id.load(Ordering::Relaxed);
            if id != 0 {
                return id;
            }
            guard.wait();
        }
    }
}

type ThreadEntry = Option<unsafe extern "C" fn()>;

impl<S: Send + 'static> Drop for Worker<S> {
    fn drop(&mut self) {
        self.request_stop();
        let id = self.wait_until_started();
        // SAFETY: names the calling thread.
        if id != unsafe { sys::ddi_get_kt_did() } {
            // SAFETY: not the thread itself; an id whose thread has gone returns at once. May block, as documented.
            unsafe { sys::thread_join(id) };
        }
    }
}

struct Start<S, F> {
    shared: KArc<Shared<S>>,
    name: &'static CStr,
    body: F,
    /// For a worker that its own body drops: nothing waits for the thread then.
    pin: Pin,
}

/// # Safety
///
/// `arg` is a `KBox<Start<S, F>>` given up for this call; runs as the first function of a new thread.
unsafe extern "C" fn run<S, F>(arg: *mut c_void)
where
    S: Send + 'static,
    F: FnOnce(&Parker<'_, S>) + Send + 'static,
{
    let Some(arg) = ptr::NonNull::new(arg.cast::<Start<S, F>>()) else { return };
    // SAFETY: by this function's contract.
    let Start { shared, name, body, pin } = unsafe { KBox::from_raw(arg) }.into_inner();
    shared.announce();
    shared.register_cpr(name);
    // SAFETY: a kernel thread of the module's own, which ends after the body.
    let may_block = unsafe { MayBlock::new() };
    body(&Parker { shared: &shared, may_block });
    shared.unregister_cpr();
    drop(shared);
    drop(pin);
}

impl<S> Shared<S> {
    fn announce(&self) {
        let guard = self.monitor.lock();
        // SAFETY: names the calling thread.
        self.id.store(unsafe { sys::ddi_get_kt_did() }, Ordering::Relaxed);
        self.monitor.notify_all();
        drop(guard);
    }

    /// `CALLB_CPR_INIT`: on the thread, before the body. **May block.**
    fn register_cpr(&self, name: &'static CStr) {
        let cpr = self.cpr.get();
        // SAFETY: the kernel does not know the record yet, so this is the only access.
        unsafe { (*cpr).cc_lockp = self.monitor.lock_ptr() };
        // SAFETY: the record stays put until `unregister_cpr`; the class and the function belong together.
        let id = unsafe {
            sys::callb_add(
                Some(sys::callb_generic_cpr),
                cpr.cast(),
                sys::CB_CL_CPR_DAEMON,
                name.as_ptr().cast_mut(),
            )
        };
        // SAFETY: only this thread uses the id.
        unsafe { (*cpr).cc_id = id };
    }

    /// `CALLB_CPR_EXIT`: on the thread, after the body. **May block.**
    fn unregister_cpr(&self) {
        let guard = self.monitor.lock();
        self.cpr_safe_begin();
        drop(guard);
        let cpr = self.cpr.get();
        // SAFETY: written by this thread in `register_cpr`.
        let id = unsafe { (*cpr).cc_id };
        // SAFETY: the id is from callb_add; waits for a callback that is running. Not under the lock it takes.
        unsafe { sys::callb_delete(id) };
        // SAFETY: the kernel has forgotten the record: nobody waits.
        unsafe { sys::cv_destroy(self.callb_cv()) };
        // SAFETY: as above.
        unsafe { sys::cv_destroy(self.stop_cv()) };
    }

    fn callb_cv(&self) -> *mut sys::kcondvar_t {
        // SAFETY: the address of a field of a live record.
        unsafe { &raw mut (*self.cpr.get()).cc_callb_cv }
    }

    fn stop_cv(&self) -> *mut sys::kcondvar_t {
        // SAFETY: as above.
        unsafe { &raw mut (*self.cpr.get()).cc_stop_cv }
    }

    /// `CALLB_CPR_SAFE_BEGIN`, with the monitor's lock held.
    fn cpr_safe_begin(&self) {
        let cpr = self.cpr.get();
        // SAFETY: under the lock, see the invariants.
        let events = unsafe { &mut (*cpr).cc_events };
        *events |= CPR_SAFE;
        if *events & CPR_START != 0 {
            // SAFETY: zeroed memory is an initialised condition variable.
            unsafe { sys::cv_signal(self.callb_cv()) };
        }
    }

    /// `CALLB_CPR_SAFE_END`, with the monitor's lock held: sleeps while the system is suspended.
    fn cpr_safe_end(&self) {
        let cpr = self.cpr.get();
        loop {
            // SAFETY: under the lock, see the invariants; read anew after every sleep.
            let events = unsafe { (*cpr).cc_events };
            if events & CPR_START == 0 {
                break;
            }
            // SAFETY: the caller holds the monitor's lock, which is cc_lockp.
            unsafe { sys::cv_wait(self.stop_cv(), self.monitor.lock_ptr()) };
        }
        // SAFETY: under the lock.
        unsafe { (*cpr).cc_events &= !CPR_SAFE };
    }
}

/// What a worker's body waits with. Stays on its thread.
pub struct Parker<'a, S> {
    shared: &'a Shared<S>,
    /// Keeps it on its thread, too.
    may_block: MayBlock,
}

impl<'a, S> Parker<'a, S> {
    /// For what waits for memory.
    pub fn may_block(&self) -> &MayBlock {
        &self.may_block
    }

    /// Takes the monitor's lock.
    pub fn lock(&self) -> MonitorGuard<'a, S> {
        self.shared.monitor.lock()
    }

    /// The monitor itself, for whoever is handed what the body works on.
    pub fn monitor(&self) -> &'a Monitor<S> {
        &self.shared.monitor
    }

    /// Whether the worker is being dropped. No wait lasts once it is.
    pub fn should_stop(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// [`MonitorGuard::wait`] at a point where the system may be suspended.
    ///
    /// # Panics
    ///
    /// If `guard` is not of this worker's monitor.
    pub fn wait(&self, guard: &mut MonitorGuard<'a, S>) {
        self.wait_until(guard, None);
    }

    /// [`MonitorGuard::wait_until`] at a point where the system may be suspended; `None` waits without a deadline.
    /// `false` if the deadline passed. Returns at once if the worker is being dropped: who looked at [`Parker::should_stop`] may have let
    /// go of the lock since, and nobody wakes the thread a second time.
    ///
    /// # Panics
    ///
    /// If `guard` is not of this worker's monitor.
    pub fn wait_until(&self, guard: &mut MonitorGuard<'a, S>, deadline: Option<Instant>) -> bool {
        assert!(guard.is_of(&self.shared.monitor), "waiting in a monitor that is not the worker's");
        if self.should_stop() {
            return true;
        }
        self.shared.cpr_safe_begin();
        let woken = match deadline {
            Some(deadline) => guard.wait_until(deadline),
            None => {
                guard.wait();
                true
            }
        };
        self.shared.cpr_safe_end();
        woken
    }
}
