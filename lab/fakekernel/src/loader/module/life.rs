//! `_info`, `_init`, `_fini` and what has to be true around them.

use std::ffi::{c_char, c_int};
use std::sync::atomic::Ordering;

use illumos_sys_hdrs::{MI_INFO_ALL, MI_INFO_LINKAGE, modinfo};
use sim::{Nanos, Rule, race};

use crate::loader::cx::Cx;
use crate::loader::entry::EntryKind;
use crate::loader::errno::Errno;
use crate::loader::module::Module;

type Init = unsafe extern "C" fn() -> c_int;
type Info = unsafe extern "C" fn(*mut modinfo) -> c_int;

/// Lines of a leak report.
const LEAK_LINES: usize = 12;

/// Longer than an interrupt lasts, or a thread is without a processor.
const FLEETING: Nanos = Nanos::from_secs(10);

impl Module {
    /// Calls `_info` for the linkage pointer, as every load does. A module without one loads, but cannot install a driver.
    pub(crate) fn ask_for_linkage(&self) {
        if let Some(info) = self.ask(MI_INFO_LINKAGE).filter(|info| !info.mi_base.is_null()) {
            self.0.state.lock().linkage = Some(info.mi_base.addr());
        }
    }

    /// What `modinfo(8)` shows for each entry of its linkage: the text, and the major number (-1 if there is none).
    pub fn linkage_info(&self) -> Vec<(String, i32)> {
        let Some(info) = self.ask(MI_INFO_ALL) else { return Vec::new() };
        let text = |raw: &[c_char]| {
            let bytes: Vec<u8> = raw.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let shown = info.mi_msinfo.iter().map(|entry| (text(&entry.msi_linkinfo), entry.msi_p0));
        shown.take_while(|(text, _)| !text.is_empty()).collect()
    }

    fn ask(&self, what: c_int) -> Option<modinfo> {
        let info = self.symbol("_info").filter(|addr| self.is_text(*addr))?;
        let pointer = std::ptr::with_exposed_provenance::<()>(info);
        // SAFETY: `_info` has this prototype in every module.
        let info: Info = unsafe { std::mem::transmute(pointer) };
        let mut modinfo = modinfo { mi_info: what, ..modinfo::default() };
        // SAFETY: `_info` is given a `struct modinfo` of its own.
        let answer = unsafe { self.enter(info, (&raw mut modinfo,), EntryKind::callback("_info")) };
        (answer != 0).then_some(modinfo)
    }

    fn call_entry(&self, name: &'static str) -> Option<c_int> {
        let addr = self.symbol(name).filter(|addr| self.is_text(*addr))?;
        let pointer = std::ptr::with_exposed_provenance::<()>(addr);
        // SAFETY: `_init` and `_fini` have this prototype in every module.
        let entry: Init = unsafe { std::mem::transmute(pointer) };
        // SAFETY: they take nothing.
        Some(unsafe { self.enter(entry, (), EntryKind::callback(name)) })
    }

    /// Installs its dependencies, then calls `_init`. A failure unloads it again, without `_fini`. An installed module stays as it is.
    pub fn install(&self) -> Result<(), Errno> {
        if self.is_installed() {
            return Ok(());
        }
        for dependency in &self.0.depends_on {
            dependency.install().map_err(|_| Errno::ENXIO)?;
        }
        match self.call_entry("_init") {
            Some(0) => {
                race::release(self.installation());
                self.0.state.lock().installed = true;
                Ok(())
            }
            failed => {
                self.check_nothing_left("_init");
                self.bury();
                Err(failed.map_or(Errno::EFAULT, Errno))
            }
        }
    }

    /// An unload attempt: EBUSY with dependents; detaches all instances; `_fini`; then the text is gone.
    pub fn unload(&self) -> Result<(), Errno> {
        if self.is_unloaded() {
            return Err(Errno::EINVAL);
        }
        if self.0.state.lock().dependents > 0 {
            return Err(Errno::EBUSY);
        }
        if self.is_installed() {
            self.kernel().detach_all(self).map_err(|_| Errno::EBUSY)?;
            self.finish()?;
        }
        self.bury();
        Ok(())
    }

    fn finish(&self) -> Result<(), Errno> {
        self.wait_for_the_fleeting();
        match self.call_entry("_fini") {
            None => return Err(Errno::EBUSY),
            Some(0) => {}
            Some(error) if error == Errno::EALREADY.0 => return Err(Errno::EINVAL),
            Some(error) => return Err(Errno(error)),
        }
        let cx = Cx::of_entry(Some(self), "_fini");
        let linked = self.0.state.lock().linked;
        cx.check(!linked, Rule::BadFini, || "returned 0 without a successful mod_remove".to_owned());
        let dependents = self.0.state.lock().dependents;
        cx.check(dependents == 0, Rule::BadFini, || {
            format!("returned 0 with {dependents} dependents loaded")
        });
        let inside = self.0.inside.load(Ordering::Acquire);
        cx.check(inside == 0, Rule::BadThreadExit, || {
            format!("returned 0 while {inside} threads are in the module's functions{}", self.who_is_inside())
        });
        self.check_nothing_left("_fini");
        self.0.state.lock().installed = false;
        Ok(())
    }

    /// An interrupt that has come and has not executed a handler's first instruction yet, or all but the last, is over before its module is
    /// unloaded, and so is a thread in a handler that its interface does not wait for: the module cannot, and neither lasts as long as
    /// unloading does. What they must not touch any more is gone by then.
    fn wait_for_the_fleeting(&self) {
        let deadline = sim::thread::now() + FLEETING;
        while self.0.fleeting.load(Ordering::Acquire) > 0 && sim::thread::now() < deadline {
            sim::thread::sleep(Nanos::from_millis(1));
        }
        race::acquire(self.fleeting());
    }

    /// A line for each thread with a frame of the module, and its frames.
    fn who_is_inside(&self) -> String {
        let mut dump = self.kernel().machine().dump();
        dump.threads.retain(|thread| {
            thread.host == self.kernel().name() && thread.backtrace.iter().any(|f| f.module == self.name())
        });
        format!(", {dump}")
    }

    /// Rules 9, 16 and 19 for the whole module.
    fn check_nothing_left(&self, entry: &'static str) {
        let cx = Cx::of_entry(Some(self), entry);
        let mut taken = self.kernel().resources().of(self.name(), None);
        taken.retain(|left| !cx.forgiven(left));
        if let Some(own) = taken.iter().find(|r| r.rule != Rule::Leak) {
            cx.check(false, own.rule, || format!("left behind: {own}"));
        }
        let mut left: Vec<String> = taken.iter().map(ToString::to_string).collect();
        left.extend(self.kernel().services().unreturned_by(self.kernel(), self.name()));
        if !left.is_empty() {
            let total = left.len();
            let lines: Vec<String> = left.into_iter().take(LEAK_LINES).collect();
            cx.check(false, Rule::Leak, || format!("{total} left behind: {}", lines.join("; ")));
        }
        let (data, len) = self.data_range();
        if let Some(live) = self.kernel().live_object_in(data, len) {
            let rule = if live.busy { Rule::LiveObjectInFreedMemory } else { Rule::Leak };
            cx.check(false, rule, || format!("module data still contains {}", live.what));
        }
        self.kernel().services().examine_memory(self.kernel(), &cx);
    }

    pub(crate) fn data_range(&self) -> (usize, usize) {
        (self.0.data.start(), self.0.data.len())
    }

    /// The text is gone for good; the addresses stay taken.
    fn bury(&self) {
        self.harvest();
        {
            let mut state = self.0.state.lock();
            state.unloaded = true;
            state.installed = false;
            state.dev_ops = None;
        }
        drop(self.0.told.lock().take());
        self.0.text.bury();
        self.0.data.bury();
        let (data, len) = self.data_range();
        self.kernel().forget_memory(data, len);
        for dependency in &self.0.depends_on {
            dependency.0.state.lock().dependents -= 1;
        }
    }
}
