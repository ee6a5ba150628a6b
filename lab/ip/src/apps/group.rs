//! Datagrams to a multicast group: said by one host, heard by others.

use std::net::IpAddr;
use std::time::Duration;

use smoltcp::iface::SocketHandle;
use smoltcp::socket::udp;
use smoltcp::wire::{IpAddress, IpListenEndpoint};

use super::{App, Outcome, PAUSE};
use crate::stack::Stack;

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
    /// `count` datagrams to this address and port, the first at `first`, then one each `interval`.
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
                // The link takes nothing at present.
                self.next.1 = now + self.interval.max(PAUSE);
                return None;
            }
            self.next = (self.next.0 + 1, self.next.1 + self.interval);
        }
        if self.next.0 < self.count {
            return None;
        }
        if socket.send_queue() > 0 {
            self.next.1 = self.next.1.max(now + PAUSE);
            return None;
        }
        stack.sockets.remove(handle);
        Some(Outcome::Said)
    }

    fn abandon(&mut self, stack: &mut Stack) {
        if let Some(handle) = self.socket.take() {
            stack.sockets.remove(handle);
        }
    }

    fn wake_at(&self) -> Option<Duration> {
        Some(self.next.1)
    }
}

impl GroupHear {
    /// Joins the group and hears until `expect` datagrams have come, or until `deadline`.
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

    fn abandon(&mut self, stack: &mut Stack) {
        if let Some(handle) = self.socket.take() {
            stack.sockets.remove(handle);
            stack.leave(self.group.0);
        }
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
