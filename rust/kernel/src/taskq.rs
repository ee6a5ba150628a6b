//! Occasional jobs on a thread of their own (`ddi_taskq_create(9F)`).

use core::ffi::{CStr, c_int, c_void};
use core::ptr::NonNull;

use illumos_sys_hdrs as sys;

use crate::KBox;
use crate::ddi::DevInfo;
use crate::errno::Errno;
use crate::module::Pin;

/// A queue of jobs. With one thread they run in the order of dispatch.
///
/// Dropping it waits for every job, so never inside one of its jobs and never with a lock that a job takes. Creation
/// and drop **may block**.
pub struct TaskQueue {
    queue: NonNull<sys::ddi_taskq_t>,
    _pin: Pin,
}

// SAFETY: the kernel's task queue may be used from every thread.
unsafe impl Send for TaskQueue {}
// SAFETY: as above.
unsafe impl Sync for TaskQueue {}

impl TaskQueue {
    /// A queue served by `threads` threads. `name` has at most 31 characters.
    pub fn new(dip: DevInfo, name: &'static CStr, threads: u16) -> Result<Self, Errno> {
        // SAFETY: the name outlives the call; the dip is attached or attaching.
        let queue = unsafe {
            sys::ddi_taskq_create(
                dip.as_raw(),
                name.as_ptr(),
                c_int::from(threads),
                sys::TASKQ_DEFAULTPRI as _,
                0,
            )
        };
        let queue = NonNull::new(queue).ok_or(Errno::ENOMEM)?;
        Ok(Self { queue, _pin: Pin::of_registration() })
    }

    /// Runs `job` soon. **Any** context: nothing here sleeps, so it can be refused.
    pub fn dispatch<F: FnOnce() + Send + 'static>(&self, job: F) -> Result<(), Errno> {
        let job = KBox::new(job)?.into_raw();
        // SAFETY: the queue lives as long as `self`; `job` is consumed by `run`, once.
        let result = unsafe {
            sys::ddi_taskq_dispatch(
                self.queue.as_ptr(),
                Some(run::<F>),
                job.as_ptr().cast(),
                sys::DDI_NOSLEEP as sys::uint_t,
            )
        };
        if result == sys::DDI_SUCCESS as c_int {
            return Ok(());
        }
        // SAFETY: the kernel refused the job and has not kept the pointer.
        drop(unsafe { KBox::from_raw(job) });
        Err(Errno::EAGAIN)
    }

    /// Waits until every job dispatched so far has run. **May block.**
    pub fn wait(&self) {
        // SAFETY: the queue lives as long as `self`.
        unsafe { sys::ddi_taskq_wait(self.queue.as_ptr()) };
    }
}

impl Drop for TaskQueue {
    fn drop(&mut self) {
        // SAFETY: the only owner; waits for the jobs.
        unsafe { sys::ddi_taskq_destroy(self.queue.as_ptr()) };
    }
}

/// # Safety
///
/// `job` is a `KBox<F>` given up for this call.
unsafe extern "C" fn run<F: FnOnce()>(job: *mut c_void) {
    let Some(job) = NonNull::new(job.cast::<F>()) else { return };
    // SAFETY: by this function's contract.
    let job = unsafe { KBox::from_raw(job) };
    job.into_inner()();
}
