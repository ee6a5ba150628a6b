//! [`SendQueue`]: what is being sent.
//!
//! Sends are staged, posted together, and kept until the adapter is done with them. Several send queues may share a
//! channel, each under its own lock; the channel's send queue must have room for all of them.

use core::ptr;

use illumos_sys_hdrs as sys;
use kernel::mblk::Mblk;
use kernel::{KArc, KBox, KVec};

use crate::buffer::Buffer;
use crate::channel::UdChannel;
use crate::cq::{Completion, CompletionStatus, QueueId};
use crate::dest::UdDest;
use crate::outgoing::Outgoing;
use crate::pd::Pd;
use crate::status::Status;

/// What is sent.
#[derive(Debug)]
pub enum Payload {
    /// The bytes of a buffer, copied there.
    Buffer(Buffer),
    /// A packet, from where it is.
    Packet(Mblk),
}

/// How it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// The adapter computes the IPv4 header's and the TCP or UDP checksum.
    pub checksum: bool,
    /// The receiver's CQ is told.
    pub solicited: bool,
    /// The adapter cuts the message into segments.
    pub large: Option<LargeSend>,
}

/// A message longer than the MTU, cut into segments by the adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeSend {
    /// Bytes at the start of the message that every segment gets: the 4-byte IPoIB header, IP and TCP. Contiguous.
    pub header_len: u32,
    /// Bytes of payload in a segment.
    pub mss: u32,
}

/// A send that is over.
#[derive(Debug)]
pub struct Sent<T> {
    /// What was sent. Free a packet only when no lock is held.
    pub payload: Payload,
    /// What it was staged with.
    pub cookie: T,
    /// How it went. Of sends that were not signalled and came before one that was, success is all that is known.
    pub status: CompletionStatus,
}

/// Sends that one completion tells of ([`SendQueue::next_over`]).
#[derive(Debug)]
#[must_use]
pub struct Over {
    pub(crate) last: u32,
    pub(crate) status: CompletionStatus,
    pub(crate) finished: bool,
}

impl Over {
    /// Up to the send with this number, of which `status` says how it went.
    pub(crate) fn until(last: u32, status: CompletionStatus) -> Self {
        Self { last, status, finished: false }
    }
}

/// Bytes of a page. A piece of memory ends there, if the page behind it is elsewhere.
const PAGE: usize = 4096;

/// A send that could not be staged or posted.
#[derive(Debug)]
pub struct Refused<T> {
    /// What was to be sent. A packet is the message that was given, unchanged.
    pub payload: Payload,
    /// What it was to be staged with.
    pub cookie: T,
    /// Why: `CHAN_FULL` without room (try again after a completion), `SGL_TOO_SMALL` for a packet of too many pages
    /// (copy it), `INSUFF_RESOURCE` without DMA resources, `INVALID_PARAM` for a `UdDest` of another protection domain; when it was posted, what the adapter says.
    pub why: Status,
}

/// Posting stopped.
#[derive(Debug)]
pub struct PostFailure {
    /// Why it stopped.
    pub why: Status,
    /// How many were posted before.
    pub posted: u32,
}

/// One transmit queue of a channel. `T` is whatever the driver wants to know again when a send is over, `A` what it knows about each
/// [`UdDest`].
///
/// **Any** context; under the driver's lock for this queue. When it is dropped, what the adapter still has is kept until
/// the channel is freed.
pub struct SendQueue<T: Send + Sync + 'static, A: Send + Sync + 'static = ()> {
    /// `None` only while dropping.
    ring: Option<KBox<Outgoing<InFlight<T>, UdDest<A>>>>,
    /// One request per place of a batch, and `sgl` elements for each.
    requests: KVec<sys::ibt_send_wr_t>,
    elements: KVec<sys::ibt_wr_ds_t>,
    pieces: KVec<sys::ibt_iov_t>,
    staged: u32,
    /// Sends since the last signalled one, and whether one is among them whose memory is to come back soon.
    unsignalled: u32,
    must_signal: bool,
    /// Signalled sends in the adapter, and completions taken since the queue was made.
    expected: u32,
    completed: u32,
    signal_every: u32,
    sgl: usize,
    /// Elements that a packet may take where it is, with its header; fewer than `sgl` once the adapter has refused as many.
    most: usize,
    capacity: u32,
    id: QueueId,
    channel: UdChannel,
}

// SAFETY: requests and elements point into each other's heap blocks and at what the ring owns, and nowhere else.
unsafe impl<T: Send + Sync, A: Send + Sync> Send for SendQueue<T, A> {}
// SAFETY: through a shared reference only numbers are read.
unsafe impl<T: Send + Sync, A: Send + Sync> Sync for SendQueue<T, A> {}

struct InFlight<T> {
    // Unmapped before the packet can be freed: fields drop in this order.
    mapping: Option<Mapping>,
    payload: Payload,
    cookie: T,
}

impl<T> InFlight<T> {
    #[inline(never)]
    fn refused(self, why: Status) -> Refused<T> {
        let Self { payload, cookie, .. } = self;
        Refused { payload, cookie, why }
    }
}

/// Room for one more send of a batch.
pub struct Vacancy<'a, T: Send + Sync + 'static, A: Send + Sync + 'static = ()> {
    request: &'a mut sys::ibt_send_wr_t,
    element: &'a mut sys::ibt_wr_ds_t,
    ring: &'a mut Outgoing<InFlight<T>, UdDest<A>>,
    staged: &'a mut u32,
    must_signal: &'a mut bool,
    id: QueueId,
    pd: &'a Pd,
}

impl<T: Send + Sync + 'static, A: Send + Sync + 'static> Vacancy<'_, T, A> {
    /// Stages the bytes of a buffer.
    #[inline(always)]
    pub fn stage_buffer(
        self,
        dest: &KArc<UdDest<A>>,
        buffer: Buffer,
        options: SendOptions,
        cookie: T,
    ) -> Result<(), Refused<T>> {
        if !dest.is_in(self.pd) {
            return Err(Refused { payload: Payload::Buffer(buffer), cookie, why: Status::INVALID_PARAM });
        }
        let header = options.large.map_or(0, |large| large.header_len);
        let Some(len) = buffer.len().checked_sub(header) else {
            let why = Status::CHAN_SGL_LEN_INVALID;
            return Err(Refused { payload: Payload::Buffer(buffer), cookie, why });
        };
        *self.element = buffer.element(header, len);
        let id = self.id.work_request(self.ring.next_number());
        describe(self.request, id, dest.handle(), options, buffer.start());
        self.request.wr_nds = 1;
        self.request.wr_sgl = self.element;
        // Buffers for large sends are few.
        *self.must_signal |= options.large.is_some();
        self.push(InFlight { mapping: None, payload: Payload::Buffer(buffer), cookie }, dest)
    }

    #[inline(always)]
    fn push(self, send: InFlight<T>, dest: &KArc<UdDest<A>>) -> Result<(), Refused<T>> {
        match self.ring.push(send, dest) {
            Ok(()) => {
                *self.staged += 1;
                Ok(())
            }
            Err(send) => Err(send.refused(Status::CHAN_FULL)),
        }
    }
}

impl<T: Send + Sync + 'static, A: Send + Sync + 'static> SendQueue<T, A> {
    /// A queue of `channel` for at most `capacity` sends, as many as the channel and its CQ hold, `batch` of which can be staged. On a channel that does not
    /// signal all, every `signal_every`th send is signalled, and the end of every batch with a packet or a large send
    /// in it.
    /// **May block.**
    pub fn new(channel: &UdChannel, capacity: u32, batch: u32, signal_every: u32) -> Result<Self, Status> {
        let sgl = channel.sizes().send_sgl as usize;
        // Each may complete, and a CQ that is overrun is lost.
        let capacity = capacity.min(channel.sizes().send).min(channel.send_cq().size());
        if capacity == 0 || capacity > 1 << 20 || batch == 0 || sgl == 0 {
            return Err(Status::INVALID_PARAM);
        }
        let batch = batch.min(capacity) as usize;
        let ring = KBox::new(Outgoing::new(capacity)?)?;
        let elements = batch.checked_mul(sgl).ok_or(Status::INVALID_PARAM)?;
        channel.promise()?;
        Ok(Self {
            ring: Some(ring),
            requests: KVec::from_fn(batch, |_| Default::default())?,
            elements: KVec::from_fn(elements, |_| Default::default())?,
            pieces: KVec::from_fn(sgl, |_| Default::default())?,
            staged: 0,
            unsignalled: 0,
            must_signal: false,
            expected: 0,
            completed: 0,
            // A full queue must always have a completion to wait for.
            signal_every: signal_every.clamp(1, capacity.div_ceil(2)),
            sgl,
            most: sgl,
            capacity,
            id: QueueId::next(),
            channel: channel.clone(),
        })
    }

    /// The id its completions carry.
    pub fn id(&self) -> QueueId {
        self.id
    }

    /// The channel.
    pub fn channel(&self) -> &UdChannel {
        &self.channel
    }

    /// How many sends can be staged before one must complete.
    #[inline]
    pub fn room(&self) -> u32 {
        self.ring.as_ref().map_or(0, |ring| self.capacity.saturating_sub(ring.len()))
    }

    /// How many sends are staged or in the adapter.
    pub fn outstanding(&self) -> u32 {
        self.ring.as_ref().map_or(0, |ring| ring.len())
    }

    /// How many completions have been taken, modulo 2^32; `None` if none is to be expected.
    pub fn progress(&self) -> Option<u32> {
        (self.expected != 0).then_some(self.completed)
    }

    /// Where the oldest send goes.
    pub fn oldest_dest(&self) -> Option<&KArc<UdDest<A>>> {
        self.ring.as_ref()?.oldest_needs()
    }

    /// Has the next batch signalled, if sends are out of which no completion will tell.
    pub fn signal_soon(&mut self) {
        self.must_signal |= self.outstanding() > self.staged && self.expected == 0;
    }

    /// Whether the batch is full: post it before staging more.
    #[inline]
    pub fn batch_is_full(&self) -> bool {
        self.staged as usize >= self.requests.len()
    }

    /// Where the next send is staged; `None` without room, or if the batch is full.
    #[inline(always)]
    pub fn vacancy(&mut self) -> Option<Vacancy<'_, T, A>> {
        let place = self.staged as usize;
        let ring = self.ring.as_mut().filter(|ring| ring.len() < self.capacity)?;
        Some(Vacancy {
            request: self.requests.get_mut(place)?,
            element: self.elements.get_mut(place * self.sgl)?,
            ring,
            staged: &mut self.staged,
            must_signal: &mut self.must_signal,
            id: self.id,
            pd: self.channel.pd(),
        })
    }

    /// Stages the bytes of a buffer.
    pub fn stage_buffer(
        &mut self,
        dest: &KArc<UdDest<A>>,
        buffer: Buffer,
        options: SendOptions,
        cookie: T,
    ) -> Result<(), Refused<T>> {
        match self.vacancy() {
            Some(vacancy) => vacancy.stage_buffer(dest, buffer, options, cookie),
            None => Err(Refused { payload: Payload::Buffer(buffer), cookie, why: Status::CHAN_FULL }),
        }
    }

    /// Stages a packet from where it is, without its first `skip` bytes, which are in its first block (as is the header
    /// of a large send). Needs an adapter that [maps memory](crate::HcaAttributes::maps_memory).
    pub fn stage_packet(
        &mut self,
        dest: &KArc<UdDest<A>>,
        packet: Mblk,
        skip: u32,
        options: SendOptions,
        cookie: T,
    ) -> Result<(), Refused<T>> {
        let refuse = |packet, cookie, why| Err(Refused { payload: Payload::Packet(packet), cookie, why });
        if !dest.is_in(self.channel.pd()) {
            return refuse(packet, cookie, Status::INVALID_PARAM);
        }
        if self.room() == 0 || self.batch_is_full() {
            return refuse(packet, cookie, Status::CHAN_FULL);
        }
        match self.map(dest, &packet, skip, options) {
            Ok(mapping) => {
                self.must_signal = true;
                let payload = Payload::Packet(packet);
                self.push(InFlight { mapping: Some(mapping), payload, cookie }, dest)
            }
            Err(why) => refuse(packet, cookie, why),
        }
    }

    /// Posts what is staged, in one call (`ibt_post_send`) unless one is refused; how many. A send whose own request makes no sense to
    /// the adapter is given to `refused`, with its place among those that were staged, and those behind it are posted. Anything else
    /// that the adapter says is a failure: that send and all behind it are given to `refused`, in order, and none of them is in the
    /// queue any more.
    #[inline(always)]
    pub fn post(&mut self, refused: impl FnMut(usize, Refused<T>)) -> Result<u32, PostFailure> {
        let count = self.staged as usize;
        if count == 0 {
            return Ok(0);
        }
        self.staged = 0;
        self.sign(count);
        match self.post_from(0, count) {
            (posted, Ok(())) => Ok(posted),
            (posted, Err(why)) => self.go_on(posted, count, why, refused),
        }
    }

    /// The adapter has taken so many, and not the next one.
    #[inline(never)]
    fn go_on(
        &mut self,
        posted: u32,
        count: usize,
        mut why: Status,
        mut refused: impl FnMut(usize, Refused<T>),
    ) -> Result<u32, PostFailure> {
        let (mut next, mut total) = (posted as usize, posted);
        while next < count {
            if !why.is_of_one_request() {
                self.take_back(next, count, why, &mut refused);
                return Err(PostFailure { why, posted: total });
            }
            self.take_out(next, count, why, &mut refused);
            next += 1;
            if next == count {
                break;
            }
            let (posted, result) = self.post_from(next, count);
            (next, total) = (next + posted as usize, total + posted);
            match result {
                Ok(()) => break,
                Err(again) => why = again,
            }
        }
        Ok(total)
    }

    /// Has the last of so many staged sends signalled, if it is time for one.
    fn sign(&mut self, count: usize) {
        self.unsignalled += count as u32;
        if self.unsignalled >= self.signal_every || self.must_signal {
            if let Some(last) = self.requests.get_mut(count - 1) {
                last.wr_flags |= sys::IBT_WR_SEND_SIGNAL;
            }
            self.unsignalled = 0;
            self.must_signal = false;
            self.expected += 1;
        }
    }

    /// The last staged send was not taken, and no signal went with it: it goes with the next batch.
    fn unsign(&mut self) {
        self.expected -= u32::from(self.unsignalled == 0);
        self.unsignalled = self.signal_every;
    }

    /// Posts the staged sends from one place on; how many were taken.
    #[inline]
    fn post_from(&mut self, first: usize, count: usize) -> (u32, Result<(), Status>) {
        let Some(rest) = self.requests.get_mut(first..count) else { return (0, Ok(())) };
        let mut posted = 0;
        // SAFETY: requests and elements are copied by the call; what they point at is kept by the ring until it
        // completes, or until the channel is freed.
        let result = unsafe {
            sys::ibt_post_send(self.channel.handle(), rest.as_mut_ptr(), rest.len() as u32, &mut posted)
        };
        match Status::check(result) {
            Ok(()) => (rest.len() as u32, Ok(())),
            why => (posted.min(rest.len() as u32), why),
        }
    }

    /// Takes the staged send at `place`, which the adapter has refused, out of the queue; those behind it get the numbers before theirs.
    #[inline(never)]
    fn take_out(
        &mut self,
        place: usize,
        count: usize,
        why: Status,
        refused: &mut impl FnMut(usize, Refused<T>),
    ) {
        let Some((request, behind)) =
            self.requests.get_mut(place..count).and_then(|requests| requests.split_first_mut())
        else {
            return;
        };
        let number = request.wr_id as u32;
        for (n, request) in behind.iter_mut().enumerate() {
            request.wr_id = self.id.work_request(number.wrapping_add(n as u32));
        }
        let (pieces, is_last) = (request.wr_nds as usize, behind.is_empty());
        let taken = self.ring.as_mut().and_then(|ring| ring.remove(number));
        if let Some(InFlight { mapping, payload, cookie }) = taken {
            if mapping.is_some() && why == Status::CHAN_SGL_LEN_INVALID {
                // The same packet would be refused again: one of as many pieces is copied from now on.
                self.most = self.most.min(pieces.saturating_sub(1));
            }
            drop(mapping);
            refused(place, Refused { payload, cookie, why });
        }
        if is_last {
            self.unsign();
        }
    }

    /// Takes all staged sends from one place on out of the queue.
    #[inline(never)]
    fn take_back(
        &mut self,
        first: usize,
        count: usize,
        why: Status,
        refused: &mut impl FnMut(usize, Refused<T>),
    ) {
        self.unsign();
        let Some(ring) = &mut self.ring else { return };
        let mut place = first;
        ring.take_back((count - first) as u32, |InFlight { mapping, payload, cookie }| {
            drop(mapping);
            refused(place, Refused { payload, cookie, why });
            place += 1;
        });
    }

    /// Takes a completion of this queue: everything up to and including the send it names is over, and to be [taken](Self::next_over).
    /// `None` if it names no send of this queue.
    pub fn complete(&mut self, completion: Completion<'_>) -> Option<Over> {
        if completion.queue() != self.id {
            return None;
        }
        let ring = self.ring.as_ref()?;
        let last = completion.number();
        // Staged sends are in the ring but not with the adapter.
        if !ring.is_among(last, ring.len().saturating_sub(self.staged)) {
            return None;
        }
        // One in error counts too, signalled or not.
        self.expected = self.expected.saturating_sub(1);
        self.completed = self.completed.wrapping_add(1);
        Some(Over { last, status: completion.status(), finished: false })
    }

    /// The next send that is over, in order. What is not taken is over with the next completion.
    #[inline(always)]
    pub fn next_over(&mut self, over: &mut Over) -> Option<Sent<T>> {
        if over.finished {
            return None;
        }
        let (number, InFlight { mapping, payload, cookie }) = self.ring.as_mut()?.pop()?;
        drop(mapping);
        over.finished = number == over.last;
        let status = if over.finished { over.status } else { CompletionStatus::SUCCESS };
        Some(Sent { payload, cookie, status })
    }

    /// The address handle stays as long as the send.
    fn push(&mut self, send: InFlight<T>, dest: &KArc<UdDest<A>>) -> Result<(), Refused<T>> {
        match self.vacancy() {
            Some(vacancy) => vacancy.push(send, dest),
            None => Err(send.refused(Status::CHAN_FULL)),
        }
    }

    /// Binds the packet's memory and describes it in the next request.
    fn map(
        &mut self,
        dest: &KArc<UdDest<A>>,
        packet: &Mblk,
        skip: u32,
        options: SendOptions,
    ) -> Result<Mapping, Status> {
        let header_len = options.large.map_or(0, |large| large.header_len);
        let header = packet
            .first()
            .get(skip as usize..)
            .filter(|rest| rest.len() >= header_len as usize)
            .ok_or(Status::CHAN_SGL_LEN_INVALID)?
            .as_ptr();
        let most = self.most.saturating_sub(elements_of_header(header_len));
        let pieces = list_pieces(&mut self.pieces, packet, skip as usize + header_len as usize, most)?;
        let mut attributes = sys::ibt_iov_attr_t {
            iov_as: ptr::null_mut(),
            iov: self.pieces.as_mut_ptr(),
            iov_buf: ptr::null_mut(),
            iov_list_len: pieces,
            iov_wr_nds: self.most as u32,
            iov_lso_hdr_sz: header_len,
            iov_alt_lkey: 0,
            iov_flags: sys::IBT_IOV_NOSLEEP,
        };
        let mut request = sys::ibt_send_wr_t::default();
        let number = self.ring.as_ref().map_or(0, |ring| ring.next_number());
        let id = self.id.work_request(number);
        describe(&mut request, id, dest.handle(), options, header.cast_mut());
        let elements = self.elements.get_mut(self.staged as usize * self.sgl..).ok_or(Status::CHAN_FULL)?;
        let elements = elements.as_mut_ptr();
        request.wr_sgl = elements;
        let mut either = sys::ibt_all_wr_t { send: request };
        let hca = self.channel.pd().hca().handle();
        let mut mapped = ptr::null_mut();
        // SAFETY: the pieces are the packet's, which stays until it is unmapped; there are `sgl` elements from
        // `wr_sgl` on.
        Status::check(unsafe { sys::ibt_map_mem_iov(hca, &mut attributes, &mut either, &mut mapped) })?;
        // SAFETY: without RECV the call fills in the member that was set.
        let request = sys::ibt_send_wr_t { wr_sgl: elements, ..unsafe { either.send } };
        if let Some(place) = self.requests.get_mut(self.staged as usize) {
            *place = request;
        }
        Ok(Mapping { hca, mapped })
    }
}

impl<T: Send + Sync + 'static, A: Send + Sync + 'static> Drop for SendQueue<T, A> {
    fn drop(&mut self) {
        match self.ring.take() {
            // The adapter has nothing of it.
            Some(ring) if ring.len() == self.staged => self.channel.keep_nothing(),
            Some(ring) => self.channel.keep_until_freed(ring.map_unsized(|ring| ring as _)),
            None => {}
        }
    }
}

/// Makes `request` a send to `dest` whose header, if the adapter needs it apart, is at `header`. Where its pieces are is left to say.
#[inline]
fn describe(
    request: &mut sys::ibt_send_wr_t,
    id: u64,
    dest: sys::ibt_ud_dest_hdl_t,
    options: SendOptions,
    header: *mut u8,
) {
    let mut flags = sys::IBT_WR_NO_FLAGS;
    if options.checksum {
        flags |= sys::IBT_WR_SEND_CKSUM;
    }
    if options.solicited {
        flags |= sys::IBT_WR_SEND_SOLICIT;
    }
    request.wr_id = id;
    request.wr_flags = flags;
    request.wr_trans = sys::IBT_UD_SRV;
    match options.large {
        None => {
            request.wr_opcode = sys::IBT_WRC_SEND;
            request.wr.ud = sys::ibt_wr_ud_t { udwr_immed: 0, udwr_dest: dest };
        }
        Some(LargeSend { header_len, mss }) => {
            request.wr_opcode = sys::IBT_WRC_SEND_LSO;
            request.wr.ud_lso = sys::ibt_wr_lso_t {
                lso_ud_dest: dest,
                lso_hdr: header,
                lso_hdr_sz: header_len,
                lso_mss: mss,
            };
        }
    }
}

/// Elements of a request that the header of a large send takes, with the four bytes of its length: an adapter's driver takes them off the
/// list when it maps a packet.
fn elements_of_header(len: u32) -> usize {
    if len == 0 { 0 } else { (len as usize + 4).div_ceil(size_of::<sys::ibt_wr_ds_t>()) }
}

/// Lists the packet's bytes from `skip` on; how many pieces. `SGL_TOO_SMALL` if they lie in more than `most` pages: each may be a piece
/// for the adapter, and `hermon` loses memory when it finds that out itself (`hermon_ci_map_mem_iov`).
fn list_pieces(
    pieces: &mut [sys::ibt_iov_t],
    packet: &Mblk,
    skip: usize,
    most: usize,
) -> Result<u32, Status> {
    let (mut skip, mut count, mut pages) = (skip, 0, 0);
    for block in packet.blocks() {
        let rest = block.get(skip..).unwrap_or_default();
        skip = skip.saturating_sub(block.len());
        if rest.is_empty() {
            continue;
        }
        pages += (rest.as_ptr().addr() % PAGE + rest.len()).div_ceil(PAGE);
        let piece = pieces.get_mut(count).filter(|_| pages <= most).ok_or(Status::SGL_TOO_SMALL)?;
        *piece = sys::ibt_iov_t { iov_addr: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() };
        count += 1;
    }
    if count == 0 { Err(Status::CHAN_SGL_LEN_INVALID) } else { Ok(count as u32) }
}

/// A packet's memory, bound for DMA.
struct Mapping {
    /// Of the channel, which outlives every mapping.
    hca: sys::ibt_hca_hdl_t,
    mapped: sys::ibt_mi_hdl_t,
}

// SAFETY: the handles are used by IBTF, from any thread.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped once, unmapped once, after the send completed or before it was posted.
        let _ = unsafe { sys::ibt_unmap_mem_iov(self.hca, self.mapped) };
    }
}
