//! Fragments of IPv6 (RFC 8200 section 4.5), which smoltcp neither makes nor puts together.
//!
//! Pure: packets and the time go in, whole packets and fragments come out.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use smoltcp::wire::Ipv6Packet;

const HEADER: usize = 40;
/// Of a fragment header.
const FRAGMENT_HEADER: usize = 8;
const NEXT_HEADER: usize = 6;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
/// Octets of the largest packet behind its header.
const LONGEST: usize = 65_535;
/// How long the fragments of a packet wait for each other.
const PATIENCE: Duration = Duration::from_secs(60);
/// Packets that are put together at once. The oldest one gives way.
const PACKETS: usize = 32;

/// A packet without extension headers as fragments for that MTU; `None` if it cannot be cut.
pub fn cut(packet: &[u8], mtu: usize, ident: u32) -> Option<Vec<Vec<u8>>> {
    let ip = Ipv6Packet::new_checked(packet).ok().filter(|ip| ip.version() == 6)?;
    let next = u8::from(ip.next_header());
    let each = mtu.checked_sub(HEADER + FRAGMENT_HEADER)? / 8 * 8;
    if each == 0 || matches!(next, HOP_BY_HOP | ROUTING | FRAGMENT) {
        return None;
    }
    let payload = packet.get(HEADER..HEADER + usize::from(ip.payload_len()))?;
    let mut pieces = Vec::new();
    for (n, part) in payload.chunks(each).enumerate() {
        let more = (n + 1) * each < payload.len();
        let offset = (n * each) as u16 | u16::from(more);
        let [high, low] = offset.to_be_bytes();
        let mut piece = [&packet[..HEADER], &[next, 0, high, low], &ident.to_be_bytes(), part].concat();
        piece[NEXT_HEADER] = FRAGMENT;
        set_length(&mut piece);
        pieces.push(piece);
    }
    Some(pieces)
}

fn set_length(packet: &mut [u8]) {
    let len = (packet.len() - HEADER) as u16;
    packet[4..NEXT_HEADER].copy_from_slice(&len.to_be_bytes());
}

/// Packets of which fragments have come.
#[derive(Debug, Default)]
pub struct Reassembly(BTreeMap<(Ipv6Addr, Ipv6Addr, u32), Partial>);

#[derive(Debug)]
struct Partial {
    since: Duration,
    /// What stood in front of the first fragment's header, and what is to follow it.
    front: Option<(Vec<u8>, usize, u8)>,
    pieces: BTreeMap<usize, Vec<u8>>,
    /// Octets of all pieces, once the last one is there.
    total: Option<usize>,
    /// Two pieces overlapped: what comes is dropped.
    spoilt: bool,
}

/// Where the fragment header of a packet is, and which octet says that it follows.
struct Place {
    header: usize,
    told_at: usize,
}

impl Place {
    fn of(packet: &[u8]) -> Option<Self> {
        let (mut header, mut told_at) = (HEADER, NEXT_HEADER);
        if packet.first()? >> 4 != 6 {
            return None;
        }
        loop {
            match *packet.get(told_at)? {
                FRAGMENT => return Some(Self { header, told_at }),
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {
                    told_at = header;
                    header += (usize::from(*packet.get(header + 1)?) + 1) * 8;
                }
                _ => return None,
            }
        }
    }
}

impl Reassembly {
    /// A packet that came: itself if it is whole, or the packet that it completes.
    pub fn take(&mut self, now: Duration, packet: Vec<u8>) -> Option<Vec<u8>> {
        let Some(place) = Place::of(&packet) else { return Some(packet) };
        self.0.retain(|_, partial| now < partial.since + PATIENCE);
        let ip = Ipv6Packet::new_checked(&packet[..]).ok()?;
        let end = HEADER + usize::from(ip.payload_len());
        let header: [u8; FRAGMENT_HEADER] = packet.get(place.header..end)?.first_chunk().copied()?;
        let [next, _, high, low, ident @ ..] = header;
        let (offset, more) = (usize::from(u16::from_be_bytes([high, low]) & !7), low & 1 != 0);
        let data = &packet[place.header + FRAGMENT_HEADER..end];
        let mut front = packet[..place.header].to_vec();
        if offset == 0 && !more {
            // One that is all, whatever else has its identification (RFC 6946).
            front[place.told_at] = next;
            let mut whole = [front, data.to_vec()].concat();
            set_length(&mut whole);
            return Some(whole);
        }
        let fits = place.header - HEADER + offset + data.len() <= LONGEST;
        if data.is_empty() || more && !data.len().is_multiple_of(8) || !fits {
            return None;
        }
        let key = (ip.src_addr(), ip.dst_addr(), u32::from_be_bytes(ident));
        let partial = self.entry(now, key);
        if offset == 0 {
            partial.front = Some((front, place.told_at, next));
        }
        partial.add(offset, data, more);
        let whole = partial.whole()?;
        self.0.remove(&key);
        Some(whole)
    }

    fn entry(&mut self, now: Duration, key: (Ipv6Addr, Ipv6Addr, u32)) -> &mut Partial {
        if self.0.len() >= PACKETS && !self.0.contains_key(&key) {
            let oldest = self.0.iter().min_by_key(|(_, partial)| partial.since).map(|(key, _)| *key);
            oldest.and_then(|oldest| self.0.remove(&oldest));
        }
        let fresh =
            || Partial { since: now, front: None, pieces: BTreeMap::new(), total: None, spoilt: false };
        self.0.entry(key).or_insert_with(fresh)
    }
}

impl Partial {
    fn add(&mut self, offset: usize, data: &[u8], more: bool) {
        if self.spoilt || self.pieces.get(&offset).is_some_and(|known| known == data) {
            return;
        }
        let end = offset + data.len();
        let before =
            self.pieces.range(..end).next_back().is_some_and(|(at, piece)| at + piece.len() > offset);
        let beyond = self.total.is_some_and(|total| end > total || !more);
        let ends_early = !more && self.pieces.range(end..).next().is_some();
        if before || beyond || ends_early {
            // RFC 5722: none of it is believed.
            self.spoilt = true;
            self.pieces.clear();
            return;
        }
        self.pieces.insert(offset, data.to_vec());
        if !more {
            self.total = Some(end);
        }
    }

    fn whole(&mut self) -> Option<Vec<u8>> {
        let total = self.total.filter(|_| !self.spoilt)?;
        if self.pieces.values().map(Vec::len).sum::<usize>() != total {
            return None;
        }
        let (mut packet, told_at, next) = self.front.take()?;
        packet[told_at] = next;
        self.pieces.values().for_each(|piece| packet.extend_from_slice(piece));
        if packet.len() - HEADER > LONGEST {
            return None;
        }
        set_length(&mut packet);
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(len: usize) -> Vec<u8> {
        let data: Vec<u8> = (0..len).map(|n| (n * 7) as u8).collect();
        let mut packet = [&[0x60, 0, 0, 0, 0, 0, 17, 64][..], &[1; 16], &[2; 16], &data].concat();
        set_length(&mut packet);
        packet
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Whether just these come out when those come.
    fn make(pieces: &[Vec<u8>], whole: &[Vec<u8>]) -> bool {
        let mut all = Reassembly::default();
        pieces.iter().filter_map(|piece| all.take(at(0), piece.clone())).eq(whole.iter().cloned())
    }

    #[test]
    fn a_packet_is_cut_for_each_mtu_and_put_together_in_any_order() {
        for (len, mtu) in [(2_000, 1_280), (5_000, 1_284), (65_535, 2_044), (1_241, 1_280)] {
            let whole = packet(len);
            let pieces = cut(&whole, mtu, 7).expect("it can be cut");
            assert!(pieces.iter().all(|piece| piece.len() <= mtu && piece[6] == FRAGMENT));
            assert!(make(&pieces, std::slice::from_ref(&whole)));
            let backwards: Vec<Vec<u8>> = pieces.iter().rev().cloned().collect();
            assert!(make(&backwards, std::slice::from_ref(&whole)));
            let doubled: Vec<Vec<u8>> =
                pieces.iter().flat_map(|piece| [piece.clone(), piece.clone()]).collect();
            assert!(make(&doubled[..doubled.len() - 1], &[whole]));
        }
        assert!(make(&[packet(100)], &[packet(100)]));
    }

    /// RFC 5722, RFC 8200 section 4.5. illumos of 2020 keeps what came first of two that overlap.
    #[test]
    fn fragments_that_overlap_spoil_the_packet() {
        let pieces = cut(&packet(3_000), 1_280, 7).expect("it can be cut");
        let moved = |n: usize, by: u16| {
            let mut piece = pieces[n].clone();
            let offset = u16::from_be_bytes([piece[42], piece[43]]) - by;
            piece[42..44].copy_from_slice(&offset.to_be_bytes());
            piece
        };
        let [first, second, third] = &pieces[..] else { panic!("three pieces") };
        for order in [
            vec![first.clone(), moved(1, 8), second.clone(), third.clone()],
            vec![moved(1, 8), first.clone(), second.clone(), third.clone()],
            vec![first.clone(), second.clone(), moved(2, 8), third.clone()],
            vec![third.clone(), moved(2, 8), first.clone(), second.clone()],
        ] {
            assert!(make(&order, &[]));
        }
    }

    /// RFC 6946: it is no fragment of what is being put together under its identification.
    #[test]
    fn an_atomic_fragment_is_a_packet_of_its_own() {
        let pieces = cut(&packet(3_000), 1_280, 7).expect("it can be cut");
        let [atomic] = &cut(&packet(80), 1_280, 7).expect("it can be cut")[..] else { panic!("one piece") };
        let order = [&pieces[..1], std::slice::from_ref(atomic), &pieces[1..]].concat();
        assert!(make(&order, &[packet(80), packet(3_000)]));
    }

    #[test]
    fn what_makes_no_packet_is_dropped() {
        let pieces = cut(&packet(3_000), 1_280, 7).expect("it can be cut");
        let mut odd = pieces[0].clone();
        odd.truncate(1_001);
        set_length(&mut odd);
        let mut beyond = pieces[1].clone();
        beyond[42..44].copy_from_slice(&0xfff9_u16.to_be_bytes());
        assert!(make(&[odd, beyond], &[]));
        let mut late = Reassembly::default();
        assert_eq!(late.take(at(0), pieces[0].clone()), None);
        assert_eq!(late.take(at(60), pieces[1].clone()), None);
        assert_eq!(late.take(at(60), pieces[2].clone()), None, "the first one was forgotten");
    }

    #[test]
    fn nothing_that_comes_fills_the_memory_or_panics() {
        let mut all = Reassembly::default();
        for ident in 0..1_000 {
            let pieces = cut(&packet(3_000), 1_280, ident).expect("it can be cut");
            assert_eq!(all.take(at(0), pieces[0].clone()), None);
        }
        assert_eq!(all.0.len(), PACKETS);
        let piece = cut(&packet(3_000), 1_280, 7).expect("it can be cut").swap_remove(0);
        for at_octet in 4..52 {
            for value in [0, 1, 43, 44, 60, 0x7f, 0xff] {
                let mut odd = piece.clone();
                odd[at_octet] = value;
                let _ = all.take(at(1), odd.clone());
                let _ = all.take(at(1), odd[..at_octet].to_vec());
            }
        }
    }
}
