//! A raw, passive stream on a link: what `snoop` listens with.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use admin::{Capture, Frame};
use fakekernel::{Errno, HostMutex, Kernel, Nanos, WaitQueue};
use lab_gldv3::{Promiscuity, Stream};

/// Packets that may wait for a slow reader; more are lost, and counted.
const ROOM: usize = 4096;

/// It ends when dropped.
pub struct Listener {
    /// Open for as long as somebody listens.
    _stream: Stream,
    heard: Arc<Heard>,
    /// The wall clock at the boot of the machine, since 1970.
    boot: Duration,
}

struct Heard {
    state: HostMutex<State>,
    arrived: WaitQueue,
}

#[derive(Default)]
struct State {
    packets: VecDeque<(Nanos, Vec<u8>)>,
    lost: u32,
}

impl Listener {
    /// # Errors
    ///
    /// ENOENT for a link that is not there; what the driver refused with.
    pub fn open(kernel: &Kernel, link: &str, promiscuous: bool) -> Result<Self, Errno> {
        let stream = Stream::open_passive(kernel, link)?;
        stream.set_raw()?;
        let state = HostMutex::new(State::default());
        let heard = Arc::new(Heard { state, arrived: WaitQueue::new("packets to look at") });
        let fed = heard.clone();
        stream.on_receive(move |packet| fed.put(packet.payload));
        stream.bind(0)?;
        if promiscuous {
            stream.set_promiscuous(Promiscuity::Physical, true)?;
        }
        stream.set_promiscuous(Promiscuity::Sap, true)?;
        let since_boot = Duration::from_nanos(fakekernel::now().0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self { _stream: stream, heard, boot: now.saturating_sub(since_boot) })
    }
}

impl Heard {
    fn put(&self, packet: Vec<u8>) {
        let now = fakekernel::now();
        let mut state = self.state.lock();
        if state.packets.len() >= ROOM {
            state.lost += 1;
            return;
        }
        state.packets.push_back((now, packet));
        drop(state);
        self.arrived.wake_all();
    }
}

impl Capture for Listener {
    fn next(&mut self, patience: Duration) -> Option<Frame> {
        let deadline = fakekernel::now() + Nanos(patience.as_nanos() as u64);
        let mut state = self.heard.state.lock();
        if state.packets.is_empty() {
            state = self.heard.arrived.wait_until(state, deadline).0;
        }
        let (at, bytes) = state.packets.pop_front()?;
        let time = self.boot + Duration::from_nanos(at.0);
        Some(Frame { time, size: bytes.len(), drops: state.lost, bytes })
    }
}
