//! The border to the kernel: system calls of 64-bit illumos, each as a safe function.
//!
//! A call is sound if the kernel writes into our memory only where we hand it a `&mut` of the size that it writes, reads only what
//! we lend it, and is given no address to keep. Each function below sees to that for the one call it makes; a call that writes as
//! much as a layout says takes that layout ([`Control`]).
#![allow(unsafe_code)]

use core::arch::asm;
use core::ffi::CStr;
use core::fmt;
use core::marker::PhantomData;

use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes};

use crate::abi::dld::{self, Partition, Port, Property};
use crate::abi::ip::Interface;
use crate::abi::system::{ModuleInfo, Poll, Termios};
use crate::clock::Clock;

pub mod door;
pub mod files;
pub mod kstats;
pub mod sockets;
mod start;
pub mod streams;
pub mod zones;

/// An errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub u32);

/// What a call gives.
pub type Result<T> = core::result::Result<T, Errno>;

/// A file descriptor. It is closed by [`close`] alone: a command may leave one open for the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fd(pub i32);

impl Fd {
    fn argument(self) -> usize {
        self.0 as usize
    }
}

/// A system call with up to six arguments; the first result.
///
/// # Safety
///
/// What `number` does with `arguments` must be sound.
unsafe fn call<const N: usize>(number: usize, arguments: [usize; N]) -> Result<usize> {
    let mut six = [0; 6];
    six[..N].copy_from_slice(&arguments);
    // SAFETY: the caller vouches for the call.
    unsafe { call6(number, six) }.map(|(first, _)| first)
}

/// A system call; both results.
///
/// # Safety
///
/// What `number` does with `arguments` must be sound.
unsafe fn call6(number: usize, arguments: [usize; 6]) -> Result<(usize, usize)> {
    let (mut first, mut second) = (number, arguments[2]);
    let failed: u8;
    // SAFETY: this is how a 64-bit program calls the kernel; it gives back rax, rdx and the carry flag, keeps rbx, rbp, rsp and
    // r12 to r15, and may change the others.
    unsafe {
        asm!(
            "syscall",
            "setc {failed}",
            failed = out(reg_byte) failed,
            inlateout("rax") first,
            inlateout("rdx") second,
            inlateout("rdi") arguments[0] => _,
            inlateout("rsi") arguments[1] => _,
            inlateout("r10") arguments[3] => _,
            inlateout("r8") arguments[4] => _,
            inlateout("r9") arguments[5] => _,
            out("rcx") _,
            out("r11") _,
        );
    }
    if failed == 0 { Ok((first, second)) } else { Err(Errno(first as u32)) }
}

fn at(text: &CStr) -> usize {
    text.as_ptr() as usize
}

/// A new process: `None` in the child, its number in the parent.
///
/// # Errors
///
/// EAGAIN.
pub fn fork() -> Result<Option<u32>> {
    // SAFETY: forksys copies a process of one thread; the second result tells the copy from the original.
    let (process, copy) = unsafe { call6(142, [0; 6]) }?;
    Ok(if copy & 1 == 1 { None } else { Some(process as u32) })
}

/// Ends this process.
pub fn exit(status: u8) -> ! {
    loop {
        // SAFETY: exit does not come back.
        let _ = unsafe { call(1, [usize::from(status)]) };
    }
}

/// Waits until a child has ended, and collects it: until then it is a zombie, and of its zone.
pub fn collect(child: u32) {
    let mut info = [0_u64; 32];
    // SAFETY: waitsys (P_PID, WEXITED) writes a siginfo_t of 256 octets.
    while unsafe { call(107, [0, child as usize, info.as_mut_ptr() as usize, 1, 0]) } == Err(Errno(4)) {}
}

/// Waits.
pub fn sleep(milliseconds: u64) {
    let time = [milliseconds / 1000, milliseconds % 1000 * 1_000_000];
    // SAFETY: nanosleep reads a timespec.
    let _ = unsafe { call(199, [time.as_ptr() as usize, 0]) };
}

/// Microseconds since the machine started (`CLOCK_HIGHRES`), never less than before.
pub fn now() -> u64 {
    static CLOCK: Clock = Clock::new();
    let mut time = [0_u64; 2];
    // SAFETY: clock_gettime writes a timespec.
    let _ = unsafe { call(191, [4, time.as_mut_ptr() as usize]) };
    CLOCK.tell(time[0] * 1_000_000 + time[1] / 1000)
}

/// Waits until one of the descriptors has something; how many have.
///
/// # Errors
///
/// Those of poll(2).
pub fn poll(of: &mut [Poll], milliseconds: u64) -> Result<usize> {
    let time = [milliseconds / 1000, milliseconds % 1000 * 1_000_000];
    // SAFETY: pollsys writes into the entries it is given, as many as there are, and reads a timespec.
    unsafe { call(183, [of.as_mut_ptr() as usize, of.len(), time.as_ptr() as usize, 0]) }
}

/// Switches the machine off, or restarts it if it cannot be switched off.
pub fn power_off() -> ! {
    // SAFETY: uadmin(A_SHUTDOWN, AD_POWEROFF) takes no address.
    let _ = unsafe { call(55, [2, 6, 0]) };
    // SAFETY: uadmin(A_SHUTDOWN, AD_BOOT) takes no address.
    let _ = unsafe { call(55, [2, 1, 0]) };
    exit(1)
}

/// Asks whether the machine could suspend to memory (`A_FREEZE`, `AD_CHECK_SUSPEND_TO_RAM`).
///
/// # Errors
///
/// It could not.
pub fn check_suspend() -> Result<usize> {
    // SAFETY: this uadmin takes no address.
    unsafe { call(55, [3, 21, 0]) }
}

/// Has every device suspended and resumed, and nothing else (`A_FREEZE`, `AD_CPR_SUSP_DEVICES` of `sys/cpr.h`): the kernel's own test.
///
/// # Errors
///
/// The kernel has no `cpr`.
pub fn suspend_devices() -> Result<usize> {
    // SAFETY: this uadmin takes no address.
    unsafe { call(55, [3, 11, 0]) }
}

/// Loads a module by its path below `kernel`; its number.
///
/// # Errors
///
/// What its `_init` gave, or ENOENT.
pub fn load(path: &CStr) -> Result<u32> {
    let mut id = 0_u32;
    // SAFETY: modctl(MODLOAD) reads a path and writes an int.
    unsafe { call(152, [0, 1, at(path), &raw mut id as usize]) }?;
    Ok(id)
}

/// Has the kernel read the drivers' .conf files anew, and make the nodes that are new in them.
///
/// # Errors
///
/// It has no right to.
pub fn read_conf() -> Result<usize> {
    // MODLOADDRVCONF of no driver in particular, MOD_LOADDRVCONF_RECONF.
    // SAFETY: takes two numbers.
    unsafe { call(152, [18, u32::MAX as usize, 1]) }
}

/// Unloads a module.
///
/// # Errors
///
/// It is in use, or there is none.
pub fn unload(id: u32) -> Result<usize> {
    // SAFETY: modctl(MODUNLOAD) takes a number.
    unsafe { call(152, [1, id as usize]) }
}

/// What is known about the module after `previous`, or the first one for none.
///
/// # Errors
///
/// There is no further one.
pub fn module_after(previous: Option<u32>) -> Result<ModuleInfo> {
    let mut info = ModuleInfo::new_zeroed();
    (info.info, info.id) = (3, previous.unwrap_or(u32::MAX));
    info.next = info.id;
    let id = previous.unwrap_or(u32::MAX) as usize;
    // SAFETY: modctl(MODINFO) reads and writes a struct modinfo.
    unsafe { call(152, [2, id, &raw mut info as usize]) }?;
    Ok(info)
}

/// An ioctl that copies one `T` in from its argument, out to it, or both, and follows no address in it.
///
/// Only this module makes one, so that the sizes are checked in one place.
pub struct Control<T> {
    code: u32,
    argument: PhantomData<T>,
}

impl<T: FromBytes + IntoBytes + Immutable> Control<T> {
    /// Does it.
    ///
    /// # Errors
    ///
    /// Those of ioctl(2).
    pub fn call(&self, fd: Fd, argument: &mut T) -> Result<usize> {
        // SAFETY: the kernel stays within a `T`, as the type says.
        unsafe { call(54, [fd.argument(), self.code as usize, core::ptr::from_mut(argument) as usize]) }
    }
}

macro_rules! controls {
    ($($(#[$doc:meta])* $name:ident: $argument:ty = $code:expr;)*) => {
        $($(#[$doc])* pub const $name: Control<$argument> = Control { code: $code, argument: PhantomData };)*
    };
}

controls! {
    /// `TCSETS`.
    SET_TERMIOS: Termios = 0x540e;
    /// Sets a link's property. Its value is as long as it says, which is at most the room that is behind it.
    SET_PROPERTY: Property = dld::SET_PROPERTY;
    /// Reads a link's property.
    GET_PROPERTY: Property = dld::GET_PROPERTY;
    /// Tells dls to open the door of its daemon.
    DOOR_SERVER: u32 = dld::DOOR_SERVER;
    /// Makes a partition.
    CREATE_PARTITION: Partition = dld::CREATE_PARTITION;
    /// Deletes one.
    DELETE_PARTITION: Partition = dld::DELETE_PARTITION;
    /// Asks about one ([`dld::ABOUT_PARTITION`]).
    PARTITION_INFORMATION: Partition = dld::INFORMATION;
    /// A command that no driver has, down a stream.
    UNKNOWN: u32 = 0x7f01;
    /// `SIOCGLIFFLAGS` and its relatives: flags, name, the streams below, address, mask, MTU and index of an interface.
    GET_FLAGS: Interface = 0xc078_6975;
    /// `SIOCSLIFFLAGS`.
    SET_FLAGS: Interface = 0x8078_6974;
    /// `SIOCSLIFNAME`.
    SET_NAME: Interface = 0xc078_6981;
    /// `SIOCGLIFMUXID`.
    GET_STREAMS: Interface = 0xc078_6983;
    /// `SIOCSLIFMUXID`.
    SET_STREAMS: Interface = 0x8078_6984;
    /// `SIOCGLIFADDR`.
    GET_ADDRESS: Interface = 0xc078_6971;
    /// `SIOCSLIFADDR`.
    SET_ADDRESS: Interface = 0x8078_6970;
    /// `SIOCSLIFNETMASK`.
    SET_MASK: Interface = 0x8078_697e;
    /// `SIOCGLIFMTU`.
    GET_MTU: Interface = 0xc078_697a;
    /// `SIOCGLIFINDEX`.
    GET_INDEX: Interface = 0xc078_6985;
}

/// Asks a driver about one of its ports, and for its P_Keys if that is the command; as many as `keys` are.
///
/// # Errors
///
/// What it says.
pub fn port_information(fd: Fd, port: &mut Port, keys: &mut [u16]) -> Result<usize> {
    if port.table_size as usize > keys.len() {
        return Err(Errno(22));
    }
    port.keys = keys.as_mut_ptr() as u64;
    // SAFETY: the driver writes a Port, and as many P_Keys as it says there is room for, which there is.
    unsafe { call(54, [fd.argument(), dld::INFORMATION as usize, core::ptr::from_mut(port) as usize]) }
}

/// Tells an adapter for tests what happens to it: an event's code with four numbers, which it may change.
///
/// The adapter is one that a person put there; its control device copies four numbers in and out, whatever the code.
///
/// # Errors
///
/// What it says.
pub fn adapter(fd: Fd, code: u32, numbers: &mut [u64; 4]) -> Result<usize> {
    // SAFETY: as the contract with such an adapter says.
    unsafe { call(54, [fd.argument(), code as usize, numbers.as_mut_ptr() as usize]) }
}

/// The ioctls whose argument is a number.
#[derive(Clone, Copy)]
#[repr(u32)]
pub enum Plain {
    /// `CT_TACTIVATE`: children get a process contract of their own.
    ActivateTemplate = 0x6374_7400,
    /// `CT_TCLEAR`: no longer.
    ClearTemplate = 0x6374_7401,
    /// `CT_CABANDON`: a contract of ours is of no interest any more.
    AbandonContract = 0x6374_6300,
    /// `I_POP`: takes the topmost module off a stream.
    Pop = 0x5303,
    /// `I_PLINK`: links a stream below a multiplexer for good.
    Link = 0x5316,
    /// `I_PUNLINK`: undoes that.
    Unlink = 0x5317,
    /// `KSTAT_IOC_CHAIN_ID`.
    KstatChain = 0x4b01,
    /// `DLIOCRAW`: packets with their headers.
    Raw = 0x4401,
}

/// An ioctl whose argument is a number.
///
/// # Errors
///
/// Those of ioctl(2).
pub fn plain(fd: Fd, code: Plain, argument: usize) -> Result<usize> {
    // SAFETY: none of these takes an address.
    unsafe { call(54, [fd.argument(), code as usize, argument]) }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
