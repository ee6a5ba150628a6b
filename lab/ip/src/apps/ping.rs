//! ICMP and ICMPv6 echo.

use std::net::IpAddr;
use std::time::Duration;

use smoltcp::iface::SocketHandle;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::socket::icmp;
use smoltcp::wire::{Icmpv4Packet, Icmpv4Repr, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv6Packet, Ipv6Repr};

use super::{App, Outcome, PAUSE};
use crate::stack::Stack;

/// How long an echo may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// IP has given up a neighbour that did not answer, and with it the packets that waited.
const IP_GIVES_UP: Duration = Duration::from_secs(4);
/// Room for echoes that others send with the same identifier.
const ROOM_FOR_OTHERS: usize = 16 << 10;
/// Packets that may wait in a socket between two runs: one answer, and what others send with the same identifier, whose
/// requests smoltcp hands to the socket, too.
const PACKETS: usize = 64;
/// Of IPv6.
const IPV6_HEADER: usize = 40;
/// As smoltcp has it.
const HOP_LIMIT: u8 = 64;
/// ICMP header of an echo.
pub const ECHO_HEADER: usize = 8;

/// Sends `count` echo requests, each when the one before was answered or has timed out.
pub struct Ping {
    destination: IpAddr,
    source: IpAddr,
    /// Payload sizes in bytes, used round-robin.
    sizes: Vec<usize>,
    count: u32,
    /// How long each request may take.
    patience: Duration,
    /// The least time from one request to the next.
    every: Duration,
    next: Duration,
    /// Sequence number of the first request.
    first: u16,
    sent: u32,
    answered: u32,
    outstanding: Option<Duration>,
    /// When the first request is sent again, unless somebody has answered: as `ping -s` goes on until IP has found the neighbour.
    again: Option<Duration>,
    socket: Option<SocketHandle>,
    /// Of the socket, once there is one.
    ident: u16,
}

impl Ping {
    /// `count` requests, whose payloads have these sizes in turn.
    pub fn new(source: IpAddr, destination: IpAddr, count: u32, sizes: Vec<usize>) -> Self {
        let (every, next) = (Duration::ZERO, Duration::ZERO);
        Self {
            destination,
            source,
            sizes,
            count,
            patience: PATIENCE,
            every,
            next,
            first: 0,
            sent: 0,
            answered: 0,
            outstanding: None,
            again: None,
            socket: None,
            ident: 0,
        }
    }

    /// The same, with sequence numbers from `first`.
    #[must_use]
    pub fn numbered_from(self, first: u16) -> Self {
        Self { first, ..self }
    }

    /// The same, and an answer may take so much longer: the first one longer than IP asks for a neighbour.
    #[must_use]
    pub fn with_patience_for(self, longer: Duration) -> Self {
        Self { patience: PATIENCE + longer, ..self }
    }

    /// The same, with this identifier, which no other echo of the stack may have; not 0.
    #[must_use]
    pub fn identified(self, ident: u16) -> Self {
        Self { ident, ..self }
    }

    fn sequence(&self, sent: u32) -> u16 {
        self.first.wrapping_add(sent as u16)
    }

    /// The same, at most one request in `every`.
    #[must_use]
    pub fn paced(self, every: Duration) -> Self {
        Self { every, ..self }
    }

    fn size(&self, sequence: u32) -> usize {
        self.sizes[sequence as usize % self.sizes.len()]
    }

    fn open(&mut self, stack: &mut Stack) -> SocketHandle {
        // The largest echo fits at whatever place in the buffer the one before ended.
        let room = 2 * (ECHO_HEADER + self.sizes.iter().max().copied().unwrap_or(0)) + ROOM_FOR_OTHERS;
        let buffer = || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; PACKETS], vec![0; room]);
        let mut socket = icmp::Socket::new(buffer(), buffer());
        // A fresh socket with a non-zero identifier always binds.
        if self.ident == 0 {
            self.ident = stack.echo_ident();
        }
        let _ = socket.bind(icmp::Endpoint::Ident(self.ident));
        *self.socket.insert(stack.sockets.add(socket))
    }

    fn send(&mut self, now: Duration, stack: &mut Stack, handle: SocketHandle) {
        if !self.request(self.sent, stack, handle) {
            // The link takes nothing at present.
            self.next = now + self.every.max(PAUSE);
            return;
        }
        self.again = (self.sent == 0).then_some(now + IP_GIVES_UP);
        self.sent += 1;
        self.outstanding = Some(now + self.patience);
    }

    /// False if the socket has no room.
    fn request(&self, number: u32, stack: &mut Stack, handle: SocketHandle) -> bool {
        let data = pattern(number, self.size(number));
        let ends = (self.source, self.destination);
        send_echo(stack, handle, ends, (self.ident, self.sequence(number)), &data)
    }

    /// Sends the first request again if it is time to.
    fn ask_again(&mut self, now: Duration, stack: &mut Stack, handle: SocketHandle) {
        if self.again.is_some_and(|at| at <= now) {
            self.request(0, stack, handle);
            self.again = Some(now + IP_GIVES_UP);
        }
    }

    /// Takes everything off the socket; true if the answer waited for was there, byte for byte.
    fn answered(&mut self, stack: &mut Stack, handle: SocketHandle) -> bool {
        let expected_sequence = self.sent.wrapping_sub(1);
        let size = self.size(expected_sequence);
        let (source, destination) = (self.source, self.destination);
        let socket = stack.sockets.get_mut::<icmp::Socket<'_>>(handle);
        let mut found = false;
        while let Ok((bytes, from)) = socket.recv() {
            let answer = parse_echo_reply(bytes, source, destination);
            found |= IpAddr::from(from) == destination
                && answer.is_some_and(|(sequence, data)| {
                    sequence == self.sequence(expected_sequence) && data == pattern(expected_sequence, size)
                });
        }
        found
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
            self.ask_again(now, stack, handle);
            return None;
        }
        self.again = None;
        if self.sent < self.count {
            if self.next <= now {
                self.next = now + self.every;
                self.send(now, stack, handle);
            }
            return None;
        }
        stack.sockets.remove(handle);
        Some(Outcome::Ping { sent: self.sent, answered: self.answered })
    }

    fn abandon(&mut self, stack: &mut Stack) {
        if let Some(handle) = self.socket.take() {
            stack.sockets.remove(handle);
        }
    }

    fn wake_at(&self) -> Option<Duration> {
        match self.outstanding {
            Some(timeout) => Some(self.again.map_or(timeout, |again| again.min(timeout))),
            None => (self.sent < self.count).then_some(self.next),
        }
    }
}

/// Bytes that differ from packet to packet, so that a stale answer is not taken for a fresh one.
pub fn pattern(sequence: u32, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u32 ^ sequence.wrapping_mul(0x9e37_79b9) >> 8) as u8).collect()
}

/// Sends an echo request from such a socket; false if that has no room. One of IPv6 that is longer than the link carries goes beside
/// smoltcp, which would drop it.
pub fn send_echo(
    stack: &mut Stack,
    socket: SocketHandle,
    ends: (IpAddr, IpAddr),
    (ident, sequence): (u16, u16),
    data: &[u8],
) -> bool {
    let len = ECHO_HEADER + data.len();
    if let (IpAddr::V6(source), IpAddr::V6(destination)) = ends
        && IPV6_HEADER + len > stack.link().info().sdu
    {
        let ip = Ipv6Repr {
            src_addr: source,
            dst_addr: destination,
            next_header: IpProtocol::Icmpv6,
            payload_len: len,
            hop_limit: HOP_LIMIT,
        };
        let mut packet = vec![0; IPV6_HEADER + len];
        ip.emit(&mut Ipv6Packet::new_unchecked(&mut packet[..]));
        emit_echo(&mut packet[IPV6_HEADER..], ends, ident, sequence, data);
        stack.send(packet);
        return true;
    }
    let socket = stack.sockets.get_mut::<icmp::Socket<'_>>(socket);
    let Ok(buffer) = socket.send(len, ends.1.into()) else { return false };
    emit_echo(buffer, ends, ident, sequence, data);
    true
}

/// Writes an echo request, header and `data`, over the whole of `buffer`.
fn emit_echo(
    buffer: &mut [u8],
    (source, destination): (IpAddr, IpAddr),
    ident: u16,
    seq_no: u16,
    data: &[u8],
) {
    let checksums = ChecksumCapabilities::default();
    match (source, destination) {
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let repr = Icmpv6Repr::EchoRequest { ident, seq_no, data };
            repr.emit(&source, &destination, &mut Icmpv6Packet::new_unchecked(buffer), &checksums);
        }
        _ => {
            let repr = Icmpv4Repr::EchoRequest { ident, seq_no, data };
            repr.emit(&mut Icmpv4Packet::new_unchecked(buffer), &checksums);
        }
    }
}

/// Sequence number and data of an answer that `destination` gave to `source`; `None` for anything else.
pub fn parse_echo_reply(bytes: &[u8], source: IpAddr, destination: IpAddr) -> Option<(u16, &[u8])> {
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
