//! The HCA's way to a host's memory.

use crate::os;
use crate::ptr::element;
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
    let from: *const u8 = std::ptr::with_exposed_provenance(addr as usize);
    // SAFETY: the range lies in a live allocation of the host's heap.
    Some(unsafe { mix(from, usize::try_from(len).ok()?) })
}

/// Multiplications by an odd constant and rotations, eight bytes at a time, in four sums that do not wait for one another.
///
/// # Safety
///
/// `len` bytes are readable from `from` on.
unsafe fn mix(from: *const u8, len: usize) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let step = |sum: u64, word: u64| (sum ^ word).wrapping_mul(ODD).rotate_left(29);
    let words = from.cast::<u64>();
    let mut sums = [len as u64, 1, 2, 3];
    for four in 0..len / 32 {
        for (at, sum) in sums.iter_mut().enumerate() {
            // SAFETY: four words for each 32 bytes.
            *sum = step(*sum, unsafe { element(words, four * 4 + at) });
        }
    }
    let mut sum = sums.into_iter().fold(0, step);
    for at in len / 32 * 4..len / 8 {
        // SAFETY: there are so many words.
        sum = step(sum, unsafe { element(words, at) });
    }
    for at in len / 8 * 8..len {
        // SAFETY: there are so many bytes.
        sum = step(sum, unsafe { element(from, at) }.into());
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::mix;

    #[test]
    fn memory_of_which_one_byte_is_another_one_looks_different() {
        for len in [1, 7, 8, 31, 32, 100] {
            let mut bytes: Vec<u8> = (0..len).collect();
            // SAFETY: as many bytes as the vector has.
            let look = |bytes: &[u8]| unsafe { mix(bytes.as_ptr(), bytes.len()) };
            let before = look(&bytes);
            for at in 0..bytes.len() {
                bytes[at] ^= 1;
                assert_ne!(look(&bytes), before, "byte {at} of {len}");
                bytes[at] ^= 1;
            }
            assert_eq!(look(&bytes), before);
        }
    }
}
