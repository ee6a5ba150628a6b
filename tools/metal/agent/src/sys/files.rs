//! Files, pipes, directories and what is mounted on them.

use core::ffi::CStr;

use super::{Errno, Fd, Result, at, call};
use crate::abi::devinfo;

/// `AT_FDCWD`: paths begin where the process is.
const HERE: usize = 0xffd1_9553;

/// How a file is opened.
#[derive(Clone, Copy)]
pub enum Open {
    /// For reading.
    Read = 0,
    /// For writing.
    Write = 1,
    /// For both.
    Both = 2,
    /// For writing, made if it is not there (`O_WRONLY | O_CREAT`).
    Make = 0x101,
}

/// Opens a file.
///
/// # Errors
///
/// Those of open(2).
pub fn open(path: &CStr, how: Open) -> Result<Fd> {
    // SAFETY: openat reads a path.
    unsafe { call(68, [HERE, at(path), how as usize, 0o644]) }.map(|fd| Fd(fd as i32))
}

/// Closes a descriptor.
///
/// # Errors
///
/// EBADF.
pub fn close(fd: Fd) -> Result<usize> {
    // SAFETY: close takes a number; what it stands for is no memory of ours.
    unsafe { call(6, [fd.argument()]) }
}

/// Reads what there is, at most as much as fits.
///
/// # Errors
///
/// Those of read(2).
pub fn read(fd: Fd, into: &mut [u8]) -> Result<usize> {
    // SAFETY: read writes at most the length it is given.
    unsafe { call(3, [fd.argument(), into.as_mut_ptr() as usize, into.len()]) }
}

/// Writes; how much was taken.
///
/// # Errors
///
/// Those of write(2).
pub fn write(fd: Fd, bytes: &[u8]) -> Result<usize> {
    // SAFETY: write reads the octets it is lent.
    unsafe { call(4, [fd.argument(), bytes.as_ptr() as usize, bytes.len()]) }
}

/// Writes all of it.
///
/// # Errors
///
/// Those of write(2).
pub fn write_all(fd: Fd, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        let taken = write(fd, bytes)?;
        bytes = bytes.get(taken..).ok_or(Errno(5))?;
    }
    Ok(())
}

/// A pipe: what is written to the second can be read from the first.
///
/// # Errors
///
/// EMFILE.
pub fn pipe() -> Result<(Fd, Fd)> {
    let mut ends = [0_i32; 2];
    // SAFETY: pipe writes two descriptors.
    unsafe { call(42, [ends.as_mut_ptr() as usize, 0]) }?;
    Ok((Fd(ends[0]), Fd(ends[1])))
}

/// Makes a directory.
///
/// # Errors
///
/// Those of mkdir(2).
pub fn make_directory(path: &CStr) -> Result<usize> {
    // SAFETY: mkdirat reads a path.
    unsafe { call(102, [HERE, at(path), 0o755]) }
}

/// Removes a file.
///
/// # Errors
///
/// Those of unlink(2).
pub fn remove(path: &CStr) -> Result<usize> {
    // SAFETY: unlinkat reads a path.
    unsafe { call(65, [HERE, at(path), 0]) }
}

/// Makes a node of a character device in place of what is there.
///
/// # Errors
///
/// Those of mknod(2).
pub fn make_node(path: &CStr, device: u64) -> Result<usize> {
    let _ = remove(path);
    // SAFETY: mknod reads a path.
    unsafe { call(14, [at(path), 0o020_666, device as usize]) }
}

/// The device that a node stands for.
///
/// # Errors
///
/// Those of stat(2).
pub fn device_of(path: &CStr) -> Result<u64> {
    let mut stat = [0_u64; 16];
    // SAFETY: fstatat reads a path and writes a struct stat of 128 octets.
    unsafe { call(66, [HERE, at(path), stat.as_mut_ptr() as usize, 0]) }?;
    Ok(stat[4])
}

/// Hands each name in a directory to `each`.
///
/// # Errors
///
/// Those of open(2) and getdents(2).
pub fn names(path: &CStr, mut each: impl FnMut(&[u8])) -> Result<()> {
    let directory = open(path, Open::Read)?;
    let mut buffer = [0_u8; 4096];
    let outcome = loop {
        // SAFETY: getdents writes at most the length it is given.
        let got = unsafe { call(81, [directory.argument(), buffer.as_mut_ptr() as usize, buffer.len()]) };
        match got {
            Ok(0) => break Ok(()),
            Ok(length) => entries(&buffer[..length.min(buffer.len())], &mut each),
            Err(e) => break Err(e),
        }
    };
    let _ = close(directory);
    outcome
}

/// A `dirent64`: two numbers of eight octets, the length of the entry, the name.
fn entries(mut rest: &[u8], each: &mut impl FnMut(&[u8])) {
    while let Some(&[low, high]) = rest.get(16..18) {
        let length = usize::from(u16::from_ne_bytes([low, high]));
        let Some(entry) = rest.get(18..length) else { return };
        each(entry.split(|&octet| octet == 0).next().unwrap_or_default());
        rest = &rest[length..];
    }
}

/// A snapshot of a device and all below it, as long as fits.
///
/// # Errors
///
/// There is no such device, or the snapshot is larger.
pub fn devices<'a>(tree: Fd, path: &CStr, into: &'a mut [u8]) -> Result<&'a [u8]> {
    // SAFETY: the ioctl reads a path, and takes the snapshot in the kernel.
    let length = unsafe { call(54, [tree.argument(), devinfo::TAKE as usize, at(path)]) }?;
    // Whole pages are copied.
    if length.next_multiple_of(4096) > into.len() {
        return Err(Errno(12));
    }
    // SAFETY: the ioctl writes the snapshot that was just taken, in whole pages, for which there is room.
    unsafe { call(54, [tree.argument(), devinfo::COPY as usize, into.as_mut_ptr() as usize]) }?;
    Ok(&into[..length])
}

/// Lays a directory over another one (lofs).
///
/// # Errors
///
/// Those of mount(2).
pub fn lay_over(from: &CStr, over: &CStr) -> Result<usize> {
    // MS_DATA | MS_NOMNTTAB.
    // SAFETY: mount reads three strings, and no data.
    unsafe { call(21, [at(from), at(over), 0x804, at(c"lofs"), 0, 0]) }
}

/// Lets a door be called by a path (fattach(3C)).
///
/// # Errors
///
/// Those of mount(2).
pub fn attach(fd: Fd, path: &CStr) -> Result<usize> {
    let data = [fd.0];
    // MS_DATA | MS_NOMNTTAB.
    // SAFETY: mount reads two strings and a struct namefd of four octets.
    unsafe { call(21, [0, at(path), 0x804, at(c"namefs"), data.as_ptr() as usize, 4]) }
}
