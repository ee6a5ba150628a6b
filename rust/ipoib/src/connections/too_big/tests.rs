use super::*;
use proptest::prelude::*;
use std::vec::Vec;

/// An IPv4 packet of `len` octets with DF.
fn v4(len: usize) -> Vec<u8> {
    let mut packet = std::vec![0x5a; len];
    packet[..20].copy_from_slice(&[0x45, 0, 0, 0, 0, 7, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    packet
}

/// An IPv6 packet of `len` octets.
fn v6(len: usize, next: u8) -> Vec<u8> {
    let mut packet = std::vec![0x5a; len];
    packet[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 0, next, 64]);
    packet[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
    packet[8..40].fill(0);
    (packet[8], packet[23], packet[24], packet[39]) = (0xfd, 1, 0xfd, 2);
    packet
}

fn told(packet: &[u8], mtu: u32) -> Result<Vec<u8>, Silence> {
    let mut buffer = [0xee; LONGEST_ANSWER];
    answer(packet, mtu, &mut buffer).map(|len| buffer[..len].to_vec())
}

#[test]
fn an_ipv4_sender_hears_the_mtu_from_the_destination_with_a_quote_of_its_packet() {
    let packet = v4(30_000);
    let message = told(&packet, 2_040).expect("an answer");
    assert_eq!(message.len(), 20 + 8 + 20 + 64);
    assert_eq!(message[2..4], (message.len() as u16).to_be_bytes());
    assert_eq!((message[8], message[9]), (255, 1));
    assert_eq!((&message[12..16], &message[16..20]), (&packet[16..20], &packet[12..16]));
    assert_eq!(message[20..22], [3, 4]);
    assert_eq!(message[26..28], 2_040_u16.to_be_bytes());
    assert_eq!(message[28..], packet[..84]);
    assert_eq!((checksum(0, &message[..20]), checksum(0, &message[20..])), (0, 0));
}

#[test]
fn an_ipv6_sender_hears_the_mtu_within_1280_octets() {
    let packet = v6(30_000, 6);
    let message = told(&packet, 2_040).expect("an answer");
    assert_eq!(message.len(), LONGEST_ANSWER);
    assert_eq!((&message[8..24], &message[24..40]), (&packet[24..40], &packet[8..24]));
    assert_eq!((message[6], message[40], message[41]), (58, 2, 0));
    assert_eq!(message[44..48], 2_040_u32.to_be_bytes());
    assert_eq!(message[48..], packet[..1_232]);
    let pseudo = sum_of(0, &message[8..40]) + 1_240 + 58;
    assert_eq!(checksum(pseudo, &message[40..]), 0);
}

#[test]
fn what_may_be_fragmented_or_cannot_be_answered_is_not() {
    let with = |change: fn(&mut Vec<u8>)| {
        let mut packet = v4(30_000);
        change(&mut packet);
        told(&packet, 2_040)
    };
    assert_eq!(with(|packet| packet[6] = 0), Err(Silence::Fragmentable));
    assert_eq!(with(|packet| packet[7] = 9), Err(Silence::NoSender));
    assert_eq!(with(|packet| packet[12] = 239), Err(Silence::NoSender));
    assert_eq!(with(|packet| packet[12] = 0), Err(Silence::NoSender));
    assert_eq!(with(|packet| (packet[9], packet[20]) = (1, 3)), Err(Silence::Error));
    assert!(with(|packet| (packet[9], packet[20]) = (1, 8)).is_ok(), "an echo");
    assert_eq!(with(|packet| packet[0] = 0x44), Err(Silence::NotIp));
    assert_eq!(with(|packet| packet[0] = 0x80), Err(Silence::NotIp));
    assert_eq!(with(|packet| packet.truncate(19)), Err(Silence::NotIp));
}

#[test]
fn an_icmpv6_error_is_known_behind_extension_headers_and_cut_ones_are_not_answered() {
    let chain = |kind: u8| {
        let mut packet = v6(3_000, 0);
        packet[40..42].copy_from_slice(&[60, 1]);
        packet[56..58].copy_from_slice(&[58, 0]);
        packet[64] = kind;
        packet
    };
    assert_eq!(told(&chain(1), 2_040), Err(Silence::Error));
    assert!(told(&chain(128), 2_040).is_ok());
    assert_eq!(told(&chain(128)[..57], 2_040), Err(Silence::Error));
    assert_eq!(told(&v6(3_000, 6), 1_279), Err(Silence::Limit));
    let mut unspecified = v6(3_000, 6);
    unspecified[8..24].fill(0);
    assert_eq!(told(&unspecified, 2_040), Err(Silence::NoSender));
}

proptest! {
    /// Any octets: no panic, and an answer only to a host, no longer than allowed.
    #[test]
    fn any_octets_are_answered_within_bounds_or_not_at_all(
        mut packet in prop::collection::vec(any::<u8>(), 0..200),
        version in 0..3_usize,
        mtu in any::<u32>(),
    ) {
        if let (Some(first), Some(version)) = (packet.first_mut(), [4, 6].get(version)) {
            *first = version << 4 | *first & 0xf;
        }
        if let Ok(message) = told(&packet, mtu) {
            prop_assert!(message.len() <= LONGEST_ANSWER && message.len() >= 28);
            prop_assert_eq!(message[0] >> 4, packet[0] >> 4);
        }
    }
}
