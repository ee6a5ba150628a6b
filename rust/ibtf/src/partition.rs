//! Which partition a data link is: what other IB clients may ask of the IPoIB driver (`ibt_register_part_attr_cb`).
//!
//! IBTF calls without any context, so the source is reached through one static per module: there can be one
//! [`PartitionRegistration`] at a time, in the whole system too.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use illumos_sys_hdrs as sys;
use kernel::module::Pin;
use kernel::{KArc, KVec, MayBlock};

use crate::status::Status;

/// A partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Data-link id of the partition's link, the one that IP is plumbed on (`pa_plinkid`, where the p is for partition): what
    /// ibcm looks an IP interface's link up by.
    pub partition_link: u32,
    /// Data-link id of the link that stands for the device, on which the partition was made (`pa_dlinkid`).
    pub device_link: u32,
    /// Port, from 1.
    pub port: u8,
    /// The adapter.
    pub hca_guid: u64,
    /// The port.
    pub port_guid: u64,
    /// P_Key.
    pub pkey: u16,
}

/// Who knows the partitions.
///
/// Called on the asker's thread with IBTF's lock for this held: **may block** briefly; must not register, unregister or
/// ask, and must not wait for anybody who does.
pub trait PartitionSource: Send + Sync + 'static {
    /// The partition with that data-link id.
    fn get(&self, link: u32) -> Option<Partition>;

    /// All of them.
    fn all(&self, may_block: &MayBlock) -> KVec<Partition>;
}

/// A source that IBTF asks. Dropping it waits for a question that is being answered (**may block**).
pub struct PartitionRegistration<S: PartitionSource> {
    _source: KArc<S>,
    _pin: Pin,
}

/// The source of the one registration, or null.
static SOURCE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

impl<S: PartitionSource> PartitionRegistration<S> {
    /// Registers the source; `HCA_IN_USE` if this module has one registered. **May block.**
    pub fn new(source: KArc<S>) -> Result<Self, Status> {
        let cookie = KArc::as_ptr(&source).as_ptr().cast();
        if SOURCE.compare_exchange(ptr::null_mut(), cookie, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return Err(Status::HCA_IN_USE);
        }
        // SAFETY: the functions go with the source that was just stored.
        unsafe { sys::ibt_register_part_attr_cb(Some(get::<S>), Some(get_all::<S>)) };
        Ok(Self { _source: source, _pin: Pin::of_registration() })
    }
}

impl<S: PartitionSource> Drop for PartitionRegistration<S> {
    fn drop(&mut self) {
        // SAFETY: registered; waits for a running call.
        unsafe { sys::ibt_unregister_part_attr_cb() };
        SOURCE.store(ptr::null_mut(), Ordering::Release);
    }
}

fn source<'a, S: PartitionSource>() -> Option<&'a S> {
    let source: *const S = SOURCE.load(Ordering::Acquire).cast();
    // SAFETY: callbacks of type S run only while a source of type S is registered, and unregistering waits for them.
    unsafe { source.as_ref() }
}

/// # Safety
///
/// Called by IBTF while registered; `answer` is writable.
unsafe extern "C" fn get<S: PartitionSource>(
    link: sys::datalink_id_t,
    answer: *mut sys::ibt_part_attr_t,
) -> sys::ibt_status_t {
    let Some(partition) = source::<S>().and_then(|source| source.get(link)) else {
        return Status::NO_SUCH_OBJECT.raw();
    };
    // SAFETY: by this function's contract.
    unsafe { answer.write(partition.raw()) };
    sys::IBT_SUCCESS
}

/// # Safety
///
/// Called by IBTF while registered; both answers are writable. The array is freed by `ibt_free_part_attr`.
unsafe extern "C" fn get_all<S: PartitionSource>(
    answer: *mut *mut sys::ibt_part_attr_t,
    count: *mut c_int,
) -> sys::ibt_status_t {
    // SAFETY: the caller's thread may block, during this call.
    let may_block = unsafe { MayBlock::new() };
    let partitions = source::<S>().map_or_else(KVec::new, |source| source.all(&may_block));
    let Ok(len) = c_int::try_from(partitions.len()) else { return Status::INSUFF_KERNEL_RESOURCE.raw() };
    let mut array: *mut sys::ibt_part_attr_t = ptr::null_mut();
    if !partitions.is_empty() {
        let size = partitions.len() * size_of::<sys::ibt_part_attr_t>();
        // SAFETY: the caller's thread may block.
        array = unsafe { sys::kmem_zalloc(size, sys::KM_SLEEP) }.cast();
    }
    for (index, partition) in partitions.iter().enumerate() {
        // SAFETY: `index` is below the number of elements allocated.
        let element = unsafe { array.add(index) };
        // SAFETY: as above.
        unsafe { element.write(partition.raw()) };
    }
    // SAFETY: by this function's contract.
    unsafe { answer.write(array) };
    // SAFETY: by this function's contract.
    unsafe { count.write(len) };
    sys::IBT_SUCCESS
}

impl Partition {
    fn raw(&self) -> sys::ibt_part_attr_t {
        sys::ibt_part_attr_t {
            pa_dlinkid: self.device_link,
            pa_plinkid: self.partition_link,
            pa_port: self.port,
            pa_hca_guid: self.hca_guid,
            pa_port_guid: self.port_guid,
            pa_pkey: self.pkey,
        }
    }
}
