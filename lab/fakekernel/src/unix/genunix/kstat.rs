//! `kstat_create(9F)`: named statistics, those of modules and those of the lab's own layers, read the same way.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::fmt;
use std::ptr;
use std::sync::Arc;

use illumos_sys_hdrs::{kstat_named_t, kstat_t, uchar_t, uint_t};
use sim::{Ctx, HostMutex, Nanos};

use super::Genunix;
use super::heap::{Fill, Kind};
use super::kmem;
use super::origin::Origin;
use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::entry::EntryKind;
use crate::loader::errno::Errno;
use crate::loader::export::Export;
use crate::loader::kernel::Kernel;
use crate::loader::mem::{Mem, c_string};

pub(super) fn exports() -> Vec<Export> {
    export! { UK: kstat_create, kstat_install, kstat_delete; ANY: kstat_named_init; }
}

/// What identifies a statistic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KstatId {
    /// Module name.
    pub module: String,
    /// Instance.
    pub instance: i32,
    /// Name.
    pub name: String,
}

/// One named value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KstatValue {
    /// `KSTAT_DATA_CHAR`: up to 16 characters.
    Text(String),
    /// `KSTAT_DATA_INT32`.
    I32(i32),
    /// `KSTAT_DATA_UINT32`.
    U32(u32),
    /// `KSTAT_DATA_INT64`.
    I64(i64),
    /// `KSTAT_DATA_UINT64`.
    U64(u64),
}

/// A statistic of the lab's own: what answers when it is read.
pub type KstatReader = Arc<dyn Fn() -> Vec<(String, KstatValue)> + Send + Sync>;

/// Where a statistic's values come from.
pub enum KstatEntry {
    /// A `kstat_t` of a module, by address.
    Module(usize),
    /// The lab.
    Lab(KstatReader),
}

/// The statistics of a host.
pub(crate) struct Kstats {
    state: HostMutex<State>,
}

/// What is known of a statistic beside its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KstatOrigin {
    /// Its class.
    pub class: String,
    /// When it was created.
    pub created: Nanos,
}

#[derive(Default)]
struct State {
    installed: BTreeMap<KstatId, (KstatEntry, KstatOrigin)>,
    /// Created by modules, installed or not.
    created: BTreeMap<usize, (KstatId, KstatOrigin)>,
}

impl fmt::Debug for Kstats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.state.lock().installed.keys()).finish()
    }
}

impl Kstats {
    pub(super) fn new() -> Self {
        Self { state: HostMutex::new(State::default()) }
    }
}

const NAMED: uchar_t = 1;
const VIRTUAL: uchar_t = 1;
/// Names are kept to this many bytes, the NUL included.
const STRLEN: usize = 31;

impl Kernel {
    /// Installs a statistic of the lab's own; it replaces one of the same identity.
    pub fn add_kstat(&self, id: KstatId, reader: KstatReader) {
        let origin = KstatOrigin { class: "net".to_owned(), created: self.machine().now() };
        self.genunix().kstats.state.lock().installed.insert(id, (KstatEntry::Lab(reader), origin));
    }

    /// Removes a statistic of the lab's own; false when there is none.
    pub fn remove_kstat(&self, id: &KstatId) -> bool {
        self.genunix().kstats.state.lock().installed.remove(id).is_some()
    }

    /// Every statistic, in order.
    pub fn kstats(&self) -> Vec<KstatId> {
        self.genunix().kstats.state.lock().installed.keys().cloned().collect()
    }

    /// Class and age of a statistic; `None` when there is none.
    pub fn kstat_origin(&self, id: &KstatId) -> Option<KstatOrigin> {
        self.genunix().kstats.state.lock().installed.get(id).map(|(_, origin)| origin.clone())
    }

    /// Reads a statistic, as `kstat(8)` does: user context.
    ///
    /// # Errors
    ///
    /// ENOENT when there is none; what the module's update routine refused with.
    pub fn read_kstat(&self, id: &KstatId) -> Result<Vec<(String, KstatValue)>, Errno> {
        let genunix = self.genunix();
        let entry = match genunix.kstats.state.lock().installed.get(id) {
            None => return Err(Errno::ENOENT),
            Some((KstatEntry::Lab(reader), _)) => Ok(reader.clone()),
            Some((KstatEntry::Module(addr), _)) => Err(*addr),
        };
        match entry {
            Ok(reader) => Ok(reader()),
            Err(addr) => self.read_module_kstat(&genunix, addr),
        }
    }

    fn read_module_kstat(&self, genunix: &Genunix, addr: usize) -> Result<Vec<(String, KstatValue)>, Errno> {
        const READ: c_int = 0;
        let header: *mut kstat_t = ptr::with_exposed_provenance_mut(addr);
        // SAFETY: an installed kstat's header is a live block of the heap until kstat_delete.
        let mut seen = unsafe { header.read() };
        if let Some(update) = seen.ks_update {
            // SAFETY: the module set this routine for this kstat; kstat_create(9F).
            let failed =
                unsafe { self.enter(update, (header, READ), EntryKind::callback_in("ks_update", Ctx::User)) };
            Errno::check(failed)?;
            // SAFETY: as above.
            seen = unsafe { header.read() };
        }
        let size = size_of::<kstat_named_t>();
        let inside = genunix.allocation_at(seen.ks_data.addr());
        let readable = inside.is_some_and(|(_, held)| held >= seen.ks_ndata as usize * size);
        if !readable && !self.module_at(seen.ks_data.addr()).is_some_and(|module| module.is_installed()) {
            return Err(Errno::EFAULT);
        }
        // SAFETY: the data lies in live heap memory of that size, or in a module's data, as was just looked up.
        let data = unsafe { Mem::of(seen.ks_data, seen.ks_ndata as usize * size) };
        Ok((0..seen.ks_ndata as usize).filter_map(|n| decoded(data.part(n * size, size))).collect())
    }
}

/// One `kstat_named_t`: 31 bytes of name, a type, 16 bytes of value.
fn decoded(named: Mem) -> Option<(String, KstatValue)> {
    let text = |bytes: Vec<u8>| {
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    let name = text(named.part(0, STRLEN).get());
    let value = named.part(32, 16).get();
    let word = u64::from_ne_bytes(*value.first_chunk()?);
    let value = match named.part(STRLEN, 1).get()[0] {
        0 => KstatValue::Text(text(value)),
        1 => KstatValue::I32(word as i32),
        2 => KstatValue::U32(word as u32),
        3 => KstatValue::I64(word as i64),
        4 => KstatValue::U64(word),
        _ => return None,
    };
    Some((name, value))
}

/// # Safety
///
/// `name` is a string.
unsafe fn short_name(name: *const c_char) -> String {
    // SAFETY: by contract.
    let mut name = unsafe { c_string(name, None) };
    name.truncate(STRLEN - 1);
    String::from_utf8_lossy(&name).into_owned()
}

unsafe extern "C" fn kstat_create(
    module: *const c_char,
    instance: c_int,
    name: *const c_char,
    class: *const c_char,
    kind: uchar_t,
    count: uint_t,
    flags: uchar_t,
) -> *mut kstat_t {
    let cx = cx();
    cx.may_block();
    // SAFETY: kstat_create(9F): three strings, of which the name may be null.
    let (module, name, class) =
        (unsafe { short_name(module) }, unsafe { short_name(name) }, unsafe { short_name(class) });
    let name = if name.is_empty() { format!("{module}{instance}") } else { name };
    let genunix = cx.kernel().genunix();
    let id = KstatId { module, instance, name };
    let taken = genunix.kstats.state.lock().created.values().any(|(other, _)| *other == id);
    if kind != NAMED || taken || cx.fault(sim::FaultKind::DDI) {
        return ptr::null_mut();
    }
    let size = count as usize * size_of::<kstat_named_t>();
    let data = if flags & VIRTUAL == 0 { genunix.kstat_memory(&cx, size) } else { ptr::null_mut() };
    let header: *mut kstat_t = genunix.kstat_memory(&cx, size_of::<kstat_t>());
    let mut record = kstat_t {
        ks_instance: instance,
        ks_type: kind,
        ks_flags: flags,
        ks_data: data,
        ks_ndata: count,
        ks_data_size: size,
        ..kstat_t::default()
    };
    put_name(&mut record.ks_module, &id.module);
    put_name(&mut record.ks_name, &id.name);
    put_name(&mut record.ks_class, &class);
    // SAFETY: fresh memory of that size, 8-aligned.
    unsafe { header.write(record) };
    cx.kernel().resources().add(
        "kstat",
        header.addr() as u64,
        format!("{}:{}:{}", id.module, id.instance, id.name),
    );
    let origin = KstatOrigin { class, created: cx.kernel().machine().now() };
    genunix.kstats.state.lock().created.insert(header.addr(), (id, origin));
    header
}

fn put_name(field: &mut [c_char; STRLEN], name: &str) {
    for (to, from) in field.iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
}

impl Genunix {
    fn kstat_memory<T>(&self, cx: &Cx, size: usize) -> *mut T {
        match self.memory.alloc(size, 8, Kind::Lab, Fill::Zero, Origin::of(cx)) {
            Some(mem) => mem.start().as_ptr().cast(),
            None => cx.panic("out of kernel memory for a kstat"),
        }
    }
}

unsafe extern "C" fn kstat_install(kstat: *mut kstat_t) {
    let cx = cx();
    cx.may_block();
    let genunix = cx.kernel().genunix();
    let mut state = genunix.kstats.state.lock();
    if let Some((id, origin)) = state.created.get(&kstat.addr()).cloned() {
        state.installed.insert(id, (KstatEntry::Module(kstat.addr()), origin));
    } else {
        drop(state);
        cx.panic(format!("kstat_install of {:#x}, which kstat_create did not make", kstat.addr()));
    }
}

unsafe extern "C" fn kstat_delete(kstat: *mut kstat_t) {
    let cx = cx();
    cx.may_block();
    if kstat.is_null() {
        return;
    }
    let genunix = cx.kernel().genunix();
    let known = {
        let mut state = genunix.kstats.state.lock();
        let id = state.created.remove(&kstat.addr());
        id.inspect(|(id, _)| drop(state.installed.remove(id)))
    };
    if known.is_none() {
        cx.panic(format!("kstat_delete of {:#x}, which kstat_create did not make", kstat.addr()));
    }
    // SAFETY: the header was live a moment ago and only this thread has just taken it out of the table.
    let record = unsafe { kstat.read() };
    let data = (record.ks_flags & VIRTUAL == 0).then(|| record.ks_data.addr());
    for addr in data.into_iter().chain([kstat.addr()]) {
        if let Err(fault) = genunix.memory.free(addr, None, Kind::Lab, Origin::of(&cx)) {
            kmem::report(&cx, "kstat_delete", &fault);
        }
    }
    cx.kernel().resources().remove("kstat", kstat.addr() as u64);
}

unsafe extern "C" fn kstat_named_init(named: *mut kstat_named_t, name: *const c_char, kind: uchar_t) {
    // SAFETY: kstat_named_init(9F): a string.
    let mut name = unsafe { short_name(name) }.into_bytes();
    name.resize(STRLEN, 0);
    name.push(kind);
    // SAFETY: kstat_named_init(9F): one entry.
    unsafe { Mem::of(named, name.len()) }.put(&name);
}
