//! One TCP transfer, hashed at both ends.

use std::net::IpAddr;
use std::time::Duration;

use sha2::{Digest, Sha256};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp;
use smoltcp::wire::IpAddress;

use super::{App, Outcome};
use crate::stack::Stack;

const TCP_BUFFER: usize = 256 * 1024;

/// Connects, sends `total` bytes of a pattern, closes.
pub struct TcpSend {
    destination: (IpAddr, u16),
    local_port: u16,
    total: u64,
    sent: u64,
    hash: Sha256,
    state: TcpState,
}

/// Accepts one connection and reads it to its end.
pub struct TcpReceive {
    port: u16,
    received: u64,
    hash: Sha256,
    state: TcpState,
}

#[derive(Clone, Copy)]
enum TcpState {
    New,
    Open(SocketHandle),
}

impl TcpState {
    fn abandon(self, stack: &mut Stack) {
        if let Self::Open(handle) = self {
            stack.sockets.remove(handle);
        }
    }
}

impl TcpSend {
    /// `total` bytes to this address and port.
    pub fn new(destination: (IpAddr, u16), local_port: u16, total: u64) -> Self {
        Self { destination, local_port, total, sent: 0, hash: Sha256::new(), state: TcpState::New }
    }

    fn connect(&mut self, stack: &mut Stack) -> Result<(), String> {
        let socket = tcp_socket();
        let handle = stack.sockets.add(socket);
        let (iface, sockets) = stack.parts();
        let socket = sockets.get_mut::<tcp::Socket<'_>>(handle);
        let (ip, port) = self.destination;
        socket
            .connect(iface.context(), (IpAddress::from(ip), port), self.local_port)
            .map_err(|error| format!("connect to {ip} port {port}: {error}"))?;
        self.state = TcpState::Open(handle);
        Ok(())
    }
}

impl App for TcpSend {
    fn run(&mut self, _now: Duration, stack: &mut Stack) -> Option<Outcome> {
        let TcpState::Open(handle) = self.state else {
            return self.connect(stack).err().map(Outcome::Failed);
        };
        let socket = stack.sockets.get_mut::<tcp::Socket<'_>>(handle);
        while self.sent < self.total && socket.can_send() {
            let (sent, left) = (self.sent, self.total - self.sent);
            let wrote = socket.send(|buffer| {
                let len = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                fill(&mut buffer[..len], sent);
                self.hash.update(&buffer[..len]);
                (len, len)
            });
            self.sent += wrote.unwrap_or(0) as u64;
        }
        if self.sent == self.total && socket.may_send() {
            socket.close();
        }
        if socket.is_open() && !matches!(socket.state(), tcp::State::TimeWait) {
            return None;
        }
        let finished = self.sent == self.total;
        stack.sockets.remove(handle);
        Some(if finished {
            Outcome::Tcp { bytes: self.sent, sha256: hex(self.hash.clone().finalize().as_slice()) }
        } else {
            Outcome::Failed(format!("connection lost after {} of {} bytes", self.sent, self.total))
        })
    }

    fn abandon(&mut self, stack: &mut Stack) {
        self.state.abandon(stack);
    }

    fn wake_at(&self) -> Option<Duration> {
        None
    }
}

impl TcpReceive {
    /// Listens on this port.
    pub fn new(port: u16) -> Self {
        Self { port, received: 0, hash: Sha256::new(), state: TcpState::New }
    }

    fn listen(&mut self, stack: &mut Stack) {
        let mut socket = tcp_socket();
        // A fresh socket and a non-zero port: the two things listen() can refuse.
        let _ = socket.listen(self.port);
        self.state = TcpState::Open(stack.sockets.add(socket));
    }
}

impl App for TcpReceive {
    fn run(&mut self, _now: Duration, stack: &mut Stack) -> Option<Outcome> {
        let TcpState::Open(handle) = self.state else {
            self.listen(stack);
            return None;
        };
        let socket = stack.sockets.get_mut::<tcp::Socket<'_>>(handle);
        while socket.can_recv() {
            let read = socket.recv(|buffer| {
                self.hash.update(&buffer);
                (buffer.len(), buffer.len())
            });
            self.received += read.unwrap_or(0) as u64;
        }
        if socket.state() == tcp::State::CloseWait {
            socket.close();
        }
        if socket.is_open() {
            return None;
        }
        stack.sockets.remove(handle);
        Some(Outcome::Tcp { bytes: self.received, sha256: hex(self.hash.clone().finalize().as_slice()) })
    }

    fn abandon(&mut self, stack: &mut Stack) {
        self.state.abandon(stack);
    }

    fn wake_at(&self) -> Option<Duration> {
        None
    }
}

fn tcp_socket() -> tcp::Socket<'static> {
    let buffer = || tcp::SocketBuffer::new(vec![0; TCP_BUFFER]);
    let mut socket = tcp::Socket::new(buffer(), buffer());
    socket.set_timeout(Some(smoltcp::time::Duration::from_secs(60)));
    socket
}

/// Position-dependent bytes of a long period, so that a lost, doubled or swapped segment changes the hash.
fn fill(buffer: &mut [u8], offset: u64) {
    for (i, byte) in buffer.iter_mut().enumerate() {
        let position = offset + i as u64;
        *byte = (position ^ position >> 8 ^ position >> 16 ^ position >> 24) as u8;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
