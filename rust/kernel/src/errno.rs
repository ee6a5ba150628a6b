//! Error numbers of the kernel (`sys/errno.h`). They differ from Linux above 34.

use core::ffi::c_int;
use core::fmt;
use core::num::NonZero;

use illumos_sys_hdrs as sys;

use crate::AllocError;

/// A failure as C wants it: never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(NonZero<c_int>);

macro_rules! errnos {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        impl Errno {
            $($(#[$doc])* pub const $name: Self = Self::of(sys::$name as c_int);)*

            /// The symbolic name, if it is one this crate knows.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    /// Not permitted.
    EPERM,
    /// No such thing.
    ENOENT,
    /// Device not there.
    EIO,
    /// No such device or address.
    ENXIO,
    /// Try again.
    EAGAIN,
    /// No memory.
    ENOMEM,
    /// Bad user address.
    EFAULT,
    /// In use.
    EBUSY,
    /// Exists already.
    EEXIST,
    /// No such device.
    ENODEV,
    /// Invalid argument.
    EINVAL,
    /// Not a command of this device.
    ENOTTY,
    /// No space left.
    ENOSPC,
    /// Not supported.
    ENOTSUP,
    /// No buffer space.
    ENOBUFS,
    /// Network is down.
    ENETDOWN,
    /// Timed out.
    ETIMEDOUT,
    /// Not active.
    ENOTACTIVE,
    /// Already done.
    EALREADY,
    /// Not empty.
    ENOTEMPTY,
    /// Protocol error.
    EPROTO,
}

impl Errno {
    const fn of(raw: c_int) -> Self {
        match NonZero::new(raw) {
            Some(raw) => Self(raw),
            // Only reachable while the constants above are evaluated, that is at compile time.
            None => panic!("an error number of zero"),
        }
    }

    /// A C result: 0 is success, anything else the error.
    pub const fn check(raw: c_int) -> Result<(), Self> {
        match NonZero::new(raw) {
            None => Ok(()),
            Some(raw) => Err(Self(raw)),
        }
    }

    /// The number, never 0.
    pub const fn get(self) -> c_int {
        self.0.get()
    }

    /// What C expects to be returned for `result`.
    pub fn raw(result: Result<(), Self>) -> c_int {
        match result {
            Ok(()) => 0,
            Err(error) => error.get(),
        }
    }
}

impl From<AllocError> for Errno {
    fn from(AllocError: AllocError) -> Self {
        Self::ENOMEM
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
