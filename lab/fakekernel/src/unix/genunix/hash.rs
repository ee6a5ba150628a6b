//! `mod_hash` (rule 45): keys and values are pointers by value, what they mean is up to the callbacks of whoever made it.
//!
//! The kernel holds a lock of the hash while it calls back; so does this.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use illumos_sys_hdrs::{KM_NOSLEEP, mod_hash_key_t, mod_hash_t, mod_hash_val_t, uint_t};
use sim::{FaultKind, HostMutex, Rule, WaitQueue};

use super::Genunix;
use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::entry::EntryKind;
use crate::loader::export::Export;
use crate::loader::handles::Handles;
use crate::loader::mem::c_string;

pub(super) fn exports() -> Vec<Export> {
    export! {
        UK: mod_hash_destroy_hash;
        UKS: mod_hash_create_extended, mod_hash_insert, mod_hash_find, mod_hash_remove, mod_hash_replace, mod_hash_destroy,
            mod_hash_clear;
        ANY: mod_hash_null_keydtor, mod_hash_null_valdtor;
    }
}

const NOT_FOUND: c_int = -3;
const DUPLICATE: c_int = -2;

type Destructor = unsafe extern "C" fn(*mut c_void);
pub(crate) type Algorithm = unsafe extern "C" fn(*mut c_void, mod_hash_key_t) -> uint_t;
pub(crate) type Compare = unsafe extern "C" fn(mod_hash_key_t, mod_hash_key_t) -> c_int;

/// The hashes of a host.
#[derive(Debug)]
pub(crate) struct Hashes {
    live: Handles<Hash>,
}

impl Hashes {
    pub(super) fn new() -> Self {
        Self { live: Handles::new("mod_hash_t") }
    }
}

#[derive(Debug)]
struct Hash {
    name: String,
    key_destructor: Option<Destructor>,
    value_destructor: Option<Destructor>,
    algorithm: Algorithm,
    /// The module's argument for the algorithm, an address.
    data: usize,
    compare: Compare,
    table: HostMutex<Table>,
    free: WaitQueue,
}

#[derive(Debug)]
struct Table {
    /// The thread that holds the hash's lock.
    owner: Option<u64>,
    /// Keys and values as addresses, oldest last: the kernel puts new entries at the head of a chain.
    chains: Vec<Vec<(usize, usize)>>,
}

/// A hash as whoever stands in for the kernel for a while has it.
#[derive(Clone, Debug)]
pub struct HashShown {
    /// Its handle.
    pub handle: usize,
    /// Whose result, modulo the number of chains, says which chain a key is in.
    pub algorithm: Algorithm,
    /// The argument in front of the key, the module's.
    pub data: usize,
    /// 0 if two keys are the same.
    pub compare: Compare,
    /// Keys and values, the newest first.
    pub chains: Vec<Vec<(usize, usize)>>,
}

impl Genunix {
    /// The hashes of the host's modules.
    pub fn hashes(&self) -> Vec<HashShown> {
        let live = self.hashes.live.with_handles().into_iter();
        let shown = live.map(|(handle, hash)| {
            let (algorithm, data, compare) = (hash.algorithm, hash.data, hash.compare);
            HashShown {
                handle: handle.addr(),
                algorithm,
                data,
                compare,
                chains: hash.table.lock().chains.clone(),
            }
        });
        shown.collect()
    }

    /// What is in such a hash from now on: as many chains.
    pub fn put_back(&self, shown: HashShown) {
        let handle = std::ptr::without_provenance::<u8>(shown.handle);
        if let Ok(hash) = self.hashes.live.get(handle) {
            hash.table.lock().chains = shown.chains;
        }
    }
}

/// The hash's lock.
struct Held<'a> {
    hash: &'a Hash,
    cx: &'a Cx,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.hash.table.lock().owner = None;
        self.hash.free.wake_one();
    }
}

fn pointer(addr: usize) -> *mut c_void {
    ptr::with_exposed_provenance_mut(addr)
}

impl Hash {
    fn lock<'a>(&'a self, cx: &'a Cx) -> Held<'a> {
        let me = cx.thread().did();
        let mut table = self.table.lock();
        if table.owner == Some(me) {
            drop(table);
            cx.violate(
                Rule::HashReentered,
                format!("a callback of mod_hash '{}' called into it again", self.name),
            );
            cx.panic(format!("mod_hash '{}': rwlock entered recursively", self.name));
        }
        while table.owner.is_some() {
            table = self.free.wait(table);
        }
        table.owner = Some(me);
        drop(table);
        Held { hash: self, cx }
    }
}

impl Held<'_> {
    fn destroy(&self, what: &'static str, destructor: Option<Destructor>, argument: usize) {
        if let Some(destructor) = destructor {
            // SAFETY: the module gave this destructor for the keys or values it puts in.
            unsafe { self.cx.kernel().enter(destructor, (pointer(argument),), EntryKind::callback(what)) };
        }
    }

    fn destroy_entry(&self, (key, value): (usize, usize)) {
        self.destroy("mod_hash key destructor", self.hash.key_destructor, key);
        self.destroy("mod_hash value destructor", self.hash.value_destructor, value);
    }

    fn chain_of(&self, key: mod_hash_key_t) -> usize {
        let args = (pointer(self.hash.data), key);
        // SAFETY: the module gave this function and its argument for its own keys.
        let hash = unsafe {
            self.cx.kernel().enter(self.hash.algorithm, args, EntryKind::callback("mod_hash algorithm"))
        };
        hash as usize % self.hash.table.lock().chains.len()
    }

    /// Chain and place of a key.
    fn find(&self, key: mod_hash_key_t) -> (usize, Option<usize>) {
        let chain = self.chain_of(key);
        let entries = self.hash.table.lock().chains[chain].clone();
        let at = entries.iter().position(|(stored, _)| {
            let args = (key, pointer(*stored));
            // SAFETY: the module gave this function for its own keys.
            unsafe {
                self.cx.kernel().enter(self.hash.compare, args, EntryKind::callback("mod_hash comparison"))
                    == 0
            }
        });
        (chain, at)
    }

    fn take(&self, key: mod_hash_key_t) -> Option<(usize, usize)> {
        let (chain, at) = self.find(key);
        Some(self.hash.table.lock().chains[chain].remove(at?))
    }

    fn take_all(&self) -> Vec<(usize, usize)> {
        let mut table = self.hash.table.lock();
        table.chains.iter_mut().flat_map(std::mem::take).collect()
    }
}

fn find_hash(cx: &Cx, genunix: &Genunix, handle: *mut mod_hash_t) -> Option<Arc<Hash>> {
    match genunix.hashes.live.get(handle) {
        Ok(hash) => Some(hash),
        Err(error) => {
            cx.violate(Rule::HeapCorruption, error.to_string());
            None
        }
    }
}

/// Runs `f` with the hash locked.
fn with<R>(handle: *mut mod_hash_t, absent: R, f: impl FnOnce(Held<'_>) -> R) -> R {
    let cx = cx();
    let genunix = cx.kernel().genunix();
    match find_hash(&cx, &genunix, handle) {
        Some(hash) => f(hash.lock(&cx)),
        None => absent,
    }
}

unsafe extern "C" fn mod_hash_create_extended(
    name: *mut c_char,
    chains: usize,
    key_destructor: Option<Destructor>,
    value_destructor: Option<Destructor>,
    algorithm: Option<Algorithm>,
    data: *mut c_void,
    compare: Option<Compare>,
    flags: c_int,
) -> *mut mod_hash_t {
    let cx = cx();
    if flags & KM_NOSLEEP == 0 {
        cx.wait_for_memory();
    } else if cx.fault(FaultKind::KMEM) {
        return ptr::null_mut();
    }
    // SAFETY: a string, which is copied.
    let name = String::from_utf8_lossy(&unsafe { c_string(name, None) }).into_owned();
    let (Some(algorithm), Some(compare)) = (algorithm, compare) else {
        cx.panic(format!("mod_hash_create_extended: '{name}' without algorithm or comparison"));
    };
    cx.check((1..1 << 24).contains(&chains), Rule::AbsurdArgument, || {
        format!("{chains} chains for '{name}'")
    });
    let hash = Hash {
        name: name.clone(),
        key_destructor,
        value_destructor,
        algorithm,
        data: data.expose_provenance(),
        compare,
        table: HostMutex::new(Table { owner: None, chains: vec![Vec::new(); chains.max(1)] }),
        free: WaitQueue::new("mod_hash lock"),
    };
    let handle = cx.kernel().genunix().hashes.live.insert(hash);
    cx.kernel().resources().add("mod_hash", handle.addr() as u64, name);
    handle.cast()
}

unsafe extern "C" fn mod_hash_insert(
    hash: *mut mod_hash_t,
    key: mod_hash_key_t,
    value: mod_hash_val_t,
) -> c_int {
    with(hash, -1, |held| {
        let (chain, at) = held.find(key);
        if at.is_some() {
            return DUPLICATE;
        }
        let entry = (key.expose_provenance(), value.expose_provenance());
        held.hash.table.lock().chains[chain].insert(0, entry);
        0
    })
}

unsafe extern "C" fn mod_hash_find(
    hash: *mut mod_hash_t,
    key: mod_hash_key_t,
    value: *mut mod_hash_val_t,
) -> c_int {
    with(hash, NOT_FOUND, |held| {
        let (chain, at) = held.find(key);
        let Some(at) = at else { return NOT_FOUND };
        let found = held.hash.table.lock().chains[chain][at].1;
        // SAFETY: the caller gives a place for the value.
        unsafe { value.write(pointer(found)) };
        0
    })
}

unsafe extern "C" fn mod_hash_remove(
    hash: *mut mod_hash_t,
    key: mod_hash_key_t,
    value: *mut mod_hash_val_t,
) -> c_int {
    with(hash, NOT_FOUND, |held| {
        let Some((stored, found)) = held.take(key) else { return NOT_FOUND };
        held.destroy("mod_hash key destructor", held.hash.key_destructor, stored);
        // SAFETY: the caller gives a place for the value.
        unsafe { value.write(pointer(found)) };
        0
    })
}

unsafe extern "C" fn mod_hash_destroy(hash: *mut mod_hash_t, key: mod_hash_key_t) -> c_int {
    with(hash, NOT_FOUND, |held| {
        let Some(entry) = held.take(key) else { return NOT_FOUND };
        held.destroy_entry(entry);
        0
    })
}

unsafe extern "C" fn mod_hash_replace(
    hash: *mut mod_hash_t,
    key: mod_hash_key_t,
    value: mod_hash_val_t,
) -> c_int {
    with(hash, -1, |held| {
        let old = held.take(key);
        if let Some(old) = old {
            held.destroy_entry(old);
        }
        let chain = held.chain_of(key);
        let entry = (key.expose_provenance(), value.expose_provenance());
        held.hash.table.lock().chains[chain].insert(0, entry);
        0
    })
}

unsafe extern "C" fn mod_hash_clear(hash: *mut mod_hash_t) {
    with(hash, (), |held| held.take_all().into_iter().for_each(|entry| held.destroy_entry(entry)));
}

unsafe extern "C" fn mod_hash_destroy_hash(hash: *mut mod_hash_t) {
    let cx = cx();
    cx.may_block();
    // SAFETY: the caller's contract is mod_hash_clear's.
    unsafe { mod_hash_clear(hash) };
    if cx.kernel().genunix().hashes.live.remove(hash).is_ok() {
        cx.kernel().resources().remove("mod_hash", hash.addr() as u64);
    }
}

unsafe extern "C" fn mod_hash_null_keydtor(_key: mod_hash_key_t) {}

unsafe extern "C" fn mod_hash_null_valdtor(_value: mod_hash_val_t) {}
