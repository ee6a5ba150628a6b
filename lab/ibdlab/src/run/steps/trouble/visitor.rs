//! A second hand on a host: it opens the link and closes it again, while the first has whatever done to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fakekernel::{Ctx, Kernel, Nanos, Thread};
use lab_gldv3::Stream;

/// An EtherType that no host looks into (IEEE 802's for local experiments).
const SAP: u32 = 0x88b5;

/// See the module's documentation.
pub struct Visitor {
    over: Arc<AtomicBool>,
    thread: Thread,
}

impl Visitor {
    /// A thread that has the link open for a while, and then not, until that instant. What cannot be opened is tried again.
    pub fn start(kernel: &Kernel, link: &str, until: Nanos, every: Nanos) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (ends, inside, link) = (over.clone(), kernel.clone(), link.to_owned());
        let thread = kernel.spawn("second hand", Ctx::User, move || {
            while fakekernel::now() < until && !ends.load(Ordering::Acquire) {
                let stream = Stream::open(&inside, &link);
                if let Ok(stream) = &stream {
                    // Refused if the link goes meanwhile.
                    let _ = stream.bind(SAP);
                }
                fakekernel::sleep(every);
                drop(stream);
                fakekernel::sleep(every);
            }
        });
        Self { over, thread }
    }

    /// The link is closed when this returns.
    pub fn end(self) {
        self.over.store(true, Ordering::Release);
        self.thread.join();
    }
}
