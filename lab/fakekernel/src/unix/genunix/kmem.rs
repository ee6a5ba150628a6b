//! `kmem_alloc(9F)` and what checks it (rules 1, 9, 15, 16, 41).

use std::ffi::{c_int, c_void};
use std::ptr;

use illumos_sys_hdrs::{KM_NOSLEEP, KM_PANIC, KM_SLEEP};
use sim::{Config, FaultKind, HostMutex, Mode, Rule, race};

use super::bare::Bare;
use super::firewall::Firewall;
use super::heap::{Block, Fault, Fill, Heap, Kind};
use super::origin::Origin;
use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::export::Export;
use crate::loader::kernel::Kernel;
use crate::loader::mem::Mem;
use crate::unix::races;

/// A request for more than this is a computation gone wrong.
const ABSURD: usize = 1 << 40;

pub(super) fn exports() -> Vec<Export> {
    export! { UKS: kmem_alloc, kmem_zalloc, kmem_free; }
}

/// One host's heap under its lock.
#[derive(Debug)]
pub(crate) struct Memory {
    heap: HostMutex<Heap<Origin>>,
    /// Where memory comes from instead, in a machine without checks.
    bare: Option<Bare>,
}

impl Memory {
    pub(super) fn new(config: &Config) -> Self {
        let seed = match config.mode {
            Mode::Virtual { seed } => seed,
            Mode::Live => 0,
        };
        let heap =
            Heap::new(Firewall::new(config.wall_one_in, seed)).unwrap_or_else(|error| panic!("{error}"));
        Self { heap: HostMutex::new(heap), bare: (!config.checks).then(Bare::new) }
    }

    /// The heap of a machine without checks.
    pub(super) fn plain(&self) -> Option<&Bare> {
        self.bare.as_ref()
    }

    /// A block, or nothing when the heap's address range is used up.
    pub(super) fn alloc(
        &self,
        size: usize,
        align: usize,
        kind: Kind,
        fill: Fill,
        origin: Origin,
    ) -> Option<Mem> {
        if let Some(bare) = &self.bare {
            return Some(bare.alloc(size, align, fill));
        }
        self.heap.lock().alloc(size, align, kind, fill, origin).ok()
    }

    /// Frees a block.
    pub(super) fn free(
        &self,
        addr: usize,
        size: Option<usize>,
        kind: Kind,
        by: Origin,
    ) -> Result<(), Fault<Origin>> {
        if let Some(bare) = &self.bare {
            bare.free(addr);
            return Ok(());
        }
        let freed = self.heap.lock().free(addr, size, kind, by);
        if let Ok(block) = &freed {
            race::forget_memory(addr, block.size);
        }
        freed.map(drop)
    }

    /// The live block that starts at `addr`.
    pub(super) fn block(&self, addr: usize) -> Option<Block<Origin>> {
        self.heap.lock().block(addr).cloned()
    }

    /// What kind of live block starts at `addr`.
    pub(super) fn kind(&self, addr: usize) -> Option<Kind> {
        if self.bare.is_some() {
            return None;
        }
        self.heap.lock().block(addr).map(|block| block.kind)
    }

    /// How large the live block is that starts at `addr`.
    pub(super) fn size(&self, addr: usize) -> Option<usize> {
        if self.bare.is_some() {
            return None;
        }
        self.heap.lock().block(addr).map(|block| block.size)
    }

    /// Whether a live block of this kind starts at `addr`. A machine without checks takes the module's word for it.
    pub(super) fn holds(&self, addr: usize, kind: Kind) -> bool {
        self.bare.is_some() || self.kind(addr) == Some(kind)
    }

    /// The bytes of a live block.
    pub(super) fn bytes(&self, addr: usize) -> Option<Mem> {
        if let Some(bare) = &self.bare {
            return Some(bare.block(addr));
        }
        let heap = self.heap.lock();
        heap.block(addr).map(|block| heap.mem(addr, block.size))
    }

    /// Whether an address belongs to the heap, live or not.
    pub(super) fn is_heap(&self, addr: usize) -> bool {
        self.heap.lock().contains(addr)
    }

    /// Why an address is not what it should be, in words.
    pub(super) fn explain(&self, kernel: &Kernel, addr: usize) -> String {
        let (live, freed) = {
            let heap = self.heap.lock();
            let freed = heap.freed_holder(addr).map(|(block, by)| (block.clone(), *by));
            (heap.holder(addr).cloned(), freed)
        };
        match (live, freed) {
            (Some(block), _) => format!(
                "{addr:#x} lies at byte {} of {}, {} bytes, allocated by {}",
                addr - block.addr,
                block.kind,
                block.size,
                block.origin.describe(kernel)
            ),
            (None, Some((block, by))) => format!(
                "{addr:#x} lies at byte {} of {}, {} bytes, allocated by {} and freed by {}",
                addr - block.addr,
                block.kind,
                block.size,
                block.origin.describe(kernel),
                by.describe(kernel)
            ),
            (None, None) => format!("{addr:#x} is no memory of the kernel's heap"),
        }
    }

    /// What lies behind a wall at this address, in words: an access there faulted.
    fn explain_wall(&self, kernel: &Kernel, addr: usize) -> Option<String> {
        let heap = self.heap.lock();
        let (block, by) = heap.walled(addr).map(|(block, by)| (block.clone(), by.copied()))?;
        drop(heap);
        let whose =
            format!("{} of {} bytes, allocated by {}", block.kind, block.size, block.origin.describe(kernel));
        Some(match by {
            Some(by) => format!("{whose}, was freed by {}", by.describe(kernel)),
            None => format!("byte {} is beyond {whose}", addr.wrapping_sub(block.addr)),
        })
    }

    /// Looks at every red zone and all of quarantine (rule 16).
    pub(super) fn sweep(&self, cx: &Cx) {
        let found = {
            let heap = self.heap.lock();
            heap.sweep().map(|(block, fault)| (block.cloned(), fault))
        };
        if let Some((block, fault)) = found {
            let what = match block {
                Some(b) => {
                    format!("{} bytes at {:#x} of {}: ", b.size, b.addr, b.origin.describe(cx.kernel()))
                }
                None => String::new(),
            };
            cx.violate(Rule::HeapCorruption, format!("{what}{fault}"));
        }
    }
}

impl super::Genunix {
    /// Looks at every red zone of the heap and at all freed memory in quarantine; damage breaks rule 16.
    pub fn sweep_heap(&self, cx: &Cx) {
        self.memory.sweep(cx);
    }

    /// Zeroed memory for a structure that the lab gives to the calling module to fill in (`mac_alloc` and its like); `what` names
    /// it in the ledger.
    pub fn lend_structure(&self, cx: &Cx, size: usize, what: &'static str) -> *mut c_void {
        let Some(mem) = self.memory.alloc(size, 8, Kind::Lab, Fill::Zero, Origin::of(cx)) else {
            cx.panic(format!("out of kernel memory for a {what}"));
        };
        cx.kernel().resources().add(what, mem.addr() as u64, format!("{size} bytes"));
        mem.start().as_ptr().cast()
    }

    /// Takes back what [`Genunix::lend_structure`](super::Genunix::lend_structure) gave; anything else breaks rule 15.
    pub fn return_structure(&self, cx: &Cx, structure: *mut c_void, what: &'static str) {
        if !cx.kernel().resources().remove(what, structure.addr() as u64) && cx.module().is_some() {
            let why = self.memory.explain(cx.kernel(), structure.addr());
            cx.violate(Rule::BadFree, format!("{structure:p} is no {what}: {why}"));
            return;
        }
        if let Err(fault) = self.memory.free(structure.addr(), None, Kind::Lab, Origin::of(cx)) {
            report(cx, what, &fault);
        }
    }

    /// Why an access to an address of the heap faulted, if a wall stands there.
    pub(crate) fn explain_wall(&self, kernel: &Kernel, addr: usize) -> Option<String> {
        self.memory.explain_wall(kernel, addr)
    }

    /// What lies at an address of the heap, in words: the allocation, its size and who made it.
    pub fn explain_address(&self, kernel: &Kernel, addr: usize) -> String {
        self.memory.explain(kernel, addr)
    }

    /// The live allocation that holds the byte at `addr`: its start and its size.
    pub fn allocation_at(&self, addr: usize) -> Option<(usize, usize)> {
        self.memory.heap.lock().holder(addr).map(|block| (block.addr, block.size))
    }

    /// Zeroed memory that an interface hands to a module, which frees it with `kmem_free`. U and K context.
    pub fn kmem_zalloc_for_module(&self, size: usize) -> *mut c_void {
        allocate(size, KM_SLEEP, Fill::Zero)
    }

    /// Takes back from a module what [`Self::kmem_zalloc_for_module`] gave, or what it allocated itself and an interface frees for it;
    /// rules 9 and 15 as for `kmem_free`.
    pub fn kmem_free_for_module(&self, addr: usize, size: usize) {
        // SAFETY: kmem_free looks the block up before it touches anything.
        unsafe { kmem_free(ptr::without_provenance_mut(addr), size) }
    }

    /// What a module's own allocations hold now: address and bytes of each, in the order of their addresses. Message blocks are
    /// not among them.
    pub fn memory_of(&self, module: &str) -> Vec<(usize, Vec<u8>)> {
        let heap = self.memory.heap.lock();
        let own = heap.blocks().filter(|block| {
            block.origin.module == module && matches!(block.kind, Kind::Kmem | Kind::Cache(_))
        });
        own.map(|block| (block.addr, heap.mem(block.addr, block.size).get())).collect()
    }

    /// Bytes allocated now, and blocks.
    pub fn heap_use(&self) -> (usize, usize) {
        if let Some(bare) = &self.memory.bare {
            return bare.usage();
        }
        let heap = self.memory.heap.lock();
        (heap.live_bytes(), heap.live_blocks())
    }
}

/// The alignment a request of that size gets: that of its size class.
pub(super) fn alignment(size: usize) -> usize {
    match class(size) {
        class if class.is_multiple_of(4096) => 4096,
        class if class.is_multiple_of(64) => 64,
        _ => 8,
    }
}

/// The allocator's internal size classes.
fn class(size: usize) -> usize {
    const LARGE: [usize; 6] = [1152, 1344, 1600, 2048, 2688, 4096];
    match size {
        0..=64 => size.next_multiple_of(8),
        65..=896 => size.next_multiple_of(size.next_power_of_two() / 8),
        897..=4096 => LARGE.into_iter().find(|class| *class >= size).unwrap_or(4096),
        _ => size.next_multiple_of(4096),
    }
}

/// Breaks the rule a fault stands for.
pub(super) fn report(cx: &Cx, what: &str, fault: &Fault<Origin>) {
    let rule = match fault {
        Fault::Before | Fault::Behind(_) | Fault::AfterFree(..) => Rule::HeapCorruption,
        Fault::Unknown | Fault::Interior(..) | Fault::Twice(_) | Fault::Size(_) | Fault::Kind(_) => {
            Rule::BadFree
        }
    };
    cx.violate(rule, format!("{what}: {fault}"));
}

/// Memory is given back: does an adapter have some of it? (rule 53)
pub(super) fn no_adapter_has(cx: &Cx, addr: usize, size: usize) {
    if let Some(what) = cx.kernel().lent_at(addr, size) {
        cx.violate(Rule::PostedMemory, format!("{size} bytes at {addr:#x} are freed: {what}"));
    }
}

/// Memory is given back or reused: what still lives in it? (rule 9)
pub(super) fn nothing_lives_in(cx: &Cx, addr: usize, size: usize) {
    if let Some(object) = cx.kernel().live_object_in(addr, size) {
        let state = if object.busy { "in use" } else { "never destroyed" };
        let what = format!("{size} bytes at {addr:#x} hold {} ({state}) at {:#x}", object.what, object.addr);
        cx.violate(Rule::LiveObjectInFreedMemory, what);
    }
    let genunix = cx.kernel().genunix();
    if let Some(node) = genunix.linked.first_in(addr, size) {
        let what = format!("{size} bytes at {addr:#x} hold a list node at {node:#x} that is still linked");
        cx.violate(Rule::LiveObjectInFreedMemory, what);
        genunix.linked.forget(addr, size);
    }
    cx.kernel().forget_memory(addr, size);
}

fn allocate(size: usize, flags: c_int, fill: Fill) -> *mut c_void {
    let cx = cx();
    if size == 0 {
        return ptr::null_mut();
    }
    cx.check(size <= ABSURD, Rule::AbsurdArgument, || format!("{size} bytes asked for"));
    if flags & KM_NOSLEEP == 0 {
        cx.wait_for_memory();
    } else if cx.fault(FaultKind::KMEM) {
        return ptr::null_mut();
    }
    let genunix = cx.kernel().genunix();
    match genunix.memory.alloc(size, alignment(size), Kind::Kmem, fill, Origin::of(&cx)) {
        Some(mem) => {
            if genunix.memory.bare.is_none() {
                cx.kernel().resources().add("kmem", mem.addr() as u64, format!("{size} bytes"));
            }
            mem.start().as_ptr().cast()
        }
        None if flags & KM_NOSLEEP != 0 && flags & KM_PANIC == 0 => ptr::null_mut(),
        None => cx.panic(format!("out of kernel memory: {size} bytes wanted")),
    }
}

unsafe extern "C" fn kmem_alloc(size: usize, flags: c_int) -> *mut c_void {
    allocate(size, flags, Fill::Uninitialised)
}

unsafe extern "C" fn kmem_zalloc(size: usize, flags: c_int) -> *mut c_void {
    allocate(size, flags, Fill::Zero)
}

unsafe extern "C" fn kmem_free(buf: *mut c_void, size: usize) {
    let cx = cx();
    if buf.is_null() && size == 0 {
        return;
    }
    let genunix = cx.kernel().genunix();
    if genunix.memory.kind(buf.addr()) == Some(Kind::Kmem) {
        no_adapter_has(&cx, buf.addr(), size);
        races::check_free(&cx, buf.addr(), size);
        nothing_lives_in(&cx, buf.addr(), size);
    }
    if let Err(fault) = genunix.memory.free(buf.addr(), Some(size), Kind::Kmem, Origin::of(&cx)) {
        report(&cx, &format!("kmem_free({:#x}, {size})", buf.addr()), &fault);
    }
    cx.kernel().resources().remove("kmem", buf.addr() as u64);
}

#[cfg(test)]
mod tests {
    use super::{alignment, class};

    #[test]
    fn size_classes_and_what_they_align_to() {
        for (size, want, align) in [
            (1, 8, 8),
            (64, 64, 64),
            (65, 80, 8),
            (100, 112, 8),
            (129, 160, 8),
            (190, 192, 64),
            (257, 320, 64),
            (513, 640, 64),
            (896, 896, 64),
            (897, 1152, 64),
            (2700, 4096, 4096),
            (5000, 8192, 4096),
        ] {
            assert_eq!((class(size), alignment(size)), (want, align), "kmem_alloc({size})");
        }
    }
}
