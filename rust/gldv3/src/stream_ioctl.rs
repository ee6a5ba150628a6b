//! Ioctls on a link's own node: STREAMS messages that dld leaves to the driver (`mc_ioctl`).

use core::ffi::c_int;
use core::mem::MaybeUninit;

use illumos_sys_hdrs as sys;
use kernel::Errno;
use kernel::mblk::Mblk;
use kernel::user::Cred;

/// The longest argument.
const MOST: usize = 256;

/// Answers an `M_IOCTL`: with what `provider` leaves in the argument, or its error. The message is acknowledged or refused,
/// exactly once.
///
/// # Safety
///
/// `message` is an `M_IOCTL` that is given up, `queue` where it is answered; the credentials in it are held until then.
pub(crate) unsafe fn answer(
    queue: *mut sys::queue_t,
    message: *mut sys::mblk_t,
    provider: impl FnOnce(u32, &mut [u8], Cred<'_>) -> Result<usize, Errno>,
) {
    // SAFETY: by this function's contract.
    match unsafe { serve(message, provider) } {
        // SAFETY: the message is given to the queue's other side.
        Ok(count) => unsafe { sys::miocack(queue, message, count as c_int, 0) },
        // SAFETY: as above.
        Err(error) => unsafe { sys::miocnak(queue, message, 0, error.get()) },
    }
}

/// Runs the provider on a copy of the argument and puts the answer in the argument's place; how long it is.
///
/// # Safety
///
/// As for [`answer`]; the message stays the caller's.
unsafe fn serve(
    message: *mut sys::mblk_t,
    provider: impl FnOnce(u32, &mut [u8], Cred<'_>) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    // SAFETY: a live block.
    let start = unsafe { (*message).b_rptr };
    // SAFETY: the first block of an M_IOCTL is an iocblk, as aligned as every buffer.
    let block = unsafe { start.cast::<sys::iocblk>().read() };
    // A TRANSPARENT one has no argument in the message, and a count that is longer than any.
    if block.ioc_count > MOST {
        return Err(Errno::EINVAL);
    }
    let mut room = MaybeUninit::<[u8; MOST]>::zeroed();
    // SAFETY: zeroed, which is a value.
    let room = unsafe { room.assume_init_mut() };
    let argument = room.get_mut(..block.ioc_count).ok_or(Errno::EINVAL)?;
    // SAFETY: a live block.
    let data = unsafe { (*message).b_cont };
    // SAFETY: the rest of a message that is ours; it is put back below.
    if let Some(whole) = unsafe { Mblk::from_raw(data) } {
        let copied = whole.copy_to(0, argument);
        // Still the message's.
        let _ = whole.into_raw();
        if copied < block.ioc_count {
            return Err(Errno::EINVAL);
        }
    } else if block.ioc_count != 0 {
        return Err(Errno::EINVAL);
    }
    // SAFETY: held until the message is answered.
    let cred = unsafe { Cred::from_raw(block.ioc_cr) }.ok_or(Errno::EPERM)?;
    let count = provider(block.ioc_cmd as u32, argument, cred)?;
    let answer = Mblk::from_bytes(0, argument.get(..count).unwrap_or_default())?;
    // SAFETY: a live block that is ours.
    unsafe { (*message).b_cont = answer.into_raw() };
    // SAFETY: taken out of the message, so nobody else has it.
    drop(unsafe { Mblk::from_raw(data) });
    Ok(count)
}
