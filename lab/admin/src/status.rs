//! The words of libdladm for what went wrong.

use fakekernel::Errno;

pub(crate) const BAD_ARGUMENT: &str = "invalid argument";
pub(crate) const EXISTS: &str = "object already exists";
pub(crate) const NOT_FOUND: &str = "object not found";
pub(crate) const NOT_SUPPORTED: &str = "operation not supported";
pub(crate) const BUSY: &str = "link busy";
pub(crate) const DENIED: &str = "permission denied";
pub(crate) const INVALID_PKEY: &str = "invalid PKEY";
pub(crate) const FAILED: &str = "operation failed";

/// `ENETDOWN`, which the library has its own idea of.
const ENETDOWN: Errno = Errno(127);

/// `dladm_errno2status` and its text.
pub(crate) fn of_errno(errno: Errno) -> &'static str {
    match errno {
        Errno::EINVAL => BAD_ARGUMENT,
        Errno::EEXIST => EXISTS,
        Errno::ENOENT => NOT_FOUND,
        Errno::ENOTSUP => NOT_SUPPORTED,
        Errno::ENOMEM => "insufficient memory",
        ENETDOWN => "link notification is not supported",
        Errno::EBUSY => BUSY,
        Errno::EIO => "I/O error",
        Errno::EAGAIN => "try again later",
        Errno::EPERM | Errno::EACCES => DENIED,
        Errno::ENOSPC => "buffer size too small",
        _ => FAILED,
    }
}

/// The status that a driver leaves in the argument of a partition's ioctl.
pub(crate) fn of_partition(status: i32) -> Option<&'static str> {
    match status {
        1 => Some("invalid IB phys link"),
        2 => Some("port is down"),
        3 => Some("PKEY is not present on the port"),
        4 => Some(INVALID_PKEY),
        5 => Some("partition already exists"),
        6 => Some("IB internal resource not available"),
        7 => Some("invalid PKEY table size"),
        _ => None,
    }
}
