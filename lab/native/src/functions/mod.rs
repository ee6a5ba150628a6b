//! What a driver calls for a packet, one way or the other: of IBTF, of `mac` and of the kernel, as short as each can be.

mod ibtf;
mod kernel;
mod lists;
mod mac;
mod memory;
mod paths;

/// By name, with the prototypes that the headers have for them.
pub(crate) fn all() -> Vec<(&'static str, usize)> {
    let exports = [
        ibtf::exports(),
        kernel::exports(),
        lists::exports(),
        mac::exports(),
        memory::exports(),
        paths::exports(),
    ]
    .concat();
    exports.into_iter().map(|export| (export.name, export.addr)).collect()
}

/// An array of the driver's; none if there is none.
///
/// # Safety
///
/// It has so many elements, which nobody changes while they are looked at.
unsafe fn elements<'a, T>(first: *const T, count: u32) -> &'a [T] {
    if first.is_null() {
        return &[];
    }
    // SAFETY: by this function's contract.
    unsafe { std::slice::from_raw_parts(first, count as usize) }
}
