//! One host.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;
use sim::thread::{Spawn, spawn};
use sim::{Contexts, Ctx, HostMutex, Rule, Thread, current};

use crate::loader::cx::Cx;
use crate::loader::entry::{self, EntryKind, ModuleFn};
use crate::loader::errno::Errno;
use crate::loader::export::{Export, ExportKind};
use crate::loader::kernels::Machine;
use crate::loader::kernels::Work;
use crate::loader::kernels::Working;
use crate::loader::module::{Dependency, LoadError, Module, Window, in_window_range};
use crate::loader::resources::Resources;
use crate::loader::services::{LiveObject, Services};
use crate::loader::sites::{Site, Sites};

/// Room for the data symbols of a host.
const DATA_SIZE: usize = 64 << 10;
/// Majors below are those of the system's own drivers.
const FIRST_MAJOR: u32 = 200;

/// One host: what its modules see as the kernel. Cheap clone.
#[derive(Clone)]
pub struct Kernel(Arc<Inner>);

type DetachAll = Arc<dyn Fn(&Module) -> Result<(), Errno> + Send + Sync>;
type Trap = (usize, usize, Rule, String);
type Lent = fn(&Kernel, usize, usize) -> Option<String>;

struct Inner {
    name: String,
    index: usize,
    machine: Machine,
    provided: HostMutex<Vec<Provided>>,
    objects: HostMutex<BTreeMap<String, PathBuf>>,
    loading: HostMutex<Vec<String>>,
    /// In the order loaded; those unloaded too, so that late calls are recognised.
    modules: HostMutex<Vec<Module>>,
    ordinal: AtomicUsize,
    majors: HostMutex<Vec<String>>,
    data: OnceLock<Window>,
    data_used: HostMutex<Vec<(String, usize)>>,
    states: HostMutex<FxHashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    resources: Resources,
    services: Arc<dyn Services>,
    detach_all: HostMutex<Option<DetachAll>>,
    traps: HostMutex<Vec<Trap>>,
    lent: HostMutex<Option<Lent>>,
    sites: Sites,
}

/// A kernel module the lab provides.
struct Provided {
    module: &'static str,
    path: &'static str,
    exports: BTreeMap<&'static str, Export>,
}

/// What an undefined symbol is bound to.
pub(crate) enum Resolved {
    /// Address, where it may be called, and what stands between.
    Function(usize, Contexts, Between),
    Data(usize),
}

/// What stands between a module and a function that it imports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Between {
    Gate,
    /// Nothing in a machine without checks.
    GateIfChecked,
    Nothing,
}

impl Kernel {
    /// Adds a host to `machine` whose kernel functions are `services`; `provide` lists them.
    pub(crate) fn add(
        machine: &Machine,
        name: &str,
        services: Arc<dyn Services>,
        provide: fn(&Self),
    ) -> Self {
        let index = machine.kernels().all.lock().len();
        let kernel = Self(Arc::new(Inner {
            name: name.to_owned(),
            index,
            machine: machine.clone(),
            provided: HostMutex::default(),
            objects: HostMutex::default(),
            loading: HostMutex::default(),
            modules: HostMutex::default(),
            ordinal: AtomicUsize::new(0),
            majors: HostMutex::default(),
            data: OnceLock::new(),
            data_used: HostMutex::default(),
            states: HostMutex::default(),
            resources: Resources::new(machine),
            services,
            detach_all: HostMutex::default(),
            traps: HostMutex::default(),
            lent: HostMutex::default(),
            sites: Sites::default(),
        }));
        provide(&kernel);
        machine.kernels().all.lock().push(kernel.clone());
        kernel
    }

    /// Host name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its place among the machine's hosts, from 0.
    pub fn index(&self) -> usize {
        self.0.index
    }

    /// The machine it is part of.
    #[inline]
    pub fn machine(&self) -> &Machine {
        &self.0.machine
    }

    /// Adds a kernel module the lab provides. `path` is how modules name it in their dependencies, e.g. "misc/mac". "unix" and
    /// "genunix" are there from the start. Providing a module again adds to it; a symbol given again replaces the earlier one.
    pub fn provide(&self, module: &'static str, path: &'static str, exports: Vec<Export>) {
        for export in &exports {
            if let ExportKind::Data(size) = export.kind {
                self.add_data(export, size);
            }
        }
        let mut provided = self.0.provided.lock();
        let index = provided.iter().position(|p| p.path == path).unwrap_or_else(|| {
            provided.push(Provided { module, path, exports: BTreeMap::new() });
            provided.len() - 1
        });
        provided[index].exports.extend(exports.into_iter().map(|e| (e.name, e)));
    }

    fn add_data(&self, export: &Export, size: usize) {
        let window = self.0.data.get_or_init(|| {
            Window::new(DATA_SIZE).unwrap_or_else(|error| panic!("no memory below 2 GiB: {error}"))
        });
        let mut used = self.0.data_used.lock();
        let start = used.last().map_or(window.start(), |(_, end)| end.next_multiple_of(64));
        assert!(start + size <= window.start() + window.len(), "too many data symbols");
        let init = std::ptr::with_exposed_provenance::<u8>(export.addr);
        let target = std::ptr::with_exposed_provenance_mut::<u8>(start);
        // SAFETY: `Export::data` was given a static slice of this size, and the target lies in the host's own window.
        unsafe { std::ptr::copy_nonoverlapping(init, target, size) };
        used.push((export.name.to_owned(), start + size));
    }

    /// Does the lab have a function or datum of this name for its modules?
    pub fn provides(&self, symbol: &str) -> bool {
        self.0.provided.lock().iter().any(|provided| provided.exports.contains_key(symbol))
    }

    /// Address of a data symbol of a provided module in this host, e.g. `hz`.
    pub fn data(&self, name: &str) -> Option<*mut u8> {
        let used = self.0.data_used.lock();
        let index = used.iter().rposition(|(n, _)| n == name)?;
        let window = self.0.data.get()?;
        let start = match index.checked_sub(1) {
            Some(before) => used[before].1.next_multiple_of(64),
            None => window.start(),
        };
        Some(std::ptr::with_exposed_provenance_mut(start))
    }

    /// Where to find an object that another one depends on ("mac/mac_ib") and the lab does not provide.
    pub fn add_object(&self, dependency: &str, path: &Path) {
        self.0.objects.lock().insert(dependency.to_owned(), path.to_owned());
    }

    /// Loads an object: dependencies, symbols, relocation, `_info`. `class` is "mac", "drv", "misc" ... User context of a machine thread.
    /// Loading a name that is loaded gives the loaded one.
    pub fn load(&self, path: &Path, name: &str, class: &str) -> Result<Module, LoadError> {
        if let Some(module) = self.module(name) {
            return Ok(module);
        }
        self.0.loading.lock().push(format!("{class}/{name}"));
        let loaded = Module::load(self, path, name, class);
        self.0.loading.lock().pop();
        let module = loaded?;
        self.0.modules.lock().push(module.clone());
        self.scope(|| module.ask_for_linkage());
        Ok(module)
    }

    /// The modules an object may take symbols from, in order, and a complaint for each that cannot be had.
    pub(crate) fn dependencies(&self, names: &[String]) -> Result<(Vec<Dependency>, Vec<String>), LoadError> {
        let mut found = Vec::new();
        let mut missing = Vec::new();
        for name in names {
            if self.0.provided.lock().iter().any(|p| p.path == name) {
                found.push(Dependency::Provided(name.clone()));
                continue;
            }
            match self.load_dependency(name)? {
                Some(module) => found.push(Dependency::Loaded(module)),
                None => missing.push(format!("unable to resolve dependency, module '{name}' not found")),
            }
        }
        Ok((found, missing))
    }

    fn load_dependency(&self, dependency: &str) -> Result<Option<Module>, LoadError> {
        let (class, name) = dependency.split_once('/').unwrap_or(("", dependency));
        if let Some(module) = self.module(name) {
            return Ok(Some(module));
        }
        if self.0.loading.lock().iter().any(|l| l == dependency) {
            return Ok(None);
        }
        let Some(path) = self.0.objects.lock().get(dependency).cloned() else { return Ok(None) };
        self.load(&path, name, class).map(Some)
    }

    /// Loads the object behind a dependency's name ("mac/mac_ib"), unless it is loaded, and installs it: what the framework does
    /// when somebody names a plugin.
    ///
    /// # Errors
    ///
    /// ENOENT when no such object was added; EINVAL when it does not load; what its `_init` returned.
    pub fn modload(&self, dependency: &str) -> Result<Module, Errno> {
        let module = self.load_dependency(dependency).map_err(|_| Errno::EINVAL)?.ok_or(Errno::ENOENT)?;
        module.install().map(|()| module)
    }

    /// Looks a symbol up as the kernel's loader does: dependencies in order, then `unix`, then `genunix`.
    pub(crate) fn resolve(&self, symbol: &str, dependencies: &[Dependency]) -> Option<Resolved> {
        for dependency in dependencies {
            let found = match dependency {
                Dependency::Provided(path) => self.exported_by(path, symbol),
                Dependency::Loaded(module) => module.exported(symbol).map(|(addr, function)| {
                    if function {
                        Resolved::Function(addr, Contexts::ANY, Between::Gate)
                    } else {
                        Resolved::Data(addr)
                    }
                }),
            };
            if found.is_some() {
                return found;
            }
        }
        self.exported_by("unix", symbol).or_else(|| self.exported_by("genunix", symbol))
    }

    fn exported_by(&self, path: &str, symbol: &str) -> Option<Resolved> {
        let found = {
            let provided = self.0.provided.lock();
            provided.iter().find(|p| p.path == path)?.exports.get(symbol)?.clone()
        };
        Some(match found.kind {
            ExportKind::Func(contexts) => {
                let between = match (found.ungated, found.leaf) {
                    (true, _) => Between::Nothing,
                    (false, true) => Between::GateIfChecked,
                    (false, false) => Between::Gate,
                };
                Resolved::Function(found.addr, contexts, between)
            }
            ExportKind::Data(_) => Resolved::Data(self.data(symbol)?.addr()),
        })
    }

    /// Some provided module that exports `symbol`.
    pub(crate) fn exporter_of(&self, symbol: &str) -> Option<&'static str> {
        let provided = self.0.provided.lock();
        provided.iter().find(|p| p.exports.contains_key(symbol)).map(|p| p.path)
    }

    /// Names of all symbols that a provided module (by its name, e.g. "genunix") exports, sorted.
    pub fn exports(&self, module: &str) -> Vec<&'static str> {
        let provided = self.0.provided.lock();
        provided.iter().filter(|p| p.module == module).flat_map(|p| p.exports.keys().copied()).collect()
    }

    pub(crate) fn next_ordinal(&self) -> usize {
        self.0.ordinal.fetch_add(1, Ordering::Relaxed)
    }

    /// The loaded module of that name.
    pub fn module(&self, name: &str) -> Option<Module> {
        self.modules().into_iter().find(|m| m.name() == name)
    }

    /// Every loaded module, in the order loaded.
    pub fn modules(&self) -> Vec<Module> {
        let all = self.0.modules.lock().clone();
        all.into_iter().filter(|m| !m.is_unloaded()).collect()
    }

    /// How often modules called each function of the kernel so far, those that were unloaded since included.
    pub fn calls(&self) -> BTreeMap<String, u64> {
        let all = self.0.modules.lock().clone();
        let mut calls = BTreeMap::new();
        for (function, times) in all.iter().flat_map(Module::calls) {
            *calls.entry(function).or_default() += times;
        }
        calls
    }

    /// The same of one function.
    pub(crate) fn calls_of(&self, function: &str) -> u64 {
        self.0.modules.lock().iter().map(|module| module.calls_of(function)).sum()
    }

    /// From now on it is noted where calls come from.
    pub fn note_sites(&self) {
        self.0.sites.begin();
    }

    /// The places that calls have come from since, in the order of their first calls; of each the first two.
    pub fn noted_sites(&self) -> Vec<Site> {
        self.0.sites.end()
    }

    pub(crate) fn sites(&self) -> &Sites {
        &self.0.sites
    }

    /// The loaded module whose window holds `addr`.
    pub fn module_at(&self, addr: usize) -> Option<Module> {
        self.module_ever_at(addr).filter(|m| !m.is_unloaded())
    }

    /// The module, loaded or unloaded, whose window holds `addr`.
    pub(crate) fn module_ever_at(&self, addr: usize) -> Option<Module> {
        if !in_window_range(addr) {
            return None;
        }
        self.0.modules.lock().iter().find(|m| m.contains(addr)).cloned()
    }

    /// Gives a driver name a major number (as an entry of name_to_major does); the same one when asked again.
    pub fn add_major(&self, driver: &str) -> u32 {
        let mut majors = self.0.majors.lock();
        let index = majors.iter().position(|m| m == driver).unwrap_or_else(|| {
            majors.push(driver.to_owned());
            majors.len() - 1
        });
        FIRST_MAJOR + index as u32
    }

    /// The major number of a driver name.
    pub fn major(&self, driver: &str) -> Option<u32> {
        let index = self.0.majors.lock().iter().position(|m| m == driver)?;
        Some(FIRST_MAJOR + index as u32)
    }

    /// What modules of this host have taken and not given back.
    pub fn resources(&self) -> &Resources {
        &self.0.resources
    }

    pub(crate) fn services(&self) -> &dyn Services {
        &*self.0.services
    }

    /// Per-host state of a lab crate, created on first use.
    ///
    /// # Panics
    ///
    /// Never: the entry has the type it is filed under.
    pub fn state<T: Any + Send + Sync>(&self, init: impl FnOnce() -> T) -> Arc<T> {
        let known = self.0.states.lock().get(&TypeId::of::<T>()).cloned();
        let state = known.unwrap_or_else(|| {
            let new: Arc<dyn Any + Send + Sync> = Arc::new(init());
            self.0.states.lock().entry(TypeId::of::<T>()).or_insert(new).clone()
        });
        state.downcast().expect("the entry has the type it is filed under")
    }

    /// A thread of this host.
    pub fn spawn(&self, name: &str, ctx: Ctx, f: impl FnOnce() + Send + 'static) -> Thread {
        let what = Spawn { name: name.to_owned(), ctx, work: Work::of(self), cpu: None, pri: 60 };
        Thread(spawn(&self.0.machine, what, Box::new(f)))
    }

    /// Runs `f` with this host as the calling thread's host: for threads that serve several, like the first one.
    pub fn scope<R>(&self, f: impl FnOnce() -> R) -> R {
        let me = current::thread();
        let before = me.local().work_mut().kernel.replace(self.clone());
        let value = f();
        me.local().work_mut().kernel = before;
        value
    }

    /// Calls a function pointer that a module gave: finds the module by the address and calls [`Module::enter`]. An address in a
    /// window that is no longer loaded breaks rule 35; one outside all windows is lab code and is called as it is.
    ///
    /// # Safety
    ///
    /// As for [`Module::enter`].
    pub unsafe fn enter<F: ModuleFn>(&self, f: F, args: F::Args, kind: EntryKind) -> F::Ret {
        match self.module_ever_at(f.addr()) {
            // SAFETY: by this function's contract.
            Some(module) => unsafe { module.enter(f, args, kind) },
            None => {
                if in_window_range(f.addr()) {
                    let detail = format!("{} at {:#x} is in no module of this host", kind.name, f.addr());
                    Cx::of_current().violate(Rule::CallAfterUnload, detail);
                }
                // SAFETY: by this function's contract.
                unsafe { entry::enter(None, self, f, args, kind) }
            }
        }
    }

    /// A live lock, condition variable, timeout ... in `[start, start + len)`: what rule 9 asks before memory is released.
    pub fn live_object_in(&self, start: usize, len: usize) -> Option<LiveObject> {
        self.services().live_object_in(self, start, len)
    }

    /// The memory is released: whatever the kernel knew in it is forgotten.
    pub fn forget_memory(&self, start: usize, len: usize) {
        self.services().forget_memory(self, start, len);
    }

    /// An access of module code to `[start, start + len)`, which must be inaccessible memory, breaks `rule` with this text instead of
    /// being a plain fault: shadows of user memory, guard pages.
    pub fn trap(&self, start: usize, len: usize, rule: Rule, what: impl Into<String>) {
        self.0.traps.lock().push((start, start + len, rule, what.into()));
    }

    /// Takes a trap away again.
    pub fn untrap(&self, start: usize) {
        self.0.traps.lock().retain(|(from, ..)| *from != start);
    }

    /// Who knows what adapters have of this host's memory: `lent` says in words which of the bytes from an address on, so many, an
    /// adapter has. Whoever frees such memory breaks rule 53. It may not wait.
    pub fn set_lent(&self, lent: fn(&Kernel, usize, usize) -> Option<String>) {
        *self.0.lent.lock() = Some(lent);
    }

    pub(crate) fn lent_at(&self, start: usize, len: usize) -> Option<String> {
        let lent = (*self.0.lent.lock())?;
        lent(self, start, len)
    }

    pub(crate) fn trap_at(&self, addr: usize) -> Option<(Rule, String)> {
        let traps = self.0.traps.lock();
        if let Some((_, _, rule, what)) = traps.iter().find(|(from, to, ..)| (*from..*to).contains(&addr)) {
            return Some((*rule, what.clone()));
        }
        drop(traps);
        self.services().forbidden(self, addr)
    }

    /// How an unload detaches the instances of a driver; an error keeps the module loaded. Set by whoever attaches them.
    pub fn set_detach_all(&self, f: impl Fn(&Module) -> Result<(), Errno> + Send + Sync + 'static) {
        *self.0.detach_all.lock() = Some(Arc::new(f));
    }

    pub(crate) fn detach_all(&self, module: &Module) -> Result<(), Errno> {
        let hook = self.0.detach_all.lock().clone();
        hook.map_or(Ok(()), |hook| hook(module))
    }

    /// Drops everything, at the end of the run. With threads left behind in module text, the modules stay mapped for good.
    pub(crate) fn take_apart(&self, left_behind: bool) {
        let modules = std::mem::take(&mut *self.0.modules.lock());
        let states = (std::mem::take(&mut *self.0.states.lock()), self.services().take_apart());
        *self.0.detach_all.lock() = None;
        modules.iter().for_each(Module::harvest);
        if left_behind {
            std::mem::forget((modules, states));
            return;
        }
        modules.iter().for_each(Module::release);
        if let Some(data) = self.0.data.get() {
            data.release();
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({})", self.0.name)
    }
}
