//! Sockets.

use core::ffi::CStr;

use super::{Fd, Result, at, call};
use crate::abi::ip::Address;

/// `SOV_DEFAULT`, `SOV_SOCKBSD`.
const VERSION: usize = 1;
const BSD: usize = 3;

/// What a socket is (`SOCK_*`).
#[derive(Clone, Copy)]
pub enum Kind {
    /// UDP.
    Datagram = 1,
    /// TCP.
    Stream = 2,
    /// A protocol by its number.
    Raw = 4,
}

/// Tells the kernel which module a kind of socket is, as soconfig(1M) does at boot.
///
/// # Errors
///
/// EEXIST: it knows already.
pub fn configure(family: usize, kind: usize, protocol: usize, module: &CStr) -> Result<usize> {
    // SAFETY: SOCKCONFIG_ADD_SOCK reads a name.
    unsafe { call(247, [0, family, kind, protocol, at(module)]) }
}

/// A socket.
///
/// # Errors
///
/// Those of socket(3SOCKET).
pub fn socket(family: u16, kind: Kind, protocol: usize) -> Result<Fd> {
    // SAFETY: no path of a device is given, so nothing is read.
    unsafe { call(230, [usize::from(family), kind as usize, protocol, 0, VERSION]) }.map(|fd| Fd(fd as i32))
}

/// Binds to an address.
///
/// # Errors
///
/// Those of bind(3SOCKET).
pub fn bind(fd: Fd, address: &Address) -> Result<usize> {
    let bytes = address.bytes();
    // SAFETY: bind reads an address.
    unsafe { call(232, [fd.argument(), bytes.as_ptr() as usize, bytes.len(), BSD]) }
}

/// Waits for connections.
///
/// # Errors
///
/// Those of listen(3SOCKET).
pub fn listen(fd: Fd) -> Result<usize> {
    // SAFETY: listen takes numbers.
    unsafe { call(233, [fd.argument(), 5, VERSION]) }
}

/// Takes a connection.
///
/// # Errors
///
/// Those of accept(3SOCKET).
pub fn accept(fd: Fd) -> Result<Fd> {
    // SAFETY: without a place for it, no address is written.
    unsafe { call(234, [fd.argument(), 0, 0, VERSION, 0]) }.map(|fd| Fd(fd as i32))
}

/// Connects.
///
/// # Errors
///
/// Those of connect(3SOCKET).
pub fn connect(fd: Fd, address: &Address) -> Result<usize> {
    let bytes = address.bytes();
    // SAFETY: connect reads an address.
    unsafe { call(235, [fd.argument(), bytes.as_ptr() as usize, bytes.len(), VERSION]) }
}

/// Sends a datagram.
///
/// # Errors
///
/// Those of sendto(3SOCKET).
pub fn send_to(fd: Fd, data: &[u8], to: &Address) -> Result<usize> {
    let bytes = to.bytes();
    let (data_at, to_at) = (data.as_ptr() as usize, bytes.as_ptr() as usize);
    // SAFETY: sendto reads data and an address.
    unsafe { call(242, [fd.argument(), data_at, data.len(), 0, to_at, bytes.len()]) }
}

/// Receives a datagram.
///
/// # Errors
///
/// Those of recvfrom(3SOCKET).
pub fn receive(fd: Fd, into: &mut [u8]) -> Result<usize> {
    // SAFETY: recvfrom writes at most the length it is given; without a place for it, no address.
    unsafe { call(238, [fd.argument(), into.as_mut_ptr() as usize, into.len(), 0, 0, 0]) }
}

/// Sets an option.
///
/// # Errors
///
/// Those of setsockopt(3SOCKET).
pub fn set(fd: Fd, level: usize, option: usize, value: &[u8]) -> Result<usize> {
    // SAFETY: setsockopt reads the value.
    unsafe { call(246, [fd.argument(), level, option, value.as_ptr() as usize, value.len(), VERSION]) }
}

/// Calls on this descriptor do not wait any more (`O_NONBLOCK`).
///
/// # Errors
///
/// EBADF.
pub fn do_not_wait(fd: Fd) -> Result<usize> {
    // SAFETY: F_SETFL takes a number.
    unsafe { call(62, [fd.argument(), 4, 0x80 | 2]) }
}
