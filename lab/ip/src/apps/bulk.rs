//! TCP in the background: bursts for as long as it is let, whatever becomes of the connections.

use std::net::IpAddr;
use std::time::Duration;

use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp;
use smoltcp::wire::IpAddress;

use super::{App, Outcome, PAUSE};
use crate::stack::Stack;

const BUFFER: usize = 64 * 1024;
/// As much as one large send can carry, more or less.
const BURST: usize = 48 * 1024;
const INTERVAL: Duration = Duration::from_millis(5);
/// A connection on which nothing comes for so long is given up: its peer may be another one by now.
const IDLE: Duration = Duration::from_millis(30);
/// Where the sender's ports begin.
const LOCAL_PORT: u16 = 49_152;

fn socket() -> tcp::Socket<'static> {
    let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER]);
    tcp::Socket::new(buffer(), buffer())
}

/// Sends bursts to a [`Sink`].
pub struct Bulk {
    destination: (IpAddr, u16),
    /// Connections so far.
    connections: u16,
    socket: Option<SocketHandle>,
    /// When to send again, or to connect; `None`: once the connection can.
    next: Option<Duration>,
}

impl Bulk {
    /// To this address and port.
    pub fn new(destination: (IpAddr, u16)) -> Self {
        Self { destination, connections: 0, socket: None, next: Some(Duration::ZERO) }
    }

    fn connect(&mut self, now: Duration, stack: &mut Stack) {
        let mut fresh = socket();
        fresh.set_timeout(Some(smoltcp::time::Duration::from_millis(50)));
        let handle = stack.sockets.add(fresh);
        let port = LOCAL_PORT + self.connections % (u16::MAX - LOCAL_PORT);
        self.connections = self.connections.wrapping_add(1);
        let (ip, to) = self.destination;
        let (iface, sockets) = stack.parts();
        let connected = sockets.get_mut::<tcp::Socket<'_>>(handle).connect(
            iface.context(),
            (IpAddress::from(ip), to),
            port,
        );
        if connected.is_ok() {
            (self.socket, self.next) = (Some(handle), None);
        } else {
            // No address to connect from at present.
            stack.sockets.remove(handle);
            self.next = Some(now + PAUSE);
        }
    }
}

impl App for Bulk {
    fn run(&mut self, now: Duration, stack: &mut Stack) -> Option<Outcome> {
        let due = self.next.is_none_or(|next| now >= next);
        let Some(handle) = self.socket else {
            if due {
                self.connect(now, stack);
            }
            return None;
        };
        let socket = stack.sockets.get_mut::<tcp::Socket<'_>>(handle);
        if !socket.is_open() {
            stack.sockets.remove(handle);
            (self.socket, self.next) = (None, Some(now + PAUSE));
        } else if due && socket.can_send() {
            // As much as there is room for.
            let _ = socket.send_slice(&[0x5a; BURST]);
            self.next = Some(now + INTERVAL);
        } else if due {
            self.next = None;
        }
        None
    }

    fn abandon(&mut self, stack: &mut Stack) {
        if let Some(handle) = self.socket.take() {
            stack.sockets.remove(handle);
        }
    }

    fn wake_at(&self) -> Option<Duration> {
        self.next
    }
}

/// Takes what a [`Bulk`] sends: one connection after the other.
pub struct Sink {
    port: u16,
    socket: Option<SocketHandle>,
    /// When something came last over the connection there is.
    heard: Option<Duration>,
}

impl Sink {
    /// Listens on this port.
    pub fn new(port: u16) -> Self {
        Self { port, socket: None, heard: None }
    }
}

impl App for Sink {
    fn run(&mut self, now: Duration, stack: &mut Stack) -> Option<Outcome> {
        let Some(handle) = self.socket else {
            let mut listening = socket();
            // A fresh socket and a port that is not zero: the two things that can be refused.
            let _ = listening.listen(self.port);
            self.socket = Some(stack.sockets.add(listening));
            return None;
        };
        let socket = stack.sockets.get_mut::<tcp::Socket<'_>>(handle);
        while socket.can_recv() {
            let taken = socket.recv(|bytes| (bytes.len(), bytes.len()));
            if taken.is_err() {
                break;
            }
            self.heard = Some(now);
        }
        let listens = socket.state() == tcp::State::Listen;
        let over = !socket.is_open() || socket.state() == tcp::State::CloseWait;
        if listens {
            // Also after a connection that was given up before it was one.
            self.heard = None;
            return None;
        }
        let heard = *self.heard.get_or_insert(now);
        if over || now >= heard + IDLE {
            stack.sockets.remove(handle);
            (self.socket, self.heard) = (None, None);
            // For the next one.
            return self.run(now, stack);
        }
        None
    }

    fn abandon(&mut self, stack: &mut Stack) {
        if let Some(handle) = self.socket.take() {
            stack.sockets.remove(handle);
        }
    }

    fn wake_at(&self) -> Option<Duration> {
        Some(self.heard? + IDLE)
    }
}
