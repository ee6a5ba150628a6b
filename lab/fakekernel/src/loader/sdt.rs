//! DTrace's statically defined probes: calls of `__dtrace_probe_NAME`, which the kernel's loader turns into no-operations until
//! somebody enables the probe. The lab's loader does the same, or enables them all ([`crate::Config::probes`]).
//!
//! An enabled probe is a call to a stub in the module's text that names the site and goes on to [`hit`]. It is no kernel call: it
//! costs no time, and nobody else runs at it, so a run with probes is the run without.

use std::arch::naked_asm;
use std::sync::Arc;

use sim::{HostMutex, Nanos};

use crate::loader::gate::STUB_SIZE;
use crate::loader::kernel::Kernel;
use crate::loader::kernels::Machine;
use crate::loader::mem::c_string;

/// What the loader finds probe sites by.
pub(crate) const PREFIX: &str = "__dtrace_probe_";
/// More are counted and not kept.
const MOST: usize = 1 << 20;
/// The longest text of an argument.
const TEXT: usize = 64;

/// A probe that fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeHit {
    /// When.
    pub at: Nanos,
    /// On which host.
    pub host: String,
    /// In which module.
    pub module: String,
    /// The probe's name as DTrace shows it: `ibd-tx-drop`.
    pub name: String,
    /// The first four arguments; those that the probe does not have are whatever was in the registers.
    pub arguments: [ProbeArgument; 4],
}

/// An argument of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeArgument {
    /// A number.
    Number(u64),
    /// The address of a constant string of the module's.
    Text(String),
}

/// The probes of a module that are enabled, and what they have seen.
#[derive(Default)]
pub(crate) struct Log {
    sites: Vec<Arc<Site>>,
    hits: Vec<ProbeHit>,
    /// Hits that were not kept.
    lost: u64,
}

/// An enabled probe of a loaded module.
pub(crate) struct Site {
    kernel: Kernel,
    module: String,
    name: String,
    /// Start and length of the module's text and constants.
    text: (usize, usize),
}

impl Machine {
    /// Every probe that fired, in order, and how many more were not kept.
    pub fn probe_hits(&self) -> (Vec<ProbeHit>, u64) {
        let log = self.kernels().probes.lock();
        (log.hits.clone(), log.lost)
    }
}

/// Enables a probe: the code its sites call.
pub(crate) fn enable(kernel: &Kernel, module: &str, symbol: &str, text: (usize, usize)) -> [u8; STUB_SIZE] {
    let name = symbol.strip_prefix(PREFIX).unwrap_or(symbol).replace("__", "-");
    let site = Arc::new(Site { kernel: kernel.clone(), module: module.to_owned(), name, text });
    let mut code = [0xcc; STUB_SIZE];
    // mov r11, site; jmp [rip]; .quad entry
    code[..2].copy_from_slice(&[0x49, 0xbb]);
    code[2..10].copy_from_slice(&(Arc::as_ptr(&site).expose_provenance() as u64).to_le_bytes());
    code[10..16].copy_from_slice(&[0xff, 0x25, 0, 0, 0, 0]);
    code[16..24].copy_from_slice(&(entry as *const () as usize as u64).to_le_bytes());
    // Sites stay as long as the machine, and so longer than any thread that is in one.
    kernel.machine().kernels().probes.lock().sites.push(site);
    code
}

/// # Safety
///
/// Only stubs jump here, with the site in `r11` and the probe's arguments where a call has them.
#[unsafe(naked)]
unsafe extern "C" fn entry() {
    naked_asm!("mov r8, r11", "jmp {hit}", hit = sym hit)
}

/// # Safety
///
/// `site` is a machine's.
unsafe extern "C" fn hit(a: u64, b: u64, c: u64, d: u64, site: *const Site) {
    // SAFETY: by this function's contract.
    let site = unsafe { &*site };
    let arguments = [a, b, c, d].map(|raw| site.argument(raw));
    let machine = site.kernel.machine();
    let hit = ProbeHit {
        at: machine.now(),
        host: site.kernel.name().to_owned(),
        module: site.module.clone(),
        name: site.name.clone(),
        arguments,
    };
    let log: &HostMutex<Log> = &machine.kernels().probes;
    let mut log = log.lock();
    if log.hits.len() < MOST {
        log.hits.push(hit);
    } else {
        log.lost += 1;
    }
}

impl Site {
    /// A number in the module's own text is the address of a string if there is one.
    fn argument(&self, raw: u64) -> ProbeArgument {
        let (start, len) = self.text;
        let number = ProbeArgument::Number(raw);
        let Some(offset) = (raw as usize).checked_sub(start).filter(|offset| *offset < len) else {
            return number;
        };
        let room = (len - offset).min(TEXT);
        let pointer = std::ptr::with_exposed_provenance(raw as usize);
        // SAFETY: `room` bytes of the module's text, which stays readable while one of its threads is in it.
        let bytes = unsafe { c_string(pointer, Some(room)) };
        let printable =
            !bytes.is_empty() && bytes.len() < room && bytes.iter().all(|b| matches!(b, 0x20..0x7f));
        if printable { ProbeArgument::Text(String::from_utf8_lossy(&bytes).into_owned()) } else { number }
    }
}
