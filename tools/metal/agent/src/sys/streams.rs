//! STREAMS: modules on them, messages through them.

use core::ffi::CStr;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{Control, Fd, Result, at, call};

/// Pushes a module onto a stream (`I_PUSH`).
///
/// # Errors
///
/// Those of streamio(7I).
pub fn push(fd: Fd, module: &CStr) -> Result<usize> {
    // SAFETY: I_PUSH reads a name.
    unsafe { call(54, [fd.argument(), 0x5302, at(module)]) }
}

/// Sends an ioctl down a stream to whom it concerns (`I_STR`).
///
/// # Errors
///
/// What they say.
pub fn control<T: FromBytes + IntoBytes + Immutable>(
    fd: Fd,
    code: &Control<T>,
    data: &mut T,
) -> Result<usize> {
    #[repr(C)]
    struct Strioctl {
        command: u32,
        timeout: i32,
        length: u32,
        data: *mut u8,
    }
    let length = size_of::<T>() as u32;
    let mut block =
        Strioctl { command: code.code, timeout: -1, length, data: data.as_mut_bytes().as_mut_ptr() };
    // SAFETY: I_STR reads and writes a strioctl and the data it says, as long as it says.
    unsafe { call(54, [fd.argument(), 0x5308, &raw mut block as usize]) }
}

#[repr(C)]
struct Buffer {
    room: i32,
    length: i32,
    data: *mut u8,
}

/// Sends a message with a control part, and with data if there is any.
///
/// # Errors
///
/// Those of putmsg(2).
pub fn send(fd: Fd, control: &[u8], data: Option<&[u8]>) -> Result<usize> {
    let buffer = |part: &[u8]| Buffer { room: 0, length: part.len() as i32, data: part.as_ptr().cast_mut() };
    let control = buffer(control);
    let data = data.map(buffer);
    let data_at = data.as_ref().map_or(0, |data| core::ptr::from_ref(data) as usize);
    // SAFETY: putmsg reads the two parts it is lent.
    unsafe { call(86, [fd.argument(), &raw const control as usize, data_at, 0]) }
}

/// Takes the next message: the octets of its control part, if it has one, and those of its data.
///
/// # Errors
///
/// Those of getmsg(2).
pub fn receive(fd: Fd, control: &mut [u8], data: &mut [u8]) -> Result<(Option<usize>, usize)> {
    let buffer = |part: &mut [u8]| Buffer { room: part.len() as i32, length: 0, data: part.as_mut_ptr() };
    let mut control = buffer(control);
    let mut data = buffer(data);
    let mut flags = 0_i32;
    // SAFETY: getmsg writes into both parts, no more than their room, and into the flags.
    unsafe {
        call(85, [fd.argument(), &raw mut control as usize, &raw mut data as usize, &raw mut flags as usize])
    }?;
    Ok((usize::try_from(control.length).ok(), usize::try_from(data.length).unwrap_or(0)))
}
