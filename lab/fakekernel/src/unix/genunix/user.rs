//! User memory: buffers whose addresses cannot be dereferenced, reached by `copyin` and its kin alone (rules 28 and 32).

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::sync::{Arc, OnceLock};

use sim::{Ctx, HostMutex, Rule};

use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::errno::Errno;
use crate::loader::export::Export;
use crate::loader::kernel::Kernel;
use crate::loader::mem::Mem;

pub(super) fn exports() -> Vec<Export> {
    export! { UK: ddi_copyin, ddi_copyout, copyin, copyout; }
}

/// The addresses of every process's memory: one range, never accessible.
const FIRST: usize = 0x0f00_0000_0000;
const SPAN: usize = 64 << 30;

/// `FKIOCTL`: the buffer is the kernel's own.
const FKIOCTL: u32 = 0x8000_0000;

/// Whether an address is a user's.
fn is_user_address(addr: usize) -> bool {
    (FIRST..FIRST + SPAN).contains(&addr)
}

/// The user memory of a host.
pub(crate) struct Users {
    state: HostMutex<State>,
}

#[derive(Default)]
struct State {
    next: usize,
    buffers: BTreeMap<usize, Vec<u8>>,
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Users").field("buffers", &self.state.lock().buffers.len()).finish()
    }
}

impl Users {
    pub(super) fn new() -> Self {
        Self { state: HostMutex::new(State::default()) }
    }

    /// Runs `f` on `len` bytes at `addr`; false when they are not all in one buffer.
    fn with(&self, addr: usize, len: usize, f: impl FnOnce(&mut [u8])) -> bool {
        let mut state = self.state.lock();
        let Some((start, buffer)) = state.buffers.range_mut(..=addr).next_back() else { return false };
        let at = addr - start;
        match buffer.get_mut(at..).and_then(|rest| rest.get_mut(..len)) {
            Some(bytes) => {
                f(bytes);
                true
            }
            None => false,
        }
    }
}

/// Has a dereferenced user address reported as such.
pub(super) fn guard(kernel: &Kernel) {
    shadow();
    kernel.trap(FIRST, SPAN, Rule::UserPointer, "user memory dereferenced");
}

/// Makes sure nothing is ever mapped where user addresses are.
fn shadow() {
    static SHADOW: OnceLock<bool> = OnceLock::new();
    SHADOW.get_or_init(|| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
        let wanted = std::ptr::without_provenance_mut(FIRST);
        // SAFETY: MAP_FIXED_NOREPLACE maps only where nothing is mapped; the range is never accessible.
        let got = unsafe { libc::mmap(wanted, SPAN, libc::PROT_NONE, flags, -1, 0) };
        assert!(got.addr() == FIRST, "the address range of user memory at {FIRST:#x} is taken");
        true
    });
}

/// A buffer in a process of the host; its memory goes when it is dropped.
#[derive(Debug)]
pub struct UserBuffer {
    genunix: Arc<super::Genunix>,
    addr: usize,
    len: usize,
}

impl UserBuffer {
    /// A buffer with `content`.
    pub fn new(kernel: &Kernel, content: &[u8]) -> Self {
        let genunix = kernel.genunix();
        let addr = {
            let mut state = genunix.users.state.lock();
            let room = content.len().next_multiple_of(4096) + 4096;
            if state.next + room > SPAN {
                state.next = 0;
            }
            let addr = FIRST + state.next + 64;
            state.next += room;
            state.buffers.insert(addr, content.to_vec());
            addr
        };
        Self { genunix, addr, len: content.len() }
    }

    /// Its address, to be given to a module.
    pub fn as_ptr(&self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.addr)
    }

    /// What is in it now.
    pub fn content(&self) -> Vec<u8> {
        let mut content = Vec::new();
        self.genunix.users.with(self.addr, self.len, |bytes| content = bytes.to_vec());
        content
    }
}

impl Drop for UserBuffer {
    fn drop(&mut self) {
        self.genunix.users.state.lock().buffers.remove(&self.addr);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    In,
    Out,
}

/// # Safety
///
/// `kernel` has `len` bytes; with `FKIOCTL`, so has `user`.
unsafe fn copy(user: *mut c_void, kernel: *mut c_void, len: usize, mode: u32, direction: Direction) -> c_int {
    let cx = cx();
    cx.may_block();
    check_kernel_side(&cx, kernel);
    // SAFETY: by contract.
    let kernel = unsafe { Mem::of(kernel, len) };
    if mode & FKIOCTL != 0 {
        check_kernel_side(&cx, user);
        // SAFETY: by contract.
        let user = unsafe { Mem::of(user, len) };
        match direction {
            Direction::In => kernel.copy_from(user),
            Direction::Out => user.copy_from(kernel),
        }
        return 0;
    }
    cx.check(cx.ctx() == Ctx::User, Rule::CopyOutsideUser, || {
        format!("{} context has no user memory", cx.ctx())
    });
    let genunix = cx.kernel().genunix();
    let mut bytes = kernel.get();
    let done = genunix.users.with(user.addr(), len, |held| match direction {
        Direction::In => bytes.copy_from_slice(held),
        Direction::Out => held.copy_from_slice(&bytes),
    });
    if done && direction == Direction::In {
        kernel.put(&bytes);
    }
    if done { 0 } else { -1 }
}

fn check_kernel_side(cx: &Cx, pointer: *mut c_void) {
    cx.check(!is_user_address(pointer.addr()), Rule::UserPointer, || {
        format!("user address {:#x} where the kernel's own is wanted", pointer.addr())
    });
}

unsafe extern "C" fn ddi_copyin(user: *const c_void, kernel: *mut c_void, len: usize, mode: c_int) -> c_int {
    // SAFETY: ddi_copyin(9F): `len` bytes at `kernel`, and at `user` with FKIOCTL.
    unsafe { copy(user.cast_mut(), kernel, len, mode as u32, Direction::In) }
}

unsafe extern "C" fn ddi_copyout(kernel: *const c_void, user: *mut c_void, len: usize, mode: c_int) -> c_int {
    // SAFETY: ddi_copyout(9F): `len` bytes at `kernel`, and at `user` with FKIOCTL.
    unsafe { copy(user, kernel.cast_mut(), len, mode as u32, Direction::Out) }
}

unsafe extern "C" fn copyin(user: *const c_void, kernel: *mut c_void, len: usize) -> c_int {
    // SAFETY: copyin(9F): `len` bytes at `kernel`.
    unsafe { copy(user.cast_mut(), kernel, len, 0, Direction::In) }
}

unsafe extern "C" fn copyout(kernel: *const c_void, user: *mut c_void, len: usize) -> c_int {
    // SAFETY: copyout(9F): `len` bytes at `kernel`.
    unsafe { copy(user, kernel.cast_mut(), len, 0, Direction::Out) }
}

impl super::Genunix {
    /// `copyin` for the lab: the start of a user buffer into kernel memory of `len` bytes that the lab lent.
    ///
    /// # Errors
    ///
    /// EFAULT when the buffer is shorter, or the memory is not the heap's.
    pub fn copy_in(&self, user: &UserBuffer, kernel: *mut c_void, len: usize) -> Result<(), Errno> {
        let held = self.held(kernel, len)?;
        let content = user.content();
        held.put(content.get(..len).ok_or(Errno::EFAULT)?);
        Ok(())
    }

    /// `copyout` for the lab, the other way.
    ///
    /// # Errors
    ///
    /// As for [`Genunix::copy_in`](super::Genunix::copy_in).
    pub fn copy_out(&self, user: &UserBuffer, kernel: *mut c_void, len: usize) -> Result<(), Errno> {
        let bytes = self.held(kernel, len)?.get();
        let done = self.users.with(user.addr, len, |held| held.copy_from_slice(&bytes));
        if done { Ok(()) } else { Err(Errno::EFAULT) }
    }

    fn held(&self, kernel: *mut c_void, len: usize) -> Result<Mem, Errno> {
        let mem = self.memory.bytes(kernel.addr()).ok_or(Errno::EFAULT)?;
        if mem.len() < len { Err(Errno::EFAULT) } else { Ok(mem.part(0, len)) }
    }
}
