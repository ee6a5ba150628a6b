//! Numbers that no other host can guess.

use illumos_sys_hdrs as sys;

/// 64 bits of the kernel's generator (`random_get_pseudo_bytes(9F)`); `None` if the kernel cannot load it. **May block**, the first
/// time: the generator is a module that is loaded then.
pub fn number() -> Option<u64> {
    let mut bytes = [0; size_of::<u64>()];
    // SAFETY: as many bytes as there are.
    let status = unsafe { sys::random_get_pseudo_bytes(bytes.as_mut_ptr(), bytes.len()) };
    (status == 0).then(|| u64::from_ne_bytes(bytes))
}
