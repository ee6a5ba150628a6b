//! Statistics of the kernel.

use core::ffi::CStr;

use zerocopy::{FromZeros as _, IntoBytes as _};

use super::files::{Open, close, open};
use super::{Fd, Plain, Result, call, plain};
use crate::abi::system::{Kstat, Named};

/// In the global zone, and in one of ours.
const DEVICES: [&CStr; 2] = [c"/devices/pseudo/kstat@0:kstat", c"/kstat"];
const READ: usize = 0x4b02;

/// The device of the statistics.
pub struct Kstats(Fd);

impl Kstats {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// The kernel has no such driver.
    pub fn open() -> Result<Self> {
        let [global, own] = DEVICES;
        open(global, Open::Read).or_else(|_| open(own, Open::Read)).map(Self)
    }

    /// The headers of as many statistics as fit; how many there are.
    ///
    /// # Errors
    ///
    /// ENOMEM: there are more than fit.
    pub fn headers(&self, into: &mut [Kstat]) -> Result<usize> {
        plain(self.0, Plain::KstatChain, 0)?;
        // The list itself is the statistic with number 0.
        let mut list = Kstat::new_zeroed();
        list.data = into.as_mut_ptr() as u64;
        list.size = size_of_val(into) as u64;
        // SAFETY: the ioctl writes into the header, and no more data than its size says.
        unsafe { call(54, [self.0.argument(), READ, &raw mut list as usize]) }?;
        Ok((list.entries as usize).min(into.len()))
    }

    /// The values of a statistic of names, as many as fit; how many. A string's value is an address and of no use.
    ///
    /// # Errors
    ///
    /// It is gone, or has more than fit.
    pub fn values(&self, of: &Kstat, into: &mut [Named]) -> Result<(usize, u64)> {
        let mut header = *of;
        let room = into.as_mut_bytes();
        header.data = room.as_mut_ptr() as u64;
        header.size = room.len() as u64;
        // SAFETY: as in `headers`.
        unsafe { call(54, [self.0.argument(), READ, &raw mut header as usize]) }?;
        Ok(((header.entries as usize).min(into.len()), header.read_at))
    }
}

impl Drop for Kstats {
    fn drop(&mut self) {
        // Nothing can be done about it.
        let _ = close(self.0);
    }
}
