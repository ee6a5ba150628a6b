//! What the lab's own primitives cost a module: called through the stubs that modules call them through.

use std::ffi::{c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr::null_mut;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use illumos_sys_hdrs::{frtn_t, kmutex_t, kmutex_type_t, mblk_t, uint_t};
use sim::current;

use crate::loader::gate::{Import, STUB_SIZE, stub};
use crate::loader::kernel::{Between, Kernel, Resolved};
use crate::loader::module::{Access, Window};
use crate::unix::genunix;

type Mutex1 = unsafe extern "C" fn(*mut kmutex_t);
type MutexInit = unsafe extern "C" fn(*mut kmutex_t, *mut c_char, kmutex_type_t, *mut c_void);
type Alloc = unsafe extern "C" fn(usize, c_int) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void, usize);
type Allocb = unsafe extern "C" fn(usize, uint_t) -> *mut mblk_t;
type Desballoc = unsafe extern "C" fn(*mut u8, usize, uint_t, *mut frtn_t) -> *mut mblk_t;
type Freemsg = unsafe extern "C" fn(*mut mblk_t);

const NAMES: [&str; 8] =
    ["mutex_init", "mutex_enter", "mutex_exit", "kmem_alloc", "kmem_free", "allocb", "desballoc", "freemsg"];
/// Repetitions of one measurement, and measurements of which the best one counts.
const TIMES: u32 = 2_000;
const BEST_OF: u32 = 20;

/// Stubs as a module would have them.
struct Stubs {
    window: Window,
    // Stubs have their addresses.
    _imports: Vec<Arc<Import>>,
}

unsafe extern "C" fn nothing() {}

impl Stubs {
    fn new(kernel: &Kernel) -> Option<Self> {
        let window = Window::new(NAMES.len() * STUB_SIZE).ok()?;
        let mut imports = Vec::new();
        for (position, name) in NAMES.into_iter().enumerate() {
            let Some(Resolved::Function(addr, contexts, between)) = kernel.resolve(name, &[]) else {
                return None;
            };
            let plain = if kernel.machine().config().checks { None } else { genunix::plain(name) };
            imports.push(Arc::new(Import {
                addr: plain.unwrap_or(addr),
                name: name.to_owned(),
                contexts,
                trace_id: 0,
                kernel: kernel.clone(),
                module: OnceLock::new(),
                module_name: "",
                calls: AtomicU64::new(0),
                direct: (between != Between::Gate || plain.is_some()) && !kernel.machine().config().checks,
                stub: window.start() + position * STUB_SIZE,
            }));
        }
        let code: Vec<u8> = imports.iter().flat_map(stub).collect();
        window.write(&code);
        window.protect(Access::ReadExecute).ok()?;
        Some(Self { window, _imports: imports })
    }

    fn at(&self, name: &str) -> *const c_void {
        let position = NAMES.iter().position(|known| *known == name).unwrap_or(0);
        std::ptr::with_exposed_provenance(self.window.start() + position * STUB_SIZE)
    }
}

impl Drop for Stubs {
    fn drop(&mut self) {
        self.window.release();
    }
}

impl Kernel {
    /// Nanoseconds of pairs of calls: taken and given back. Empty if there is no room for the stubs. User or kernel context.
    pub fn primitive_costs(&self) -> Vec<(&'static str, f64)> {
        let before = current::call();
        let genunix = self.genunix();
        // SAFETY: they live until this function ends, which puts back what was there.
        let home = unsafe { current::set_home(Arc::as_ptr(&genunix).cast()) };
        let costs = self.scope(|| Stubs::new(self).map(|stubs| (measure(&stubs), stubs)));
        // The imports of the stubs are on record as the last calls made.
        current::set_call(before);
        // SAFETY: it was so before.
        unsafe { current::set_home(home) };
        costs.map(|(costs, _stubs)| costs).unwrap_or_default()
    }
}

fn measure(stubs: &Stubs) -> Vec<(&'static str, f64)> {
    // SAFETY: the stub leads to the function of that name, which has this prototype.
    let init = unsafe { transmute::<*const c_void, MutexInit>(stubs.at("mutex_init")) };
    // SAFETY: as above.
    let enter = unsafe { transmute::<*const c_void, Mutex1>(stubs.at("mutex_enter")) };
    // SAFETY: as above.
    let exit = unsafe { transmute::<*const c_void, Mutex1>(stubs.at("mutex_exit")) };
    // SAFETY: as above.
    let alloc = unsafe { transmute::<*const c_void, Alloc>(stubs.at("kmem_alloc")) };
    // SAFETY: as above.
    let free = unsafe { transmute::<*const c_void, Free>(stubs.at("kmem_free")) };
    // SAFETY: as above.
    let allocb = unsafe { transmute::<*const c_void, Allocb>(stubs.at("allocb")) };
    // SAFETY: as above.
    let desballoc = unsafe { transmute::<*const c_void, Desballoc>(stubs.at("desballoc")) };
    // SAFETY: as above.
    let freemsg = unsafe { transmute::<*const c_void, Freemsg>(stubs.at("freemsg")) };

    let mut lock = kmutex_t::default();
    // SAFETY: room for a mutex, which outlives its use.
    unsafe { init(&mut lock, null_mut(), kmutex_type_t::default(), null_mut()) };
    let lock = &raw mut lock;
    let mut lent = [0u8; 64];
    let mut routine = frtn_t { free_func: Some(nothing), free_arg: null_mut() };
    let (lent, routine) = (lent.as_mut_ptr(), &raw mut routine);
    vec![
        (
            "mutex_enter, mutex_exit",
            best(|| {
                // SAFETY: initialised, and nobody else knows it.
                unsafe { enter(lock) };
                // SAFETY: entered by the line above.
                unsafe { exit(lock) };
            }),
        ),
        (
            "kmem_alloc(64), kmem_free",
            best(|| {
                // SAFETY: any size may be asked for.
                let memory = unsafe { alloc(64, 0) };
                // SAFETY: allocated by the line above with this size.
                unsafe { free(memory, 64) };
            }),
        ),
        (
            "allocb(128), freemsg",
            best(|| {
                // SAFETY: any size may be asked for.
                let message = unsafe { allocb(128, 0) };
                // SAFETY: allocated by the line above.
                unsafe { freemsg(message) };
            }),
        ),
        (
            "desballoc, freemsg",
            best(|| {
                // SAFETY: buffer and routine live until the free, which is the next line.
                let message = unsafe { desballoc(lent, 64, 0, routine) };
                // SAFETY: allocated by the line above.
                unsafe { freemsg(message) };
            }),
        ),
    ]
}

#[expect(clippy::disallowed_methods, reason = "the machine's own primitives are measured")]
fn best(f: impl Fn()) -> f64 {
    let once = || {
        let begun = Instant::now();
        (0..TIMES).for_each(|_| f());
        begun.elapsed().as_nanos() as f64 / f64::from(TIMES)
    };
    (0..BEST_OF).map(|_| once()).fold(f64::INFINITY, f64::min)
}
