//! What the hosts of a scenario do over IP: ping, TCP transfer, multicast. Pure machines over [`Stack`].

use std::net::IpAddr;
use std::time::Duration;

use sha2::{Digest, Sha256};
use smoltcp::iface::SocketHandle;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::socket::{icmp, tcp, udp};
use smoltcp::wire::{Icmpv4Packet, Icmpv4Repr, Icmpv6Packet, Icmpv6Repr, IpAddress, IpListenEndpoint};

use super::stack::Stack;

/// Something that a host does over IP until it is done.
pub trait App: Send {
    /// Goes on as far as possible. `Some` once, when finished.
    fn run(&mut self, now: Duration, stack: &mut Stack) -> Option<Outcome>;
    /// When to be run again if nothing else happens.
    fn wake_at(&self) -> Option<Duration>;
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Ping { sent: u32, answered: u32 },
    Tcp { bytes: u64, sha256: String },
    /// Datagrams of the group that arrived, in order of arrival.
    Heard(Vec<u32>),
    Said,
    Failed(String),
}

const PING_IDENT: u16 = 0x1b0d;
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// ICMP header of an echo.
const ECHO_HEADER: usize = 8;

/// Sends `count` echo requests, each when the one before was answered or has timed out.
pub struct Ping {
    destination: IpAddr,
    source: IpAddr,
    /// Payload sizes in bytes, used round-robin.
    sizes: Vec<usize>,
    count: u32,
    sent: u32,
    answered: u32,
    outstanding: Option<Duration>,
    socket: Option<SocketHandle>,
}

impl Ping {
    pub fn new(source: IpAddr, destination: IpAddr, count: u32, sizes: Vec<usize>) -> Self {
        Self { destination, source, sizes, count, sent: 0, answered: 0, outstanding: None, socket: None }
    }

    fn size(&self, sequence: u32) -> usize {
        self.sizes[sequence as usize % self.sizes.len()]
    }

    fn open(&mut self, stack: &mut Stack) -> SocketHandle {
        let buffer = || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; 4], vec![0; 64 * 1024]);
        let mut socket = icmp::Socket::new(buffer(), buffer());
        // A fresh socket with a non-zero identifier always binds.
        let _ = socket.bind(icmp::Endpoint::Ident(PING_IDENT));
        *self.socket.insert(stack.sockets.add(socket))
    }

    fn send(&mut self, now: Duration, stack: &mut Stack, handle: SocketHandle) {
        let data = pattern(self.sent, self.size(self.sent));
        let socket = stack.sockets.get_mut::<icmp::Socket<'_>>(handle);
        let Ok(buffer) = socket.send(ECHO_HEADER + data.len(), self.destination.into()) else { return };
        emit_echo(buffer, self.source, self.destination, self.sent as u16, &data);
        self.sent += 1;
        self.outstanding = Some(now + PING_TIMEOUT);
    }

    /// Takes an answer off the socket; true if it is the one waited for, byte for byte.
    fn answered(&mut self, stack: &mut Stack, handle: SocketHandle) -> bool {
        let expected_sequence = self.sent.wrapping_sub(1);
        let expected = pattern(expected_sequence, self.size(expected_sequence));
        let (source, destination) = (self.source, self.destination);
        let socket = stack.sockets.get_mut::<icmp::Socket<'_>>(handle);
        while let Ok((bytes, from)) = socket.recv() {
            let answer = parse_echo_reply(bytes, source, destination);
            if IpAddr::from(from) == destination && answer == Some((expected_sequence as u16, &expected[..])) {
                return true;
            }
        }
        false
    }
}

impl App for Ping {
    fn run(&mut self, now: Duration, stack: &mut Stack) -> Option<Outcome> {
        let handle = match self.socket {
            Some(handle) => handle,
            None => self.open(stack),
        };
        if let Some(timeout) = self.outstanding {
            if self.answered(stack, handle) {
                self.answered += 1;
                self.outstanding = None;
            } else if timeout <= now {
                self.outstanding = None;
            }
        }
        if self.outstanding.is_some() {
            return None;
        }
        if self.sent < self.count {
            self.send(now, stack, handle);
            return None;
        }
        stack.sockets.remove(handle);
        Some(Outcome::Ping { sent: self.sent, answered: self.answered })
    }

    fn wake_at(&self) -> Option<Duration> {
        self.outstanding
    }
}

/// Bytes that differ from packet to packet, so that a stale answer is not taken for a fresh one.
fn pattern(sequence: u32, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u32 ^ sequence.wrapping_mul(0x9e37_79b9) >> 8) as u8).collect()
}

fn emit_echo(buffer: &mut [u8], source: IpAddr, destination: IpAddr, seq_no: u16, data: &[u8]) {
    let checksums = ChecksumCapabilities::default();
    match (source, destination) {
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let repr = Icmpv6Repr::EchoRequest { ident: PING_IDENT, seq_no, data };
            repr.emit(&source, &destination, &mut Icmpv6Packet::new_unchecked(buffer), &checksums);
        }
        _ => {
            let repr = Icmpv4Repr::EchoRequest { ident: PING_IDENT, seq_no, data };
            repr.emit(&mut Icmpv4Packet::new_unchecked(buffer), &checksums);
        }
    }
}

fn parse_echo_reply(bytes: &[u8], source: IpAddr, destination: IpAddr) -> Option<(u16, &[u8])> {
    let checksums = ChecksumCapabilities::default();
    match (source, destination) {
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let packet = Icmpv6Packet::new_checked(bytes).ok()?;
            match Icmpv6Repr::parse(&destination, &source, &packet, &checksums).ok()? {
                Icmpv6Repr::EchoReply { seq_no, data, .. } => Some((seq_no, data)),
                _ => None,
            }
        }
        _ => {
            let packet = Icmpv4Packet::new_checked(bytes).ok()?;
            match Icmpv4Repr::parse(&packet, &checksums).ok()? {
                Icmpv4Repr::EchoReply { seq_no, data, .. } => Some((seq_no, data)),
                _ => None,
            }
        }
    }
}

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

impl TcpSend {
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

    fn wake_at(&self) -> Option<Duration> {
        None
    }
}

impl TcpReceive {
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

/// Sends `count` numbered datagrams to a group, one every `interval`.
pub struct GroupSay {
    group: (IpAddr, u16),
    count: u32,
    interval: Duration,
    next: (u32, Duration),
    socket: Option<SocketHandle>,
}

/// Listens to a group until `until` datagrams came or the time is over, then leaves it.
pub struct GroupHear {
    group: (IpAddr, u16),
    expect: u32,
    deadline: Duration,
    heard: Vec<u32>,
    socket: Option<SocketHandle>,
}

impl GroupSay {
    pub fn new(group: (IpAddr, u16), count: u32, interval: Duration, first: Duration) -> Self {
        Self { group, count, interval, next: (0, first), socket: None }
    }
}

impl App for GroupSay {
    fn run(&mut self, now: Duration, stack: &mut Stack) -> Option<Outcome> {
        let handle = *self.socket.get_or_insert_with(|| stack.sockets.add(udp_socket(self.group.1)));
        let socket = stack.sockets.get_mut::<udp::Socket<'_>>(handle);
        while self.next.0 < self.count && self.next.1 <= now {
            let group = (IpAddress::from(self.group.0), self.group.1);
            if socket.send_slice(&self.next.0.to_be_bytes(), group).is_err() {
                return None;
            }
            self.next = (self.next.0 + 1, self.next.1 + self.interval);
        }
        if self.next.0 < self.count || socket.send_queue() > 0 {
            return None;
        }
        stack.sockets.remove(handle);
        Some(Outcome::Said)
    }

    fn wake_at(&self) -> Option<Duration> {
        (self.next.0 < self.count).then_some(self.next.1)
    }
}

impl GroupHear {
    pub fn new(group: (IpAddr, u16), expect: u32, deadline: Duration) -> Self {
        Self { group, expect, deadline, heard: Vec::new(), socket: None }
    }
}

impl App for GroupHear {
    fn run(&mut self, now: Duration, stack: &mut Stack) -> Option<Outcome> {
        let handle = match self.socket {
            Some(handle) => handle,
            None => {
                stack.join(self.group.0);
                *self.socket.insert(stack.sockets.add(udp_socket(self.group.1)))
            }
        };
        let socket = stack.sockets.get_mut::<udp::Socket<'_>>(handle);
        while let Ok((bytes, _)) = socket.recv() {
            if let Ok(number) = <[u8; 4]>::try_from(bytes) {
                self.heard.push(u32::from_be_bytes(number));
            }
        }
        if self.heard.len() < self.expect as usize && now < self.deadline {
            return None;
        }
        stack.sockets.remove(handle);
        stack.leave(self.group.0);
        Some(Outcome::Heard(std::mem::take(&mut self.heard)))
    }

    fn wake_at(&self) -> Option<Duration> {
        Some(self.deadline)
    }
}

fn udp_socket(port: u16) -> udp::Socket<'static> {
    let buffer = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 64], vec![0; 64 * 1024]);
    let mut socket = udp::Socket::new(buffer(), buffer());
    // A fresh socket and a non-zero port: the two things bind() can refuse.
    let _ = socket.bind(IpListenEndpoint { addr: None, port });
    socket
}
