//! What a capture says each port sent and received, decoded here from the bytes so that it can contradict the drivers.
//!
//! The file is pcapng with one interface per port, named by the port's GUID, and ERF records that begin with an InfiniBand
//! local route header (IBA volume 1, chapter 7). A message of a connection is one packet, whatever number of frames it takes.

use std::collections::BTreeMap;
use std::io::Read;

use anyhow::{Context, Result, bail};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};

const ERF_LEN: usize = 16;
const LRH_LEN: usize = 8;
const GRH_LEN: usize = 40;
const BTH_LEN: usize = 12;
const DETH_LEN: usize = 8;
const ICRC_LEN: usize = 4;
const IMMEDIATE_LEN: usize = 4;
const LNH_GRH: u8 = 3;
const LNH_BTH: u8 = 2;
const QPN_MULTICAST: u32 = 0x00ff_ffff;
/// QPNs below are the management QPs.
const FIRST_DATA_QPN: u32 = 2;

/// Frames and bytes of one direction. Bytes are the IPoIB header and what follows, without padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub packets: u64,
    pub bytes: u64,
    pub broadcasts: u64,
    /// Group frames that are not broadcasts.
    pub multicasts: u64,
}

/// One port's share of the capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    pub out: Counts,
    pub into: Counts,
    /// Frames into the port that no queue pair took: the capture has the reason as a comment.
    pub refused: u64,
}

/// A data frame, as far as counting needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DataFrame {
    dest_qpn: u32,
    mgid: Option<[u8; 16]>,
    payload: usize,
    /// Of a message on a connection; `None` of a datagram.
    piece: Option<Piece>,
}

/// Where a frame belongs in the messages of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    /// Destination and source.
    lids: [u8; 4],
    psn: u32,
    /// A message begins with it.
    is_first: bool,
}

/// The packet number that comes next, by interface, whether outbound, LIDs and destination.
#[derive(Default)]
struct Connections(BTreeMap<(u32, bool, [u8; 4], u32), u32>);

impl Connections {
    /// Whether the frame is the next one of its connection: others are repetitions, or came out of turn and are repeated.
    fn is_next(&mut self, interface: u32, outbound: bool, qpn: u32, piece: Piece) -> bool {
        let next = self.0.entry((interface, outbound, piece.lids, qpn)).or_insert(piece.psn);
        let is_next = *next == piece.psn;
        if is_next {
            *next = (piece.psn + 1) & 0x00ff_ffff;
        }
        is_next
    }
}

/// Counts every data frame of a capture, per port GUID.
pub fn count(file: impl Read) -> Result<BTreeMap<String, PortCounts>> {
    let mut reader = PcapNgReader::new(file).context("the capture is no pcapng")?;
    let mut ports: Vec<(String, PortCounts)> = Vec::new();
    let mut connections = Connections::default();
    while let Some(block) = reader.next_block() {
        match block.context("the capture is damaged")? {
            Block::InterfaceDescription(interface) => {
                let name = interface.options.iter().find_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                    _ => None,
                });
                ports.push((name.context("an interface without a name")?, PortCounts::default()));
            }
            Block::EnhancedPacket(packet) => {
                let outbound = direction(&packet.options)?;
                let refused = packet.options.iter().any(|o| matches!(o, EnhancedPacketOption::Comment(_)));
                let port = ports.get_mut(packet.interface_id as usize).context("a packet of no interface")?;
                let record = packet.data.get(ERF_LEN..).context("a record without ERF header")?;
                let is_next = |qpn, piece| connections.is_next(packet.interface_id, outbound, qpn, piece);
                tally(&mut port.1, outbound, refused, record, is_next)?;
            }
            _ => {}
        }
    }
    Ok(ports.into_iter().collect())
}

/// A frame that was refused may be damaged, and says nothing about itself that could be believed.
fn tally(
    counts: &mut PortCounts,
    outbound: bool,
    refused: bool,
    frame: &[u8],
    mut is_next: impl FnMut(u32, Piece) -> bool,
) -> Result<()> {
    if refused && !outbound {
        counts.refused += 1;
    } else if let Some(frame) = decode(frame)?
        && frame.piece.is_none_or(|piece| is_next(frame.dest_qpn, piece))
    {
        let way = if outbound { &mut counts.out } else { &mut counts.into };
        way.add(&frame);
    }
    Ok(())
}

impl Counts {
    fn add(&mut self, frame: &DataFrame) {
        self.packets += u64::from(frame.piece.is_none_or(|piece| piece.is_first));
        self.bytes += frame.payload as u64;
        if frame.dest_qpn == QPN_MULTICAST {
            if frame.mgid.is_some_and(|mgid| mgid[6..] == BROADCAST_GROUP_ID) {
                self.broadcasts += 1;
            } else {
                self.multicasts += 1;
            }
        }
    }
}

/// The low 80 bits of the IPv4 broadcast MGID (RFC 4391 section 4).
const BROADCAST_GROUP_ID: [u8; 10] = [0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];

/// True for outbound. The two low bits of `epb_flags`: 1 inbound, 2 outbound.
fn direction(options: &[EnhancedPacketOption<'_>]) -> Result<bool> {
    let flags = options.iter().find_map(|option| match option {
        EnhancedPacketOption::Flags(flags) => Some(flags & 3),
        _ => None,
    });
    match flags {
        Some(1) => Ok(false),
        Some(2) => Ok(true),
        other => bail!("a packet with direction {other:?}, expected inbound or outbound"),
    }
}

/// `None` for management frames and acknowledgements.
fn decode(frame: &[u8]) -> Result<Option<DataFrame>> {
    let short = || format!("a frame of {} bytes is too short for its headers", frame.len());
    let lrh = frame.get(..LRH_LEN).with_context(short)?;
    let (mgid, bth_at) = match lrh[1] & 3 {
        LNH_GRH => {
            let dgid = frame.get(LRH_LEN + 24..LRH_LEN + GRH_LEN).with_context(short)?;
            (dgid.try_into().ok(), LRH_LEN + GRH_LEN)
        }
        LNH_BTH => (None, LRH_LEN),
        other => bail!("a frame with LNH {other}: neither BTH nor GRH follows"),
    };
    let bth = frame.get(bth_at..bth_at + BTH_LEN).with_context(short)?;
    let dest_qpn = u32::from_be_bytes([0, bth[5], bth[6], bth[7]]);
    if dest_qpn < FIRST_DATA_QPN {
        return Ok(None);
    }
    // PktLen counts 4-byte words from the LRH through the ICRC.
    let length = usize::from(u16::from_be_bytes([lrh[4], lrh[5]]) & 0x7ff) * 4;
    let padding = usize::from(bth[1] >> 4 & 3);
    let (behind_bth, is_first) = match bth[0] {
        opcode::SEND_ONLY | opcode::SEND_FIRST => (0, Some(true)),
        opcode::SEND_MIDDLE | opcode::SEND_LAST => (0, Some(false)),
        opcode::SEND_ONLY_IMMEDIATE => (IMMEDIATE_LEN, Some(true)),
        opcode::SEND_LAST_IMMEDIATE => (IMMEDIATE_LEN, Some(false)),
        opcode::ACKNOWLEDGE => return Ok(None),
        _ => (DETH_LEN, None),
    };
    let piece = is_first.map(|is_first| Piece {
        lids: [lrh[2], lrh[3], lrh[6], lrh[7]],
        psn: u32::from_be_bytes([0, bth[9], bth[10], bth[11]]),
        is_first,
    });
    let headers = bth_at + BTH_LEN + behind_bth;
    let payload = length.checked_sub(headers + padding + ICRC_LEN).with_context(short)?;
    Ok(Some(DataFrame { dest_qpn, mgid, payload, piece }))
}

/// What reliable connections carry (IBA volume 1, 9.2.1).
mod opcode {
    pub const SEND_FIRST: u8 = 0x00;
    pub const SEND_MIDDLE: u8 = 0x01;
    pub const SEND_LAST: u8 = 0x02;
    pub const SEND_LAST_IMMEDIATE: u8 = 0x03;
    pub const SEND_ONLY: u8 = 0x04;
    pub const SEND_ONLY_IMMEDIATE: u8 = 0x05;
    pub const ACKNOWLEDGE: u8 = 0x11;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LRH, BTH, DETH, 6 bytes of payload, 2 of padding, ICRC, VCRC; built from the layout tables, not by the fabric.
    fn unicast() -> Vec<u8> {
        let mut frame = vec![0; LRH_LEN + BTH_LEN + DETH_LEN + 8 + ICRC_LEN + 2];
        frame[1] = LNH_BTH;
        frame[4..6].copy_from_slice(&10u16.to_be_bytes());
        frame[LRH_LEN] = 0x64;
        frame[LRH_LEN + 1] = 2 << 4;
        frame[LRH_LEN + 6] = 0x12;
        frame
    }

    #[test]
    fn padding_and_crcs_are_not_payload() {
        let frame = decode(&unicast()).expect("well formed").expect("a data frame");
        assert_eq!(frame, DataFrame { dest_qpn: 0x1200, mgid: None, payload: 6, piece: None });
    }

    #[test]
    fn a_damaged_frame_that_was_refused_is_counted_and_not_read() {
        let mut counts = PortCounts::default();
        let mut damaged = unicast();
        damaged[1] = 0;
        tally(&mut counts, false, true, &damaged, |_, _| true).expect("refused is refused");
        assert_eq!(counts, PortCounts { refused: 1, ..PortCounts::default() });
        assert!(
            tally(&mut counts, false, false, &damaged, |_, _| true).is_err(),
            "no driver can have taken it"
        );
    }

    #[test]
    fn management_frames_do_not_count_and_short_ones_are_errors() {
        let mut mad = unicast();
        mad[LRH_LEN + 6..LRH_LEN + 8].copy_from_slice(&[0, 1]);
        assert_eq!(decode(&mad).expect("well formed"), None);
        assert!(decode(&unicast()[..15]).is_err());
    }
    /// A frame of a connection: LRH, BTH, 8 bytes of payload, ICRC, VCRC.
    fn piece(opcode: u8, psn: u8) -> Vec<u8> {
        let mut frame = vec![0; LRH_LEN + BTH_LEN + 8 + ICRC_LEN + 2];
        frame[1] = LNH_BTH;
        frame[4..6].copy_from_slice(&8u16.to_be_bytes());
        (frame[LRH_LEN], frame[LRH_LEN + 6], frame[LRH_LEN + 11]) = (opcode, 0x12, psn);
        frame
    }

    /// Before, a frame of a connection was read as a datagram: too short for its headers, or a packet each.
    #[test]
    fn a_message_of_a_connection_is_one_packet_however_often_sent() {
        let (mut counts, mut connections) = (PortCounts::default(), Connections::default());
        let mut send = |opcode, psn| {
            let is_next = |qpn, piece| connections.is_next(0, true, qpn, piece);
            tally(&mut counts, true, false, &piece(opcode, psn), is_next).expect("well formed");
            (counts.out.packets, counts.out.bytes)
        };
        assert_eq!(send(opcode::SEND_FIRST, 7), (1, 8));
        assert_eq!(send(opcode::SEND_LAST, 9), (1, 8), "out of turn");
        assert_eq!(send(opcode::SEND_MIDDLE, 8), (1, 16));
        assert_eq!(send(opcode::SEND_FIRST, 7), (1, 16), "once more");
        assert_eq!(send(opcode::SEND_LAST, 9), (1, 24));
        assert_eq!(send(opcode::ACKNOWLEDGE, 10), (1, 24), "no message");
        assert_eq!(send(opcode::SEND_ONLY, 10), (2, 32));
    }
}
