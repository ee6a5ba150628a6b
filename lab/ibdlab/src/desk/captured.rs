//! The packets of a capture, pcap or pcapng, in either byte order.
//!
//! Read by `pcap-parser`: `pcap-file`, which writes captures, takes a packet that was cut for damage, and knows nothing of the
//! upper half of a link type.

use pcap_parser::{
    Block, PcapBlockOwned, PcapNGSlice, parse_pcap_frame, parse_pcap_frame_be, parse_pcap_header,
};

/// A packet, as much of it as was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured<'a> {
    /// `LINKTYPE_`, without what stands in the field's upper half.
    pub link_type: u32,
    pub kept: &'a [u8],
    /// Octets that it had on the link.
    pub size: usize,
}

/// Reads a file; what is wrong with it.
pub type Reader = fn(&[u8]) -> Result<Vec<Captured<'_>>, String>;

/// The reader of a file that begins so, if it is a capture.
pub fn reader_of(file: &[u8]) -> Option<Reader> {
    match file.get(..4)? {
        [0x0a, 0x0d, 0x0d, 0x0a] => Some(pcapng),
        [0xa1, 0xb2, 0xc3, 0xd4]
        | [0xd4, 0xc3, 0xb2, 0xa1]
        | [0xa1, 0xb2, 0x3c, 0x4d]
        | [0x4d, 0x3c, 0xb2, 0xa1] => Some(pcap),
        _ => None,
    }
}

fn pcap(file: &[u8]) -> Result<Vec<Captured<'_>>, String> {
    let damaged = |what: String| format!("the pcap is damaged: {what}");
    let (mut rest, header) =
        parse_pcap_header(file).map_err(|_| damaged("its header is cut off".to_owned()))?;
    let link_type = header.network.0.cast_unsigned();
    let parse = if header.is_bigendian() { parse_pcap_frame_be } else { parse_pcap_frame };
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let number = packets.len() + 1;
        let (behind, frame) =
            parse(rest).map_err(|_| damaged(format!("it ends in the middle of frame {number}")))?;
        rest = behind;
        // At the end of a frame its checksum may stand (pcap draft, section 4).
        let checksum = checksum_octets(link_type).min(frame.data.len());
        let (kept, _) = frame.data.split_at(frame.data.len() - checksum);
        let size = (frame.origlen as usize).saturating_sub(checksum);
        packets.push(Captured { link_type: link_type & 0xffff, kept, size });
    }
    Ok(packets)
}

/// Octets of a frame's checksum at its end, which the upper half of a pcap's link type tells.
fn checksum_octets(link_type: u32) -> usize {
    const TOLD: u32 = 0x0400_0000;
    if link_type & TOLD == 0 { 0 } else { (link_type >> 28) as usize * 2 }
}

/// Of an interface: link type, and how much of a packet it keeps, if not all.
type Interface = (u32, Option<usize>);

fn pcapng(file: &[u8]) -> Result<Vec<Captured<'_>>, String> {
    let damaged = |number: usize| format!("the pcapng is damaged: at or behind frame {number}");
    let blocks = PcapNGSlice::from_slice(file).map_err(|_| damaged(0))?;
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut packets = Vec::new();
    for block in blocks {
        let PcapBlockOwned::NG(block) = block.map_err(|_| damaged(packets.len()))? else { continue };
        let number = packets.len() + 1;
        let of = |interface: u32| {
            let found = interfaces.get(interface as usize).copied();
            found.ok_or_else(|| format!("frame {number} is of no interface"))
        };
        match block {
            Block::SectionHeader(_) => interfaces.clear(),
            Block::InterfaceDescription(interface) => {
                let snap = Some(interface.snaplen as usize).filter(|snap| *snap > 0);
                interfaces.push((interface.linktype.0.cast_unsigned(), snap));
            }
            Block::EnhancedPacket(packet) => {
                let (link_type, _) = of(packet.if_id)?;
                let kept = packet.data.get(..packet.caplen as usize).ok_or_else(|| damaged(number))?;
                packets.push(Captured { link_type, kept, size: packet.origlen as usize });
            }
            Block::SimplePacket(packet) => {
                let ((link_type, snap), size) = (of(0)?, packet.origlen as usize);
                // Padding follows what was kept.
                let kept = size.min(snap.unwrap_or(usize::MAX)).min(packet.data.len());
                packets.push(Captured { link_type, kept: &packet.data[..kept], size });
            }
            _ => {}
        }
    }
    Ok(packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IPOIB: u32 = 242;

    type Order = fn(u32) -> [u8; 4];
    const ORDERS: [Order; 2] = [u32::to_be_bytes, u32::to_le_bytes];

    fn words(order: Order, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| order(*word)).collect()
    }

    fn a_pcap(order: Order, magic: u32, link_type: u32, size: u32, kept: &[u8]) -> Vec<u8> {
        let version = if order(1)[0] == 1 { 0x0004_0002 } else { 0x0002_0004 };
        let header = words(order, &[magic, version, 0, 0, 60, link_type]);
        [header, words(order, &[1, 2, kept.len() as u32, size]), kept.to_vec()].concat()
    }

    fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
        let length = body.len() as u32 + 12;
        [words(order, &[kind, length]), body.to_vec(), words(order, &[length])].concat()
    }

    /// Sections of both byte orders, each with an interface that keeps four octets, and then one that keeps all.
    fn a_pcapng(order: Order, packet: &[u8]) -> Vec<u8> {
        let section = [words(order, &[0x1a2b_3c4d]), order(1).to_vec(), vec![0xff; 8]].concat();
        let kind = |value: u32| {
            let [a, b] =
                if order(1)[0] == 1 { (value as u16).to_le_bytes() } else { (value as u16).to_be_bytes() };
            vec![a, b, 0, 0]
        };
        let interface = |value, snap| block(order, 1, &[kind(value), words(order, &[snap])].concat());
        [
            block(order, 0x0a0d_0d0a, &section),
            interface(IPOIB, 4),
            interface(1, 0),
            block(order, 0x0bad, &[1, 2, 3, 4]),
            packet.to_vec(),
        ]
        .concat()
    }

    fn read(file: &[u8]) -> Vec<Captured<'_>> {
        reader_of(file).expect("a capture")(file).expect("a good one")
    }

    /// Before, a capture of `tcpdump -s 60` was called damaged, and an upper half read as part of the number.
    #[test]
    fn a_pcap_tells_what_was_kept_in_both_orders_and_resolutions() {
        for order in ORDERS {
            for magic in [0xa1b2_c3d4, 0xa1b2_3c4d] {
                let read = |link_type, kept: &'static [u8]| {
                    let file = a_pcap(order, magic, link_type, 100, kept);
                    let packets = super::pcap(&file).expect("a good one");
                    let [Captured { link_type, kept, size }] = packets[..] else { panic!("one frame") };
                    (link_type, kept.to_vec(), size)
                };
                assert_eq!(read(IPOIB, &[7; 60]), (IPOIB, vec![7; 60], 100));
                assert_eq!(read(0x0400_0000 | IPOIB, &[7; 60]), (IPOIB, vec![7; 60], 100));
                assert_eq!(read(0x2400_0000 | IPOIB, &[7; 60]), (IPOIB, vec![7; 56], 96));
                assert_eq!(read(0xf400_0000 | IPOIB, &[7; 3]), (IPOIB, vec![], 97));
            }
        }
    }

    /// Before, there was no frame in a capture of simple packet blocks.
    #[test]
    fn a_pcapng_tells_what_was_kept_by_each_kind_of_block() {
        for order in ORDERS {
            let simple = block(order, 3, &[words(order, &[6]), vec![7; 4]].concat());
            let enhanced = |id| block(order, 6, &[words(order, &[id, 0, 0, 6, 6]), vec![7; 8]].concat());
            for (packet, link_type, kept) in
                [(simple, IPOIB, 4), (enhanced(0), IPOIB, 6), (enhanced(1), 1, 6)]
            {
                let once = a_pcapng(order, &packet);
                assert_eq!(read(&once), [Captured { link_type, kept: &[7; 8][..kept], size: 6 }]);
                assert_eq!(read(&[once.clone(), once].concat()).len(), 2);
            }
            let unknown = a_pcapng(order, &enhanced(2));
            assert_eq!(pcapng(&unknown), Err("frame 1 is of no interface".to_owned()));
            let none = a_pcapng(order, &[]);
            assert_eq!(pcapng(&none), Ok(vec![]));
        }
    }

    #[test]
    fn a_capture_that_ends_early_says_in_which_frame() {
        let pcap = a_pcap(u32::to_le_bytes, 0xa1b2_c3d4, IPOIB, 60, &[7; 60]);
        let in_frame = "the pcap is damaged: it ends in the middle of frame 1";
        for (cut, why) in [(10, "the pcap is damaged: its header is cut off"), (30, in_frame), (99, in_frame)]
        {
            assert_eq!(super::pcap(&pcap[..cut]), Err(why.to_owned()));
        }
        let enhanced = block(u32::to_le_bytes, 6, &words(u32::to_le_bytes, &[0, 0, 0, 9, 9, 1, 2]));
        let file = a_pcapng(u32::to_le_bytes, &enhanced);
        for cut in [5, file.len() - 1, file.len()] {
            assert!(pcapng(&file[..cut]).expect_err("it is cut").starts_with("the pcapng is damaged"));
        }
    }
}
