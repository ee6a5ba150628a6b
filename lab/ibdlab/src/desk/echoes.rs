//! Echo requests that somebody outside sends one by one, and their answers as they come.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use fakekernel::{HostMutex, Nanos, WaitQueue};
use lab_ip::apps::{App, Outcome, PAUSE, parse_echo_reply, pattern, send_echo};
use lab_ip::stack::Stack;
use smoltcp::iface::SocketHandle;
use smoltcp::socket::icmp;

/// Requests and answers that the socket holds between two turns of the host.
const PACKETS: usize = 64;
/// Answers that wait to be looked at; more are dropped.
const ANSWERS: usize = 4096;
/// Their bytes, should each be the largest.
const BYTES: usize = PACKETS << 16;

/// A request that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub sequence: u16,
    /// Bytes behind the ICMP header.
    pub size: usize,
}

/// A request that was answered, byte for byte. One to a group is answered by many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Who answered.
    pub from: IpAddr,
    pub request: Request,
    /// From the request's way down to the answer's way up.
    pub after: Duration,
}

/// What the sender and the application share.
pub struct Mailbox {
    mail: HostMutex<Mail>,
    came: WaitQueue,
}

#[derive(Default)]
struct Mail {
    to_send: VecDeque<Request>,
    out: BTreeMap<u16, (Request, Duration)>,
    answers: VecDeque<Answer>,
}

impl Mailbox {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { mail: HostMutex::new(Mail::default()), came: WaitQueue::new("an echo") })
    }

    /// Has a request sent at the application's next turn.
    pub fn post(&self, request: Request) {
        self.mail.lock().to_send.push_back(request);
    }

    /// The next answer; waits for it until then.
    pub fn answer(&self, deadline: Nanos) -> Option<Answer> {
        let mut mail = self.mail.lock();
        loop {
            if let Some(answer) = mail.answers.pop_front() {
                return Some(answer);
            }
            let (guard, in_time) = self.came.wait_until(mail, deadline);
            mail = guard;
            if !in_time {
                return mail.answers.pop_front();
            }
        }
    }
}

/// The application. It has no end of its own: its owner takes it away.
pub struct Echoes {
    source: IpAddr,
    destination: IpAddr,
    /// Of all requests; no other echo of the stack may have it. Not 0.
    ident: u16,
    mailbox: Arc<Mailbox>,
    socket: Option<SocketHandle>,
    wake_at: Option<Duration>,
}

impl Echoes {
    pub fn new(source: IpAddr, destination: IpAddr, ident: u16, mailbox: Arc<Mailbox>) -> Self {
        Self { source, destination, ident, mailbox, socket: None, wake_at: None }
    }

    fn open(&mut self, stack: &mut Stack) -> SocketHandle {
        let buffer = || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; PACKETS], vec![0; BYTES]);
        let mut socket = icmp::Socket::new(buffer(), buffer());
        // A fresh socket with an identifier that is not zero always binds.
        let _ = socket.bind(icmp::Endpoint::Ident(self.ident));
        *self.socket.insert(stack.sockets.add(socket))
    }

    fn send(&mut self, now: Duration, stack: &mut Stack, socket: SocketHandle) {
        let mut mail = self.mailbox.mail.lock();
        while let Some(request) = mail.to_send.front().copied() {
            let data = pattern(request.sequence.into(), request.size);
            let ends = (self.source, self.destination);
            if !send_echo(stack, socket, ends, (self.ident, request.sequence), &data) {
                // The link takes nothing at present.
                self.wake_at = Some(now + PAUSE);
                return;
            }
            mail.to_send.pop_front();
            mail.out.insert(request.sequence, (request, now));
        }
        self.wake_at = None;
    }

    fn receive(&self, now: Duration, socket: &mut icmp::Socket<'_>) {
        let mut mail = self.mailbox.mail.lock();
        while let Ok((bytes, from)) = socket.recv() {
            let from = IpAddr::from(from);
            let Some((sequence, data)) = parse_echo_reply(bytes, self.source, from) else {
                continue;
            };
            let Some((request, sent)) = mail.out.get(&sequence).copied() else { continue };
            if data == pattern(sequence.into(), request.size) && mail.answers.len() < ANSWERS {
                mail.answers.push_back(Answer { from, request, after: now.saturating_sub(sent) });
                self.mailbox.came.wake_all();
            }
        }
    }
}

impl App for Echoes {
    fn run(&mut self, now: Duration, stack: &mut Stack) -> Option<Outcome> {
        let handle = match self.socket {
            Some(handle) => handle,
            None => self.open(stack),
        };
        self.receive(now, stack.sockets.get_mut::<icmp::Socket<'_>>(handle));
        self.send(now, stack, handle);
        None
    }

    fn abandon(&mut self, stack: &mut Stack) {
        if let Some(handle) = self.socket.take() {
            stack.sockets.remove(handle);
        }
    }

    fn wake_at(&self) -> Option<Duration> {
        self.wake_at
    }
}
