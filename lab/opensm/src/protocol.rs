//! ibsim's messages: control (80 bytes) and packets (288 bytes) over datagram sockets in the abstract namespace.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;

use sm::mad::MAD_LEN;
use sm::{Lid, Mad, Qpn};
use zerocopy::byteorder::big_endian;
use zerocopy::byteorder::native_endian::U32;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The abstract name `<socket>:<what><number>`; ibsim counts one trailing NUL in.
pub(crate) fn address(socket: &str, what: &str, number: Option<u32>) -> io::Result<SocketAddr> {
    let number = number.map_or(String::new(), |number| number.to_string());
    SocketAddr::from_abstract_name(format!("{socket}:{what}{number}\0"))
}

/// What a control message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    Error,
    Connect,
    Disconnect,
    SetIsSm,
}

impl Control {
    const fn to_wire(self) -> u32 {
        match self {
            Self::Error => 0,
            Self::Connect => 1,
            Self::Disconnect => 2,
            Self::SetIsSm => 9,
        }
    }
}

const MAGIC: u32 = 0xdead_beef;
const DATA: usize = 64;
const NODE: usize = 32;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ControlWire {
    magic: U32,
    client: U32,
    kind: U32,
    length: U32,
    data: [u8; DATA],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ConnectWire {
    id: U32,
    qp: U32,
    is_sm: U32,
    node: [u8; NODE],
}

/// Longest control message.
pub(crate) const CONTROL_LEN: usize = size_of::<ControlWire>();

/// A control message of client `client` with `data`, of which 64 bytes fit.
pub(crate) fn control(client: u32, kind: Control, data: &[u8]) -> Vec<u8> {
    let mut wire = ControlWire {
        magic: MAGIC.into(),
        client: client.into(),
        kind: kind.to_wire().into(),
        length: (data.len().min(DATA) as u32).into(),
        data: [0; DATA],
    };
    for (to, from) in wire.data.iter_mut().zip(data) {
        *to = *from;
    }
    wire.as_bytes().to_vec()
}

/// What a connection is asked for with: our socket's number, and the name of the node to be.
pub(crate) fn connect(id: u32, node: &str) -> Vec<u8> {
    let mut wire = ConnectWire { id: id.into(), qp: 0.into(), is_sm: 0.into(), node: [0; NODE] };
    // One byte stays zero.
    for (to, from) in wire.node[..NODE - 1].iter_mut().zip(node.as_bytes()) {
        *to = *from;
    }
    wire.as_bytes().to_vec()
}

/// The client number in the answer to a connection request; `None` if it was refused or is no such answer.
pub(crate) fn connected(bytes: &[u8]) -> Option<u32> {
    let (wire, _) = ControlWire::ref_from_prefix(bytes).ok()?;
    let granted = wire.magic.get() == MAGIC && wire.kind.get() == Control::Connect.to_wire();
    let (answer, _) = ConnectWire::ref_from_prefix(&wire.data).ok()?;
    granted.then(|| answer.id.get())
}

/// Whether the answer to a control message is a yes.
pub(crate) fn granted(bytes: &[u8]) -> bool {
    ControlWire::ref_from_prefix(bytes)
        .is_ok_and(|(wire, _)| wire.magic.get() == MAGIC && wire.kind.get() != Control::Error.to_wire())
}

/// A MAD on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub dlid: Lid,
    pub slid: Lid,
    /// Both queue pairs: 0 for SMPs, 1 for the rest.
    pub qp: Qpn,
    /// Non-zero: the packet is one of ours that found no receiver.
    pub status: u32,
    /// Bytes of the MAD that mean something; the rest is not to be read.
    pub len: usize,
    pub mad: Mad,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PacketWire {
    /// Sixteen bits in network order, widened in the machine's: only the value's bytes are swapped.
    dlid: U32,
    slid: U32,
    dqp: big_endian::U32,
    sqp: big_endian::U32,
    status: big_endian::U32,
    padding: [u8; 4],
    length: big_endian::U64,
    mad: [u8; MAD_LEN],
}

/// Length of a packet.
pub(crate) const PACKET_LEN: usize = size_of::<PacketWire>();

fn widen(lid: Lid) -> U32 {
    u32::from(lid.0.to_be()).into()
}

fn narrow(wire: U32) -> Lid {
    Lid(u16::from_be((wire.get() & 0xffff) as u16))
}

impl Packet {
    /// To `dlid` from a source that ibsim fills in.
    pub const fn to(dlid: Lid, qp: Qpn, mad: Mad) -> Self {
        Self { dlid, slid: Lid::NONE, qp, status: 0, len: MAD_LEN, mad }
    }

    pub fn emit(&self) -> Vec<u8> {
        let wire = PacketWire {
            dlid: widen(self.dlid),
            slid: widen(self.slid),
            dqp: self.qp.get().into(),
            sqp: self.qp.get().into(),
            status: self.status.into(),
            padding: [0; 4],
            length: (self.len as u64).into(),
            mad: self.mad.0,
        };
        wire.as_bytes().to_vec()
    }

    /// `None` for anything that is not a packet. What is behind the MAD's length is zero.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut wire = PacketWire::new_zeroed();
        let whole = bytes.get(..PACKET_LEN)?;
        wire.as_mut_bytes().copy_from_slice(whole);
        let len = usize::try_from(wire.length.get()).unwrap_or(MAD_LEN).min(MAD_LEN);
        wire.mad[len..].fill(0);
        Some(Self {
            dlid: narrow(wire.dlid),
            slid: narrow(wire.slid),
            qp: Qpn::truncating(wire.dqp.get()),
            status: wire.status.get(),
            len,
            mad: Mad(wire.mad),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_stand_as_ibsim_reads_them() {
        let packet = Packet { slid: Lid::PERMISSIVE, ..Packet::to(Lid(0x0102), Qpn::GSI, Mad([7; 256])) };
        let bytes = packet.emit();
        assert_eq!(bytes.len(), 288);
        assert_eq!(bytes[..2], [1, 2], "the LID in network order");
        assert_eq!(bytes[2..4], [0, 0]);
        assert_eq!(bytes[8..16], [0, 0, 0, 1, 0, 0, 0, 1]);
        assert_eq!(bytes[24..32], [0, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(Packet::parse(&bytes), Some(packet));
        assert_eq!(Packet::parse(&bytes[..287]), None);
    }

    #[test]
    fn what_is_behind_a_packets_length_is_not_shown() {
        let mut bytes = Packet::to(Lid(1), Qpn::GSI, Mad([7; 256])).emit();
        bytes[24..32].copy_from_slice(&56u64.to_be_bytes());
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!((packet.len, packet.mad.0[55], packet.mad.0[56]), (56, 7, 0));
    }

    #[test]
    fn a_connection_names_socket_and_node() {
        let bytes = control(0, Control::Connect, &connect(7, "alice"));
        assert_eq!(bytes.len(), CONTROL_LEN);
        assert_eq!(bytes[12..16], 44u32.to_ne_bytes());
        assert_eq!(bytes[16..20], 7u32.to_ne_bytes());
        assert_eq!(&bytes[28..34], b"alice\0");
        assert_eq!(connected(&bytes), Some(7));
        assert_eq!(connected(&control(0, Control::Error, &[])), None);
        assert!(!granted(&control(0, Control::Error, &[])));
    }
}
