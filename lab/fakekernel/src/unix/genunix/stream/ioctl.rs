//! Ioctls on a stream: an `M_IOCTL` on its way down, and `miocack` or `miocnak`, one of them, on its way up.

use std::ffi::{c_int, c_void};

use illumos_sys_hdrs::{iocblk, mblk_t, queue_t};
use sim::{HostMutex, Rule, WaitQueue};

use super::Owner;
use super::block::Mb;
use crate::export;
use crate::loader::cx::{Cx, cx};
use crate::loader::errno::Errno;
use crate::loader::export::Export;
use crate::loader::handles::Handles;
use crate::loader::kernel::Kernel;
use crate::unix::genunix::{Cred, Genunix};

pub(super) fn exports() -> Vec<Export> {
    export! { ANY: miocack, miocnak; }
}

/// `M_IOCTL`.
const IOCTL: u8 = 0x0e;

/// What came up: the driver's number and the bytes, or its error.
type Reply = Result<(i32, Vec<u8>), Errno>;

/// The write side of a stream with an ioctl under way.
#[derive(Debug)]
struct Queue {
    reply: HostMutex<Option<Reply>>,
    replied: WaitQueue,
}

/// A host's streams with an ioctl under way.
#[derive(Debug)]
pub(crate) struct Ioctls {
    queues: Handles<Queue>,
}

impl Ioctls {
    pub(super) fn new() -> Self {
        Self { queues: Handles::new("queue_t") }
    }
}

impl Kernel {
    /// `ioctl(2)` with `I_STR` by a process with these credentials: `down` is given the queue and the message, which is the
    /// module's whose name is given, and the answer is waited for.
    ///
    /// # Errors
    ///
    /// ENOMEM; what the driver refused with.
    pub fn stream_ioctl(
        &self,
        module: &str,
        cred: Cred,
        command: i32,
        argument: &[u8],
        down: impl FnOnce(*mut queue_t, *mut mblk_t),
    ) -> Reply {
        let (cx, genunix) = (cx(), self.genunix());
        let queue = Queue {
            reply: HostMutex::new(None),
            replied: WaitQueue::new("the answer to an ioctl on a stream"),
        };
        let handle: *mut c_void = genunix.streams.ioctls.queues.insert(queue);
        let reply = self.with_cred(cred, |cred| {
            let block = iocblk {
                ioc_cmd: command,
                ioc_cr: cred,
                ioc_id: 1,
                ioc_flag: 0,
                ioc_count: argument.len(),
                ioc_rval: 0,
                ioc_error: 0,
            };
            let message = genunix.ioctl_message(&cx, block, argument)?;
            genunix.hand_over(&cx, message, Owner::Framework, Owner::module(module), "M_IOCTL");
            down(handle.cast(), message);
            let queue = genunix.streams.ioctls.queues.get(handle).map_err(|_| Errno::EIO)?;
            let mut reply = queue.reply.lock();
            loop {
                match reply.take() {
                    Some(reply) => return reply,
                    None => reply = queue.replied.wait(reply),
                }
            }
        });
        drop(genunix.streams.ioctls.queues.remove(handle));
        reply
    }
}

impl Genunix {
    /// An `M_IOCTL` with its data in a second block, as the stream head makes it.
    fn ioctl_message(&self, cx: &Cx, block: iocblk, argument: &[u8]) -> Result<*mut mblk_t, Errno> {
        let message = self.message(cx, 0, &[0; size_of::<iocblk>()]);
        let data = self.message(cx, 0, argument);
        if message.is_null() || data.is_null() {
            for left in [message, data].into_iter().filter(|left| !left.is_null()) {
                self.freemsg(cx, left);
            }
            return Err(Errno::ENOMEM);
        }
        let mb = Mb::new(message);
        // SAFETY: a live block of this size, aligned as every buffer's start is.
        unsafe { mb.rptr().cast::<iocblk>().write(block) };
        mb.data().set_kind(IOCTL);
        self.linkb(cx, message, data);
        Ok(message)
    }

    fn reply(&self, cx: &Cx, queue: *mut queue_t, mp: *mut mblk_t, reply: Reply) {
        let queue = match self.streams.ioctls.queues.get(queue) {
            Ok(queue) => queue,
            Err(error) => cx.panic(format!("BAD TRAP in {}: {error}", cx.call())),
        };
        self.hand_over(cx, mp, Owner::of(cx), Owner::Framework, cx.call());
        let Some(mb) = self.live_message(cx, mp, cx.call()) else { return };
        let whole = mb.data().kind() == IOCTL && mb.len() >= size_of::<iocblk>();
        cx.check(whole, Rule::BadMessageFree, || {
            format!("{}: mblk {:#x} is no M_IOCTL", cx.call(), mb.addr())
        });
        self.freemsg(cx, mp);
        let before = queue.reply.lock().replace(reply);
        cx.check(before.is_none(), Rule::BadMessageFree, || format!("{}: answered already", cx.call()));
        queue.replied.wake_all();
    }
}

/// Acknowledges with `count` bytes of the second block.
unsafe extern "C" fn miocack(queue: *mut queue_t, mp: *mut mblk_t, count: c_int, value: c_int) {
    let cx = cx();
    let genunix = cx.kernel().genunix();
    let data = genunix.continuation(&cx, mp);
    let mut bytes = if data.is_null() { Vec::new() } else { genunix.message_bytes(&cx, data, 0) };
    let count = usize::try_from(count).unwrap_or(0);
    cx.check(count <= bytes.len(), Rule::BadMessageFree, || {
        format!("miocack of {count} bytes with {} in the message", bytes.len())
    });
    bytes.truncate(count);
    genunix.reply(&cx, queue, mp, Ok((value, bytes)));
}

/// Refuses; an error of 0 is EINVAL.
unsafe extern "C" fn miocnak(queue: *mut queue_t, mp: *mut mblk_t, _count: c_int, error: c_int) {
    let cx = cx();
    let error = if error == 0 { Errno::EINVAL } else { Errno(error) };
    cx.kernel().genunix().reply(&cx, queue, mp, Err(error));
}
