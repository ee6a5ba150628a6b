//! What is registered keeps the text loaded, also where it is forgotten. The kernel's calls are stubs.

use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::pin::{in_init, is_pinned};
use super::{Pin, pins};
use crate::KArc;
use crate::ddi::DevInfo;
use crate::kstat::{Kstat, Source};
use crate::may_block::MayBlock;
use crate::softint::{SoftHandler, SoftInterrupt};
use crate::sync::Monitor;
use crate::taskq::TaskQueue;
use crate::thread::Worker;

/// What of the kernel is called: what is made has an address, the rest answers 0.
mod kernel_calls {
    use core::ffi::{c_char, c_int, c_void};
    use std::boxed::Box;

    use illumos_sys_hdrs as sys;

    macro_rules! nothing {
        ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
            $(
                // SAFETY: nothing else in this program has the name.
                #[unsafe(no_mangle)]
                extern "C" fn $name($(_: $argument),*) $(-> $result)? {
                    $(<$result>::default())?
                }
            )*
        };
    }

    nothing! {
        mutex_init(*mut c_void, *mut c_void, u32, *mut c_void);
        mutex_destroy(*mut c_void);
        mutex_enter(*mut c_void);
        mutex_exit(*mut c_void);
        cv_init(*mut c_void, *mut c_void, u32, *mut c_void);
        cv_destroy(*mut c_void);
        cv_wait(*mut c_void, *mut c_void);
        cv_timedwait(*mut c_void, *mut c_void, i64) -> i64;
        cv_signal(*mut c_void);
        cv_broadcast(*mut c_void);
        ddi_get_lbolt() -> i64;
        ddi_get_kt_did() -> u64;
        thread_join(u64);
        callb_add(*mut c_void, *mut c_void, c_int, *mut c_void) -> usize;
        callb_delete(usize) -> c_int;
        callb_generic_cpr(*mut c_void, c_int) -> c_int;
        thread_create(*mut c_void, usize, *mut c_void, *mut c_void, usize, *mut c_void, u32, c_int) -> usize;
        ddi_add_softintr(*mut c_void, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_void, *mut c_char) -> c_int;
        ddi_remove_softintr(*mut c_void);
        ddi_trigger_softintr(*mut c_void);
        kstat_install(*mut c_void);
        kstat_named_init(*mut c_void, *const c_char, u8);
        ddi_taskq_wait(*mut c_void);
        ddi_taskq_destroy(*mut c_void);
    }

    /// Answers a kstat that is never freed: nobody looks for leaks of a stub.
    // SAFETY: nothing else in this program has the name.
    #[unsafe(no_mangle)]
    extern "C" fn kstat_create(
        _: *const c_char,
        _: c_int,
        _: *const c_char,
        _: *const c_char,
        _: u8,
        _: u32,
        _: u8,
    ) -> *mut sys::kstat_t {
        Box::into_raw(Box::default())
    }

    // SAFETY: nothing else in this program has the name.
    #[unsafe(no_mangle)]
    extern "C" fn kstat_delete(kstat: *mut sys::kstat_t) {
        // SAFETY: from `kstat_create`, once.
        drop(unsafe { Box::from_raw(kstat) });
    }

    // SAFETY: nothing else in this program has the name.
    #[unsafe(no_mangle)]
    extern "C" fn ddi_taskq_create(
        _: *mut c_void,
        _: *const c_char,
        _: c_int,
        _: i32,
        _: u32,
    ) -> *mut c_void {
        core::ptr::without_provenance_mut(8)
    }

    // SAFETY: nothing else in this program has the name.
    #[unsafe(no_mangle)]
    static mut p0: [u64; 1024] = [0; 1024];
    // SAFETY: as above.
    #[unsafe(no_mangle)]
    static minclsyspri: i32 = 60;
}

/// The counts are those of one module, and tests run side by side.
static ALONE: Mutex<()> = Mutex::new(());

/// By how much `make` raises the number of pins, while what it makes is there, and once that is gone as `end` says.
fn pinned<T>(make: impl Fn() -> T, end: impl Fn(T)) -> (usize, usize) {
    let before = pins();
    let made = make();
    let during = pins() - before;
    end(made);
    (during, pins() - before)
}

struct Nothing(AtomicUsize);

impl SoftHandler for Nothing {
    fn run(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Source for Nothing {
    const NAMES: &'static [&'static CStr] = &[];

    fn read(&self, _: &mut dyn FnMut(usize, u64)) {}
}

fn nothing() -> KArc<Nothing> {
    KArc::new(Nothing(AtomicUsize::new(0))).unwrap()
}

fn node() -> DevInfo {
    // SAFETY: the stubs do not look at it.
    unsafe { DevInfo::from_raw(core::ptr::without_provenance_mut(8)) }.unwrap()
}

/// Before, `_fini` unloaded the text that a kstat's reader, an interrupt or a job was about to run.
#[test]
fn what_is_registered_pins_the_text_and_forgotten_goes_on() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let interrupt = || SoftInterrupt::new(node(), nothing()).unwrap();
    assert_eq!(pinned(interrupt, drop), (1, 0));
    assert_eq!(pinned(interrupt, core::mem::forget), (1, 1));
    let kstat = || Kstat::new(c"ibd", 0, c"port", c"net", nothing()).unwrap();
    assert_eq!(pinned(kstat, drop), (1, 0));
    assert_eq!(pinned(kstat, core::mem::forget), (1, 1));
    let queue = || TaskQueue::new(node(), c"jobs", 1).unwrap();
    assert_eq!(pinned(queue, drop), (1, 0));
    assert_eq!(pinned(queue, core::mem::forget), (1, 1));
}

/// A thread has a pin of its own, for a worker that its own body drops: nothing waits for the thread then.
#[test]
fn a_thread_pins_the_text_and_so_does_its_worker() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let may_block = MayBlock::on_host();
    let monitor = KArc::new(Monitor::new(()).unwrap()).unwrap();
    // The stub starts no thread: its pin stays.
    let worker = || Worker::spawn(c"ibd_nothing", monitor.clone(), &may_block, |_| ());
    assert_eq!(pinned(worker, core::mem::forget), (2, 2));
}

/// The threads of a module's state end after `mod_remove`: they must not keep `_fini` from that.
#[test]
fn what_init_makes_goes_with_the_state() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = (pins(), is_pinned());
    let made = in_init(|| (SoftInterrupt::new(node(), nothing()).unwrap(), Pin::new()));
    assert_eq!(pins(), before.0 + 1, "a pin is one, also in init");
    let (interrupt, pin) = made;
    drop(pin);
    assert_eq!(pins(), before.0);
    assert!(is_pinned(), "the text is not to go before it");
    drop(interrupt);
    assert_eq!((pins(), is_pinned()), before);
}
