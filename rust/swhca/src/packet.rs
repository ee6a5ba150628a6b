//! A datagram between two ports: what its headers would say, and where its bytes are.

use ibtf_provider::{Gid, Region, Segment};
use kernel::KArc;

use crate::keys::RESERVED_KEY;
use crate::node::Node;

/// What a receiver sees of a sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) source_lid: u16,
    pub(crate) source_qpn: u32,
    pub(crate) pkey: u16,
    pub(crate) qkey: u32,
    pub(crate) sl: u8,
    pub(crate) grh: Option<Grh>,
    pub(crate) immediate: Option<u32>,
    pub(crate) solicited: bool,
    /// Bytes of the payload.
    pub(crate) len: u32,
    /// Its checksums were computed here.
    pub(crate) checksums: bool,
}

impl Header {
    /// Whether it is management's.
    pub(crate) fn is_management(&self) -> bool {
        self.qkey == crate::mad::QKEY
    }

    /// Octets of the packet that it would be, from its local route on.
    pub(crate) fn octets(&self) -> u64 {
        let route = if self.grh.is_some() { GRH_LEN } else { 0 };
        u64::from(8 + route) + self.octets_behind_routes()
    }

    /// Of these what is behind the routes: BTH, DETH, immediate data, payload up to the next word, check.
    fn octets_behind_routes(&self) -> u64 {
        let immediate = if self.immediate.is_some() { 4 } else { 0 };
        12 + 8 + immediate + u64::from(self.len).next_multiple_of(4) + 4
    }

    /// Its global route as it is on the wire.
    pub(crate) fn route(&self) -> Option<[u8; GRH_LEN as usize]> {
        let length = u16::try_from(self.octets_behind_routes()).unwrap_or(u16::MAX);
        self.grh.map(|grh| grh.bytes(length))
    }

    /// Whether it is for a group.
    pub(crate) fn is_multicast(&self) -> bool {
        self.grh.is_some_and(|grh| grh.destination.is_multicast())
    }
}

/// Bytes in front of every payload.
pub(crate) const GRH_LEN: u32 = 40;

/// The global route (IBA 8.3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grh {
    pub(crate) source: Gid,
    pub(crate) destination: Gid,
    pub(crate) tclass: u8,
    pub(crate) flow: u32,
    pub(crate) hop_limit: u8,
}

impl Grh {
    /// As it is on the wire, in front of so many octets.
    fn bytes(&self, length: u16) -> [u8; GRH_LEN as usize] {
        let mut bytes = [0; GRH_LEN as usize];
        let first = 6 << 28 | u32::from(self.tclass) << 20 | self.flow & 0xf_ffff;
        crate::mad::put32(&mut bytes, 0, first);
        crate::mad::put16(&mut bytes, 4, length);
        (bytes[6], bytes[7]) = (0x1b, self.hop_limit);
        crate::mad::put_gid(&mut bytes, 8, self.source);
        crate::mad::put_gid(&mut bytes, 24, self.destination);
        bytes
    }
}

/// Where the bytes are.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    /// In a client's memory.
    Client(Memory<'a>),
    /// A head that was made here, and behind it so many bytes of a client's memory from one on.
    Headed {
        /// See above.
        head: &'a [u8],
        /// See above.
        memory: Memory<'a>,
        /// The first byte.
        from: u32,
        /// How many.
        len: u32,
    },
    /// Here.
    Bytes(&'a [u8]),
}

/// Pieces of registered memory, for work in a protection domain.
#[derive(Clone, Copy)]
pub(crate) struct Memory<'a> {
    pub(crate) node: &'a Node,
    pub(crate) pd: u32,
    /// The queue pair may use the reserved key.
    pub(crate) reserved: bool,
    pub(crate) segments: &'a [Segment],
}

impl Memory<'_> {
    pub(crate) fn region(&self, segment: &Segment) -> Option<KArc<Region>> {
        if self.reserved && segment.key == RESERVED_KEY {
            return self.node.everything(segment);
        }
        self.node.region(self.pd, segment)
    }

    /// Hands bytes from `from` on to `take`, piece by piece, until it has had `len`. False if a key is none.
    pub(crate) fn pieces(
        &self,
        mut from: u32,
        mut len: u32,
        mut take: impl FnMut(ibtf_provider::Window<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        for segment in self.segments.iter().filter(|segment| segment.len != 0) {
            if from >= segment.len {
                from -= segment.len;
                continue;
            }
            let piece = (segment.len - from).min(len);
            if piece == 0 {
                break;
            }
            let region = self.region(segment).ok_or(Fault::Sender)?;
            let window = region.window(segment.address + u64::from(from), piece).ok_or(Fault::Sender)?;
            take(window)?;
            (from, len) = (0, len - piece);
        }
        Ok(())
    }

    /// Whether all keys are good.
    pub(crate) fn is_valid(&self) -> bool {
        self.segments.iter().all(|segment| segment.len == 0 || self.region(segment).is_some())
    }
}

/// Whose memory it was that could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Sender,
    Receiver,
    /// It was too short.
    TooLong,
}

/// A receiver's buffer, filled from its start.
pub(crate) struct Buffer<'a> {
    memory: Memory<'a>,
    index: usize,
    offset: u32,
}

impl<'a> Buffer<'a> {
    pub(crate) fn new(memory: Memory<'a>) -> Self {
        Self { memory, index: 0, offset: 0 }
    }

    /// Leaves bytes as they are.
    pub(crate) fn skip(&mut self, len: u32) -> Result<(), Fault> {
        self.fill(len, |_, _, _| {})
    }

    fn copied(&self, len: u32) {
        self.memory.node.counters.copied_bytes.add(u64::from(len));
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let len = u32::try_from(bytes.len()).map_err(|_| Fault::TooLong)?;
        self.copied(len);
        self.fill(len, |window, done, len| {
            let from = bytes.get(done as usize..).unwrap_or_default();
            let from = from.get(..len as usize).unwrap_or(from);
            window.write(from);
        })
    }

    /// Copies a payload, which is all there is to copying.
    pub(crate) fn copy(&mut self, payload: &Payload<'_>) -> Result<(), Fault> {
        let (memory, from, len) = match payload {
            Payload::Bytes(bytes) => return self.write(bytes),
            Payload::Client(memory) => (memory, 0, u32::MAX),
            Payload::Headed { head, memory, from, len } => {
                self.write(head)?;
                (memory, *from, *len)
            }
        };
        memory.pieces(from, len, |piece| {
            self.copied(piece.len());
            self.fill(piece.len(), |to, done, _| {
                piece.skip(done).copy_to(to);
            })
        })
    }

    /// Hands the next `len` bytes to `put`, piece by piece, with how many were handed before and how many these are.
    fn fill(
        &mut self,
        len: u32,
        mut put: impl FnMut(ibtf_provider::Window<'_>, u32, u32),
    ) -> Result<(), Fault> {
        let mut done = 0;
        while done < len {
            let segment = self.memory.segments.get(self.index).ok_or(Fault::TooLong)?;
            let room = segment.len - self.offset;
            if room == 0 {
                self.index += 1;
                self.offset = 0;
                continue;
            }
            let piece = room.min(len - done);
            let region = self.memory.region(segment).ok_or(Fault::Receiver)?;
            let address = segment.address + u64::from(self.offset);
            let window = region.window(address, piece).filter(|_| region.access().local_write);
            put(window.ok_or(Fault::Receiver)?, done, piece);
            self.offset += piece;
            done += piece;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Grh, Header};
    use ibtf_provider::Gid;

    #[test]
    fn length_of_a_packet_counts_its_padding_and_its_immediate_data() {
        let gid = Gid { prefix: 0xfe80 << 48, guid: 1 };
        let grh = Grh { source: gid, destination: gid, tclass: 0, flow: 0, hop_limit: 1 };
        let plain = Header {
            source_lid: 1,
            source_qpn: 2,
            pkey: 0xffff,
            qkey: 3,
            sl: 0,
            grh: Some(grh),
            immediate: None,
            solicited: false,
            len: 0,
            checksums: false,
        };
        // Of whole words are 12 of the BTH, 8 of the DETH, 4 of the check.
        for (len, padded) in [(0, 0), (1, 4), (60, 60), (61, 64), (63, 64), (4096, 4096)] {
            for (immediate, more) in [(None, 0), (Some(7), 4)] {
                let header = Header { len, immediate, ..plain };
                let route = header.route().unwrap();
                let expected = 24 + more + padded;
                assert_eq!(u16::from_be_bytes([route[4], route[5]]), expected, "{len} {immediate:?}");
                assert_eq!(header.octets(), 8 + 40 + u64::from(expected), "{len} {immediate:?}");
            }
        }
        assert_eq!(Header { grh: None, ..plain }.route(), None);
    }
}
