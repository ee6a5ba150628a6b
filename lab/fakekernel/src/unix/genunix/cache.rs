//! `kmem_cache_create(9F)` (rules 15, 16, 17, 18).
//!
//! A real cache runs the constructor when a buffer comes from the slab layer and the destructor when it goes back; with the
//! debug flags on it runs both around every allocation. Modules must live with either, so the seed chooses for each cache.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_char, c_int, c_void};
use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use illumos_sys_hdrs::{KM_NOSLEEP, kmem_cache_t, vmem_t};
use rand::RngExt as _;
use sim::{FaultKind, HostMutex, Rule, race};

use super::Genunix;
use super::heap::{Fill, Kind};
use super::kmem;
use super::origin::Origin;
use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::entry::EntryKind;
use crate::loader::export::Export;
use crate::loader::handles::Handles;
use crate::loader::mem::{Mem, c_string};
use crate::unix::races;

pub(super) fn exports() -> Vec<Export> {
    export! {
        UK: kmem_cache_create, kmem_cache_destroy;
        UKS: kmem_cache_alloc, kmem_cache_free, kmem_cache_reap_soon;
    }
}

type Constructor = unsafe extern "C" fn(*mut c_void, *mut c_void, c_int) -> c_int;
type Destructor = unsafe extern "C" fn(*mut c_void, *mut c_void);
type Reclaim = unsafe extern "C" fn(*mut c_void);

/// Compares an object as the constructor left it with the same object as it is freed: whether it is in constructed state.
pub type ConstructedCheck = Arc<dyn Fn(&[u8], &[u8]) -> bool + Send + Sync>;

/// The caches of a host.
pub(crate) struct Caches {
    live: Handles<Cache>,
    number: AtomicU32,
    checks: HostMutex<BTreeMap<String, ConstructedCheck>>,
}

impl fmt::Debug for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caches").field("live", &self.live.len()).finish_non_exhaustive()
    }
}

impl Caches {
    pub(super) fn new() -> Self {
        Self {
            live: Handles::new("kmem_cache_t"),
            number: AtomicU32::new(0),
            checks: HostMutex::new(BTreeMap::new()),
        }
    }
}

#[derive(Debug)]
struct Cache {
    name: String,
    number: u32,
    size: usize,
    align: usize,
    constructor: Option<Constructor>,
    destructor: Option<Destructor>,
    /// The module's argument for both, an address.
    private: usize,
    /// Construct and destruct around every allocation.
    eager: bool,
    /// Every object is remembered; not in a machine without checks.
    books: bool,
    objects: HostMutex<Objects>,
}

#[derive(Debug, Default)]
struct Objects {
    out: BTreeSet<usize>,
    /// Constructed and free: the address and what the object looked like when it came back.
    idle: Vec<(usize, Vec<u8>)>,
    /// What the constructor left, for those who check.
    constructed: BTreeMap<usize, Vec<u8>>,
}

impl Genunix {
    /// Has every object freed to the cache of that name compared with what its constructor left (rule 18). Which fields may
    /// differ only the cache's owner knows, so only who asks is served.
    pub fn check_constructed(
        &self,
        cache: &str,
        check: impl Fn(&[u8], &[u8]) -> bool + Send + Sync + 'static,
    ) {
        self.caches.checks.lock().insert(cache.to_owned(), Arc::new(check));
    }
}

fn find(cx: &Cx, genunix: &Genunix, cache: *mut kmem_cache_t) -> Option<Arc<Cache>> {
    match genunix.caches.live.get(cache) {
        Ok(cache) => Some(cache),
        Err(error) => {
            cx.violate(Rule::BadFree, error.to_string());
            None
        }
    }
}

unsafe extern "C" fn kmem_cache_create(
    name: *mut c_char,
    size: usize,
    align: usize,
    constructor: Option<Constructor>,
    destructor: Option<Destructor>,
    _reclaim: Option<Reclaim>,
    private: *mut c_void,
    vmp: *mut vmem_t,
    _flags: c_int,
) -> *mut kmem_cache_t {
    let cx = cx();
    cx.may_block();
    // SAFETY: kmem_cache_create(9F): a string.
    let name = String::from_utf8_lossy(&unsafe { c_string(name, None) }).into_owned();
    let sane = size > 0 && (align == 0 || align.is_power_of_two() && align <= 4096) && vmp.is_null();
    if !sane {
        cx.panic(format!("kmem_cache_create: bad size {size} or alignment {align} for cache '{name}'"));
    }
    cx.check((1..=31).contains(&name.len()), Rule::AbsurdArgument, || {
        format!("the cache name '{name}' has {} characters; 1 to 31 are kept", name.len())
    });
    let books = cx.kernel().machine().config().checks;
    let eager = books && cx.kernel().machine().rng().random_bool(0.5);
    let genunix = cx.kernel().genunix();
    let cache = Cache {
        name: name.clone(),
        number: genunix.caches.number.fetch_add(1, Ordering::Relaxed),
        size,
        align: align.max(8),
        constructor,
        destructor,
        private: private.expose_provenance(),
        eager,
        books,
        objects: HostMutex::new(Objects::default()),
    };
    let handle = genunix.caches.live.insert(cache);
    cx.kernel().resources().add("kmem_cache", handle.addr() as u64, name);
    handle.cast()
}

unsafe extern "C" fn kmem_cache_alloc(cache: *mut kmem_cache_t, flags: c_int) -> *mut c_void {
    let cx = cx();
    let genunix = cx.kernel().genunix();
    let Some(cache) = find(&cx, &genunix, cache) else { return ptr::null_mut() };
    let sleep = flags & KM_NOSLEEP == 0;
    if sleep {
        cx.wait_for_memory();
    } else if cx.fault(FaultKind::KMEM) {
        return ptr::null_mut();
    }
    let object = match cache.take_idle(&cx, &genunix) {
        Some(object) => object,
        None => match cache.new_object(&cx, &genunix, flags) {
            Some(object) => object,
            None if sleep => {
                cx.panic(format!("kmem_cache_alloc: no object of '{}' although KM_SLEEP", cache.name))
            }
            None => return ptr::null_mut(),
        },
    };
    if !cache.books {
        return object.start().as_ptr().cast();
    }
    cache.objects.lock().out.insert(object.addr());
    cx.kernel().resources().add(
        "kmem_cache object",
        object.addr() as u64,
        format!("of cache '{}'", cache.name),
    );
    object.start().as_ptr().cast()
}

unsafe extern "C" fn kmem_cache_free(handle: *mut kmem_cache_t, object: *mut c_void) {
    let cx = cx();
    let genunix = cx.kernel().genunix();
    let Some(cache) = find(&cx, &genunix, handle) else { return };
    let addr = object.addr();
    if !cache.books {
        cache.objects.lock().idle.push((addr, Vec::new()));
        return;
    }
    if !cache.objects.lock().out.remove(&addr) {
        let why = genunix.memory.explain(cx.kernel(), addr);
        cx.violate(Rule::BadFree, format!("kmem_cache_free to '{}': {why}", cache.name));
        return;
    }
    cx.kernel().resources().remove("kmem_cache object", addr as u64);
    let Some(mem) = genunix.memory.bytes(addr) else { return };
    kmem::no_adapter_has(&cx, addr, cache.size);
    races::check_free(&cx, addr, cache.size);
    race::forget_memory(addr, cache.size);
    cache.check_constructed(&cx, &genunix, mem);
    if cache.eager {
        cache.destroy_object(&cx, &genunix, mem);
    } else {
        cache.objects.lock().idle.push((addr, mem.get()));
    }
}

unsafe extern "C" fn kmem_cache_reap_soon(handle: *mut kmem_cache_t) {
    let cx = cx();
    let genunix = cx.kernel().genunix();
    if let Some(cache) = find(&cx, &genunix, handle) {
        cache.destroy_idle(&cx, &genunix);
    }
}

unsafe extern "C" fn kmem_cache_destroy(handle: *mut kmem_cache_t) {
    let cx = cx();
    cx.may_block();
    let genunix = cx.kernel().genunix();
    let Some(cache) = find(&cx, &genunix, handle) else { return };
    let out = cache.objects.lock().out.len();
    if out > 0 {
        let what =
            format!("kmem_cache_destroy: '{}' ({:#x}) not empty: {out} objects", cache.name, handle.addr());
        cx.violate(Rule::CacheNotEmpty, what);
        return;
    }
    cache.destroy_idle(&cx, &genunix);
    // Whoever raced to destroy it twice has been told by `find`.
    if genunix.caches.live.remove(handle).is_ok() {
        cx.kernel().resources().remove("kmem_cache", handle.addr() as u64);
    }
}

impl Cache {
    fn take_idle(&self, cx: &Cx, genunix: &Genunix) -> Option<Mem> {
        let (addr, left) = self.objects.lock().idle.pop()?;
        let mem = genunix.memory.bytes(addr)?;
        if let Some(at) = mem.get().iter().zip(&left).position(|(now, then)| now != then) {
            let what =
                format!("byte {at} of an object of cache '{}' was written after kmem_cache_free", self.name);
            cx.violate(Rule::HeapCorruption, what);
        }
        Some(mem)
    }

    fn new_object(&self, cx: &Cx, genunix: &Genunix, flags: c_int) -> Option<Mem> {
        let kind = Kind::Cache(self.number);
        let mem = genunix.memory.alloc(self.size, self.align, kind, Fill::Uninitialised, Origin::of(cx))?;
        if let Some(constructor) = self.constructor {
            let args = (mem.start().as_ptr().cast(), self.private(), flags);
            // SAFETY: the module gave this constructor for objects of this size and this argument.
            let failed = unsafe {
                cx.kernel().enter(constructor, args, EntryKind::callback("kmem_cache constructor"))
            };
            if failed != 0 {
                self.release(cx, genunix, mem);
                return None;
            }
        }
        if genunix.caches.checks.lock().contains_key(&self.name) {
            self.objects.lock().constructed.insert(mem.addr(), mem.get());
        }
        Some(mem)
    }

    fn check_constructed(&self, cx: &Cx, genunix: &Genunix, mem: Mem) {
        let check = genunix.caches.checks.lock().get(&self.name).cloned();
        let left = self.objects.lock().constructed.get(&mem.addr()).cloned();
        let (Some(check), Some(left)) = (check, left) else { return };
        cx.check(check(&left, &mem.get()), Rule::NotConstructed, || {
            format!(
                "an object of cache '{}' at {:#x} is freed as its constructor would not leave it",
                self.name,
                mem.addr()
            )
        });
    }

    fn destroy_idle(&self, cx: &Cx, genunix: &Genunix) {
        while let Some(mem) = self.take_idle(cx, genunix) {
            self.destroy_object(cx, genunix, mem);
        }
    }

    fn destroy_object(&self, cx: &Cx, genunix: &Genunix, mem: Mem) {
        if let Some(destructor) = self.destructor {
            let args = (mem.start().as_ptr().cast(), self.private());
            // SAFETY: the module gave this destructor for the objects it constructs with this argument.
            unsafe { cx.kernel().enter(destructor, args, EntryKind::callback("kmem_cache destructor")) };
        }
        kmem::nothing_lives_in(cx, mem.addr(), self.size);
        self.release(cx, genunix, mem);
    }

    fn release(&self, cx: &Cx, genunix: &Genunix, mem: Mem) {
        self.objects.lock().constructed.remove(&mem.addr());
        let kind = Kind::Cache(self.number);
        if let Err(fault) = genunix.memory.free(mem.addr(), Some(self.size), kind, Origin::of(cx)) {
            kmem::report(cx, &format!("an object of cache '{}'", self.name), &fault);
        }
    }

    fn private(&self) -> *mut c_void {
        ptr::with_exposed_provenance_mut(self.private)
    }
}
