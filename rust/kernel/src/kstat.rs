//! Named kernel statistics (`kstat(9S)`).

use core::ffi::{CStr, c_int};
use core::ptr::NonNull;

use illumos_sys_hdrs as sys;

use crate::KArc;
use crate::errno::Errno;
use crate::module::Pin;

/// Where the numbers of a [`Kstat`] come from.
pub trait Source: Send + Sync + 'static {
    /// The names, in order, at most 30 characters each.
    const NAMES: &'static [&'static CStr];

    /// Writes the present values, one per name. Runs on the reader's thread; must not block on anything but short
    /// locks.
    fn read(&self, values: &mut dyn FnMut(usize, u64));
}

/// A table of named 64-bit counters, visible as long as the value lives. Creation and drop **may block**.
pub struct Kstat<S: Source> {
    raw: NonNull<sys::kstat_t>,
    source: KArc<S>,
    _pin: Pin,
}

// SAFETY: the handle is only used to delete the kstat, which any thread may do.
unsafe impl<S: Source> Send for Kstat<S> {}
// SAFETY: as above.
unsafe impl<S: Source> Sync for Kstat<S> {}

impl<S: Source> Kstat<S> {
    /// Publishes `module:instance:name` of class `class`. Each name has at most 30 characters.
    pub fn new(
        module: &CStr,
        instance: i32,
        name: &CStr,
        class: &CStr,
        source: KArc<S>,
    ) -> Result<Self, Errno> {
        let count = sys::uint_t::try_from(S::NAMES.len()).map_err(|_| Errno::EINVAL)?;
        // SAFETY: the strings are copied by the call.
        let raw = unsafe {
            sys::kstat_create(
                module.as_ptr(),
                instance,
                name.as_ptr(),
                class.as_ptr(),
                sys::KSTAT_TYPE_NAMED as sys::uchar_t,
                count,
                0,
            )
        };
        let raw = NonNull::new(raw).ok_or(Errno::ENOMEM)?;
        let this = Self { raw, source, _pin: Pin::of_registration() };
        this.fill_names();
        let ksp = raw.as_ptr();
        // SAFETY: not installed yet, so nobody else looks at it.
        unsafe { (*ksp).ks_update = Some(update::<S>) };
        // SAFETY: as above; the source outlives the kstat, which drop deletes first.
        unsafe { (*ksp).ks_private = KArc::as_ptr(&this.source).as_ptr().cast() };
        // SAFETY: complete and ours.
        unsafe { sys::kstat_install(ksp) };
        Ok(this)
    }

    fn fill_names(&self) {
        // SAFETY: kstat_create allocated one kstat_named_t for each name, because the flags do not say VIRTUAL.
        let table: *mut sys::kstat_named_t = unsafe { (*self.raw.as_ptr()).ks_data }.cast();
        for (index, name) in S::NAMES.iter().enumerate() {
            // SAFETY: `index` is below the number of entries.
            let entry = unsafe { table.add(index) };
            // SAFETY: a valid entry of a kstat that is not installed yet; the name is copied.
            unsafe { sys::kstat_named_init(entry, name.as_ptr(), sys::KSTAT_DATA_UINT64 as sys::uchar_t) };
        }
    }
}

impl<S: Source> Drop for Kstat<S> {
    fn drop(&mut self) {
        // SAFETY: created in `new`, deleted once; waits for a reader.
        unsafe { sys::kstat_delete(self.raw.as_ptr()) };
    }
}

/// # Safety
///
/// Called by the kernel with the kstat's lock held, for a kstat made by [`Kstat::new`].
unsafe extern "C" fn update<S: Source>(ksp: *mut sys::kstat, rw: c_int) -> c_int {
    if rw == sys::KSTAT_WRITE as c_int {
        return Errno::EPERM.get();
    }
    // SAFETY: by this function's contract; set in `new`.
    let source = unsafe { (*ksp).ks_private }.cast::<S>();
    // SAFETY: as above.
    let table: *mut sys::kstat_named_t = unsafe { (*ksp).ks_data }.cast();
    // SAFETY: the source lives until the kstat is deleted.
    let source = unsafe { &*source };
    source.read(&mut |index, value| {
        if index < S::NAMES.len() {
            // SAFETY: the table has one entry per name.
            let entry = unsafe { table.add(index) };
            let value = sys::kstat_named__bindgen_ty_1 { ui64: value };
            // SAFETY: the kstat's lock is held by the reader.
            unsafe { (*entry).value = value };
        }
    });
    0
}
