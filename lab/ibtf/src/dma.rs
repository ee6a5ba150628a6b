//! The HCA's way to a host's memory.

use crate::os;
use fabric::{Dma, DmaFault};
use fakekernel::{Ctx, Kernel, Rule, cx};

/// Reaches the memory of one host by virtual address, as long as the kernel calls it live.
pub(crate) struct HostDma {
    kernel: Kernel,
}

impl HostDma {
    pub(crate) fn new(kernel: &Kernel) -> Self {
        HostDma { kernel: kernel.clone() }
    }

    /// An access to memory that is registered but no longer allocated: on real hardware it corrupts whatever lives there now.
    /// The thread this runs on may belong to another host, so the rule is broken on one of this host's interrupt threads.
    fn complain(&self, what: &'static str, addr: u64, len: usize) -> DmaFault {
        let explained = os::explain(&self.kernel, addr);
        self.kernel.interrupt("hca dma", Ctx::Soft { pil: 6 }, 0, move || {
            let detail =
                format!("the HCA {what} {len} registered bytes that are not live memory: {explained}");
            cx().violate(Rule::HeapCorruption, detail);
        });
        DmaFault { addr, len }
    }
}

impl Dma for HostDma {
    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<(), DmaFault> {
        if !os::is_live(&self.kernel, addr, buf.len() as u64) {
            return Err(self.complain("read", addr, buf.len()));
        }
        let from: *const u8 = std::ptr::with_exposed_provenance(addr as usize);
        // SAFETY: the range lies in a live allocation of the host's heap; the fabric keeps its memory region registered
        // during the copy, and a module that frees registered memory is caught above. The buffer is the lab's.
        unsafe { from.copy_to_nonoverlapping(buf.as_mut_ptr(), buf.len()) };
        Ok(())
    }

    fn write(&self, addr: u64, buf: &[u8]) -> Result<(), DmaFault> {
        if !os::is_live(&self.kernel, addr, buf.len() as u64) {
            return Err(self.complain("wrote", addr, buf.len()));
        }
        let to: *mut u8 = std::ptr::with_exposed_provenance_mut(addr as usize);
        // SAFETY: as for `read`.
        unsafe { to.copy_from_nonoverlapping(buf.as_ptr(), buf.len()) };
        Ok(())
    }

    fn is_memory(&self, addr: u64, len: u64) -> bool {
        os::is_live(&self.kernel, addr, len)
    }
}

/// A number for what the memory holds now, by which two looks at it are compared; `None` if not all of it is memory.
pub(crate) fn digest(kernel: &Kernel, addr: u64, len: u64) -> Option<u64> {
    if !os::is_live(kernel, addr, len) {
        return None;
    }
    let mut bytes = vec![0u8; usize::try_from(len).ok()?];
    let from: *const u8 = std::ptr::with_exposed_provenance(addr as usize);
    // SAFETY: the range lies in a live allocation of the host's heap, and the buffer is as long.
    unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
    Some(mix(&bytes))
}

/// Multiplications by an odd constant and rotations, eight bytes at a time.
fn mix(bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    bytes.chunks(8).fold(bytes.len() as u64, |sum, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (sum ^ u64::from_le_bytes(word)).wrapping_mul(ODD).rotate_left(29)
    })
}
