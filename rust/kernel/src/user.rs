//! The caller of an ioctl: its memory and its credentials.

use core::ffi::{c_int, c_void};
use core::marker::PhantomData;
use core::ptr::NonNull;

use illumos_sys_hdrs as sys;

use crate::errno::Errno;

/// A plain record that may come from and go to user memory.
///
/// # Safety
///
/// Every bit pattern is a valid value, and there is no padding (it would carry kernel memory out). Nothing is said of its alignment.
pub unsafe trait Plain: Copy {}

// SAFETY: an integer.
unsafe impl Plain for u8 {}
// SAFETY: an integer.
unsafe impl Plain for u16 {}
// SAFETY: an integer.
unsafe impl Plain for u32 {}
// SAFETY: an integer.
unsafe impl Plain for u64 {}

/// A record out of the first bytes of a message; `EINVAL` if there are fewer.
pub fn from_bytes<T: Plain>(bytes: &[u8]) -> Result<T, Errno> {
    let bytes = bytes.get(..size_of::<T>()).ok_or(Errno::EINVAL)?;
    // SAFETY: so many readable bytes, at any alignment, and every bit pattern is a `T`.
    Ok(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The bytes of a record.
pub fn as_bytes<T: Plain>(record: &T) -> &[u8] {
    // SAFETY: a `T` has no padding, so all its bytes are initialised, and it is borrowed as long as they are.
    unsafe { core::slice::from_raw_parts(core::ptr::from_ref(record).cast(), size_of::<T>()) }
}

/// The user side of an ioctl: an address nobody here may dereference, and the mode that says whose it is.
///
/// **May block** (page faults), and only on the thread that made the call.
#[derive(Clone, Copy)]
pub struct UserMemory<'a> {
    address: u64,
    mode: c_int,
    call: PhantomData<&'a ()>,
}

impl UserMemory<'_> {
    /// # Safety
    ///
    /// `mode` is the ioctl's, and the value does not outlive the call.
    pub unsafe fn new(address: u64, mode: c_int) -> Self {
        Self { address, mode, call: PhantomData }
    }

    /// The address the caller gave.
    pub fn address(self) -> u64 {
        self.address
    }

    /// The same caller's memory at another address (a pointer found in a record).
    pub fn at(self, address: u64) -> Self {
        Self { address, ..self }
    }

    /// Whether the caller is a 32-bit program, so that pointers in records are 4 bytes.
    pub fn is_ilp32(self) -> bool {
        let model =
            sys::model_t::try_from(self.mode).unwrap_or_default() & sys::DDI_MODEL_MASK as sys::model_t;
        // SAFETY: plain arithmetic on the mode.
        unsafe { sys::ddi_model_convert_from(model) == sys::DDI_MODEL_ILP32 as sys::model_t }
    }

    /// Copies a record in. `EFAULT` if the address is bad.
    pub fn read<T: Plain>(self) -> Result<T, Errno> {
        let mut value = core::mem::MaybeUninit::<T>::zeroed();
        // SAFETY: `value` has room for a `T`; the call checks the user side.
        let failed = unsafe {
            sys::ddi_copyin(
                self.address as *const c_void,
                value.as_mut_ptr().cast(),
                size_of::<T>(),
                self.mode,
            )
        };
        if failed != 0 {
            return Err(Errno::EFAULT);
        }
        // SAFETY: initialised, and every bit pattern is a `T`.
        Ok(unsafe { value.assume_init() })
    }

    /// Copies records out, one behind the other. `EFAULT` if the address is bad.
    pub fn write<T: Plain>(self, values: &[T]) -> Result<(), Errno> {
        // SAFETY: `values` is readable; the call checks the user side.
        let failed = unsafe {
            sys::ddi_copyout(
                values.as_ptr().cast(),
                self.address as *mut c_void,
                size_of_val(values),
                self.mode,
            )
        };
        if failed != 0 { Err(Errno::EFAULT) } else { Ok(()) }
    }
}

/// The zone that is always there, and whose administrators may configure what is another's.
pub const GLOBAL_ZONE: i32 = sys::GLOBAL_ZONEID;

/// Who made the call.
#[derive(Clone, Copy)]
pub struct Cred<'a> {
    raw: NonNull<sys::cred_t>,
    call: PhantomData<&'a ()>,
}

impl Cred<'_> {
    /// # Safety
    ///
    /// `raw` is held by the caller for as long as the value lives.
    pub unsafe fn from_raw(raw: *const sys::cred_t) -> Option<Self> {
        NonNull::new(raw.cast_mut()).map(|raw| Self { raw, call: PhantomData })
    }

    /// The zone; see [`GLOBAL_ZONE`]. **Any** context.
    pub fn zone_id(self) -> i32 {
        // SAFETY: the credential is held.
        unsafe { sys::crgetzoneid(self.raw.as_ptr()) }
    }

    /// Whether the caller may configure data links. **May block** (audit).
    pub fn may_configure_links(self) -> Result<(), Errno> {
        // SAFETY: the credential is held.
        Errno::check(unsafe { sys::secpolicy_dl_config(self.raw.as_ptr()) })
    }
}
