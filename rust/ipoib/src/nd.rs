//! Link-layer address options of IPv6 neighbour discovery.
//!
//! A 20-byte address and its option header make 22 bytes; options come in units of 8, so 24. RFC 4391 section 9.3 puts the two
//! spare bytes *before* the address, in each of the five messages that can have one; IP puts them behind it. Frames are changed in place when they
//! are sent and when they come in, never grown. The ICMPv6 checksum stays right: 16-bit words move, and the two spare bytes are zero.
//!
//! illumos's driver in C does so for neighbour solicitations and advertisements alone. Of the others both forms are taken: what tells
//! them apart is where the prefix of the link's GIDs stands.

use crate::addr::LinkAddr;

const IPV6_HEADER_LEN: usize = 40;
const NEXT_HEADER: usize = 6;
const ICMPV6: u8 = 58;
const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;
/// Where the options of a neighbour solicitation or advertisement begin: behind ICMPv6 header, reserved word and target address.
const OPTIONS: usize = IPV6_HEADER_LEN + 24;
const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;
/// Option length in units of 8 bytes: type, length, two spare bytes, 20 of address.
const LINK_ADDRESS_UNITS: u8 = 3;
/// Where address and spare bytes are in an option. IP takes longer options, too, and does not look at the rest.
const LINK_ADDRESS: core::ops::Range<usize> = 2..LINK_ADDRESS_UNITS as usize * 8;
const SPARE: usize = 2;
/// Where the flags of an advertisement are, and two of them (RFC 4861 section 4.4).
const FLAGS: usize = IPV6_HEADER_LEN + 4;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
/// The first byte of a group's address.
const MULTICAST: u8 = 0xff;

/// Puts the spare bytes where the wire has them. `packet` starts at the IPv6 header; anything but a message of neighbour discovery is left alone, and so
/// is any option that is not a link-layer address, is too short for one, or does not fit.
pub fn pad_for_wire(packet: &mut [u8]) {
    for_each_link_address(packet, |_, body| {
        body.copy_within(..LinkAddr::LEN, SPARE);
        body[..SPARE].fill(0);
    });
}

/// The opposite of [`pad_for_wire`]: puts the spare bytes where IP looks for them. In the messages of routers they may be there already.
/// `own` is the address of the link, whose neighbours have GIDs of one prefix.
pub fn pad_for_ip(packet: &mut [u8], own: &LinkAddr) {
    for_each_link_address(packet, |message, body| {
        let by_rfc = matches!(message, NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT);
        if by_rfc || !is_in_form_of_ip(body, own) {
            body.copy_within(SPARE.., 0);
            body[LinkAddr::LEN..].fill(0);
        }
    });
}

/// Whether the spare bytes of an option come last. A GUID may end with two zeros, so they alone say nothing; RFC 4391's form is
/// looked for first.
fn is_in_form_of_ip(body: &[u8], own: &LinkAddr) -> bool {
    const PREFIX: core::ops::Range<usize> = 4..12;
    let own = own.as_bytes().get(PREFIX);
    let (first, last) = body.split_at_checked(LinkAddr::LEN).unwrap_or_default();
    let in_form_of_rfc = body.get(PREFIX.start + SPARE..PREFIX.end + SPARE) == own;
    let could_not_be_rfcs = !first.starts_with(&[0; SPARE]);
    last == [0; SPARE] && !in_form_of_rfc && (first.get(PREFIX) == own || could_not_be_rfcs)
}

/// Whether a packet of IPv6 whose first bytes these are, [`Message::HEAD_LEN`] of them, may have link-layer addresses in it: a test for the path of every packet.
pub fn may_have_link_addresses(packet: &[u8]) -> bool {
    packet.get(NEXT_HEADER) == Some(&ICMPV6)
        && packet.get(IPV6_HEADER_LEN).is_some_and(|message| options_begin(*message).is_some())
}

/// Where the options of this message begin; `None` if it has no link-layer address among them.
const fn options_begin(message: u8) -> Option<usize> {
    Some(match message {
        ROUTER_SOLICITATION => IPV6_HEADER_LEN + 8,
        ROUTER_ADVERTISEMENT => IPV6_HEADER_LEN + 16,
        NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT => OPTIONS,
        REDIRECT => IPV6_HEADER_LEN + 40,
        _ => return None,
    })
}

/// Which of the two messages that say who has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Solicitation,
    Advertisement {
        /// What is known of the target is replaced.
        overrides: bool,
    },
}

/// What such a message says, for somebody who does not answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Which message.
    pub kind: Kind,
    /// The IPv6 source.
    pub source: [u8; 16],
    /// The IPv6 destination.
    pub destination: [u8; 16],
    /// Whose link address is asked for or told.
    pub target: [u8; 16],
    /// The sender's or the target's link address, if it is told.
    pub link: Option<LinkAddr>,
}

impl Message {
    /// Bytes that [`may_have_link_addresses`] looks at.
    pub const HEAD_LEN: usize = IPV6_HEADER_LEN + 1;

    /// Reads a message as IP has it. `None` for anything else, and for what RFC 4861 section 7.1 has a receiver discard, except
    /// for a wrong checksum: that is left to IP. Behind the end of `packet`, which may be cut, nothing is looked at.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        const HOP_LIMIT: usize = 7;
        const CODE: usize = IPV6_HEADER_LEN + 1;
        if packet.len() < OPTIONS || packet[0] >> 4 != 6 || packet[NEXT_HEADER] != ICMPV6 {
            return None;
        }
        if packet[HOP_LIMIT] != 255 || packet[CODE] != 0 {
            return None;
        }
        let flags = packet[FLAGS];
        let overrides = flags & OVERRIDE != 0;
        let (kind, wanted) = match packet[IPV6_HEADER_LEN] {
            NEIGHBOUR_SOLICITATION => (Kind::Solicitation, SOURCE_LINK_ADDRESS),
            NEIGHBOUR_ADVERTISEMENT => (Kind::Advertisement { overrides }, TARGET_LINK_ADDRESS),
            _ => return None,
        };
        let address = |at: usize| packet.get(at..)?.first_chunk().copied();
        let message = Self {
            kind,
            source: address(8)?,
            destination: address(24)?,
            target: address(IPV6_HEADER_LEN + 8)?,
            link: link_option(packet, wanted)?,
        };
        let answers_a_group = flags & SOLICITED != 0 && message.destination[0] == MULTICAST;
        let is_answer_to_all = matches!(kind, Kind::Advertisement { .. }) && answers_a_group;
        (message.target[0] != MULTICAST && !is_answer_to_all).then_some(message)
    }
}

/// The first link-layer address of this kind. Outer `None`: the options make no sense.
fn link_option(packet: &[u8], wanted: u8) -> Option<Option<LinkAddr>> {
    let payload = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
    let is_cut = packet.len() < IPV6_HEADER_LEN + payload;
    let end = packet.len().min(IPV6_HEADER_LEN + payload);
    let mut rest = packet.get(OPTIONS..end)?;
    let mut found = None;
    while let [kind, units, ..] = *rest {
        let len = usize::from(units) * 8;
        if len == 0 {
            return None;
        }
        let Some((option, next)) = rest.split_at_checked(len) else {
            return is_cut.then_some(found);
        };
        if kind == wanted && units >= LINK_ADDRESS_UNITS && found.is_none() {
            found = LinkAddr::from_slice(&option[2..]);
        }
        rest = next;
    }
    (is_cut || rest.is_empty()).then_some(found)
}

/// Whether one of the link-layer addresses of a packet, in the form that IP has them, is such a one.
pub fn any_link_address(packet: &mut [u8], is_such: impl Fn(&LinkAddr) -> bool) -> bool {
    let mut found = false;
    for_each_link_address(packet, |_, body| {
        found |= LinkAddr::from_slice(body).is_some_and(|link| is_such(&link));
    });
    found
}

/// Whether this is the first fragment of a message with link-layer addresses. RFC 6980 has a receiver ignore it; illumos puts it together.
pub fn is_fragment_of_discovery(packet: &[u8]) -> bool {
    const FRAGMENT: u8 = 44;
    const FRAGMENT_LEN: usize = 8;
    let Some(&[next, _, high, low, ..]) = packet.get(IPV6_HEADER_LEN..) else { return false };
    let message = packet.get(IPV6_HEADER_LEN + FRAGMENT_LEN);
    let is_first = u16::from_be_bytes([high, low]) >> 3 == 0;
    packet[NEXT_HEADER] == FRAGMENT
        && next == ICMPV6
        && is_first
        && message.is_some_and(|message| options_begin(*message).is_some())
}

/// Calls `f` with the message's type, and the 22 bytes behind type and length of each link-layer address option.
fn for_each_link_address(packet: &mut [u8], mut f: impl FnMut(u8, &mut [u8])) {
    if packet.len() <= IPV6_HEADER_LEN || packet[0] >> 4 != 6 || packet[NEXT_HEADER] != ICMPV6 {
        return;
    }
    let message = packet[IPV6_HEADER_LEN];
    let Some(begin) = options_begin(message) else { return };
    let payload = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
    let end = packet.len().min(IPV6_HEADER_LEN + payload);
    let mut rest = packet.get_mut(begin..end).unwrap_or_default();
    while let [kind, units, ..] = *rest {
        let len = usize::from(units) * 8;
        if len == 0 || len > rest.len() {
            return;
        }
        let (option, next) = rest.split_at_mut(len);
        if matches!(kind, SOURCE_LINK_ADDRESS | TARGET_LINK_ADDRESS)
            && let Some(body) = option.get_mut(LINK_ADDRESS)
        {
            f(message, body);
        }
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::{Gid, Qpn};
    use proptest::prelude::*;
    use std::vec::Vec;

    fn own() -> LinkAddr {
        LinkAddr::unicast(Qpn::new(0x49).unwrap(), Gid { prefix: 0xfe80 << 48, guid: 7 })
    }

    fn solicitation(options: &[u8]) -> Vec<u8> {
        message(NEIGHBOUR_SOLICITATION, OPTIONS, options)
    }

    fn message(kind: u8, begin: usize, options: &[u8]) -> Vec<u8> {
        let mut packet = std::vec![0; begin];
        packet[0] = 0x60;
        let payload = begin - IPV6_HEADER_LEN + options.len();
        packet[4..6].copy_from_slice(&u16::try_from(payload).unwrap().to_be_bytes());
        packet[NEXT_HEADER] = ICMPV6;
        packet[IPV6_HEADER_LEN] = kind;
        packet.extend_from_slice(options);
        packet
    }

    /// RFC 4861, section 4: where the options of each message begin.
    #[test]
    fn all_five_messages_have_the_spare_bytes_first_on_the_wire() {
        for (kind, begin) in [(133, 48), (134, 56), (135, 64), (136, 64), (137, 80)] {
            let ip = message(kind, begin, &address_option(false));
            let mut packet = ip.clone();
            assert!(may_have_link_addresses(&packet));
            pad_for_wire(&mut packet);
            assert_eq!(packet, message(kind, begin, &address_option(true)), "{kind}");
            pad_for_ip(&mut packet, &own());
            assert_eq!(packet, ip, "{kind}");
        }
    }

    #[test]
    fn a_routers_message_in_the_form_of_ip_is_taken_as_it_is() {
        for (kind, begin) in [(133, 48), (134, 56), (137, 80)] {
            let ip = message(kind, begin, &address_option(false));
            let mut packet = ip.clone();
            pad_for_ip(&mut packet, &own());
            assert_eq!(packet, ip, "{kind}");
        }
    }

    fn address_option(spare_first: bool) -> [u8; 24] {
        let mut option = [0; 24];
        option[..2].copy_from_slice(&[SOURCE_LINK_ADDRESS, 3]);
        let at = if spare_first { 4 } else { 2 };
        for (i, byte) in option[at..at + 20].iter_mut().enumerate() {
            *byte = i as u8 + 1;
        }
        option
    }

    fn checksum(packet: &[u8]) -> u32 {
        packet.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], *w.get(1).unwrap_or(&0)]))).sum::<u32>()
            % 0xffff
    }

    #[test]
    fn the_spare_bytes_come_first_on_the_wire_and_last_for_ip() {
        let mut packet = solicitation(&address_option(false));
        let before = checksum(&packet);
        pad_for_wire(&mut packet);
        assert_eq!(packet[OPTIONS..], address_option(true));
        assert_eq!(checksum(&packet), before);
        pad_for_ip(&mut packet, &own());
        assert_eq!(packet[OPTIONS..], address_option(false));
    }

    #[test]
    fn an_option_behind_another_one_is_found() {
        let nonce = [14, 1, 9, 9, 9, 9, 9, 9];
        let mut packet = solicitation(&[&nonce[..], &address_option(false)].concat());
        pad_for_wire(&mut packet);
        assert_eq!(packet[OPTIONS..OPTIONS + 8], nonce);
        assert_eq!(packet[OPTIONS + 8..], address_option(true));
    }

    #[test]
    fn other_options_and_odd_lengths_are_left_alone() {
        for option in [&[14u8, 3][..], &[SOURCE_LINK_ADDRESS, 2], &[SOURCE_LINK_ADDRESS, 0]] {
            let mut bytes = [7; 32];
            bytes[..2].copy_from_slice(option);
            let packet = solicitation(&bytes);
            let mut changed = packet.clone();
            pad_for_wire(&mut changed);
            assert_eq!(changed, packet);
        }
    }

    /// It was left alone, while IP takes the address out of it.
    #[test]
    fn a_longer_option_is_treated_as_one_of_24_bytes() {
        for units in 4..7 {
            let longer = |spare_first| {
                let mut option =
                    [&address_option(spare_first)[..], &std::vec![9; usize::from(units) * 8 - 24]].concat();
                option[1] = units;
                solicitation(&option)
            };
            let mut packet = longer(false);
            packet[7] = 255;
            let link = LinkAddr::from_slice(&address_option(false)[2..]);
            assert_eq!(Message::parse(&packet).and_then(|message| message.link), link);
            packet[7] = 0;
            pad_for_wire(&mut packet);
            assert_eq!(packet, longer(true));
            pad_for_ip(&mut packet, &own());
            assert_eq!(packet, longer(false));
            assert!(any_link_address(&mut packet, |found| Some(*found) == link));
        }
    }

    /// The message was not seen, and IP takes it once it is put together (RFC 6980 forbids that).
    #[test]
    fn discovery_in_fragments_is_recognised_by_the_first() {
        let fragment = |next, offset: u16, message| {
            let mut packet = std::vec![0; IPV6_HEADER_LEN + 16];
            (packet[0], packet[NEXT_HEADER], packet[IPV6_HEADER_LEN]) = (0x60, 44, next);
            packet[IPV6_HEADER_LEN + 2..IPV6_HEADER_LEN + 4]
                .copy_from_slice(&(offset << 3 | 1).to_be_bytes());
            packet[IPV6_HEADER_LEN + 8] = message;
            packet
        };
        for message in ROUTER_SOLICITATION..=REDIRECT {
            let packet = fragment(ICMPV6, 0, message);
            assert!(is_fragment_of_discovery(&packet));
            assert!((0..49).all(|len| !is_fragment_of_discovery(&packet[..len])), "too short to say");
        }
        for other in [fragment(17, 0, 135), fragment(ICMPV6, 1, 135), fragment(ICMPV6, 0, 128)] {
            assert!(!is_fragment_of_discovery(&other));
        }
    }

    #[test]
    fn a_truncated_option_is_left_alone() {
        let mut packet = solicitation(&address_option(false)[..23]);
        let before = packet.clone();
        pad_for_ip(&mut packet, &own());
        assert_eq!(packet, before);
    }

    #[test]
    fn an_echo_request_is_left_alone() {
        let mut packet = solicitation(&address_option(false));
        packet[IPV6_HEADER_LEN] = 128;
        let before = packet.clone();
        pad_for_wire(&mut packet);
        assert_eq!(packet, before);
    }

    proptest! {
        #[test]
        fn whatever_arrives_keeps_its_length_and_everything_before_the_options(
            options in prop::collection::vec(any::<u8>(), 0..120),
            cut in 0usize..200,
            length in any::<u16>(),
        ) {
            let mut packet = solicitation(&options);
            packet[4..6].copy_from_slice(&length.to_be_bytes());
            packet.truncate(cut);
            let before = packet.clone();
            pad_for_ip(&mut packet, &own());
            prop_assert_eq!(packet.len(), before.len());
            let fixed = before.len().min(OPTIONS);
            prop_assert_eq!(&packet[..fixed], &before[..fixed]);
        }
    }
}
