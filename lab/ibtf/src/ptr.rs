//! Pointers a module gave: read once, written once, nothing kept.

/// The value behind `p`; `None` for NULL.
///
/// # Safety
///
/// `p` is NULL or points to an initialised `T` that nobody writes meanwhile.
pub(crate) unsafe fn load<T: Copy>(p: *const T) -> Option<T> {
    // SAFETY: by this function's contract; C structures on a module's stack need no more than their natural alignment, which
    // `read_unaligned` does not ask for.
    (!p.is_null()).then(|| unsafe { p.read_unaligned() })
}

/// Stores `value` at `p`; nothing for NULL.
///
/// # Safety
///
/// `p` is NULL or points to memory for a `T` that nobody else touches meanwhile.
pub(crate) unsafe fn store<T>(p: *mut T, value: T) {
    if !p.is_null() {
        // SAFETY: by this function's contract.
        unsafe { p.write_unaligned(value) };
    }
}

/// The `n`th element of an array in C.
///
/// # Safety
///
/// `base` points to more than `n` initialised elements that nobody writes meanwhile.
pub(crate) unsafe fn element<T: Copy>(base: *const T, n: usize) -> T {
    // SAFETY: the array has more than `n` elements by this function's contract.
    let at = unsafe { base.add(n) };
    // SAFETY: as above.
    unsafe { at.read_unaligned() }
}

/// Stores the `n`th element of an array in C.
///
/// # Safety
///
/// `base` points to memory for more than `n` elements that nobody else touches meanwhile.
pub(crate) unsafe fn set_element<T>(base: *mut T, n: usize, value: T) {
    // SAFETY: the array has more than `n` elements by this function's contract.
    let at = unsafe { base.add(n) };
    // SAFETY: as above.
    unsafe { at.write_unaligned(value) };
}

/// `n` elements of an array in C, copied; empty for NULL.
///
/// # Safety
///
/// `base` is NULL or points to `n` initialised elements that nobody writes meanwhile.
pub(crate) unsafe fn elements<T: Copy>(base: *const T, n: usize) -> Vec<T> {
    if base.is_null() {
        return Vec::new();
    }
    // SAFETY: every index is below `n`.
    (0..n).map(|i| unsafe { element(base, i) }).collect()
}
