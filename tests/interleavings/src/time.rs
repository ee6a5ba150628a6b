//! The kernel's clock for the files compiled here: who sleeps lets others run.

#[derive(Clone, Copy)]
pub(crate) struct Duration;

impl Duration {
    pub(crate) fn from_millis(_millis: u64) -> Self {
        Self
    }
}

pub(crate) fn sleep(_span: Duration) {
    loom::thread::yield_now();
}
