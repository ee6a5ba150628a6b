//! How a link gets to its neighbours: the record other programs and IB clients ask with (`sys/ibd_path.h`), and
//! `ibd_path_lookup`, which this module exports to them.
//!
//! A caller names a link by a number and has no pointer of ours, so the service is reached through one static per module: there
//! can be one [`PathService`] at a time.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use kernel::sync::CallbackSlot;
use kernel::user::Plain;
use kernel::{Errno, KArc, KBox, MayBlock};

/// The ioctl, on `/dev/dld` and on a link's own node.
pub const PATH_INFO: u32 = 0x6171_0004;

/// `ibd_path_info_t`: question and answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PathRecord {
    /// [`PathRecord::VERSION`].
    pub version: u32,
    /// The link.
    pub link: u32,
    /// One of the kinds below.
    pub kind: u32,
    /// What is asked about, in network order; the rest is zero.
    pub address: [u8; 20],
    /// Zero in a question.
    pub flags: u32,
    /// Why a lookup failed.
    pub status: u32,
    /// The link address that was looked up.
    pub neighbour: [u8; 20],
    /// Source GID, network order.
    pub sgid: [u8; 16],
    /// Destination GID, network order.
    pub dgid: [u8; 16],
    /// Source LID.
    pub slid: u16,
    /// Destination LID.
    pub dlid: u16,
    /// P_Key.
    pub pkey: u16,
    /// Service level, 0 to 15.
    pub sl: u8,
    /// Traffic class.
    pub tclass: u8,
    /// Flow label, 20 bits.
    pub flow: u32,
    /// Bytes that fit through, IPoIB header included; the link may carry less.
    pub mtu: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// PathRecord's code.
    pub rate: u8,
    /// 4.096 us times 2 to this power; [`PathRecord::NO_LIFETIME`] of a group.
    pub lifetime: u8,
    /// Zero.
    pub pad: u8,
    /// Seconds since the SA said so.
    pub age: u32,
}

impl PathRecord {
    /// The one version there is.
    pub const VERSION: u32 = 1;
    /// `kind`: 20 bytes of link address.
    pub const LINK_ADDRESS: u32 = 1;
    /// `kind`: 4 bytes of IPv4 address.
    pub const IPV4: u32 = 2;
    /// `kind`: 16 bytes of IPv6 address.
    pub const IPV6: u32 = 3;
    /// `flags`: a multicast group.
    pub const GROUP: u32 = 1;
    /// `flags`: packets carry a GRH.
    pub const GRH: u32 = 2;
    /// `status`: there is no path.
    pub const UNREACHABLE: u32 = 1;
    /// `status`: nobody answered.
    pub const UNANSWERED: u32 = 2;
    /// `lifetime` of a group, of which the SA's answer does not say it.
    pub const NO_LIFETIME: u8 = 0xff;
}

// SAFETY: integers only, and no padding: the fields' sizes add up (below).
unsafe impl Plain for PathRecord {}

const _: () =
    assert!(size_of::<PathRecord>() == 3 * 4 + 20 + 2 * 4 + 20 + 2 * 16 + 3 * 2 + 2 + 2 * 4 + 4 + 4);

/// `ibd_path_cb_t`.
pub type PathCallback = unsafe extern "C" fn(arg: *mut c_void, error: c_int, path: *const PathRecord);

/// Somebody who has asked and waits for the one call of his callback. Must be answered: dropping it answers `EIO`.
pub struct Asker {
    /// `None` once called.
    callback: Option<PathCallback>,
    arg: *mut c_void,
}

// SAFETY: the argument is the asker's, who said by asking that any thread may call him with it.
unsafe impl Send for Asker {}
// SAFETY: nothing can be done with `&Asker`.
unsafe impl Sync for Asker {}

impl Asker {
    /// Makes the call, in somebody else's module: with no lock held. **Any** context.
    pub fn answer(mut self, error: Option<Errno>, record: &PathRecord) {
        self.call(error.map_or(0, Errno::get), record);
    }

    /// The question was refused, and the caller hears of it from the call itself.
    pub fn forget(mut self) {
        self.callback = None;
    }

    fn call(&mut self, error: c_int, record: &PathRecord) {
        let Some(callback) = self.callback.take() else { return };
        // SAFETY: the asker has promised that the function can be called once with this argument.
        unsafe { callback(self.arg, error, record) };
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.call(Errno::EIO.get(), &PathRecord::default());
    }
}

/// Who knows the links.
pub trait PathService: Send + Sync + 'static {
    /// Takes a question in. An error hands the asker back: it will not be answered. Must not block; **any** context.
    fn lookup(&self, question: &PathRecord, asker: Asker) -> Result<(), (Errno, Asker)>;
}

/// A service that other modules reach. Dropping it waits for a question that is being taken in (**may block**).
pub struct PathServiceRegistration {
    _target: KBox<Target>,
}

type Target = KBox<dyn PathService>;

static SERVICE: CallbackSlot<Target> = CallbackSlot::new();

impl<S: PathService> PathService for KArc<S> {
    fn lookup(&self, question: &PathRecord, asker: Asker) -> Result<(), (Errno, Asker)> {
        (**self).lookup(question, asker)
    }
}

impl PathServiceRegistration {
    /// From now on questions reach `service`; `EBUSY` if this module has another one. **May block.**
    pub fn new<S: PathService>(service: KArc<S>, may_block: &MayBlock) -> Result<Self, Errno> {
        let service = KBox::new_waiting(service, may_block).map_unsized::<dyn PathService>(|service| service);
        let target = KBox::new_waiting(service, may_block);
        // SAFETY: the registration keeps the target, and shuts the way to it first; a service is `Send` and `Sync`.
        if !unsafe { SERVICE.open(NonNull::from(&*target)) } {
            return Err(Errno::EBUSY);
        }
        Ok(Self { _target: target })
    }
}

impl Drop for PathServiceRegistration {
    fn drop(&mut self) {
        SERVICE.quiesce();
    }
}

/// What other modules call (`sys/ibd_path.h`).
///
/// # Safety
///
/// `question` is readable; `callback` may be called once, on any thread, with `arg`.
#[cfg(target_os = "none")]
#[unsafe(no_mangle)]
unsafe extern "C" fn ibd_path_lookup(
    question: *const PathRecord,
    callback: Option<PathCallback>,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: by this function's contract.
    let Some(question) = (unsafe { question.as_ref() }) else { return Errno::EINVAL.get() };
    if callback.is_none() {
        return Errno::EINVAL.get();
    }
    let asker = Asker { callback, arg };
    let mut given = Some(asker);
    let taken = SERVICE.call(|service| match given.take() {
        Some(asker) => service.lookup(question, asker),
        None => Ok(()),
    });
    let refused = match taken {
        Some(Ok(())) => return 0,
        Some(Err((error, asker))) => (error, Some(asker)),
        None => (Errno::ENODEV, given),
    };
    if let Some(asker) = refused.1 {
        asker.forget();
    }
    refused.0.get()
}
