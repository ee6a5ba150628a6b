//! Memory that adapters have: that of work requests whose completions nobody has polled yet (rule 53).
//!
//! An adapter may read or write it at any time from the post on, whatever this one does, and whoever posted it knows that it is done
//! from the completion alone, or when the channel has been freed or recycled. Until then nobody may post a receive into it, write to it
//! if it is being sent, free it, or take its registration away. The same memory may be read by several sends at once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use fabric::{Qpn, Sge};
use fakekernel::race::Moment;
use fakekernel::{Cx, HostMutex, Kernel, Rule};
use slab::Slab;

use super::Ibtl;
use super::objects::Channel;
use crate::dma;

/// Which way a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    Send,
    Receive,
}

/// A request that is about to be posted.
pub(crate) struct Posting<'a> {
    pub way: Way,
    /// Its identifier in the completion.
    pub id: u64,
    pub pieces: &'a [Sge],
}

/// What the adapters of one host have.
#[derive(Default)]
pub(crate) struct Posted(HostMutex<Books>);

#[derive(Default)]
struct Books {
    /// A request's number is its place here and one.
    requests: Slab<Request>,
    /// By length ([`SHORT`]), first byte and number of the request: the byte behind the last.
    pieces: [BTreeMap<(u64, u64), u64>; SHORT.len() + 1],
    /// The longest piece there has been.
    longest: u64,
    queues: BTreeMap<QueueKey, Queue>,
}

/// Pieces no longer than this are looked for so far before an address; those that are longer than all these, as far as the longest.
const SHORT: [u64; 3] = [256, 4_096, 65_536];

/// Return addresses that are kept of a post.
const FRAMES: usize = 3;

/// Handles of CQ and channel.
type QueueKey = (usize, usize, Way);

struct Queue {
    qpn: Qpn,
    /// Numbers of requests in the order posted, which is the order of their completions.
    requests: VecDeque<u64>,
}

#[derive(Clone)]
struct Request {
    way: Way,
    id: u64,
    qpn: Qpn,
    pieces: Vec<Sge>,
    /// Of a send: what its memory held when it was posted.
    digest: Option<u64>,
    module: &'static str,
    thread: Arc<str>,
    /// Where in the module, the innermost first; 0 beyond the outermost.
    pcs: [usize; FRAMES],
    /// The post, which the completion comes after (rule 54).
    posted: Moment,
}

impl Posted {
    /// A request is about to be posted to a channel; its number, for [`withdraw`](Self::withdraw). Breaks rule 53 if its memory is that of
    /// another one. 0 in a machine without checks, which keeps no books.
    pub(crate) fn post(&self, cx: &Cx, channel: &Channel, posting: &Posting<'_>) -> u64 {
        if !cx.checks() {
            return 0;
        }
        let request = Request::new(cx, channel.qp.num(), posting);
        for piece in &request.pieces {
            let others = self.0.lock().in_range(piece.va, piece.va.saturating_add(piece.len.into()));
            others.iter().for_each(|other| check_pair(cx, &request, piece, other));
        }
        self.0.lock().add(queue_of(channel, posting.way), request)
    }

    /// The adapter has refused it.
    pub(crate) fn withdraw(&self, number: u64) {
        if number != 0 {
            self.0.lock().withdraw(number);
        }
    }

    /// Somebody has polled a completion off a CQ; `from` is the queue pair and the way, where the adapter says so. Breaks rule 53 if the
    /// memory of a send is not as it was.
    pub(crate) fn polled(&self, cx: &Cx, cq: usize, id: u64, from: Option<(Qpn, Way)>) {
        if !cx.checks() {
            return;
        }
        let done = self.0.lock().complete(cq, id, from);
        for request in &done {
            request.posted.is_over();
            check_unchanged(cx, request, "when its completion was polled");
        }
    }

    /// The queues of a channel are empty now: it was freed or recycled.
    pub(crate) fn given_back(&self, channel: &Channel) {
        let mut books = self.0.lock();
        for way in [Way::Send, Way::Receive] {
            books.forget(queue_of(channel, way)).iter().for_each(|request| request.posted.is_over());
        }
    }

    /// A request that has memory from `start` on, before `end`, by a key that `by` accepts.
    fn holder(&self, start: u64, end: u64, by: impl Fn(u32) -> bool) -> Option<Request> {
        let requests = self.0.lock().in_range(start, end);
        let has = |piece: &Sge| piece.va < end && start < piece.end() && by(piece.lkey);
        requests.into_iter().find(|request| request.pieces.iter().any(has))
    }

    /// Memory loses the registration with this key.
    pub(crate) fn unregistered(&self, cx: &Cx, start: u64, len: u64, key: u32) {
        if let Some(request) = self.holder(start, start.saturating_add(len), |own| own == key) {
            let who = request.describe(cx.kernel());
            cx.check(false, Rule::PostedMemory, || {
                format!("{len} bytes at {start:#x} lose their key: {who} has some of them")
            });
        }
    }
}

/// What adapters have of the memory, in words; see [`Kernel::set_lent`].
pub(super) fn lent(kernel: &Kernel, start: usize, len: usize) -> Option<String> {
    let (start, len) = (start as u64, len as u64);
    let request = Ibtl::of(kernel).posted.holder(start, start.saturating_add(len), |_| true)?;
    Some(format!("{} has some of them", request.describe(kernel)))
}

fn queue_of(channel: &Channel, way: Way) -> QueueKey {
    let cq = match way {
        Way::Send => channel.scq,
        Way::Receive => channel.rcq,
    };
    (cq.get().addr(), channel.handle.get::<u8>().addr(), way)
}

/// Two sends may read the same memory, as long as nobody writes to it.
fn check_pair(cx: &Cx, new: &Request, piece: &Sge, old: &Request) {
    if (new.way, old.way) == (Way::Send, Way::Send) {
        let what = format!("when {} of queue pair {} was posted from some of it", new.name(), new.qpn.get());
        return check_unchanged(cx, old, &what);
    }
    let (new, old) = (new.name(), old.describe(cx.kernel()));
    cx.check(false, Rule::PostedMemory, || {
        format!("{new} is posted with {} bytes at {:#x}, of which {old} has some", piece.len, piece.va)
    });
}

fn check_unchanged(cx: &Cx, request: &Request, when: &str) {
    if request.way == Way::Send && request.digest != digest(cx.kernel(), &request.pieces) {
        let who = request.describe(cx.kernel());
        cx.check(false, Rule::PostedMemory, || {
            format!("the memory of {who}, was not what it had been at the post, {when}")
        });
    }
}

fn digest(kernel: &Kernel, pieces: &[Sge]) -> Option<u64> {
    pieces.iter().try_fold(0u64, |sum, piece| {
        let part = dma::digest(kernel, piece.va, piece.len.into())?;
        Some(sum.rotate_left(7) ^ part)
    })
}

impl Request {
    fn new(cx: &Cx, qpn: Qpn, posting: &Posting<'_>) -> Self {
        let pieces: Vec<Sge> = posting.pieces.iter().filter(|piece| piece.len > 0).copied().collect();
        for piece in &pieces {
            cx.gives_to_adapter(piece.va as usize, piece.len as usize, posting.way == Way::Receive);
        }
        Self {
            way: posting.way,
            id: posting.id,
            qpn,
            digest: (posting.way == Way::Send).then(|| digest(cx.kernel(), &pieces)).flatten(),
            pieces,
            module: cx.module_name(),
            thread: cx.thread().shared_name(),
            pcs: cx.innermost_pcs(),
            posted: Moment::now(),
        }
    }

    fn name(&self) -> String {
        let what = match self.way {
            Way::Send => "send",
            Way::Receive => "receive",
        };
        format!("{what} {:#x}", self.id)
    }

    /// With who posted it, where.
    fn describe(&self, kernel: &Kernel) -> String {
        let frame = |pc: &usize| kernel.module_at(*pc).map(|module| module.frame(*pc).to_string());
        let frames: Vec<String> = self.pcs.iter().filter_map(frame).collect();
        let (name, qpn, frames) = (self.name(), self.qpn.get(), frames.join(" < "));
        format!("{name} of queue pair {qpn}, posted by {} on {} ({frames})", self.module, self.thread)
    }
}

/// Which of the maps a piece is in.
fn of_length(piece: &Sge) -> usize {
    SHORT.iter().position(|most| u64::from(piece.len) <= *most).unwrap_or(SHORT.len())
}

/// Where the request with this number is.
fn place(number: u64) -> Option<usize> {
    (number as usize).checked_sub(1)
}

impl Books {
    fn add(&mut self, queue: QueueKey, request: Request) -> u64 {
        let number = self.requests.vacant_key() as u64 + 1;
        for piece in &request.pieces {
            self.longest = self.longest.max(piece.len.into());
            self.pieces[of_length(piece)].insert((piece.va, number), piece.end());
        }
        let qpn = request.qpn;
        let queue = self.queues.entry(queue).or_insert_with(|| Queue { qpn, requests: VecDeque::new() });
        queue.requests.push_back(number);
        self.requests.insert(request);
        number
    }

    /// Those that have some of the memory from `start` on, before `end`, in the order posted.
    fn in_range(&self, start: u64, end: u64) -> Vec<Request> {
        let mut numbers = Vec::new();
        for (sort, pieces) in self.pieces.iter().enumerate().filter(|(_, pieces)| !pieces.is_empty()) {
            let first = start.saturating_sub(SHORT.get(sort).copied().unwrap_or(self.longest));
            let begun = pieces.range((first, 0)..(end, 0));
            numbers.extend(begun.filter(|(_, behind)| **behind > start).map(|(key, _)| *key));
        }
        numbers.sort_unstable();
        numbers.iter().filter_map(|(_, number)| self.request(*number)).cloned().collect()
    }

    fn request(&self, number: u64) -> Option<&Request> {
        self.requests.get(place(number)?)
    }

    fn remove(&mut self, number: u64) -> Option<Request> {
        let request = self.requests.try_remove(place(number)?)?;
        for piece in &request.pieces {
            self.pieces[of_length(piece)].remove(&(piece.va, number));
        }
        Some(request)
    }

    fn withdraw(&mut self, number: u64) {
        self.remove(number);
        for queue in self.queues.values_mut() {
            queue.requests.retain(|other| *other != number);
        }
    }

    /// The request that has completed, and those before it that said nothing of their own.
    fn complete(&mut self, cq: usize, id: u64, from: Option<(Qpn, Way)>) -> Vec<Request> {
        let queues = self.queues.range_mut((cq, 0, Way::Send)..=(cq, usize::MAX, Way::Receive));
        for ((_, _, way), queue) in queues {
            if from.is_some_and(|from| from != (queue.qpn, *way)) {
                continue;
            }
            let is_this = |number: &u64| {
                let request = place(*number).and_then(|place| self.requests.get(place));
                request.is_some_and(|request| request.id == id)
            };
            let Some(at) = queue.requests.iter().position(is_this) else { continue };
            let done: Vec<u64> = queue.requests.drain(..=at).collect();
            return done.into_iter().filter_map(|number| self.remove(number)).collect();
        }
        Vec::new()
    }

    fn forget(&mut self, queue: QueueKey) -> Vec<Request> {
        let queue = self.queues.remove(&queue);
        let numbers = queue.map(|queue| queue.requests).into_iter().flatten();
        numbers.filter_map(|number| self.remove(number)).collect()
    }
}
