//! The kernel's error numbers. They differ from Linux's above 34.

use std::fmt;

/// An illumos error number, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident $number:literal $text:literal;)*) => {
        impl Errno {
            $(#[doc = $text] pub const $name: Self = Self($number);)*
        }
        impl fmt::Display for Errno {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    $($number => f.write_str(concat!(stringify!($name), " (", $text, ")")),)*
                    other => write!(f, "errno {other}"),
                }
            }
        }
    };
}

errnos! {
    EPERM 1 "not owner";
    ENOENT 2 "no such entry";
    EIO 5 "I/O error";
    ENXIO 6 "no such device";
    EAGAIN 11 "try again";
    ENOMEM 12 "out of memory";
    EACCES 13 "permission denied";
    EFAULT 14 "bad address";
    EBUSY 16 "busy";
    EEXIST 17 "exists";
    ENODEV 19 "no such device";
    EINVAL 22 "invalid argument";
    ENOSPC 28 "no space";
    ENOTSUP 48 "not supported";
    EPROTO 71 "protocol error";
    ENETDOWN 127 "network is down";
    ENOBUFS 132 "no buffer space";
    ETIMEDOUT 145 "timed out";
    EALREADY 149 "already";
}

impl Errno {
    /// A C return value as a result: 0 is success.
    pub fn check(value: i32) -> Result<(), Self> {
        if value == 0 { Ok(()) } else { Err(Self(value)) }
    }
}

impl std::error::Error for Errno {}
