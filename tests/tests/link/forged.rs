//! Addresses that a forger makes up, and what is sent to them.

use fabric::Guid;
use lab_gldv3::{LinkAddress, Offload, ReceiveQueue, Stream};

/// GUID of a port that is not there; the ones behind it are not, either.
const ABSENT: u64 = 0x0002_c903_0f00_0000;

/// The address of a queue pair at a port of the subnet.
pub fn link_address(qpn: u32, guid: u64) -> LinkAddress {
    const PREFIX: u64 = 0xfe80 << 48;
    let mut bytes = [0; 20];
    bytes[..4].copy_from_slice(&qpn.to_be_bytes());
    bytes[4..12].copy_from_slice(&PREFIX.to_be_bytes());
    bytes[12..].copy_from_slice(&guid.to_be_bytes());
    LinkAddress(bytes)
}

/// At a port that is not there.
pub fn absent(n: u32) -> LinkAddress {
    link_address(0x48, ABSENT + u64::from(n))
}

/// A queue pair of a port that is there.
pub fn queue_pair(port: Guid, n: u32) -> LinkAddress {
    link_address(0x10_0000 + n, port.0)
}

/// Sends a packet.
pub fn send(stream: &Stream, to: LinkAddress, packet: &[u8]) {
    stream.transmit(to, packet, Offload::default()).expect("the stream is bound");
}

/// Packets that have come since this was last asked.
pub fn came(heard: &ReceiveQueue) -> usize {
    std::iter::from_fn(|| heard.try_next()).count()
}
