//! The adapter behind a thread's queues: it takes what is posted, discards it, and is done with it at once; and it writes datagrams into
//! what is posted to receive.

use std::collections::VecDeque;

use fabric::{RecvWr, Sge};
use illumos_sys_hdrs::{
    IBT_WC_SUCCESS, IBT_WR_SEND_SIGNAL, IBT_WRC_RECV, IBT_WRC_SEND, ibt_channel_hdl_t, ibt_cq_hdl_t,
    ibt_send_wr_t, ibt_wc_t,
};
use lab_ibtf::{ChannelShown, CqShown};

use crate::Fault;
use crate::interrupts::CqHandler;

/// Places of a queue: more than a driver has requests out.
const PLACES: usize = 1 << 16;
/// Bytes in front of a datagram, for a routing header.
const GRH: usize = 40;
/// Where every datagram comes from.
const SOURCE_QPN: u32 = 0x1000;

/// What arrived at the adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Work requests of one datagram each.
    pub packets: u64,
    /// Octets that they point to.
    pub octets: u64,
}

/// One that is done and waits to be polled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    id: u64,
    /// Received.
    octets: u32,
    kind: u8,
}

/// A receive that is posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive {
    pub(crate) id: u64,
    pub(crate) key: u32,
    pub(crate) va: u64,
    pub(crate) len: u32,
}

impl Receive {
    /// As the lab's adapter has it. Drivers post them in one piece.
    pub(crate) fn of(posted: &RecvWr) -> Self {
        let piece = posted.sgl.first().copied().unwrap_or(Sge { va: 0, lkey: 0, len: 0 });
        Self { id: posted.id, key: piece.lkey, va: piece.va, len: piece.len }
    }

    pub(crate) fn as_posted(&self) -> RecvWr {
        RecvWr { id: self.id, sgl: vec![Sge { va: self.va, lkey: self.key, len: self.len }] }
    }
}

/// A completion queue.
pub(crate) struct CompletionQueue {
    shown: Option<CqShown>,
    pub(crate) waiting: VecDeque<Completion>,
    armed: bool,
}

impl CompletionQueue {
    fn new(waiting: VecDeque<Completion>) -> Self {
        let mut queue = Self { shown: None, waiting, armed: false };
        queue.waiting.reserve(PLACES);
        queue
    }

    fn set(&mut self, shown: CqShown) {
        self.armed = shown.armed;
        self.shown = Some(shown);
    }

    fn is(&self, handle: ibt_cq_hdl_t) -> bool {
        self.shown.is_some_and(|shown| shown.handle == handle.addr())
    }

    /// Who is to be called now, if it is armed and so many have completed, or as many as its owner wants for a call.
    fn due(&mut self, at_most: usize) -> Option<CqHandler> {
        let shown = self
            .shown
            .filter(|shown| self.armed && self.waiting.len() >= at_most.min(shown.count as usize))?;
        self.armed = false;
        Some(CqHandler { function: shown.handler?, cq: shown.handle, argument: shown.argument })
    }
}

/// See the module's documentation.
pub(crate) struct Adapter {
    /// Those that the driver may post to.
    channels: Vec<ChannelShown>,
    /// The handle of that it does.
    channel: usize,
    /// Each send of that one completes.
    signals_all: bool,
    pub(crate) sends: CompletionQueue,
    receive_completions: CompletionQueue,
    pub(crate) receives: VecDeque<Receive>,
    /// Those that a datagram was written to, and no completion says so yet.
    written: VecDeque<Completion>,
    pub(crate) sent: Sent,
}

impl Adapter {
    /// With what was not polled. Which of the channels it is becomes known by the first post.
    pub(crate) fn new(channels: Vec<ChannelShown>, completed: VecDeque<Completion>) -> Self {
        Self {
            channels,
            channel: 0,
            signals_all: false,
            sends: CompletionQueue::new(completed),
            receive_completions: CompletionQueue::new(VecDeque::new()),
            receives: VecDeque::with_capacity(PLACES),
            written: VecDeque::new(),
            sent: Sent::default(),
        }
    }

    /// With this one, and what is posted to it.
    pub(crate) fn with_receives(channel: ChannelShown, receives: VecDeque<Receive>) -> Self {
        let handle = channel.handle;
        let mut adapter = Self::new(vec![channel], VecDeque::new());
        adapter.receives.extend(receives);
        adapter.choose(handle);
        adapter
    }

    fn choose(&mut self, handle: usize) -> bool {
        let Some(channel) = self.channels.iter().find(|channel| channel.handle == handle) else {
            return false;
        };
        (self.channel, self.signals_all) = (handle, channel.signals_all);
        self.sends.set(channel.send);
        self.receive_completions.set(channel.receive);
        true
    }

    /// A post to a channel: to the same one each time.
    pub(crate) fn posts_to(&mut self, channel: ibt_channel_hdl_t) -> Result<(), Fault> {
        let known = self.channel == channel.addr() || self.channel == 0 && self.choose(channel.addr());
        if known { Ok(()) } else { Err(Fault::Queue) }
    }

    /// Takes a send and is done with it.
    pub(crate) fn send(&mut self, request: &ibt_send_wr_t, octets: u64) {
        self.sent.packets += 1;
        self.sent.octets += octets;
        if self.signals_all || request.wr_flags & IBT_WR_SEND_SIGNAL != 0 {
            self.sends.waiting.push_back(Completion { id: request.wr_id, octets: 0, kind: IBT_WRC_SEND });
        }
    }

    fn queue(&mut self, cq: ibt_cq_hdl_t) -> Result<&mut CompletionQueue, Fault> {
        if self.sends.is(cq) {
            Ok(&mut self.sends)
        } else if self.receive_completions.is(cq) {
            Ok(&mut self.receive_completions)
        } else {
            Err(Fault::Queue)
        }
    }

    /// Tells of what has completed, as many as there are places; how many.
    pub(crate) fn poll(&mut self, cq: ibt_cq_hdl_t, places: &mut [ibt_wc_t]) -> Result<usize, Fault> {
        let queue = self.queue(cq)?;
        let found = queue.waiting.len().min(places.len());
        for (done, place) in queue.waiting.drain(..found).zip(places) {
            *place = ibt_wc_t {
                wc_id: done.id,
                wc_status: IBT_WC_SUCCESS,
                wc_type: done.kind,
                wc_bytes_xfer: done.octets,
                wc_qpn: SOURCE_QPN,
                ..ibt_wc_t::default()
            };
        }
        Ok(found)
    }

    /// The next completion calls.
    pub(crate) fn arm(&mut self, cq: ibt_cq_hdl_t) -> Result<(), Fault> {
        self.queue(cq)?.armed = true;
        Ok(())
    }

    /// Who is to be called now, if so many sends have completed, or as many as the driver wants for a call.
    #[inline]
    pub(crate) fn sends_due(&mut self, at_most: usize) -> Option<CqHandler> {
        if self.sends.waiting.is_empty() { None } else { self.sends.due(at_most) }
    }

    /// Writes the same datagram into the oldest receives, one after the other, for so many completions; without them the driver has posted
    /// too few.
    pub(crate) fn write(&mut self, datagram: &[u8], count: usize) -> Result<(), Fault> {
        for _ in 0..count {
            let receive = self.receives.pop_front().ok_or(Fault::NoReceive)?;
            let len = GRH + datagram.len();
            if len > receive.len as usize {
                return Err(Fault::NoReceive);
            }
            let to = std::ptr::with_exposed_provenance_mut::<u8>(receive.va as usize + GRH);
            // SAFETY: the driver has posted these bytes to be written to, and has not been told that they were; they are long enough.
            unsafe { to.copy_from_nonoverlapping(datagram.as_ptr(), datagram.len()) };
            self.written.push_back(Completion { id: receive.id, octets: len as u32, kind: IBT_WRC_RECV });
        }
        Ok(())
    }

    /// So many of what was written complete; who is to be called.
    pub(crate) fn complete_receives(&mut self, count: usize) -> Result<CqHandler, Fault> {
        let done = self.written.drain(..count.min(self.written.len()));
        self.receive_completions.waiting.extend(done);
        self.receive_completions.due(1).ok_or(Fault::NotArmed)
    }

    /// Completions of receives that the driver has not asked for.
    pub(crate) fn has_received(&self) -> bool {
        !self.receive_completions.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn nothing(_cq: ibt_cq_hdl_t, _argument: *mut std::ffi::c_void) {}

    fn cq(handle: usize, armed: bool) -> CqShown {
        CqShown { handle, handler: Some(nothing), argument: 0, armed, count: 4 }
    }

    fn handle(of: usize) -> ibt_cq_hdl_t {
        std::ptr::without_provenance_mut(of)
    }

    /// With a receive of so many bytes.
    fn adapter(buffer: &mut [u8]) -> Adapter {
        let mut adapter = Adapter::new(Vec::new(), VecDeque::new());
        adapter.sends.set(cq(1, true));
        adapter.receive_completions.set(cq(2, true));
        let va = buffer.as_mut_ptr().expose_provenance() as u64;
        adapter.receives.push_back(Receive { id: 7, key: 0, va, len: buffer.len() as u32 });
        adapter
    }

    #[test]
    fn datagram_is_written_behind_the_place_for_a_routing_header_and_told_of_once() {
        let mut buffer = [0; 64];
        let mut adapter = adapter(&mut buffer);
        assert_eq!(adapter.write(&[9; 24], 1), Ok(()));
        let mut told = [ibt_wc_t::default(); 2];
        assert_eq!(adapter.poll(handle(2), &mut told), Ok(0), "it has not completed");
        assert!(adapter.complete_receives(1).is_ok());
        assert_eq!(adapter.poll(handle(2), &mut told), Ok(1));
        assert_eq!((told[0].wc_id, told[0].wc_bytes_xfer), (7, 64));
        assert_eq!(adapter.poll(handle(2), &mut told), Ok(0));
        assert_eq!((buffer[39], buffer[40], buffer[63]), (0, 9, 9));
    }

    #[test]
    fn datagram_without_a_receive_or_longer_than_it_is_refused() {
        let mut buffer = [0; 64];
        assert_eq!(adapter(&mut buffer).write(&[9; 25], 1), Err(Fault::NoReceive));
        assert_eq!(adapter(&mut buffer).write(&[9; 8], 2), Err(Fault::NoReceive));
    }

    #[test]
    fn who_has_not_armed_its_cq_is_not_called() {
        let mut buffer = [0; 128];
        let mut adapter = adapter(&mut buffer);
        assert_eq!(adapter.write(&[9; 24], 1), Ok(()));
        assert!(adapter.complete_receives(1).is_ok());
        assert_eq!(adapter.complete_receives(1).err(), Some(Fault::NotArmed));
        assert_eq!(adapter.arm(handle(2)), Ok(()));
        assert_eq!(adapter.arm(handle(3)), Err(Fault::Queue));
    }

    #[test]
    fn sends_call_when_as_many_have_completed_as_were_asked_for_or_when_their_time_is_over() {
        let mut adapter = Adapter::new(Vec::new(), VecDeque::new());
        adapter.sends.set(cq(1, true));
        let request = ibt_send_wr_t { wr_flags: IBT_WR_SEND_SIGNAL, ..ibt_send_wr_t::default() };
        for calls in [false, false, false, true] {
            adapter.send(&request, 64);
            assert_eq!(adapter.sends_due(usize::MAX).is_some(), calls);
        }
        assert!(adapter.sends_due(1).is_none(), "it is not armed");
        assert_eq!(adapter.arm(handle(1)), Ok(()));
        assert!(adapter.sends_due(1).is_some());
        assert_eq!(adapter.sent, Sent { packets: 4, octets: 256 });
    }
}
