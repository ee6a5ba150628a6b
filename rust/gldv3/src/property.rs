//! Link properties (`dladm show-linkprop`).

use core::ffi::CStr;
use core::fmt::{self, Write};
use core::marker::PhantomData;

use illumos_sys_hdrs as sys;
use kernel::Errno;

use crate::plugin::Text;

/// Which property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropertyId<'a> {
    /// `mtu`: a u32, the payload in bytes.
    Mtu,
    /// `linkmode` of an IB link: a u32, datagram 0, connected 1.
    LinkMode,
    /// A private property by its name, beginning with `_`. Its value is text.
    Private(&'a CStr),
    /// Another one, by its `mac_prop_id_t`.
    Other(i32),
}

impl<'a> PropertyId<'a> {
    pub(crate) fn new(id: sys::mac_prop_id_t, name: &'a CStr) -> Self {
        match id {
            sys::MAC_PROP_MTU => Self::Mtu,
            sys::MAC_PROP_IB_LINKMODE => Self::LinkMode,
            sys::MAC_PROP_PRIVATE => Self::Private(name),
            sys::mac_prop_id_t(other) => Self::Other(other),
        }
    }
}

/// A value to set, as it came.
#[derive(Clone, Copy, Debug)]
pub struct PropertyValue<'a>(pub(crate) &'a [u8]);

impl<'a> PropertyValue<'a> {
    /// A 32-bit number, host order. `EINVAL` if there are fewer bytes.
    pub fn u32(self) -> Result<u32, Errno> {
        self.0.first_chunk().copied().map(u32::from_ne_bytes).ok_or(Errno::EINVAL)
    }

    /// Text up to its NUL, or all of it. `EINVAL` if it is empty or not UTF-8.
    pub fn text(self) -> Result<&'a str, Errno> {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        match self.0.get(..end).map(core::str::from_utf8) {
            Some(Ok(text)) if !text.is_empty() => Ok(text),
            _ => Err(Errno::EINVAL),
        }
    }

    /// A number written as text: decimal, `0x` hexadecimal or `0` octal, with an optional sign. `EINVAL` otherwise.
    pub fn number(self) -> Result<i64, Errno> {
        let text = self.text()?.trim_ascii();
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (digits, radix) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(digits) => (digits, 16),
            None if digits.len() > 1 && digits.starts_with('0') => (digits.get(1..).unwrap_or_default(), 8),
            None => (digits, 10),
        };
        if digits.starts_with(['+', '-']) {
            return Err(Errno::EINVAL);
        }
        let value = i64::from_str_radix(digits, radix).map_err(|_| Errno::EINVAL)?;
        Ok(if negative { -value } else { value })
    }
}

/// Where a value that is asked for goes: zeros, as many as the asker has room for.
pub struct PropertyBuffer<'a>(pub(crate) &'a mut [u8]);

impl PropertyBuffer<'_> {
    /// A 32-bit number. `ENOBUFS` if it does not fit.
    pub fn put_u32(&mut self, value: u32) -> Result<(), Errno> {
        let room = self.0.first_chunk_mut().ok_or(Errno::ENOBUFS)?;
        *room = value.to_ne_bytes();
        Ok(())
    }

    /// Text with a NUL behind it. `ENOBUFS` if it does not fit.
    pub fn put_text(&mut self, text: fmt::Arguments<'_>) -> Result<(), Errno> {
        if self.0.is_empty() {
            return Err(Errno::ENOBUFS);
        }
        Text { buffer: self.0, len: 0 }.write_fmt(text).map_err(|_| Errno::ENOBUFS)
    }
}

/// Who may do what with a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Permission {
    Read,
    Write,
    ReadWrite,
}

/// What [`Provider::property_info`](crate::Provider::property_info) fills in.
pub struct PropertyInfo<'a> {
    handle: sys::mac_prop_info_handle_t,
    call: PhantomData<&'a mut ()>,
}

impl PropertyInfo<'_> {
    /// # Safety
    ///
    /// `handle` is that of the propinfo callback in whose course the value is used.
    pub(crate) unsafe fn new(handle: sys::mac_prop_info_handle_t) -> Self {
        Self { handle, call: PhantomData }
    }

    /// Who may do what; read and write unless set.
    pub fn permission(&mut self, permission: Permission) {
        let raw = match permission {
            Permission::Read => sys::MAC_PROP_PERM_READ,
            Permission::Write => sys::MAC_PROP_PERM_WRITE,
            Permission::ReadWrite => sys::MAC_PROP_PERM_RW,
        };
        // SAFETY: the handle is good during the callback (`new`).
        unsafe { sys::mac_prop_info_set_perm(self.handle, raw) };
    }

    /// The default of a number property.
    pub fn default_u32(&mut self, value: u32) {
        // SAFETY: as above.
        unsafe { sys::mac_prop_info_set_default_uint32(self.handle, value) };
    }

    /// The default of a text property (private ones).
    pub fn default_text(&mut self, text: fmt::Arguments<'_>) {
        let mut line = kernel::log::Line::<64>::new();
        // Too long for a default of ours means cut, as everywhere; the framework's own limit is larger.
        let _ = line.write_fmt(text);
        // SAFETY: as above; the string is copied.
        unsafe { sys::mac_prop_info_set_default_str(self.handle, line.as_c_str().as_ptr()) };
    }

    /// One range of a number property; several calls give several ranges.
    pub fn range_u32(&mut self, min: u32, max: u32) {
        // SAFETY: as above.
        unsafe { sys::mac_prop_info_set_range_uint32(self.handle, min, max) };
    }
}

#[cfg(test)]
mod tests {
    use super::{PropertyBuffer, PropertyValue};
    use kernel::Errno;

    #[test]
    fn numbers_in_every_base_and_nothing_else() {
        let number = |text: &[u8]| PropertyValue(text).number();
        assert_eq!(number(b"128\0junk"), Ok(128));
        assert_eq!(number(b"0x10"), Ok(16));
        assert_eq!(number(b"010"), Ok(8));
        assert_eq!(number(b"0"), Ok(0));
        assert_eq!(number(b"-4"), Ok(-4));
        for bad in [&b""[..], b"\0", b"12x", b"--4", b"0x-1", b"99999999999999999999"] {
            assert_eq!(number(bad), Err(Errno::EINVAL), "{bad:?}");
        }
    }

    #[test]
    fn value_larger_than_its_buffer_is_refused() {
        let mut room = [0; 4];
        let mut buffer = PropertyBuffer(&mut room);
        assert_eq!(buffer.put_text(format_args!("{}", 123)), Ok(()));
        assert_eq!(room, *b"123\0");
        assert_eq!(PropertyBuffer(&mut [0; 3]).put_text(format_args!("123")), Err(Errno::ENOBUFS));
        assert_eq!(PropertyBuffer(&mut [0; 3]).put_u32(1), Err(Errno::ENOBUFS));
    }
}
