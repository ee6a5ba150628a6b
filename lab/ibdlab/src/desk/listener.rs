//! A raw, passive stream on a link: what `snoop` listens with.

use std::sync::Arc;
use std::time::Duration;

use admin::{Capture, Frame};
use fakekernel::{Errno, Kernel, Nanos};
use lab_gldv3::{Promiscuity, Stream};

use super::heard::{Heard, boot_time};

/// It ends when dropped.
pub struct Listener {
    /// Open for as long as somebody listens.
    _stream: Stream,
    heard: Arc<Heard<Vec<u8>>>,
    /// The wall clock at the boot of the machine, since 1970.
    boot: Duration,
}

impl Listener {
    /// # Errors
    ///
    /// ENOENT for a link that is not there; what the driver refused with.
    pub fn open(kernel: &Kernel, link: &str, promiscuous: bool) -> Result<Self, Errno> {
        let stream = Stream::open_passive(kernel, link)?;
        stream.set_raw()?;
        let heard = Arc::new(Heard::new());
        let fed = heard.clone();
        stream.on_receive(move |packet| fed.put(packet.payload));
        stream.bind(0)?;
        if promiscuous {
            stream.set_promiscuous(Promiscuity::Physical, true)?;
        }
        stream.set_promiscuous(Promiscuity::Sap, true)?;
        Ok(Self { _stream: stream, heard, boot: boot_time() })
    }
}

impl Capture for Listener {
    fn next(&mut self, patience: Duration) -> Option<Frame> {
        let (at, bytes) = self.heard.next(Nanos(patience.as_nanos() as u64))?;
        let time = self.boot + Duration::from_nanos(at.0);
        let drops = u32::try_from(self.heard.lost()).unwrap_or(u32::MAX);
        Some(Frame { time, size: bytes.len(), drops, bytes })
    }
}
