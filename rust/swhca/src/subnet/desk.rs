//! The subnet administrator's thread: requests that wait, answers, reports.

use kernel::thread::Parker;
use kernel::time::{Duration, Instant};
use kernel::{AllocError, KBox, KVec, log};

use super::Subnet;
use crate::NAME;
use crate::mad::{self, Mad, Refusal};
use crate::packet::{Header, Payload};
use crate::sa::{PortView, Requester};
use crate::trouble::Does;

/// Requests that can wait. A host with a hundred links asks more at once, and asks again.
pub(super) const INBOX: usize = 256;

/// Requests to the SA that wait: as many as there is room for, and no more.
pub(crate) struct Inbox {
    requests: KVec<Request>,
    /// Something else is to be done: notices.
    poked: bool,
}

pub(super) struct Request {
    mad: Mad,
    from: Requester,
    due: Instant,
    /// What becomes of it.
    does: Does,
}

impl Request {
    const NONE: Self = Self {
        mad: Mad::new(),
        from: Requester { lid: 0, qpn: 0 },
        due: Instant::from_nanos(0),
        does: Does::Usual,
    };
}

impl Inbox {
    /// With room for those requests.
    pub(super) fn new(requests: KVec<Request>) -> Self {
        Self { requests, poked: false }
    }

    /// There is something to do though nobody asks.
    pub(super) fn poke(&mut self) {
        self.poked = true;
    }

    /// Leaves a request; false if too many wait. One is not overtaken by the next one of its port: an SA that is slow does one thing after
    /// the other, and a join after a leave.
    fn leave(&mut self, mut request: Request) -> bool {
        let before = self.requests.iter().filter(|other| other.from.lid == request.from.lid);
        if let Some(last) = before.map(|other| other.due).max().filter(|last| *last >= request.due) {
            request.due = Instant::from_nanos(last.as_nanos() + 1);
        }
        self.requests.push_within_capacity(request).is_ok()
    }

    /// Moves a request out; false if there is no such one.
    fn take(&mut self, index: usize, to: &mut Request) -> bool {
        let last = self.requests.len().saturating_sub(1);
        if index > last || self.requests.is_empty() {
            return false;
        }
        self.requests.swap(index, last);
        if let Some(request) = self.requests.last_mut() {
            core::mem::swap(request, to);
        }
        drop_last(&mut self.requests);
        true
    }
}

#[inline(never)]
fn drop_last(requests: &mut KVec<Request>) {
    requests.pop();
}

/// What the SA works on.
struct Desk {
    request: Request,
    answer: Mad,
    /// All ports as they were at the last request; its memory stays.
    views: KVec<PortView>,
}

impl Subnet {
    /// Leaves a request with the SA, and what becomes of it after so many milliseconds; false if too many wait. **Any** context.
    pub(crate) fn ask(&self, mad: &Mad, header: &Header, (does, delay): (Does, u32)) -> bool {
        let from = Requester { lid: header.source_lid, qpn: header.source_qpn };
        let due = Instant::now() + Duration::from_millis(u64::from(delay));
        let taken = self.inbox.lock().leave(Request { mad: *mad, from, due, does });
        self.inbox.notify_one();
        taken
    }

    /// The SA's thread.
    pub(super) fn run(&self, parker: &Parker<'_, Inbox>) {
        // Not on the stack, which is for calls.
        let desk = Desk { request: Request::NONE, answer: Mad::new(), views: KVec::new() };
        let Ok(mut desk) = KBox::new(desk) else {
            log!(warn, NAME, "no memory for the subnet administrator");
            return;
        };
        // When something is to be done though nobody asks.
        let mut alarm = None;
        let mut inbox = parker.lock();
        while !parker.should_stop() {
            let now = Instant::now();
            let first = inbox.requests.iter().enumerate().min_by_key(|(_, request)| request.due);
            let first = first.map(|(index, request)| (index, request.due));
            let poked = core::mem::take(&mut inbox.poked);
            let due = first.filter(|(_, due)| *due <= now).map(|(index, _)| index);
            if due.is_some_and(|index| inbox.take(index, &mut desk.request)) {
                drop(inbox);
                alarm = self.answer(&mut desk);
                inbox = parker.lock();
            } else if poked || alarm.is_some_and(|alarm| alarm <= now) {
                drop(inbox);
                alarm = self.report(&mut desk.answer);
                inbox = parker.lock();
            } else {
                parker.wait_until(&mut inbox, first.map(|(_, due)| due).into_iter().chain(alarm).min());
            }
        }
    }

    /// All ports as they are now.
    fn view(&self, views: &mut KVec<PortView>) -> Result<(), AllocError> {
        let ports = self.ports.lock();
        views.clear();
        views.reserve(ports.len())?;
        for view in ports.iter().filter_map(|place| place.node.view(place.number)) {
            views.push(view)?;
        }
        Ok(())
    }

    /// Answers, or does not for want of memory, and says when it has to go on.
    fn answer(&self, desk: &mut Desk) -> Option<Instant> {
        let Desk { request, answer, views } = desk;
        let now = Instant::now().as_nanos();
        let mad = &request.mad;
        let answered = match request.does {
            Does::Refuses(status) => answer.begin_refusal(mad, Refusal(status)),
            Does::Empty if mad.method() != mad::DELETE => answer.begin_empty(mad),
            _ => {
                let mut administrator = self.administrator.lock();
                // Inside its lock: a port that goes after this has what it is given here taken away.
                let seen = self.view(views).is_ok();
                seen && administrator.answer(mad, request.from, views, now, answer) || !seen && busy()
            }
        };
        if let Some(group) = request.mad.group() {
            self.forward_anew(Some(group));
        }
        if answered && request.does != Does::LosesAnswer {
            self.send(request.from, answer);
        }
        self.report(answer)
    }

    /// Tells subscribers what has happened, and goes on with what takes more than one segment: one by one, without the lock. Says when
    /// it has to go on.
    fn report(&self, mad: &mut Mad) -> Option<Instant> {
        loop {
            let mut administrator = self.administrator.lock();
            let now = Instant::now().as_nanos();
            let to = administrator.next_report(mad).or_else(|| administrator.next_segment(now, mad));
            let Some(to) = to else { return administrator.next_due().map(Instant::from_nanos) };
            drop(administrator);
            self.send(to, mad);
        }
    }

    /// From the SA to a queue pair.
    fn send(&self, to: Requester, mad: &Mad) {
        let ports = self.ports.lock();
        let place = ports.iter().find(|place| place.lid == to.lid);
        let Some((node, number)) = place.map(|place| (place.node.clone(), place.number)) else { return };
        drop(ports);
        let Some(port) = node.port(number) else { return };
        let header = Header {
            source_lid: port.manager,
            source_qpn: 1,
            pkey: 0xffff,
            qkey: mad::QKEY,
            sl: 0,
            grh: None,
            immediate: None,
            solicited: false,
            checksums: false,
            len: mad::LEN as u32,
        };
        self.unicast(to.lid, to.qpn, &header, &Payload::Bytes(&mad.0));
    }
}

/// As a busy SA does not answer: the client asks again.
fn busy() -> bool {
    log!(warn, NAME, "no memory to answer a request to the SA");
    false
}

#[cfg(test)]
mod tests {
    use kernel::KVec;
    use kernel::time::Instant;

    use super::{Inbox, Request};
    use crate::sa::Requester;

    #[test]
    fn request_that_is_answered_late_is_not_overtaken_by_the_next_one_of_its_port() {
        let mut inbox = Inbox::new(KVec::with_capacity(8).unwrap());
        let at = |lid, due| Request {
            from: Requester { lid, qpn: 2 },
            due: Instant::from_nanos(due),
            ..Request::NONE
        };
        for (lid, due) in [(1, 1_000), (1, 200), (2, 300), (1, 1_500), (1, 400)] {
            assert!(inbox.leave(at(lid, due)));
        }
        let dues: Vec<_> = inbox.requests.iter().map(|request| request.due.as_nanos()).collect();
        assert_eq!(dues, [1_000, 1_001, 300, 1_500, 1_501]);
    }
}
